"""Pacing: when the next cycle starts.

After a change, the next cycle starts at once, unless a gang is incomplete: then it waits, up to
`debounce_seconds`, so that all pods of the gang are seen together. A change that only continues an
earlier decision, such as the start of a bound pod, waits for `step_seconds`, because the change
helps no waiting pod. After a cycle that ran out of budget, the next cycle starts at once.

Any other cycle is followed by a rest in proportion to its cost. After a cycle that bound pods, the
rest is half the cost, at most the debounce. After a cycle that bound nothing, the rest is four
times the cost, at most the schedule period. A busy but full cluster therefore costs a fifth of a
core at most, and a new job on a quiet cluster waits for the debounce only. When a cycle binds pods
of some namespaces and nothing for others, the cost of the others is rested four times, too, as long
as only the others have news.

No namespace waits because of the cost of others. News of a namespace with a much smaller cost than
the most expensive namespace's ends the rest, as soon as the rest has lasted half as long as the
cycle did. Without any change, and with nothing due, there is no cycle.

The cost is CPU time. The duration of a cycle depends on other threads, too: after a delay of the
event loop, a rest of four times the duration would make every pod wait even longer.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import msgspec

from vscheduler.backoff import Growth
from vscheduler.mirror.index.entries import Change

NO_COSTS: Mapping[str, int] = {}
"""The costs of a cycle that charged no namespace."""

ANYBODY = ""
"""Stands for a change of anything but a PodGroup or a pod without a node, in place of a
namespace."""


GATHERINGS_MAX = 3
"""How often the moment for the rest of a gang begins anew at most."""

UNITS_PER_SECOND = 1_000_000
"""A unit of work of core.cycle is about a microsecond."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of pacing. Times are in seconds, the budget is in units of work of core.cycle."""

    period_seconds: float = 1.0
    debounce_seconds: float = 0.05
    quick_seconds: float = 0.005
    step_seconds: float = 0.3
    rest_factor: float = 4.0
    """Length of the rest as a multiple of the cost, after a cycle that bound nothing."""
    short_factor: float = 0.5
    """The same after a cycle that bound pods, and for namespaces with a small part in the cost."""
    guiltless_part: int = 4
    """A namespace has a small part if its cost is less than the highest cost divided by this
    number."""
    budget: int | None = 200_000
    """About 200 ms, so that a cycle does not starve the event loop, which shares the
    interpreter."""
    backlog_max: int = 4000
    """How many binds may be waiting when the next cycle starts."""
    tick_seconds: float = 1.0
    """Interval for finding unconfirmed binds and evictions, and pauses that are over."""
    retry_seconds: float = 1.0
    """The first pause, doubled each time. Pauses apply to a pod after its second failed bind, a job
    after its second refused plan, a pod that may not be evicted, and the loop after a dropped
    cycle."""
    retry_max_seconds: float = 20.0
    """Less than the Mirror's assume_seconds, which would otherwise end the pause of a bind."""
    doubt_seconds: float = 0.05
    """Interval for checking whether commits are permitted again."""

    def growth(self, *, free: int = 0) -> Growth:
        """Return the pauses after failures, where the first `free` failures cause no pause."""
        return Growth(
            first_seconds=self.retry_seconds, longest_seconds=self.retry_max_seconds, free=free
        )


