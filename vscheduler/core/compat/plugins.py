"""Volcano's versions of plugins: each overrides the hooks in which Volcano differs.

Proportion, capacity and drf have modules of their own.
"""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from vscheduler.core.api import contracts, views
from vscheduler.core.fair_share import inqueue_resources
from vscheduler.core.model import jobs, nodes, resources
from vscheduler.core.plugins import (
    gang,
    nodegroup,
    nodeorder,
    overcommit,
    pdb,
    predicates,
    priority,
    resource_strategy_fit,
    resourcequota,
    sla,
)


class VolcanoPriority(priority.Priority):
    """Refuses preemption between jobs of equal priority, where the default plugin abstains."""

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Return pods of jobs of a lower priority and, in the claimant's own job, pods of a lower
        priority.

        Volcano: priority preemptableFn.
        """
        return self._below(claimant, candidates)


class VolcanoGang(gang.Gang):
    """Considers the minimum of a job only, and ignores pods beyond the minimum."""

    def start_timeout(self, state: views.JobState) -> None:
        """Abstain: a gang bound in part stays."""

    def job_starving(self, state: views.JobState) -> bool:
        """Whether tasks are missing for the minimum of the job, or of a role.

        Volcano: gang jobStarvingFn, IsStarving.
        """
        if state.ready_tasks + state.waiting_tasks < state.job.min_member:
            return True
        missing = state.job.min_task_member.items()
        return any(state.role_tasks(role, jobs.PLACED) < least for role, least in missing)

    def job_key(self, state: views.JobState) -> contracts.Key:
        """Order jobs without their minimum first, all alike."""
        return 1 if state.has_minimum else 0


class VolcanoPredicates(predicates.Predicates):
    """With `enablePreemptable: false`, assumes that evictions never resolve required anti-affinity.

    In that case Volcano's dry run of preemption doesn't call SimulateRemoveTask, which takes pods
    from a node.
    """

    def open(self, session: contracts.Session) -> None:
        """Compute what follows from the nodes' specs."""
        super().open(session)
        self._foresees = "enablePreemptable" in self.flags


class VolcanoNodeOrder(nodeorder.NodeOrder):
    """Ignores placed pods with required affinity to the task."""

    required_affinity_weight: ClassVar[int] = 0


class VolcanoNodegroup(nodegroup.Nodegroup):
    """Applies every limit of a node group to every pod; evictions never help."""

    def filter_nodes(
        self, task: jobs.Task, nodes: contracts.NodeView
    ) -> Sequence[contracts.FilterResult]:
        """Return the default answers, none of them curable by evictions."""
        return _final(super().filter_nodes(task, nodes))

    def _counts(self, request: resources.ResourceMap, resource: str) -> bool:
        """Return True: a limit counts even for pods that don't request the resource."""
        del request, resource
        return True


class VolcanoResourceStrategyFit(resource_strategy_fit.ResourceStrategyFit):
    """Ignores pending releases and evictions in the argument `proportional`."""

    def filter_nodes(
        self, task: jobs.Task, nodes: contracts.NodeView
    ) -> list[contracts.FilterResult]:
        """Return the default answers for the nodes' present state."""
        return _final(super().filter_nodes(task, nodes))


def _final(results: Sequence[contracts.FilterResult]) -> list[contracts.FilterResult]:
    """Return the results without changes that evictions or pending releases would bring."""
    return [contracts.FilterResult(each.refusal, each.passes) for each in results]


class VolcanoOvercommit(overcommit.Overcommit):
    """Counts promises in full, on all ready nodes."""

    def _asked(self, state: views.JobState) -> resources.ResourceMap:
        """Return the whole minResources, including the part that the group already has."""
        return state.job.min_resources or {}

    def _inqueue_of(self, state: views.JobState) -> resources.ResourceMap:
        """Return the whole minResources."""
        return inqueue_resources.minimum(state)

    def _counted_nodes(self, layout: nodes.NodeLayout) -> nodes.Mask:
        """Return the ready nodes, (N,), including cordoned nodes."""
        return layout.ready

    def _held(
        self, state: views.JobState, left: dict[str, dict[str, int]]
    ) -> resources.ResourceMap:
        """Return the resources held for a group: the whole minResources of an Inqueue group, else
        the outstanding part.

        The queue's limits aren't considered.
        """
        del left
        if state.phase is jobs.Phase.INQUEUE:
            return inqueue_resources.minimum(state)
        return inqueue_resources.unallocated(state)

    def _pool(self, state: views.JobState) -> overcommit.Pool:
        """Return all counted nodes: any group may be promised any node."""
        del state
        return self._open


class VolcanoResourceQuota(resourcequota.ResourceQuota):
    """Counts existing pods twice, and forgets promises of earlier cycles."""

    def _count_inqueue(self, session: contracts.Session) -> None:
        """Do nothing: promises of earlier cycles are forgotten."""

    def _asked(self, state: views.JobState) -> resources.ResourceMap:
        """Return the whole minResources, including pods that the quota already counts."""
        return state.job.min_resources or {}

    def _needs(self, amount: int) -> bool:
        """Return True: an exceeded quota refuses an amount of 0, too."""
        del amount
        return True


class VolcanoSla(sla.Sla):
    """Ignores an invalid waiting time."""

    def _complaint(self, job: jobs.Job) -> str:
        """Return an empty text: nothing is reported."""
        del job
        return ""


class VolcanoPdb(pdb.Pdb):
    """Counts budgets anew in each call, and takes part in shuffle.

    Pods without labels are never victims. A budget with an empty selector covers no pod. Protected
    pods use up a budget, too, and evictions of earlier calls don't.
    """

    def open(self, session: contracts.Session) -> None:
        """Find the budgets that cover any pod."""
        super().open(session)
        self._covering = [
            (place, budget)
            for place, budget in enumerate(session.snapshot.budgets)
            if budget.selector is not None and budget.selector.requirements
        ]

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Return the pods that may be evicted one after another within their budgets.

        Volcano: pdb pdbFilterFn.
        """
        del claimant
        return self.shuffle_victims(candidates)

    reclaimable = preemptable

    def shuffle_victims(self, candidates: Sequence[jobs.Task]) -> Sequence[jobs.Task]:
        """Return all pods that budgets allow to evict: shuffle treats these as pods to be
        evicted.
        """
        taken: Counter[int] = Counter()
        victims = []
        for task in candidates:
            covering = [(place, budget) for place, budget in self._covering if budget.covers(task)]
            taken.update(place for place, _ in covering)
            within = all(taken[place] <= budget.allowed for place, budget in covering)
            if task.labels and within:
                victims.append(task)
        return victims
