"""`python -m tests.benchmarks.core.starved`: a full cluster, and a queue that gets its share back.

Every node is full of gangs of four queues, and gangs of a fifth queue come, all at once or one by
one. Cycles have the budget of the daemon and follow each other; victims end, and the gangs start in
their place. CPU time is that of the thread, snapshots included.
"""

import argparse
import gc
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.benchmarks.core import cases, timing
from tests.benchmarks.core.clusters import Cluster, Gang
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH

CYCLES_MAX = 500


@dataclass(frozen=True, slots=True)
class Served:
    """What it took until all gangs were bound."""

    cycles: Sequence[float]
    """CPU seconds of each cycle."""
    evicting: Sequence[float]
    """Those of cycles after the first one that evict pods."""
    evicted: int


def serve(cluster: Cluster, gangs: int, size: int, *, together: bool) -> Served:
    """Run cycles until so many gangs of a size are bound. They come together, or each when the one
    before is bound. Raises AssertionError if some never are.
    """
    policy, carried = timing.policy_of("enqueue, allocate, backfill, reclaim"), FRESH
    took, evicting = list[float](), list[float]()
    bound = evicted = came = 0
    wanted = Gang(name="want", requests=[cases.BIG] * size, queue="starved")
    with timing.collecting_between():
        while bound < gangs * size and len(took) < CYCLES_MAX:
            while came < gangs and (together or bound == came * size):
                cluster.add(replace(wanted, name=f"want-{came:03}"))
                came += 1
            result, seconds = timing.with_budget(cluster, carried, policy)
            if took and result.evicts:
                evicting.append(seconds)
            took.append(seconds)
            carried = result.carried
            end_victims(cluster, result)
            bound += len(result.binds)
            evicted += len(result.evicts)
            gc.collect()
    assert bound == gangs * size, f"{bound} of {gangs * size} bound"
    return Served(took, evicting, evicted)


def end_victims(cluster: Cluster, result: CycleResult) -> None:
    """Let the pods end that a cycle evicts."""
    for evict in result.evicts:
        name, number = evict.task.name.rsplit("-", 1)
        gang = Gang(name=name, requests=[])
        cluster.show_pod(gang, int(number), cases.BIG, node=evict.node, phase="Succeeded")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row; 1 if a cycle after the first one is longer than the limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.core.starved")
    parser.add_argument("--nodes", type=int, default=12_500, help="with eight pods each")
    parser.add_argument("--gangs", type=int, default=200, help="that come")
    parser.add_argument("--size", type=int, default=cases.SMALL_GANG, help="pods of each gang")
    parser.add_argument("--one-by-one", action="store_true", help="each when the last is bound")
    parser.add_argument("--limit", type=float, default=300, help="milliseconds of thread CPU")
    given = parser.parse_args(arguments)
    cluster = cases.starved(given.nodes, 0)
    served = serve(cluster, given.gangs, given.size, together=not given.one_by_one)
    median, longest = statistics.median(served.evicting), max(served.evicting)
    sys.stdout.write(
        "| nodes | pods | gangs | evicted | cycles | CPU s | first cycle, ms "
        "| others that evict, median and longest, ms |\n|---|---|---|---|---|---|---|---|\n"
        f"| {given.nodes:,} | {given.nodes * cases.PER_NODE:,} | {given.gangs} | "
        f"{served.evicted:,} | {len(served.cycles)} | {sum(served.cycles):.1f} | "
        f"{served.cycles[0] * 1000:.0f} | {median * 1000:.0f}, {longest * 1000:.0f} |\n"
    )
    return int(longest * 1000 > given.limit)


if __name__ == "__main__":
    sys.exit(main())
