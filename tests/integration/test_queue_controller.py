"""The Queue controller on a real API server: states, counts, deletes, trees, Commands."""

import copy
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import daemons
from vscheduler.sandbox import client, control_plane, definitions

STATE = "vscheduler.io/wanted-state"
MARK = "volcano.sh/closed-by-parent"
IN_USE = "vscheduler.io/in-use"
COUNTERS = ("pending", "inqueue", "running", "unknown", "completed")
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


def queue_of(cluster: control_plane.ControlPlane, name: str) -> client.Object:
    """A Queue as it is stored; empty where there is none."""
    return cluster.api.find(f"{daemons.QUEUES}/{name}") or {}


def state_of(cluster: control_plane.ControlPlane, name: str) -> str:
    """The state of a Queue."""
    return str(queue_of(cluster, name).get("status", {}).get("state", ""))


def told(cluster: control_plane.ControlPlane, name: str) -> dict[str, tuple[str, str]]:
    """Reason and message of the controller's conditions on a Queue, by type."""
    conditions = queue_of(cluster, name).get("status", {}).get("conditions", [])
    return {
        each["type"].removeprefix("vscheduler.io/"): (each["reason"], each["message"])
        for each in conditions
        if each["type"].startswith("vscheduler.io/")
    }


def marks_of(cluster: control_plane.ControlPlane, name: str) -> str | None:
    """What says that a Queue is closed by one above it."""
    annotations = queue_of(cluster, name)["metadata"].get("annotations", {})
    return str(annotations[MARK]) if MARK in annotations else None


def a_child(cluster: control_plane.ControlPlane, name: str, parent: str, **spec: Any) -> None:
    """A Queue below another."""
    daemons.a_queue(cluster, name)
    cluster.api.patch(f"{daemons.QUEUES}/{name}", {"spec": {"parent": parent, **spec}})


def wish(cluster: control_plane.ControlPlane, name: str, state: str | None) -> None:
    """Annotate a Queue with the state that its owner wants."""
    body = {"metadata": {"annotations": {STATE: state}}}
    cluster.api.patch(f"{daemons.QUEUES}/{name}", body)


def counts_of(cluster: control_plane.ControlPlane, name: str) -> tuple[int, ...]:
    """How many PodGroups the status says that the Queue holds, by phase."""
    status = queue_of(cluster, name).get("status", {})
    return tuple(status.get(each, -1) for each in COUNTERS)


def versions(cluster: control_plane.ControlPlane) -> dict[str, str]:
    """The version of each Queue."""
    return {
        each["metadata"]["name"]: each["metadata"]["resourceVersion"]
        for each in cluster.api.list(daemons.QUEUES)
    }


def a_group(cluster: control_plane.ControlPlane, name: str, queue: str, phase: str = "") -> None:
    """A PodGroup without pods, of another scheduler, in this phase."""
    cluster.api.create(
        daemons.GROUPS,
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": name,
                "annotations": {"scheduling.volcano.sh/scheduler-name": "another"},
            },
            "spec": {"minMember": 1, "queue": queue},
            **({"status": {"phase": phase}} if phase else {}),
        },
    )


def test_root_and_default_are_made_and_kept(
    cluster: control_plane.ControlPlane, start: daemons.Start
) -> None:
    """Created where they are missing, also later; one that is there is left as it is."""
    daemons.a_queue(cluster, "default")
    cluster.api.patch(f"{daemons.QUEUES}/default", {"spec": {"weight": 7}})
    daemon = start()
    daemons.until(lambda: state_of(cluster, "root") == "Open", daemon)
    daemons.until(lambda: state_of(cluster, "default") == "Open", daemon)
    assert queue_of(cluster, "default")["spec"]["weight"] == 7
    assert queue_of(cluster, "root")["spec"]["reclaimable"] is False
    uid = queue_of(cluster, "default")["metadata"]["uid"]
    cluster.api.delete(f"{daemons.QUEUES}/default")
    daemons.until(
        lambda: queue_of(cluster, "default").get("metadata", {}).get("uid", uid) != uid, daemon
    )
    assert daemon.stop() == 0


