import pytest

from tests.unit.core import sessions
from vscheduler.model.jobs import GroupState, Phase, TaskStatus

S = TaskStatus
RUNS, BINDS, WAITS, GATED, DONE, LEAVES = (
    *(S.RUNNING, S.BINDING, S.PENDING, S.GATED, S.SUCCEEDED, S.RELEASING),
)


@pytest.mark.parametrize(
    ("phase", "least", "statuses", "unchanged"),
    [
        (Phase.RUNNING, 2, [RUNS, RUNS], True),
        (Phase.RUNNING, 1, [RUNS, RUNS], True),
        (Phase.RUNNING, 2, [RUNS, DONE], True),
        (Phase.COMPLETED, 2, [DONE, DONE], True),
        (Phase.RUNNING, 2, [BINDS, BINDS], True),
        (Phase.RUNNING, 2, [RUNS, BINDS], False),
        (Phase.RUNNING, 2, [RUNS], False),
        (Phase.RUNNING, 2, [RUNS, LEAVES], False),
        (Phase.RUNNING, 1, [RUNS, WAITS], False),
        (Phase.RUNNING, 1, [RUNS, GATED], False),
        (Phase.INQUEUE, 1, [RUNS], False),
        (Phase.PENDING, 1, [RUNS], False),
        (Phase.RUNNING, 0, [], True),
    ],
)
def test_a_settled_job_has_started_and_lacks_nothing(
    phase: Phase, least: int, statuses: list[TaskStatus], unchanged: bool
) -> None:
    """Pods that are being bound make no whole gang of one that was bound in part."""
    tasks = [sessions.task("a", place, each) for place, each in enumerate(statuses)]
    job = sessions.job("a", *tasks, min_member=least, state=GroupState(phase=phase))
    assert job.fully_scheduled is unchanged
