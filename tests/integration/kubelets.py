"""Kubelets that look at who fits before they start a pod, as real ones do and kwok's don't.

And the controller behind the pods: one that was refused is replaced at once, as a ReplicaSet does.
"""

import datetime as dt
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sandbox.control_plane import ControlPlane
from tests.integration import daemons
from vscheduler.mirror.decode import quantities

UNTOUCHED = {"vscheduler.sandbox/unmanaged": "true"}
"""Annotation of pods that kwok leaves to these."""

PERIOD_SECONDS = 0.1

Pod = dict[str, Any]
Admit = Callable[[int, int], bool]
"""Whether a pod that asks for so much fits where so much is free; milli-cpu."""


def by_room(asked: int, free: int) -> bool:
    """What a kubelet does."""
    return asked <= free


class Kubelets:
    """Of all nodes of a cluster."""

    def __init__(self, cluster: ControlPlane, admit: Admit) -> None:
        self._cluster = cluster
        self._admit = admit
        self.refused: list[float] = []
        """When pods were refused, one after the other: monotonic seconds."""
        self.over = threading.Event()

    def work(self) -> None:
        """Until it is over: look at what was bound, in the order of the binds."""
        while not self.over.wait(PERIOD_SECONDS):
            pods = self._cluster.api.list(daemons.PODS)
            free = Counter(room(self._cluster))
            free.subtract(used(pods))
            for pod in sorted(pods, key=lambda each: int(each["metadata"]["resourceVersion"])):
                if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                    self._answer(pod, free)

    def _answer(self, pod: Pod, free: Counter[str]) -> None:
        node, asked = pod["spec"]["nodeName"], cpu(pod)
        name = pod["metadata"]["name"]
        if self._admit(asked, free[node]):
            free[node] -= asked
            self._tell(name, {"phase": "Running"})
            return
        self.refused.append(time.monotonic())
        self._tell(name, {"phase": "Failed", "reason": "OutOfcpu", "message": "not enough cpu"})
        self._replace(pod)

    def _tell(self, name: str, status: Mapping[str, str]) -> None:
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"status": {**status, "startTime": now}}
        self._cluster.api.patch(f"{daemons.PODS}/{name}/status", body)

    def _replace(self, pod: Pod) -> None:
        """Another pod of the same controller; the failed one goes."""
        metadata, spec = pod["metadata"], dict(pod["spec"])
        del spec["nodeName"]
        name = f"{metadata['name'].partition('.')[0]}.{len(self.refused)}"
        kept = {"name": name, "annotations": metadata["annotations"]}
        self._cluster.api.delete(f"{daemons.PODS}/{metadata['name']}")
        self._cluster.api.create(daemons.PODS, {"metadata": kept, "spec": spec})


@contextmanager
def running(cluster: ControlPlane, admit: Admit = by_room) -> Iterator[Kubelets]:
    """Kubelets at work on the nodes that are there; a mistake of theirs fails the test."""
    kubelets = Kubelets(cluster, admit)
    mistakes: list[BaseException] = []

    def work() -> None:
        try:
            kubelets.work()
        except BaseException as error:  # noqa: BLE001 - it is raised again where the test sees it
            mistakes.append(error)

    thread = threading.Thread(target=work, name="kubelets", daemon=True)
    thread.start()
    try:
        yield kubelets
    finally:
        kubelets.over.set()
        thread.join(daemons.PATIENCE_SECONDS)
    if mistakes:
        raise mistakes[0]


def room(cluster: ControlPlane) -> dict[str, int]:
    """Milli-cpu by node, full or empty."""
    return {
        node["metadata"]["name"]: quantities.parse("cpu", node["status"]["allocatable"]["cpu"])
        for node in cluster.api.list("/api/v1/nodes")
    }


def used(pods: list[Pod]) -> Counter[str]:
    """Milli-cpu by node of the pods that their kubelets have started."""
    held: Counter[str] = Counter()
    for pod in pods:
        if pod["status"]["phase"] == "Running":
            held[pod["spec"]["nodeName"]] += cpu(pod)
    return held


def cpu(pod: Pod) -> int:
    """What a pod asks for."""
    (container,) = pod["spec"]["containers"]
    return quantities.parse("cpu", container["resources"]["requests"]["cpu"])
