"""`python -m tests.oracle`: our filters before the real kube-scheduler, feature by feature.

`python -m tests.oracle gangs-ports --seed 7` judges one world again.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sandbox import control_plane, progress_report
from tests.oracle import comparing, worlds
from tests.oracle.comparing import Comparison, Verdict

FOUND = Path("build/oracle")
"""Where clusters go that both differ about."""

WORLDS = 12
"""Of each feature."""


def main() -> int:
    """Compare and print; the exit status says whether nothing unexpected showed."""
    given = arguments().parse_args()
    names = [name for feature in given.features for name in feature] or list(comparing.SUITE)
    began = time.monotonic()
    with (
        progress_report.on_stderr() as progress,
        control_plane.start(progress=progress) as plane,
        worlds.stage(plane) as stage,
    ):
        comparison = Comparison(stage=stage, folder=FOUND)
        for name in names:
            seeds = comparing.seeds(name, given.worlds)
            for seed in seeds if given.seed is None else (given.seed,):
                comparison.judge(name, seed)
            say(f"{time.monotonic() - began:.0f} s: {name}")
    say(comparing.table(comparison.found))
    whole = not given.features and given.seed is None
    return report(comparison.found, whole=whole)


def report(verdicts: Sequence[Verdict], *, whole: bool) -> int:
    """What is not as it should be."""
    unknown = comparing.unknown(verdicts)
    for line in unknown:
        say(line)
    if unknown:
        say(f"The clusters are in {FOUND}; `python -m tests.oracle FEATURE --seed N` asks again.")
    gone = comparing.gone(verdicts) if whole else []
    for name in gone:
        say(f"a difference that is in the table didn't show: {name}")
    return 1 if unknown or gone else 0


def arguments() -> argparse.ArgumentParser:
    """What can be asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.oracle",
        description="Our filters before the real kube-scheduler; docs/sandbox.md explains it.",
    )
    add = parser.add_argument
    add("features", nargs="*", type=feature, help="default: all")
    add("--worlds", type=int, default=WORLDS, help=f"of each feature; default {WORLDS}")
    add("--seed", type=int, help="only the world of this seed")
    return parser


def feature(name: str) -> list[str]:
    """One that there is, or all that begin alike: `volumes`."""
    found = [each for each in comparing.SUITE if each == name or each.startswith(f"{name}-")]
    if not found:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(comparing.SUITE)}")
    return found


def say(line: str) -> None:
    """One line that people read at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
