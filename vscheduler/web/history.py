"""What the scheduler decided recently, and the shares of queues over the last hour.

Only the daemon's main loop calls these methods. `frozen` returns values for any thread.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from vscheduler.mirror.wording import phrases, plain_text, sentences
from vscheduler.model.decisions import Bind, CycleResult, Evict, QueueFigures, RefusedBind
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import Snapshot

DECISIONS_MAX = 500
"""How many decisions are remembered."""

TOGETHER_SECONDS = 2.0
"""Binds of a job within this time are one decision."""

HOUR_SECONDS = 3600.0
SAMPLE_SECONDS = 10.0
"""How often shares are noted, whether cycles run or not."""

SAMPLES_MAX = round(HOUR_SECONDS / SAMPLE_SECONDS)
QUEUES_MAX = 200
"""How many queues a sample has: those with the largest shares."""

MESSAGE_MAX = 600
"""Characters of a decision: the API server's messages may be of any length."""


class DecisionKind(StrEnum):
    """What was decided."""

    BOUND = "bound"
    EVICTED = "evicted"
    ROOM_MADE = "room made"
    """Other pods were evicted so that the job can start."""
    REFUSED = "refused"
    """The API server refused a bind or an eviction."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that was carried out, or refused."""

    time: float
    """Seconds since the epoch."""
    kind: DecisionKind
    job: JobId
    text: str
    """What happened and why, in the words of events."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The shares of queues at a moment: allocated ÷ deserved."""

    time: float
    shares: Mapping[str, float]


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """The last cycle: its input and its result."""

    taken: Snapshot
    result: CycleResult


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is remembered, oldest first."""

    cycle: Cycle | None = None
    """None while this instance doesn't schedule."""
    decisions: tuple[Decision, ...] = ()
    samples: tuple[Sample, ...] = ()


class Observer:
    """Is told what a scheduling loop does. This one doesn't care."""

    def cycle(self, snapshot: Snapshot, result: CycleResult) -> None:
        """A cycle has ended, and its decisions were passed on."""

    def bound(self, bind: Bind, now: float) -> None:
        """A pod was bound."""

    def bind_refused(self, bind: Bind, message: str, now: float) -> None:
        """The API server refused a bind."""

    def evicted(self, evicts: Sequence[Evict], now: float) -> None:
        """Pods were evicted by the same plan."""

    def eviction_refused(self, evict: Evict, message: str, now: float) -> None:
        """The API server refused an eviction, and with it the plan."""

    def forget(self) -> None:
        """Another instance schedules now."""


