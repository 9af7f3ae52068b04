"""When the next cycle is due.

A change is let rest for a moment, so that the pods of one job are seen together: for
`debounce_seconds` where a gang isn't whole yet, else for `quick_seconds`. A change that only goes
on with what was decided, say a bound pod that starts, is let rest for `step_seconds`: such a change
helps no pod that waits. A cycle that its budget cut short is followed by the next cycle at once.

Other cycles are followed by a rest in proportion to their cost. After a cycle that bound pods the
rest is twice the cost, at most the debounce; after a cycle that bound nothing four times the cost,
at most the schedule period: a busy but full cluster costs a fifth of a core at most, and a new job
on a quiet cluster waits for the debounce only. The cost of namespaces that got nothing from a cycle
that bound other pods is rested four times, too, while only these namespaces have news. No namespace
waits because of the cost of others: a pod of a namespace that has cost much less than another
namespace ends the rest as soon as the rest has lasted half as long as the cycle did. Without any
change, and with nothing due, there is no cycle.

The cost is processor time. The time that a cycle took says as much about other threads: where the
event loop was late, a rest of four times that time would make every pod wait even longer.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from vscheduler import backoff
from vscheduler.mirror.index import entries

NOBODY: Mapping[str, int] = {}
"""The costs of a cycle that charged no namespace."""

ANYBODY = ""
"""In place of a namespace: a change of anything but a PodGroup or a pod without a node."""


UNITS_PER_SECOND = 1_000_000
"""core.cycle's units of work are about microseconds."""


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
        """News came of a namespace that had little part in what the last cycle cost."""
        self._bound = False
        """Whether the last cycle bound pods."""
        self._costs: Mapping[str, int] = {}
        self._news: set[str] = set()
        """Namespaces with news since the last cycle began; with ANYBODY."""
        self._first = True

    def changed(
        self, change: entries.Change = entries.Change.OTHER, news: Collection[str] = (ANYBODY,)
    ) -> None:
        """The cluster changed in a way that can change a decision.

        news: the namespaces of PodGroups and of pods without a node that came or changed, and
        ANYBODY for every other change.
        """
        if change is entries.Change.OTHER:
            self._changed.set()
            self._news.update(news)
            self._judge(news)
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
                await self._rest()  # the first pod of a gang is here: the others come

    def _judge(self, news: Iterable[str]) -> None:
        """End the rest early if any of these namespaces had little part in the last cycle's cost.

        ANYBODY does so only after a cycle that bound pods: what a pod left free there can be used.
        """
        most = max(self._costs.values(), default=0)
        part = self._pace.guiltless_part
        for name in news:
            if self._bound if name == ANYBODY else self._costs.get(name, 0) * part < most:
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
        self._news.clear()
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
        """A cycle that cost this much processor time has ended; the next cycle goes on where an
        unfinished one stopped.

        costs: units of work by namespace, without the namespaces of which pods were bound.
        """
        pace, now = self._pace, time.monotonic()
        self._first = False
        self._at_once = not finished
        self._wake_at = wake_at
        self._bound = bound
        in_vain = min(seconds, sum(costs.values()) / UNITS_PER_SECOND) if bound else seconds
        full = min(pace.period_seconds, pace.rest_factor * in_vain)
        short = min(pace.debounce_seconds, pace.busy_factor * seconds) if bound else full
        self._not_before = now + max(full, short)
        self._guiltless_not_before = now + min(short, pace.guiltless_factor * seconds)
        self._costs = costs
        self._guiltless.clear()
        self._judge(self._news)

    def fail(self, seconds: float) -> None:
        """A cycle came to nothing: the next one, from the start, after this time."""
        self._at_once = self._bound = False
        self._not_before = self._guiltless_not_before = time.monotonic() + seconds
        self._changed.set()
