"""aiohttp's sessions as this daemon wants them; what goes through a proxy, and which."""

import ssl
import urllib.parse
import urllib.request
from importlib import metadata

import aiohttp

READ_BUFFER_BYTES = 2**18
KEEP_ALIVE_SECONDS = 75.0
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
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=middlewares,
        proxy=proxy,
    )


def proxy_of(host: str) -> str | None:
    """The proxy that the environment (HTTPS_PROXY, NO_PROXY) names for this address."""
    address = urllib.parse.urlsplit(host)
    if urllib.request.proxy_bypass(address.netloc):
        return None
    return urllib.request.getproxies().get(address.scheme)
