import re
from typing import Any

import pytest
from aiohttp import ClientSession
from msgspec.structs import replace

from vscheduler.cluster.http.connection import ApiError, Forbidden, NotFound, Unavailable
from vscheduler.cluster.reflector import Pace
from vscheduler.daemon import health
from vscheduler.daemon.health import ListenError, Report, WatchState
from vscheduler.daemon.leader_election.api import LeaseStatus
from vscheduler.daemon.settings import Address
from vscheduler.mirror import paths
from vscheduler.mirror.decode import events

LOOPBACK = Address("127.0.0.1", 0)
FIRST = Report(waits=("the first lists aren't in yet: Pod",))


async def fine() -> Report:
    """There is nothing to wait for."""
    return Report()


async def test_ready_only_once_it_is() -> None:
    """/livez at once, /readyz when the first lists are in, /metrics where it is wanted."""
    found = FIRST

    async def report() -> Report:
        return found

    async def exposition() -> bytes:
        return b"a 1\n"

    pages = health.pages(report=report, exposition=exposition)
    async with health.serving(pages, LOOPBACK) as port, ClientSession() as client:

        async def get(path: str) -> tuple[int, str]:
            async with client.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, await response.text()

        assert await get("/livez") == await get("/healthz") == (200, "ok\n")
        assert await get("/readyz") == (503, "the first lists aren't in yet: Pod\n")
        found = Report()
        assert await get("/readyz") == (200, "ok\n")
        assert await get("/metrics") == (200, "a 1\n")


@pytest.mark.parametrize(
    ("status", "line"),
    [
        ({"leads": True, "holder": "me"}, "leader"),
        ({"leads": True}, "leader"),
        ({"leads": False, "holder": "a-1"}, "standby, held by a-1"),
        ({"leads": False}, "standby"),
        ({"leads": False, "problem": "it is forbidden"}, "standby; it is forbidden"),
        (
            {"leads": False, "holder": "a-1", "problem": "no answer"},
            "standby, held by a-1; no answer",
        ),
        (
            {"leads": False, "holder": "a-1", "other_configuration": "f00"},
            "standby, held by a-1; the leader's configuration differs (f00)",
        ),
    ],
)
def test_readiness_tells_who_leads(status: dict[str, Any], line: str) -> None:
    """And what keeps us from it."""
    assert health.lease_line(LeaseStatus(lease="x", **status)) == f"x: {line}"


async def test_a_standby_is_ready_too() -> None:
    """One line per Lease, before and after the lists are in."""
    listed = False
    lease_statuses = (
        LeaseStatus(lease="a", leads=True),
        LeaseStatus(lease="b", leads=False, holder="other"),
    )

    async def report() -> Report:
        return health.report([state(Kind.POD, listed=listed)], lease_statuses)

    pages = health.pages(report=report, exposition=None)
    async with health.serving(pages, LOOPBACK) as port, ClientSession() as client:
        for expected in (503, 200):
            async with client.get(f"http://127.0.0.1:{port}/readyz") as response:
                first, *leases = (await response.text()).splitlines()
            assert response.status == expected
            assert (first == "ok") is (expected == 200)
            assert leases == ["a: leader", "b: standby, held by other"]
            listed = True


