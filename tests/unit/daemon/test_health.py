import pytest
from aiohttp import ClientSession

from vscheduler.daemon import health, settings

LOOPBACK = settings.Address("127.0.0.1", 0)


async def test_ready_only_once_it_is() -> None:
    """/livez at once, /readyz when the first lists are in, /metrics where it is wanted."""
    ready = False
    pages = health.pages(ready=lambda: ready, exposition=lambda: b"a 1\n")
    async with health.serving(pages, LOOPBACK) as port, ClientSession() as client:

        async def get(path: str) -> tuple[int, str]:
            async with client.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, await response.text()

        assert await get("/livez") == await get("/healthz") == (200, "ok\n")
        assert (await get("/readyz"))[0] == 503
        ready = True
        assert await get("/readyz") == (200, "ok\n")
        assert await get("/metrics") == (200, "a 1\n")


async def test_no_metrics_where_they_are_not_wanted() -> None:
    """Volcano: --enable-metrics is off by default."""
    pages = health.pages(ready=lambda: True, exposition=None)
    async with (
        health.serving(pages, LOOPBACK) as port,
        ClientSession() as client,
        client.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        assert response.status == 404


async def test_an_address_in_use_is_named() -> None:
    """One sentence instead of a traceback."""
    pages = health.pages(ready=lambda: True, exposition=None)
    async with health.serving(pages, LOOPBACK) as port:
        other = health.pages(ready=lambda: True, exposition=None)
        with pytest.raises(health.ListenError, match=str(port)):
            async with health.serving(other, settings.Address("127.0.0.1", port)):
                pass
