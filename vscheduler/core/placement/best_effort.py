"""Best-effort members of a gang: pods without requests, which still need a node and a pod slot.

A pending best-effort pod counts as placed (Volcano: JobInfo.IsReady), so no pod is evicted to make
room. A gang with best-effort pods in its minimum nevertheless starts only together with them.
"""

import itertools
from collections.abc import Callable, Container, Iterator
from enum import Enum, auto

import msgspec

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.session import job_state, ordering
from vscheduler.core.session.job_state import JobState, Key
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model.jobs import PLACED, READY, PodClass, Task, TaskId, TaskStatus


class Outcome(Enum):
    """The result of a job's turn."""

    STARTS = auto()
    WAITS = auto()
    """The job's resources stay reserved for the rest of the cycle."""
    NEITHER = auto()


def start(session: Session, statement: Statement, state: JobState) -> None:
    """Commit the statement of a ready job, and bind tasks that earlier turns only reserved.

    With reserved tasks the job has its minimum (Volcano: Session.Allocate dispatches all allocated
    tasks).
    """
    for task in state.tasks(TaskStatus.ALLOCATED):
        if task.uid in session.decided.pipelined and not statement.places(task):
            statement.start(task)
    statement.commit()


class BestEffortPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Places best-effort members of one job within a statement in progress."""

    session: Session
    trial: Statement
    state: JobState
    place: Callable[[Task], bool]
    """Finds a node for a task; False if there is none."""
    statuses: frozenset[TaskStatus] = PLACED
    """Which tasks count as placed. READY if resources still being released don't count."""

    def outcome(self) -> Outcome:
        """Place the best-effort members that the job needs, and return what becomes of the job.

        Nothing is committed.
        """
        if not self.needed():
            return Outcome.NEITHER
        if job_state.is_ready(self.session.dispatch, self.state):
            return Outcome.STARTS
        if self.session.dispatch.vote(AllHooks.job_pipelined, self.state):
            return Outcome.WAITS
        return Outcome.NEITHER

    def conclude(self, *, waits: bool = True) -> Outcome:
        """Bind the job's tasks with the best-effort members it needs, or hold all of them, unless
        it isn't to wait.

        With NEITHER, nothing has been committed, and the caller undoes the statement.
        """
        outcome = self.outcome()
        if outcome is Outcome.WAITS and not waits:
            return Outcome.NEITHER
        if outcome is Outcome.STARTS:
            start(self.session, self.trial, self.state)
        elif outcome is Outcome.WAITS:
            self.trial.hold()
        return outcome

    def needed(self) -> bool:
        """Place as many members as the minimum needs, first for roles that lack pods.

        Return False, and place none, if nodes have no room for enough of them.
        """
        if not job_state.rests(self.session.dispatch, self.state, self.statuses):
            return True
        before = self.trial.checkpoint()
        for lacking in (True, False):
            for placed in self._each(self.state.lacks_role if lacking else _any):
                if placed and not job_state.rests(self.session.dispatch, self.state, self.statuses):
                    return True
        self.trial.rollback(before)
        return False

    def others(self, among: Container[TaskId] | None = None) -> None:
        """Place as many further members as possible, of all or of those in `among`."""
        for _ in self._each(_any if among is None else lambda task: task.uid in among):
            pass

    def another(self) -> bool:
        """Place one further member, or a sub-group, and return whether there is room for any."""
        return any(self._each(_any))

    def exchange(self) -> None:
        """Place members waiting for resources being released, sub-groups only if complete."""
        state, groups = self.state, self.state.sub_groups
        pipelined = [task for task in state.tasks(TaskStatus.PIPELINED) if task.best_effort]
        ordered = ordering.tasks(self.session.dispatch, state, pipelined)
        for key, tasks in itertools.groupby(ordered, groups.of if groups else _alone):
            before = self.trial.checkpoint()
            for task in tasks:
                self.place(task)
            if groups and key and not groups.is_whole(key, self.statuses, idlers=False):
                self.trial.rollback(before)

    def sub_group(self, key: Key, since: int | None = None) -> bool:
        """Place enough members to complete a sub-group, or none.

        If any of the sub-group's tasks waits for resources being released, all tasks placed after
        checkpoint `since` wait as well.
        """
        groups = self.state.sub_groups
        assert groups is not None
        before = self.trial.checkpoint()
        for task in list(self.state.tasks(TaskStatus.PENDING)):
            if groups.is_whole(key, self.statuses, idlers=False):
                break
            if task.best_effort and groups.of(task) == key and not self.place(task):
                break
        if not groups.is_whole(key, self.statuses, idlers=False):
            self.trial.rollback(before)
            return False
        if not groups.is_whole(key, READY, idlers=False):
            self.trial.postpone(before if since is None else since)
        return True

    def _each(self, wanted: Callable[[Task], bool]) -> Iterator[bool]:
        """Place tasks one by one, incomplete sub-groups as a whole; yield each success."""
        state = self.state
        pending = [task for task in state.tasks(TaskStatus.PENDING) if task.best_effort]
        failed: set[PodClass | Key] = set()
        for task in ordering.tasks(self.session.dispatch, state, pending):
            if state.status(task) is not TaskStatus.PENDING or not wanted(task):
                continue
            key = self._unfinished(task)
            # Pods of the same class, or of the same sub-group, would fail for the same reason.
            if (key or task.pod_class) in failed:
                continue
            placed = self.place(task) if key is None else self.sub_group(key)
            if not placed and self.session.dispatch.equal_for_equal_jobs:
                failed.add(key or task.pod_class)
            yield placed

    def _unfinished(self, task: Task) -> Key | None:
        """Return the task's sub-group if incomplete: members of a sub-group start together."""
        groups = self.state.sub_groups
        key = None if groups is None else groups.of(task)
        if groups is None or key is None or groups.is_whole(key, self.statuses, idlers=False):
            return None
        return key


def _alone(task: Task) -> Key | None:
    """Return no sub-group, for jobs without sub-groups."""
    del task
    return None


def _any(task: Task) -> bool:
    """Accept every task."""
    del task
    return True
