"""An API server in memory, with a controller of PodGroups at work on it."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests import patience
from vscheduler.backoff import Backoff, Growth
from vscheduler.controllers import ports
from vscheduler.controllers.podgroups import group_reading, owners, podgroup_controller
from vscheduler.controllers.podgroups.owners import Event, Listed, Owners
from vscheduler.controllers.podgroups.podgroup_controller import Outlets, Pace, PodGroupController
from vscheduler.controllers.podgroups.podgroup_lister import PodGroupLister
from vscheduler.controllers.ports import Preconditions, RefusedError, Trouble
from vscheduler.daemon import informers
from vscheduler.mirror import paths, state
from vscheduler.mirror.decode import events
from vscheduler.mirror.index.entries import Replace
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.statuses import EventNotice
from vscheduler.mirror.translate import pod_owners, translation

Document = dict[str, Any]

PODS = paths.PODS.within("ns")
GROUPS = paths.POD_GROUPS.within("ns")
NATIVE = paths.NATIVE_POD_GROUPS.within("ns")
COMPOSITE = paths.COMPOSITE_POD_GROUPS.within("ns")
REPLICA_SETS = "/apis/apps/v1/namespaces/ns/replicasets"
KINDS = {
    PODS: ("v1", "Pod"),
    GROUPS: (paths.VOLCANO, "PodGroup"),
    NATIVE: (paths.NATIVE_POD_GROUPS.api_version, "PodGroup"),
    COMPOSITE: (paths.COMPOSITE_POD_GROUPS.api_version, "CompositePodGroup"),
    REPLICA_SETS: ("apps/v1", "ReplicaSet"),
}
WORKERS = 6
PACE = Pace(
    debounce_seconds=0.005,
    tick_seconds=0.02,
    scan_seconds=0.02,
    shown_seconds=0.1,
    workers=WORKERS,
)
GROWTH = Growth(first_seconds=0.02, longest_seconds=0.1)


@dataclass
class Server:
    """Objects by path, with UIDs, versions and preconditions, as an API server has them."""

    objects: dict[str, Document] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    refusals: dict[tuple[str, str], list[Trouble]] = field(default_factory=dict)
    """What the next calls of a method to a path come to; UNANSWERED ones are done all the same."""
    late: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)
    """Calls of a method to a path that wait for this before they are looked at."""
    refusal: str = "no"
    """What is said then."""
    before: Callable[[str, str], None] = lambda _method, _path: None
    """Called before each call is looked at: what happens meanwhile."""
    watch: Callable[[str, Document], None] = lambda _change, _object: None
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def get(self, path: str) -> Document:
        """As in ports.Api, like all of these."""
        await self._begin("get", path)
        return deepcopy(self._stored(path))

    async def list(
        self, path: str, params: Mapping[str, str] | None = None, *, metadata_only: bool = False
    ) -> list[Document]:
        """Metadata of pods that haven't finished."""
        await self._begin("list", path)
        assert (params, metadata_only) == ({"fieldSelector": group_reading.UNFINISHED}, True)
        found = [each for key, each in self.objects.items() if key.rpartition("/")[0] == path]
        ended = ("Succeeded", "Failed")
        return [
            {"metadata": deepcopy(each["metadata"])}
            for each in found
            if each.get("status", {}).get("phase") not in ended
        ]

    async def create(self, path: str, body: Document) -> Document:
        """Make it; a name that is taken is refused."""
        lost = await self._begin("create", path)
        made = self.put(path, body)
        return self._answer(made, lost=lost)

    async def patch(
        self,
        path: str,
        body: Document,
        content_type: str = ports.MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> Document:
        """Merge; metadata that differs is refused."""
        lost = await self._begin("patch", path)
        assert (content_type, params) == (ports.MERGE_PATCH, None)
        metadata = self._stored(path)["metadata"]
        for name in ("uid", "resourceVersion"):
            self._check(body["metadata"].get(name), metadata[name])
        return self._answer(self.change(path, body), lost=lost)

    async def delete(self, path: str, preconditions: Preconditions) -> None:
        """Delete that object only."""
        lost = await self._begin("delete", path)
        metadata = self._stored(path)["metadata"]
        self._check(preconditions.uid, metadata["uid"])
        self._check(preconditions.resource_version, metadata["resourceVersion"])
        self.drop(path)
        self._answer({}, lost=lost)

    def put(self, collection: str, body: Document) -> Document:
        """Make an object; a name that is taken is refused."""
        path = f"{collection}/{body['metadata']['name']}"
        if path in self.objects:
            raise RefusedError(Trouble.EXISTS, "already exists")
        version, kind = KINDS[collection]
        made = deepcopy(body) | {"apiVersion": version, "kind": kind}
        made["metadata"] |= {"namespace": "ns", "resourceVersion": self._number()}
        made["metadata"].setdefault("uid", f"uid-{self._number()}")
        self.objects[path] = made
        self.watch("ADDED", made)
        return made

    def change(self, path: str, body: Document) -> Document:
        """Merge a patch into an object; what changes nothing makes no version."""
        before = self.objects[path]
        merged = _merge(before, body)
        if merged != before:
            merged["metadata"]["resourceVersion"] = self._number()
            self.objects[path] = merged
            self.watch("MODIFIED", merged)
        return merged

    def drop(self, path: str) -> None:
        """Delete an object."""
        self.watch("DELETED", self.objects.pop(path))

    def asked(self, method: str) -> Counter[str]:
        """How many calls of a method went to each path."""
        return Counter(path for each, path in self.calls if each == method)

    async def _begin(self, method: str, path: str) -> bool:
        """Let others have their turn; whether the answer will be lost."""
        await asyncio.sleep(0)
        self.calls.append((method, path))
        if (method, path) in self.late:
            await self.late[method, path].wait()
        self.before(method, path)
        due = self.refusals.get((method, path))
        trouble = due.pop(0) if due else None
        if trouble is None or trouble is Trouble.UNANSWERED:
            return trouble is not None
        raise RefusedError(trouble, self.refusal)

    def _answer(self, found: Document, *, lost: bool) -> Document:
        if lost:
            raise RefusedError(Trouble.UNANSWERED, "lost")
        return deepcopy(found)

    def _stored(self, path: str) -> Document:
        if path not in self.objects:
            raise RefusedError(Trouble.MISSING, "not found")
        return self.objects[path]

    def _check(self, asked: str | None, found: str) -> None:
        if asked is not None and asked != found:
            raise RefusedError(Trouble.CONFLICT, f"{asked} is {found}")

    def _number(self) -> str:
        return str(next(self.numbers))


def _merge(stored: Document, patch: Document) -> Document:
    """RFC 7386."""
    merged = dict(stored)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            before = merged.get(name)
            merged[name] = _merge(before if isinstance(before, dict) else {}, value)
        else:
            merged[name] = value
    return merged


@dataclass
class World:
    """A server, and a controller that follows it."""

    server: Server
    mirror: Mirror
    known: Owners
    controller: PodGroupController
    counted: Counter[tuple[str, str]]
    noticed: list[EventNotice]
    deaf: bool = False
    """Whether watches are late: nothing is shown any more."""

    def show(self, change: str, found: Document) -> None:
        """Let the watches show a change."""
        if self.deaf:
            return
        item = msgspec.json.encode(found)
        if found["kind"] == "ReplicaSet":
            codec = owners.Codec(owners.OwnerKind.REPLICA_SET)
            self.feed(codec.change(change, item))
            return
        kind = events.kind_of(found)
        assert kind is not None
        for event in informers.Codec(kind, self.mirror.read).change(change, item):
            self.mirror.apply(event)
        self.controller.changed()

    def feed(self, batch: Sequence[Event]) -> None:
        """Let the watches show what happened to owners."""
        self.controller.follow([seen for event in batch for seen in self.known.apply(event)])

    def a_pod(self, name: str, owner: Document | None = None, **more: Any) -> Document:
        """A pod of one cpu without a group; `more` of its spec."""
        metadata: Document = {"name": name, "uid": f"pod-{name}", "annotations": {}}
        if owner is not None:
            metadata["ownerReferences"] = [reference(owner)]
        container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "vscheduler", "containers": [container], **more}
        return self.server.put(PODS, {"metadata": metadata, "spec": spec})

    def a_replica_set(
        self, name: str, replicas: int, annotations: dict[str, str] | None = None
    ) -> Document:
        """A ReplicaSet; nobody makes its pods."""
        metadata = {"name": name, "uid": f"rs-{name}", "annotations": annotations or {}}
        return self.server.put(REPLICA_SETS, {"metadata": metadata, "spec": {"replicas": replicas}})

    def annotate_namespace(self, annotations: dict[str, str]) -> None:
        """Let the watch show the namespace with these annotations."""
        body = {"metadata": {"name": "ns", "annotations": annotations}}
        self.mirror.apply(events.convert(events.Kind.NAMESPACE, body))
        self.controller.changed()

    def a_native_group(
        self, name: str, owner: Document | None = None, queue: str = "", **spec: Any
    ) -> Document:
        """A PodGroup of Kubernetes' own API."""
        metadata: Document = {"name": name, "uid": f"group-{name}", "annotations": {}}
        if owner is not None:
            metadata["ownerReferences"] = [reference(owner)]
        if queue:
            metadata["annotations"][translation.QUEUE] = queue
        return self.server.put(NATIVE, {"metadata": metadata, "spec": spec})

    def a_member(self, name: str, group: str, owner: Document | None = None, **more: Any) -> None:
        """A pod of such a PodGroup; `more` of its spec."""
        self.a_pod(name, owner, schedulingGroup={"podGroupName": group}, **more)

    def queue_of(self, group: str) -> str | None:
        """The queue with which such a PodGroup is annotated."""
        metadata = self.server.objects[f"{NATIVE}/{group}"]["metadata"]
        found: str | None = metadata["annotations"].get(translation.QUEUE)
        return found

    def scale(self, name: str, replicas: int) -> None:
        """Scale a ReplicaSet."""
        self.server.change(f"{REPLICA_SETS}/{name}", {"spec": {"replicas": replicas}})

    def groups(self) -> dict[str, Document]:
        """PodGroups by name."""
        return {
            each["metadata"]["name"]: each
            for each in self.server.objects.values()
            if (each["apiVersion"], each["kind"]) == KINDS[GROUPS]
        }

    def group_of(self, pod: str) -> str | None:
        """What a pod is annotated with."""
        metadata = self.server.objects[f"{PODS}/{pod}"]["metadata"]
        found: str | None = metadata["annotations"].get("scheduling.k8s.io/group-name")
        return found

    async def rest(self, seconds: float = 0.15) -> None:
        """Until for some time no call was made."""
        await patience.until_at_rest(lambda: len(self.server.calls), seconds)


