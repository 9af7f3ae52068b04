"""Large gangs: what is found is valid, and a solver for linear programs accepts each proof.

The solver shares no code with the search. A relaxation without whole numbers is enough to prove
that pods don't fit; where it isn't, the mixed-integer program is solved.
"""

import random
from collections import Counter

import msgspec
import numpy as np
import pytest
from scipy import optimize, sparse

from vscheduler.core.gangs.solver import lagrangian, strategy
from vscheduler.core.gangs.solver.lagrangian import Assignment, Prices
from vscheduler.core.gangs.solver.problem import (
    CutShort,
    EqualPods,
    Found,
    Impossible,
    Problem,
    Requirement,
)

STEPS = 1000
TIMES = [24, pytest.param(300, marks=pytest.mark.at_length)]
EVERY = {0: "cpu", 1: "memory", 2: "pods"}


def given(sizes: list[tuple[int, int]], counts: list[int], free: list[list[int]]) -> Problem:
    """A problem without selectors: all pods are needed."""
    room = np.array(free, dtype=np.int64)
    kinds = tuple(
        EqualPods(
            count=count,
            request=np.array([*size, 1]),
            usable=np.asarray((room >= [*size, 1]).all(axis=1)),
        )
        for size, count in zip(sizes, counts, strict=True)
    )
    every = Requirement(kinds=tuple(range(len(kinds))), least=sum(counts))
    return Problem(kinds=kinds, free=room, requirements=(every,))


def drawn(number: int) -> Problem:
    """70 to 160 pods of 3 to 6 kinds that fill nodes, to 90 to 106 %."""
    chance = random.Random(f"large/{number}")
    sizes = [(chance.randint(2, 16), chance.randint(1, 16)) for _ in range(chance.randint(3, 6))]
    pods = [chance.choice(sizes) for _ in range(chance.randint(70, 160))]
    free = [[0, 0, 110] for _ in range(chance.randint(40, 120))]
    for size in pods:
        node = chance.choice(free)
        node[0], node[1] = node[0] + size[0], node[1] + size[1]
    full = chance.uniform(0.9, 1.06)
    free = [[int(cpu / full), int(memory / full), slots] for cpu, memory, slots in free]
    kinds = sorted(set(pods))
    return given(kinds, [pods.count(kind) for kind in kinds], free)


def is_valid(of: Problem, answer: Found) -> bool:
    """Whether all pods are placed, and no node has too many."""
    counts = Counter(kind for kind, _ in answer.places)
    left = of.free.copy()
    for kind, row in answer.places:
        if not of.kinds[kind].usable[row]:
            return False
        left[row] -= of.kinds[kind].request
    wanted = {kind: each.count for kind, each in enumerate(of.kinds)}
    return counts == wanted and bool((left >= 0).all())


def fits(of: Problem, *, whole: bool) -> bool:
    """Whether the pods fit, by the solver; without `whole`, parts of pods may be placed."""
    nodes, kinds = len(of.free), len(of.kinds)
    upper = [kind.count * bool(kind.usable[row]) for kind in of.kinds for row in range(nodes)]
    rows = [sparse.kron(sparse.eye_array(kinds), np.ones((1, nodes)))]
    least: list[float] = [kind.count for kind in of.kinds]
    most = least.copy()
    for resource in EVERY:
        asked = np.array([[kind.request[resource] for kind in of.kinds]])
        rows.append(sparse.kron(asked, sparse.eye_array(nodes)))
        least += [-np.inf] * nodes
        most += of.free[:, resource].tolist()
    found = optimize.milp(
        np.zeros(len(upper)),
        integrality=np.full(len(upper), int(whole)),
        bounds=optimize.Bounds(0, upper),
        constraints=optimize.LinearConstraint(sparse.vstack(rows).tocsr(), least, most),
        options={"time_limit": 60},
    )
    assert found.status in (0, 2), found.message
    return bool(found.status == 0)


@pytest.mark.parametrize("times", TIMES)
def test_a_solver_accepts_answers_about_large_gangs(times: int) -> None:
    """Whatever is found is a placement, and whatever is proved impossible is."""
    answers = Counter[str]()
    for number in range(times):
        of = drawn(number)
        outcome = strategy.solve(of, STEPS)
        answers[type(outcome.answer).__name__] += 1
        if isinstance(outcome.answer, Found):
            assert is_valid(of, outcome.answer), number
        if isinstance(outcome.answer, Impossible):
            assert not fits(of, whole=False) or not fits(of, whole=True), number
    assert answers["Found"] > times / 5
    assert answers["Impossible"] > times / 5


