"""Queues that want more than nodes give that not all of them can use, and a slow way to share."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from vscheduler.core.shares.constrained_max_min import SharingProblem

INF = float("inf")
CLOSE = 1e-6
"""How close a linear program comes to amounts of up to a few hundreds."""

Row = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One resource; what a failing test prints can be pasted."""

    weights: Row
    demands: tuple[Row, ...]
    reach: tuple[tuple[int, ...], ...]
    supply: Row
    pinned: Row
    guarantee: Row
    capability: Row
    whole: float = INF

    def problem(self) -> SharingProblem:
        """The same as arrays."""
        return together([self])


def together(cases: Sequence[Case]) -> SharingProblem:
    """Cases with the same queues and ways, each as a resource of one problem."""

    def columns(rows: list[Row]) -> NDArray[np.float64]:
        return np.array(rows, dtype=np.float64).T

    first = cases[0]
    return SharingProblem(
        weights=np.array(first.weights, dtype=np.float64),
        demands=np.stack([np.array(case.demands, dtype=np.float64) for case in cases], axis=2),
        reach=np.array(first.reach, dtype=np.bool_),
        supply=columns([case.supply for case in cases]),
        pinned=columns([case.pinned for case in cases]),
        guarantee=columns([case.guarantee for case in cases]),
        capability=columns([case.capability for case in cases]),
        whole=np.array([case.whole for case in cases]),
    )


def drawn(chance: random.Random, like: Case | None = None) -> Case:
    """A few queues, domains and kinds; or another resource for the same ones."""
    queues = len(like.weights) if like else chance.randint(1, 5)
    domains = len(like.reach) if like else chance.randint(1, 4)
    kinds = len(like.reach[0]) if like else chance.randint(1, 4)
    dense = chance.choice((0.3, 0.5, 0.9))
    most = chance.choice((3, 12, 60))

    def row(size: int, top: int, often: float) -> Row:
        return tuple(
            float(chance.randint(0, top)) if chance.random() < often else 0.0 for _ in range(size)
        )

    def limit(often: float, top: int) -> float:
        return float(chance.randint(0, top)) if chance.random() < often else INF

    some = chance.choice((0.0, 0.0, 0.5))
    capped = chance.choice((0.0, 0.4))
    return Case(
        weights=like.weights if like else tuple(float(chance.randint(1, 4)) for _ in range(queues)),
        demands=tuple(row(domains, most, 0.8) for _ in range(queues)),
        reach=like.reach
        if like
        else tuple(
            tuple(int(chance.random() < dense) for _ in range(kinds)) for _ in range(domains)
        ),
        supply=row(kinds, 20, 0.9),
        pinned=row(queues, 5, chance.choice((0.0, 0.4))),
        guarantee=row(queues, 15, some),
        capability=tuple(limit(capped, 30) for _ in range(queues)),
        whole=limit(0.3, 50),
    )


def pools(chance: random.Random, queues: int, kinds: int) -> Case:
    """Each kind of nodes has a domain, some reach all kinds; queues use three of them."""
    domains = range(kinds)
    joined = [chance.random() < 0.1 for _ in domains]
    demands = []
    for _ in range(queues):
        uses = chance.sample(domains, 3)
        demands.append(tuple(float(chance.randint(5, 90)) if c in uses else 0.0 for c in domains))
    limited = [chance.random() < 0.3 for _ in range(queues)]
    return Case(
        weights=tuple(float(chance.randint(1, 4)) for _ in range(queues)),
        demands=tuple(demands),
        reach=tuple(tuple(int(joined[c] or n == c) for n in domains) for c in domains),
        supply=tuple(float(chance.randint(20, 200)) for _ in domains),
        pinned=tuple(float(chance.randint(0, 5)) for _ in range(queues)),
        guarantee=tuple(float(chance.choice((0, 0, 9, 30))) for _ in range(queues)),
        capability=tuple(float(chance.randint(30, 120)) if each else INF for each in limited),
        whole=chance.choice((INF, 12.0 * queues)),
    )


