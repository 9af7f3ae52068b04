"""The order of tests that several processes share, so that few control planes are started.

Each process starts the control planes that its tests ask for, and keeps them to its end: a start
costs 5 to 10 CPU seconds, and 100 s at rest cost 3. With `--dist=worksteal`, xdist gives each
process as many tests as the others, in their order; who has none left gets half of what another has
left, from its end. So tests on control planes come first in the shares of half of the processes.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import TypeVar

Test = TypeVar("Test")


def ordered(
    tests: Sequence[Test], processes: int, company: Callable[[Test], str | None]
) -> list[Test]:
    """The same tests: those that have company first, in half of the shares, and with it.

    Otherwise they keep their order. Who has the same company stays together.
    """
    groups: dict[str, list[Test]] = {}
    others: list[Test] = []
    for test in tests:
        name = company(test)
        (others if name is None else groups.setdefault(name, [])).append(test)
    lanes: list[list[list[Test]]] = [[] for _ in range(max(1, processes // 2))]
    for group in groups.values():
        min(lanes, key=len).append(group)
    rest = iter(others)
    found: list[Test] = []
    for lane, size in zip(lanes, shares(len(tests), processes), strict=False):
        first = list(chain.from_iterable(lane))
        found += [*first, *islice(rest, max(0, size - len(first)))]
    return [*found, *rest]


def shares(tests: int, processes: int) -> Iterable[int]:
    """How many tests xdist gives to each process at first."""
    for remaining in range(processes, 0, -1):
        yield tests // remaining
        tests -= tests // remaining
