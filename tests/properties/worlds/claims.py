"""Volumes and devices of a world, and the claims of its jobs, drawn apart from all else.

The name of a template of device claims says what it asks for: `gpu-2`, `gpu-1-s0` with the first of
`device_worlds.SELECTORS`. A claim that a job's pods share has the name of its template before its
own: `gpu-2.j03`.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tests import device_worlds, volume_manifests
from tests.properties.worlds import manifests
from tests.properties.worlds.manifests import Document, Workload

LOCAL, ZONAL, PINNED = "local", "zonal", "pinned"
"""Storage classes: of existing volumes of one node each; made in a zone once a pod has a node; made
on some node at once.
"""
DRIVER = "disk.example.com"
SCRATCH, SHARED = "scratch", "shared"
GPU, NIC = (driver.partition(".")[0] for driver in device_worlds.DRIVERS)

FEATURES = (
    *("local", "zonal", "pinned", "alone", "scratch", "shared_disk"),
    *("devices", "shared_devices", "by_name"),
)
PLACES = ("local", "zonal", "pinned", "scratch", "devices", "by_name")
"""At least one of these is frequent in every world."""


def storage(chance: random.Random, nodes: Sequence[Document], queues: list[Document]) -> Any:
    """Classes, volumes and what nodes can attach; queues get limits of devices."""
    classes = [
        volume_manifests.storage_class(LOCAL, volume_manifests.NOBODY),
        volume_manifests.storage_class(ZONAL, DRIVER),
        volume_manifests.storage_class(PINNED, DRIVER, volumeBindingMode="Immediate"),
    ]
    found: list[Document] = [identified(each) for each in classes]
    for driver in device_worlds.DRIVERS:
        of_class = identified(device_worlds.device_class(driver))
        if driver.startswith(GPU):
            of_class["spec"]["extendedResourceName"] = manifests.EXTENDED
        found.append(of_class)
    for node in nodes:
        name = node["metadata"]["name"]
        found += (
            volume_manifests.volume(
                f"disk-{name}-{number}",
                LOCAL,
                size=chance.choice(("1Gi", "2Gi")),
                modes=("ReadWriteOnce", "ReadWriteMany"),
                terms=volume_manifests.on_labels(manifests.HOST, name),
            )
            for number in range(chance.choice((0, 1, 2, 3, 5)))
        )
        if chance.random() < 0.1:
            for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
                amounts[manifests.EXTENDED] = "1"
    for queue in queues:
        if chance.random() < 0.2:
            limits = queue["spec"].setdefault("capability", {})
            limits[manifests.devices_of(GPU)] = str(chance.randint(1, 5))
    return found


def of_node(seed: int, name: str) -> list[Document]:
    """What a node's kubelet and drivers say of it: always the same."""
    chance = random.Random(f"devices {seed} {name}")
    most = chance.choice((None, 2, 3, 5, 8))
    found = [identified(volume_manifests.csi_node(name, {DRIVER: most}))]
    for driver, part in zip(device_worlds.DRIVERS, (0.8, 0.4), strict=True):
        if chance.random() < part:
            found += map(
                identified,
                device_worlds.pool(device_worlds.PLAIN, chance, driver, name, {"nodeName": name}),
            )
    return found


def likely(chance: random.Random) -> dict[str, float]:
    """How likely the jobs of a world have each feature: two or three are frequent."""
    frequent = {chance.choice(PLACES), *chance.sample(FEATURES, chance.randint(1, 2))}
    return dict.fromkeys(FEATURES, 0.03) | dict.fromkeys(sorted(frequent), 0.4)


def with_claims(
    chance: random.Random, likely: dict[str, float], workloads: Iterable[Workload]
) -> list[Workload]:
    """The same jobs, some of which have claims."""
    return [_with_claims(chance, likely, each) for each in workloads]


def _with_claims(chance: random.Random, likely: dict[str, float], job: Workload) -> Workload:
    features = {name for name in FEATURES if chance.random() < likely[name]}
    used: list[Document] = []
    shared: list[Document] = []
    own: Document | None = None
    for name in (LOCAL, ZONAL, PINNED):
        if name in features and own is None:
            own = _spec(chance, name, alone="alone" in features)
    if own is None and "alone" in features:
        own = _spec(chance, ZONAL, alone=True)
    if "scratch" in features:
        template = {"spec": _spec(chance, chance.choice((ZONAL, LOCAL)), alone=False)}
        if template["spec"]["storageClassName"] != (own or {}).get("storageClassName"):
            used.append({"name": SCRATCH, "ephemeral": {"volumeClaimTemplate": template}})
    if "shared_disk" in features:
        name = f"{SHARED}-{job.name}"
        spec = volume_manifests.claim(name, PINNED, modes=("ReadWriteMany",))["spec"]
        shared.append(manifests.claim(name, job.namespace, spec, job.name))
        used.append({"name": SHARED, "persistentVolumeClaim": {"claimName": name}})
    entries: list[Document] = []
    if "devices" in features:
        entries.append({"name": "own", "resourceClaimTemplateName": _template(chance)})
    if "shared_devices" in features:
        name = f"{_template(chance)}.{job.name}"
        claim = device_claim(name, job.namespace)
        claim["metadata"]["labels"] = {manifests.JOB: job.name}
        shared.append(claim)
        entries.append({"name": SHARED, "resourceClaimName": name})
    more = {"volumes": used} if used else {}
    more |= {"resourceClaims": entries} if entries else {}
    asked = {manifests.EXTENDED: chance.choice(("1", "1", "2"))} if "by_name" in features else {}
    templates = tuple(
        replace(
            each,
            spec={**each.spec, **more},
            requests={**each.requests, **asked} if asked else each.requests,
        )
        for each in job.templates
    )
    return replace(job, templates=templates, claims=tuple(shared), disk=own)


def _spec(chance: random.Random, of_class: str, *, alone: bool) -> Document:
    size = chance.choice(("1Gi", "1Gi", "2Gi"))
    modes = ("ReadWriteOncePod",) if alone and of_class != LOCAL else ("ReadWriteOnce",)
    spec: Document = volume_manifests.claim("any", of_class, size=size, modes=modes)["spec"]
    return spec


def _template(chance: random.Random) -> str:
    name = f"{chance.choice((GPU, GPU, GPU, NIC))}-{chance.choice((1, 1, 1, 2))}"
    return name + chance.choice(("", "", "-s0", "-s1"))


def device_claim(name: str, namespace: str, template: str = "") -> Document:
    """A claim as its template, or its own name, says it."""
    of_class, count, *more = (template or name).partition(".")[0].split("-")
    wanted: Document = {
        "deviceClassName": of_class,
        "allocationMode": "ExactCount",
        "count": int(count),
    }
    if more:
        expression = list(device_worlds.SELECTORS)[int(more[0].removeprefix("s"))]
        wanted["selectors"] = [{"cel": {"expression": expression}}]
    return {
        "apiVersion": device_worlds.API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": wanted}]}},
        "status": {},
    }


def identified(document: Document) -> Document:
    """With a UID, if it has none."""
    metadata = document["metadata"]
    metadata.setdefault("uid", f"{document['kind']}-{metadata['name']}")
    return document
