"""ClaimBounds: the most that evictions for a queue could free on each node, whoever asks.

When no victims are found for one job, most jobs of other classes in the same queue fail as well. A
job whose pods are larger than all that could be free on any node needs no search of its own. The
bounds hold until the next plan succeeds, since an attempt in vain changes nothing.
"""

from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import jobs, resources
from vscheduler.core.placement import unschedulable_classes
from vscheduler.core.placement.gang_search import attempt
from vscheduler.core.preemption import (
    entitled_groups,
    preemptors,
    search,
    victim_columns,
    victims,
)
from vscheduler.core.session import session as working

CHECK_COST = 10
"""Approximate microseconds for comparing a class of pods with the bounds."""

NODES_PER_UNIT = 200
"""With how many nodes a class is compared in about a microsecond."""

PODS_PER_UNIT = 15
"""For how many pods bounds are computed in about a microsecond."""

PATTERNS_MAX = 16
"""With more sets of gangs that may be evicted whole, all gangs count as if each of them might."""

Flags: TypeAlias = NDArray[np.bool_]
Rooms: TypeAlias = tuple[resources.Vector, resources.Vector]
"""What nodes would have free, (n, R), and the most of it by resource, (R,)."""


class ClaimBounds:
    """Bounds on behalf of one queue in the present state of the session."""

    def __init__(
        self,
        session: working.Session,
        columns: victim_columns.VictimColumns,
        entitled: entitled_groups.EntitledGroups,
        pool: victims.VictimCandidates,
    ) -> None:
        """`pool` has the rules of the attempt that allows the most evictions."""
        self._session, self._columns, self._pool = session, columns, pool
        self._entitled = entitled
        columns.refresh()
        self._pods = session.space.columns[resources.PODS]
        self._free = session.cluster.allocatable - session.cluster.future_used
        self._most_free: list[int] = self._free.max(axis=0, initial=-resources.SUM_MAX).tolist()
        self._places = np.arange(len(columns.queues))
        self._candidates = columns.candidates(pool.scope, self._places)
        self._rooms: dict[tuple[bytes, bytes], resources.Vector] = {}
        """By requested resources and gangs that may go whole, the most on each node, (N, R)."""
        self._usable: dict[tuple[bytes, bytes, int], Rooms] = {}

    def exclude(self, preemptor: preemptors.Preemptor) -> bool:
        """Whether it is certain that no evictions make room for any pod of the job."""
        state = preemptor.state
        task = unschedulable_classes.representative(state.job)
        if task is None or not state.untouched or state.pending_best_effort:
            return False
        if attempt.could_help(self._session, state):
            return False
        self._session.spend("bounded", CHECK_COST)
        request = self._session.request(task)
        asked = (request > 0).tobytes()
        missing = state.job.min_member - state.ready_tasks - state.waiting_tasks
        gangs = self._gangs(request, max(1, missing))
        free, most = self._usable_rooms(asked, gangs, task)
        if unschedulable_classes.exceeds(request, most):
            return True
        self._session.spend("bounded", len(free) // NODES_PER_UNIT)
        return not resources.fits(request, free).any()

    def _gangs(self, request: resources.Vector, number: int) -> bytes:
        """Return which kinds of gangs (U) aren't too large to go whole for so many such pods."""
        totals, _ = self._gang_totals
        allowed = np.full(len(totals), self._pool.rules.whole)
        if self._pool.rules.whole and not self._pool.rules.always:
            for column, amount in enumerate(request.tolist()):
                # The limit counts resources that no node has enough of; pod slots never count.
                if amount > max(0, self._most_free[column]) and column != self._pods:
                    allowed &= totals[:, column] <= search.PROPORTION * number * amount
        return allowed.tobytes()

    @cached_property
    def _gang_totals(self) -> tuple[resources.Vector, NDArray[np.int64]]:
        """What gangs hold that can only go whole: different totals (U, R), and by job the place of
        its total (J,). The total is 0 for jobs that may lose single pods before.
        """
        columns = self._columns
        totals = np.zeros((len(columns.pods.owner_jobs), self._free.shape[1]), dtype=np.int64)
        there = np.flatnonzero(columns.there)
        amounts = columns.requests[columns.pods.class_numbers[there]]
        np.add.at(totals, columns.pods.owners[there], amounts)
        loses_pods = np.zeros(len(totals), dtype=np.bool_)
        loses_pods[columns.pods.owners] = columns.spare
        totals[loses_pods] = 0
        none = np.zeros((1, totals.shape[1]), dtype=np.int64)
        kinds, places = np.unique(np.concatenate([none, totals]), axis=0, return_inverse=True)
        return kinds, places.ravel()[1:]

    def _usable_rooms(self, asked: bytes, gangs: bytes, task: jobs.Task) -> Rooms:
        """Return the most that nodes usable for the task would have free."""
        pools = self._session.pools
        domain = pools.domain(self._pool.claimant.name, task.pod_class)
        patterns = {known for each, known in self._rooms if each == asked}
        if gangs not in patterns and len(patterns) >= PATTERNS_MAX:
            gangs = b"\1" * len(gangs)
        if (asked, gangs, domain) not in self._usable:
            if (asked, gangs) not in self._rooms:
                allowed = np.frombuffer(gangs, dtype=np.bool_)
                self._rooms[asked, gangs] = self._room(task, allowed)
            room = self._rooms[asked, gangs][pools.reach[domain][pools.kinds]]
            most = room.max(axis=0, initial=-resources.SUM_MAX)
            self._usable[asked, gangs, domain] = resources.by_column(room), most
        return self._usable[asked, gangs, domain]

    def _room(self, task: jobs.Task, gangs: Flags) -> resources.Vector:
        """Return the most that each node would have free, (N, R)."""
        columns, pods = self._columns, self._columns.pods
        self._session.spend("bounded", len(self._places) // PODS_PER_UNIT)
        groups = self._entitled.of(self._pool.claimant, task).groups
        entitled = self._candidates & groups[columns.groups]
        # One entitled pod is enough for a gang to go whole.
        owners = np.zeros(len(pods.owner_jobs), dtype=np.bool_)
        owners[pods.owners[entitled]] = True
        owners &= gangs[self._gang_totals[1]]
        leaving = (entitled & columns.spare) | (self._candidates & owners[pods.owners])
        return self._free + columns.freed_by(leaving)
