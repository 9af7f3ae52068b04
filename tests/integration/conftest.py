"""A real control plane for all integration tests of a run, and a clean one for each test."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration import daemons
from vscheduler.sandbox import control_plane, reporting

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PERMISSIONS = Path(__file__).parents[2] / "docs" / "permissions.md"
USER = "vscheduler"


@pytest.fixture(scope="session")
def plane(pytestconfig: pytest.Config) -> Iterator[control_plane.ControlPlane]:
    """The sandbox that all tests share; when it cannot be started, the tests fail."""
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    progress = reporting.PlainLines(terminal) if terminal else reporting.silent
    with control_plane.start(progress=progress) as running:
        yield running


@pytest.fixture
def cluster(plane: control_plane.ControlPlane) -> control_plane.ControlPlane:
    """The shared sandbox with nothing left in it of earlier tests, and Leases that are free."""
    plane.clean()
    daemons.free_leases(plane)
    return plane


@pytest.fixture(scope="session")
def kubeconfig(plane: control_plane.ControlPlane) -> Path:
    """Of a user who may do what docs/permissions.md lists, and nothing else."""
    (text,) = re.findall(r"```yaml\n(.+?)```", PERMISSIONS.read_text(), re.DOTALL)
    role = yaml.safe_load(text)
    name = role["metadata"]["name"]
    plane.api.apply(f"{RBAC}/clusterroles/{name}", role)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"},
    }
    plane.api.apply(f"{RBAC}/clusterrolebindings/{name}", binding)
    return plane.kubeconfig_for(USER)


@pytest.fixture
def start(
    cluster: control_plane.ControlPlane, kubeconfig: Path, tmp_path: Path
) -> Iterator[daemons.Start]:
    """Start schedulers; none outlives the test."""
    del cluster  # only that it is clean
    started: list[daemons.Daemon] = []

    def begin(*flags: str) -> daemons.Daemon:
        started.append(daemons.Daemon(kubeconfig, tmp_path / f"{len(started)}.log", *flags))
        return started[-1]

    yield begin
    for daemon in started:
        if daemon.process.poll() is None:
            daemon.process.kill()
            daemon.process.wait()
