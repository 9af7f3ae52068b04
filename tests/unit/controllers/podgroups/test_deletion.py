from typing import Any

import pytest

from vscheduler.controllers.podgroups import auto_groups, deletion
from vscheduler.controllers.podgroups.auto_groups import Body
from vscheduler.controllers.podgroups.deletion import (
    Create,
    Delete,
    Found,
    Join,
    Keep,
    Mark,
    OwnerState,
    Step,
    Unmark,
    Wait,
)

NOW = 1000.0
GRACE = 30.0
VERSION = {"uid": "g1", "resource_version": "7"}


def found(**changes: Any) -> Found:
    """A group that we made and nobody uses."""
    settings: dict[str, Any] = {
        **VERSION,
        "ours": True,
        "marked": False,
        "owner": OwnerState.SCALED_TO_ZERO,
        "pods": 0,
        "unused_since": NOW - GRACE,
    }
    return Found(**settings | changes)


def group(**metadata: Any) -> Body:
    """A group that we made for the pods of a ReplicaSet, as it is stored."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r1"}
    return {
        "metadata": {
            "name": "podgroup-r1",
            "uid": "g1",
            "resourceVersion": "7",
            "labels": {auto_groups.MANAGED_BY: "vscheduler"},
            "annotations": {"scheduling.volcano.sh/scheduler-name": "vscheduler"},
            "ownerReferences": [{**reference, "controller": True}],
            **metadata,
        }
    }


def pod(**metadata: Any) -> Body:
    """A pod of that ReplicaSet."""
    reference = {"kind": "ReplicaSet", "name": "web", "uid": "r1", "controller": True}
    return {"metadata": {"name": "p", "uid": "p1", "ownerReferences": [reference], **metadata}}


def judge(**changes: Any) -> Step:
    """What is done with the group, changed like this."""
    return deletion.judge(found(**changes), NOW, GRACE)


@pytest.mark.parametrize("owner", [OwnerState.GONE, OwnerState.SCALED_TO_ZERO])
def test_an_unused_group_is_marked_after_the_grace(owner: OwnerState) -> None:
    """Not before; and a grace that nobody remembers starts anew."""
    early = NOW - GRACE + 1
    assert judge(owner=owner) == Mark(**VERSION)
    assert judge(owner=owner, unused_since=early) == Wait(until=NOW + 1)
    assert judge(owner=owner, unused_since=None) == Wait(until=NOW + GRACE)
    assert deletion.judge(found(unused_since=None), NOW, 0) == Mark(**VERSION)


@pytest.mark.parametrize("unused_since", [None, NOW, NOW - GRACE])
def test_a_marked_group_is_deleted_in_the_version_that_was_read(
    unused_since: float | None,
) -> None:
    """The mark stands for a grace that is over, after a restart too."""
    step = judge(marked=True, unused_since=unused_since)
    assert step == Delete(**VERSION)
    assert isinstance(step, Delete)
    assert deletion.preconditions(step) == {"uid": "g1", "resourceVersion": "7"}


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("owner", OwnerState)
def test_a_group_with_pods_stays(owner: OwnerState, marked: bool) -> None:
    """Whatever became of its owner; its mark comes off."""
    step = judge(owner=owner, pods=1, marked=marked)
    assert step == (Unmark(**VERSION) if marked else Keep(why="1 pod in it"))


def test_a_living_owner_keeps_its_group() -> None:
    """A Job whose pods have finished, a pod that has: the group goes with them."""
    assert judge(owner=OwnerState.ALIVE) == Keep(why="its owner is there")
    assert judge(owner=OwnerState.ALIVE, marked=True) == Unmark(**VERSION)


@pytest.mark.parametrize("marked", [False, True])
def test_what_is_not_known_is_no_reason_to_delete(marked: bool) -> None:
    """An owner that can't be read may be alive."""
    assert isinstance(judge(owner=OwnerState.UNKNOWN, marked=marked), Keep)


@pytest.mark.parametrize("marked", [False, True])
def test_groups_of_others_are_left_alone(marked: bool) -> None:
    """With a mark too, which a user may have copied."""
    assert isinstance(judge(ours=False, marked=marked), Keep)


