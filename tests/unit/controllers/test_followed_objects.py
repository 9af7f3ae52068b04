"""What is known of objects after events of Kopf's watches."""

import random
from collections import defaultdict
from typing import Any

import pytest

from vscheduler.controllers.followed_objects import FollowedObjects
from vscheduler.controllers.queues.queue_objects import FollowedKind
from vscheduler.mirror.translate import translation


def a_group(uid: str, queue: str, *, native: bool = False) -> dict[str, Any]:
    """A PodGroup, of Kubernetes' own API or of Volcano's."""
    metadata: dict[str, Any] = {"name": uid, "namespace": "ns", "uid": uid}
    if native:
        return {"metadata": metadata | {"annotations": {translation.QUEUE: queue}}}
    return {"metadata": metadata, "spec": {"queue": queue}}


def an_event(change: str | None, stored: dict[str, Any]) -> dict[str, Any]:
    """An event as Kopf has it; those of a list have no type."""
    return {"type": change, "object": stored}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_each_object_is_where_its_last_event_put_it(seed: int, *, native: bool) -> None:
    """Whatever came before, listed or not; no key is left without objects."""
    chance, stored = random.Random(seed), dict[str, str]()
    followed = FollowedObjects()
    kind = FollowedKind.NATIVE_POD_GROUP if native else FollowedKind.POD_GROUP
    index = followed.indices.nativepodgroups if native else followed.indices.podgroups
    for _ in range(300):
        uid, queue = f"uid-{chance.randrange(12)}", chance.choice(("", "red", "blue"))
        change = chance.choice((None, "ADDED", "MODIFIED", "DELETED"))
        stored.pop(uid, None)
        if change != "DELETED" and (queue or not native):
            stored[uid] = queue
        followed.take(kind, an_event(change, a_group(uid, queue, native=native)))
        expected = defaultdict(set)
        for each, key in stored.items():
            expected[key].add(each)
        assert {key: {group.uid for group in groups} for key, groups in index.items()} == expected


def test_what_cannot_be_read_is_not_known_as_it_was() -> None:
    """A Command that has become one on a Job is none on a Queue any more."""
    followed = FollowedObjects()
    command = {
        "metadata": {"name": "c", "uid": "uid-c"},
        "action": "CloseQueue",
        "target": {"kind": "Queue", "name": "red"},
    }
    followed.take(FollowedKind.COMMAND, an_event("ADDED", command))
    assert [*followed.indices.commands] == ["uid-c"]
    followed.take(FollowedKind.COMMAND, an_event("MODIFIED", command | {"target": {"kind": "Job"}}))
    assert not followed.indices.commands
