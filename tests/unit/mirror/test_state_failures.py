"""An object that reading fails at unexpectedly is left out by name, and no other is."""

import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.decode import events, wire
from vscheduler.mirror.decode.events import Kind, Upsert
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.translate import pods
from vscheduler.mirror.translate.pods import Translator


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A translation that fails at pods of one name."""
    real = Translator.pod

    def fail(translator: Translator, pod: wire.Pod) -> pods.Pod:
        if pod.metadata.name == "bad":
            raise ZeroDivisionError
        return real(translator, pod)

    monkeypatch.setattr(Translator, "pod", fail)


def event_of(document: Document) -> Upsert:
    """An object as a watch shows it."""
    kind = events.kind_of(document)
    assert kind is not None
    event = events.convert(kind, document)
    assert isinstance(event, Upsert)
    return event


@pytest.mark.usefixtures("broken")
def test_what_reading_fails_at_is_left_out_by_name() -> None:
    """Who asked to be told of such objects is, with what was raised; snapshots go on."""
    told: list[tuple[str, str]] = []
    mirror = Mirror(
        Options(scheduler_names=("vscheduler",)),
        on_error=lambda refused, error: told.append((refused.name, type(error).__name__)),
    )
    for document in (
        manifests.node("n1", {"cpu": "4", "pods": "10"}),
        manifests.queue("default"),
        manifests.group("g", {"minMember": 1}),
        manifests.pod("bad", group="g"),
        manifests.pod("good", group="g"),
    ):
        mirror.apply(event_of(document))
    assert told == [("bad", "ZeroDivisionError")]
    ((kind, _), rejection), *others = mirror.rejections.items()
    assert (kind, others) == (Kind.POD, [])
    assert rejection.key.endswith("/bad")
    (job,) = mirror.snapshot(0.0).jobs
    assert [task.name for task in job.tasks] == ["good"]
    mirror.apply(events.removal(event_of(manifests.pod("bad", group="g"))))
    assert not mirror.rejections


@pytest.mark.usefixtures("broken")
def test_without_anybody_to_tell_it_is_raised() -> None:
    """In simulations and tests nobody would see it."""
    mirror = Mirror(Options(scheduler_names=("vscheduler",)))
    with pytest.raises(ZeroDivisionError):
        mirror.apply(event_of(manifests.pod("bad", group="g")))
