import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from tests.unit.cluster.conftest import Serve
from vscheduler.cluster.writes.claim_writer import ClaimResult, ClaimWriter, Outcome, Write
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.mirror import device_requests
from vscheduler.mirror.claim_requests import Target
from vscheduler.mirror.decode.events import Kind, Upsert
from vscheduler.model.claim_decisions import ClaimAllocation
from vscheduler.model.devices import (
    AllocatedDevice,
    Allocation,
    Consumer,
    DeviceId,
    DeviceRequest,
    ResourceClaim,
    Wanted,
)
from vscheduler.model.extended_resources import RequestMapping

Result = ClaimResult
GPU = "example.com/gpu"
ID = DeviceId("gpu.example.com", "n1", "gpu-0")
REQUEST = DeviceRequest(name="r", alternatives=(Wanted(device_class="gpu"),))
CHANGE = ClaimAllocation(
    namespace="ns",
    name="made",
    uid="",
    allocation=Allocation(devices=(AllocatedDevice(request="r", id=ID),)),
    reserved_for=(Consumer(name="p", uid="p0"),),
    requests=(REQUEST,),
    mappings=(RequestMapping("main", GPU, "r"),),
)
NONE: Mapping[str, int] = {}
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
POD = "/api/v1/namespaces/ns/pods/p/status"
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p0", "controller": True}
MAPPINGS = [{"containerName": "main", "resourceName": GPU, "requestName": "r"}]


class Server:
    """An API server with at most one claim, which fails at some calls."""

    def __init__(
        self, claim: dict[str, Any] | None = None, failing: Mapping[str, int] = NONE
    ) -> None:
        """`failing` has the status that a call gets instead, by method or subresource."""
        self.claim, self.failing = claim, failing
        self.pod: dict[str, Any] = {}
        self.seen: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        """Store what is written."""
        self.seen.append(f"{request.method} {request.path}")
        body = json.loads(await request.read() or "{}")
        kind = "pod" if request.path == POD else request.method.lower()
        if request.method == "POST" and self.claim is None:
            self.claim = body
            self.claim["metadata"] |= {"uid": "c1", "resourceVersion": "7"}
        elif request.method == "POST":
            return web.json_response({"reason": "AlreadyExists", "message": "no"}, status=409)
        if kind in self.failing:
            return web.json_response({"message": "no"}, status=self.failing[kind])
        if kind == "pod":
            self.pod = body
            return web.json_response({})
        if self.claim is None:
            return web.json_response({"message": "none"}, status=404)
        if request.method == "PATCH":
            assert body["metadata"] == {"uid": "c1", "resourceVersion": "7"}
            self.claim["status"] = body["status"]
        return web.json_response(self.claim)


def there(**metadata: Any) -> dict[str, Any]:
    """The claim as another instance has made it."""
    names = {
        "name": "made",
        "namespace": "ns",
        "uid": "c1",
        "resourceVersion": "7",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [OWNER],
        "finalizers": [device_requests.FINALIZER],
    }
    exactly = {"deviceClassName": "gpu", "count": 1, "allocationMode": "ExactCount"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**names, **metadata},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": {},
    }


async def send(serve: Serve, server: Server) -> Outcome:
    """Send the change, and return what comes of it."""
    queue = WriteQueue(workers=1, waiting_max=1)
    outcomes: list[Outcome] = []
    writer = ClaimWriter(await serve(server.answer), queue, lambda: True, schedulers=())
    task = asyncio.create_task(queue.run())
    planned = ResourceClaim(namespace="ns", name="made", uid="", for_extended=True)
    target = Target(kind=Kind.RESOURCE_CLAIM, key=planned.key, version="", value=planned)
    writer.send(Write(change=CHANGE, target=target, wanted=planned), outcomes.append)
    await asyncio.wait_for(queue.wait_until_quiet(), 40)
    task.cancel()
    await asyncio.wait([task])
    return outcomes[0]


async def test_the_pod_knows_its_claim_before_that_is_allocated(serve: Serve) -> None:
    """The claim is made, the pod told, and then the devices are written."""
    server = Server()
    outcome = await send(serve, server)
    assert server.seen == [f"POST {CLAIMS}", f"PATCH {POD}", f"PATCH {CLAIMS}/made/status"]
    assert outcome.verdict is Result.WRITTEN
    assert isinstance(outcome.stored, Upsert)
    assert server.pod == {
        "metadata": {"uid": "p0"},
        "status": {
            "extendedResourceClaimStatus": {
                "resourceClaimName": "made",
                "requestMappings": MAPPINGS,
            }
        },
    }
    assert server.claim is not None
    assert server.claim["spec"] == there()["spec"]
    made, wanted = server.claim["metadata"], there()["metadata"]
    assert (made["annotations"], made["finalizers"]) == (
        wanted["annotations"],
        wanted["finalizers"],
    )
    (owner,) = made["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("p0", True)


async def test_a_claim_that_is_there_is_used(serve: Serve) -> None:
    """It was made before the scheduler ended, or nobody heard that it was."""
    server = Server(there())
    assert (await send(serve, server)).verdict is Result.WRITTEN
    assert server.seen[1] == f"GET {CLAIMS}/made"


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {}},
        {"ownerReferences": [{**OWNER, "uid": "other"}]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
async def test_a_claim_of_somebody_else_is_left_alone(
    serve: Serve, metadata: dict[str, Any]
) -> None:
    """Nor is the pod told of it."""
    server = Server(there(**metadata))
    assert (await send(serve, server)).verdict is Result.CONFLICT
    assert not any("PATCH" in each for each in server.seen)


@pytest.mark.parametrize(
    ("failing", "verdict"),
    [
        ({"post": 403}, Result.REFUSED),
        ({"post": 500}, Result.FAILED),
        ({"pod": 404}, Result.MISSING),
        ({"pod": 422}, Result.REFUSED),
        ({"pod": 500}, Result.FAILED),
        ({"patch": 409}, Result.CONFLICT),
    ],
)
async def test_nothing_is_allocated_after_a_failure(
    serve: Serve, failing: dict[str, int], verdict: Result
) -> None:
    """Whichever call fails; the claim that was made is found the next time."""
    server = Server(failing=failing)
    assert (await send(serve, server)).verdict is verdict
    assert server.claim is not None
    assert "status" not in server.claim
    server.failing = {}
    assert (await send(serve, server)).verdict is Result.WRITTEN
