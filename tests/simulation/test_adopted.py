"""SIGKILL at each write with which Jobs start whose pods name Kubernetes' own PodGroups."""

import datetime as dt
import subprocess
import sys
from collections.abc import Sequence

import pytest

STEP = 4


def adopted(*arguments: str) -> list[str]:
    """Play the rounds in a program of its own; return the writes at which a process was killed."""
    command = [sys.executable, "-m", "tests.simulation.adopted", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this program
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if "HTTP/1.1" in line]


@pytest.mark.parametrize(("flags", "writes"), [((), 9), (("--tree",), 18)], ids=["jobs", "tree"])
def test_jobs_start_in_their_queues_after_some_of_the_kills(
    flags: Sequence[str], writes: int
) -> None:
    """Others each day; of so many writes or more."""
    today = dt.datetime.now(dt.UTC).date().toordinal()
    step = STEP * writes // 9
    found = adopted(*flags, f"--first={today % step + 1}", f"--step={step}")
    assert len(found) >= writes // step


@pytest.mark.at_length
@pytest.mark.parametrize("flags", [(), ("--tree",)], ids=["jobs", "tree"])
def test_jobs_start_in_their_queues_after_every_kill(flags: Sequence[str]) -> None:
    """In each way: before the write leaves and after it; the API stays, or vanishes for a while."""
    lines = adopted("--long", *flags)
    trees = ("compositepodgroups/tree HTTP", "compositepodgroups/tree/status") if flags else ()
    for kind in ("podgroups/by-", "/status", "binding", *trees):
        assert any(kind in line for line in lines), kind