def reference(owner: Document) -> Document:
    """The owner reference of a controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def name_of(owner: Document) -> str:
    """The name of an owner's automatic group."""
    metadata = owner["metadata"]
    return pod_owners.automatic_name(metadata["name"], metadata["uid"], "vscheduler")


def name_of_bare(pod: str) -> str:
    """The name of the automatic group of a bare pod."""
    return pod_owners.automatic_name(pod, f"pod-{pod}", "vscheduler")


@asynccontextmanager
async def world(
    *, grace_seconds: float = 30.0, schedulers: tuple[str, ...] = ("vscheduler",)
) -> AsyncIterator[World]:
    """A running controller on an empty cluster."""
    counted: Counter[tuple[str, str]] = Counter()
    noticed: list[EventNotice] = []
    mirror = Mirror(state.Options(scheduler_names=schedulers))
    server = Server()
    known = Owners()
    controller = PodGroupController(
        PodGroupLister(mirror, known, schedulers),
        server,
        Backoff[str](GROWTH),
        podgroup_controller.Options(schedulers=schedulers, grace_seconds=grace_seconds),
        outlets=Outlets(
            observe=lambda action, outcome: counted.update([(action, outcome)]),
            notify=noticed.append,
        ),
        pace=PACE,
    )
    made = World(
        server=server,
        mirror=mirror,
        known=known,
        controller=controller,
        counted=counted,
        noticed=noticed,
    )
    server.watch = made.show
    mirror.apply(Replace(kind=events.Kind.POD, found={}))
    made.feed([Listed(kind, ()) for kind in owners.OwnerKind])
    task = asyncio.create_task(controller.run())
    try:
        yield made
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