def test_a_queue_with_jobs_outlives_its_deletion(
    cluster: control_plane.ControlPlane, start: daemons.Start
) -> None:
    """`kubectl delete` waits, says for what, and the queue goes when its last job has."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_queue(cluster, "lab")
    a_child(cluster, "bench", "lab")
    daemons.a_gang(cluster, "one", 1, group={"queue": "lab"})
    daemons.a_gang(cluster, "two", 1, group={"queue": "lab"})
    daemon = start()
    daemons.until(lambda: counts_of(cluster, "lab") == (0, 0, 2, 0, 0), daemon)
    daemons.until(lambda: IN_USE in queue_of(cluster, "lab")["metadata"]["finalizers"], daemon)
    cluster.run_kubectl("delete", "queue", "lab", "--wait=false")
    daemons.until(lambda: "InUse" in told(cluster, "lab"), daemon)
    shown = json.loads(cluster.run_kubectl("get", "queue", "lab", "-o", "json"))
    assert shown["metadata"]["deletionTimestamp"]
    assert shown["metadata"]["finalizers"] == [IN_USE]
    assert shown["status"]["state"] == "Closing"
    assert told(cluster, "lab")["InUse"] == (
        "PodGroups",
        "the deletion waits for 2 PodGroups and child queue bench",
    )
    assert len(daemons.nodes_of(cluster)) == 2
    cluster.api.delete(f"{daemons.QUEUES}/bench")
    cluster.api.delete(f"{daemons.GROUPS}/one")
    daemons.until(
        lambda: told(cluster, "lab")["InUse"][1] == "the deletion waits for 1 PodGroup", daemon
    )
    cluster.api.delete(f"{daemons.GROUPS}/two")
    daemons.until(lambda: not queue_of(cluster, "lab"), daemon)
    assert daemon.said("queue.released")[0]["queue"] == "lab"
    assert not daemon.said("queue.not_kept")
    assert daemon.stop() == 0


def test_a_tree_is_closed_and_opened_from_above(
    cluster: control_plane.ControlPlane, start: daemons.Start
) -> None:
    """Queues below close and open with it, but for one that its owner has closed."""
    daemons.a_queue(cluster, "top")
    for name, parent in (("left", "top"), ("leaf", "left"), ("right", "top")):
        a_child(cluster, name, parent)
    a_group(cluster, "job", "leaf")
    daemon = start()
    tree = ("top", "left", "leaf", "right")
    daemons.until(lambda: [state_of(cluster, each) for each in tree] == ["Open"] * 4, daemon)
    wish(cluster, "right", "Closed")
    daemons.until(lambda: state_of(cluster, "right") == "Closed", daemon)
    wish(cluster, "top", "Closed")
    daemons.until(
        lambda: (
            [state_of(cluster, each) for each in tree] == ["Closed", "Closed", "Closing", "Closed"]
        ),
        daemon,
    )
    assert [marks_of(cluster, each) for each in tree] == [None, "true", "true", None]
    wish(cluster, "left", "Open")
    time.sleep(1)
    assert state_of(cluster, "left") == "Closed"
    assert told(cluster, "left")["WantedState"] == (
        "ParentClosed",
        "queue top, which is above this one, is closed; this one opens with it",
    )
    wish(cluster, "top", "Open")
    daemons.until(
        lambda: [state_of(cluster, each) for each in tree] == ["Open", "Open", "Open", "Closed"],
        daemon,
    )
    daemons.until(lambda: not marks_of(cluster, "leaf"), daemon)
    daemons.until(lambda: not told(cluster, "leaf"), daemon)
    wish(cluster, "root", "Closed")
    daemons.until(lambda: "WantedState" in told(cluster, "root"), daemon)
    assert (state_of(cluster, "root"), state_of(cluster, "top")) == ("Open", "Open")
    assert daemon.stop() == 0


def test_a_restart_in_the_middle_of_closing_goes_on(
    cluster: control_plane.ControlPlane, start: daemons.Start
) -> None:
    """Closing stays so until the last job has gone, whoever runs by then."""
    daemons.a_queue(cluster, "top")
    a_child(cluster, "leaf", "top")
    for name in ("first", "second"):
        a_group(cluster, name, "leaf")
    daemon = start()
    daemons.until(lambda: counts_of(cluster, "leaf") == (2, 0, 0, 0, 0), daemon)
    wish(cluster, "top", "Closed")
    daemons.until(lambda: state_of(cluster, "leaf") == "Closing", daemon)
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    cluster.api.delete(f"{daemons.GROUPS}/first")
    wish(cluster, "leaf", None)
    second = start()
    daemons.until(lambda: counts_of(cluster, "leaf") == (1, 0, 0, 0, 0), second)
    assert state_of(cluster, "leaf") == "Closing"
    cluster.api.delete(f"{daemons.GROUPS}/second")
    daemons.until(lambda: state_of(cluster, "leaf") == "Closed", second)
    wish(cluster, "top", "Open")
    daemons.until(lambda: state_of(cluster, "leaf") == "Open", second)
    assert second.stop() == 0


def test_a_cycle_of_two_edits_is_told_and_mended(
    cluster: control_plane.ControlPlane, start: daemons.Start
) -> None:
    """Both queues and what is below them say so, others go on; a mended tree says nothing."""
    for name in ("east", "west", "fine"):
        daemons.a_queue(cluster, name)
    a_child(cluster, "below", "east")
    daemon = start()
    daemons.until(lambda: state_of(cluster, "below") == "Open", daemon)
    for name, parent in (("east", "west"), ("west", "east")):
        cluster.api.patch(f"{daemons.QUEUES}/{name}", {"spec": {"parent": parent}})
    message = (
        "queue east is its own ancestor (east -> west -> east); correct spec.parent of one of them"
    )
    problem = {"Tree": ("ParentCycle", message)}
    daemons.until(
        lambda: [told(cluster, each) for each in ("east", "west", "below")] == [problem] * 3, daemon
    )
    assert told(cluster, "fine") == {}
    cluster.api.patch(f"{daemons.QUEUES}/west", {"spec": {"parent": "nowhere"}})
    daemons.until(lambda: told(cluster, "below").get("Tree", ("",))[0] == "ParentMissing", daemon)
    cluster.api.patch(f"{daemons.QUEUES}/west", {"spec": {"parent": "root"}})
    daemons.until(lambda: not any(told(cluster, n) for n in ("east", "west", "below")), daemon)
    assert daemon.stop() == 0


def test_counts_of_many_groups_are_right_and_nothing_is_written_at_rest(
    cluster: control_plane.ControlPlane, start: daemons.Start
) -> None:
    """50 PodGroups in all phases, some gone while nobody looked; then ten still seconds."""
    daemons.a_queue(cluster, "red")
    phases = ["", "Pending", "Inqueue", "Running", "Unknown", "Completed"]
    for number in range(50):
        queue = "red" if number % 5 else "default"
        a_group(cluster, f"job-{number}", queue, phases[number % len(phases)])
    daemon = start()

    def right() -> bool:
        groups = cluster.api.list(daemons.GROUPS)
        return all(
            counts_of(cluster, queue)
            == tuple(
                sum(
                    each["spec"]["queue"] == queue
                    and (each.get("status", {}).get("phase") or "Pending").lower() == phase
                    for each in groups
                )
                for phase in COUNTERS
            )
            for queue in ("red", "default", "root")
        )

    daemons.until(right, daemon)
    assert sum(counts_of(cluster, "red")) == 40
    for number in range(0, 50, 7):
        cluster.api.delete(f"{daemons.GROUPS}/job-{number}")
    cluster.api.patch(f"{daemons.GROUPS}/job-1", {"status": {"phase": "Completed"}})
    daemons.until(right, daemon)
    time.sleep(2)
    before = versions(cluster)
    time.sleep(10)
    assert versions(cluster) == before
    assert daemon.stop() == 0
    second = start()
    daemons.until(lambda: second.said("kopf.started"), second)
    time.sleep(3)
    assert versions(cluster) == before, "what an earlier process wrote is not written again"
    assert second.stop() == 0


@pytest.fixture
def bus(cluster: control_plane.ControlPlane) -> Iterator[None]:
    """Volcano's CRD of Commands, as far as it matters; it goes afterwards."""
    name = "commands.bus.volcano.sh"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    cluster.api.create(
        definitions.COLLECTION,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": "bus.volcano.sh",
                "scope": "Namespaced",
                "names": {"kind": "Command", "plural": "commands", "singular": "command"},
                "versions": [version],
            },
        },
    )
    cluster.api.wait_for(COMMANDS, lambda _: True)
    yield
    cluster.api.delete(f"{definitions.COLLECTION}/{name}")
    cluster.api.wait_until_gone(f"{definitions.COLLECTION}/{name}")


