"""`python -m tests.benchmarks.core`: what the Mirror and the core cost, with no API server."""

import argparse
import dataclasses
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks import figures, tables
from tests.benchmarks.core import cases, rich, timing
from tests.benchmarks.core.cases import Case
from tests.benchmarks.core.timing import Timing

JSON = Path("build/bench-core.json")
COLUMNS = (
    *("case", "nodes", "pods", "snapshot ms", "decide ms", "µs/pod"),
    *("operations", "bound", "evicted"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, say how far it is on stderr, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.core",
        description="What the Mirror and the core cost, with no API server.",
    )
    parser.add_argument("cases", nargs="*", help="parts of the names of those to run; default all")
    parser.add_argument("--rounds", type=int, default=3, help="the quickest of so many counts")
    parser.add_argument("--scale", type=float, default=1.0, help="below 1: everything smaller")
    parser.add_argument("--json", type=Path, default=JSON, help=f"default {JSON}")
    given = parser.parse_args(arguments)
    found = [
        case
        for case in (*cases.cases(given.scale), *rich.cases(given.scale))
        if not given.cases or any(word in case.name for word in given.cases)
    ]
    sys.stderr.write(
        f"{len(found)} cases, {given.rounds} rounds; all of it takes about 10 minutes\n"
    )
    rounds = [list(measured(found)) for _ in range(given.rounds)]
    timings = [quickest(each) for each in zip(*rounds, strict=True)]
    sys.stdout.write("\n".join((*table(timings), "", *growth(found, timings), "")))
    tables.save(given.json, [dataclasses.asdict(timing) for timing in timings])
    return 0


def measured(found: Sequence[Case]) -> Iterator[Timing]:
    """Measure each case once: whatever else the machine does meets all cases of a round alike."""
    for number, case in enumerate(found, start=1):
        about = f"{case.name}, {case.nodes} nodes, {case.pods} pods"
        sys.stderr.write(f"{number}/{len(found)} {about}\n")
        yield timing.measure(case)


def quickest(rounds: Sequence[Timing]) -> Timing:
    """The round that was disturbed least. What was done is the same in all of them."""
    first = rounds[0]
    assert all(each.operations == first.operations for each in rounds), "rounds differ"
    return dataclasses.replace(
        first,
        snapshot=min(each.snapshot for each in rounds),
        decide=min(each.decide for each in rounds),
    )


def table(timings: Iterable[Timing]) -> Iterator[str]:
    """A row per case, in Markdown."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for each in timings:
        yield (
            f"| {each.name} | {each.nodes:,} | {each.pods:,} | {each.snapshot * 1e3:,.1f} | "
            f"{each.decide * 1e3:,.1f} | {each.per_pod * 1e6:,.1f} | "
            f"{each.operations_in_all:,} | {each.bound:,} | {each.evicted:,} |"
        )


def growth(found: Sequence[Case], timings: Sequence[Timing]) -> Iterator[str]:
    """How costs grow in each series: the exponent, 1 where twice as much costs twice as much."""
    yield "| series | sizes | snapshot | decide | operations |"
    yield "|---|---|---|---|---|"
    series: defaultdict[str, list[Timing]] = defaultdict(list)
    for case, each in zip(found, timings, strict=True):
        for name in case.series:
            series[name].append(each)
    for name, rows in series.items():
        sizes = [row.nodes if name.endswith("by nodes") else row.pods for row in rows]
        columns = (
            [row.snapshot for row in rows],
            [row.decide for row in rows],
            [float(row.operations_in_all) for row in rows],
        )
        exponents = [_two_places(figures.exponent(sizes, costs)) for costs in columns]
        span = f"{min(sizes):,}-{max(sizes):,}"
        yield f"| {name} | {span} | {' | '.join(exponents)} |"


def _two_places(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"


if __name__ == "__main__":
    sys.exit(main())
