"""Processes that are killed while they write."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.history.clusters import Cluster
from tests.unit.history.written_until_killed import RUNS
from vscheduler.history.store import Limits, Store

KILLS = int(os.environ.get("HISTORY_KILLS", "6"))
"""How many processes are killed."""


def started(what: str, path: Path) -> "subprocess.Popen[str]":
    """A process that writes."""
    module = "tests.unit.history.written_until_killed"
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", module, what, str(path)], stdout=subprocess.PIPE, text=True
    )


def check(path: Path, least: int) -> int:
    """The file is whole, and has whole transactions only: all that were reported, and at most one
    more. Return how many.
    """
    with sqlite3.connect(path) as link:
        assert link.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        jobs = int(link.execute("SELECT COUNT(*) FROM jobs").fetchone()[0])
        runs = int(link.execute("SELECT COUNT(*) FROM runs").fetchone()[0])
        unended = int(link.execute("SELECT COUNT(*) FROM runs WHERE ended IS NULL").fetchone()[0])
    link.close()
    assert least <= jobs
    assert (runs, unended) == (RUNS * jobs, RUNS if jobs else 0)
    return jobs


def test_a_killed_process_loses_no_transaction_and_damages_nothing(tmp_path: Path) -> None:
    """At whatever instant; each process goes on where the one before was killed."""
    path, chance, least = tmp_path / "history.db", random.Random(7), 0
    for _ in range(KILLS):
        process = started("transactions", path)
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, "it began"
        time.sleep(chance.random() * 0.2)
        process.kill()
        last = [first, *process.stdout.read().splitlines()][-1]
        process.wait()
        process.stdout.close()
        reported = int(last) + 1
        found = check(path, max(least, reported))
        assert found <= reported + 1
        least = found


def test_a_log_that_ends_anywhere_gives_whole_transactions(tmp_path: Path) -> None:
    """As a power failure leaves it, or a disk that is full: pages that are only half there."""
    path, chance = tmp_path / "history.db", random.Random(8)
    process = started("transactions", path)
    assert process.stdout is not None
    for _ in range(40):
        process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    log = Path(f"{path}-wal").stat().st_size
    assert log > 0
    for number in range(KILLS):
        copy = tmp_path / f"copy-{number}.db"
        shutil.copy(path, copy)
        torn = Path(f"{copy}-wal")
        shutil.copy(f"{path}-wal", torn)
        os.truncate(torn, chance.randrange(log))
        Store(copy, Limits()).close()
        check(copy, 0)


@pytest.mark.parametrize("seconds", [0.7, 1.9])
def test_a_killed_daemon_loses_the_last_second_at_most(tmp_path: Path, seconds: float) -> None:
    """What came before that is there; and a turn takes far less than the half second more."""
    path = tmp_path / "history.db"
    process = started("daemon", path)
    assert process.stdout is not None
    assert process.stdout.readline()
    time.sleep(seconds)
    process.kill()
    killed = time.monotonic()
    came = dict(line.split() for line in process.stdout.read().splitlines())
    process.wait()
    process.stdout.close()
    old = [number for number, at in came.items() if float(at) < killed - 1.5]
    cluster = Cluster(path)
    cluster.begin()  # opens what is there, also if that is nothing
    with sqlite3.connect(path) as link:
        found = {str(row[0]) for row in link.execute("SELECT name FROM runs")}
    link.close()
    assert {f"p{number}" for number in old} <= found
