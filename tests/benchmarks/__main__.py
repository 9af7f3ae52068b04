"""`python -m tests.benchmarks`: schedulers side by side on the sandbox, and what each costs."""

import argparse
import dataclasses
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import competitors, contest, shapes, starving, steady, tables
from tests.benchmarks.competitors import Competitor
from tests.benchmarks.contest import Conditions, Run
from tests.benchmarks.running import FailedError
from tests.benchmarks.shapes import Shape
from tests.benchmarks.starving import Starved
from tests.benchmarks.steady import Rest, Restart

JSON = Path("build/bench.json")
RUNS = 5
REST_MINUTES = 4
RESTART_MINUTES = 5
STARVED_MINUTES = 3
ELECTED = "--leader-elect=false"
INTERRUPTED = 130
"""The exit status after Ctrl-C or SIGTERM."""
HEAD_LINES = 2
"""Of a table."""


def main() -> int:
    """Measure and print; the exit status says whether every run counted."""
    given = arguments().parse_args()
    special = given.rest or given.restart or given.starved
    wanted = given.shapes or (() if special else shapes.ALL)
    all_of_it = not (given.shapes or special)
    conditions = Conditions(kubelets=given.kubelets, crds=given.crds, with_gang_api=given.gang_api)
    competing = chosen(given)
    planned = {shape: list(plan(competing, shape, given.runs)) for shape in wanted}
    idle = resting(competing) if given.rest or all_of_it else []
    minutes = sum(shape.seconds * len(each) for shape, each in planned.items()) / 60
    restarted = steady.RESTARTED if all_of_it else given.restart
    minutes += REST_MINUTES * len(idle)
    minutes += RESTART_MINUTES + restarted.seconds / 60 if restarted else 0
    minutes += STARVED_MINUTES * (given.starved or all_of_it)
    number = sum(map(len, planned.values()))
    say(f"{number} runs, and what was asked for besides: about {minutes:.0f} minutes")
    signal.signal(signal.SIGTERM, _interrupt)
    results = Results(given.json)
    tell([f"Measured on {tables.machine()}.", ""])
    try:
        for shape, order in planned.items():
            _measure(shape, order, conditions, results)
        for each in idle:
            results.keep("at_rest", steady.rest(each, conditions))
        tell_part("At rest", tables.rests(results.rests))
        if restarted:
            for restart in _restarts(conditions, restarted):
                results.keep("restarts", restart)
            tell_part("After a restart", tables.restarts(results.restarted))
        if given.starved or all_of_it:
            results.keep("starved", starving.starved(competitors.vscheduler(ELECTED), conditions))
            tell_part("Starved gangs", tables.starved(results.starved))
    except KeyboardInterrupt:
        say(f"interrupted; what was finished is in {given.json}")
        return INTERRUPTED
    return 1 if results.failed else 0


def _interrupt(*_: object) -> None:
    """End as after Ctrl-C: everything that was started is ended, too."""
    raise KeyboardInterrupt


