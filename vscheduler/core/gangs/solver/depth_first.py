"""Depth-first search with chronological backtracking and forward checking.

After each pod, the places that are left for every other kind are worked out anew, and a branch in
which a kind has too few is left at once (forward checking: Haralick & Elliott, "Increasing tree
search efficiency for constraint satisfaction problems", 1980). Kinds with the fewest places beyond
what they need come first (their fail-first principle), on nodes where the least is left that no
other pod can use. States that failed are remembered, up to an exchange of equal nodes.
"""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from vscheduler.core.gangs.solver import bounds
from vscheduler.core.gangs.solver.bounds import Crowds, QueueRoom
from vscheduler.core.gangs.solver.problem import (
    PLENTY,
    Answer,
    CutShort,
    Flags,
    Found,
    Impossible,
    Ints,
    Problem,
    SubGroups,
)
from vscheduler.core.gangs.solver.state import DIGITS, Amounts, State


class Order:
    """Which kinds matter for each other, by rules about the order of pods."""

    def __init__(self, problem: Problem) -> None:
        self._given = problem
        self._is_free = not (problem.near or problem.spread)
        """Whether any order will do."""
        self._known: dict[tuple[bool, ...], Flags] = {}

    def first_of(self, kinds: Ints, anywhere: Sequence[bool]) -> Ints:
        """Return some of these kinds: any solution has an order that begins with one of them.

        It is the first kind alone, if no other one has to come before it. `kinds` are those with
        pods left, and `anywhere` says of each rule of required affinity whether its pods may still
        go anywhere, since no pod that they ask for is there yet.
        """
        if self._is_free:
            return kinds[:1]
        awaited = self._awaited(tuple(anywhere))
        for kind in kinds[awaited[kinds[0], kinds]].tolist():
            before: Ints = kinds[awaited[kind, kinds]]
            # Those that have to come before it may have to come after it as well.
            if awaited[before, kind].all():
                return before
        raise AssertionError("some kind awaits none but those that await it")

    def _awaited(self, anywhere: tuple[bool, ...]) -> Flags:
        """Return which kinds each kind awaits, itself included, (K, K); transitive.

        Kinds that may help and hinder each other await each other. A kind that others can only help
        awaits these, and isn't awaited: any solution remains one if its pods come later.
        """
        known = self._known.get(anywhere)
        if known is not None:
            return known
        flags: Flags = np.eye(len(self._given.kinds), dtype=np.bool_)
        for near, first in zip(self._given.near, anywhere, strict=True):
            flags[near.kind] |= near.counted
            if first:  # whoever comes first decides where the others may go
                flags[near.counted, near.kind] = True
        for spread in self._given.spread:
            flags[spread.kind] |= spread.counted
            flags[spread.counted, spread.kind] = True
        for kind in range(len(flags)):  # Warshall's transitive closure
            flags |= flags[:, kind, np.newaxis] & flags[kind]
        self._known[anywhere] = flags
        return flags


CELLS_EXACT = 10_000
"""With more kinds times nodes, numbers of pods that are left are rounded up to powers of two."""


class Known(msgspec.Struct):
    """What is known of one kind."""

    others: Ints
    """How many pods of each kind were left for the rest, as far as a node can take them, (K,)."""
    waste: Amounts
    """(N,), as parts of the largest node; NaN where it isn't known."""
    changes: int
    """How many changes of nodes are taken into account."""


