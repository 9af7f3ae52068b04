"""A small API server for Queues, PodGroups and Commands: versions, preconditions, finalizers."""

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from vscheduler.controllers import ports
from vscheduler.controllers.followed_objects import Event, FollowedObjects
from vscheduler.controllers.ports import Object, Preconditions, RefusedError, Trouble
from vscheduler.controllers.queues import queue_objects
from vscheduler.controllers.queues.queue_objects import FollowedKind
from vscheduler.mirror import paths
from vscheduler.mirror.translate import translation
from vscheduler.model import jobs

MANAGED = ("state", *queue_objects.COUNTERS, "conditions")
GROUPS = paths.POD_GROUPS.within("default")
NATIVE = paths.NATIVE_POD_GROUPS.within("default")
COMMANDS = paths.COMMANDS.within("default")


VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


class Server:
    """Objects by path; what is written is told to whoever listens, at once."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.calls: list[tuple[str, str]] = []
        self.refuse: Callable[[str, str, Any], None] = lambda *_: None
        """Called before each call with method, path and body: may raise."""
        self.questions = 0
        """How often it was asked what it offers."""
        self.offers: dict[str, tuple[str, ...]] = {"queues": VERBS, "podgroups": VERBS}
        """What discovery says of kinds."""
        self.native: Trouble | None = Trouble.MISSING
        """Why PodGroups of Kubernetes' own API can't be listed."""
        self.silent = False
        """Whether discovery isn't answered."""
        self.listeners: list[Callable[[str, Object, bool], None]] = []
        """Told of each object's path and content, and whether it has gone."""
        self._numbers = itertools.count(1)

    @property
    def writes(self) -> list[tuple[str, str]]:
        """Calls that change something."""
        return [call for call in self.calls if call[0] not in {"get", "list"}]

    def put(self, path: str, body: Object) -> Object:
        """Store an object as somebody else would."""
        before = self.objects.get(path)
        stored: Object = copy.deepcopy(body)
        metadata = stored["metadata"]
        metadata["name"] = path.rpartition("/")[2]
        number = next(self._numbers)
        uid = before["metadata"]["uid"] if before else f"uid-{number}"
        metadata |= {"uid": uid, "resourceVersion": str(number)}
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.objects.pop(path, None)
            self._tell(path, stored, "DELETED")
            return stored
        self.objects[path] = stored
        self._tell(path, stored, "MODIFIED" if before else "ADDED")
        return copy.deepcopy(stored)

    def edit(self, path: str, patch: Mapping[str, Any]) -> Object:
        """A merge patch by somebody else."""
        return self.put(path, merged(self.objects[path], patch))

    def remove(self, path: str) -> None:
        """A delete by somebody else: what has finalizers stays for a while."""
        self.edit(path, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})

    async def get(self, path: str) -> Object:
        """One object; or what is offered."""
        if path == paths.version(paths.VOLCANO):
            self.questions += 1
            if self.silent:
                raise RefusedError(Trouble.UNANSWERED, "no")
            found = [{"name": name, "verbs": [*verbs]} for name, verbs in self.offers.items()]
            return {"resources": found}
        self._called("get", path)
        return copy.deepcopy(self._found(path))

    async def list(
        self, path: str, params: Mapping[str, str] | None = None, *, metadata_only: bool = False
    ) -> list[Object]:
        """All of a collection; PodGroups are in one namespace."""
        del params, metadata_only
        self._called("list", path)
        if path.rpartition("/")[2] not in self.offers and "commands" not in path:
            raise RefusedError(Trouble.MISSING, f"no {path}")
        if path == paths.NATIVE_POD_GROUPS.everywhere and self.native is not None:
            raise RefusedError(self.native, f"no {path}")
        prefix: str = path
        if path in (paths.POD_GROUPS.everywhere, paths.NATIVE_POD_GROUPS.everywhere):
            prefix = GROUPS if path == paths.POD_GROUPS.everywhere else NATIVE
        return [
            copy.deepcopy(each)
            for at, each in self.objects.items()
            if at.rpartition("/")[0] == prefix
        ]

    async def create(self, path: str, body: Object) -> Object:
        """A new object."""
        self._called("create", path, body)
        at = f"{path}/{body['metadata']['name']}"
        if at in self.objects:
            raise RefusedError(Trouble.EXISTS, f"{at} exists")
        return self.put(at, body)

    async def patch(
        self,
        path: str,
        body: Object,
        content_type: str = ports.MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """A merge patch under its preconditions, or an apply of the controller's status."""
        del params
        self._called("patch", path, body)
        at = path.removesuffix("/status")
        stored = self._found(at)
        for name in ("uid", "resourceVersion"):
            wanted = body["metadata"].get(name, stored["metadata"][name])
            if wanted != stored["metadata"][name]:
                raise RefusedError(Trouble.CONFLICT, f"{at} is another {name}")
        if content_type != ports.APPLY_PATCH:
            return self.put(at, merged(stored, body))
        others = {k: v for k, v in stored.get("status", {}).items() if k not in MANAGED}
        return self.put(at, {**stored, "status": {**others, **body.get("status", {})}})

    async def delete(self, path: str, preconditions: Preconditions) -> None:
        """Delete that very object."""
        self._called("delete", path)
        if self._found(path)["metadata"]["uid"] != preconditions.uid:
            raise RefusedError(Trouble.CONFLICT, f"{path} is another")
        self.remove(path)

    def _called(self, method: str, path: str, body: Any = None) -> None:
        self.calls.append((method, path.removeprefix("/apis/")))
        self.refuse(method, path, body)

    def _found(self, path: str) -> Object:
        if path not in self.objects:
            raise RefusedError(Trouble.MISSING, f"no {path}")
        return self.objects[path]

    def _tell(self, path: str, stored: Object, change: str) -> None:
        for listener in self.listeners:
            listener(path, copy.deepcopy(stored), change == "DELETED")


class Indexed:
    """What a server has at first, and what it tells of from then on; the deaf hear of no PodGroups
    then.
    """

    def __init__(self, server: Server, notice: Callable[[], None], *, deaf: bool = False) -> None:
        self._followed = FollowedObjects()
        self.indices = self._followed.indices
        self._server = server
        self._notice = notice
        self._deaf = deaf
        follow(server, self._followed.take)
        server.listeners[-1] = self.hear

    def hear(self, path: str, stored: Object, gone: bool) -> None:
        """Take an event."""
        if not self._deaf or "podgroups" not in path:
            self._followed.take(*_event(path, stored, gone=gone))
            self._notice()

    def forget(self, uid: str) -> None:
        """Have missed an object."""
        for kind in FollowedKind:
            event = {"type": "DELETED", "object": {"metadata": {"uid": uid}}}
            self._followed.take(kind, event)

    def close(self) -> None:
        """Hear no more."""
        self._server.listeners.remove(self.hear)


def follow(server: Server, take: Callable[[FollowedKind, Event], None]) -> None:
    """Let this take what a server has, and what it tells of from then on."""
    for path, stored in server.objects.items():
        take(*_event(path, stored, gone=False))
    server.listeners.append(lambda path, stored, gone: take(*_event(path, stored, gone=gone)))


def _event(path: str, stored: Object, *, gone: bool) -> tuple[FollowedKind, Event]:
    collection = path.rpartition("/")[0]
    native = collection == NATIVE
    kind = FollowedKind.NATIVE_POD_GROUP if native else FollowedKind(collection.rpartition("/")[2])
    return kind, {"type": "DELETED" if gone else "MODIFIED", "object": stored}


def merged(body: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(body) if isinstance(body, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def a_queue(server: Server, name: str, **spec: Any) -> str:
    """A Queue; its path."""
    path = f"{paths.QUEUES.everywhere}/{name}"
    server.put(path, {"metadata": {}, "spec": {"weight": 1, **spec}})
    return path


def a_group(server: Server, name: str, queue: str, phase: str = "") -> str:
    """A PodGroup; its path."""
    path = f"{GROUPS}/{name}"
    server.put(path, {"metadata": {}, "spec": {"queue": queue}, "status": {"phase": phase}})
    return path


def a_native_group(server: Server, name: str, queue: str, phase: str = "") -> str:
    """A PodGroup of Kubernetes' own API; its path."""
    path = f"{NATIVE}/{name}"
    metadata = {"namespace": "default", "annotations": {translation.QUEUE: queue}}
    conditions = [{"type": jobs.PHASE, "reason": phase}] if phase else []
    server.put(path, {"metadata": metadata, "spec": {}, "status": {"conditions": conditions}})
    return path


def a_command(server: Server, name: str, action: str, queue: str, uid: str = "") -> str:
    """A Command to a Queue; its path."""
    path = f"{COMMANDS}/{name}"
    target = {"kind": "Queue", "name": queue, "uid": uid}
    metadata = {"namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    server.put(path, {"metadata": metadata, "action": action, "target": target})
    return path


def status_of(server: Server, name: str) -> Mapping[str, Any]:
    """A Queue's status; empty where there is no such Queue."""
    stored = server.objects.get(f"{paths.QUEUES.everywhere}/{name}", {})
    status: Mapping[str, Any] = stored.get("status", {})
    return status


def state_of(server: Server, name: str) -> str:
    """A Queue's state."""
    return str(status_of(server, name).get("state", ""))
