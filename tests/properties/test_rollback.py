import random
from collections.abc import Iterable

from hypothesis import given, strategies

from tests import pictures, running
from tests.properties import clusters
from vscheduler.core.framework import session as working
from vscheduler.core.framework import statement
from vscheduler.core.model import jobs


def pending(session: working.Session) -> list[jobs.Task]:
    """All tasks that wait, by job and UID."""
    waits = jobs.TaskStatus.PENDING
    return [task for gang in session.gangs.values() for task in gang.tasks(waits)]


def books(session: working.Session) -> dict[str, object]:
    """All that a session keeps account of, arrays as bytes."""
    return {
        "used": session.used.tobytes(),
        "future_used": session.future_used.tobytes(),
        "ports": dict(session.ports),
        "gangs": [
            (gang.phase, +gang.counts, +gang.role_counts, gang.pending_best_effort, gang.untouched)
            for gang in session.gangs.values()
        ],
        "tasks": [
            (gang.status(task), gang.node(task))
            for gang in session.gangs.values()
            for task in gang.job.tasks
        ],
        "decided": (list(session.binds), list(session.held)),
    }


def answers(session: working.Session) -> dict[str, object]:
    """What every plugin says about everything, scores as bytes, and what placement makes of it."""
    dispatch = session.dispatch
    said: dict[str, object] = {}
    for hook in ("job_key", "job_valid", "job_ready", "job_pipelined"):
        said[hook] = [dispatch.every(hook, gang) for gang in session.gangs.values()]
    for hook in ("queue_key", "overused"):
        said[hook] = [dispatch.every(hook, queue) for queue in session.queues.values()]
    said["entitlements"] = dispatch.every("entitlements")
    for task in pending(session):
        queue = session.queues[session.gang_of(task).job.queue]
        said[f"allocatable {task.key}"] = dispatch.every("allocatable", queue, task)
        scores = dispatch.every("score_nodes", task, session.view())
        said[f"scores {task.key}"] = [score.tobytes() for score in scores]
        verdicts = dispatch.every("filter_nodes", task, session.view())
        said[f"masks {task.key}"] = [each.passes.tobytes() for some in verdicts for each in some]
        said[f"choice {task.key}"] = session.placement.choose(task)
    return said


def place(session: working.Session, trial: statement.Statement, tasks: Iterable[jobs.Task]) -> None:
    """Give each task the room that placement chooses, whatever queues and gangs say."""
    for task in tasks:
        choice = session.placement.choose(task)
        if choice is not None:
            (trial.allocate if choice.idle else trial.pipeline)(task, choice.row)


@clusters.bounded(60)
@given(clusters.pictures(), strategies.randoms(use_true_random=False))
def test_leaving_without_commit_undoes_everything(picture: str, chance: random.Random) -> None:
    """What-ifs that are undone, in part or whole, leave no bit changed, in no plugin either."""
    session = running.open_session(pictures.documents(picture), running.TREE)
    tasks = pending(session)
    chance.shuffle(tasks)
    half = len(tasks) // 2
    before = books(session), answers(session)
    with session.statement() as trial:
        place(session, trial, tasks[:half])
        middle = trial.checkpoint()
        halfway = books(session), answers(session)
        place(session, trial, tasks[half:])
        trial.rollback(middle)
        assert (books(session), answers(session)) == halfway
    assert (books(session), answers(session)) == before
