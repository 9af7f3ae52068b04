"""What would start a waiting job, and what another setting of a queue would do, found out for
visitors of the page: one question at a time.

The search reads the whole cluster and takes seconds of CPU. So a finder does it in a process of its
own, answers are kept as long as queues and jobs stay as they are, equal questions are asked once,
and each tenant may ask a few times a minute.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from vscheduler.web import allowances
from vscheduler.web.allowances import Allowance, Attempts, Holders, TooManyError

KEPT_MAX = 100
"""How many answers are kept."""

KEPT_SECONDS = 10.0
"""So long an answer is kept although the cluster changes."""

LINE = Allowance(visitor=2, tenant=2, everybody=4)
"""How many questions may be in line, the one that is being answered included."""

BURST = 4
PER_SECOND = 0.1
"""How often a tenant may ask further questions, or again."""

Found: TypeAlias = Mapping[str, Any]
"""The tree of explain.wording.tree, or of explain.what_if.tree."""


class FinderError(Exception):
    """It can't be found out. The message is a sentence for visitors."""


class BusyError(Exception):
    """Too many jobs are in line, or the visitor asks too often. The message is a sentence."""


class Finder(Protocol):
    """Finds out what changes would do."""

    async def find(self, namespace: str, name: str) -> Found:
        """Return the changes that would start the job of this PodGroup. Raises FinderError."""

    async def what_if(self, queue: str, flags: Sequence[str]) -> Found:
        """Return what other settings of a queue would do; `flags` are those of `vscheduler
        what-if`. Raises FinderError.
        """


class _Answer(NamedTuple):
    found: Found
    version: tuple[int, ...]
    at: float


Question: TypeAlias = tuple[str, ...]


class RemedyDesk:
    """Asks the finder, one question after the other. Belongs to one event loop."""

    def __init__(self, finder: Finder, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._finder = finder
        self._clock = clock
        self._answers: OrderedDict[Question, _Answer] = OrderedDict()
        self._asking: dict[Question, asyncio.Task[Found]] = {}
        self._line = Holders(LINE)
        self._one = asyncio.Semaphore(1)
        self._rate = Attempts(burst=BURST, per_second=PER_SECOND, clock=clock)

    async def of(self, namespace: str, name: str, version: tuple[int, ...], visitor: str) -> Found:
        """Return what would start a job; `version` changes whenever queues or jobs do.

        Raises BusyError and FinderError.
        """
        ask = partial(self._finder.find, namespace, name)
        return await self._answer((namespace, name), ask, version, visitor)

    async def what_if(
        self, queue: str, flags: Sequence[str], version: tuple[int, ...], visitor: str
    ) -> Found:
        """Return what other settings of a queue would do. Raises as `of`."""
        ask = partial(self._finder.what_if, queue, flags)
        return await self._answer(("", "", queue, *flags), ask, version, visitor)

    async def _answer(
        self,
        key: Question,
        ask: Callable[[], Awaitable[Found]],
        version: tuple[int, ...],
        visitor: str,
    ) -> Found:
        known = self._answers.get(key)
        if known is not None and (
            known.version == version or self._clock() < known.at + KEPT_SECONDS
        ):
            self._answers.move_to_end(key)
            return known.found
        task = self._asking.get(key)
        if task is None:
            self._enter(visitor)
            task = asyncio.create_task(self._ask(key, ask, version), name="find remedies")
            self._asking[key] = task
            task.add_done_callback(lambda done: self._asked(key, visitor, done))
        return await asyncio.shield(task)

    def _enter(self, visitor: str) -> None:
        """Take a place in line. Raises BusyError."""
        try:
            self._line.take(visitor)
        except TooManyError:
            said = "Too many questions are waiting for answers; try again soon."
            raise BusyError(said) from None
        if not self._rate.spend(allowances.tenant_of(visitor)):
            self._line.give_back(visitor)
            raise BusyError("You have asked many questions; try again in some seconds.")

    def close(self) -> None:
        """End all questions."""
        for task in self._asking.values():
            task.cancel()

    async def _ask(
        self, key: Question, ask: Callable[[], Awaitable[Found]], version: tuple[int, ...]
    ) -> Found:
        async with self._one:
            found = await ask()
        self._answers[key] = _Answer(found, version, self._clock())
        self._answers.move_to_end(key)
        while len(self._answers) > KEPT_MAX:
            self._answers.popitem(last=False)
        return found

    def _asked(self, key: Question, visitor: str, done: asyncio.Task[Found]) -> None:
        self._asking.pop(key, None)
        self._line.give_back(visitor)
        if not done.cancelled():
            done.exception()  # nobody may be waiting for it any more
