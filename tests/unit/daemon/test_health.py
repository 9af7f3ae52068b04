from typing import Any

import pytest
from aiohttp import ClientSession

from vscheduler.daemon import health, readiness, settings
from vscheduler.daemon.leader_election import api

LOOPBACK = settings.Address("127.0.0.1", 0)
FIRST = readiness.Report(waits=("the first lists aren't in yet: Pod",))


def fine() -> readiness.Report:
    """There is nothing to wait for."""
    return readiness.Report()


async def test_ready_only_once_it_is() -> None:
    """/livez at once, /readyz when the first lists are in, /metrics where it is wanted."""
    found = FIRST
    pages = health.pages(report=lambda: found, exposition=lambda: b"a 1\n", standings=tuple)
    async with health.serving(pages, LOOPBACK) as port, ClientSession() as client:

        async def get(path: str) -> tuple[int, str]:
            async with client.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, await response.text()

        assert await get("/livez") == await get("/healthz") == (200, "ok\n")
        assert await get("/readyz") == (503, "the first lists aren't in yet: Pod\n")
        found = fine()
        assert await get("/readyz") == (200, "ok\n")
        assert await get("/metrics") == (200, "a 1\n")


@pytest.mark.parametrize(
    ("standing", "line"),
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
    ],
)
def test_readiness_tells_who_leads(standing: dict[str, Any], line: str) -> None:
    """And what keeps us from it."""
    assert health.told(api.Standing(lease="x", **standing)) == f"x: {line}"


async def test_a_standby_is_ready_too() -> None:
    """One line per Lease, before and after the lists are in."""
    found = FIRST
    standings = (
        api.Standing(lease="a", leads=True),
        api.Standing(lease="b", leads=False, holder="other"),
    )
    pages = health.pages(report=lambda: found, exposition=None, standings=lambda: standings)
    async with health.serving(pages, LOOPBACK) as port, ClientSession() as client:
        for expected in (503, 200):
            async with client.get(f"http://127.0.0.1:{port}/readyz") as response:
                first, *leases = (await response.text()).splitlines()
            assert response.status == expected
            assert (first == "ok") is (expected == 200)
            assert leases == ["a: leader", "b: standby, held by other"]
            found = fine()


async def test_no_metrics_where_they_are_not_wanted() -> None:
    """Volcano: --enable-metrics is off by default."""
    pages = health.pages(report=fine, exposition=None, standings=tuple)
    async with (
        health.serving(pages, LOOPBACK) as port,
        ClientSession() as client,
        client.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        assert response.status == 404


async def test_an_address_in_use_is_named() -> None:
    """One sentence instead of a traceback."""
    pages = health.pages(report=fine, exposition=None, standings=tuple)
    async with health.serving(pages, LOOPBACK) as port:
        other = health.pages(report=fine, exposition=None, standings=tuple)
        with pytest.raises(health.ListenError, match=str(port)):
            async with health.serving(other, settings.Address("127.0.0.1", port)):
                pass


async def test_an_instance_that_is_stuck_is_neither_alive_nor_ready() -> None:
    """And says why; else what is missing stands below the ok."""
    why = ""
    found = readiness.Report(without=("without PriorityClass: forbidden",))
    pages = health.pages(report=lambda: found, exposition=None, standings=tuple, stuck=lambda: why)
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
