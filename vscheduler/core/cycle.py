"""The scheduling cycle: `run_cycle`, a function of a snapshot and a policy.

At the end of a cycle, `check_invariants` checks what must hold whatever the plugins answered.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np
from msgspec.structs import replace

from vscheduler.core.claims.devices.state import DeviceState
from vscheduler.core.claims.shared_claims import SharedClaims
from vscheduler.core.claims.volumes.state import VolumeState
from vscheduler.core.config.policy import Policy
from vscheduler.core.eviction import (
    incomplete_gangs,
    nominations,
    overdue_pods,
    reclaim_outlook,
    relocations,
    standing_plans,
)
from vscheduler.core.placement.nominated_pods import NominatedPods
from vscheduler.core.placement.placement import Placement
from vscheduler.core.placement.pod_affinity.counts import PodAffinityCounts
from vscheduler.core.placement.reservations import Reservations
from vscheduler.core.session import job_state, job_status
from vscheduler.core.session.dispatch import PluginFailedError
from vscheduler.core.session.session import Session
from vscheduler.core.session.work_budget import TooLargeError, WorkBudget
from vscheduler.model.decisions import Bind, CycleResult, Fault, Pipeline
from vscheduler.model.jobs import TaskStatus
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Snapshot

FEW = 16
"""So many pods are added to their nodes one by one."""

DECIDING_ON_VICTIMS = (
    *("open", "start", "preemptable", "reclaimable", "share_after", "shuffle_victims"),
)
"""After a plugin failed in one of these hooks, nothing is evicted in this cycle."""


def run_cycle(snapshot: Snapshot, policy: Policy, budget: int | None = None) -> CycleResult:
    """Run one cycle: open a session, run the actions in order, and return the decisions.

    The budget is in units of about a microsecond, counted by operations and not by a clock. A
    used-up budget ends the cycle between two jobs, and the next cycle continues (`finished` is
    False); None is unlimited. Equal input gives equal results.

    If a plugin fails, the cycle starts again from the snapshot with that plugin guarded: at the
    next failure the plugin refuses placement, or abstains. Raises AssertionError if an invariant is
    broken; the caller drops the whole cycle.
    """
    faults: list[Fault] = []
    while True:
        guarded = frozenset(fault.plugin for fault in faults)
        try:
            return _run(snapshot, policy, guarded, budget, tuple(faults))
        except PluginFailedError as failure:
            if failure.fault.plugin in guarded:  # the next attempt would fail, too
                raise AssertionError from failure
            faults.append(failure.fault)


def run_small_cycle(
    snapshot: Snapshot, policy: Policy, budget: int | None, *, most: int
) -> CycleResult | None:
    """Run one cycle if it costs at most so many units; otherwise return None.

    The result is that of `run_cycle`, to which the other arguments belong. None as well if a plugin
    fails.
    """
    try:
        return _run(snapshot, policy, frozenset(), budget, (), most)
    except (TooLargeError, PluginFailedError):
        return None


def open_session(
    snapshot: Snapshot,
    policy: Policy,
    *,
    guarded: frozenset[str] = frozenset(),
    budget: int | None = None,
    small: int | None = None,
) -> Session:
    """Return a session with all plugins open. The arguments are those of `run_cycle`; `small` as in
    `WorkBudget`.
    """
    limited = WorkBudget(budget, snapshot.carried.work_by_namespace, small)
    offered = DeviceState(snapshot, limited, wanted=policy.allocates_claims)
    snapshot = offered.with_extended_resources(snapshot)
    volumes = VolumeState(snapshot, limited.spend)
    if offered.allocates and snapshot.devices.shared:
        snapshot = SharedClaims(snapshot, offered, volumes, limited).counted()
    opened = Session(
        snapshot,
        policy,
        budget=limited,
        affinity_counts=PodAffinityCounts(
            snapshot.nodes.layout, snapshot.affinity_index, limited.spend
        ),
        nominated=NominatedPods(snapshot),
        volumes=volumes,
        devices=offered,
        leaves_out=not guarded,
    )
    awaited = relocations.awaited_replacements(opened)
    opened.open(guarded, Placement(opened), Reservations(opened), awaited)
    return opened


def _run(
    snapshot: Snapshot,
    policy: Policy,
    guarded: frozenset[str],
    budget: int | None,
    faults: tuple[Fault, ...],
    small: int | None = None,
) -> CycleResult:
    snapshot = nominations.restored(snapshot)
    seen = policy.rules.seen(snapshot.jobs)
    if seen is not snapshot.jobs:
        snapshot = replace(snapshot, jobs=seen)
    with closing(
        open_session(snapshot, policy, guarded=guarded, budget=budget, small=small)
    ) as opened:
        if any(fault.hook in DECIDING_ON_VICTIMS for fault in faults):
            opened.dispatch.evictions_off = True
        _decide(opened)
        check_invariants(opened)
        return reclaim_outlook.told(opened, job_status.close(opened, faults))


def _decide(opened: Session) -> None:
    """Run the actions, and what comes before and after them."""
    if opened.snapshot.next_overdue is not None:
        opened.wake(opened.snapshot.next_overdue)
    nominations.keep(opened)
    relocations.resume(opened)
    opened.reservations.restore()
    for setting in opened.policy.actions:
        setting.action(setting.arguments).execute(opened)
    incomplete_gangs.evict_partial(opened)
    incomplete_gangs.evict_stale(opened)
    overdue_pods.end(opened)
    if opened.policy.rules.reprieves:
        standing_plans.grant_reprieves(opened)
    for setting in opened.policy.actions:
        setting.action(setting.arguments).conclude(opened)
    opened.reservations.conclude()


def check_invariants(session: Session) -> None:
    """Raise AssertionError if the session made a decision that must never happen.

    The cost is proportional to the changes of the cycle: touched rows and bound tasks.
    """
    binds = session.decided.binds
    assert len({bind.task.uid for bind in binds}) == len(binds), "a pod is bound twice"
    _check_rows(session)
    for job in {bind.task.job for bind in binds}:
        ready = job_state.is_ready(session.dispatch, session.job_states[job])
        assert ready, f"{job} is bound in part"
    for bind in binds if session.claims.exist else ():
        unusable = list(session.claims.unusable(bind.task, bind.node))
        assert not unusable, f"{bind.task.key} is bound before {unusable}"


def _check_rows(session: Session) -> None:
    """Recount the touched rows from the snapshot and the decisions; no row may be overfull."""
    table, cluster, decided = session.snapshot.nodes, session.cluster, session.decided
    if not cluster.touched:
        return
    rows = np.array(sorted(set(cluster.touched)), dtype=np.int64)
    used = table.used[rows].copy()
    future = used - table.releasing[rows]
    positions = {int(row): at for at, row in enumerate(rows)}
    for evict in decided.evicts.values():
        future[positions[session.layout.rows[evict.node]]] -= session.request(evict.task)
    if decided.binds:
        starting = _PlacedTasks(session, positions, decided.binds)
        starting.add_to(used, future)
        free = cluster.allocatable[rows] - used
        over = (starting.requests > 0) & (free[starting.positions] < 0)
        full = np.logical_or.reduce(over, axis=1) & starting.allocated
        assert True not in full, f"{decided.binds[int(full.argmax())].task.key} overfills its node"
    if decided.pipelined:
        pipelined = tuple(decided.pipelined.values())
        _PlacedTasks(session, positions, pipelined).add_to(used, future)
    for reservation in decided.replacement_reservations:
        future[positions[session.layout.rows[reservation.node]]] += session.request(
            reservation.task
        )
    same = np.logical_and.reduce(used == cluster.used[rows], axis=None)
    assert same, "used differs from the recount"
    same = np.logical_and.reduce(future == cluster.future_used[rows], axis=None)
    assert same, "future_used differs from the recount"


class _PlacedTasks:
    """Decisions as arrays, since a loop over pods would cost as much as their placement."""

    def __init__(
        self,
        session: Session,
        positions: Mapping[int, int],
        decided: Sequence[Bind | Pipeline],
    ) -> None:
        node_rows, tasks = session.layout.rows, [each.task for each in decided]
        self.positions = np.array(
            [positions[node_rows[each.node]] for each in decided], dtype=np.int64
        )
        """The position among the touched rows."""
        self.allocated = np.array(
            [session.job_state_of(task).status(task) is TaskStatus.ALLOCATED for task in tasks],
            dtype=np.bool_,
        )
        """Whether the pod starts now, on resources that are free."""
        classes = {task.pod_class: task for task in tasks}
        by_class = {pod_class: session.request(task) for pod_class, task in classes.items()}
        self.requests = np.array([by_class[task.pod_class] for task in tasks], dtype=np.int64)
        """The resource requests, (n, R)."""

    def add_to(self, used: Vector, future: Vector) -> None:
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
