import datetime as dt
import random
from typing import Any

import pytest

from tests import volume_manifests as made
from vscheduler.mirror.decode.documents import Document
from vscheduler.mirror.decode.events import Kind
from vscheduler.simulator import manifests
from vscheduler.simulator.manifests import Collection, Manifest

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod's manifest as a person writes it."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}}


def queue(name: str, **metadata: Any) -> dict[str, Any]:
    """A queue's manifest."""
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": name, **metadata}}


def document(tree: Any, line: int) -> Document:
    """What the file f has in this line."""
    return Document(source="f", content=tree, lines=line)


def collect(*trees: Any) -> Collection:
    """The collection of documents that stand in lines 1, 2, … of a file."""
    return manifests.collect(
        Manifest(tree=tree, document=document(tree, line))
        for line, tree in enumerate(trees, start=1)
    )


@pytest.mark.parametrize(
    ("trees", "keys"),
    [
        ([pod("b"), queue("q"), pod("a", namespace="z"), None], ["q", "default/b", "z/a"]),
        (
            [{"kind": "List", "items": [pod("a"), {"kind": "List", "items": [pod("b")]}]}],
            ["default/a", "default/b"],
        ),
        (
            [{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}],
            ["default/a"],
        ),
        ([pod("a"), pod("a")], ["default/a"]),
    ],
)
def test_objects_are_sorted_and_lists_opened(trees: list[Any], keys: list[str]) -> None:
    """Queues before pods, then by name; a namespace is implied; a copy counts once."""
    found = collect(*trees)
    assert [each.key for each in found.objects] == keys
    assert found.problems == ()


@pytest.mark.parametrize(
    ("trees", "problems"),
    [
        (["text"], ["f:1: what stands here is no object"]),
        ([{"kind": 3}], ["f:1: what stands here is no object: it has no apiVersion and no kind"]),
        (
            [pod("a") | {"apiVersion": 1}],
            ["f:1: what stands here is no object: it has no apiVersion"],
        ),
        ([{"kind": "List", "items": ["text"]}], ["f:1: what stands here is no object"]),
        ([pod("")], ["f:1: Pod: metadata.name: it has no name"]),
        ([{"apiVersion": "v1", "kind": "Node"}], ["f:1: Node: metadata.name: it has no name"]),
        (
            [pod("a", labels={"x": "2"}), pod("a", labels={"x": "1"})],
            ["f:1: Pod default/a: differs from the one in f:2"],
        ),
    ],
)
def test_what_cannot_be_used_is_named(trees: list[Any], problems: list[str]) -> None:
    """Place, kind, name and field; all else goes on."""
    found = collect(*trees, pod("good"))
    assert [str(problem) for problem in found.problems] == problems
    assert "default/good" in [each.key for each in found.objects]


def test_kinds_that_decide_nothing_are_counted() -> None:
    """Also kinds of other groups that are called like ours."""
    other = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    stranger = {**queue("q"), "apiVersion": "example.com/v1"}
    found = collect(other, other, stranger, pod("a"))
    assert (found.ignored, len(found.objects)) == (
        {"Job": 2, "Queue of example.com/v1": 1},
        1,
    )


@pytest.mark.parametrize(
    ("tree", "now"),
    [
        (pod("a"), 0.0),
        (pod("a", creationTimestamp="2026-01-01T12:00:00Z"), NOON.timestamp()),
        (pod("a", creationTimestamp=NOON), NOON.timestamp()),
        (pod("a", creationTimestamp=NOON.replace(tzinfo=None)), NOON.timestamp()),
        (pod("a", deletionTimestamp="2036-01-01T12:00:00Z"), 0.0),
        (pod("a", creationTimestamp="yesterday"), 0.0),
        (pod("a", creationTimestamp="9999-12-31T23:59:59Z"), manifests.LATEST),
        (
            {**pod("a"), "status": {"conditions": [{"lastTransitionTime": NOON}, {"x": []}]}},
            NOON.timestamp(),
        ),
    ],
)
def test_now_is_the_latest_instant_that_has_passed(tree: Any, now: float) -> None:
    """The clock has no say in a simulation."""
    old = pod("old", creationTimestamp="1970-01-01T00:00:00Z")
    assert manifests.latest([Manifest(tree=tree), Manifest(tree=old)]) == now


def test_missing_metadata_is_filled_in() -> None:
    """Namespace, a UID of its own, and a creation time; what is there stays."""
    given = [pod("a"), pod("b", uid="u", creationTimestamp=None), pod("c", uid="u")]
    given.append(queue("q", creationTimestamp="2026-01-01T00:00:00Z"))
    completed = manifests.complete(collect(*given).objects, NOON.timestamp())
    metadata = [tree["metadata"] for _, tree in completed]
    assert [(each["name"], each["uid"], each.get("namespace")) for each in metadata] == [
        ("q", "q", None),
        ("a", "default/a", "default"),
        ("b", "u", "default"),
        ("c", "default/c", "default"),
    ]
    assert [each["creationTimestamp"] for each in metadata] == [
        "2026-01-01T00:00:00Z",
        *[NOON] * 3,
    ]


def test_the_order_of_documents_makes_no_difference() -> None:
    """Objects, problems and the time are the same for shuffled input."""
    trees = [pod(f"p{at}", labels={"at": str(at % 2)}) for at in range(4)] * 2
    trees += [pod("p1", labels={"at": "7"}), queue("q"), pod("")]
    placed = [Manifest(tree=tree, document=document(tree, line)) for line, tree in enumerate(trees)]
    expected = manifests.collect(placed)
    for seed in range(20):
        random.Random(seed).shuffle(placed)
        found = manifests.collect(placed)
        assert found.problems == expected.problems
        assert [each.tree for each in found.objects] == [each.tree for each in expected.objects]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([], None),
        (["2026-01-01T00:00:00Z"], "s0"),
        (["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"], "s1"),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"], "s0"),
    ],
)
def test_a_claim_without_a_class_gets_the_youngest_default(
    classes: list[str], expected: str | None
) -> None:
    """As an API server does it; none at all is a class, too, and other classes are no default."""
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    trees = [made.storage_class("plain"), made.claim("c", None), made.claim("d", "")]
    for number, created in enumerate(classes):
        each = made.storage_class(f"s{number}")
        each["metadata"] |= {"annotations": marked, "creationTimestamp": created}
        trees.append(each)
    found = {
        named.name: tree["spec"].get("storageClassName")
        for named, tree in manifests.complete(collect(*trees).objects, 0.0)
        if named.kind is Kind.CLAIM
    }
    assert found == {"c": expected, "d": ""}
