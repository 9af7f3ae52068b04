"""Logging: one event per fact, in a format for people or for machines.

Logging never blocks the caller. All lines go through a LineWriter, whose thread writes them.
Unwritten lines wait in a queue. When the queue is full, the oldest lines are dropped, and a line in
their place says how many were dropped.
"""

import atexit
import io
import json
import logging
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog
from structlog.typing import ExcInfo, Processor

from vscheduler import tracebacks
from vscheduler.mirror.wording import plain_text

LIBRARIES = ("aiohttp", "asyncio", "kopf", "kubernetes")

STDOUT, STDERR = 1, 2

FLUSH_SECONDS = 1.0
"""How long the end of the process waits for the log to be written."""

PRINTED_MAX = 16_384
"""Maximum length of a line printed piece by piece, in characters."""

TEXTS = ("exception", "stack")
"""Fields with several lines."""

LINES_MAX = 10_000
"""Maximum number of waiting lines."""

BYTES_MAX = 4 * 1024 * 1024
"""Maximum size of all waiting lines, and of a single line."""

PORTION_BYTES = select.PIPE_BUF
"""Size of a single write. A pipe that is ready for writing accepts at least this much."""

POLL_SECONDS = 1.0
"""How long to wait for space in the pipe before checking again."""

LOOK_SECONDS = 0.01


def _dropped_line(count: int) -> bytes:
    return f"{count} lines dropped\n".encode()


