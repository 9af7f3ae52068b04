import asyncio
import json
from collections import Counter

import pytest
from aiohttp import web

from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.permits import Ending
from vscheduler.cluster.writes import event_recorder
from vscheduler.cluster.writes.event_recorder import EventRecorder, Identity
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.mirror import statuses
from vscheduler.mirror.statuses import ObjectReference


def test_an_event_of_a_lease_is_kept_beside_it() -> None:
    """`kubectl describe lease` finds it by the kind and the UID."""
    lease = ObjectReference(kind="Lease", namespace="volcano-system", name="a", uid="u")
    notice = statuses.lease_notice(lease, "me", leads=True)
    identity = Identity(controller="vscheduler", instance="i")
    body = json.loads(event_recorder.event_body(notice, "a.1", 1.5, identity))
    assert body["metadata"] == {"name": "a.1", "namespace": "volcano-system"}
    assert body["regarding"] == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "namespace": "volcano-system",
        "name": "a",
        "uid": "u",
    }
    assert (body["reason"], body["action"]) == ("LeaderElection", "Electing")


@pytest.mark.parametrize(("leave", "outcome"), [(0, "withheld"), (1, "withheld"), (2, "written")])
async def test_what_lies_in_wait_when_leave_ends_is_not_sent(
    serve: Serve, leave: int, outcome: str
) -> None:
    """Whoever was frozen finds hundreds of events that are to be sent; it is asked before each
    is made, and before its first byte is written.
    """
    paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.json_response({}, status=201)

    told: Counter[tuple[str, str]] = Counter()
    calls = WriteQueue(workers=1, waiting_max=9)
    identity = Identity(controller="vscheduler", instance="i")
    recorder = EventRecorder(
        await serve(answer), calls, identity, observe=lambda *each: told.update([each])
    )
    lease = ObjectReference(kind="Lease", namespace="volcano-system", name="a", uid="u")
    recorder.under(Ending(leave).may).notify(statuses.lease_notice(lease, "me", leads=True))
    task = asyncio.create_task(calls.run())
    await asyncio.wait_for(calls.wait_until_quiet(), 20)
    task.cancel()
    await asyncio.wait({task})
    assert told == {("event", outcome): 1}
    assert len(paths) == (outcome == "written")