class Observers(Observer):
    """Passes on what it is told to several observers, in their order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def cycle(self, snapshot: Snapshot, result: CycleResult) -> None:
        """A cycle has ended, and its decisions were passed on."""
        for each in self._observers:
            each.cycle(snapshot, result)

    def bound(self, bind: Bind, now: float) -> None:
        """A pod was bound."""
        for each in self._observers:
            each.bound(bind, now)

    def bind_refused(self, bind: Bind, message: str, now: float) -> None:
        """The API server refused a bind."""
        for each in self._observers:
            each.bind_refused(bind, message, now)

    def evicted(self, evicts: Sequence[Evict], now: float) -> None:
        """Pods were evicted by the same plan."""
        for each in self._observers:
            each.evicted(evicts, now)

    def eviction_refused(self, evict: Evict, message: str, now: float) -> None:
        """The API server refused an eviction, and with it the plan."""
        for each in self._observers:
            each.eviction_refused(evict, message, now)

    def forget(self) -> None:
        """Another instance schedules now."""
        for each in self._observers:
            each.forget()


class _Binds(msgspec.Struct, kw_only=True):
    """Binds of a job within a short time."""

    time: float
    job: JobId
    named: list[tuple[str, str]] = msgspec.field(default_factory=list)
    count: int = 0

    def frozen(self) -> Decision:
        """Return the binds as a decision."""
        text = phrases.bound(self.named, self.count)
        return Decision(time=self.time, kind=DecisionKind.BOUND, job=self.job, text=_shown(text))


class History(Observer):
    """Remembers the last decisions, and the shares of the last hour. Its size is bounded."""

    def __init__(self) -> None:
        self._decisions: deque[Decision | _Binds] = deque(maxlen=DECISIONS_MAX)
        self._binds: dict[JobId, _Binds] = {}
        """The last binds of jobs that may get more at once."""
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._cycle: Cycle | None = None
        self.version = 0
        """Grows with each cycle and decision."""

    @property
    def leads(self) -> bool:
        """Whether this instance runs cycles, as far as is known."""
        return self._cycle is not None

    def frozen(self, now: float) -> Past:
        """Return all that is remembered, as values for any thread."""
        self._sample(now)
        return Past(
            cycle=self._cycle,
            decisions=tuple(
                decision if isinstance(decision, Decision) else decision.frozen()
                for decision in self._decisions
            ),
            samples=tuple(self._samples),
        )

    def cycle(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Keep the last cycle."""
        self._sample(snapshot.now)
        if self._cycle is None:  # what was before isn't known
            self._samples.append(Sample(time=snapshot.now, shares=shares(result.queues)))
        self._cycle = Cycle(taken=snapshot, result=result)
        self.version += 1

    def _sample(self, now: float) -> None:
        """Note the shares of the time that has passed: those of the last cycle, because while
        nothing changes no cycle runs.
        """
        if self._cycle is None:
            return
        last = self._samples[-1].time
        passed = int((now - last) / SAMPLE_SECONDS)
        if passed <= 0:
            return
        found = shares(self._cycle.result.queues)
        for at in range(max(1, passed - SAMPLES_MAX + 1), passed + 1):
            self._samples.append(Sample(time=last + at * SAMPLE_SECONDS, shares=found))

    def bound(self, bind: Bind, now: float) -> None:
        """Note a bind, together with others of the same job at the same time."""
        self.version += 1
        job = bind.task.job
        binds = self._binds.get(job)
        if binds is None or now > binds.time + TOGETHER_SECONDS:
            if len(self._binds) >= DECISIONS_MAX:
                self._binds.clear()
            binds = self._binds[job] = _Binds(time=now, job=job)
            self._decisions.append(binds)
        binds.count += 1
        if len(binds.named) < phrases.BINDS_MAX:
            binds.named.append((bind.task.name, bind.node))

    def bind_refused(self, bind: Bind, message: str, now: float) -> None:
        """Note a refused bind."""
        refused = RefusedBind(task=bind.task, node=bind.node, message=message)
        self._note(DecisionKind.REFUSED, bind.task.job, sentences.bind_refused(refused), now)

    def evicted(self, evicts: Sequence[Evict], now: float) -> None:
        """Note evictions by the jobs that lost pods, and by the job that they were made for."""
        by_job: dict[JobId, list[Evict]] = {}
        for evict in evicts:
            by_job.setdefault(evict.task.job, []).append(evict)
        for job, lost in by_job.items():
            self._note(DecisionKind.EVICTED, job, sentences.lost(lost), now)
        beneficiary = evicts[0].beneficiary if evicts else None
        if beneficiary is not None:
            self._note(DecisionKind.ROOM_MADE, beneficiary, sentences.lost(evicts), now)

    def eviction_refused(self, evict: Evict, message: str, now: float) -> None:
        """Note a refused eviction: nothing of its plan was carried out after it."""
        said = f": {message}" if message else ""
        text = f"the API server refused to evict pod {evict.task.key} from {evict.node}{said}"
        self._note(DecisionKind.REFUSED, evict.task.job, text, now)

    def forget(self) -> None:
        """Show nothing of the last cycle any more, because another instance runs them now."""
        self._cycle = None
        self._binds.clear()
        self.version += 1

    def _note(self, kind: DecisionKind, job: JobId, text: str, now: float) -> None:
        self._decisions.append(Decision(time=now, kind=kind, job=job, text=_shown(text)))
        self.version += 1


def shares(queues: Sequence[QueueFigures]) -> dict[str, float]:
    """Return the share of each queue that has or wants anything, by name."""
    found = {}
    for queue in queues:
        if queue.entitlement is not None:
            share = ratio(queue.allocated, queue.request, queue.entitlement.deserved)
            if share is not None:
                found[queue.name] = share
    if len(found) <= QUEUES_MAX:
        return found
    largest = sorted(found, key=lambda name: (-found[name], name))[:QUEUES_MAX]
    return {name: found[name] for name in sorted(largest)}


def ratio(
    has: Mapping[str, float], wants: Mapping[str, float], deserved: Mapping[str, float]
) -> float | None:
    """Return the largest part of what it deserves that a queue has, of any resource.

    None for a queue that has and wants nothing, and for one that deserves nothing of what it has.
    """
    parts = [has.get(name, 0.0) / whole for name, whole in deserved.items() if whole > 0]
    if not parts or not any(wants.values()):
        return None
    largest = max(parts)
    return None if not largest and any(has.values()) else largest


def _shown(text: str) -> str:
    return plain_text.shown(text[:MESSAGE_MAX])
