"""Bounds: what evictions cost at least on each node, and what they could free at most.

They say where to look first, and for whom there is nothing to look for; no plan depends on them.
"""

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.depends import EQUAL_RESOURCES, SIMILAR_VICTIMS
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import rules
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.rules import (
    Cost,
    Limits,
    PodCost,
    Rank,
    VictimCandidates,
    VictimGroup,
)
from vscheduler.core.eviction.victim_columns import (
    Entitled,
    EntitledGroups,
    Flags,
    Grouping,
    VictimColumns,
)
from vscheduler.core.gangs import attempt
from vscheduler.core.placement import nominated_pods, unschedulable_classes
from vscheduler.core.session.hook_calls import HookRef
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model import resources
from vscheduler.model.jobs import Task
from vscheduler.model.resources import Vector

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class NodeBounds(msgspec.Struct, eq=False):
    """Bounds for equal tasks, if certain pods may be evicted."""

    fits: Flags
    """Whether evicting all these pods would make enough room, (N,)."""
    costs: Floats
    """Where it would: the least PodCost, (N, 4)."""
    seen: int = 0
    """How many entries of `VictimColumns.changed` have been considered."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What bounds are asked for."""

    eligible: Callable[[Ints], tuple[Flags, Flags]]
    """Returns which of the pods of some rows may be evicted together, and which pods are similar to
    these: any of them could be evicted instead."""
    lacking: Ints
    """What the task requests above what is free, (N, r), of the resources that it requests."""
    used: Ints
    """The columns of these resources, (r,)."""
    whole: bool
    """Whether at least one gang is evicted whole."""


def _compute(columns: VictimColumns, wanted: Wanted) -> NodeBounds:
    """Compute the bounds of all nodes."""
    count = len(wanted.lacking)
    found = NodeBounds(np.zeros(count, dtype=np.bool_), np.zeros((count, len(PodCost._fields))))
    _refresh(columns, wanted, found, np.arange(count))
    return found


def _refresh(columns: VictimColumns, wanted: Wanted, bounds: NodeBounds, rows: Ints) -> None:
    """Compute the bounds of these rows again."""
    bounds.seen = len(columns.changed)
    bounds.fits[rows] = False
    begin, end = columns.pods.bounds[rows], columns.pods.bounds[rows + 1]
    rows, begin, end = (each[end > begin] for each in (rows, begin, end))
    places = _ranges(begin, end)
    eligible, similar = wanted.eligible(places)
    amounts = columns.amounts(wanted.used, places) * eligible[:, None]
    every = _Pods(columns, rows, places, eligible, similar, amounts)
    lacking = wanted.lacking[rows]
    fits = (every.sums(every.amounts) >= lacking).all(axis=1)
    fits &= every.sums(eligible[:, None])[:, 0] > 0
    if fits.any():
        bounds.fits[rows[fits]] = True
        least = _least_cost(every.on(fits), lacking[fits], whole=wanted.whole)
        bounds.costs[rows[fits]] = np.column_stack(least)


