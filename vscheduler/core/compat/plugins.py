"""Volcano's versions of plugins: each overrides the hooks in which Volcano differs.

The plugin capacity has a module of its own.
"""

import operator
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import numpy as np
from msgspec import structs

from vscheduler.core.api.contracts import FilterResult, Key, NodeView, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.core.plugins.drf import Drf
from vscheduler.core.plugins.gang import Gang
from vscheduler.core.plugins.nodegroup import Nodegroup
from vscheduler.core.plugins.nodeorder import NodeOrder
from vscheduler.core.plugins.overcommit import Overcommit, Pool
from vscheduler.core.plugins.pdb import Pdb
from vscheduler.core.plugins.predicates import Predicates
from vscheduler.core.plugins.priority import Priority
from vscheduler.core.plugins.proportion import Proportion
from vscheduler.core.plugins.resource_strategy_fit import ResourceStrategyFit
from vscheduler.core.plugins.resourcequota import ResourceQuota
from vscheduler.core.plugins.sla import Sla
from vscheduler.core.plugins.tdm import Tdm, Window
from vscheduler.core.shares import fair_shares, inqueue_resources, share_arithmetic
from vscheduler.core.shares.share_arithmetic import QueueAttributes
from vscheduler.model import resources
from vscheduler.model.decisions import Reason, ShareAfter, Shortage
from vscheduler.model.jobs import PLACED, Job, Phase, Task, TaskId
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.queues import Queue
from vscheduler.model.resources import ResourceMap, Vector


class VolcanoPriority(Priority):
    """Refuses preemption between jobs of equal priority, where the default plugin abstains.

    Priorities of pods don't count for jobs.
    """

    def _rank(self, job: Job) -> int:
        """Return the priority of the PodGroup's PriorityClass (Volcano: setPriorityClass)."""
        return job.class_priority

    @depends_on(On.PREEMPTOR | On.VICTIM_CLASS)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return pods of jobs of a lower priority and, in the preemptor's own job, pods of a lower
        priority.

        Volcano: priority preemptableFn.
        """
        return self._below(preemptor, candidates)


class VolcanoGang(Gang):
    """Considers the minimum of a job only, and ignores pods beyond the minimum."""

    def start_timeout(self, state: JobState) -> None:
        """Abstain: a gang bound in part stays."""

    def recovery_timeout(self, state: JobState) -> None:
        """Abstain: a gang that has lost pods stays."""

    def _bad_setting(self, job: Job) -> None:
        """Abstain: nothing reads the annotation."""

    def job_starving(self, state: JobState) -> bool:
        """Whether tasks are missing for the minimum of the job, or of a role.

        Volcano: gang jobStarvingFn, IsStarving.
        """
        if state.ready_tasks + state.waiting_tasks < state.job.min_member:
            return True
        missing = state.job.min_task_member.items()
        return any(state.role_tasks(role, PLACED) < least for role, least in missing)

    def job_key(self, state: JobState) -> Key:
        """Order jobs without their minimum first, all alike."""
        return 1 if state.has_minimum else 0


class VolcanoPredicates(Predicates):
    """With `enablePreemptable: false`, assumes that evictions never resolve required anti-affinity.

    In that case Volcano's dry run of preemption doesn't call SimulateRemoveTask, which takes pods
    from a node.
    """

    def open(self, session: Session) -> None:
        """Compute what follows from the nodes' specs."""
        super().open(session)
        self._foresees = "enablePreemptable" in self.flags


class VolcanoNodeOrder(NodeOrder):
    """Ignores placed pods with required affinity to the task."""

    required_affinity_weight: ClassVar[int] = 0


class VolcanoNodegroup(Nodegroup):
    """Applies every limit of a node group to every pod; evictions never help."""

    limits_curable: ClassVar[bool] = False

    def _counts(self, request: ResourceMap, resource: str) -> bool:
        """Return True: a limit counts even for pods that don't request the resource."""
        del request, resource
        return True


class VolcanoResourceStrategyFit(ResourceStrategyFit):
    """Ignores pending releases and evictions in the argument `proportional`."""

    @depends_on(On.CLASS | On.NODE | On.USED)
    def filter_nodes(self, task: Task, nodes: NodeView) -> list[FilterResult]:
        """Return the default answers for the nodes' present state."""
        results = super().filter_nodes(task, nodes)
        return [FilterResult(result.refusal, result.passes) for result in results]


