"""Capacity: queues own amounts, lend unused resources, and reclaim them.

Volcano: plugins/capacity. Up to the deserved amount, a queue may reclaim from queues above theirs.
Beyond, the queue borrows idle resources up to its capability. A guarantee is never lent. With
enableHierarchy, queues form a tree, and a queue's limits hold for all queues below.
"""

import itertools
import operator
from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

from vscheduler.core.api.contracts import Argument, Key, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.core.shares import inqueue_resources, queue_limits
from vscheduler.core.shares.queue_usage import QueueUsage, QueueUsageTree, Request
from vscheduler.model import queues, resources
from vscheduler.model.decisions import (
    LEAVES_MAX,
    AdmissionFailure,
    Basis,
    Entitlement,
    LimitedBy,
    QueueLimit,
    Reason,
    ReasonCode,
    Shortage,
)
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.queues import Queue, QueueProblem, Tree
from vscheduler.model.resources import ResourceMap, Vector

DRA = "dynamic resource allocation"


class Reclaimer:
    """A queue that reclaims: its request, and the usage of queues without the victims so far."""

    def __init__(self, usage: QueueUsage, request: Request, pods: int) -> None:
        self.usage = usage
        self.request = request
        self.columns = {column for column, _ in request if column != pods}
        self._left: dict[str, list[int]] = {}

    def left(self, usage: QueueUsage) -> list[int]:
        """Return the queue's usage without the victims so far."""
        known = self._left.get(usage.name)
        if known is None:
            known = self._left[usage.name] = list(usage.allocated)
        return known

    def take(
        self,
        request: Request,
        usage: QueueUsage,
        asked: Sequence[QueueUsage],
    ) -> None:
        """Deduct a victim from its queue and all ancestors, asked to lend or not."""
        del asked
        self._deduct(request, usage.line)

    def _deduct(self, request: Request, usages: Sequence[QueueUsage]) -> None:
        for usage in usages:
            has = self.left(usage)
            for column, amount in request:
                has[column] -= amount


