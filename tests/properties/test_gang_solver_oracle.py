"""The solver for gangs against OR-tools' CP-SAT, an exact solver for constraints over integers.

The two share no code. Problems are small and plain: amounts, usable nodes, minimums of the gang and
of roles, sub-groups, limits of the queue in all and on some nodes, pods kept apart, volumes of
claims, and attach limits.
"""

import random
from collections import Counter

import numpy as np
import pytest
from ortools.sat.python.cp_model import FEASIBLE, INFEASIBLE, OPTIMAL, CpModel, CpSolver, IntVar

from vscheduler.core.gangs.solver import strategy
from vscheduler.core.gangs.solver.problem import (
    Apart,
    Attached,
    EqualPods,
    Found,
    Impossible,
    Pool,
    Problem,
    Requirement,
    SubGroups,
    Volumes,
)

TIMES = [600, pytest.param(5000, marks=pytest.mark.at_length)]


class Draw:
    """One random problem of up to ten pods on up to five nodes."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(f"exact/{number}")
        self.nodes = self.chance.randint(2, 5)
        self.counts = [self.chance.randint(1, 3) for _ in range(self.chance.randint(1, 4))]

    def problem(self) -> Problem:
        """The problem, with each rule in some of the cases."""
        volumes = self.volumes() if self.maybe() else None
        return Problem(
            kinds=tuple(self.kind(number, volumes) for number in range(len(self.counts))),
            free=np.array([[self.whole(3, 9), self.whole(3, 9), 9] for _ in range(self.nodes)]),
            requirements=self.requirements(),
            sub_groups=self.sub_groups() if self.maybe() else (),
            queue_room=np.array([self.whole(4, 16), 40, 99]) if self.maybe() else None,
            pools=(Pool(rows=self.flags(), room=np.array([self.whole(2, 9), 40, 99])),)
            if self.maybe()
            else (),
            apart=(self.apart(),) if self.maybe() else (),
            volumes=volumes,
            attached=(self.attached(),) if self.maybe() else (),
        )

    def maybe(self) -> bool:
        """True in a third of the cases."""
        return self.chance.random() < 1 / 3

    def whole(self, least: int, most: int) -> int:
        """A number."""
        return self.chance.randint(least, most)

    def flags(self, share: float = 0.7) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Some of the nodes."""
        return np.array([self.chance.random() < share for _ in range(self.nodes)])

    def kind(self, number: int, volumes: Volumes | None) -> EqualPods:
        """Equal pods; no node is usable on which one of them alone finds no volume."""
        usable = self.flags(0.85)
        for demand in volumes.own[number] if volumes is not None else ():
            assert volumes is not None
            for row in range(self.nodes):
                reached = any(
                    volumes.fits[demand, at] and row in reach
                    for at, reach in enumerate(volumes.reach)
                )
                usable[row] &= volumes.provided[demand, row] or reached
        request = np.array([self.whole(1, 5), self.whole(0, 5), 1])
        return EqualPods(count=self.counts[number], request=request, usable=usable)

    def requirements(self) -> tuple[Requirement, ...]:
        """All pods or some, and of one kind perhaps all."""
        every = tuple(range(len(self.counts)))
        total = sum(self.counts)
        least = total if self.chance.random() < 1 / 2 else self.whole(1, total)
        role = Requirement(kinds=(0,), least=self.counts[0])
        return (Requirement(kinds=every, least=least), *((role,) if self.maybe() else ()))

    def sub_groups(self) -> tuple[SubGroups, ...]:
        """Each kind is a sub-group."""
        groups = tuple(
            Requirement(kinds=(kind,), least=self.whole(1, count))
            for kind, count in enumerate(self.counts)
        )
        return (SubGroups(groups=groups, whole=self.whole(1, len(groups))),)

    def apart(self) -> Apart:
        """Kinds kept apart by node or zone; some nodes are in no zone."""
        zones = np.array([self.whole(-1, 2) for _ in range(self.nodes)])
        size = len(self.counts)
        pairs = np.array([[self.chance.random() < 1 / 2] * size for _ in range(size)])
        codes = zones if self.maybe() else np.arange(self.nodes)
        return Apart(codes=codes, pairs=pairs | pairs.T)

    def volumes(self) -> Volumes:
        """Up to two demands, and volumes that are on one node or several."""
        size = self.whole(1, 5)
        return Volumes(
            own=tuple((self.whole(0, 1),) if self.maybe() else () for _ in self.counts),
            shared=((),) * len(self.counts),
            shared_demands=(),
            fits=np.array([[self.chance.random() < 2 / 3] * size for _ in range(2)]),
            reach=tuple(np.flatnonzero(self.flags(0.4)) for _ in range(size)),
            provided=np.array([self.flags(0.3), self.flags(0.3)]),
        )

    def attached(self) -> Attached:
        """A limit, volumes that pods bring, and one that some of them share."""
        return Attached(
            room=np.array([self.whole(1, 4) for _ in range(self.nodes)]),
            own=np.array([self.whole(0, 2) for _ in self.counts]),
            shared=np.array([[self.maybe()] for _ in self.counts]),
            there=self.flags(0.3)[np.newaxis],
        )


