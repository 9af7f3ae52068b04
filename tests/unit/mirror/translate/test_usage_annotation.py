import json

import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate import usage_annotation as annotations
from vscheduler.model.queues import OURS, Account, Queue, Usage

TIME = 1_767_268_800.25
RECORD = Usage(
    time=TIME,
    queue=Account(used=3600.0, rate=2.5),
    namespaces={
        "hall": Account(used=600.5, rate=0.0),
        "lab": Account(used=2999.5, rate=2.5),
    },
)
TEXT = (
    '{"version":1,"time":"2026-01-01T12:00:00.250000Z","usage":3600.0,"rate":2.5,"namespaces":'
    '{"hall":{"usage":600.5,"rate":0.0},"lab":{"usage":2999.5,"rate":2.5}}}'
)
PLAIN = '{"version":1,"time":"2026-01-01T12:00:00Z","usage":1,"rate":0}'


def queue(name: str = "gold", **texts: str) -> Document:
    """A Queue with records, by scheduler."""
    found = manifests.queue(name)
    found["metadata"]["annotations"] = {
        annotations.annotation(scheduler): text for scheduler, text in texts.items()
    }
    return found


def seen(mirror: Mirror, name: str = "gold") -> Queue:
    """The queue of the next snapshot."""
    return mirror.snapshot(TIME).queues[name]


def test_a_record_is_written_and_read() -> None:
    """In a form that people can read, too."""
    assert annotations.text(RECORD) == TEXT
    assert annotations.parse(TEXT) == RECORD
    assert annotations.parse(json.dumps(json.loads(TEXT), indent=2)) == RECORD


def test_a_rate_is_read_as_it_was_written() -> None:
    """Else the first cycle after a restart would find another one; usage is rounded."""
    account = Account(used=1e6 / 3, rate=0.1 + 0.2)
    found = annotations.parse(annotations.text(Usage(time=TIME, queue=account)))
    assert found.queue.rate == account.rate
    assert found.queue.used == 333333.333


def test_times_have_a_zone_and_may_have_any() -> None:
    """RFC 3339."""
    text = PLAIN.replace("12:00:00Z", "14:00:00.25+02:00")
    assert annotations.parse(text).time == TIME


BROKEN = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "a version of tomorrow": PLAIN.replace('"version":1', '"version":2'),
    "no version": PLAIN.replace('"version":1,', ""),
    "no time": PLAIN.replace("2026-01-01T12:00:00Z", "now"),
    "a time without a zone": PLAIN.replace("Z", ""),
    "a negative usage": PLAIN.replace('"usage":1', '"usage":-1'),
    "no number": PLAIN.replace('"usage":1', '"usage":NaN'),
    "infinitely much": PLAIN.replace('"usage":1', '"usage":1e999'),
    "more than there can be": PLAIN.replace('"rate":0', '"rate":1e31'),
    "a text for a rate": PLAIN.replace('"rate":0', '"rate":"0"'),
    "no rate": PLAIN.replace(',"rate":0', ""),
    "a namespace with a negative rate": PLAIN.replace(
        '"rate":0', '"rate":0,"namespaces":{"a":{"usage":1,"rate":-1}}'
    ),
    "a deep pit": '{"version":1,"deep":' + "[" * 100_000,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_counts_as_nothing(text: str) -> None:
    """It is told of with the queue and the annotation, and the queue is there all the same."""
    mirror = manifests.mirror(queue(vscheduler=text, other=PLAIN))
    assert seen(mirror).past_usage == {"other": annotations.parse(PLAIN)}
    (rejection,) = mirror.rejections.values()
    assert (rejection.kind, rejection.key) == (Kind.QUEUE, "gold")
    assert rejection.field == "metadata.annotations[vscheduler/fair-share-usage]"
    assert rejection.message.startswith("counts as nothing: ")
    mirror.apply(manifests.event_of(queue(vscheduler=PLAIN)))
    assert mirror.rejections == {}


def test_times_far_away_are_times() -> None:
    """The core takes those to come for now."""
    for year in ("0001", "9999"):
        text = PLAIN.replace("2026-01-01T12:00:00Z", f"{year}-12-31T23:59:59+14:00")
        assert annotations.parse(text).queue.used == 1.0


def test_records_of_others_are_told_apart() -> None:
    """Whatever schedulers there are; an annotation that only looks alike is one like any other."""
    found = queue(vscheduler=TEXT, volcano=PLAIN)
    found["metadata"]["annotations"] |= {"/fair-share-usage": "x", "fair-share-usage": "y"}
    past = seen(manifests.mirror(found)).past_usage
    assert past == {OURS: RECORD, "volcano": annotations.parse(PLAIN)}


def test_who_has_several_names_goes_on_from_the_first_with_a_record() -> None:
    """The others' would count the same pods twice."""
    names = ("a", "b", "c")
    mirror = manifests.mirror(queue(c=PLAIN, b=TEXT, d=PLAIN), scheduler_names=names)
    assert seen(mirror).past_usage == {OURS: RECORD, "d": annotations.parse(PLAIN)}


def test_a_record_makes_no_queue_another() -> None:
    """What was written comes back by watch, and nothing is to be decided for that; the newest
    records are in the next snapshot all the same.
    """
    mirror = manifests.mirror(queue(vscheduler=PLAIN))
    before = seen(mirror)
    assert not mirror.apply(manifests.event_of(queue(vscheduler=TEXT, volcano=PLAIN)))
    after = seen(mirror)
    assert after == before
    assert after.annotations == {}
    assert after.past_usage == {OURS: RECORD, "volcano": annotations.parse(PLAIN)}


def test_other_annotations_make_it_another() -> None:
    """Plugins read them."""
    mirror = manifests.mirror(queue(vscheduler=PLAIN))
    changed = queue(vscheduler=PLAIN)
    changed["metadata"]["annotations"]["volcano.sh/hierarchy"] = "root/gold"
    assert mirror.apply(manifests.event_of(changed))
    assert seen(mirror).annotations == {"volcano.sh/hierarchy": "root/gold"}
