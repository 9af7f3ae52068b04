"""LeastLossSearch: places a gang where queues lose the least, when other choices take too much.

A queue may lose only what it has above its share. Nodes that are chosen for other reasons may need
victims that are too large, while smaller ones on other nodes would do.
"""

import functools
import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vscheduler.core.eviction import search, smallest_victims, whole_gang_search
from vscheduler.core.eviction.whole_gang_search import WholeGangSearch
from vscheduler.core.model.jobs import Task
from vscheduler.core.model.resources import Share, Vector
from vscheduler.core.placement import nominated_pods

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
        """Whether the attempt is about a small gang without parts, and its queue's claims."""
        parts = self._state.sub_groups is not None or self._state.job.roles_count
        if self._pool.hook != "reclaimable" or self._pool.rules.whole or parts:
            return False
        return not self.has_minimum and 0 < len(self._ordered) <= TASKS_MAX

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
        able = whole_gang_search.has_room(room + most, request)
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
            known[row, here] = smallest_victims.least(self._freed(row), lacking, self._weights)
        return known[row, here]

    def _freed(self, row: int) -> Sequence[Vector]:
        """Return what each pod on the row frees that may be evicted, (R,), the preferred first."""
        if row not in self._evictable:
            units = self._pool.units(self._ordered[0], row)
            self._evictable[row] = [self._sum(unit.tasks) for unit in units]
        return self._evictable[row]
