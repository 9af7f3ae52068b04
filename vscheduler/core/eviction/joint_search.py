"""Joint searches: nodes for all pods of a gang are chosen before any victim is.

Choosing node and victims for one pod after the other may leave no node for the last pod, or take
more victims than necessary.
"""

import functools
import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import bounds, rules, search
from vscheduler.core.eviction.rules import VictimGroup
from vscheduler.core.eviction.search import Places, Problem, VictimSearch
from vscheduler.core.eviction.victim_columns import Flags
from vscheduler.core.gangs import attempt
from vscheduler.core.placement import nominated_pods
from vscheduler.model.jobs import Task
from vscheduler.model.nodes import Mask
from vscheduler.model.resources import Share, Vector


class WholeGangSearch(VictimSearch):
    """One attempt to place a gang of unequal pods, where taking them one by one has failed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_thrifty = False
        """Whether victims are chosen that free no more than necessary."""
        self._coming: dict[int, Vector] = {}
        """By row, what pods ask for that are still to be placed there, (R,)."""

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Whether a search for the whole gang may find nodes that the job's pods miss singly."""
        state = problem.preemptor.state
        return not problem.has_minimum and attempt.could_help(problem.session, state)

    def succeeds(self) -> bool:
        """Choose nodes as if all that may be evicted were gone, then the victims on each."""
        places = self._places()
        if places is None:
            return False
        before = self._trial.checkpoint()
        if self._put_all(places):
            return True
        # Queues may lose a certain amount, so the preferred victims may be too large.
        if self._pool.hook is AllHooks.preemptable:
            return False
        self._trial.rollback(before)
        self._forget()
        self._coming.clear()
        self._is_thrifty = True
        return self._put_all(places)

    def _put_all(self, places: Sequence[tuple[Task, int]]) -> bool:
        """Place the tasks on these nodes, with evictions if need be."""
        asking = [task for task, _ in places if not task.best_effort]
        self._scarce = self._scarce_request(asking)
        lacking = self._sum(asking)
        for task, row in places:
            coming = self._coming.get(row, 0)
            self._coming[row] = coming + self._session.request(task)
        for task, row in places:
            self._pool.start_search(lacking)
            if not self._may_reclaim(task) or not self._put(task, row):
                return False
            if not task.best_effort:
                lacking = lacking - self._session.request(task)
            self._coming[row] = self._coming[row] - self._session.request(task)
        return self._done()

    def _places(self) -> Places:
        """Return nodes for the gang, if all that may be evicted were gone."""
        most = self._most()
        if most is None:
            return None
        key = most.tobytes()
        if key not in self._problem.places:
            self._problem.places[key] = attempt.with_room_to_free(
                self._session, self._state, self._tasks, self._evictions(), most
            )
        return self._problem.places[key]

    def _evictions(self) -> str:
        """Return which pods may be evicted, in words."""
        scope, rules = self._pool.scope, self._pool.rules
        whole = "with whole gangs" if rules.whole else "single pods"
        moves = "moves" if rules.relocation is not None else "no moves"
        return f"{self._problem.action} {scope.only or ''}, {whole}, {moves}"

    def _most(self) -> Vector | None:
        """Return what evictions could free on each node, (N, R); None if that can't be enough."""
        rules, known = self._pool.rules, self._problem.freed
        key = rules.whole, rules.relocation is not None
        if key not in known:
            known[key] = self._compute_most()
        return known[key]

    def _compute_most(self) -> Vector | None:
        sized = [task for task in self._tasks if not task.best_effort]
        needed = self._needed_of(sized)
        kinds = [nominated_pods.alike(self._session, task) for task in sized]
        tasks = dict(zip(reversed(kinds), reversed(sized), strict=True))
        each = search.TASK_COST + self._session.layout.size // search.NODES_PER_UNIT
        self._session.spend("claims", each * len(tasks))
        asking_for = {kind: task for kind, task in tasks.items() if self._may_reclaim(task)}
        if not asking_for or sum(kind in asking_for for kind in kinds) < len(needed):
            return None
        columns, scope = self._bounds.columns, self._pool.scope
        columns.refresh()
        # First by amounts only, then by asking plugins what may be evicted.
        chosen = columns.steady & columns.there & columns.in_scope(scope)
        if not self._pool.rules.whole:
            chosen &= columns.spare
        for asking in (False, True):
            if asking:
                self._scarce = self._scarce_request(sized)
                self._pool.start_search(self._sum(needed))
                evictable = [self._evictable_for(task) for task in asking_for.values()]
                chosen = np.any(evictable, axis=0)
            most = columns.freed_by(chosen)
            able = {kind for kind, task in asking_for.items() if self._may_fit(task, most)}
            if not chosen.any() or sum(kind in able for kind in kinds) < len(needed):
                return None
        return most

    def _evictable_for(self, task: Task) -> Flags:
        """Return the pods that may be evicted for such a task, (P,).

        Where plugins may answer differently for similar pods, they are asked about each of them.
        """
        columns, evictable = self._bounds.columns, self._nodes_for(task).evictable()
        if self._session.dispatch.answers_for_similar(self._pool.hook):
            return evictable
        places = np.flatnonzero(evictable)
        self._session.spend("similar", bounds.ASK_COST * len(places))
        gangs: dict[int, bool] = {}
        for place in places.tolist():
            owner = int(columns.pods.owners[place])
            unit = VictimGroup(columns.state(owner), (columns.pods.task(place),), whole=False)
            evictable[place] = bool(columns.spare[place]) and self._may_go(task, unit)
            if self._pool.rules.whole and not evictable[place]:
                if owner not in gangs:
                    gangs[owner] = self._may_go(task, rules.whole(unit.state))
                evictable[place] = gangs[owner]
        return evictable

    def _may_go(self, task: Task, unit: VictimGroup | None) -> bool:
        """Whether plugins let these pods go for the task; if pods may move, queues have no say."""
        pool = self._pool
        if unit is None or not pool.is_entitled(task, unit):
            return False
        if pool.rules.relocation is not None:
            return True
        judged = pool.within_rules(pool.preemptor_of(task), unit, ())
        return judged is not None and self._is_proportionate(judged)

    def _may_fit(self, task: Task, most: Vector) -> bool:
        """Whether some node has room for the task then, as far as amounts are concerned."""
        room = nominated_pods.room(self._session, task) + most
        return bool(_has_room(room, self._session.request(task)).any())

    def _groups_on(self, task: Task, row: int) -> Sequence[VictimGroup]:
        """Return the victims on this node that are preferred, or those that free the least."""
        groups = super()._groups_on(task, row)
        if not self._is_thrifty or not groups:
            return groups
        cluster, name = self._session.cluster, self._session.layout.names[row]
        coming = self._coming[row]
        free = cluster.allocatable[row] - cluster.future_used[row]
        freed = [self._sum(task for task in unit.tasks if task.node == name) for unit in groups]
        order = smallest_first(freed, np.where(coming > 0, coming - free, 0))
        return groups if order is None else [groups[place] for place in order]

    def _forget(self) -> None:
        """Forget all tasks and victims; the trial has been undone."""
        self.placed.clear()
        self._chosen.clear()
        self._freed_whole = self._session.space.zeros()

    def _put(self, task: Task, row: int) -> bool:
        """Place the task on this node, with evictions if need be."""
        self._session.spend("claims", search.TASK_COST)
        found = self._candidate_on(task, row)
        if found is None or (task.best_effort and found.units):
            return False
        self._accept(task, row, found)
        return True


