"""Gangs that fit run; what keeps them from fitting is seen."""

import pytest

from tests.simulation import judges
from tests.simulation.judges import alone
from tests.simulation.made_histories import History, group, node, pod, queue, started, told


def resting(*, deserved: str = "4", cpu: str = "4") -> History:
    """A gang of two that waits, with everything that is written told truly."""
    history = started(2, 2, cpu=cpu)
    history.put("queues", queue(pending=1, deserved={"cpu": deserved}))
    return history


def test_a_gang_that_fits_runs() -> None:
    """It waits though there is room, and its Queue may have it."""
    assert resting().wrong() == ["every gang that fits runs"]


@pytest.mark.parametrize(
    ("cpu", "asked", "wrong"),
    [("4", "1", ["every gang that fits runs"]), ("4", "5", []), ("1", "2", [])],
)
def test_a_pod_alone_that_fits_runs(cpu: str, asked: str, wrong: list[str]) -> None:
    """It has no PodGroup, and counts for its Queue."""
    history = started(2, 0, cpu=cpu)
    history.drop("podgroups", "gang")
    history.put("queues", queue(pending=1, deserved={"cpu": "4"}))
    lone = told("lone")
    lone["metadata"]["annotations"] = {alone.QUEUE: "q"}
    lone["spec"]["containers"][0]["resources"]["requests"]["cpu"] = asked
    history.put("pods", lone)
    assert history.wrong(settings=judges.Settings(alone=True)) == wrong


@pytest.mark.parametrize(
    ("phase", "calm", "waits"),
    [("Pending", 599.0, True), ("Pending", 601.0, False), ("Inqueue", 1.0, False)],
)
def test_a_gang_may_wait_for_admissions_to_expire(phase: str, calm: float, *, waits: bool) -> None:
    """If it isn't admitted itself: others may have been promised what they don't use."""
    history = resting()
    history.put("podgroups", group(2, phase=phase))
    wrong = history.wrong(calm_since=history.now - calm)
    assert ("every gang that fits runs" in wrong) is not waits


def test_a_gang_that_does_not_fit_may_wait() -> None:
    """On the nodes, within its Queue's share, or with too few pods."""
    assert resting(cpu="1").wrong() == []
    assert resting(deserved="1").wrong() == []
    assert resting(deserved="1999999u").wrong() == []
    history = resting()
    history.drop("pods", "p1")
    assert history.wrong() == []


@pytest.mark.parametrize(("room", "deserved"), [("3", "4"), ("4", "3")])
def test_a_gang_may_wait_for_what_a_denied_pod_keeps(room: str, deserved: str) -> None:
    """On its node, and in its Queue, between two attempts to bind it."""
    for label, wrong in ((None, ["every gang that fits runs"]), ("true", [])):
        history = resting(cpu=room, deserved=deserved)
        history.put("queues", queue(pending=2, deserved={"cpu": deserved}))
        history.put("podgroups", group(1, name="other"))
        denied = told("denied")
        denied["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "other"
        denied["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
        if label is None:
            history.put("podgroups", group(3, name="other"))  # it can't run, and keeps nothing
        else:
            denied["metadata"]["labels"]["simulation/unbindable"] = label
        history.put("pods", denied)
        assert history.wrong() == wrong


def test_a_gang_of_unequal_pods_runs_if_it_fits() -> None:
    """On two nodes that don't have room for three of the largest pod, and together no more."""
    for cores, wrong in (("3", ["every gang that fits runs"]), ("2", [])):
        history = resting(deserved="9", cpu="4")
        history.put("nodes", node("n2", cpu=cores))
        history.put("podgroups", group(3))
        for name, size in (("p0", "3"), ("p1", "2"), ("p2", "2")):
            history.put("pods", pod(name, cpu=size))
        assert history.wrong() == wrong


def test_a_gang_of_unequal_pods_may_wait_for_its_queue() -> None:
    """Some of its pods are enough, and those that fit are more than the Queue may have."""
    for deserved, wrong in (("4", ["every gang that fits runs"]), ("3", [])):
        history = resting(deserved=deserved, cpu="5")
        for name, size in (("p0", "3"), ("p1", "2"), ("p2", "2")):
            history.put("pods", pod(name, cpu=size))
        assert history.wrong() == wrong


def test_a_group_may_wait_for_what_its_smallest_pods_do_not_ask_for() -> None:
    """It is admitted for its minResources; a pod that is small enough may have joined later."""
    for minimum, wrong in (("1", ["every gang that fits runs"]), ("9", [])):
        history = resting(deserved="9")
        made = group(1)
        made["spec"]["minResources"] = {"cpu": minimum}
        history.put("podgroups", made)
        history.put("pods", pod("p0", cpu="9"))
        assert history.wrong() == wrong


def test_a_gang_that_runs_is_content() -> None:
    """With a true status."""
    history = resting()
    for name in ("p0", "p1"):
        history.bind(name, "n1")
        history.runs(name)
    history.put("podgroups", group(2, phase="Running", running=2))
    held = {"cpu": "2", "memory": "0"}
    history.put("queues", queue(running=1, allocated=held))
    assert history.wrong() == []
    history.put("queues", queue(running=1, allocated=None))
    assert history.wrong() == ["statuses are true"]
    history.put("queues", queue(running=1, allocated=held))
    history.put("podgroups", group(2, phase="Pending", running=1))
    assert history.wrong() == ["statuses are true"] * 4  # phase, count, and the Queue's counts
