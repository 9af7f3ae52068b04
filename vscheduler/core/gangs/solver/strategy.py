"""Strategy: which methods are tried on a problem, one after another, and why pods don't fit.

`solve` is pure: a problem and a number of steps give nodes for all pods, a proof that there are
none, or neither within the steps. Small gangs are searched depth-first; large ones get nodes by
Lagrangian prices. `Proof` names pods that don't fit together: an irreducible infeasible subsystem,
found by leaving out one kind after another (deletion filter: Chinneck & Dravnieks, 1991).
"""

from collections.abc import Sequence

import msgspec

from vscheduler.core.gangs.solver import depth_first
from vscheduler.core.gangs.solver.depth_first import Search
from vscheduler.core.gangs.solver.lagrangian import Assignment, Prices
from vscheduler.core.gangs.solver.problem import (
    Answer,
    CutShort,
    Found,
    Impossible,
    Problem,
)
from vscheduler.core.gangs.solver.state import State

PROOF_PART = 2
"""A proof may take this fraction of the steps besides, to find out which pods stand in the way."""
CELLS_A_PROBE = 20_000
"""To look whether some of the pods fit costs a step for so many kinds times nodes."""
MOVES_MAX = 400
"""So many sets of pods of a large gang are moved at most, each of which counts as a step."""
PRICED_STEPS = MOVES_MAX + 150
"""So many steps, prices and moves take at most on thousands of nodes."""
IMPROVING_STEPS = 64
"""So many steps may be used to find nodes with fewer evictions than those found first."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a search."""

    answer: Answer
    steps: int
    failed: tuple[bytes, ...] = ()
    """States that lead nowhere, for a search that goes on."""


def solve(
    problem: Problem, steps_max: int | None, failed: Sequence[bytes] | None = None
) -> Outcome:
    """Solve the problem, or go on from states of which an earlier search knows they lead nowhere.

    Good nodes are tried first, then those on which the gang fits most easily. A large gang is only
    tried there, once.
    """
    if not depth_first.remembers(problem):
        return _solve_large(problem, steps_max)
    steps, first = 0, None
    if failed is None:
        first = Search(problem, steps_max, straight=True)
        answer, steps = first.run(), first.steps
        # If the bounds already rule the gang out, no order of placement can help.
        if isinstance(answer, Found):
            return _with_fewer_evictions(first, answer)
        if not steps or not isinstance(answer, CutShort):
            return Outcome(answer=answer, steps=steps)
    left = None if steps_max is None else steps_max - steps
    second = Search(problem, left, failed=failed or (), after=first)
    answer = second.run()
    if isinstance(answer, Found):
        return _with_fewer_evictions(second, answer, steps)
    return Outcome(answer=answer, steps=steps + second.steps, failed=tuple(second.failed))


def enough_steps(problem: Problem) -> int:
    """Return with how many steps a search is worth while; small gangs may go on later."""
    twice = 2 * sum(kind.count for kind in problem.kinds)
    priced = not depth_first.remembers(problem) and _is_priced(problem)
    return max(twice, PRICED_STEPS) if priced else twice


def _solve_large(problem: Problem, steps_max: int | None) -> Outcome:
    """Assign pods to nodes by prices where these apply, and place the others pod by pod."""
    state, steps = State(problem), 0
    if _is_priced(problem):
        bound = Search(problem, 0, after=state).run()  # the simple bounds are known at once
        if not isinstance(bound, CutShort):
            return Outcome(answer=bound, steps=0)
        known = Prices(problem)
        if known.suits_most:
            refused = known.are_too_high() and known.is_complete and problem.exact
            if refused:
                return Outcome(answer=Impossible(), steps=known.steps)
            steps = _assign(known, state, steps_max)
    placed = state.placed.copy()
    missing = max(
        (each.least - int(placed[list(each.kinds)].sum()) for each in problem.requirements),
        default=0,
    )
    # Going back from the end of a long way hardly ever helps.
    left = missing * 5 // 4
    if steps_max is not None:
        left = 0 if steps_max - steps < missing else min(steps_max - steps, left)
    last = Search(problem, left, after=state)
    answer = last.run()
    if isinstance(answer, Impossible) and placed.any():
        answer = CutShort()
    return Outcome(answer=answer, steps=steps + last.steps)


