"""Pods of queues within their shares are moved, not taken away: docs/fair-shares.md."""

from collections import Counter
from collections.abc import Iterable

from tests.properties.filters_by_hand import judging as by_hand
from tests.properties.filters_by_hand import worlds
from tests.properties.filters_by_hand.worlds import Instant, State, World
from tests.properties.worlds import census as censuses
from tests.properties.worlds.moments import Kept, Moment, Placement


def who_is_moved_has_room(moment: Moment) -> Iterable[str]:
    """For each there is room elsewhere that is kept, and that it could use; or a pod of its queue
    that waited gets some that asks for as much.
    """
    kept = {each.pod: each.node for each in moment.kept}
    placed = [moment.census.pods[each.pod] for each in (*moment.binds, *moment.pipelined)]
    after = _after(moment)
    for evict in moment.evicts:
        if not evict.moves:
            continue
        pod = moment.census.pods[evict.pod]
        if evict.pod in kept:
            node, then = kept[evict.pod], Instant.THEN
            for text in by_hand.refusals(after, pod, node, then, ordered=False):
                yield f"MOVED {evict.pod} to {node}, which {text}"
            continue
        others = [
            other
            for other in placed
            if moment.census.queue_of(other) == moment.census.queue_of(pod)
            and not censuses.of_either_name(pod) - censuses.of_either_name(other)
        ]
        if not others:
            yield f"MOVED {evict.pod}, and no room is kept for it"
        else:
            placed.remove(others[0])


def rooms_are_kept(moment: Moment) -> Iterable[str]:
    """Until their time is up, or a pod of the same job comes, there or elsewhere; where no node
    changes. A pod whose queue has been closed gives its room up.
    """
    if not moment.is_calm:
        return
    now = Counter(map(_room, moment.kept))
    taken = Counter(map(_room, (*moment.binds, *moment.pipelined)))
    before = Counter(_room(each) for each in moment.kept_before if each.until > moment.now)
    has = _by_job(now + taken)
    had = _by_job(before)
    for room, count in before.items():
        fewer = now[room] + taken[room] < count and has[room[0]] < had[room[0]]
        if fewer and not _is_closed(moment, room[0]):
            yield f"LOST room on {room[1]} that was kept for {room[0]}"


def _by_job(rooms: Counter[tuple[str, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (job, _), count in rooms.items():
        found[job] += count
    return found


def _room(each: Kept | Placement) -> tuple[str, str]:
    """The job, by the names that its owner gives pods, and the node."""
    namespace, _, name = each.pod.partition("/")
    return f"{namespace}/{name.split('-')[0]}", each.node


def _is_closed(moment: Moment, group: str) -> bool:
    """Whether the queue of a group takes no pods."""
    document = moment.census.groups.get(group)
    queue = moment.census.queues.get(document["spec"]["queue"]) if document else None
    return queue is not None and queue["status"]["state"] != "Open"


def _after(moment: Moment) -> World:
    """Once all is as decided."""
    census = moment.census
    world = worlds.world(census.placing)
    for gone in moment.evicts:
        world = world.leaving(gone.pod)
    for bind in moment.binds:
        world = world.put(bind.pod, bind.node, State.STAYS)
    for each in moment.pipelined:
        world = world.put(each.pod, each.node, State.COMES)
    return world
