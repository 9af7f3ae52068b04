"""Queues that can use some nodes only: what two evictions would give back, counted by hand."""

import random
from collections import Counter
from collections.abc import Iterator

from hypothesis import given, strategies

from tests.properties import clusters
from tests.properties.lives import Life
from tests.scenarios.sharing import BUILT_IN, deserved
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

CYCLES = 14
QUIET = 4
"""Nobody goes any more in so many cycles at the end."""

NEARLY = 1 - 1e-6


class Pools:
    """Nodes of several pools, and queues whose pods of one cpu can use some of these."""

    def __init__(self, chance: random.Random) -> None:
        pools = "abc"[: chance.randint(2, 3)]
        self.pool_of = {f"n{place}": chance.choice(pools) for place in range(chance.randint(2, 5))}
        names = [f"q{place}" for place in range(chance.randint(3, 5))]
        self.pools = {
            name: chance.sample(pools, chance.choice((1, 1, 2, len(pools)))) for name in names
        }
        free = {name: chance.randint(1, 4) for name in self.pool_of}
        lines = [
            f"node {name} cpu={free[name]} taint={pool}=x:NoSchedule"
            for name, pool in self.pool_of.items()
        ]
        lines += [f"queue {name} weight={chance.choice((1, 1, 2))}" for name in names]
        first = names[:-1] if chance.random() < 0.8 else names
        for number in range(24):
            queue = chance.choice(first)
            usable = [node for node in free if free[node] and self.reaches(queue, node)]
            if usable:
                node = chance.choice(usable)
                free[node] -= 1
                age = f"age={chance.randint(100, 900)}"
                lines.append(f"job {queue}/j{number} {age} {self._tolerates(queue)} {node}")
        for number in range(24, chance.randint(26, 30)):
            queue = chance.choice(names)
            lines.append(f"job {queue}/j{number} {self._tolerates(queue)} -")
        self.picture = "\n".join(lines)

    def reaches(self, queue: str, node: str) -> bool:
        """Whether the queue's pods can use the node."""
        return self.pool_of[node] in self.pools[queue]

    def _tolerates(self, queue: str) -> str:
        return " ".join(f"tolerate={pool}" for pool in self.pools[queue])


def owed(pools: Pools, documents: list[Document], shares: dict[str, float]) -> Iterator[str]:
    """Pods that wait within their share, although one eviction or two would make room."""
    of_group = {
        document["metadata"]["name"]: document["spec"]["queue"]
        for document in documents
        if document["kind"] == "PodGroup"
    }
    pods = [
        (
            document["metadata"]["name"],
            of_group[document["metadata"]["annotations"]["scheduling.k8s.io/group-name"]],
            document["spec"].get("nodeName"),
        )
        for document in documents
        if document["kind"] == "Pod"
    ]
    running = [pod for pod in pods if pod[2]]
    held = Counter(queue for _, queue, _ in running)
    for pod, queue, node in pods:
        if node or shares[queue] - held[queue] < NEARLY:
            continue
        for extra, loser, there in running:
            if loser == queue or held[loser] - shares[loser] < NEARLY:
                continue
            if pools.reaches(queue, there):
                yield f"{pod} without {extra}"
            for other, mover, here in running:
                ways = pools.reaches(queue, here) and pools.reaches(mover, there)
                if ways and mover not in (queue, loser):
                    yield f"{pod} if {other} moves from {here} to {there}, without {extra}"


@clusters.bounded(40)
@given(strategies.integers(0, 2**32))
def test_no_share_is_kept_from_a_queue_that_two_evictions_would_give_it(seed: int) -> None:
    """A queue that lacks a pod of its share gets it, if a whole one too much is where the pod that
    is in the way could run; then nothing moves any more.
    """
    pools = Pools(random.Random(seed))
    life = Life(pictures.documents(pools.picture))
    results = [life.cycle(BUILT_IN) for _ in range(CYCLES)]
    assert not any(result.evicts for result in results[-QUIET:])
    assert list(owed(pools, life.documents, deserved(results[-1]))) == []
