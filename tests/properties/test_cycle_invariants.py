from hypothesis import given, strategies

from tests import checks, running
from tests.properties import clusters
from vscheduler.model.jobs import TaskStatus
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

BUDGETS = (1, 200, 2_000)
"""From one turn per cycle to most of a small cluster."""

SETTLING_CYCLES = 10

CYCLES_MAX = 500
"""More than any cluster here has turns to give."""


@clusters.bounded(100)
@given(clusters.pictures(clusters.LARGE))
def test_no_decision_breaks_a_rule(picture: str) -> None:
    """Nodes aren't overfilled, gangs aren't split, queues keep within their limits."""
    documents = pictures.documents(picture)
    assert checks.problems(documents, running.run(documents, running.TREE)) == []


@clusters.bounded(50)
@given(clusters.pictures(clusters.LARGE))
def test_a_second_cycle_has_nothing_left_to_bind(picture: str) -> None:
    """What one unlimited cycle binds is all that can be bound until something changes.

    A gang that waits keeps idle room from others for one cycle only; who comes first in the next
    one may differ, so then it can take some more cycles.
    """
    documents = pictures.documents(picture)
    first = running.run(documents, running.TREE)
    assert first.finished
    result, waits = first, bool(first.pipelined)
    for _ in range(SETTLING_CYCLES if waits else 1):
        documents = running.obey(documents, result)
        result = running.run(documents, running.TREE)
    assert result.binds == ()


@clusters.bounded(100)
@given(clusters.pictures(), strategies.sampled_from(BUDGETS))
def test_cycles_that_are_cut_short_get_everywhere(picture: str, budget: int) -> None:
    """Each small step keeps the rules, and together they leave nothing for an unlimited cycle.

    Where some job waits for room that is freed, what it keeps from others depends on its turn.
    """
    documents = pictures.documents(picture)
    carried, bound, waits = FRESH, 0, False
    for _ in range(CYCLES_MAX):
        result = running.run(documents, running.TREE, budget=budget, carried=carried)
        assert checks.problems(documents, result) == []
        documents, carried = running.obey(documents, result), result.carried
        bound += len(result.binds)
        waits = waits or bool(result.pipelined)
        if result.finished and not bound:
            break
        if result.finished:  # jobs that were tried before the last binds get another turn
            bound = 0
    else:
        raise AssertionError("some job is tried again and again, and others never are")
    assert waits or running.run(documents, running.TREE).binds == ()


@clusters.bounded(100)
@given(clusters.pictures())
def test_every_job_that_waits_is_told_why(picture: str) -> None:
    """Who isn't whole has a reason, or waits for room that is freed; who is whole has none."""
    taken = running.snapshot_of(pictures.documents(picture))
    result = running.decide(taken, running.TREE)
    statuses = {status.job: status for status in result.groups}
    held = {each.task.job for each in result.pipelined}
    bound = {bind.task.uid for bind in result.binds}
    for job in taken.jobs:
        status = statuses[job.id]
        if job.queue not in taken.queues:
            assert status.reason is not None, job.id
            continue
        left = [
            task
            for task in job.tasks
            if task.status is TaskStatus.PENDING and task.uid not in bound
        ]
        gated = job.counts.get(TaskStatus.GATED, 0)
        if not status.ready and (left or gated):
            assert status.reason is not None, job.id
        if status.ready and not left:
            assert status.reason is None, job.id
        if left and status.reason is None:
            assert job.id in held, job.id
