"""Who takes over waits until it sees what its predecessor did."""

import asyncio
from contextlib import suppress

import pytest
from aiohttp import web

from tests import answers
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from tests.unit.mirror import manifests
from vscheduler.daemon import catching_up
from vscheduler.mirror.decode import events


class Server:
    """Lists the pods that the test says, and counts how often."""

    def __init__(self, *versions: tuple[str, int]) -> None:
        self.versions = dict(versions)
        self.queries: list[dict[str, str]] = []
        self.failures = 0

    async def answer(self, request: web.Request) -> web.Response:
        """One page."""
        self.queries.append(dict(request.query))
        if self.failures:
            self.failures -= 1
            return web.json_response({"message": "no"}, status=500)
        items = [
            {"metadata": {"name": uid, "uid": uid, "resourceVersion": str(version)}}
            for uid, version in self.versions.items()
        ]
        return web.json_response(answers.a_metadata_list(items))


def nobody() -> None:
    """Who is told that a watch is behind, where that is of no interest."""


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catching_up, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(catching_up, "RETRY_SECONDS", 0.01)


async def test_it_returns_when_every_pod_is_seen_as_new(serve: Serve) -> None:
    """A pod that is seen older, or not at all, is waited for; a newer version will do."""
    server = Server(("a", 5), ("b", 9))
    mirror = manifests.mirror(manifests.pod("a", version=4))
    waiting = asyncio.create_task(
        catching_up.catch_up(await serve(server.answer), mirror, ["vscheduler"], nobody)
    )
    await worlds.until(lambda: server.queries)
    mirror.apply(manifests.event_of(manifests.pod("a", node="n1", version=5)))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    mirror.apply(manifests.event_of(manifests.pod("b", version=11)))
    async with asyncio.timeout(10):
        await waiting
    assert server.queries[0]["fieldSelector"].startswith("spec.schedulerName=vscheduler,")


async def test_a_pod_that_is_gone_before_a_watch_shows_it_holds_nobody_up(serve: Serve) -> None:
    """After some patience it is listed anew."""
    server = Server(("a", 5))
    waiting = asyncio.create_task(
        catching_up.catch_up(await serve(server.answer), manifests.mirror(), ["vscheduler"], nobody)
    )
    await worlds.until(lambda: server.queries)
    server.versions.clear()
    async with asyncio.timeout(10):
        await waiting
    assert len(server.queries) >= 2


async def test_errors_are_waited_out_and_names_are_asked_for_in_turn(serve: Serve) -> None:
    """No list, no beginning."""
    server = Server()
    server.failures = 2
    async with asyncio.timeout(10):
        await catching_up.catch_up(
            await serve(server.answer), manifests.mirror(), ["a", "b"], nobody
        )
    names = [query["fieldSelector"].split(",")[0] for query in server.queries]
    assert names == ["spec.schedulerName=a"] * 3 + ["spec.schedulerName=b"]


@pytest.mark.parametrize(
    ("seen", "listed", "enough"), [("", 5, True), ("x", 5, False), ("6", 5, True), ("4", 5, False)]
)
async def test_versions_are_compared_as_numbers(
    serve: Serve, seen: str, listed: int, enough: bool
) -> None:
    """A pod that doesn't decode is kept without a version, and is seen."""
    server = Server(("a", listed))
    mirror = manifests.mirror(manifests.pod("a", version=seen))
    if not seen:
        mirror.apply(
            events.Reject(
                kind=events.Kind.POD, namespace="ns", name="a", uid="a", field="spec", message=""
            )
        )
    done = False
    with suppress(TimeoutError):
        async with asyncio.timeout(5 if enough else 0.3):
            await catching_up.catch_up(await serve(server.answer), mirror, ["vscheduler"], nobody)
            done = True
    assert done is enough


async def test_a_watch_that_the_list_has_overtaken_is_told_of(serve: Serve) -> None:
    """Not one for which there is no list."""
    server = Server(("a", 5))
    server.failures = 3
    mirror = manifests.mirror()
    told: list[int] = []

    def overtake() -> None:
        told.append(server.failures)
        mirror.apply(manifests.event_of(manifests.pod("a", version=5)))

    async with asyncio.timeout(10):
        await catching_up.catch_up(await serve(server.answer), mirror, ["vscheduler"], overtake)
    assert told == [0]
