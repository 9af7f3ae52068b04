import time

import pytest
from aiohttp import web

from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.writes import test_binder
from vscheduler.backoff import Growth
from vscheduler.cluster.writes import retries
from vscheduler.cluster.writes.binder import BindResult

RETRY_AFTER_SECONDS = 0.2


async def test_a_busy_server_is_left_alone_for_as_long_as_it_says(serve: Serve) -> None:
    """Between two attempts at a bind."""
    statuses = [429, 429, 201]

    async def answer(_: web.Request) -> web.Response:
        details = {"retryAfterSeconds": RETRY_AFTER_SECONDS}
        return web.json_response({"details": details}, status=statuses.pop(0))

    began = time.monotonic()
    (outcome,) = await test_binder.commit(serve, answer, [test_binder.a_bind()])
    assert outcome.verdict is BindResult.BOUND
    assert time.monotonic() - began >= 2 * RETRY_AFTER_SECONDS


async def test_a_pod_that_cannot_be_read_is_given_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows then whether the pod is bound."""
    quick = Growth(first_seconds=0.001, longest_seconds=0.001)
    monkeypatch.setattr(retries, "LOOKS", quick)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=500)

    (outcome,) = await test_binder.commit(serve, answer, [test_binder.a_bind()])
    assert outcome.verdict is BindResult.UNKNOWN
