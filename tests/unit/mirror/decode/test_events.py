import datetime as dt
import json
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.decode import events, fields
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Upsert
from vscheduler.mirror.decode.wire import Pod, ResourceRequirements

POD = Kind.POD


def both(document: Document) -> list[Upsert | DecodeFailed]:
    """The document by way of JSON and as plain data."""
    return [
        events.decode(POD, json.dumps(document).encode()),
        events.convert(POD, document),
    ]


@pytest.mark.parametrize(
    ("part", "field", "message"),
    [
        ({"spec": {"priority": "high"}}, "spec.priority", "Expected `int"),
        ({"spec": []}, "spec", "Expected `object`"),
        (
            {"spec": {"containers": [{}, {"resources": {"requests": {"cpu": []}}}]}},
            "spec.containers[1].resources.requests[...]",
            "Expected `int | float | str`",
        ),
        ({"metadata": {"name": "p", "labels": {"a": 1}}}, "metadata.labels[...]", "Expected `str`"),
        ({"metadata": {"name": 3}}, "metadata.name", "Expected `str`"),
    ],
)
def test_a_wrong_type_rejects_this_object_and_names_the_field(
    part: dict[str, Any], field: str, message: str
) -> None:
    """JSON and YAML say the same about it."""
    for event in both(manifests.pod("p") | part):
        assert isinstance(event, DecodeFailed)
        assert event.field == field
        assert event.message.startswith(message)


def test_a_rejected_object_is_still_known_by_name() -> None:
    """Its names are read where they can be; a namespace that isn't given is `default`."""
    for event in both({"metadata": {"name": "p", "uid": "u"}, "spec": 1}):
        assert isinstance(event, DecodeFailed)
        assert (event.uid, event.rejection.key) == ("u", "default/p")
    nameless: list[object] = [{"metadata": 1}, {"metadata": {"name": None}, "spec": 1}, [], None]
    for document in nameless:
        broken = events.convert(POD, document)
        assert isinstance(broken, DecodeFailed)
        assert broken.rejection.key == "default/"


def test_what_yaml_makes_of_a_manifest_is_understood() -> None:
    """Times, dates, numbers as amounts, and nulls, which stand for nothing."""
    document = {
        "metadata": {
            "name": "p",
            "creationTimestamp": dt.datetime(
                2026, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(0, 7200))
            ),
            "deletionTimestamp": dt.date(2026, 1, 2),
            "labels": {"empty": None},
            "annotations": None,
        },
        "spec": {"containers": [{"resources": {"requests": {"cpu": 0.5, "memory": 1}}}]},
        "status": None,
    }
    event = events.convert(POD, document)
    assert isinstance(event, Upsert)
    pod = event.object
    assert isinstance(pod, Pod)
    assert pod.metadata.creation_timestamp == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert pod.metadata.deletion_timestamp == dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    assert (pod.metadata.namespace, pod.metadata.labels) == ("default", {"empty": ""})
    assert pod.spec.containers[0].resources == ResourceRequirements(
        requests={"cpu": 0.5, "memory": 1}
    )


def test_json_nulls_take_a_second_look() -> None:
    """A client that writes null where nothing is meant gets its object, too."""
    document = manifests.pod("p") | {"status": None, "metadata": {"name": "p", "labels": None}}
    first, second = both(document)
    assert isinstance(first, Upsert)
    assert first == second


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock isn't universal."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize("written", [dt.datetime(1970, 1, 2), "1970-01-02T00:00:00"])  # noqa: DTZ001 - what PyYAML makes of it
def test_a_time_without_a_zone_is_universal(written: object) -> None:
    """YAML allows it, and Kubernetes' own times are all UTC, wherever this machine is."""
    event = events.convert(POD, {"metadata": {"name": "p", "creationTimestamp": written}})
    assert isinstance(event, Upsert)
    assert fields.seconds(event.object.metadata.creation_timestamp) == 86400.0


def test_a_manifest_that_holds_itself_is_rejected() -> None:
    """YAML's aliases can draw a circle."""
    spec: dict[str, Any] = {}
    spec["spec"] = spec
    event = events.convert(POD, {"metadata": {"name": "p"}, "spec": spec})
    assert isinstance(event, DecodeFailed)
    assert (event.name, event.message) == ("p", "is nested too deeply")


def test_text_that_is_no_json_is_the_senders_fault() -> None:
    """No object can be blamed for it."""
    with pytest.raises(msgspec.DecodeError):
        events.decode(POD, b'{"metadata":')


@pytest.mark.parametrize(
    ("version", "kind", "found"),
    [
        ("v1", "Pod", Kind.POD),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", Kind.POD_GROUP),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", None),
        ("v1", "ConfigMap", None),
        (None, None, None),
    ],
)
def test_kinds_are_told_by_group_too(
    version: str | None, kind: str | None, found: Kind | None
) -> None:
    """Other projects have PodGroups of their own."""
    assert events.kind_of({"apiVersion": version, "kind": kind}) is found
