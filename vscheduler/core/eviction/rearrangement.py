"""Rearrangement: all pods of a gang on other nodes, if one of its victims is to be spared.

Placed one after the other, they may miss the nodes that have room for all of them.
"""

from collections.abc import Sequence

from vscheduler.core.model.jobs import Task, TaskId
from vscheduler.core.placement.gang_search import attempt
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement

Placed = dict[TaskId, tuple[Task, int]]


def succeeds(
    session: Session,
    statement: Statement,
    state: JobState,
    tasks: Sequence[Task],
    placed: Placed,
) -> bool:
    """Whether nodes are found for all of these tasks, some of which are placed now.

    `placed` is changed, also without success.
    """
    if len(tasks) < 2 or not attempt.could_help(session, state):
        return False
    for task in tasks:
        if task.uid in placed:
            statement.withdraw(task)
            del placed[task.uid]
    queue = session.queues[state.job.queue]
    for task, row in attempt.rearranged(session, state, tasks):
        if not session.dispatch.all_agree("allocatable", queue, task):
            return False
        if session.placement.at(task, row) is None:
            return False
        statement.pipeline(task, row)
        placed[task.uid] = (task, row)
    return len(placed) == len(tasks)
