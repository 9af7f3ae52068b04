"""`python -m tests.benchmarks`: schedulers side by side on the sandbox, and what each costs."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tests.benchmarks import competitors, contest, running, shapes, steady, tables

T = TypeVar("T")

JSON = Path("build/bench.json")
RUNS = 5
REST_MINUTES = 4
RESTART_MINUTES = 5


def main() -> int:
    """Measure and print; the exit status says whether every run counted."""
    given = arguments().parse_args()
    wanted = given.shapes or (() if given.rest or given.restart else shapes.ALL)
    both = not (given.shapes or given.rest or given.restart)
    conditions = contest.Conditions(kubelets=given.kubelets, crds=given.crds)
    competing = chosen(given)
    planned = list(plan(competing, wanted, given.runs))
    idle = resting(competing) if given.rest or both else []
    minutes = sum(shape.seconds for _, shape in planned) / 60 + REST_MINUTES * len(idle)
    minutes += RESTART_MINUTES * (given.restart or both)
    told = f"{len(planned)} runs, and what was asked for besides: about {minutes:.0f} minutes"
    say(f"{told} on an idle machine")
    runs, failed = [], 0
    for number, (competitor, shape) in enumerate(planned, start=1):
        say(f"{number}/{len(planned)} {shape} {competitor.name}")
        try:
            runs.append(contest.run(competitor, shape, conditions))
        except running.FailedError as error:
            failed += 1
            say(f"doesn't count: {error}")
    rests = [_said(steady.rest(each, conditions), "at rest") for each in idle]
    restarts = list(_restarts(conditions)) if given.restart or both else []
    report(given.json, runs, rests, restarts)
    return 1 if failed else 0


def arguments() -> argparse.ArgumentParser:
    """What can be asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Schedulers side by side on the sandbox; docs/benchmarks.md explains it.",
    )
    add = parser.add_argument
    add("shapes", nargs="*", type=shapes.Shape.read, help="NODESxGANGSxSIZE[@RATE]; default all")
    add("--runs", type=int, default=RUNS, help=f"of each competitor; default {RUNS}")
    add("--only", action="append", help="part of a competitor's name; repeatable")
    add("--peer", help="a command that takes --kubeconfig: another scheduler")
    add("--peer-name", default="volcano", help="what pods name to get it; default volcano")
    add("--peer-without-groups", action="store_true", help="it knows no PodGroups")
    add("--crds", type=Path, help="a folder with the peer's own definitions")
    add("--kubelets", action="store_true", help="bound pods start, and controllers look at them")
    add("--rest", action="store_true", help="what each costs at rest")
    add("--restart", action="store_true", help="how soon there is a bind after a restart")
    add("--json", type=Path, default=JSON, help=f"default {JSON}")
    return parser


def chosen(given: argparse.Namespace) -> list[competitors.Competitor]:
    """The competitors that were asked for."""
    found = [
        competitors.limit(),
        competitors.kube_scheduler(),
        competitors.vscheduler("--leader-elect=false"),
    ]
    if given.peer:
        grouped = not given.peer_without_groups
        found.append(competitors.peer(given.peer, given.peer_name, grouped=grouped))
    return [
        each for each in found if not given.only or any(word in each.name for word in given.only)
    ]


def resting(competing: Sequence[competitors.Competitor]) -> list[competitors.Competitor]:
    """Those that can be at rest; vscheduler stands for election there, as it does by default."""
    return [
        competitors.vscheduler() if each.name == competitors.VSCHEDULER else each
        for each in competing
        if each.schedules
    ]


def plan(
    competing: Sequence[competitors.Competitor], wanted: Sequence[shapes.Shape], runs: int
) -> Iterator[tuple[competitors.Competitor, shapes.Shape]]:
    """In each round everybody once, and each time somebody else first."""
    for shape in wanted:
        able = [each for each in competing if each.schedules or not shape.rate]
        for turn in range(runs):
            first = turn % len(able) if able else 0
            yield from ((each, shape) for each in (*able[first:], *able[:first]))


def _restarts(conditions: contest.Conditions) -> Iterator[steady.Restart]:
    both = competitors.vscheduler("--leader-elect=false")
    half = competitors.vscheduler(
        "--leader-elect=false", "--only=scheduler", name="vscheduler --only scheduler"
    )
    for found in steady.restarts([both, half], conditions):
        yield _said(found, "restart")


def _said(found: T, what: str) -> T:
    say(f"{what}: {found}")
    return found


def report(
    path: Path,
    runs: Sequence[contest.Run],
    rests: Sequence[steady.Rest],
    restarts: Sequence[steady.Restart],
) -> None:
    """Tables on stdout, everything in the file."""
    parts = [f"Measured on {tables.machine()}.", "", *tables.results(runs)]
    if runs:
        parts += ["### Writes per pod", "", *tables.calls(runs), ""]
        parts += ["### Cycles of vscheduler", "", *tables.cycles(runs), ""]
    if rests:
        parts += ["### At rest", "", *tables.rests(rests), ""]
    if restarts:
        parts += ["### After a restart", "", *tables.restarts(restarts), ""]
    sys.stdout.write("\n".join(parts))
    path.parent.mkdir(parents=True, exist_ok=True)
    everything = {
        "machine": tables.machine(),
        "runs": [dataclasses.asdict(each) for each in runs],
        "at_rest": [dataclasses.asdict(each) for each in rests],
        "restarts": [dataclasses.asdict(each) for each in restarts],
    }
    path.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


def say(text: str) -> None:
    """One line on how far it is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
