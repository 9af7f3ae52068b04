import asyncio
import contextlib
import http.client
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from structlog import testing

from sandbox import credentials
from tests import patience
from tests.web import stage
from tests.web.stage import Stage
from vscheduler.web import connections, server
from vscheduler.web.server import Certificate, Server, TlsError


@contextlib.asynccontextmanager
async def running(certificate: Certificate | None = None) -> AsyncIterator[Server]:
    """The page in its thread."""
    made = Server(Stage([]).sources(), "127.0.0.1", 0, certificate)
    made.start()
    try:
        yield made
    finally:
        await made.stop()


@pytest.fixture
def files(tmp_path: Path) -> Certificate:
    """A certificate for this machine, and its key."""
    issue(tmp_path)
    return Certificate(certificate=str(tmp_path / "tls.crt"), private_key=str(tmp_path / "tls.key"))


def issue(folder: Path) -> None:
    """Write a new certificate of a new authority."""
    with tempfile.TemporaryDirectory() as elsewhere:
        pair = credentials.found_authority(Path(elsewhere)).issue_serving()
        shutil.copy(pair.certificate, folder / "tls.crt")
        shutil.copy(pair.key, folder / "tls.key")


def spoil(files: Certificate) -> None:
    """Write what is no key, and then another certificate."""
    Path(files.private_key).write_text("nothing")
    with tempfile.TemporaryDirectory() as elsewhere:
        issue(Path(elsewhere))
        shutil.copy(Path(elsewhere) / "tls.crt", files.certificate)


async def cut_off(reader: asyncio.StreamReader) -> None:
    """Wait until the server has ended the connection, which it does before aiohttp would."""
    async with asyncio.timeout(server.KEEP_ALIVE_SECONDS / 2):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def ended(writer: asyncio.StreamWriter) -> None:
    """End a connection, whatever the server does with it."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def answers(port: int) -> bool:
    """Whether a new connection gets the page."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return (await reader.read()).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False
    finally:
        await ended(writer)


def certificate(port: int) -> bytes | None:
    """The one that comes with an answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    link = http.client.HTTPSConnection("127.0.0.1", port, context=context)
    with contextlib.closing(link):
        link.request("GET", "/")
        assert link.getresponse().status == 200
        assert isinstance(link.sock, ssl.SSLSocket)
        return link.sock.getpeercert(binary_form=True)


async def shown(port: int) -> bytes | None:
    """The certificate that the page shows."""
    return await asyncio.to_thread(certificate, port)


async def test_it_serves_in_a_thread_and_ends_at_once_with_streams_open() -> None:
    """Whatever visitors hold open."""
    async with running() as made, aiohttp.ClientSession() as client:
        url = f"http://127.0.0.1:{made.port}"
        headers = {"Authorization": f"Bearer {stage.ADMIN}"}
        _, idle = await asyncio.open_connection("127.0.0.1", made.port)
        async with client.get(f"{url}/api/v1/stream", headers=headers) as found:
            assert found.status == 200
            await made.stop()
            assert not made._thread.is_alive()  # or it would have been left after JOIN_SECONDS
            assert b"This instance of the scheduler ends." in await found.read()
            await ended(idle)


async def test_who_sends_no_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """One header at a time, for ever."""
    monkeypatch.setattr(connections, "FIRST_REQUEST_SECONDS", 0.1)
    async with running() as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        await cut_off(reader)
        await ended(writer)


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is cut off; when another ends there is room again."""
    monkeypatch.setattr(connections, "PER_ADDRESS_MAX", 3)
    monkeypatch.setattr(connections, "FIRST_REQUEST_SECONDS", 600.0)
    async with running() as made:
        opened = [await asyncio.open_connection("127.0.0.1", made.port) for _ in range(3)]
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        await cut_off(reader)
        await ended(writer)
        for _, each in opened:
            await ended(each)
        async with asyncio.timeout(patience.SECONDS):
            while not await answers(made.port):  # noqa: ASYNC110 - another thread's doing
                await asyncio.sleep(0.02)


async def test_large_headers_are_refused() -> None:
    """Beyond what a token needs."""
    async with running() as made, aiohttp.ClientSession() as client:
        headers = {"X-Large": "x" * 40_000}
        async with client.get(f"http://127.0.0.1:{made.port}/", headers=headers) as found:
            assert found.status == 400


async def test_tls_serves_a_new_certificate_when_its_files_change(
    files: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a restart; files that can't be used are told of, and the last good ones stay."""
    monkeypatch.setattr(server, "CERTIFICATE_SECONDS", 0.02)
    async with running(files) as made:
        first = await shown(made.port)
        with testing.capture_logs() as logs:
            spoil(files)
            await patience.until(
                lambda: any(log["event"] == "web.certificate_kept" for log in logs)
            )
            assert await shown(made.port) == first
            issue(tmp_path)
            async with asyncio.timeout(patience.SECONDS):
                while await shown(made.port) == first:  # noqa: ASYNC110 - another thread's doing
                    await asyncio.sleep(0.02)


def test_files_that_cant_be_used_are_named(tmp_path: Path) -> None:
    """Before anything starts."""
    missing = Certificate(certificate=str(tmp_path / "a"), private_key="b")
    with pytest.raises(TlsError, match="can't be used as certificate and key"):
        Server(Stage([]).sources(), "127.0.0.1", 0, missing)
