"""Credentials that change while they are in use: nothing that is asked for is lost."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import test_utils, web
from kubernetes.aio.config import incluster_config
from structlog import testing

from sandbox import credentials as issuing
from tests import patience
from tests.unit.cluster import rotated
from tests.unit.cluster.rotated import Server
from vscheduler.cluster.http import credentials
from vscheduler.cluster.http.connection import Access, Connection, CredentialsError, Forbidden
from vscheduler.cluster.http.credentials import Credentials


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """One that knows a token."""
    async with rotated.serving() as made:
        yield made


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(credentials, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(credentials, "PLUGIN_AGAIN_SECONDS", 0.0)


def by_file(tmp_path: Path, server: Server) -> tuple[Path, Callable[[str], object]]:
    """A kubeconfig that names a token's file, and how that is written."""
    (tmp_path / "token").write_text("old\n")
    path = rotated.kubeconfig(tmp_path / "config", server.url, {"tokenFile": "token"})
    return path, (tmp_path / "token").write_text


def inline(tmp_path: Path, server: Server) -> tuple[Path, Callable[[str], object]]:
    """A kubeconfig that has the token in it."""

    def write(token: str) -> object:
        return rotated.kubeconfig(tmp_path / "config", server.url, {"token": token})

    write("old")
    return tmp_path / "config", write


def by_plugin(tmp_path: Path, server: Server) -> tuple[Path, Callable[[str], object]]:
    """A kubeconfig that names a program, whose token isn't to run out in years."""
    told = tmp_path / "told"
    program = f"print(open({str(told)!r}).read())"
    plugin = {"apiVersion": "v1", "command": sys.executable, "args": ["-c", program]}

    def write(token: str) -> object:
        status = {"token": token, "expirationTimestamp": "2099-01-01T00:00:00Z"}
        answer = {"apiVersion": "v1", "kind": "ExecCredential", "status": status}
        return told.write_text(json.dumps(answer) if token else "broken")

    write("old")
    return rotated.kubeconfig(tmp_path / "config", server.url, {"exec": plugin}), write


Way = Callable[[Path, Server], tuple[Path, Callable[[str], object]]]


@pytest.mark.parametrize(
    "ask",
    [rotated.get, rotated.post, rotated.put, rotated.stream, rotated.lease, rotated.session],
)
@pytest.mark.parametrize("way", [by_file, inline, by_plugin])
async def test_what_is_refused_is_sent_again_with_new_credentials(
    way: Way,
    ask: Callable[[Connection], Awaitable[None]],
    tmp_path: Path,
    server: Server,
) -> None:
    """Nobody who asks for anything hears of it: once the old ones aren't known, others are read."""
    path, write = way(tmp_path, server)
    async with rotated.linked(path) as link:
        await rotated.get(link)
        server.known = "new"
        write("new")
        async with asyncio.timeout(40):
            await ask(link)
        refused = server.refused
        await rotated.get(link)
    assert (refused, server.refused) == (1, 1)


async def test_who_isnt_known_is_told_after_one_attempt(tmp_path: Path, server: Server) -> None:
    """Where there are no others, nothing is sent again."""
    path, _ = by_file(tmp_path, server)
    server.known = "another"
    async with rotated.linked(path) as link:
        for ask in (rotated.get, rotated.post, rotated.put):
            with pytest.raises(Forbidden, match="who are you"):
                await ask(link)
    assert server.refused == 3


@pytest.mark.parametrize("way", [by_file, inline])
async def test_files_that_change_are_read_before_the_old_is_refused(
    way: Way, tmp_path: Path, server: Server
) -> None:
    """Most are renewed long before they end."""
    path, write = way(tmp_path, server)
    async with rotated.linked(path, watched=True) as link:
        server.known = "new"
        with testing.capture_logs() as told:
            write("new")
            await patience.until(lambda: [each for each in told if "renewed" in each["event"]])
        await rotated.get(link)
        await rotated.post(link)
    assert server.refused == 0


