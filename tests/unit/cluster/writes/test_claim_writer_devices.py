import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.unit.cluster.conftest import Handler, Serve
from vscheduler.cluster.writes.claim_writer import ClaimResult, ClaimWriter, Outcome, Write
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.mirror import device_requests
from vscheduler.mirror.claim_requests import Target
from vscheduler.mirror.decode.events import Kind, Upsert
from vscheduler.model.claim_decisions import ClaimAllocation, DeallocateClaim, DeviceChange
from vscheduler.model.devices import (
    AllocatedDevice,
    Allocation,
    Consumer,
    DeviceId,
    ResourceClaim,
)

Result = ClaimResult
CLAIM = ResourceClaim(namespace="ns", name="gpus", uid="c1")
ID = DeviceId("gpu.example.com", "n1", "gpu-0")
ALLOCATION = Allocation(devices=(AllocatedDevice(request="gpus", id=ID),))
POD = Consumer(name="train-0", uid="p0")
CHANGE = ClaimAllocation(
    namespace="ns", name="gpus", uid="c1", allocation=ALLOCATION, reserved_for=(POD,)
)
BACK = DeallocateClaim(
    namespace="ns", name="gpus", uid="c1", allocation=ALLOCATION, reserved_for=(POD,)
)
RESULTS = [{"request": "gpus", **ID._asdict()}]
STATUS = {
    "allocation": {"devices": {"results": RESULTS}},
    "reservedFor": [{"resource": "pods", "name": "train-0", "uid": "p0"}],
}
OF_ANOTHER = {**STATUS, "reservedFor": [{"resource": "pods", "name": "their", "uid": "p1"}]}
PATH = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/gpus"


def stored(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """The claim as the API server has it."""
    names = {"name": "gpus", "namespace": "ns", "uid": "c1", "resourceVersion": "8"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**names, **metadata},
        "spec": {},
        "status": status or {},
    }


async def send(
    serve: Serve,
    handler: Handler,
    change: DeviceChange = CHANGE,
    may_commit: Callable[[], bool] = lambda: True,
    claim: ResourceClaim = CLAIM,
) -> Outcome:
    """Send a change to a server, and return what comes of it."""
    queue = WriteQueue(workers=2, waiting_max=1)
    outcomes: list[Outcome] = []
    writer = ClaimWriter(await serve(handler), queue, may_commit, schedulers=())
    task = asyncio.create_task(queue.run())
    target = Target(kind=Kind.RESOURCE_CLAIM, key=claim.key, version="7", value=claim)
    writer.send(Write(change=change, target=target, wanted=claim), outcomes.append)
    await asyncio.wait_for(queue.wait_until_quiet(), 40)
    task.cancel()
    await asyncio.wait([task])
    (outcome,) = outcomes
    return outcome


async def test_the_finalizer_comes_before_the_devices(serve: Serve) -> None:
    """Two patches: the second one of the version that the first one has made."""
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, json.loads(await request.read())))
        version = str(7 + len(seen))
        return web.json_response(stored(STATUS, resourceVersion=version))

    outcome = await send(serve, answer)
    first = {"uid": "c1", "resourceVersion": "7", "finalizers": [device_requests.FINALIZER]}
    second = {"uid": "c1", "resourceVersion": "8"}
    assert seen == [
        ("PATCH", PATH, {"metadata": first}),
        ("PATCH", f"{PATH}/status", {"metadata": second, "status": STATUS}),
    ]
    assert outcome.verdict is Result.WRITTEN
    assert isinstance(outcome.stored, Upsert)
    assert outcome.stored.object.metadata.resource_version == "9"


async def test_the_label_comes_before_devices_are_taken_back(serve: Serve) -> None:
    """With it, the API server looks whether a pod runs with them."""
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, json.loads(await request.read())["metadata"].get("labels")))
        return web.json_response(stored())

    outcome = await send(serve, answer, BACK)
    assert outcome.verdict is Result.WRITTEN
    assert seen == [(PATH, {"vscheduler.io/deallocating": "true"}), (f"{PATH}/status", None)]


@pytest.mark.parametrize("failing", ["gpus", "status"])
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
async def test_a_refusal_is_an_outcome(
    serve: Serve, failing: str, code: int, verdict: Result
) -> None:
    """Of either patch, with the server's words; nothing is raised."""

    async def answer(request: web.Request) -> web.Response:
        if not request.path.endswith(failing):
            return web.json_response(stored())
        details = {"retryAfterSeconds": 0.001}
        return web.json_response({"message": "no", "details": details}, status=code)

    outcome = await send(serve, answer)
    assert (outcome.verdict, outcome.message) == (verdict, "no")
    # The finalizer has made a new version, which the next attempt needs.
    assert (outcome.stored is not None) is (failing == "status")


@pytest.mark.parametrize(
    ("change", "found", "verdict"),
    [
        (CHANGE, stored(STATUS), Result.WRITTEN),
        (CHANGE, stored(resourceVersion="7"), Result.FAILED),
        (CHANGE, stored(OF_ANOTHER), Result.FAILED),
        (CHANGE, stored(STATUS, uid="c2"), Result.MISSING),
        (CHANGE, 404, Result.MISSING),
        (CHANGE, 403, Result.UNKNOWN),
        (BACK, stored(), Result.WRITTEN),
        (BACK, stored(STATUS), Result.FAILED),
    ],
)
async def test_a_write_without_a_clear_answer_is_looked_after(
    serve: Serve, change: DeviceChange, found: dict[str, Any] | int, verdict: Result
) -> None:
    """A server that broke down may have written it: the claim itself says."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "PATCH":
            status = 500 if request.path.endswith("/status") else 200
            return web.json_response(stored(), status=status)
        if isinstance(found, int):
            return web.Response(status=found)
        return web.json_response(found)

    outcome = await send(serve, answer, change)
    assert outcome.verdict is verdict
    assert (outcome.stored is not None) is (verdict in (Result.WRITTEN, Result.FAILED))


async def test_nothing_is_sent_without_permission(serve: Serve) -> None:
    """Another instance may lead by now; also between the two patches."""
    calls: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        calls.append(request.path)
        return web.json_response(stored())

    outcome = await send(serve, answer, may_commit=lambda: False)
    assert (outcome.verdict, calls) == (Result.WITHHELD, [])
    outcome = await send(serve, answer, may_commit=lambda: not calls)
    assert (outcome.verdict, calls) == (Result.WITHHELD, [PATH])


async def test_an_answer_that_cannot_be_read(serve: Serve) -> None:
    """Without the new version nothing more is written; after the last write the watch shows it."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"{")

    assert (await send(serve, answer)).verdict is Result.CONFLICT
    labelled = msgspec.structs.replace(CLAIM, deallocating=True)
    outcome = await send(serve, answer, BACK, claim=labelled)
    assert (outcome.verdict, outcome.stored) == (Result.WRITTEN, None)