class Capacity(Plugin):
    """Quotas of queues, side by side or in a tree."""

    name = "capacity"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "ancestorReclaimLevel": Argument(int, 0, minimum=0),
        "capacity.DynamicResourceAllocationEnable": Argument(bool, default=False, missing=DRA),
        "capacity.DRAConsumableCapacityEnable": Argument(bool, default=False, missing=DRA),
    }

    usage_type: ClassVar[type[QueueUsageTree]] = QueueUsageTree
    """The class that counts and limits the usage of queues."""
    reclaimer_type: ClassVar[type[Reclaimer]] = Reclaimer
    """The class that counts victims while they are chosen."""

    def open(self, session: Session) -> None:
        """Keep the session; everything else needs the total, which is known in `start`."""
        self._session = session

    def start(self) -> None:
        """Build the tree, compute limits, and add up allocated and promised resources."""
        session = self._session
        self._tree: Tree | None = None
        self._problems: Mapping[str, QueueProblem] = {}
        self._read_tree()
        self._level = int(self.number("ancestorReclaimLevel")) if self._tree else 0
        self._usage_tree = self.usage_type(session, self._tree)
        self._depth = max(
            (len(usage.line) for usage in self._usage_tree.usages.values()), default=1
        )
        self._requests: dict[PodClass, list[tuple[int, int]]] = {}
        self._pods = session.space.columns[resources.PODS]

    def queue_key(self, queue: Queue) -> Key | None:
        """Return the key: higher priority, then smaller dominant share, then entitled queues first.

        In a tree, ancestors are compared where the paths part.
        """
        usage = self._usage_tree.usages[queue.name]
        line = usage.line[-2::-1]
        # A queue of less depth is compared by its own share on every further level.
        steps = (*line, *[usage] * (self._depth - 1 - len(line)))
        key: list[float] = [-queue.priority]
        for step in steps:
            key += (step.dominant_share(), not step.entitled)
        return tuple(key)

    def victim_queue_key(self, preemptor_queue: Queue, queue: Queue) -> Key | None:
        """Return close relatives first, by common ancestors (Volcano: VictimQueueOrderFn)."""
        if self._tree is None:
            return None
        paths = (self._tree.paths[preemptor_queue.name], self._tree.paths[queue.name])
        return -float(sum(map(operator.eq, *paths)))

    @depends_on(On.JOB | On.QUEUE)
    def job_valid(self, state: JobState) -> Reason | None:
        """Return a reason if jobs can't run in the queue: it has children, or is set aside."""
        if self._tree is None:
            return None
        queue, tasks = state.job.queue, state.job.task_count
        code = ReasonCode
        if not self._tree.leaf(queue):
            leaves = tuple(itertools.islice(self._tree.leaves(queue), LEAVES_MAX + 1))
            return Reason(code=code.NOT_LEAF, queue=queue, tasks=tasks, leaves=leaves)
        problem = self._problems.get(queue)
        if problem is None:
            return None
        return Reason(code=code.SET_ASIDE, queue=queue, tasks=tasks, problem=problem)

    def job_enqueueable(self, state: JobState) -> AdmissionFailure | bool:
        """Whether the queue and all ancestors can promise the group's minResources in addition.

        Volcano: checkJobEnqueueableHierarchically, with the limits of `allocatable`.
        """
        queue = self._session.queues[state.job.queue]
        code = self._barred(queue)
        if code is not None:
            return AdmissionFailure(code=code, problem=self._problems.get(queue.name))
        asked = self._asked(state)
        usage = self._usage_tree.usages[queue.name]
        found = self._usage_tree.exceeded_by_admission(usage, asked)
        if found is None:
            return True
        # If no cluster would be large enough for the queue, say why.
        full = self._usage_tree.exceeded_by_admission(usage, asked, ceiling=True)
        owner, shortages = full or found
        return AdmissionFailure(
            code=ReasonCode.QUEUE_FULL if full else ReasonCode.CLUSTER_FULL,
            shortages=shortages,
            subject=owner.name,
            exceeded=self._usage_tree.excesses(usage, asked),
        )

    def job_enqueued(self, state: JobState) -> None:
        """Count the promise to the group, without gated pods."""
        usage = self._usage_tree.usages[state.job.queue]
        self._usage_tree.add_inqueue(usage, inqueue_resources.outstanding(state))

    def _figures(self, queue: Queue) -> Hashable:
        """Return what the queue and its ancestors have and may have."""
        return tuple(map(_figures_of, self._usage_tree.usages[queue.name].line))

    @depends_on(On.CLASS | On.QUEUE, fingerprint=_figures)
    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether the queue takes jobs, and the task keeps to the limits of queue and ancestors.

        Borrowing is free as long as no other queue's guarantee is touched.
        """
        if self._barred(queue) is not None:
            return False
        usage = self._usage_tree.usages[queue.name]
        return next(self._usage_tree.exceeded(usage, self._request(task)), None) is None

    def queue_limits(self, queue: Queue, task: Task) -> Sequence[QueueLimit]:
        """Return the limits of queue and ancestors."""
        del task
        usage = self._usage_tree.usages[queue.name]
        return tuple(queue_limits.of(self._usage_tree, usage, self._session.space.names))

    @depends_on(On.CLASS | On.QUEUE, fingerprint=_figures)
    def shortages(self, queue: Queue, task: Task) -> Sequence[Shortage]:
        """Return the resources of which the task would take a queue above its limit."""
        if self._barred(queue) is not None:
            return ()
        usage = self._usage_tree.usages[queue.name]
        return self._usage_tree.shortages(usage, self._request(task))

    @depends_on(On.CLASS | On.QUEUE, fingerprint=_figures)
    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether the queue deserves all it would then have of the resources these tasks ask for.

        All resources count, not any single one: two queues, each above its share of a different
        resource, could otherwise take pods from each other in turns.
        """
        if self._barred(queue) is not None:
            return False
        usage = self._usage_tree.usages[queue.name]
        wanted: dict[int, int] = {}
        for task in tasks:
            for column, amount in self._request(task):
                wanted[column] = wanted.get(column, 0) + amount
        for column, amount in wanted.items():
            if usage.allocated[column] + amount > usage.limit[column]:
                return False
        return any(self._deserves(each, wanted) for each in (usage, *self._elders(usage)))

    @depends_on(On.QUEUE | On.PREEMPTOR_RESOURCES | On.VICTIM_CLASS)
    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return pods holding borrowed resources the preemptor asks for (Volcano: ReclaimableFn).

        The pod's queue must keep its guarantee.
        """
        reclaimer = self.reclaimer_type(
            self._usage_of(preemptor), self._request(preemptor), self._pods
        )
        victims = []
        for task in candidates:
            usage, request = self._usage_of(task), self._request(task)
            concerned = [usage, *self._strangers(reclaimer, usage)]
            if (
                any(column in reclaimer.columns for column, _ in request)
                and self._spares(usage, request, reclaimer)
                and not self._share_lender(usage, request, reclaimer)
                and all(self._borrows(each, request, reclaimer) for each in concerned)
            ):
                victims.append(task)
                reclaimer.take(request, usage, concerned)
        return victims

    def on_allocate(self, task: Task) -> None:
        """Count the task. Resources only reserved so far count as well, as in Volcano."""
        self._usage_tree.take(self._usage_of(task), self._request(task))

    def on_deallocate(self, task: Task) -> None:
        """Stop counting the task."""
        self._usage_tree.take(self._usage_of(task), self._request(task), -1)

    def on_ended(self, amounts: Mapping[str, Vector]) -> None:
        """Stop counting what pods have that will have ended."""
        for name, vector in amounts.items():
            request = [(column, each) for column, each in enumerate(vector.tolist()) if each]
            self._usage_tree.take(self._usage_tree.usages[name], request, -1)

    def entitlements(self) -> Mapping[str, Entitlement]:
        """Return the entitlements of all queues, with the problem of each queue set aside."""
        names = self._session.space.names
        found = {}
        for queue in self._session.queues:
            usage = self._usage_tree.usages[queue]
            found[queue] = Entitlement(
                deserved={
                    name: value for name, value in zip(names, usage.deserved, strict=True) if value
                },
                real_capability=dict(zip(names, usage.real, strict=True)),
                share=usage.dominant_share(),
                problem=self._tree.problems.get(queue) if self._tree else None,
                # What is kept for root is the sum of its children's, so it has no basis of its own.
                bases={} if queue == queues.ROOT else self._bases(usage),
            )
        return found

    def _bases(self, usage: QueueUsage) -> Mapping[str, Basis]:
        """Return the owned amount of each resource, with guarantees."""
        queue, total = self._session.queues[usage.name], self._session.total.tolist()
        unkept = usage.unkept or [0.0] * len(total)
        return {
            name: Basis(
                deserved=deserved,
                usable=whole,
                bound=LimitedBy.QUOTA,
                weight=queue.weight,
                weights=queue.weight,
                guaranteed=queue.deserved.get(name, 0) < deserved,
                guarantee=kept + lost if lost else 0.0,
                kept=kept,
            )
            for name, deserved, whole, kept, lost in zip(
                self._session.space.names,
                usage.deserved,
                total,
                usage.guarantee,
                unkept,
                strict=True,
            )
            if deserved or lost
        }

    def _barred(self, queue: Queue) -> ReasonCode | None:
        """Return why no pod of this queue may be placed or admitted, regardless of amounts."""
        if not queue.open:
            return ReasonCode.QUEUE_CLOSED
        if self._tree is not None and not self._tree.leaf(queue.name):
            return ReasonCode.NOT_LEAF
        return ReasonCode.SET_ASIDE if queue.name in self._problems else None

    def _read_tree(self) -> None:
        """Build the tree of queues. Where a queue is misplaced, only its subtree is set aside."""
        if "enableHierarchy" in self.flags:
            # A job in an inner queue is no problem of the queue: any user could create such a job.
            self._tree = queues.tree(self._session.queues, {})
            self._problems = self._tree.problems

    def _asked(self, state: JobState) -> ResourceMap:
        """Return the group's minResources, less resources already counted as the queue's."""
        least, has = inqueue_resources.required(state), state.job.allocated
        return {name: max(0, each - has.get(name, 0)) for name, each in least.items()}

    def _deserves(self, usage: QueueUsage, wanted: Mapping[int, int]) -> bool:
        """Whether the queue would deserve this much more."""
        counted = [
            usage.allocated[column] + amount <= usage.deserved[column]
            for column, amount in wanted.items()
            if column in usage.named
        ]
        return bool(counted) and all(counted)

    def _elders(self, usage: QueueUsage) -> Sequence[QueueUsage]:
        """Return the ancestors, without root, that take part in reclaim (ancestorReclaimLevel)."""
        return usage.line[1:-1][: self._level]

    def _strangers(self, reclaimer: Reclaimer, usage: QueueUsage) -> list[QueueUsage]:
        """Return the ancestors not shared with the preemptor, which must have borrowed as well."""
        return [elder for elder in self._elders(usage) if elder not in reclaimer.usage.line]

    def _spares(self, usage: QueueUsage, request: Request, reclaimer: Reclaimer) -> bool:
        """Whether the queue and its ancestors keep their guarantees of the pod's resources."""
        return all(
            each.guarantee[column] <= reclaimer.left(each)[column] - amount
            for each in usage.line
            if each not in reclaimer.usage.line
            for column, amount in request
        )

    def _borrows(self, usage: QueueUsage, request: Request, reclaimer: Reclaimer) -> bool:
        """Whether the queue has more than it deserves of what the pod holds.

        If the queue deserves none of the pod's resources, the whole pod is borrowed. The preemptor
        must ask for some of the borrowed resources.
        """
        has, deserved = reclaimer.left(usage), usage.deserved
        columns = [column for column, _ in request]
        if not self._owns(usage, request):
            return True
        above = {column for column in columns if has[column] > deserved[column]}
        counted = usage.named & above
        lent = {column for column in columns if column not in usage.named or column in above}
        return bool(counted) and not lent.isdisjoint(reclaimer.columns)

    def _owns(self, usage: QueueUsage, request: Request) -> bool:
        """Whether the deserved amounts cover any resource of the request."""
        return any(column in usage.named for column, _ in request)

    def _share_lender(self, usage: QueueUsage, request: Request, reclaimer: Reclaimer) -> bool:
        """Whether both queues borrow from a common ancestor, so that neither owes the other."""
        return (
            not self._owns(usage, request)
            and not self._owns(reclaimer.usage, reclaimer.request)
            and any(elder in self._elders(reclaimer.usage) for elder in self._elders(usage))
        )

    def _usage_of(self, task: Task) -> QueueUsage:
        return self._usage_tree.usages[self._session.job_states[task.job].job.queue]

    def _request(self, task: Task) -> list[tuple[int, int]]:
        """Return the columns and amounts of a request, computed once for each class."""
        request = self._requests.get(task.pod_class)
        if request is None:
            row: list[int] = self._session.counted(task).tolist()
            request = [(column, amount) for column, amount in enumerate(row) if amount]
            self._requests[task.pod_class] = request
        return request


def _figures_of(usage: QueueUsage) -> Hashable:
    """Return all that decides whether the queue may have more."""
    limits = (usage.limit, usage.guarantee, usage.space)
    return tuple(usage.allocated), tuple(usage.owned), tuple(usage.held), *map(tuple, limits)
