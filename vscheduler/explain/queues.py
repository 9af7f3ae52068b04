"""Changes of the job's queue and its ancestors: that there is one for the job and that it is open,
weight, deserved amounts, capability; and of the quotas of its namespace.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from vscheduler.explain import pods
from vscheduler.explain.changes import (
    Change,
    CreateQueue,
    OpenQueues,
    OtherParent,
    OtherQueue,
    QueueAmounts,
    QueueField,
    QueueNamespace,
    QueueWeight,
    QuotaAmounts,
    Remedy,
)
from vscheduler.explain.search import Search
from vscheduler.mirror.decode import wire
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.translate import translation
from vscheduler.mirror.wording import gang_sentences
from vscheduler.model import queues, resources
from vscheduler.model.decisions import Reason, ReasonCode
from vscheduler.model.jobs import Job
from vscheduler.model.queues import ProblemCode, QueueProblem

WEIGHT_MAX = 4096
"""How much weight is added at most."""

CAPACITY = "capacity"
"""The plugin that reads spec.deserved."""


OTHERS_MAX = 8
"""So many other queues are tried, those with a similar name first."""

ELSEWHERE = frozenset(
    {
        ReasonCode.QUEUE_MISSING,
        ReasonCode.QUEUE_CLOSED,
        ReasonCode.QUEUE_BARRED,
        ReasonCode.NOT_LEAF,
    }
)
"""Reasons that go with the queue."""


def usable(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield what lets the job's queue have jobs, and another queue that has room for it."""
    remedies = map(search.one, opening(search, job))
    yield from (remedy for remedy in remedies if remedy is not None)
    reason = search.reason
    if reason is not None and reason.code in ELSEWHERE:
        others = _others(search, job, reason)[:OTHERS_MAX]
        field = gang_sentences.queue_field(reason)
        named = (OtherQueue(before=job.queue, after=name, field=field) for name in others)
        remedy = search.first_that_works(*named)
        if remedy is not None:
            yield remedy


def opening(search: Search, job: Job) -> Iterator[Change]:
    """Yield what stands between the job and its queue."""
    known, reason = search.trials.snapshot.queues, search.reason
    queue = known.get(job.queue)
    if queue is None:
        yield CreateQueue(queue=job.queue)
    closed = [each.name for each in _line(search, job) if _closed_itself(search, each)]
    if closed:
        yield OpenQueues(queues=tuple(closed))
    if queue is not None and not queue.takes(job.namespace):
        yield QueueNamespace(queue=job.queue, namespace=job.namespace)
    if reason is not None and reason.problem is not None:
        yield from _mended(known, reason.problem)


def _mended(known: Mapping[str, queues.Queue], problem: QueueProblem) -> Iterator[Change]:
    """Yield what puts the tree of queues right."""
    parent = partial(OtherParent, after=queues.ROOT)
    if problem.code is ProblemCode.PARENT_MISSING:
        yield CreateQueue(queue=problem.subjects[0])
        yield parent(queue=problem.queue, before=problem.subjects[0])
    elif problem.code is ProblemCode.CYCLE:
        for name in sorted(problem.subjects):
            yield parent(queue=name, before=known[name].parent)


def _closed_itself(search: Search, queue: queues.Queue) -> bool:
    """Whether the queue is closed, and not only because an ancestor is."""
    written = search.trials.objects.one(Kind.QUEUE, queue.name, wire.Queue)
    return not queue.open and not translation.closed_by_parent(written)


def _others(search: Search, job: Job, reason: Reason) -> list[str]:
    """Return the other queues that may have the job: leaf queues that are open and take jobs of its
    namespace; those below its queue first, then by similarity of names.
    """
    known = search.trials.snapshot.queues
    tree = queues.tree(known, {})
    fit = [
        name
        for name, queue in known.items()
        if name not in {job.queue, queues.ROOT}
        and tree.leaf(name)
        and name not in tree.problems
        and queue.open
        and queue.takes(job.namespace)
    ]
    near = {
        name: difflib.SequenceMatcher(None, job.queue, name, autojunk=False).ratio() for name in fit
    }
    return sorted(fit, key=lambda name: (name not in reason.leaves, -near[name], name))


