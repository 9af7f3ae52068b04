"""The one door: a cycle is a function of a snapshot and a policy."""

from vscheduler.core.config import policy
from vscheduler.core.model import decisions, snapshot
from vscheduler.core.placement import nominated_pods, placement
from vscheduler.core.placement.pod_affinity import counts
from vscheduler.core.preemption import nominations, partial_gangs, relocations, reprieves
from vscheduler.core.session import dispatch, invariants, job_status, session, work_budget

DECIDING_ON_VICTIMS = (
    *("open", "start", "preemptable", "reclaimable", "share_after", "shuffle_victims"),
)
"""Where a plugin fails in one of these, nobody is evicted in this cycle."""


def run_cycle(
    snapshot: snapshot.Snapshot, policy: policy.Policy, budget: int | None = None
) -> decisions.CycleResult:
    """Decide: open a session, run the actions in order, say what came of it.

    budget is in units of about a microsecond, counted by operations and not by a clock; when it
    is used up the cycle ends between two jobs, and the next one goes on (`finished` is False).
    None is unlimited. The same input gives the same result.

    A plugin that fails is set aside: the cycle starts again from the snapshot, and where that
    plugin fails again it refuses placement, or abstains. Raises AssertionError where an invariant
    is broken: the caller drops the cycle whole.
    """
    faults: list[decisions.Fault] = []
    while True:
        guarded = frozenset(fault.plugin for fault in faults)
        try:
            return _run(snapshot, policy, guarded, budget, tuple(faults))
        except dispatch.PluginFailedError as failure:
            if failure.fault.plugin in guarded:  # it would go on for ever
                raise AssertionError from failure
            faults.append(failure.fault)


def open_session(
    taken: snapshot.Snapshot,
    configured: policy.Policy,
    *,
    guarded: frozenset[str] = frozenset(),
    budget: int | None = None,
) -> session.Session:
    """A session as a cycle begins, with all plugins open: `run_cycle` says what the rest means."""
    spending = work_budget.WorkBudget(budget, taken.carried.spent)
    opened = session.Session(
        taken,
        configured,
        spending=spending,
        neighbours=counts.PodAffinityCounts(taken.nodes.layout, taken.residents, spending.spend),
        nominated=nominated_pods.NominatedPods(taken),
    )
    opened.open(guarded, placement.Placement(opened), relocations.awaited(opened))
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
    partial_gangs.settle(opened)
    nominations.keep(opened)
    relocations.resume(opened)
    for setting in configured.actions:
        setting.action(setting.arguments).execute(opened)
    if configured.rules.reprieves:
        reprieves.grant(opened)
    invariants.check(opened)
    return job_status.close(opened, faults)