def test_ours_has_our_label_and_one_of_our_schedulers() -> None:
    """The label alone is that of another instance's groups."""
    assert deletion.is_ours(group(), ("online", "vscheduler"))
    assert not deletion.is_ours(group(), ("online",))
    assert not deletion.is_ours(group(labels={}), ("vscheduler",))
    assert not deletion.is_ours(group(annotations={}), ("vscheduler",))


def test_pods_count_that_are_in_the_group_or_about_to_be() -> None:
    """Those that name it, and those of its owner that name none; only live ones."""
    ours = {"scheduling.k8s.io/group-name": "podgroup-r1"}
    other = {"scheduling.k8s.io/group-name": "mine"}
    alias = {"scheduling.volcano.sh/group-name": "podgroup-r1"}
    counts = [
        (pod(annotations=ours), 1),
        (pod(annotations=ours, ownerReferences=[]), 1),
        (pod(annotations=alias, ownerReferences=[]), 1),
        (pod(), 1),
        (pod(ownerReferences=[]), 0),
        (pod(annotations=other), 0),
        (pod(annotations=ours, deletionTimestamp="2026-01-01T00:00:00Z"), 0),
        ({**pod(annotations=ours), "status": {"phase": "Succeeded"}}, 0),
        ({**pod(annotations=ours), "status": {"phase": "Failed"}}, 0),
        ({**pod(annotations=ours), "status": {"phase": "Pending"}}, 1),
    ]
    for body, count in counts:
        read = deletion.found(
            group(),
            OwnerState.GONE,
            [deletion.pod(body)],
            schedulers=["vscheduler"],
            unused_since=None,
        )
        assert read == found(owner=OwnerState.GONE, pods=count, unused_since=None)


def test_an_owner_is_gone_once_its_name_is_anothers() -> None:
    """A ReplicaSet that is made anew has another UID."""
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "w", "uid": "r1"}}
    unknown = auto_groups.owner(body)
    zero = auto_groups.owner({**body, "spec": {"replicas": 0}})
    assert deletion.owner_state("r1", None) is OwnerState.GONE
    assert deletion.owner_state("r2", zero) is OwnerState.GONE
    assert deletion.owner_state("r1", zero) is OwnerState.SCALED_TO_ZERO
    assert deletion.owner_state("r1", unknown) is OwnerState.ALIVE


def test_the_owner_of_a_group_is_the_one_that_its_name_tells() -> None:
    """Other references, and those that an orphaned group has lost, say nothing of it."""
    ref = deletion.owner_ref(group())
    assert ref is not None
    assert (ref.kind, ref.name, ref.uid) == ("ReplicaSet", "web", "r1")
    assert deletion.owner_ref(group(ownerReferences=[])) is None
    assert deletion.owner_ref(group(name="podgroup-r2")) is None


def test_a_pod_joins_only_a_group_without_a_mark() -> None:
    """A group that is gone is made, one that is on its way out is kept, or waited for."""
    marked = group(annotations={deletion.LEAVING: "2026-01-01T00:00:00Z"})
    leaving = group(deletionTimestamp="2026-01-01T00:00:00Z")
    assert deletion.join(None, NOW) == Create()
    assert deletion.join(group(), NOW) == Join()
    assert deletion.join(marked, NOW) == Unmark(**VERSION)
    assert deletion.join(leaving, NOW, 2.0) == Wait(until=NOW + 2.0)


def test_marks_are_put_on_and_off_in_the_version_that_was_read() -> None:
    """The patches carry UID and resourceVersion: a late one is refused."""
    identity = {"uid": "g1", "resourceVersion": "7"}
    on = {"annotations": {deletion.LEAVING: "1970-01-01T00:16:40Z"}}
    off = {"annotations": {deletion.LEAVING: None}}
    assert deletion.marking(Mark(**VERSION), NOW) == {"metadata": identity | on}
    assert deletion.unmarking(Unmark(**VERSION)) == {"metadata": identity | off}