class Waste:
    """The waste of a pod of each kind on each node, in the present state of a search."""

    def __init__(self, now: State) -> None:
        self._state = now
        asked = np.flatnonzero(now.requests.any(axis=0))
        self._asked = asked
        self._requests = now.requests[:, asked]
        self._asks = self._requests > 0
        self._divisor = np.maximum(self._requests, 1)
        self.scale: Amounts = 1.0 / np.maximum(now.free.max(axis=0, initial=0), 1)
        """(R,), what an amount is of the largest node."""
        self.sizes: Amounts = (now.requests * self.scale).sum(axis=1)
        """(K,), what a pod asks for, as parts of the largest node."""
        whole = [
            self._fits(now.free[rows][:, asked], np.array([kind])).max(initial=0)
            for kind, rows in enumerate(now.places > 0)
        ]
        self._most: Ints = np.array(whole, dtype=np.int64)
        """(K,), how many pods of a kind the largest node takes."""
        self._is_large = now.places.size > CELLS_EXACT
        self._known: dict[int, Known] = {}

    def of(self, kind: int, rows: Ints) -> Amounts:
        """Return the waste on these nodes (n,), after one more pod of this kind has come."""
        now = self._state
        left = now.left.copy()
        left[kind] -= 1
        # On many nodes, more work is saved than exact numbers are worth.
        others = np.minimum(_rounded_up(left) if self._is_large else left, self._most)
        known = self._known.get(kind)
        if known is None or not np.array_equal(known.others, others):
            waste = np.full(now.free.shape[0], np.nan)
            known = self._known[kind] = Known(others, waste, len(now.changes))
        else:
            for changed in now.changes[known.changes :]:
                known.waste[changed] = np.nan
            known.changes = len(now.changes)
        missing = rows[np.isnan(known.waste[rows])]
        if missing.size:
            known.waste[missing] = self._waste(kind, missing, others)
        return known.waste[rows]

    def _waste(self, kind: int, rows: Ints, others: Ints) -> Amounts:
        rest = self._state.free[rows[:, np.newaxis], self._asked] - self._requests[kind]
        kinds = others.nonzero()[0]
        fits = self._fits(rest, kinds)
        fits[self._state.places[kinds, rows[:, np.newaxis]] == 0] = 0
        used = np.minimum(fits, others[kinds]) @ self._requests[kinds]
        # Of what no pod asks for, all is left.
        wasted = np.maximum(rest - used, 0) * self.scale[self._asked]
        waste: Amounts = wasted.sum(axis=1).round(DIGITS)
        return waste

    def _fits(self, free: Ints, kinds: Ints) -> Ints:
        """Return how many pods of these kinds fit into these amounts (n, k), by amounts alone."""
        fits = np.full((free.shape[0], kinds.size), PLENTY)
        for column in range(self._asked.size):
            asking = self._asks[kinds, column].nonzero()[0]
            each = free[:, column, np.newaxis] // self._divisor[kinds[asking], column]
            fits[:, asking] = np.minimum(fits[:, asking], each)
        return fits


def _rounded_up(numbers: Ints) -> Ints:
    """Return the next power of two of each number; 0 of 0."""
    powers = np.ceil(np.log2(np.maximum(numbers, 1))).astype(np.int64)
    rounded: Ints = np.left_shift(1, powers) * (numbers > 0)
    return rounded


CELLS_EACH_STEP = 256
"""Up to so many kinds times nodes, the bounds over several kinds are looked at in each step."""
PODS_REMEMBERED = 64
"""In gangs with more pods, states that failed aren't remembered: hardly any comes again."""
LEAST_EVICTED = 1e-6
"""Less than this part of what a gang asks for isn't worth a search."""
GIVE_UP = -1
"""In place of a row: no more pods of the kind are placed."""

Step = tuple[int, int]
"""A kind, and a row or GIVE_UP."""


