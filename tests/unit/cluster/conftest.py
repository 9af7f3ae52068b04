"""An API server of a few lines: each test says what it answers."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import test_utils, web

from vscheduler.cluster.http.connection import Access, Connection

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[Connection]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a server that answers every request by a function; gives a connection to it."""
    servers: list[test_utils.TestServer] = []
    links: list[Connection] = []

    async def start(handler: Handler) -> Connection:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handler)
        server = test_utils.TestServer(application)
        await server.start_server()
        servers.append(server)
        address = f"http://127.0.0.1:{server.port}"
        link = await Connection.open(Access(master=address))
        links.append(link)
        return link

    yield start
    for link in links:
        await link.close()
    for server in servers:
        await server.close()