def _has_room(room: Vector, request: Vector) -> Mask:
    """Return the nodes (N,) on which a request fits in the room (N, R)."""
    return np.asarray((room >= request)[:, request > 0].all(axis=1))


TASKS_MAX = 8
"""Larger gangs aren't searched for."""

ROWS_MAX = 8
"""How many nodes are considered for each kind of task: those that lack the least."""

STEPS_MAX = 100
"""How many incomplete choices of nodes are extended by one more task."""

STEP_COST = 40
"""Approximate microseconds for one of them."""

TRIED_MAX = 4
"""How many complete choices are tried."""

Rows = tuple[int, ...]
"""A row for each of the first tasks."""

Numbers = tuple[int, ...]
"""For each of some tasks, the first task that is equal."""


class LeastLossSearch(WholeGangSearch):
    """One attempt to place a small gang, with the least that single victims could free."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_thrifty = True
        self._evictable: dict[int, Sequence[Vector]] = {}

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Whether the job wants its minimum; `_may_help` knows of the rest."""
        return not problem.has_minimum

    def succeeds(self) -> bool:
        """Try choices of nodes, those first whose victims free the least in all."""
        most = self._most() if self._may_help() else None
        if most is None or (len(self._state.job.classes) > 1 and self._places() is None):
            return False
        kinds = {number: self._rows(self._ordered[number], most) for number in set(self._numbers)}
        rows = [kinds[number] for number in self._numbers]
        before = self._trial.checkpoint()
        for tried, choice in enumerate(self._choices(rows)):
            if tried == TRIED_MAX:
                break
            if self._put_all(list(zip(self._ordered, choice, strict=True))):
                return True
            self._trial.rollback(before)
            self._forget()
            self._coming.clear()
        return False

    def _may_help(self) -> bool:
        """Whether the attempt is about a small gang without parts, and reclaim."""
        parts = self._state.sub_groups is not None or self._state.job.roles_count
        if self._pool.hook is not AllHooks.reclaimable or self._pool.rules.whole or parts:
            return False
        return 0 < len(self._ordered) <= TASKS_MAX

    @functools.cached_property
    def _ordered(self) -> Sequence[Task]:
        """The tasks to be placed, the largest first, equal ones next to each other."""
        needed = self._needed_of([task for task in self._tasks if not task.best_effort])
        first = self._first_equal(needed)
        sizes = [float(self._session.request(task) @ self._weights) for task in needed]
        order = sorted(range(len(needed)), key=lambda at: (-sizes[at], first[at]))
        return [needed[at] for at in order]

    @functools.cached_property
    def _numbers(self) -> Numbers:
        """For each of the tasks, the first one that is equal."""
        return self._first_equal(self._ordered)

    def _first_equal(self, tasks: Sequence[Task]) -> Numbers:
        kinds = [nominated_pods.alike(self._session, task) for task in tasks]
        return tuple(kinds.index(kind) for kind in kinds)

    @functools.cached_property
    def _weights(self) -> Share:
        """What a unit of each resource counts for: its part of all nodes, (R,)."""
        weights: Share = 1 / np.maximum(self._session.cluster.allocatable.sum(axis=0), 1)
        return weights

    def _rows(self, task: Task, most: Vector) -> Sequence[int]:
        """Return the rows where the task could have a place, those first that lack the least."""
        request, room = self._session.request(task), nominated_pods.room(self._session, task)
        able = _has_room(room + most, request)
        rows = np.flatnonzero(able & self._session.placement.reachable(task))
        lacking = np.maximum(request - room[rows], 0) @ self._weights
        found: list[int] = rows[np.argsort(lacking, kind="stable")[:ROWS_MAX]].tolist()
        return found

    def _choices(self, rows: Sequence[Sequence[int]]) -> Iterator[Rows]:
        """Yield rows for all tasks, in the order of what victims would free at least."""
        numbers = self._numbers
        losses: dict[tuple[int, Numbers], float] = {}
        ahead: list[tuple[float, int, Rows]] = [(0.0, 0, ())]
        for _ in range(STEPS_MAX):
            if not ahead:
                return
            loss, _, choice = heapq.heappop(ahead)
            at = len(choice)
            if at == len(rows):
                yield choice
                continue
            self._session.spend("claims", STEP_COST)
            # Of equal tasks, none is on an earlier row than the one before.
            first = choice[-1] if at and numbers[at] == numbers[at - 1] else 0
            for row in (each for each in rows[at] if each >= first):
                here = tuple(itertools.compress(numbers, map(row.__eq__, choice)))
                after = self._loss(row, (*here, numbers[at]), losses)
                if after < np.inf:
                    before = self._loss(row, here, losses)
                    heapq.heappush(ahead, (loss - before + after, -at - 1, (*choice, row)))

    def _loss(self, row: int, here: Numbers, known: dict[tuple[int, Numbers], float]) -> float:
        """Return the least that victims on the row free so that these tasks fit; else inf."""
        if (row, here) not in known:
            self._session.spend("claims", search.TASK_COST)
            cluster = self._session.cluster
            load = self._sum(self._ordered[number] for number in here)
            free = cluster.allocatable[row] - cluster.future_used[row]
            lacking = np.where(load > 0, load - free, 0)
            known[row, here] = least_freed(self._freed(row), lacking, self._weights)
        return known[row, here]

    def _freed(self, row: int) -> Sequence[Vector]:
        """Return what each pod on the row frees that may be evicted, (R,), the preferred first."""
        if row not in self._evictable:
            units = self._pool.units(self._ordered[0], row)
            self._evictable[row] = [self._sum(unit.tasks) for unit in units]
        return self._evictable[row]


