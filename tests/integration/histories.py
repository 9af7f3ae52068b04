"""What really happened to pods and PodGroups, in the API server's own order.

Two watches beside any proxy. All kinds share one store and its one counter, so events of both fall
into their true order by resourceVersion, however late each of them was seen.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.faults import proxying
from tests.faults.proxying import Upstream
from tests.integration import daemons

PODS = "/api/v1/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
LINE_BYTES = 2**22
FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """A PodGroup at one version, or its end."""

    version: int
    name: str
    uid: str
    there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod at one version, or its end."""

    version: int
    name: str
    there: bool
    group: str
    """The PodGroup that it names; none is empty."""
    lives: bool
    """It exists, isn't being deleted and hasn't finished."""


Seen = GroupSeen | PodSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """What must not happen, and to which pods."""

    version: int
    group: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What went wrong, and how much there was to go wrong."""

    hits: tuple[Harm, ...]
    """Deletes of a PodGroup that live pods named at that very version."""
    strays: tuple[Harm, ...]
    """Pods that were made to name a PodGroup that wasn't there."""
    made: int
    deleted: int


class History:
    """All versions of pods and PodGroups since it began; names are taken to be unique."""

    def __init__(self) -> None:
        self._seen: list[Seen] = []

    def note(self, kind: str, item: dict[str, Any]) -> None:
        """One event of a watch."""
        seen = _pod_seen if item["kind"] == "Pod" else _group_seen
        self._seen.append(seen(kind, item))

    def present(self) -> dict[str, int]:
        """Versions of what is there by the last that was seen; any thread may ask."""
        versions = {}
        for each in list(self._seen):
            versions[each.name] = each.version if each.there else 0
        return {name: version for name, version in versions.items() if version}

    def verdict(self) -> Verdict:
        """Of all that has been seen so far."""
        return judge(list(self._seen))


def judge(seen: Iterable[Seen]) -> Verdict:
    """Go through it in true order."""
    groups: dict[str, str] = {}
    pods: dict[str, str] = {}
    hits, strays = [], []
    made = deleted = 0
    for each in sorted(seen, key=lambda one: one.version):
        match each:
            case GroupSeen(there=True):
                made += groups.get(each.name) != each.uid
                groups[each.name] = each.uid
            case GroupSeen():
                deleted += 1
                groups.pop(each.name, None)
                users = tuple(sorted(pod for pod, group in pods.items() if group == each.name))
                if users:
                    hits.append(Harm(version=each.version, group=each.name, pods=users))
            case PodSeen(lives=False):
                pods.pop(each.name, None)
            case PodSeen():
                if each.group and each.group not in groups and pods.get(each.name) != each.group:
                    strays.append(Harm(version=each.version, group=each.group, pods=(each.name,)))
                pods[each.name] = each.group
    return Verdict(hits=tuple(hits), strays=tuple(strays), made=made, deleted=deleted)


@asynccontextmanager
async def following(upstream: Upstream) -> AsyncIterator[History]:
    """Follow both kinds for the time of the block; a version that is lost is an error."""
    history = History()
    async with proxying.connecting(upstream) as session, asyncio.TaskGroup() as group:
        tasks = []
        for path in (PODS, GROUPS):
            async with session.get(f"{upstream.url}{path}") as answer:
                version = (await answer.json())["metadata"]["resourceVersion"]
            watch = _watch(session, f"{upstream.url}{path}", int(version), history)
            tasks.append(group.create_task(watch))
        yield history
        for task in tasks:
            task.cancel()


async def _watch(session: aiohttp.ClientSession, path: str, version: int, history: History) -> None:
    """Note all that comes after a version; a watch that the server ends goes on where it was.

    It ends those that don't keep pace.
    """
    endless = aiohttp.ClientTimeout(total=None)
    while True:
        url = f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=3600"
        async with session.get(url, timeout=endless, read_bufsize=LINE_BYTES) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                event = json.loads(line)
                assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
                history.note(event["type"], event["object"])
                version = int(event["object"]["metadata"]["resourceVersion"])


def _pod_seen(kind: str, item: dict[str, Any]) -> PodSeen:
    metadata = item["metadata"]
    return PodSeen(
        version=int(metadata["resourceVersion"]),
        name=metadata["name"],
        there=kind != "DELETED",
        group=named_group(item),
        lives=kind != "DELETED" and lives(item),
    )


def _group_seen(kind: str, item: dict[str, Any]) -> GroupSeen:
    metadata = item["metadata"]
    return GroupSeen(
        version=int(metadata["resourceVersion"]),
        name=metadata["name"],
        uid=metadata["uid"],
        there=kind != "DELETED",
    )


def lives(pod: dict[str, Any]) -> bool:
    """Whether it is to run, or runs."""
    finished = pod.get("status", {}).get("phase") in FINISHED
    return not finished and "deletionTimestamp" not in pod["metadata"]


def named_group(pod: dict[str, Any]) -> str:
    """The PodGroup that it names; none is empty."""
    annotations = pod["metadata"].get("annotations", {})
    return str(annotations.get(daemons.GROUP_NAME, ""))
