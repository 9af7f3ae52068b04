"""Writer of history: a thread that turns changes into records and writes them once a second.

The daemon's main loop only appends to a queue, which never waits: what doesn't fit is dropped and
counted, and the objects are compared with what is stored once there is room again.
"""

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import structlog

from vscheduler.containment import Failures
from vscheduler.history import records, store
from vscheduler.history.recorder import Listing, Recorder
from vscheduler.history.records import Batch, WriterStatus
from vscheduler.history.schema import HistoryError
from vscheduler.history.store import Limits, Store
from vscheduler.mirror.translate.pods import Pod
from vscheduler.mirror.translate.translation import Group
from vscheduler.model.jobs import TaskId

log = structlog.get_logger(__name__)

BATCH_SECONDS = 1.0
"""How often records are written."""

SEEN_SECONDS = 10.0
"""How often it is noted that somebody looks, if nothing else is written."""

AGAIN_SECONDS = 10.0
"""The pause after a file couldn't be opened."""

PRUNE_SECONDS = 60.0
"""How often it is looked whether there is anything to forget."""

CHANGES_MAX = 100_000
"""How many changes wait for the thread at most."""

BATCH_MAX = 20_000
"""How many records one transaction writes at most."""

CLOSE_SECONDS = 3.0
"""How long a shutdown waits for the last batch."""

Change: TypeAlias = Callable[[Recorder], None]
"""What the thread does to the recorder."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Recording starts, or starts again, with all that there is."""

    schedulers: Sequence[str]
    listing: Listing
    now: int


