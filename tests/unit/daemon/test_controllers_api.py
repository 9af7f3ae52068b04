"""Calls of the controllers, over a connection."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.permits import Ending
from vscheduler.cluster.http import objects
from vscheduler.cluster.http.connection import Gone
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.controllers import ports
from vscheduler.controllers.ports import Preconditions, RefusedError, Trouble
from vscheduler.daemon import controllers_api
from vscheduler.daemon.controllers_api import Api
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection


async def test_of_all_pod_groups_only_what_is_read_is_kept(serve: Serve) -> None:
    """Tenants may write a megabyte into each."""
    metadata = {"uid": "u", "name": "g", "namespace": "ns", "resourceVersion": "5"}
    large = {
        "metadata": metadata | {"labels": {"a": "x"}},
        "spec": {"queue": "q", "minTaskMember": {"a": 1}},
        "status": {"phase": "Running", "conditions": []},
    }
    page = {"kind": "PodGroupList", "metadata": {}, "items": [large]}
    async with calling(serve, lambda _: web.json_response(page)) as (port, _):
        (found,) = await port.list(paths.POD_GROUPS.everywhere)
    assert found == {"metadata": metadata, "spec": {"queue": "q"}, "status": {"phase": "Running"}}


THINGS = Collection(api_version="x/v1", kind="Thing", plural="things")
PATH = THINGS.within("ns")
ONE = THINGS.at("a", "ns")
A_METADATA: dict[str, Any] = {"name": "a", "uid": "5", "resourceVersion": "6"}
A_THING: dict[str, Any] = {"apiVersion": "x/v1", "kind": "Thing", "metadata": A_METADATA}
Note = tuple[str, str, str, Any]


@asynccontextmanager
async def calling(
    serve: Serve,
    answer: Callable[[web.Request], web.Response],
    *,
    may_commit: bool | Ending = True,
) -> AsyncIterator[tuple[Api, list[Note]]]:
    """The port, on a server that notes method, path with query, content type and body."""
    notes: list[Note] = []

    async def note(request: web.Request) -> web.Response:
        body = await request.read()
        kind = request.headers.get("Content-Type", "")
        notes.append((request.method, request.path_qs, kind, json.loads(body or "null")))
        return answer(request)

    link = await serve(note)
    queue = WriteQueue(workers=2, waiting_max=10)
    task = asyncio.create_task(queue.run())
    yield Api(link, queue, lambda: bool(may_commit)), notes
    task.cancel()
    await asyncio.wait([task])


async def test_calls_say_what_they_are_for(serve: Serve) -> None:
    """Deletes carry both preconditions; patches their type and parameters."""

    def answer(request: web.Request) -> web.Response:
        if request.method == "GET" and request.path == PATH:
            metadata_only = "PartialObjectMetadataList" in request.headers["Accept"]
            token = "" if "continue" in request.query else "next"
            kind = "PartialObjectMetadataList" if metadata_only else "ThingList"
            item = {"metadata": A_THING["metadata"], "whole": not metadata_only}
            page = {"kind": kind, "metadata": {"continue": token}, "items": [item]}
            return web.json_response(page)
        return web.json_response(A_THING)

    async with calling(serve, answer) as (port, notes):
        assert await port.get(ONE) == A_THING
        selected = await port.list(PATH, {"fieldSelector": "a!=b"})
        assert [each["whole"] for each in selected] == [True, True]
        found = await port.list(PATH, metadata_only=True)
        assert [each["whole"] for each in found] == [False, False]
        await port.create(PATH, {"y": 2})
        await port.patch(ONE, {"z": 3})
        await port.patch(ONE, {}, ports.APPLY_PATCH, {"fieldManager": "me"})
        await port.delete(ONE, Preconditions(uid="5", resource_version="6"))
        await port.delete(ONE, Preconditions(uid="5"))
    assert [(method, path) for method, path, _, _ in notes] == [
        ("GET", ONE),
        ("GET", f"{PATH}?fieldSelector=a%21%3Db&limit=500"),
        ("GET", f"{PATH}?fieldSelector=a%21%3Db&limit=500&continue=next"),
        ("GET", f"{PATH}?limit=500"),
        ("GET", f"{PATH}?limit=500&continue=next"),
        ("POST", PATH),
        ("PATCH", ONE),
        ("PATCH", f"{PATH}/a?fieldManager=me"),
        ("DELETE", ONE),
        ("DELETE", ONE),
    ]
    assert [kind for *_, kind, _ in notes][6:8] == [ports.MERGE_PATCH, ports.APPLY_PATCH]
    assert notes[8][3]["preconditions"] == {"uid": "5", "resourceVersion": "6"}
    assert notes[9][3]["preconditions"] == {"uid": "5"}


@pytest.mark.parametrize(
    ("status", "reason", "trouble"),
    [
        (409, "Conflict", Trouble.CONFLICT),
        (409, "AlreadyExists", Trouble.EXISTS),
        (404, "NotFound", Trouble.MISSING),
        (403, "Forbidden", Trouble.FORBIDDEN),
        (401, "Unauthorized", Trouble.FORBIDDEN),
        (422, "Invalid", Trouble.INVALID),
        (429, "TooManyRequests", Trouble.THROTTLED),
        (500, "InternalError", Trouble.UNANSWERED),
        (504, "Timeout", Trouble.UNANSWERED),
    ],
)
async def test_refusals_say_what_kind_of_trouble_it_is(
    serve: Serve, status: int, reason: str, trouble: Trouble
) -> None:
    """And what the server said."""

    def answer(_: web.Request) -> web.Response:
        return web.json_response({"reason": reason, "message": "so it is"}, status=status)

    async with calling(serve, answer) as (port, _):
        with pytest.raises(RefusedError, match="so it is") as raised:
            await port.create(PATH, {})
    assert raised.value.trouble is trouble


async def test_what_is_no_object_is_no_answer(serve: Serve) -> None:
    """A proxy's page, with status 200."""
    async with calling(serve, lambda _: web.Response(text="<html>")) as (port, _):
        with pytest.raises(RefusedError) as raised:
            await port.get(PATH)
    assert raised.value.trouble is Trouble.UNANSWERED


