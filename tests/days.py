"""The day of a run, which chooses among seeds where one run hasn't time for all.

All processes of a run agree on it: the first notes it in the environment. What fails on a day fails
again, on any other day, with `TEST_DAY=2026-01-31 pytest ...`.
"""

import datetime as dt
import os
from collections.abc import Sequence
from typing import TypeVar

VARIABLE = "TEST_DAY"
Seed = TypeVar("Seed")

at_length = False
"""Whether each run tries all; see tests/conftest.py."""


def today() -> dt.date:
    """The day of this run."""
    text = os.environ.setdefault(VARIABLE, dt.datetime.now(dt.UTC).date().isoformat())
    return dt.date.fromisoformat(text)


def share(seeds: Sequence[Seed], days: int = 2) -> Sequence[Seed]:
    """Return the seeds of today; in so many days in a row, each seed has its turn."""
    return seeds if at_length else seeds[today().toordinal() % days :: days]
