from collections.abc import Sequence

import numpy as np
import pytest

from vscheduler.core.shares import constrained_max_min
from vscheduler.core.shares.constrained_max_min import ResourceArray, Shares, SharingProblem

INF = np.inf

Table = Sequence[Sequence[float]]
Row = Sequence[float]


def problem(
    demands: Table,
    reach: Sequence[str],
    supply: Row,
    **others: Row | float,
) -> SharingProblem:
    """One resource; `reach` has a row for each domain, "x" where it has a kind."""
    queues = len(demands)

    def column(name: str, usual: float) -> ResourceArray:
        return np.array(others.get(name, [usual] * queues), dtype=np.float64).reshape(queues, 1)

    return SharingProblem(
        weights=column("weights", 1.0)[:, 0],
        demands=np.array(demands, dtype=np.float64).reshape(queues, len(reach), 1),
        reach=np.array([mark == "x" for mark in "".join(reach)], dtype=np.bool_).reshape(
            len(reach), len(supply)
        ),
        supply=np.array(supply, dtype=np.float64)[:, np.newaxis],
        pinned=column("pinned", 0.0),
        guarantee=column("guarantee", 0.0),
        capability=column("capability", INF),
        whole=np.array([others.get("whole", INF)], dtype=np.float64),
    )


def deserved(found: Shares) -> list[float]:
    """Of the one resource."""
    amounts: list[float] = found.deserved[:, 0].tolist()
    return amounts


def weights(found: Shares) -> list[float]:
    """Of the one resource."""
    amounts: list[float] = found.weights[:, 0].tolist()
    return amounts


ONE_ROOM: dict[str, tuple[Table, dict[str, Row], Row, Row]] = {
    "by weight, up to the request": (
        [[2], [20], [20]],
        {"weights": [1, 3, 1]},
        [2, 6, 2],
        [0, 4, 4],
    ),
    "what one leaves is shared by weight": (
        [[1], [20], [20]],
        {"weights": [1, 3, 1]},
        [1, 6.75, 2.25],
        [0, 4, 4],
    ),
    "what is kept for a guarantee is asked for": (
        [[4], [20]],
        {"guarantee": [4, 0]},
        [4, 6],
        [0, 1],
    ),
    "a guarantee lifts above the level": (
        [[20], [20], [20]],
        {"guarantee": [6, 0, 0]},
        [6, 2, 2],
        [0, 2, 2],
    ),
    "a guarantee counts up to the request": ([[1], [20]], {"guarantee": [4, 0]}, [1, 9], [0, 1]),
    "guarantees that can't all be kept are kept in part": (
        [[20], [20], [20]],
        {"guarantee": [12, 8, 0]},
        [6, 4, 0],
        [0, 0, 1],
    ),
    "nobody has more than it may": ([[20], [20]], {"capability": [2, INF]}, [2, 8], [0, 1]),
    "a capability below what is pinned takes nothing away": (
        [[20], [20]],
        {"capability": [2, INF], "pinned": [3, 0]},
        [3, 10],
        [0, 1],
    ),
    "what is pinned counts": ([[20], [20]], {"pinned": [4, 0]}, [7, 7], [2, 2]),
    "more may be pinned than anyone else gets": (
        [[20], [20], [20]],
        {"pinned": [8, 0, 0]},
        [8, 5, 5],
        [0, 2, 2],
    ),
    "enough for all": ([[2], [3]], {}, [2, 3], [0, 0]),
    "just enough for all": ([[4], [6]], {}, [4, 6], [0, 0]),
    "nobody asks": ([[0], [0]], {}, [0, 0], [0, 0]),
    "one alone has all": ([[20]], {"weights": [3]}, [10], [3]),
}


@pytest.mark.parametrize("name", ONE_ROOM)
def test_one_room(name: str) -> None:
    """Where every pod can use every node, ten in all, weights and limits decide."""
    demands, others, expected, by_weight = ONE_ROOM[name]
    found = constrained_max_min.shares(problem(demands, ["xx"], [7, 3], **others))
    assert deserved(found) == expected
    assert weights(found) == by_weight
    assert not found.by_root.any()


def test_what_nobody_can_use_is_not_shared_out() -> None:
    """Three tenants, 75 CPU on workers, 14.5 on a node that none of their pods tolerates."""
    found = constrained_max_min.shares(problem([[40000]] * 3, ["x."], [75000, 14500]))
    assert deserved(found) == [25000, 25000, 25000]
    assert weights(found) == [3, 3, 3]


