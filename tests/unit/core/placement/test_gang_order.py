"""The kinds of pods with one of which any solution can begin."""

import numpy as np
import pytest

from vscheduler.core.gangs.solver.depth_first import Order
from vscheduler.core.gangs.solver.problem import (
    EqualPods,
    Flags,
    Near,
    Problem,
    Requirement,
    Spread,
)

SIZE = 4
NODES = 2


def flags(*kinds: int) -> Flags:
    """Flags of some kinds."""
    return np.isin(np.arange(SIZE), kinds)


def near(kind: int, *others: int) -> Near:
    """Required affinity, of which nothing is placed yet."""
    return Near(
        kind=kind,
        codes=(np.arange(NODES),),
        present=(np.zeros(NODES + 1, dtype=np.int64),),
        counted=flags(*others),
        first_anywhere=kind in others,
    )


def spread(kind: int, *counted: int) -> Spread:
    """A topology spread constraint by node."""
    return Spread(
        kind=kind,
        codes=np.arange(NODES),
        eligible=np.ones(NODES, dtype=np.bool_),
        present=np.zeros(NODES + 1, dtype=np.int64),
        domains=np.arange(NODES),
        few=False,
        counted=flags(*counted),
        counts_itself=kind in counted,
        max_skew=1,
    )


CASES = {
    "no rules": ((), (), [0]),
    "near pods that come first": ((near(0, 1),), (), [1]),
    "near pods that wait for others": ((near(0, 1), near(1, 2)), (), [2]),
    "near pods of which none are left": ((near(0, 3),), (), [0]),
    "near each other": ((near(0, 1), near(1, 0)), (), [0, 1]),
    "near each other, near a third one": ((near(0, 1), near(1, 0), near(1, 2)), (), [2]),
    "near itself": ((near(0, 0),), (), [0]),
    "near itself and another": ((near(0, 0, 1),), (), [0, 1]),
    "another one is near": ((near(1, 0),), (), [0]),
    "spread by itself": ((), (spread(0, 0),), [0]),
    "spread together with another": ((), (spread(0, 0, 2),), [0, 2]),
    "counted by another": ((), (spread(2, 0, 2),), [0, 2]),
    "near a spread one": ((near(0, 1),), (spread(1, 1, 2),), [1, 2]),
}


@pytest.mark.parametrize("case", CASES)
def test_first_come_the_pods_for_which_others_wait(case: str) -> None:
    """Of kinds 0, 1 and 2, of which 0 is the scarcest, some pods come first; 3 has none left."""
    rules, spreads, expected = CASES[case]
    found = Order(gang(rules, spreads))
    anywhere = [rule.first_anywhere for rule in rules]
    assert found.first_of(np.arange(3), anywhere).tolist() == expected


def test_once_a_pod_is_there_its_followers_can_only_be_helped() -> None:
    """The first pod of a kind that is near itself and another may go anywhere, the others not."""
    found = Order(gang((near(0, 0, 1),), ()))
    assert found.first_of(np.arange(3), [True]).tolist() == [0, 1]
    assert found.first_of(np.arange(3), [False]).tolist() == [1]
    assert found.first_of(np.array([0, 2]), [False]).tolist() == [0]


def gang(rules: tuple[Near, ...], spreads: tuple[Spread, ...]) -> Problem:
    """Four kinds of pods with these rules."""
    kind = EqualPods(
        count=1, request=np.array([1]), usable=np.ones(NODES, dtype=np.bool_), scores=None
    )
    return Problem(
        kinds=(kind,) * SIZE,
        free=np.full((NODES, 1), SIZE),
        requirements=(Requirement(kinds=tuple(range(SIZE)), least=SIZE),),
        near=rules,
        spread=spreads,
    )
