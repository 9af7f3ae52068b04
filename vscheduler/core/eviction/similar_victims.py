"""SimilarVictims: asks plugins once about all pods of a group, and once about similar gangs.

An answer holds for the state in which it was asked. Further evictions only raise costs, so until
the end of the attempt it is a lower bound.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.eviction import victims
from vscheduler.core.eviction.entitled_groups import Entitled
from vscheduler.core.eviction.victim_columns import Likeness, VictimColumns
from vscheduler.core.eviction.victims import Rank, VictimCandidates, VictimGroup
from vscheduler.core.model.jobs import Task
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement

DEPTH_MAX = 8
"""About how many victims, one after the other, a group is asked at most."""

DEEP_GROUPS_MAX = 32
"""With more groups, each is asked about one victim only."""

GROUPS_PER_NODE = 2
"""With more groups than that, looking at nodes takes less time than asking about groups."""

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
        self._asks = (
            columns.likeness is Likeness.CLASS
            and int(entitled.groups.sum()) <= GROUPS_PER_NODE * session.layout.size
        )
        self._pods: dict[int, list[float]] = {}
        """Overshoots of one victim, two, and so on, by group."""
        self._gangs: dict[int, float | None] = {}
        """Overshoots by group of gangs; None for gangs that may not be evicted."""
        self._seen = 0

    def forget_losers(self) -> None:
        """Forget the answers for queues that have lost pods since the last call."""
        columns = self._columns
        lost = set(columns.losers[self._seen :])
        self._seen = len(columns.losers)
        if lost:
            for group in [pod for pod in self._pods if columns.queue_of(pod) in lost]:
                del self._pods[group]
            self._gangs.clear()

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
                if group not in self._pods:
                    self._pods[group] = self._overshoots(group, statement, evict)
                rank = self._pool.rank(queue)
                found[group] = [(overshoot, rank) for overshoot in self._pods[group]]
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
            if group not in self._gangs:
                self._gangs[group] = self._of_gang(
                    victims.whole(columns.state(place)), proportionate
                )
            overshoot = self._gangs[group]
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
        unknown = self._session.dispatch.asks("share_after")
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
        claimant = pool.claimant_of(self._task)
        self._session.spend("similar", ASK_COST)
        entitled = (
            asked.may_be_entitled(pool.hook, claimant, task, "alike_victims") for task in tasks
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
