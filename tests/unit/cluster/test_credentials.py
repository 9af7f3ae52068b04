"""Credentials that change while they are in use: nothing that is asked for is lost."""

import asyncio
import base64
import json
import os
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import test_utils, web
from cryptography import x509
from kubernetes.aio.config import incluster_config
from structlog import testing

from tests.unit.daemon import worlds
from vscheduler.cluster import connection, credentials, leases
from vscheduler.sandbox import credentials as issuing

LEASE = {"metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "1"}}


class Server:
    """Knows one token, or one client's certificate, and answers 401 to all others."""

    def __init__(self) -> None:
        self.known = "old"
        self.serial = 0
        self.url = ""
        self.refused = 0
        self.answered: list[str] = []
        self.connections: set[object] = set()

    async def answer(self, request: web.Request) -> web.Response:
        """Whatever is asked for."""
        await request.read()
        assert request.transport is not None
        peer = request.transport.get_extra_info("ssl_object")
        if peer is None:
            found = request.headers.getall("Authorization", []) == [f"Bearer {self.known}"]
        else:
            found = int(peer.getpeercert()["serialNumber"], 16) == self.serial
        if not found:
            self.refused += 1
            return web.json_response({"message": "who are you?"}, status=401)
        self.answered.append(request.method)
        self.connections.add(request.transport)
        return web.json_response(LEASE)


@asynccontextmanager
async def serving(context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server for the time of the block."""
    made = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", made.answer)
    scheme = "http" if context is None else "https"
    server = test_utils.TestServer(application, scheme=scheme)
    await server.start_server(ssl=context)
    made.url = f"{scheme}://127.0.0.1:{server.port}"
    yield made
    await server.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """One that knows a token."""
    async with serving() as made:
        yield made


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(credentials, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(credentials, "PLUGIN_AGAIN_SECONDS", 0.0)


def kubeconfig(path: Path, url: str, user: dict[str, Any], authority: Path | None = None) -> Path:
    """A kubeconfig of one user."""
    cluster = {"server": url}
    if authority is not None:
        cluster["certificate-authority"] = str(authority)
    tree = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": user}],
    }
    path.write_text(yaml.safe_dump(tree))
    return path


@asynccontextmanager
async def linked(path: Path, *, watched: bool = False) -> AsyncIterator[connection.Connection]:
    """A connection with these credentials; somebody looks after them, or nobody."""
    link = await connection.Connection.open(connection.Access(kubeconfig=str(path)))
    task = asyncio.create_task(link.refresh_credentials()) if watched else None
    yield link
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
    await link.close()


def by_file(tmp_path: Path, server: Server) -> tuple[Path, Callable[[str], object]]:
    """A kubeconfig that names a token's file, and how that is written."""
    (tmp_path / "token").write_text("old\n")
    path = kubeconfig(tmp_path / "config", server.url, {"tokenFile": "token"})
    return path, (tmp_path / "token").write_text


def inline(tmp_path: Path, server: Server) -> tuple[Path, Callable[[str], object]]:
    """A kubeconfig that has the token in it."""

    def write(token: str) -> object:
        return kubeconfig(tmp_path / "config", server.url, {"token": token})

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
    return kubeconfig(tmp_path / "config", server.url, {"exec": plugin}), write


Way = Callable[[Path, Server], tuple[Path, Callable[[str], object]]]


async def get(link: connection.Connection) -> None:
    """Read something."""
    await link.call("GET", "/")


async def post(link: connection.Connection) -> None:
    """Write something."""
    await link.call("POST", "/", b"{}", may_send=lambda: True)


async def put(link: connection.Connection) -> None:
    """Write something by aiohttp."""
    await link.call("PUT", "/", b"{}", may_send=lambda: True)


async def stream(link: connection.Connection) -> None:
    """Begin to watch."""
    async with link.stream("/", silence_seconds=5) as chunks:
        async for _ in chunks:
            pass


async def lease(link: connection.Connection) -> None:
    """Read and write a Lease by the library."""
    api = leases.Leases(link.coordination(), "b", call_seconds=5)
    stored = await api.get("a")
    assert stored is not None
    await api.replace(stored, stored.record)


async def elsewhere(link: connection.Connection) -> None:
    """As another thread would."""

    async def ask() -> None:
        async with link.session_elsewhere() as session, session.get(link.host) as response:
            assert response.status == 200

    failures: list[BaseException] = []

    def live() -> None:
        try:
            asyncio.run(ask())
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    thread = threading.Thread(target=live)
    thread.start()
    await asyncio.to_thread(thread.join, 10)
    assert not failures


@pytest.mark.parametrize("ask", [get, post, put, stream, lease, elsewhere])
@pytest.mark.parametrize("way", [by_file, inline, by_plugin])
async def test_what_is_refused_is_sent_again_with_new_credentials(
    way: Way,
    ask: Callable[[connection.Connection], Awaitable[None]],
    tmp_path: Path,
    server: Server,
) -> None:
    """Nobody who asks for anything hears of it: once the old ones aren't known, others are read."""
    path, write = way(tmp_path, server)
    async with linked(path) as link:
        await get(link)
        server.known = "new"
        write("new")
        async with asyncio.timeout(20):
            await ask(link)
        refused = server.refused
        await get(link)
    assert (refused, server.refused) == (1, 1)


async def test_who_isnt_known_is_told_after_one_attempt(tmp_path: Path, server: Server) -> None:
    """Where there are no others, nothing is sent again."""
    path, _ = by_file(tmp_path, server)
    server.known = "another"
    async with linked(path) as link:
        for ask in (get, post, put):
            with pytest.raises(connection.Forbidden, match="who are you"):
                await ask(link)
    assert server.refused == 3


@pytest.mark.parametrize("way", [by_file, inline])
async def test_files_that_change_are_read_before_the_old_is_refused(
    way: Way, tmp_path: Path, server: Server
) -> None:
    """Most are renewed long before they end."""
    path, write = way(tmp_path, server)
    async with linked(path, watched=True) as link:
        server.known = "new"
        with testing.capture_logs() as told:
            write("new")
            await worlds.until(lambda: [each for each in told if "renewed" in each["event"]])
        await get(link)
        await post(link)
    assert server.refused == 0


@pytest.mark.parametrize(("way", "broken"), [(by_plugin, ""), (inline, "[1")])
async def test_what_cannot_be_used_leaves_the_old_ones(
    way: Way, broken: str, tmp_path: Path, server: Server
) -> None:
    """It is said once; and what comes then is used."""
    path, write = way(tmp_path, server)
    async with linked(path, watched=True) as link:
        with testing.capture_logs() as told:
            if broken:
                path.write_text(broken)
            else:
                write(broken)
            server.known = "new"
            for _ in range(3):
                with pytest.raises(connection.Forbidden):
                    await get(link)
                await asyncio.sleep(0.05)
            server.known = "old"
            await get(link)
            server.known = "new"
            write("new")
            await get(link)
    assert [each["event"] for each in told] == ["credentials.unusable", "credentials.renewed"]


async def test_what_is_wrong_is_said_without_secrets(tmp_path: Path) -> None:
    """It goes into the log."""
    path = kubeconfig(tmp_path / "config", "http://one", {"token": "secret"})
    path.write_text(path.read_text().replace("server:", "serves:").replace("user:\n", "used:\n"))
    with pytest.raises(connection.CredentialsError) as told:
        await credentials.Credentials.read(connection.Access(kubeconfig=str(path)))
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
    async with linked(path, watched=True) as link:
        reads: list[int] = []
        read = credentials._read

        async def count(access: connection.Access) -> Any:
            reads.append(1)
            return await read(access)

        monkeypatch.setattr(credentials, "_read", count)
        write("new")
        server.known = "new"
        await worlds.until(lambda: link._credentials.held.headers["Authorization"][-3:] == "new")
        await get(link)
        await asyncio.sleep(1)
    assert (len(reads), server.refused) == (1, 0)


async def test_a_kubeconfig_of_another_server_is_left_alone(tmp_path: Path, server: Server) -> None:
    """Somebody has chosen another cluster for himself: what we know is of the first."""
    path, _ = inline(tmp_path, server)
    async with linked(path, watched=True) as link:
        with testing.capture_logs() as told:
            kubeconfig(path, "http://127.0.0.1:1", {"token": "of that one"})
            await worlds.until(lambda: told)
            await get(link)
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
    known = await credentials.Credentials.read(connection.Access())
    before = known.held
    assert before.headers == {"Authorization": "bearer old"}
    task = asyncio.create_task(known.keep_fresh())
    token.write_text("new")
    await worlds.until(lambda: known.held is not before)
    task.cancel()
    assert known.held.headers == {"Authorization": "bearer new"}
    assert known.held.context is before.context


def secure(authority: issuing.Authority) -> ssl.SSLContext:
    """How a server asks for its clients' certificates."""
    pair = authority.issue_serving()
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate_path)
    )
    context.load_cert_chain(pair.certificate, pair.key)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def serial(pair: issuing.KeyPair) -> int:
    """A certificate's number."""
    return x509.load_pem_x509_certificate(pair.certificate.read_bytes()).serial_number


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize("watched", [False, True])
async def test_a_new_certificate_gets_new_connections(
    tmp_path: Path, *, embedded: bool, watched: bool
) -> None:
    """Those of the old one carry nothing more, and a server that forgot it hears of no other."""
    authority = issuing.found_authority(tmp_path / "ca")
    path = tmp_path / "config"

    def issue() -> int:
        pair = authority.issue_client("one", file="client")
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        if embedded:
            user = {
                f"{key}-data": base64.b64encode(Path(file).read_bytes()).decode()
                for key, file in user.items()
            }
        kubeconfig(path, made.url, user, authority.certificate_path)
        return serial(pair)

    async with serving(secure(authority)) as made:
        made.serial = issue()
        async with linked(path, watched=watched) as link:
            before = link._credentials.held
            for ask in (get, post, get, post):
                await ask(link)
            assert len(made.connections) == 2
            made.serial = issue()
            if watched:
                await worlds.until(lambda: link._credentials.held is not before)
            for ask in (get, post, stream, elsewhere, lease):
                await ask(link)
            assert made.refused == (0 if watched else 1)
            assert len(made.connections) >= 4


