"""Nominations: resources freed by evictions are reserved until the job starts or gives up."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from vscheduler.core.claims.volumes import attempts
from vscheduler.core.eviction import standing_plans
from vscheduler.core.model.jobs import JobId, Task, TaskId, TaskStatus
from vscheduler.core.model.snapshot import Snapshot
from vscheduler.core.session import ordering, reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session

TASK_COST = 20
"""Approximate microseconds for one nominated task."""


def restored(snapshot: Snapshot) -> Snapshot:
    """Return the first snapshot of a process with the nominations that the last one has made.

    Otherwise, jobs in front could take the nodes for which volumes are provisioned or pods are
    evicted, and further pods would be evicted for the same jobs. The nodes are those of claims, and
    else status.nominatedNodeName. Which nominations are older isn't known: older jobs come first.
    """
    if snapshot.carried.seen is not None:
        return snapshot
    nodes: dict[str, str] = {}
    for claim, request in attempts.requested(snapshot.storage):
        if request.volume is not None or claim.selected_node:
            nodes[claim.key] = request.node
    found: dict[TaskId, str] = {}
    for job in sorted(snapshot.jobs, key=lambda job: (job.created, job.id)):
        for task in () if job.fully_scheduled else job.tasks:
            if task.status is TaskStatus.PENDING:
                of_claims = (nodes[key] for key in task.volume_claims if key in nodes)
                node = next(of_claims, task.nominated_node)
                if node:
                    found[task.uid] = node
    if not found:
        return snapshot
    nominations = {**found, **snapshot.carried.nominations}
    return replace(snapshot, carried=dataclasses.replace(snapshot.carried, nominations=nominations))


def keep(session: Session) -> None:
    """Pipeline nominated tasks onto the nominated nodes again, before any action runs.

    A job gives up all its reservations when a node no longer takes its nominated pod and the job
    can't start with the remaining pods.
    """
    pending: defaultdict[JobId, list[tuple[Task, int]]] = defaultdict(list)
    nominations = session.snapshot.carried.nominations
    rows = session.layout.rows
    if not nominations:
        return
    for state in session.waiting_jobs():
        if state.counts[TaskStatus.PENDING] and reasons.barred(session, state) is None:
            for task in state.tasks(TaskStatus.PENDING):
                if nominations.get(task.uid) in rows:
                    pending[state.job.id].append((task, rows[nominations[task.uid]]))
    for state in _in_order(session, pending, _by_age(nominations, pending)):
        with session.statement() as trial:
            session.spend("promises", TASK_COST * len(pending[state.job.id]))
            standing_plans.place(session, trial, pending[state.job.id])
            if state.waiting_tasks and session.dispatch.vote("job_pipelined", state):
                trial.hold()
                extend(session, state)


def extend(session: Session, state: JobState) -> None:
    """Nominate all pipelined tasks of a job for which pods are evicted, now or in the past.

    Tasks that wait on idle resources are included.
    """
    decided = session.decided
    for task in state.tasks(TaskStatus.PIPELINED):
        decided.nominate(task, decided.pipelined[task.uid].node)


def startable(session: Session, waiting: Iterable[JobId]) -> list[JobState]:
    """Return these jobs, which wait on reserved resources, in the order of their turns."""
    ages: dict[JobId, int] = {}
    for age, uid in enumerate(session.decided.nominations):
        pipelined = session.decided.pipelined.get(uid)
        if pipelined is not None:
            ages.setdefault(pipelined.task.job, age)
    return _in_order(session, waiting, ages)


def _by_age(
    nominations: Mapping[TaskId, str],
    pending: Mapping[JobId, Sequence[tuple[Task, int]]],
) -> dict[JobId, int]:
    """Return the position of each job's oldest nomination."""
    places = {uid: place for place, uid in enumerate(nominations)}
    return {job: min(places[task.uid] for task, _ in tasks) for job, tasks in pending.items()}


def _in_order(
    session: Session, waiting: Iterable[JobId], ages: Mapping[JobId, int]
) -> list[JobState]:
    """Sort jobs by the age of the oldest nomination, then by job order.

    Otherwise resources freed for an older job could go to a newer job nominated on the same node.
    """
    found = [session.job_states[job] for job in waiting]
    last = len(ages)

    def key(state: JobState) -> tuple[object, ...]:
        return (ages.get(state.job.id, last), *ordering.job_key(session.dispatch, state))

    return sorted(found, key=key)
