import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import test_utils, web

from vscheduler.cluster import lease_records, leases
from vscheduler.cluster.http.connection import (
    Access,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
)
from vscheduler.cluster.lease_records import Record, Stored
from vscheduler.cluster.leases import Leases

RECORD = Record(
    holder="we",
    duration_seconds=15.0,
    acquired="2026-11-21T19:00:00.000001Z",
    renewed="2026-11-21T19:00:02.000001Z",
    transitions=3,
)
LEASE: dict[str, Any] = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {
        "name": "volcano-online",
        "namespace": "volcano-system",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"theirs": "stays"},
        "unheardOf": {"deep": [1]},
    },
    "spec": {
        "holderIdentity": "they",
        "leaseDurationSeconds": 30,
        "acquireTime": "2026-11-21T18:00:00.000000Z",
        "renewTime": "2026-11-21T18:30:00.000000Z",
        "leaseTransitions": 2,
        "strategy": "OldestEmulationVersion",
        "preferredHolder": "another",
    },
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Open = Callable[[Handler], Awaitable[Leases]]


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Leases of a server that answers every request by a function."""
    async with AsyncExitStack() as stack:

        async def start(handler: Handler) -> Leases:
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", handler)
            server = test_utils.TestServer(application)
            await server.start_server()
            stack.push_async_callback(server.close)
            access = Access(master=f"http://127.0.0.1:{server.port}")
            return await stack.enter_async_context(
                leases.opened(access, "volcano-system", call_seconds=5.0)
            )

        yield start


def stored(**spec: Any) -> Stored:
    """A Lease as it was read."""
    read = lease_records.read(json.dumps({**LEASE, "spec": LEASE["spec"] | spec}).encode())
    assert read is not None
    return read


def status(code: int) -> web.Response:
    """A refusal."""
    return web.json_response(
        {"kind": "Status", "code": code, "message": f"it is {code}"}, status=code
    )


async def test_a_lease_is_read(opened: Open) -> None:
    """Its fields and what a write needs, in one plain request."""

    async def answer(request: web.Request) -> web.Response:
        assert request.method == "GET"
        path = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano-online"
        assert request.path == path
        assert request.headers["Accept"] == "application/json"
        assert request.headers["User-Agent"].startswith("vscheduler/")
        return web.json_response(LEASE)

    read = await (await opened(answer)).get("volcano-online")
    assert read is not None
    assert read.record == Record(
        holder="they",
        duration_seconds=30.0,
        acquired="2026-11-21T18:00:00.000000Z",
        renewed="2026-11-21T18:30:00.000000Z",
        transitions=2,
    )
    assert (read.name, read.uid, read.version) == ("volcano-online", "u1", "7")


async def test_a_lease_that_is_not_there_is_none(opened: Open) -> None:
    """Its absence is an answer like another."""

    async def answer(request: web.Request) -> web.Response:
        del request
        return status(404)

    assert await (await opened(answer)).get("volcano-online") is None


async def test_a_write_keeps_what_others_have_in_the_lease(opened: Open) -> None:
    """Labels, strategy, and fields that nobody knows yet."""
    sent = []

    async def answer(request: web.Request) -> web.Response:
        assert request.method == "PUT"
        sent.append(await request.json())
        return web.json_response(sent[-1])

    written = await (await opened(answer)).replace(stored(), RECORD)
    assert written.record == RECORD
    spec = {
        "holderIdentity": "we",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T19:00:00.000001Z",
        "renewTime": "2026-11-21T19:00:02.000001Z",
        "leaseTransitions": 3,
    }
    assert sent == [{**LEASE, "spec": LEASE["spec"] | spec}]


async def test_a_write_names_the_configuration() -> None:
    """Beside the annotations of others; one that doesn't count leaves the digest as it is."""
    metadata = {**LEASE["metadata"], "annotations": {"theirs": "stays"}}
    over = lease_records.read(json.dumps({**LEASE, "metadata": metadata}).encode())
    assert over is not None
    written = lease_records.read(
        json.dumps(lease_records.changed(over, RECORD, configuration="aaa")).encode()
    )
    assert written is not None
    assert (over.configuration, written.configuration) == ("", "aaa")
    kept = lease_records.changed(written, RECORD)["metadata"]["annotations"]
    assert kept == {"theirs": "stays", lease_records.CONFIGURATION: "aaa"}


