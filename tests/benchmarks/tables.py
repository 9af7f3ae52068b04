"""Results as Markdown: medians, with the extremes where they matter; and all of them as JSON."""

import json
import platform
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.benchmarks import competitors, figures
from tests.benchmarks.contest import Run
from tests.benchmarks.starving import Starved
from tests.benchmarks.steady import Rest, Restart

Runs = Sequence[Run]
Figure = Callable[[Run], float | None]

RESULT_COLUMNS = (
    *("competitor", "pods/s (lowest-highest)", "of the limit", "pods/s from the start"),
    *("makespan s", "wait P50 / P90 / P99 s", "CPU s bound / settled", "servers' CPU s"),
    *("peak MiB", "writes per pod", "refused"),
)
CYCLE_COLUMNS = ("shape", "cycles", "snapshot ms", "decide ms", "commit ms", "loop lag p99 ms")


def machine() -> str:
    """One line on where this was measured."""
    cores = sum(
        line.startswith("processor") for line in Path("/proc/cpuinfo").read_text().splitlines()
    )
    load = " ".join(Path("/proc/loadavg").read_text().split()[:3])
    return f"{cores} cores, {platform.machine()}, Python {platform.python_version()}, load {load}"


def save(path: Path, results: object) -> None:
    """Write all figures to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def results(runs: Runs) -> Iterator[str]:
    """A table for each shape, in the order in which they were measured."""
    for shape, found in by(runs, lambda run: run.shape).items():
        number = max(map(len, by(found, lambda run: run.competitor).values()))
        yield f"### {shape}: {found[0].pods:,} pods, {number} runs"
        yield ""
        yield from _table(RESULT_COLUMNS, _rows(found))
        yield ""


def _rows(found: Runs) -> Iterator[list[str]]:
    competing = by(found, lambda run: run.competitor)
    best = competing.get(competitors.LIMIT)
    for name, runs in competing.items():
        speed = figures.spread([run.window for run in runs])
        assert speed is not None
        share = speed.median / _median(best, lambda run: run.window) if best else None
        waits = [
            figures.spread(values) for values in zip(*(run.waits for run in runs), strict=True)
        ]
        cpu = [_median(runs, lambda run: run.cpu_bound), _median(runs, lambda run: run.cpu_settled)]
        yield [
            name,
            f"{speed.median:,.0f} ({speed.low:,.0f}-{speed.high:,.0f})",
            "" if share is None else f"{share:.0%}",
            f"{_median(runs, lambda run: run.pods_per_second):,.0f}",
            _text(_median(runs, lambda run: run.makespan)),
            " / ".join(_text(wait.median) for wait in waits if wait is not None),
            " / ".join(map(_text, cpu)),
            _text(_median(runs, lambda run: run.server_cpu)),
            f"{_median(runs, lambda run: run.peak_mib):,.0f}",
            _text(_median(runs, lambda run: sum(run.calls.values()))),
            f"{_median(runs, lambda run: sum(run.refused.values())):,.0f}",
        ]


def calls(runs: Runs) -> Iterator[str]:
    """Writes per pod by call, over all runs of a competitor; at least one in a hundred. What was
    refused is counted as it is.
    """
    for name, found in by(runs, lambda run: run.competitor).items():
        pods = sum(run.pods for run in found)
        totals: defaultdict[str, float] = defaultdict(float)
        refused: Counter[str] = Counter()
        for run in found:
            for call, number in run.calls.items():
                totals[call] += number * run.pods / pods
            refused.update(run.refused)
        told = [f"{call} {each:.2f}" for call, each in sorted(totals.items()) if each >= 0.01]
        ends = [f"{call}: {number}" for call, number in sorted(refused.items())]
        yield f"- {name}: {', '.join(told)}" + (f"; refused: {', '.join(ends)}" if ends else "")


def cycles(runs: Runs) -> Iterator[str]:
    """Cycles of vscheduler by part, and its event loop's lag meanwhile; medians of the runs."""
    telling = [run for run in runs if run.cycles is not None]
    rows = []
    for shape, found in by(telling, lambda run: run.shape).items():
        told = [run.cycles for run in found if run.cycles is not None]
        lags = figures.spread([each.lag_p99_ms for each in told if each.lag_p99_ms is not None])
        parts = ("snapshot", "decide", "commit")
        means = [figures.spread([each.parts_ms[part] for each in told]) for part in parts]
        number = figures.spread([float(each.number) for each in told])
        columns = [number, *means, lags]
        rows.append(
            [shape, *("" if column is None else _text(column.median) for column in columns)]
        )
    return _table(CYCLE_COLUMNS, rows)


def rests(found: Iterable[Rest]) -> Iterator[str]:
    """What is used at rest."""
    columns = (
        *("competitor", "nodes", "pods that wait", "writes a minute", "before its start"),
        *("of a core", "peak MiB"),
    )
    rows = [
        [
            each.competitor,
            *(f"{number:,}" for number in (each.nodes, each.pods)),
            _told(each.writes_per_minute),
            _told(each.before),
            f"{each.core_share:.2%}",
            _whole(each.peak_mib),
        ]
        for each in found
    ]
    return _table(columns, rows)


def restarts(found: Iterable[Restart]) -> Iterator[str]:
    """How soon there is a bind after a start."""
    columns = (
        *("competitor", "nodes", "pods", "PodGroups", "first bind s", "whole gang s"),
        *("CPU s", "peak MiB"),
    )
    rows = [
        [
            each.competitor,
            *(f"{number:,}" for number in (each.nodes, each.pods, each.groups)),
            *(_text(number) for number in (each.first_bind, each.whole_gang, each.cpu)),
            _whole(each.peak_mib),
        ]
        for each in found
    ]
    return _table(columns, rows)


def starved(found: Iterable[Starved]) -> Iterator[str]:
    """How soon starved gangs start."""
    columns = (
        *("competitor", "nodes", "running pods", "starved gangs", "first bind s", "last bind s"),
        *("CPU s", "evictions"),
    )
    rows = [
        [
            each.competitor,
            *(f"{number:,}" for number in (each.nodes, each.running, each.starved)),
            *(_text(number) for number in (each.first_bind, each.last_bind, each.cpu)),
            f"{each.evictions:,}",
        ]
        for each in found
    ]
    return _table(columns, rows)


def _told(writes: Mapping[str, float]) -> str:
    return ", ".join(f"{call} {number:.0f}" for call, number in writes.items()) or "0"


def by(runs: Iterable[Run], key: Callable[[Run], str]) -> dict[str, Runs]:
    """Runs in groups, each group where its first one was."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return dict(groups)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _median(runs: Runs, figure: Callable[[Run], float]) -> float:
    found = figures.spread([figure(run) for run in runs])
    assert found is not None
    return found.median


def _text(number: float) -> str:
    if 0 < number < 0.1:
        return f"{number:.4f}"
    return f"{number:,.2f}" if number < 100 else f"{number:,.0f}"


def _whole(number: float) -> str:
    return f"{number:,.0f}"
