"""ElectionThread: runs leader election in a thread, and reports to the daemon's event loop.

A renewal must not wait for a cycle or for the decoding of a long list. The thread therefore has a
plain event loop and connections of its own, and shares no state with the daemon.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from vscheduler.containment import Failures
from vscheduler.daemon.leader_election import elector
from vscheduler.daemon.leader_election.api import LeaseStatus, Token
from vscheduler.daemon.leader_election.elector import Change, Elector, LeaseTerm, Terms, Transport
from vscheduler.daemon.liveness.progress import Heartbeat

log = structlog.get_logger(__name__)

RELEASE_SECONDS = 2.0
"""How long a stop waits for the release of all Leases."""

AGAIN_SECONDS = 1.0
"""Pause of a candidate after an unexpected error. A held Lease expires if not renewed meanwhile."""

Open = Callable[[], AbstractAsyncContextManager[Transport]]
"""Opens the connection to the Leases, in the caller's event loop."""
OnChange = Callable[[LeaseStatus, LeaseStatus], None]
"""Receives the old and the new status of a Lease."""
Renewed = Callable[[str, float, str], None]
"""Receives the Lease, the duration of a renewal in seconds, and the result: `done`, or the name of
an error."""


def _ignore_change(before: LeaseStatus, after: LeaseStatus) -> None:
    del before, after


def _ignore_renewal(lease: str, seconds: float, outcome: str) -> None:
    del lease, seconds, outcome


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """Callbacks for changes, renewals and failures."""

    on_change: OnChange = _ignore_change
    observe_renewal: Renewed = _ignore_renewal
    failures: Failures = msgspec.field(default_factory=Failures)
    heartbeat: Heartbeat = msgspec.field(default_factory=Heartbeat)
    """Heartbeat answered by the thread's event loop while the thread runs."""


