"""An API server of a few lines: each test says what it answers."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import test_utils, web

from vscheduler.cluster.http import connection

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[connection.Connection]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a server that answers every request by a function; gives a connection to it."""
    servers: list[test_utils.TestServer] = []
    links: list[connection.Connection] = []

    async def start(handler: Handler) -> connection.Connection:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handler)
        server = test_utils.TestServer(application)
        await server.start_server()
        servers.append(server)
        address = f"http://127.0.0.1:{server.port}"
        link = await connection.Connection.open(connection.Access(master=address))
        links.append(link)
        return link

    yield start
    for link in links:
        await link.close()
    for server in servers:
        await server.close()
