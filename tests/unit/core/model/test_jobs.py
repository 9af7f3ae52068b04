import pytest

from tests.unit.core import sessions
from vscheduler.core.model import jobs

S = jobs.TaskStatus
RUNS, BINDS, WAITS, GATED, DONE, LEAVES = (
    *(S.RUNNING, S.BINDING, S.PENDING, S.GATED, S.SUCCEEDED, S.RELEASING),
)


@pytest.mark.parametrize(
    ("phase", "least", "statuses", "settled"),
    [
        (jobs.Phase.RUNNING, 2, [RUNS, RUNS], True),
        (jobs.Phase.RUNNING, 1, [RUNS, RUNS], True),
        (jobs.Phase.RUNNING, 2, [RUNS, DONE], True),
        (jobs.Phase.COMPLETED, 2, [DONE, DONE], True),
        (jobs.Phase.RUNNING, 2, [BINDS, BINDS], True),
        (jobs.Phase.RUNNING, 2, [RUNS, BINDS], False),
        (jobs.Phase.RUNNING, 2, [RUNS], False),
        (jobs.Phase.RUNNING, 2, [RUNS, LEAVES], False),
        (jobs.Phase.RUNNING, 1, [RUNS, WAITS], False),
        (jobs.Phase.RUNNING, 1, [RUNS, GATED], False),
        (jobs.Phase.INQUEUE, 1, [RUNS], False),
        (jobs.Phase.PENDING, 1, [RUNS], False),
        (jobs.Phase.RUNNING, 0, [], True),
    ],
)
def test_a_settled_job_has_started_and_lacks_nothing(
    phase: jobs.Phase, least: int, statuses: list[jobs.TaskStatus], settled: bool
) -> None:
    """Pods that are being bound make no whole gang of one that was bound in part."""
    tasks = [sessions.task("a", place, each) for place, each in enumerate(statuses)]
    job = sessions.job("a", *tasks, min_member=least, state=jobs.GroupState(phase=phase))
    assert job.fully_scheduled is settled
