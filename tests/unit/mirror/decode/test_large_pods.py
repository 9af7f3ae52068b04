"""Pods with long affinities are what they were, and are read no more often than they change."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests import attacks
from vscheduler.daemon.informers import Codec
from vscheduler.mirror.decode import events, wire
from vscheduler.mirror.decode.events import Kind, LargePod, Remove, Upsert
from vscheduler.mirror.index.entries import Entry
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.translate import bounds, pods
from vscheduler.mirror.translate.bounds import Bounds
from vscheduler.mirror.translate.pods import Classes

Document = dict[str, Any]
OPTIONS = Options(scheduler_names=("vscheduler",), most=Bounds(max_pod_affinity_values=5000))


def heavy(terms: int = 3000, number: int = 0, **spec: Any) -> Document:
    """A pod with so many conditions."""
    made = attacks.pod("p", "aff", affinity=attacks.apart(terms, number), **spec)
    made["metadata"] |= {"uid": f"u{number}", "resourceVersion": "1"}
    return made


def many_values(count: int) -> Document:
    """An affinity that lists so many values in one term."""
    values = [f"v{each}" for each in range(count)]
    selector = {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}
    term = {"topologyKey": attacks.HOST, "labelSelector": selector}
    node = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}
    return {
        "podAntiAffinity": {attacks.REQUIRED: [term]},
        "nodeAffinity": {attacks.REQUIRED: {"nodeSelectorTerms": [node]}},
    }


ODD: Document = {"podAffinity": {attacks.REQUIRED: [{"labelSelector": {}}]}}
RESOURCES = {f"example.com/{each}": "1" for each in range(70)}
MANY, MORE = many_values(4000), many_values(6000)
PODS: dict[str, tuple[Document, str]] = {
    "beyond the bound, waits": (heavy(), "asks for 3000 pod affinity terms"),
    "beyond the bound, runs": (heavy(nodeName="n"), ""),
    "beyond the bound, of others": (heavy(nodeName="n", schedulerName="default-scheduler"), ""),
    "within the bounds, waits": (attacks.pod("p", "aff", affinity=MANY), ""),
    "within the bounds, runs": (attacks.pod("p", "aff", affinity=MANY, nodeName="n"), ""),
    "too many values, waits": (attacks.pod("p", "aff", affinity=MORE), "values in its selectors"),
    "too many values, runs": (attacks.pod("p", "aff", affinity=MORE, nodeName="n"), ""),
    "no amount, runs": (heavy(nodeName="n", overhead={"cpu": "-1"}), "must not be negative"),
    "too many resources, waits": (
        attacks.pod("p", "aff", requests=RESOURCES, affinity=MANY),
        "asks for 71 resources",
    ),
    "no key, waits": (attacks.pod("p", "aff", affinity=MANY | ODD), "is missing"),
    "no key, runs": (attacks.pod("p", "aff", affinity=MANY | ODD, nodeName="n"), "is missing"),
}
"""Pods, and what is wrong with them."""


def item_of(document: Document) -> bytes:
    """As API servers write it."""
    return json.dumps(document, separators=(",", ":")).encode()


def read(document: Document, mirror: Mirror | None = None) -> Entry:
    """What it comes to for this Mirror, or for one that has seen nothing else."""
    mirror = mirror or Mirror(OPTIONS)
    event = events.decode(Kind.POD, item_of(document))
    assert not isinstance(event, Remove)
    return mirror.read(event)[1]


def told(entry: Entry) -> tuple[object, ...]:
    """All that an entry says, classes by what is in them."""
    pod = entry.value
    assert isinstance(pod, pods.Pod)
    pod_class = pod.pod_class
    own = (pod_class.request, pod_class.constraints, pod_class.hints)
    rest = (pod.status, pod.node, pod.ours, pod.labels, pod.task is None)
    return (own, rest, entry.rejection, entry.reference)


@pytest.mark.parametrize("name", PODS)
def test_a_large_pod_comes_to_what_it_does_as_a_whole(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first look, and when it is known already."""
    document, wrong = PODS[name]
    event = events.decode(Kind.POD, item_of(document))
    assert isinstance(event, Upsert)
    assert isinstance(event.object, LargePod)
    mirror = Mirror(OPTIONS)
    first, again = (mirror.read(event)[1] for _ in range(2))
    monkeypatch.setattr(events, "LONG_BYTES", 2**30)
    expected = told(read(document))
    assert told(first) == expected
    assert told(again) == expected
    assert wrong in str(first.rejection)
    assert (first.rejection is None) == (not wrong)


def test_only_its_affinity_is_left_as_it_came() -> None:
    """Everything else is as in any pod, and the affinity is there for who asks."""
    document = heavy(nodeName="n")
    document["metadata"]["annotations"]["text"] = item_of(document).decode()
    item = item_of(document)
    found = events.read_large(item)
    assert found is not None
    whole = events.whole(found)
    assert isinstance(whole, Upsert)
    assert isinstance(whole.object, wire.Pod)
    assert not isinstance(whole.object, LargePod)
    assert whole.object.spec.affinity is not None
    assert found.spec.affinity is None
    assert found.metadata == whole.object.metadata
    assert found.status == whole.object.status
    assert found.spec.containers == whole.object.spec.containers
    assert found.spec.node_name == "n"


@pytest.mark.parametrize(
    "document",
    [
        attacks.pod("p", "aff"),
        heavy(terms=10),
        attacks.pod("p", "aff") | {"status": {"message": "x" * 100_000}},
    ],
    ids=["none", "a short one", "a short one in a long pod"],
)
def test_others_are_read_at_once(document: Document) -> None:
    """Whatever else is long."""
    assert events.read_large(item_of(document)) is None


