"""Offers: nodes by what it would cost to make room there, the cheapest first.

What a node costs is a lower bound once others have gone: evictions only make nodes dearer. Where
queues stand among those that may lose pods is left out of it, as that changes with each eviction,
for all nodes alike: nodes are kept apart by whose pods would go, and compared as queues stand then.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from vscheduler.core.preemption import victims

Rank = Callable[[str], victims.Rank]
"""Where a queue stands now."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node costs: who would have to go for one task."""

    cost: victims.Cost
    units: tuple[victims.Unit, ...]

    @property
    def losers(self) -> frozenset[str]:
        """The queues that would lose pods."""
        return frozenset(unit.gang.job.queue for unit in self.units)


@dataclass(frozen=True, slots=True)
class Bound:
    """The cheapest node: it costs no less than this, as queues stand now."""

    cost: victims.Cost
    row: int
    version: int
    """How many offers had been accepted when it was worked out."""


class Offers:
    """The nodes on which room could be made for tasks of one kind."""

    def __init__(self) -> None:
        self._heaps: dict[frozenset[str], list[tuple[victims.Cost, int, int]]] = {}

    def put(self, offer: Offer, row: int, version: int) -> None:
        """Another node, or one that was taken out: more may go there, for no less."""
        heapq.heappush(self._heaps.setdefault(offer.losers, []), (offer.cost, row, version))

    def cheapest(self, rank: Rank) -> Bound | None:
        """Take out the node that costs the least, the first of those that cost the same."""
        found: tuple[victims.Cost, int, int] | None = None
        heap: list[tuple[victims.Cost, int, int]] = []
        for losers, each in self._heaps.items():
            if each:
                cost, row, version = each[0]
                ranked = (ranked_cost(cost, losers, rank), row, version)
                if found is None or ranked < found:
                    found, heap = ranked, each
        if found is None:
            return None
        heapq.heappop(heap)
        return Bound(*found)


def ranked_cost(cost: victims.Cost, losers: frozenset[str], rank: Rank) -> victims.Cost:
    """The cost with where its queues stand in its place: behind how many gangs go whole, and how
    far below their shares queues end.
    """
    if not cost:
        return cost
    return (*cost[:2], max(map(rank, losers)), *cost[2:])
