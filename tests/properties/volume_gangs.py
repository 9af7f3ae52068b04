"""Small gangs that compete for volumes, and a judge that tries every assignment of pods to nodes.

The judge knows what the manifests say, and uses nothing of `vscheduler/`.
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests import volume_manifests
from vscheduler.testing import pictures

DRIVER = "made.example.com"
LOCAL, MADE = "local", "made"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Volume:
    """An existing volume, usable on these nodes."""

    name: str
    size: int
    nodes: tuple[str, ...]
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim. Of class `local`, it needs an existing volume; else one is made on any node."""

    name: str
    local: bool
    size: int = 1
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the gang."""

    name: str
    cpu: int
    claims: tuple[str, ...] = ()


@dataclass(slots=True)
class World:
    """Nodes, volumes, and one gang of which all pods are needed."""

    cpu: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    leaving: dict[str, int] = field(default_factory=dict)
    """How much cpu a terminating pod has, by node."""
    volumes: list[Volume] = field(default_factory=list)
    claims: dict[str, Claim] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)


def drawn(chance: random.Random) -> World:
    """A world in which about half of the gangs fit."""
    world = World()
    for number in range(chance.randint(2, 3)):
        name = f"n{number}"
        world.cpu[name] = chance.randint(1, 4)
        if chance.random() < 0.5:
            world.limits[name] = chance.randint(1, 2)
    names: Sequence[str] = list(world.cpu)
    for number in range(chance.randint(1, 5)):
        nodes = (
            names if chance.random() < 0.1 else chance.sample(names, chance.choice((1, 1, 1, 2)))
        )
        colour = chance.choice(("", "", "red"))
        world.volumes.append(
            Volume(f"pv{number}", chance.randint(1, 3), tuple(sorted(nodes)), colour)
        )
    if chance.random() < 0.3:
        world.claims["together"] = Claim("together", chance.random() < 0.6, chance.randint(1, 2))
    for number in range(chance.randint(2, 4)):
        own = list(_own_claims(chance, number))
        world.claims |= {claim.name: claim for claim in own}
        shared = ["together"] if "together" in world.claims and chance.random() < 0.6 else []
        names = (*(claim.name for claim in own), *shared)
        world.pods.append(Pod(f"p{number}", chance.randint(1, 2), names))
    return world


def _own_claims(chance: random.Random, number: int) -> Iterator[Claim]:
    """Yield a pod's own claims. One with a selector comes alone: of a pod's claims the smaller one
    chooses first, as in kube-scheduler, whatever the other one could do with its volume.
    """
    if chance.random() < 0.2:
        yield Claim(f"c{number}", local=True, size=chance.randint(1, 3), colour="red")
        return
    for place in range(chance.choice((0, 1, 1, 1, 2))):
        yield Claim(f"c{number}-{place}", chance.random() < 0.7, chance.randint(1, 3))


def with_terminating_pods(chance: random.Random) -> World:
    """Nodes of which some are partly used by pods that terminate; no volumes."""
    world = World()
    for number in range(chance.randint(2, 4)):
        name = f"n{number}"
        world.cpu[name] = chance.randint(1, 5)
        if chance.random() < 0.6:
            world.leaving[name] = chance.randint(1, world.cpu[name])
    for number in range(chance.randint(2, 4)):
        world.pods.append(Pod(f"p{number}", chance.randint(1, 3)))
    return world


def fits(world: World, *, later: bool = False) -> bool:
    """Whether any assignment of pods to nodes works, now or after terminating pods have gone."""
    every = itertools.product(world.cpu, repeat=len(world.pods))
    return any(_works(world, nodes, later=later) for nodes in every)


def _works(world: World, nodes: Sequence[str], *, later: bool) -> bool:
    users: dict[str, list[str]] = {}
    for name, room in world.cpu.items():
        there = [pod for pod, node in zip(world.pods, nodes, strict=True) if node == name]
        free = room if later else room - world.leaving.get(name, 0)
        if sum(pod.cpu for pod in there) > free:
            return False
        made = {key for pod in there for key in pod.claims if not world.claims[key].local}
        if len(made) > world.limits.get(name, len(made)):
            return False
    for pod, node in zip(world.pods, nodes, strict=True):
        for key in pod.claims:
            if world.claims[key].local:
                users.setdefault(key, []).append(node)
    claims = sorted(users)
    return any(True for _ in _choices(world, users, claims, frozenset()))


def _choices(
    world: World, users: Mapping[str, Sequence[str]], left: Sequence[str], taken: frozenset[str]
) -> Iterator[frozenset[str]]:
    """Yield every way to give these claims a volume each."""
    if not left:
        yield taken
        return
    claim = world.claims[left[0]]
    for volume in world.volumes:
        if (
            volume.name not in taken
            and volume.size >= claim.size
            and (not claim.colour or volume.colour == claim.colour)
            and set(users[claim.name]) <= set(volume.nodes)
        ):
            yield from _choices(world, users, left[1:], taken | {volume.name})


def documents(world: World, names: Mapping[str, str]) -> list[Document]:
    """The manifests of a world in which pods, claims and volumes have other names."""
    picture = [
        *(
            f"node {name} cpu={room} label={volume_manifests.HOST}={name}"
            for name, room in world.cpu.items()
        ),
        "queue q",
        *(
            f"job q/old{at} min=0 cpu={room} ~{name}"
            for at, (name, room) in enumerate(world.leaving.items())
        ),
        f"job q/g min={len(world.pods)} " + " ".join(f"-@{pod.cpu}" for pod in world.pods),
    ]
    found = pictures.documents("\n".join(picture))
    waiting = [
        each
        for each in found
        if each["kind"] == "Pod" and each["metadata"]["name"].startswith("g-")
    ]
    for document, pod in zip(waiting, world.pods, strict=True):
        document["metadata"]["name"] = names.get(pod.name, pod.name)
        document["metadata"]["uid"] = names.get(pod.name, pod.name)
        claims = (names.get(key, key) for key in pod.claims)
        document["spec"]["volumes"] = volume_manifests.using(*claims)
    modes = ("ReadWriteOnce", "ReadWriteMany")
    found += [
        volume_manifests.storage_class(LOCAL, volume_manifests.NOBODY),
        volume_manifests.storage_class(MADE, DRIVER),
        *(volume_manifests.csi_node(name, {DRIVER: most}) for name, most in world.limits.items()),
    ]
    for volume in world.volumes:
        terms = volume_manifests.on_labels(volume_manifests.HOST, *volume.nodes)
        labels = {"colour": volume.colour} if volume.colour else {}
        name, size = names.get(volume.name, volume.name), f"{volume.size}Gi"
        found.append(
            volume_manifests.volume(name, LOCAL, size=size, modes=modes, terms=terms, labels=labels)
        )
    for claim in world.claims.values():
        more: Document = {}
        if claim.colour:
            more["selector"] = {"matchLabels": {"colour": claim.colour}}
        name, of_class = names.get(claim.name, claim.name), LOCAL if claim.local else MADE
        size = f"{claim.size}Gi"
        found.append(volume_manifests.claim(name, of_class, size=size, modes=modes, **more))
    return found


def renamed(world: World, chance: random.Random) -> dict[str, str]:
    """Other names for pods, claims and volumes, in any order."""
    found: dict[str, str] = {}
    for kind in (
        [pod.name for pod in world.pods],
        list(world.claims),
        [volume.name for volume in world.volumes],
    ):
        others = (
            [f"{letter}-{kind[0][0]}" for letter in "abcdefghijklmn"[: len(kind)]] if kind else []
        )
        chance.shuffle(others)
        found.update(zip(kind, others, strict=True))
    return found
