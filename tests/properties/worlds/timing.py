"""Timing: what cycles take with the search for whole gangs, and without it.

Both are measured on the same snapshots, one right after the other, so that a busy machine slows
both down. Worlds go on with what the cycle with the search has decided.
"""

import cProfile
import gc
import itertools
import time
from unittest import mock

import numpy as np

from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.core.session.carried import GangSearches
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import Snapshot

PERCENTILES = (50, 90, 99, 99.9)


class Stopwatch:
    """Runs each cycle with the search and without it, and notes what both take."""

    def __init__(self, rounds: int, *, calls: bool) -> None:
        """Measure thread CPU, of which the least of so many `rounds` counts, or count `calls`."""
        self._rounds, self._calls = rounds, calls
        self._pairs: list[tuple[float, float]] = []
        """Seconds or calls without the search, and with it."""

    def run(self, taken: Snapshot, policy: Policy) -> CycleResult:
        """Run the cycle as it is, and return the result."""
        result = cycle.run_cycle(taken, policy)  # what is worked out only once isn't measured
        taking: dict[bool, list[float]] = {False: [], True: []}
        for turn, searching in itertools.product(range(self._rounds), taking):
            # The second is often faster, so they take turns.
            searches = searching is not bool((len(self._pairs) + turn) % 2)
            taking[searches].append(_taken(taken, policy, searches=searches, calls=self._calls))
        self._pairs.append((min(taking[False]), min(taking[True])))
        return result

    def __str__(self) -> str:
        unit = "thousands of calls in" if self._calls else "thread CPU of"
        table = np.array(self._pairs) * (1 / 1000 if self._calls else 1000)
        rows = [(f"p{each}", *np.percentile(table, each, axis=0)) for each in PERCENTILES]
        rows.append((f"mean of {len(table)}", *table.mean(axis=0)))
        lines = [
            f"| {unit} a cycle{'' if self._calls else ', ms'} | without the search | with it | |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {name} | {without:.1f} | {searching:.1f} | {searching / without - 1:+.0%} |"
            for name, without, searching in rows
        ]
        return "\n".join(lines)


def _taken(taken: Snapshot, policy: Policy, *, searches: bool, calls: bool) -> float:
    """Return the seconds of a cycle, or the calls, which are the same on any machine."""
    allow = GangSearches.allow
    steps = allow if searches else lambda memory, _: allow(memory, 0)
    with mock.patch.object(GangSearches, "allow", steps):
        if calls:
            profile = cProfile.Profile()
            profile.runcall(cycle.run_cycle, taken, policy)
            return sum(entry.callcount for entry in profile.getstats())
        gc.disable()
        began = time.thread_time()
        cycle.run_cycle(taken, policy)
        took = time.thread_time() - began
        gc.enable()
    return took
