"""Preemptors: starving jobs for which pods may be evicted, sorted by queue.

Of unschedulable jobs made from one template, the first one asks for all of them. If it finds no
victims, none of the others would, as long as no plan comes between, so they stay out of the cycle.
Once a plan has changed the cluster, those whose turn would come after it ask for themselves.
"""

import math
from collections import deque
from collections.abc import Collection, Container, Hashable, Iterable, Mapping

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.memo.unschedulable_jobs import UnschedulableGroup
from vscheduler.core.placement import nominated_pods
from vscheduler.core.session import job_class, ordering, reasons
from vscheduler.core.session.dispatch import Dispatch
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.ordering import Line, SortKey
from vscheduler.core.session.session import Session
from vscheduler.model.jobs import JobId, Phase, Task, TaskId, TaskStatus
from vscheduler.model.queues import Queue


class Preemptor:
    """A starving job with the tasks that haven't been placed yet."""

    __slots__ = ("_dispatch", "_tasks", "group", "place", "state")

    def __init__(
        self,
        dispatch: Dispatch,
        state: JobState,
        group: UnschedulableGroup | None = None,
    ) -> None:
        self.state = state
        self.group = group
        """The unschedulable jobs for which the job asks, too."""
        self.place: SortKey = ()
        """The job's place in the line of its queue."""
        self._dispatch = dispatch
        self._tasks: deque[Task] | None = None
        """None until first used, since only one of many similar jobs is examined."""

    @property
    def tasks(self) -> deque[Task]:
        """The tasks in placement order."""
        if self._tasks is None:
            pending = self.state.tasks(TaskStatus.PENDING)
            self._tasks = deque(ordering.tasks(self._dispatch, self.state, pending))
        return self._tasks

    def drop(self, placed: Container[TaskId]) -> None:
        """Remove placed tasks."""
        self._tasks = deque(task for task in self.tasks if task.uid not in placed)

    def class_key(self, session: Session) -> Hashable:
        """Return a key: if a job finds no victims, jobs with equal keys find none, either.

        None for a job with sub-groups, or with any task not Pending: such a job resembles no other
        job. Nor does any if a plugin doesn't declare what its answers depend on.
        """
        state, job = self.state, self.state.job
        if not self._dispatch.equal_for_equal_jobs:
            return None
        if state.sub_groups is not None or len(job.tasks) > state.counts[TaskStatus.PENDING]:
            return None
        traits = tuple(map(job_class.traits, self.tasks))
        needs = job_class.needs(job)
        return needs, traits, tuple(nominated_pods.class_key(session, task) for task in self.tasks)


def line_up(
    session: Session, action: str, served: Container[str] | None = None
) -> tuple[Line[Queue], dict[str, Line[Preemptor]]]:
    """Return the queues with starving jobs, and the starving jobs of each queue.

    `served` are the names of all queues that the action may help; None: all.
    Jobs that weren't admitted are left out (Volcano: preempt and reclaim skip Pending jobs). So are
    jobs for which this action found no victims in the unfinished cycles just before, and jobs for
    which the API server has refused evictions repeatedly. Nobody is lined up when the budget is
    used up by then.
    """
    waiting: Line[Queue] = Line()
    lines: dict[str, Line[Preemptor]] = {}
    if session.work_budget.exhausted:
        return waiting, lines
    for state in session.waiting_jobs():
        if served is not None and state.job.queue not in served:
            continue
        if _is_starving(session, action, state):
            line = lines.get(state.job.queue)
            if line is None:
                line = lines[state.job.queue] = Line()
            stand(session, line, Preemptor(session.dispatch, state))
    for name, line in lines.items():
        queue = session.queues[name]
        waiting.join(queue_place(session, queue, line), queue)
    return waiting, lines


def join_unschedulable(
    session: Session,
    action: str,
    line: Line[Preemptor],
    groups: Iterable[UnschedulableGroup],
) -> None:
    """Wake unschedulable jobs of one queue, and let those that starve join the queue's line."""
    groups = list(groups)
    session.activate_jobs(groups)
    for job in sorted(job for group in groups for job in group.members):
        join(session, action, line, session.job_states[job])


def join(
    session: Session,
    action: str,
    line: Line[Preemptor],
    state: JobState,
    group: UnschedulableGroup | None = None,
) -> None:
    """Let the job join the line if it starves. `group` are the jobs for which it asks, too."""
    if _is_starving(session, action, state):
        stand(session, line, Preemptor(session.dispatch, state, group))


def stand(session: Session, line: Line[Preemptor], preemptor: Preemptor) -> None:
    """Let the job take its present place in the line."""
    preemptor.place = job_place(session, preemptor.state)
    line.join(preemptor.place, preemptor)


def _is_starving(session: Session, action: str, state: JobState) -> bool:
    """Whether pods may be evicted for the job, which is admitted and waits."""
    carried, job = session.snapshot.carried, state.job.id
    return not (
        not state.counts[TaskStatus.PENDING]
        or state.phase is Phase.PENDING
        or job in carried.reported.eviction_refused_jobs
        or (carried.reclaim_failed and (action, job) in carried.reclaim_failed)
        or reasons.invalid(session, state) is not None
        or not session.dispatch.first_tier(AllHooks.job_starving, state)
        or _waits_for_nodes(session, state)
    )


