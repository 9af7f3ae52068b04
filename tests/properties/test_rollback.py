import random
from collections.abc import Iterable

from hypothesis import given, strategies

from tests import running
from tests.properties import clusters
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.session.hook_calls import HookRef
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import EVICTABLE, Task, TaskStatus
from vscheduler.testing import pictures

TREE = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim, shuffle",
    "tiers": running.tiers(
        "priority gang conformance pdb cdp sla | overcommit drf predicates proportion nodeorder "
        "binpack nodegroup resourcequota tdm resource-strategy-fit"
    ),
}
"""All plugins that go together."""


def pending(session: Session) -> list[Task]:
    """All tasks that wait, by job and UID."""
    waits = TaskStatus.PENDING
    return [task for state in session.job_states.values() for task in state.tasks(waits)]


def books(session: Session) -> dict[str, object]:
    """All that a session keeps account of, arrays as bytes."""
    decided = session.decided
    return {
        "used": session.cluster.used.tobytes(),
        "future_used": session.cluster.future_used.tobytes(),
        "ports": dict(session.cluster.ports),
        "leaving_ports": dict(session.cluster.leaving_ports),
        "gangs": [
            (
                state.phase,
                state.counts,
                +state.role_counts,
                state.pending_best_effort,
                state.untouched,
            )
            for state in session.job_states.values()
        ],
        "tasks": [
            (state.status(task), state.node(task))
            for state in session.job_states.values()
            for task in state.job.tasks
        ],
        "decided": (list(decided.binds), list(decided.pipelined), list(decided.evicts)),
        "budgets": [session.cluster.budgets.spare([task]) for task in evictable(session)],
    }


def answers(session: Session) -> dict[str, object]:
    """What every plugin says about everything, scores as bytes, and what placement makes of it."""
    dispatch = session.dispatch
    said: dict[str, object] = {}
    of_jobs = (AllHooks.job_key, AllHooks.job_valid, AllHooks.job_ready)
    hook: HookRef
    for hook in (*of_jobs, AllHooks.job_pipelined, AllHooks.job_starving):
        said[hook.__name__] = [dispatch.every(hook, state) for state in session.job_states.values()]
    for hook in (AllHooks.queue_key, AllHooks.overused):
        said[hook.__name__] = [dispatch.every(hook, queue) for queue in session.queues.values()]
    said["entitlements"] = dispatch.every(AllHooks.entitlements)
    for task in pending(session):
        queue = session.queues[session.job_state_of(task).job.queue]
        said[f"allocatable {task.key}"] = dispatch.every(AllHooks.allocatable, queue, task)
        scores = dispatch.every(AllHooks.score_nodes, task, session.cluster.view())
        said[f"scores {task.key}"] = [None if row is None else row.tobytes() for row in scores]
        verdicts = dispatch.every(AllHooks.filter_nodes, task, session.cluster.view())
        said[f"masks {task.key}"] = [
            each.passes.tobytes() for some in verdicts for each in some or ()
        ]
        for hook in (AllHooks.preemptable, AllHooks.reclaimable):
            victims = dispatch.every(hook, task, evictable(session))
            said[f"{hook.__name__} {task.key}"] = [
                [each.key for each in some or ()] for some in victims
            ]
        said[f"preemptive {task.key}"] = dispatch.every(AllHooks.preemptive, queue, (task,))
        said[f"choice {task.key}"] = session.placement.choose(task)
    return said


def evictable(session: Session) -> list[Task]:
    """All tasks that could be asked to go, by node and UID."""
    rows = range(session.layout.size)
    return [task for row in rows for task in session.cluster.evictable_on(row)]


def act(
    session: Session,
    trial: Statement,
    tasks: Iterable[Task],
    chance: random.Random,
) -> None:
    """Do and undo things with each task, whatever queues and gangs say."""
    for task in tasks:
        if session.job_state_of(task).status(task) in EVICTABLE:
            assert task.node is not None
            trial.evict(Evict(task=task, node=task.node, action="x", beneficiary=None))
            if chance.random() < 0.3:
                trial.spare(task)
        else:
            _place(session, trial, task)
            waits = session.job_state_of(task).status(task) is TaskStatus.PIPELINED
            if waits and chance.random() < 0.3:
                trial.withdraw(task)


def _place(session: Session, trial: Statement, task: Task) -> None:
    choice = session.placement.choose(task)
    if choice is not None:
        (trial.allocate if choice.idle else trial.pipeline)(task, choice.row)


@clusters.bounded(60)
@given(clusters.pictures(), strategies.randoms(use_true_random=False))
def test_leaving_without_commit_undoes_everything(picture: str, chance: random.Random) -> None:
    """What-ifs that are undone, in part or whole, leave no bit changed, in no plugin either."""
    session = running.open_session(pictures.documents(picture), TREE)
    tasks = pending(session) + evictable(session)
    chance.shuffle(tasks)
    half = len(tasks) // 2
    before = books(session), answers(session)
    with session.statement() as trial:
        act(session, trial, tasks[:half], chance)
        middle = trial.checkpoint()
        halfway = books(session), answers(session)
        act(session, trial, tasks[half:], chance)
        trial.rollback(middle)
        assert (books(session), answers(session)) == halfway
    assert (books(session), answers(session)) == before
