"""Room that is nominated to pods of other schedulers: columns against a count by hand."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies

from tests import checks, running
from tests.properties import clusters
from tests.properties.clusters import Size
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.placement import lookahead
from vscheduler.core.placement.unschedulable_classes import UnschedulableClasses
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.testing import pictures

Document = Mapping[str, Any]
TIERS = running.tiers("priority gang conformance | drf predicates proportion nodeorder binpack")
EVERYTHING = {"actions": "enqueue, allocate, backfill, preempt, reclaim", "tiers": TIERS}
TERMS = ("", "", "label=app=web", "label=app=db", "apart=app=db@zone", "apart=app=web@zone")
SIZE = Size(nodes=6, queues=3, jobs=6, pods=4)


@strategies.composite
def pictures_with_nominated(draw: strategies.DrawFn) -> str:
    """A cluster, pods of another scheduler that are nominated to its nodes, and jobs that would
    like to have their room.
    """
    picture = draw(clusters.pictures(SIZE))
    lines = [line.split() for line in picture.splitlines()]
    chance = random.Random(draw(strategies.integers(0, 2**32)))
    queues = [line[1] for line in lines if line[0] == "queue"]
    nodes = [line[1] for line in lines if line[0] == "node"] or ["gone"]
    more = [picture]
    for number in range(chance.randint(0, 2 * len(nodes))):
        asks = f"cpu={chance.randint(1, 8)} memory={chance.randint(1, 16)}Gi"
        place = f"scheduler=other nominated={chance.choice([*nodes, 'gone'])}"
        limits = f"{chance.choice(TERMS)} {chance.choice(('', '', 'port=80'))}"
        pods = f"{chance.choice('-----!')}^{chance.randint(0, 3)}"
        more.append(f"job {queues[0]}/nominated{number} {asks} {place} {limits} {pods}")
    for number in range(chance.randint(0, 6)):
        pods = " ".join(f"-^{chance.randint(0, 4)}" for _ in range(chance.randint(1, 4)))
        limits = f"{chance.choice(TERMS)} {chance.choice(('', '', 'port=80'))}"
        asks = f"min={chance.choice((1, len(pods.split())))} cpu={chance.randint(1, 4)}"
        more.append(f"job {chance.choice(queues)}/eager{number} {asks} {limits} {pods}")
    return "\n".join(more)


def is_nominated(document: Document) -> bool:
    """Whether it is a pod of the other scheduler that may count somewhere."""
    if document["kind"] != "Pod" or "nominatedNodeName" not in document["status"]:
        return False
    return "schedulingGates" not in document["spec"]


class World:
    """Two sessions: of the whole cluster, and without nominated pods, which are counted by hand."""

    def __init__(self, documents: list[pictures.Document]) -> None:
        self.whole = running.open_session(documents, EVERYTHING)
        self.nominated = [document for document in documents if is_nominated(document)]
        rest = [document for document in documents if document not in self.nominated]
        self.plain = running.open_session(rest, EVERYTHING)
        self.pods = checks.count(documents).pods
        self.zones = {
            document["metadata"]["name"]: document["metadata"]["labels"]["zone"]
            for document in documents
            if document["kind"] == "Node"
        }

    def counted(self, pod: Document) -> list[Document]:
        """Nominated pods of the same priority and above."""
        least = pod["spec"].get("priority", 0)
        return [each for each in self.nominated if each["spec"].get("priority", 0) >= least]

    def takes(self, pod: Document, name: str) -> bool:
        """Whether nominated pods leave room for this one on the node."""
        column = self.plain.space.columns
        row = self.plain.layout.rows[name]
        free = self.plain.cluster.allocatable[row] - self.plain.cluster.future_used[row]
        asked, wanted = checks.request(pod), checks.request(pod)
        for each in self.counted(pod):
            there = each["status"]["nominatedNodeName"]
            if there == name:
                wanted.update(checks.request(each))
                if ports(pod) & ports(each):
                    return False
            for mine, other in ((pod, each), (each, pod)):
                if self.bars(mine, other, {name, there}):
                    return False
        return all(free[column[key]] >= amount for key, amount in wanted.items() if asked[key])

    def bars(self, pod: Document, other: Document, names: set[str]) -> bool:
        """Whether the pod wants to be apart from the other, were they on these nodes."""
        if not names <= self.zones.keys():
            return False
        terms = pod["spec"]["affinity"].get("podAntiAffinity", {})
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            wanted = term["labelSelector"]["matchLabels"].items()
            if wanted <= other["metadata"]["labels"].items():
                zones = {self.zones[name] for name in names}
                if term["topologyKey"] == "zone" and len(zones) == 1:
                    return True
        return False

    def check(self) -> None:
        """All that waits, on all nodes."""
        for state in self.plain.job_states.values():
            for task in list(state.tasks(TaskStatus.PENDING)):
                for name, row in self.plain.layout.rows.items():
                    fits = self.plain.placement.feasible(task, row)
                    expected = fits and self.takes(self.pods[task.key], name)
                    twin = self.twin(task)
                    assert self.whole.placement.feasible(twin, row) == expected, (task.key, name)

    def twin(self, task: Task) -> Task:
        """The same pod in the whole cluster."""
        state = self.whole.job_states[task.job]
        return next(each for each in state.job.tasks if each.uid == task.uid)


def ports(pod: Document) -> set[int]:
    """Its host ports."""
    found = (each["ports"] for each in pod["spec"]["containers"])
    return {port["hostPort"] for each in found for port in each}


@clusters.bounded(60)
@given(pictures_with_nominated(), strategies.integers(0, 2**32))
def test_columns_keep_what_a_count_by_hand_keeps(picture: str, seed: int) -> None:
    """Pod by pod and node by node, before and after some have been placed."""
    chance = random.Random(seed)
    world = World(pictures.documents(picture))
    world.check()
    with world.plain.statement() as trial, world.whole.statement() as twin:
        for _ in range(3):
            waiting = [
                task
                for state in world.plain.job_states.values()
                for task in state.tasks(TaskStatus.PENDING)
            ]
            if not waiting or not world.plain.layout.size:
                return
            task = chance.choice(waiting)
            row = chance.randrange(world.plain.layout.size)
            trial.pipeline(task, row)
            twin.pipeline(world.twin(task), row)
            world.check()


def decided(documents: list[pictures.Document]) -> str:
    """What a cycle decides, whatever it cost."""
    result = running.run(documents, EVERYTHING)
    return running.digest(msgspec.structs.replace(result, work={}, costs={}, spent=0))


@clusters.bounded(60)
@given(pictures_with_nominated())
def test_nothing_that_is_kept_in_mind_forgets_them(picture: str) -> None:
    """Plans, foreseen rows, jobs that share an answer: the same as asking for each pod anew."""
    documents = pictures.documents(picture)
    known = decided(documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookahead, "DEPTH", 0)
        patch.setattr(UnschedulableClasses, "_member", lambda *_: None)
        patch.setattr(Preemptor, "class_key", lambda *_: None)
        assert decided(documents) == known


@clusters.bounded(80)
@given(pictures_with_nominated())
def test_what_a_cycle_gives_away_leaves_nominated_pods_their_room(picture: str) -> None:
    """All decisions obeyed, a node has room for those that all of its new pods yield to."""
    documents = pictures.documents(picture)
    before = running.open_session(documents, EVERYTHING)
    pods = checks.count(documents).pods
    result = running.run(documents, EVERYTHING)
    given = [(bind.node, pods[bind.task.key]) for bind in result.binds]
    given += [(each.node, pods[each.task.key]) for each in result.pipelined]
    for node in {place for place, _ in given}:
        row = before.layout.rows[node]
        cluster = before.cluster
        free = Counter(before.space.amounts(cluster.allocatable[row] - cluster.future_used[row]))
        for evict in result.evicts:
            if evict.node == node:
                free.update(checks.request(pods[evict.task.key]))
        new = [pod for place, pod in given if place == node]
        highest = max(pod["spec"].get("priority", 0) for pod in new)
        held: Counter[str] = sum(map(checks.request, new), start=Counter())
        asked = set(held)
        for each in filter(is_nominated, documents):
            there = each["status"]["nominatedNodeName"] == node
            if there and each["spec"].get("priority", 0) >= highest:
                held.update(checks.request(each))
        assert {name for name in asked if held[name] > free[name]} == set(), node
