"""aiohttp's sessions as this daemon wants them; what goes through a proxy, and which."""

import asyncio
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from importlib import metadata

import aiohttp

from vscheduler.cluster.http import credentials, responses

READ_BUFFER_BYTES = 2**18
KEEP_ALIVE_SECONDS = 75.0
DOUBT_SECONDS = 20.0
"""The least time between two sessions, however much is lost on the way."""
RETIRE_SECONDS = 60.0
"""How long a session that is in doubt may go on with what it has begun."""
UNAUTHORIZED = 401
BUSY = 429
USER_AGENT = f"vscheduler/{metadata.version('vscheduler')}"


def made(
    context: ssl.SSLContext,
    *middlewares: aiohttp.ClientMiddlewareType,
    most: int,
    proxy: str | None = None,
) -> aiohttp.ClientSession:
    """The client's transport; the library's own takes proxies anew from the environment each time.

    With `trust_env` aiohttp reads ~/.netrc and the proxy variables for every request.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=most, ssl=context, keepalive_timeout=KEEP_ALIVE_SECONDS
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


class Authorizing:
    """Signs requests with the credentials of now, and sends again what is answered with 401 where
    there are others by then: nothing was done. A middleware, for the event loop of any thread.
    """

    def __init__(
        self,
        known: credentials.Credentials,
        home: asyncio.AbstractEventLoop,
        server_name: str | None,
    ) -> None:
        self._known = known
        self._home = home
        self._server_name = server_name

    async def __call__(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """One request."""
        request.server_hostname = self._server_name
        held = self._sign(request)
        response = await send(request)
        if response.status == UNAUTHORIZED and await self._renew(held):
            response.close()
            self._sign(request)
            response = await send(request)
        return response

    def _sign(self, request: aiohttp.ClientRequest) -> credentials.Held:
        held = self._known.held
        request.headers.update(held.headers)
        if request.is_ssl():
            # Connections are kept by their context: none is used again that an earlier one made.
            request._ssl = held.context  # noqa: SLF001 - a session has one context for ever
        return held

    async def _renew(self, refused: credentials.Held) -> bool:
        if asyncio.get_running_loop() is self._home:
            return await self._known.renew(refused)
        asked = asyncio.run_coroutine_threadsafe(self._known.renew(refused), self._home)
        return await asyncio.wrap_future(asked)


async def refuse_nonsense(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware for those who take every Retry-After for a number: others lose their answer."""
    response = await send(request)
    told = response.headers.get("Retry-After")
    if response.status == BUSY and told is not None:
        sensible = told.isascii() and told.isdecimal() and len(told) < len("99999")
        if not sensible or int(told) > responses.RETRY_AFTER_MAX_SECONDS:
            response.close()
            raise aiohttp.ClientConnectionError("busy for no sensible time")
    return response


class Sessions:
    """A session, and those before it until what they carry is over.

    A connection that says nothing makes all that were opened before suspect: a firewall may have
    forgotten them. What is asked from then on goes over others.
    """

    def __init__(self, make: Callable[[], aiohttp.ClientSession]) -> None:
        self._make = make
        self._since = float("-inf")
        self._retiring: dict[asyncio.Task[None], aiohttp.ClientSession] = {}
        self.current = make()

    def doubt(self) -> bool:
        """Something was lost on the way; whether there is another session for that."""
        if time.monotonic() < self._since + DOUBT_SECONDS:
            return False
        self._since = time.monotonic()
        task = asyncio.create_task(self._retire(self.current), name="retire connections")
        self._retiring[task] = self.current
        task.add_done_callback(lambda done: self._retiring.pop(done, None))
        self.current = self._make()
        return True

    async def close(self) -> None:
        """Drop all connections."""
        for task, session in list(self._retiring.items()):
            task.cancel()
            await session.close()
        await self.current.close()

    @staticmethod
    async def _retire(session: aiohttp.ClientSession) -> None:
        await asyncio.sleep(RETIRE_SECONDS)
        await session.close()


def proxy_of(host: str) -> str | None:
    """The proxy that the environment (HTTPS_PROXY, NO_PROXY) names for this address."""
    address = urllib.parse.urlsplit(host)
    if urllib.request.proxy_bypass(address.netloc):
        return None
    return urllib.request.getproxies().get(address.scheme)
