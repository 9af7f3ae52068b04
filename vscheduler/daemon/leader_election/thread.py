"""The thread that stands for election, and what the daemon's event loop sees of it.

A renewal must not wait for a cycle or for a long list that is decoded: the thread has a plain
event loop of its own, connections of its own, and looks into nothing of the daemon's.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog

from vscheduler import containment
from vscheduler.daemon.leader_election import api, elector
from vscheduler.daemon.liveness import progress

log = structlog.get_logger(__name__)

RELEASE_SECONDS = 2.0
"""How long a stop waits until everything is given back."""

AGAIN_SECONDS = 1.0
"""How long a candidate that failed pauses: what it holds ends by itself if it isn't renewed."""

Open = Callable[[], AbstractAsyncContextManager[elector.Transport]]
"""Opens the way to the Leases, in the event loop that calls it."""
Told = Callable[[api.LeaseStatus, api.LeaseStatus], None]
"""How it stood with a Lease, and how it stands."""
Renewed = Callable[[str, float, str], None]
"""The Lease, how many seconds a renewal took, and what came of it: `done`, or an error's name."""


def _ignore_change(before: api.LeaseStatus, after: api.LeaseStatus) -> None:
    del before, after


def _ignore_renewal(lease: str, seconds: float, outcome: str) -> None:
    del lease, seconds, outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Who is told of what."""

    on_change: Told = _ignore_change
    observe_renewal: Renewed = _ignore_renewal
    failures: containment.Failures = field(default_factory=containment.Failures)
    pulse: progress.Heartbeat = field(default_factory=progress.Heartbeat)
    """The thread's event loop answers to it while it runs."""


class ElectionThread:
    """Stands for each of these Leases, independently of the others: a `leadership.Leadership`.

    All of its methods are the daemon's event loop's.
    """

    def __init__(
        self,
        leases: Iterable[str],
        terms: elector.Terms,
        open_leases: Open,
        told: Outlets | None = None,
    ) -> None:
        told = told or Outlets()
        self._failures, self._pulse = told.failures, told.pulse
        self._on_change, self._observe_renewal = told.on_change, told.observe_renewal
        names = sorted(leases)
        self._open = open_leases
        self._standings = {name: api.LeaseStatus(lease=name, leads=False) for name in names}
        self._held: dict[str, elector.LeaseTerm] = {}
        self._change = asyncio.Event()
        self._released = False
        self._home = asyncio.get_running_loop()
        self._there: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[BaseException | None] = self._home.create_future()
        outlets = elector.Outlets(
            changed=lambda change: self._at_home(self._take, change),
            renewed=lambda *renewal: self._at_home(self._observe_renewal, *renewal),
            failed=partial(self._failures.failed, "election"),
            doubted=lambda lease, tenure: self._in_thread(self._candidates[lease].doubted, tenure),
        )
        self._candidates = {name: elector.Elector(name, terms, outlets) for name in names}

    async def run(self) -> None:
        """For ever, or until `release`; once. Raises what the thread dies of."""
        if self._released:
            return
        assert self._there is None, "it stands for election once"
        self._there = asyncio.SelectorEventLoop()
        thread = threading.Thread(
            target=self._live, args=(self._there,), name="leases", daemon=True
        )
        thread.start()
        try:
            await asyncio.wait({self._ended})
        finally:
            self._end()
            self._in_thread(_cancel_all)
            await asyncio.wait({self._ended}, timeout=RELEASE_SECONDS)
            if self._ended.done():
                thread.join()  # it has nothing left to do
        died = self._ended.result()
        if died is not None:
            raise died

    def held(self, leases: Iterable[str]) -> Mapping[str, api.Token]:
        """The tokens of those of these Leases that are held now."""
        return {lease: self._held[lease] for lease in leases if lease in self._held}

    def wait_for_change(self) -> Coroutine[Any, Any, None]:
        """Until any Lease is gained or lost, from when it is called: not from when it first runs,
        as a change may come in between.
        """
        return _wait_for(self._change)

    def standings(self) -> tuple[api.LeaseStatus, ...]:
        """How it stands with each Lease, by name."""
        return tuple(self._standings.values())

    async def release(self) -> None:
        """Give everything back, and stand no more; to be called when no call is under way."""
        self._released = True
        self._end()
        for candidate in self._candidates.values():
            self._in_thread(candidate.resign)
        if self._there is None:
            return
        done, _ = await asyncio.wait({self._ended}, timeout=RELEASE_SECONDS)
        if not done:
            log.warning("leases.kept", why="no answer in time", seconds=RELEASE_SECONDS)

    def _end(self) -> None:
        """Hold nothing any more, whatever the thread is doing."""
        held, self._held = self._held, {}
        for lease, tenure in held.items():
            tenure.end()
            before = self._standings[lease]
            self._standings[lease] = replace(before, leads=False)
            self._on_change(before, self._standings[lease])
        if held:
            self._wake()

    def _take(self, change: elector.Change) -> None:
        """Take in how it stands with a Lease."""
        after, tenure = change.standing, change.tenure
        before = self._standings[after.lease]
        self._standings[after.lease] = after
        if self._released and tenure is not None:
            tenure.end()
            tenure = None
        if tenure is not self._held.get(after.lease):
            self._held.pop(after.lease, None)
            if tenure is not None:
                self._held[after.lease] = tenure
            self._wake()
        _tell(before, change, ours=self._released)
        self._on_change(before, after)

    def _wake(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def _at_home(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call this in the daemon's event loop, from the thread."""
        with suppress(RuntimeError):  # it is closed: nobody listens any more
            self._home.call_soon_threadsafe(function, *arguments)

    def _in_thread(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call this in the thread."""
        if self._there is not None:
            with suppress(RuntimeError):  # it is closed: the thread has ended
                self._there.call_soon_threadsafe(function, *arguments)

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread: stand for election until told otherwise, and tell what it ended of."""
        died = None
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._stand())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is, the daemon is told
            died = error
        self._at_home(self._bury, died)

    def _bury(self, died: BaseException | None) -> None:
        self._ended.set_result(died)

    async def _stand(self) -> None:
        """All candidates, each for itself."""
        self._pulse.begin(asyncio.get_running_loop())
        try:
            async with self._open() as transport, asyncio.TaskGroup() as group:
                for name, candidate in self._candidates.items():
                    stand = partial(candidate.stand, transport)
                    group.create_task(
                        self._failures.keep_on("election", stand, longest_seconds=AGAIN_SECONDS),
                        name=f"stand for {name}",
                    )
        finally:
            self._pulse.end()


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


def _cancel_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


def _tell(before: api.LeaseStatus, change: elector.Change, *, ours: bool) -> None:
    """One line for each fact that is new; `ours`: whatever is lost, we gave it back."""
    after = change.standing
    about = log.bind(lease=after.lease)
    if change.why:
        tell = about.info if ours else about.warning
        tell("lease.lost", why=change.why, before=before.holder, holder=after.holder)
    if change.gained:
        about.info("lease.gained", before=before.holder, holder=after.holder)
    if after.holder != before.holder and not (change.why or change.gained):
        about.info("lease.holder_changed", before=before.holder, holder=after.holder)
    if after.problem and after.problem != before.problem:
        about.warning("lease.problem", message=after.problem)
    if before.problem and not after.problem:
        about.info("lease.problem_over")
