"""What the watch expects of a real API server."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace
from structlog import testing

from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import electors
from vscheduler.cluster.http.connection import Access, Connection
from vscheduler.cluster.reflector import Pace, Reflector
from vscheduler.daemon.informers import Codec, Read
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Remove, Upsert
from vscheduler.mirror.index.entries import Entry, Event, Reference, Replace
from vscheduler.mirror.paths import Path

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
A_GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "spec": {"minMember": 1},
}


def a_pod(name: str) -> dict[str, Any]:
    """A pod that nobody schedules."""
    containers = [{"name": "main", "image": "none"}]
    return {
        "metadata": {"name": name},
        "spec": {"schedulerName": "by-hand", "containers": containers},
    }


@asynccontextmanager
async def following(
    cluster: ControlPlane,
    pace: Pace,
    path: str = PODS,
    kind: Kind = Kind.POD,
) -> AsyncIterator[tuple[Reflector[Event], list[str]]]:
    """A running watch, and what it has seen so far: `+name`, `-name`, or `=names` of a list."""
    link = await Connection.open(Access(kubeconfig=str(cluster.kubeconfig)))
    seen: list[str] = []

    def note(batch: list[Event]) -> None:
        for event in batch:
            match event:
                case Upsert():
                    seen.append(f"+{event.object.metadata.name}")
                case Remove():
                    seen.append(f"-{event.name}")
                case Replace():
                    seen.append(f"={','.join(sorted(event.found))}")

    watch = Reflector(
        link,
        Path.to(path),
        Codec(kind, named),
        note,
        pace=pace,
        chance=random.Random(1),
    )
    task = asyncio.create_task(watch.run())
    try:
        await asyncio.wait_for(watch.listed.wait(), patience.PROCESSES_SECONDS)
        yield watch, seen
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])
        await link.close()


def named(event: Upsert | DecodeFailed) -> Read:
    """An object of which only the name matters."""
    assert isinstance(event, Upsert)
    metadata = event.object.metadata
    reference = Reference(uid=metadata.uid, resource_version=metadata.resource_version)
    return metadata.name, Entry(reference, None)


async def test_pages_changes_and_the_server_ending_the_watch(
    cluster: ControlPlane,
) -> None:
    """Every pod is seen once, in order, across pages and across watches that the server ended."""
    cluster.api.create_all(PODS, [a_pod(f"old-{n}") for n in range(5)])
    pace = Pace(page_size=2, watch_seconds=1, at_once_seconds=0)
    async with following(cluster, pace) as (watch, seen):
        assert seen == ["=old-0,old-1,old-2,old-3,old-4"]
        for number in range(12):
            await asyncio.to_thread(cluster.api.create, PODS, a_pod(f"new-{number}"))
            await asyncio.sleep(0.25)
        await asyncio.to_thread(cluster.api.delete, f"{PODS}/old-0", gracePeriodSeconds=0)
        await electors.until(lambda: "-old-0" in seen)
        # A pod that is deleted is first seen with its deletionTimestamp.
        assert seen[1:-2] == [f"+new-{number}" for number in range(12)]
        assert seen[-2:] == ["+old-0", "-old-0"]
        assert watch.reconnects >= 1
        assert watch.relists == 0


async def test_a_version_that_is_too_old_is_listed_anew(
    cluster: ControlPlane,
) -> None:
    """410 from the real thing: what isn't in the new list is gone.

    An API server remembers changes of a kind since the kind exists: of PodGroups none is as old
    as version 1.
    """
    for name in ("a", "b"):
        cluster.api.create(GROUPS, {**A_GROUP, "metadata": {"name": name}})
    pace = Pace(watch_seconds=0.5, at_once_seconds=0)
    with testing.capture_logs() as said:
        async with following(cluster, pace, GROUPS, Kind.POD_GROUP) as (watch, seen):
            cluster.api.delete(f"{GROUPS}/a")
            await electors.until(lambda: "-a" in seen)
            watch._version = "1"
            await electors.until(lambda: watch.relists == 1)
            assert seen[-1] == "=b"
    assert "watch.expired" in [each["event"] for each in said]


async def test_an_api_that_comes_later_is_found(cluster: ControlPlane) -> None:
    """A CRD that isn't installed yet is waited for, without an end of the process."""
    path = "/apis/later.example.com/v1/things"
    pace = replace(Pace(), absent_max_seconds=0.1)
    definition: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.later.example.com"},
        "spec": {
            "group": "later.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with testing.capture_logs() as said:
        creation = asyncio.create_task(_later(cluster, definitions, definition))
        try:
            async with following(cluster, pace, path, Kind.QUEUE) as (_, seen):
                assert seen == ["="]
        finally:
            await creation
            cluster.api.delete(f"{definitions}/things.later.example.com")
    assert "watch.absent" in [each["event"] for each in said]


async def _later(cluster: ControlPlane, path: str, body: dict[str, Any]) -> None:
    await asyncio.sleep(0.3)
    await asyncio.to_thread(cluster.api.create, path, body)
