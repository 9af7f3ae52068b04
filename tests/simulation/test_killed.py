"""SIGKILL at each write with which a gang with claims starts: its successor ends the work."""

import datetime as dt
import subprocess
import sys
from collections.abc import Sequence

import pytest

STEP = 4
LONG = ("--long", "--size=4"), ("--long", "--size=3", "--volumes")


def killed(*arguments: str) -> list[str]:
    """Play the rounds in a program of its own; return the writes at which a process was killed."""
    command = [sys.executable, "-m", "tests.simulation.killed", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this program
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if "HTTP/1.1" in line]


def test_a_killed_daemon_has_a_successor_at_some_of_the_writes() -> None:
    """Others each day, and on every other day with volumes: a quarter of twelve or more."""
    today = dt.datetime.now(dt.UTC).date().toordinal()
    volumes = ["--volumes"] if today % 2 else []
    lines = killed(f"--first={today // 2 % STEP + 1}", f"--step={STEP}", *volumes)
    assert len(lines) >= 12 // STEP


@pytest.mark.at_length
@pytest.mark.parametrize("arguments", LONG, ids=["devices", "devices and volumes"])
def test_a_killed_daemon_has_a_successor_at_every_write(arguments: Sequence[str]) -> None:
    """In each way: before the write leaves and after it; the gang starts, or is deleted."""
    lines = killed(*arguments)
    kinds = ["resourceclaims", "binding", "podgroups"]
    kinds += ["persistentvolume"] if "--volumes" in arguments else []
    for kind in kinds:
        assert any(kind in line for line in lines), kind
