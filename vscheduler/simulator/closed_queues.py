"""Queues below a closed queue: closed, too, as the Queue controller writes it.

Volcano: controllers/queue closes and opens the children of a queue with the queue.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec.structs import replace

from vscheduler.core.model.queues import ROOT, QueueState
from vscheduler.mirror.decode.events import DecodeFailed, Upsert
from vscheduler.mirror.decode.wire import Queue
from vscheduler.mirror.translate import translation

OPEN = str(QueueState.OPEN)
CLOSED = str(QueueState.CLOSED)


Event: TypeAlias = Upsert | DecodeFailed


def below_closed(found: Iterable[Event]) -> list[Event]:
    """Return the objects with queues as `settled` has them."""
    given = list(found)
    queues_given = (each.object for each in given if isinstance(each, Upsert))
    states = {
        queue.metadata.name: queue
        for queue in settled(each for each in queues_given if isinstance(each, Queue))
    }
    return [
        replace(each, object=states[each.object.metadata.name])
        if isinstance(each, Upsert) and isinstance(each.object, Queue)
        else each
        for each in given
    ]


def settled(found: Iterable[Queue]) -> Iterator[Queue]:
    """Yield the queues with the states that a controller leads to: closed as long as an ancestor
    is, and as before afterwards.
    """
    by_name = {queue.metadata.name: queue for queue in found}
    for queue in by_name.values():
        yield _with_state(queue, below_closed=any(map(_closed_itself, _above(queue, by_name))))


def _above(queue: Queue, by_name: dict[str, Queue]) -> Iterator[Queue]:
    """Yield the ancestors, each once: a tree may be defective."""
    seen = {queue.metadata.name}
    while queue.metadata.name != ROOT:
        name = queue.spec.parent or ROOT
        if name in seen or name not in by_name:
            return
        seen.add(name)
        queue = by_name[name]
        yield queue


def _closed_itself(queue: Queue) -> bool:
    return not _is_open(queue) and not translation.closed_by_parent(queue)


def _is_open(queue: Queue) -> bool:
    return queue.status.state in {"", OPEN}


def _with_state(queue: Queue, *, below_closed: bool) -> Queue:
    """Return the queue as it is below a closed queue, or below open ones."""
    if _closed_itself(queue) or _is_open(queue) is not below_closed:
        return queue
    annotations = dict(queue.metadata.annotations)
    if below_closed:
        annotations[translation.CLOSED_BY_PARENT] = "true"
    else:
        annotations.pop(translation.CLOSED_BY_PARENT, None)
    metadata = replace(queue.metadata, annotations=annotations)
    state = CLOSED if below_closed else OPEN
    return replace(queue, metadata=metadata, status=replace(queue.status, state=state))
