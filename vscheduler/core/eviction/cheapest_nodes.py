"""CheapestNodes: the nodes where evictions could make room for one kind of task, cheapest first.

The cost of a node is only computed when no other node can be cheaper. Until then a lower bound
stands for the cost: see `node_bounds`. A known cost remains a lower bound after further evictions,
since evictions only make nodes more expensive. The rank of the losing queues isn't part of a stored
cost, because each eviction changes ranks on all nodes alike: nodes are stored by losing queues, and
compared with current ranks.
"""

import bisect
import functools
import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.eviction import node_bounds, similar_victims, victims
from vscheduler.core.eviction.entitled_groups import EntitledGroups
from vscheduler.core.eviction.node_bounds import NodeBounds, Wanted
from vscheduler.core.eviction.similar_victims import SimilarVictims, Step
from vscheduler.core.eviction.victim_columns import Flags, VictimColumns
from vscheduler.core.eviction.victims import Cost, NodeCandidate, VictimCandidates, VictimGroup
from vscheduler.core.model.jobs import Task
from vscheduler.core.placement import nominated_pods
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement

KEPT_MAX = 64
"""How many sets of bounds are kept during an action."""

PODS_PER_UNIT = 15
"""For how many pods bounds are computed in about a microsecond."""

REFRESH_COST = 200
"""Approximate microseconds for computing the bounds of a few rows again."""

UNEXPLORED = -1
"""The version of a bound that was computed without looking at the node."""

NEVER = np.iinfo(np.int64).max
"""The place of pods that may not be evicted."""

Places = NDArray[np.int64]


class CostLowerBound(msgspec.Struct, frozen=True):
    """The node with the lowest known cost, under current ranks."""

    cost: Cost
    row: int
    version: int
    """The number of accepted candidates when the cost was computed."""


class KeptBounds(msgspec.Struct, eq=False):
    """Shared by all searches of one action: the columns, what queues may take, and bounds for equal
    tasks.
    """

    columns: VictimColumns
    entitled: EntitledGroups
    known: dict[Hashable, NodeBounds] = msgspec.field(default_factory=dict)


