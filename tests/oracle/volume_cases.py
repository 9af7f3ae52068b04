"""Small clusters with volumes, made by hand, with what kube-scheduler 1.37 said of them.

Nodes v0 and v1 are in zones a and b, and have room for everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests import volume_manifests as made
from tests.oracle import manifests
from tests.oracle.worlds import World

Document = manifests.Document

FEATURE = "volumes-by-hand"
NAMESPACE = "oracle-a"
BOTH = ("v0", "v1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cluster, and the nodes onto which kube-scheduler lets a pod with these volumes."""

    name: str
    volumes: Sequence[Document]
    kube: Sequence[str]
    objects: Sequence[Document] = ()
    standing: Sequence[tuple[str, Sequence[Document]]] = field(default=())
    """Nodes of other pods, with their volumes."""


def claim(name: str, of_class: str | None, **fields: object) -> Document:
    """A claim in the namespace of the pod."""
    return made.claim(name, of_class, namespace=NAMESPACE, **fields)  # type: ignore[arg-type]  # as there


def _leaving(document: Document) -> Document:
    return {
        **document,
        "metadata": {**document["metadata"], "deletionTimestamp": manifests.LEAVING},
    }


WAITS = made.storage_class("wfc")
IN_B = made.storage_class(
    "topo",
    allowedTopologies=[{"matchLabelExpressions": [{"key": made.ZONE, "values": ["b"]}]}],
)
LOCAL = made.storage_class("local", made.NOBODY)
ZONE_A = made.on_labels(made.ZONE, "a")
ZONE_B = made.on_labels(made.ZONE, "b")
ALONE = claim("rwop", "", modes=["ReadWriteOncePod"])
ALONE_VOLUME = made.volume("pv-rwop", "", modes=["ReadWriteOncePod"])
DISK = [made.disk("gcePersistentDisk", pdName="d")]
LIMITED = [
    made.csi_node("v0", {"made.example.com": 1}),
    made.csi_node("v1", {"made.example.com": 1}),
    *made.bound(claim("c1", ""), made.volume("pv-c1", "", source=made.csi("h1"))),
    *made.bound(claim("c2", ""), made.volume("pv-c2", "", source=made.csi("h2"))),
]

CASES: Sequence[Case] = (
    Case(
        name="CSINode limit reached on v0",
        objects=LIMITED,
        standing=[("v0", made.using("c1"))],
        volumes=made.using("c2"),
        kube=["v1"],
    ),
    Case(
        name="PVC being deleted",
        objects=[WAITS, _leaving(claim("del", "wfc"))],
        volumes=made.using("del"),
        kube=[],
    ),
    Case(
        name="PVC bound, PV node affinity zone a",
        objects=made.bound(claim("bound-a", ""), made.volume("pv-a", "", terms=ZONE_A)),
        volumes=made.using("bound-a"),
        kube=["v0"],
    ),
    Case(
        name="PVC bound, PV without affinity",
        objects=made.bound(claim("bound-n", ""), made.volume("pv-n", "")),
        volumes=made.using("bound-n"),
        kube=BOTH,
    ),
    Case(
        name="PVC bound, PV zone label a",
        objects=made.bound(claim("bound-z", ""), made.volume("pv-z", "", labels={made.ZONE: "a"})),
        volumes=made.using("bound-z"),
        kube=["v0"],
    ),
    Case(name="PVC missing", volumes=made.using("nope"), kube=[]),
    Case(
        name="PVC unbound, Immediate class",
        objects=[
            made.storage_class("now", volumeBindingMode="Immediate"),
            claim("unb-imm", "now"),
        ],
        volumes=made.using("unb-imm"),
        kube=[],
    ),
    Case(
        name="PVC unbound, WFFC with allowedTopologies b",
        objects=[IN_B, claim("unb-topo", "topo")],
        volumes=made.using("unb-topo"),
        kube=["v1"],
    ),
    Case(
        name="PVC unbound, WaitForFirstConsumer",
        objects=[WAITS, claim("unb-wfc", "wfc")],
        volumes=made.using("unb-wfc"),
        kube=BOTH,
    ),
    Case(
        name="PVC unbound, no-provisioner, local PV in b",
        objects=[LOCAL, claim("unb-local", "local"), made.volume("l", "local", terms=ZONE_B)],
        volumes=made.using("unb-local"),
        kube=["v1"],
    ),
    Case(
        name="PVC unbound, no-provisioner, no PV",
        objects=[LOCAL, claim("unb-local", "local")],
        volumes=made.using("unb-local"),
        kube=[],
    ),
    Case(
        name="ReadWriteOncePod, free",
        objects=made.bound(ALONE, ALONE_VOLUME),
        volumes=made.using("rwop"),
        kube=BOTH,
    ),
    Case(
        name="ReadWriteOncePod, in use on v1",
        objects=made.bound(ALONE, ALONE_VOLUME),
        standing=[("v1", made.using("rwop"))],
        volumes=made.using("rwop"),
        kube=[],
    ),
    Case(
        name="gcePD in use read-write on v0",
        standing=[("v0", DISK)],
        volumes=DISK,
        kube=["v1"],
    ),
    Case(name="gcePD, first use", volumes=DISK, kube=BOTH),
    Case(
        name="generic ephemeral volume",
        objects=[WAITS],
        volumes=[made.ephemeral("e", "wfc")],
        kube=[],
    ),
    Case(
        name="volumes: emptyDir, configMap, hostPath, projected",
        volumes=[
            {"name": "a", "emptyDir": {}},
            {"name": "b", "configMap": {"name": "kube-root-ca.crt"}},
            {"name": "c", "hostPath": {"path": "/tmp"}},  # noqa: S108  # nothing is opened
            {"name": "d", "projected": {"sources": []}},
        ],
        kube=BOTH,
    ),
)


def world(number: int) -> World:
    """The cluster of a case, and the one pod that is asked about."""
    case = CASES[number]
    standing = [
        _pod(f"user{at}", volumes, nodeName=node)
        for at, (node, volumes) in enumerate(case.standing)
    ]
    return World(
        feature=FEATURE,
        seed=number,
        nodes=[
            manifests.node(name, {made.ZONE: zone}) for name, zone in zip(BOTH, "ab", strict=True)
        ],
        storage=case.objects,
        standing=standing,
        waiting=[_pod("probe", case.volumes)],
    )


def _pod(name: str, volumes: Sequence[Document], **spec: str) -> Document:
    pod = manifests.pod(name, NAMESPACE)
    pod["spec"] |= {"volumes": list(volumes), **spec}
    return pod