class Search:
    """One attempt to solve a problem. A step is a pod that is placed, or a kind given up."""

    def __init__(
        self,
        problem: Problem,
        steps_max: int | None,
        *,
        straight: bool = False,
        failed: Iterable[bytes] = (),
        after: "Search | State | None" = None,
        evicted_below: float = math.inf,
    ) -> None:
        """With `straight`, choose nodes by score, and give up where a step leads nowhere.

        `failed` is from an earlier search for the same problem, and `after` a search that has just
        tried it, and isn't used any more, or a state without pods. Only solutions count for which
        less is evicted than `evicted_below`.
        """
        self.given = problem
        self._after = after if isinstance(after, Search) else None
        if isinstance(after, Search):
            self._state = after.rewound()
        else:
            self._state = State(problem) if after is None else after
        self._straight = straight
        self._steps_max = steps_max
        self.steps = 0
        self._evicted_below = evicted_below
        self.evicted = [0.0]
        """What has to be evicted for the pods placed so far: in the end, and after each step."""
        self.failed: dict[bytes, None] = dict.fromkeys(failed)
        """States that lead nowhere, in the order in which that was found."""
        # More is reserved against pods of lower priority. Once they are placed, others may use it.
        self._open = -np.array(
            [0.0 if kind.reserved is None else kind.reserved.sum() for kind in problem.kinds]
        )
        self._order = Order(problem)
        self._crowds = Crowds(problem)
        self._queue = QueueRoom(problem)
        self._remembers = remembers(problem)
        self._small = len(problem.kinds) * problem.free.shape[0] <= CELLS_EACH_STEP
        self._requirements = [
            (np.array(requirement.kinds, dtype=np.int64), requirement.least)
            for requirement in problem.requirements
        ]

    def run(self) -> Answer:
        """Search until a solution is found, nothing is left to try, or the steps are used up."""
        now = self._state
        if self._is_done():
            return Found(tuple(now.order))
        if self._after is None and not self._promises(at_root=True):
            return self._nothing()
        branches: list[tuple[bytes, Iterator[Step]]] = [(now.key(), self._next_steps())]
        while branches:
            step = next(branches[-1][1], None)
            if step is None:
                self._leave(branches)
            elif self.steps == self._steps_max:
                return CutShort()
            elif self._take(branches, step):
                return Found(tuple(now.order))
        return self._nothing()

    @functools.cached_property
    def wasted(self) -> Waste:
        """Where nodes are chosen by what is left there; made before the first step."""
        return Waste(self._state) if self._after is None else self._after.wasted

    def rewound(self) -> State:
        """Return the state as it was in the beginning."""
        self._state.rewind()
        return self._state

    def _take(self, branches: list[tuple[bytes, Iterator[Step]]], step: Step) -> bool:
        """Take one step, and take it back if it leads nowhere; return whether all is done."""
        self.steps += 1
        now, (kind, row) = self._state, step
        if row == GIVE_UP:
            now.give_up(kind)
            self.evicted.append(self.evicted[-1])
        else:
            more = 0.0
            if self.given.idle is not None:
                more = float(now.evicted(kind, np.array([row]))[0])
            self.evicted.append(self.evicted[-1] + more)
            now.place(kind, row)
        if self._is_done():
            return True
        key = now.key() if self._remembers else b""
        if (self._remembers and key in self.failed) or not self._promises():
            now.take_back()
            self.evicted.pop()
            if self._straight:
                branches.clear()
        else:
            branches.append((key, self._next_steps()))
        return False

    def _leave(self, branches: list[tuple[bytes, Iterator[Step]]]) -> None:
        """Go back by one step: there is nothing left to try."""
        key, _ = branches.pop()
        if self._remembers:
            self.failed[key] = None
        if branches:
            self._state.take_back()
            self.evicted.pop()

    def _nothing(self) -> Answer:
        if self.given.exact and not (self._straight and self.steps):
            return Impossible()
        return CutShort()

    def _is_done(self) -> bool:
        placed, given = self._state.placed, self.given
        return all(placed[kinds].sum() >= least for kinds, least in self._requirements) and all(
            self._has_sub_groups(group, placed) for group in given.sub_groups
        )

    @staticmethod
    def _has_sub_groups(wanted: SubGroups, placed: Ints) -> bool:
        counts = [(int(placed[list(group.kinds)].sum()), group.least) for group in wanted.groups]
        broken = any(0 < count < least for count, least in counts)
        return not broken and sum(count >= least for count, least in counts) >= wanted.whole

    def _promises(self, *, at_root: bool = False) -> bool:
        """Whether the present state may still lead to a solution."""
        needed = self._needed()
        if needed is None:
            return False
        now = self._state
        if not self._queue.takes(now.placed, now.left):
            return False
        places = now.prospects()
        if (needed > now.seats(places)).any():
            return False
        if not (self._small or at_root):
            return True
        if not self._crowds.fit(needed, now.left, self._lacking(), places):
            return False
        return not bounds.too_much(needed, now.requests, places, now.free)

    def _lacking(self) -> int:
        """Return how many more pods are needed in all."""
        placed = self._state.placed
        return max(least - int(placed[kinds].sum()) for kinds, least in self._requirements)

    def _needed(self) -> Ints | None:
        """Return how many more pods of each kind (K,) are needed; None if there are too few."""
        now = self._state
        most = now.placed + now.left
        slack = np.full(most.size, np.iinfo(np.int64).max)
        for kinds, least in self._requirements:
            spare = int(most[kinds].sum()) - least
            if spare < 0:
                return None
            slack[kinds] = np.minimum(slack[kinds], spare)
        for policy in self.given.sub_groups:
            if not self._may_be_whole(policy, most, slack):
                return None
        needed: Ints = np.maximum(now.left - slack, 0)
        return needed

    def _may_be_whole(self, policy: SubGroups, most: Ints, slack: Ints) -> bool:
        """Whether enough sub-groups may become whole; adjusts the slack of those that must."""
        placed = self._state.placed
        spares = [int(most[list(group.kinds)].sum()) - group.least for group in policy.groups]
        begun = [bool(placed[list(group.kinds)].any()) for group in policy.groups]
        if any(spare < 0 for spare, one in zip(spares, begun, strict=True) if one):
            return False
        possible = sum(spare >= 0 for spare in spares)
        if possible < policy.whole:
            return False
        for each, spare, one in zip(policy.groups, spares, begun, strict=True):
            if spare >= 0 and (one or possible == policy.whole):
                kinds = list(each.kinds)
                slack[kinds] = np.minimum(slack[kinds], spare)
        return True

    def _next_steps(self) -> Iterator[Step]:
        """Yield what may come next; each solution begins with one of these steps, in some order."""
        now = self._state
        kinds: Ints = now.left.nonzero()[0]
        seats = now.seats(now.places)[kinds] - now.left[kinds]
        kinds = kinds[np.lexsort((kinds, -self.wasted.sizes[kinds], seats, self._open[kinds]))]
        first = self._order.first_of(kinds, now.anywhere())
        for kind in first.tolist():
            if not self._queue.takes_one_more(kind, now.placed, now.left):
                continue
            rows = now.candidates(kind)
            if self.given.idle is not None and self._evicted_below < math.inf:
                total = self.evicted[-1] + now.evicted(kind, rows)
                rows = rows[total < self._evicted_below - LEAST_EVICTED]
            for row in self._by_preference(kind, rows):
                yield kind, row
        for kind in first.tolist():
            if self._may_give_up(kind):
                yield kind, GIVE_UP

    def _may_give_up(self, kind: int) -> bool:
        self._state.give_up(kind)
        may = self._needed() is not None
        self._state.take_back()
        return may

    def _by_preference(self, kind: int, rows: Ints) -> Iterator[int]:
        """Yield nodes: first those on which the least is left that no other pod can use."""
        if not rows.size:
            return
        keys = [self._waste_on, self._left_on, self._score_on]
        if self.given.idle is not None:
            keys = [self._state.evicted, *keys[:2]]
        elif self._straight:
            keys = [self._score_on, self._waste_on, self._left_on]
        best = rows
        for key in keys:
            if best.size == 1:
                break
            values = key(kind, best)
            best = best[values == values.min()]
        first = int(best[0])
        yield first  # most of the time, no other one is asked for
        if rows.size == 1:
            return
        ranked = np.lexsort((rows, *(key(kind, rows) for key in reversed(keys))))
        yield from (row for row in rows[ranked].tolist() if row != first)

    def _waste_on(self, kind: int, rows: Ints) -> Amounts:
        return self.wasted.of(kind, rows)

    def _left_on(self, kind: int, rows: Ints) -> Amounts:
        """Return what is left on nodes after a pod has come, as parts of the largest node, (n,)."""
        left = (self._state.free[rows] - self._state.requests[kind]) * self.wasted.scale
        total: Amounts = left.sum(axis=1)
        return total

    def _score_on(self, kind: int, rows: Ints) -> Amounts:
        scores = self.given.kinds[kind].scores
        return np.zeros(rows.size) if scores is None else -scores[rows]


def remembers(problem: Problem) -> bool:
    """Whether a search remembers states that lead nowhere, and can go on from them later."""
    return sum(kind.count for kind in problem.kinds) <= PODS_REMEMBERED
