import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from vscheduler.daemon import logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Logging is a thing of the whole process: put it back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    for library in logs.LIBRARIES:
        logging.getLogger(library).setLevel(logging.NOTSET)


def test_json_has_one_object_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    """Ours and the libraries' alike, on stderr, below the level left out."""
    logs.configure("info", "json")
    structlog.get_logger().info("cycle.done", bound=2)
    structlog.get_logger().debug("quiet")
    logging.getLogger("aiohttp.client").warning("slow %s", "server")
    logging.getLogger("aiohttp.client").info("chatter")
    out, err = capsys.readouterr()
    first, second = (json.loads(line) for line in err.splitlines())
    assert (first["event"], first["bound"], first["level"]) == ("cycle.done", 2, "info")
    assert (second["event"], second["level"]) == ("slow server", "warning")
    assert "timestamp" in first
    assert out == ""


def test_console_shows_exceptions(capsys: pytest.CaptureFixture[str]) -> None:
    """People get a line per event, and the traceback under it."""
    logs.configure("debug", "console")
    structlog.get_logger().error("cycle.dropped", exc_info=AssertionError("no room"))
    err = capsys.readouterr().err
    assert "cycle.dropped" in err
    assert "AssertionError: no room" in err
