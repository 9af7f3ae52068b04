from typing import Any

import pytest

from tests import volume_manifests as made
from tests.unit.mirror import manifests
from vscheduler.mirror.decode import events
from vscheduler.mirror.index.entries import Entry, Reader
from vscheduler.mirror.translate import bounds
from vscheduler.model.constraints import Operator, Requirement, Selector, Term
from vscheduler.model.storage import (
    Attachment,
    Claim,
    ClaimReference,
    CsiNode,
    Selection,
    Source,
    StorageClass,
    Volume,
)

Document = dict[str, Any]


def translated(document: Document) -> Entry:
    """The entry of an object."""
    reader = Reader(
        scheduler_names=("mine", "other"),
        default_queue="default",
        node_selector=(),
        most=bounds.DEFAULT,
    )
    return reader.take(manifests.event_of(document))[1]


def value(document: Document) -> Any:
    """The value of an object that nothing is wrong with."""
    entry = translated(document)
    assert entry.rejection is None
    return entry.value


def annotated(document: Document, **annotations: str) -> Document:
    """The same with these annotations."""
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def test_a_claim() -> None:
    """With all that decides."""
    claim = made.claim(
        "c",
        "fast",
        size="1500M",
        modes=["ReadWriteOncePod", "ReadOnlyMany"],
        annotations={made.SELECTED: "n1", "mine/volume-binding": "n2 1970-01-01T00:01:40Z"},
        selector={"matchLabels": {"a": "b"}},
        volumeMode="Block",
        volumeAttributesClassName="gold",
    )
    owners = [
        {"kind": "Job", "name": "j", "uid": "0", "controller": False},
        {"kind": "Pod", "name": "p", "uid": "1", "controller": True},
    ]
    claim["metadata"] |= {"ownerReferences": owners, "deletionTimestamp": "1970-01-01T00:00:10Z"}
    requirement = Requirement("a", Operator.IN, ("b",))
    assert value(claim) == Claim(
        namespace="default",
        name="c",
        uid="uid-default-c",
        storage_class="fast",
        request=1_500_000_000,
        access_modes=("ReadOnlyMany", "ReadWriteOncePod"),
        mode="Block",
        selector=Selector((requirement,)),
        attributes_class="gold",
        selected_node="n1",
        selection=Selection(node="n2", since=100.0),
        deleting=True,
        owner="1",
    )
    assert value(claim).single_pod


def test_a_claim_is_bound_once_that_is_complete() -> None:
    """By the annotation, or by the phase where somebody left it out; a volume's name won't do."""
    named = made.claim("c", volumeName="pv")
    assert not value(named).bound
    assert value(_done(named)).bound
    assert value({**named, "status": {"phase": "Bound"}}).bound
    assert not value(_done(made.claim("c"))).bound
    assert value({**named, "status": {"phase": "Lost"}}).lost


def _done(claim: Document) -> Document:
    return annotated(claim, **{made.COMPLETED: "yes"})


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("n2 1970-01-01T00:01:40+00:00", Selection(node="n2", since=100.0)),
        ("n2", None),
        ("n2 yesterday", None),
        (" 1970-01-01T00:01:40Z", None),
    ],
)
def test_notes_that_cant_be_read_count_for_nothing(note: str, expected: Selection | None) -> None:
    """Anybody may write them; any name of ours will do."""
    claim = made.claim("c", annotations={"other/volume-binding": note})
    assert value(claim).selection == expected
    assert value(made.claim("c", annotations={"third/volume-binding": note})).selection is None


def test_the_class_in_an_old_annotation_comes_first() -> None:
    """As in Kubernetes; a claim without any class differs from one that expressly has none."""
    old = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert value(made.claim("c", "new", annotations=old)).storage_class == "old"
    assert value(made.claim("c", None)).storage_class is None
    assert value(made.claim("c", "")).storage_class == ""