class _Pods:
    """All pods (p) of some rows (n), row by row."""

    def __init__(
        self,
        columns: VictimColumns,
        rows: Ints,
        places: Ints,
        eligible: Flags,
        similar: Flags,
        amounts: Ints,
    ) -> None:
        """Amounts (p, r) are requests of eligible pods, and 0 for the others."""
        self.columns, self.rows, self.places = columns, rows, places
        self.eligible, self.similar, self.amounts = eligible, similar, amounts
        sizes = columns.pods.bounds[rows + 1] - columns.pods.bounds[rows]
        self.ends = np.cumsum(sizes)
        self.begins = self.ends - sizes
        self.owner = np.repeat(np.arange(len(rows)), sizes)
        """The place of each pod's row in `rows`, (p,)."""

    def on(self, chosen: Flags) -> "_Pods":
        """Return the pods of some of the rows, (n,)."""
        inside = chosen[self.owner]
        return _Pods(
            self.columns,
            self.rows[chosen],
            self.places[inside],
            self.eligible[inside],
            self.similar[inside],
            self.amounts[inside],
        )

    def below(self, levels: Floats) -> "_Pods":
        """Return all pods, of which only those of jobs up to a priority (n,) are eligible."""
        below = self.columns.levels[self.places] <= levels[self.owner]
        eligible, similar = self.eligible & below, self.similar & below
        amounts = self.amounts * eligible[:, None]
        return _Pods(self.columns, self.rows, self.places, eligible, similar, amounts)

    def sums(self, amounts: NDArray[np.generic]) -> Ints:
        """Return the sums of amounts (p, r) by row, (n, r)."""
        total = np.zeros((len(amounts) + 1, amounts.shape[1]), dtype=np.int64)
        np.cumsum(amounts, axis=0, out=total[1:])
        found: Ints = total[self.ends] - total[self.begins]
        return found

    def least(self, values: NDArray[np.generic]) -> Floats:
        """Return the least value (p,) among eligible pods by row, (n,)."""
        found: Floats = np.minimum.reduceat(np.where(self.eligible, values, np.inf), self.begins)
        return found


