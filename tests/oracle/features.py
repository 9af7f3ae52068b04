"""Worlds by feature: nodes and pods with what one filter looks at, or with all of it."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.oracle import flavours as has
from tests.oracle import manifests, near
from tests.oracle.flavours import Flavour
from tests.oracle.manifests import Document
from tests.oracle.worlds import World

PROBES = 12
PART = 0.35
"""How likely a pod of a mixed world has each of the flavours; nodes have half of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What nodes, standing pods and probes have."""

    nodes: Sequence[Flavour] = ()
    standing: Sequence[Flavour] = ()
    probes: Sequence[Flavour] = ()
    density: float = 1.5
    """Standing pods by node."""
    mixed: bool = False
    """Each has some of it only."""


NEAR = (near.company, near.distance, near.evenness)

FEATURES: Mapping[str, Feature] = {
    "resources": Feature(nodes=[has.narrow], standing=[has.asking], probes=[has.asking]),
    "pod-slots": Feature(nodes=[has.few_slots]),
    "overhead": Feature(
        nodes=[has.narrow], standing=[has.asking, has.heavier], probes=[has.asking, has.heavier]
    ),
    "init-containers": Feature(
        nodes=[has.narrow], standing=[has.asking, has.starting], probes=[has.asking, has.starting]
    ),
    "pod-level-resources": Feature(
        nodes=[has.narrow], standing=[has.bounded], probes=[has.bounded]
    ),
    "container-resize": Feature(
        nodes=[has.narrow],
        standing=[has.asking, has.resized],
        probes=[has.asking],
        density=2.5,
    ),
    "sidecar-resize": Feature(
        nodes=[has.narrow], standing=[has.starting, has.resized], probes=[has.asking]
    ),
    "pod-level-resize": Feature(
        nodes=[has.narrow], standing=[has.resized_whole], probes=[has.asking]
    ),
    "host-ports": Feature(standing=[has.open_to_hosts], probes=[has.open_to_hosts]),
    "taints": Feature(nodes=[has.tainted], probes=[has.tolerant]),
    "cordons": Feature(nodes=[has.cordoned], probes=[has.tolerant]),
    "unwell-nodes": Feature(nodes=[has.unwell], probes=[has.tolerant]),
    "node-selector": Feature(probes=[has.selective]),
    "node-affinity": Feature(probes=[has.choosy]),
    "node-affinity-odd-bounds": Feature(probes=[has.oddly_choosy]),
    "selector-and-affinity": Feature(probes=[has.selective, has.choosy]),
    "pod-affinity": Feature(standing=[], probes=[near.company]),
    "pod-anti-affinity": Feature(standing=[near.distance], probes=[near.distance]),
    "topology-spread": Feature(
        nodes=[has.tainted],
        probes=[near.evenness, has.selective, has.tolerant],
        density=2.5,
        mixed=True,
    ),
    "neighbours": Feature(standing=NEAR, probes=NEAR, mixed=True),
    "gates": Feature(nodes=[has.narrow], standing=[has.asking], probes=[has.asking, has.gated]),
    "finished-pods": Feature(
        nodes=[has.narrow],
        standing=[has.asking, has.open_to_hosts, near.distance, has.finished],
        probes=[has.asking, has.open_to_hosts, near.company],
        mixed=True,
    ),
    "leaving-pods": Feature(
        nodes=[has.narrow],
        standing=[has.asking, has.open_to_hosts, near.distance, has.leaving],
        probes=[has.asking, has.open_to_hosts, *NEAR],
        mixed=True,
    ),
    "leaving-company": Feature(standing=[has.leaving], probes=[near.company]),
    "nominations": Feature(
        nodes=[has.narrow], standing=[has.asking, has.nominated], probes=[has.asking]
    ),
    "nominations-of-ports": Feature(
        standing=[has.open_to_hosts, has.nominated], probes=[has.open_to_hosts]
    ),
    "nominations-of-neighbours": Feature(
        standing=[near.distance, has.nominated], probes=[near.distance]
    ),
    "declared-features": Feature(nodes=[has.declaring], probes=[has.restarting]),
    "everything": Feature(
        nodes=[has.narrow, has.few_slots, has.tainted, has.cordoned],
        standing=[has.asking, has.starting, has.heavier, has.open_to_hosts, *NEAR, has.finished],
        probes=[
            *(has.asking, has.starting, has.heavier, has.open_to_hosts, has.tolerant),
            *(has.selective, has.choosy, *NEAR, has.gated),
        ],
        mixed=True,
    ),
}


def world(name: str, seed: int) -> World:
    """The world of this seed; the same on every machine."""
    feature = FEATURES[name]
    chance = random.Random(f"{name} {seed}")
    nodes = []
    for number in range(chance.randint(5, 9)):
        node = manifests.node(f"n{number}")
        has.labelled(chance, node)
        _season(chance, node, feature.nodes, PART / 2 if feature.mixed else 1)
        nodes.append(node)
    part = PART if feature.mixed else 1
    standing = [
        _standing(chance, number, feature.standing, part, nodes)
        for number in range(round(len(nodes) * feature.density * chance.uniform(0.3, 1.2)))
    ]
    waiting = [_pod(chance, f"p{number}", feature.probes, part) for number in range(PROBES)]
    return World(feature=name, seed=seed, nodes=nodes, standing=standing, waiting=waiting)


def _standing(
    chance: random.Random,
    number: int,
    wanted: Sequence[Flavour],
    part: float,
    nodes: Sequence[Document],
) -> Document:
    pod = _pod(chance, f"s{number}", wanted, part)
    name = chance.choice(nodes)["metadata"]["name"]
    if pod["spec"].get("schedulerName") == manifests.ELDER:
        pod["status"] = {"nominatedNodeName": name}
    else:
        pod["spec"]["nodeName"] = name
    return pod


def _pod(chance: random.Random, name: str, wanted: Sequence[Flavour], part: float) -> Document:
    pod = manifests.pod(name, chance.choice(manifests.HOMES), **near.labels(chance))
    _season(chance, pod, wanted, part)
    return pod


def _season(
    chance: random.Random,
    document: Document,
    wanted: Sequence[Flavour],
    part: float,
) -> None:
    for flavour in wanted:
        if chance.random() < part:
            flavour(chance, document)
