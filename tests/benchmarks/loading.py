"""The same load for every competitor, and when each pod of it was created."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.benchmarks import shapes
from vscheduler.sandbox import client, control_plane

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
REQUESTS: Mapping[str, str] = {"cpu": "1", "memory": "1Gi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    """Whom the pods name."""

    scheduler: str
    grouped: bool = True
    """Whether gangs have PodGroups; kube-scheduler knows none, and gets the pods alone."""


class Loader:
    """Creates objects over several connections."""

    def __init__(self, plane: control_plane.ControlPlane, customer: Customer) -> None:
        self._plane = plane
        self._customer = customer
        self._lock = threading.Lock()
        self.created: dict[str, float] = {}
        """time.monotonic() by pod, once the API server had answered."""

    def add_nodes(self, count: int) -> list[str]:
        """Equal nodes, and the queue that Volcano's users have."""
        if self._customer.grouped:
            self.add_queue("default")
        return self._plane.create_nodes(count=count)

    def add_gangs(self, shape: shapes.Shape) -> None:
        """All PodGroups, then all pods, at the shape's rate where it has one."""
        names = [f"gang-{number}" for number in range(shape.gangs)]
        self.add_groups(names, shape.size)
        pods = [pod(self._customer, name, number) for name in names for number in range(shape.size)]
        self.add_pods(paced(pods, shape.rate) if shape.rate else pods)

    def add_queue(self, name: str) -> None:
        """A queue of weight 1."""
        body = {**_VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
        self._plane.api.create(QUEUES, body)

    def add_groups(self, names: Sequence[str], minimum: int, queue: str = "default") -> None:
        """PodGroups that need so many pods, where PodGroups are wanted."""
        if self._customer.grouped:
            self._plane.api.create_all(GROUPS, [group(name, minimum, queue) for name in names])

    def add_pods(self, pods: Iterable[client.Object]) -> None:
        """Pods, in any order; when each was created is noted."""
        client.in_parallel(self._create, pods)

    def _create(self, body: client.Object) -> None:
        self._plane.api.create(PODS, body)
        with self._lock:
            self.created[body["metadata"]["name"]] = time.monotonic()


_VOLCANO = {"apiVersion": "scheduling.volcano.sh/v1beta1"}


def group(name: str, minimum: int, queue: str = "default") -> client.Object:
    """A PodGroup."""
    return {
        **_VOLCANO,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": minimum, "queue": queue},
    }


def pod(
    customer: Customer,
    gang: str,
    number: int,
    *,
    requests: Mapping[str, str] = REQUESTS,
    node: str = "",
) -> client.Object:
    """One pod of a gang; with a node it is bound from the start."""
    metadata: client.Object = {"name": f"{gang}-{number}"}
    if customer.grouped:
        metadata["annotations"] = {GROUP_ANNOTATION: gang}
    container = {"name": "main", "image": "none", "resources": {"requests": dict(requests)}}
    spec: client.Object = {"schedulerName": customer.scheduler, "containers": [container]}
    if node:
        spec["nodeName"] = node
    return {"metadata": metadata, "spec": spec}


def paced(pods: Iterable[client.Object], rate: int) -> Iterator[client.Object]:
    """Each at its time, so many a second from now on; late ones aren't waited for."""
    started = time.monotonic()
    for number, each in enumerate(pods):
        time.sleep(max(0.0, started + number / rate - time.monotonic()))
        yield each
