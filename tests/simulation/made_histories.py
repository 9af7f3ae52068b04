"""Histories made by hand, for tests of the judges."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation import judges

Object = dict[str, Any]
LEASE_SECONDS = 15
SETTINGS = judges.Settings(schedulers=("volcano",))
CONTROLLERS = "vscheduler-controllers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A request, as histories have it."""

    at: float
    verb: str
    resource: str
    before: Object | None
    after: Object | None
    origin: str = ""
    user: str = "somebody"
    manager: str = ""
    subresource: str = ""
    code: int = 200

    @property
    def _found(self) -> Object:
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def namespace(self) -> str:
        """Of the object."""
        return str(self._found["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        """Of the object."""
        return str(self._found["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(self._found["metadata"]["uid"])


class History:
    """Changes, written one after the other, with the objects as they are by then."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.now = 1000.0
        self._objects: dict[tuple[str, str], Object] = {}
        self._courts: dict[int, tuple[judges.Court, int]] = {}
        """Courts that follow the history, and how much they have seen, by their settings."""

    def put(self, resource: str, after: Object, origin: str = "", **more: Any) -> None:
        """Create or change an object."""
        key = resource, after["metadata"]["name"]
        before = self._objects.get(key)
        verb = more.pop("verb", "update" if before else "create")
        self._objects[key] = after
        self._add(verb=verb, resource=resource, before=before, after=after, origin=origin, **more)

    def drop(self, resource: str, name: str, origin: str = "") -> None:
        """Delete an object, so that it is gone at once."""
        before = self._objects.pop((resource, name))
        self._add(verb="delete", resource=resource, before=before, after=None, origin=origin)

    def bind(self, name: str, node: str, origin: str = "a") -> None:
        """Bind a pod."""
        found = self._objects["pods", name]
        bound = {**found, "spec": {**found["spec"], "nodeName": node}}
        self.put("pods", bound, origin, verb="bind", subresource="binding")

    def runs(self, name: str, phase: str = "Running") -> None:
        """The kubelet starts a pod, or ends it."""
        self.put("pods", {**self._objects["pods", name], "status": {"phase": phase}})

    def evict(self, name: str, origin: str = "a", code: int = 201) -> None:
        """Evict a pod, which then terminates."""
        found = self._objects["pods", name]
        metadata = {**found["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        gone = {**found, "metadata": metadata} if code < 300 else found
        self.put("pods", gone, origin, verb="evict", subresource="eviction", code=code)

    def lease(self, name: str, holder: str, origin: str) -> None:
        """Write a Lease."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": LEASE_SECONDS}
        self.put("leases", {"metadata": meta(name), "spec": spec}, origin)

    def leads(self, origin: str) -> None:
        """Let a process take or renew both Leases."""
        for name in ("volcano", CONTROLLERS):
            self.lease(name, f"{origin}-id", origin)

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def broken(self, settings: judges.Settings = SETTINGS) -> list[str]:
        """The rules that are broken."""
        return [each.rule for each in judges.always(self.changes, settings)]

    def wrong(
        self,
        calm_since: float = 0.0,
        *,
        view: judges.View | None = None,
        settings: judges.Settings = SETTINGS,
    ) -> list[str]:
        """The rules that are broken at rest, now.

        Whoever has followed the history, and remembers what it said before, says the same.
        """
        views = [] if view is None else [view]
        found = judges.at_rest(
            self.changes, settings, at=self.now, calm_since=calm_since, views=views
        )
        court, seen = self._courts.get(id(settings)) or (judges.court(settings), 0)
        list(court.see(self.changes[seen:]))
        self._courts[id(settings)] = court, len(self.changes)
        remembered = judges.at_end(
            court.cluster, settings, at=self.now, calm_since=calm_since, views=views
        )
        assert remembered == found[: len(remembered)]
        return [each.rule for each in found]

    def _add(self, **fields: Any) -> None:
        self.changes.append(Change(at=self.now, **fields))


def meta(name: str, **more: Any) -> Object:
    """Metadata without a namespace."""
    return {"name": name, "uid": f"uid-{name}", **more}


def pod(name: str, group: str = "gang", cpu: str = "1", **spec: Any) -> Object:
    """A pod that waits."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    return {
        "metadata": meta(name, namespace="n", labels={"app": group}, annotations=annotations),
        "spec": {"schedulerName": "volcano", "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def told(name: str, message: str = "why") -> Object:
    """A pod that says why it waits."""
    made = pod(name)
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    made["status"]["conditions"] = [condition]
    return made


def node(name: str = "n1", cpu: str = "4", **spec: Any) -> Object:
    """A node that is ready."""
    return {
        "metadata": meta(name),
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def group(minimum: int, name: str = "gang", phase: str = "Pending", **status: Any) -> Object:
    """A PodGroup of Queue q."""
    return {
        "metadata": meta(name, namespace="n"),
        "spec": {"minMember": minimum, "queue": "q"},
        "status": {"phase": phase, **status},
    }


def queue(capability: Mapping[str, str] | None = None, **status: Any) -> Object:
    """An open Queue that has no PodGroups."""
    zero = dict.fromkeys(("pending", "inqueue", "running", "unknown", "completed"), 0)
    held = {"allocated": {"cpu": "0", "memory": "0"}}
    return {
        "metadata": meta("q", finalizers=["vscheduler.io/in-use"]),
        "spec": {"capability": dict(capability or {})},
        "status": {"state": "Open", **zero, **held, **status},
    }


def started(minimum: int, pods: int, **more: Any) -> History:
    """A cluster of one node and one Queue, a leader, and a gang that waits."""
    history = History()
    history.put("nodes", node(**more))
    history.put("queues", queue())
    history.put("podgroups", group(minimum))
    for number in range(pods):
        history.put("pods", pod(f"p{number}"))
    history.later(60)
    history.leads("a")
    return history
