import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.leave import Ending
from vscheduler.cluster import connection, lanes
from vscheduler.controllers import ports
from vscheduler.daemon import api

PATH = "/apis/x/v1/namespaces/ns/things"
Note = tuple[str, str, str, Any]


@asynccontextmanager
async def calling(
    serve: Serve,
    answer: Callable[[web.Request], web.Response],
    *,
    may_commit: bool | Ending = True,
) -> AsyncIterator[tuple[api.Api, list[Note]]]:
    """The port, on a server that notes method, path with query, content type and body."""
    notes: list[Note] = []

    async def note(request: web.Request) -> web.Response:
        body = await request.read()
        kind = request.headers.get("Content-Type", "")
        notes.append((request.method, request.path_qs, kind, json.loads(body or "null")))
        return answer(request)

    link = await serve(note)
    queue = lanes.Lanes(workers=2, waiting_max=10)
    task = asyncio.create_task(queue.run())
    yield api.Api(link, queue, lambda: bool(may_commit)), notes
    task.cancel()
    await asyncio.wait([task])


async def test_calls_say_what_they_are_for(serve: Serve) -> None:
    """Deletes carry both preconditions; patches their type and parameters."""

    def answer(request: web.Request) -> web.Response:
        if request.method == "GET" and request.path == PATH:
            metadata_only = "PartialObjectMetadataList" in request.headers["Accept"]
            token = "" if "continue" in request.query else "next"
            page = {"metadata": {"continue": token}, "items": [{"whole": not metadata_only}]}
            return web.json_response(page)
        return web.json_response({"x": 1})

    async with calling(serve, answer) as (port, notes):
        assert await port.get(f"{PATH}/a") == {"x": 1}
        assert await port.list(PATH, {"fieldSelector": "a!=b"}) == [{"whole": True}] * 2
        assert await port.list(PATH, metadata_only=True) == [{"whole": False}] * 2
        await port.create(PATH, {"y": 2})
        await port.patch(f"{PATH}/a", {"z": 3})
        await port.patch(f"{PATH}/a", {}, ports.APPLY_PATCH, {"fieldManager": "me"})
        await port.delete(f"{PATH}/a", ports.Preconditions(uid="5", resource_version="6"))
        await port.delete(f"{PATH}/a", ports.Preconditions(uid="5"))
    assert [(method, path) for method, path, _, _ in notes] == [
        ("GET", f"{PATH}/a"),
        ("GET", f"{PATH}?fieldSelector=a%21%3Db&limit=500"),
        ("GET", f"{PATH}?fieldSelector=a%21%3Db&limit=500&continue=next"),
        ("GET", f"{PATH}?limit=500"),
        ("GET", f"{PATH}?limit=500&continue=next"),
        ("POST", PATH),
        ("PATCH", f"{PATH}/a"),
        ("PATCH", f"{PATH}/a?fieldManager=me"),
        ("DELETE", f"{PATH}/a"),
        ("DELETE", f"{PATH}/a"),
    ]
    assert [kind for *_, kind, _ in notes][6:8] == [ports.MERGE_PATCH, ports.APPLY_PATCH]
    assert notes[8][3]["preconditions"] == {"uid": "5", "resourceVersion": "6"}
    assert notes[9][3]["preconditions"] == {"uid": "5"}


@pytest.mark.parametrize(
    ("status", "reason", "trouble"),
    [
        (409, "Conflict", ports.Trouble.CONFLICT),
        (409, "AlreadyExists", ports.Trouble.EXISTS),
        (404, "NotFound", ports.Trouble.MISSING),
        (403, "Forbidden", ports.Trouble.FORBIDDEN),
        (401, "Unauthorized", ports.Trouble.FORBIDDEN),
        (422, "Invalid", ports.Trouble.INVALID),
        (429, "TooManyRequests", ports.Trouble.THROTTLED),
        (500, "InternalError", ports.Trouble.UNANSWERED),
        (504, "Timeout", ports.Trouble.UNANSWERED),
    ],
)
async def test_refusals_say_what_kind_of_trouble_it_is(
    serve: Serve, status: int, reason: str, trouble: ports.Trouble
) -> None:
    """And what the server said."""

    def answer(_: web.Request) -> web.Response:
        return web.json_response({"reason": reason, "message": "so it is"}, status=status)

    async with calling(serve, answer) as (port, _):
        with pytest.raises(ports.RefusedError, match="so it is") as raised:
            await port.create(PATH, {})
    assert raised.value.trouble is trouble


async def test_what_is_no_object_is_no_answer(serve: Serve) -> None:
    """A proxy's page, with status 200."""
    async with calling(serve, lambda _: web.Response(text="<html>")) as (port, _):
        with pytest.raises(ports.RefusedError) as raised:
            await port.get(PATH)
    assert raised.value.trouble is ports.Trouble.UNANSWERED


async def test_nothing_is_sent_once_we_may_not(serve: Serve) -> None:
    """The process is stopping."""
    async with calling(serve, lambda _: web.Response(), may_commit=False) as (port, notes):
        with pytest.raises(ports.RefusedError) as raised:
            await port.get(PATH)
    assert raised.value.trouble is ports.Trouble.WITHHELD
    assert notes == []


async def test_who_asked_may_go_away(serve: Serve) -> None:
    """The call is dropped where it hasn't begun, and its answer where it has."""
    async with calling(serve, lambda _: web.json_response({})) as (port, _):
        for _ in range(2):
            asked = asyncio.create_task(port.get(PATH))
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked])
        assert await port.get(PATH) == {}
    assert isinstance(api.refused(connection.Gone("old")), ports.RefusedError)


@pytest.mark.parametrize("verb", ["create", "patch", "delete"])
async def test_leave_that_ends_while_a_call_is_prepared_keeps_it_from_being_sent(
    serve: Serve, verb: str
) -> None:
    """It is asked again when the bytes are written."""
    answer, leave = web.json_response, Ending(1)
    async with calling(serve, lambda _: answer({}), may_commit=leave) as (port, notes):
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: port.create(PATH, {"y": 2}),
            "patch": lambda: port.patch(f"{PATH}/a", {"z": 3}),
            "delete": lambda: port.delete(f"{PATH}/a", ports.Preconditions(uid="u")),
        }
        with pytest.raises(ports.RefusedError) as raised:
            await calls[verb]()
    assert raised.value.trouble is ports.Trouble.WITHHELD
    assert leave.left < 0
    assert notes == []