def a_command(
    cluster: control_plane.ControlPlane, name: str, action: str, queue: str, uid: str = ""
) -> None:
    """A Command as vcctl makes it."""
    target = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "name": queue,
        "uid": uid or queue_of(cluster, queue)["metadata"]["uid"],
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
def test_commands_are_obeyed_then_deleted(
    cluster: control_plane.ControlPlane, start: daemons.Start
) -> None:
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
    daemons.until(lambda: state_of(cluster, "red") == "Closed", daemon)
    a_command(cluster, "stale", "OpenQueue", "red", uid="of-another")
    a_command(cluster, "root", "CloseQueue", "root")
    daemons.until(lambda: len(cluster.api.list(COMMANDS)) == 1, daemon)
    assert state_of(cluster, "red") == "Closed"
    assert len(daemon.said("command.refused")) == 2
    a_command(cluster, "late", "OpenQueue", "red")
    daemons.until(lambda: state_of(cluster, "red") == "Open", daemon)
    daemons.until(lambda: len(cluster.api.list(COMMANDS)) == 1, daemon)
    assert [each["metadata"]["name"] for each in cluster.api.list(COMMANDS)] == ["others"]
    assert daemon.stop() == 0


def run_queue(cluster: control_plane.ControlPlane, *arguments: str) -> tuple[int, str]:
    """`vscheduler queue …` as the sandbox's admin; status and what it says."""
    command = [sys.executable, "-m", "vscheduler", "queue", *arguments]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, f"--kubeconfig={cluster.kubeconfig}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_command_opens_and_closes(
    cluster: control_plane.ControlPlane, start: daemons.Start
) -> None:
    """`vscheduler queue close` and `open` return when it is so, or say why it isn't."""
    daemons.a_queue(cluster, "top")
    a_child(cluster, "leaf", "top")
    a_group(cluster, "job", "leaf")
    assert run_queue(cluster, "close", "leaf", "--timeout=0.5")[0] == 1
    daemon = start()
    daemons.until(lambda: state_of(cluster, "leaf") == "Closing", daemon)
    held = "queue leaf is closing: it takes no PodGroups, and still holds 1 PodGroup"
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
def narrow(cluster: control_plane.ControlPlane) -> Iterator[None]:
    """A CRD of Queue as Volcano's: no conditions, and a status needs `allocated`."""
    path = f"{definitions.COLLECTION}/queues.scheduling.volcano.sh"
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
        if not queue_of(cluster, "probe"):
            daemons.a_queue(cluster, "probe")
        probe(cluster, (200,))


