"""Whenever Volcano's kinds come and go, cycles see what a scheduler sees that starts now."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scenarios.alone import (
    QUEUE,
    a_group,
    a_mirror,
    a_node,
    a_pod,
    a_queue,
    binds,
    jobs_of,
    show,
    used,
)
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.mirror.state import Mirror

Document = dict[str, Any]

NODE = a_node("n1", 9)
OF_THE_CLUSTER = (Kind.QUEUE, Kind.NAMESPACE)
GROUP_NAME, MINIMUM = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-min-member"


def of_volcano(name: str, queue: str) -> Document:
    """One of Volcano's PodGroups."""
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    return {**head, "metadata": {"name": name}, "spec": {"queue": queue, "minMember": 1}}


def an_object(chance: random.Random) -> Document:
    """A queue, a namespace, a PodGroup of either kind, or a pod of one or of none."""
    queue = chance.choice(["default", "lab", "office"])
    match chance.randrange(6):
        case 0:
            return a_queue(queue, **chance.choice([{}, {"capability": {"cpu": 3}}]))
        case 1:
            notes = chance.choice([{}, {QUEUE: queue}, {"vscheduler.io/require-queue": "true"}])
            metadata = {"name": "default", "annotations": notes}
            return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        case 2:
            return a_group(chance.choice("gh"), chance.randrange(1, 3), chance.choice(["", queue]))
        case 3:
            return of_volcano(chance.choice("vw"), queue)
    texts = chance.choice([{}, {}, {QUEUE: queue}, {MINIMUM: "2"}, {GROUP_NAME: "v"}])
    group, on = chance.choice(["", "", "g", "h"]), chance.choice(["", "", "n1"])
    pod = a_pod(f"p{chance.randrange(6)}", group, on, **({} if group else texts))
    pod["spec"]["schedulerName"] = chance.choice(["vscheduler"] * 3 + ["other"])
    pod["status"]["phase"] = chance.choice([pod["status"]["phase"], "Succeeded"])
    return pod


class World:
    """What the API server has, and which of Volcano's kinds it serves."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.mirror = a_mirror(NODE)
        self.stored: dict[tuple[Kind, str], Document] = {}
        self.queues = self.groups = True

    def step(self) -> None:
        """Something comes, changes or goes: an object, or the kind of some."""
        chance = self.chance
        if chance.random() < 0.1:
            self.queues = not self.queues
            self.mirror.serve_queues(served=self.queues)
        elif chance.random() < 0.1:
            self.groups = not self.groups
            if not self.groups:
                gone = [key for key in self.stored if key[0] is Kind.POD_GROUP]
                for key in gone:
                    del self.stored[key]
            self.mirror.serve_pod_groups(served=self.groups)
        elif self.stored and chance.random() < 0.3:
            self.remove(chance.choice(sorted(self.stored)))
        else:
            self.put(an_object(chance))

    def put(self, document: Document) -> None:
        """An object comes or changes; there is none of a kind that isn't served."""
        kind, metadata = events.kind_of(document), document["metadata"]
        assert kind is not None
        if kind is Kind.POD_GROUP and not self.groups:
            return
        metadata |= {} if kind in OF_THE_CLUSTER else {"namespace": "default"}
        metadata["uid"] = f"{kind}-{metadata['name']}"
        self.stored[kind, metadata["name"]] = document
        show(self.mirror, document)

    def remove(self, key: tuple[Kind, str]) -> None:
        """An object goes."""
        metadata = self.stored.pop(key)["metadata"]
        namespace = metadata.get("namespace", "")
        gone = Remove(kind=key[0], namespace=namespace, name=key[1], uid=metadata["uid"])
        self.mirror.apply(gone)

    def anew(self) -> Mirror:
        """What a scheduler knows that starts now, and learns at any time what is served."""
        fresh, documents = a_mirror(NODE), list(self.stored.values())
        self.chance.shuffle(documents)
        known = self.chance.randrange(len(documents) + 1)
        show(fresh, *documents[:known])
        if not self.groups:
            assert not any(kind is Kind.POD_GROUP for kind, _ in self.stored)
            fresh.serve_pod_groups(served=False)
        fresh.serve_queues(served=self.queues)
        show(fresh, *documents[known:])
        return fresh


@pytest.mark.parametrize("seed", range(60))
def test_kinds_that_were_served_leave_no_trace(seed: int) -> None:
    """Nor do those that weren't."""
    world = World(random.Random(seed))
    for _ in range(60):
        world.step()
        fresh = world.anew()
        for now, anew in zip(everything(world.mirror), everything(fresh), strict=True):
            assert now == anew


def everything(mirror: Mirror) -> Iterator[object]:
    """Jobs, usage, and what cycles and controllers do."""
    for seen in (jobs_of, used, others, binds, ungrouped):
        yield seen(mirror)


def ungrouped(mirror: Mirror) -> set[str]:
    """Pods for which the controllers make PodGroups."""
    return {pod.key for pod in mirror.ungrouped()}


def others(mirror: Mirror) -> dict[str, dict[str, int]]:
    """What pods of other schedulers use, by queue."""
    found = mirror.snapshot(0.0).used_by_other_schedulers
    return {queue: dict(amounts) for queue, amounts in found.items()}
