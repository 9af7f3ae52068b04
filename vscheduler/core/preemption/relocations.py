"""Kept rooms: pods of a queue within its share are moved, not taken away.

Others may need the very nodes that such a queue is on. Then its pods are evicted only if there is
room elsewhere for what they ask, and that room is kept until their owner has made them anew. Else
the queue would claim its place back, and so on for ever.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from vscheduler.core.model import jobs, snapshot
from vscheduler.core.session import interfaces, job_state, statement

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

NEXT = "/next"
"""Behind the UID of a pod: the one that its owner makes in its place."""

ROOM_COST = 50
"""Microseconds, about: one pod for which room elsewhere is looked for, or kept."""


def successor(task: jobs.Task) -> jobs.Task | None:
    """The pod that its owner will make in its place; None where nobody could tell where it may go:
    counts of pods that it must be near, apart from or even with are kept for waiting pods only.
    """
    limits = task.pod_class.constraints
    if limits.pod_affinity or limits.pod_anti_affinity or limits.spread:
        return None
    return dataclasses.replace(
        task,
        uid=jobs.TaskId(task.uid + NEXT),
        status=jobs.TaskStatus.PENDING,
        node=None,
        nominated_node=None,
        scheduled_at=None,
    )


class Relocation:
    """Where pods of queues within their shares could go, for one plan."""

    def __init__(self, session: "working.Session") -> None:
        self._session = session
        self._waiting: dict[str, list[jobs.Task]] = {}
        """By queue, pods that could start one by one."""

    def is_possible(self, tasks: Sequence[jobs.Task]) -> bool:
        """Whether there seems to be room elsewhere for each of these pods, or for one that waits
        in its queue and asks for as much.
        """
        return all(map(self._finds, tasks))

    def find(self, trial: statement.Statement, tasks: Sequence[jobs.Task], until: float) -> bool:
        """Keep room for those that follow these pods, or give it to others of their queues that
        ask for as much: for all of them, or it comes to nothing.
        """
        for task in tasks:
            following = successor(task)
            choice = None if following is None else self._choose(following)
            if following is not None and choice is not None:
                node = self._session.layout.names[choice.row]
                queue = self._session.gang_of(task).job.queue
                trial.keep(
                    snapshot.ReplacementReservation(
                        task=following, queue=queue, node=node, until=until
                    )
                )
            elif not self._start_another(trial, task):
                return False
        return True

    def _choose(self, task: jobs.Task) -> interfaces.Choice | None:
        self._session.spend("moves", ROOM_COST)
        return self._session.placement.choose(task)

    def _finds(self, task: jobs.Task) -> bool:
        following = successor(task)
        if following is not None and self._choose(following) is not None:
            return True
        kinds = {each.pod_class: each for each in self._substitutes(task)}
        return any(self._choose(each) is not None for each in kinds.values())

    def _start_another(self, trial: statement.Statement, task: jobs.Task) -> bool:
        """Let a pod start that waits in the same queue, in the place of this one."""
        queue = self._session.queues[self._session.gang_of(task).job.queue]
        vain: set[jobs.PodClass] = set()
        for each in self._substitutes(task):
            waits = self._session.gang_of(each).status(each) is jobs.TaskStatus.PENDING
            if not waits or each.pod_class in vain:
                continue
            choice = self._choose(each)
            if choice is None or not self._session.dispatch.all_agree("allocatable", queue, each):
                vain.add(each.pod_class)
                continue
            trial.pipeline(each, choice.row)
            return True
        return False

    def _substitutes(self, task: jobs.Task) -> list[jobs.Task]:
        """Pods that wait in the task's queue and ask for no less of anything."""
        queue = self._session.gang_of(task).job.queue
        if queue not in self._waiting:
            self._waiting[queue] = [
                each
                for gang in self._session.unsettled()
                if gang.job.queue == queue and _starts_singly(gang)
                for each in gang.tasks(jobs.TaskStatus.PENDING)
            ]
        least = self._session.request(task)
        return [
            each for each in self._waiting[queue] if (self._session.request(each) >= least).all()
        ]


