"""What becomes of pods and PodGroups, as records."""

from pathlib import Path

import pytest

from tests.unit.history.clusters import START, Cluster, group, pod
from tests.unit.mirror import manifests
from vscheduler.history.queries import By
from vscheduler.history.recorder import Listing, Recorder
from vscheduler.history.records import JobState, Stored
from vscheduler.model.jobs import TaskId


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A cluster whose instance leads."""
    made = Cluster(tmp_path / "history.db")
    made.begin()
    return made


def test_a_job_from_its_creation_to_its_end(cluster: Cluster) -> None:
    """Admitted when its phase says so, started by its first bind, ended with its containers."""
    cluster.show(group("train", phase="Pending", created=5), pod("a", "train"), pod("b", "train"))
    cluster.now = 7
    cluster.show(group("train", phase="Inqueue", created=5))
    cluster.now = 11
    cluster.show(pod("a", "train", bound=10), pod("b", "train", bound=11))
    cluster.turn()
    running = cluster.jobs()["train"]
    assert (running.state, running.pods, running.request["cpu"]) == (JobState.RUNNING, 2, 2000)
    cluster.now = 40
    cluster.show(pod("a", "train", bound=10, ended=30), pod("b", "train", bound=11, ended=31))
    cluster.show(group("train", phase="Completed", created=5))
    cluster.turn()
    done = cluster.jobs()["train"]
    times = (done.created, done.admitted, done.started, done.finished)
    assert [None if each is None else each - START for each in times] == [5, 7, 10, 31]
    assert (done.state, done.queue, done.succeeded) == (JobState.COMPLETED, "gold", 2)
    assert done.pod_seconds == {"cpu": 40_000, "pods": 40}


def test_a_pod_that_goes_without_an_end_ends_when_it_goes(cluster: Cluster) -> None:
    """As when its node is deleted."""
    cluster.show(group("train"), pod("a", "train", bound=10))
    cluster.now = 25
    cluster.remove(pod("a", "train", bound=10), group("train"))
    cluster.turn()
    gone = cluster.jobs()["train"]
    assert gone.pod_seconds["pods"] == 15
    assert (gone.state, gone.finished) == (JobState.DELETED, START + 25)


def test_an_eviction_says_for_whom(cluster: Cluster) -> None:
    """The pod holds its resources until it has ended; the job waits again, and may start again."""
    cluster.show(group("train"), pod("a", "train", bound=10))
    cluster.writer.evicted(["a-uid"], "reclaim", "ns/urgent")  # type: ignore[list-item]
    cluster.now = 30
    cluster.show(pod("a", "train", bound=10, ended=28, failed=True))
    cluster.remove(pod("a", "train", bound=10))
    cluster.turn()
    evicted = cluster.jobs()["train"]
    (once,) = evicted.evictions
    assert (once.pods, once.action, once.beneficiary, once.time - START) == (
        1,
        "reclaim",
        "ns/urgent",
        28,
    )
    assert (evicted.state, evicted.evicted, evicted.failed) == (JobState.WAITING, 1, 0)
    cluster.now = 50
    cluster.show(pod("a2", "train", bound=49))
    cluster.turn()
    again = cluster.jobs()["train"]
    assert (again.state, again.started, again.last_started) == (
        JobState.RUNNING,
        START + 10,
        START + 49,
    )
    row = cluster.report()["gold"]
    assert (row.evicted_pods, row.evicted_jobs, row.evicted_pod_seconds["pods"]) == (1, 1, 18)


def test_pods_of_other_schedulers_are_not_recorded(cluster: Cluster) -> None:
    """Nor are PodGroups without pods of ours."""
    other = pod("a", "train", bound=10)
    other["spec"]["schedulerName"] = "other"
    cluster.show(group("train"), other, group("empty"))
    cluster.turn()
    assert cluster.jobs() == {}


def test_a_pod_before_its_podgroup_is_of_the_job_once_it_is_there(cluster: Cluster) -> None:
    """Automatic PodGroups come after their pods."""
    cluster.show(pod("a", "train", labels={"vscheduler.io/user": "ann"}))
    cluster.turn()
    assert cluster.jobs() == {}
    cluster.show(group("train", "lead"))
    cluster.turn()
    job = cluster.jobs()["train"]
    assert (job.queue, job.user, job.state) == ("lead", "ann", JobState.WAITING)


def test_a_resize_and_another_queue_begin_another_run(cluster: Cluster) -> None:
    """Each second counts once, for the queue and the request of that second."""
    cluster.show(group("train"), pod("a", "train", bound=0))
    cluster.now = 10
    cluster.show(pod("a", "train", bound=0, requests={"cpu": "3"}))
    cluster.now = 30
    cluster.show(group("train", "lead"))
    cluster.now = 60
    cluster.show(pod("a", "train", bound=0, requests={"cpu": "3"}, ended=60))
    cluster.turn()
    found = {name: row.pod_seconds["cpu"] for name, row in cluster.report().items()}
    assert found == {"gold": 10 * 1000 + 20 * 3000, "lead": 30 * 3000}


def test_another_podgroup_of_the_name_is_another_job(cluster: Cluster) -> None:
    """Users submit jobs of the same name every day."""
    cluster.show(group("train", uid="one"), pod("a", "train", bound=1, ended=4))
    cluster.remove(pod("a", "train", bound=1, ended=4), group("train", uid="one"))
    cluster.show(group("train", uid="two"), pod("b", "train", uid="b2"))
    cluster.turn()
    found = sorted((job.row, job.state) for job in _all(cluster))
    assert [state for _, state in found] == [JobState.COMPLETED, JobState.WAITING]


def test_a_clock_that_goes_back_makes_no_time_negative(cluster: Cluster) -> None:
    """A run ends at its beginning at the earliest."""
    cluster.now = 100
    cluster.show(group("train"), pod("a", "train", bound=100))
    cluster.now = -500
    cluster.remove(pod("a", "train", bound=100))
    cluster.turn()
    assert cluster.jobs()["train"].pod_seconds.get("pods") == 0


def test_who_stands_by_records_nothing(cluster: Cluster) -> None:
    """What happens then is found out from the statuses of pods by whoever leads next."""
    cluster.show(group("train"), pod("a", "train", bound=10))
    cluster.now = 20
    cluster.end()
    cluster.now = 60
    cluster.show(
        pod("a", "train", bound=10, ended=50),
        group("other"),
        pod("b", "other", bound=21, ended=41),
        pod("c", "other", bound=22),
    )
    cluster.turn()
    assert list(cluster.jobs()) == ["train"]
    cluster.begin()
    assert cluster.report(By.NAMESPACE)["ns"].pod_seconds["pods"] == 40 + 20 + (60 - 22)


def test_what_went_unseen_ran_at_least_until_somebody_looked(cluster: Cluster) -> None:
    """No status tells when, for the pod doesn't exist any more."""
    cluster.show(group("train"), pod("a", "train", bound=10))
    cluster.now = 20
    cluster.end()
    cluster.now = 500
    cluster.remove(pod("a", "train", bound=10), group("train"))
    cluster.begin()
    gone = cluster.jobs()["train"]
    assert (gone.state, gone.pod_seconds["pods"]) == (JobState.DELETED, 10)
    assert gone.finished == START + 20


