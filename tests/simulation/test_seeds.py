"""Runs of the whole daemon with faults: some seeds are fixed, and one changes from day to day."""

import datetime as dt
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.simulation import faults

LATE_WRITES = ("n6", "--usual", "--fault=partition", "--often=12", "--jobs=8")
FORBIDDEN = ("t1", "--usual", "--fault=deny", "--often=40", "--jobs=20", "--job-seconds=120")
FIXED = (("1",), ("ca31",), FORBIDDEN)
"""Runs that found a defect stay here, with knobs that no change of the draws turns. One of them,
late writes, runs each time."""
LONG = ("ca15", "ca17", "ca41", "ca45", "ca51", "ca53", "ca62", "la24")
"""Seeds that found a defect after more than minutes."""
SHORT = ("--hours=0.05", "--calm=420")
SMALL = ("--nodes=6", "--jobs=8")
USES: Sequence[Sequence[str]] = ((), ("--volumes",), ("--devices",))
FINDS_NOTHING = 0
FINDS_SOMETHING = 1


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a simulation in a program of its own."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this program


def digest(done: subprocess.CompletedProcess[str]) -> str:
    """The digest of a run's history."""
    return done.stdout.splitlines()[0].rpartition(" ")[2]


def passes(arguments: Sequence[str]) -> str:
    """Run, demand that nothing is found, and give the digest."""
    done = simulate(*arguments)
    assert done.returncode == FINDS_NOTHING, done.stdout[-8000:] + done.stderr[-4000:]
    return digest(done)


def test_a_fixed_seed_finds_nothing() -> None:
    """With all actors."""
    passes([*LATE_WRITES, *SHORT])


def test_the_seed_of_the_day_finds_nothing() -> None:
    """The message of a failure names the seed. Two of three days have volumes or devices."""
    today = dt.datetime.now(dt.UTC).date()
    passes([today.isoformat(), *USES[today.toordinal() % len(USES)], *SMALL, *SHORT])


def test_a_seed_gives_the_same_history_in_each_program() -> None:
    """Addresses differ from program to program, and with them the order of some sets."""
    runs = [simulate("k7", "--hours=0.003", "--calm=0") for _ in range(2)]
    assert {run.returncode for run in runs} == {FINDS_NOTHING}
    assert len({digest(run) for run in runs}) == 1


@pytest.mark.at_length
@pytest.mark.parametrize("words", FIXED, ids=lambda words: words[0])
def test_another_fixed_seed_finds_nothing(words: Sequence[str]) -> None:
    """With all actors, too."""
    passes([*words, "--podgroups=all", *SHORT])


@pytest.mark.at_length
@pytest.mark.parametrize("number", range(4))
def test_a_quarter_of_an_hour_finds_nothing(number: int) -> None:
    """An hour in all, with other seeds on each day; half of it with volumes, half with devices."""
    day = dt.datetime.now(dt.UTC).date().isoformat()
    more = [*(["--volumes"] if number % 2 else []), *(["--devices"] if number > 1 else [])]
    passes([f"{day}/{number}", "--hours=0.25", *more])


@pytest.mark.at_length
@pytest.mark.parametrize("seed", LONG)
def test_a_long_fixed_seed_finds_nothing(seed: str) -> None:
    """An hour of faults, and time enough to come to rest."""
    passes([seed, "--podgroups=all", "--hours=1", "--calm=900"])


@pytest.mark.at_length
def test_each_fault_changes_the_history() -> None:
    """Alone, and often; a fault without effect would find nothing.

    Only new tokens change no write, because the daemon reads them before the old ones are refused.
    """
    few = ["few", "--hours=0.05", "--calm=0", "--nodes=3", "--jobs=3", "--usual"]
    quiet = digest(simulate(*few, "--quiet"))
    for name in sorted(faults.KINDS.keys() - {"rotate"}):
        assert digest(simulate(*few, "--often=200", f"--fault={name}")) != quiet, name