class Oracle:
    """Progressive filling, each step of which is a linear program over a flow."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.queues = len(case.weights)
        self.reach = np.array(case.reach, dtype=np.float64)
        demands = np.array(case.demands, dtype=np.float64)
        usable = self.reach @ np.array(case.supply) > 0
        self.demands = demands * usable
        self.pinned = np.array(case.pinned)
        asked = self.pinned + self.demands.sum(axis=1)
        self.limits = np.maximum(np.minimum(asked, case.capability), self.pinned)
        self.whole = max(case.whole, float(self.pinned.sum()))
        self.matrix, self.bounds, self.upper = self._flow()

    def _flow(self) -> tuple[NDArray[np.float64], list[tuple[float, float | None]], Row]:
        """Columns: what queues have beyond what is pinned by domain, then domains by kind, then t.

        Rows that must not be above `upper`: what domains lack, what kinds lack, the whole.
        """
        queues, domains, kinds = self.queues, *self.reach.shape
        claims, links = queues * domains, domains * kinds
        matrix = np.zeros((domains + kinds + 1, claims + links + 1))
        for domain in range(domains):
            matrix[domain, domain:claims:domains] = 1.0
            matrix[domain, claims + domain * kinds : claims + (domain + 1) * kinds] = -1.0
        for kind in range(kinds):
            matrix[domains + kind, claims + kind : claims + links : kinds] = 1.0
        matrix[-1, :claims] = 1.0
        bounds: list[tuple[float, float | None]] = [(0.0, each) for each in self.demands.ravel()]
        bounds += [(0.0, None if each else 0.0) for each in self.reach.ravel()]
        left = min(self.whole - float(self.pinned.sum()), 1e6)
        return matrix, bounds, (*[0.0] * domains, *self.case.supply, left)

    def has(self, queue: int) -> NDArray[np.float64]:
        """The columns that add up to what a queue has beyond what is pinned."""
        row = np.zeros(self.matrix.shape[1])
        row[queue * len(self.reach) : (queue + 1) * len(self.reach)] = 1.0
        return row

    def most(
        self, goal: NDArray[np.float64], floors: Row, limits: Row, by_level: dict[int, float]
    ) -> tuple[float, NDArray[np.float64]]:
        """The largest value of the goal, and what queues have then; t is the last column."""
        rows, upper = [], []
        for queue in range(self.queues):
            rows += [-self.has(queue), self.has(queue)]
            upper += [self.pinned[queue] - floors[queue], limits[queue] - self.pinned[queue]]
            if queue in by_level:
                row = -self.has(queue)
                row[-1] = by_level[queue]
                rows.append(row)
                upper.append(self.pinned[queue])
        found = optimize.linprog(
            -goal,
            A_ub=np.vstack([self.matrix, *rows]),
            b_ub=[*self.upper, *(max(each, 0.0) if abs(each) < 1e-9 else each for each in upper)],
            bounds=[*self.bounds, (0.0, None)],
            method="highs",
        )
        assert found.x is not None, (found.message, self.case)
        assert found.fun is not None
        have = np.array([self.has(queue) @ found.x for queue in range(self.queues)]) + self.pinned
        return -float(found.fun), have

    def fill(self, weights: Sequence[float], floors: Row, limits: Row) -> Row:
        """Raise all by weight; who can't have more stays as it is.

        Who has more when all together have the most can have more; the others are asked singly.
        """
        lowest = list(floors)
        rising = {q: weights[q] for q in range(self.queues) if limits[q] > floors[q] + 1e-9}
        level = np.zeros(self.matrix.shape[1])
        level[-1] = 1.0
        while rising:
            top = min(limits[q] / weights[q] for q in rising)
            reached, _ = self.most(level, tuple(lowest), limits, rising)
            reached = min(reached, top)
            for queue, weight in rising.items():
                lowest[queue] = max(lowest[queue], reached * weight - 1e-9)
            all_of_them = np.sum([self.has(queue) for queue in rising], axis=0)
            _, have = self.most(all_of_them, tuple(lowest), limits, {})
            stays = [
                queue
                for queue in rising
                if have[queue] <= lowest[queue] + CLOSE and not self.grows(queue, lowest, limits)
            ]
            assert stays, self.case
            for queue in stays:
                del rising[queue]
        return tuple(lowest)

    def grows(self, queue: int, lowest: list[float], limits: Row) -> bool:
        """Whether it can have more while nobody has less."""
        if limits[queue] <= lowest[queue] + CLOSE:
            return False
        found, _ = self.most(self.has(queue), tuple(lowest), limits, {})
        return bool(found + self.pinned[queue] > lowest[queue] + CLOSE)

    def shares(self) -> Row:
        """What each queue deserves."""
        floors = np.maximum(np.minimum(self.case.guarantee, self.limits), self.pinned)
        kept = self.fill([floor or 1.0 for floor in floors], tuple(self.pinned), tuple(floors))
        return self.fill(self.case.weights, kept, tuple(self.limits))
