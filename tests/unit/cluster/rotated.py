"""A server that knows one client, and a client whose credentials change."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import test_utils, web

from vscheduler.cluster.http.connection import Access, Connection
from vscheduler.cluster.leases import Leases

LEASE = {"metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "1"}}


class Server:
    """Knows one token, or one client's certificate, and answers 401 to all others."""

    def __init__(self) -> None:
        self.known = "old"
        self.serial = 0
        self.url = ""
        self.refused = 0
        self.answered: list[str] = []
        self.connections: set[object] = set()

    async def answer(self, request: web.Request) -> web.Response:
        """Whatever is asked for."""
        await request.read()
        assert request.transport is not None
        peer = request.transport.get_extra_info("ssl_object")
        if peer is None:
            found = request.headers.getall("Authorization", []) == [f"Bearer {self.known}"]
        else:
            found = int(peer.getpeercert()["serialNumber"], 16) == self.serial
        if not found:
            self.refused += 1
            return web.json_response({"message": "who are you?"}, status=401)
        self.answered.append(request.method)
        self.connections.add(request.transport)
        return web.json_response(LEASE)


@asynccontextmanager
async def serving(context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server for the time of the block."""
    made = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", made.answer)
    scheme = "http" if context is None else "https"
    server = test_utils.TestServer(application, scheme=scheme)
    await server.start_server(ssl=context)
    made.url = f"{scheme}://127.0.0.1:{server.port}"
    yield made
    await server.close()


def kubeconfig(path: Path, url: str, user: dict[str, Any], authority: Path | None = None) -> Path:
    """A kubeconfig of one user."""
    cluster = {"server": url}
    if authority is not None:
        cluster["certificate-authority"] = str(authority)
    tree = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": user}],
    }
    path.write_text(yaml.safe_dump(tree))
    return path


@asynccontextmanager
async def linked(path: Path, *, watched: bool = False) -> AsyncIterator[Connection]:
    """A connection with these credentials; somebody looks after them, or nobody."""
    link = await Connection.open(Access(kubeconfig=str(path)))
    task = asyncio.create_task(link.refresh_credentials()) if watched else None
    try:
        yield link
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        await link.close()


async def get(link: Connection) -> None:
    """Read something."""
    await link.call("GET", "/")


async def post(link: Connection) -> None:
    """Write something."""
    await link.call("POST", "/", b"{}", may_send=lambda: True)


async def put(link: Connection) -> None:
    """Write something by another method."""
    await link.call("PUT", "/", b"{}", may_send=lambda: True)


async def stream(link: Connection) -> None:
    """Begin to watch."""
    async with link.stream("/", silence_seconds=5) as chunks:
        async for _ in chunks:
            pass


async def lease(link: Connection) -> None:
    """Read and write a Lease."""
    api = Leases(link, "b", call_seconds=5)
    stored = await api.get("a")
    assert stored is not None
    await api.replace(stored, stored.record)


async def session(link: Connection) -> None:
    """As a library would that sends requests of its own."""
    async with link.session() as session, session.get(link.host) as response:
        assert response.status == 200
