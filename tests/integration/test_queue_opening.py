"""Opening and closing queues: by Command, from the command line, and under Volcano's CRD."""

import copy
import time
from collections.abc import Iterator

import pytest

from sandbox.client import PATCH_TYPES
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, foreign, forking, tenancy
from tests.integration.daemons import Start
from vscheduler.mirror import paths

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


@pytest.fixture
def bus(cluster: ControlPlane) -> Iterator[None]:
    """Volcano's CRD of Commands, as far as it matters; it goes afterwards."""
    with foreign.kind(cluster, "bus.volcano.sh", "v1alpha1", "Command"):
        yield


def a_command(cluster: ControlPlane, name: str, action: str, queue: str, uid: str = "") -> None:
    """A Command as vcctl makes it."""
    target = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "name": queue,
        "uid": uid or tenancy.queue_of(cluster, queue)["metadata"]["uid"],
    }
    cluster.api.create(
        COMMANDS,
        {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": name},
            "action": action,
            "target": target,
        },
    )


@pytest.mark.usefixtures("bus")
def test_commands_are_obeyed_then_deleted(cluster: ControlPlane, start: Start) -> None:
    """Also those that came while nobody ran; those to Jobs, and to queues long gone, do nothing."""
    daemons.a_queue(cluster, "red")
    a_command(cluster, "early", "CloseQueue", "red")
    cluster.api.create(
        COMMANDS,
        {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": "others"},
            "action": "AbortJob",
            "target": {"kind": "Job", "name": "red"},
        },
    )
    daemon = start()
    daemons.until(lambda: tenancy.state_of(cluster, "red") == "Closed", daemon)
    a_command(cluster, "stale", "OpenQueue", "red", uid="of-another")
    a_command(cluster, "root", "CloseQueue", "root")
    daemons.until(lambda: len(cluster.api.list(COMMANDS)) == 1, daemon)
    daemons.until(lambda: len(daemon.said("command.refused")) == 2, daemon)
    assert tenancy.state_of(cluster, "red") == "Closed"
    a_command(cluster, "late", "OpenQueue", "red")
    daemons.until(lambda: tenancy.state_of(cluster, "red") == "Open", daemon)
    daemons.until(lambda: len(cluster.api.list(COMMANDS)) == 1, daemon)
    assert [each["metadata"]["name"] for each in cluster.api.list(COMMANDS)] == ["others"]
    assert daemon.stop() == 0


def run_queue(cluster: ControlPlane, *arguments: str) -> tuple[int, str]:
    """`vscheduler queue …` as the sandbox's admin; status and what it says."""
    words = ("queue", *arguments, f"--kubeconfig={cluster.kubeconfig}")
    done = forking.run(*words, seconds=daemons.PATIENCE_SECONDS)
    return done.returncode, done.stdout + done.stderr


def test_the_command_opens_and_closes(cluster: ControlPlane, start: Start) -> None:
    """`vscheduler queue close` and `open` return when it is so, or say why it isn't."""
    daemons.a_queue(cluster, "top")
    tenancy.a_child(cluster, "leaf", "top")
    tenancy.a_group(cluster, "job", "leaf")
    assert run_queue(cluster, "close", "leaf", "--timeout=0.5")[0] == 1
    daemon = start()
    daemons.until(lambda: tenancy.state_of(cluster, "leaf") == "Closing", daemon)
    held = "queue leaf is closing: it takes no jobs, and still holds 1 job"
    status, said = run_queue(cluster, "close", "top", "leaf")
    assert (status, set(said.splitlines())) == (0, {"queue top is closed", held})
    assert run_queue(cluster, "open", "top", "leaf")[0] == 0
    assert run_queue(cluster, "close", "top")[0] == 0
    why = "queue leaf: queue top, which is above this one, is closed; this one opens with it"
    status, said = run_queue(cluster, "open", "leaf", "none")
    assert (status, said.splitlines()) == (1, ["there is no queue none", why])
    assert run_queue(cluster, "open", "top") == (0, "queue top is open\n")
    assert run_queue(cluster, "open", "leaf") == (0, "queue leaf is open\n")
    assert daemon.stop() == 0


@pytest.fixture
def narrow(cluster: ControlPlane) -> Iterator[None]:
    """A CRD of Queue as Volcano's: no conditions, and a status needs `allocated`."""
    path = f"{paths.DEFINITIONS.everywhere}/queues.scheduling.volcano.sh"
    ours = cluster.api.get(path)["spec"]["versions"]
    lacking = copy.deepcopy(ours)
    for version in lacking:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        for name in ("deserved", "request", "realCapability", "share", "conditions"):
            del status["properties"][name]
        status["required"] = ["allocated"]
    daemons.a_queue(cluster, "probe")
    cluster.api.patch(path, {"spec": {"versions": lacking}})
    try:
        probe(cluster, (422, 500))
        cluster.api.delete(f"{daemons.QUEUES}/probe")
        yield
    finally:
        cluster.api.patch(path, {"spec": {"versions": ours}})
        if not tenancy.queue_of(cluster, "probe"):
            daemons.a_queue(cluster, "probe")
        probe(cluster, (200,))


def probe(cluster: ControlPlane, answers: tuple[int, ...]) -> None:
    """Wait until the API server answers so to an apply of conditions."""
    condition = {"type": "probe", "status": "True"}
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "probe"},
        "status": {"conditions": [condition]},
    }
    query = {"fieldManager": "probe", "force": "true"}
    headers = {"content-type": PATCH_TYPES["apply"]}
    deadline = time.monotonic() + daemons.PATIENCE_SECONDS
    path = f"{daemons.QUEUES}/probe/status"
    while cluster.api.ask("PATCH", path, body, query=query, headers=headers).status not in answers:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.usefixtures("narrow")
def test_volcanos_queues_get_their_state_too(cluster: ControlPlane, start: Start) -> None:
    """State, counts and deletes work; what has no place is told once in the log."""
    daemons.a_queue(cluster, "top")
    tenancy.a_child(cluster, "leaf", "top")
    tenancy.a_group(cluster, "job", "leaf", "Running")
    daemon = start("--only=controllers")
    daemons.until(lambda: tenancy.counts_of(cluster, "leaf") == (1, 0, 0, 0, 0), daemon)
    tenancy.wish(cluster, "top", "Closed")
    daemons.until(lambda: tenancy.state_of(cluster, "leaf") == "Closing", daemon)
    daemons.until(lambda: daemon.said("queue.conditions_missing"), daemon)
    cluster.api.delete(f"{daemons.QUEUES}/leaf")
    waits = "the deletion waits for 1 PodGroup"
    daemons.until(
        lambda: waits in [each["message"] for each in daemon.said("queue.condition")], daemon
    )
    daemons.until_at_rest(lambda: tenancy.versions(cluster), daemon, 5)
    cluster.api.delete(f"{daemons.GROUPS}/job")
    daemons.until(lambda: not tenancy.queue_of(cluster, "leaf"), daemon)
    tenancy.wish(cluster, "top", "Open")
    daemons.until(lambda: tenancy.state_of(cluster, "top") == "Open", daemon)
    assert len(daemon.said("queue.conditions_missing")) == 1
    assert daemon.stop() == 0
