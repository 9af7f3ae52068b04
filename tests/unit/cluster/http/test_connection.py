import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests import patience
from tests.unit.cluster import rotated
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.http.listening import listening
from vscheduler.cluster.http import connection, credentials, pool
from vscheduler.cluster.http.connection import (
    Access,
    ApiError,
    Conflict,
    Connection,
    CredentialsError,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
)


def status(code: int, reason: str = "", **more: Any) -> bytes:
    """A meta/v1 Status."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"said {code}", **more}
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, Invalid),
        (401, Forbidden),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Invalid),
        (429, Throttled),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
def test_every_answer_has_its_error(code: int, kind: type[ApiError]) -> None:
    """The HTTP status decides, or the Status's own code where there is none; the words stay."""
    for error in (
        connection.error_of(code, status(code, "Because")),
        connection.error_of(0, status(code, "Because")),
    ):
        assert type(error) is kind
        assert (str(error), error.status, error.reason) == (f"said {code}", code, "Because")


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway", b'{"message": 3}', b"\xff"])
def test_an_answer_that_is_no_status_is_shown(body: bytes) -> None:
    """Proxies answer in their own words."""
    error = connection.error_of(502, body)
    assert isinstance(error, Unavailable)
    assert str(error)


def test_an_expired_token_is_gone_whatever_its_code() -> None:
    """A continue token that is too old has reason Expired."""
    assert isinstance(connection.error_of(400, status(400, "Expired")), Gone)


def test_a_patch_of_an_object_that_was_made_anew_is_a_conflict() -> None:
    """The API server calls it invalid: the UID of an object can't be changed."""
    details = {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]}
    assert isinstance(connection.error_of(422, status(422, "Invalid", details=details)), Conflict)
    other = {"causes": [{"reason": "FieldValueInvalid", "field": "status.conditions"}]}
    assert isinstance(connection.error_of(422, status(422, "Invalid", details=other)), Invalid)


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [("7", {}, 7), (None, {"retryAfterSeconds": 3}, 3), ("x", {}, 1)],
)
def test_throttling_says_for_how_long(
    header: str | None, details: dict[str, int], seconds: float
) -> None:
    """Retry-After, else the Status's details, else a second."""
    error = connection.error_of(429, status(429, details=details), header)
    assert isinstance(error, Throttled)
    assert error.retry_after_seconds == seconds


