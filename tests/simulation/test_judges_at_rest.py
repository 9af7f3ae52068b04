"""Each judge of a world at rest flags what isn't as it should be, and nothing else."""

from typing import Any

import pytest

from tests.simulation import judges
from tests.simulation.judges import alone, pod_rules, rest_rules
from tests.simulation.made_histories import (
    LEASE_SECONDS,
    History,
    Object,
    group,
    meta,
    node,
    pod,
    queue,
    started,
    told,
)


def test_queues_tell_what_they_hold() -> None:
    """Counts, state and allocated resources."""
    history = started(1, 0)
    history.put("queues", queue(pending=1))
    assert history.wrong() == []
    history.put("queues", queue(pending=1, state="Closed"))
    assert history.wrong() == ["statuses are true"]
    history.put("queues", queue(pending=1, allocated={"cpu": "1", "memory": "0"}))
    assert history.wrong() == ["statuses are true"]


def test_parents_tell_what_is_held_below_them() -> None:
    """By pods of a Queue that names its parent, or none."""
    for parent, above in (("", "root"), ("org", "org")):
        history = started(1, 1)
        history.bind("p0", "n1")
        history.put("podgroups", group(1, phase="Running"))
        held = {"cpu": "1", "memory": "0"}
        own = queue(running=1, allocated=held)
        own["spec"]["parent"] = parent
        history.put("queues", own)
        over = queue()
        over["metadata"] = {**over["metadata"], "name": above, "uid": above, "finalizers": []}
        history.put("queues", over)
        assert "statuses are true" in history.wrong()
        over = {**over, "status": {**over["status"], "allocated": held}}
        history.put("queues", over)
        assert "statuses are true" not in history.wrong()


def test_a_group_that_is_scheduled_has_its_minimum() -> None:
    """Pods whose bindings are denied are no exception; pods that leave are."""
    history = started(2, 2, cpu="4")
    for name in ("p0", "p1"):
        labelled = told(name)
        labelled["metadata"]["labels"]["simulation/unbindable"] = "true"
        history.put("pods", labelled)
    history.put("queues", queue(pending=1))
    said = {"type": "Scheduled", "status": "True"}
    history.put("podgroups", group(2, conditions=[said]))
    assert history.wrong() == ["statuses are true"]
    history.put("podgroups", group(2, conditions=[{**said, "status": "False"}]))
    assert history.wrong() == []
    for name in ("p0", "p1"):
        history.bind(name, "n1")
    history.put("podgroups", group(2, conditions=[said], phase="Running"))
    held = {"cpu": "2", "memory": "0"}
    history.put("queues", queue(running=1, allocated=held))
    assert history.wrong() == []


def test_a_pod_that_succeeded_counts_after_it_is_deleted() -> None:
    """As long as there are others; one that failed doesn't count, until all have ended."""
    for phase, last, right in (
        ("Succeeded", "Running", True),
        ("Failed", "Running", False),
        ("Failed", "Failed", True),
    ):
        history = started(3, 3)
        for name, each in (("p0", phase), ("p1", phase), ("p2", last)):
            history.bind(name, "n1")
            history.runs(name, each)
        counts: dict[str, Any] = {"Running": 0, phase: 1}
        counts[last] += 1
        runs = last == "Running"
        held = {"cpu": "1" if runs else "0", "memory": "0"}
        number: dict[str, Any] = {"running" if runs else "completed": 1}
        history.put("queues", queue(allocated=held, **number))
        said = {"type": "Scheduled", "status": "True"}
        ended = {name.lower(): count for name, count in counts.items() if count}
        history.drop("pods", "p0")
        written = "Running" if runs else "Completed"
        history.put("podgroups", group(3, phase=written, conditions=[said], **ended))
        assert ("statuses are true" not in history.wrong()) == right


def test_a_gang_that_has_ended_is_completed_below_its_minimum() -> None:
    """Somebody has raised it since; a pod that waits is in the way."""
    for pods, phase, right in (
        (2, "Completed", True),
        (2, "Running", False),
        (3, "Completed", False),
    ):
        history = started(4, pods)
        for name in ("p0", "p1"):
            history.bind(name, "n1")
            history.runs(name, "Succeeded")
        counts: dict[str, Any] = {phase.lower(): 1}
        history.put("queues", queue(**counts))
        history.put("podgroups", group(4, phase=phase, succeeded=2))
        assert ("statuses are true" not in history.wrong()) == right


