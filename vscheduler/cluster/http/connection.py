# ruff: noqa: N818 - errors are named after the server's answer: Conflict, Gone, NotFound
"""Client for the API server: requests, streams, time-outs and typed errors.

Bodies are bytes in both directions. The client library's generated models cost about a millisecond
for each pod, so only the library's credentials and transport are used.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Self

import aiohttp
import msgspec
import yarl
from kubernetes.aio import client

from vscheduler.cluster.http import credentials, responses, sessions
from vscheduler.cluster.http.credentials import Credentials
from vscheduler.cluster.http.http_pool import Address, Answer, HttpPool
from vscheduler.cluster.http.responses import TooLargeError
from vscheduler.cluster.http.send_guard import Body, NotSentError
from vscheduler.cluster.http.sessions import Authorizing, Sessions

CALL_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 10.0
CONNECTIONS_MAX = 128
CLOSE_SECONDS = 0.1

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
WRITES = ("POST", "PATCH")
"""Methods whose requests are sent at most once, over the connection pool for writes."""

APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; JSON is valid YAML."""

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Accept header of a list that needs only the objects' metadata."""

BUDGET = "DisruptionBudget"
"""The cause that the Eviction API (policy/v1) reports when a PodDisruptionBudget forbids an
eviction."""

UID_FIELD = "metadata.uid"
"""The cause that the API server reports for a patch that names the UID of an object that was
deleted, and created again under its name."""

Access = credentials.Access
CredentialsError = credentials.CredentialsError


class ApiError(Exception):
    """Base class: the API server refused a request, or could not be reached.

    The message is the server's.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Conflict(ApiError):
    """409: a precondition (uid, resourceVersion) failed, or the object already exists.

    Also 422, if the object meanwhile has another UID.
    """


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old."""


class NotFound(ApiError):
    """404: the object, or the whole API, does not exist."""


class Forbidden(ApiError):
    """401 or 403: the credentials are unknown, or do not permit the request."""


class Invalid(ApiError):
    """Any other 4xx: the request is wrong, and repeating the request does not help."""