def quotas(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the smallest amounts of each ResourceQuota of the namespace with which the job
    starts.
    """
    most: dict[str, int] = {}
    for each in search.trials.snapshot.jobs:
        if each.namespace == job.namespace:
            most = resources.add(most, dict(each.min_resources or {}))
    for quota in search.trials.snapshot.quotas:
        names = tuple(name for name in sorted(job.min_resources or {}) if name in quota.hard)
        if quota.namespace != job.namespace or not names:
            continue
        name = f"{quota.namespace}/{quota.name}"
        # With so much, there is room for all that is used now and asked for.
        asked = {name: most[name] + int(quota.used.get(name, 0)) for name in names}
        rows = _Rows(
            names=names,
            before=quota.hard,
            asked=asked,
            change=partial(QuotaAmounts, quota=name),
        )
        remedy = search.smallest_row(rows.of, rows.most)
        if remedy is not None:
            yield remedy


def weights(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the lowest weight of the queue, or of an ancestor, with which the job starts."""
    for queue in _line(search, job):
        remedy = search.smallest(partial(_heavier, queue), WEIGHT_MAX)
        if remedy is not None:
            yield remedy


def _heavier(queue: queues.Queue, size: int) -> Change:
    before = queue.weight
    return QueueWeight(queue=queue.name, before=before, after=before + size)


def amounts(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the smallest deserved amounts and capabilities with which the job starts."""
    line = _line(search, job)
    root = search.trials.snapshot.queues.get(queues.ROOT)
    for queue in (*line, *([root] if root and root.capability else ())):
        if queue.capability:
            yield from _raised(search, queue, QueueField.CAPABILITY)
        if queue is not root and search.trials.policy.has_plugin(CAPACITY):
            yield from _raised(search, queue, QueueField.DESERVED)


def _raised(search: Search, queue: queues.Queue, field: QueueField) -> Iterator[Remedy]:
    """Yield amounts that suffice, of which none can be lower by a step.

    First all are as large as can matter; then each is lowered in turn.
    """
    asked = _asked(search, queue)
    names = tuple(
        name for name in asked if field is QueueField.DESERVED or name in queue.capability
    )
    if not names:
        return
    before = getattr(queue, field)
    change = partial(QueueAmounts, queue=queue.name, field=field)
    rows = _Rows(names=names, before=before, asked=asked, change=change)
    remedy = search.smallest_row(rows.of, rows.most)
    if remedy is not None:
        yield remedy


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts on a grid, as numbers of steps by resource."""

    names: tuple[str, ...]
    before: Mapping[str, int]
    asked: Mapping[str, int]
    """By how much the amounts can matter to be larger."""
    change: Callable[..., Change]
    """Makes the change from `before`, `after` and `steps`."""

    @property
    def most(self) -> tuple[int, ...]:
        """The largest number of steps that can matter, by resource."""
        return tuple(-(-self.asked[name] // self._step(name)) for name in self.names)

    def of(self, sizes: Sequence[int]) -> Change:
        """Return the change by so many steps; resources that don't change are left out."""
        raised = [(name, size) for name, size in zip(self.names, sizes, strict=True) if size]
        return self.change(
            before=tuple((name, self._before(name)) for name, _ in raised),
            after=tuple(
                (name, self._before(name) + size * self._step(name)) for name, size in raised
            ),
            steps=tuple((name, self._step(name)) for name, _ in raised),
        )

    def _step(self, name: str) -> int:
        return pods.step(name, self.asked[name])

    def _before(self, name: str) -> int:
        return int(self.before.get(name, 0))


def _asked(search: Search, queue: queues.Queue) -> dict[str, int]:
    """Return all that jobs at or below a queue hold and wait for, by resource."""
    total: dict[str, int] = {}
    for job in search.trials.snapshot.jobs:
        if queue.name in {each.name for each in _line(search, job)}:
            for amounts in (job.allocated, job.pending, job.min_resources or {}):
                total = resources.add(total, {name: int(each) for name, each in amounts.items()})
    return {name: each for name, each in sorted(total.items()) if each}


def _line(search: Search, job: Job) -> list[queues.Queue]:
    """Return the queue of a job and its ancestors, root aside."""
    known, line = search.trials.snapshot.queues, []
    name = job.queue
    while name in known and name != queues.ROOT and known[name] not in line:
        line.append(known[name])
        name = known[name].parent
    return line
