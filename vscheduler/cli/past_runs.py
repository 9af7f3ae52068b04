"""Run times of jobs of the past, from a file of history."""

import sqlite3
from pathlib import Path

from vscheduler.cli import screen
from vscheduler.history.queries import Reader
from vscheduler.history.schema import HistoryError
from vscheduler.simulator.past_runs import NO_PAST, PastRuns


def read(path: Path | None, now: float) -> PastRuns:
    """Return the run times in a file, as of now; none without a file, or if it can't be read. That
    is said: nothing but a forecast depends on them.
    """
    if path is None:
        return NO_PAST
    try:
        return Reader(path).past_runs(int(now))
    except (HistoryError, OSError, TimeoutError, sqlite3.Error) as error:
        screen.say(f"Run times of the past don't count: {path} can't be read: {error}", err=True)
        return NO_PAST
