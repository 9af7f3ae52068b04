# ruff: noqa: N818 - an error reads as what the server said: Conflict, Gone, NotFound
"""One client for the API server: credentials, time-outs, and errors of our own.

Bodies go in and out as bytes. The generated models of the client library cost about a millisecond
a pod, so only its credentials and its transport are used.
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

from vscheduler.cluster.http import credentials, http_pool, responses, send_guard, sessions

CALL_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 10.0
CONNECTIONS_MAX = 128
CLOSE_SECONDS = 0.1

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
WRITES = ("POST", "PATCH")
"""Methods whose requests are sent once, and go over channels."""

APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML."""

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""What to accept where of a list's objects only their metadata is wanted."""

BUDGET = "DisruptionBudget"
"""The cause that the Eviction API names where a budget forbids (policy/v1)."""


Access = credentials.Access
CredentialsError = credentials.CredentialsError


class ApiError(Exception):
    """The API server, or the way to it, said no; the message is the server's."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Conflict(ApiError):
    """409: a precondition (uid, resourceVersion) doesn't hold, or the object exists already."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old."""


class NotFound(ApiError):
    """404: there is no such object, or no such API."""


class Forbidden(ApiError):
    """401 or 403: we may not."""


class Invalid(ApiError):
    """Any other 4xx: the request can't be right, however often it is sent."""