ROOMS: dict[str, tuple[Table, Sequence[str], Row, Row, Row]] = {
    "two pools are two rooms": (
        [[9, 0], [9, 0], [0, 9], [0, 1]],
        ["x.", ".x"],
        [6, 6],
        [3, 3, 5, 1],
        [2, 2, 1, 0],
    ),
    "pools at the same level are two rooms still": (
        [[9, 0], [9, 0], [0, 9], [0, 9]],
        ["x.", ".x"],
        [6, 6],
        [3, 3, 3, 3],
        [2, 2, 2, 2],
    ),
    "who can go elsewhere leaves the pool to others": (
        [[9, 0], [0, 9]],
        ["x.", "xx"],
        [4, 8],
        [4, 8],
        [1, 1],
    ),
    "who can go elsewhere takes what is over": (
        [[9, 0], [0, 20]],
        ["x.", "xx"],
        [8, 4],
        [6, 6],
        [2, 2],
    ),
    "a queue with pods in two pools joins them": (
        [[9, 0], [9, 9], [0, 9]],
        ["x.", ".x"],
        [6, 6],
        [4, 4, 4],
        [3, 3, 3],
    ),
    "what it has alone doesn't count below the level, nor what it can't use above": (
        [[9, 0], [9, 7], [0, 0]],
        ["x.", ".x"],
        [6, 9],
        [6, 7, 0],
        [1, 0, 0],
    ),
    "a chain of pools evens out": (
        [[9, 0, 0], [9, 9, 0], [0, 9, 9]],
        ["x..", ".x.", "..x"],
        [2, 4, 6],
        [2, 4, 6],
        [1, 1, 1],
    ),
    "pods that can go nowhere get nothing": ([[9, 0], [0, 9]], ["x", "."], [6], [6, 0], [1, 0]),
    "nor do they where a kind is empty": ([[9, 0], [0, 9]], ["x.", ".x"], [6, 0], [6, 0], [1, 0]),
    "domains that are alike are one": (
        [[9, 0], [0, 9]],
        ["x.x", "x.x"],
        [4, 5, 2],
        [3, 3],
        [2, 2],
    ),
    "there are no nodes": ([[9], [9]], [""], [], [0, 0], [0, 0]),
    "there are no jobs": ([[], []], [], [4, 4], [0, 0], [0, 0]),
}


@pytest.mark.parametrize("name", ROOMS)
def test_rooms(name: str) -> None:
    """What lies between queues that share nothing doesn't even out; all else does."""
    demands, reach, supply, expected, by_weight = ROOMS[name]
    found = constrained_max_min.shares(problem(demands, reach, supply))
    assert deserved(found) == pytest.approx(expected, rel=1e-12)
    assert weights(found) == by_weight


def test_guarantees_are_cut_only_where_room_is_short() -> None:
    """Two queues are promised 12 of 6 in one pool; a third gets what it is promised in another."""
    case = problem(
        [[20, 0], [20, 0], [0, 20], [0, 20]],
        ["x.", ".x"],
        [6, 8],
        guarantee=[8, 4, 6, 0],
    )
    assert deserved(constrained_max_min.shares(case)) == pytest.approx([4, 2, 6, 2], rel=1e-12)


ROOT = {
    "root's capability caps the sum": (3, [1, 1, 1], [3, 3, 3], [True, True, True]),
    "it leaves alone what nodes don't give": (100, [2, 9, 9], [1, 2, 2], [False, False, False]),
    "it binds those above": (12, [2, 5, 5], [1, 2, 2], [False, True, True]),
    "just what nodes give is no limit": (20, [2, 9, 9], [1, 2, 2], [False, False, False]),
    "none at all": (0, [0, 0, 0], [3, 3, 3], [True, True, True]),
}


@pytest.mark.parametrize("name", ROOT)
def test_root(name: str) -> None:
    """A pool of 2 for the first queue, one of 18 for two others; all three want 20."""
    whole, expected, by_weight, by_root = ROOT[name]
    case = problem([[20, 0], [0, 20], [0, 20]], ["x.", ".x"], [2, 18], whole=whole)
    found = constrained_max_min.shares(case)
    assert deserved(found) == pytest.approx(expected)
    assert weights(found) == by_weight
    assert found.by_root[:, 0].tolist() == by_root


def test_root_never_takes_what_is_pinned() -> None:
    """Root's capability is lower than what queues hold where nothing more is to be had."""
    found = constrained_max_min.shares(problem([[9], [9]], ["x"], [10], pinned=[4, 2], whole=5))
    assert deserved(found) == [4, 2]
    assert found.by_root[:, 0].tolist() == [True, True]
    found = constrained_max_min.shares(problem([[0], [0]], ["x"], [10], pinned=[4, 2], whole=5))
    assert deserved(found) == [4, 2]
    assert found.by_root[:, 0].tolist() == [False, False]


