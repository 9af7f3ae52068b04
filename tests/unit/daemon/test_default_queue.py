import asyncio

import pytest
from aiohttp import web

from tests.unit.cluster.conftest import Serve
from vscheduler.daemon import controller_manager


async def test_the_default_queue_is_made_only_while_leading(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the Lease is renewed, nothing is sent."""
    monkeypatch.setattr(controller_manager, "QUEUE_RETRY_SECONDS", 0.01)
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.method)
        return web.json_response({"message": "no"}, status=404)

    link = await serve(answer)
    ensuring = controller_manager.ensure_queue(link, "default", lambda: False)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ensuring, 0.3)
    assert set(asked) == {"GET"}
