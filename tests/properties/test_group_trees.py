"""Whatever the order in which groups and pods come and go, cycles see the same jobs."""

import random
from typing import Any

import pytest

from tests import device_labs
from tests.scenarios.test_group_trees import group, near, root
from tests.scenarios.test_native_pod_groups import node, pods
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Remove
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.snapshot import Snapshot

Document = dict[str, Any]

COMPOSITES, LEAVES = ("r", "s", "t", "u"), ("a", "b", "c")


def an_object(chance: random.Random) -> Document:
    """A group below any other or none, or a pod, with a node, or waiting for a shared claim."""
    above = chance.choice(["", "", *COMPOSITES])
    queue = chance.choice(["", "q", "x"])
    near_ = chance.choice([{}, {}, near("rack"), near("zone")])
    count = chance.choice([None, 1, 2, 2])
    match chance.randrange(3):
        case 0:
            return root(chance.choice(COMPOSITES), count, parent=above, queue=queue, **near_)
        case 1:
            return group(chance.choice(LEAVES), count or 1, above, queue=queue or "q", **near_)
    on = chance.choice(["", "n1"])
    claims = [{"name": "c", "resourceClaimName": "c"}] if not on and chance.random() < 0.5 else []
    (pod,) = pods(chance.choice(LEAVES), 1, on=on, first=chance.randrange(3), resourceClaims=claims)
    return pod


def taken(mirror: Mirror) -> Snapshot:
    """What a cycle would see."""
    return mirror.snapshot(0.0)


def a_mirror() -> Mirror:
    """A node is known, and nothing else yet."""
    mirror = Mirror(Options(scheduler_names=("vscheduler",)))
    show(mirror, node("n1"))
    show(mirror, device_labs.claim("c"))
    return mirror


def show(mirror: Mirror, document: Document) -> None:
    """Show an object that came or changed."""
    kind = events.kind_of(document)
    assert kind is not None
    mirror.apply(events.convert(kind, document))


@pytest.mark.parametrize("seed", range(60))
def test_the_past_leaves_no_trace(seed: int) -> None:
    """A scheduler that starts now sees the same jobs, pods and usage."""
    chance, mirror = random.Random(seed), a_mirror()
    stored: dict[tuple[str, str], Document] = {}
    for step in range(60):
        if stored and chance.random() < 0.25:
            key = chance.choice(sorted(stored))
            gone = stored.pop(key)
            metadata = gone["metadata"]
            kind = events.kind_of(gone)
            assert kind is not None
            mirror.apply(
                Remove(kind=kind, namespace="default", name=metadata["name"], uid=metadata["uid"])
            )
        else:
            document = an_object(chance)
            metadata = document["metadata"]
            metadata |= {"namespace": "default", "uid": f"{document['kind']}-{metadata['name']}"}
            stored[document["kind"], metadata["name"]] = document
            show(mirror, document)
        if step % 3:
            continue  # several changes at once
        fresh, documents = a_mirror(), list(stored.values())
        chance.shuffle(documents)
        for document in documents:
            show(fresh, document)
        now, anew = taken(mirror), taken(fresh)
        assert repr(now.jobs) == repr(anew.jobs)
        assert (now.nodes.ours == anew.nodes.ours).all()
        for job in now.jobs:
            assert mirror.group_state(job.id) == fresh.group_state(job.id)
            assert {task.job for task in job.tasks} <= {job.id}
