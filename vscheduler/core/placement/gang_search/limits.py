"""Limits: what the queue of a gang lets its pods ask for in all."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from vscheduler.core.model.decisions import QueueLimit, Shortage
from vscheduler.core.model.jobs import Task
from vscheduler.core.placement.gang_search.solver import problem
from vscheduler.core.placement.gang_search.solver.problem import Ints, Kind, Pool, Problem
from vscheduler.core.placement.gang_search.solver.queue_room import QueueRoom
from vscheduler.core.session.session import Session

ROUNDING = 1e-6
"""Limits are sums of fractions, and amounts are whole."""


class Limits:
    """What plugins say of the queue of a gang; `pods` is one of each kind."""

    def __init__(self, session: Session, pods: Iterable[Task]) -> None:
        self._session = session
        self._known: list[QueueLimit] = []
        """Limits that hold wherever pods are; those that are about the last of the pods."""
        self._by_nodes: dict[bytes, list[QueueLimit]] = {}
        rooms = []
        for pod in pods:
            queue = session.queues[session.job_states[pod.job].job.queue]
            answers = session.dispatch.every("queue_limits", queue, pod)
            known = [
                each
                for each in itertools.chain.from_iterable(answer or () for answer in answers)
                if each.resource in session.space.columns
            ]
            self._known = [each for each in known if each.nodes is None]
            rooms.append(self._room(self._known))
            self._by_nodes.clear()
            for each in known:
                if each.nodes is not None:
                    self._by_nodes.setdefault(each.nodes.tobytes(), []).append(each)
        # Limits are wider for pods that have nominations. What a queue refuses to others, it also
        # refuses when they are placed.
        self._widest: Ints = np.max(rooms, axis=0)

    def room_for(self, kinds: Sequence[Kind]) -> Ints | None:
        """Return what pods may ask for in all, (R,), or None if all of these may be placed."""
        asked = sum((kind.request * kind.count for kind in kinds), self._session.space.zeros())
        within = (asked <= self._widest) | (asked == 0)
        return None if within.all() else self._widest

    def pools(self, rows: Ints) -> tuple[Pool, ...]:
        """Return the limits on some of these nodes."""
        return tuple(
            Pool(rows=limits[0].nodes[rows], room=self._room(limits))
            for limits in self._by_nodes.values()
            if limits[0].nodes is not None and limits[0].nodes[rows].any()
        )

    def shortages(self, problem: Problem) -> tuple[Shortage, ...]:
        """Return the limits that the smallest pods which the gang needs exceed.

        There may be none, if one limit suits some pods, and another limit others.
        """
        counts = np.array([kind.count for kind in problem.kinds], dtype=np.int64)
        least = QueueRoom(problem).least(np.zeros_like(counts), counts)
        columns = self._session.space.columns
        exceeded = [each for each in self._known if 0 < least[columns[each.resource]] > each.room]
        # Of several queues, the topmost: queues below can't have more in any case.
        found = {
            each.resource: Shortage(
                resource=each.resource,
                requested=int(least[columns[each.resource]]),
                allocated=each.allocated,
                limit=each.limit,
                owner=each.owner,
                kept=each.kept,
                keepers=each.keepers,
                whole=each.whole,
            )
            for each in exceeded
            if each.owner == exceeded[-1].owner
        }
        return tuple(found[name] for name in sorted(found))

    def _room(self, limits: Iterable[QueueLimit]) -> Ints:
        room = np.full(self._session.space.size, np.inf)
        for limit in limits:
            column = self._session.space.columns[limit.resource]
            room[column] = min(room[column], limit.room)
        bounded = np.clip(room, -problem.PLENTY, problem.PLENTY)
        whole: Ints = np.floor(bounded + ROUNDING).astype(np.int64)
        return whole