async def test_files_that_others_clean_up_are_made_again(tmp_path: Path) -> None:
    """The library writes what a kubeconfig holds to files below /tmp, once."""
    authority = issuing.found_authority(tmp_path / "ca")
    text = base64.b64encode(authority.certificate_path.read_bytes()).decode()
    path = kubeconfig(tmp_path / "config", "https://one", {"token": "old"})
    tree = yaml.safe_load(path.read_text())
    tree["clusters"][0]["cluster"]["certificate-authority-data"] = text
    path.write_text(yaml.safe_dump(tree))
    known = await credentials.Credentials.read(connection.Access(kubeconfig=str(path)))
    before = known.held
    os.unlink(known.configuration.ssl_ca_cert)  # noqa: PTH108 - the lint takes Path for slow
    path.write_text(path.read_text().replace("old", "new"))
    with testing.capture_logs() as told:
        assert await known.renew(before)
    assert known.held.headers == {"Authorization": "Bearer new"}
    assert [each["event"] for each in told] == ["credentials.renewed"]


async def test_a_key_that_isnt_the_certificates_is_waited_for(tmp_path: Path) -> None:
    """Both are renewed, one after the other."""
    authority = issuing.found_authority(tmp_path / "ca")
    async with serving(secure(authority)) as made:
        first = authority.issue_client("one", file="client")
        made.serial = serial(first)
        user = {"client-certificate": str(first.certificate), "client-key": str(first.key)}
        path = kubeconfig(tmp_path / "config", made.url, user, authority.certificate_path)
        async with linked(path, watched=True) as link:
            second = authority.issue_client("one", file="other")
            with testing.capture_logs() as told:
                first.certificate.write_bytes(second.certificate.read_bytes())
                await worlds.until(lambda: told)
                await get(link)
                made.serial = serial(second)
                first.key.write_bytes(second.key.read_bytes())
                await worlds.until(lambda: len(told) > 1)
                await get(link)
    assert [each["event"] for each in told] == ["credentials.unusable", "credentials.renewed"]
    assert made.refused == 0


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
    path = kubeconfig(tmp_path / "config", f"http://127.0.0.1:{plain.port}", {"token": "t"})
    async with linked(path) as link, link.session_elsewhere() as session:
        async with session.get(f"{link.host}/7") as response:
            assert response.status == 429
        for told in ("soon", "1e999", "99999999", "61", "-1"):
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(f"{link.host}/{told}")
    await plain.close()
