"""Several schedulers, each highly available, on the same nodes.

There is room for all; what becomes of a race for the last of it, test_refusals.py shows.

The patience of instances is short in `make test`, and the default one in `make test-faults`.
"""

import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from tests.faults import audits
from tests.faults.audits import Entry
from tests.integration import arrivals, daemons, takeovers
from tests.integration.takeovers import Contest

NAMES = [f"tenant-{number}" for number in range(5)]
ONLINE, OFFLINE = "volcano-online", "volcano-offline"
ARTICLE = [
    "--leader-elect-resource-name={}",
    "--leader-elect-resource-namespace=volcano-system",
]
"""The flags with which two Volcano schedulers were meant to live side by side."""
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
GANGS = 10


def binders(contest: Contest, namespace: str) -> dict[str, int]:
    """Who has bound how many pods of a namespace."""
    return Counter(
        bind.user for bind in audits.binds(contest.entries()) if bind.namespace == namespace
    )


def gaps(entries: Iterable[Entry], namespace: str, after: float) -> float:
    """The longest time without a bind in a namespace, since a moment."""
    times = [bind.answered for bind in audits.binds(entries) if bind.namespace == namespace]
    times = [after, *(time for time in times if time > after)]
    return max((later - earlier for earlier, later in pairwise(times)), default=0)


def test_the_articles_two_schedulers_live_side_by_side(contest: Contest) -> None:
    """Word for word: both lead at once, each places its own, and one goes on without the other."""
    contest.feed(ONLINE, OFFLINE)
    for name in (ONLINE, OFFLINE):
        flags = [flag.format(name) for flag in ARTICLE]
        contest.enter(f"{name}-1", name, flags=flags)
    for name in (ONLINE, OFFLINE):
        contest.until_binds(f"{name}-1", name)
        assert contest.lease(name)["spec"]["holderIdentity"]
    fault = contest.end(f"{ONLINE}-1")
    for _ in range(GANGS):
        fault = contest.until_binds(f"{OFFLINE}-1", OFFLINE, after=fault).answered
    contest.enter(f"{ONLINE}-2", ONLINE, flags=[flag.format(ONLINE) for flag in ARTICLE])
    contest.until_binds(f"{ONLINE}-2", ONLINE, after=fault)
    row = contest.verdict("the article's two schedulers")
    assert row.faultless, row
    assert set(binders(contest, ONLINE)) == {f"{ONLINE}-1", f"{ONLINE}-2"}
    assert set(binders(contest, OFFLINE)) == {f"{OFFLINE}-1"}


@pytest.mark.at_length
def test_five_schedulers_of_two_replicas_share_nodes(contest: Contest) -> None:
    """Each binds its own; the end of one leader is nobody else's business."""
    contest.feed(*NAMES, pause=1.0)
    for replica in (1, 2):
        for name in NAMES:
            contest.enter(f"{name}-{replica}", name)
        for name in NAMES:
            if replica == 1:
                contest.until_binds(f"{name}-1", name)
            else:
                contest.until_stands_by(f"{name}-2", name)
    fault = contest.end(f"{NAMES[0]}-1")
    contest.until_binds(f"{NAMES[0]}-2", NAMES[0], after=fault)
    others = max(gaps(contest.entries(), name, fault) for name in NAMES[1:])
    row = contest.verdict(
        f"5 names x 2, others' longest pause {others:.1f} s", fault, f"{NAMES[0]}-2", NAMES[0]
    )
    assert row.faultless, row
    assert set(binders(contest, NAMES[0])) == {f"{NAMES[0]}-1", f"{NAMES[0]}-2"}
    for name in NAMES[1:]:
        assert set(binders(contest, name)) == {f"{name}-1"}
        assert len(audits.reigns(contest.entries(), name, users_of(name))) == 1


def users_of(name: str) -> Sequence[str]:
    """The two replicas of a scheduler."""
    return (f"{name}-1", f"{name}-2")


