"""Turns of jobs: what is done for each of them, and when."""

from tests import running
from vscheduler.core.actions import allocate
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.placement.unschedulable_classes import UnschedulableClasses
from vscheduler.core.session import ordering
from vscheduler.core.session.hook_calls import HookRef
from vscheduler.testing import pictures

PICTURE = """
    node n1 cpu=8 label=zone=a
    node n2 cpu=8 label=zone=b
    queue q weight=1
    job q/a label=app=web min=2 cpu=1 - -
    job q/b label=app=db min=3 near=app=db@zone cpu=1 - - -
"""


def test_pods_are_sorted_when_their_job_has_its_turn() -> None:
    """Most of the jobs that are lined up have none in a cycle whose budget is used up."""
    opened = running.open_session(pictures.documents(PICTURE), running.TREE)
    classes = UnschedulableClasses(opened)
    asked: list[object] = []
    key = opened.dispatch.key

    def noted(hook: HookRef, *subject: object) -> tuple[tuple[float, ...], ...]:
        asked.append(hook)
        return key(hook, *subject)

    opened.dispatch.key = noted  # type: ignore[method-assign]
    lines, _ = allocate._line_up(opened, classes)
    assert asked.count(AllHooks.task_key) == 0
    turn = lines["q"].leave()
    assert list(turn.tasks) == ordering.pending(opened.dispatch, turn.state)
    known = asked.count(AllHooks.task_key)
    turn.tasks.popleft()
    assert len(turn.tasks) == len(turn.state.job.tasks) - 1
    assert asked.count(AllHooks.task_key) == known


def test_pods_that_depend_on_pods_elsewhere_are_charged_more() -> None:
    """Before each of them the domains with such pods are looked at."""
    opened = running.open_session(pictures.documents(PICTURE), running.TREE)
    costs = {}
    for state in opened.job_states.values():
        before = opened.work_budget.spent
        with opened.statement() as trial:
            for task in state.job.tasks:
                choice = opened.placement.choose(task)
                assert choice is not None
                trial.allocate(task, choice.row)
        costs[state.job.name] = opened.work_budget.spent - before
    assert opened.work["fingerprints"] == 3
    assert costs["b"] > costs["a"] + 300
