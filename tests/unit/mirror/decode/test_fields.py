"""Numbers out of range are refused by name: the object, the field, and what is wrong with it."""

import json
from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.decode import events, fields
from vscheduler.mirror.decode.events import DecodeFailed, Kind
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model import durations
from vscheduler.model.durations import RangeError

HUGE = "9" * 400
LONG = "9" * 4400
PRIORITY = "volcano.sh/task-priority"
COOLDOWN = "volcano.sh/cooldown-time"
WEIGHT = "volcano.sh/resource-strategy-weight"
YEARS = "is longer than any duration can be (292 years)"
BITS = "is out of range: 32 bits, at most 2147483647"


def group(**spec: Any) -> dict[str, Any]:
    """A PodGroup."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": spec,
    }


def queue(**spec: Any) -> dict[str, Any]:
    """A Queue."""
    return {**group(**spec), "kind": "Queue", "metadata": {"name": "a"}}


def annotated(name: str, text: str, kind: str = "annotations") -> dict[str, Any]:
    """A pod that waits."""
    return manifests.pod("a", metadata={kind: {name: text}})


def complaints(document: dict[str, Any], *, wire: bool = False) -> list[str]:
    """What a mirror has to say about it."""
    mirror = Mirror(Options(scheduler_names=("vscheduler",)))
    kind = events.kind_of(document)
    assert kind is not None
    read = events.decode(kind, json.dumps(document).encode()) if wire else None
    mirror.apply(read or events.convert(kind, document))
    return [str(rejection) for rejection in mirror.rejections.values()]


REFUSED = [
    (annotated(PRIORITY, "2147483648"), f"metadata.annotations[{PRIORITY}]: '2147483648' {BITS}"),
    (annotated(PRIORITY, HUGE), f"metadata.annotations[{PRIORITY}]: '{'9' * 40}…' {BITS}"),
    (annotated(PRIORITY, f"-{LONG}"), f"metadata.annotations[{PRIORITY}]: '-{'9' * 39}…' {BITS}"),
    (annotated(PRIORITY, "1_0"), f"metadata.annotations[{PRIORITY}]: '1_0' is not an integer"),
    (annotated(PRIORITY, "nan"), f"metadata.annotations[{PRIORITY}]: 'nan' is not an integer"),
    (
        annotated(PRIORITY, "\u0661"),
        f"metadata.annotations[{PRIORITY}]: '\u0661' is not an integer",
    ),
    (
        annotated(COOLDOWN, "2562048h"),
        f"metadata.annotations[{COOLDOWN}]: '2562048h' {YEARS}",
    ),
    (
        annotated(COOLDOWN, "2562048h", "labels"),
        f"metadata.labels[{COOLDOWN}]: '2562048h' {YEARS}",
    ),
    (
        annotated(WEIGHT, f'{{"cpu": {HUGE}}}'),
        f"metadata.annotations[{WEIGHT}].cpu: a number of more than 64 bits {BITS}",
    ),
    (manifests.pod("a", spec={"priority": 2**31}), f"spec.priority: 2147483648 {BITS}"),
    (
        manifests.pod("a", spec={"overhead": {"cpu": "-1"}}),
        "spec.overhead.cpu: -1 must not be negative",
    ),
    (group(minMember=2**31), f"spec.minMember: 2147483648 {BITS}"),
    (group(minMember=int(HUGE)), f"spec.minMember: a number of more than 64 bits {BITS}"),
    (group(minMember=-1), "spec.minMember: -1 is negative"),
    (group(minTaskMember={"w": 2**63}), f"spec.minTaskMember.w: 9223372036854775808 {BITS}"),
    (
        group(subGroupPolicy=[{"name": "s", "subGroupSize": -(2**31) - 1}]),
        f"spec.subGroupPolicy[0].subGroupSize: -2147483649 {BITS}",
    ),
    (
        group(subGroupPolicy=[{"name": "s", "minSubGroups": 2**40}]),
        f"spec.subGroupPolicy[0].minSubGroups: 1099511627776 {BITS}",
    ),
    (group(minResources={"cpu": "-1"}), "spec.minResources.cpu: -1 must not be negative"),
    (queue(weight=2**31), f"spec.weight: 2147483648 {BITS}"),
    (queue(priority=-(2**31) - 1), f"spec.priority: -2147483649 {BITS}"),
    (
        queue(guarantee={"resource": {"cpu": "-1"}}),
        "spec.guarantee.resource.cpu: -1 must not be negative",
    ),
]


@pytest.mark.parametrize(("document", "says"), REFUSED, ids=[says for _, says in REFUSED])
@pytest.mark.parametrize("wire", [False, True])
def test_what_is_out_of_range_is_refused_by_name(
    document: dict[str, Any], says: str, wire: bool
) -> None:
    """Whether it comes from a manifest or from an API server."""
    name = {"Queue": "Queue a", "Pod": "Pod ns/a", "PodGroup": "PodGroup ns/a"}[document["kind"]]
    assert complaints(document, wire=wire) == [f"{name}: {says}"]


ALLOWED = [
    annotated(PRIORITY, "2147483647"),
    annotated(PRIORITY, "-2147483647"),
    annotated(PRIORITY, "+00000000000007"),
    annotated(COOLDOWN, "2562047h"),
    annotated(COOLDOWN, "for ever"),
    annotated(WEIGHT, '{"cpu": 2147483647}'),
    annotated(WEIGHT, "[]"),
    manifests.pod("a", spec={"priority": -(2**31)}),
    group(minMember=2**31 - 1, minResources={"cpu": "1e400", "memory": "9" * 999}),
    queue(weight=2**31 - 1, capability={"cpu": "1e400"}),
]


@pytest.mark.parametrize("document", ALLOWED)
def test_what_is_in_range_is_taken(document: dict[str, Any]) -> None:
    """Quantities are cut to the largest, as API servers do; no duration at all means nothing."""
    assert complaints(document) == []


def test_a_pod_that_has_a_node_keeps_its_place_whatever_it_writes() -> None:
    """Its priority is spec.priority then, or none."""
    document = manifests.pod("a", node="n1", metadata={"annotations": {PRIORITY: HUGE}})
    assert complaints(document) == []


def test_a_number_that_no_float_is_as_large_as_is_no_broken_stream() -> None:
    """The object is refused, and named; what comes after it is read."""
    text = b'{"metadata": {"name": "a", "namespace": "ns"}, "spec": {"minMember": 1e400}}'
    found = events.decode(Kind.POD_GROUP, text)
    assert isinstance(found, DecodeFailed)
    assert (found.namespace, found.name, found.message) == ("ns", "a", "Number out of range")
    unnamed = events.decode(Kind.POD_GROUP, b'{"metadata": {"name": 1e400}, "spec": {}}')
    assert isinstance(unnamed, DecodeFailed)
    assert unnamed.name == ""


@pytest.mark.parametrize("digits", ["9" * 18, "9" * 19, LONG])
def test_an_index_is_no_larger_than_any_controller_counts(digits: str) -> None:
    """A longer one is a part of the name."""
    mirror = Mirror(Options(scheduler_names=("vscheduler",)))
    document = manifests.pod(f"a-b-{digits}")
    mirror.apply(events.convert(Kind.POD, document))
    (found,) = mirror.ungrouped()
    assert found.task is not None
    assert found.task.index == (int(digits) if len(digits) == 18 else -1)


@pytest.mark.parametrize("text", ["2562048h", f"{'9' * 99}h", "9223372037s", "2562047h1h"])
def test_no_duration_is_longer_than_gos(text: str) -> None:
    """292 years; sums of parts, too. It is a ValueError like all that can't be read."""
    with pytest.raises(RangeError, match="longer than any duration"):
        durations.seconds(text)


@pytest.mark.parametrize("text", [f"{LONG}h", "9" * 200_000, "9." * 100_000, "1h" * 51])
def test_a_text_that_is_too_long_is_not_even_looked_at(text: str) -> None:
    """Anybody may write one, and a search through it takes the cube of its length."""
    with pytest.raises(RangeError, match=f"has {len(text)} characters"):
        durations.seconds(text)


def test_32_bits_are_all_that_a_number_has() -> None:
    """Of an integer field of an object."""
    for number in (2**31 - 1, -(2**31), 0):
        fields.check_int32(number, "a")
    for number in (2**31, -(2**31) - 1, 10**5000):
        with pytest.raises(FieldError):
            fields.check_int32(number, "a")