@pytest.mark.at_length
def test_an_instance_acts_for_those_of_its_names_that_it_holds(contest: Contest) -> None:
    """Until the other one dies: then it acts for both."""
    contest.feed("a", "b")
    contest.enter("second", "b")
    contest.until_binds("second", "b")
    contest.enter("first", "a", "b")
    contest.until_binds("first", "a")
    contest.until_stands_by("first", "b")
    after = contest.entries()[-1].answered
    contest.until_binds("second", "b", after=after)
    assert set(binders(contest, "a")) == {"first"}
    assert set(binders(contest, "b")) == {"second"}
    fault = contest.end("second")
    contest.until_binds("first", "b", after=fault)
    others = gaps(contest.entries(), "a", fault)
    scenario = f"two names, one held; a's longest pause {others:.1f} s"
    row = contest.verdict(scenario, fault, "first", "b")
    assert row.faultless, row
    assert set(binders(contest, "a")) == {"first"}


@pytest.mark.at_length
def test_controllers_have_successors_too(contest: Contest) -> None:
    """PodGroups of pods without one are made once; the queues are kept by whoever comes next."""
    for replica in ("one", "two"):
        contest.enter(replica, ONLINE)
        if replica == "one":
            contest.plane.create_namespace(ONLINE)
            a_deployment(contest, "first", 3)
            contest.until(lambda: running(contest, "first") == 3)
    contest.until_stands_by("two", ONLINE)
    contest.until_stands_by("two", takeovers.CONTROLLERS)
    fault = contest.end("one")
    a_deployment(contest, "second", 3)
    contest.until(lambda: running(contest, "second") == 3)
    daemons.a_queue(contest.plane, "late")
    contest.until(lambda: queue_state(contest, "late") == "Open")
    assert queue_state(contest, "default") == "Open"
    assert len(contest.plane.api.list(arrivals.GROUPS.format(ONLINE))) == 2
    made = [
        entry
        for entry in contest.entries()
        if entry.resource == "podgroups" and entry.verb == "create" and entry.done
    ]
    assert [each.user for each in made] == ["one", "two"]
    row = contest.verdict("controllers, kill -9", fault, "two", ONLINE)
    assert row.faultless, row


@pytest.mark.at_length
def test_controllers_that_stop_are_succeeded_at_once(contest: Contest) -> None:
    """Their Lease is given back like the others."""
    contest.plane.create_namespace(ONLINE)
    contest.enter("one", ONLINE)
    contest.until(lambda: queue_state(contest, "default") == "Open")
    contest.enter("two", ONLINE)
    contest.until_stands_by("two", takeovers.CONTROLLERS)
    fault = contest.end("one", signal.SIGTERM)
    contest.until(lambda: taken(contest, "two"))
    writes = taken(contest, "two")
    assert writes[0].answered - fault < contest.timing.duration_seconds


def taken(contest: Contest, user: str) -> list[Entry]:
    """What an instance wrote to the Queue controller's Lease."""
    return audits.lease_writes(contest.entries(), takeovers.CONTROLLERS, [user])


def a_deployment(contest: Contest, name: str, replicas: int) -> None:
    """Pods that name no PodGroup."""
    pod = arrivals.a_pod(name, ONLINE)
    labels = {"app": name}
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }
    contest.plane.api.create(DEPLOYMENTS.format(ONLINE), body)


def running(contest: Contest, name: str) -> int:
    """How many pods of a Deployment run."""
    pods = contest.plane.api.list(arrivals.PODS.format(ONLINE), labelSelector=f"app={name}")
    return sum(pod["status"]["phase"] == "Running" for pod in pods)


def queue_state(contest: Contest, name: str) -> str:
    """The state of a Queue."""
    queue = contest.plane.api.find(f"{daemons.QUEUES}/{name}") or {}
    return str(queue.get("status", {}).get("state", ""))
