"""The Helm chart on a real API server, from its installation to its end."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import binaries, control_plane
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, installations
from vscheduler.mirror import paths

CHART = Path(__file__).parents[2] / "charts" / "vscheduler"
NAMESPACE = "volcano-system"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
TWO = [{"name": "vscheduler-online"}, {"name": "gpu"}]


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane where nothing is installed."""
    with control_plane.start() as started:
        crds = [f"{paths.DEFINITIONS.everywhere}/{name}" for name in installations.CRDS]
        for path in crds:
            started.api.delete(path)
        for path in crds:
            started.api.wait_until_gone(path, timeout_seconds=daemons.PATIENCE_SECONDS)
        yield started


def helm(plane: ControlPlane, *words: str) -> str:
    """What it says; an error fails the test."""
    program = binaries.find_or_build((binaries.HELM,))[binaries.HELM]
    done = subprocess.run(  # noqa: S603 - helm, on files of ours
        [program, *words, f"--namespace={NAMESPACE}", f"--kubeconfig={plane.kubeconfig}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def deployments(plane: ControlPlane) -> set[str]:
    """The names of those that run us."""
    return {each["metadata"]["name"] for each in plane.api.list(installations.DEPLOYMENTS)}


def test_the_chart_is_installed_changed_and_removed(plane: ControlPlane) -> None:
    """Queues outlive it, and it can be installed again."""
    said = helm(plane, "install", "vscheduler", str(CHART), "--create-namespace")
    assert "  vscheduler\n" in said
    assert deployments(plane) == {"vscheduler", "vscheduler-controllers"}
    daemons.a_queue(plane, "gold")
    two = f"--set-json=schedulers={json.dumps(TWO)}"
    helm(plane, "upgrade", "vscheduler", str(CHART), two)
    assert deployments(plane) == {"vscheduler-online", "gpu", "vscheduler-controllers"}
    helm(plane, "uninstall", "vscheduler")
    assert deployments(plane) == set()
    assert plane.api.get(f"{QUEUES}/gold")["metadata"]["name"] == "gold"
    helm(plane, "install", "vscheduler", str(CHART))
    assert deployments(plane) == {"vscheduler", "vscheduler-controllers"}