async def test_no_metrics_where_they_are_not_wanted() -> None:
    """Volcano: --enable-metrics is off by default."""
    pages = health.pages(report=fine, exposition=None)
    async with (
        health.serving(pages, LOOPBACK) as port,
        ClientSession() as client,
        client.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        assert response.status == 404


async def test_an_address_in_use_is_named() -> None:
    """One sentence instead of a traceback, with the flag that names another one."""
    pages = health.pages(report=fine, exposition=None)
    async with health.serving(pages, LOOPBACK) as port:
        other = health.pages(report=fine, exposition=None)
        says = f"--listen-address: can't listen on 127.0.0.1:{port}: another process uses this port"
        with pytest.raises(ListenError, match=f"^{re.escape(says)}$"):
            async with health.serving(other, Address("127.0.0.1", port), flags="--listen-address"):
                pass


async def test_an_instance_that_is_stuck_is_neither_alive_nor_ready() -> None:
    """And says why; else what is missing stands below the ok."""
    why = ""

    async def report() -> Report:
        return Report(without=("without PriorityClass: forbidden",))

    pages = health.pages(report=report, exposition=None, stuck=lambda: why)
    async with health.serving(pages, LOOPBACK) as port, ClientSession() as client:

        async def get(path: str) -> tuple[int, str]:
            async with client.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, await response.text()

        assert await get("/livez") == (200, "ok\n")
        assert await get("/readyz") == (200, "ok\nwithout PriorityClass: forbidden\n")
        why = "a cycle doesn't end"
        assert await get("/livez") == await get("/healthz") == (503, "a cycle doesn't end\n")
        assert await get("/readyz") == (
            503,
            "a cycle doesn't end\nwithout PriorityClass: forbidden\n",
        )


Kind = events.Kind
NO_ANSWER = Unavailable("no answer: refused")
UNKNOWN = NotFound("no such kind", status=404)
DENIED = Forbidden("may not list", status=403)
STRANGER = Forbidden("Unauthorized", status=401)


def state(
    kind: Kind,
    problem: ApiError | None = None,
    *,
    listed: bool = True,
    seconds: float = 60.0,
) -> WatchState:
    """A kind that is followed, or for so long isn't."""
    return WatchState(kind=kind, listed=listed, problem=problem, seconds=seconds)


def test_all_that_is_followed_is_ready() -> None:
    """And nothing is said of it."""
    assert health.report([state(kind) for kind in Kind]) == Report()


def test_lists_that_are_not_in_yet_are_named() -> None:
    """The others aren't."""
    found = health.report([state(Kind.POD, listed=False), state(Kind.NODE)])
    assert found.waits == ("the first lists aren't in yet: Pod",)


@pytest.mark.parametrize("problem", [UNKNOWN, DENIED])
def test_a_kind_that_is_not_served_or_not_shown_is_done_without(
    problem: ApiError,
) -> None:
    """Not at once, as a server that starts refuses, too; it is named from the start."""
    for seconds, ready in ((1.0, False), (60.0, True)):
        each = state(Kind.BUDGET, problem, listed=False, seconds=seconds)
        found = health.report([state(Kind.POD), each])
        assert found.without == (f"without PodDisruptionBudget: {problem}",)
        assert (found.waits == ()) is ready
        assert each.absent is ready


@pytest.mark.parametrize("kind", sorted(paths.OPTIONAL_KINDS))
def test_kinds_that_clusters_need_not_serve_are_done_without_at_once(kind: Kind) -> None:
    """Unless we may not list them: that may be about to change."""
    assert state(kind, UNKNOWN, listed=False, seconds=0.1).absent
    assert not state(kind, DENIED, listed=False, seconds=0.1).absent


@pytest.mark.parametrize("kind", [Kind.QUEUE, Kind.POD_GROUP])
def test_who_has_not_applied_the_crds_is_told(kind: Kind) -> None:
    """A 404 alone says nothing to somebody who installs it for the first time."""
    found = health.report([state(kind, UNKNOWN, listed=False)])
    says = f"{kind} is needed, and this cluster has no such kind: apply the files in crds/"
    assert found.waits[0] == says


@pytest.mark.parametrize("kind", sorted(health.NEEDED))
@pytest.mark.parametrize("listed", [True, False])
def test_without_a_kind_that_is_needed_nobody_is_ready(kind: Kind, *, listed: bool) -> None:
    """Though it was there before."""
    each = state(kind, DENIED, listed=listed)
    found = health.report([each, state(Kind.BUDGET)])
    assert found.waits[0] == f"{kind} is needed, and refused: may not list"
    assert not each.absent
    assert found.without == ()


def test_credentials_that_are_not_known_are_no_missing_kind() -> None:
    """401 says nothing of the kind."""
    each = state(Kind.BUDGET, STRANGER, listed=False)
    assert not each.absent
    found = health.report([each])
    assert found.waits[0] == "the API server can't be reached: Unauthorized"


def test_a_server_that_answers_no_watch_can_not_be_reached() -> None:
    """Kinds that are refused don't speak for it; one that is followed does."""
    lost = [state(Kind.POD, NO_ANSWER, seconds=0.1), state(Kind.NODE, NO_ANSWER, seconds=0.1)]
    found = health.report(lost)
    assert found.waits == ("the API server can't be reached: no answer: refused",)
    assert health.report([*lost, state(Kind.QUEUE)]).waits == ()


def test_a_server_that_does_not_answer_the_election_can_not_be_reached() -> None:
    """Watches whose connections are silent notice later."""
    lease_statuses = [
        LeaseStatus(lease="a", leads=False, problem="it is forbidden"),
        LeaseStatus(lease="b", leads=False, problem="no answer\x1b[2J", reachable=False),
    ]
    found = health.report([state(Kind.POD)], lease_statuses)
    assert found.waits == ("the API server can't be reached: no answer [2J",)
    assert health.report([state(Kind.POD)], lease_statuses[:1]).waits == ()


def test_watches_that_are_silent_are_named() -> None:
    """Though they were opened, or are just being opened again; not one that ends in time."""
    silent = [
        replace(state(Kind.POD), silent_seconds=34.0),
        replace(state(Kind.CLAIM), silent_seconds=54.6),
        replace(state(Kind.NODE, NO_ANSWER, seconds=0.5), silent_seconds=31.0),
        replace(state(Kind.QUEUE), silent_seconds=24.0),
    ]
    (told,) = health.report(silent).waits
    assert told == (
        "the watches of Pod, PersistentVolumeClaim, Node have been silent for 55 s: "
        "no changes are seen"
    )
    assert not health.report([state(Kind.POD), *silent[1:2]]).waits


def test_an_idle_cluster_is_not_silent() -> None:
    """The server ends each watch before that, and the reflector each one that it doesn't end."""
    pace = Pace()
    assert pace.silence_seconds + pace.retry_seconds < health.SILENT_SECONDS


def test_a_kind_that_can_not_be_followed_for_long_is_named() -> None:
    """A watch that ends and begins anew isn't."""
    for seconds, waits in ((1.0, ()), (60.0, ("Pod can't be followed: no answer: refused",))):
        found = health.report([state(Kind.POD, NO_ANSWER, seconds=seconds), state(Kind.NODE)])
        assert found.waits == waits


def of_volcano(kind: Kind, problem: ApiError | None = UNKNOWN, **more: Any) -> WatchState:
    """A kind of Volcano's where Kubernetes' own PodGroups are served."""
    each = state(kind, problem, seconds=more.pop("seconds", 60.0), listed=more.pop("listed", False))
    return replace(each, **{"replaced": True, "unserved": problem is UNKNOWN, **more})


@pytest.mark.parametrize("kind", sorted(health.VOLCANO))
def test_volcanos_kinds_are_not_needed_beside_kubernetes_own(kind: Kind) -> None:
    """Not at once, as their CRDs may be on their way; one sentence says what that means."""
    for listed in (False, True):
        each = of_volcano(kind, listed=listed)
        assert each.absent
        found = health.report([state(Kind.POD), each])
        assert (found.waits, found.without) == ((), (health.CONSEQUENCES[kind],))
    assert not of_volcano(kind, seconds=1.0).absent
    assert of_volcano(kind, DENIED).needed
    assert of_volcano(kind, replaced=False).needed


def test_an_answer_that_says_nothing_of_the_kind_changes_nothing() -> None:
    """It is as absent as before, whatever the API server answers while it is busy."""
    each = of_volcano(Kind.QUEUE, NO_ANSWER, unserved=True)
    assert each.absent
    assert health.report([state(Kind.POD), each]).waits == ()
    assert not replace(each, listed=True, silent_seconds=60.0).silent
