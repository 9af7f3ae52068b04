"""VolcanoCapacity: plugin capacity with Volcano's limits, reclaimers and victims."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from vscheduler.core.api.contracts import Key
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.core.plugins.capacity import Capacity, Reclaimer
from vscheduler.core.shares import inqueue_resources, queue_usage
from vscheduler.core.shares.queue_usage import (
    ExceededLimit,
    QueueSpec,
    QueueUsage,
    QueueUsageTree,
    Request,
    Rows,
)
from vscheduler.model import queues, resources
from vscheduler.model.decisions import Reason, ReasonCode
from vscheduler.model.jobs import Task, WorkingJob
from vscheduler.model.queues import Queue, Tree
from vscheduler.model.resources import ResourceMap


class VolcanoQueueUsageTree(QueueUsageTree):
    """Limits each queue by itself: several siblings together may use up another one's guarantee.

    A guarantee counts in full, even above the capability or the size of the cluster. Pods under
    other schedulers don't count.
    """

    bounds_trees: ClassVar[bool] = False

    def take(self, usage: QueueUsage, request: Request, sign: int = 1) -> None:
        """Add a request to the queue's usage. Shares of inner queues stay what they were when the
        cycle began.
        """
        inner = usage.line[1:]
        shares = [each.share for each in inner]
        super().take(usage, request, sign)
        for each, share in zip(inner, shares, strict=True):
            each.share = share

    def _inner_queues(self, tree: Tree | None) -> Mapping[str, object]:
        """Return no queues: promises to jobs of inner queues count, too."""
        del tree
        return {}

    def _encroached(self, usage: QueueUsage, request: Request) -> Iterator[ExceededLimit]:
        """Yield nothing: guarantees of siblings count in the limit of each queue only."""
        del usage, request
        return iter(())

    def _spec(self, name: str) -> QueueSpec:
        """Return the amounts in the Queue object. Without a tree, the queue root limits nothing."""
        return queue_usage.spec_of(
            self._session.space, self._session.queues.get(name), clipped=False
        )

    def _count_other_schedulers(self, specs: Mapping[str, QueueSpec]) -> None:
        """Do nothing: pods under other schedulers don't count."""

    def _cut_guarantees(self, specs: Mapping[str, QueueSpec]) -> None:
        """Do nothing: guarantees count in full."""

    def _unlimited(self) -> Rows:
        """Return infinite amounts of cpu, memory, pod slots and resources of nodes, 0 of others."""
        total = self._session.total
        known = (total > 0) | (np.arange(total.size) < len(resources.FIRST))
        return np.where(known, np.inf, 0.0)

    def _fill(
        self,
        usage: QueueUsage,
        spec: QueueSpec,
        real: Rows,
    ) -> None:
        """Set the limits of one queue. Pod slots are without limit, and a deserved cpu or memory of
        0 is as good as none. What no node has is lacking in the cluster, not in the queue.
        """
        super()._fill(usage, spec, real)
        for column in np.flatnonzero(self._unlimited() == 0.0):
            usage.ceiling[column] = np.inf
        columns = self._session.space.columns
        usage.limit[columns[resources.PODS]] = np.inf
        always = {columns[resources.CPU], columns[resources.MEMORY]}
        usage.named -= {column for column in always if not usage.deserved[column]}

    def _held_for(self, usage: QueueUsage, state: WorkingJob) -> ResourceMap:
        """Return the whole promise, resources of finished pods included."""
        del usage
        return inqueue_resources.unallocated(state)


class VolcanoReclaimer(Reclaimer):
    """Counts a victim for the queues that were asked whether they lend, and for no others."""

    def take(
        self,
        request: Request,
        usage: QueueUsage,
        asked: Sequence[QueueUsage],
    ) -> None:
        """Count a pod as gone."""
        del usage
        self._deduct(request, asked)


