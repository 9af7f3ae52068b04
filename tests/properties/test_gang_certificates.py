"""What the search says of larger gangs, checked by a solver for mixed-integer programs.

The checker shares no code with the search. It knows sizes, node selectors, anti-affinity, host
ports, roles, and limits of queues; affinity and spread are left to the oracle of small worlds.
"""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse

from tests.properties import gang_columns, gang_problems
from vscheduler.core.placement.gang_search import problem, search

STEPS = 1000
TIMES = [60, pytest.param(1_500, marks=pytest.mark.at_length)]
Row = dict[int, float]


class Program:
    """Rows of a mixed-integer program whose variables are whole and at least 0."""

    def __init__(self) -> None:
        self._upper: list[float] = []
        self._rows: list[tuple[Row, float, float]] = []

    def variable(self, most: float) -> int:
        """Add a variable, and return its number."""
        self._upper.append(most)
        return len(self._upper) - 1

    def row(self, row: Row, least: float = -np.inf, most: float = np.inf) -> None:
        """Bound a sum."""
        self._rows.append((row, least, most))

    def is_feasible(self) -> bool:
        """Whether all bounds can be kept."""
        matrix = sparse.lil_array((len(self._rows), len(self._upper)))
        for number, (row, _, _) in enumerate(self._rows):
            for variable, factor in row.items():
                matrix[number, variable] = factor
        found = optimize.milp(
            np.zeros(len(self._upper)),
            integrality=[1] * len(self._upper),
            bounds=optimize.Bounds(0, self._upper),
            constraints=optimize.LinearConstraint(
                matrix.tocsr(), [each[1] for each in self._rows], [each[2] for each in self._rows]
            ),
        )
        assert found.status in (0, 2), found.message
        return bool(found.status == 0)


def fits(world: gang_problems.World) -> bool:
    """Whether the gang fits, by the solver."""
    program, rows = Program(), range(len(world.nodes))
    placed = [
        [
            program.variable(each.count if each.disk in ("", node.disk) else 0)
            for node in world.nodes
        ]
        for each in world.pods
    ]
    every = list(itertools.chain.from_iterable(placed))
    program.row(dict.fromkeys(every, 1), least=world.least)
    for kind, each in enumerate(world.pods):
        least = world.roles.get(kind, 0)
        program.row(dict.fromkeys(placed[kind], 1), least=least, most=each.count)
    for resource in range(len(world.nodes[0].free)):

        def asked(some: Sequence[int], resource: int = resource) -> Row:
            return {
                placed[kind][row]: each.request[resource]
                for kind, each in enumerate(world.pods)
                for row in some
                if each.request[resource]
            }

        for row in rows:
            program.row(asked([row]), most=world.nodes[row].free[resource])
        if world.queue is not None:
            program.row(asked(list(rows)), most=world.queue[resource])
        for zone, most in world.pools.items():
            there = [row for row in rows if world.nodes[row].zone == zone]
            program.row(asked(there), most=most[resource])
    for one, other, by in pairs(world):
        for domain in {gang_problems.domain(world, by, row) for row in rows} - {-1}:
            there = [row for row in rows if gang_problems.domain(world, by, row) == domain]
            _keep_apart(program, [[placed[kind][row] for row in there] for kind in (one, other)])
    return program.is_feasible()


def pairs(world: gang_problems.World) -> set[tuple[int, int, str]]:
    """Kinds that keep apart, and whether by host or zone; one kind twice if its pods do."""
    found = set()
    for kind, each in enumerate(world.pods):
        for other in each.apart_from if each.apart_by else ():
            found.add((min(kind, other), max(kind, other), each.apart_by))
        for other, another in enumerate(world.pods):
            if each.port and each.port == another.port:
                found.add((min(kind, other), max(kind, other), "host"))
    return found


def _keep_apart(program: Program, groups: list[list[int]]) -> None:
    """Let at most one pod of one kind, or pods of one of two kinds, into a domain."""
    one, other = groups
    if one == other:
        program.row(dict.fromkeys(one, 1), most=1)
        return
    chosen = [program.variable(1), program.variable(1)]
    for flag, group in zip(chosen, groups, strict=True):
        for each in group:
            program.row({each: 1, flag: -1000}, most=0)
    program.row(dict.fromkeys(chosen, 1), most=1)


def drawn(number: int) -> gang_problems.World:
    """Draw a world of up to 30 pods; half of them with rules or with limits."""
    chance = random.Random(f"certificates/{number}")
    world = gang_problems.draw(
        chance, pods=chance.randint(8, 30), nodes=chance.randint(4, 12), rich=chance.random() < 0.5
    )
    world.pods = [replace(each, near_by="", spread_by="") for each in world.pods]
    if chance.random() < 0.3:
        gang_problems.limit(chance, world)
    if chance.random() < 0.3:
        gang_problems.limit_zones(chance, world)
    return world


def with_all_of(world: gang_problems.World, counts: Sequence[int]) -> gang_problems.World:
    """The world with so many pods of each kind, all of which are needed."""
    pods = [replace(each, count=count) for each, count in zip(world.pods, counts, strict=True)]
    return replace(world, pods=pods, least=sum(counts), roles={}, queue=None)


@pytest.mark.parametrize("times", TIMES)
def test_a_solver_agrees(times: int) -> None:
    """On gangs that don't fit, on the pods named, and on each number of pods with one fewer."""
    answers, checked = Counter[str](), 0
    for number in range(times):
        world = drawn(number)
        given = gang_columns.given(world)
        answer = search.solve(given, STEPS).answer
        answers[type(answer).__name__] += 1
        if isinstance(answer, problem.Found):
            assert gang_problems.is_valid(world, answer.places), world
        if not isinstance(answer, problem.Impossible):
            continue
        assert not fits(world), world
        proof = search.Proof(given, STEPS).find()
        if not proof.counts:
            continue
        checked += 1
        assert not fits(with_all_of(world, proof.counts)), (world, proof)
        for kind, count in enumerate(proof.counts if proof.irreducible else ()):
            if count:
                fewer = (*proof.counts[:kind], count - 1, *proof.counts[kind + 1 :])
                assert fits(with_all_of(world, fewer)), (world, proof)
    assert checked
    assert answers["Found"]
    assert answers["CutShort"] < times / 10
