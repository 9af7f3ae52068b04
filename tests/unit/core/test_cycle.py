"""What a session and the invariants of a cycle assert of rows."""

import gc

import pytest

from tests import running
from vscheduler.core import cycle
from vscheduler.core.session.session import Session
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.testing import pictures

PICTURE = """
    node n1 cpu=4 memory=8Gi gpu=2 pods=110
    node n2 cpu=4 memory=8Gi pods=110
    queue q weight=1
    job q/small min=3 cpu=1 memory=1Gi - - -
    job q/large min=1 cpu=2 memory=1Gi gpu=1 -
"""
CPU, MEMORY, _, GPU = range(4)
HELD = "used differs|future_used differs"


@pytest.fixture
def opened() -> Session:
    """Two nodes, and nothing placed yet."""
    return running.open_session(pictures.documents(PICTURE), running.TREE)


def tasks(opened: Session, name: str) -> tuple[Task, ...]:
    """The pods of a job."""
    (state,) = (state for state in opened.job_states.values() if state.job.name == name)
    return state.job.tasks


def place(opened: Session) -> None:
    """Both jobs: three pods and one bind, one of the three is on the other node."""
    with opened.statement() as trial:
        for task, row in zip(tasks(opened, "small"), (0, 0, 1), strict=True):
            trial.allocate(task, row)
        trial.commit()
    with opened.statement() as trial:
        trial.allocate(tasks(opened, "large")[0], 0)
        trial.commit()


def test_what_was_placed_adds_up(opened: Session) -> None:
    """Bound here and there, and with a pod that only waits for room."""
    cycle.check_invariants(opened)
    place(opened)
    cycle.check_invariants(opened)
    assert opened.cluster.used[:, CPU].tolist() == [4000, 1000]


def test_room_that_is_held_counts(opened: Session) -> None:
    """What is allocated and not bound is used, what is pipelined will be."""
    first, second, third = tasks(opened, "small")
    with opened.statement() as trial:
        trial.allocate(first, 0)
        trial.allocate(second, 0)
        trial.pipeline(third, 0)
        trial.hold()
    cycle.check_invariants(opened)
    assert opened.cluster.used[0, CPU] == 2000
    assert opened.cluster.future_used[0, CPU] == 3000


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("row", range(2))
def test_a_row_that_differs_is_found(opened: Session, row: int, column: int) -> None:
    """Wherever it does, in what is used and in what will be."""
    place(opened)
    for array in (opened.cluster.used, opened.cluster.future_used):
        array[row, column] += 1
        with pytest.raises(AssertionError, match=HELD):
            cycle.check_invariants(opened)
        array[row, column] -= 1
    cycle.check_invariants(opened)


def test_a_node_that_is_overfull_is_found(opened: Session) -> None:
    """In whatever its pods ask for; what none of them asks for doesn't count."""
    place(opened)
    for column in (CPU, MEMORY, GPU):
        kept = int(opened.cluster.allocatable[0, column])
        opened.cluster.allocatable[0, column] = opened.cluster.used[0, column] - 1
        with pytest.raises(AssertionError, match="overfills"):
            cycle.check_invariants(opened)
        opened.cluster.allocatable[0, column] = kept
    opened.cluster.allocatable[1, GPU] = -1
    cycle.check_invariants(opened)


def test_no_task_is_given_room_that_isnt_there(opened: Session) -> None:
    """A node that is over its allocatable in another resource still takes it."""
    small, large = tasks(opened, "small")[0], tasks(opened, "large")[0]
    opened.cluster.allocatable[1, GPU] = -1
    opened.cluster.take(small, 1, TaskStatus.ALLOCATED)
    with pytest.raises(AssertionError, match="overfills"):
        opened.cluster.take(large, 1, TaskStatus.ALLOCATED)


def test_a_cycle_leaves_nothing_to_the_garbage_collector() -> None:
    """The session lets go of plugins and of all else that refers back to it; nothing else refers
    to itself.
    """
    taken, policy = (
        running.snapshot_of(pictures.documents(PICTURE)),
        running.policy_of(running.TREE),
    )
    cycle.run_cycle(taken, policy)
    gc.collect()
    gc.disable()
    try:
        result = cycle.run_cycle(taken, policy)
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert result.binds