class VolcanoCapacity(Capacity):
    """Stops altogether where a queue, or a job, is in the wrong place of the tree."""

    usage_type: ClassVar[type[QueueUsageTree]] = VolcanoQueueUsageTree
    reclaimer_type: ClassVar[type[Reclaimer]] = VolcanoReclaimer

    def queue_key(self, queue: Queue) -> Key | None:
        """Return the default key; None once the plugin has stopped."""
        return None if self._stopped else super().queue_key(queue)

    def victim_queue_key(self, preemptor_queue: Queue, queue: Queue) -> Key | None:
        """Return the default key; None once the plugin has stopped."""
        return None if self._stopped else super().victim_queue_key(preemptor_queue, queue)

    @depends_on(On.NOTHING)
    def job_valid(self, state: JobState) -> Reason | None:
        """Abstain: where a job is in the wrong queue, nothing is placed anyway."""
        del state
        return None

    def job_enqueued(self, state: JobState) -> None:
        """Promise the whole minResources to the queue."""
        usage = self._usage_tree.usages[state.job.queue]
        self._usage_tree.add_inqueue(usage, inqueue_resources.minimum(state))

    @depends_on(On.QUEUE | On.PREEMPTOR_RESOURCES | On.VICTIM_CLASS)
    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the default victims; none once the plugin has stopped."""
        return () if self._stopped else super().reclaimable(preemptor, candidates)

    def _read_tree(self) -> None:
        """Find the place of every queue, and stop where one is wrong (Volcano: readyToSchedule,
        checkHierarchicalQueue).
        """
        self._tree, self._problems, self._stopped = None, {}, False
        if "enableHierarchy" in self.flags:
            occupied = self._occupied()
            self._tree = queues.tree(self._session.queues, occupied)
            jobs_in_root = queues.ROOT in occupied and not self._tree.leaf(queues.ROOT)
            self._stopped = bool(self._tree.problems) or jobs_in_root

    def _occupied(self) -> Mapping[str, str]:
        """Return a job of each queue that has one, be it done."""
        found: dict[str, str] = {}
        for state in self._session.job_states.values():
            found.setdefault(state.job.queue, state.job.id)
        return found

    def _barred(self, queue: Queue) -> ReasonCode | None:
        """Return why nothing of the queue may be placed or admitted; once the plugin has stopped,
        nothing of any queue may.
        """
        stopped = ReasonCode.SET_ASIDE if self._stopped else None
        return super()._barred(queue) or stopped

    def _asked(self, state: JobState) -> ResourceMap:
        """Return the whole minResources, whatever of these the group has already."""
        return state.job.min_resources or {}

    def _is_full(self, usage: QueueUsage, asked: ResourceMap) -> bool:
        """Return True: a cluster that is too small is a queue that is full."""
        del usage, asked
        return True

    def _deserves(self, usage: QueueUsage, wanted: Mapping[int, int]) -> bool:
        """Whether the queue deserves this much more of any one resource but pod slots (Volcano:
        PreemptiveFn).
        """
        return any(
            usage.allocated[column] + amount <= usage.deserved[column]
            for column, amount in wanted.items()
            if column != self._pods
        )

    def _strangers(self, reclaimer: Reclaimer, usage: QueueUsage) -> list[QueueUsage]:
        """Return the ancestors that must lend, too. The preemptor shares an ancestor only where
        that is as far above both queues.
        """
        theirs = reclaimer.usage.line
        return [
            each
            for at, each in enumerate(self._elders(usage), start=1)
            if at >= len(theirs) or theirs[at] is not each
        ]

    def _spares(
        self,
        usage: QueueUsage,
        request: Request,
        reclaimer: Reclaimer,
    ) -> bool:
        """Whether the queue, without the pod, still has its guarantee of every resource. A queue
        that lacks any guaranteed resource gives nothing back. Queues above don't count.
        """
        less = dict(request)
        has = reclaimer.left(usage)
        return all(
            least <= has[column] - less.get(column, 0)
            for column, least in enumerate(usage.guarantee)
        )

    def _borrows(
        self,
        usage: QueueUsage,
        request: Request,
        reclaimer: Reclaimer,
    ) -> bool:
        """Whether the queue has more than it deserves of any resource that the pod holds but pod
        slots, whether the preemptor needs that resource or not.
        """
        if not self._owns(usage, request):
            return True
        has, deserved = reclaimer.left(usage), usage.deserved
        return any(
            has[column] > deserved[column]
            for column, _ in request
            if column in usage.named and column != self._pods
        )

    def _owns(self, usage: QueueUsage, request: Request) -> bool:
        """Whether the queue deserves anything of what is asked for."""
        return any(usage.deserved[column] for column, _ in request)