class Program:
    """A problem as constraints over the numbers of pods by kind and node."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.model = problem, CpModel()
        self.nodes, self.kinds = range(len(problem.free)), range(len(problem.kinds))
        self.pods = [
            [
                self.model.new_int_var(0, kind.count if kind.usable[row] else 0, "")
                for row in self.nodes
            ]
            for kind in problem.kinds
        ]
        self._amounts()
        self._minimums()
        for rule in problem.apart:
            self._apart(rule)
        for limit in problem.attached:
            self._attached(limit)
        if problem.volumes is not None:
            self._volumes(problem.volumes)

    def fits(self, places: Counter[tuple[int, int]] | None = None) -> bool:
        """Whether there is a solution, or whether these pods of kinds on rows are one."""
        model = self.model.clone()
        for kind in self.kinds if places is not None else ():
            for row in self.nodes:
                assert places is not None
                model.add(self.pods[kind][row] == places[kind, row])
        solver = CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.cp_model_presolve = False
        status = solver.solve(model)
        assert status in (FEASIBLE, OPTIMAL, INFEASIBLE)
        return status != INFEASIBLE

    def _amounts(self) -> None:
        problem = self.problem
        limits = [([row], problem.free[row]) for row in self.nodes]
        limits += [(np.flatnonzero(pool.rows).tolist(), pool.room) for pool in problem.pools]
        if problem.queue_room is not None:
            limits.append((list(self.nodes), problem.queue_room))
        for rows, room in limits:
            for resource, most in enumerate(room.tolist()):
                asked = [
                    int(kind.request[resource]) * self.pods[number][row]
                    for number, kind in enumerate(problem.kinds)
                    for row in rows
                ]
                self.model.add(sum(asked) <= most)

    def _minimums(self) -> None:
        for kind, row in zip(self.problem.kinds, self.pods, strict=True):
            self.model.add(sum(row) <= kind.count)
        for each in self.problem.requirements:
            self.model.add(sum(sum(self.pods[kind]) for kind in each.kinds) >= each.least)
        for policy in self.problem.sub_groups:
            whole = [self.model.new_bool_var("") for _ in policy.groups]
            for flag, group in zip(whole, policy.groups, strict=True):
                pods = sum(sum(self.pods[kind]) for kind in group.kinds)
                self.model.add(pods >= group.least).only_enforce_if(flag)
                self.model.add(pods == 0).only_enforce_if(flag.negated())
            self.model.add(sum(whole) >= policy.whole)

    def _some(self, variables: list[IntVar]) -> IntVar:
        """Whether any of these pods are placed."""
        flag = self.model.new_bool_var("")
        self.model.add(sum(variables) == 0).only_enforce_if(flag.negated())
        return flag

    def _apart(self, rule: Apart) -> None:
        for domain in set(rule.codes.tolist()) - {-1}:
            rows = np.flatnonzero(rule.codes == domain).tolist()
            inside = [[self.pods[kind][row] for row in rows] for kind in self.kinds]
            some = [self._some(pods) for pods in inside]
            for one, other in np.argwhere(rule.pairs).tolist():
                if one == other:
                    self.model.add(sum(inside[one]) <= 1)
                else:
                    self.model.add(some[one] + some[other] <= 1)

    def _attached(self, limit: Attached) -> None:
        for row in self.nodes:
            used = [int(limit.own[kind]) * self.pods[kind][row] for kind in self.kinds]
            for volume, there in enumerate(limit.there[:, row].tolist()):
                users = np.flatnonzero(limit.shared[:, volume]).tolist()
                if users and not there:
                    used.append(1 * self._some([self.pods[kind][row] for kind in users]))
            self.model.add(sum(used) <= int(limit.room[row]))

    def _volumes(self, rule: Volumes) -> None:
        users: list[list[IntVar]] = [[] for _ in rule.reach]
        for kind, demands in enumerate(rule.own):
            for demand in demands:
                for row in np.flatnonzero(~rule.provided[demand]).tolist():
                    chosen = []
                    for at, reach in enumerate(rule.reach):
                        if rule.fits[demand, at] and row in reach:
                            chosen.append(self.model.new_bool_var(""))
                            users[at].append(chosen[-1])
                    self.model.add(sum(chosen) == self.pods[kind][row])
        for each in users:
            self.model.add(sum(each) <= 1)


@pytest.mark.parametrize("times", TIMES)
def test_an_exact_solver_agrees_with_every_answer(times: int) -> None:
    """Whatever is found satisfies its constraints, and whatever is impossible has no solution."""
    answers = Counter[str]()
    for number in range(times):
        problem = Draw(number).problem()
        answer = strategy.solve(problem, None).answer
        answers[type(answer).__name__] += 1
        if isinstance(answer, Found):
            assert Program(problem).fits(Counter(answer.places)), number
        else:
            assert isinstance(answer, Impossible), number
            assert not Program(problem).fits(), number
    assert min(answers["Found"], answers["Impossible"]) > times / 5
