"""Sub-groups in the search for gangs, and what its fingerprint depends on."""

import itertools
import random

import numpy as np
import pytest
from msgspec.structs import replace

from vscheduler.core.gangs.solver import strategy
from vscheduler.core.gangs.solver.bounds import QueueRoom
from vscheduler.core.gangs.solver.problem import (
    Apart,
    EqualPods,
    Found,
    Pool,
    Problem,
    Requirement,
    SubGroups,
)

TIMES = 300


def drawn(chance: random.Random) -> tuple[Problem, bool]:
    """Draw sub-groups of unequal pods, and whether enough of them fit, by trying all."""
    nodes = [chance.randint(2, 6) for _ in range(chance.randint(1, 3))]
    groups = [[chance.randint(1, 4) for _ in range(2)] for _ in range(chance.randint(2, 3))]
    whole = chance.randint(1, len(groups))
    kinds = [
        EqualPods(
            count=1,
            request=np.array([size, 1]),
            usable=np.ones(len(nodes), dtype=np.bool_),
            scores=np.zeros(len(nodes)),
        )
        for size in itertools.chain.from_iterable(groups)
    ]
    wanted = tuple(
        Requirement(kinds=(2 * number, 2 * number + 1), least=2) for number in range(len(groups))
    )
    given = Problem(
        kinds=tuple(kinds),
        free=np.array([[cores, 9] for cores in nodes]),
        requirements=(Requirement(kinds=tuple(range(len(kinds))), least=1),),
        sub_groups=(SubGroups(groups=wanted, whole=whole),),
    )
    fits = any(
        _fit([*itertools.chain.from_iterable(chosen)], nodes)
        for chosen in itertools.combinations(groups, whole)
    )
    return given, fits


def _fit(sizes: list[int], nodes: list[int]) -> bool:
    return any(
        all(
            sum(size for size, at in zip(sizes, rows, strict=True) if at == row) <= cores
            for row, cores in enumerate(nodes)
        )
        for rows in itertools.product(range(len(nodes)), repeat=len(sizes))
    )


def test_enough_sub_groups_are_whole_and_none_is_broken() -> None:
    """Whatever fits is found, and no pod is placed of a sub-group that isn't whole."""
    for number in range(TIMES):
        given, fits = drawn(random.Random(f"sub-groups/{number}"))
        answer = strategy.solve(given, None).answer
        assert isinstance(answer, Found) == fits, given
        if isinstance(answer, Found):
            placed = {kind for kind, _ in answer.places}
            (policy,) = given.sub_groups
            have = [len(placed & set(group.kinds)) for group in policy.groups]
            assert set(have) <= {0, 2}
            assert have.count(2) >= policy.whole


KIND = EqualPods(
    count=2,
    request=np.array([1, 1]),
    usable=np.ones(2, dtype=np.bool_),
    scores=np.zeros(2),
)
GIVEN = Problem(
    kinds=(KIND,),
    free=np.array([[2, 9], [2, 9]]),
    requirements=(Requirement(kinds=(0,), least=1),),
)
OTHERS = {
    "free": replace(GIVEN, free=np.array([[2, 9], [3, 9]])),
    "count": replace(GIVEN, kinds=(replace(KIND, count=3),)),
    "request": replace(GIVEN, kinds=(replace(KIND, request=np.array([2, 1])),)),
    "usable": replace(GIVEN, kinds=(replace(KIND, usable=np.array([True, False])),)),
    "reserved": replace(GIVEN, kinds=(replace(KIND, reserved=np.array([[1, 0], [0, 0]])),)),
    "least": replace(GIVEN, requirements=(Requirement(kinds=(0,), least=2),)),
    "queue": replace(GIVEN, queue_room=np.array([1, 9])),
    "pools": replace(GIVEN, pools=(Pool(rows=np.array([True, False]), room=np.array([1, 9])),)),
    "apart": replace(GIVEN, apart=(Apart(codes=np.array([0, 1]), pairs=np.array([[True]])),)),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_search_is_only_known_for_the_same_problem(other: Problem) -> None:
    """Scores don't matter, all else does."""
    assert other.key() != GIVEN.key()
    scored = replace(GIVEN, kinds=(replace(KIND, scores=np.ones(2)),))
    assert scored.key() == GIVEN.key()


def test_a_queue_above_a_limit_may_have_pods_that_ask_for_other_things() -> None:
    """It has more of the second resource than it may have."""
    for request, takes in (([1, 0], True), ([1, 1], False)):
        kind = replace(KIND, request=np.array(request))
        given = replace(GIVEN, kinds=(kind,), queue_room=np.array([2, -1]))
        room = QueueRoom(given)
        assert room.takes(np.array([0]), np.array([2])) is takes
