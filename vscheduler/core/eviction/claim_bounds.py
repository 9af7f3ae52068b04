"""ClaimBounds: the most that evictions for a queue could free on each node, whoever asks.

When no victims are found for one job, most jobs of other classes in the same queue fail as well. A
job whose pods are larger than all that could be free on any node needs no search of its own. The
bounds hold until the next plan succeeds, since an attempt in vain changes nothing.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.eviction.entitled_groups import EntitledGroups
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.victim_columns import VictimColumns
from vscheduler.core.eviction.victims import VictimCandidates
from vscheduler.core.model import resources
from vscheduler.core.model.jobs import Task
from vscheduler.core.model.resources import Vector
from vscheduler.core.placement import unschedulable_classes
from vscheduler.core.placement.gang_search import attempt
from vscheduler.core.session.session import Session

CHECK_COST = 10
"""Approximate microseconds for comparing a class of pods with the bounds."""

NODES_PER_UNIT = 200
"""With how many nodes a class is compared in about a microsecond."""

PODS_PER_UNIT = 15
"""For how many pods bounds are computed in about a microsecond."""

Flags: TypeAlias = NDArray[np.bool_]
Rooms: TypeAlias = tuple[Vector, Vector]
"""What nodes would have free, (n, R), and the most of it by resource, (R,)."""


class ClaimBounds:
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
        domain = pools.domain(self._pool.claimant.name, task.pod_class)
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
        groups = self._entitled.of(self._pool.claimant, task).groups
        entitled = self._candidates & groups[columns.groups]
        leaving = entitled & columns.spare
        if self._pool.rules.whole:
            # One entitled pod is enough for a gang to go whole.
            owners = np.zeros(len(pods.owner_jobs), dtype=np.bool_)
            owners[pods.owners[entitled]] = True
            leaving |= self._candidates & owners[pods.owners]
        return self._free + columns.freed_by(leaving)