async def test_a_call_sends_bytes_and_gives_bytes(serve: Serve) -> None:
    """What goes out is what was given, with our name on it."""
    seen: list[tuple[str, str, bytes, str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        agent = request.headers["User-Agent"]
        seen.append((request.method, request.path_qs, body, request.content_type, agent))
        return web.Response(body=b'{"ok":true}')

    link = await serve(answer)
    body = await link.call("PATCH", "/a?b=%2F", b"{}", content_type=connection.MERGE_PATCH)
    assert body == b'{"ok":true}'
    assert seen == [("PATCH", "/a?b=%2F", b"{}", connection.MERGE_PATCH, pool.USER_AGENT)]
    assert pool.USER_AGENT.startswith("vscheduler/")


async def test_a_refusal_is_raised(serve: Serve) -> None:
    """A status of 300 and above is never an answer, neither to a call nor to a stream."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=409, body=status(409))

    link = await serve(answer)
    with pytest.raises(Conflict, match="said 409"):
        await link.call("GET", "/")
    with pytest.raises(Conflict, match="said 409"):
        async with link.stream("/", silence_seconds=1):
            pass


async def test_that_the_server_is_too_busy_is_told(serve: Serve) -> None:
    """Each 429 is; other refusals, and evictions that a budget forbids, aren't."""
    budget = status(429, details={"causes": [{"reason": connection.BUDGET}]})
    answers = iter([(429, status(429)), (429, budget), (503, status(503)), (429, b"")])
    told: list[str] = []

    async def answer(_: web.Request) -> web.Response:
        code, body = next(answers)
        return web.Response(status=code, body=body)

    link = await serve(answer)
    for _ in range(4):
        with pytest.raises(ApiError):
            await link.call("POST", "/", b"{}")
        if not told:
            link.on_throttling(lambda: told.append("busy"))
    assert told == ["busy"]


async def falls_silent(request: web.Request) -> web.StreamResponse:
    """Answer with a line, and then nothing."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"one\n")
    await asyncio.sleep(patience.SECONDS)
    return response


async def test_a_stream_that_breaks_off_is_unavailable() -> None:
    """After what had come: the server didn't say that this was all."""
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
    seen: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)

    async def read(link: Connection) -> None:
        async with link.stream("/", silence_seconds=patience.SECONDS) as chunks:
            async for chunk in chunks:
                seen.append(chunk)  # noqa: PERF401 - what came before counts

    async with listening(take) as place:
        link = await Connection.open(Access(master=f"http://{place}"))
        with pytest.raises(Unavailable, match="the connection was closed"):
            await read(link)
        await link.close()
    assert seen == [b"one\n"]


async def test_a_stream_that_does_not_begin_is_unavailable() -> None:
    """Though its headers come on and on."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        while not writer.is_closing():
            writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            await asyncio.sleep(0.01)

    async with listening(take) as place:
        link = await Connection.open(Access(master=f"http://{place}"))
        with pytest.raises(Unavailable, match="TimeoutError"):
            async with link.stream("/", silence_seconds=0.2):
                pass
        await link.close()


async def test_a_silent_stream_is_unavailable(serve: Serve) -> None:
    """A connection that says nothing for too long is dead, though TCP doesn't know."""
    link = await serve(falls_silent)
    seen: list[bytes] = []

    async def read() -> None:
        async with link.stream("/", silence_seconds=0.5) as chunks:
            async for chunk in chunks:
                seen.append(chunk)  # noqa: PERF401 - what came before the silence counts

    with pytest.raises(Unavailable, match="no answer"):
        await read()
    assert seen == [b"one\n"]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_stream_that_is_closed_under_its_reader_is_unavailable(
    waits: bool, serve: Serve
) -> None:
    """Whether the reader waits at this moment or comes back later."""
    link = await serve(falls_silent)

    async def read() -> None:
        async with link.stream("/", silence_seconds=patience.SECONDS) as chunks:
            await anext(chunks)
            asyncio.get_running_loop().call_soon(link._pool.close)
            if not waits:
                await asyncio.sleep(0.1)
            await anext(chunks)

    with pytest.raises(Unavailable, match="the connection was closed"):
        await read()


@pytest.mark.parametrize("source", ["kubeconfig", "environment", "without a scheme", "exempt"])
async def test_requests_go_through_the_proxy(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the kubeconfig or the environment, which may exempt the server."""
    seen: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with listening(take) as place:
        server = place if source == "exempt" else "server.example"
        path = rotated.kubeconfig(tmp_path / "config", f"http://{server}", {"token": "t"})
        if source == "kubeconfig":
            tree = yaml.safe_load(path.read_text())
            tree["clusters"][0]["cluster"]["proxy-url"] = f"http://{place}"
            path.write_text(yaml.safe_dump(tree))
        else:
            scheme = "" if source == "without a scheme" else "http://"
            monkeypatch.setenv("http_proxy", f"{scheme}{place}")
            monkeypatch.setenv("no_proxy", "127.0.0.1" if source == "exempt" else "")
        async with rotated.linked(path) as link:
            assert await link.call("GET", "/a") == b"{}"
    through = "" if source == "exempt" else "http://server.example"
    assert seen == [f"GET {through}/a HTTP/1.1\r\n".encode()]


async def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start."""
    monkeypatch.setenv("https_proxy", "socks5://p:1080")
    with pytest.raises(CredentialsError, match=r"the proxy socks5://p isn't supported"):
        await Connection.open(Access(master="https://server.example"))


async def test_nobody_there_is_unavailable() -> None:
    """A refused connection is an error of ours."""
    link = await Connection.open(Access(master="http://127.0.0.1:1"))
    with pytest.raises(Unavailable):
        await link.call("GET", "/")
    await link.close()


async def test_a_kubeconfig_gives_address_and_token(tmp_path: Path) -> None:
    """--kubeconfig and --context choose; --master wins over the address."""
    path = tmp_path / "config"
    contexts = ("one", "two")
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "one",
                "contexts": [{"name": n, "context": {"cluster": n, "user": n}} for n in contexts],
                "clusters": [{"name": n, "cluster": {"server": f"http://{n}"}} for n in contexts],
                "users": [{"name": n, "user": {"token": f"t-{n}"}} for n in contexts],
            }
        )
    )
    for access, host, token in (
        (Access(kubeconfig=str(path)), "http://one", "t-one"),
        (Access(kubeconfig=str(path), context="two"), "http://two", "t-two"),
        (Access(kubeconfig=str(path), master="http://x/"), "http://x", "t-one"),
    ):
        link = await Connection.open(access)
        assert link.host == host
        assert link._credentials.held.headers == {"Authorization": f"Bearer {token}"}
        await link.close()


async def test_without_any_kubeconfig_a_flag_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of a pod: the library would speak of a file that is invalid."""
    monkeypatch.setattr(credentials, "FIRST_SECONDS", 0.1)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    path = tmp_path / "config"
    default = f"{credentials.__name__}.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(default, str(path))
    message = f"there is no kubeconfig at {path}, and this is no pod; name a file with --kubeconfig"
    with pytest.raises(CredentialsError, match=message):
        await Connection.open(Access())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no such file"),
        ("", "the file is empty"),
        ("{]", "while parsing a flow node"),
        ("contexts: []", "Invalid kube-config file. Expected key current-context"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_named(
    tmp_path: Path, text: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, empty, no YAML, no context: one sentence with the path and the cause."""
    monkeypatch.setattr(credentials, "FIRST_SECONDS", 0.1)
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CredentialsError, match=rf"\({path}\): {why}"):
        await Connection.open(Access(kubeconfig=str(path)))
