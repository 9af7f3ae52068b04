"""Random clusters that mix everything: nodes, queues and budgets; jobs are in `workloads`.

A world has a temper of its own: which features its jobs use, and how often, so that some worlds are
full of anti-affinity and others of gangs with roles.
"""

import random
from dataclasses import dataclass

from tests.properties.worlds import claims, manifests, workloads
from tests.properties.worlds.manifests import Document, Workload
from tests.properties.worlds.workloads import Temper

ZONES = ("a", "b", "c")
TAINT = {"key": "dedicated", "value": "lab", "effect": "NoSchedule"}
SOFT_TAINT = {"key": "spot", "value": "yes", "effect": "PreferNoSchedule"}
GPU_TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
PRIORITIES = (5, 10)
CONTEST = 0.7
"""Of worlds in which the jobs of one queue come before those of the next, and of a queue those
without a priority first: they fill what others claim later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a world is at most."""

    nodes: int
    queues: int
    jobs: int
    pods: int
    """Per job."""
    exact: bool = False
    """Whether there are as many nodes, queues and jobs."""


SMALL = Size(nodes=8, queues=4, jobs=7, pods=5)
LARGE = Size(nodes=50, queues=10, jobs=80, pods=12, exact=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """All that a world begins with, and what is to come."""

    documents: tuple[Document, ...]
    workloads: tuple[Workload, ...]
    """In the order in which they come."""
    in_waves: bool
    """Whether half of them come at once, half a little later, and nothing else changes."""


def blueprint(
    seed: int, size: Size, *, tree: bool, meeting: bool = False, claiming: bool = False
) -> Blueprint:
    """The same for the same arguments; tree: queues are branches of a tree; meeting: features
    meet on purpose, and queues have limits at every level; claiming: jobs of the world that there
    would be without it have claims of volumes and devices.
    """
    chance = random.Random(f"cluster {seed}")
    draw = Temper.of_meeting if meeting else Temper.draw
    temper = draw(chance)
    most = size.nodes // 2 if temper.rivals else size.nodes
    names = [f"n{number:02}" for number in range(_count(chance, size, most, min(4, most - 1)))]
    nodes = [node(chance, name, plain=temper.plain) for name in names]
    count = _count(chance, size, size.queues, 2)
    queues, leaves = _queues(chance, count, tree=tree, plain=temper.plain)
    if meeting:
        queues += _limit(chance, queues)
    classes = [manifests.priority_class(f"priority-{each}", each) for each in PRIORITIES]
    jobs = [
        workloads.workload(chance, temper, f"j{number:02}", chance.choice(leaves), size.pods)
        for number in range(_count(chance, size, size.jobs, 4))
    ]
    if temper.rivals or (not temper.plain and chance.random() < CONTEST):
        jobs.sort(key=lambda job: (job.queue, "priorityClassName" in job.spec))
    budgets = _budgets(chance)
    if claiming:
        chance = random.Random(f"claims {seed}")
        classes += claims.storage(chance, nodes, queues)
        jobs = claims.with_claims(chance, claims.likely(chance), jobs)
    return Blueprint(
        documents=(*nodes, *queues, *classes, *budgets),
        workloads=tuple(jobs),
        in_waves=temper.plain or (temper.meeting and temper.rivals),
    )


def node(chance: random.Random, name: str, *, plain: bool = False) -> Document:
    """A node of one of several kinds; plain: without taints, and with its zone."""
    amounts = {
        "cpu": chance.choice(("4", "6", "8", "15500m")),
        "memory": chance.choice(("4Gi", "8Gi", "16Gi")),
        "pods": chance.choice(("3", "5", "110", "110", "110")),
    }
    taints = []
    if chance.random() < 0.3:
        amounts[manifests.GPU] = chance.choice(("1", "2", "4"))
        taints += [GPU_TAINT] * (chance.random() < 0.2)
    taints += [TAINT] * (chance.random() < 0.1)
    taints += [SOFT_TAINT] * (chance.random() < 0.15)
    labels = {"zone": chance.choice(ZONES), "disk": chance.choice(("ssd", "hdd"))}
    if plain:
        return manifests.node(name, amounts, labels, ())
    if chance.random() < 0.1:
        del labels["zone"]
    return manifests.node(name, amounts, labels, taints)


def _count(chance: random.Random, size: Size, most: int, least: int) -> int:
    return most if size.exact else chance.randint(min(least, most), most)


def _queues(
    chance: random.Random, count: int, *, tree: bool, plain: bool
) -> tuple[list[Document], list[str]]:
    """The queues, and the names of those that jobs may be in."""
    leaves = [f"q{number}" for number in range(count)]
    if not tree:
        return [_queue(chance, name, {}, {}, plain=plain) for name in leaves], leaves
    found = []
    parents = [f"d{number}" for number in range(max(1, count // 2))]
    members: dict[str, list[Document]] = {name: [] for name in parents}
    weights = {name: chance.choice((1, 1, 2)) for name in parents}
    for name in leaves:
        parent = chance.choice(parents)
        weight = chance.choice((1, 1, 2, 4))
        marks = {
            "volcano.sh/hierarchy": f"root/{parent}/{name}",
            "volcano.sh/hierarchy-weights": f"1/{weights[parent]}/{weight}",
        }
        deserved = {"cpu": str(chance.randint(1, 8)), "memory": f"{chance.randint(2, 16)}Gi"}
        queue = _queue(chance, name, {"parent": parent, "deserved": deserved}, marks, plain=plain)
        members[parent].append(queue)
        found.append(queue)
    for parent, children in members.items():
        deserved = {
            "cpu": str(sum(int(each["spec"]["deserved"]["cpu"]) for each in children)),
            "memory": f"{sum(int(each['spec']['deserved']['memory'][:-2]) for each in children)}Gi",
        }
        if children:
            found.append(manifests.queue(parent, {"weight": 1, "deserved": deserved}, {}))
    return found, leaves


def _limit(chance: random.Random, queues: list[Document]) -> list[Document]:
    """Limit some inner queues, and return the queue above all, if it is limited."""
    parents = {document["spec"].get("parent") for document in queues}
    for document in queues:
        if document["metadata"]["name"] in parents and chance.random() < 0.3:
            document["spec"]["capability"] = {"cpu": str(chance.randint(6, 24))}
    if chance.random() < 0.8:
        return []
    return [manifests.queue("root", {"capability": {"cpu": str(chance.randint(8, 40))}}, {})]


def _queue(
    chance: random.Random,
    name: str,
    spec: Document,
    marks: dict[str, str],
    *,
    plain: bool,
) -> Document:
    spec = {"weight": chance.choice((1, 1, 2, 4)), **spec}
    if plain:
        return manifests.queue(name, spec, marks)
    if chance.random() < 0.15:
        spec["capability"] = {"cpu": str(chance.randint(4, 24))}
    elif chance.random() < 0.15:
        spec["guarantee"] = {"resource": {"cpu": "1"}}
    if chance.random() < 0.05:
        spec["reclaimable"] = False
    if chance.random() < 0.15:
        spec["priority"] = 1
    return manifests.queue(name, spec, marks)


def _budgets(chance: random.Random) -> list[Document]:
    found = []
    for team in workloads.TEAMS:
        if chance.random() < 0.35:
            limit = chance.choice(("minAvailable", "maxUnavailable"))
            spec = {limit: chance.randint(0, 3)}
            found.append(manifests.budget(f"b-{team}", {"team": team}, spec))
    return found
