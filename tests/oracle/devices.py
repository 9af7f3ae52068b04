"""Worlds with devices: what kube-scheduler's DynamicResources looks at, by chance."""

import copy
import random
from collections.abc import Mapping, Sequence

from tests import device_worlds
from tests.device_worlds import Features
from tests.oracle import manifests, worlds

Document = manifests.Document

HOME = "oracle-a"
NODES = 6
PROBES = 12

FEATURES: Mapping[str, Features] = {
    "devices-counts": Features(network=True, pools=True),
    "devices-alternatives": Features(alternatives=True, taints=True),
    "devices-constraints": Features(constraints=True, network=True),
    "devices-every": Features(every=True, taints=True),
    "devices-admin": Features(admin=True, taints=True),
    "devices-claims": Features(shared=True),
    "devices-extended": Features(network=True, taints=True),
}
"""kube-scheduler gives a pod up on all nodes where it asks for every device and a pool is
incomplete, or constraints exclude one: not asked here."""


def world(name: str, seed: int) -> worlds.World:
    """The world of this seed; the same on every machine."""
    made = device_worlds.world(FEATURES[name], seed, pods=(PROBES, PROBES), nodes=(NODES, NODES))
    chance = random.Random(f"{name} {seed}")
    if name == "devices-claims":
        _unusual(made, chance)
    asked = [_extended(chance, name == "devices-extended") for _ in made.pods]
    classes = [device for device in made.devices if device["kind"] == "DeviceClass"]
    if name == "devices-extended":
        for each in classes:
            each["spec"]["extendedResourceName"] = f"example.com/{each['metadata']['name']}"
    return worlds.World(
        feature=name,
        seed=seed,
        nodes=[
            manifests.node(
                node["metadata"]["name"],
                node["metadata"]["labels"],
                **_plugin(chance, name == "devices-extended"),
            )
            for node in made.nodes
        ],
        storage=[_stored(device) for device in made.devices],
        standing=[],
        waiting=[_probe(each, amounts) for each, amounts in zip(made.pods, asked, strict=True)],
    )


def _stored(document: Document) -> Document:
    """A claim that nobody makes, owns or takes back but the test."""
    if document["kind"] != "ResourceClaim":
        return document
    found = copy.deepcopy(document)
    found["metadata"]["namespace"] = HOME
    found["metadata"].pop("ownerReferences", None)
    if "status" in found:
        for each in found["status"]["reservedFor"]:
            each |= {"apiGroup": "example.com", "resource": "things"}
    return found


def _extended(chance: random.Random, wanted: bool) -> tuple[Mapping[str, str], ...]:
    """What a pod's init container and container ask for by name."""
    if not wanted:
        return ()
    names = ("example.com/gpu", "example.com/nic", "deviceclass.resource.kubernetes.io/gpu")
    return tuple(
        {name: chance.choice("112") for name in names if chance.random() < part}
        for part in (0.1, 0.4)
    )


def _plugin(chance: random.Random, wanted: bool) -> Mapping[str, str]:
    """What a node has by device plugins; none is another thing than nothing."""
    names = ("example.com/gpu", "example.com/nic") if wanted else ()
    return {name: str(chance.randint(0, 2)) for name in names if chance.random() < 0.3}


def _probe(pod: Document, asked: Sequence[Mapping[str, str]]) -> Document:
    probe = manifests.pod(pod["metadata"]["name"])
    if asked:
        early, late = ({"requests": each, "limits": each} for each in asked)
        probe["spec"]["initContainers"] = [manifests.container("early", resources=early)]
        probe["spec"]["containers"][0]["resources"] = late
        if asked[1]:  # the others have claims
            return probe
    made = {
        each["name"]: each["resourceClaimName"] for each in pod["status"]["resourceClaimStatuses"]
    }
    probe["spec"]["resourceClaims"] = [
        {
            "name": each["name"],
            "resourceClaimName": each.get("resourceClaimName") or made[each["name"]],
        }
        for each in pod["spec"]["resourceClaims"]
    ]
    return probe


def _unusual(made: device_worlds.World, chance: random.Random) -> None:
    """Claims that are allocated already, or name no class.

    A pod whose claim is missing or being deleted isn't even looked at by kube-scheduler.
    """
    uses = [each for pod in made.pods for each in pod["status"]["resourceClaimStatuses"]]
    for use in uses:
        claim = next(
            device
            for device in made.devices
            if device["metadata"]["name"] == use["resourceClaimName"]
        )
        kind = chance.random()
        if kind < 0.3:
            _allocate(claim, chance, [node["metadata"]["name"] for node in made.nodes])
        elif kind < 0.4:
            request = claim["spec"]["devices"]["requests"][0]
            request["exactly"]["deviceClassName"] = "nobodys"


def _allocate(claim: Document, chance: random.Random, nodes: list[str]) -> None:
    """Give a claim devices that are gone since, on one node, in a zone, or anywhere."""
    requests = claim["spec"]["devices"]["requests"]
    results = [
        {"request": each["name"], "driver": "gone.example.com", "pool": "gone", "device": f"d{at}"}
        for at, each in enumerate(requests)
    ]
    by_name = {"key": "metadata.name", "operator": "In", "values": [chance.choice(nodes)]}
    by_zone = {"key": "zone", "operator": "In", "values": ["x"]}
    terms: list[Document] = chance.choice(
        ([{"matchFields": [by_name]}], [{"matchExpressions": [by_zone]}], [])
    )
    allocation: Document = {"devices": {"results": results}}
    if terms:
        allocation["nodeSelector"] = {"nodeSelectorTerms": terms}
    claim["status"] = {
        "allocation": allocation,
        "reservedFor": [{"resource": "pods", "name": "other", "uid": "other"}],
    }
