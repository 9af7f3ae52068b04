"""A real control plane for all integration tests of a run, and a clean one for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import control_plane
from sandbox.control_plane import ControlPlane
from tests.faults.audits import Log
from tests.integration import daemons, installations, permissions, takeovers
from tests.integration.daemons import Daemon, Start
from tests.integration.installations import Installed
from tests.integration.takeovers import Contest, Timing

SCHEDULERS = ("vscheduler", "contested", "other", "volcano-offline", "volcano-online")
"""Whom tests run as that account."""


@pytest.fixture
def cluster(plane: ControlPlane) -> ControlPlane:
    """The shared sandbox with nothing left in it of earlier tests, and Leases that are free."""
    plane.clean()
    daemons.free_leases(plane)
    return plane


@pytest.fixture(scope="session")
def kubeconfig(plane: ControlPlane) -> Path:
    """Of a service account with the shipped roles of both halves, and nothing else."""
    return permissions.permit_account(plane, permissions.TESTED, *SCHEDULERS)


@pytest.fixture
def start(
    request: pytest.FixtureRequest,
    cluster: ControlPlane,
    kubeconfig: Path,
    tmp_path: Path,
) -> Iterator[Start]:
    """Start schedulers; none outlives the test."""
    del cluster  # only that it is clean
    started: list[Daemon] = []

    def begin(*flags: str) -> Daemon:
        started.append(Daemon(kubeconfig, tmp_path / f"{len(started)}.log", *flags))
        return started[-1]

    yield begin
    for daemon in started:
        daemon.kill()
    if request.node.get_closest_marker("contains_failures") is None:
        logs = [daemon.text() for daemon in started]
        assert [line for text in logs for line in text.splitlines() if "work.failed" in line] == []


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A control plane where nothing was, and then `kubectl apply -k manifests`."""
    log = tmp_path_factory.mktemp("audit") / "audit.log"
    with control_plane.start(audit_log=log) as running:
        installations.install(running)
        yield Installed(running, log)


@pytest.fixture
def timing(pytestconfig: pytest.Config) -> Timing:
    """How patient instances are that compete for a Lease."""
    return takeovers.TIMINGS[pytestconfig.getoption("--lease-timing")]


@pytest.fixture
def contest(
    plane: ControlPlane, audit_log: Path, timing: Timing, tmp_path: Path
) -> Iterator[Contest]:
    """Schedulers that compete, on nodes with room for all that comes; none outlives the test."""
    plane.clean()
    plane.create_nodes(count=4, cpu="1000", memory="4Ti", pods=5000)
    running = Contest(plane, Log(audit_log), timing, tmp_path)
    yield running
    running.close()
