"""Lists that are taken whole: in pages, which may be too large."""

import asyncio
import itertools

import msgspec
import pytest
from aiohttp import web

from tests.unit.cluster.conftest import Serve
from vscheduler.cluster import cooperative
from vscheduler.cluster.http import lists, objects, responses
from vscheduler.cluster.http.connection import Gone, Unavailable
from vscheduler.cluster.http.lists import UnexpectedError
from vscheduler.cluster.http.objects import Object
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path

THINGS = Path.to("/things")


class Listed:
    """A collection of objects of some sizes, in pages as they are asked for."""

    def __init__(self, *sizes: int) -> None:
        self.items = [
            {
                "metadata": {"name": f"o{number}", "uid": "u", "resourceVersion": "1"},
                "spec": {"data": "x" * size},
            }
            for number, size in enumerate(sizes)
        ]
        self.asked: list[tuple[str, str]] = []
        """Where each page was to begin, and how many objects it was to have."""

    async def answer(self, request: web.Request) -> web.Response:
        """One page."""
        begin = int(request.query.get("continue", "0"))
        limit = request.query.get("limit", "")
        self.asked.append((str(begin), limit))
        end = begin + int(limit or len(self.items))
        metadata = {"continue": str(end)} if end < len(self.items) else {}
        kind = "PartialObjectMetadataList" if "as=" in request.headers["Accept"] else "List"
        return web.json_response(
            {"kind": kind, "metadata": metadata, "items": self.items[begin:end]}
        )


async def test_a_list_whose_pages_are_too_large_is_had_in_smaller_ones(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on from where it was: nothing is missing, nothing is there twice."""
    monkeypatch.setattr(responses, "PAGE_MAX_BYTES", 2000)
    server = Listed(*[10] * 10, *[1000] * 3, *[10] * 3)
    found = await objects.list_all(await serve(server.answer), THINGS, {"labelSelector": "a"})
    assert found == server.items
    assert server.asked[:5] == [("0", "500"), ("0", "62"), ("0", "7"), ("7", "7"), ("7", "1")]
    assert server.asked[5:] == [(str(number), "1") for number in range(8, 16)]


async def test_an_object_that_is_too_large_for_a_page_is_the_end_of_a_list(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It isn't asked for again and again."""
    monkeypatch.setattr(responses, "PAGE_MAX_BYTES", 2000)
    server = Listed(10, 3000)
    link = await serve(server.answer)
    with pytest.raises(Unavailable) as told:
        async with asyncio.timeout(40):
            await objects.list_all(link, THINGS, {})
    assert told.value.reason == responses.TOO_LARGE
    assert [limit for _, limit in server.asked] == ["500", "62", "7", "1", "1"]


async def test_what_is_too_large_for_one_piece_is_had_in_pages(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Custom resources, and versions of any objects."""
    monkeypatch.setattr(lists, "WHOLE_MAX_BYTES", 2000)
    server = Listed(*[1000] * 3)
    link = await serve(server.answer)
    custom = Path.to("/things", api_version="example.com/v1")
    assert await objects.list_all(link, custom, {}) == server.items
    found = await objects.list_versions(link, THINGS, {})
    assert [(each.uid, each.resource_version) for each in found] == [("u", "1")] * 3
    assert server.asked == [("0", ""), ("0", "4000")] * 2


@pytest.mark.parametrize("again", [False, True])
async def test_a_list_whose_token_expires_is_had_in_one_piece(again: bool, serve: Serve) -> None:
    """From the beginning, so nothing is there twice; a list that expires again is an error."""
    server = Listed(*[1] * 600)

    async def answer(request: web.Request) -> web.Response:
        if "continue" in request.query or (again and "limit" not in request.query):
            return web.json_response({"code": 410, "reason": "Expired"}, status=410)
        return await server.answer(request)

    link = await serve(answer)
    if again:
        with pytest.raises(Gone):
            await objects.list_all(link, THINGS, {})
    else:
        assert await objects.list_all(link, THINGS, {}) == server.items


async def test_a_long_list_leaves_turns_to_others(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand PodGroups in one piece would hold up the event loop for a quarter second."""
    read: list[msgspec.Raw] = []
    seen = [0]

    def decoded(item: msgspec.Raw, *, type: object) -> Object:  # noqa: A002 - msgspec's name
        read.append(item)
        found: Object = msgspec.json.Decoder(type).decode(item)
        return found

    async def others() -> None:
        while True:
            seen.append(len(read))
            await asyncio.sleep(0)

    link = await serve(Listed(*[10] * 400).answer)
    monkeypatch.setattr(msgspec.json, "decode", decoded)
    task = asyncio.create_task(others())
    await objects.list_all(link, THINGS, {})
    task.cancel()
    assert max(after - before for before, after in itertools.pairwise(seen)) == cooperative.SLICE


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "PodList", "items": []},
        {"kind": "PartialObjectMetadataList", "items": [{"metadata": {"uid": "u"}}]},
        {"kind": "PartialObjectMetadataList", "items": [{"metadata": {"uid": 1}}]},
        ["a"],
    ],
)
async def test_versions_come_from_a_list_of_metadata(answer: object, serve: Serve) -> None:
    """Anything else is no answer: nobody may go on without the newest versions."""

    async def answered(request: web.Request) -> web.Response:
        del request
        return web.json_response(answer)

    with pytest.raises(UnexpectedError):
        await objects.list_versions(await serve(answered), THINGS, {})


async def test_what_is_no_answer_is_no_reason_for_smaller_pages(serve: Serve) -> None:
    """Who asked is told at once."""
    limits: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        limits.append(request.query["limit"])
        return web.Response(status=503)

    link = await serve(answer)
    with pytest.raises(Unavailable):
        await objects.list_all(link, THINGS, {})
    assert set(limits) == {"500"}


async def test_a_delete_is_meant_for_one_object_in_one_version(serve: Serve) -> None:
    """Both are preconditions; the API server refuses if either differs."""
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response({})

    path = paths.POD_GROUPS.at("g", "ns")
    await objects.delete(await serve(answer), path, uid="u", resource_version="7")
    assert asked[0]["preconditions"] == {"uid": "u", "resourceVersion": "7"}
