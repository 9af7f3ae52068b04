"""Lines for a file that nobody may read: whoever has one to write never waits.

A thread of its own writes; what it hasn't written waits in a queue. When that is full, the oldest
lines are dropped and counted, and where they would have been a line says how many there were.
"""

import os
import queue
import select
import threading
import time
from collections.abc import Callable

LINES_MAX = 10_000
"""Lines that may wait."""

BYTES_MAX = 4 * 1024 * 1024
"""What they may come to; also the longest line."""

PORTION_BYTES = select.PIPE_BUF
"""Written at once: a pipe that has room at all has room for so much."""

POLL_SECONDS = 1.0
"""How long it waits for room before it looks again."""

LOOK_SECONDS = 0.01


def _tell(count: int) -> bytes:
    return f"{count} lines dropped\n".encode()


class LineWriter:
    """Writes lines to a file descriptor from a thread that begins with the first line."""

    def __init__(
        self,
        descriptor: int,
        *,
        tell: Callable[[int], bytes] = _tell,
        lines_max: int = LINES_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """`tell` makes the line that says how many were dropped."""
        self._descriptor = descriptor
        self._tell = tell
        self._lines_max = lines_max
        self._bytes_max = bytes_max
        # A finalizer may log in the middle of `put`: this lock and this queue can bear that.
        self._lock = threading.RLock()
        self._queue: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        """Lines with their numbers, from 0 on."""
        self._thread: threading.Thread | None = None
        self._put = 0
        self._put_bytes = 0
        self._displaced_bytes = 0
        self._displaced = 0
        """Lines that had to go as the queue was full. Up to here, it is changed under the lock."""
        self._taken_bytes = 0
        self._done_bytes = 0
        self._failed = 0
        """Lines that the file didn't take. Up to here, it is changed by the thread."""

    @property
    def dropped(self) -> int:
        """How many lines nobody will read."""
        return self._displaced + self._failed

    def put(self, line: bytes) -> None:
        """Have a line written, which ends in a newline, some time. Never waits; any thread."""
        if len(line) > self._bytes_max:
            line = line[: self._bytes_max - 1] + b"\n"
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
                self._thread.start()
            self._put_bytes += len(line)
            self._queue.put((self._put, line))
            self._put += 1
            while self._is_full():
                self._displace()

    def flush(self, seconds: float) -> bool:
        """Wait until all is written, but no longer than this; whether it is."""
        deadline = time.monotonic() + seconds
        while self._put_bytes > self._done_bytes + self._displaced_bytes:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def _is_full(self) -> bool:
        waiting = self._put_bytes - self._displaced_bytes - self._taken_bytes
        return self._queue.qsize() > self._lines_max or waiting > self._bytes_max

    def _displace(self) -> None:
        """Drop the oldest line."""
        try:
            _, line = self._queue.get_nowait()
        except queue.Empty:  # the thread has just taken it
            return
        self._displaced_bytes += len(line)
        self._displaced += 1

    def _write_all(self) -> None:
        """The thread: for ever. What is said of those that were dropped comes where they were."""
        missing = due = 0
        while True:
            number, line = self._queue.get()
            self._taken_bytes += len(line)
            missing += number - due
            due = number + 1
            if missing and self._write(self._tell(missing)):
                missing = 0
            if not self._write(line):
                self._failed += 1
                missing += 1
            self._done_bytes += len(line)

    def _write(self, line: bytes) -> bool:
        """Write a line, however long that takes; whether the file took it."""
        rest = memoryview(line)
        while rest:
            try:
                written = os.write(self._descriptor, rest[:PORTION_BYTES])
            except BlockingIOError:  # somebody who shares the file made it so
                self._wait_for_room()
            except (
                OSError
            ):  # nobody reads, no space, it is closed: none of that is the daemon's end
                return False
            else:
                rest = rest[written:]
        return True

    def _wait_for_room(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll(POLL_SECONDS * 1000)
