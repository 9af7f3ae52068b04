import asyncio
import json
import re
import time
from collections import Counter
from typing import Any

import aiohttp
import pytest

from tests.unit.web.test_endpoints import API, cookie, sign_in
from tests.unit.web.visitors import bearer, visited
from tests.web import clusters, stage
from tests.web.stage import Rights, Stage
from vscheduler.model.decisions import Bind
from vscheduler.web import streams
from vscheduler.web.allowances import Attempts
from vscheduler.web.documents import Access


async def events(found: aiohttp.ClientResponse) -> list[tuple[str, dict[str, Any]]]:
    """All events of a stream until its end."""
    text = (await found.read()).decode()
    pairs = re.findall(r"event: (\w+)\ndata: (.+)\n", text)
    return [(name, json.loads(data)) for name, data in pairs]


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams look again soon."""
    monkeypatch.setattr(streams, "TICK_SECONDS", 0.01)


async def first_event(found: aiohttp.ClientResponse) -> bytes:
    """The first lines of a stream."""
    return await found.content.readuntil(b"\n\n")


@pytest.mark.usefixtures("swift")
async def test_a_stream_ends_with_the_token() -> None:
    """The visitor is told why."""
    made = Stage([])
    async with (
        visited(made) as (client, page),
        client.get(f"{API}/stream", headers=bearer(stage.ADMIN)) as found,
    ):
        await first_event(found)
        del made.reviewer.known[stage.ADMIN]
        page._table._answers.clear()
        assert await events(found) == [("end", {"message": "Your token isn't valid any more."})]


@pytest.mark.usefixtures("swift")
async def test_a_stream_ends_with_its_session() -> None:
    """Signing out closes all tabs."""
    async with visited(Stage([])) as (client, _):
        async with await sign_in(client, stage.ADMIN) as found:
            given = cookie(found)
        async with client.get(f"{API}/stream", headers=given) as stream:
            await first_event(stream)
            await (await client.delete(f"{API}/session", headers=given)).read()
            assert [name for name, _ in await events(stream)] == ["end"]


@pytest.mark.usefixtures("swift")
async def test_a_stream_tells_which_sections_changed() -> None:
    """And that rights have changed, so that the page asks for everything."""
    made = Stage(clusters.three_queues(time.time()))
    async with (
        visited(made) as (client, page),
        client.get(f"{API}/stream", headers=bearer(stage.TENANT)) as found,
    ):
        first = json.loads((await first_event(found)).partition(b"data: ")[2])
        made.decide()
        page._views._due_at = 0.0
        second = json.loads((await first_event(found)).partition(b"data: ")[2])
        changed = {name for name, each in second.items() if each != first[name]}
        assert changed == {"decisions"}
        made.reviewer.known[stage.TENANT].namespaces.clear()
        page._table._answers.clear()
        third = json.loads((await first_event(found)).partition(b"data: ")[2])
        assert third["access"] == second["access"] + 1
        page.streams.close()
        assert [name for name, _ in await events(found)] == ["pause"]


@pytest.mark.usefixtures("swift")
async def test_a_stream_tells_nothing_of_what_its_visitor_may_not_see() -> None:
    """No number changes with other tenants' jobs, nor do versions begin with the same number."""
    made = Stage([*clusters.three_queues(time.time())])
    own: list[tuple[str, dict[str, Any]]] = []
    async with visited(made) as (client, page):
        opened = {
            token: await client.get(f"{API}/stream", headers=bearer(token))
            for token in (stage.TENANT, stage.STRANGER)
        }
        first = {token: await first_event(each) for token, each in opened.items()}
        late = clusters.job("vision", "late", 90, created=made.now)
        made.show([*clusters.three_queues(made.now), *late])
        made.past.bind_refused(refused_bind(made, "vision"), "no", made.now)
        page._views._due_at = 0.0
        told = json.loads((await first_event(opened[stage.TENANT])).partition(b"data: ")[2])
        page.streams.close()
        own = await events(opened[stage.STRANGER])
    assert [name for name, _ in own] == ["pause"], "nothing is there for the stranger to see"
    before = json.loads(first[stage.TENANT].partition(b"data: ")[2])
    changed = {name for name, each in told.items() if each != before[name]}
    assert changed == {"queues", "jobs"}, "the tenant may list queues, and so sees the line grow"
    assert first[stage.STRANGER] != first[stage.TENANT]


def refused_bind(made: Stage, namespace: str) -> Bind:
    """A decision about a job of a namespace."""
    (some, *_) = [job for job in made.taken.jobs if job.namespace == namespace]
    return Bind(task=some.tasks[0], node="n")


@pytest.mark.usefixtures("swift")
async def test_many_accounts_of_a_namespace_leave_room_for_others() -> None:
    """Each opens as many pages as it may; one of another namespace, and a user, find places."""
    made = Stage([])
    async with visited(made) as (client, page):
        opened = []
        for at in range(5):
            token = f"flood-{at}"
            made.reviewer.known[token] = Rights(f"system:serviceaccount:evil:a{at}")
            page._table._new_tokens = Attempts()
            opened += [
                await client.get(f"{API}/stream", headers=bearer(token))
                for _ in range(streams.STREAMS.visitor + 1)
            ]
        statuses = Counter(each.status for each in opened)
        assert statuses == {200: streams.STREAMS.tenant, 429: 5 * 9 - streams.STREAMS.tenant}
        for token in (stage.TENANT, stage.ADMIN):
            async with client.get(f"{API}/stream", headers=bearer(token)) as found:
                assert found.status == 200
        page.streams.close()
        for each in opened:
            await each.read()


@pytest.mark.usefixtures("swift")
async def test_streams_are_bounded_by_visitor_and_in_all() -> None:
    """One too many gets a sentence, and places are free again afterwards."""
    made = Stage([])
    async with visited(made) as (client, page):
        opened = [
            await client.get(f"{API}/stream", headers=bearer(stage.ADMIN))
            for _ in range(streams.STREAMS.visitor)
        ]
        async with client.get(f"{API}/stream", headers=bearer(stage.ADMIN)) as found:
            assert found.status == 429
        async with client.get(f"{API}/stream", headers=bearer(stage.TENANT)) as found:
            assert found.status == 200
        assert page.streams.count >= streams.STREAMS.visitor
        page.streams.close()
        for each in opened:
            await each.read()
        assert page.streams.count == 0


async def test_a_reader_who_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time, and nothing has piled up meanwhile."""
    monkeypatch.setattr(streams, "WRITE_SECONDS", 0.01)
    stuck = asyncio.Event()

    class Response:
        """A response whose reader doesn't read."""

        async def write(self, _: bytes) -> None:
            await stuck.wait()

    async def authorize() -> Access:
        return stage.everything()

    async with visited(Stage([])) as (_, page):
        with pytest.raises(TimeoutError):
            await page.streams.serve(Response(), page._view, authorize)  # type: ignore[arg-type]  # as far as needed
