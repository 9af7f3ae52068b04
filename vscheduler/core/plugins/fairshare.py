"""Fairshare: at equal entitlement, tenants with less past usage come first.

Volcano has no such plugin. Usage is weighed and summed up over time, and decays by half within a
half-life (`model.queues`). The record outlives a restart in an annotation of the Queue. As
with all sort keys, fairshare breaks ties left by plugins before it.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar, TypeGuard

import numpy as np

from vscheduler.core.api.contracts import Argument, Key, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.core.shares import constrained_max_min
from vscheduler.model import durations, queues, resources
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.model.queues import Account, Queue, Usage
from vscheduler.model.resources import ResourceMap

HALF_LIFE_MAX_SECONDS = 100 * 365 * 86400.0

WEIGHT_MAX = 1e6

GIBIBYTE = 2**30

WEIGHTS: Mapping[str, float] = {
    resources.CPU: 1.0,
    resources.MEMORY: 0.25,
    resources.PODS: 0.0,
    "ephemeral-storage": 0.0,
}
"""The default weight of one unit (a core, a GiB). Huge pages count nothing, and one unit of any
other resource, such as a device, counts 1."""

HUGE_PAGES = "hugepages-"


def half_life(text: str) -> float:
    """Parse a half-life into seconds; raise ValueError if invalid or above a hundred years."""
    found = durations.positive(text)
    if found > HALF_LIFE_MAX_SECONDS:
        raise ValueError(f"{text!r} is more than a hundred years")
    return found


def weights(given: Mapping[object, object]) -> dict[str, float]:
    """Return weights by resource; raise ValueError for an invalid name or weight."""
    found = {}
    for name, weight in given.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"{name!r} is no name of a resource")
        if not _is_number(weight) or not 0 <= weight <= WEIGHT_MAX:
            raise ValueError(f"{name} must be a number up to {WEIGHT_MAX:.0f}, not {weight!r}")
        found[name] = float(weight)
    return found


class Floor:
    """How far a queue is below its guarantee, and its pending requests, by resource."""

    __slots__ = ("missing", "wanted")

    def __init__(self, missing: dict[str, int]) -> None:
        self.missing = missing
        self.wanted = dict.fromkeys(missing, 0)

    def move(self, amounts: ResourceMap, step: int) -> None:
        """Add allocated amounts, or subtract them if `step` is -1."""
        for name in self.missing.keys() & amounts.keys():
            self.missing[name] -= step * amounts[name]

    def ask(self, amounts: ResourceMap, step: int) -> None:
        """Add requested amounts, or subtract them if `step` is -1."""
        for name in self.missing.keys() & amounts.keys():
            self.wanted[name] += step * amounts[name]

    @property
    def broken(self) -> bool:
        """Whether the queue is below its guarantee in any resource with a pending request."""
        return any(lack > 0 and self.wanted[name] > 0 for name, lack in self.missing.items())


class FairShare(Plugin):
    """Orders by past usage, least first.

    Queues are compared by usage over weight, and namespaces within a queue by usage.
    """

    name = "fairshare"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "fairshare.halfLife": Argument(str, "168h", parse=half_life),
        "fairshare.weights": Argument(dict, {}, parse=weights),
    }

    def open(self, session: Session) -> None:
        """Read the arguments. Usage is computed when asked for."""
        self._session = session
        self._half_life = self.seconds("fairshare.halfLife")
        self._units = self._weighed(session.space.names)
        self._used: dict[str, float] = {}
        self._used_within: dict[tuple[str, str], float] = {}
        self._floors: dict[str, Floor] = {}

    def start(self) -> None:
        """Compute how far queues are below their guarantees, as far as guarantees can be kept."""
        session = self._session
        busy = session.demands.queues
        names = sorted(name for name in busy if session.queues[name].guarantee)
        rows = [session.space.present(session.queues[name].guarantee) for name in names]
        kept = constrained_max_min.kept_guarantees(
            session.total.astype(np.float64),
            np.array([session.queues[name].weight for name in names], dtype=np.float64),
            np.array(rows, dtype=np.float64).reshape(len(names), session.space.size),
        )
        for name, row in zip(names, kept.tolist(), strict=True):
            due = zip(session.space.names, row, strict=True)
            self._floors[name] = Floor({each: int(amount) for each, amount in due if amount})
            self._floors[name].move(session.snapshot.used_by_other_schedulers.get(name, {}), 1)
        for state in session.job_states.values() if self._floors else ():
            floor = self._floors.get(state.job.queue)
            if floor is not None:
                floor.move(state.job.allocated, 1)
                floor.ask(state.job.pending, 1)

    def queue_key(self, queue: Queue) -> Key:
        """Return queues below their guarantee first, then the smaller usage over weight."""
        floor = self._floors.get(queue.name)
        if queue.name not in self._used:
            used = sum(self._now(record.queue, record) for record in self._records(queue))
            self._used[queue.name] = used / queue.weight
        return (0.0 if floor is not None and floor.broken else 1.0, self._used[queue.name])

    @depends_on(On.JOB | On.TIME)
    def job_key(self, state: JobState) -> Key:
        """Return the usage of the job's namespace within the queue."""
        place = state.job.queue, state.job.namespace
        if place not in self._used_within:
            self._used_within[place] = sum(
                self._now(record.namespaces[state.job.namespace], record)
                for record in self._records(self._session.queues[state.job.queue])
                if state.job.namespace in record.namespaces
            )
        return self._used_within[place]

    def on_allocate(self, task: Task) -> None:
        """Count the task towards the queue's guarantee, whether allocated or only reserved."""
        self._move(task, 1)

    def on_deallocate(self, task: Task) -> None:
        """Stop counting the task."""
        self._move(task, -1)

    def usages(self) -> Mapping[str, Usage]:
        """Return the record of each queue after this cycle's binds and evictions.

        Reserved resources don't count.
        """
        held: defaultdict[str, defaultdict[str, list[int]]]
        held = defaultdict(lambda: defaultdict(lambda: [0] * len(self._units)))
        for state in self._session.job_states.values():
            if state.job.allocated:
                self._add(held[state.job.queue][state.job.namespace], state.job.allocated, 1)
        moved = [(bind.task, 1) for bind in self._session.binds]
        moved += [(evict.task, -1) for evict in self._session.evicts.values()]
        for task, step in moved:
            job = self._session.job_states[task.job].job
            self._add(held[job.queue][job.namespace], task.pod_class.counted, step)
        found = {}
        for name, queue in self._session.queues.items():
            rates = {each: self._rate(amounts) for each, amounts in held[name].items()}
            total = self._rate([sum(column) for column in zip(*held[name].values(), strict=True)])
            used = queues.updated_usage(
                self._record(queue),
                {each: rate for each, rate in rates.items() if rate > 0},
                total,
                self._session.snapshot.now,
                self._half_life,
            )
            if used is not None:
                found[name] = used
        return found

    def _move(self, task: Task, step: int) -> None:
        """Count a task towards the queue's guarantee (1), or stop counting (-1)."""
        floor = self._floors.get(self._session.job_states[task.job].job.queue)
        if floor is not None:
            floor.move(task.pod_class.counted, step)
            if task.status is TaskStatus.PENDING:
                floor.ask(task.pod_class.counted, -step)

    def _record(self, queue: Queue) -> Usage | None:
        """Return our own record: from the last cycle, or else from the Queue's annotation."""
        known = self._session.snapshot.carried.past_usage.get(queue.name)
        return queue.past_usage.get(queues.OURS) if known is None else known

    def _records(self, queue: Queue) -> list[Usage]:
        """Return our own record, and records kept by other schedulers for this queue."""
        own = self._record(queue)
        others = [each for name, each in sorted(queue.past_usage.items()) if name != queues.OURS]
        return others if own is None else [own, *others]

    def _now(self, account: Account, record: Usage) -> float:
        """Return the usage in an account, decayed until now."""
        seconds = self._session.snapshot.now - record.time
        return queues.decayed(account, seconds, self._half_life)

    def _weighed(self, names: tuple[str, ...]) -> dict[str, float]:
        """Return the weight of each milli of cpu, byte or device, without weights of 0."""
        given = self.argument("fairshare.weights")
        assert isinstance(given, dict)
        found = {}
        for name in names:
            default = 0.0 if name.startswith(HUGE_PAGES) else WEIGHTS.get(name, 1.0)
            if weight := float(given.get(name, default)):
                found[name] = weight / _amounts_per_unit(name)
        return found

    def _add(self, sums: list[int], amounts: ResourceMap, step: int) -> None:
        """Add amounts to sums by column.

        Sums are whole numbers, so the rate doesn't depend on the order of pods.
        """
        for column, name in enumerate(self._units):
            sums[column] += step * amounts.get(name, 0)

    def _rate(self, sums: list[int]) -> float:
        """Return weighted units in use; sums may be empty."""
        return sum(amount * unit for amount, unit in zip(sums, self._units.values(), strict=False))


def _is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a number, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _amounts_per_unit(name: str) -> int:
    """Return how many milli or bytes make up a unit of the resource."""
    if name == resources.CPU:
        return 1000
    in_bytes = name in (resources.MEMORY, "ephemeral-storage") or name.startswith(HUGE_PAGES)
    return GIBIBYTE if in_bytes else 1
