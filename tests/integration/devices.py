"""A small driver of devices: it publishes API objects as a DRA driver does, and nothing else.

Claims are made from templates, and freed after their pods, by kube-controller-manager.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.client import Client, Object
from sandbox.control_plane import ControlPlane
from tests.integration import daemons
from vscheduler.mirror import paths

DRIVER = "gpu.tests"
CLASS = "gpu.tests"
EXTENDED = "tests.example.com/gpu"
"""The resource of containers that stands for the class."""
NAMESPACE = "default"
CLAIMS = paths.RESOURCE_CLAIMS.within(NAMESPACE)
TEMPLATES = paths.RESOURCE_CLAIM_TEMPLATES.within(NAMESPACE)
Device = tuple[str, str, str]
"""Driver, pool and name."""


def publish(api: Client, nodes: Sequence[str], each: int, memory: str = "80Gi") -> None:
    """A class, and so many devices on each node."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    spec = {"selectors": [selector], "extendedResourceName": EXTENDED}
    body = {"metadata": {"name": CLASS}, "spec": spec}
    api.create(paths.DEVICE_CLASSES.everywhere, body)
    publish_slices(api, nodes, each, memory)


def publish_slices(api: Client, nodes: Sequence[str], each: int, memory: str) -> None:
    """So many devices on each node, of a class that is there."""
    slices = [a_slice(node, each, memory) for node in nodes]
    api.create_all(paths.RESOURCE_SLICES.everywhere, slices)


def a_slice(node: str, count: int, memory: str) -> dict[str, Any]:
    """The devices of a node, which are a pool of their own."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"index": {"int": number}},
            "capacity": {"memory": {"value": memory}},
        }
        for number in range(count)
    ]
    return {
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def asked(count: int, memory: str = "") -> dict[str, Any]:
    """The spec of a claim of so many devices, each with so much memory."""
    exactly: dict[str, Any] = {"deviceClassName": CLASS, "count": count}
    if memory:
        text = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{memory}")) >= 0'
        exactly["selectors"] = [{"cel": {"expression": text}}]
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}


def a_template(api: Client, name: str, spec: Mapping[str, Any]) -> None:
    """A template of claims."""
    api.create(TEMPLATES, {"metadata": {"name": name}, "spec": {"spec": dict(spec)}})


def a_claim(api: Client, name: str, spec: Mapping[str, Any]) -> None:
    """A claim that pods share."""
    api.create(CLAIMS, {"metadata": {"name": name}, "spec": dict(spec)})


def a_gang(
    cluster: ControlPlane, name: str, size: int, *uses: Mapping[str, str], **spec: Any
) -> None:
    """A gang that needs all its pods; `uses` are the entries of spec.resourceClaims but for their
    names, `spec` is more of the pods.
    """
    group = {"apiVersion": paths.VOLCANO, "kind": "PodGroup", "metadata": {"name": name}}
    cluster.api.create(daemons.GROUPS, {**group, "spec": {"minMember": size}})
    cluster.api.create_all(
        daemons.PODS, [a_pod(f"{name}-{number}", name, *uses, **spec) for number in range(size)]
    )


def a_pod(name: str, group: str, *uses: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    """A pod of a gang."""
    names = [f"claim-{number}" for number in range(len(uses))]
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": name} for name in names]}
    metadata = {"name": name, "annotations": {daemons.GROUP_NAME: group}, "labels": {"app": group}}
    return {
        "metadata": metadata,
        "spec": {
            "schedulerName": "vscheduler",
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "resourceClaims": [
                {"name": name, **use} for name, use in zip(names, uses, strict=True)
            ],
            **spec,
        },
    }


def asking(count: int) -> list[dict[str, Any]]:
    """Containers that ask for so many devices by the resource that stands for the class."""
    amounts = {EXTENDED: str(count)}
    return [
        {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    ]


def consumer(api: Client, pod: str) -> dict[str, str]:
    """The entry of status.reservedFor for a pod."""
    uid = api.get(f"{daemons.PODS}/{pod}")["metadata"]["uid"]
    return {"resource": "pods", "name": pod, "uid": uid}


def allocated(claim: Object) -> list[Device]:
    """The devices of a claim."""
    found = (claim.get("status", {}).get("allocation") or {}).get("devices", {})
    return [(each["driver"], each["pool"], each["device"]) for each in found.get("results") or ()]


def reserved(claim: Object) -> set[str]:
    """UIDs of the pods that a claim is reserved for."""
    return {each["uid"] for each in claim.get("status", {}).get("reservedFor") or ()}


def wrong(api: Client) -> list[str]:
    """Devices that two claims have, and pods on nodes without the devices of their claims."""
    claims = {each["metadata"]["name"]: each for each in api.list(CLAIMS)}
    counts = Counter(device for claim in claims.values() for device in allocated(claim))
    found = [
        f"{device} is allocated {count} times" for device, count in counts.items() if count > 1
    ]
    for pod in api.list(daemons.PODS):
        node, name = pod["spec"].get("nodeName"), pod["metadata"]["name"]
        for each in pod["spec"].get("resourceClaims") or () if node else ():
            claim = claims.get(_claim_of(pod, each), {})
            if {pool for _, pool, _ in allocated(claim)} != {node}:
                found.append(f"{name} is on {node}, and {each['name']} has {allocated(claim)}")
            if pod["metadata"]["uid"] not in reserved(claim):
                found.append(f"{each['name']} isn't reserved for {name}, which is on {node}")
    return found


def _claim_of(pod: Object, use: Mapping[str, str]) -> str:
    made = {
        each["name"]: each.get("resourceClaimName", "")
        for each in pod.get("status", {}).get("resourceClaimStatuses") or ()
    }
    return use.get("resourceClaimName") or made.get(use["name"], "")


def leftovers(api: Client) -> list[str]:
    """Claims that are allocated, although none of their pods has a node."""
    placed = {
        pod["metadata"]["uid"] for pod in api.list(daemons.PODS) if pod["spec"].get("nodeName")
    }
    return [
        each["metadata"]["name"]
        for each in api.list(CLAIMS)
        if allocated(each) and not reserved(each) & placed
    ]


def by_node(api: Client) -> dict[str, int]:
    """How many devices of each node are allocated."""
    found: defaultdict[str, int] = defaultdict(int)
    for claim in api.list(CLAIMS):
        for _, pool, _ in allocated(claim):
            found[pool] += 1
    return dict(found)