async def test_a_lease_is_made(opened: Open) -> None:
    """In our namespace, with our record."""
    sent = []

    async def answer(request: web.Request) -> web.Response:
        assert request.method == "POST"
        assert request.path.endswith("/namespaces/volcano-system/leases")
        sent.append(await request.json())
        return web.json_response(LEASE, status=201)

    made = await (await opened(answer)).create("volcano-online", RECORD)
    assert made == stored()
    assert sent[0]["metadata"] == {"namespace": "volcano-system", "name": "volcano-online"}
    assert sent[0]["spec"]["holderIdentity"] == "we"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (409, Conflict),
        (404, NotFound),
        (403, Forbidden),
        (401, Forbidden),
        (422, Invalid),
        (429, Throttled),
        (500, Unavailable),
    ],
)
async def test_a_refused_write_is_a_typed_error(
    opened: Open, code: int, kind: type[ApiError]
) -> None:
    """As everywhere else."""

    async def answer(request: web.Request) -> web.Response:
        del request
        return status(code)

    with pytest.raises(kind, match=f"it is {code}"):
        await (await opened(answer)).replace(stored(), RECORD)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"null", b"[]", b"{}", b'{"metadata": []}', b'{"metadata": {"name": "a"}}'],
)
async def test_an_answer_that_is_no_lease_is_none_at_all(opened: Open, body: bytes) -> None:
    """A proxy's page says nothing about what was done."""

    async def answer(request: web.Request) -> web.Response:
        del request
        return web.Response(body=body)

    with pytest.raises(Unavailable, match="no Lease"):
        await (await opened(answer)).get("volcano-online")


async def test_an_answer_that_takes_too_long_is_none_at_all() -> None:
    """No call takes longer than it may."""

    async def answer(request: web.Request) -> web.Response:
        del request
        await asyncio.sleep(0.5)
        return web.json_response(LEASE)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with test_utils.TestServer(application) as server:
        access = Access(master=f"http://127.0.0.1:{server.port}")
        async with leases.opened(access, "volcano-system", call_seconds=0.05) as short:
            with pytest.raises(Unavailable):
                await short.get("volcano-online")


async def test_a_write_is_sent_once_though_the_connection_breaks(opened: Open) -> None:
    """The first may have been done."""
    received = []

    async def answer(request: web.Request) -> web.Response:
        received.append(request.method)
        if len(received) > 1:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(LEASE)

    through = await opened(answer)
    await through.get("volcano-online")
    with pytest.raises(Unavailable):
        await through.replace(stored(), RECORD)
    assert received == ["GET", "PUT"]


@pytest.mark.parametrize(
    ("field", "garbage", "then"),
    [
        ("holderIdentity", None, {"holder": ""}),
        ("holderIdentity", ["x"], {"holder": "['x']"}),
        ("leaseDurationSeconds", None, {"duration_seconds": 0.0}),
        ("leaseDurationSeconds", "15", {"duration_seconds": 0.0}),
        ("leaseDurationSeconds", True, {"duration_seconds": 0.0}),
        ("leaseDurationSeconds", 10**400, {"duration_seconds": 0.0}),
        ("leaseDurationSeconds", -5, {"duration_seconds": -5.0}),
        ("renewTime", "yesterday", {"renewed": "yesterday"}),
        ("acquireTime", 5, {"acquired": "5"}),
        ("leaseTransitions", -1, {"transitions": 0}),
        ("leaseTransitions", 2**31 - 1, {"transitions": 0}),
        ("leaseTransitions", "many", {"transitions": 0}),
    ],
)
def test_garbage_in_a_field_is_read_as_something(
    field: str, garbage: Any, then: dict[str, Any]
) -> None:
    """Nothing that is stored makes it fail."""
    record = stored(**{field: garbage}).record
    assert {each: getattr(record, each) for each in then} == then


def test_a_spec_that_is_missing_is_empty() -> None:
    """As somebody makes it by hand, to be taken."""
    whole = {key: value for key, value in LEASE.items() if key != "spec"}
    read = lease_records.read(json.dumps(whole).encode())
    assert read is not None
    assert read.record == Record()
    written = lease_records.changed(read, RECORD)
    assert written["spec"]["holderIdentity"] == "we"


def test_what_is_written_can_be_stored() -> None:
    """A duration is a whole number from 1 on, and a time is one or nothing."""
    spec = lease_records.made("a", "b", Record(duration_seconds=0.2))["spec"]
    assert spec["leaseDurationSeconds"] == 1
    assert (spec["acquireTime"], spec["renewTime"]) == (None, None)
    assert spec["holderIdentity"] == ""


PLUGIN = """
import json
print(json.dumps({
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "from-the-plugin"},
}))
"""


async def test_a_plugin_is_asked_in_the_loop_that_opens_them(tmp_path: Path) -> None:
    """Another thread's, and the daemon's own loop takes no part."""
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.json_response(LEASE)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with test_utils.TestServer(application) as server:
        plugin = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", PLUGIN],
            "interactiveMode": "Never",
        }
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(f"http://127.0.0.1:{server.port}", plugin)))
        access = Access(kubeconfig=str(kubeconfig))

        async def look() -> Stored | None:
            async with leases.opened(access, "volcano-system", call_seconds=5.0) as through:
                return await through.get("volcano-online")

        assert await asyncio.to_thread(asyncio.run, look()) == stored()
    assert seen == ["Bearer from-the-plugin"]


def _kubeconfig(server: str, plugin: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "here", "user": {"exec": plugin}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
    }
