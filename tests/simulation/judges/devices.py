"""What claims of devices, slices and pods with such claims say."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.simulation.judges import objects, volumes
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.history import Object

CLAIMS, SLICES = "resourceclaims", "resourceslices"
CLASS = "sim-gpu"
DRIVER = "gpu.sim"
EXTENDED = "sim.example.com/gpu"
"""The resource of containers that stands for the class. No node has it by a device plugin."""
COUNTED = f"deviceclass.resource.k8s.io/{CLASS}"
"""What devices of the class are in a Queue."""


class Device(NamedTuple):
    """A device in the cluster."""

    driver: str
    pool: str
    name: str


def claims_of(pod: Object) -> Sequence[Key | None]:
    """The claims of a pod; None for one that isn't made yet."""
    namespace = pod["metadata"].get("namespace", "")
    status = pod.get("status") or {}
    made = {
        each["name"]: each.get("resourceClaimName")
        for each in status.get("resourceClaimStatuses") or ()
    }
    found: list[Key | None] = []
    for each in pod["spec"].get("resourceClaims") or ():
        name = each.get("resourceClaimName") or made.get(each["name"])
        found.append((namespace, name) if name else None)
    if asks_by_name(pod):
        name = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
        found.append((namespace, name) if name else None)
    return found


def asks_by_name(pod: Object) -> bool:
    """Whether a pod asks for devices by the resource that stands for them."""
    return any(
        EXTENDED in ((each.get("resources") or {}).get("requests") or {})
        for each in pod["spec"].get("containers") or ()
    )


def from_claims(pod: Object) -> frozenset[str]:
    """The extended resources that a pod gets as devices of a claim."""
    claim = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return frozenset(each["resourceName"] for each in claim.get("requestMappings") or ())


def allocation(claim: Object | None) -> Object | None:
    """The allocation of a claim."""
    status = (claim or {}).get("status") or {}
    found: Object | None = status.get("allocation")
    return found


def devices_of(claim: Object | None) -> Iterator[Device]:
    """The devices that a claim has."""
    found = (allocation(claim) or {}).get("devices") or {}
    for each in found.get("results") or ():
        yield Device(each["driver"], each["pool"], each["device"])


def usable(claim: Object, slices: Iterable[Object]) -> Iterator[Device]:
    """The devices that a claim may have: those of the newest generation of a pool that is
    complete, without those that have a taint, unless the claim tolerates taints.
    """
    pools: defaultdict[tuple[str, str], list[Object]] = defaultdict(list)
    for each in slices:
        pools[each["spec"]["driver"], each["spec"]["pool"]["name"]].append(each["spec"])
    requests = claim["spec"]["devices"]["requests"]
    tolerant = all(request["exactly"].get("tolerations") for request in requests)
    for (driver, pool), specs in pools.items():
        newest = max(spec["pool"]["generation"] for spec in specs)
        current = [spec for spec in specs if spec["pool"]["generation"] == newest]
        if len(current) == current[0]["pool"]["resourceSliceCount"]:
            for device in (device for each in current for device in each.get("devices") or ()):
                if tolerant or not device.get("taints"):
                    yield Device(driver, pool, device["name"])


def consumers(claim: Object) -> set[str]:
    """UIDs of the pods that a claim is reserved for."""
    return {each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or ()}


def first_user(claim: Object, cluster: Cluster) -> Object | None:
    """The first living pod that a claim is reserved for: it counts for this one's Queue."""
    for each in (claim.get("status") or {}).get("reservedFor") or ():
        pod = cluster.get("pods", (claim["metadata"].get("namespace", ""), each["name"]))
        if pod is None or pod["metadata"]["uid"] != each["uid"]:
            continue
        if not objects.leaving(pod) and not objects.ended(pod):
            return pod
    return None


def reaches(claim: Object, node: Object) -> bool:
    """Whether the devices of a claim can be used on a node."""
    selector = (allocation(claim) or {}).get("nodeSelector")
    volume: Object = {"metadata": {}, "spec": {}}
    if selector is not None:
        volume["spec"]["nodeAffinity"] = {"required": selector}
    return volumes.reaches(volume, node)


def asked(claim: Object) -> int:
    """How many devices a claim asks for."""
    requests = claim["spec"]["devices"]["requests"]
    return sum(request["exactly"].get("count", 1) for request in requests)


def in_use(pod: Object) -> bool:
    """Whether a pod has a node, and hasn't ended."""
    return bool(objects.node_of(pod)) and not objects.ended(pod)
