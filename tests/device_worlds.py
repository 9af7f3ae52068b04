"""Random clusters with devices, as manifests."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

API = "resource.k8s.io/v1"
DRIVERS = ("gpu.example.com", "nic.example.com")
NAMESPACE = "ns"
SIZES = ("40Gi", "80Gi")
MODELS = ("a", "b")

Document = dict[str, Any]

MEMORY = f'device.capacity["{DRIVERS[0]}"].?memory.orValue(quantity("0"))'
NOT_SMALL = f'!{MEMORY}.isLessThan(quantity("80Gi"))'

SELECTORS: Mapping[str, Callable[[Document], bool]] = {
    f'device.attributes["{DRIVERS[0]}"].?model.orValue("") == "a"': (
        lambda device: device["attributes"].get("model") == {"string": "a"}
    ),
    NOT_SMALL: (lambda device: device["capacity"].get("memory") == {"value": "80Gi"}),
    f'device.attributes["{DRIVERS[0]}"].?numa.orValue(0) < 1': (
        lambda device: device["attributes"].get("numa", {"int": 0})["int"] < 1
    ),
}
"""CEL expressions, and what they mean."""


@dataclass
class World:
    """A cluster, and one gang that waits."""

    nodes: list[Document] = field(default_factory=list)
    devices: list[Document] = field(default_factory=list)
    """Slices, classes and claims."""
    pods: list[Document] = field(default_factory=list)


@dataclass(frozen=True)
class Features:
    """What may be in a world, beside numbers of devices on nodes."""

    selectors: bool = True
    alternatives: bool = False
    constraints: bool = False
    every: bool = False
    """allocationMode All."""
    admin: bool = False
    taints: bool = False
    shared: bool = False
    """Claims of several pods."""
    network: bool = False
    """Devices that several nodes can use."""
    pools: bool = False
    """Pools that are incomplete, or of several generations."""


PLAIN = Features()
ALL = Features(
    alternatives=True,
    constraints=True,
    every=True,
    admin=True,
    taints=True,
    shared=True,
    network=True,
    pools=True,
)


def world(
    features: Features,
    seed: int,
    *,
    pods: tuple[int, int] = (1, 4),
    nodes: tuple[int, int] = (1, 3),
) -> World:
    """Return a random world with at least and at most so many pods and nodes."""
    chance = random.Random(seed)
    made = World()
    made.devices += map(device_class, DRIVERS)
    names = [f"n{number}" for number in range(chance.randint(*nodes))]
    for name in names:
        zone = chance.choice(("x", "y"))
        amounts = {"cpu": str(chance.randint(1, 4)), "memory": "64Gi", "pods": "20"}
        made.nodes.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"zone": zone}},
                "spec": {},
                "status": {
                    "allocatable": amounts,
                    "capacity": amounts,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
        for driver in DRIVERS:
            if chance.random() < 0.7:
                made.devices += pool(features, chance, driver, name, {"nodeName": name})
    if features.network:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}
        where = chance.choice(({"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": [term]}}))
        made.devices += pool(features, chance, chance.choice(DRIVERS), "net", where)
    _occupy(made, chance)
    shared = _claim(features, chance, "shared", "") if features.shared else None
    if shared is not None:
        made.devices.append(shared)
    for number in range(chance.randint(*pods)):
        _pod(made, features, chance, f"p{number}", shared)
    return made


def device_class(driver: str) -> Document:
    """The class of all devices of a driver."""
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": driver.partition(".")[0]},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }


def pool(
    features: Features, chance: random.Random, driver: str, name: str, where: Document
) -> list[Document]:
    """The slices of a pool; where: the nodes that can use it, as a slice says it."""
    size = chance.randint(1, 3)
    listed = [_device(features, chance, f"d{number}") for number in range(size)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    slices = [(f"{name}-{driver}", pool, listed)]
    if features.pools and chance.random() < 0.3:
        if chance.random() < 0.5:
            pool["resourceSliceCount"] = 2
        else:
            newer = {**pool, "generation": 2}
            slices.append((f"{name}-{driver}-2", newer, [_device(features, chance, "e0")]))
    return [
        {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": {"name": each},
            "spec": {"driver": driver, "pool": of, "devices": devices, **where},
        }
        for each, of, devices in slices
    ]


def _device(features: Features, chance: random.Random, name: str) -> Document:
    attributes: Document = {}
    if chance.random() < 0.8:
        attributes["model"] = {"string": chance.choice(MODELS)}
    if chance.random() < 0.8:
        attributes["numa"] = {"int": chance.randint(0, 1)}
    device: Document = {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": chance.choice(SIZES)}},
    }
    if features.taints and chance.random() < 0.3:
        effect = chance.choice(("NoSchedule", "NoExecute", "None"))
        device["taints"] = [{"key": "sick", "value": "yes", "effect": effect}]
    return device


def _occupy(made: World, chance: random.Random) -> None:
    """Give some devices to a claim of somebody else."""
    results = []
    for each in made.devices:
        spec = each["spec"]
        for device in spec["devices"] if each["kind"] == "ResourceSlice" else ():
            if chance.random() < 0.2:
                where = {"driver": spec["driver"], "pool": spec["pool"]["name"]}
                results.append({"request": "r", **where, "device": device["name"]})
    if results:
        made.devices.append(
            {
                "apiVersion": API,
                "kind": "ResourceClaim",
                "metadata": {"name": "other", "namespace": NAMESPACE, "uid": "other"},
                "spec": {"devices": {"requests": [_request(PLAIN, chance, "r")]}},
                "status": {
                    "allocation": {"devices": {"results": results}},
                    "reservedFor": [{"resource": "pods", "name": "other", "uid": "other"}],
                },
            }
        )


def _claim(features: Features, chance: random.Random, name: str, owner: str) -> Document:
    requests = [_request(features, chance, f"r{at}") for at in range(chance.randint(1, 2))]
    devices: Document = {"requests": requests}
    if features.constraints and chance.random() < 0.5:
        named = [request["name"] for request in requests][: chance.randint(0, 2)]
        attribute = f"{DRIVERS[0]}/{chance.choice(('model', 'numa'))}"
        devices["constraints"] = [{"matchAttribute": attribute, "requests": named}]
    metadata: Document = {"name": name, "namespace": NAMESPACE, "uid": name}
    if owner:
        metadata["ownerReferences"] = [
            {"kind": "Pod", "apiVersion": "v1", "name": owner, "uid": owner, "controller": True}
        ]
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": devices},
    }


def _request(features: Features, chance: random.Random, name: str) -> Document:
    if features.alternatives and chance.random() < 0.3:
        listed = [{"name": f"s{at}", **_wanted(features, chance)} for at in range(2)]
        for each in listed:
            each.pop("adminAccess", None)
        return {"name": name, "firstAvailable": listed}
    return {"name": name, "exactly": _wanted(features, chance)}


def _wanted(features: Features, chance: random.Random) -> Document:
    driver = chance.choice((*DRIVERS[:1] * 2, DRIVERS[1]))
    wanted: Document = {"deviceClassName": driver.partition(".")[0]}
    if features.every and chance.random() < 0.2:
        wanted["allocationMode"] = "All"
    else:
        wanted |= {"allocationMode": "ExactCount", "count": chance.choice((1, 1, 1, 2))}
    if features.selectors and chance.random() < 0.5:
        expression = chance.choice(list(SELECTORS))
        wanted["selectors"] = [{"cel": {"expression": expression}}]
    if features.admin and chance.random() < 0.15:
        wanted["adminAccess"] = True
    if features.taints and chance.random() < 0.4:
        wanted["tolerations"] = [{"key": "sick", "operator": "Exists"}]
    return wanted


def _pod(
    made: World, features: Features, chance: random.Random, name: str, shared: Document | None
) -> None:
    entries: list[Document] = []
    statuses: list[Document] = []
    if shared is not None and chance.random() < 0.5:
        entries.append({"name": "shared", "resourceClaimName": "shared"})
    else:
        made.devices.append(_claim(features, chance, f"{name}-own", name))
        entries.append({"name": "own", "resourceClaimTemplateName": "template"})
        statuses.append({"name": "own", "resourceClaimName": f"{name}-own"})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    made.pods.append(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": name},
            "spec": {"containers": [container], "resourceClaims": entries},
            "status": {"resourceClaimStatuses": statuses},
        }
    )