def _starts_singly(gang: job_state.JobState) -> bool:
    """Whether each of its pods could start by itself."""
    admitted = gang.phase is not jobs.Phase.PENDING
    return admitted and (gang.has_minimum or gang.job.min_member <= 1) and not gang.sub_groups


def awaited(session: "working.Session") -> list[snapshot.ReplacementReservation]:
    """Rooms whose pods aren't there yet: they ask for something all the same."""
    found: list[snapshot.ReplacementReservation] = []
    for job, rooms in _lasting(session).items():
        _, left = _matched(session, job, rooms)
        found += (room for room in left if room.queue in session.queues)
    return found


def resume(session: "working.Session") -> None:
    """Before any action: pods that have come wait in the rooms that were kept for them, as if these
    had been promised to them; for the others rooms are kept on.

    A job that can't start with those that have come waits for the rest of them.
    """
    for job, rooms in _lasting(session).items():
        pairs, left = _matched(session, job, rooms)
        moved_in = bool(pairs) and _move_in(session, session.gangs[job], pairs)
        with session.statement() as trial:
            for room in left if moved_in else rooms:
                session.spend("moves", ROOM_COST)
                if _is_there(session, room):
                    trial.keep(room)
            trial.hold()


def _move_in(
    session: "working.Session",
    gang: job_state.JobState,
    pairs: Iterable[tuple[jobs.Task, snapshot.ReplacementReservation]],
) -> bool:
    """Promise the rooms to these pods, if the job could start with them."""
    with session.statement() as trial:
        for task, room in pairs:
            session.spend("moves", ROOM_COST)
            row = session.layout.rows[room.node]
            if session.placement.feasible(task, row):
                trial.pipeline(task, row)
        if not gang.waiting_tasks or not session.dispatch.vote("job_pipelined", gang):
            return False
        for task in gang.tasks(jobs.TaskStatus.PIPELINED):
            session.nominations[task.uid] = gang.node(task) or ""
            session.moved_in.add(task.uid)
        trial.hold()
    return True


def _is_there(session: "working.Session", room: snapshot.ReplacementReservation) -> bool:
    """Whether the room can still be had. Of a job whose pods are all gone, amounts have to do."""
    row = session.layout.rows[room.node]
    if room.task.job in session.gangs:
        return session.placement.feasible(room.task, row)
    free = session.allocatable[row] - session.future_used[row]
    return bool((session.request(room.task) <= free).all())


def _lasting(
    session: "working.Session",
) -> Mapping[jobs.JobId, Sequence[snapshot.ReplacementReservation]]:
    """Rooms that were kept so far on nodes that are there, and whose time isn't up, by job; not for
    those that stayed after all, as the API server refused to evict them.
    """
    by_job: dict[jobs.JobId, list[snapshot.ReplacementReservation]] = {}
    for room in session.snapshot.carried.kept_rooms:
        if room.until > session.snapshot.now and room.node in session.layout.rows:
            by_job.setdefault(room.task.job, []).append(room)
    for job in by_job.keys() & session.gangs.keys():
        tasks = session.gangs[job].job.tasks
        stayed = {task.uid + NEXT for task in tasks if task.status in jobs.EVICTABLE}
        by_job[job] = [room for room in by_job[job] if room.task.uid not in stayed]
    return by_job


def _matched(
    session: "working.Session", job: jobs.JobId, rooms: Sequence[snapshot.ReplacementReservation]
) -> tuple[
    list[tuple[jobs.Task, snapshot.ReplacementReservation]], list[snapshot.ReplacementReservation]
]:
    """A pod of its kind for each room, of those that wait and have been promised nothing; and the
    rooms for which there is none yet.
    """
    promised = session.snapshot.carried.nominations
    gang = session.gangs.get(job)
    newcomers = [
        task
        for task in (gang.job.tasks if gang is not None else ())
        if task.status is jobs.TaskStatus.PENDING and task.uid not in promised
    ]
    pairs, left = [], []
    for room in rooms:
        alike = (task for task in newcomers if task.pod_class.equals(room.task.pod_class))
        task = next(alike, None)
        if task is None:
            left.append(room)
        else:
            newcomers.remove(task)
            pairs.append((task, room))
    return pairs, left
