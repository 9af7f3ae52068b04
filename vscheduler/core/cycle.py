"""The scheduling cycle: `run_cycle`, a function of a snapshot and a policy.

At the end of a cycle, `check_invariants` checks what must hold whatever the plugins answered.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from vscheduler.core.config import policy
from vscheduler.core.model import decisions, jobs, resources, snapshot
from vscheduler.core.placement import nominated_pods, placement
from vscheduler.core.placement.devices import state as devices
from vscheduler.core.placement.pod_affinity import counts
from vscheduler.core.placement.volumes import state as volumes
from vscheduler.core.preemption import (
    nominations,
    partial_gangs,
    reclaim_outlook,
    relocations,
    reprieves,
    stale_gangs,
)
from vscheduler.core.session import (
    claim_attempts,
    dispatch,
    job_state,
    job_status,
    session,
    work_budget,
)

FEW = 16
"""So many pods are added to their nodes one by one."""

DECIDING_ON_VICTIMS = (
    *("open", "start", "preemptable", "reclaimable", "share_after", "shuffle_victims"),
)
"""After a plugin failed in one of these hooks, nothing is evicted in this cycle."""


def run_cycle(
    snapshot: snapshot.Snapshot, policy: policy.Policy, budget: int | None = None
) -> decisions.CycleResult:
    """Run one cycle: open a session, run the actions in order, and return the decisions.

    The budget is in units of about a microsecond, counted by operations and not by a clock. A
    used-up budget ends the cycle between two jobs, and the next cycle continues (`finished` is
    False); None is unlimited. Equal input gives equal results.

    If a plugin fails, the cycle starts again from the snapshot with that plugin guarded: at the
    next failure the plugin refuses placement, or abstains. Raises AssertionError if an invariant is
    broken; the caller drops the whole cycle.
    """
    faults: list[decisions.Fault] = []
    while True:
        guarded = frozenset(fault.plugin for fault in faults)
        try:
            return _run(snapshot, policy, guarded, budget, tuple(faults))
        except dispatch.PluginFailedError as failure:
            if failure.fault.plugin in guarded:  # the next attempt would fail, too
                raise AssertionError from failure
            faults.append(failure.fault)


def run_small_cycle(
    taken: snapshot.Snapshot, configured: policy.Policy, budget: int | None, *, most: int
) -> decisions.CycleResult | None:
    """Run one cycle if it costs at most so many units; otherwise return None.

    The result is that of `run_cycle`, to which the other arguments belong. None as well if a plugin
    fails.
    """
    try:
        return _run(taken, configured, frozenset(), budget, (), most)
    except (work_budget.TooLargeError, dispatch.PluginFailedError):
        return None


def open_session(
    taken: snapshot.Snapshot,
    configured: policy.Policy,
    *,
    guarded: frozenset[str] = frozenset(),
    budget: int | None = None,
    small: int | None = None,
) -> session.Session:
    """Return a session with all plugins open. The arguments are those of `run_cycle`; `small` as in
    `WorkBudget`.
    """
    limited = work_budget.WorkBudget(budget, taken.carried.work_by_namespace, small)
    offered = devices.Devices(taken, limited, wanted=configured.allocates_claims)
    taken = offered.with_extended_resources(taken)
    opened = session.Session(
        taken,
        configured,
        budget=limited,
        affinity_counts=counts.PodAffinityCounts(
            taken.nodes.layout, taken.affinity_index, limited.spend
        ),
        nominated=nominated_pods.NominatedPods(taken),
        volumes=volumes.Volumes(taken, limited.spend),
        devices=offered,
        leaves_out=not guarded,
    )
    opened.open(guarded, placement.Placement(opened), relocations.awaited_replacements(opened))
    return opened


def _run(
    taken: snapshot.Snapshot,
    configured: policy.Policy,
    guarded: frozenset[str],
    budget: int | None,
    faults: tuple[decisions.Fault, ...],
    small: int | None = None,
) -> decisions.CycleResult:
    taken = nominations.restored(taken)
    seen = configured.rules.seen(taken.jobs)
    if seen is not taken.jobs:
        taken = replace(taken, jobs=seen)
    opened = open_session(taken, configured, guarded=guarded, budget=budget, small=small)
    if any(fault.hook in DECIDING_ON_VICTIMS for fault in faults):
        opened.dispatch.evictions_off = True
    if taken.next_overdue is not None:
        opened.wake(taken.next_overdue)
    nominations.keep(opened)
    relocations.resume(opened)
    for setting in configured.actions:
        setting.action(setting.arguments).execute(opened)
    partial_gangs.evict_expired(opened)
    stale_gangs.evict_expired(opened)
    if configured.rules.reprieves:
        reprieves.grant(opened)
    for setting in configured.actions:
        setting.action(setting.arguments).conclude(opened)
    check_invariants(opened)
    return reclaim_outlook.told(opened, job_status.close(opened, faults))


def check_invariants(opened: session.Session) -> None:
    """Raise AssertionError if the session made a decision that must never happen.

    The cost is proportional to the changes of the cycle: touched rows and bound tasks.
    """
    binds = opened.decided.binds
    assert len({bind.task.uid for bind in binds}) == len(binds), "a pod is bound twice"
    _check_rows(opened)
    for job in {bind.task.job for bind in binds}:
        ready = job_state.is_ready(opened.dispatch, opened.job_states[job])
        assert ready, f"{job} is bound in part"
    if opened.volumes.binds:
        stored = opened.snapshot.storage.claims
        for task in (bind.task for bind in binds if bind.task.volumes):
            unbound = [key for key in claim_attempts.keys(task) if not stored[key].bound]
            assert not unbound, f"{task.key} is bound before {unbound}"
    if opened.devices.allocates:
        _check_devices(opened, binds)


def _check_devices(opened: session.Session, binds: Sequence[decisions.Bind]) -> None:
    """All claims of the tasks are allocated and reserved for them, as the API server has shown."""
    known = opened.snapshot.devices.claims
    for task, node in ((bind.task, bind.node) for bind in binds):
        for key in opened.devices.claims_on(task, node):
            claim = known[key]
            usable = claim.allocation is not None and claim.is_reserved_for(task.uid)
            assert usable, f"{task.key} is bound before {key}"
            assert not claim.writing, f"{task.key} is bound while {key} is being written"


def _check_rows(opened: session.Session) -> None:
    """Recount the touched rows from the snapshot and the decisions; no row may be overfull."""
    table, cluster, decided = opened.snapshot.nodes, opened.cluster, opened.decided
    if not cluster.touched:
        return
    rows = np.array(sorted(set(cluster.touched)), dtype=np.int64)
    used = table.used[rows].copy()
    future = used - table.releasing[rows]
    positions = {int(row): at for at, row in enumerate(rows)}
    for evict in decided.evicts.values():
        future[positions[opened.layout.rows[evict.node]]] -= opened.request(evict.task)
    if decided.binds:
        starting = _PlacedTasks(opened, positions, decided.binds)
        starting.add_to(used, future)
        free = cluster.allocatable[rows] - used
        over = (starting.requests > 0) & (free[starting.positions] < 0)
        full = np.logical_or.reduce(over, axis=1) & starting.allocated
        assert True not in full, f"{decided.binds[int(full.argmax())].task.key} overfills its node"
    if decided.pipelined:
        pipelined = tuple(decided.pipelined.values())
        _PlacedTasks(opened, positions, pipelined).add_to(used, future)
    for reservation in decided.replacement_reservations:
        future[positions[opened.layout.rows[reservation.node]]] += opened.request(reservation.task)
    same = np.logical_and.reduce(used == cluster.used[rows], axis=None)
    assert same, "used differs from the recount"
    same = np.logical_and.reduce(future == cluster.future_used[rows], axis=None)
    assert same, "future_used differs from the recount"


class _PlacedTasks:
    """Decisions as arrays, since a loop over pods would cost as much as their placement."""

    def __init__(
        self,
        opened: session.Session,
        positions: Mapping[int, int],
        decided: Sequence[decisions.Bind | decisions.Pipeline],
    ) -> None:
        node_rows, tasks = opened.layout.rows, [each.task for each in decided]
        self.positions = np.array(
            [positions[node_rows[each.node]] for each in decided], dtype=np.int64
        )
        """The position among the touched rows."""
        self.allocated = np.array(
            [opened.job_state_of(task).status(task) is jobs.TaskStatus.ALLOCATED for task in tasks],
            dtype=np.bool_,
        )
        """Whether the pod starts now, on resources that are free."""
        classes = {task.pod_class: task for task in tasks}
        by_class = {pod_class: opened.request(task) for pod_class, task in classes.items()}
        self.requests = np.array([by_class[task.pod_class] for task in tasks], dtype=np.int64)
        """The resource requests, (n, R)."""

    def add_to(self, used: resources.Vector, future: resources.Vector) -> None:
        """Add the requests to the rows of touched nodes."""
        now = self.allocated
        if len(now) <= FEW:  # adding in columns costs more calls
            for place, request, starts in zip(self.positions, self.requests, now, strict=True):
                future[place] += request
                used[place] += request * starts
            return
        for column in range(used.shape[1]):
            np.add.at(future[:, column], self.positions, self.requests[:, column])
            np.add.at(used[:, column], self.positions[now], self.requests[now, column])