class Stage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What may be evicted without a gang as a whole, or with at least one."""

    of_groups: Places
    """From which step on a first, second, … pod of each group may be evicted, (T, depth)."""
    of_gangs: Places | None
    """The same for gangs by group; None where no gang goes whole."""

    @property
    def whole(self) -> bool:
        """Whether a gang is evicted whole."""
        return self.of_gangs is not None

    def key(self, step: int) -> Hashable:
        """Return a key that is equal where the same groups and gangs may be evicted."""
        gangs = b"" if self.of_gangs is None else (self.of_gangs <= step).tobytes()
        return self.whole, (self.of_groups <= step).tobytes(), gangs


class CheapestNodes:
    """The nodes where evictions could make room for tasks with equal needs, in one attempt."""

    def __init__(
        self,
        session: Session,
        kept: KeptBounds,
        pool: VictimCandidates,
        task: Task,
    ) -> None:
        """Prepare for tasks like this one."""
        self._session, self._pool, self._kept = session, pool, kept
        self._columns = kept.columns
        self._seen = len(kept.columns.cheaper)
        self._alike = nominated_pods.alike(session, task)
        self._reachable = session.placement.reachable(task)
        self._unexplored = self._reachable.copy()
        """Nodes whose cost hasn't been computed."""
        request = session.request(task)
        self._used = np.flatnonzero(request)
        self._request = request[self._used]
        self._heaps: dict[frozenset[str], list[tuple[Cost, int, int]]] = {}
        self._entitled = kept.entitled.of(pool.claimant, task)
        self._similar = SimilarVictims(session, kept.columns, pool, task, self._entitled)
        self._steps: list[Step] = []
        self._stages: list[Stage] = []

    def put(self, candidate: NodeCandidate, row: int, version: int) -> None:
        """Add a node that `cheapest` has removed, with a cost that is no lower."""
        heap = self._heaps.setdefault(candidate.losers, [])
        heapq.heappush(heap, (candidate.cost, row, version))

    def renew(self, rows: Iterable[int]) -> None:
        """Consider nodes again on which the cost may have fallen."""
        self._unexplored[list(rows)] = self._reachable[list(rows)]

    def start_search(
        self,
        task: Task,
        statement: Statement,
        evict: Callable[[VictimGroup], None],
        proportionate: Callable[[VictimGroup], bool],
    ) -> None:
        """Read what may be evicted in the present state.

        evict is for a trial that is undone; proportionate tells which gangs aren't too large.
        """
        columns, pool = self._columns, self._pool
        columns.refresh()
        self.renew(columns.cheaper[self._seen :])
        self._seen = len(columns.cheaper)
        self._lacking = self._request - nominated_pods.room(self._session, task)[:, self._used]
        asked = self._similar
        asked.forget_losers()
        pods = asked.steps_of_pods(statement, evict)
        gangs = asked.steps_of_gangs(proportionate) if pool.rules.whole else {}
        steps = {*gangs.values(), *itertools.chain.from_iterable(pods.values())}
        self._steps = sorted(step for step in steps if step[0] < similar_victims.FORBIDDEN)
        of_groups = self._of_groups(pods)
        self._stages = [Stage(of_groups=of_groups, of_gangs=None)] if pods else []
        if gangs:
            self._stages.append(Stage(of_groups=of_groups, of_gangs=self._of_gangs(gangs)))

    def cheapest(self) -> CostLowerBound | None:
        """Remove and return the node with the lowest cost; ties go to the first row."""
        found: tuple[Cost, int, int] | None = None
        heap: list[tuple[Cost, int, int]] = []
        for losers, each in self._heaps.items():
            if each:
                cost, row, version = each[0]
                ranked = (victims.ranked_cost(cost, losers, self._pool.rank), row, version)
                if found is None or ranked < found:
                    found, heap = ranked, each
        bound = self._cheapest_unexplored()
        if bound is not None and (found is None or bound < found[:2]):
            self._unexplored[bound[1]] = False
            return CostLowerBound(*bound, UNEXPLORED)
        if found is None:
            return None
        heapq.heappop(heap)
        return CostLowerBound(*found)

    def evictable(self) -> Flags:
        """Return which pods may be evicted for such a task, (P,): others may not in this attempt.

        `start_search` comes first.
        """
        pods = np.arange(len(self._columns.queues))
        if not self._stages:
            return np.zeros(len(pods), dtype=np.bool_)
        return self._eligible(self._stages[-1], len(self._steps) - 1, pods)[0]

    def _of_groups(self, pods: Mapping[int, Sequence[Step]]) -> Places:
        """Return the places of the steps of each group, (T, depth)."""
        place = {step: number for number, step in enumerate(self._steps)}
        depth = max(map(len, pods.values()), default=1)
        found = np.full((len(self._columns.representatives), depth), NEVER)
        for group, steps in pods.items():
            places = [place.get(step, NEVER) for step in steps]
            found[group] = [*places, *places[-1:] * (depth - len(places))]
        return found

    def _of_gangs(self, gangs: Mapping[int, Step]) -> Places:
        """Return the place of the step of each group of gangs."""
        place = {step: number for number, step in enumerate(self._steps)}
        found = np.full(self._columns.gang_groups_max + 1, NEVER)
        for group, step in gangs.items():
            found[group] = place[step]
        return found

    def _eligible(self, stage: Stage, step: int, pods: Places) -> tuple[Flags, Flags]:
        """Return which of these pods may be evicted up to this step, and which are similar to them.

        `pods` are those of some rows. The pods of a group on one node take the steps of the group
        in turn, in any order.
        """
        columns = self._columns
        within = columns.candidates(self._pool.scope, pods)
        singles, groups = within & columns.spare[pods], columns.groups[pods]
        similar = singles & (stage.of_groups[groups, 0] <= step)
        eligible = similar
        if stage.of_groups.shape[1] > 1:
            turns = np.minimum(columns.turns(pods, singles), stage.of_groups.shape[1] - 1)
            eligible = singles & (stage.of_groups[groups, turns] <= step)
        if stage.of_gangs is not None:
            gangs = stage.of_gangs[columns.gang_groups[columns.pods.owners[pods]]]
            owned = self._entitled.owners[columns.pods.owners[pods]]
            eligible = eligible | (within & owned & (gangs <= step))
        return eligible, similar

    def _cheapest_unexplored(self) -> tuple[Cost, int] | None:
        """Return the lowest bound of the nodes whose cost isn't known, and its row."""
        for stage in self._stages:
            step = self._first_step(stage)
            if step is None:
                continue
            bounds = self._bounds(stage, step)
            rows = np.flatnonzero(bounds.fits & self._unexplored)
            for column in range(bounds.keys.shape[1]):
                values = bounds.keys[rows, column]
                rows = rows[values == values.min()]
            overshoot, rank = self._steps[step] if self._steps else (0.0, ())
            return (int(stage.whole), overshoot, rank, *bounds.keys[rows[0]].tolist()), int(rows[0])
        return None

    def _first_step(self, stage: Stage) -> int | None:
        """Return the first step up to which evictions would make room on any unexplored node."""

        def suffices(step: int) -> bool:
            return bool((self._bounds(stage, step).fits & self._unexplored).any())

        last = len(self._steps) - 1
        if last < 0:
            return None
        if suffices(0):
            return 0
        if not suffices(last):
            return None
        return bisect.bisect_left(range(last), x=True, lo=1, key=suffices)

    def _bounds(self, stage: Stage, step: int) -> NodeBounds:
        """Return up-to-date bounds where evictions up to this step are allowed."""
        columns, known = self._columns, self._kept.known
        wanted = Wanted(
            eligible=functools.partial(self._eligible, stage, step),
            lacking=self._lacking,
            used=self._used,
            whole=stage.whole,
        )
        owned = self._entitled.owners.tobytes() if stage.whole else b""
        key = (self._alike, self._pool.scope, stage.key(step), owned)
        bounds = known.get(key)
        if bounds is None:
            if len(known) >= KEPT_MAX:
                known.clear()
            self._session.spend("bounds", len(columns.queues) // PODS_PER_UNIT)
            bounds = known[key] = node_bounds.compute(columns, wanted)
        elif bounds.seen < len(columns.changed):
            rows = np.unique(np.array(columns.changed[bounds.seen :], dtype=np.int64))
            self._session.spend("bounds", REFRESH_COST)
            node_bounds.refresh(columns, wanted, bounds, rows)
        return bounds
