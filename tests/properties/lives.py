"""Clusters that live on from cycle to cycle: what is evicted comes back as a pod that waits."""

import copy
import random
from collections.abc import Sequence

from hypothesis import strategies

from tests import running
from tests.properties import clusters
from tests.properties.clusters import Size
from tests.running import Document, Tree
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

TREE = {"actions": "allocate, preempt, reclaim", "tiers": running.tiers(running.STANDARD)}
FILLING_CYCLES = 4


class Life:
    """Manifests that obey decisions; nothing ends by itself."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = [copy.deepcopy(document) for document in documents]
        self.carried = FRESH
        self._lives = 0

    def cycle(self, tree: Tree = TREE) -> CycleResult:
        """One cycle, obeyed: pods that were evicted in the one before are gone by then."""
        result = running.run(self.documents, tree, carried=self.carried)
        self.carried = result.carried
        self._let_go()
        self.documents = running.obey(self.documents, result)
        evicted = {evict.task.key for evict in result.evicts}
        for document in self.documents:
            if document["kind"] == "Pod" and _key(document) in evicted:
                document["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
        return result

    def add(self, documents: Sequence[Document]) -> None:
        """More objects."""
        self.documents += [copy.deepcopy(document) for document in documents]

    def _let_go(self) -> None:
        """Pods that are being deleted go, and their owners make them anew."""
        for document in self.documents:
            metadata = document["metadata"]
            if document["kind"] == "Pod" and metadata.pop("deletionTimestamp", None):
                self._lives += 1
                metadata["name"] += f"-again{self._lives}"
                metadata["uid"] = f"{metadata.get('uid', '')}-again{self._lives}"
                document["spec"].pop("nodeName", None)
                document["status"] = {"phase": "Pending"}


def lived_in(picture: str) -> tuple[Life, list[Document]]:
    """The cluster after half of its jobs had it for themselves, and the other half."""
    first: list[Document] = []
    later: list[Document] = []
    for document in pictures.documents(picture):
        (later if _is_late(document) else first).append(document)
    life = Life(first)
    filling = {**TREE, "actions": "allocate"}
    for _ in range(FILLING_CYCLES):
        life.cycle(filling)
    return life, later


def _is_late(document: Document) -> bool:
    """Jobs of an odd number come later, all of their pods with them."""
    if document["kind"] not in ("Pod", "PodGroup"):
        return False
    name = document["metadata"]["name"].removeprefix("j")
    return int(name[:2]) % 2 == 1


def _key(document: Document) -> str:
    return f"{document['metadata'].get('namespace', '')}/{document['metadata']['name']}"


@strategies.composite
def contested(draw: strategies.DrawFn, size: Size = clusters.SMALL) -> str:
    """A small cluster that one or two queues have filled before the others' jobs come."""
    seed = draw(strategies.integers(0, 2**32))
    return from_seed(seed, draw(strategies.sampled_from((4, 2, 1))), size)


def from_seed(seed: int, part: int, size: Size) -> str:
    """The picture of a seed; part divides the sizes."""
    chance = random.Random(seed)
    lines = []
    for number in range(chance.randint(1, max(1, size.nodes // part))):
        zone = f"label=zone={chance.choice(clusters.ZONES)}"
        shape = chance.choice(("cpu=8 memory=16Gi gpu=0", "cpu=16 memory=16Gi gpu=4"))
        lines.append(f"node n{number:02} {zone} {shape} pods={chance.choice((6, 110, 110))}")
    names = [f"q{number}" for number in range(chance.randint(2, size.queues))]
    for name in names:
        marks = [f"weight={chance.choice((1, 1, 2, 4))}"]
        marks += ["reclaimable=false"] * (chance.random() < 0.1)
        marks += [f"capability=cpu:{chance.randint(4, 64)}"] * (chance.random() < 0.2)
        marks += [f"guarantee=cpu:{chance.randint(1, 4)}"] * (chance.random() < 0.2)
        lines.append(f"queue {name} {' '.join(marks)}")
    for number in range(chance.randint(2, max(2, size.jobs // part))):
        queue = chance.choice(names if number % 2 else names[: chance.randint(1, 2)])
        lines.append(_job(chance, f"{queue}/j{number:02}", size.pods))
    if chance.random() < 0.5:
        lines.append(f"budget b select=team=a allowed={chance.randint(0, 3)}")
    return "\n".join(lines)


def _job(chance: random.Random, name: str, most: int) -> str:
    count = chance.randint(1, most)
    settings = [
        f"min={chance.choice((1, count, chance.randint(1, count)))}",
        f"cpu={chance.choice((1, 2, 3, 5))} memory={chance.choice((1, 2, 4))}Gi",
    ]
    settings += ["gpu=1"] * (chance.random() < 0.2)
    settings += [f"priority={chance.choice((5, 10))}"] * (chance.random() < 0.4)
    settings += [f"select=zone={chance.choice(clusters.ZONES)}"] * (chance.random() < 0.15)
    settings += ["preemptable=false"] * (chance.random() < 0.1)
    settings += [f"port={chance.choice((80, 81))}"] * (chance.random() < 0.1)
    settings += [f"label=team={chance.choice('ab')}"] * (chance.random() < 0.3)
    settings += [f"age={60 * chance.randint(0, 3)}"] * (chance.random() < 0.5)
    return f"job {name} {' '.join(settings)} -*{count}"