def _assign(known: Prices, state: State, steps_max: int | None) -> int:
    """Place the pods that get nodes by price; return the steps."""
    assignment = Assignment(known)
    steps = known.steps + assignment.steps
    left = MOVES_MAX if steps_max is None else max(0, min(MOVES_MAX, steps_max - steps))
    steps += assignment.improve(left)
    for kind, row in assignment.places():
        state.place(kind, row)
    return steps


def _is_priced(problem: Problem) -> bool:
    """Whether prices apply: all pods are needed, and only amounts and usable nodes matter."""
    needed = max((requirement.least for requirement in problem.requirements), default=0)
    return needed == sum(kind.count for kind in problem.kinds) and _counts_alone(problem)


def _counts_alone(problem: Problem) -> bool:
    """Whether no rule but amounts and usable nodes matters."""
    rules = problem.rules or problem.sub_groups
    limited = problem.queue_room is not None or problem.idle is not None
    return not rules and not limited and all(kind.reserved is None for kind in problem.kinds)


def _with_fewer_evictions(search: Search, answer: Found, steps: int = 0) -> Outcome:
    """Return the solution, or one for which less has to be evicted, if there is one nearby."""
    steps, left = steps + search.steps, IMPROVING_STEPS
    while (
        left
        and search.evicted[-1] > depth_first.LEAST_EVICTED
        and depth_first.remembers(search.given)
    ):
        below = search.evicted[-1]
        search = Search(search.given, left, failed=search.failed, after=search, evicted_below=below)
        better = search.run()
        steps, left = steps + search.steps, left - search.steps
        if not isinstance(better, Found):
            break
        answer = better
    return Outcome(answer=answer, steps=steps)


def steps_for_proof(steps_max: int, taken: int) -> int:
    """Return how many steps a proof may take after a search that has taken so many."""
    return steps_max - taken + steps_max // PROOF_PART


class Proof:
    """Finds out which pods of an impossible problem don't fit together."""

    def __init__(self, problem: Problem, steps_max: int | None) -> None:
        self._problem, self._steps_max = problem, steps_max
        self._places = State(problem).places
        self.steps = 0

    def find(self) -> Impossible:
        """Return as few pods as can be shown.

        None are named if the gang doesn't need all its pods, or if pods may need others of the gang
        on their nodes: without those, they fit nowhere.
        """
        given = self._problem
        counts = [kind.count for kind in given.kinds]
        least = max((requirement.least for requirement in given.requirements), default=0)
        helped = given.near or any(rule.counted.sum() > 1 for rule in given.spread)
        if sum(counts) != least or given.sub_groups or helped or given.queue_room is not None:
            return Impossible()
        irreducible = True
        for kind in range(len(counts)):
            without = [*counts[:kind], 0, *counts[kind + 1 :]]
            failed = any(without) and self._fails(without)
            irreducible &= failed is not None
            counts = without if failed else counts
        for kind, count in enumerate(counts):
            if count:
                counts[kind], is_least = self._least(counts, kind)
                irreducible &= is_least
        return Impossible(tuple(counts), irreducible)

    def _least(self, counts: Sequence[int], kind: int) -> tuple[int, bool]:
        """Return with how few pods of the kind they still don't fit, and whether that is sure."""
        fits, fails, sure = 0, counts[kind], True
        while fails - fits > 1:
            middle = (fits + fails) // 2
            failed = self._fails([*counts[:kind], middle, *counts[kind + 1 :]])
            sure &= failed is not None
            fits, fails = (fits, middle) if failed else (middle, fails)
        return fails, sure

    def _fails(self, counts: Sequence[int]) -> bool | None:
        """Whether so many pods don't fit; None if that takes too many steps to find out."""
        cost = 1 + self._places.size // CELLS_A_PROBE
        left = None if self._steps_max is None else self._steps_max - self.steps - cost
        if left is not None and left < 0:
            return None
        kept = [kind for kind, count in enumerate(counts) if count]
        some = self._problem.only(counts)
        attempt = Search(some, left, after=State(some, self._places[kept]))
        answer = attempt.run()
        self.steps += cost + attempt.steps
        if isinstance(answer, CutShort):
            return None
        return isinstance(answer, Impossible)
