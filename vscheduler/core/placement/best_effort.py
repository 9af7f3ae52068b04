"""Best-effort members of a gang: pods that ask for nothing, and still need a node and a pod slot.

While they wait they count as placed (Volcano: JobInfo.IsReady), so that nobody is evicted for
them; but a gang that needs some of them for its minimum starts only with these.
"""

import itertools
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from vscheduler.core.model import jobs
from vscheduler.core.session import job_state, ordering, statement

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


class Outcome(Enum):
    """What becomes of a job's turn."""

    STARTS = auto()
    WAITS = auto()
    """Its room is kept for the rest of the cycle."""
    NEITHER = auto()


def start(session: "working.Session", trial: statement.Statement, gang: job_state.JobState) -> None:
    """Bind what a job that is ready was given, and what it was given before and only held: it has
    its minimum with these (Volcano: Session.Allocate, which dispatches all that is allocated).
    """
    for task in gang.tasks(jobs.TaskStatus.ALLOCATED):
        if task.uid in session.pipelined and not trial.places(task):
            trial.start(task)
    trial.commit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """Places for the best-effort members of one job, in a statement that is under way."""

    session: "working.Session"
    trial: statement.Statement
    gang: job_state.JobState
    place: Callable[[jobs.Task], bool]
    """Gives a task room; False: there is none."""
    statuses: frozenset[jobs.TaskStatus] = jobs.PLACED
    """READY where room that is being freed is none."""

    def conclude(self) -> Outcome:
        """Bind what the job was given, with those that its minimum needs; or hold it; or leave it
        to the caller to undo it.
        """
        session, trial, gang = self.session, self.trial, self.gang
        if not self.needed():
            return Outcome.NEITHER
        if job_state.is_ready(session.dispatch, gang):
            start(session, trial, gang)
            return Outcome.STARTS
        if session.dispatch.vote("job_pipelined", gang):
            trial.hold()
            return Outcome.WAITS
        return Outcome.NEITHER

    def needed(self) -> bool:
        """Place as many as the minimum needs, those first whose role needs them.

        False: there isn't room for so many, and none is placed.
        """
        if not job_state.rests(self.session.dispatch, self.gang, self.statuses):
            return True
        before = self.trial.checkpoint()
        for lacking in (True, False):
            for placed in self._each(self.gang.lacks_role if lacking else _any):
                if placed and not job_state.rests(self.session.dispatch, self.gang, self.statuses):
                    return True
        self.trial.rollback(before)
        return False

    def others(self, among: Container[jobs.TaskId] | None = None) -> None:
        """Place as many more of all, or of these, as there is room for."""
        for _ in self._each(_any if among is None else lambda task: task.uid in among):
            pass

    def exchange(self) -> None:
        """Give those a place that wait for room that is being freed; of a sub-group, none as long
        as it isn't whole with them.
        """
        gang, groups = self.gang, self.gang.sub_groups
        promised = [task for task in gang.tasks(jobs.TaskStatus.PIPELINED) if task.best_effort]
        ordered = ordering.tasks(self.session.dispatch, gang, promised)
        for key, tasks in itertools.groupby(ordered, groups.of if groups else _alone):
            before = self.trial.checkpoint()
            for task in tasks:
                self.place(task)
            if groups and key and not groups.is_whole(key, self.statuses, idlers=False):
                self.trial.rollback(before)

    def sub_group(self, key: job_state.Key, since: int | None = None) -> bool:
        """Place as many of a sub-group as make it whole, or none. If some of it wait for room that
        is being freed all do that were placed since then, a checkpoint.
        """
        groups = self.gang.sub_groups
        assert groups is not None
        before = self.trial.checkpoint()
        for task in list(self.gang.tasks(jobs.TaskStatus.PENDING)):
            if groups.is_whole(key, self.statuses, idlers=False):
                break
            if task.best_effort and groups.of(task) == key and not self.place(task):
                break
        if not groups.is_whole(key, self.statuses, idlers=False):
            self.trial.rollback(before)
            return False
        if not groups.is_whole(key, jobs.READY, idlers=False):
            self.trial.postpone(before if since is None else since)
        return True

    def _each(self, wanted: Callable[[jobs.Task], bool]) -> Iterator[bool]:
        """Place one after the other, those of a sub-group that isn't whole together, and tell
        whether there was room.
        """
        gang = self.gang
        pending = [task for task in gang.tasks(jobs.TaskStatus.PENDING) if task.best_effort]
        vain: set[jobs.PodClass | job_state.Key] = set()
        for task in ordering.tasks(self.session.dispatch, gang, pending):
            if gang.status(task) is not jobs.TaskStatus.PENDING or not wanted(task):
                continue
            key = self._unfinished(task)
            if (key or task.pod_class) in vain:
                continue
            placed = self.place(task) if key is None else self.sub_group(key)
            if not placed:
                vain.add(key or task.pod_class)
            yield placed

    def _unfinished(self, task: jobs.Task) -> job_state.Key | None:
        """The sub-group that the task is in, if it isn't whole: its members start together."""
        groups = self.gang.sub_groups
        key = None if groups is None else groups.of(task)
        if groups is None or key is None or groups.is_whole(key, self.statuses, idlers=False):
            return None
        return key


def _alone(task: jobs.Task) -> job_state.Key | None:
    del task
    return None


def _any(task: jobs.Task) -> bool:
    del task
    return True
