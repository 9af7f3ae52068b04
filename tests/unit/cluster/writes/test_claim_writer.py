import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests import answers
from tests.unit.cluster.conftest import Handler, Serve
from vscheduler.cluster.writes.claim_writer import ClaimResult, ClaimWriter, Outcome, Write
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.mirror.claim_requests import Target
from vscheduler.mirror.decode.events import Upsert
from vscheduler.mirror.paths import Kind
from vscheduler.model.claim_decisions import ClaimBinding, ReleaseClaim, VolumeChange
from vscheduler.model.storage import Claim

Result = ClaimResult
CLAIM = Claim(namespace="ns", name="data", uid="c1")
BINDING = ClaimBinding(namespace="ns", name="data", uid="c1", volume=None, node="n1")
NOTES = {
    "volume.kubernetes.io/selected-node": "n1",
    "vscheduler/volume-binding": "n1 2026-01-01T12:00:40Z",
}
WITHDRAWAL = ReleaseClaim(namespace="ns", name="data", uid="c1", node="n1")


def a_write(change: VolumeChange = BINDING) -> Write:
    """A claim that is to get a volume on n1, or no longer is."""
    target = Target(kind=Kind.CLAIM, key="ns/data", version="7", value=CLAIM)
    return Write(
        change=change,
        target=target,
        wanted=CLAIM,
        schedulers=("vscheduler",),
        since=1767268840.0,
    )


async def send(
    serve: Serve,
    handler: Handler,
    write: Write,
    may_commit: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Send a change to a server, and return what comes of it."""
    queue = WriteQueue(workers=2, waiting_max=1)
    outcomes: list[Outcome] = []
    writer = ClaimWriter(await serve(handler), queue, may_commit, schedulers=("vscheduler",))
    task = asyncio.create_task(queue.run())
    writer.send(write, outcomes.append)
    await asyncio.wait_for(queue.wait_until_quiet(), 40)
    task.cancel()
    await asyncio.wait([task])
    (outcome,) = outcomes
    return outcome


def stored(**metadata: Any) -> dict[str, Any]:
    """The claim as the API server has it."""
    names = {"name": "data", "namespace": "ns", "uid": "c1", "resourceVersion": "8"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**names, **metadata},
        "spec": {},
        "status": {"phase": "Pending"},
    }


async def test_a_request_is_one_patch_of_the_version_decided_on(serve: Serve) -> None:
    """The answer shows what is stored by now."""
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, request.content_type))
        seen.append(json.loads(await request.read()))
        return web.json_response(stored(annotations=NOTES))

    write = a_write()
    outcome = await send(serve, answer, write)
    assert seen == [
        (
            "PATCH",
            "/api/v1/namespaces/ns/persistentvolumeclaims/data",
            "application/merge-patch+json",
        ),
        {"metadata": {"uid": "c1", "resourceVersion": "7", "annotations": NOTES}},
    ]
    assert outcome.verdict is Result.WRITTEN
    assert isinstance(outcome.stored, Upsert)
    assert outcome.stored.object.metadata.resource_version == "8"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (404, Result.MISSING),
        (409, Result.CONFLICT),
        (403, Result.REFUSED),
        (422, Result.REFUSED),
        (429, Result.THROTTLED),
    ],
)
async def test_a_refusal_is_an_outcome(serve: Serve, code: int, verdict: Result) -> None:
    """Whatever the server says, with its words; nothing is raised."""

    async def answer(_: web.Request) -> web.Response:
        details = {"retryAfterSeconds": 0.001}
        return web.json_response({"message": "no", "details": details}, status=code)

    outcome = await send(serve, answer, a_write())
    assert (outcome.verdict, outcome.message, outcome.stored) == (verdict, "no", None)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (stored(annotations=NOTES), Result.WRITTEN),
        (stored(resourceVersion="7"), Result.FAILED),
        (stored(uid="c2"), Result.MISSING),
        (404, Result.MISSING),
        (403, Result.UNKNOWN),
    ],
)
async def test_a_request_without_a_clear_answer_is_looked_after(
    serve: Serve, found: dict[str, Any] | int, verdict: Result
) -> None:
    """A server that broke down may have written it: the claim itself says."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "PATCH":
            return web.Response(status=500)
        if isinstance(found, int):
            return web.Response(status=found)
        return web.json_response(found)

    outcome = await send(serve, answer, a_write())
    assert outcome.verdict is verdict
    assert (outcome.stored is not None) is (verdict in (Result.WRITTEN, Result.FAILED))


async def test_a_withdrawal_without_a_clear_answer_is_looked_after(serve: Serve) -> None:
    """Written if the annotations are gone."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "PATCH":
            return web.Response(status=500)
        return web.json_response(stored())

    assert (await send(serve, answer, a_write(WITHDRAWAL))).verdict is Result.WRITTEN


async def test_nothing_is_sent_without_permission(serve: Serve) -> None:
    """Another instance may lead by now."""
    calls = []

    async def answer(request: web.Request) -> web.Response:
        calls.append(request)
        return web.json_response(answers.an_object(request.path))

    outcome = await send(serve, answer, a_write(), lambda: False)
    assert (outcome.verdict, calls) == (Result.WITHHELD, [])


async def test_an_answer_that_cannot_be_read_leaves_it_to_the_watch(serve: Serve) -> None:
    """The claim was written all the same."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"{")

    outcome = await send(serve, answer, a_write())
    assert (outcome.verdict, outcome.stored) == (Result.WRITTEN, None)
