"""Worlds with gangs of 2 to 30 that a cycle places, by what keeps their pods in their places."""

import random
from collections.abc import Callable, Mapping, Sequence

from tests.oracle import flavours as has
from tests.oracle import manifests, near, ours
from tests.oracle.worlds import World
from vscheduler.testing import pictures

Document = manifests.Document
Kind = Callable[[random.Random, Sequence[Document]], None]

LARGEST = 30
PORTS = (80, 81)


def by_room(chance: random.Random, pods: Sequence[Document]) -> None:
    """Two sizes of pods."""
    for pod in pods:
        cpu = chance.choice(("500m", "1"))
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "64Mi"}}


def by_ports(chance: random.Random, pods: Sequence[Document]) -> None:
    """A port of the host for each."""
    port = chance.choice(PORTS)
    for pod in pods:
        address = {"hostIP": "127.0.0.1"} if chance.random() < 0.2 else {}
        listed = [{"containerPort": port, "hostPort": port, **address}]
        pod["spec"]["containers"][0]["ports"] = listed


def apart_by_host(chance: random.Random, pods: Sequence[Document]) -> None:
    """No two on a host."""
    del chance
    for pod in pods:
        near.apart_from_itself(pod, manifests.HOST)


def apart_by_zone(chance: random.Random, pods: Sequence[Document]) -> None:
    """No two in a zone or rack, but for some that don't mind."""
    key = chance.choice(("zone", "rack"))
    for pod in pods[: len(has.ZONES)]:
        near.apart_from_itself(pod, key)


def together(chance: random.Random, pods: Sequence[Document]) -> None:
    """All in one place."""
    key = chance.choice(("zone", "rack", manifests.HOST))
    for pod in pods:
        near.with_itself(pod, key)


def after_others(chance: random.Random, pods: Sequence[Document]) -> None:
    """One role beside the other, or away from it; the other has no wishes."""
    values = ["first", "second"]
    kind = chance.choice(("podAffinity", "podAntiAffinity"))
    key = chance.choice(("zone", manifests.HOST))
    for number, pod in enumerate(pods):
        pod["metadata"]["labels"]["gang"] += f"-{values[number % 2]}"
    first = pods[0]["metadata"]["labels"]["gang"]
    for pod in pods[1::2]:
        near.about(pod, kind, key, [first])


def even_by_zone(chance: random.Random, pods: Sequence[Document]) -> None:
    """Spread over zones, of which there may have to be some."""
    more = {"minDomains": chance.randint(1, 3)} if chance.random() < 0.4 else {}
    skew = chance.choice((1, 1, 2))
    for pod in pods:
        near.spread_itself(pod, "zone", skew, **more)


def even_by_host(chance: random.Random, pods: Sequence[Document]) -> None:
    """Spread over hosts, and zones as well."""
    taints = {"nodeTaintsPolicy": "Honor"} if chance.random() < 0.5 else {}
    zones, skew = chance.random() < 0.5, chance.choice((1, 2))
    for pod in pods:
        near.spread_itself(pod, manifests.HOST, skew, **taints)
        if zones:
            near.spread_itself(pod, "zone", 2)


def by_nodes(chance: random.Random, pods: Sequence[Document]) -> None:
    """Tolerations, selectors and affinity to nodes, by role."""
    looks = []
    for _ in range(2):
        look = manifests.pod("look")
        chance.choice((has.selective, has.choosy))(chance, look)
        has.tolerant(chance, look)
        looks.append(look["spec"])
    names = ("nodeSelector", "affinity", "tolerations")
    for number, pod in enumerate(pods):
        look = looks[number % 2]
        pod["spec"] |= {name: look[name] for name in names if name in look}


def by_everything(chance: random.Random, pods: Sequence[Document]) -> None:
    """Some of all that pods can have, by role, but for spreads.

    A spread looks at how things are when a pod comes. Where pods of other roles, with other spreads
    or none, come later, it needn't hold in the end.
    """
    wanted = (has.asking, has.starting, has.heavier, has.open_to_hosts, has.tolerant)
    looks = []
    for _ in range(2):
        look = manifests.pod("look")
        for flavour in (*wanted, has.selective, near.company, near.distance):
            if chance.random() < 0.25:
                flavour(chance, look)
        looks.append(look["spec"])
    for number, pod in enumerate(pods):
        pod["spec"] |= looks[number % 2]
        pod["metadata"]["labels"] |= {"app": near.APPS[number % 2]}


KINDS: Mapping[str, Kind] = {
    "room": by_room,
    "ports": by_ports,
    "apart-by-host": apart_by_host,
    "apart-by-zone": apart_by_zone,
    "together": together,
    "roles": after_others,
    "even-by-zone": even_by_zone,
    "even-by-host": even_by_host,
    "nodes": by_nodes,
    "everything": by_everything,
}
"""What pods of a gang have, by the name of the feature."""


def world(name: str, seed: int) -> World:
    """The world of this seed: one to three gangs that wait, among pods that stand."""
    chance = random.Random(f"gangs {name} {seed}")
    sizes = [_size(chance) for _ in range(chance.choice((1, 1, 2, 3)))]
    nodes = [_node(chance, number) for number in range(max(5, min(34, max(sizes) + 3)))]
    standing = []
    for number in range(chance.randint(0, len(nodes))):
        pod = manifests.pod(f"s{number}", chance.choice(manifests.HOMES), **near.labels(chance))
        pod["metadata"]["labels"]["gang"] = f"g{chance.randint(0, 1)}"
        if chance.random() < 0.2:
            near.distance(chance, pod)
        if chance.random() < 0.2:
            has.open_to_hosts(chance, pod)
        if chance.random() < 0.2:
            has.leaving(chance, pod)
        pod["spec"]["nodeName"] = chance.choice(nodes)["metadata"]["name"]
        standing.append(pod)
    waiting: list[Document] = []
    groups = []
    for number, size in enumerate(sizes):
        home = chance.choice(manifests.HOMES)
        pods = [_member(f"g{number}", home, index) for index in range(size)]
        KINDS[name](chance, pods)
        waiting += pods
        least = size if chance.random() < 0.5 else chance.randint(1, size)
        groups.append(manifests.group(home, f"g{number}", least))
    return World(
        feature=f"gangs-{name}",
        seed=seed,
        nodes=nodes,
        standing=standing,
        waiting=waiting,
        groups=groups,
    )


def _size(chance: random.Random) -> int:
    return chance.choice((2, 3, 4, 6, 9, chance.randint(10, LARGEST)))


def _node(chance: random.Random, number: int) -> Document:
    """Half of them large, which packing fills first."""
    cpu = chance.choice(("2", "4", "16"))
    node = manifests.node(f"n{number:02}", cpu=cpu, pods=chance.choice(("4", "110", "110")))
    has.labelled(chance, node)
    node["metadata"]["labels"][manifests.HOST] = node["metadata"]["name"]
    if chance.random() < 0.1:
        has.tainted(chance, node)
    return node


def _member(group: str, home: str, index: int) -> Document:
    pod = manifests.pod(f"{group}-{index}", home, gang=group, rev="1")
    pod["metadata"]["annotations"] = {ours.GROUP: group}
    pod["spec"]["schedulerName"] = pictures.SCHEDULER
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    return pod