class Pacing:
    """The pacing of a scheduling loop. All methods run in the same event loop."""

    def __init__(self, pace: Pace, more_to_come: Callable[[], bool]) -> None:
        """`more_to_come` returns whether a new or changed gang is incomplete."""
        self._pace = pace
        self._more_to_come = more_to_come
        self._changed = asyncio.Event()
        self._step: asyncio.TimerHandle | None = None
        """Timer that turns a continuing change into a change that starts a cycle."""
        self._at_once = False
        self._wake_at: float | None = None
        self._not_before = self._guiltless_not_before = 0.0
        self._guiltless = asyncio.Event()
        """Set by news of a namespace with a small part in the last cycle's cost."""
        self._came = 0
        """How often news ended a rest early, or would have."""
        self._bound = False
        """Whether the last cycle bound pods."""
        self._costs: Mapping[str, int] = {}
        self._news: set[str] = set()
        """Namespaces with news since the last cycle began, possibly with ANYBODY."""
        self._first = True

    def changed(self, change: Change = Change.OTHER, news: Collection[str] = (ANYBODY,)) -> None:
        """Record a change of the cluster that can change a decision.

        `news` has the namespaces of new or changed PodGroups and pods without a node, and ANYBODY
        for any other change.
        """
        if change is Change.OTHER:
            self._changed.set()
            self._news.update(news)
            self._judge(news)
        elif change is Change.STEP and self._step is None:
            loop = asyncio.get_running_loop()
            self._step = loop.call_later(self._pace.step_seconds, self._changed.set)

    async def wait(self) -> None:
        """Wait until a cycle is due, and then a moment for further changes."""
        if self._at_once:
            return
        due = None if self._wake_at is None else max(0.0, self._wake_at - time.time())
        with suppress(TimeoutError):
            async with asyncio.timeout(due):
                await self._changed.wait()
        if not self._first:  # before the first cycle, the lists have shown everything
            await self._rest()
        await asyncio.sleep(max(0.0, self._guiltless_not_before - time.monotonic()))
        left = self._not_before - time.monotonic()
        if left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._guiltless.wait()
                await self._gather()

    def _judge(self, news: Iterable[str]) -> None:
        """End the rest early if any of these namespaces had a small part in the last cycle's cost.

        ANYBODY ends the rest only after a cycle that bound pods: resources freed by the change can
        then be used.
        """
        most = max(self._costs.values(), default=0)
        part = self._pace.guiltless_part
        for name in news:
            if self._bound if name == ANYBODY else self._costs.get(name, 0) * part < most:
                self._guiltless.set()
                self._came += 1

    async def _gather(self) -> None:
        """Wait for the rest of a gang whose first object has ended a rest.

        A cycle that began without the last pod of the gang would be in vain, and would be followed
        by a rest again. So the moment begins anew, a few times at most, while objects still come.
        """
        for _ in range(GATHERINGS_MAX):
            came = self._came
            await self._rest()
            if came == self._came or not self._more_to_come():
                return

    async def _rest(self) -> None:
        """Wait until no further changes are expected, at most the debounce.

        Changes that the event loop has already received are applied first.
        """
        latest = time.monotonic() + self._pace.debounce_seconds
        await asyncio.sleep(0)
        while self._more_to_come() and time.monotonic() < latest:  # noqa: ASYNC110 - or it is time
            await asyncio.sleep(self._pace.quick_seconds)

    def begin(self) -> None:
        """Record that a cycle begins, which sees all changes so far.

        During a row of unfinished cycles, changes stay recorded: jobs that had their turn are not
        looked at again before the next round.
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
        costs: Mapping[str, int] = NO_COSTS,
    ) -> None:
        """Record the end of a cycle with its CPU time.

        After an unfinished cycle, the next cycle continues. `costs` are units of work by namespace,
        without namespaces whose pods were bound.
        """
        pace, now = self._pace, time.monotonic()
        self._first = False
        self._at_once = not finished
        self._wake_at = wake_at
        self._bound = bound
        in_vain = min(seconds, sum(costs.values()) / UNITS_PER_SECOND) if bound else seconds
        full = min(pace.period_seconds, pace.rest_factor * in_vain)
        short = min(pace.debounce_seconds if bound else full, pace.short_factor * seconds)
        self._not_before = now + max(full, short)
        self._guiltless_not_before = now + short
        self._costs = costs
        self._guiltless.clear()
        self._judge(self._news)

    def fail(self, seconds: float) -> None:
        """Record a dropped cycle. The next cycle starts after this time, from the beginning."""
        self._at_once = self._bound = False
        self._not_before = self._guiltless_not_before = time.monotonic() + seconds
        self._changed.set()