def test_more_large_pods_than_nodes_of_two_kinds() -> None:
    """Each node takes one of either kind, though it has cpu for one and a half."""
    free = [[10, 100, 110] for _ in range(80)]
    too_many = given([(6, 1), (7, 1)], [41, 40], free)
    known = Prices(too_many)
    assert known.are_too_high()
    assert known.is_complete
    assert strategy.solve(too_many, STEPS).answer == Impossible()
    enough = given([(6, 1), (7, 1)], [40, 40], free)
    assert not Prices(enough).are_too_high()
    exactly = given([(6, 1)], [80], free)
    assert not Prices(exactly).are_too_high()
    assert isinstance(strategy.solve(enough, STEPS).answer, Found)


def test_prices_prove_nothing_if_sets_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """With single pods only, a node seems to take one pod, where it takes two."""
    monkeypatch.setattr(lagrangian, "PATTERNS_MAX", 2)
    of = given([(5, 1), (4, 1)], [40, 40], [[9, 100, 110] for _ in range(40)])
    known = Prices(of)
    assert known.are_too_high()
    assert not known.is_complete
    assert isinstance(strategy.solve(of, STEPS).answer, Found)


def test_a_few_nodes_with_many_sets_do_not_keep_the_others_from_prices() -> None:
    """Most nodes take few pods, of twenty kinds: such gangs are placed by prices, or not at all."""
    found = 0
    for number in range(4):
        chance = random.Random(f"few/{number}")
        sizes = [(chance.randint(4, 16), chance.randint(2, 16)) for _ in range(20)]
        pods = [chance.choice(sizes) for _ in range(150)]
        free = [[0, 0, 110] for _ in range(300)]
        for cpu, memory in pods:
            node = chance.choice(free)
            node[0], node[1] = node[0] + cpu, node[1] + memory
        kinds = sorted(set(pods))
        of = given(kinds, [pods.count(kind) for kind in kinds], [*free, [90, 90, 110]])
        known = Prices(of)
        assert not known.is_complete
        assert known.suits_most
        found += isinstance(strategy.solve(of, STEPS).answer, Found)
    assert found > 1
    many = given([(size, 9 - size) for size in range(1, 9)], [20] * 8, [[200, 200, 110]] * 6)
    assert not Prices(many).suits_most


def test_prices_prove_nothing_of_a_problem_that_does_not_show_all() -> None:
    """Its nodes may take more than the problem says."""
    free = [[10, 100, 110] for _ in range(80)]
    of = msgspec.structs.replace(given([(6, 1), (7, 1)], [41, 40], free), exact=False)
    assert Prices(of).are_too_high()
    assert isinstance(strategy.solve(of, STEPS).answer, CutShort)


def test_sets_are_for_nodes_that_all_their_pods_may_use_and_of_pods_that_there_are() -> None:
    """Two nodes take both kinds, one each kind alone; there is one pod of the second kind."""
    of = given([(2, 1), (3, 1)], [2, 1], [[9, 9, 110]] * 4)
    usable = [[True, True, True, False], [True, True, False, True]]
    kinds = tuple(
        msgspec.structs.replace(each, usable=np.array(flags))
        for each, flags in zip(of.kinds, usable, strict=True)
    )
    known = Prices(msgspec.structs.replace(of, kinds=kinds))
    ends = [*known.begins.tolist()[1:], len(known.taken)]
    taken = [
        {tuple(each) for each in known.patterns[known.taken[begin:end]].tolist()}
        for begin, end in zip(known.begins.tolist(), ends, strict=True)
    ]
    both = {(1, 0), (2, 0), (0, 1), (1, 1), (2, 1)}
    assert taken == [both, both, {(1, 0), (2, 0)}, {(0, 1)}]
    assert set(map(tuple, known.patterns.tolist())) == both


def test_an_assignment_places_no_pod_twice_and_none_without_room() -> None:
    """Before and after pods are moved."""
    for number in range(12):
        of = drawn(number)
        known = Prices(of)
        known.are_too_high()
        placed = Assignment(known)
        before = len(placed.places())
        placed.improve(50)
        for places in (placed.places(),):
            left = of.free.copy()
            for kind, row in places:
                assert of.kinds[kind].usable[row]
                left[row] -= of.kinds[kind].request
            assert (left >= 0).all()
            counts = Counter(kind for kind, _ in places)
            assert all(counts[kind] <= each.count for kind, each in enumerate(of.kinds))
        assert before


def test_of_nodes_alike_the_one_with_the_best_score_is_taken() -> None:
    """A node stands for all that are alike, so it has to be the best of them."""
    of = given([(2, 1), (5, 1)], [1, 1], [[5, 9, 110]] * 3)
    scores = np.array([1.0, 2.0, 3.0])
    kinds = tuple(
        EqualPods(count=1, request=kind.request, usable=kind.usable, scores=scores)
        for kind in of.kinds
    )
    of = Problem(kinds=kinds, free=of.free, requirements=of.requirements)
    assert strategy.solve(of, STEPS).answer == Found(((1, 2), (0, 1)))