class VolcanoOvercommit(Overcommit):
    """Counts promises in full, on all ready nodes."""

    def _asked(self, state: JobState) -> ResourceMap:
        """Return the whole minResources, including the part that the group already has."""
        return state.job.min_resources or {}

    def _inqueue_of(self, state: JobState) -> ResourceMap:
        """Return the whole minResources."""
        return inqueue_resources.minimum(state)

    def _counted_nodes(self, layout: NodeLayout) -> Mask:
        """Return the ready nodes, (N,), including cordoned nodes."""
        return layout.ready

    def _held(self, state: JobState, left: dict[str, dict[str, int]]) -> ResourceMap:
        """Return the resources held for a group: the whole minResources of an Inqueue group, else
        the outstanding part.

        The queue's limits aren't considered.
        """
        del left
        if state.phase is Phase.INQUEUE:
            return inqueue_resources.minimum(state)
        return inqueue_resources.unallocated(state)

    def _pool(self, state: JobState) -> Pool:
        """Return all counted nodes: any group may be promised any node."""
        del state
        return self._open


class VolcanoResourceQuota(ResourceQuota):
    """Counts existing pods twice, and forgets promises of earlier cycles."""

    def _count_inqueue(self, session: Session) -> None:
        """Do nothing: promises of earlier cycles are forgotten."""

    def _asked(self, state: JobState) -> ResourceMap:
        """Return the whole minResources, including pods that the quota already counts."""
        return state.job.min_resources or {}

    def _needs(self, amount: int) -> bool:
        """Return True: an exceeded quota refuses an amount of 0, too."""
        del amount
        return True


class VolcanoSla(Sla):
    """Ignores an invalid waiting time."""

    def _problem(self, job: Job) -> str:
        """Return an empty text: nothing is reported."""
        del job
        return ""


class VolcanoPdb(Pdb):
    """Counts budgets anew in each call, and takes part in shuffle.

    Pods without labels are never victims. A budget with an empty selector covers no pod. Protected
    pods use up a budget, too, and evictions of earlier calls don't.
    """

    def open(self, session: Session) -> None:
        """Find the budgets that cover any pod."""
        super().open(session)
        self._covering = [
            (place, budget)
            for place, budget in enumerate(session.snapshot.budgets)
            if budget.selector is not None and budget.selector.requirements
        ]

    @depends_on(On.VICTIM)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the pods that may be evicted one after another within their budgets.

        Volcano: pdb pdbFilterFn.
        """
        del preemptor
        return self.shuffle_victims(candidates)

    reclaimable = preemptable

    def shuffle_victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
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


class VolcanoProportion(Proportion):
    """Divides what all ready nodes have, by weight alone, between queues with jobs."""

    def start(self) -> None:
        """Work out shares by water filling (Volcano: proportion buildQueueAttrs, OnSessionOpen)."""
        space, known = self._session.space, self._session.queues
        limits = fair_shares.limits(space, known, {})
        names, total = limits.names, self._session.total.astype(np.float64)
        guarantee = np.zeros((len(names), space.size))
        for place, name in enumerate(names):
            guarantee[place] = space.present(known[name].guarantee)
        kept = guarantee.sum(axis=0)
        real = share_arithmetic.real_capability(total, kept, guarantee, limits.capability)
        busy = [place for place, name in enumerate(names) if name in self._attributes]
        for place, name in enumerate(names):
            attributes = self._attributes.get(name) or self._idle.setdefault(name, self._nobody())
            attributes.real = real[place].tolist()
            attributes.ceiling = limits.capability[place].tolist()
        taking_part = {names[place]: self._attributes[names[place]] for place in busy}
        demands = self._session.demands
        request = np.array([demands.held[name] for name in taking_part], dtype=np.float64)
        request += [demands.pending[name] for name in taking_part]
        deserved = share_arithmetic.water_fill(
            total,
            np.array([known[names[place]].weight for place in busy], dtype=np.float64),
            request,
            real[busy],
            guarantee[busy],
        )
        for attributes, row in zip(taking_part.values(), deserved.tolist(), strict=True):
            attributes.bound(row, self._slack)
            attributes.limit[space.columns[resources.PODS]] = np.inf
            # A nomination gives no claim to more than the share.
            attributes.nominated_limit = attributes.limit

    @depends_on(On.VICTIM_RESOURCES)
    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return pods of queues that have more than they deserve of any resource, whether the
        preemptor needs that resource or not (Volcano: proportion ReclaimableFn).
        """
        del preemptor
        left: dict[QueueAttributes, list[int]] = {}
        victims = []
        for task in candidates:
            attributes = self._attributes_of(task.job)
            allocated = left.setdefault(attributes, list(attributes.allocated))
            if any(map(operator.gt, allocated, attributes.reclaim_above)):
                victims.append(task)
                for column, amount in self._requests.get(task.pod_class) or self._request(task):
                    allocated[column] -= amount
        return victims

    @depends_on(On.NOTHING)
    def share_after(
        self, preemptor: Task, demand: Vector, victims: Sequence[Task]
    ) -> ShareAfter | None:
        """Abstain: no shares are compared for a whole plan."""
        del preemptor, demand, victims
        return None

    def victim_queue_key(self, preemptor_queue: Queue, queue: Queue) -> None:
        """Abstain: no queue loses pods before another."""

    def job_enqueued(self, state: JobState) -> None:
        """Promise the whole minResources to the queue."""
        self._add_inqueue(self._attributes_of(state.job.id), inqueue_resources.minimum(state))

    def _inqueue_of(self, state: JobState) -> ResourceMap:
        """Return the promise of an earlier cycle, resources of finished pods included."""
        return inqueue_resources.unallocated(state)

    def _asked(self, state: JobState, queue: Queue) -> ResourceMap:
        """Return the whole minResources but pod slots, whatever of these the group has already."""
        del queue
        least = state.job.min_resources or {}
        return {name: amount for name, amount in least.items() if name != resources.PODS}

    def _is_full(self, attributes: QueueAttributes, shortages: Sequence[Shortage]) -> bool:
        """Return True: a cluster that is too small is a queue that is full."""
        del attributes, shortages
        return True

    def _beside_guarantees(
        self,
        queue: str,
        attributes: QueueAttributes,
        found: Shortage,
    ) -> Shortage:
        """Return the shortage with all guarantees of other queues, unless a capability is the
        limit.
        """
        if found.limit >= self._ceiling(attributes, found.resource):
            return found
        known = self._session.queues.values()
        kept = {each.name: each.guarantee.get(found.resource, 0.0) for each in known}
        keepers = sorted(name for name, amount in kept.items() if amount and name != queue)
        total = sum(kept[name] for name in keepers)
        return structs.replace(found, kept=total, keepers=tuple(keepers), whole=not keepers)


