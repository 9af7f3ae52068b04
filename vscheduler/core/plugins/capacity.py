"""Capacity: queues own amounts, lend what they don't use, and get it back.

Volcano: plugins/capacity. Up to what a queue deserves it may reclaim from those who have more;
above that it borrows what is idle, up to its capability; its guarantee is never lent. With
enableHierarchy queues are a tree: what holds for a queue holds for all above it.
"""

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import ClassVar

from vscheduler.core.api import contracts, views
from vscheduler.core.fair_share import inqueue_resources, queue_usage
from vscheduler.core.model import decisions, jobs, queues, resources

DRA = "dynamic resource allocation"


class Capacity(contracts.Plugin):
    """Quotas of queues, side by side or in a tree."""

    name = "capacity"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "ancestorReclaimLevel": contracts.Argument(int, 0, minimum=0),
        "capacity.DynamicResourceAllocationEnable": contracts.Argument(
            bool, default=False, missing=DRA
        ),
        "capacity.DRAConsumableCapacityEnable": contracts.Argument(
            bool, default=False, missing=DRA
        ),
    }

    def open(self, session: contracts.Session) -> None:
        """What the hooks need is worked out once the total is known."""
        self._session = session

    def start(self) -> None:
        """Find everyone's place and limits, and add up what they have and were promised."""
        session = self._session
        self._tree: queues.Tree | None = None
        problems: Mapping[str, queues.QueueProblem] = {}
        crowned = False
        if "enableHierarchy" in self.flags:
            # Here a job in an inner queue waits alone: anybody could stop the whole subtree by it.
            occupied = _occupied(session) if session.as_volcano else {}
            self._tree = queues.tree(session.queues, occupied)
            problems = self._tree.problems
            crowned = queues.ROOT in occupied and not self._tree.leaf(queues.ROOT)
        # Volcano stops altogether (readyToSchedule); here only the subtree is set aside.
        self._stopped = session.as_volcano and (bool(problems) or crowned)
        self._problems = {} if session.as_volcano else problems
        self._level = int(self.number("ancestorReclaimLevel")) if self._tree else 0
        self._books = queue_usage.QueueUsageTree(session, self._tree)
        self._depth = max((len(each.line) for each in self._books.accounts.values()), default=1)
        self._requests: dict[jobs.PodClass, list[tuple[int, int]]] = {}
        self._pods = session.space.columns[resources.PODS]

    def queue_key(self, queue: queues.Queue) -> contracts.Key | None:
        """The higher spec.priority, then the smaller share of what is deserved, then who deserves
        anything; in a tree, the shares of the branches where the two part.
        """
        if self._stopped:
            return None
        account = self._books.accounts[queue.name]
        line = account.line[-2::-1]
        # A queue of less depth is compared by its own share on every further level.
        steps = (*line, *[account] * (self._depth - 1 - len(line)))
        key: list[float] = [-queue.priority]
        for each in steps:
            key += (each.dominant_share(), not each.entitled)
        return tuple(key)

    def victim_queue_key(self, claimant: queues.Queue, queue: queues.Queue) -> contracts.Key | None:
        """Near relations lend first: those with the deeper common ancestor (VictimQueueOrderFn)."""
        if self._tree is None or self._stopped:
            return None
        paths = (self._tree.paths[claimant.name], self._tree.paths[queue.name])
        return -float(sum(map(operator.eq, *paths)))

    def job_valid(self, gang: views.JobState) -> decisions.Reason | None:
        """Why a job can't run in its queue: this has children, or is set aside."""
        if self._tree is None or self._session.as_volcano:
            return None
        queue, tasks = gang.job.queue, len(gang.job.tasks)
        code = decisions.ReasonCode
        if not self._tree.leaf(queue):
            leaves = tuple(itertools.islice(self._tree.leaves(queue), decisions.LEAVES_MAX + 1))
            return decisions.Reason(code=code.NOT_LEAF, queue=queue, tasks=tasks, leaves=leaves)
        problem = self._problems.get(queue)
        if problem is None:
            return None
        return decisions.Reason(code=code.SET_ASIDE, queue=queue, tasks=tasks, problem=problem)

    def job_enqueueable(self, gang: views.JobState) -> decisions.AdmissionFailure | bool:
        """Whether the queue and all above it may still promise the group's minResources.

        Volcano: checkJobEnqueueableHierarchically, with the limits of `allocatable`.
        """
        queue = self._session.queues[gang.job.queue]
        code = self._barred(queue)
        if code is not None:
            return decisions.AdmissionFailure(code=code, problem=self._problems.get(queue.name))
        asked = self._asked(gang.job)
        account = self._books.accounts[queue.name]
        found = self._books.unpromisable(account, asked)
        if found is None:
            return True
        owner, shortages = found
        # Volcano doesn't tell a queue that is full from a cluster that is too small for it.
        if self._session.as_volcano or self._books.unpromisable(account, asked, ceiling=True):
            code = decisions.ReasonCode.QUEUE_FULL
        else:
            code = decisions.ReasonCode.CLUSTER_FULL
        return decisions.AdmissionFailure(code=code, shortages=shortages, subject=owner.name)

    def job_enqueued(self, gang: views.JobState) -> None:
        """Count what the group was promised, pods behind a gate aside."""
        whole = self._session.as_volcano
        promised = inqueue_resources.minimum(gang) if whole else inqueue_resources.outstanding(gang)
        self._books.promise(self._books.accounts[gang.job.queue], promised)

    def allocatable(self, queue: queues.Queue, task: jobs.Task) -> bool:
        """Whether the queue is open, is for jobs, and it and all above it stay within their
        capability; borrowing is free as far as nobody's guarantee is touched.
        """
        if self._barred(queue) is not None:
            return False
        account = self._books.accounts[queue.name]
        return next(self._books.exceeded(account, self._request(task)), None) is None

    def shortages(self, queue: queues.Queue, task: jobs.Task) -> Sequence[decisions.Shortage]:
        """The resources of which the task would take one queue above its limit."""
        if self._barred(queue) is not None:
            return ()
        account = self._books.accounts[queue.name]
        exceeded = list(self._books.exceeded(account, self._request(task)))
        # Of several, the highest: what it can't have, those below it can't either.
        owner = max((each.account for each in exceeded), key=account.line.index, default=None)
        names = self._session.space.names
        found = {
            names[each.column]: decisions.Shortage(
                resource=names[each.column],
                requested=each.requested,
                allocated=each.account.allocated[each.column],
                limit=each.limit,
                owner=each.account.name,
            )
            for each in exceeded
            if each.account is owner
        }
        return tuple(found[name] for name in sorted(found))

    def preemptive(self, queue: queues.Queue, tasks: Sequence[jobs.Task]) -> bool:
        """Whether the queue deserves all that it would have then of what these tasks ask for.

        Volcano (PreemptiveFn) is content with one resource of several: then two queues, each
        above its share of something, take pods from each other in turns.
        """
        if self._barred(queue) is not None:
            return False
        account = self._books.accounts[queue.name]
        wanted: dict[int, int] = {}
        for task in tasks:
            for column, amount in self._request(task):
                wanted[column] = wanted.get(column, 0) + amount
        for column, amount in wanted.items():
            if account.allocated[column] + amount > account.limit[column]:
                return False
        return any(self._deserves(each, wanted) for each in (account, *self._elders(account)))

    def reclaimable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Pods without which their queues keep their guarantees, and that hold something that the
        claimant asks for and that is borrowed (Volcano: ReclaimableFn).
        """
        if self._stopped:
            return ()
        claim = _Claim(self._account(claimant), self._request(claimant), self._pods)
        victims = []
        for task in candidates:
            account, request = self._account(task), self._request(task)
            concerned = [account, *self._strangers(claim, account)]
            if (
                any(column in claim.columns for column, _ in request)
                and self._spares(account, request, claim)
                and not self._in_family(account, request, claim)
                and all(self._borrows(each, request, claim) for each in concerned)
            ):
                victims.append(task)
                claim.take(request, concerned if self._session.as_volcano else account.line)
        return victims

    def on_allocate(self, task: jobs.Task) -> None:
        """Room that is only promised counts as well, as in Volcano."""
        self._books.take(self._account(task), self._request(task))

    def on_deallocate(self, task: jobs.Task) -> None:
        """The opposite."""
        self._books.take(self._account(task), self._request(task), -1)

    def entitlements(self) -> Mapping[str, decisions.Entitlement]:
        """All queues; of one that is set aside, why."""
        names = self._session.space.names
        found = {}
        for queue in self._session.queues:
            account = self._books.accounts[queue]
            found[queue] = decisions.Entitlement(
                deserved={
                    name: value
                    for name, value in zip(names, account.deserved, strict=True)
                    if value
                },
                real_capability=dict(zip(names, account.real, strict=True)),
                share=account.dominant_share(),
                problem=self._tree.problems.get(queue) if self._tree else None,
                bases=self._bases(account),
            )
        return found

    def _bases(self, account: queue_usage.QueueUsage) -> Mapping[str, decisions.Basis]:
        """What the queue owns of each resource."""
        queue, total = self._session.queues[account.name], self._session.total.tolist()
        unkept = account.unkept or [0.0] * len(total)
        return {
            name: decisions.Basis(
                deserved=deserved,
                usable=whole,
                bound=decisions.LimitedBy.QUOTA,
                weight=queue.weight,
                weights=queue.weight,
                guaranteed=queue.deserved.get(name, 0) < deserved,
                promised=kept + lost if lost else 0.0,
                kept=kept,
            )
            for name, deserved, whole, kept, lost in zip(
                self._session.space.names,
                account.deserved,
                total,
                account.guarantee,
                unkept,
                strict=True,
            )
            if deserved or lost
        }

    def _barred(self, queue: queues.Queue) -> decisions.ReasonCode | None:
        """Why nothing of this queue may be placed or admitted, whatever it has."""
        if not queue.open:
            return decisions.ReasonCode.QUEUE_CLOSED
        if self._tree is not None and not self._tree.leaf(queue.name):
            return decisions.ReasonCode.NOT_LEAF
        if self._stopped or queue.name in self._problems:
            return decisions.ReasonCode.SET_ASIDE
        return None

    def _asked(self, job: jobs.Job) -> resources.ResourceMap:
        """The group's minResources; what it has of them is among what its queue has already."""
        least = job.min_resources or {}
        if self._session.as_volcano:
            return least
        return {name: max(0, each - job.allocated.get(name, 0)) for name, each in least.items()}

    def _deserves(self, account: queue_usage.QueueUsage, wanted: Mapping[int, int]) -> bool:
        """Whether this much more is still what the queue deserves."""
        kept = {
            column: account.allocated[column] + amount <= account.deserved[column]
            for column, amount in wanted.items()
        }
        if self._session.as_volcano:
            return any(keeps for column, keeps in kept.items() if column != self._pods)
        counted = [keeps for column, keeps in kept.items() if column in account.named]
        return bool(counted) and all(counted)

    def _elders(self, account: queue_usage.QueueUsage) -> Sequence[queue_usage.QueueUsage]:
        """The ancestors, but for root, that have a say in reclaim (ancestorReclaimLevel)."""
        return account.line[1:-1][: self._level]

    def _strangers(
        self, claim: "_Claim", account: queue_usage.QueueUsage
    ) -> list[queue_usage.QueueUsage]:
        """Those of them that aren't the claimant's as well: they must lend, too.

        Volcano knows an ancestor in common only where it is as far above both.
        """
        theirs = claim.account.line
        if not self._session.as_volcano:
            return [each for each in self._elders(account) if each not in theirs]
        return [
            each
            for at, each in enumerate(self._elders(account), start=1)
            if at >= len(theirs) or theirs[at] is not each
        ]

    def _spares(
        self, account: queue_usage.QueueUsage, request: queue_usage.Request, claim: "_Claim"
    ) -> bool:
        """Whether the guarantee is kept without the pod.

        Volcano looks at the leaf only, and at all resources: a queue that lacks one of those it is
        guaranteed never gives back another. Here the pod's own count, and queues above it.
        """
        if self._session.as_volcano:
            less = dict(request)
            has = claim.left(account)
            return all(
                least <= has[column] - less.get(column, 0)
                for column, least in enumerate(account.guarantee)
            )
        return all(
            each.guarantee[column] <= claim.left(each)[column] - amount
            for each in account.line
            if each not in claim.account.line
            for column, amount in request
        )

    def _borrows(
        self, account: queue_usage.QueueUsage, request: queue_usage.Request, claim: "_Claim"
    ) -> bool:
        """Whether the queue has more than it deserves of what the pod holds.

        A pod that holds nothing of what its queue deserves is borrowed as a whole. Volcano's may
        go for any of its resources; here also for one that the claimant asks for.
        """
        has, deserved = claim.left(account), account.deserved
        columns = [column for column, _ in request]
        if not self._owns(account, request):
            return True
        above = {column for column in columns if has[column] > deserved[column]}
        counted = account.named & above
        if self._session.as_volcano:
            return bool(counted - {self._pods})
        lent = {column for column in columns if column not in account.named or column in above}
        return bool(counted) and not lent.isdisjoint(claim.columns)

    def _owns(self, account: queue_usage.QueueUsage, request: queue_usage.Request) -> bool:
        """Whether what the queue deserves says anything about what is asked for."""
        if self._session.as_volcano:
            return any(account.deserved[column] for column, _ in request)
        return any(column in account.named for column, _ in request)

    def _in_family(
        self, account: queue_usage.QueueUsage, request: queue_usage.Request, claim: "_Claim"
    ) -> bool:
        """Whether both queues borrow from an ancestor that they share: then none owes the other."""
        return (
            not self._owns(account, request)
            and not self._owns(claim.account, claim.request)
            and any(each in self._elders(claim.account) for each in self._elders(account))
        )

    def _account(self, task: jobs.Task) -> queue_usage.QueueUsage:
        return self._books.accounts[self._session.gangs[task.job].job.queue]

    def _request(self, task: jobs.Task) -> list[tuple[int, int]]:
        """The columns that the task asks for; found once per class."""
        request = self._requests.get(task.pod_class)
        if request is None:
            row: list[int] = self._session.request(task).tolist()
            request = [(column, amount) for column, amount in enumerate(row) if amount]
            self._requests[task.pod_class] = request
        return request


class _Claim:
    """A task that asks for others' room, and what queues have left once its victims are gone."""

    def __init__(
        self, account: queue_usage.QueueUsage, request: queue_usage.Request, pods: int
    ) -> None:
        self.account = account
        self.request = request
        self.columns = {column for column, _ in request if column != pods}
        self._left: dict[str, list[int]] = {}

    def left(self, account: queue_usage.QueueUsage) -> list[int]:
        """What the queue has, less the victims so far."""
        known = self._left.get(account.name)
        if known is None:
            known = self._left[account.name] = list(account.allocated)
        return known

    def take(self, request: queue_usage.Request, owners: Sequence[queue_usage.QueueUsage]) -> None:
        """Count a pod of these queues as gone."""
        for account in owners:
            has = self.left(account)
            for column, amount in request:
                has[column] -= amount


def _occupied(session: contracts.Session) -> Mapping[str, str]:
    """A job of each queue that has one, be it done (Volcano: checkHierarchicalQueue)."""
    found: dict[str, str] = {}
    for gang in session.gangs.values():
        found.setdefault(gang.job.queue, gang.job.id)
    return found
