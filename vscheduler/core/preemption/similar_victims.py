"""SimilarVictims: asks plugins once about all pods of a group, and once about similar gangs.

An answer holds for the state in which it was asked. Further evictions only raise costs, so until
the end of the attempt it is a lower bound.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import jobs
from vscheduler.core.preemption import victim_columns, victims
from vscheduler.core.session import session as working
from vscheduler.core.session import statement

DEPTH_MAX = 8
"""About how many victims, one after the other, a group is asked at most."""

DEEP_GROUPS_MAX = 32
"""With more groups, each is asked about one victim only."""

ASK_COST = 60
"""Approximate microseconds for one question about a group."""

Step = tuple[float, victims.Rank]
"""The overshoot and the rank of an eviction, by which nodes are compared first."""

NOTHING: Step = (0.0, ())
"""A step that is no higher than any other."""


class SimilarVictims:
    """What evicting similar pods costs at least, on behalf of one task."""

    def __init__(
        self,
        session: working.Session,
        columns: victim_columns.VictimColumns,
        pool: victims.VictimCandidates,
        task: jobs.Task,
    ) -> None:
        self._session, self._columns, self._pool, self._task = session, columns, pool, task

    def steps_of_pods(
        self, trial: statement.Statement, evict: Callable[[victims.VictimGroup], None]
    ) -> Mapping[int, Sequence[Step]]:
        """Return the steps of each group, for one victim, two, and so on.

        A group ends with the last pod that may be evicted, or where the task could need no more.
        evict is for the trial, which is undone.
        """
        columns, found = self._columns, {}
        count = len(columns.representatives)
        for group in range(count):
            depth = self._depth(group) if count <= DEEP_GROUPS_MAX else 1
            members = columns.first_of(group, self._pool.scope, depth)
            checkpoint, steps = trial.checkpoint(), list[Step]()
            for number, place in enumerate(members, 1):
                victim = columns.pods.task(place)
                overshoot = self._overshoot((victim,))
                if overshoot is None:
                    break
                steps.append((overshoot, self._rank(victim)))
                if number < len(members):
                    state = self._session.job_state_of(victim)
                    evict(victims.VictimGroup(state=state, tasks=(victim,), whole=False))
            trial.rollback(checkpoint)
            if steps:
                found[group] = steps
        return found

    def steps_of_gangs(
        self, proportionate: Callable[[victims.VictimGroup], bool]
    ) -> Mapping[int, Step]:
        """Return the steps of each group of gangs, without groups that may not be evicted.

        proportionate tells which gangs aren't too large.
        """
        columns, scope, found = self._columns, self._pool.scope, {}
        groups, first = np.unique(columns.gang_groups, return_index=True)
        for group, place in zip(groups.tolist(), first.tolist(), strict=True):
            state = columns.pods.states[place]
            if group == 0:  # nothing is known, so nothing is forbidden
                if columns.has_unknown_gangs:
                    found[group] = NOTHING
                continue
            if state.job.queue not in scope.queues:
                continue
            if state.job.id == scope.without:
                found[group] = NOTHING
                continue
            unit = victims.whole(state)
            if unit is None or not proportionate(unit):
                continue
            overshoot = self._overshoot(unit.tasks)
            if overshoot is not None:
                found[group] = (overshoot, self._rank(unit.tasks[0]))
        return found

    def _rank(self, victim: jobs.Task) -> victims.Rank:
        return self._pool.rank(self._session.job_state_of(victim).job.queue)

    def _depth(self, group: int) -> int:
        """Return how many pods of the group the task could need at most on a node."""
        place = self._columns.representatives[group]
        request = self._session.request(self._task)
        freed: NDArray[np.int64] = self._columns.requests[self._columns.pods.class_numbers[place]]
        used = request > 0
        if not freed[used].all():
            return DEPTH_MAX
        return min(DEPTH_MAX, int((-(-request[used] // freed[used])).max()))

    def _overshoot(self, tasks: Sequence[jobs.Task]) -> float | None:
        """Return the overshoot if a pod, or a whole gang, like these were evicted; None if not.

        The answer is 0 where plugins don't answer alike for similar victims.
        """
        asked, pool = self._session.dispatch, self._pool
        self._session.spend("similar", ASK_COST)
        if not self._columns.alike:
            return 0.0
        if not any(asked.may_be_entitled(pool.hook, self._task, each) for each in tasks):
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
