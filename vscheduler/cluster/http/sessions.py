"""aiohttp sessions for the API server: limits, authorization, replacement, proxies."""

import asyncio
import functools
import socket
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from importlib import metadata

import aiohttp

from vscheduler.cluster.http import responses
from vscheduler.cluster.http.credentials import Credentials, Held

READ_BUFFER_BYTES = 2**18
KEEP_ALIVE_SECONDS = 75.0
CONNECT_SECONDS = 10.0
UNACKNOWLEDGED_SECONDS = 4.0
"""How long the kernel keeps sending bytes that the other side doesn't acknowledge.

After a partition, a write would otherwise arrive minutes late, when another instance leads. By
default, a leader acts for 5 s after a renewal, and another may lead 10 s later.
"""
DOUBT_SECONDS = 20.0
"""Minimum age of a session before the next replacement, however many time-outs occur."""
RETIRE_SECONDS = 60.0
"""How long a replaced session may finish its requests."""
UNAUTHORIZED = 401
BUSY = 429
USER_AGENT = f"vscheduler/{metadata.version('vscheduler')}"


def made(
    *middlewares: aiohttp.ClientMiddlewareType, most: int, proxy: str | None = None
) -> aiohttp.ClientSession:
    """Return a session with these middlewares, and with at most so many connections.

    `trust_env` stays off, because with `trust_env` aiohttp reads ~/.netrc and the proxy variables
    again for every request.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=most, keepalive_timeout=KEEP_ALIVE_SECONDS, socket_factory=_impatient
        ),
        headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
        read_bufsize=READ_BUFFER_BYTES,
        max_line_size=responses.HEADER_MAX_BYTES,
        max_field_size=responses.HEADER_MAX_BYTES,
        max_headers=responses.HEADERS_MAX,
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=middlewares,
        proxy=proxy,
    )


def _impatient(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that gives up on bytes which the other side doesn't acknowledge."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        milliseconds = round(UNACKNOWLEDGED_SECONDS * 1000)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return made


@functools.cache
def timeout(silence_seconds: float | None) -> aiohttp.ClientTimeout:
    """Return the time-outs of a request; `silence_seconds` may pass without any bytes of a stream.

    Calls have an end in addition, see connection.Connection.call.
    """
    return aiohttp.ClientTimeout(
        total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds
    )


class Authorizing:
    """A middleware that adds the current credentials to each request.

    A request answered with 401 was not executed. The request is sent again if newer credentials
    exist by then.
    """

    def __init__(self, known: Credentials, server_name: str | None) -> None:
        self._known = known
        self._server_name = server_name

    async def __call__(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request, and a second time after a 401 with newer credentials."""
        request.server_hostname = self._server_name
        held = self._sign(request)
        response = await send(request)
        if response.status == UNAUTHORIZED and await self._known.renew(held):
            response.close()
            self._sign(request)
            response = await send(request)
        return response

    def _sign(self, request: aiohttp.ClientRequest) -> Held:
        held = self._known.held
        request.headers.update(held.headers)
        if request.is_ssl():
            # aiohttp keys idle connections by TLS context, so a new context gets new connections.
            request._ssl = held.context  # noqa: SLF001 - a session's context cannot be changed
        return held


async def refuse_nonsense(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware that turns a 429 with an unusable Retry-After header into a lost connection.

    Needed for clients that parse every Retry-After header as a number of seconds.
    """
    response = await send(request)
    delay = response.headers.get("Retry-After")
    if response.status == BUSY and delay is not None:
        sensible = delay.isascii() and delay.isdecimal() and len(delay) < len("99999")
        if not sensible or int(delay) > responses.RETRY_AFTER_MAX_SECONDS:
            response.close()
            raise aiohttp.ClientConnectionError("busy for no sensible time")
    return response


class Sessions:
    """The current session, and replaced sessions until their requests are finished.

    After a time-out, all connections opened before are suspect: a firewall may have dropped their
    state. New requests use a new session.
    """

    def __init__(self, make: Callable[[], aiohttp.ClientSession]) -> None:
        self._make = make
        self._since = float("-inf")
        self._retiring: dict[asyncio.Task[None], aiohttp.ClientSession] = {}
        self.current = make()

    def doubt(self) -> None:
        """Replace the session after a time-out, unless the last replacement is too recent."""
        if time.monotonic() < self._since + DOUBT_SECONDS:
            return
        self._since = time.monotonic()
        task = asyncio.create_task(self._retire(self.current), name="retire connections")
        self._retiring[task] = self.current
        task.add_done_callback(lambda done: self._retiring.pop(done, None))
        self.current = self._make()

    async def close(self) -> None:
        """Close all connections."""
        for task, session in list(self._retiring.items()):
            task.cancel()
            await session.close()
        await self.current.close()

    @staticmethod
    async def _retire(session: aiohttp.ClientSession) -> None:
        await asyncio.sleep(RETIRE_SECONDS)
        await session.close()


def proxy_of(host: str) -> str | None:
    """Return the proxy for this address from the environment (HTTPS_PROXY, NO_PROXY), or None."""
    address = urllib.parse.urlsplit(host)
    if urllib.request.proxy_bypass(address.netloc):
        return None
    return urllib.request.getproxies().get(address.scheme)
