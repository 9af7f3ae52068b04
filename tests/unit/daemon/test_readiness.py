"""What an instance says that it waits for."""

import pytest

from vscheduler.cluster.http import connection
from vscheduler.daemon import readiness
from vscheduler.daemon.leader_election import api
from vscheduler.mirror.decode import events

Kind = events.Kind
NO_ANSWER = connection.Unavailable("no answer: refused")
UNKNOWN = connection.NotFound("no such kind", status=404)
DENIED = connection.Forbidden("may not list", status=403)
STRANGER = connection.Forbidden("Unauthorized", status=401)


def state(
    kind: Kind,
    problem: connection.ApiError | None = None,
    *,
    listed: bool = True,
    seconds: float = 60.0,
) -> readiness.Followed:
    """A kind that is followed, or for so long isn't."""
    return readiness.Followed(kind=kind, listed=listed, problem=problem, seconds=seconds)


def test_all_that_is_followed_is_ready() -> None:
    """And nothing is said of it."""
    assert readiness.report([state(kind) for kind in Kind]) == readiness.Report()


def test_lists_that_are_not_in_yet_are_named() -> None:
    """The others aren't."""
    found = readiness.report([state(Kind.POD, listed=False), state(Kind.NODE)])
    assert found.waits == ("the first lists aren't in yet: Pod",)


@pytest.mark.parametrize("problem", [UNKNOWN, DENIED])
def test_a_kind_that_is_not_served_or_not_shown_is_done_without(
    problem: connection.ApiError,
) -> None:
    """Not at once, as a server that starts refuses, too; it is named from the start."""
    for seconds, ready in ((1.0, False), (60.0, True)):
        each = state(Kind.BUDGET, problem, listed=False, seconds=seconds)
        found = readiness.report([state(Kind.POD), each])
        assert found.without == (f"without PodDisruptionBudget: {problem}",)
        assert (found.waits == ()) is ready
        assert each.absent is ready


@pytest.mark.parametrize("kind", sorted(readiness.NEEDED))
@pytest.mark.parametrize("listed", [True, False])
def test_without_a_kind_that_is_needed_nobody_is_ready(kind: Kind, *, listed: bool) -> None:
    """Though it was there before."""
    each = state(kind, DENIED, listed=listed)
    found = readiness.report([each, state(Kind.BUDGET)])
    assert found.waits[0] == f"{kind} is needed, and refused: may not list"
    assert not each.absent
    assert found.without == ()


def test_credentials_that_are_not_known_are_no_missing_kind() -> None:
    """401 says nothing of the kind."""
    each = state(Kind.BUDGET, STRANGER, listed=False)
    assert not each.absent
    found = readiness.report([each])
    assert found.waits[0] == "the API server can't be reached: Unauthorized"


def test_a_server_that_answers_no_watch_can_not_be_reached() -> None:
    """Kinds that are refused don't speak for it; one that is followed does."""
    lost = [state(Kind.POD, NO_ANSWER, seconds=0.1), state(Kind.NODE, NO_ANSWER, seconds=0.1)]
    found = readiness.report(lost)
    assert found.waits == ("the API server can't be reached: no answer: refused",)
    assert readiness.report([*lost, state(Kind.QUEUE)]).waits == ()


def test_a_server_that_does_not_answer_the_election_can_not_be_reached() -> None:
    """Watches whose connections are silent notice later."""
    standings = [
        api.Standing(lease="a", leads=False, problem="it is forbidden"),
        api.Standing(lease="b", leads=False, problem="no answer\x1b[2J", reachable=False),
    ]
    found = readiness.report([state(Kind.POD)], standings)
    assert found.waits == ("the API server can't be reached: no answer [2J",)
    assert readiness.report([state(Kind.POD)], standings[:1]).waits == ()


def test_a_kind_that_can_not_be_followed_for_long_is_named() -> None:
    """A watch that ends and begins anew isn't."""
    for seconds, waits in ((1.0, ()), (60.0, ("Pod can't be followed: no answer: refused",))):
        found = readiness.report([state(Kind.POD, NO_ANSWER, seconds=seconds), state(Kind.NODE)])
        assert found.waits == waits
