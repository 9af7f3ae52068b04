"""SIGKILL at each write with which Jobs start whose pods name Kubernetes' own PodGroups."""

import datetime as dt
import subprocess
import sys

import pytest

STEP = 4


def adopted(*arguments: str) -> list[str]:
    """Play the rounds in a program of its own; return the writes at which a process was killed."""
    command = [sys.executable, "-m", "tests.simulation.adopted", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this program
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if "HTTP/1.1" in line]


def test_jobs_start_in_their_queues_after_some_of_the_kills() -> None:
    """Others each day; of nine or more writes."""
    today = dt.datetime.now(dt.UTC).date().toordinal()
    assert len(adopted(f"--first={today % STEP + 1}", f"--step={STEP}")) >= 9 // STEP


@pytest.mark.at_length
def test_jobs_start_in_their_queues_after_every_kill() -> None:
    """In each way: before the write leaves and after it; the API stays, or vanishes for a while."""
    lines = adopted("--long")
    for kind in ("podgroups/by-", "/status", "binding"):
        assert any(kind in line for line in lines), kind