def _waits_for_nodes(session: Session, state: JobState) -> bool:
    """Whether an autoscaler still has time to add nodes. If so, a cycle is due when it is over."""
    due = eviction_due(session, state)
    if due <= session.snapshot.now:
        return False
    if due < math.inf:
        session.wake(due)
    return True


def eviction_due(session: Session, state: JobState) -> float:
    """Return from when on pods may be evicted for a waiting job, in seconds since the epoch: when
    as many of its pods as it lacks have waited for the eviction delay of its queue.
    """
    delay = session.queues[state.job.queue].eviction_delay
    if not delay:
        return -math.inf
    created = sorted(task.created for task in state.tasks(TaskStatus.PENDING))
    lacking = state.missing_tasks
    return created[min(lacking, len(created)) - 1] + delay


def job_place(session: Session, state: JobState) -> SortKey:
    """Return the job's sort key within the queue.

    In a hurry, jobs of namespaces with a high cost come last.
    """
    comes_last = session.work_budget.has_had_its_part(state.job.namespace)
    return (comes_last, *ordering.job_key(session.dispatch, state))


def queue_place(session: Session, queue: Queue, line: Line[Preemptor]) -> SortKey:
    """Return the queue's sort key.

    In a hurry, a queue comes last if the first job's namespace has a high cost.
    """
    comes_last = bool(line) and session.work_budget.has_had_its_part(line.first.state.job.namespace)
    return (comes_last, *ordering.queue_key(session.dispatch, queue))


class EqualPreemptors:
    """The unschedulable jobs that one action may serve in this cycle."""

    def __init__(self, session: Session, action: str, served: Collection[str]) -> None:
        """`served` are the names of all queues that the action may help."""
        self._session, self._action = session, action
        self._waiting = dict(session.unschedulable.of_queues(served))
        """By queue, the groups that haven't joined its line."""
        self._failed: dict[str, list[UnschedulableGroup]] = {}
        """By queue, the groups that found no victims since the last successful plan."""

    @property
    def names(self) -> Collection[str]:
        """The queues with groups that haven't joined."""
        return self._waiting.keys()

    def join(self, queue: str, line: Line[Preemptor]) -> None:
        """Let the queue's groups join its line, if they haven't yet."""
        groups = self._waiting.pop(queue, ())
        apart = [group for group in groups if not self._is_one(queue, group)]
        join_unschedulable(self._session, self._action, line, apart)
        for group in groups:
            if self._is_one(queue, group):
                first = min(group.members.values(), key=lambda job: (job.created, job.id))
                state = self._session.job_states[first.id]
                join(self._session, self._action, line, state, group)

    def _is_one(self, queue: str, group: UnschedulableGroup) -> bool:
        """Whether one of the jobs may ask for all: nothing tells single ones apart."""
        session, carried = self._session, self._session.snapshot.carried
        are_equal = session.policy.alike_by_age and session.dispatch.equal_for_equal_jobs
        if carried.reclaim_failed or not are_equal or session.queues[queue].eviction_delay:
            return False
        if not carried.reported.eviction_refused_jobs.isdisjoint(group.members):
            return False
        tasks = group.first.tasks
        return len(tasks) == 1 or len(set(map(job_class.traits, tasks))) == 1

    def fail(self, preemptor: Preemptor) -> None:
        """Record that the job found no victims, and that those for which it asked don't, either."""
        job, group = preemptor.state.job, preemptor.group
        history = self._session.eviction_history
        if group is None:
            history.fail(self._action, job.id)
            return
        history.fail_all(self._action, group.members)
        self._failed.setdefault(job.queue, []).append(group)

    def succeed(
        self, preemptor: Preemptor, queue: Queue, lines: Mapping[str, Line[Preemptor]]
    ) -> None:
        """Wake the jobs for which this job asked, and those whose turn comes after its plan."""
        session, job, group = self._session, preemptor.state.job, preemptor.group
        if group is not None:
            preemptor.group = None
            session.activate_jobs([group])
            session.reasons.forget(job.id)  # it waits for its victims now
            self._rejoin(group, lines[queue.name], without=job.id)
        failed, self._failed = self._failed, {}
        for name, groups in failed.items():
            line = lines[name]
            if name == queue.name:
                after = preemptor.place
            elif line:
                after = line.first.place
            else:  # all of them have had their turns
                continue
            session.activate_jobs(groups)
            for each in groups:
                self._rejoin(each, line, after=after)

    def _rejoin(
        self,
        group: UnschedulableGroup,
        line: Line[Preemptor],
        *,
        without: JobId | None = None,
        after: SortKey = (),
    ) -> None:
        """Let jobs of the group join the line whose places come after the given one."""
        session = self._session
        for job in group.members:
            state = session.job_states[job]
            if job != without and job_place(session, state) > after:
                join(session, self._action, line, state)