def probe(cluster: control_plane.ControlPlane, answers: tuple[int, ...]) -> None:
    """Wait until the API server answers so to an apply of conditions."""
    condition = {"type": "probe", "status": "True"}
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "probe"},
        "status": {"conditions": [condition]},
    }
    query = {"fieldManager": "probe", "force": "true"}
    headers = {"content-type": client.PATCH_TYPES["apply"]}
    deadline = time.monotonic() + daemons.PATIENCE_SECONDS
    path = f"{daemons.QUEUES}/probe/status"
    while cluster.api.ask("PATCH", path, body, query=query, headers=headers).status not in answers:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.usefixtures("narrow")
def test_volcanos_queues_get_their_state_too(
    cluster: control_plane.ControlPlane, start: daemons.Start
) -> None:
    """State, counts and deletes work; what has no place is told once in the log."""
    daemons.a_queue(cluster, "top")
    a_child(cluster, "leaf", "top")
    a_group(cluster, "job", "leaf", "Running")
    daemon = start("--only=controllers")
    daemons.until(lambda: counts_of(cluster, "leaf") == (0, 0, 1, 0, 0), daemon)
    wish(cluster, "top", "Closed")
    daemons.until(lambda: state_of(cluster, "leaf") == "Closing", daemon)
    daemons.until(lambda: daemon.said("queue.conditions_missing"), daemon)
    cluster.api.delete(f"{daemons.QUEUES}/leaf")
    time.sleep(2)
    before = versions(cluster)
    time.sleep(5)
    assert versions(cluster) == before
    cluster.api.delete(f"{daemons.GROUPS}/job")
    daemons.until(lambda: not queue_of(cluster, "leaf"), daemon)
    wish(cluster, "top", "Open")
    daemons.until(lambda: state_of(cluster, "top") == "Open", daemon)
    assert len(daemon.said("queue.conditions_missing")) == 1
    assert daemon.stop() == 0
