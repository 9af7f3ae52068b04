"""Drf: the job whose dominant share is smallest comes first.

Volcano: plugins/drf. A job's dominant share is the largest part that it has of any resource of the
cluster. With enableHierarchy, queues have shares as well, as branches of a tree.
"""

import operator
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import ClassVar

from vscheduler.core.api import contracts, views
from vscheduler.core.fair_share import hierarchical_drf, share_arithmetic
from vscheduler.core.model import decisions, jobs, queues, resources

SHARE_SLACK = 1e-6
"""Shares this close are equal (Volcano: drf shareDelta)."""

HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"
"""Annotations of a Queue: its place in the tree (`root/sci/dev`) and the weights on the way."""


class DrfAttributes:
    """What one job has, one amount per column, and its share as long as nothing changes."""

    __slots__ = ("allocated", "share")

    def __init__(self, allocated: list[int]) -> None:
        self.allocated = allocated
        self.share: float | None = None


class Drf(contracts.Plugin):
    """Levels the dominant shares of the jobs of a queue; with enableHierarchy, those of the
    branches of the queue tree first.
    """

    name = "drf"
    flat_tree: ClassVar[bool] = False
    """Whether queues of one path are one branch of the tree, the older one first; else they take
    turns."""

    def open(self, session: contracts.Session) -> None:
        """Ledgers are opened when a job is first asked about, most never are."""
        self._session = session
        self._ledgers: dict[jobs.JobId, DrfAttributes] = {}
        self._requests: dict[jobs.PodClass, list[tuple[int, int]]] = {}

    def start(self) -> None:
        """Shares are parts of the total."""
        self._total: list[int] = self._session.total.tolist()
        hierarchical = "enableHierarchy" in self.flags
        self._tree = _planted(self._session, flat=self.flat_tree) if hierarchical else None

    def queue_key(self, queue: queues.Queue) -> contracts.Key | None:
        """Branches that want something before those that are saturated, then the smaller share."""
        return None if self._tree is None else self._tree.key(queue.name)

    def job_key(self, gang: views.JobState) -> contracts.Key:
        """The dominant share; pod slots count as a resource (Volcano: drf updateShare)."""
        ledger = self._ledgers.get(gang.job.id) or self._ledger(gang.job)
        if ledger.share is None:
            ledger.share = share_arithmetic.share(ledger.allocated, self._total)
        return ledger.share

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Pods whose job has no smaller share without them than the claimant's has with it.

        Volcano: drf preemptableFn.
        """
        mine = self._ledgers.get(claimant.job) or self._ledger(
            self._session.gangs[claimant.job].job
        )
        wanted = list(mine.allocated)
        for column, amount in self._requests.get(claimant.pod_class) or self._request(claimant):
            wanted[column] += amount
        share = share_arithmetic.share(wanted, self._total)
        left: dict[jobs.JobId, list[int]] = {}
        victims = []
        for task in candidates:
            ledger = self._ledgers.get(task.job) or self._ledger(self._session.gangs[task.job].job)
            amounts = left.setdefault(task.job, list(ledger.allocated))
            for column, amount in self._requests.get(task.pod_class) or self._request(task):
                amounts[column] -= amount
            if share <= share_arithmetic.share(amounts, self._total) + SHARE_SLACK:
                victims.append(task)
        return victims

    def reclaimable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task] | None:
        """Pods of branches that have more than the claimant's, and without which they still have no
        less than it has with its pod. A share can shrink as more of a branch starts: by only one of
        the two, each could take from the other in turns.

        Volcano: drf reclaimFn.
        """
        if self._tree is None:
            return None
        mine = self._session.gangs[claimant.job].job.queue
        owners = {self._session.gangs[task.job].job.queue for task in candidates} - {mine}
        richer = {each for each in owners if operator.lt(*self._tree.shares(mine, each))}
        with self._tree.trial():
            self._shift(claimant, 1)
            victims = self._giving_way(mine, candidates, richer)
            self._shift(claimant, -1)
        return victims

    def _giving_way(
        self, mine: str, candidates: Sequence[jobs.Task], richer: Collection[str]
    ) -> Sequence[jobs.Task]:
        """Those of these pods that may go, each without those before it that do; the tree is as
        it was in the end.
        """
        tree = self._tree
        assert tree is not None
        victims = []
        for task in candidates:
            queue = self._session.gangs[task.job].job.queue
            self._shift(task, -1)
            if queue in richer and operator.le(*tree.shares(mine, queue)):
                victims.append(task)
            else:
                self._shift(task, 1)
        for task in victims:
            self._shift(task, 1)
        return victims

    def share_after(
        self, claimant: jobs.Task, claimed: resources.Vector, victims: Sequence[jobs.Task]
    ) -> decisions.ShareAfter | None:
        """The shares by weight of their branches: the loser keeps no less than the claimant gets,
        else each would take the other's whole gangs in turns.
        """
        if self._tree is None:
            return None
        mine, theirs = (self._session.gangs[each.job].job.queue for each in (claimant, victims[0]))
        with self._tree.trial():
            self._tree.shift(mine, claimant.job, claimed)
            for task in victims:
                self._shift(task, -1)
            claimant_ends, loser_ends = self._tree.shares(mine, theirs)
            for task in victims:
                self._shift(task, 1)
            self._tree.shift(mine, claimant.job, -claimed)
        return decisions.ShareAfter(loser=loser_ends, claimant=claimant_ends)

    def on_allocate(self, task: jobs.Task) -> None:
        """Room that is only promised counts as well, as in Volcano."""
        ledger = self._ledgers.get(task.job) or self._ledger(self._session.gangs[task.job].job)
        for column, amount in self._requests.get(task.pod_class) or self._request(task):
            ledger.allocated[column] += amount
        ledger.share = None
        self._shift(task, 1)

    def on_deallocate(self, task: jobs.Task) -> None:
        """The opposite."""
        ledger = self._ledgers.get(task.job) or self._ledger(self._session.gangs[task.job].job)
        for column, amount in self._requests.get(task.pod_class) or self._request(task):
            ledger.allocated[column] -= amount
        ledger.share = None
        self._shift(task, -1)

    def _shift(self, task: jobs.Task, sign: int) -> None:
        """The tree learns that the task has room, or has it no more."""
        if self._tree is not None:
            queue = self._session.gangs[task.job].job.queue
            self._tree.shift(queue, task.job, sign * self._session.request(task))

    def _ledger(self, job: jobs.Job) -> DrfAttributes:
        """The job as in the snapshot: whatever changes it opens its ledger first."""
        ledger = DrfAttributes(self._session.space.vector(job.allocated).tolist())
        self._ledgers[job.id] = ledger
        return ledger

    def _request(self, task: jobs.Task) -> list[tuple[int, int]]:
        """The columns that the task asks for; found once per class."""
        row: list[int] = self._session.request(task).tolist()
        request = [(column, amount) for column, amount in enumerate(row) if amount]
        self._requests[task.pod_class] = request
        return request


def _planted(session: contracts.Session, *, flat: bool) -> hierarchical_drf.Tree:
    """The tree as the cycle begins. A queue that names no place stands below the root by itself,
    with the weight of its spec.
    """
    holdings: defaultdict[str, list[hierarchical_drf.JobUsage]] = defaultdict(list)
    for gang in session.gangs.values():
        job = gang.job
        request = resources.add(job.allocated, job.pending)
        holdings[job.queue].append(
            hierarchical_drf.JobUsage(
                job=job.id,
                allocated=session.space.vector(job.allocated),
                request=session.space.vector(request),
            )
        )
    places = {name: _place(queue) for name, queue in session.queues.items()}
    return hierarchical_drf.Tree(session.total, places, holdings, flat=flat)


def _place(queue: queues.Queue) -> hierarchical_drf.QueuePath:
    path = queue.annotations.get(HIERARCHY, "")
    if not path:
        return hierarchical_drf.QueuePath(
            path=(queue.name,), weights=(max(1.0, float(queue.weight)),)
        )
    return hierarchical_drf.place(path, queue.annotations.get(WEIGHTS, ""))