VICTIMS_MAX = 10
"""Of so many victims on a node, every choice is looked at."""


def smallest_first(freed: Sequence[Vector], lacking: Vector) -> list[int] | None:
    """Return the victims to be evicted, the smallest first; None if there is nothing to choose.

    `freed` is what each victim frees on the node, (R,), the preferred victims first, and `lacking`
    what the node lacks, (R,), as far as anything is lacking. As long as a queue has more than its
    share, it may lose one more pod, so the largest comes last.
    """
    scarce = np.flatnonzero(lacking > 0)
    table = _table(freed, lacking)
    choices = _sufficient(table[:, scarce], lacking[scarce])
    if not choices.size:
        return None
    parts = (choices @ table[:, scarce] / lacking[scarce]).sum(axis=1)
    best = np.lexsort((choices.sum(axis=1), parts))[0]
    chosen = np.flatnonzero(choices[best])
    sizes = (table[chosen][:, scarce] / lacking[scarce]).sum(axis=1)
    found: list[int] = chosen[np.argsort(sizes, kind="stable")].tolist()
    return found


def least_freed(freed: Sequence[Vector], lacking: Vector, weights: Share) -> float:
    """Return the least that sufficient victims free in all, weighted; inf if none suffice."""
    scarce = np.flatnonzero(lacking > 0)
    if not scarce.size:
        return 0.0
    table = _table(freed, lacking)
    choices = _sufficient(table[:, scarce], lacking[scarce])
    return float((choices @ (table @ weights)).min()) if choices.size else np.inf


def _table(freed: Sequence[Vector], lacking: Vector) -> Vector:
    """Return what each of the victims frees that are looked at, (V, R)."""
    return np.array(freed[:VICTIMS_MAX], dtype=np.int64).reshape(-1, lacking.size)


def _sufficient(table: Vector, lacking: Vector) -> Vector:
    """Return the choices of victims (C, V) that free what is lacking, each of 0 and 1."""
    if not table.size:
        return table
    choices = (np.arange(1, 2 ** len(table))[:, np.newaxis] >> np.arange(len(table))) & 1
    enough: Vector = choices[(choices @ table >= lacking).all(axis=1)]
    return enough