RIGHT: dict[str, Any] = {
    "process": "a",
    "allocatable": {"n1": {"cpu": 1000, "memory": 0, "pods": 110}},
    "used": {"n1": {"cpu": 1000, "memory": 0, "pods": 1}},
    "weights": {"q": 1},
    "minima": {"n/gang": 1},
    "pods": {"n/gang": ["uid-p0", "uid-p1"]},
    "assumed": 0,
    "releasing": {"n1": {"cpu": 0, "memory": 0, "pods": 0}},
}


@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        (RIGHT, True),
        (RIGHT | {"pods": {"n/gang": ["uid-p1"]}}, True),
        (RIGHT | {"minima": {}}, True),
        (RIGHT | {"allocatable": {"n1": {"cpu": 2000, "memory": 0, "pods": 110}}}, False),
        (RIGHT | {"used": {"n1": {"cpu": 1000, "memory": 0, "pods": 2}}}, False),
        (RIGHT | {"used": {}, "allocatable": {}}, False),
        (RIGHT | {"weights": {"q": 2}}, False),
        (RIGHT | {"weights": {"q": 1, "gone": 1}}, False),
        (RIGHT | {"minima": {"n/gang": 2}}, False),
        (RIGHT | {"minima": {"n/gone": 1}}, False),
        (RIGHT | {"pods": {"n/gang": ["uid-gone"]}}, False),
        (RIGHT | {"assumed": 1}, False),
        (RIGHT | {"releasing": {"n1": {"cpu": 1000, "memory": 0, "pods": 1}}}, False),
    ],
)
def test_an_instance_sees_what_is_there(changed: dict[str, Any], seen: bool) -> None:
    """Nodes, what is used there, Queues and PodGroups; pods may be left out, but not invented."""
    history = started(1, 2, cpu="1")
    history.put("queues", queue(running=1, allocated={"cpu": "1", "memory": "0"}))
    history.bind("p0", "n1")
    history.runs("p0")
    history.put("pods", told("p1"))
    history.put("podgroups", group(1, phase="Running", running=1))
    rules = history.wrong(view=judges.View(**changed))
    assert rules == ([] if seen else ["the cluster is seen as it is"])