class Results:
    """What was measured so far; the file has it after each run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.failed = 0
        self.runs: list[Run] = []
        self.rests: list[Rest] = []
        self.restarted: list[Restart] = []
        self.starved: list[Starved] = []

    def keep(self, part: str, found: Run | Rest | Restart | object) -> None:
        """Add a result, and write all of them."""
        parts: dict[str, list[Any]] = {
            "runs": self.runs,
            "at_rest": self.rests,
            "restarts": self.restarted,
            "starved": self.starved,
        }
        parts[part].append(found)
        say(f"{part}: {found}")
        everything = {
            name: [dataclasses.asdict(each) for each in several] for name, several in parts.items()
        }
        tables.save(self._path, {"machine": tables.machine(), **everything})


def _measure(
    shape: Shape,
    order: Sequence[Competitor],
    conditions: Conditions,
    results: Results,
) -> None:
    """All runs of a shape, and then its tables, also where an interruption cuts it short."""
    runs: list[Run] = []
    try:
        for number, competitor in enumerate(order, start=1):
            say(f"{shape} {number}/{len(order)} {competitor.name}")
            try:
                found = contest.run(competitor, shape, conditions)
            except FailedError as error:
                results.failed += 1
                say(f"doesn't count: {error}")
                continue
            runs.append(found)
            results.keep("runs", found)
    finally:
        tell(tables.results(runs))
        if runs:
            tell(["Writes per pod:", "", *tables.calls(runs), ""])
            tell(["Cycles of vscheduler:", "", *tables.cycles(runs), ""])


def arguments() -> argparse.ArgumentParser:
    """What can be asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Schedulers side by side on the sandbox; docs/benchmarks.md explains it.",
    )
    add = parser.add_argument
    add("shapes", nargs="*", type=Shape.read, help="NODESxGANGSxSIZE[@RATE|+DEVICES|/RACKS]")
    add("--runs", type=int, default=RUNS, help=f"of each competitor; default {RUNS}")
    add("--only", action="append", help="part of a competitor's name; repeatable")
    add("--peer", help="a command that takes --kubeconfig: another scheduler")
    add("--peer-name", default="volcano", help="what pods name to get it; default volcano")
    add("--peer-without-groups", action="store_true", help="it knows no PodGroups")
    add("--crds", type=Path, help="a folder with the peer's own definitions")
    add("--kubelets", action="store_true", help="bound pods start, and controllers look at them")
    add("--gang-api", action="store_true", help="gangs are PodGroups of Kubernetes' own API")
    add("--rest", action="store_true", help="what each costs at rest")
    add(
        "--restart",
        nargs="?",
        type=Shape.read,
        const=steady.RESTARTED,
        metavar="NODESxGANGSxSIZE",
        help=f"how soon there is a bind after a restart; default {steady.RESTARTED}",
    )
    add("--starved", action="store_true", help="how soon starved gangs get what is theirs")
    add("--json", type=Path, default=JSON, help=f"default {JSON}")
    return parser


def chosen(given: argparse.Namespace) -> list[Competitor]:
    """The competitors that were asked for."""
    found = [
        competitors.limit(),
        competitors.kube_scheduler(),
        competitors.vscheduler(ELECTED),
    ]
    if given.peer:
        grouped = not given.peer_without_groups
        found.append(competitors.peer(given.peer, given.peer_name, grouped=grouped))
    if given.gang_api:
        found = [competitors.native(each) for each in found]
    return [
        each for each in found if not given.only or any(word in each.name for word in given.only)
    ]


def resting(competing: Sequence[Competitor]) -> list[Competitor]:
    """Those that can be at rest; vscheduler stands for election there, as it does by default."""
    return [
        competitors.vscheduler() if each.name == competitors.VSCHEDULER else each
        for each in competing
        if each.schedules
    ]


def plan(competing: Sequence[Competitor], shape: Shape, runs: int) -> Iterator[Competitor]:
    """In each round everybody once, and each time somebody else first."""
    special = shape.rate or shape.devices or shape.racks
    able = [each for each in competing if each.schedules or not special]
    if shape.racks:
        able = [competitors.near(each) for each in able]
    if shape.size == 1:
        able = [competitors.single(each) for each in able]
    for turn in range(runs):
        first = turn % len(able) if able else 0
        yield from (*able[first:], *able[:first])


def _restarts(conditions: Conditions, shape: Shape) -> Iterator[Restart]:
    both = competitors.vscheduler(ELECTED)
    election = competitors.vscheduler(name="vscheduler with leader election")
    half = competitors.vscheduler(ELECTED, "--only=scheduler", name="vscheduler --only scheduler")
    yield from steady.restarts([election, both, half], conditions, shape)


def tell_part(title: str, lines: Iterable[str]) -> None:
    """A part of the results under its title, unless it has nothing but the head of a table."""
    found = list(lines)
    if len(found) > HEAD_LINES:
        tell([f"### {title}", "", *found, ""])


def tell(lines: Iterable[str]) -> None:
    """Print lines of the results at once: whoever waits, or interrupts, has them."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def say(text: str) -> None:
    """One line on how far it is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
