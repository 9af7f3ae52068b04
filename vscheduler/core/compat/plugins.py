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
        """Return the pods of jobs of a lower priority; in the claimant's own job, pods of a lower
        one (Volcano: priority preemptableFn).
        """
        return self._below(claimant, candidates)


class VolcanoGang(gang.Gang):
    """Considers the minimum of a job only, and ignores pods beyond the minimum."""

    def start_timeout(self, gang: views.JobState) -> None:
        """Abstain: a gang bound in part stays."""

    def job_starving(self, gang: views.JobState) -> bool:
        """Whether tasks are missing for the minimum of the job, or of a role.

        Volcano: gang jobStarvingFn, IsStarving.
        """
        if gang.ready_tasks + gang.waiting_tasks < gang.job.min_member:
            return True
        missing = gang.job.min_task_member.items()
        return any(gang.role_tasks(role, jobs.PLACED) < least for role, least in missing)

    def job_key(self, gang: views.JobState) -> contracts.Key:
        """Order jobs without their minimum first, all alike."""
        return 1 if gang.has_minimum else 0


class VolcanoPredicates(predicates.Predicates):
    """With `enablePreemptable: false`, foresees no eviction of pods that others must not be near.

    Volcano's dry run of preemption takes pods from a node by SimulateRemoveTask, which isn't asked
    then.
    """

    def open(self, session: contracts.Session) -> None:
        """Work out what follows from the nodes' specs."""
        super().open(session)
        self._foresees = "enablePreemptable" in self.flags


class VolcanoNodeOrder(nodeorder.NodeOrder):
    """Pods aren't drawn to those whose required affinity is about them."""

    required_affinity_weight: ClassVar[int] = 0


class VolcanoNodegroup(nodegroup.Nodegroup):
    """Holds every limit of a node group against every pod; evictions don't help."""

    def filter_nodes(
        self, task: jobs.Task, nodes: contracts.NodeView
    ) -> Sequence[contracts.FilterResult]:
        """Return the default answers, none of them as one that evictions could change."""
        return _final(super().filter_nodes(task, nodes))

    def _counts(self, request: resources.ResourceMap, resource: str) -> bool:
        """Return True: a limit counts for pods that don't ask for the resource, too."""
        del request, resource
        return True


class VolcanoResourceStrategyFit(resource_strategy_fit.ResourceStrategyFit):
    """Resources that are being freed don't count for `proportional`."""

    def filter_nodes(
        self, task: jobs.Task, nodes: contracts.NodeView
    ) -> list[contracts.FilterResult]:
        """Return the default answers for the nodes as they are now."""
        return _final(super().filter_nodes(task, nodes))


def _final(results: Sequence[contracts.FilterResult]) -> list[contracts.FilterResult]:
    """Return the results without what would change once pods are gone."""
    return [contracts.FilterResult(each.refusal, each.passes) for each in results]


class VolcanoOvercommit(overcommit.Overcommit):
    """Counts promises in full, on all nodes that are ready."""

    def _asked(self, gang: views.JobState) -> resources.ResourceMap:
        """Return the whole minResources, whatever of these the group has already."""
        return gang.job.min_resources or {}

    def _promised_to(self, gang: views.JobState) -> resources.ResourceMap:
        """Return the whole minResources."""
        return inqueue_resources.minimum(gang)

    def _counted_nodes(self, layout: nodes.NodeLayout) -> nodes.Mask:
        """Return the nodes that are ready, cordoned ones included: (N,)."""
        return layout.ready

    def _held(self, gang: views.JobState, left: dict[str, dict[str, int]]) -> resources.ResourceMap:
        """Return the whole minResources of a group that is Inqueue, else what a group hasn't got
        of them, though its queue may not have that much.
        """
        del left
        if gang.phase is jobs.Phase.INQUEUE:
            return inqueue_resources.minimum(gang)
        return inqueue_resources.outstanding(gang)

    def _pool(self, gang: views.JobState) -> overcommit.Pool:
        """Return all counted nodes: any group may be promised any of them."""
        del gang
        return self._open


class VolcanoResourceQuota(resourcequota.ResourceQuota):
    """Counts pods that exist twice, and no promise of an earlier cycle."""

    def _count_promises(self, session: contracts.Session) -> None:
        """Do nothing: promises of earlier cycles are forgotten."""

    def _asked(self, gang: views.JobState) -> resources.ResourceMap:
        """Return the whole minResources, pods that the quota counts already included."""
        return gang.job.min_resources or {}

    def _needs(self, amount: int) -> bool:
        """Return True: an amount of 0, too, is refused by a quota that is exceeded."""
        del amount
        return True


class VolcanoSla(sla.Sla):
    """Passes over a waiting time that can't be read."""

    def _complaint(self, job: jobs.Job) -> str:
        """Return an empty text: nothing is told."""
        del job
        return ""


class VolcanoPdb(pdb.Pdb):
    """Counts budgets anew in every call, and takes part in shuffle.

    Pods without labels are never victims. A budget with an empty selector covers no pod. Pods that
    may not go use up a budget as well, and evictions of earlier calls don't.
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
        """Return the pods that their budgets let go one after the other (Volcano: pdb
        pdbFilterFn).
        """
        del claimant
        return self.shuffle_victims(candidates)

    reclaimable = preemptable

    def shuffle_victims(self, candidates: Sequence[jobs.Task]) -> Sequence[jobs.Task]:
        """Return all pods that a budget lets go: shuffle takes these for pods that should go."""
        taken: Counter[int] = Counter()
        victims = []
        for task in candidates:
            covering = [(place, budget) for place, budget in self._covering if budget.covers(task)]
            taken.update(place for place, _ in covering)
            within = all(taken[place] <= budget.allowed for place, budget in covering)
            if task.labels and within:
                victims.append(task)
        return victims
