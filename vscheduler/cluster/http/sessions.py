"""aiohttp sessions for Kopf, which sends requests of its own with the daemon's credentials."""

import urllib.parse
import urllib.request

import aiohttp

from vscheduler.cluster.http import pool, responses
from vscheduler.cluster.http.credentials import Credentials, Held

BUSY = 429


def made(known: Credentials, server_name: str | None, proxy: str | None) -> aiohttp.ClientSession:
    """Return a session with these credentials.

    `trust_env` stays off, because with `trust_env` aiohttp reads ~/.netrc and the proxy variables
    again for every request.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=pool.CONNECTIONS_MAX,
            keepalive_timeout=pool.KEEP_ALIVE_SECONDS,
            socket_factory=pool.impatient,
        ),
        headers={"User-Agent": pool.USER_AGENT, "Accept": "application/json"},
        read_bufsize=pool.BUFFER_BYTES,
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_Authorizing(known, server_name), _refuse_nonsense),
        proxy=proxy,
    )


class _Authorizing:
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
        if response.status == responses.UNAUTHORIZED and await self._known.renew(held):
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


async def _refuse_nonsense(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware that turns a 429 with an unusable Retry-After header into a lost connection.

    Kopf parses every Retry-After header as a number of seconds.
    """
    response = await send(request)
    delay = response.headers.get("Retry-After")
    if response.status == BUSY and delay is not None:
        sensible = delay.isascii() and delay.isdecimal() and len(delay) < len("99999")
        if not sensible or int(delay) > responses.RETRY_AFTER_MAX_SECONDS:
            response.close()
            raise aiohttp.ClientConnectionError("busy for no sensible time")
    return response


def proxy_of(host: str) -> str | None:
    """Return the proxy for this address from the environment (HTTPS_PROXY, NO_PROXY), or None."""
    address = urllib.parse.urlsplit(host)
    if urllib.request.proxy_bypass(address.netloc):
        return None
    proxy = urllib.request.getproxies().get(address.scheme)
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
