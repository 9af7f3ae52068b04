"""Drf: dominant resource fairness, the job with the smallest dominant share comes first.

Volcano: plugins/drf. A job's dominant share is the largest fraction of any cluster resource held by
the job. With enableHierarchy, queues in a tree have shares as well.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from typing import ClassVar

from vscheduler.core.api.contracts import Key, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.core.shares import hierarchical_drf, share_arithmetic
from vscheduler.core.shares.hierarchical_drf import JobUsage, QueuePath, Tree
from vscheduler.model import resources
from vscheduler.model.decisions import ShareAfter
from vscheduler.model.jobs import Job, JobId, PodClass, Task
from vscheduler.model.queues import Queue
from vscheduler.model.resources import Vector

SHARE_SLACK = 1e-6
"""Shares this close are equal (Volcano: drf shareDelta)."""

HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"
"""Annotations of a Queue: the path in the tree (`root/sci/dev`), and the weights along the path."""


OF_TREES = ("queue_key", "queue_path", "reclaimable", "share_after")
"""Hooks about the shares of queues in a tree."""


class DrfAttributes:
    """What a job has, one amount per column, and its share until the next change."""

    __slots__ = ("allocated", "share")

    def __init__(self, allocated: list[int]) -> None:
        self.allocated = allocated
        self.share: float | None = None


class Drf(Plugin):
    """Orders jobs by dominant share.

    With enableHierarchy, queues are ordered by shares of the queue tree.
    """

    name = "drf"
    flat_tree: ClassVar[bool] = False
    """Whether queues with the same path share one node of the tree, the older queue first;
    otherwise the queues take turns."""
    compares_own: ClassVar[bool] = False
    """Whether pods of a job may go for other pods of it."""

    @classmethod
    def abstains(cls, flags: frozenset[str]) -> Collection[str]:
        """Return the hooks about queues, unless these are in a tree."""
        return () if "enableHierarchy" in flags else OF_TREES

    def open(self, session: Session) -> None:
        """Keep the session. Attributes of a job are made when first asked for; mostly never."""
        self._session = session
        self._attributes: dict[JobId, DrfAttributes] = {}
        self._requests: dict[PodClass, list[tuple[int, int]]] = {}

    def start(self) -> None:
        """Read the total, of which shares are fractions."""
        self._total: list[int] = self._session.total.tolist()
        hierarchical = "enableHierarchy" in self.flags
        self._tree = _planted(self._session, flat=self.flat_tree) if hierarchical else None

    def queue_key(self, queue: Queue) -> Key | None:
        """Return unsaturated queues before saturated queues, then the smaller share first."""
        return None if self._tree is None else self._tree.key(queue.name)

    def queue_path(self, queue: Queue) -> Sequence[Hashable]:
        """Return the nodes of the tree that the queue's key has numbers for."""
        return () if self._tree is None else self._tree.path(queue.name)

    @depends_on(On.JOB)
    def job_key(self, state: JobState) -> Key:
        """Return the dominant share, with pod slots as a resource (Volcano: drf updateShare)."""
        attributes = self._attributes.get(state.job.id) or self._attributes_of(state.job)
        if attributes.share is None:
            attributes.share = share_arithmetic.share(attributes.allocated, self._total)
        return attributes.share

    @depends_on(On.PREEMPTOR | On.VICTIM)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return pods whose jobs keep at least the share of the preemptor's job with its pod.

        A job isn't compared with itself: where it has most of another resource, its share is the
        same whichever of its pods runs, and two of them would take turns for ever.
        Volcano: drf preemptableFn.
        """
        mine = self._attributes.get(preemptor.job) or self._attributes_of(
            self._session.job_states[preemptor.job].job
        )
        wanted = list(mine.allocated)
        for column, amount in self._requests.get(preemptor.pod_class) or self._request(preemptor):
            wanted[column] += amount
        share = share_arithmetic.share(wanted, self._total)
        left: dict[JobId, list[int]] = {}
        victims = []
        for task in candidates:
            if task.job == preemptor.job and not self.compares_own:
                continue
            attributes = self._attributes.get(task.job) or self._attributes_of(
                self._session.job_states[task.job].job
            )
            amounts = left.setdefault(task.job, list(attributes.allocated))
            for column, amount in self._requests.get(task.pod_class) or self._request(task):
                amounts[column] -= amount
            if share <= share_arithmetic.share(amounts, self._total) + SHARE_SLACK:
                victims.append(task)
        return victims

    @depends_on(On.PREEMPTOR | On.VICTIM)
    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Return pods of queues with a larger share, compared where their paths part.

        Without the pod, the share must still be no smaller than the preemptor's share with its pod
        (Volcano: drf reclaimFn). Both conditions must hold for scaled shares, which order queues,
        and for shares by what is held. A scaled share can shrink as more of a queue starts, and
        grow as less of it runs, so that by scaled shares alone queues could take from each other in
        a circle. By what is held, the smaller of the two shares never ends lower.
        """
        if self._tree is None:
            return None
        mine = self._session.job_states[preemptor.job].job.queue
        richer = self._richer(mine, candidates)
        with self._tree.trial():
            self._shift(preemptor, 1)
            victims = self._giving_way(mine, candidates, richer)
            self._shift(preemptor, -1)
        return victims

    def _richer(self, mine: str, candidates: Sequence[Task]) -> Collection[str]:
        """Return the queues of these pods that have a larger share than the preemptor's queue."""
        assert self._tree is not None
        owners = {self._session.job_states[task.job].job.queue for task in candidates} - {mine}
        return {
            owner
            for owner in owners
            if all(less < more for less, more in self._tree.shares(mine, owner))
        }

    def _giving_way(
        self, mine: str, candidates: Sequence[Task], richer: Collection[str]
    ) -> Sequence[Task]:
        """Return which of these pods may be evicted, each without the victims before it.

        The tree ends unchanged.
        """
        tree = self._tree
        assert tree is not None
        victims = []
        for task in candidates:
            queue = self._session.job_states[task.job].job.queue
            self._shift(task, -1)
            if queue in richer and all(less <= more for less, more in tree.shares(mine, queue)):
                victims.append(task)
            else:
                self._shift(task, 1)
        for task in reversed(victims):
            self._shift(task, 1)
        return victims

    @depends_on(On.PREEMPTOR | On.VICTIM)
    def share_after(
        self, preemptor: Task, demand: Vector, victims: Sequence[Task]
    ) -> ShareAfter | None:
        """Return the weighted shares of both queues at the nodes where their paths part.

        The loser must keep no less than the preemptor gets; otherwise both would take whole gangs
        from each other in turns. Scaled shares are returned unless only the shares by what is held
        forbid the eviction.
        """
        if self._tree is None:
            return None
        mine, theirs = (
            self._session.job_states[each.job].job.queue for each in (preemptor, victims[0])
        )
        with self._tree.trial():
            self._tree.shift(mine, preemptor.job, demand)
            for task in victims:
                self._shift(task, -1)
            pairs = self._tree.shares(mine, theirs)
            for task in reversed(victims):
                self._shift(task, 1)
            self._tree.shift(mine, preemptor.job, -demand)
        claimant_ends, loser_ends = next((pair for pair in pairs if pair[0] > pair[1]), pairs[0])
        return ShareAfter(loser=loser_ends, preemptor=claimant_ends)

    def on_allocate(self, task: Task) -> None:
        """Count the task. Resources only reserved so far count as well, as in Volcano."""
        attributes = self._attributes.get(task.job) or self._attributes_of(
            self._session.job_states[task.job].job
        )
        for column, amount in self._requests.get(task.pod_class) or self._request(task):
            attributes.allocated[column] += amount
        attributes.share = None
        self._shift(task, 1)

    def on_deallocate(self, task: Task) -> None:
        """Stop counting the task."""
        attributes = self._attributes.get(task.job) or self._attributes_of(
            self._session.job_states[task.job].job
        )
        for column, amount in self._requests.get(task.pod_class) or self._request(task):
            attributes.allocated[column] -= amount
        attributes.share = None
        self._shift(task, -1)

    def _shift(self, task: Task, sign: int) -> None:
        """Add the task to the queue tree (1), or remove the task (-1)."""
        if self._tree is not None:
            queue = self._session.job_states[task.job].job.queue
            self._tree.shift(queue, task.job, sign * self._session.counted(task))

    def _attributes_of(self, job: Job) -> DrfAttributes:
        """Return attributes as in the snapshot: no change comes before the first call."""
        attributes = DrfAttributes(self._session.space.vector(job.allocated).tolist())
        self._attributes[job.id] = attributes
        return attributes

    def _request(self, task: Task) -> list[tuple[int, int]]:
        """Return the columns and amounts of a request, computed once for each class."""
        row: list[int] = self._session.counted(task).tolist()
        request = [(column, amount) for column, amount in enumerate(row) if amount]
        self._requests[task.pod_class] = request
        return request


def _planted(session: Session, *, flat: bool) -> Tree:
    """Return the queue tree as the cycle begins.

    A queue without path is a child of root, with the weight in its spec.
    """
    holdings: defaultdict[str, list[JobUsage]] = defaultdict(list)
    for state in session.job_states.values():
        job = state.job
        request = resources.add(job.allocated, job.pending)
        holdings[job.queue].append(
            JobUsage(
                job=job.id,
                allocated=session.space.vector(job.allocated),
                request=session.space.vector(request),
            )
        )
    places = {name: _place(queue) for name, queue in session.queues.items()}
    return Tree(session.total, places, holdings, flat=flat)


def _place(queue: Queue) -> QueuePath:
    """Return the position of a queue in the tree."""
    path = queue.annotations.get(HIERARCHY, "")
    if not path:
        return QueuePath(path=(queue.name,), weights=(max(1.0, float(queue.weight)),))
    return hierarchical_drf.place(path, queue.annotations.get(WEIGHTS, ""))
