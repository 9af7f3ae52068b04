"""Constrained fair shares: linear programs as the slow oracle, and what holds for any queues."""

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.properties import shortages
from tests.properties.shortages import Case, Oracle, Row
from vscheduler.core.shares import constrained_max_min, share_arithmetic

CASES = 1000


@pytest.mark.parametrize(
    "part", [*range(4), *(pytest.param(each, marks=pytest.mark.at_length) for each in range(4, 10))]
)
def test_linear_programs_give_the_same(part: int) -> None:
    """1,000 random cases in ten parts; every other has two resources."""
    chance = random.Random(part)
    for number in range(CASES // 10):
        cases = [shortages.drawn(chance)]
        if number % 2:
            cases.append(shortages.drawn(chance, like=cases[0]))
        found = constrained_max_min.shares(shortages.together(cases)).deserved
        for column, case in enumerate(cases):
            expected = Oracle(case).shares()
            assert np.allclose(found[:, column], expected, rtol=0, atol=20 * shortages.CLOSE), (
                f"{case}: {found[:, column].tolist()} instead of {expected}"
            )


@pytest.mark.parametrize("seed", range(6))
def test_nobody_can_have_more_at_the_cost_of_those_above_it(seed: int) -> None:
    """24 queues: what one gets beyond its share would be missing at its level or below, or above in
    what is guaranteed. That is what fair means, and it is told without filling anything.
    """
    chance = random.Random(seed)
    case = shortages.pools(chance, queues=24, kinds=8)
    case = replace(case, guarantee=tuple(min(each, 9.0) for each in case.guarantee))
    oracle = Oracle(case)
    found = constrained_max_min.shares(case.problem()).deserved[:, 0]
    kept = np.maximum(np.minimum(case.guarantee, oracle.limits), oracle.pinned)
    assert (found >= kept - shortages.CLOSE).all()
    assert (found <= oracle.limits + shortages.CLOSE).all()
    level = found / np.array(case.weights)
    short = [queue for queue in range(24) if found[queue] < oracle.limits[queue] - shortages.CLOSE]
    assert short
    for queue in short:
        below = level <= level[queue] * (1 + 1e-9)
        floors = tuple(np.where(below, np.maximum(found - shortages.CLOSE, kept), kept).tolist())
        most, _ = oracle.most(oracle.has(queue), floors, tuple(oracle.limits), {})
        assert most + oracle.pinned[queue] <= found[queue] + 24 * 2 * shortages.CLOSE, case


@pytest.mark.parametrize("seed", range(4))
def test_no_more_is_shared_out_than_there_is(seed: int) -> None:
    """200 queues: neither in all, nor of any kinds to those who can use no others."""
    chance = random.Random(seed)
    case = shortages.pools(chance, queues=200, kinds=50)
    found = constrained_max_min.shares(case.problem()).deserved[:, 0]
    beyond = found - case.pinned
    assert (beyond >= 0).all()
    assert beyond.sum() <= sum(case.supply) * (1 + 1e-9)
    assert found.sum() <= case.whole * (1 + 1e-9)
    reach, demands = np.array(case.reach, dtype=bool), np.array(case.demands)
    for _ in range(200):
        closed = np.array([chance.random() < 0.3 for _ in range(50)])
        supply = np.array(case.supply)[reach[closed].any(axis=0)].sum()
        elsewhere = demands[:, ~closed].sum(axis=1)
        assert np.maximum(beyond - elsewhere, 0).sum() <= supply * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_order_means_nothing(seed: int) -> None:
    """The same queues, domains and kinds in another order deserve the same, by the same weights."""
    chance = random.Random(seed)
    case = shortages.pools(chance, queues=30, kinds=10) if seed % 2 else shortages.drawn(chance)
    queues, domains = (chance.sample(range(n), n) for n in (len(case.weights), len(case.reach)))
    kinds = chance.sample(range(len(case.supply)), len(case.supply))
    other = Case(
        weights=tuple(case.weights[q] for q in queues),
        demands=tuple(tuple(case.demands[q][c] for c in domains) for q in queues),
        reach=tuple(tuple(case.reach[c][n] for n in kinds) for c in domains),
        supply=tuple(case.supply[n] for n in kinds),
        pinned=tuple(case.pinned[q] for q in queues),
        guarantee=tuple(case.guarantee[q] for q in queues),
        capability=tuple(case.capability[q] for q in queues),
        whole=case.whole,
    )
    one, two = (
        constrained_max_min.shares(case.problem()),
        constrained_max_min.shares(other.problem()),
    )
    assert np.allclose(one.deserved[queues], two.deserved, rtol=1e-9, atol=1e-9), case
    assert (one.weights[queues] == two.weights).all(), case
    assert (one.by_root[queues] == two.by_root).all(), case


def times(row: Row, factor: float) -> Row:
    """In other units."""
    return tuple(each * factor for each in row)


BETWEEN_LEVELS = Case(
    weights=(4, 4, 3, 3),
    demands=((3, 0, 2, 3), (2, 0, 0, 1), (1, 0, 1, 3), (0, 0, 0, 1)),
    reach=((0, 0, 1), (0, 1, 1), (0, 1, 1), (1, 1, 0)),
    supply=(0, 1, 19),
    pinned=(0, 0, 0, 0),
    guarantee=(0, 0, 0, 0),
    capability=(18, shortages.INF, shortages.INF, 7),
    whole=25,
)
"""What all want of the second kind goes to the last, at any level from 1/3 to 1/2."""


@pytest.mark.parametrize("seed", [None, *range(30)])
@pytest.mark.parametrize("factor", [2.0**33 * 1.37, 1e-3])
def test_units_mean_nothing(seed: int | None, factor: float) -> None:
    """Rounding decides nothing: neither what queues deserve, nor what limits them."""
    case = BETWEEN_LEVELS if seed is None else shortages.drawn(random.Random(seed))
    other = replace(
        case,
        demands=tuple(times(row, factor) for row in case.demands),
        supply=times(case.supply, factor),
        pinned=times(case.pinned, factor),
        guarantee=times(case.guarantee, factor),
        capability=times(case.capability, factor),
        whole=case.whole * factor,
    )
    one, two = (
        constrained_max_min.shares(case.problem()),
        constrained_max_min.shares(other.problem()),
    )
    assert np.allclose(one.deserved, two.deserved / factor, rtol=1e-9, atol=1e-9), case
    assert (one.weights == two.weights).all(), case
    assert (one.by_root == two.by_root).all(), case


@pytest.mark.parametrize("seed", range(20))
def test_weight_limits_who_has_too_little_in_its_only_domain(seed: int) -> None:
    """Others may stand above the level with what they have elsewhere, or by what is guaranteed."""
    chance = random.Random(seed)
    case = shortages.pools(chance, queues=40, kinds=8)
    single = [chance.randrange(8) for _ in case.weights]
    case = replace(
        case,
        demands=tuple(
            tuple(max(row) if c == only else 0.0 for c in range(8))
            for row, only in zip(case.demands, single, strict=True)
        ),
        pinned=tuple(0.0 for _ in case.weights),
        guarantee=tuple(0.0 for _ in case.weights),
    )
    found, weights = constrained_max_min.shares(case.problem()), np.array(case.weights)
    limits = np.minimum(np.sum(case.demands, axis=1), case.capability)
    short = found.deserved[:, 0] < limits - shortages.CLOSE
    assert short.any()
    assert not found.weights[~short].any()
    level = found.deserved[:, 0] / weights
    for queue in np.flatnonzero(short):
        alike = short & (np.abs(level - level[queue]) < shortages.CLOSE)
        with_it = [q for q in np.flatnonzero(alike) if single[q] == single[queue]]
        assert weights[with_it].sum() <= found.weights[queue, 0] <= weights[alike].sum()


def one_room(chance: random.Random) -> Case:
    """Every pod can use every node."""
    case = shortages.drawn(chance)
    return replace(
        case,
        reach=tuple(tuple(1 for _ in row) for row in case.reach),
        pinned=tuple(0.0 for _ in case.weights),
        guarantee=tuple(0.0 for _ in case.weights),
        whole=shortages.INF,
    )


@pytest.mark.parametrize("part", range(3))
def test_one_room_is_water_filling(part: int) -> None:
    """300 random cases; guarantees are at most what the first round gives."""
    chance = random.Random(part)
    for _ in range(100):
        case = one_room(chance)
        total, weights = sum(case.supply), np.array(case.weights)
        request = np.array(case.demands).sum(axis=1) if total else np.zeros_like(weights)
        limits = np.minimum(request, case.capability)
        guarantee = np.minimum(limits, total * weights / weights.sum()) * chance.choice((0, 0.7, 1))
        case = replace(case, guarantee=tuple(guarantee.tolist()))
        poured = share_arithmetic.water_fill(
            np.array([total]),
            weights,
            request[:, np.newaxis],
            np.array(case.capability)[:, np.newaxis],
            guarantee[:, np.newaxis],
        )
        assert np.allclose(
            constrained_max_min.shares(case.problem()).deserved, poured, rtol=1e-12, atol=1e-9
        )


@pytest.mark.parametrize("seed", range(50))
def test_more_nodes_take_nothing_from_anyone(seed: int) -> None:
    """In one room; where there are several, what one gains may free what others get."""
    case = one_room(random.Random(seed))
    more = replace(case, supply=tuple(each + 3 for each in case.supply))
    before, after = (constrained_max_min.shares(each.problem()).deserved for each in (case, more))
    assert (after >= before - 1e-9).all()
    assert after.sum() == pytest.approx(
        min(sum(more.supply), np.minimum(np.sum(case.demands, axis=1), case.capability).sum())
    )
