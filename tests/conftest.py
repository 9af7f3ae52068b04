import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from sandbox import control_plane, progress_report
from sandbox.control_plane import ControlPlane
from sandbox.progress_report import PlainLines
from tests import lanes
from tests.integration import permissions
from tests.properties import clusters
from tests.virtual_time import running_on
from vscheduler.containment import Failures
from vscheduler.mirror.statuses import ObjectReference

pytest.register_assert_rewrite("tests.checks", "tests.running", "tests.scenarios.deciding")

ROUNDS = 10
ON_CONTROL_PLANES = ("tests/integration/", "tests/simulation/contract/")
UNFAIR = ("--enable-priority-and-fairness=false",)
"""An API server that queues no requests, as nobody sends that many, needs a third less at rest."""

# The same examples in every run, however slow the machine is.
hypothesis.settings.register_profile(
    "suite",
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long races and takeovers are in tests/integration; `make test-faults`: longer."""
    parser.addoption("--rounds", type=int, default=ROUNDS, help="rounds of each race, 2 or more")
    parser.addoption(
        "--lease-timing",
        choices=("short", "default"),
        default="short",
        help="the patience of instances in tests/integration/test_takeovers.py and the like",
    )
    parser.addoption(
        "--at-length",
        action="store_true",
        help="also the tests that are marked so: 20 s or more; and all examples of properties",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known; and let programs that tests start heed Ctrl-C and SIGHUP, which
    whatever a shell runs in the background, or nohup, ignores with all its children.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--at-length"):
        clusters.EXAMPLES_SHARE = 1.0
    os.environ.setdefault("GOMAXPROCS", "1")  # a control plane then needs a tenth less CPU
    config.addinivalue_line(
        "markers", "contains_failures: unexpected failures are what the test is about"
    )
    config.addinivalue_line(
        "markers", "at_length: takes long; `make test-faults` or `make test-worlds` runs it"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, and say how much that is, but where it is asked for.

    And put the tests in an order by which processes that share them start few control planes.
    """
    if not config.getoption("--at-length"):
        left_out = [item for item in items if item.get_closest_marker("at_length")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("at_length")]
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = lanes.ordered(items, processes, _company)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is collected out of all collections of garbage: 300,000 objects that stay."""
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    try:
        return (yield)
    finally:
        gc.set_threshold(*thresholds)
        gc.collect()
        gc.freeze()


def _company(item: pytest.Item) -> str | None:
    """What a test on a control plane shares with others; None for a test that is on none."""
    if "installed" in getattr(item, "fixturenames", ()):
        return "installed"
    path = item.nodeid.partition("::")[0]
    return path if path.startswith(ON_CONTROL_PLANES) else None


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    """Rounds of each race."""
    return int(pytestconfig.getoption("--rounds"))


@pytest.fixture(scope="session")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Who asked the sandbox that all tests share for what."""
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="session")
def plane(pytestconfig: pytest.Config, audit_log: Path) -> Iterator[ControlPlane]:
    """The sandbox that all tests share; when it cannot be started, the tests fail.

    In the end nothing may have been refused to schedulers for want of a right.
    """
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    progress = PlainLines(terminal) if terminal else progress_report.silent
    with control_plane.start(
        progress=progress, audit_log=audit_log, api_server_flags=UNFAIR
    ) as running:
        yield running
    assert permissions.refused(audit_log, {permissions.account(permissions.TESTED)}) == []


@pytest.fixture(autouse=True)
def nothing_is_contained(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """What the daemon would contain fails a test, unless it is what the test is about."""
    if request.node.get_closest_marker("contains_failures"):
        yield
        return
    found: list[str] = []
    real = Failures.failed

    def note(
        failures: Failures,
        area: str,
        key: str,
        error: Exception,
        subject: ObjectReference | None = None,
    ) -> None:
        found.append(f"{area}: {key}: {error!r}")
        real(failures, area, key, error, subject)

    monkeypatch.setattr(Failures, "failed", note)
    yield
    assert found == []


@pytest.fixture
async def virtual_time() -> AsyncIterator[None]:
    """Timers that are due at once, for tests with neither sockets nor threads."""
    with running_on(asyncio.get_running_loop()):
        yield


@pytest.fixture
def restored_process() -> Iterator[None]:
    """What the command line sets up for the whole process is put back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    handlers, interval = (
        {number: signal.getsignal(number) for number in numbers},
        sys.getswitchinterval(),
    )
    yield
    sys.setswitchinterval(interval)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def restored_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logging is a thing of the whole process: what is set up by the test is put back.

    Nor does a logger of a module keep what was set up when it was first used.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {logger: logger.level for logger in _loggers()}
    configure = structlog.configure

    def uncached(**given: Any) -> None:
        configure(**given | {"cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", uncached)
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    for logger in _loggers():
        logger.setLevel(levels.get(logger, logging.NOTSET))


def _loggers() -> list[logging.Logger]:
    """All but the root."""
    found = logging.root.manager.loggerDict.values()
    return [each for each in found if isinstance(each, logging.Logger)]
