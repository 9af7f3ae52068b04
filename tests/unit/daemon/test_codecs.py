import json

import pytest

from tests.unit.mirror import manifests
from vscheduler.daemon import codecs
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import entries

POD = events.Kind.POD


def test_a_list_loses_only_its_bad_items() -> None:
    """The others are all there, and the bad one is told of."""
    items = [manifests.pod("a"), manifests.pod("b") | {"spec": 1}, manifests.pod("c")]
    seen = manifests.mirror(manifests.pod("gone"))
    codec = codecs.Codec(POD, seen.read)
    (event,) = codec.replace(codec.read([json.dumps(item).encode() for item in items]))
    assert isinstance(event, entries.Replace)
    assert {key: entry.value is None for key, entry in event.found.items()} == {
        "a": False,
        "b": True,
        "c": False,
    }
    seen.apply(event)
    assert [key for _, key in seen.rejections] == ["b"]
    assert {pod.uid for pod in seen.ungrouped()} == {"a", "c"}


@pytest.mark.parametrize(
    ("change", "spec", "expected"),
    [
        ("ADDED", {}, events.Upsert),
        ("MODIFIED", {}, events.Upsert),
        ("MODIFIED", 1, events.Reject),
        ("DELETED", {}, events.Remove),
        ("DELETED", 1, events.Remove),
    ],
)
def test_changes_become_events(change: str, spec: object, expected: type[entries.Event]) -> None:
    """An object that can't be read can still go."""
    item = json.dumps(manifests.pod("p") | {"spec": spec}).encode()
    (event,) = codecs.Codec(POD, manifests.mirror().read).change(change, item)
    assert type(event) is expected
    if isinstance(event, events.Remove):
        assert event == events.Remove(kind=POD, namespace="ns", name="p", uid="p")


def test_a_list_that_came_in_parts_leaves_what_a_whole_one_does() -> None:
    """Also where an object of the first part has gone before the list was whole."""
    documents = [manifests.pod(name, group="g", node="n1") for name in "abc"]
    items = [json.dumps(each).encode() for each in documents]
    around = manifests.node("n1", {"cpu": "8", "pods": "9"}), manifests.group("g")
    whole, parts = manifests.mirror(*around), manifests.mirror(*around)
    codec = codecs.Codec(POD, parts.read)
    for item in items:
        for event in codec.begin(codec.read([item])):
            assert parts.apply(event)
    (event,) = codec.replace(codec.read(items[1:]))
    assert parts.apply(event)
    assert not parts.apply(event)
    assert whole.apply(event)
    assert manifests.canonical(parts.snapshot(0.0)) == manifests.canonical(whole.snapshot(0.0))
