"""`python -m tests.benchmarks.core.hidden`: large gangs around a hidden solution; who is placed.

Each gang has 100 to 500 pods. A random placement of them makes the free room of 1,000 nodes, 90 to
100 % of which it fills. Cycles have the budget of the daemon, and follow each other until the gang
is bound, or nothing is searched for any more.
"""

import argparse
import random
import sys
from collections.abc import Sequence

from tests.benchmarks.core import timing
from tests.benchmarks.core.clusters import Amounts, Cluster, Gang
from tests.benchmarks.core.inflation import Inflation
from vscheduler.core.actions import allocate
from vscheduler.core.actions.allocate import Allocate
from vscheduler.model.snapshot import FRESH

NODES = 1000
CYCLES_MAX = 8
ROUNDS = 2
"""Of each cycle, the quicker of so many counts."""
MILLI = 1000


def drawn(chance: random.Random, kinds: int) -> Cluster:
    """Draw a gang and nodes that it fills nearly."""
    sizes = [(chance.randint(2, 16) * 500, chance.randint(1, 16)) for _ in range(kinds)]
    pods = [chance.choice(sizes) for _ in range(chance.randint(100, 500))]
    full = chance.uniform(0.9, 1.0)
    free = [[0, 0] for _ in range(NODES)]
    for cpu, memory in pods:
        node = chance.choice(free)
        node[0], node[1] = node[0] + cpu, node[1] + memory
    cluster = Cluster()
    nodes: list[Amounts] = [
        {
            "cpu": f"{int(cpu / full)}m",
            "memory": f"{int(memory * 1024 / full)}Mi",
            "pods": "110",
        }
        for cpu, memory in free
    ]
    cluster.add_nodes(NODES, nodes)
    requests = [{"cpu": f"{cpu}m", "memory": f"{memory}Gi"} for cpu, memory in pods]
    cluster.add(Gang(name="gang", requests=requests))
    return cluster


def placed(cluster: Cluster, inflated: Inflation, *, searches: bool) -> tuple[bool, float]:
    """Return whether the gang is bound, and the thread CPU seconds of the longest cycle.

    Seconds are those of a machine without other work, as far as a fixed loop tells.
    """
    policy, carried = timing.policy_of("enqueue, allocate"), FRESH
    if not searches:
        policy = policy.with_argument(Allocate.name, allocate.SEARCH_STEPS, 0)
    longest = 0.0
    for _ in range(CYCLES_MAX):
        result, _, seconds = timing.quickest(cluster, carried, policy, inflated, ROUNDS)
        longest = max(longest, seconds)
        carried = result.carried
        if result.binds or (result.finished and not timing.is_searching(result)):
            return bool(result.binds), longest
    return False, longest


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.core.hidden")
    parser.add_argument("--gangs", type=int, default=20, help="for each number of kinds")
    parser.add_argument("--kinds", type=int, nargs="*", default=[3, 5, 8, 20])
    given = parser.parse_args(arguments)
    sys.stdout.write("| kinds | gangs | pod by pod | with the search | ms without it | with it |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    inflated = Inflation()
    for kinds in given.kinds:
        plain = found = 0
        without = longest = 0.0
        for number in range(given.gangs):
            cluster = drawn(random.Random(f"hidden/{kinds}/{number}"), kinds)
            success, seconds = placed(cluster, inflated, searches=False)
            plain, without = plain + success, max(without, seconds)
            success, seconds = placed(cluster, inflated, searches=True)
            found, longest = found + success, max(longest, seconds)
        figures = f"| {kinds} | {given.gangs} | {plain} | {found} "
        figures += f"| {without * MILLI:.0f} | {longest * MILLI:.0f} |\n"
        sys.stdout.write(figures)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
