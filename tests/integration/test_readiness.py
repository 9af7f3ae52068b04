"""What /readyz says where the API server can't be reached, or doesn't show a kind."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox import control_plane, free_ports
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, permissions
from tests.integration.daemons import Daemon

LIMITED = "limited"
ROLE = "vscheduler-scheduler"


@dataclass
class Asked:
    """A daemon that is asked for its health."""

    daemon: Daemon
    port: int

    def get(self, path: str) -> tuple[int, str]:
        """Status and text; (0, "") where there is no answer within a second."""
        return daemons.asked(self.port, path)

    def until_says(self, status: int, words: str) -> str:
        """Wait until /readyz answers so; /livez is 200 all the time. Gives the text."""
        deadline = time.monotonic() + daemons.PATIENCE_SECONDS
        while True:
            found = self.get("/readyz")
            if found[0] == status and words in found[1]:
                return found[1]
            assert time.monotonic() < deadline, (found, self.daemon.text()[-2000:])
            assert self.daemon.process.poll() is None
            assert self.get("/livez")[0] in (0, 200)
            time.sleep(0.1)


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """One that may be stopped, and whose roles may be changed."""
    with control_plane.start() as running:
        running.create_namespace(permissions.NAMESPACE)
        running.create_nodes(count=1, cpu="8")
        yield running


@pytest.fixture
def asked(own_plane: ControlPlane, tmp_path: Path) -> Iterator[Asked]:
    """A scheduler with an account of its own, which has just been started."""
    path = permissions.permit_account(own_plane, LIMITED, LIMITED)
    yield from started(path, tmp_path)


def started(kubeconfig: Path, folder: Path) -> Iterator[Asked]:
    """A scheduler; none outlives the block."""
    (port,) = free_ports.choose(1)
    address = f"--healthz-address=127.0.0.1:{port}"
    daemon = Daemon(
        kubeconfig,
        folder / "log",
        f"--scheduler-name={LIMITED}",
        "--only=scheduler",
        "--enable-healthz",
        address,
    )
    yield Asked(daemon, port)
    daemon.process.kill()
    daemon.process.wait()


def test_a_server_that_does_not_answer_is_waited_for(own_plane: ControlPlane, asked: Asked) -> None:
    """Its connections stay open; no new process would fare better, so /livez is 200."""
    asked.until_says(200, "ok")
    server = own_plane.process_ids["kube-apiserver"]
    os.kill(server, signal.SIGSTOP)
    try:
        asked.until_says(503, "the API server can't be reached: ")
    finally:
        os.kill(server, signal.SIGCONT)
    asked.until_says(200, "ok")


@pytest.mark.parametrize(
    ("resource", "status", "words"),
    [
        ("priorityclasses", 200, "without PriorityClass: "),
        ("nodes", 503, "Node is needed, and refused: "),
    ],
)
def test_a_role_that_does_not_show_a_kind(
    own_plane: ControlPlane, tmp_path: Path, resource: str, status: int, words: str
) -> None:
    """Without a kind that is needed nobody is ready; without another pods are bound."""
    path = permissions.permit_account(own_plane, LIMITED, LIMITED)
    role = permissions.cluster_role("scheduler")
    whole = f"{permissions.RBAC}/clusterroles/{ROLE}"
    for half in ("scheduler", "controllers"):
        smaller = permissions.cluster_role(half)
        for rule in smaller["rules"]:
            rule["resources"] = [each for each in rule["resources"] if each != resource]
        smaller["rules"] = [rule for rule in smaller["rules"] if rule["resources"]]
        own_plane.api.apply(f"{permissions.RBAC}/clusterroles/vscheduler-{half}", smaller)
    try:
        for asked in started(path, tmp_path):
            text = asked.until_says(status, words)
            assert "is forbidden" in text
            if status == 200:
                name = f"gang-{resource}"
                daemons.a_gang(own_plane, name, 1, scheduler=LIMITED)
                daemons.until(
                    lambda: f"{name}-0" in daemons.nodes_of(own_plane),  # noqa: B023 - at once
                    asked.daemon,
                )
    finally:
        own_plane.api.apply(whole, role)