class LineWriter:
    """Writes lines to a file descriptor in a thread, which starts with the first line."""

    def __init__(
        self,
        descriptor: int,
        *,
        dropped_line: Callable[[int], bytes] = _dropped_line,
        lines_max: int = LINES_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """`dropped_line` formats the line that reports the number of dropped lines."""
        self._descriptor = descriptor
        self._dropped_line = dropped_line
        self._lines_max = lines_max
        self._bytes_max = bytes_max
        # A finalizer may log in the middle of `put`, so the lock and the queue must be reentrant.
        self._lock = threading.RLock()
        self._queue: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        """Lines with their numbers, starting at 0."""
        self._thread: threading.Thread | None = None
        self._put = 0
        self._put_bytes = 0
        self._displaced_bytes = 0
        self._displaced = 0
        """Lines dropped because the queue was full. The fields up to here are changed under the
        lock."""
        self._taken_bytes = 0
        self._done_bytes = 0
        self._failed = 0
        """Lines refused by the file. The fields since `_displaced` are changed by the thread
        only."""

    @property
    def dropped(self) -> int:
        """Number of lines that were never written."""
        return self._displaced + self._failed

    def put(self, line: bytes) -> None:
        """Queue a line, including its newline, for writing.

        Never blocks. Safe to call from any thread.
        """
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
        """Wait until all lines are written, at most this many seconds. Return whether they are."""
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
        """Run the thread for ever.

        A report of dropped lines comes where the lines would have been.
        """
        missing = due = 0
        while True:
            number, line = self._queue.get()
            self._taken_bytes += len(line)
            missing += number - due
            due = number + 1
            if missing and self._write(self._dropped_line(missing)):
                missing = 0
            if not self._write(line):
                self._failed += 1
                missing += 1
            self._done_bytes += len(line)

    def _write(self, line: bytes) -> bool:
        """Write a line, however long writing takes. Return False when the file refused the line."""
        rest = memoryview(line)
        while rest:
            try:
                written = os.write(self._descriptor, rest[:PORTION_BYTES])
            except BlockingIOError:  # another process made the shared file non-blocking
                self._wait_for_room()
            except OSError:  # no reader, no space, or closed: no reason to end the daemon
                return False
            else:
                rest = rest[written:]
        return True

    def _wait_for_room(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll(POLL_SECONDS * 1000)


def configure(level: str, style: str, *, descriptor: int = STDERR) -> LineWriter:
    """Send all log events of this program and its libraries to stderr, in one format.

    `level` is one of settings.LOG_LEVELS; `style` is `json` (an object per line) or `console`.
    Logging never blocks, except for at most a second at the end of the process.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_traceback),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *_rendering(style, coloured=os.isatty(descriptor)),
        ],
    )

    def dropped_line(count: int) -> bytes:
        text = f"{count} lines dropped, as nobody read them"
        record = logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None)
        return _encoded(formatter.format(record))

    writer = LineWriter(descriptor, dropped_line=dropped_line)
    atexit.register(writer.flush, FLUSH_SECONDS)
    handler = _Handler(writer)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for library in LIBRARIES:
        # Messages below a warning only help to debug the library.
        logging.getLogger(library).setLevel("DEBUG" if level == "debug" else "WARNING")
    # watchfiles logs each change in a folder: a log file in the folder would trigger itself.
    logging.getLogger("watchfiles").setLevel("WARNING")
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return writer


def name_process(name: str) -> None:
    """Add a process's name to all its log events, where processes share a log."""
    structlog.contextvars.bind_contextvars(process=name)


def take_over() -> Callable[[], None]:
    """Log everything printed otherwise: prints of plugins, warnings, and uncaught errors.

    To be called after `configure`. Return a function that restores the previous state.
    """
    before = (
        sys.stdout, sys.stderr, sys.excepthook, sys.unraisablehook, threading.excepthook
    )  # fmt: skip
    sys.stdout = _Printed("stdout", logging.INFO, STDOUT)
    sys.stderr = _Printed("stderr", logging.WARNING, STDERR)
    sys.excepthook = _report_error
    sys.unraisablehook = _report_ignored
    threading.excepthook = _report_thread_error
    logging.captureWarnings(capture=True)

    def undo() -> None:
        logging.captureWarnings(capture=False)
        (
            sys.stdout, sys.stderr, sys.excepthook, sys.unraisablehook, threading.excepthook
        ) = before  # fmt: skip

    return undo


class _Handler(logging.Handler):
    """Passes each record to the LineWriter, and never raises in the caller."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.put(_encoded(self.format(record)))
        except Exception:  # noqa: BLE001 - a bad record must not end the daemon
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Log that a record cannot be formatted, instead of printing to stderr."""
        error = f"{record.name}: a record can't be shown: {sys.exc_info()[0]}"
        self._writer.put(_encoded(json.dumps({"event": error, "level": "error"})))


class _Printed(io.TextIOBase):
    """Replaces stdout or stderr: each printed line becomes a log event."""

    def __init__(self, name: str, level: int, descriptor: int) -> None:
        super().__init__()
        self._logger = logging.getLogger(name)
        self._level = level
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._rest = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain attribute in typeshed
        """Return the usual encoding; nothing is encoded here."""
        return "utf-8"

    def fileno(self) -> int:
        """Return the descriptor of the original file, for subprocesses that print."""
        return self._descriptor

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Log all lines complete by now."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            if len(self._rest) > PRINTED_MAX:
                lines.append(self._rest)
                self._rest = ""
        for line in lines:
            if line.strip():
                self._logger.log(self._level, "%s", line.rstrip())
        return len(text)


def _rendering(style: str, *, coloured: bool) -> tuple[Processor, ...]:
    """Return the processors that turn an event into a line."""
    if style == "console":
        renderer = structlog.dev.ConsoleRenderer(
            colors=coloured,
            # Tracebacks are rendered before; the default takes half a second in the event loop.
            exception_formatter=structlog.dev.plain_traceback,
        )
        return (_shown, renderer)
    return (structlog.processors.JSONRenderer(),)  # in ASCII


def _traceback(exc_info: ExcInfo) -> str:
    """Return the traceback of an error as text. Called in the event loop, so it must be fast."""
    _, error, trace = exc_info
    return tracebacks.shown(error, trace)


def _shown(_logger: object, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Return the event with all terminal control characters made visible.

    Only tracebacks have several lines. They are indented, so that none looks like a log line.
    """
    return {
        plain_text.shown(key): (
            _indented(value) if key in TEXTS and isinstance(value, str) else _value(value)
        )
        for key, value in event.items()
    }


def _value(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    return plain_text.shown(value if isinstance(value, str) else repr(value))


def _indented(text: str) -> str:
    return "\n".join(f"  {plain_text.shown(line)}" for line in text.split("\n"))


def _encoded(line: str) -> bytes:
    return f"{line}\n".encode("utf-8", "backslashreplace")


def _report_error(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    logging.getLogger(__name__).critical("ended by an error", exc_info=(kind, error, trace))


def _report_ignored(what: "sys.UnraisableHookArgs") -> None:
    error = what.exc_value
    text = what.err_msg or "an error that nobody can catch"
    raised = (type(error), error, what.exc_traceback) if error is not None else None
    logging.getLogger(__name__).error("%s: %r", text, what.object, exc_info=raised)


def _report_thread_error(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is None or issubclass(what.exc_type, SystemExit):
        return
    name = what.thread.name if what.thread else "?"
    logging.getLogger(__name__).error(
        "thread %s was ended by an error",
        name,
        exc_info=(what.exc_type, what.exc_value, what.exc_traceback),
    )