class Throttled(ApiError):
    """429: the API server is too busy; try again after `retry_after_seconds`."""

    def __init__(
        self, message: str, *, status: int = 429, reason: str = "", retry_after_seconds: float = 1.0
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_seconds = retry_after_seconds


class Protected(ApiError):
    """429 from the Eviction API: a PodDisruptionBudget forbids the eviction."""


class Unavailable(ApiError):
    """5xx, or no answer at all: the request may have been executed or not."""


class _Cause(msgspec.Struct):
    reason: str = ""
    field: str = ""


class _Details(msgspec.Struct):
    retryAfterSeconds: float | None = None  # noqa: N815 - the wire's name
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    """The fields of a meta/v1 Status used to build errors."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
}
_decode_status = msgspec.json.Decoder(_Status).decode


def error_of(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Return the typed error for a response. With status 0, the status is taken from the body.

    A body that is no Status becomes the message, shortened.
    """
    try:
        decoded = _decode_status(body)
    except responses.GARBAGE:
        decoded = _Status(message=body[:300].decode(errors="replace").strip())
    status = status or decoded.code or 500
    reason = (decoded.reason or "")[: responses.MESSAGE_MAX]
    message = (decoded.message or f"HTTP status {status}")[: responses.MESSAGE_MAX]
    causes = decoded.details.causes or () if decoded.details else ()
    if status == 429 and any(cause.reason == BUDGET for cause in causes):
        return Protected(message, status=status, reason=reason)
    if status == 429:
        details = decoded.details.retryAfterSeconds if decoded.details else None
        seconds = responses.patience(retry_after, details)
        return Throttled(message, reason=reason, retry_after_seconds=seconds)
    if reason == "Expired":
        return Gone(message, status=status, reason=reason)
    if status == 422 and any(cause.field == UID_FIELD for cause in causes):
        return Conflict(message, status=status, reason=reason)
    kind = _BY_STATUS.get(status, Invalid if 400 <= status < 500 else Unavailable)
    return kind(message, status=status, reason=reason)


class Connection:
    """Keep-alive connections to one API server."""

    def __init__(self, known: Credentials, *middlewares: aiohttp.ClientMiddlewareType) -> None:
        configuration = known.configuration
        self._credentials = known
        self._loop = asyncio.get_running_loop()
        self._on_throttled: Callable[[], None] | None = None
        self._host: str = configuration.host.rstrip("/")
        self._proxy: str | None = configuration.proxy or sessions.proxy_of(self._host)
        self._server_name: str | None = configuration.tls_server_name
        signing = Authorizing(known, self._loop, self._server_name)
        self._sessions = Sessions(
            partial(sessions.made, known.held.context, signing, *middlewares, most=CONNECTIONS_MAX)
        )
        self._write_pool = None if middlewares or self._proxy else self._open_write_pool()
        self._call_timeout = aiohttp.ClientTimeout(
            total=CALL_TIMEOUT_SECONDS, sock_connect=CONNECT_TIMEOUT_SECONDS
        )

    @classmethod
    async def open(cls, access: Access, *middlewares: aiohttp.ClientMiddlewareType) -> Self:
        """Read the credentials and return a connection, without sending anything.

        Raises CredentialsError. The middlewares wrap every request.
        """
        return cls(await Credentials.read(access), *middlewares)

    @property
    def host(self) -> str:
        """The API server's address."""
        return self._host

    async def close(self) -> None:
        """Drop all connections, and give TLS a moment to shut down.

        aiohttp's transports close only in later iterations of the event loop (aiohttp: Graceful
        Shutdown).
        """
        if self._write_pool is not None:
            self._write_pool.close()
        await self._sessions.close()
        await asyncio.sleep(CLOSE_SECONDS)

    def on_throttling(self, callback: Callable[[], None]) -> None:
        """Set the callback for every 429 answer (too many requests)."""
        self._on_throttled = callback

    async def refresh_credentials(self) -> None:
        """Reload the credentials whenever their sources change, for ever."""
        await self._credentials.keep_fresh()

    async def wait_for_credentials(self, seconds: float) -> None:
        """Wait until the credentials change, at most this many seconds."""
        await self._credentials.wait_for_others(seconds)

    async def call(  # noqa: PLR0913 - the parts of a request
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        may_send: Callable[[], bool] | None = None,
        most_bytes: int = responses.PAGE_MAX_BYTES,
    ) -> bytes:
        """Send a request and return the body, at most `most_bytes` long. Raises ApiError.

        `may_send` is asked at the moment when the body is written to the connection. When
        `may_send` returns False, send_guard.NotSentError is raised.
        """
        headers = {} if body is None else {"Content-Type": content_type}
        headers |= {"Accept": accept, "User-Agent": sessions.USER_AGENT}
        try:
            if self._write_pool is None or body is None or method not in WRITES:
                answer = await self._ask(method, path, headers, body, may_send, most_bytes)
            else:
                answer = await self._write(self._write_pool, method, path, headers, body, may_send)
        except (aiohttp.ClientError, TimeoutError, OSError) as lost:
            if isinstance(lost, TimeoutError):
                self.doubt()
            raise unavailable(lost) from lost
        if answer.status < 300:
            return answer.body
        error = error_of(answer.status, answer.body, answer.retry_after)
        if isinstance(error, Throttled) and self._on_throttled is not None:
            self._on_throttled()
        raise error

    async def _ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
        may_send: Callable[[], bool] | None,
        most_bytes: int,
    ) -> Answer:
        """Send a request with aiohttp, which repeats idempotent requests on a broken connection."""
        data = body if body is None or may_send is None else Body(body, may_send)
        try:
            async with self._sessions.current.request(
                method,
                self._url(path),
                data=data,
                headers=headers,
                timeout=self._call_timeout,
                allow_redirects=False,
                proxy=self._proxy,
            ) as response:
                return Answer(
                    status=response.status,
                    body=await responses.body(response, most_bytes),
                    retry_after=response.headers.get("Retry-After"),
                )
        except (aiohttp.ClientError, OSError) as lost:
            if isinstance(data, Body) and data.withheld:
                raise NotSentError from lost
            raise

    async def _write(
        self,
        pool: HttpPool,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        may_send: Callable[[], bool] | None,
    ) -> Answer:
        """Send a request over the pool for writes.

        After a 401, try once more if newer credentials exist.
        """
        known = self._credentials
        for again in (False, True):
            held = known.held
            pool.use(held.context)
            async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
                answer = await pool.send(method, path, {**headers, **held.headers}, body, may_send)
            if again or answer.status != sessions.UNAUTHORIZED or not await known.renew(held):
                break
        return answer

    def doubt(self) -> None:
        """Stop using all connections opened so far, because one of them timed out."""
        if self._sessions.doubt() and self._write_pool is not None:
            self._write_pool.drop_idle()

    def _open_write_pool(self) -> HttpPool | None:
        context = self._credentials.held.context
        address = Address.of(self._host, context, self._server_name)
        if address is None:
            return None
        return HttpPool(
            address,
            most=CONNECTIONS_MAX,
            connect_seconds=CONNECT_TIMEOUT_SECONDS,
            keep_alive_seconds=sessions.KEEP_ALIVE_SECONDS,
        )

    @asynccontextmanager
    async def stream(
        self, path: str, *, silence_seconds: float, gather_seconds: float = 0.0
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a long-lived response, as an iterator over chunks of bytes.

        `silence_seconds` without any bytes count as a dead connection. After each chunk, reading
        pauses for `gather_seconds`. Raises ApiError, at the start or in the middle.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=silence_seconds
        )
        try:
            async with self._sessions.current.get(
                self._url(path), timeout=timeout, allow_redirects=False, proxy=self._proxy
            ) as response:
                if response.status >= 300:
                    said = await responses.body(response, responses.WRITTEN_MAX_BYTES)
                    raise error_of(response.status, said, response.headers.get("Retry-After"))
                yield responses.chunks(response, silence_seconds, gather_seconds)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError):
                self.doubt()
            raise unavailable(error) from error

    def coordination(self) -> "client.CoordinationV1Api":
        """Return the client library's functions for Leases, sent over this connection.

        The library imports them at the first use, so the annotation must not use them.
        """
        api = client.ApiClient(self._credentials.configuration)
        api.rest_client.pool_manager = self._sessions.current
        api.rest_client.proxy = self._proxy
        api.user_agent = sessions.USER_AGENT
        return client.CoordinationV1Api(api)

    def session_elsewhere(
        self, *middlewares: aiohttp.ClientMiddlewareType
    ) -> aiohttp.ClientSession:
        """Return a session with this connection's credentials for another thread's event loop.

        The middlewares wrap every request.
        The calling thread creates, uses and closes the session. After a 401, the session asks this
        connection's event loop for newer credentials, so this loop must keep running.
        """
        return sessions.made(
            self._credentials.held.context,
            Authorizing(self._credentials, self._loop, self._server_name),
            sessions.refuse_nonsense,
            *middlewares,
            most=CONNECTIONS_MAX,
            proxy=self._proxy,
        )

    def _url(self, path: str) -> yarl.URL:
        return yarl.URL(self._host + path, encoded=True)


def unavailable(error: Exception) -> Unavailable:
    """Return the Unavailable error for a request that got no usable answer."""
    reason = responses.TOO_LARGE if isinstance(error, TooLargeError) else ""
    said = f"no answer: {type(error).__name__}: {error}".rstrip(": ")
    return Unavailable(said[: responses.MESSAGE_MAX], reason=reason)