async def test_nothing_is_sent_once_we_may_not(serve: Serve) -> None:
    """The process is stopping."""
    async with calling(serve, lambda _: web.Response(), may_commit=False) as (port, notes):
        with pytest.raises(RefusedError) as raised:
            await port.get(PATH)
    assert raised.value.trouble is Trouble.WITHHELD
    assert notes == []


async def test_who_asked_may_go_away(serve: Serve) -> None:
    """The call is dropped where it hasn't begun, and its answer where it has."""
    async with calling(serve, lambda _: web.json_response(A_THING)) as (port, _):
        for _ in range(2):
            asked = asyncio.create_task(port.get(ONE))
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked])
        assert await port.get(ONE) == A_THING
    assert isinstance(controllers_api.refused(Gone("old")), RefusedError)


@pytest.mark.parametrize("verb", ["create", "patch", "delete"])
async def test_leave_that_ends_while_a_call_is_prepared_keeps_it_from_being_sent(
    serve: Serve, verb: str
) -> None:
    """It is asked again when the bytes are written."""
    answer, leave = web.json_response, Ending(1)
    async with calling(serve, lambda _: answer({}), may_commit=leave) as (port, notes):
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: port.create(PATH, {"y": 2}),
            "patch": lambda: port.patch(ONE, {"z": 3}),
            "delete": lambda: port.delete(ONE, Preconditions(uid="u")),
        }
        with pytest.raises(RefusedError) as raised:
            await calls[verb]()
    assert raised.value.trouble is Trouble.WITHHELD
    assert leave.left < 0
    assert notes == []


@pytest.mark.contains_failures
async def test_a_call_that_raises_is_one_without_an_answer(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked learns so, and tries again; else he would wait for ever."""

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with calling(serve, lambda _: web.json_response(A_THING)) as (port, _):
        monkeypatch.setattr(objects, "get", fail)
        with pytest.raises(RefusedError) as raised:
            await asyncio.wait_for(port.get(ONE), 40)
        assert raised.value.trouble is Trouble.UNANSWERED
        monkeypatch.undo()
        assert await port.get(ONE) == A_THING


def without(*names: str) -> dict[str, Any]:
    """The thing without some of its fields."""
    found: dict[str, Any] = {name: each for name, each in A_THING.items() if name not in names}
    if "metadata" in found:
        kept = {name: each for name, each in A_METADATA.items() if name not in names}
        found["metadata"] = kept
    return found


@pytest.mark.parametrize(
    "answer",
    [
        *(without(each) for each in ("kind", "apiVersion", "metadata", "name", "uid")),
        without("resourceVersion"),
        A_THING | {"kind": "Other"},
        A_THING | {"apiVersion": "x/v2"},
        A_THING | {"metadata": A_METADATA | {"name": "b"}},
        A_THING | {"metadata": A_METADATA | {"labels": ["a"]}},
        A_THING | {"metadata": A_METADATA | {"annotations": {"a": 1}}},
        A_THING | {"metadata": A_METADATA | {"ownerReferences": [{"name": "a"}]}},
        A_THING | {"metadata": None},
        A_THING | {"spec": "x"},
        A_THING | {"status": []},
        {"kind": "ThingList", "apiVersion": "x/v1", "metadata": {}, "items": [A_THING]},
        [A_THING],
        None,
        "x",
    ],
)
async def test_an_answer_that_is_another_object_is_none(serve: Serve, answer: Any) -> None:
    """Whoever asked relies on what an object has, and on that it is the one that was asked for."""
    async with calling(serve, lambda _: web.json_response(answer)) as (port, _):
        for call in (port.get(ONE), port.patch(ONE, {}), port.create(PATH, A_THING)):
            with pytest.raises(RefusedError) as raised:
                await call
            assert raised.value.trouble is Trouble.UNANSWERED


@pytest.mark.parametrize(
    "answer",
    [
        A_THING,
        {"kind": "OtherList", "metadata": {}, "items": []},
        {"kind": "ThingList", "metadata": {}},
        {"kind": "ThingList", "metadata": {}, "items": {}},
        {"kind": "ThingList", "metadata": {}, "items": ["a"]},
        {"kind": "ThingList", "metadata": {}, "items": [{"metadata": {"name": "a"}}]},
        {"kind": "ThingList", "metadata": {"continue": 5}, "items": []},
    ],
)
async def test_an_answer_that_is_no_list_is_none(serve: Serve, answer: Any) -> None:
    """An empty list, for one, would let all of them be deleted."""
    async with calling(serve, lambda _: web.json_response(answer)) as (port, _):
        with pytest.raises(RefusedError) as raised:
            await port.list(PATH)
    assert raised.value.trouble is Trouble.UNANSWERED


async def test_a_list_of_nothing_may_be_null(serve: Serve) -> None:
    """Go writes so what has no items."""
    answer: dict[str, Any] = {"kind": "ThingList", "metadata": {}, "items": None}
    async with calling(serve, lambda _: web.json_response(answer)) as (port, _):
        assert await port.list(PATH) == []
