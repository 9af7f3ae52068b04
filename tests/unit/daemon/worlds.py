"""A scheduling loop at work, on an API server that only takes notes."""

import asyncio
import copy
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests import patience, running, volume_labs
from tests.running import Tree
from tests.unit.cluster.conftest import Serve
from vscheduler.cluster.http.connection import Connection
from vscheduler.cluster.writes.binder import Binder
from vscheduler.cluster.writes.claim_writer import ClaimWriter
from vscheduler.cluster.writes.event_recorder import EventRecorder, Identity
from vscheduler.cluster.writes.evictor import Evictor
from vscheduler.cluster.writes.queue_status_writer import QueueStatusWriter, UsageWriter
from vscheduler.cluster.writes.status_writer import StatusWriter
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.config.policy import ActionSetting, Policy
from vscheduler.daemon import pacing
from vscheduler.daemon.liveness.progress import Cycles
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.daemon.pacing import Pace
from vscheduler.daemon.scheduler_process import StoredGroups
from vscheduler.daemon.scheduling_loop import Outlets, SchedulingLoop
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Event
from vscheduler.mirror.state import Mirror, Options
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

PACE = Pace(debounce_seconds=0.005, tick_seconds=0.01, retry_seconds=0.02, period_seconds=0.01)


@dataclass
class World:
    """A loop with all that it works with, but an API server that only takes notes."""

    mirror: Mirror
    loop: SchedulingLoop
    observed: Metrics
    cycles: Cycles
    calls: list[tuple[str, str, dict[str, Any]]]
    answers: dict[str, list[int]] = field(default_factory=dict)
    """HTTP statuses by the end of a path, one after the other; then 201."""
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Objects that the server keeps, by path; all others it forgets at once."""
    slow: dict[str, asyncio.Event] = field(default_factory=dict)
    """By path of a stored object: when the server answers, long after it has written."""
    leads: bool = True
    """Whether the loop may commit."""

    def show(self, *documents: Document) -> None:
        """Let a watch show these objects."""
        self.feed([event_of(document) for document in documents])

    def feed(self, batch: Sequence[Event]) -> None:
        """Let a watch show what happened."""
        changes = [self.mirror.apply(event) for event in batch]
        self.loop.changed(max(changes), [pacing.ANYBODY])

    def answer(self, path: str, patch: dict[str, Any]) -> web.Response:
        """What the server says to a patch of an object that it keeps; it is stored, if it may."""
        stored = self.stored[path]
        version = patch.get("metadata", {}).pop("resourceVersion", None)
        if version not in (None, stored["metadata"]["resourceVersion"]):
            return web.json_response({"message": "the object has been modified"}, status=409)
        if patch:
            self.stored[path] = stored = volume_labs.merged(copy.deepcopy(stored), patch)
            stored["metadata"]["resourceVersion"] = str(100 + len(self.calls))
        return web.json_response(stored)

    def bound(self) -> Counter[str]:
        """How many binds of each pod were asked for."""
        return Counter(
            path.split("/")[-2] for method, path, _ in self.calls if path.endswith("/binding")
        )

    def statuses(self, name: str) -> list[dict[str, Any]]:
        """What was written to a PodGroup's status."""
        return [
            body["status"] for _, path, body in self.calls if path.endswith(f"podgroups/{name}")
        ]


def event_of(document: Document, kind: str = "") -> Event:
    """The event of a manifest: that it is so, or, with DELETED, that it is gone."""
    found = events.kind_of(document)
    assert found is not None
    event = events.convert(found, document)
    return events.removal(event) if kind == "DELETED" else event


def outlets(
    link: Connection,
    queue: WriteQueue,
    mirror: Mirror,
    observed: Metrics,
    cycles: Cycles,
) -> Outlets:
    """All writers, with permission to write."""
    return Outlets(
        committer=Binder(link, queue, lambda: True),
        claim_writer=ClaimWriter(link, queue, lambda: True, schedulers=(pictures.SCHEDULER,)),
        evictor=Evictor(link, queue, lambda: True),
        reporter=StatusWriter(
            link,
            queue,
            StoredGroups(mirror),
            EventRecorder(
                link,
                queue,
                Identity(controller="vscheduler", instance="test"),
                observe=observed.observe_write,
            ).under(lambda: True),
            may_commit=lambda: True,
            observe=observed.observe_write,
        ),
        queue_reporter=QueueStatusWriter(
            link, queue, "vscheduler", may_commit=lambda: True, observe=observed.observe_write
        ),
        usage_writer=UsageWriter(
            link, queue, "vscheduler", may_commit=lambda: True, observe=observed.observe_write
        ),
        cycles=cycles,
    )


@asynccontextmanager
async def world(
    serve: Serve,
    picture: str | Sequence[Document],
    *,
    pace: Pace = PACE,
    action: type[Allocate] = Allocate,
    tree: Tree | None = None,
    answers: dict[str, list[int]] | None = None,
) -> AsyncIterator[World]:
    """A running loop that has been shown a picture."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        made.calls.append((request.method, request.path, json.loads(body or "{}")))
        for end, codes in made.answers.items():
            if request.path.endswith(end) and codes:
                return web.json_response({"message": "no"}, status=codes.pop(0))
        if request.path in made.stored:
            response = made.answer(request.path, json.loads(body or "{}"))
            if request.path in made.slow:
                await made.slow[request.path].wait()
            return response
        return web.json_response({"metadata": {"resourceVersion": "99"}}, status=201)

    link = await serve(answer)
    queue = WriteQueue(workers=4, waiting_max=100)
    mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
    observed = Metrics()
    configured = running.policy_of(tree or running.TREE)
    if tree is None:
        actions = (ActionSetting(action=action),)
        configured = Policy(actions=actions, tiers=configured.tiers)
    cycles = Cycles()
    loop = SchedulingLoop(
        mirror,
        configured,
        outlets(link, queue, mirror, observed, cycles),
        observed,
        may_commit=lambda: made.leads,
        pace=pace,
    )
    made = World(mirror, loop, observed, cycles, calls=[], answers=answers or {})
    made.show(*(pictures.documents(picture) if isinstance(picture, str) else picture))

    tasks = [asyncio.create_task(task) for task in (queue.run(), loop.run(), loop.keep_time())]
    try:
        yield made
        assert not [task for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def rest(made: World, seconds: float = 0.3) -> None:
    """Wait until for some time no call was made and no cycle run."""

    def seen() -> object:
        idle = made.cycles.oldest() is None
        return (len(made.calls), made.loop.cycles) if idle else object()

    await patience.until_at_rest(seen, seconds)
