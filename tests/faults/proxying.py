"""A reverse proxy in front of an API server, by which requests and answers come to grief.

Plain HTTP/1.1 on loopback towards the client; towards the server whatever its URL says. A client's
kubeconfig names the proxy's URL and no credentials: the proxy has those of its `Upstream`. Watches
pass unbuffered. What it does is noted, for assertions.
"""

import asyncio
import json
import re
import socket
import ssl
import struct
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from tests.faults.plans import (
    Delay,
    Duplicate,
    Fault,
    Freeze,
    LoseAnswer,
    LoseRequest,
    Plan,
    Refuse,
    Reorder,
    Struck,
)

LOOPBACK = "127.0.0.1"
CALL_SECONDS = 60.0
"""The longest that a request, but for a watch, may take once it is sent on."""
CLOSE_SECONDS = 0.1
LOOK_SECONDS = 0.25
"""How often a silent watch looks whether its client is still there."""
NOTES_MAX = 200_000
REASONS = {404: "NotFound", 409: "Conflict", 429: "TooManyRequests"}
NO_LINGERING = struct.pack("ii", 1, 0)
"""A socket that is closed so sends a reset."""
OWN_TO_A_HOP = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding"}
)


class What(StrEnum):
    """What happened to a request."""

    RECEIVED = "received"
    SENT = "sent"
    ANSWERED = "answered"
    LOST = "lost"
    """The client's connection was broken on purpose."""
    REFUSED = "refused"
    FAILED = "failed"
    """There was no answer from the server."""
    DONE = "done"
    """Nothing more comes of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One fact about one request."""

    request: int
    what: What
    line: str
    """`METHOD /path?query`."""
    fault: Fault | None
    status: int = 0
    """Of ANSWERED and REFUSED; 0 else."""
    at_seconds: float
    """Since the proxy began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The server behind the proxy, and who the proxy is there."""

    url: str
    context: ssl.SSLContext | None = None
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """A request as it is to be sent on, any number of times."""

    number: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    fault: Fault | None

    @property
    def line(self) -> str:
        return f"{self.method} {self.target}"

    @property
    def watches(self) -> bool:
        return re.search(r"[?&]watch=(true|1)\b", self.target) is not None


class Proxy:
    """Passes on what it is sent, as its plan says. All of it lives in one event loop."""

    def __init__(self, upstream: Upstream, plan: Plan, session: aiohttp.ClientSession) -> None:
        self._upstream = upstream
        self._plan = plan
        self._session = session
        self._began = time.monotonic()
        self._count = 0
        self._notes: deque[Note] = deque(maxlen=NOTES_MAX)
        self._struck: Counter[str] = Counter()
        self._held: list[tuple[re.Pattern[str], asyncio.Event]] = []
        self._late: set[asyncio.Task[None]] = set()
        self._hushed: list[tuple[re.Pattern[str], int]] = []
        self._open = 0
        self.url = ""
        """Where it listens."""

    @property
    def busy(self) -> bool:
        """Whether anything but watches is under way, or is still to be sent."""
        return self._open > 0 or bool(self._late)

    def follow(self, plan: Plan) -> None:
        """From now on another plan. Any thread may ask."""
        self._plan = plan

    def hush(self, pattern: str = "") -> None:
        """From now on the watches that are open by now, and whose line the pattern is found in,
        carry nothing: their connections stay open for as long as the client wants. Any thread may
        ask.
        """
        self._hushed.append((re.compile(pattern), self._count))

    def notes(self, pattern: str = "", what: What | None = None) -> list[Note]:
        """What happened to requests whose line the pattern is found in. Any thread may ask."""
        found = re.compile(pattern).search
        return [
            note
            for note in list(self._notes)
            if (what is None or note.what is what) and found(note.line)
        ]

    def times_struck(self, line: str) -> int:
        """How many requests of this line, `METHOD /path?query`, have met a fault so far."""
        return self._struck[line]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request from the client."""
        self._count += 1
        line = f"{request.method} {request.raw_path}"
        struck = self._plan.choose(line)
        message = _Message(
            number=self._count,
            method=request.method,
            target=request.raw_path,
            headers=_end_to_end(request.headers),
            body=await request.content.read(),
            fault=struck.fault if struck else None,
        )
        self._note(message, What.RECEIVED)
        self._struck[line] += struck is not None
        self._open += not message.watches
        try:
            return await self._meet(request, message, struck)
        except aiohttp.ClientError as error:
            self._note(message, What.FAILED)
            return web.Response(status=502, text=f"{type(error).__name__}: {error}")
        finally:
            self._open -= not message.watches
            self._note(message, What.DONE)

    async def close(self) -> None:
        """Send nothing more."""
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)

    async def _meet(
        self, request: web.BaseRequest, message: _Message, struck: Struck | None
    ) -> web.StreamResponse:
        """What the fault does before the request is sent on, or instead of that."""
        match message.fault:
            case LoseRequest():
                return self._lose(request, message)
            case Refuse(status=status, retry_after_seconds=seconds):
                self._note(message, What.REFUSED, status)
                return _refusal(status, seconds)
            case Delay(seconds=seconds):
                await asyncio.sleep(seconds)
            case Reorder(at_most_seconds=seconds):
                assert struck is not None
                assert struck.later is not None
                await self._wait_for_later(struck.later, seconds)
            case Duplicate(after_seconds=seconds):
                task = asyncio.create_task(self._send_again(message, seconds))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
            case None | LoseAnswer() | Freeze():
                pass
            case _:
                assert_never(message.fault)
        return await self._pass_on(request, message)

    async def _pass_on(self, request: web.BaseRequest, message: _Message) -> web.StreamResponse:
        """Send it on, and give back what is answered as it comes."""
        async with self._send(message) as answer:
            if isinstance(message.fault, LoseAnswer):
                await answer.read()
                return self._lose(request, message)
            if isinstance(message.fault, Freeze):
                await asyncio.sleep(message.fault.seconds)
            response = web.StreamResponse(
                status=answer.status, reason=answer.reason, headers=_end_to_end(answer.headers)
            )
            response.content_length = answer.content_length
            with suppress(ConnectionError):  # the client is gone, and need not be answered
                await response.prepare(request)
                while chunk := await _next_chunk(request, answer):
                    if not self._is_hushed(message):
                        await response.write(chunk)
                while self._is_hushed(message) and _is_there(request):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(LOOK_SECONDS)
                await response.write_eof()
            return response

    def _is_hushed(self, message: _Message) -> bool:
        return message.watches and any(
            message.number <= last and pattern.search(message.line)
            for pattern, last in self._hushed
        )

    @asynccontextmanager
    async def _send(self, message: _Message) -> AsyncIterator[aiohttp.ClientResponse]:
        self._note(message, What.SENT)
        async with self._session.request(
            message.method,
            URL(self._upstream.url + message.target, encoded=True),
            data=message.body or None,
            headers=message.headers,
            timeout=aiohttp.ClientTimeout(total=None if message.watches else CALL_SECONDS),
            allow_redirects=False,
        ) as answer:
            self._note(message, What.ANSWERED, answer.status)
            self._release(message)
            yield answer

    async def _send_again(self, message: _Message, seconds: float) -> None:
        await asyncio.sleep(seconds)
        try:
            async with self._send(message) as answer:
                await answer.read()
        except aiohttp.ClientError:
            self._note(message, What.FAILED)

    async def _wait_for_later(self, later: re.Pattern[str], seconds: float) -> None:
        passed = asyncio.Event()
        self._held.append((later, passed))
        with suppress(TimeoutError):
            await asyncio.wait_for(passed.wait(), seconds)
        self._held.remove((later, passed))

    def _release(self, message: _Message) -> None:
        """Those that this one was to overtake may go."""
        for later, passed in self._held:
            if later.search(message.line):
                passed.set()

    def _lose(self, request: web.BaseRequest, message: _Message) -> web.StreamResponse:
        """Break the client's connection: a reset, not an end."""
        self._note(message, What.LOST)
        if request.transport is not None:
            line = request.transport.get_extra_info("socket")
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)
            request.transport.abort()
        return web.Response()  # which nobody gets

    def _note(self, message: _Message, what: What, status: int = 0) -> None:
        self._notes.append(
            Note(
                request=message.number,
                what=what,
                line=message.line,
                fault=message.fault,
                status=status,
                at_seconds=time.monotonic() - self._began,
            )
        )


