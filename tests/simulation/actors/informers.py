"""What actors know of the cluster: caches that follow the API server by list and watch."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tests.simulation.actors.base import Clock, Key, Object
from tests.simulation.api_server.server import Answer, ApiServer, Request, Watch
from tests.simulation.judges import amounts, objects
from tests.simulation.judges.amounts import Amounts

RETRY_SECONDS = 1.0
GROUPS = {
    "pods": "/api/v1",
    "nodes": "/api/v1",
    "podgroups": "/apis/scheduling.volcano.sh/v1beta1",
    "queues": "/apis/scheduling.volcano.sh/v1beta1",
    "jobs": "/apis/batch/v1",
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "namespaces": "/api/v1",
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
    "persistentvolumeclaims": "/api/v1",
    "persistentvolumes": "/api/v1",
    "storageclasses": "/apis/storage.k8s.io/v1",
    "csinodes": "/apis/storage.k8s.io/v1",
    "csidrivers": "/apis/storage.k8s.io/v1",
    "csistoragecapacities": "/apis/storage.k8s.io/v1",
    "volumeattachments": "/apis/storage.k8s.io/v1",
    "podgroups.scheduling.k8s.io": "/apis/scheduling.k8s.io/v1beta1",
    "compositepodgroups": "/apis/scheduling.k8s.io/v1alpha3",
    "resourceclaims": "/apis/resource.k8s.io/v1",
    "resourceclaimtemplates": "/apis/resource.k8s.io/v1",
    "resourceslices": "/apis/resource.k8s.io/v1",
    "hypernodes": "/apis/topology.volcano.sh/v1alpha1",
    "deviceclasses": "/apis/resource.k8s.io/v1",
}
FOLLOWED = (
    *("pods", "nodes", "podgroups", "queues", "jobs", "deployments", "replicasets"),
    *("statefulsets", "poddisruptionbudgets"),
)
STORAGE = (
    *("persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes"),
    *("csistoragecapacities", "volumeattachments"),
)
"""Followed where there are volumes."""
DEVICES = ("resourceclaims", "resourceclaimtemplates", "resourceslices")
"""Followed where there are devices."""

Listener = Callable[[Object | None, Object | None], None]
"""Called with an object before and after a change, while the change is made: must not write."""


def path(plural: str, namespace: str = "", name: str = "", part: str = "") -> str:
    """The path of a collection, an object, or a part of an object."""
    within = ("namespaces", namespace) if namespace else ()
    parts = [GROUPS[plural], *within, plural.partition(".")[0], name, part]
    return "/".join(filter(None, parts))


def path_of(plural: str, found: Object, part: str = "") -> str:
    """The path of an object that exists."""
    return path(plural, *objects.key_of(found), part)


class Informer:
    """The objects of a kind, as the API server last told."""

    def __init__(self, server: ApiServer, clock: Clock, plural: str) -> None:
        self._server = server
        self._clock = clock
        self._plural = plural
        self._listeners: list[Listener] = []
        self._watches = 0
        self.objects: dict[Key, Object] = {}

    def subscribe(self, listener: Listener) -> None:
        """Be told of each change from now on."""
        self._listeners.append(listener)

    def start(self) -> None:
        """List and watch, again and again."""
        answer = self._ask({})
        if not isinstance(answer, Answer) or answer.status != 200:
            self._retry()
            return
        body = msgspec.json.decode(answer.body)
        known = {"apiVersion": body["apiVersion"], "kind": body["kind"].removesuffix("List")}
        found = {objects.key_of(each): {**known, **each} for each in body["items"] or ()}
        for key in [each for each in self.objects if each not in found]:
            self._set(key, None)
        for key, each in found.items():
            self._set(key, each)
        version = body["metadata"]["resourceVersion"]
        watch = self._ask({"watch": "true", "resourceVersion": version})
        if not isinstance(watch, Watch):
            self._retry()
            return
        self._watches += 1
        number = self._watches
        watch.start(self._event, lambda: self._retry() if number == self._watches else None)

    def _ask(self, query: dict[str, str]) -> Answer | Watch:
        request = Request(
            method="GET", path=path(self._plural), query=query, headers={}, body=b"", user="actors"
        )
        return self._server.ask(request)

    def _retry(self) -> None:
        self._clock.after(RETRY_SECONDS, self.start)

    def _event(self, line: bytes) -> None:
        event = msgspec.json.decode(line)
        kind, found = event["type"], event["object"]
        if kind == "ERROR":
            self._watches += 1
            self._retry()
        elif kind != "BOOKMARK":
            self._set(objects.key_of(found), None if kind == "DELETED" else found)

    def _set(self, key: Key, after: Object | None) -> None:
        before = self.objects.get(key)
        if after is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = after
        for listener in self._listeners:
            listener(before, after)


class Store:
    """Everything that actors follow, with the indexes that several of them need."""

    def __init__(self, server: ApiServer, clock: Clock, followed: Sequence[str] = FOLLOWED) -> None:
        self.followed = followed
        self._informers = {each: Informer(server, clock, each) for each in followed}
        self.pods_on: defaultdict[str, dict[Key, Object]] = defaultdict(dict)
        """Pods that haven't ended, by node."""
        self.used: defaultdict[str, Amounts] = defaultdict(Counter)
        """What those pods request, by node."""
        self.dependents: defaultdict[str, dict[tuple[str, Key], Object]] = defaultdict(dict)
        """Objects, by plural and key, by the UID of each of their owners."""
        self._rooms: dict[str, tuple[Object, Amounts]] = {}
        self.on("pods", self._locate)
        for plural in followed:
            self.on(plural, self._own(plural))

    def start(self) -> None:
        """Follow all kinds."""
        for informer in self._informers.values():
            informer.start()

    def on(self, plural: str, listener: Listener) -> None:
        """Be told of each change of a kind from now on."""
        self._informers[plural].subscribe(listener)

    def all(self, plural: str) -> list[Object]:
        """The objects of a kind, in the order in which they were first seen."""
        return list(self._informers[plural].objects.values())

    def get(self, plural: str, key: Key) -> Object | None:
        """An object, if it exists."""
        return self._informers[plural].objects.get(key)

    def exists(self, plural: str, uid: str, key: Key) -> bool:
        """Whether this very object exists."""
        found = self.get(plural, key)
        return found is not None and found["metadata"]["uid"] == uid

    def owned(self, owner: Object, plural: str) -> list[Object]:
        """The objects of a kind that an owner has."""
        known = self.dependents.get(owner["metadata"]["uid"], {})
        return [each for (kind, _), each in known.items() if kind == plural]

    def room(self, node: Object) -> Amounts:
        """What is allocatable on a node."""
        name = node["metadata"]["name"]
        known = self._rooms.get(name)
        if known is None or known[0] is not node:
            known = self._rooms[name] = node, amounts.amounts(node["status"]["allocatable"])
        return known[1]

    def _locate(self, before: Object | None, after: Object | None) -> None:
        if before is not None and objects.holds(before):
            name = objects.node_of(before)
            self.pods_on[name].pop(objects.key_of(before), None)
            self.used[name].subtract(amounts.request(before))
        if after is not None and objects.holds(after):
            name = objects.node_of(after)
            self.pods_on[name][objects.key_of(after)] = after
            self.used[name].update(amounts.request(after))

    def _own(self, plural: str) -> Listener:
        def changed(before: Object | None, after: Object | None) -> None:
            for uid in owners(before):
                known = self.dependents[uid]
                assert before is not None
                known.pop((plural, objects.key_of(before)), None)
                if not known:
                    del self.dependents[uid]
            for uid in owners(after):
                assert after is not None
                self.dependents[uid][plural, objects.key_of(after)] = after

        return changed


def owners(found: Object | None) -> Iterable[str]:
    """The UIDs of an object's owners, each once."""
    references = found["metadata"].get("ownerReferences") or () if found is not None else ()
    return dict.fromkeys(reference["uid"] for reference in references)
