"""`python -m tests.benchmarks.core.hostile`: the longest cycle that hard gangs can cause.

No two nodes are alike, and all of them take some pod of the gangs. Cycles have the budget of the
daemon, and follow each other until all is bound, or nothing is searched for any more. Thread CPU
is divided by how much a busy machine inflates it meanwhile.
"""

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.benchmarks.core import timing
from tests.benchmarks.core.clusters import Amounts, Cluster, Gang
from tests.benchmarks.core.inflation import Inflation
from vscheduler.core.actions import allocate
from vscheduler.core.actions.allocate import Allocate
from vscheduler.model.snapshot import FRESH

NODES = 5000
CYCLES_MAX = 24
SMALL: Amounts = {"cpu": "1", "memory": "1Gi"}
"""Fits on any node."""
LARGE = 20
"""Nodes with room for more than small pods."""


def packed(gangs: int) -> Cluster:
    """Gangs of 64 pods, 40 of which fill a few large nodes to the last, or don't quite fit."""
    chance = random.Random("packed")
    cluster, nodes, requests = Cluster(), unlike(), list[list[Amounts]]()
    for gang in range(gangs):
        sizes = [chance.randint(4_000, 12_000) // 100 * 100 for _ in range(LARGE * 2)]
        for number, first in enumerate(range(0, LARGE * 2, 2)):
            whole = sum(sizes[first : first + 2]) - (100 if not number else 0)
            nodes[gang * LARGE + number] = {"cpu": f"{whole}m", "memory": "64Gi", "pods": "110"}
        requests.append([{"cpu": f"{size}m", "memory": "1Gi"} for size in sizes] + [SMALL] * 24)
    cluster.add_nodes(NODES, nodes)
    for number, each in enumerate(requests):
        cluster.add(Gang(name=f"gang-{number:02}", requests=each))
    return cluster


def many_kinds() -> Cluster:
    """A gang of 500 pods of 20 kinds around a solution that fills 97 % of 1,000 nodes."""
    chance = random.Random("many kinds")
    kinds = [(chance.randint(2, 16) * 500, chance.randint(1, 16)) for _ in range(20)]
    pods = [chance.choice(kinds) for _ in range(500)]
    free = [[0, 0] for _ in range(NODES // 5)]
    for cpu, memory in pods:
        node = chance.choice(free)
        node[0], node[1] = node[0] + cpu, node[1] + memory
    amounts = [
        {
            "cpu": f"{round(cpu / 0.97)}m",
            "memory": f"{round(memory * 1024 / 0.97)}Mi",
            "pods": "110",
        }
        for cpu, memory in free
    ]
    cluster = Cluster()
    cluster.add_nodes(NODES, amounts + unlike()[len(amounts) :])
    requests = [{"cpu": f"{cpu}m", "memory": f"{memory}Gi"} for cpu, memory in pods]
    cluster.add(Gang(name="gang", requests=requests))
    return cluster


def unlike() -> list[Amounts]:
    """Small nodes, no two of them with the same amounts."""
    return [
        {"cpu": f"{1000 + number % 900}m", "memory": f"{2048 + number}Mi", "pods": "110"}
        for number in range(NODES)
    ]


CASES: Mapping[str, Callable[[], Cluster]] = {
    "a gang that doesn't quite fit": lambda: packed(1),
    "20 such gangs": lambda: packed(20),
    "500 pods of 20 kinds": many_kinds,
}


@dataclass(frozen=True, slots=True)
class Longest:
    """The longest cycle."""

    seconds: float
    quiet: float
    """The seconds on a machine without other work, as far as a fixed loop tells."""
    bound: int
    """The pods bound in all cycles."""
    cycles: int

    def __str__(self) -> str:
        return f"{self.seconds * 1000:.0f} | {self.quiet * 1000:.0f}"


def longest(cluster: Cluster, rounds: int, inflated: Inflation, *, searches: bool) -> Longest:
    """Measure all cycles; of each cycle, the quickest of so many rounds counts."""
    policy, carried = timing.policy_of("enqueue, allocate, backfill, reclaim"), FRESH
    if not searches:
        policy = policy.with_argument(Allocate.name, allocate.SEARCH_STEPS, 0)
    seconds, quiet, bound, cycles = 0.0, 0.0, 0, 0
    while cycles < CYCLES_MAX:
        result, as_it_is, alone = timing.quickest(cluster, carried, policy, inflated, rounds)
        seconds, quiet, cycles = max(seconds, as_it_is), max(quiet, alone), cycles + 1
        bound += len(result.binds)
        carried = result.carried
        cluster.bind(result)
        if result.finished and not timing.is_searching(result):
            break
    return Longest(seconds, quiet, bound, cycles)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; 1 if a cycle is longer than the limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.core.hostile")
    parser.add_argument("--rounds", type=int, default=3, help="the quickest of so many counts")
    parser.add_argument("--limit", type=float, default=300, help="milliseconds of thread CPU")
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(map(repr, CASES))}")
    given = parser.parse_args(arguments)
    sys.stdout.write(
        "| longest cycle, ms of thread CPU | without the search | alone | with it | alone "
        "| cycles | bound |\n|---|---|---|---|---|---|---|\n"
    )
    over, inflated = False, Inflation()
    for name in given.cases or CASES:
        without = longest(CASES[name](), given.rounds, inflated, searches=False)
        found = longest(CASES[name](), given.rounds, inflated, searches=True)
        over |= found.quiet * 1000 > given.limit
        figures = f"{without} | {found} | {found.cycles} | {found.bound}"
        sys.stdout.write(f"| {name} | {figures} |\n")
        sys.stdout.flush()
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
