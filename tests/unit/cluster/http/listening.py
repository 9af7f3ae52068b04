"""Servers of a few bytes, for answers that no HTTP server would give."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Take = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(take: Take, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that has a function for each connection; gives HOST:PORT."""
    under_way: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await take(reader, writer)
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        await asyncio.sleep(0)  # a connection that has just come begins
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await server.wait_closed()
