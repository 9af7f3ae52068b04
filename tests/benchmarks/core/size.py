"""`python -m tests.benchmarks.core.size`: a very large cluster in one process.

Ten pods of 900m CPU run on each node of 32. Each size is measured in
a process of its own: resident memory, the first snapshot, a snapshot and a cycle after one change,
and the longest of the cycles that place 1,000 pods with the daemon's budget.
"""

import argparse
import gc
import json
import math
import resource
import subprocess
import sys
from collections.abc import Sequence

from tests.benchmarks import figures
from tests.benchmarks.core import clusters, timing
from tests.benchmarks.core.clusters import Cluster, Gang
from vscheduler.daemon import application
from vscheduler.model.snapshot import FRESH

NODES = (1000, 2000, 5000, 15_000)
PODS_PER_NODE = 10
MORE = 1000
PREDICTED = 50_000
COLUMNS = ("MiB", "first snapshot ms", "one change ms", "1,000 pods ms", "longest cycle ms")
CYCLES_MAX = 100


def measure(nodes: int, schedulers: int = 1, part: int = 0) -> list[float]:
    """Return the figures of COLUMNS for so many nodes, in this process.

    Each scheduler has an equal part of the nodes, by --node-selector, and the pods on them; this is
    the one of this part. All of them see all nodes and pods.
    """
    gc.set_threshold(application.YOUNG_OBJECTS_MAX)
    cluster = Cluster(node_selector=(("part", str(part)),) if schedulers > 1 else ())
    policy = timing.policy_of("enqueue, allocate, backfill, reclaim")
    names = cluster.add_nodes(nodes, labels=lambda number: {"part": str(number % schedulers)})
    gang = first = Gang(name="", requests=[])
    for number, name in enumerate(names):
        gang = Gang(
            name=f"gang-{number:05}",
            requests=[{"cpu": "900m", "memory": "1Gi"}] * PODS_PER_NODE,
            nodes=[name] * PODS_PER_NODE,
            constraints={} if number % schedulers == part else {"schedulerName": "other"},
        )
        first = gang if number == part else first
        cluster.add(gang)
    gc.collect()
    gc.freeze()
    result, seconds = timing.with_budget(cluster, FRESH, policy)
    took = [seconds]
    cluster.show_pod(first, 0, first.requests[0], node=first.nodes[0], phase="Succeeded")
    result, seconds = timing.with_budget(cluster, result.carried, policy)
    took.append(seconds)
    for number in range(0, MORE, PODS_PER_NODE):
        cluster.add(Gang(name=f"new-{number:04}", requests=[clusters.POD] * PODS_PER_NODE))
    bound, each = 0, list[float]()
    while bound < MORE and len(each) < CYCLES_MAX:
        result, seconds = timing.with_budget(cluster, result.carried, policy)
        each.append(seconds)
        bound += len(result.binds)
    assert bound == MORE, bound
    took += [sum(each), max(each)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [memory, *(1000 * seconds for seconds in took)]


def quickest(nodes: int, rounds: int, schedulers: int, part: int = 0) -> list[float]:
    """Return the lowest figures of several processes."""
    words = [sys.executable, "-m", "tests.benchmarks.core.size", "--only", str(nodes)]
    words += ["--schedulers", str(schedulers), "--part", str(part)]
    done = [
        json.loads(subprocess.run(words, check=True, capture_output=True).stdout)  # noqa: S603 - this program
        for _ in range(rounds)
    ]
    return [min(column) for column in zip(*done, strict=True)]


def predicted(sizes: Sequence[int], values: Sequence[float], size: int) -> tuple[float, float]:
    """Return the exponent, and the value for a size, by the line through the logarithms."""
    exponent = figures.exponent(sizes, values) or 0.0
    middle = sum(math.log(each) for each in values) / len(values)
    centre = sum(math.log(size) for size in sizes) / len(sizes)
    return exponent, math.exp(middle + exponent * (math.log(size) - centre))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.core.size")
    parser.add_argument("nodes", nargs="*", type=int, help=f"default {NODES}")
    parser.add_argument("--rounds", type=int, default=2, help="the lowest of so many counts")
    parser.add_argument("--only", type=int, help="one size, in this process; prints JSON")
    parser.add_argument(
        "--schedulers", type=int, default=1, help="the nodes are divided by so many; a row for each"
    )
    parser.add_argument("--part", type=int, default=0, help="with --only: which scheduler")
    given = parser.parse_args(arguments)
    if given.only:
        sys.stdout.write(json.dumps(measure(given.only, given.schedulers, given.part)) + "\n")
        return 0
    sizes = given.nodes or NODES
    sys.stdout.write(f"| nodes | pods | {' | '.join(COLUMNS)} |\n" + "|---" * 7 + "|\n")
    rows = []
    for nodes in sizes:
        every = []
        for part in range(given.schedulers):
            every.append(quickest(nodes, given.rounds, given.schedulers, part))
            shown = " | ".join(f"{value:,.0f}" for value in every[-1])
            sys.stdout.write(f"| {nodes:,} | {nodes * PODS_PER_NODE:,} | {shown} |\n")
            sys.stdout.flush()
        rows.append([max(column) for column in zip(*every, strict=True)])
    if len(sizes) > 1:
        lines = [predicted(sizes, column, PREDICTED) for column in zip(*rows, strict=True)]
        shown = " | ".join(f"{exponent:.2f}" for exponent, _ in lines)
        sys.stdout.write(f"| exponent | | {shown} |\n")
        shown = " | ".join(f"{value:,.0f}" for _, value in lines)
        sys.stdout.write(f"| {PREDICTED:,}, predicted | | {shown} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
