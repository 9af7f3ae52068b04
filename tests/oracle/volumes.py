"""Worlds with volumes: what kube-scheduler's four filters about volumes look at, by chance."""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests import volume_manifests as made
from tests.oracle import manifests
from tests.oracle.worlds import World

Document = manifests.Document

PROBES = 12
MIXED = 2
"""Of how many flavours a pod of a mixed world has volumes; with all, it would fit nowhere."""
ZONES = ("a", "b", "c")
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
SIZES = ("1Gi", "2Gi", "2048Mi", "3G", "5Gi")
MODES = (
    ["ReadWriteOnce"],
    ["ReadWriteMany"],
    ["ReadWriteOnce", "ReadOnlyMany"],
    ["ReadWriteOnce", "ReadWriteMany"],
)
DRIVERS = ("made.example.com", "ebs.csi.aws.com")
WAITING_CLASSES = ("wait", "zoned", "local", "roomy", "ebs")
CLASSES: Sequence[Document] = (
    made.storage_class("wait"),
    made.storage_class("now", volumeBindingMode="Immediate"),
    made.storage_class("local", made.NOBODY),
    made.storage_class("roomy", "roomy.example.com"),
    made.storage_class("ebs", "kubernetes.io/aws-ebs"),
    made.storage_class(
        "zoned",
        allowedTopologies=[
            {"matchLabelExpressions": [{"key": made.ZONE, "values": ["a", "b"]}]},
            {
                "matchLabelExpressions": [
                    {"key": made.ZONE, "values": ["c"]},
                    {"key": "rack", "values": ["x"]},
                ]
            },
        ],
    ),
)


@dataclass(slots=True)
class Drawing:
    """A world as it comes about."""

    chance: random.Random
    nodes: list[Document]
    objects: list[Document] = field(default_factory=list)
    standing: list[Document] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def name(self, prefix: str) -> str:
        """A name that nothing else has."""
        return f"{prefix}{next(self.numbers)}"

    def claim(self, of_class: str | None, **fields: object) -> Document:
        """A claim, not yet among the objects."""
        chance = self.chance
        given = {"size": chance.choice(SIZES), "modes": chance.choice(MODES)} | fields
        name = self.name("c")
        return made.claim(name, of_class, namespace="oracle-a", **given)  # type: ignore[arg-type]  # chosen above

    def volume(self, of_class: str = "", **fields: object) -> Document:
        """A volume, not yet among the objects."""
        chance = self.chance
        given = {
            "size": chance.choice(SIZES),
            "modes": chance.choice(MODES),
            "terms": self.terms(),
        } | fields
        return made.volume(self.name("pv"), of_class, **given)  # type: ignore[arg-type]  # chosen above

    def terms(self) -> list[Document] | None:
        """Where a volume can be used."""
        chance, kind = self.chance, self.chance.random()
        if kind < 0.2:
            return None
        if kind < 0.45:
            return made.on_labels(made.HOST, chance.choice(self.nodes)["metadata"]["name"])
        if kind < 0.8:
            return made.on_labels(made.ZONE, *chance.sample(ZONES, chance.choice((1, 1, 2))))
        labelled = {"key": "rack", "operator": chance.choice(("Exists", "DoesNotExist"))}
        return [
            *made.on_labels(made.ZONE, chance.choice(ZONES)),
            {"matchExpressions": [labelled]},
        ]

    def bind(self, claim: Document, volume: Document) -> str:
        """Add a claim and its volume, bound to each other; return the claim's name."""
        self.objects += made.bound(claim, volume)
        return str(claim["metadata"]["name"])

    def stand(self, volumes: Sequence[Document], *, leaves: bool = False) -> None:
        """Add a pod with these volumes on a node."""
        pod = manifests.pod(self.name("s"))
        node = self.chance.choice(self.nodes)["metadata"]["name"]
        pod["spec"] |= {"volumes": list(volumes), "nodeName": node}
        if leaves:
            pod["metadata"]["deletionTimestamp"] = manifests.LEAVING
        self.standing.append(pod)


Volumes = list[Document]
Flavour = Callable[[Drawing], Iterator[Volumes]]
"""Draws objects, and yields what probes may use."""


def of_bound_claims(world: Drawing) -> Iterator[Volumes]:
    """Node affinity and zone labels of volumes; claims of one pod and of several."""
    chance = world.chance
    names = []
    for _ in range(6):
        labels = {}
        if chance.random() < 0.4:
            key = chance.choice((made.ZONE, BETA_ZONE, "topology.kubernetes.io/region"))
            labels = {key: chance.choice(("a", "b", "a__b", "c"))}
        names.append(world.bind(world.claim(""), world.volume(labels=labels)))
    for _ in range(PROBES):
        yield made.using(*chance.sample(names, chance.choice((1, 1, 2))))


