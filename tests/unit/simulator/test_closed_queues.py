"""Queues below closed queues."""

from vscheduler.mirror.decode.wire import Metadata, Queue, QueueSpec, QueueStatus
from vscheduler.mirror.translate import translation
from vscheduler.simulator import admission


def _queue(name: str, parent: str = "", state: str = "Open", *, inherited: bool = False) -> Queue:
    annotations = {translation.CLOSED_BY_PARENT: "true"} if inherited else {}
    return Queue(
        metadata=Metadata(name=name, annotations=annotations),
        spec=QueueSpec(parent=parent),
        status=QueueStatus(state=state),
    )


def _states(*queues: Queue) -> dict[str, str]:
    return {each.metadata.name: each.status.state for each in admission.with_states(queues)}


def test_queues_below_a_closed_queue_are_closed() -> None:
    """At any depth, and in a defective tree."""
    assert _states(
        _queue("org", state="Closed"),
        _queue("team", "org"),
        _queue("leaf", "team"),
        _queue("other"),
        _queue("loop", "loop"),
        _queue("lost", "nowhere"),
    ) == {
        "org": "Closed",
        "team": "Closed",
        "leaf": "Closed",
        "other": "Open",
        "loop": "Open",
        "lost": "Open",
    }


def test_queues_closed_with_their_parent_open_with_it() -> None:
    """Those that their owners closed stay closed."""
    assert _states(
        _queue("org"),
        _queue("team", "org", "Closed", inherited=True),
        _queue("own", "org", "Closed"),
    ) == {"org": "Open", "team": "Open", "own": "Closed"}
