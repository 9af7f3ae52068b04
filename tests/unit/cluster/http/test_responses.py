"""Servers, and proxies in between, that answer what nobody should take: all come to our errors."""

import asyncio
import gzip
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from structlog import testing

from tests import patience
from tests.unit.cluster import test_reflector
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.http.listening import listening
from tests.unit.cluster.test_reflector import Event, Names, Script
from vscheduler.cluster.http import connection, lists, objects, responses
from vscheduler.cluster.http.connection import Access, ApiError, Connection, Throttled, Unavailable
from vscheduler.cluster.http.responses import Lines
from vscheduler.cluster.leases import Leases
from vscheduler.cluster.reflector import Reflector
from vscheduler.mirror.paths import Path

THINGS = Path.to("/things")

OK = b"HTTP/1.1 200 OK\r\n"
MIB = 2**20
DEEP = 100_000
"""Far deeper than Python goes."""

Ask = Callable[[Connection], Awaitable[object]]


@asynccontextmanager
async def raw(*pieces: bytes, times: int = 1) -> AsyncIterator[Connection]:
    """A connection to a server that answers these bytes, the last of them any number of times."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in (*pieces, *(pieces[-1] for _ in range(times - 1))):
            writer.write(piece)
            await writer.drain()

    async with listening(answer) as place:
        link = await Connection.open(Access(master=f"http://{place}"))
        try:
            yield link
        finally:
            await link.close()


async def get(link: Connection) -> object:
    """Read something."""
    return await link.call("GET", "/", most_bytes=MIB)


async def post(link: Connection) -> object:
    """Write something."""
    return await link.call("POST", "/", b"{}")


async def stream(link: Connection) -> object:
    """Watch."""
    async with link.stream("/", silence_seconds=5) as chunks:
        return [chunk async for chunk in chunks]


async def lease(link: Connection) -> object:
    """Read a Lease."""
    return await Leases(link, "a", call_seconds=20).get("b")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test can reach."""
    monkeypatch.setattr(responses, "WRITTEN_MAX_BYTES", MIB)


@pytest.mark.parametrize("ask", [get, post, lease])
@pytest.mark.parametrize(
    "pieces",
    [
        (OK + b"Content-Length: %d\r\n\r\n" % 2**40, b"x" * 2**16),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 2**16 + b"\r\n"),
        (OK + b"\r\n", b"x" * 2**16),
    ],
    ids=["said", "chunked", "until it ends"],
)
async def test_a_body_has_a_bound(ask: Ask, pieces: tuple[bytes, ...]) -> None:
    """It isn't read to its end, and what is kept is bounded."""
    async with raw(*pieces, times=64) as link:
        with pytest.raises(Unavailable) as told:
            await ask(link)
    assert told.value.reason == responses.TOO_LARGE


async def test_a_body_may_be_as_large_as_its_bound() -> None:
    """Not a byte less."""
    for ask in (get, post):
        async with raw(OK + b"Content-Length: %d\r\n\r\n" % MIB + b"x" * MIB) as link:
            assert await ask(link) == b"x" * MIB
    async with raw(OK + b"Content-Length: %d\r\n\r\n" % (MIB + 1), b"x" * (MIB + 1)) as link:
        with pytest.raises(Unavailable):
            await get(link)


async def test_a_body_that_is_packed_unasked_is_no_list() -> None:
    """Nothing is unpacked: a few bytes may be hundreds of megabytes."""
    packed = gzip.compress(b'{"items":[]}')
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with raw(head + packed) as link:
        with pytest.raises(Unavailable, match="not a list"):
            await lists.page(link, THINGS, 0, "")


@pytest.mark.parametrize("ask", [get, post, stream, lease])
@pytest.mark.parametrize(
    "head",
    [
        OK + b"x: " + b"y" * 2**20 + b"\r\n\r\n",
        OK + b"x" * 2**20,
        OK + b"x: y\r\n" * 100_000 + b"Content-Length: 0\r\n\r\n",
    ],
    ids=["a long one", "one without an end", "many"],
)
async def test_headers_have_a_bound(ask: Ask, head: bytes) -> None:
    """All together."""
    async with raw(head) as link:
        with pytest.raises(Unavailable):
            await ask(link)


async def test_hints_have_an_end() -> None:
    """What comes before an answer may go on and on."""
    hints = b"HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n" * 100
    async with raw(hints, times=1_000_000) as link:
        with pytest.raises(Unavailable, match="TooLargeError"):
            await post(link)


