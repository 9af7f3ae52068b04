"""What people, nodes and workloads do between two cycles, by seeded chance.

Each change takes a world and a source of chance, and does nothing where there is nothing to change.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tests.properties.worlds import census as censuses
from tests.properties.worlds import generator, manifests
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.world import World

FEWEST_NODES = 4
"""That stay, whoever leaves."""

Change: TypeAlias = Callable[[World, random.Random], None]


def _running(around: World) -> list[Document]:
    return [
        pod
        for pod in around.of_kind("Pod")
        if pod["status"]["phase"] == "Running" and not censuses.leaving(pod)
    ]


def _one(chance: random.Random, found: Sequence[Document]) -> Document | None:
    return chance.choice(found) if found else None


def pod_ends_well(around: World, chance: random.Random) -> None:
    """A pod is done."""
    if pod := _one(chance, _running(around)):
        around.end_well(pod)


def pod_fails(around: World, chance: random.Random) -> None:
    """A pod fails; its owner makes another."""
    if pod := _one(chance, _running(around)):
        around.fail(pod)


def finished_pod_vanishes(around: World, chance: random.Random) -> None:
    """What has ended well is removed once the group's status counts it, its job goes on."""
    done: Counter[str] = Counter()
    found = [pod for pod in around.of_kind("Pod") if pod["status"]["phase"] == "Succeeded"]
    done.update(map(censuses.group_of, found))
    groups = {censuses.pod_key(group): group for group in around.of_kind("PodGroup")}
    counted = [
        pod
        for pod in found
        if (group := groups.get(censuses.group_of(pod))) is not None
        and group["status"].get("succeeded", 0) >= done[censuses.group_of(pod)]
    ]
    if pod := _one(chance, counted):
        around.collect(manifests.key_of(pod))


def pod_is_deleted(around: World, chance: random.Random) -> None:
    """Somebody deletes a pod by hand."""
    if pod := _one(chance, around.of_kind("Pod")):
        around.delete(manifests.key_of(pod))


def gate_opens(around: World, chance: random.Random) -> None:
    """Somebody takes the gates off a pod."""
    gated = [pod for pod in around.of_kind("Pod") if pod["spec"].get("schedulingGates")]
    if pod := _one(chance, gated):
        around.put({**pod, "spec": {**pod["spec"], "schedulingGates": []}})


def node_joins(around: World, chance: random.Random) -> None:
    """A new node, or one that had left."""
    name = f"n{chance.randint(0, len(around.of_kind('Node')) + 1):02}"
    if ("Node", "", name) not in around.documents:
        around.put(generator.node(chance, name))


def node_leaves(around: World, chance: random.Random) -> None:
    """A node is gone, with pods on it."""
    nodes = around.of_kind("Node")
    if len(nodes) > FEWEST_NODES:
        around.drop(manifests.key_of(chance.choice(nodes)))


def node_is_cordoned(around: World, chance: random.Random) -> None:
    """A node takes no more pods; or, sooner, all do again."""
    nodes = around.of_kind("Node")
    cordoned = [node for node in nodes if node["spec"].get("unschedulable")]
    for node in cordoned or chance.sample(nodes, min(1, len(nodes))):
        around.put({**node, "spec": {**node["spec"], "unschedulable": not cordoned}})


def node_shrinks(around: World, chance: random.Random) -> None:
    """A node offers less, or more, than it did; its pods stay."""
    if node := _one(chance, around.of_kind("Node")):
        amounts = {**node["status"]["allocatable"], "cpu": chance.choice(("2", "4", "8", "12"))}
        around.put({**node, "status": {**node["status"], "allocatable": amounts}})


def node_fails(around: World, chance: random.Random) -> None:
    """A node isn't ready any more; or all are again."""
    nodes = around.of_kind("Node")
    failed = [node for node in nodes if node["status"]["conditions"][0]["status"] != "True"]
    for node in failed or chance.sample(nodes, min(1, len(nodes))):
        conditions = [{"type": "Ready", "status": "True" if failed else "False"}]
        around.put({**node, "status": {**node["status"], "conditions": conditions}})