class Writer:
    """Records changes from `begin` to `end`.

    The main loop calls all methods but those of the thread. They neither wait nor fail.
    """

    def __init__(
        self,
        path: Path,
        limits: Limits,
        failures: Failures,
        *,
        user_label: str = records.USER_LABEL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._clock = clock
        self._changes: deque[Start | Change | None] = deque()
        """None: recording ends."""
        self._names: tuple[str, ...] = ()
        self._list: Callable[[], Listing] | None = None
        """While recording: lists all that there is."""
        self._dropped = 0
        self._behind = False
        """Whether a change was dropped, so that all has to be listed again."""
        self._stopping = threading.Event()
        self._work = _Work(path, limits, Recorder(user_label), clock)
        self._failures = failures
        self._thread = threading.Thread(target=self._live, name="history", daemon=True)
        self._started = False

    @property
    def status(self) -> WriterStatus:
        """How the writer fares."""
        work = self._work
        return WriterStatus(
            lost=self._dropped + work.lost,
            written=work.written,
            size=work.size,
            works=not work.problem,
        )

    def begin(self, schedulers: Sequence[str], listing: Callable[[], Listing]) -> None:
        """Record what happens to the pods of these schedulers from now on."""
        if not self._started:
            self._started = True
            self._thread.start()
        self._names, self._list, self._behind = tuple(schedulers), listing, False
        self._start()

    def end(self) -> None:
        """Record nothing more, and let others write to the file."""
        if self._list is not None:
            self._list = None
            self._changes.append(None)

    def close(self) -> None:
        """End, write what is left, and wait a moment for it."""
        self.end()
        self._stopping.set()
        if self._started:
            self._thread.join(CLOSE_SECONDS)

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """Take a pod that came, changed or went."""
        if self._list is not None and ((new is not None and new.ours) or (old and old.ours)):
            self._take(partial(_pod, old, new, int(self._clock())))

    def group(self, old: Group | None, new: Group | None, queue: str) -> None:
        """Take a PodGroup that came, changed or went."""
        if self._list is not None:
            self._take(partial(_group, old, new, queue, int(self._clock())))

    def evicted(self, pods: Iterable[TaskId], action: str, beneficiary: str) -> None:
        """Note evictions that the API server has accepted."""
        if self._list is not None:
            self._take(partial(_evicted, tuple(pods), action, beneficiary))

    def look(self) -> None:
        """List all again if changes were dropped and there is room now. Called every cycle."""
        if self._behind and self._list is not None and len(self._changes) < CHANGES_MAX // 2:
            self._behind = False
            self._start()

    def _start(self) -> None:
        assert self._list is not None
        now = int(self._clock())
        self._changes.append(Start(schedulers=self._names, listing=self._list(), now=now))

    def _take(self, change: Change) -> None:
        if len(self._changes) >= CHANGES_MAX:
            self._dropped += 1
            self._behind = True
            return
        self._changes.append(change)

    def _live(self) -> None:
        while True:
            stopping = self._stopping.wait(BATCH_SECONDS)
            try:
                self._work.turn(self._changes)
            except Exception as error:  # noqa: BLE001 - history must not end the scheduler
                self._failures.failed("history", str(self._path), error)
                self._behind = True
            if stopping:
                self._work.close()
                return


def _pod(old: Pod | None, new: Pod | None, now: int, recorder: Recorder) -> None:
    recorder.pod(old, new, now)


def _group(old: Group | None, new: Group | None, queue: str, now: int, recorder: Recorder) -> None:
    recorder.group(old, new, queue, now)


def _evicted(pods: Sequence[TaskId], action: str, beneficiary: str, recorder: Recorder) -> None:
    recorder.evicted(pods, action, beneficiary)


class _Work:
    """The thread's part."""

    def __init__(
        self, path: Path, limits: Limits, recorder: Recorder, clock: Callable[[], float]
    ) -> None:
        self._path = path
        self._limits = limits
        self._recorder = recorder
        self._clock = clock
        self._store: Store | None = None
        self._start: Start | None = None
        """What recording started with, until the file could be opened."""
        self._records = False
        self._again_at = self._prune_at = self._seen_at = 0.0
        self.problem = ""
        self.written = 0
        self.size = 0
        self._lost = 0

    @property
    def lost(self) -> int:
        """How many changes and records were dropped."""
        return self._lost + self._recorder.lost

    def turn(self, changes: deque[Any]) -> None:
        """Take what has come, and write it. Raises what nobody expects."""
        try:
            while changes:
                change = changes[0]
                if isinstance(change, Start) and not self._begin(change):
                    return  # all changes wait in line meanwhile
                changes.popleft()
                if change is None:
                    self._end()
                elif self._records and not isinstance(change, Start):
                    change(self._recorder)
            self._write()
        except sqlite3.Error as error:
            self._failed(error)

    def close(self) -> None:
        """Let others write to the file."""
        self._close_store()

    def _begin(self, start: Start) -> bool:
        """Compare what there is with what is stored; return whether the file can be used."""
        if self._store is None and not self._open():
            return False
        assert self._store is not None
        listing = start.listing
        stored = self._store.stored(
            start.schedulers,
            [group.job.uid for group, _ in listing.groups],
            [pod.uid for pod in listing.pods],
        )
        self._recorder.start(listing, stored, start.now)
        self._records = True
        return True

    def _end(self) -> None:
        """Stop recording. What can't be written now is lost: others may write to the file next."""
        try:
            self._write()
            if self._store is not None:
                self._put(Batch())
        finally:
            self._records = False
            self._recorder.drop()
            self._close_store()

    def _write(self) -> None:
        """Write all records, and prune at times. Raises sqlite3.Error."""
        if not self._records or (self._store is None and not self._open()):
            return
        assert self._store is not None
        now = time.monotonic()
        while batch := self._recorder.changed(BATCH_MAX):
            self._put(batch)
        if now > self._seen_at + SEEN_SECONDS:
            self._put(batch)
        if now > self._prune_at:
            if not self._path.exists():  # writes to a deleted file succeed
                raise sqlite3.DatabaseError(f"{self._path} was deleted")
            self._prune_at = now if self._store.prune(int(self._clock())) else now + PRUNE_SECONDS
        self.size = self._store.size
        if self.problem:
            self.problem = ""
            log.info("history.written_again", path=str(self._path))

    def _put(self, batch: Batch) -> None:
        assert self._store is not None
        self._store.write(batch, int(self._clock()))
        self._recorder.written(batch)
        self.written += len(batch)
        self._seen_at = time.monotonic()

    def _open(self) -> bool:
        """Open the file; return whether it can be used."""
        if time.monotonic() < self._again_at:
            return False
        try:
            self._store = Store(self._path, self._limits)
        except (sqlite3.OperationalError, OSError, HistoryError) as error:
            self._again_at = time.monotonic() + AGAIN_SECONDS
            self._say(error)
            return False
        except sqlite3.DatabaseError as error:
            return self._set_aside(error)
        return True

    def _failed(self, error: sqlite3.Error) -> None:
        """Go on after an error: a full disk and the like end by themselves, damage doesn't."""
        if isinstance(error, sqlite3.OperationalError | sqlite3.InterfaceError):
            self._say(error)
            return
        self._close_store()
        self._set_aside(error)

    def _set_aside(self, error: Exception) -> bool:
        """Begin a new file in place of a damaged one; return whether it can be used."""
        try:
            target = store.set_aside(self._path, self._clock())
            self._store = Store(self._path, self._limits)
        except (sqlite3.Error, OSError, HistoryError) as another:
            self._again_at = time.monotonic() + AGAIN_SECONDS
            self._say(another)
            return False
        log.error("history.damaged", path=str(self._path), moved_to=str(target), message=str(error))
        self._recorder.rewrite()
        return True

    def _say(self, error: Exception) -> None:
        """Log a problem once."""
        if str(error) != self.problem:
            self.problem = str(error)
            log.error("history.not_written", path=str(self._path), message=self.problem, retry=True)

    def _close_store(self) -> None:
        with suppress(sqlite3.Error, OSError):
            if self._store is not None:
                self._store.close()
        self._store = None