@pytest.mark.parametrize("ask", [get, post, stream, lease])
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\xff",
        b"HTTP/1.1 999999999999 No\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        OK + b"Content-Length: -5\r\n\r\n",
        OK + b"Content-Length: 12345678901234567890123\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 \xff\xfe\r\nContent-Length: 1\r\n\r\n\xff",
        b"HTTP/1.1 500 No\r\nSet-Cookie: \x01=;;;\xff\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_none(ask: Ask, answer: bytes) -> None:
    """Nothing else than our error comes of it, if any."""
    async with raw(answer) as link:
        try:
            async with asyncio.timeout(40):
                await ask(link)
        except ApiError:
            pass


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [
        ("9" * 5000, {}, 60),
        ("86400", {}, 60),
        ("60", {}, 60),
        ("-5", {}, 1),
        ("\u0663", {}, 1),
        ("1e9", {"retryAfterSeconds": 2}, 2),
        (None, {"retryAfterSeconds": 1e300}, 60),
        (None, {"retryAfterSeconds": -7}, 1),
        ("0", {}, 1),
    ],
)
def test_nobody_makes_us_wait_for_long(
    header: str | None, details: dict[str, float], seconds: float
) -> None:
    """A minute at most, whoever says what."""
    body = json.dumps({"code": 429, "details": details}).encode()
    error = connection.error_of(429, body, header)
    assert isinstance(error, Throttled)
    assert error.retry_after_seconds == seconds


NESTED = b'{"metadata": {"resourceVersion": "1"}, "x": ' + b"[" * DEEP + b"]" * DEEP + b"}"
UNREADABLE = [NESTED, b"[" * DEEP, b'{"message": "\xff"}', b'{"code": 1' + b"0" * 5000 + b"}", b"3"]


@pytest.mark.parametrize("body", UNREADABLE)
def test_an_error_that_cannot_be_read_is_one_all_the_same(body: bytes) -> None:
    """Its status says which."""
    error = connection.error_of(503, body)
    assert isinstance(error, Unavailable)
    assert 0 < len(str(error)) <= responses.MESSAGE_MAX


def test_a_long_message_is_cut() -> None:
    """It goes into a line of the log."""
    error = connection.error_of(
        500, json.dumps({"message": "x" * MIB, "reason": "y" * MIB}).encode()
    )
    assert (len(str(error)), len(error.reason)) == (responses.MESSAGE_MAX, responses.MESSAGE_MAX)


@pytest.mark.parametrize("body", UNREADABLE)
async def test_an_object_that_cannot_be_read_is_unavailable(body: bytes, serve: Serve) -> None:
    """One at a time, of a list, and a Lease."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    link = await serve(answer)
    for ask in (
        objects.get(link, THINGS),
        objects.list_all(link, THINGS, {}),
        lease(link),
    ):
        with pytest.raises(Unavailable):
            await ask


def an_item(name: str) -> bytes:
    """A list's object."""
    return json.dumps(test_reflector.an_object(name, 1)).encode()


def a_list(*items: bytes, version: str = "10", more: str = "") -> web.Response:
    """A list as it is given."""
    metadata = json.dumps({"resourceVersion": version, "continue": more}).encode()
    return web.Response(body=b'{"metadata":%s,"items":[%s]}' % (metadata, b",".join(items)))


def deep_change() -> bytes:
    """A change that is nested too deeply."""
    return b'{"type":"ADDED","object":{"metadata":{"name":"x"},"y":' + NESTED + b"}}\n"


GOOD = (an_item("a"), an_item("b"))


@pytest.mark.parametrize(
    "bad",
    [
        web.Response,
        lambda: web.Response(body=NESTED),
        lambda: web.Response(body=b'{"metadata":{"resourceVersion":"1"},"items":[{"m":"\xff"}]}'),
        lambda: web.json_response({"metadata": {}, "items": []}),
        lambda: a_list(version="1" * 300),
        lambda: a_list(more="x" * 9000),
    ],
    ids=["empty", "nested", "no text", "no version", "a long version", "a long token"],
)
async def test_a_list_that_cannot_be_read_is_asked_for_again(
    bad: Callable[[], web.Response], serve: Serve
) -> None:
    """Nothing of it is taken."""
    script = Script([bad(), a_list(*GOOD), []])
    async with test_reflector.following(serve, script) as (_, batches):
        assert test_reflector.flat(batches) == [("REPLACE", "a,b")]


