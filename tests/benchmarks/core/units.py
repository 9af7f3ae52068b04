"""`python -m tests.benchmarks.core.units`: what a unit of the work budget takes, by operation.

A unit is to be about a microsecond of thread CPU. Time is that of the functions in which an
operation is counted, without the other ones that they call, on a machine that does nothing else, as
far as a fixed loop tells.
"""

import gc
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from tests.benchmarks.core import cases, clusters, hidden, rich, timing
from tests.benchmarks.core.clusters import Cluster
from tests.benchmarks.core.inflation import Inflation
from vscheduler.core import cycle
from vscheduler.core.actions import allocate
from vscheduler.core.gangs.attempt import Attempt
from vscheduler.core.gangs.solver import strategy
from vscheduler.core.gangs.solver.strategy import Proof
from vscheduler.core.placement.placement import Placement
from vscheduler.core.session.work_budget import WorkBudget
from vscheduler.model.snapshot import FRESH

CYCLES_MAX = 40
COUNTED: Mapping[str, tuple[Any, str]] = {
    "tasks": (allocate, "_place_next"),
    "plans and rows": (Placement, "_refresh"),
    "ahead": (Placement, "_look_ahead"),
    "assemblies": (Attempt, "assembled"),
    "searches": (strategy, "solve"),
    "proofs": (Proof, "find"),
}
"""The function in which operations are counted, by the operation."""
PARTS: Mapping[str, tuple[str, ...]] = {
    "plans and rows": ("plans", "rows"),
    "searches": ("searches", "proofs"),
}
"""Operations whose units are counted together, and so are their times."""
CASES: Mapping[str, Callable[[], Cluster]] = {
    "10,000 equal pods, 1,000 nodes": lambda: cases.equal(1000, 10_000),
    "2,500 different pods, 1,000 nodes": lambda: cases.different(1000, 2500),
    "1,000 pods in gangs that keep apart by host, 500 nodes": lambda: rich.apart(
        500, key=clusters.HOST
    ),
    "a large gang of 5 kinds": lambda: hidden.drawn(random.Random("hidden/5/9"), 5),
    "a large gang of 20 kinds": lambda: hidden.drawn(random.Random("hidden/20/1"), 20),
}


class Clock:
    """Microseconds and units, by operation."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.units: Counter[str] = Counter()
        self._running: list[str] = []
        self._since = 0.0

    def wrapped(self, operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is timed, without others that are."""

        def timed(*arguments: Any, **named: Any) -> Any:
            self._switch()
            self._running.append(operation)
            try:
                return function(*arguments, **named)
            finally:
                self._switch()
                self._running.pop()

        return timed

    def spend(self, spend: Callable[..., None]) -> Callable[..., None]:
        """Return a function that also counts the units of the operation."""

        def counted(budget: WorkBudget, operation: str, cost: int) -> None:
            self.units[operation] += cost
            spend(budget, operation, cost)

        return counted

    def _switch(self) -> None:
        now = time.thread_time()
        if self._running:
            self.taken[self._running[-1]] += round((now - self._since) * 1e9)
        self._since = now


@contextmanager
def watched(clock: Clock) -> Iterator[None]:
    """Count and time what is done meanwhile."""
    with ExitStack() as stack:
        for operation, (owner, name) in COUNTED.items():
            timed = clock.wrapped(operation, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, timed))
        spend = clock.spend(WorkBudget.spend)
        stack.enter_context(mock.patch.object(WorkBudget, "spend", spend))
        yield


def main() -> int:
    """Print a table for each case."""
    policy, inflated = timing.policy_of("enqueue, allocate"), Inflation()
    for name, build in CASES.items():
        cluster, clock, carried, cycles = build(), Clock(), FRESH, 0
        factors, took, spent = [], 0.0, 0
        while cycles < CYCLES_MAX:
            taken, cycles = cluster.snapshot(carried), cycles + 1
            gc.collect()
            gc.disable()
            factors.append(inflated.now())
            with watched(clock):
                began = time.thread_time()
                result = cycle.run_cycle(taken, policy, timing.BUDGET)
                took += time.thread_time() - began
            gc.enable()
            spent, carried = spent + result.spent, result.carried
            cluster.bind(result)
            if result.finished and not timing.is_searching(result):
                break
        factor = sum(factors) / len(factors)
        sys.stdout.write(
            f"{name}: {cycles} cycles, {took / factor * 1000:.0f} ms, {spent:,} units\n"
        )
        for operation in COUNTED:
            parts = PARTS.get(operation, (operation,))
            units = sum(clock.units[part] for part in parts)
            micros = sum(clock.taken[each] for each in {operation, *parts}) / 1000 / factor
            if units:
                figures = f"{units:,} | {micros:,.0f} | {micros / units:.2f}"
                sys.stdout.write(f"| {operation} | {figures} |\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