class Throttled(ApiError):
    """429: later, please."""

    def __init__(
        self, message: str, *, status: int = 429, reason: str = "", retry_after_seconds: float = 1.0
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_seconds = retry_after_seconds


class Protected(ApiError):
    """429 of another kind: a PodDisruptionBudget keeps the pod from being evicted."""


class Unavailable(ApiError):
    """5xx, or no answer at all: what was asked may have been done or not."""


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    retryAfterSeconds: float | None = None  # noqa: N815 - the wire's name
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    """The part of meta/v1 Status that errors are made of."""

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
    """The typed error for an answer of this HTTP status; status 0 takes it from the body.

    Every body is taken: one that is no Status is shown as it is, shortened.
    """
    try:
        told = _decode_status(body)
    except responses.GARBAGE:
        told = _Status(message=body[:300].decode(errors="replace").strip())
    status = status or told.code or 500
    reason = (told.reason or "")[: responses.MESSAGE_MAX]
    message = (told.message or f"HTTP status {status}")[: responses.MESSAGE_MAX]
    causes = told.details.causes or () if told.details else ()
    if status == 429 and any(cause.reason == BUDGET for cause in causes):
        return Protected(message, status=status, reason=reason)
    if status == 429:
        details = told.details.retryAfterSeconds if told.details else None
        seconds = responses.patience(retry_after, details)
        return Throttled(message, reason=reason, retry_after_seconds=seconds)
    if reason == "Expired":
        return Gone(message, status=status, reason=reason)
    kind = _BY_STATUS.get(status, Invalid if 400 <= status < 500 else Unavailable)
    return kind(message, status=status, reason=reason)


class Connection:
    """Keep-alive connections to one API server."""

    def __init__(
        self, known: credentials.Credentials, *middlewares: aiohttp.ClientMiddlewareType
    ) -> None:
        configuration = known.configuration
        self._credentials = known
        self._home = asyncio.get_running_loop()
        self._on_throttled: Callable[[], None] | None = None
        self._host: str = configuration.host.rstrip("/")
        self._proxy: str | None = configuration.proxy or sessions.proxy_of(self._host)
        self._server_name: str | None = configuration.tls_server_name
        signing = sessions.Authorizing(known, self._home, self._server_name)
        self._sessions = sessions.Sessions(
            partial(sessions.made, known.held.context, signing, *middlewares, most=CONNECTIONS_MAX)
        )
        self._channels = None if middlewares or self._proxy else self._open_channels()
        self._call_timeout = aiohttp.ClientTimeout(
            total=CALL_TIMEOUT_SECONDS, sock_connect=CONNECT_TIMEOUT_SECONDS
        )

    @classmethod
    async def open(cls, access: Access, *middlewares: aiohttp.ClientMiddlewareType) -> Self:
        """Work out the credentials; nothing is sent yet. Raises CredentialsError.

        The middlewares are around each request that is sent.
        """
        return cls(await credentials.Credentials.read(access), *middlewares)

    @property
    def host(self) -> str:
        """The API server's address."""
        return self._host

    async def close(self) -> None:
        """Drop all connections, and give TLS a moment to take its leave.

        aiohttp: Graceful Shutdown; its transports close only in later turns of the event loop.
        """
        if self._channels is not None:
            self._channels.close()
        await self._sessions.close()
        await asyncio.sleep(CLOSE_SECONDS)

    def tell_of_throttling(self, told: Callable[[], None]) -> None:
        """From now on call this whenever the API server is too busy (429)."""
        self._on_throttled = told

    async def refresh_credentials(self) -> None:
        """Read credentials again whenever what they come from changes, for ever."""
        await self._credentials.keep_fresh()

    async def wait_for_credentials(self, seconds: float) -> None:
        """Until there are others than now, but no longer than this."""
        await self._credentials.wait_for_others(seconds)

    async def call(  # noqa: PLR0913 - what a request is made of
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
        """One request; the answer's body, of no more than so many bytes. Raises an ApiError.

        Whether a body may be sent is asked when it is written. Without leave this is a
        send_guard.NotSentError.
        """
        headers = {} if body is None else {"Content-Type": content_type}
        headers |= {"Accept": accept, "User-Agent": sessions.USER_AGENT}
        try:
            if self._channels is None or body is None or method not in WRITES:
                answer = await self._ask(method, path, headers, body, may_send, most_bytes)
            else:
                answer = await self._write(self._channels, method, path, headers, body, may_send)
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
    ) -> http_pool.Answer:
        """One request by aiohttp, which repeats it where that does no harm."""
        data = body if body is None or may_send is None else send_guard.Body(body, may_send)
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
                return http_pool.Answer(
                    status=response.status,
                    body=await responses.body(response, most_bytes),
                    retry_after=response.headers.get("Retry-After"),
                )
        except (aiohttp.ClientError, OSError) as lost:
            if isinstance(data, send_guard.Body) and data.withheld:
                raise send_guard.NotSentError from lost
            raise

    async def _write(
        self,
        over: http_pool.HttpPool,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        may_send: Callable[[], bool] | None,
    ) -> http_pool.Answer:
        """One request over a channel; where the server doesn't know us, and there are other
        credentials by then, another one.
        """
        known = self._credentials
        for again in (False, True):
            held = known.held
            over.use(held.context)
            async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
                answer = await over.send(method, path, {**headers, **held.headers}, body, may_send)
            if again or answer.status != sessions.UNAUTHORIZED or not await known.renew(held):
                break
        return answer

    def doubt(self) -> None:
        """Nothing came in time over one connection: what was opened before may be as dead, and
        nothing more is sent over it.
        """
        if self._sessions.doubt() and self._channels is not None:
            self._channels.drop_idle()

    def _open_channels(self) -> http_pool.HttpPool | None:
        context = self._credentials.held.context
        address = http_pool.Address.of(self._host, context, self._server_name)
        if address is None:
            return None
        return http_pool.HttpPool(
            address,
            most=CONNECTIONS_MAX,
            connect_seconds=CONNECT_TIMEOUT_SECONDS,
            keep_alive_seconds=sessions.KEEP_ALIVE_SECONDS,
        )

    @asynccontextmanager
    async def stream(
        self, path: str, *, silence_seconds: float, gather_seconds: float = 0.0
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """An answer that goes on for long, as chunks of bytes.

        No bytes for `silence_seconds` counts as a dead connection. After each chunk nothing is
        read for `gather_seconds`. Raises an ApiError, at the start or in the middle.
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
                yield _chunks(response, gather_seconds)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError):
                self.doubt()
            raise unavailable(error) from error

    def coordination(self) -> client.CoordinationV1Api:
        """The library's functions for Leases, over this connection."""
        api = client.ApiClient(self._credentials.configuration)
        api.rest_client.pool_manager = self._sessions.current
        api.rest_client.proxy = self._proxy
        api.user_agent = sessions.USER_AGENT
        return client.CoordinationV1Api(api)

    def session_elsewhere(self) -> aiohttp.ClientSession:
        """A session with our credentials for the event loop of another thread, where it is made,
        used and closed. This one's loop goes on running: it is asked for others after a 401.
        """
        return sessions.made(
            self._credentials.held.context,
            sessions.Authorizing(self._credentials, self._home, self._server_name),
            sessions.refuse_nonsense,
            most=CONNECTIONS_MAX,
            proxy=self._proxy,
        )

    def _url(self, path: str) -> yarl.URL:
        return yarl.URL(self._host + path, encoded=True)


async def _chunks(response: aiohttp.ClientResponse, gather_seconds: float) -> AsyncIterator[bytes]:
    async for chunk in response.content.iter_any():
        yield chunk
        transport = response.connection and response.connection.transport
        if gather_seconds and transport:
            transport.pause_reading()  # else the event loop is woken by each packet all the same
            try:
                await asyncio.sleep(gather_seconds)
            finally:
                if not transport.is_closing():
                    transport.resume_reading()


def unavailable(error: Exception) -> Unavailable:
    """What it comes to that there was no answer."""
    reason = responses.TOO_LARGE if isinstance(error, responses.TooLargeError) else ""
    said = f"no answer: {type(error).__name__}: {error}".rstrip(": ")
    return Unavailable(said[: responses.MESSAGE_MAX], reason=reason)