async def test_a_list_that_never_ends_is_given_up(serve: Serve) -> None:
    """It says again and again where to go on."""
    endless = [a_list(an_item("x"), more="t") for _ in range(2)]
    script = Script([*endless, a_list(*GOOD), a_list(*GOOD), []])
    async with test_reflector.following(serve, script) as (_, batches):
        assert test_reflector.flat(batches)[-1] == ("REPLACE", "a,b")


@pytest.mark.parametrize(
    "bad",
    [
        [deep_change()],
        [b'{"type":"ADDED","object":{"metadata":{"name":"\xff","resourceVersion":"11"}}}\n'],
        [b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"%s"}}}\n' % (b"1" * 300)],
        [b"x" * MIB] * 3,
        [b"[]\n"],
    ],
    ids=["nested", "no text", "a long version", "a line without an end", "no object"],
)
async def test_a_watch_that_cannot_be_read_is_begun_anew(
    bad: list[bytes], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lives on."""
    monkeypatch.setattr(responses, "LINE_MAX_BYTES", 2 * MIB)
    good = [test_reflector.line("ADDED", 12, "c")]
    script = Script([a_list(*GOOD), bad, a_list(*GOOD), good])
    if bad[0].startswith(b"x"):  # nothing of it was lost: no new list
        script.steps.pop(2)
    with testing.capture_logs() as told:
        async with test_reflector.following(serve, script) as (_, batches):
            assert test_reflector.flat(batches)[-1] == ("ADDED", "c")
    assert [each["event"] for each in told].count("watch.failed") == 1


@pytest.mark.parametrize(
    ("api_version", "limits"),
    [("v1", ["500", "62", "7"]), ("example.com/v1", ["", "4000", "500", "62", "7"])],
)
async def test_lists_that_are_too_large_are_had_in_smaller_pages(
    api_version: str, limits: list[str], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant may have five hundred pods of a megabyte each, or as many PodGroups, which are
    requested in one piece at first.
    """
    monkeypatch.setattr(responses, "PAGE_MAX_BYTES", 1000)
    monkeypatch.setattr(lists, "WHOLE_MAX_BYTES", 1000)
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(patience.SECONDS)
            return response
        asked.append(request.query.get("limit", ""))
        return a_list(*(an_item("a") for _ in range(int(asked[-1] or 5000))))

    link = await serve(answer)
    seen: list[Event] = []
    watch: Reflector[Event] = Reflector(
        link,
        Path.to("/things", api_version=api_version),
        Names(),
        seen.extend,
        pace=test_reflector.FAST,
        chance=random.Random(1),
    )
    task = asyncio.create_task(watch.run())
    await patience.until(lambda: seen)
    task.cancel()
    await asyncio.wait([task])
    assert asked == limits


TEXT = b"one\ntwo\n\nthree\nand what isn't whole"


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_the_same_whatever_the_pieces(seed: int) -> None:
    """Empty pieces and single bytes, too."""
    chance = random.Random(seed)
    cuts = sorted(chance.randint(0, len(TEXT)) for _ in range(chance.randint(0, 40)))
    text = Lines()
    whole = []
    for begin, end in zip([0, *cuts], [*cuts, len(TEXT)], strict=True):
        whole += text.take(TEXT[begin:end])
    *expected, rest = TEXT.split(b"\n")
    assert whole == expected
    assert text.waiting_bytes == len(rest)
    assert text.take(b"\n") == [rest]
    assert text.waiting_bytes == 0


class Counted(bytes):
    """Notes how many bytes are copied or looked through."""

    seen = 0

    def __radd__(self, before: bytes) -> bytes:
        """A copy of both."""
        type(self).seen += len(before) + len(self)
        return bytes(before) + bytes(self)

    def split(self, *arguments: Any) -> list[bytes]:
        """A look at all of it."""
        type(self).seen += len(self)
        return bytes(self).split(*arguments)


def test_a_long_line_costs_no_more_a_byte_than_a_short_one() -> None:
    """What has come of it isn't copied again with each piece: for 32 MiB, that's gigabytes."""
    Counted.seen = 0
    pieces, size = 1000, 100
    text = Lines()
    for _ in range(pieces):
        assert text.take(Counted(b"x" * size)) == []
        assert text.waiting_bytes <= pieces * size
    assert text.take(Counted(b"\n")) == [b"x" * pieces * size]
    assert Counted.seen <= 2 * pieces * size
