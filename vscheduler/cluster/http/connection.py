# ruff: noqa: N818 - errors are named after the server's answer: Conflict, Gone, NotFound
"""Client for the API server: all requests and watches of the daemon, time-outs, typed errors.

Bodies are bytes in both directions: the client library's generated models cost about a millisecond
for each pod. pool.py carries the requests; the library only reads the credentials.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
import msgspec

from vscheduler.cluster.http import credentials, pool, responses, sessions
from vscheduler.cluster.http.credentials import Credentials
from vscheduler.cluster.http.pool import Answer, Pool, Route
from vscheduler.cluster.http.responses import TooLargeError

CALL_TIMEOUT_SECONDS = 30.0

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; JSON is valid YAML."""

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Accept header of a list that needs only the objects' metadata."""

METADATA_WATCH = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The same of a watch."""

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
    """Keep-alive connections to one API server, used in the event loop that opened them."""

    def __init__(self, known: Credentials) -> None:
        configuration = known.configuration
        self._credentials = known
        self._on_throttled: Callable[[], None] | None = None
        self._host: str = configuration.host.rstrip("/")
        self._proxy: str | None = configuration.proxy or sessions.proxy_of(self._host)
        self._server_name: str | None = configuration.tls_server_name
        try:
            route = Route.to(self._host, self._proxy, self._server_name)
        except ValueError as error:
            raise CredentialsError(str(error)) from error
        self._pool = Pool(route, known.held.context, most=pool.CONNECTIONS_MAX)

    @classmethod
    async def open(cls, access: Access) -> Self:
        """Read the credentials and return a connection, without sending anything.

        Raises CredentialsError.
        """
        return cls(await Credentials.read(access))

    @property
    def host(self) -> str:
        """The API server's address."""
        return self._host

    async def close(self) -> None:
        """Drop all connections."""
        self._pool.close()
        await asyncio.sleep(0)  # the event loop ends them in its next iteration

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
        most_bytes: int | None = None,
        seconds: float | None = None,
    ) -> bytes:
        """Send a request and return the body, at most `most_bytes` long. Raises ApiError.

        A request with a body is sent once, and its answer is an object unless `most_bytes` says
        otherwise. `may_send` is asked at the moment when the body is written to the connection;
        when `may_send` returns False, pool.NotSentError is raised. `seconds` bounds the whole
        call, with the wait for a connection and for newer credentials.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        if most_bytes is None:
            most_bytes = responses.PAGE_MAX_BYTES if body is None else responses.WRITTEN_MAX_BYTES
        try:
            async with asyncio.timeout(seconds or CALL_TIMEOUT_SECONDS):
                with await self._send(method, path, headers, body, may_send) as answer:
                    said = await answer.body(most_bytes)
        except OSError as lost:  # TimeoutError is one
            raise self._unavailable(lost) from lost
        if answer.status < 300:
            return said
        error = error_of(answer.status, said, answer.retry_after)
        if isinstance(error, Throttled) and self._on_throttled is not None:
            self._on_throttled()
        raise error

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        accept: str = JSON,
        silence_seconds: float,
        gather_seconds: float = 0.0,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a long-lived response, as an iterator over chunks of bytes.

        `silence_seconds` without any bytes count as a dead connection. After each chunk, reading
        pauses for `gather_seconds`. Raises ApiError, at the start or in the middle, and at an end
        that the server didn't announce.
        """
        try:
            async with asyncio.timeout(silence_seconds) as opening:
                with await self._send("GET", path, {"Accept": accept}) as answer:
                    if answer.status >= 300:
                        said = await answer.body(responses.WRITTEN_MAX_BYTES)
                        raise error_of(answer.status, said, answer.retry_after)
                    opening.reschedule(None)
                    yield answer.chunks(silence_seconds, gather_seconds)
        except OSError as lost:
            raise self._unavailable(lost) from lost

    async def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        may_send: Callable[[], bool] | None = None,
    ) -> Answer:
        """Send a request, and once more after a 401 if newer credentials exist by then.

        A request that was answered with 401 was not executed. Raises Forbidden, OSError.
        """
        known = self._credentials
        for again in (False, True):
            held = known.held
            self._pool.use(held.context)
            signed = {**headers, **held.headers}
            answer = await self._pool.send(method, path, signed, body, may_send=may_send)
            if again or answer.status != responses.UNAUTHORIZED:
                break
            with answer:
                said = await answer.body(responses.WRITTEN_MAX_BYTES)
            if not await known.renew(held):
                raise error_of(answer.status, said)
        return answer

    def _unavailable(self, lost: OSError) -> Unavailable:
        """Return the error for a request without a usable answer."""
        if isinstance(lost, TimeoutError):
            self.doubt()
        reason = responses.TOO_LARGE if isinstance(lost, TooLargeError) else ""
        said = f"no answer: {type(lost).__name__}: {lost}".rstrip(": ")
        return Unavailable(said[: responses.MESSAGE_MAX], reason=reason)

    def doubt(self) -> None:
        """Stop using all connections opened so far, because one of them timed out."""
        self._pool.doubt()

    def session(self) -> aiohttp.ClientSession:
        """Return a session with this connection's credentials, for a library that sends requests
        of its own. The caller closes it.
        """
        return sessions.made(self._credentials, self._server_name, self._proxy)