def of_broken_claims(world: Drawing) -> Iterator[Volumes]:
    """Claims that are missing, lost, being deleted, unbound, or of a class that isn't there."""
    yield made.using("nowhere")
    leaving = world.claim("wait")
    leaving["metadata"]["deletionTimestamp"] = manifests.LEAVING
    lost = world.claim("", volumeName="gone")
    lost["metadata"]["annotations"][made.COMPLETED] = "yes"
    lost["status"] = {"phase": "Lost"}
    prebound = world.claim("wait", volumeName="later")
    unknown, classless, immediate = world.claim("unknown"), world.claim(""), world.claim("now")
    found = [leaving, lost, prebound, unknown, classless, immediate]
    world.objects += found
    for each in found:
        yield made.using(each["metadata"]["name"])
    yield [made.ephemeral("mine")]


def of_waiting_claims(world: Drawing) -> Iterator[Volumes]:
    """Volumes to choose and volumes to make, alone and together."""
    chance = world.chance
    for _ in range(chance.randint(6, 14)):
        labels = {"tier": chance.choice(("fast", "slow"))}
        fields: dict[str, object] = {"labels": labels}
        if chance.random() < 0.15:
            fields["volumeMode"] = "Block"
        each = world.volume(chance.choice(WAITING_CLASSES), **fields)
        if chance.random() < 0.15:
            each["status"] = {"phase": "Released"}
        world.objects.append(each)
    for _ in range(PROBES):
        names = []
        for _ in range(chance.choice((1, 1, 2, 3))):
            fields = {}
            if chance.random() < 0.2:
                fields["selector"] = {"matchLabels": {"tier": chance.choice(("fast", "slow"))}}
            if chance.random() < 0.1:
                fields["volumeMode"] = "Block"
            claim = world.claim(chance.choice(WAITING_CLASSES), **fields)
            if chance.random() < 0.15:
                node = chance.choice(world.nodes)["metadata"]["name"]
                claim["metadata"]["annotations"][made.SELECTED] = node
            elif chance.random() < 0.15:
                world.objects.append(_reserved(world, claim))
            world.objects.append(claim)
            names.append(claim["metadata"]["name"])
        yield made.using(*names)


def _reserved(world: Drawing, claim: Document) -> Document:
    """A volume that somebody keeps for this claim."""
    names = claim["metadata"]
    reference = {"namespace": names["namespace"], "name": names["name"]}
    of_class = claim["spec"].get("storageClassName", "")
    return world.volume(of_class, modes=claim["spec"]["accessModes"], claimRef=reference)


def of_limits(world: Drawing) -> Iterator[Volumes]:
    """Attach limits, with volumes of pods and volumes that are merely attached."""
    chance = world.chance
    names, handles = [], []
    for _ in range(8):
        driver = chance.choice(DRIVERS)
        source = made.csi(world.name("h"), driver)
        if chance.random() < 0.25:
            source = {"awsElasticBlockStore": {"volumeID": world.name("vol-")}}
        each = world.volume(source=source, terms=None)
        handles.append((driver, each["metadata"]["name"]))
        names.append(world.bind(world.claim("", modes=["ReadWriteMany"]), each))
    waiting = [world.claim(chance.choice(("wait", "ebs"))) for _ in range(4)]
    world.objects += waiting
    names += [each["metadata"]["name"] for each in waiting]
    _install_drivers(world)
    for node in world.nodes:
        name = node["metadata"]["name"]
        if chance.random() < 0.4:
            driver, volume = chance.choice(handles)
            world.objects.append(made.attachment(world.name("va"), name, volume, driver))
    for _ in range(round(len(world.nodes) * 1.5)):
        used = made.using(*chance.sample(names, chance.choice((1, 1, 2))))
        if chance.random() < 0.2:
            used.append(made.disk("awsElasticBlockStore", volumeID=world.name("vol-")))
        world.stand(used)
    for _ in range(PROBES):
        used = made.using(*chance.sample(names, chance.choice((1, 2, 3))))
        if chance.random() < 0.2:
            used.append(made.disk("awsElasticBlockStore", volumeID=world.name("vol-")))
        yield used


def _install_drivers(world: Drawing) -> None:
    """On some nodes, where volumes of some drivers need them, and those of others don't."""
    chance = world.chance
    for driver in DRIVERS:
        if chance.random() < 0.4:
            spec = {"storageCapacity": False, "preventPodSchedulingIfMissing": True}
            world.objects.append(made.csi_driver(driver, **spec))
    for node in world.nodes:
        if chance.random() < 0.85:
            there = [each for each in DRIVERS if chance.random() < 0.8]
            limits = {each: chance.choice((None, 0, 1, 1, 2, 3)) for each in there}
            world.objects.append(made.csi_node(node["metadata"]["name"], limits))