def test_a_restart_changes_nothing_that_is_known(cluster: Cluster) -> None:
    """Finished pods that still exist are not recorded again, and jobs keep their records."""
    cluster.show(group("train", phase="Pending"), pod("a", "train"))
    cluster.now = 2
    cluster.show(group("train"), pod("a", "train", bound=10, ended=20))
    cluster.show(group("train", phase="Completed"))
    cluster.turn()
    before = cluster.jobs()
    cluster.crash()
    cluster.now = 1000
    cluster.begin()
    assert cluster.jobs() == before


def _all(cluster: Cluster) -> list:  # type: ignore[type-arg]  # PastJobs
    from vscheduler.history.queries import Filter, Reader  # noqa: PLC0415

    return Reader(cluster.path).jobs(Filter(), START, limit=100)


def test_a_bind_that_fails_is_no_run(cluster: Cluster) -> None:
    """What was sent counts for decisions only; the watch tells what came of it."""
    cluster.show(group("train"), pod("a", "train"))
    cluster.mirror.assume(TaskId("a-uid"), "n1", START)
    cluster.show(pod("a", "train", labels={"still": "waits"}))
    cluster.mirror.forget(TaskId("a-uid"))
    cluster.turn()
    job = cluster.jobs()["train"]
    assert (job.state, job.pods, job.pod_seconds) == (JobState.WAITING, 0, {})


def test_what_changes_while_a_batch_is_written_is_written_next() -> None:
    """Of each record, its newest state."""
    recorder = Recorder()
    seen = manifests.mirror(group("train"), pod("a", "train", bound=1))
    (one,), groups = seen.told_of()
    recorder.start(Listing(pods=[one], groups=groups), Stored(), START)
    batch = recorder.changed(10)
    recorder.pod(one, None, START + 5)
    recorder.written(batch)
    (run,) = recorder.changed(10).runs
    assert run.ended == START + 5
    recorder.written(recorder.changed(10))
    assert len(recorder.changed(10)) == 0
