import asyncio

import pytest
from aiohttp import web

from tests import patience
from tests.unit.cluster.conftest import Serve
from vscheduler.cluster.http import connection
from vscheduler.cluster.http.connection import Unavailable


async def test_after_a_time_out_no_connection_from_before_is_used(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition hits all of them."""
    seen: dict[str, asyncio.Transport | None] = {}
    both = asyncio.Barrier(2)

    async def answer(request: web.Request) -> web.Response:
        seen[request.path] = request.transport
        if request.path in {"/a", "/b"}:
            await both.wait()
        if request.path == "/stalls":
            await asyncio.sleep(patience.SECONDS)
        return web.Response(status=201)

    link = await serve(answer)
    await asyncio.gather(link.call("POST", "/a", b""), link.call("POST", "/b", b""))
    with monkeypatch.context() as quickly:
        quickly.setattr(connection, "CALL_TIMEOUT_SECONDS", 0.3)
        with pytest.raises(Unavailable):
            await link.call("POST", "/stalls", b"")
    await link.call("POST", "/c", b"")
    assert seen["/stalls"] in {seen["/a"], seen["/b"]}
    assert seen["/c"] not in {seen["/a"], seen["/b"]}
