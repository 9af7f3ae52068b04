"""WholeGangSearch: places a gang on nodes that are chosen for all its pods before any victim is.

Choosing node and victims for one pod after the other may leave no node for the last pod, or take
more victims than necessary.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from vscheduler.core.eviction import search, smallest_victims
from vscheduler.core.eviction.cheapest_nodes import CheapestNodes
from vscheduler.core.eviction.search import VictimSearch
from vscheduler.core.eviction.victim_columns import Flags
from vscheduler.core.eviction.victims import VictimGroup
from vscheduler.core.model.jobs import Task
from vscheduler.core.model.nodes import Mask
from vscheduler.core.model.resources import Vector
from vscheduler.core.model.snapshot import SearchRoom
from vscheduler.core.placement import nominated_pods
from vscheduler.core.placement.gang_search import attempt

Places = list[tuple[Task, int]] | None


class Found(msgspec.Struct, eq=False):
    """What the attempts of a plan have found."""

    most: dict[tuple[bool, bool], Vector | None] = msgspec.field(default_factory=dict)
    """What evictions could free on each node, (N, R), with whole gangs and moves or without; None
    if that can't be enough."""
    places: dict[bytes, Places] = msgspec.field(default_factory=dict)
    """Nodes for the gang, by what evictions could free."""


class WholeGangSearch(VictimSearch):
    """One attempt to place a gang of unequal pods, where taking them one by one has failed."""

    def __init__(self, known: Found, *arguments: Any) -> None:
        """`known` is what other attempts of the same plan have found."""
        super().__init__(*arguments)
        self._known = known
        self._is_thrifty = False
        """Whether victims are chosen that free no more than necessary."""
        self._coming: dict[int, Vector] = {}
        """By row, what pods ask for that are still to be placed there, (R,)."""

    def succeeds(self) -> bool:
        """Choose nodes as if all that may be evicted were gone, then the victims on each."""
        places = self._places()
        if places is None:
            return False
        before = self._trial.checkpoint()
        if self._put_all(places):
            return True
        # Queues may lose a certain amount, so the preferred victims may be too large.
        if self._pool.hook == "preemptable":
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
            if not self._may_claim(task) or not self._put(task, row):
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
        if key not in self._known.places:
            rooms = SearchRoom
            room = rooms.EVICTABLE_GANGS if self._pool.rules.whole else rooms.EVICTABLE
            self._known.places[key] = attempt.with_room_to_free(
                self._session, self._state, self._tasks, room, most
            )
        return self._known.places[key]

    def _most(self) -> Vector | None:
        """Return what evictions could free on each node, (N, R); None if that can't be enough."""
        rules, known = self._pool.rules, self._known.most
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
        claiming = {kind: task for kind, task in tasks.items() if self._may_claim(task)}
        if not claiming or sum(kind in claiming for kind in kinds) < len(needed):
            return None
        columns, scope = self._kept.columns, self._pool.scope
        columns.refresh()
        # First by amounts only, then by asking plugins what may be evicted.
        chosen = columns.steady & columns.there & columns.in_scope(scope)
        if not self._pool.rules.whole:
            chosen &= columns.spare
        for asking in (False, True):
            if asking:
                self._scarce = self._scarce_request(sized)
                self._pool.start_search(self._sum(needed))
                evictable = [self._evictable_for(task) for task in claiming.values()]
                chosen = np.any(evictable, axis=0)
            most = columns.freed_by(chosen)
            able = {kind for kind, task in claiming.items() if self._may_fit(task, most)}
            if not chosen.any() or sum(kind in able for kind in kinds) < len(needed):
                return None
        return most

    def _evictable_for(self, task: Task) -> Flags:
        """Return the pods that may be evicted for such a task, (P,)."""
        nodes = CheapestNodes(self._session, self._kept, self._pool, task)
        nodes.start_search(task, self._trial, self._evict, self._is_proportionate)
        return nodes.evictable()

    def _may_fit(self, task: Task, most: Vector) -> bool:
        """Whether some node has room for the task then, as far as amounts are concerned."""
        room = nominated_pods.room(self._session, task) + most
        return bool(has_room(room, self._session.request(task)).any())

    def _groups_on(self, task: Task, row: int) -> Sequence[VictimGroup]:
        """Return the victims on this node that are preferred, or those that free the least."""
        groups = super()._groups_on(task, row)
        if not self._is_thrifty or not groups:
            return groups
        cluster, name = self._session.cluster, self._session.layout.names[row]
        coming = self._coming[row]
        free = cluster.allocatable[row] - cluster.future_used[row]
        freed = [self._sum(task for task in unit.tasks if task.node == name) for unit in groups]
        order = smallest_victims.order(freed, np.where(coming > 0, coming - free, 0))
        return groups if order is None else [groups[place] for place in order]

    def _forget(self) -> None:
        """Forget all tasks and victims; the trial has been undone."""
        self.placed.clear()
        self._chosen.clear()
        self._candidates.clear()
        self._vacated.clear()
        self._freed_whole = self._session.space.zeros()

    def _put(self, task: Task, row: int) -> bool:
        """Place the task on this node, with evictions if need be."""
        self._session.spend("claims", search.TASK_COST)
        found = self._candidate_on(task, row)
        if found is None or (task.best_effort and found.units):
            return False
        self._accept(task, row, found)
        return True


def has_room(room: Vector, request: Vector) -> Mask:
    """Return the nodes (N,) on which a request fits in the room (N, R)."""
    return np.asarray((room >= request)[:, request > 0].all(axis=1))