def test_an_affinity_that_stands_there_twice_is_read_at_once() -> None:
    """No API server writes that; the pod keeps its affinity."""
    item = item_of({"other": attacks.apart(3000), **heavy()})
    assert events.read_large(item) is None
    event = events.decode(Kind.POD, item)
    assert isinstance(event, Upsert)
    assert isinstance(event.object, wire.Pod)
    assert event.object.spec.affinity is not None


def test_what_begins_like_it_is_not_taken_for_it() -> None:
    """No API server writes that before it either."""
    item = item_of({"other": attacks.apart(3000, 1), **heavy()})
    found = events.read_large(item)
    assert found is not None
    alone = events.read_large(item_of(heavy()))
    assert alone is not None
    assert (found.digest, found.metadata) == (alone.digest, alone.metadata)


def test_an_affinity_of_the_wrong_kind_is_told_of_and_the_pod_keeps_its_room() -> None:
    """No API server stores that either."""
    document = heavy(nodeName="n")
    document["spec"]["affinity"]["podAntiAffinity"][attacks.REQUIRED][7]["namespaces"] = 7
    entry = read(document)
    assert entry.rejection is not None
    assert entry.rejection.message == "Expected `array`, got `int`"
    assert entry.rejection.field.endswith("[7].namespaces")
    assert isinstance(entry.value, pods.Pod)
    assert entry.value.holds_resources


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose affinity was read, once for each time."""
    found = []
    read: Callable[[LargePod], Any] = events.whole

    def noted(pod: LargePod) -> object:
        found.append(pod.metadata.uid)
        return read(pod)

    monkeypatch.setattr(events, "whole", noted)
    return found


@pytest.mark.parametrize("node", [None, "n"])
def test_an_affinity_is_read_once_however_often_its_pod_changes(
    node: str | None, looks: list[str]
) -> None:
    """A pod that starts is shown half a dozen times: its phase, its containers, its conditions."""
    mirror = Mirror(OPTIONS)
    codec = Codec(Kind.POD, mirror.read)
    documents = [heavy(number=each) for each in range(5)]
    for document in documents:
        document["spec"] |= {"nodeName": node} if node else {}
    for version in range(2, 8):
        for document in documents:
            shown = copy.copy(document)
            shown["metadata"] = {**document["metadata"], "resourceVersion": str(version)}
            condition = {"type": "ContainersReady", "status": "False", "reason": f"{version}"}
            container = {"name": "main", "resources": {"requests": {"cpu": f"{version}m"}}}
            shown["status"] = {
                "phase": "Running" if node and version > 4 else "Pending",
                "conditions": [condition],
                "containerStatuses": [container],
            }
            for event in codec.change("MODIFIED", item_of(shown)):
                mirror.apply(event)
    assert sorted(looks) == [f"u{each}" for each in range(5)]
    assert len(mirror.rejections) == (0 if node else 5)


def test_what_the_affinity_comes_to_depends_on_is_looked_at_anew(looks: list[str]) -> None:
    """Labels, for `matchLabelKeys`; the namespace; another text; other conditions; who places it;
    and that it waits.
    """
    mirror = Mirror(OPTIONS)
    plain = attacks.pod("p", "aff", affinity=many_values(4000), nodeName="n")
    labelled, elsewhere, other, tolerant, theirs, waiting = (copy.deepcopy(plain) for _ in range(6))
    labelled["metadata"]["labels"] = {"a": "b"}
    elsewhere["metadata"]["namespace"] = "team-b"
    other["spec"]["affinity"] = many_values(4001)
    tolerant["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]
    theirs["spec"]["schedulerName"] = "default-scheduler"
    del waiting["spec"]["nodeName"]
    shown = (plain, labelled, elsewhere, other, tolerant, theirs, waiting)
    kept = [read(document, mirror) for document in shown]
    assert len(looks) == len(shown)
    kept += [read(document, mirror) for document in shown[:-1]]
    assert len(looks) == len(shown)


def test_what_is_refused_while_it_waits_counts_once_it_runs() -> None:
    """And the other way round: one is known, and the other isn't taken for it."""
    mirror = Mirror(OPTIONS)
    kept = [read(each, mirror) for each in (heavy(), heavy(nodeName="n"), heavy())]
    refused, runs, refused_again = (told(each) for each in kept)
    assert refused == refused_again
    assert "asks for 3000 pod affinity terms" in str(refused[2])
    assert runs == told(read(heavy(nodeName="n")))
    assert runs[2] is None


def test_what_is_wrong_with_large_pods_is_kept_for_so_many(
    monkeypatch: pytest.MonkeyPatch, looks: list[str]
) -> None:
    """The latest, and nothing that quotes a long text."""
    monkeypatch.setattr(pods, "REFUSED_MAX", 2)
    classes = Classes(bounds.DEFAULT)
    items = [item_of(heavy(number=each)) for each in (0, 1, 2, 2, 1, 0)]
    for item in items:
        pod = events.read_large(item)
        assert pod is not None
        with pytest.raises(ValueError, match="asks for 3000 pod affinity terms"):
            classes.pod_class(pod, {}, ours=True, waits=True)
    assert looks == ["u0", "u1", "u2", "u0"]
    monkeypatch.setattr(pods, "MESSAGE_MAX", 10)
    for _ in range(2):
        pod = events.read_large(item_of(heavy(number=3)))
        assert pod is not None
        with pytest.raises(ValueError, match="asks for 3000 pod affinity terms"):
            classes.pod_class(pod, {}, ours=True, waits=True)
    assert looks[4:] == ["u3", "u3"]