@pytest.mark.parametrize(("way", "broken"), [(by_plugin, ""), (inline, "[1"), (by_file, "")])
async def test_what_cannot_be_used_leaves_the_old_ones(
    way: Way, broken: str, tmp_path: Path, server: Server
) -> None:
    """It is said once; and what comes then is used."""
    path, write = way(tmp_path, server)
    async with rotated.linked(path, watched=True) as link:
        with testing.capture_logs() as told:
            if broken:  # no token, but the kubeconfig
                path.write_text(broken)
            else:
                write(broken)
            server.known = "new"
            for _ in range(3):
                with pytest.raises(Forbidden):
                    await rotated.get(link)
                await asyncio.sleep(0.05)
            server.known = "old"
            await rotated.get(link)
            server.known = "new"
            write("new")
            await rotated.get(link)
    assert [each["event"] for each in told] == ["credentials.unusable", "credentials.renewed"]


async def test_a_token_that_is_written_during_a_read_is_read_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the file would count as read, and nobody would look at it until a 401."""
    path, write = by_file(tmp_path, server)
    load = credentials._load
    texts = ["new", ""]

    async def during(access: Access) -> Any:
        if texts:
            write(texts.pop())
        found = await load(access)
        if texts:
            write(texts.pop())
        return found

    async with rotated.linked(path, watched=True) as link:
        monkeypatch.setattr(credentials, "_load", during)
        write("newer")
        await patience.until(lambda: link._credentials.held.headers["Authorization"][-3:] == "new")
        server.known = "new"
        await rotated.get(link)
    assert server.refused == 0


async def test_trusted_authorities_are_not_loaded_for_each_refused_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only when their files have changed, as loading them costs more than all else."""
    path = rotated.kubeconfig(tmp_path / "config", "http://one", {"token": "old"})
    known = await Credentials.read(Access(kubeconfig=str(path)))
    first = known.held
    monkeypatch.setattr(credentials, "_tls_context", None)
    assert not await known.renew(first)
    rotated.kubeconfig(path, "http://one", {"token": "new"})
    assert await known.renew(first)
    assert known.held.context is first.context


@pytest.mark.parametrize("half", ["", "apiVersion: v1\nclusters: [", "apiVersion: v1\n"])
async def test_a_file_that_is_being_written_at_the_start_is_read_again(
    tmp_path: Path, half: str
) -> None:
    """Whoever rewrites it empties it first; that is logged once."""
    path = tmp_path / "config"
    path.write_text(half)
    access = Access(kubeconfig=str(path))
    with testing.capture_logs() as told:
        reading = asyncio.create_task(Credentials.read(access))
        await patience.until(lambda: told or reading.done())
        await asyncio.sleep(0.05)
        rotated.kubeconfig(path, "http://one", {"token": "new"})
        known = await reading
    assert known.held.headers == {"Authorization": "Bearer new"}
    (line,) = told
    assert (line["event"], line["retry"]) == ("credentials.unusable", True)
    assert str(path) in line["message"]


async def test_a_missing_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a slip in a flag rather than a file that is about to come."""
    monkeypatch.setattr(credentials, "FIRST_SECONDS", float("inf"))
    access = Access(kubeconfig=str(tmp_path / "config"))
    with pytest.raises(CredentialsError, match="there is no such file"):
        await Credentials.read(access)


async def test_what_is_wrong_is_said_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes into the log."""
    monkeypatch.setattr(credentials, "FIRST_SECONDS", 0.0)
    path = rotated.kubeconfig(tmp_path / "config", "http://one", {"token": "secret"})
    path.write_text(path.read_text().replace("server:", "serves:").replace("user:\n", "used:\n"))
    with pytest.raises(CredentialsError) as told:
        await Credentials.read(Access(kubeconfig=str(path)))
    assert "secret" not in str(told.value)
    assert str(path) in str(told.value)


