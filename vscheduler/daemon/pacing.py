"""When the next cycle is due.

A change is let rest for a moment, so that the pods of one job are seen together: for
`debounce_seconds` where a gang isn't whole yet, else for `quick_seconds`. What only goes on as it
was decided, say a bound pod that starts, is let rest for `step_seconds`: nobody who waits is helped
by it. A cycle that its budget cut short is followed by the next at once; one that bound something,
by a rest of twice its cost, at most the debounce; one that bound nothing, by a rest of four times
its cost, at most the schedule period: a cluster that is busy but full costs a fifth of a core at
most, and a new job on a quiet one waits for the debounce only. Nor is anybody to wait because of
what others cost: a pod of a namespace that has cost much less than another one ends that rest when
it has lasted half as long as the cycle did. Nothing changed and nothing due: no cycle.

The cost is processor time. How long a cycle took says as much about others: where the event loop
was late for whatever it had to read, a rest of four times that would make all wait for longer yet.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from vscheduler import backoff
from vscheduler.mirror.index import entries

NOBODY: Mapping[str, int] = {}
"""On whose account a cycle cost something that bound pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often to think, and for how long. Seconds, and core.cycle's units of work."""

    period_seconds: float = 1.0
    debounce_seconds: float = 0.05
    quick_seconds: float = 0.005
    step_seconds: float = 0.3
    rest_factor: float = 4.0
    busy_factor: float = 2.0
    """The same after a cycle that bound something."""
    guiltless_factor: float = 0.5
    """The same for those who had little part in what a cycle cost that bound nothing."""
    guiltless_part: int = 4
    """They have cost so many times less than the namespace that cost the most, or still less."""
    budget: int | None = 200_000
    """About 200 ms: the event loop, which shares the interpreter with a cycle, isn't starved."""
    backlog_max: int = 4000
    """Binds that may wait for a connection before the next cycle starts."""
    tick_seconds: float = 1.0
    """How often what was sent and never confirmed, and pauses that are over, are looked for."""
    retry_seconds: float = 1.0
    """The first pause: of a pod after its second failed bind, a job after its second refused plan,
    a pod that may not be evicted, and the loop after a dropped cycle; doubled each time."""
    retry_max_seconds: float = 20.0
    """Below the Mirror's assume_seconds, which would end the pause of a bind."""
    doubt_seconds: float = 0.05
    """How often it is looked whether we may commit again."""

    def growth(self, *, free: int = 0) -> backoff.Growth:
        """The pauses after so many failures that cost nothing."""
        return backoff.Growth(
            first_seconds=self.retry_seconds, longest_seconds=self.retry_max_seconds, free=free
        )


class Pacing:
    """Of one scheduling loop; all in one event loop."""

    def __init__(self, pace: Pace, more_to_come: Callable[[], bool]) -> None:
        """`more_to_come` says whether a gang that came or changed isn't whole yet."""
        self._pace = pace
        self._more_to_come = more_to_come
        self._changed = asyncio.Event()
        self._step: asyncio.TimerHandle | None = None
        """Counts as a change when it is due."""
        self._at_once = False
        self._wake_at: float | None = None
        self._not_before = self._guiltless_not_before = 0.0
        self._guiltless = asyncio.Event()
        """Pods wait of a namespace that had little part in what the last cycle cost."""
        self._costs: Mapping[str, int] = {}
        self._waiting: set[str] = set()
        """Namespaces of which pods came since the last cycle began."""
        self._first = True

    def changed(
        self, change: entries.Change = entries.Change.OTHER, waiting: Collection[str] = ()
    ) -> None:
        """Something is another than the last cycle has seen it; waiting: the namespaces of which
        pods have come that wait.
        """
        if change is entries.Change.OTHER:
            self._changed.set()
            self._waiting.update(waiting)
            self._judge(waiting)
        elif change is entries.Change.STEP and self._step is None:
            loop = asyncio.get_running_loop()
            self._step = loop.call_later(self._pace.step_seconds, self._changed.set)

    async def wait(self) -> None:
        """Until a cycle is due, and then a moment for more to change."""
        if self._at_once:
            return
        due = None if self._wake_at is None else max(0.0, self._wake_at - time.time())
        with suppress(TimeoutError):
            async with asyncio.timeout(due):
                await self._changed.wait()
        if not self._first:  # then lists have shown it all
            await self._rest()
        await asyncio.sleep(max(0.0, self._guiltless_not_before - time.monotonic()))
        left = self._not_before - time.monotonic()
        if left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._guiltless.wait()

    def _judge(self, waiting: Iterable[str]) -> None:
        """Whether any of these had little part in what the last cycle cost."""
        most = max(self._costs.values(), default=0)
        part = self._pace.guiltless_part
        if any(self._costs.get(name, 0) * part < most for name in waiting):
            self._guiltless.set()

    async def _rest(self) -> None:
        """Until nothing more is expected, at least for one moment and at most for the debounce."""
        latest = time.monotonic() + self._pace.debounce_seconds
        await asyncio.sleep(self._pace.quick_seconds)
        while self._more_to_come() and time.monotonic() < latest:  # noqa: ASYNC110 - or it is time
            await asyncio.sleep(self._pace.quick_seconds)

    def begin(self) -> None:
        """A cycle begins, and sees all that has changed.

        What changes while cycles that are cut short follow each other stays noted: jobs that have
        had their turn already aren't looked at again before the next round.
        """
        if self._at_once:
            return
        self._changed.clear()
        self._guiltless.clear()
        self._waiting.clear()
        if self._step is not None:
            self._step.cancel()
            self._step = None

    def end(
        self,
        *,
        seconds: float,
        bound: bool,
        finished: bool,
        wake_at: float | None,
        costs: Mapping[str, int] = NOBODY,
    ) -> None:
        """A cycle that cost so much processor time has ended; where it isn't finished the next one
        goes on. costs: on whose account, by namespace.
        """
        pace = self._pace
        self._first = False
        self._at_once = not finished
        self._wake_at = wake_at
        if bound:
            rest = min(pace.debounce_seconds, pace.busy_factor * seconds)
        else:
            rest = min(pace.period_seconds, pace.rest_factor * seconds)
        now = time.monotonic()
        self._not_before = now + rest
        self._guiltless_not_before = now + min(rest, pace.guiltless_factor * seconds)
        self._costs = costs
        self._guiltless.clear()
        self._judge(self._waiting)

    def fail(self, seconds: float) -> None:
        """A cycle came to nothing: the next one, from the start, after this time."""
        self._at_once = False
        self._not_before = self._guiltless_not_before = time.monotonic() + seconds
        self._changed.set()
