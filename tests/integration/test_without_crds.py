"""A cluster that serves Kubernetes' own PodGroups, and none of Volcano's kinds: the CRDs come while
the daemon runs, and go again.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import control_plane, definitions, free_ports
from sandbox.contents import NATIVE_POD_GROUPS
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, permissions
from tests.integration.daemons import ALONE, Daemon
from vscheduler.mirror import paths

PODS = paths.PODS.within("default")
GROUPS = NATIVE_POD_GROUPS.within("default")
GROUP_NAME = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"
WITHOUT = (
    "without Volcano's PodGroup: each pod without a PodGroup starts alone\n"
    "without Queue: all jobs are in the default queue, which has no limits\n"
)


@pytest.fixture
def bare() -> Iterator[ControlPlane]:
    """A control plane with Kubernetes' own gang API, and no CRD."""
    with control_plane.start(with_gang_api=True) as running:
        remove_crds(running)
        running.create_nodes(count=1, cpu="8")
        yield running


def remove_crds(plane: ControlPlane) -> None:
    """Whatever objects there are of them."""
    for each in plane.api.list(paths.DEFINITIONS.everywhere):
        plane.api.delete(paths.DEFINITIONS.at(each["metadata"]["name"]))


def a_pod(name: str, *, group: str = "", **annotations: str) -> dict[str, Any]:
    """A pod with a cpu; `group` is a PodGroup of Kubernetes."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    spec = {"schedulerName": "vscheduler", "containers": containers}
    named = {"schedulingGroup": {"podGroupName": group}} if group else {}
    metadata = {"name": name, "annotations": annotations}
    return {"metadata": metadata, "spec": {**spec, **named}}


def a_gang(plane: ControlPlane, name: str, size: int, queue: str = "") -> None:
    """A PodGroup of Kubernetes with its pods."""
    policy = {"schedulingPolicy": {"gang": {"minCount": size}}}
    annotations = {QUEUE: queue} if queue else {}
    metadata = {"name": name, "annotations": annotations}
    plane.api.create(GROUPS, {"metadata": metadata, "spec": policy})
    pods = [a_pod(f"{name}-{number}", group=name) for number in range(size)]
    plane.api.create_all(PODS, pods)


def said_of(plane: ControlPlane, pod: str) -> str:
    """What the pod's condition says."""
    conditions = plane.api.get(paths.PODS.at(pod, "default"))["status"].get("conditions", [])
    return "".join(each.get("message", "") for each in conditions)


def test_the_daemon_does_without_them(bare: ControlPlane, tmp_path: Path) -> None:
    """Nobody restarts anything, and it says what is missing."""
    account = permissions.permit_account(bare, permissions.TESTED, "vscheduler")
    (port,) = free_ports.choose(1)
    flags = (ALONE, daemons.FOR_ALL, "--enable-healthz", f"--healthz-address=127.0.0.1:{port}")
    daemon = Daemon(account, tmp_path / "log", *flags)

    def is_ready(says: str) -> bool:
        """Whether it is, and says just this of Volcano's kinds. Its controllers may start anew."""
        status, text = daemons.asked(port, "/readyz")
        return status == 200 and (says in text if says else "without" not in text)

    def starts(*pods: str) -> None:
        daemons.until(lambda: set(pods) <= daemons.nodes_of(bare).keys(), daemon)

    try:
        daemons.until(lambda: is_ready(WITHOUT), daemon)
        a_gang(bare, "first", 2, queue="lab")
        waits = a_pod("waits", **{GROUP_NAME: "train"})
        bare.api.create_all(PODS, [a_pod("plain"), waits])
        starts("first-0", "first-1", "plain")
        daemons.until(
            lambda: "there is no PodGroup default/train" in said_of(bare, "waits"), daemon
        )
        events = bare.api.list("/apis/events.k8s.io/v1/namespaces/default/events")
        assert any("default/train" in each.get("note", "") for each in events)

        listed, notes = said_by(bare, "job", "list")
        assert "first@scheduling.k8s.io" in listed
        assert "this cluster has no Queues" in notes
        assert "this cluster has no kind Queue of scheduling" in said_by(bare, "queue", "list")[1]

        definitions.apply_folder(bare.api, definitions.SHIPPED)
        daemons.until(lambda: is_ready(""), daemon)
        daemons.until(lambda: daemon.said("queues.on") and daemon.said("podgroups.on"), daemon)
        bare.api.create(paths.POD_GROUPS.within("default"), an_own_group("train"))
        bare.api.create(PODS, a_pod("later"))
        starts("waits", "later")
        daemons.until(lambda: group_of(bare, "plain"), daemon)
        a_gang(bare, "limited", 1, queue="nowhere")
        daemons.until(lambda: "nowhere" in said_of(bare, "limited-0"), daemon)

        remove_crds(bare)
        starts("limited-0")
        bare.api.create(PODS, a_pod("last"))
        starts("last")
        daemons.until(lambda: is_ready(WITHOUT), daemon)
    finally:
        daemon.kill()
    assert daemon.said("work.failed") == []


def said_by(plane: ControlPlane, *words: str) -> tuple[str, str]:
    """What a command prints, and what it notes."""
    command = [*daemons.PROGRAM, *words, f"--kubeconfig={plane.kubeconfig}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    return ran.stdout, ran.stderr


def an_own_group(name: str) -> dict[str, Any]:
    """A PodGroup of Volcano."""
    head = {"apiVersion": paths.VOLCANO, "kind": "PodGroup"}
    return {**head, "metadata": {"name": name}, "spec": {"minMember": 1}}


def group_of(plane: ControlPlane, pod: str) -> str:
    """The PodGroup of Volcano's that a pod names."""
    metadata = plane.api.get(paths.PODS.at(pod, "default"))["metadata"]
    return str(metadata.get("annotations", {}).get(GROUP_NAME, ""))