async def test_a_plugin_is_asked_before_its_token_runs_out(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes before; and not all the time where each of its tokens lives no longer than that."""
    path, write = by_plugin(tmp_path, server)
    told = tmp_path / "told"
    told.write_text(told.read_text().replace("2099", "2000"))
    monkeypatch.setattr(credentials, "RUN_OUT_SECONDS", 0.5)
    async with rotated.linked(path, watched=True) as link:
        reads: list[int] = []
        read = credentials._read

        async def count(*arguments: Any) -> Any:
            reads.append(1)
            return await read(*arguments)

        monkeypatch.setattr(credentials, "_read", count)
        write("new")
        server.known = "new"
        await patience.until(lambda: link._credentials.held.headers["Authorization"][-3:] == "new")
        await rotated.get(link)
        await asyncio.sleep(1)
    assert (len(reads), server.refused) == (1, 0)


async def test_a_kubeconfig_of_another_server_is_left_alone(tmp_path: Path, server: Server) -> None:
    """Somebody has chosen another cluster for himself: what we know is of the first."""
    path, _ = inline(tmp_path, server)
    async with rotated.linked(path, watched=True) as link:
        with testing.capture_logs() as told:
            rotated.kubeconfig(path, "http://127.0.0.1:1", {"token": "of that one"})
            await patience.until(lambda: told)
            await rotated.get(link)
    assert "another server" in told[0]["message"]
    assert (told[0]["event"], len(told)) == ("credentials.unusable", 1)


async def test_a_pods_own_token_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubelets renew it every hour, long before it ends."""
    authority = issuing.found_authority(tmp_path / "ca")
    token = tmp_path / "token"
    token.write_text("old")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.certificate_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    known = await Credentials.read(Access())
    before = known.held
    assert before.headers == {"Authorization": "bearer old"}
    task = asyncio.create_task(known.keep_fresh())
    token.write_text("new")
    await patience.until(lambda: known.held is not before)
    task.cancel()
    assert known.held.headers == {"Authorization": "bearer new"}
    assert known.held.context is before.context


async def test_files_that_others_clean_up_are_made_again(tmp_path: Path) -> None:
    """The library writes what a kubeconfig holds to files below /tmp, once."""
    authority = issuing.found_authority(tmp_path / "ca")
    text = base64.b64encode(authority.certificate_path.read_bytes()).decode()
    path = rotated.kubeconfig(tmp_path / "config", "https://one", {"token": "old"})
    tree = yaml.safe_load(path.read_text())
    tree["clusters"][0]["cluster"]["certificate-authority-data"] = text
    path.write_text(yaml.safe_dump(tree))
    known = await Credentials.read(Access(kubeconfig=str(path)))
    before = known.held
    assert known.configuration.ssl_ca_cert
    os.unlink(known.configuration.ssl_ca_cert)  # noqa: PTH108 - the lint takes Path for slow
    path.write_text(path.read_text().replace("old", "new"))
    with testing.capture_logs() as told:
        assert await known.renew(before)
    assert known.held.headers == {"Authorization": "Bearer new"}
    assert [each["event"] for each in told] == ["credentials.renewed"]


async def test_kopf_hears_of_no_retry_after_that_is_no_number(
    tmp_path: Path,
) -> None:
    """It would die of it: it takes each for one."""

    async def busy(request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": request.path[1:]})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", busy)
    plain = test_utils.TestServer(application)
    await plain.start_server()
    path = rotated.kubeconfig(tmp_path / "config", f"http://127.0.0.1:{plain.port}", {"token": "t"})
    async with rotated.linked(path) as link, link.session() as session:
        async with session.get(f"{link.host}/7") as response:
            assert response.status == 429
        for told in ("soon", "1e999", "99999999", "61", "-1"):
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(f"{link.host}/{told}")
    await plain.close()
