"""`python -m tests.benchmarks.core.paired`: what the search for gangs costs where it isn't needed.

The cases of `make bench-core`, each decided with the search and without it in turn: calls of
functions, which are the same on any machine, and the thread CPU of the quickest of some rounds.
"""

import argparse
import cProfile
import gc
import sys
import time
from collections.abc import Sequence

from tests.benchmarks.core import cases, rich, timing
from tests.benchmarks.core.cases import Case
from vscheduler.core import cycle
from vscheduler.core.actions import allocate
from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.config.policy import Policy
from vscheduler.model.snapshot import FRESH, Snapshot

HEADER = "| case | nodes | pods | calls | with the search | ms | with the search |\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each case, and the sums."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.core.paired")
    parser.add_argument("cases", nargs="*", help="parts of the names of those to run; default all")
    parser.add_argument("--rounds", type=int, default=3, help="the quickest of so many counts")
    parser.add_argument("--scale", type=float, default=0.2, help="below 1: everything smaller")
    given = parser.parse_args(arguments)
    sys.stdout.write(f"{HEADER}|---|---|---|---|---|---|---|\n")
    totals = [0.0] * 4
    for case in (*cases.cases(given.scale), *rich.cases(given.scale)):
        if given.cases and not any(word in case.name for word in given.cases):
            continue
        figures = measured(case, given.rounds)
        totals = [total + each for total, each in zip(totals, figures, strict=True)]
        sys.stdout.write(row(case.name, f"{case.nodes:,}", f"{case.pods:,}", figures))
        sys.stdout.flush()
    sys.stdout.write(row("all", "", "", totals))
    return 0


def measured(case: Case, rounds: int) -> list[float]:
    """Return the calls without the search and with it, and the milliseconds."""
    cluster, with_search = case.build(), timing.policy_of(case.actions, case.tiers)
    without = with_search.with_argument(Allocate.name, allocate.SEARCH_STEPS, 0)
    carried = FRESH
    if case.change is not None:
        for _ in range(case.cycles):
            carried = cycle.run_cycle(cluster.snapshot(carried), with_search).carried
        case.change(cluster)
    taken, both = cluster.snapshot(carried), (without, with_search)
    results = [cycle.run_cycle(taken, each) for each in both]
    assert all(len(result.binds) == case.bound for result in results), case.name
    found: list[float] = [calls(taken, each) for each in both]
    times = [[milliseconds(taken, each) for each in both] for _ in range(rounds)]
    return [*found, *map(min, zip(*times, strict=True))]


def calls(taken: Snapshot, wanted: Policy) -> int:
    """Return how many functions a cycle calls."""
    profile = cProfile.Profile()
    profile.runcall(cycle.run_cycle, taken, wanted)
    return sum(entry.callcount for entry in profile.getstats())


def milliseconds(taken: Snapshot, wanted: Policy) -> float:
    """Return the thread CPU of a cycle."""
    gc.collect()
    gc.disable()
    began = time.thread_time()
    cycle.run_cycle(taken, wanted)
    took = time.thread_time() - began
    gc.enable()
    return took * 1000


def row(name: str, nodes: str, pods: str, figures: Sequence[float]) -> str:
    """Return a row in Markdown."""
    calls_without, calls_with, without, with_it = figures
    return (
        f"| {name} | {nodes} | {pods} | {calls_without:,.0f} "
        f"| {calls_with / calls_without - 1:+.2%} | {without:.1f} "
        f"| {with_it / without - 1:+.1%} |\n"
    )


if __name__ == "__main__":
    sys.exit(main())
