import pytest

from tests import running
from vscheduler.model import run_times
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

LIMIT = run_times.MAX_RUN_TIME


@pytest.mark.parametrize(
    ("group", "pod", "deadline", "queue", "seconds"),
    [
        ("10m", "20m", 60, "1h", 600.0),
        ("", "20m", 60, "1h", 1200.0),
        ("", "", 60, "1h", 60.0),
        ("", "", None, "1h", 3600.0),
        ("", "", None, "", None),
        ("soon", "20m", None, "", 1200.0),
        ("0s", "-1m", None, "later", None),
    ],
)
def test_the_nearest_object_says_how_long_a_pod_runs(
    group: str, pod: str, deadline: int | None, queue: str, seconds: float | None
) -> None:
    """The PodGroup, else the pod by its annotation or its deadline, else the Queue; what can't be
    read says nothing.
    """
    documents = pictures.documents("node n1 cpu=1 queue q job q/j -")
    for each in documents:
        text = {"PodGroup": group, "Pod": pod, "Queue": queue}.get(each["kind"], "")
        if text:
            each["metadata"].setdefault("annotations", {})[LIMIT] = text
        if each["kind"] == "Pod" and deadline is not None:
            each["spec"]["activeDeadlineSeconds"] = deadline
    policy = running.policy_of(running.TREE)
    given = run.read(documents, policy, Options())
    snapshot = given.mirror.snapshot(given.now)
    (job,) = snapshot.jobs
    assert run_times.of(job, job.tasks[0], snapshot.queues["q"]) == seconds


@pytest.mark.parametrize(
    ("now", "end"), [(0, 100), (99, 100), (100, 200), (199, 200), (200, 400), (1000, 1600)]
)
def test_a_pod_that_outlives_its_limit_is_expected_to_run_twice_as_long(
    now: float, end: float
) -> None:
    """Nobody knows better, and the expected end is always ahead."""
    assert run_times.end(0.0, 100.0, now) == end
