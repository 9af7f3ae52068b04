"""Which nodes, and which states of a search, count as equal."""

import dataclasses
import random
from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from tests.properties import gang_columns, gang_problems, test_gang_search_parts
from tests.properties.gang_problems import Node, World
from vscheduler.core.gangs.solver.problem import (
    Apart,
    EqualPods,
    Near,
    Pool,
    Problem,
    Requirement,
    Spread,
)
from vscheduler.core.gangs.solver.state import State

EVERYWHERE = np.ones(3, dtype=np.bool_)
KIND = EqualPods(count=2, request=np.array([1, 1]), usable=EVERYWHERE)
ALIKE = Problem(
    kinds=(KIND,),
    free=np.tile([4, 9], (3, 1)),
    requirements=(Requirement(kinds=(0,), least=2),),
)
"""Three equal nodes."""
ITSELF = np.array([[True]])
NEAR = Near(
    kind=0,
    codes=(np.array([0, 1, 2]),),
    present=(np.zeros(4, dtype=np.int64),),
    counted=ITSELF[0],
    first_anywhere=True,
)
SPREAD = Spread(
    kind=0,
    codes=np.array([0, 1, 2]),
    eligible=EVERYWHERE,
    present=np.zeros(4, dtype=np.int64),
    domains=np.arange(3),
    few=False,
    counted=ITSELF[0],
    counts_itself=True,
    max_skew=1,
)
BUT_THE_LAST = np.array([True, True, False])
ALONE = {
    "nothing between pods": ALIKE,
    "a host each": replace(ALIKE, apart=(Apart(codes=np.arange(3), pairs=ITSELF),)),
    "near on hosts": replace(ALIKE, near=(NEAR,)),
    "spread over hosts": replace(ALIKE, spread=(SPREAD,)),
}
LAST_DIFFERS = {
    "free": replace(ALIKE, free=np.array([[4, 9], [4, 9], [3, 9]])),
    "usable": replace(ALIKE, kinds=(replace(KIND, usable=BUT_THE_LAST),)),
    "reserved": replace(ALIKE, kinds=(replace(KIND, reserved=np.array([[0, 0], [0, 0], [1, 0]])),)),
    "limits of the queue": replace(ALIKE, pools=(Pool(rows=BUT_THE_LAST, room=np.array([9, 9])),)),
    "keeping apart": replace(ALIKE, apart=(Apart(codes=np.array([0, 0, 1]), pairs=ITSELF),)),
    "without the label": replace(ALIKE, apart=(Apart(codes=np.array([0, 1, -1]), pairs=ITSELF),)),
    "near": replace(ALIKE, near=(replace(NEAR, codes=(np.array([0, 0, 1]),)),)),
    "somebody near": replace(ALIKE, near=(replace(NEAR, present=(np.array([0, 0, 1, 0]),)),)),
    "spread": replace(ALIKE, spread=(replace(SPREAD, codes=np.array([0, 0, 1])),)),
    "pods of a spread": replace(ALIKE, spread=(replace(SPREAD, present=np.array([0, 0, 1, 0])),)),
    "nodes that count": replace(ALIKE, spread=(replace(SPREAD, eligible=BUT_THE_LAST),)),
    "domains that count": replace(ALIKE, spread=(replace(SPREAD, domains=np.array([0, 1])),)),
}


@pytest.mark.parametrize("given", ALONE.values(), ids=ALONE)
def test_nodes_may_be_alike_in_domains_of_their_own(given: Problem) -> None:
    """Hosts differ in nothing but their names."""
    assert len(set(State(given).alike)) == 1
    assert State(given).candidates(0).tolist() == [0]


@pytest.mark.parametrize("given", LAST_DIFFERS.values(), ids=LAST_DIFFERS)
def test_nodes_that_differ_in_anything_are_not_alike(given: Problem) -> None:
    """The first two are alike, and the last one isn't like them."""
    first, second, last = State(given).alike
    assert first == second != last


def test_states_are_equal_if_only_nodes_alike_differ() -> None:
    """And only then: what is known of a state is used for all that are equal."""
    for chance, world in test_gang_search_parts.worlds():
        now = State(gang_columns.given(world))
        keys: dict[bytes, object] = {}
        looks: dict[object, bytes] = {}
        for _ in range(6):
            for _ in test_gang_search_parts.walk(chance, now):
                look = (tuple(now.left), looking(world, now))
                assert keys.setdefault(now.key(), look) == look, world
                assert looks.setdefault(look, now.key()) == now.key(), world
            now.rewind()


def looking(world: World, now: State) -> frozenset[object]:
    """All that may tell two states apart, but for names of nodes."""
    on = Counter(now.order)
    rows = range(len(world.nodes))
    return frozenset(Counter(test_gang_search_parts.look(world, on, row) for row in rows).items())


def test_nodes_alike_differ_as_soon_as_they_have_different_pods() -> None:
    """And are alike again with equal pods."""
    given = replace(ALIKE, kinds=(KIND, replace(KIND, request=np.array([2, 1]))))
    now = State(replace(given, requirements=(Requirement(kinds=(0, 1), least=4),)))
    assert now.candidates(0).tolist() == [0]
    now.place(0, 0)
    assert now.candidates(0).tolist() == [0, 1]
    now.place(1, 1)
    assert now.candidates(0).tolist() == [0, 1, 2]
    now.take_back()
    now.place(0, 1)
    assert now.candidates(1).tolist() == [0, 2]


def test_a_walk_meets_states_that_are_equal() -> None:
    """Otherwise, the test above would show nothing."""
    world = gang_problems.draw(random.Random("equal"), pods=6, nodes=3, rich=False)
    node = Node(free=[9, 9, 9], zone=0, disk="")
    world = dataclasses.replace(
        world, nodes=[dataclasses.replace(node, free=list(node.free)) for _ in range(3)]
    )
    now = State(gang_columns.given(world))
    kind = int(np.flatnonzero(now.places[:, 0])[0])
    now.place(kind, 0)
    first = now.key()
    now.take_back()
    now.place(kind, 2)
    assert now.key() == first
