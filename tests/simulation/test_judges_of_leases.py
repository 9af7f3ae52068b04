"""Each judge of Leases flags a broken rule, and lets pass what breaks none."""

import pytest

from tests.simulation import judges
from tests.simulation.made_histories import (
    CONTROLLERS,
    LEASE_SECONDS,
    group,
    meta,
    queue,
    started,
)


def test_who_never_held_the_lease_writes_nothing() -> None:
    """A bind and a PodGroup's status by a standby."""
    history = started(1, 1)
    history.bind("p0", "n1", origin="b")
    history.put("podgroups", group(1, phase="Running"), "b")
    assert history.broken() == ["one writer", "one writer"]


def test_who_lost_the_lease_writes_nothing() -> None:
    """A late bind after a takeover."""
    history = started(1, 1)
    history.later(16)
    history.leads("b")
    history.bind("p0", "n1", origin="a")
    assert history.broken() == ["one writer"]


def test_whose_lease_expired_writes_nothing() -> None:
    """Although nobody took over."""
    history = started(1, 1)
    history.later(LEASE_SECONDS + 2)
    history.bind("p0", "n1", origin="a")
    assert history.broken() == ["one writer"]


def test_a_holder_may_not_know_at_once_that_its_lease_was_edited() -> None:
    """Some seconds are allowed if neither instance wrote it."""
    for seconds, broken in ((2, []), (12, ["one writer"])):
        history = started(1, 1)
        history.lease("volcano", "stranger", "")
        history.later(seconds)
        history.bind("p0", "n1")
        assert history.broken() == broken


def test_queues_have_two_writers() -> None:
    """Figures by the scheduler, the state by the controllers."""
    history = started(1, 0)
    history.later(16)
    history.lease("volcano", "b-id", "b")
    history.lease(CONTROLLERS, "a-id", "a")
    history.put("queues", queue(share=0.5), "b")
    history.put("queues", queue(share=0.5, state="Closed"), "a")
    history.put("queues", queue(share=0.5, state="Closed"), "b", code=409)
    assert history.broken() == []
    history.put("queues", queue(share=0.5), "b")
    assert history.broken() == ["one writer"]


@pytest.mark.parametrize(("kind", "rules"), [("Pod", ["one writer"]), ("Lease", [])])
def test_events_need_the_lease(kind: str, rules: list[str]) -> None:
    """But not those of an instance about its own term."""
    history = started(1, 1)
    history.later(16)
    history.leads("b")
    event = {"metadata": meta("p0.1", namespace="n"), "regarding": {"kind": kind}}
    history.put("events", event, "a")
    assert history.broken() == rules


@pytest.mark.parametrize(("seconds", "rules"), [(5, []), (10, ["a holder keeps its Lease"])])
def test_a_holder_renews(seconds: float, rules: list[str]) -> None:
    """Though somebody has written another time into its Lease."""
    settings = judges.Settings(renewal_seconds=8.0)
    history = started(1, 0)
    history.lease("volcano", "a-id", "")
    history.later(seconds)
    history.lease("volcano", "a-id", "a")
    assert history.broken(settings) == rules


def test_a_lease_that_was_taken_away_needs_a_wait() -> None:
    """By hand, and given back by nobody."""
    settings = judges.Settings(renewal_seconds=8.0)
    history = started(1, 0)
    history.lease("volcano", "stranger", "")
    assert judges.taken_away(history.changes[-1])
    history.later(20)
    history.lease("volcano", "a-id", "a")
    assert not judges.taken_away(history.changes[-1])
    assert history.broken(settings) == []


def test_a_lease_just_created_may_be_kept() -> None:
    """Who comes next waits in place of the one that created it."""
    history = started(1, 0)
    court = judges.court(judges.Settings())
    assert list(court.see(history.changes)) == []
    assert list(court.left(history.now, "a")) == []


def test_who_ends_gives_its_leases_back() -> None:
    """Both of them."""
    history = started(1, 0)
    history.later(20)
    court = judges.court(judges.Settings())
    assert list(court.see(history.changes)) == []
    assert list(court.left(history.now, "b")) == []
    assert [each.rule for each in court.left(history.now, "a")] == ["Leases are given back"] * 2