def owned(name: str = "p0", minimum: str = "1") -> Object:
    """A pod of a Job."""
    made = pod(name, group="podgroup-uid-j")
    made["metadata"]["annotations"][alone.MINIMUM] = minimum
    reference = {"kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


def job(history: History, pods: int) -> None:
    """Create it."""
    history.put("jobs", {"metadata": meta("j", namespace="n"), "spec": {"parallelism": pods}})


def soon(history: History) -> list[str]:
    """The rules about PodGroups and pods that are broken now."""
    history.put("queues", queue(pending=1))
    return history.wrong()


def test_every_pod_has_a_pod_group() -> None:
    """Unless its owner is gone, or the pod has ended."""
    history = started(1, 0)
    job(history, 2)
    for made in (owned(), pod("p0", group="")):
        history.put("pods", made)
        assert soon(history) == ["every pod has a PodGroup"]
    history.put("pods", {**pod("p0", group=""), "status": {"phase": "Succeeded"}})
    assert soon(history) == []
    history.put("pods", owned("p1"))
    history.drop("jobs", "j")
    assert soon(history) == []


def lone(name: str, *, says: bool, minimum: str = "1", **spec: Any) -> Object:
    """A pod of the Job, in Queue q by its annotation, that names no PodGroup."""
    made = owned(name, minimum)
    made["metadata"]["annotations"] = {alone.MINIMUM: minimum, alone.QUEUE: "q"}
    made["spec"] |= spec
    made["status"] |= told(name)["status"] if says else {}
    return made


@pytest.mark.parametrize(
    ("minimum", "says", "status", "rules"),
    [
        ("1", True, {"pending": 1, "running": 1}, []),
        ("1", False, {"pending": 1, "running": 1}, ["pods know why they wait"]),
        ("1", True, {"pending": 1}, ["statuses are true"]),
        ("2", True, {}, ["every pod has a PodGroup"] * 2),
    ],
)
def test_pods_alone_are_jobs_of_their_queue(
    minimum: str, says: bool, status: dict[str, int], rules: list[str]
) -> None:
    """They need no PodGroup, count in the Queue's status, and say why they wait."""
    settings = judges.Settings(alone=True)
    history = started(1, 0, cpu="4")
    history.drop("podgroups", "gang")
    job(history, 2)
    held = {"cpu": "1", "memory": "0"} if minimum == "1" else {}
    made = queue(None, allocated=held, **status)
    made["metadata"]["finalizers"] = ["vscheduler.io/in-use"]
    history.put("queues", made)
    runs = lone("p0", says=False, minimum=minimum, nodeName="n1")
    history.put("pods", {**runs, "status": {"phase": "Running"}})
    history.put("pods", lone("p1", says=says, minimum=minimum))
    assert history.wrong(settings=settings) == rules


def test_no_pod_of_a_gang_starts_alone() -> None:
    """Unless others have just written the minimum to its owner."""
    settings = judges.Settings(alone=True)
    for wait, minimum, rules in (
        (60, "2", ["no pod of a gang alone"]),
        (60, "1", []),
        (0, "2", []),
    ):
        history = started(1, 0, cpu="4")
        job(history, 2)
        history.put("pods", lone("p0", says=False, minimum=minimum))
        history.later(wait)
        history.leads("a")
        history.bind("p0", "n1")
        assert history.broken(settings) == rules


def test_pods_know_why_they_wait() -> None:
    """Once their PodGroup is admitted."""
    history = started(1, 1, cpu="100m")
    assert soon(history) == []
    history.put("podgroups", group(1, phase="Inqueue"))
    history.put("queues", queue(inqueue=1))
    assert history.wrong() == ["pods know why they wait"]
    history.put("pods", told("p0"))
    assert history.wrong() == []


def test_pods_say_what_their_group_says() -> None:
    """If they say anything; a group that runs needn't say why some of its pods wait.

    At the end of a run they may not have the newest figures yet.
    """
    settings = judges.Settings()
    history = started(1, 2, cpu="100m")
    said = {"type": "Unschedulable", "status": "True", "message": "why"}
    history.put("queues", queue(pending=1))
    for message, status, rules in (
        ("why", "True", []),
        ("because", "True", ["pods and PodGroups agree"]),
        ("because", "False", []),
    ):
        history.put("podgroups", group(1, conditions=[{**said, "status": status}]))
        history.put("pods", told("p0", message))
        court = judges.court(settings)
        assert not list(court.see(history.changes))
        found = judges.soon(court.cluster, settings, at=history.now)
        assert [each.rule for each in found] == rules
        assert history.wrong() == []


@pytest.mark.parametrize(
    ("minimum", "pods", "written", "rules"),
    [
        ("2", 2, 1, ["PodGroups follow their owners"]),
        ("2", 1, 1, []),
        ("1", 2, 1, []),
        ("2", 2, 5, []),
    ],
)
def test_pod_groups_follow_their_owners(
    minimum: str, pods: int, written: int, rules: list[str]
) -> None:
    """Unless somebody has edited them."""
    history = started(1, 0, cpu="100m")
    history.drop("podgroups", "gang")
    job(history, pods)
    history.put("pods", owned(minimum=minimum))
    made = group(1, name="podgroup-uid-j")
    made["metadata"]["annotations"] = {pod_rules.WRITTEN: f'{{"minMember":{written}}}'}
    history.put("podgroups", made)
    assert soon(history) == rules


def test_nothing_is_wrong_for_long() -> None:
    """Except while something is broken; and each problem is told once."""
    wrong = [judges.Finding(at=0, rule="r", message="m")]
    for faults, found in (((), ["m, for 30 s"]), (((0.0, 10.0),), ["m, for 30 s"])):
        patience = judges.Patience(judges.Settings(faults=faults))
        at = faults[0][1] if faults else 0.0
        told = [each for seconds in range(5) for each in patience.look(wrong, at + 10 * seconds)]
        assert [each.message for each in told] == found
    patience = judges.Patience(judges.Settings())
    for seconds in range(10):
        assert list(patience.look(wrong if seconds % 3 else [], 10.0 * seconds)) == []


def test_news_of_others() -> None:
    """A job's end is news, and neither the daemon's writes nor Leases are."""
    history = started(1, 1)
    history.bind("p0", "n1")
    history.later(5)
    history.runs("p0")
    ended = history.now
    history.later(5)
    history.leads("a")
    assert rest_rules.last_news(history.changes) == ended


def test_finalizers_disappear() -> None:
    """But not from a Queue in use."""
    history = started(1, 0)
    leaving = queue(state="Closing", pending=1)
    leaving["metadata"] |= {"deletionTimestamp": "x", "finalizers": ["vscheduler.io/in-use"]}
    history.put("queues", leaving)
    assert history.wrong() == []
    history.drop("podgroups", "gang")
    leaving["status"] |= {"state": "Closed", "pending": 0}
    assert history.wrong() == ["finalizers disappear"]


def test_queues_in_use_are_held() -> None:
    """By a finalizer."""
    history = started(1, 0)
    loose = queue(pending=1)
    loose["metadata"]["finalizers"] = []
    history.put("queues", loose)
    assert history.wrong() == ["Queues in use are held"]
    history.drop("podgroups", "gang")
    loose["status"]["pending"] = 0
    assert history.wrong() == []


def test_somebody_leads() -> None:
    """Each Lease is renewed in time."""
    history = started(1, 0)
    history.put("queues", queue(pending=1))
    history.later(LEASE_SECONDS + 1)
    assert history.wrong() == ["somebody leads", "somebody leads"]
    history.leads("b")
    assert history.wrong() == []
    history.drop("leases", "volcano")
    assert history.wrong() == ["somebody leads"]


def test_writes_cease() -> None:
    """A minute after others changed something, nothing is written but Leases."""
    history = started(1, 0)
    history.put("queues", queue(pending=1))
    history.later(30)
    history.put("queues", queue(pending=1, share=0.5), "a")
    history.leads("a")
    assert history.wrong() == []
    history.later(40)
    history.put("queues", queue(pending=1, share=0.6), "a")
    history.leads("a")
    assert history.wrong() == ["writes cease"]
    assert history.wrong(calm_since=history.now + 1) == []


def test_heartbeats_are_no_reason_to_write() -> None:
    """A node that says the same again."""
    history = started(1, 0)
    history.put("queues", queue(pending=1))
    history.later(70)
    history.put("nodes", node())
    history.put("queues", queue(pending=1, share=0.5), "a")
    history.leads("a")
    assert history.wrong() == ["writes cease"]
    history = started(1, 0)
    history.put("queues", queue(pending=1))
    history.later(70)
    history.put("nodes", node(cpu="5"))
    history.put("queues", queue(pending=1, share=0.5), "a")
    history.leads("a")
    assert history.wrong() == []


def turning(*seconds: float, since: float = 200.0) -> list[str]:
    """The rules that are broken when a group loses its admission at these times, and is admitted
    two seconds later; ten pods are told so after ten seconds.
    """
    history = started(1, 0)
    history.put("queues", queue(pending=1))
    begin = history.now
    for at in seconds:
        for phase, later in (("Pending", 0.0), ("Inqueue", 2.0)):
            history.now = begin + at + later
            history.put("podgroups", group(1, phase=phase), "a")
        history.now = begin + at + 12
        for number in range(10):
            history.put("pods", told(f"other-{number}"), "a")
        history.later(since - 12)
    history.put("queues", queue(pending=0, inqueue=1))
    history.leads("a")
    rules = history.wrong(calm_since=begin)
    return [rule for rule in rules if rule == "writes cease"]


def test_others_may_have_their_turn() -> None:
    """Ten minutes later; a group that turns more often is no reason for others to write."""
    assert turning(100) == []
    assert turning(100, 700, 1300) == []
    assert turning(100, 200, 300) == ["writes cease"]


@pytest.mark.parametrize(("pause", "rules"), [(1.0, []), (20.0, ["writes cease"])])
def test_what_is_written_at_once_counts_once(pause: float, rules: list[str]) -> None:
    """A single burst after minutes of rest is no loop."""
    history = started(1, 0)
    history.put("queues", queue(pending=1))
    since = history.now
    history.later(90)
    for number in range(10):
        history.later(pause)
        history.put("pods", told(f"other-{number}"), "a")
    history.leads("a")
    settings = judges.Settings(late_write_seconds=60.0)
    found = history.wrong(calm_since=since, settings=settings)
    assert [rule for rule in found if rule == "writes cease"] == rules
