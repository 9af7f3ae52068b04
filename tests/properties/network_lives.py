"""Several gangs in one network, with every action, until nothing moves.

`python -m tests.properties.network_lives --lives 1000` lets so many clusters live.
"""

import argparse
import copy
import dataclasses
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from tests import running
from tests.properties import network_worlds
from tests.properties.lives import Life
from tests.properties.network_worlds import Network
from tests.running import Document
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures

GROUP = "scheduling.k8s.io/group-name"
PLAIN = ("allocate, backfill", "gang | predicates")
CONTESTED = (
    ("allocate, backfill, preempt, reclaim", "priority gang | drf predicates proportion nodeorder"),
    ("enqueue, reclaim, allocate, preempt", "priority gang | predicates proportion binpack"),
    ("allocate, preempt, backfill", "priority gang conformance | predicates capacity nodeorder"),
)
CYCLES = 10
ARRIVAL = 3
"""The cycle before which the second half of the gangs comes."""


class NetworkLife:
    """A cluster with gangs that come in two waves."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(f"network-life/{seed}")
        depth = chance.randint(1, 3)
        self.nodes = network_worlds.draw_nodes(chance, depth, chance.randint(2, 8))
        self.domains = network_worlds.domains_of(self.nodes, depth)
        self.depth = depth
        self.is_plain = chance.random() < 0.4
        actions, tiers = PLAIN if self.is_plain else chance.choice(CONTESTED)
        self.tree = network_worlds.configuration(depth, actions, tiers)
        free = {node.name: node.cpu for node in self.nodes}
        self.gangs = {
            f"g{number}": network_worlds.draw_gang(chance, self.nodes, self.domains, free)
            for number in range(chance.randint(2, 6))
        }
        lines = [network_worlds.drawn_node(node, depth) for node in self.nodes]
        lines += ["queue q0 weight=1", f"queue q1 weight={chance.randint(1, 3)}"]
        for number, (name, gang) in enumerate(self.gangs.items()):
            queue = "q0" if self.is_plain else f"q{number % 2}"
            marks = [f"priority={chance.randint(1, 3)}"] * (not self.is_plain)
            marks += ["age=60"] * chance.randint(0, 1)
            job = network_worlds.drawn_gang(gang, self.domains, f"{queue}/{name}", *marks)
            idle = f" {'r0:' * bool(gang.sizes)}-@0" if chance.random() < 0.2 else ""
            lines.append(job + idle)
        documents = pictures.documents("\n".join(lines))
        for document in documents:
            if document["kind"] == "PodGroup":
                gang = self.gangs[document["metadata"]["name"]]
                network_worlds.complete(document, gang)
        late = {
            name for name, gang in self.gangs.items() if not gang.nodes and chance.random() < 0.5
        }
        self.later = [each for each in documents if _gang_of(each) in late]
        self.life = Life([each for each in documents if _gang_of(each) not in late])
        self.chance = chance

    def cycle(self, number: int) -> tuple[CycleResult, list[str]]:
        """One more cycle, and what is wrong with it."""
        if number == ARRIVAL:
            self.life.add(self.later)
        before, carried = copy.deepcopy(self.life.documents), self.life.carried
        far = {each for name in self.gangs for each in self.spread(name, before, ())}
        result = self.life.cycle(self.tree)
        wrong = []
        shuffled = self.chance.sample(before, len(before))
        carried = running.forgetful(carried)
        again = running.run(shuffled, self.tree, carried=carried)
        if decisions(again) != decisions(result):
            wrong.append("decides otherwise without memos and in another order")
        pipelined = [(each.task.job, each.node) for each in result.pipelined]
        for name in self.gangs:
            held = [node for job, node in pipelined if job.endswith(f"/{name}")]
            wrong += set(self.spread(name, self.life.documents, held)) - far
        return result, wrong

    def spread(
        self, name: str, documents: Sequence[Document], held: Sequence[str]
    ) -> Iterator[str]:
        """How far pods of a hard gang or sub-group are from each other, if that is too far."""
        gang = self.gangs[name]
        pods = [each for each in _pods(documents, name) if _stays(each)]
        network = Network(self.nodes, self.domains, gang)
        nodes = [each["spec"]["nodeName"] for each in pods] + list(held)
        tier = network.top - 1 if gang.tier is None else gang.tier
        if gang.hard and nodes and network.place(nodes, min(tier, network.top)) is None:
            yield f"hard is broken: {name} on {sorted(nodes)}"
        if gang.sub_tier is None:
            return
        for part in range(len(gang.sizes)):
            near = [each["spec"]["nodeName"] for each in pods if _part(each) == part]
            if near and network.place(near, min(gang.sub_tier, network.top)) is None:
                yield f"hard is broken: sub-group {part} of {name} on {sorted(near)}"

    def idle_gangs(self) -> Iterator[str]:
        """Gangs that wait although they could start."""
        for name, gang in self.gangs.items():
            pods = _pods(self.life.documents, name)
            sized = [each for each in pods if _cpu(each)]
            runs = [each for each in sized if each["spec"].get("nodeName")]
            waits = [each for each in sized if not each["spec"].get("nodeName")]
            if (
                not waits
                or len(sized) < len(pods)
                or list(self.spread(name, self.life.documents, ()))
            ):
                continue
            if gang.sizes and runs:
                continue
            here = dataclasses.replace(
                gang,
                pods=tuple(map(_cpu, [*runs, *waits])),
                nodes=tuple(each["spec"]["nodeName"] for each in runs),
            )
            others = [
                (each["spec"]["nodeName"], _cpu(each), False)
                for each in self.life.documents
                if each["kind"] == "Pod" and each["spec"].get("nodeName") and _gang_of(each) != name
            ]
            network = Network(self.nodes, self.domains, here, tuple(others), self.depth)
            found = network_worlds.expected(network)
            if found.domains:
                yield f"{name} waits, and {found.domains[0].name or 'the cluster'} has room"


def decisions(result: CycleResult) -> object:
    """What a cycle does."""
    return (
        [(each.task.key, each.node) for each in result.binds],
        [(each.task.key, each.node) for each in result.pipelined],
        [each.task.key for each in result.evicts],
    )


def _gang_of(document: Document) -> str:
    if document["kind"] == "PodGroup":
        return str(document["metadata"]["name"])
    if document["kind"] == "Pod":
        return str(document["metadata"]["annotations"][GROUP])
    return ""


def _pods(documents: Sequence[Document], name: str) -> list[Document]:
    return [each for each in documents if each["kind"] == "Pod" and _gang_of(each) == name]


def _stays(pod: Document) -> bool:
    return bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in pod["metadata"]


def _part(pod: Document) -> int:
    return int(pod["metadata"]["labels"][pictures.ROLE].removeprefix("r"))


def _cpu(pod: Document) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"].get("cpu", 0))


def live(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """What is wrong with the life of a cluster."""
    life, wrong = NetworkLife(seed), list[str]()
    moves = True
    for number in range(CYCLES):
        result, broken = life.cycle(number)
        wrong += [f"cycle {number}: {each}" for each in broken]
        moves = bool(result.binds or result.evicts)
        if seen is not None:
            seen["binds"] += len(result.binds)
            seen["waits"] += len(result.pipelined)
            for evict in result.evicts:
                seen[evict.action] += 1
    if life.is_plain and not moves:
        wrong += life.idle_gangs()
    return wrong


def main(arguments: Sequence[str]) -> int:
    """Let clusters live, and print what is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lives", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args(arguments)
    seen: Counter[str] = Counter()
    for seed in range(given.first, given.first + given.lives):
        for wrong in live(seed, seen):
            seen["wrong"] += 1
            sys.stdout.write(f"{seed}: {wrong}\n")
    sys.stdout.write(f"{dict(seen)}\n")
    return int(bool(seen["wrong"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
