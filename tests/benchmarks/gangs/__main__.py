"""`python -m tests.benchmarks.gangs`: how many random gangs that fit are started, beside
kube-scheduler's own gang scheduling.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox import binaries, control_plane, progress_report
from tests.benchmarks import tables
from tests.benchmarks.gangs import peer, problems
from tests.benchmarks.gangs.peer import Peer
from tests.benchmarks.gangs.problems import Gang

JSON = Path("build/bench-gangs.json")
GANGS = 150
ATTEMPTS = 3
SECONDS = 2
"""The mean time of an attempt on two busy cores, rounded up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Who started a gang."""

    half: str
    seed: int
    pods: int
    nodes: int
    vscheduler: bool
    without_search: bool
    """vscheduler, if it only places pod by pod."""
    kube_scheduler: tuple[bool, ...]
    """Attempt by attempt; none after the first success."""


def main() -> int:
    """Measure, say how far it is on stderr, and print the table."""
    given = arguments().parse_args()
    scoring = peer.PACKING if given.packing else peer.DEFAULT_SCORING
    halves = list(problems.HALVES)
    shares = [given.gangs // 2, given.gangs - given.gangs // 2]
    asked = [
        gang
        for half, share in zip(halves, shares, strict=True)
        for gang in problems.gangs(half, share)
    ]
    minutes = len(asked) * given.attempts * SECONDS / 60
    say(f"{len(asked)} gangs, up to {given.attempts} attempts: at most {minutes:.0f} minutes")
    with (
        progress_report.on_stderr() as progress,
        control_plane.start(progress=progress, with_gang_api=True) as plane,
        peer.start(plane, scoring) as kube,
    ):
        verdicts = []
        for number, gang in enumerate(asked, start=1):
            verdicts.append(judge(gang, kube, given.attempts))
            say(f"{number}/{len(asked)} {verdicts[-1]}")
    machine = tables.machine()
    lines = [
        f"kube-scheduler {binaries.KUBERNETES_VERSION}, {scoring}; {machine}.",
        "",
        *table(verdicts, given.attempts),
        "",
    ]
    sys.stdout.write("\n".join(lines))
    everything = {
        "machine": machine,
        "scoring": scoring,
        "gangs": [dataclasses.asdict(verdict) for verdict in verdicts],
    }
    tables.save(given.json, everything)
    return 0


def arguments() -> argparse.ArgumentParser:
    """What can be asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.gangs",
        description="Gangs that fit, beside kube-scheduler's; docs/benchmarks.md explains it.",
    )
    add = parser.add_argument
    add("--gangs", type=int, default=GANGS, help=f"half of each kind; default {GANGS}")
    add("--attempts", type=int, default=ATTEMPTS, help=f"of kube-scheduler; default {ATTEMPTS}")
    add("--packing", action="store_true", help="kube-scheduler prefers nodes that are fuller")
    add("--json", type=Path, default=JSON, help=f"default {JSON}")
    return parser


def judge(gang: Gang, kube: Peer, attempts: int) -> Verdict:
    """Ask both; kube-scheduler again after a refusal, with the pods in another order."""
    tried: list[bool] = []
    while len(tried) < attempts and not any(tried):
        tried.append(kube.starts(gang.world, len(tried)))
    return Verdict(
        half=gang.half,
        seed=gang.seed,
        pods=gang.world.size(),
        nodes=len(gang.world.nodes),
        vscheduler=problems.starts(gang),
        without_search=problems.starts(gang, searches=False),
        kube_scheduler=tuple(tried),
    )


def table(verdicts: Sequence[Verdict], attempts: int) -> Iterator[str]:
    """A row for each half and for all, in Markdown."""
    yield (
        f"| gangs that fit | | kube-scheduler, first attempt | in {attempts} attempts "
        "| vscheduler | vscheduler without the search |"
    )
    yield "|---" * 6 + "|"
    for half in problems.HALVES:
        if found := [verdict for verdict in verdicts if verdict.half == half]:
            yield _row(half, found)
    yield _row("all", verdicts)


def _row(name: str, verdicts: Sequence[Verdict]) -> str:
    def share(started: Iterable[bool]) -> str:
        count = sum(started)
        return f"{count} ({count / len(verdicts):.0%})"

    cells = (
        share(verdict.kube_scheduler[0] for verdict in verdicts),
        share(any(verdict.kube_scheduler) for verdict in verdicts),
        share(verdict.vscheduler for verdict in verdicts),
        share(verdict.without_search for verdict in verdicts),
    )
    return f"| {name} | {len(verdicts)} | {' | '.join(cells)} |"


def say(text: str) -> None:
    """One line on how far it is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