def queue_changes_weight(around: World, chance: random.Random) -> None:
    """An administrator gives a queue another weight."""
    if queue := _one(chance, around.of_kind("Queue")):
        around.put({**queue, "spec": {**queue["spec"], "weight": chance.choice((1, 2, 4))}})


def queue_closes(around: World, chance: random.Random) -> None:
    """A queue takes no more pods; or all do again."""
    queues = around.of_kind("Queue")
    closed = [queue for queue in queues if queue["status"]["state"] == "Closed"]
    for queue in closed or chance.sample(queues, min(1, len(queues))):
        around.put({**queue, "status": {"state": "Open" if closed else "Closed"}})


def queue_disappears(around: World, chance: random.Random) -> None:
    """A queue is gone, its jobs aren't; or all that were gone are there again."""
    queues = around.of_kind("Queue")
    if around.missing_queues:
        for queue in around.missing_queues:
            around.put(queue)
        around.missing_queues.clear()
    elif queues and chance.random() < 0.5:
        queue = chance.choice(queues)
        around.drop(manifests.key_of(queue))
        around.missing_queues.append(queue)


def gang_grows(around: World, chance: random.Random) -> None:
    """A job gets more pods, and perhaps needs more."""
    _resize(around, chance, 1)


def gang_shrinks(around: World, chance: random.Random) -> None:
    """A job loses its last pods, and perhaps needs fewer."""
    _resize(around, chance, -1)


def _resize(around: World, chance: random.Random, step: int) -> None:
    plain = [
        group
        for group, workload in sorted(around.owners.items())
        if not {"minTaskMember", "subGroupPolicy"} & workload.spec.keys()
    ]
    if not plain:
        return
    group = chance.choice(plain)
    workload = around.owners[group]
    count = max(1, len(workload.templates) + step)
    minimum = min(count, workload.minimum + chance.choice((0, 0, step)))
    around.resize(group, workload.resized(count, max(1, minimum)))


def job_is_deleted(around: World, chance: random.Random) -> None:
    """A user deletes a job."""
    if around.owners and chance.random() < 0.3:
        around.end(chance.choice(sorted(around.owners)))


def scheduler_restarts(around: World, chance: random.Random) -> None:
    """Another process goes on."""
    if chance.random() < 0.5:
        around.restart()


CHANGES: tuple[Change, ...] = (
    *(pod_ends_well, pod_ends_well, pod_fails, pod_is_deleted, gate_opens),
    *(node_joins, node_joins, node_leaves, node_is_cordoned, node_shrinks, node_fails),
    *(queue_changes_weight, queue_closes, queue_disappears),
    *(gang_grows, gang_shrinks, job_is_deleted, scheduler_restarts),
)
"""Some twice, as they come more often."""


VANISHING: tuple[Change, ...] = (*CHANGES, pod_ends_well, *[finished_pod_vanishes] * 4)
"""Where pods have claims."""


def happen(around: World, chance: random.Random) -> None:
    """None, one or two changes; more in larger worlds."""
    scale = 1 + len(around.owners) // 10
    for _ in range(chance.choice((0, 1, 1, 2)) * scale):
        chance.choice(VANISHING if around.is_claiming else CHANGES)(around, chance)


def end(around: World) -> None:
    """Change is over: nodes are ready and take pods, queues are there and open, binds succeed."""
    around.refused = 0.0
    around.controllers.kind = True
    for node in around.of_kind("Node"):
        conditions = [{"type": "Ready", "status": "True"}]
        spec = {**node["spec"], "unschedulable": False}
        around.put({**node, "spec": spec, "status": {**node["status"], "conditions": conditions}})
    for queue in (*around.of_kind("Queue"), *around.missing_queues):
        around.put({**queue, "status": {"state": "Open"}})
    around.missing_queues.clear()
