"""Whether a gang fits, by scipy's solver for mixed-integer programs.

Shares no code with the search. It knows sizes, node selectors, anti-affinity, host ports, roles,
and limits of queues; affinity and spread are left to the oracle that tries everything.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import optimize, sparse

from tests.properties import gang_problems
from tests.properties.gang_problems import World

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
                matrix.tocsr(), [row[1] for row in self._rows], [row[2] for row in self._rows]
            ),
        )
        assert found.status in (0, 2), found.message
        return bool(found.status == 0)


def fits(world: World) -> bool:
    """Whether the gang fits, by the solver."""
    program, rows = Program(), range(len(world.nodes))
    placed = [
        [program.variable(pod.count if pod.disk in ("", node.disk) else 0) for node in world.nodes]
        for pod in world.pods
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
    for one, other, by in _pairs(world):
        for domain in {gang_problems.domain(world, by, row) for row in rows} - {-1}:
            there = [row for row in rows if gang_problems.domain(world, by, row) == domain]
            _keep_apart(program, [[placed[kind][row] for row in there] for kind in (one, other)])
    return program.is_feasible()


def _pairs(world: World) -> set[tuple[int, int, str]]:
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
