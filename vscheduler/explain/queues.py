"""Changes of the job's queue and its ancestors: weight, deserved amounts, capability."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from vscheduler.core.model import jobs, queues, resources
from vscheduler.explain import changes, pods, search

WEIGHT_MAX = 4096
"""How much weight is added at most."""

CAPACITY = "capacity"
"""The plugin that reads spec.deserved."""


def weights(found: search.Search, job: jobs.Job) -> Iterator[changes.Remedy]:
    """Yield the lowest weight of the queue, or of an ancestor, with which the job starts."""
    for queue in _line(found, job):
        remedy = found.smallest(partial(_heavier, queue), WEIGHT_MAX)
        if remedy is not None:
            yield remedy


def _heavier(queue: queues.Queue, size: int) -> changes.Change:
    before = queue.weight
    return changes.QueueWeight(queue=queue.name, before=before, after=before + size)


def amounts(found: search.Search, job: jobs.Job) -> Iterator[changes.Remedy]:
    """Yield the smallest deserved amounts and capabilities with which the job starts."""
    for queue in _line(found, job):
        if queue.capability:
            yield from _raised(found, queue, changes.QueueField.CAPABILITY)
        if found.trials.policy.has_plugin(CAPACITY):
            yield from _raised(found, queue, changes.QueueField.DESERVED)


def _raised(
    found: search.Search, queue: queues.Queue, field: changes.QueueField
) -> Iterator[changes.Remedy]:
    """Yield amounts that suffice, of which none can be lower by a step.

    First all are as large as can matter; then each is lowered in turn.
    """
    asked = _asked(found, queue)
    names = tuple(
        name for name in asked if field is changes.QueueField.DESERVED or queue.capability.get(name)
    )
    if not names:
        return
    rows = _Rows(queue=queue, field=field, names=names, asked=asked)
    remedy = found.smallest_row(rows.of, rows.most)
    if remedy is not None:
        yield remedy


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of a queue on a grid, as numbers of steps by resource."""

    queue: queues.Queue
    field: changes.QueueField
    names: tuple[str, ...]
    asked: Mapping[str, int]

    @property
    def most(self) -> tuple[int, ...]:
        """The largest number of steps that can matter, by resource."""
        return tuple(-(-self.asked[name] // self._step(name)) for name in self.names)

    def of(self, sizes: Sequence[int]) -> changes.Change:
        """Return the change by so many steps; resources that don't change are left out."""
        raised = [(name, size) for name, size in zip(self.names, sizes, strict=True) if size]
        return changes.QueueAmounts(
            queue=self.queue.name,
            field=self.field,
            before=tuple((name, self._before(name)) for name, _ in raised),
            after=tuple(
                (name, self._before(name) + size * self._step(name)) for name, size in raised
            ),
            steps=tuple((name, self._step(name)) for name, _ in raised),
        )

    def _step(self, name: str) -> int:
        return pods.step(name, self.asked[name])

    def _before(self, name: str) -> int:
        amounts = self.queue.deserved
        if self.field is changes.QueueField.CAPABILITY:
            amounts = self.queue.capability
        return int(amounts.get(name, 0))


def _asked(found: search.Search, queue: queues.Queue) -> dict[str, int]:
    """Return all that jobs at or below a queue hold and wait for, by resource."""
    total: dict[str, int] = {}
    for job in found.trials.snapshot.jobs:
        if queue.name in {each.name for each in _line(found, job)}:
            for amounts in (job.allocated, job.pending, job.min_resources or {}):
                total = resources.add(total, {name: int(each) for name, each in amounts.items()})
    return {name: each for name, each in sorted(total.items()) if each}


def _line(found: search.Search, job: jobs.Job) -> list[queues.Queue]:
    """Return the queue of a job and its ancestors, root aside."""
    known, line = found.trials.snapshot.queues, []
    name = job.queue
    while name in known and name != queues.ROOT and known[name] not in line:
        line.append(known[name])
        name = known[name].parent
    return line