def test_a_volume() -> None:
    """With all that decides."""
    volume = made.volume(
        "pv",
        "fast",
        size="2Gi",
        terms=made.on_labels(made.ZONE, "a", "b"),
        labels={made.ZONE: "b__a", "topology.kubernetes.io/region": "", "x": "y"},
        source=made.csi("handle"),
        claimRef={"namespace": "ns", "name": "c"},
    )
    requirement = Requirement(made.ZONE, Operator.IN, ("a", "b"))
    found = value(volume)
    assert found == Volume(
        name="pv",
        uid="uid-pv",
        capacity=2 * 2**30,
        storage_class="fast",
        access_modes=("ReadWriteOnce",),
        available=True,
        claim=ClaimReference(namespace="ns", name="c"),
        affinity=(Term((requirement,)),),
        zones=((made.ZONE, ("a", "b")),),
        labels={made.ZONE: "b__a", "topology.kubernetes.io/region": "", "x": "y"},
        source=Source(driver="made.example.com", handle="handle"),
    )
    mine = Claim(namespace="ns", name="c", uid="any")
    assert found.is_for(mine)
    assert not found.is_for(Claim(namespace="ns", name="d", uid="any"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"awsElasticBlockStore": {"volumeID": "v"}}, ("ebs.csi.aws.com", "v")),
        ({"gcePersistentDisk": {"pdName": "d"}}, ("pd.csi.storage.gke.io", "d")),
        ({"azureDisk": {"diskURI": "u", "diskName": "n"}}, ("disk.csi.azure.com", "u")),
        ({"cinder": {"volumeID": "c"}}, ("cinder.csi.openstack.org", "c")),
        ({"portworxVolume": {"volumeID": "p"}}, ("pxd.portworx.com", "p")),
        ({"nfs": {"server": "s", "path": "/"}}, None),
    ],
)
def test_in_tree_volumes_count_as_their_driver(
    source: Document, expected: tuple[str, str] | None
) -> None:
    """Those that are attached."""
    found = value(made.volume("pv", source=source)).source
    assert (found and (found.driver, found.handle)) == expected


def test_a_storage_class() -> None:
    """Modes, topologies, and who is the default."""
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}, {}]
    found = value(
        annotated(
            made.storage_class("s", allowedTopologies=terms),
            **{"storageclass.kubernetes.io/is-default-class": "true"},
        )
    )
    requirement = Requirement("zone", Operator.IN, ("a",))
    assert found == StorageClass(
        name="s",
        provisioner="made.example.com",
        waits=True,
        topologies=(Term((requirement,)), Term()),
        default=True,
    )
    immediate = made.storage_class("s", made.NOBODY)
    del immediate["volumeBindingMode"]
    assert not value(immediate).waits
    assert not value(immediate).provisions


def test_what_nodes_and_drivers_say() -> None:
    """Limits where there are any; capacities, of which the largest volume counts."""
    assert value(made.csi_node("n", {"d": 3, "e": None})) == CsiNode(
        name="n", limits={"d": 3}, drivers=frozenset({"d", "e"})
    )
    assert value(made.csi_driver("d")).storage_capacity
    assert not value(made.csi_driver("d", storageCapacity=False)).storage_capacity
    assert not value(made.csi_driver("d")).required
    assert value(made.csi_driver("d", preventPodSchedulingIfMissing=True)).required
    sizes = {"capacity": "3Gi", "maximumVolumeSize": "1Gi"}
    room = value(made.capacity("r", "s", {}, **sizes))
    assert (room.largest, room.nodes) == (2**30, Selector())
    assert value(made.capacity("r", "s", None, capacity="3Gi")).largest == 3 * 2**30
    assert value(made.capacity("r", "s", None)).largest < 0
    assert value(made.attachment("a", "n", "pv")) == Attachment(
        name="a", node="n", driver="made.example.com", volume="pv"
    )


BROKEN = {
    "spec.resources.requests.storage": made.claim("c", size="much"),
    "spec.selector.matchExpressions[0].operator": made.claim(
        "c", selector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
    ),
    "spec.capacity.storage": made.volume("pv", size="-1Gi"),
    "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator": made.volume(
        "pv", terms=[{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
    ),
    "volumeBindingMode": made.storage_class("s", volumeBindingMode="Later"),
    "spec.drivers[0].allocatable.count": made.csi_node("n", {"d": 2**40}),
    "maximumVolumeSize": made.capacity("r", "s", None, maximumVolumeSize="big"),
}


@pytest.mark.parametrize(("field", "document"), BROKEN.items(), ids=BROKEN)
def test_bad_fields_are_named(field: str, document: Document) -> None:
    """And the object is left out."""
    entry = translated(document)
    assert entry.value is None
    assert entry.rejection is not None
    assert entry.rejection.field == field
    assert entry.rejection.kind is events.kind_of(document)
