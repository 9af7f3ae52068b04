from typing import Any

from tests.unit.mirror import manifests
from vscheduler.mirror.decode.wire import OwnerReference, Pod
from vscheduler.mirror.translate import pod_owners, translation
from vscheduler.mirror.translate.pod_owners import Owner, OwnerTemplate
from vscheduler.model.jobs import JobId

QUEUE = "scheduling.volcano.sh/queue-name"


def owner(uid: str, *, controller: bool = True) -> dict[str, Any]:
    """An owner reference."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid}
    return reference | {"controller": controller}


def a_pod(name: str, group: str = "", **rest: Any) -> dict[str, Any]:
    """A pod with an annotation that counts and one that doesn't; `rest` of its metadata."""
    made = manifests.pod(name, group=group)
    made["metadata"] |= {"annotations": made["metadata"]["annotations"] | {QUEUE: "q", "x": "y"}}
    made["metadata"] |= rest
    return made


def test_pods_of_one_controller_share_their_origin() -> None:
    """Its controller, the annotations of Volcano's domains, and whose it is."""
    references = [owner("first", controller=False), owner("second")]
    pods = [a_pod(name, ownerReferences=references) for name in ("a", "b")]
    seen = manifests.mirror(*pods)
    first, second = (pod.origin for pod in seen.ungrouped())
    assert first is second
    assert first == OwnerTemplate(
        owner=Owner(api_version="apps/v1", kind="ReplicaSet", name="second", uid="second"),
        annotations={QUEUE: "q"},
        priority_class="",
        scheduler=manifests.OURS,
    )


def test_pods_of_groups_that_others_made_keep_none() -> None:
    """Of automatic groups they do: such a group may have to be made anew. LeaderWorkerSet gives
    names that end in ten digits, and with some of them the check digits are right.
    """
    looks_like_ours = "model-307-0-7486df6b86"
    assert pod_owners.is_automatic(looks_like_ours)
    seen = manifests.mirror(
        a_pod("a", "mine"),
        a_pod("b", "podgroup-5"),
        a_pod("c"),
        a_pod("d", "podgroup-d"),
        a_pod("e", pod_owners.short_name("second", "second"), ownerReferences=[owner("second")]),
        a_pod("f", looks_like_ours, ownerReferences=[owner("second")]),
    )
    found = {pod.key: pod.origin is not None for pod in seen.ungrouped()}
    assert found == {
        "ns/a": False,
        "ns/b": False,
        "ns/c": True,
        "ns/d": True,
        "ns/e": True,
        "ns/f": False,
    }


def test_groups_know_whom_they_were_made_for() -> None:
    """The controller among the owners, else the first; most groups have none."""
    for references, expected in (
        ([owner("a", controller=False), owner("b")], "b"),
        ([owner("a", controller=False)], "a"),
        ([], None),
    ):
        group = manifests.group("g")
        group["metadata"]["ownerReferences"] = references
        seen = manifests.mirror(group)
        (found,) = seen.groups.values()
        assert (found.owner and found.owner.uid) == expected


def test_a_namespace_may_name_the_queue_of_its_groups() -> None:
    """Else the default one is it, and where nobody has seen the namespace."""
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "ns", "annotations": {QUEUE: "team"}},
    }
    seen = manifests.mirror(body, default_queue="rest")
    assert seen.queue_of_namespace("ns") == "team"
    assert seen.queue_of_namespace("other") == "rest"


def test_a_namespace_may_require_a_queue() -> None:
    """Then nothing in it has the default queue; its own counts all the same."""
    for required, queue, expected in (
        ("true", "", ""),
        ("true", "team", "team"),
        ("false", "", "rest"),
    ):
        annotations = {QUEUE: queue, translation.REQUIRE_QUEUE: required}
        metadata = {"name": "ns", "annotations": annotations}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        seen = manifests.mirror(body, default_queue="rest")
        assert seen.queue_of_namespace("ns") == expected


def test_members_live_until_they_have_finished_or_leave() -> None:
    """Of all schedulers; a pod that is being deleted has been given up."""
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    seen = manifests.mirror(
        manifests.pod("a", group="g"),
        manifests.pod("b", group="g", scheduler="other", node="n"),
        manifests.pod("c", group="g", phase="Failed"),
        a_pod("d", "g", **leaving),
    )
    members = seen.members(JobId("ns/g"))
    assert {pod.key: pod.lives for pod in members} == {
        "ns/a": True,
        "ns/b": True,
        "ns/c": False,
        "ns/d": False,
    }


def test_an_owner_reference_is_read_as_it_is() -> None:
    """What isn't given is empty, as in Go."""
    found = manifests.read(a_pod("a", ownerReferences=[{"uid": "5"}]))
    assert isinstance(found, Pod)
    assert found.metadata.owner_references == [OwnerReference(uid="5")]
    assert pod_owners.controller(found.metadata) is None