def test_guarantees_share_what_root_has() -> None:
    """Root's capability is half of what is guaranteed: each keeps half."""
    found = constrained_max_min.shares(
        problem([[9], [9], [9]], ["x"], [27], guarantee=[6, 2, 0], whole=4)
    )
    assert deserved(found) == [3, 1, 0]


def test_resources_are_shared_out_each_by_itself() -> None:
    """CPU by who can use what, memory by root's capability, and a third that nobody asks for."""
    case = SharingProblem(
        weights=np.array([1.0, 1.0]),
        demands=np.array([[[8, 8, 0], [0, 0, 0]], [[0, 8, 0], [8, 0, 0]]], dtype=np.float64),
        reach=np.array([[True, False], [True, True]]),
        supply=np.array([[4, 8, 3], [4, 8, 3]], dtype=np.float64),
        pinned=np.zeros((2, 3)),
        guarantee=np.zeros((2, 3)),
        capability=np.full((2, 3), INF),
        whole=np.array([INF, 6, INF]),
    )
    found = constrained_max_min.shares(case)
    assert found.deserved.tolist() == [[4, 3, 0], [4, 3, 0]]
    assert found.weights.tolist() == [[2, 2, 0], [2, 2, 0]]
    assert found.by_root.tolist() == [[False, True, False], [False, True, False]]


def test_bytes_of_large_clusters_stay_whole() -> None:
    """A level in a cut room is made of the given amounts, not of what was left by flows."""
    gib = 2.0**30
    case = problem(
        [[4e6 * gib, 0], [4e6 * gib, 4e6 * gib], [0, 4e6 * gib], [0, 512 * gib]],
        ["xx.", "..x"],
        [1000 * gib, 500 * gib, 3_000_512 * gib],
    )
    assert deserved(constrained_max_min.shares(case)) == [
        1500 * gib,
        1_500_000 * gib,
        1_500_000 * gib,
        512 * gib,
    ]


def test_guarantees_of_very_different_size() -> None:
    """One byte is promised beside twice what there is: it is too little to be told from nothing."""
    most = 2.0**53
    case = problem(
        [[most, 0], [most, most], [0, most], [most, most]],
        ["x.", ".x"],
        [most / 4, most / 4],
        guarantee=[1, most, most, 0],
    )
    assert deserved(constrained_max_min.shares(case)) == pytest.approx(
        [0.25, most / 4, most / 4, 0], abs=1
    )


def test_what_is_asked_for_beyond_measure_does_no_harm() -> None:
    """A queue that asks for a thousand million times of all there is."""
    found = constrained_max_min.shares(
        problem([[1e13, 0], [5e3, 1e3], [1e3, 1e3]], ["x.", ".x"], [9e3, 1e3])
    )
    assert deserved(found) == [4e3, 4e3, 2e3]
    assert weights(found) == [2, 2, 0]


def test_queues_that_all_get_what_they_want_need_no_flow() -> None:
    """Whatever is found without a flow, a flow finds as well, to the last bit."""
    chance = np.random.default_rng(7)
    found = apart = 0
    for _ in range(600):
        queues, domains, kinds, size = (int(integer) for integer in chance.integers(1, 4, 4))
        reach = chance.random((domains, kinds)) < chance.choice([0.7, 1.0, 1.0])
        shape = (queues, domains, size)
        demands = chance.integers(0, 9, shape) * (chance.random(shape) < 0.7)
        supply = chance.integers(0, 30, (kinds, size)) * (chance.random((kinds, size)) < 0.9)
        pinned = chance.integers(0, 3, (queues, size)) * (chance.random() < 0.3)
        capability = chance.choice([1.0, 10.0, INF, INF, INF], (queues, size))
        guarantee = chance.integers(0, 5, (queues, size)) * (chance.random() < 0.1)
        case = SharingProblem(
            weights=chance.integers(1, 5, queues).astype(np.float64),
            demands=demands.astype(np.float64),
            reach=reach,
            supply=supply.astype(np.float64),
            pinned=pinned.astype(np.float64),
            guarantee=np.minimum(guarantee, capability),
            capability=capability,
            whole=chance.choice([20.0, INF, INF], size),
        )
        shares = constrained_max_min.without_flow(case)
        if shares is not None:
            found += 1
            apart += bool((reach != reach[0]).any())
            flow = constrained_max_min.shares_by_flow(case)
            assert (shares.deserved == flow.deserved).all()
            assert (shares.weights == flow.weights).all()
            assert (shares.by_root == flow.by_root).all()
    assert found > 60
    assert apart > 10
