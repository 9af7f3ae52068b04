import asyncio

import pytest
from aiohttp import web

from tests import patience
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
    ensuring = asyncio.create_task(controller_manager.ensure_queue(link, "default", lambda: False))
    await patience.until(lambda: len(asked) > 3)
    ensuring.cancel()
    await asyncio.wait({ensuring})
    assert set(asked) == {"GET"}
