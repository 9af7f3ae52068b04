"""The scheduling cycle: `run_cycle`, a function of a snapshot and a policy."""

from vscheduler.core.config import policy
from vscheduler.core.model import decisions, snapshot
from vscheduler.core.placement import nominated_pods, placement
from vscheduler.core.placement.pod_affinity import counts
from vscheduler.core.preemption import nominations, partial_gangs, relocations, reprieves
from vscheduler.core.session import dispatch, invariants, job_status, session, work_budget

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


def open_session(
    taken: snapshot.Snapshot,
    configured: policy.Policy,
    *,
    guarded: frozenset[str] = frozenset(),
    budget: int | None = None,
) -> session.Session:
    """Return a session with all plugins open. The arguments are those of `run_cycle`."""
    spending = work_budget.WorkBudget(budget, taken.carried.work_by_namespace)
    opened = session.Session(
        taken,
        configured,
        spending=spending,
        affinity_counts=counts.PodAffinityCounts(
            taken.nodes.layout, taken.affinity_index, spending.spend
        ),
        nominated=nominated_pods.NominatedPods(taken),
    )
    opened.open(guarded, placement.Placement(opened), relocations.awaited_replacements(opened))
    return opened


def _run(
    taken: snapshot.Snapshot,
    configured: policy.Policy,
    guarded: frozenset[str],
    budget: int | None,
    faults: tuple[decisions.Fault, ...],
) -> decisions.CycleResult:
    opened = open_session(taken, configured, guarded=guarded, budget=budget)
    if any(fault.hook in DECIDING_ON_VICTIMS for fault in faults):
        opened.dispatch.evictions_off = True
    partial_gangs.evict_expired(opened)
    nominations.keep(opened)
    relocations.resume(opened)
    for setting in configured.actions:
        setting.action(setting.arguments).execute(opened)
    if configured.rules.reprieves:
        reprieves.grant(opened)
    invariants.check(opened)
    return job_status.close(opened, faults)
