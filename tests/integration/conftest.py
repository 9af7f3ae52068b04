"""A real control plane for all integration tests of a run, and a clean one for each test."""

from collections.abc import Iterator

import pytest

from vscheduler.sandbox import control_plane, reporting


@pytest.fixture(scope="session")
def plane(pytestconfig: pytest.Config) -> Iterator[control_plane.ControlPlane]:
    """The sandbox that all tests share; when it cannot be started, the tests fail."""
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    progress = reporting.PlainLines(terminal) if terminal else reporting.silent
    with control_plane.start(progress=progress) as running:
        yield running


@pytest.fixture
def cluster(plane: control_plane.ControlPlane) -> control_plane.ControlPlane:
    """The shared sandbox with nothing left in it of earlier tests."""
    plane.clean()
    return plane
