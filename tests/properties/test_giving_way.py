"""Who loses pods for whom, in worlds where evicted pods come back: shares recounted by hand."""

import copy
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction

from hypothesis import given, strategies

from tests.properties import clusters
from tests.properties.lives import Life
from tests.scenarios.sharing import BUILT_IN
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

NEAR = Fraction(1, 1000)
"""Shares are worked out in floats."""

CYCLES = 20
QUIET = 6
"""Nobody goes any more in so many cycles at the end."""


def picture(chance: random.Random) -> str:
    """Queues that fill a few nodes with gangs and single pods, and jobs that come late."""
    free = {f"n{number}": chance.randint(4, 12) for number in range(chance.randint(1, 5))}
    lines = [
        f"node {name} cpu={cpu} pods=110" + " label=pool=x" * (chance.random() < 0.3)
        for name, cpu in free.items()
    ]
    queues = [f"q{number}" for number in range(chance.randint(2, 5))]
    lines += [f"queue {name} weight={chance.choice((1, 1, 1, 2, 3))}" for name in queues]
    number = 0
    for _ in range(40):
        size = chance.choice((1, 1, 2, 3, 4, 6))
        places = []
        for _ in range(size):
            name = chance.choice(list(free))
            if free[name]:
                free[name] -= 1
                places.append(name)
        if len(places) < size:
            for name in places:
                free[name] += 1
            continue
        least = chance.choice((1, size))
        owner = chance.choice(queues[: max(1, len(queues) - 1)])
        age = chance.randint(100, 900)
        lines.append(f"job {owner}/j{number} min={least} age={age} {' '.join(places)}")
        number += 1
    for _ in range(chance.randint(1, 3)):
        size = chance.choice((1, 2, 4, 8))
        least, cpu = chance.choice((1, size)), chance.choice((1, 1, 2))
        where = " select=pool=x" * (chance.random() < 0.3)
        lines.append(f"job {chance.choice(queues)}/j{number} min={least} cpu={cpu}{where} -*{size}")
        number += 1
    return "\n".join(lines)


class Count:
    """What queues hold of cpu as a cycle begins, and what its evictions take and give."""

    def __init__(self, documents: list[Document], result: CycleResult) -> None:
        queues = {
            document["metadata"]["name"]: document["spec"]["queue"]
            for document in documents
            if document["kind"] == "PodGroup"
        }
        self.weights = {
            document["metadata"]["name"]: int(document["spec"].get("weight", 1))
            for document in documents
            if document["kind"] == "Queue"
        }
        self.deserved = {
            queue.name: Fraction(queue.entitlement.deserved.get("cpu", 0)) / 1000
            for queue in result.queues
            if queue.entitlement is not None
        }
        self.held: Counter[str] = Counter()
        cpus, owners = {}, {}
        for document in documents:
            if document["kind"] == "Pod":
                name = document["metadata"]["name"]
                group = document["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
                owners[name], cpus[name] = queues[group], _cpu(document)
                leaves = document["metadata"].get("deletionTimestamp")
                if document["spec"].get("nodeName") and not leaves:
                    self.held[queues[group]] += cpus[name]
        for bind in result.binds:
            self.held[owners[bind.task.name]] += cpus[bind.task.name]
        self.ends = Counter(self.held)
        self.units: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By queue, what goes together: a whole gang, or one pod."""
        self.preemptors: defaultdict[str, set[str]] = defaultdict(set)
        for evict in result.evicts:
            if evict.action == "reclaim" and not evict.moves:
                name, queue = evict.task.name, owners[evict.task.name]
                self.units[queue][evict.task.job if evict.whole else name] += cpus[name]
                self.preemptors[queue].add(queues[(evict.beneficiary or "").rpartition("/")[2]])
                self.ends[queue] -= cpus[name]
        for waits in result.pipelined:
            self.ends[owners[waits.task.name]] += cpus[waits.task.name]

    def unfair(self) -> Iterator[str]:
        """What is against the rules for those who lose what they have above their share."""
        for loser, units in self.units.items():
            due = self.deserved[loser]
            end = self.held[loser] - sum(units.values())
            if end + max(units.values()) <= due - NEAR:
                yield f"{loser} has {self.held[loser]}, deserves {due}, and ends with {end}"
            for other in self.preemptors[loser]:
                level = due * self.weights[other] / self.weights[loser]
                owed = max(self.deserved[other], level)
                part = min(Fraction(1), self.ends[other] / owed)
                if due and end / due < part - NEAR:
                    yield f"{loser} ends with {end} of {due}, {other} with {self.ends[other]}"


def _cpu(document: Document) -> int:
    """What a pod of a picture asks for, in cores."""
    return int(document["spec"]["containers"][0]["resources"]["requests"]["cpu"])


@clusters.bounded(30)
@given(strategies.integers(0, 2**32))
def test_losers_end_no_lower_than_those_they_go_for_and_all_comes_to_rest(seed: int) -> None:
    """Below its share ends only who has a unit that can't be divided, never below the preemptor;
    then nobody goes any more, though all who went come back.
    """
    life = Life(pictures.documents(picture(random.Random(seed))))
    for cycle in range(CYCLES):
        before = copy.deepcopy(life.documents)
        result = life.cycle(BUILT_IN)
        assert list(Count(before, result).unfair()) == [], cycle
        assert cycle < CYCLES - QUIET or not result.evicts, cycle