class VolcanoDrf(Drf):
    """Merges queues of the same path into one branch, and judges each victim alone."""

    flat_tree: ClassVar[bool] = True
    compares_own: ClassVar[bool] = True

    @depends_on(On.NOTHING)
    def share_after(
        self, preemptor: Task, demand: Vector, victims: Sequence[Task]
    ) -> ShareAfter | None:
        """Abstain: no shares are compared for a whole plan."""
        del preemptor, demand, victims
        return None

    def _richer(self, mine: str, candidates: Sequence[Task]) -> Collection[str]:
        """Return none: only shares without the pod are compared, and queues that are one branch
        have no two to compare.
        """
        del mine, candidates
        return ()

    def _giving_way(
        self, mine: str, candidates: Sequence[Task], richer: Collection[str]
    ) -> Sequence[Task]:
        """Return the pods whose branch still comes after the preemptor's without them, each as if
        no other pod went (Volcano: drf reclaimFn).
        """
        del richer
        tree = self._tree
        assert tree is not None
        victims = []
        for task in candidates:
            self._shift(task, -1)
            if tree.key(mine) < tree.key(self._session.job_states[task.job].job.queue):
                victims.append(task)
            self._shift(task, 1)
        return victims


class VolcanoWindow(Window, frozen=True):
    """A window that includes its last second; a window across midnight is closed after midnight.

    Volcano: availableRevocableZone.
    """

    def open(self, second: float) -> bool:
        """Whether the window is open at this second of the day."""
        return self.start <= second and (self.start >= self.end or second < self.end + 1)

    def changes(self) -> tuple[int, ...]:
        """Return the seconds of the day at which the window may open or close."""
        return (self.start, self.end + 1) if self.start < self.end else (self.start, 0)


class VolcanoTdm(Tdm):
    """Evicts pods zone by zone, and pods of gangs one by one."""

    window_type: ClassVar[type[Window]] = VolcanoWindow

    @depends_on(On.JOB)
    def job_valid(self, state: JobState) -> Reason | None:
        """Abstain: an invalid number of pods is ignored."""
        del state
        return None

    def _going(self, zones: Mapping[TaskId, str], candidates: Sequence[Task]) -> Sequence[Task]:
        """Return, zone by zone, as many pods of each job as the job can lose.

        Volcano: tdm victimsFn.
        """
        named = [task for task in candidates if task.uid in zones]
        return self._bearable(named, lambda task: (task.job, zones[task.uid]))

    def _spare(self, running: int, minimum: int | None) -> int:
        """Return how many running pods exceed the minimum; 1 for a job below the minimum.

        An invalid minimum counts as none.
        """
        spare = running - (minimum or 0)
        return 1 if spare < 0 else spare