def _least_cost(pods: _Pods, lacking: Ints, *, whole: bool) -> PodCost[Floats]:
    """Return the least costs, (n,), for rows where evictions make enough room."""
    columns = pods.columns
    priorities = _least_priorities(pods, lacking)
    # Compared first: with the least of it, the other parts are about these pods only.
    pods = pods.below(priorities)
    largest = np.maximum(np.maximum.reduceat(pods.amounts, pods.begins, axis=0), 1)
    number = np.maximum((-(-lacking // largest)).max(axis=1, initial=1), 1)
    if whole:
        number = np.maximum(number, pods.least(columns.gang_sizes[pods.places]).astype(np.int64))
        unsaved_since = pods.least(-columns.gang_unsaved_since[pods.places])
    else:
        unsaved_since = -_latest_unsaved_since(pods, number)
    return PodCost(
        job_priority=priorities,
        pod_priority=pods.least(columns.pods.priorities[pods.places]),
        pods=number.astype(np.float64),
        unsaved_since=unsaved_since,
    )


def _least_priorities(pods: _Pods, lacking: Ints) -> Floats:
    """Return the priority (n,) such that jobs up to this priority just make enough room."""
    columns = pods.columns
    order = columns.by_priority[pods.places]  # the same rows at the same places
    amounts = np.zeros((len(columns.queues), lacking.shape[1]), dtype=np.int64)
    amounts[pods.places] = pods.amounts
    total = np.zeros((len(order) + 1, lacking.shape[1]), dtype=np.int64)
    np.cumsum(amounts[order], axis=0, out=total[1:])
    enough = (total[1:] - total[pods.begins][pods.owner] >= lacking[pods.owner]).all(axis=1)
    levels = np.where(enough, columns.levels[order], np.inf)
    # Some pod must go in any case, even where the room is enough.
    lowest = pods.least(columns.levels[pods.places])
    found: Floats = np.maximum(np.minimum.reduceat(levels, pods.begins), lowest)
    return found


def _latest_unsaved_since(pods: _Pods, number: Ints) -> Floats:
    """Return the latest instant (n,) since when so many (n,) pods would lose work."""
    columns = pods.columns
    order = columns.by_loss[pods.places]  # the same rows at the same places
    similar = np.zeros(len(columns.queues), dtype=np.bool_)
    similar[pods.places] = pods.similar
    chosen = similar[order]
    total = np.zeros(len(order) + 1, dtype=np.int64)
    np.cumsum(chosen, out=total[1:])
    last = chosen & (total[1:] - total[pods.begins][pods.owner] == number[pods.owner])
    found = np.zeros(len(pods.rows))
    found[pods.owner[last]] = columns.pods.unsaved_since[order[last]]
    return found


def _ranges(begins: Ints, ends: Ints) -> Ints:
    """Return all numbers of these ranges, one range after the other."""
    sizes = ends - begins
    shift = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    found: Ints = np.arange(len(shift)) + shift
    return found


DEPTH_MAX = 8
"""About how many victims, one after the other, a group is asked at most."""

DEEP_GROUPS_MAX = 32
"""With more groups, each is asked about one victim only."""

ASK_COST = 60
"""Approximate microseconds for one question about a group."""

Step = tuple[float, Rank]
"""The overshoot and the rank of an eviction, by which nodes are compared first."""

FORBIDDEN = math.inf
"""The overshoot of pods that may not be evicted any more."""

NOTHING: Step = (0.0, ())
"""A step that is no higher than any other."""


class SimilarVictims:
    """What evicting similar pods costs at least, on behalf of equal tasks in one attempt."""

    def __init__(
        self,
        session: Session,
        columns: VictimColumns,
        pool: VictimCandidates,
        task: Task,
        entitled: Entitled,
    ) -> None:
        self._session, self._columns, self._pool, self._task = session, columns, pool, task
        self._entitled = entitled
        self._asks = columns.grouping is Grouping.CLASS

    def steps_of_pods(
        self, statement: Statement, evict: Callable[[VictimGroup], None]
    ) -> Mapping[int, Sequence[Step]]:
        """Return the steps of each group, for one victim, two, and so on.

        The last step holds for all further victims; its overshoot may be FORBIDDEN. evict is for
        the trial, which is undone.
        """
        columns, found = self._columns, {}
        for group in range(len(columns.representatives)):
            queue = columns.queue_names[columns.queue_of(group)]
            if queue in self._pool.scope.queues and self._entitled.groups[group]:
                rank = self._pool.rank(queue)
                overshoots = self._overshoots(group, statement, evict)
                found[group] = [(overshoot, rank) for overshoot in overshoots]
        return {group: steps for group, steps in found.items() if steps and steps[0][0] < FORBIDDEN}

    def steps_of_gangs(self, proportionate: Callable[[VictimGroup], bool]) -> Mapping[int, Step]:
        """Return the steps of each group of gangs, without groups that may not be evicted.

        proportionate tells which gangs aren't too large.
        """
        columns, scope, found = self._columns, self._pool.scope, {}
        entitled = set(columns.gang_groups[self._entitled.owners].tolist())
        groups, first = np.unique(columns.gang_groups, return_index=True)
        for group, place in zip(groups.tolist(), first.tolist(), strict=True):
            job = columns.pods.owner_jobs[place]
            if group == 0:  # nothing is known, so nothing is forbidden
                if columns.has_unknown_gangs:
                    found[group] = NOTHING
                continue
            if job.queue not in scope.queues:
                continue
            if group not in entitled:
                continue
            if job.id == scope.without:
                found[group] = NOTHING
                continue
            overshoot = self._of_gang(rules.whole(columns.state(place)), proportionate)
            if overshoot is not None:
                found[group] = (overshoot, self._pool.rank(job.queue))
        return found

    def _of_gang(
        self,
        unit: VictimGroup | None,
        proportionate: Callable[[VictimGroup], bool],
    ) -> float | None:
        """Return the overshoot if a gang like this were evicted; None if it may not be."""
        if unit is None:
            return None
        after = self._pool.share_of_similar(self._task, unit.tasks) if self._asks else None
        # Where nothing is known, nothing is forbidden.
        unknown = self._session.dispatch.asks(AllHooks.share_after)
        unit = unit._replace(borrowed=unknown if after is None else after.borrowed)
        return self._overshoot(unit.tasks) if proportionate(unit) else None

    def _overshoots(
        self, group: int, statement: Statement, evict: Callable[[VictimGroup], None]
    ) -> list[float]:
        """Return the overshoots if one pod of the group is evicted, then two, and so on."""
        columns, found = self._columns, list[float]()
        if not self._asks:
            return [0.0] if columns.first_of(group, self._pool.scope, 1) else []
        deep = len(columns.representatives) <= DEEP_GROUPS_MAX
        members = columns.first_of(group, self._pool.scope, self._depth(group) if deep else 1)
        checkpoint = statement.checkpoint()
        for number, place in enumerate(members, 1):
            victim = columns.pods.task(place)
            overshoot = self._overshoot((victim,))
            if overshoot is None:
                found.append(FORBIDDEN)
                break
            found.append(overshoot)
            if number < len(members):
                state = self._session.job_state_of(victim)
                evict(VictimGroup(state=state, tasks=(victim,), whole=False))
        statement.rollback(checkpoint)
        return found

    def _depth(self, group: int) -> int:
        """Return how many pods of the group the task could need at most on a node."""
        place = self._columns.representatives[group]
        request = self._session.request(self._task)
        freed: NDArray[np.int64] = self._columns.requests[self._columns.pods.class_numbers[place]]
        used = request > 0
        if not freed[used].all():
            return DEPTH_MAX
        return min(DEPTH_MAX, int((-(-request[used] // freed[used])).max()))

    def _overshoot(self, tasks: Sequence[Task]) -> float | None:
        """Return the overshoot if a pod, or a whole gang, like these were evicted; None if not.

        The answer is 0 if plugins aren't asked.
        """
        asked, pool = self._session.dispatch, self._pool
        if not self._asks:
            return 0.0
        preemptor = pool.preemptor_of(self._task)
        self._session.spend("similar", ASK_COST)
        entitled = (
            asked.may_be_entitled(pool.hook, preemptor, task, SIMILAR_VICTIMS) for task in tasks
        )
        if not any(entitled):
            return None
        if pool.rules.relocation is not None:
            return 0.0  # whatever can't be evicted now may be moved once the queue has lost others
        after = pool.share_of_similar(self._task, tasks)
        if after is None:
            return 0.0
        if after.within:
            pool.left_movable = True
            return None
        unfair = not after.fair and not (pool.rules.always and len(tasks) > 1)
        return None if unfair else after.overshoot


KEPT_MAX = 64
"""How many sets of bounds are kept during an action."""

PODS_PER_UNIT = 15
"""For how many pods bounds are computed in about a microsecond."""

COLUMNS_PER_UNIT = 2
"""For how many pods that could be evicted columns are made in about a microsecond."""

REFRESH_COST = 200
"""Approximate microseconds for computing the bounds of a few rows again."""

NEVER = np.iinfo(np.int64).max
"""The place of pods that may not be evicted."""

Places = NDArray[np.int64]


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
    """The nodes where evictions could make room for a task in the present state.

    A search looks at the cheapest of them. What it finds out there holds for this search alone: the
    shares of all queues, and with them the preferred victims, follow from each pod that is placed.
    """

    def __init__(
        self,
        session: Session,
        bounds: "Bounds",
        pool: VictimCandidates,
        task: Task,
    ) -> None:
        """Prepare; `start_search` comes before anything else."""
        self._session, self._pool, self._known = session, pool, bounds.known
        self._columns = bounds.columns
        self._alike = nominated_pods.alike(session, task)
        self._task = task
        self._unexplored = session.placement.reachable(task).copy()
        """Nodes that nobody has looked at."""
        request = session.request(task)
        self._used = np.flatnonzero(request)
        self._request = request[self._used]
        self._entitled = bounds.entitled.of(pool.queue, task)
        self._similar = SimilarVictims(session, bounds.columns, pool, task, self._entitled)
        self._steps: list[Step] = []
        self._stages: list[Stage] = []

    def start_search(
        self,
        statement: Statement,
        evict: Callable[[VictimGroup], None],
        proportionate: Callable[[VictimGroup], bool],
    ) -> None:
        """Read what may be evicted in the present state.

        evict is for a trial that is undone; proportionate tells which gangs aren't too large.
        """
        columns, pool = self._columns, self._pool
        columns.refresh()
        room = nominated_pods.room(self._session, self._task)
        self._lacking = self._request - room[:, self._used]
        asked = self._similar
        pods = asked.steps_of_pods(statement, evict)
        gangs = asked.steps_of_gangs(proportionate) if pool.rules.whole else {}
        steps = {*gangs.values(), *itertools.chain.from_iterable(pods.values())}
        self._steps = sorted(step for step in steps if step[0] < FORBIDDEN)
        of_groups = self._of_groups(pods)
        self._stages = [Stage(of_groups=of_groups, of_gangs=None)] if pods else []
        if gangs:
            self._stages.append(Stage(of_groups=of_groups, of_gangs=self._of_gangs(gangs)))

    def ascending(self) -> Iterator[tuple[Cost, int]]:
        """Iterate over nodes with the least that evictions there could cost, the lowest first; ties
        go to the first row.
        """
        while (cheapest := self._cheapest_unexplored()) is not None:
            cost, rows = cheapest
            for row in rows.tolist():
                yield cost, row
                self._unexplored[row] = False

    def evictable(self) -> Flags:
        """Return which pods may be evicted for such a task, (P,)."""
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

    def _cheapest_unexplored(self) -> tuple[Cost, Ints] | None:
        """Return the lowest bound of the nodes whose cost isn't known, and its rows."""
        for stage in self._stages:
            step = self._first_step(stage)
            if step is None:
                continue
            bounds = self._bounds(stage, step)
            rows = np.flatnonzero(bounds.fits & self._unexplored)
            for values in bounds.costs.T:
                rows = rows[values[rows] == values[rows].min()]
            # Stages and steps are in the order of Cost, so no later one is cheaper.
            overshoot, rank = self._steps[step] if self._steps else (0.0, ())
            of_pods = PodCost(*bounds.costs[rows[0]].tolist())
            return Cost(int(stage.whole), overshoot, rank, of_pods), rows
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
        columns, known = self._columns, self._known
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
            bounds = known[key] = _compute(columns, wanted)
        elif bounds.seen < len(columns.changed):
            rows = np.unique(np.array(columns.changed[bounds.seen :], dtype=np.int64))
            self._session.spend("bounds", REFRESH_COST)
            _refresh(columns, wanted, bounds, rows)
        return bounds


CHECK_COST = 10
"""Approximate microseconds for comparing a class of pods with the bounds."""

NODES_PER_UNIT = 200
"""With how many nodes a class is compared in about a microsecond."""

Rooms: TypeAlias = tuple[Vector, Vector]
"""What nodes would have free, (n, R), and the most of it by resource, (R,)."""


class PreemptorBounds:
    """Bounds on behalf of one queue in the present state of the session."""

    def __init__(
        self,
        session: Session,
        columns: VictimColumns,
        entitled: EntitledGroups,
        pool: VictimCandidates,
    ) -> None:
        """`pool` has the rules of the attempt that allows the most evictions."""
        self._session, self._columns, self._pool = session, columns, pool
        self._entitled = entitled
        columns.refresh()
        self._pods = session.space.columns[resources.PODS]
        self._free = session.cluster.allocatable - session.cluster.future_used
        self._places = np.arange(len(columns.queues))
        self._candidates = columns.candidates(pool.scope, self._places)
        self._rooms: dict[bytes, Vector] = {}
        """By requested resources, the most on each node, (N, R)."""
        self._usable: dict[tuple[bytes, int], Rooms] = {}

    def exclude(self, preemptor: Preemptor) -> bool:
        """Whether it is certain that no evictions make room for any pod of the job."""
        state = preemptor.state
        task = unschedulable_classes.representative(state.job)
        if task is None or not state.untouched or state.pending_best_effort:
            return False
        if attempt.could_help(self._session, state):
            return False
        self._session.spend("bounded", CHECK_COST)
        request = self._session.request(task)
        free, most = self._usable_rooms((request > 0).tobytes(), task)
        if unschedulable_classes.exceeds(request, most):
            return True
        self._session.spend("bounded", len(free) // NODES_PER_UNIT)
        return not resources.fits(request, free).any()

    def _usable_rooms(self, asked: bytes, task: Task) -> Rooms:
        """Return the most that nodes usable for the task would have free."""
        pools = self._session.pools
        domain = pools.domain(self._pool.queue.name, task.pod_class)
        if (asked, domain) not in self._usable:
            if asked not in self._rooms:
                self._rooms[asked] = self._room(task)
            room = self._rooms[asked][pools.reach[domain][pools.kinds]]
            most = room.max(axis=0, initial=-resources.SUM_MAX)
            self._usable[asked, domain] = resources.by_column(room), most
        return self._usable[asked, domain]

    def _room(self, task: Task) -> Vector:
        """Return the most that each node would have free, (N, R).

        Gangs of any size count where gangs may go whole.
        """
        columns, pods = self._columns, self._columns.pods
        self._session.spend("bounded", len(self._places) // PODS_PER_UNIT)
        groups = self._entitled.of(self._pool.queue, task).groups
        entitled = self._candidates & groups[columns.groups]
        leaving = entitled & columns.spare
        if self._pool.rules.whole:
            # One entitled pod is enough for a gang to go whole.
            owners = np.zeros(len(pods.owner_jobs), dtype=np.bool_)
            owners[pods.owners[entitled]] = True
            leaving |= self._candidates & owners[pods.owners]
        return self._free + columns.freed_by(leaving)


class Bounds:
    """What the searches of one action needn't look at: they ask here, and nowhere else.

    If nobody were ruled out and every node were looked at, the plans would be the same.
    """

    def __init__(self, session: Session, hook: HookRef, limits: Limits) -> None:
        """Read which pods may be evicted within these limits."""
        self._session, self._hook = session, hook
        coarse = session.dispatch.any_depends(hook, EQUAL_RESOURCES)
        self.columns = VictimColumns(session, limits, by_resources=coarse)
        read = len(self.columns.queues) // COLUMNS_PER_UNIT + self.columns.pods.read
        session.spend("columns", read)
        self.entitled = EntitledGroups(session, self.columns, hook)
        self.known: dict[Hashable, NodeBounds] = {}
        """Bounds of nodes, by all that they depend on."""
        self._by_queue: dict[str, PreemptorBounds] = {}
        """By the preemptor's queue, since the last successful plan."""

    def rule_out(self, preemptor: Preemptor, pool: VictimCandidates) -> bool:
        """Whether no evictions make room for the job; `pool` allows the most of them.

        Without searches, nothing would ask for a cycle after the pause of a node.
        """
        equal = unschedulable_classes.representative(preemptor.state.job)
        asking = preemptor.tasks if equal is None else [equal]
        self.entitled.ask(pool.queue, pool.scope, asking)
        if self._hook is not AllHooks.reclaimable or self._session.snapshot.refused:
            return False
        bounds = self._by_queue.get(pool.queue.name)
        if bounds is None:
            bounds = PreemptorBounds(self._session, self.columns, self.entitled, pool)
            self._by_queue[pool.queue.name] = bounds
        return bounds.exclude(preemptor)

    def most_freed(self, pool: VictimCandidates) -> Vector:
        """Return what evictions could free on each node at most, (N, R), plugins aside."""
        self.columns.refresh()
        chosen = self.columns.steady & self.columns.there & self.columns.in_scope(pool.scope)
        return self.columns.freed_by(chosen)

    def nodes(self, pool: VictimCandidates, task: Task) -> CheapestNodes:
        """Return where evictions could make room for tasks like this one, the cheapest first."""
        return CheapestNodes(self._session, self, pool, task)

    def forget(self) -> None:
        """Forget what the plan has changed that was just committed."""
        self.entitled.forget()
        self._by_queue.clear()