class ElectionThread:
    """An api.Leadership that takes part in the election for each Lease independently.

    All public methods must be called in the daemon's event loop.
    """

    def __init__(
        self,
        leases: Iterable[str],
        terms: Terms,
        open_leases: Open,
        outlets: Outlets | None = None,
    ) -> None:
        outlets = outlets or Outlets()
        self._failures, self._heartbeat = outlets.failures, outlets.heartbeat
        self._on_change, self._observe_renewal = outlets.on_change, outlets.observe_renewal
        names = sorted(leases)
        self._open = open_leases
        self._statuses = {name: LeaseStatus(lease=name, leads=False) for name in names}
        self._held: dict[str, LeaseTerm] = {}
        self._change = asyncio.Event()
        self._released = False
        self._daemon_loop = asyncio.get_running_loop()
        self._thread_loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[BaseException | None] = self._daemon_loop.create_future()
        callbacks = elector.Outlets(
            changed=lambda change: self._in_daemon_loop(self._take, change),
            renewed=lambda *renewal: self._in_daemon_loop(self._observe_renewal, *renewal),
            failed=partial(self._failures.failed, "election"),
            doubted=lambda lease, term: self._in_thread(self._candidates[lease].doubted, term),
        )
        self._candidates = {name: Elector(name, terms, callbacks) for name in names}

    async def run(self) -> None:
        """Run for ever, or until `release`.

        May be called once. Raises the error that ended the thread.
        """
        if self._released:
            return
        assert self._thread_loop is None, "it stands for election once"
        self._thread_loop = asyncio.SelectorEventLoop()
        thread = threading.Thread(
            target=self._live, args=(self._thread_loop,), name="leases", daemon=True
        )
        thread.start()
        try:
            await asyncio.wait({self._ended})
        finally:
            self._end()
            self._in_thread(_cancel_all)
            await asyncio.wait({self._ended}, timeout=RELEASE_SECONDS)
            if self._ended.done():
                thread.join()  # returns at once: the loop has ended
        failure = self._ended.result()
        if failure is not None:
            raise failure

    def held(self, leases: Iterable[str]) -> Mapping[str, Token]:
        """Return the tokens of all Leases in `leases` that are held now."""
        return {lease: self._held[lease] for lease in leases if lease in self._held}

    def wait_for_change(self) -> Coroutine[Any, Any, None]:
        """Wait until any Lease is gained or lost after this call.

        Not a coroutine function: a change between the call and the first await must not be missed.
        """
        return _wait_for(self._change)

    def lease_statuses(self) -> tuple[LeaseStatus, ...]:
        """Return the status of each Lease, by name."""
        return tuple(self._statuses.values())

    async def release(self) -> None:
        """Release all Leases and leave the election. To be called when no call is in progress."""
        self._released = True
        self._end()
        for candidate in self._candidates.values():
            self._in_thread(candidate.resign)
        if self._thread_loop is None:
            return
        done, _ = await asyncio.wait({self._ended}, timeout=RELEASE_SECONDS)
        if not done:
            log.warning("leases.kept", why="no answer in time", seconds=RELEASE_SECONDS)

    def _end(self) -> None:
        """Drop all tokens, whatever the thread is doing."""
        held, self._held = self._held, {}
        for lease, term in held.items():
            term.end()
            before = self._statuses[lease]
            self._statuses[lease] = replace(before, leads=False)
            self._on_change(before, self._statuses[lease])
        if held:
            self._wake()

    def _take(self, change: Change) -> None:
        """Process a status change reported by the thread."""
        after, term = change.status, change.term
        before = self._statuses[after.lease]
        self._statuses[after.lease] = after
        if self._released and term is not None:
            term.end()
            term = None
        if term is not self._held.get(after.lease):
            self._held.pop(after.lease, None)
            if term is not None:
                self._held[after.lease] = term
            self._wake()
        _log_change(before, change, ours=self._released)
        self._on_change(before, after)

    def _wake(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def _in_daemon_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the daemon's event loop, from the thread."""
        with suppress(RuntimeError):  # the daemon's loop is closed
            self._daemon_loop.call_soon_threadsafe(function, *arguments)

    def _in_thread(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the thread's event loop."""
        if self._thread_loop is not None:
            with suppress(RuntimeError):  # the thread's loop is closed
                self._thread_loop.call_soon_threadsafe(function, *arguments)

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the thread: take part in elections until told to stop, then report any error."""
        failure = None
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._stand())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - `run` raises any error in the daemon
            failure = error
        self._in_daemon_loop(self._finish, failure)

    def _finish(self, failure: BaseException | None) -> None:
        self._ended.set_result(failure)

    async def _stand(self) -> None:
        """Run all candidates concurrently."""
        self._heartbeat.begin(asyncio.get_running_loop())
        try:
            async with self._open() as transport, asyncio.TaskGroup() as group:
                for name, candidate in self._candidates.items():
                    stand = partial(candidate.stand, transport)
                    group.create_task(
                        self._failures.keep_on("election", stand, longest_seconds=AGAIN_SECONDS),
                        name=f"stand for {name}",
                    )
        finally:
            self._heartbeat.end()


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


def _cancel_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


def _log_change(before: LeaseStatus, change: Change, *, ours: bool) -> None:
    """Log each new fact about a Lease.

    With `ours`, a loss is our own release and no reason for a warning.
    """
    after = change.status
    about = log.bind(lease=after.lease)
    if change.why:
        write = about.info if ours else about.warning
        write("lease.lost", why=change.why, before=before.holder, holder=after.holder)
    if change.gained:
        about.info("lease.gained", before=before.holder, holder=after.holder)
    if after.holder != before.holder and not (change.why or change.gained):
        about.info("lease.holder_changed", before=before.holder, holder=after.holder)
    if after.other_configuration and after.other_configuration != before.other_configuration:
        about.warning("lease.other_configuration", theirs=after.other_configuration)
    if before.other_configuration and change.gained:
        about.warning("lease.configuration_changed", before=before.other_configuration)
    if after.problem and after.problem != before.problem:
        about.warning("lease.problem", message=after.problem)
    if before.problem and not after.problem:
        about.info("lease.problem_over")
