from typing import Any

import msgspec
import pytest

from vscheduler.mirror import volume_requests
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.volume_requests import Wanted
from vscheduler.model.claim_decisions import (
    ClaimBinding,
    ReleaseClaim,
    ReleaseVolume,
    VolumeChange,
)
from vscheduler.model.storage import Claim, ClaimReference, Selection, Volume

AT = 1767268840.0
NOTE = "vscheduler/volume-binding"
SELECTED = "volume.kubernetes.io/selected-node"
BOUND_BY = "pv.kubernetes.io/bound-by-controller"
CLAIM = Claim(namespace="ns", name="data", uid="c1")
DISK = Volume(name="disk", uid="v1", available=True)
RESERVED = msgspec.structs.replace(DISK, claim=ClaimReference(namespace="ns", name="data"))


def binding(volume: str | None = None) -> ClaimBinding:
    """The claim needs a volume on n1."""
    return ClaimBinding(namespace="ns", name="data", uid="c1", volume=volume, node="n1")


def release(*, reserved: bool = False) -> ReleaseVolume:
    """The volume isn't needed any more."""
    return ReleaseVolume(name="disk", uid="v1", key="ns/data", reserved=reserved)


WITHDRAWN = ReleaseClaim(namespace="ns", name="data", uid="c1", node="n1")
REFERENCE = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "namespace": "ns",
    "name": "data",
    "uid": "c1",
}
PATCHES: dict[str, tuple[VolumeChange, Wanted, Any, Any]] = {
    "a volume is to be made": (
        binding(),
        CLAIM,
        {SELECTED: "n1", NOTE: "n1 2026-01-01T12:00:40Z"},
        None,
    ),
    "a volume is given": (
        binding("disk"),
        DISK,
        {NOTE: "n1 2026-01-01T12:00:40Z", BOUND_BY: "yes"},
        {"claimRef": REFERENCE},
    ),
    "a reserved volume is given": (
        binding("disk"),
        RESERVED,
        {NOTE: "n1 2026-01-01T12:00:40Z"},
        {"claimRef": REFERENCE},
    ),
    "no volume is to be made": (WITHDRAWN, CLAIM, {SELECTED: None, NOTE: None}, None),
    "a volume is withdrawn": (release(), DISK, {NOTE: None, BOUND_BY: None}, {"claimRef": None}),
    "a reserved volume is withdrawn": (
        release(reserved=True),
        RESERVED,
        {NOTE: None},
        {"claimRef": {"uid": None}},
    ),
}


@pytest.mark.parametrize("case", PATCHES)
def test_a_patch_has_the_fields_of_kube_scheduler_and_a_note(case: str) -> None:
    """And names the object that was decided on, in its version."""
    change, value, annotations, spec = PATCHES[case]
    patch = volume_requests.patch(value, change, version="7", schedulers=("vscheduler",), since=AT)
    metadata = {"uid": value.uid, "resourceVersion": "7", "annotations": annotations}
    assert patch == ({"metadata": metadata} | ({"spec": spec} if spec else {}))
    path, place = "persistentvolumes/disk", (Kind.VOLUME, "disk")
    if isinstance(value, Claim):
        path, place = "namespaces/ns/persistentvolumeclaims/data", (Kind.CLAIM, "ns/data")
    assert volume_requests.path(value) == f"/api/v1/{path}"
    assert volume_requests.place(change) == place
    assert volume_requests.is_about(change, value)


def test_of_several_schedulers_one_asks_and_the_notes_of_all_are_withdrawn() -> None:
    """An instance that serves two names withdraws what either has asked for."""
    names = ("a", "b")
    asked = volume_requests.patch(CLAIM, binding(), version="7", schedulers=names, since=AT)
    assert asked["metadata"]["annotations"].keys() == {SELECTED, "a/volume-binding"}
    given_back = volume_requests.patch(CLAIM, WITHDRAWN, version="7", schedulers=names, since=AT)
    assert given_back["metadata"]["annotations"].keys() == {
        *(SELECTED, "a/volume-binding", "b/volume-binding"),
    }


SELECTION = Selection(node="n1", since=AT)
MINE = ClaimReference(namespace="ns", name="data", uid="c1")
RESULTS: list[tuple[VolumeChange, Wanted, Wanted]] = [
    (
        binding(),
        CLAIM,
        msgspec.structs.replace(CLAIM, selected_node="n1", selection=SELECTION),
    ),
    (
        binding("disk"),
        DISK,
        msgspec.structs.replace(DISK, claim=MINE, selection=SELECTION, bound_by_controller=True),
    ),
    (binding("disk"), RESERVED, msgspec.structs.replace(DISK, claim=MINE, selection=SELECTION)),
    (WITHDRAWN, msgspec.structs.replace(CLAIM, selected_node="n1", selection=SELECTION), CLAIM),
    (
        release(),
        msgspec.structs.replace(DISK, claim=MINE, selection=SELECTION, bound_by_controller=True),
        DISK,
    ),
    (
        release(reserved=True),
        msgspec.structs.replace(DISK, claim=MINE, selection=SELECTION),
        RESERVED,
    ),
]


@pytest.mark.parametrize(("change", "before", "after"), RESULTS)
def test_the_object_is_known_before_it_is_written(
    change: VolumeChange,
    before: Wanted,
    after: Wanted,
) -> None:
    """The next cycle sees it like that while the call is under way."""
    assert volume_requests.result(before, change, since=AT) == after


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (binding(), msgspec.structs.replace(CLAIM, uid="c2")),
        (WITHDRAWN, msgspec.structs.replace(CLAIM, uid="c2")),
        (release(), msgspec.structs.replace(DISK, uid="v2")),
        (
            binding("disk"),
            msgspec.structs.replace(DISK, claim=msgspec.structs.replace(MINE, name="other")),
        ),
        (binding("disk"), msgspec.structs.replace(DISK, claim=MINE)),
        (binding("disk"), msgspec.structs.replace(DISK, deleting=True)),
        (binding(), msgspec.structs.replace(CLAIM, volume="disk")),
        (binding(), msgspec.structs.replace(CLAIM, deleting=True)),
        (WITHDRAWN, msgspec.structs.replace(CLAIM, selected_node="n1", volume="disk")),
        (release(), msgspec.structs.replace(DISK, claim=MINE, available=False)),
        (release(), msgspec.structs.replace(DISK, claim=MINE, deleting=True)),
        (
            release(),
            msgspec.structs.replace(DISK, claim=msgspec.structs.replace(MINE, name="other")),
        ),
    ],
)
def test_an_object_that_is_another_by_now_is_left_alone(
    change: VolumeChange, value: Wanted
) -> None:
    """A new claim of the same name, a volume that somebody else has got, or that Kubernetes has
    bound since the decision.
    """
    assert not volume_requests.is_about(change, value)
