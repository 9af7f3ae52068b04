import json
import logging
import os
import sys
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from vscheduler.daemon.observability import logs
from vscheduler.daemon.observability.logs import LineWriter
from vscheduler.mirror.wording import plain_text

pytestmark = pytest.mark.usefixtures("restored_logging")

PATIENCE_SECONDS = 50.0
EVIL = (
    "\x1b[31mRED\x1b[0m \x1b]0;pwned\x07 a\rb\nforged line\x7f\x85\x9b \u202eright\u2066 \u2028"
    "\ud800 \x00 [red]x[/red]"
)


class Log:
    """A log in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT)
        self._writer: LineWriter | None = None

    def begin(self, level: str, style: str) -> None:
        """Log there."""
        self._writer = logs.configure(level, style, descriptor=self._file)

    def lines(self) -> list[str]:
        """All that was said."""
        assert self._writer is not None
        assert self._writer.flush(PATIENCE_SECONDS)
        return self._path.read_text().splitlines()

    def events(self) -> list[dict[str, Any]]:
        """The same, of one in JSON."""
        return [json.loads(line) for line in self.lines()]

    def close(self) -> None:
        """Its writer has nothing to write any more."""
        os.close(self._file)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log."""
    made = Log(tmp_path / "log")
    yield made
    made.close()


@contextmanager
def taken_over() -> Iterator[None]:
    """Whatever else would be printed is logged."""
    undo = logs.take_over()
    try:
        yield
    finally:
        undo()


def test_json_has_one_object_per_event(log: Log) -> None:
    """Ours and the libraries' alike, below the level left out."""
    log.begin("info", "json")
    structlog.get_logger().info("cycle.done", bound=2)
    structlog.get_logger().debug("quiet")
    logging.getLogger("aiohttp.client").warning("slow %s", "server")
    logging.getLogger("aiohttp.client").info("chatter")
    first, second = log.events()
    assert (first["event"], first["bound"], first["level"]) == ("cycle.done", 2, "info")
    assert (second["event"], second["level"]) == ("slow server", "warning")
    assert "timestamp" in first


def test_console_shows_exceptions(log: Log) -> None:
    """People get a line per event, and the traceback under it, further in."""
    log.begin("debug", "console")
    structlog.get_logger().error("cycle.dropped", exc_info=AssertionError("no room"))
    first, *rest = log.lines()
    assert "cycle.dropped" in first
    assert "  AssertionError: no room" in rest


def test_logs_go_to_stderr_and_nowhere_else(capfd: pytest.CaptureFixture[str]) -> None:
    """Where nothing else is said."""
    writer = logs.configure("info", "json")
    structlog.get_logger().info("cycle.done")
    assert writer.flush(PATIENCE_SECONDS)
    out, err = capfd.readouterr()
    assert json.loads(err)["event"] == "cycle.done"
    assert out == ""


def _say_evil(text: str) -> None:
    """In every way that there is."""
    log = structlog.get_logger()
    log.info("message", message=text, nested={text: [text]}, other=Path(text.replace("\0", "")))
    log.info(text)
    log.bind(name=text).warning("bound")
    log.error("failed", exc_info=ValueError(text))
    logging.getLogger("kopf").warning("of %s", text)
    logging.getLogger("aiohttp").error(text, exc_info=KeyError(text))


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_text_of_others_does_anything_to_a_terminal(log: Log, style: str) -> None:
    """It is seen, as its code; and it makes no line of its own."""
    log.begin("info", style)
    _say_evil(EVIL)
    lines = log.lines()
    for line in lines:
        hidden = [each for each in line if unicodedata.category(each) in plain_text.HIDDEN]
        assert hidden == [], line
        assert not line.startswith("forged")
    if style == "json":
        assert len(lines) == 6
        first = json.loads(lines[0])
        assert (first["message"], first["nested"]) == (EVIL, {EVIL: [EVIL]})
    else:
        assert len([line for line in lines if not line.startswith("  ")]) == 6
        assert r"\x1b[31mRED\x1b[0m \x1b]0;pwned\x07 a\rb\nforged line\x7f\x85\x9b" in lines[1]
        assert "[red]x[/red]" in lines[1]


def test_what_cannot_be_shown_fails_nobody(log: Log, capfd: pytest.CaptureFixture[str]) -> None:
    """It is said that it can't, and not on stderr, which may be one that nobody reads."""

    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    log.begin("info", "json")
    structlog.get_logger().info("muted", by=Mute())
    logging.getLogger("kopf").warning("%d", "no number")
    assert ["can't be shown" in event["event"] for event in log.events()] == [True, True]
    assert capfd.readouterr().err == ""


def test_what_is_printed_becomes_lines_of_the_log(log: Log) -> None:
    """Of plugins, say; also bit by bit, and without an end."""
    log.begin("info", "json")
    with taken_over():
        print("one", 1)  # noqa: T201 - as a plugin does
        print("two\nthree", file=sys.stderr)  # noqa: T201 - the same
        sys.stdout.write("fo")
        sys.stdout.write("ur\n\n")
        sys.stdout.write("x" * 2 * logs.PRINTED_MAX)
        assert (sys.stdout.fileno(), sys.stderr.fileno()) == (1, 2)
        assert not sys.stderr.isatty()
    *short, last = [event["event"] for event in log.events()]
    assert short == ["one 1", "two", "three", "four"]
    assert last == "x" * 2 * logs.PRINTED_MAX


def test_errors_that_nobody_catches_are_logged(log: Log) -> None:
    """Of the main thread, of another one, of a finalizer; and warnings."""

    def fail() -> None:
        raise ValueError("thread")

    class Falling:
        def __del__(self) -> None:
            raise ValueError("finalizer")

    log.begin("info", "json")
    with warnings.catch_warnings(), taken_over():
        sys.excepthook(ValueError, ValueError("main"), None)
        thread = threading.Thread(target=fail, name="a thread")
        thread.start()
        thread.join()
        Falling()
        warnings.simplefilter("always")
        warnings.warn("a warning", stacklevel=1)
    main, other, falling, warning = log.events()
    assert "ValueError: main" in main["exception"]
    assert "a thread" in other["event"]
    assert "ValueError: thread" in other["exception"]
    assert "ValueError: finalizer" in falling["exception"]
    assert "a warning" in warning["event"]


def test_dropped_lines_are_told_of_in_the_same_shape() -> None:
    """A reader of JSON needn't know of another one. Several lines may tell it, as room comes."""
    reading, writing = os.pipe()
    writer = logs.configure("info", "json", descriptor=writing)
    for number in range(3 * logs.LINES_MAX):
        logging.getLogger().warning("%d", number)
    count = writer.dropped
    assert count > 0
    found = b""
    while not writer.flush(0.01):
        found += os.read(reading, 65536)
    os.close(writing)
    while rest := os.read(reading, 65536):
        found += rest
    told = [json.loads(line)["event"] for line in found.splitlines() if b"dropped" in line]
    assert all(event.endswith(" lines dropped, as nobody read them") for event in told)
    assert sum(int(event.split()[0]) for event in told) == count
