"""Who may ask others for room: starving jobs, queue by queue."""

import functools
from collections import deque
from collections.abc import Container, Hashable, Mapping
from typing import TYPE_CHECKING

from vscheduler.core.model import jobs, queues
from vscheduler.core.placement import nominated_pods
from vscheduler.core.session import dispatch, job_state, ordering, reasons

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


class Preemptor:
    """A starving job, and those of its tasks that haven't asked yet."""

    __slots__ = ("_dispatch", "_tasks", "gang")

    def __init__(self, dispatch: dispatch.Dispatch, gang: job_state.JobState) -> None:
        self.gang = gang
        self._dispatch = dispatch
        self._tasks: deque[jobs.Task] | None = None
        """None until somebody asks: of many jobs alike, only one is looked at."""

    @property
    def tasks(self) -> deque[jobs.Task]:
        """In the order in which they ask."""
        if self._tasks is None:
            pending = self.gang.tasks(jobs.TaskStatus.PENDING)
            self._tasks = deque(ordering.tasks(self._dispatch, self.gang, pending))
        return self._tasks

    def drop(self, placed: Container[jobs.TaskId]) -> None:
        """These tasks have room and ask no more."""
        self._tasks = deque(task for task in self.tasks if task.uid not in placed)

    def likeness(self, session: "working.Session") -> Hashable:
        """Equal for jobs of one queue of which none finds room where one found none; None for a
        job that is like no other, as it has something already.
        """
        gang, job = self.gang, self.gang.job
        if gang.sub_groups is not None or len(job.tasks) > gang.counts[jobs.TaskStatus.PENDING]:
            return None
        needs = job.memo("needs", functools.partial(_needs, job))
        if len(job.tasks) == 1 and session.neighbours.nobody and not session.nominated.anybody:
            return needs, job.memo("only task", functools.partial(_traits, job.tasks[0])), None
        traits = tuple(map(_traits, self.tasks))
        return needs, traits, tuple(nominated_pods.likeness(session, task) for task in self.tasks)


def _needs(job: jobs.Job) -> Hashable:
    """What likeness goes by of the job itself."""
    texts = map(_frozen, (job.min_task_member, job.annotations, job.labels))
    return (job.queue, job.priority, job.min_member, *texts)


def _traits(task: jobs.Task) -> Hashable:
    """What likeness goes by of one of its tasks."""
    return (
        *(task.pod_class, task.role, task.priority, task.preemptable, task.never_preempts),
        *(task.priority_class, _frozen(task.annotations), _frozen(task.labels)),
    )


def line_up(
    session: "working.Session", action: str
) -> tuple[ordering.Line[queues.Queue], dict[str, ordering.Line[Preemptor]]]:
    """Queues that have starving jobs, and those of each.

    A job that wasn't admitted doesn't ask (Volcano: preempt and reclaim skip Pending jobs), nor
    does one for which this action looked in vain in the unfinished cycles just before.
    """
    waiting: ordering.Line[queues.Queue] = ordering.Line()
    lines: dict[str, ordering.Line[Preemptor]] = {}
    denied, asked = (
        session.snapshot.carried.eviction_refused_jobs,
        session.snapshot.carried.reclaim_failed,
    )
    hurried = session.spending.hurried
    for gang in session.unsettled():
        if not gang.counts[jobs.TaskStatus.PENDING] or gang.phase is jobs.Phase.PENDING:
            continue
        if gang.job.id in denied or (asked and (action, gang.job.id) in asked):
            continue
        if reasons.invalid(session, gang) is not None:
            continue
        if not session.dispatch.first_tier("job_starving", gang):
            continue
        queue = session.queues[gang.job.queue]
        line = lines.get(queue.name)
        if line is None:
            line = lines[queue.name] = ordering.Line()
        has_had = hurried and session.spending.has_had_its_part(gang.job.namespace)
        place = (has_had, *ordering.job_key(session.dispatch, gang))
        line.join(place, Preemptor(session.dispatch, gang))
    for name, line in lines.items():
        queue = session.queues[name]
        waiting.join(queue_place(session, queue, line), queue)
    return waiting, lines


def job_place(session: "working.Session", gang: job_state.JobState) -> ordering.SortKey:
    """Where the job stands in its queue's line; in a hurry, behind those whose namespaces have cost
    less.
    """
    has_had = session.spending.has_had_its_part(gang.job.namespace)
    return (has_had, *ordering.job_key(session.dispatch, gang))


def queue_place(
    session: "working.Session", queue: queues.Queue, line: ordering.Line[Preemptor]
) -> ordering.SortKey:
    """The same for a queue, which stands where the first of its line would."""
    has_had = bool(line) and session.spending.has_had_its_part(line.first.gang.job.namespace)
    return (has_had, *ordering.queue_key(session.dispatch, queue))


def _frozen(texts: Mapping[str, Hashable]) -> Hashable:
    return frozenset(texts.items())
