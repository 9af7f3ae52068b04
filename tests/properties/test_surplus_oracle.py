"""Where shares can stay: linear programs say what is possible, and whether anybody has to move."""

import random

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize

from tests.properties import shortages
from vscheduler.core.shares import constrained_max_min, surplus
from vscheduler.core.shares.constrained_max_min import SharingProblem
from vscheduler.core.shares.surplus import HeldResources

CLOSE = 1e-6
Floats = NDArray[np.float64]


def drawn(seed: int) -> tuple[SharingProblem, HeldResources]:
    """A few queues with pods on nodes that they can use, within what these have."""
    chance = random.Random(seed)
    problem = shortages.drawn(chance).problem()
    queues, domains, _ = problem.demands.shape
    left, room = problem.demands[:, :, 0].copy(), problem.supply[:, 0].copy()
    places, amounts = [], []
    for _ in range(chance.randint(0, 12)):
        queue, domain = chance.randrange(queues), chance.randrange(domains)
        kind = chance.randrange(room.size)
        if problem.reach[domain, kind]:
            amount = min(left[queue, domain], room[kind], float(chance.randint(1, 9)))
            left[queue, domain] -= amount
            room[kind] -= amount
            places.append((queue, domain, kind))
            amounts.append([amount])
    at = np.array(places, dtype=np.intp).reshape(-1, 3)
    held = HeldResources(
        queues=at[:, 0],
        domains=at[:, 1],
        kinds=at[:, 2],
        amounts=np.array(amounts, dtype=np.float64).reshape(-1, 1),
    )
    return problem, held


def feasible(problem: SharingProblem, deserved: Floats, least: Floats, most: Floats) -> bool:
    """Whether shares can flow so that each queue has between these amounts on each kind, (Q, N)."""
    queues, domains, _ = problem.demands.shape
    kinds = problem.supply.shape[0]
    shape = (queues, domains, kinds)
    size = queues * domains * kinds
    index = np.arange(size).reshape(shape)
    above, upper, equal, exact = [], [], [], []
    for queue in range(queues):
        row = np.zeros(size)
        row[index[queue].ravel()] = 1
        equal.append(row)
        exact.append(deserved[queue] - problem.pinned[queue, 0])
        for domain in range(domains):
            row = np.zeros(size)
            row[index[queue, domain]] = 1
            above.append(row)
            upper.append(problem.demands[queue, domain, 0] + CLOSE)
        for kind in range(kinds):
            row = np.zeros(size)
            row[index[queue, :, kind]] = 1
            above += [row, -row]
            upper += [most[queue, kind], -least[queue, kind]]
    for kind in range(kinds):
        row = np.zeros(size)
        row[index[:, :, kind].ravel()] = 1
        above.append(row)
        upper.append(problem.supply[kind, 0] + CLOSE)
    found = optimize.linprog(
        np.zeros(size),
        A_ub=np.array(above),
        b_ub=upper,
        A_eq=np.array(equal),
        b_eq=exact,
        bounds=[
            (0, None if problem.reach[domain, kind] else 0)
            for _ in range(queues)
            for domain in range(domains)
            for kind in range(kinds)
        ],
        method="highs",
    )
    return bool(found.status == 0)


@pytest.mark.parametrize("block", range(10))
def test_shares_stand_where_they_can_and_nobody_moves_in_vain(block: int) -> None:
    """40 cases: what is said of each queue and kind is possible for all at once; and where all that
    is held can stay, within shares, nothing of it is too much.
    """
    for seed in range(40 * block, 40 * block + 40):
        problem, held = drawn(seed)
        deserved = constrained_max_min.shares(problem).deserved
        stays = surplus.share_by_kind(problem, deserved, held)[:, :, 0]
        if np.isinf(stays).all():
            continue
        assert feasible(problem, deserved[:, 0], stays - CLOSE, stays + CLOSE), seed
        has = held.by_kind(*stays.shape)[:, :, 0]
        share = np.maximum(deserved[:, 0] - problem.pinned[:, 0], 0.0)
        within = has.sum(axis=1) <= share + CLOSE
        nobody_moves = feasible(problem, deserved[:, 0], has - CLOSE, np.full_like(has, 1e6))
        if within.all() and nobody_moves:
            assert (has <= stays + 10 * CLOSE).all(), seed


def test_a_queue_within_its_share_stands_in_the_way() -> None:
    """One holds 29 of 75 on workers, and some of its pods could use 14 more elsewhere: of its share
    of 29⅔, 15⅔ can stay on workers.
    """
    problem = SharingProblem(
        weights=np.ones(3),
        demands=np.array([[[40.0], [20.0]], [[40.0], [0.0]], [[40.0], [0.0]]]),
        reach=np.array([[True, False], [True, True]]),
        supply=np.array([[75.0], [14.0]]),
        pinned=np.zeros((3, 1)),
        guarantee=np.zeros((3, 1)),
        capability=np.full((3, 1), np.inf),
        whole=np.array([np.inf]),
    )
    held = HeldResources(
        queues=np.array([0, 1, 2]),
        domains=np.zeros(3, dtype=np.intp),
        kinds=np.zeros(3, dtype=np.intp),
        amounts=np.array([[29.0], [29.0], [17.0]]),
    )
    deserved = constrained_max_min.shares(problem).deserved
    stays = surplus.share_by_kind(problem, deserved, held)[:, :, 0]
    third = 89 / 3
    assert stays == pytest.approx(np.array([[third - 14, 14], [third, 0], [third, 0]]))