def of_restrictions(world: Drawing) -> Iterator[Volumes]:
    """ReadWriteOncePod, and disks that can't be shared."""
    chance = world.chance
    alone = [
        world.bind(
            world.claim("", modes=["ReadWriteOncePod"]),
            world.volume(modes=["ReadWriteOncePod"], terms=None),
        )
        for _ in range(3)
    ]

    def some() -> Volumes:
        kind = chance.random()
        read_only = chance.random() < 0.6
        if kind < 0.3:
            return made.using(chance.choice(alone))
        if kind < 0.5:
            name = chance.choice("de")
            return [made.disk("gcePersistentDisk", pdName=name, readOnly=read_only)]
        if kind < 0.65:
            name = chance.choice(("vol-1", "vol-2"))
            return [made.disk("awsElasticBlockStore", volumeID=name, readOnly=read_only)]
        if kind < 0.8:
            target = {"targetPortal": "10.0.0.1:3260", "lun": chance.randint(0, 1)}
            iqn = f"iqn.2026-01.example:{chance.choice('de')}"
            return [made.disk("iscsi", iqn=iqn, readOnly=read_only, **target)]
        monitors = chance.sample(("m1", "m2", "m3"), 2)
        image = chance.choice("de")
        return [made.disk("rbd", monitors=monitors, image=image, readOnly=read_only)]

    for _ in range(round(len(world.nodes) * 1.2)):
        world.stand(some(), leaves=chance.random() < 0.1)
    for _ in range(PROBES):
        yield some()


def of_capacities(world: Drawing) -> Iterator[Volumes]:
    """How much room a driver says there is, by topology."""
    chance = world.chance
    world.objects.append(made.csi_driver("roomy.example.com"))
    for _ in range(chance.randint(2, 6)):
        kind = chance.random()
        nodes: Document | None = {"matchLabels": {made.ZONE: chance.choice(ZONES)}}
        if kind < 0.1:
            nodes = None
        elif kind < 0.2:
            nodes = {}
        elif kind < 0.3:
            nodes = {"matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]}
        sizes = {"capacity": chance.choice(SIZES)}
        if chance.random() < 0.3:
            sizes["maximumVolumeSize"] = chance.choice(SIZES)
        if chance.random() < 0.1:
            sizes = {}
        of_class = chance.choice(("roomy", "roomy", "wait"))
        world.objects.append(made.capacity(world.name("r"), of_class, nodes, **sizes))
    for _ in range(3):
        world.objects.append(world.volume("roomy"))
    for _ in range(PROBES):
        claims = [world.claim(chance.choice(("roomy", "roomy", "wait"))) for _ in range(2)]
        claims = claims[: chance.choice((1, 1, 2))]
        world.objects += claims
        yield made.using(*(claim["metadata"]["name"] for claim in claims))


FEATURES: Mapping[str, Sequence[Flavour]] = {
    "volumes-bound": [of_bound_claims],
    "volumes-broken": [of_broken_claims],
    "volumes-waiting": [of_waiting_claims],
    "volumes-limits": [of_limits],
    "volumes-restrictions": [of_restrictions],
    "volumes-capacities": [of_capacities],
    "volumes-mixed": [of_bound_claims, of_waiting_claims, of_limits, of_restrictions],
}


def world(name: str, seed: int) -> World:
    """The world of this seed; the same on every machine."""
    chance = random.Random(f"{name} {seed}")
    nodes = [_node(chance, f"n{number}") for number in range(chance.randint(5, 9))]
    drawing = Drawing(chance, nodes, list(CLASSES))
    found = [list(flavour(drawing)) for flavour in FEATURES[name]]
    if len(found) == 1:
        (probes,) = found
    else:
        kinds = [chance.sample(found, MIXED) for _ in range(PROBES)]
        probes = [_merged(chance.choice(each) for each in drawn) for drawn in kinds]
    waiting = []
    for number, volumes in enumerate(probes):
        pod = manifests.pod(f"p{number}")
        pod["spec"]["volumes"] = volumes
        waiting.append(pod)
    return World(
        feature=name,
        seed=seed,
        nodes=nodes,
        storage=drawing.objects,
        standing=drawing.standing,
        waiting=waiting,
    )


def _node(chance: random.Random, name: str) -> Document:
    labels = {}
    if chance.random() < 0.85:
        labels[made.ZONE] = chance.choice(ZONES)
        if chance.random() < 0.2:
            labels[BETA_ZONE] = labels[made.ZONE]
    if chance.random() < 0.3:
        labels["topology.kubernetes.io/region"] = chance.choice(("a", "b"))
    if chance.random() < 0.5:
        labels["rack"] = chance.choice("xy")
    return manifests.node(name, labels)


def _merged(parts: Iterator[Volumes]) -> Volumes:
    """All of these volumes, each with a name of its own."""
    every = list(itertools.chain.from_iterable(parts))
    return [{**each, "name": f"v{at}"} for at, each in enumerate(every)]
