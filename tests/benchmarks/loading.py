"""The same load for every competitor, and when each pod of it was created."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandbox import client
from sandbox.client import Object
from sandbox.contents import NATIVE_POD_GROUPS
from sandbox.control_plane import ControlPlane
from sandbox.errors import TimedOut
from tests.benchmarks.shapes import Shape
from tests.integration import devices
from vscheduler.mirror import paths
from vscheduler.mirror.translate import translation

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
REQUESTS: Mapping[str, str] = {"cpu": "1", "memory": "1Gi"}
SMALL, LARGE = "40Gi", "80Gi"
"""What GPUs have: small ones on the first half of the nodes, large ones on the others."""
TEMPLATES: Mapping[str, tuple[int, str]] = {"one-gpu": (1, SMALL), "two-gpus": (2, LARGE)}
"""How many GPUs, and how much memory each must have at least; pods have these claims in turn."""
RACK = "example.com/rack"
CLAIMS_POLL_SECONDS = 0.5
CLAIMS_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    """Whom the pods name."""

    scheduler: str
    grouped: bool = True
    """Whether gangs have PodGroups; by default, kube-scheduler gets the pods alone."""
    native: bool = False
    """Whether these PodGroups are Kubernetes' own."""


class Loader:
    """Creates objects over several connections."""

    def __init__(self, plane: ControlPlane, customer: Customer) -> None:
        self._plane = plane
        self._customer = customer
        self._lock = threading.Lock()
        self.created: dict[str, float] = {}
        """time.monotonic() by pod, once the API server had answered."""

    def add_nodes(self, count: int, racks: int = 0) -> list[str]:
        """Equal nodes, in so many racks if any, and the queue that Volcano's users have."""
        if self._customer.grouped and not self._customer.native:
            self.add_queue("default")
        if not racks:
            return self._plane.create_nodes(count=count)
        each = -(-count // racks)
        return [
            name
            for rack, first in enumerate(range(0, count, each))
            for name in self._plane.create_nodes(
                count=min(each, count - first), first=first, labels={RACK: f"rack-{rack}"}
            )
        ]

    def add_devices(self, names: Sequence[str], each: int) -> None:
        """A class, a pool of equal GPUs on each of these nodes, and templates of claims for them.

        Each claim of a template selects by CEL, beside the class.
        """
        half = len(names) // 2
        devices.publish(self._plane.api, names[:half], each, SMALL)
        devices.publish_slices(self._plane.api, names[half:], each, LARGE)
        for name, (count, memory) in TEMPLATES.items():
            devices.a_template(self._plane.api, name, devices.asked(count, memory))

    def add_gangs(self, shape: Shape) -> None:
        """All PodGroups, then all pods, at the shape's rate where it has one."""
        names = [f"gang-{number}" for number in range(shape.gangs)]
        self.add_groups(names, shape.size, near=bool(shape.racks))
        templates = [*TEMPLATES] if shape.devices else [""]
        pods = [
            pod(self._customer, name, number, template=templates[number % len(templates)])
            for name in names
            for number in range(shape.size)
        ]
        self.add_pods(paced(pods, shape.rate) if shape.rate else pods)

    def wait_for_claims(self) -> None:
        """Until the controller manager has made the claims of all pods, and told the pods.

        Raises errors.TimedOut.
        """
        deadline = time.monotonic() + CLAIMS_SECONDS
        while self._without_claim():
            if time.monotonic() > deadline:
                raise TimedOut(f"pods have no claims after {CLAIMS_SECONDS:.0f} s")
            time.sleep(CLAIMS_POLL_SECONDS)

    def _without_claim(self) -> bool:
        """Whether a pod doesn't know its claim. Pods are only read once there are enough claims."""
        first = self._plane.api.get(f"{paths.RESOURCE_CLAIMS.within(NAMESPACE)}?limit=1")
        rest = first["metadata"].get("remainingItemCount", 0)
        if len(first["items"] or ()) + rest < len(self.created):
            return True
        pods = self._plane.api.list(PODS)
        return any("resourceClaimStatuses" not in pod["status"] for pod in pods)

    def add_queue(self, name: str) -> None:
        """A queue of weight 1, open as Volcano's controllers leave it."""
        self._plane.api.create(QUEUES, queue(name))
        self._plane.api.patch(f"{QUEUES}/{name}/status", {"status": {"state": "Open"}})

    def add_groups(
        self, names: Sequence[str], minimum: int, queue: str = "default", *, near: bool = False
    ) -> None:
        """PodGroups that need so many pods, in one rack if `near`, where PodGroups are wanted."""
        if self._customer.native:
            bodies = [native_group(name, minimum, near=near) for name in names]
            self._plane.api.create_all(NATIVE_POD_GROUPS.within(NAMESPACE), bodies)
        elif self._customer.grouped:
            bodies = [group(name, minimum, queue, near=near) for name in names]
            self._plane.api.create_all(GROUPS, bodies)

    def add_pods(self, pods: Iterable[Object]) -> None:
        """Pods, in any order; when each was created is noted."""
        client.in_parallel(self._create, pods)

    def _create(self, body: Object) -> None:
        self._plane.api.create(PODS, body)
        with self._lock:
            self.created[body["metadata"]["name"]] = time.monotonic()


_VOLCANO = {"apiVersion": "scheduling.volcano.sh/v1beta1"}


def queue(name: str) -> Object:
    """A queue of weight 1."""
    return {**_VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}


def group(name: str, minimum: int, queue: str = "default", *, near: bool = False) -> Object:
    """A PodGroup, whose pods have to be in one rack if `near`."""
    rack = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}} if near else {}
    return {
        **_VOLCANO,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": minimum, "queue": queue, **rack},
    }


def native_group(name: str, minimum: int, *, near: bool = False) -> Object:
    """The same as Kubernetes' own gang API has it; the queue is an annotation there."""
    spec: Object = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    metadata = {"name": name, "annotations": {translation.QUEUE: "default"}}
    if near:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    return {"metadata": metadata, "spec": spec}


def pod(
    customer: Customer,
    gang: str,
    number: int,
    *,
    requests: Mapping[str, str] = REQUESTS,
    node: str = "",
    template: str = "",
) -> Object:
    """One pod of a gang; with a node it is bound from the start. A template is that of its claim
    for devices.
    """
    metadata: Object = {"name": f"{gang}-{number}"}
    if customer.grouped and not customer.native:
        metadata["annotations"] = {GROUP_ANNOTATION: gang}
    resources: Object = {"requests": dict(requests)}
    container = {"name": "main", "image": "none", "resources": resources}
    spec: Object = {"schedulerName": customer.scheduler, "containers": [container]}
    if customer.native:
        spec["schedulingGroup"] = {"podGroupName": gang}
    if node:
        spec["nodeName"] = node
    if template:
        resources["claims"] = [{"name": "gpus"}]
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": template}]
    return {"metadata": metadata, "spec": spec}


def paced(pods: Iterable[Object], rate: int) -> Iterator[Object]:
    """Each at its time, so many a second from now on; late ones aren't waited for."""
    started = time.monotonic()
    for number, each in enumerate(pods):
        time.sleep(max(0.0, started + number / rate - time.monotonic()))
        yield each