@asynccontextmanager
async def connecting(upstream: Upstream) -> AsyncIterator[aiohttp.ClientSession]:
    """Connections to the server, on which everything is sent once; the block ends them."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=upstream.context or True),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Authorization": f"Bearer {upstream.token}"} if upstream.token else None,
    ) as session:
        session._retry_connection = False  # else it sends some requests twice by itself
        yield session
    await asyncio.sleep(CLOSE_SECONDS)  # aiohttp: TLS takes its leave in later turns of the loop


@asynccontextmanager
async def serving(upstream: Upstream, plan: Plan) -> AsyncIterator[Proxy]:
    """A proxy for the time of the block; then no socket and no task of it is left.

    Tests that wait in the ordinary way run it in a thread of its own, by anyio's portal:
    `portal.wrap_async_context_manager(serving(upstream, plan))`.
    """
    async with connecting(upstream) as session:
        proxy = Proxy(upstream, plan, session)
        runner = web.ServerRunner(
            web.Server(proxy.handle, access_log=None), shutdown_timeout=CLOSE_SECONDS
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, LOOPBACK, 0)
            await site.start()
            proxy.url = f"http://{LOOPBACK}:{runner.addresses[0][1]}"
            yield proxy
        finally:
            await runner.cleanup()
            await proxy.close()


def upstream_of(kubeconfig: Path) -> Upstream:
    """The API server of a kubeconfig of the sandbox, and its user: a certificate, or a token."""
    tree = yaml.safe_load(kubeconfig.read_text())
    server, user = tree["clusters"][0]["cluster"], tree["users"][0]["user"]
    context = ssl.create_default_context(cafile=server["certificate-authority"])
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    return Upstream(url=server["server"], context=context, token=user.get("token", ""))


async def _next_chunk(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> bytes:
    """What comes next of an answer; nothing at its end, or when its client is gone."""
    while _is_there(request):
        with suppress(TimeoutError):
            return await asyncio.wait_for(answer.content.readany(), LOOK_SECONDS)
    return b""


def _is_there(request: web.BaseRequest) -> bool:
    """Whether who asked still listens."""
    return request.transport is not None and not request.transport.is_closing()


def _end_to_end(headers: Any) -> dict[str, str]:
    """Headers without those that are one connection's business."""
    return {name: value for name, value in headers.items() if name.lower() not in OWN_TO_A_HOP}


def _refusal(status: int, retry_after_seconds: int) -> web.Response:
    """An answer as the API server words it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "refused by the proxy",
        "reason": REASONS.get(status, "InternalError"),
        "details": {"retryAfterSeconds": retry_after_seconds},
        "code": status,
    }
    return web.Response(
        status=status,
        body=json.dumps(body).encode(),
        content_type="application/json",
        headers={"Retry-After": str(retry_after_seconds)},
    )
