"""Controllers of Kubernetes: each keeps what it owns as its objects want it."""

import functools
import json
import random
import string
import zlib
from collections.abc import Callable, Sequence

from tests.simulation.actors import base, objects
from tests.simulation.actors.base import Actor, Clock, Key, Object
from tests.simulation.actors.informers import Store, path, path_of
from tests.simulation.api_server.client import Client
from tests.simulation.judges import objects as reading

LETTERS = string.ascii_lowercase + string.digits
REACTION_SECONDS = (0.02, 0.3)
RETIREMENT_SECONDS = 20.0
ENDED_SECONDS = 60.0
"""How long ended pods of a ReplicaSet are kept."""


class Controller(Actor):
    """Reconciles the objects of a kind whenever they, or what they own, have changed."""

    kind = ""
    """The plural."""
    owns: Sequence[str] = ("pods",)

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance)
        self.store = store
        self._due: set[tuple[Key, float | None]] = set()
        """Objects to reconcile, and after how many seconds; None: soon."""
        self._failed = False
        store.on(self.kind, self._own)
        for plural in self.owns:
            store.on(plural, self._owned)

    def start(self) -> None:
        """Begin with the objects that exist."""
        super().start()
        self._due.clear()
        for each in self.store.all(self.kind):
            self.mark(reading.key_of(each))

    def reconcile(self, found: Object) -> None:
        """Take the next steps for an object."""
        raise NotImplementedError

    def mark(self, key: Key, seconds: float | None = None) -> None:
        """Reconcile an object soon, or so much later; once for all who want the same."""
        if not self.active or (key, seconds) in self._due:
            return
        self._due.add((key, seconds))
        delay = self.chance.uniform(*REACTION_SECONDS) if seconds is None else seconds
        self.later(delay, lambda: self._turn(key, seconds))

    def create(self, plural: str, namespace: str, body: Object) -> bool:
        """Create an object; whether the API server took it, or has it."""
        where = path(plural, namespace)
        return self._ask(lambda: self.client.create(where, body))

    def remove(self, plural: str, found: Object) -> None:
        """Delete this very object."""
        where, uid = path_of(plural, found), found["metadata"]["uid"]
        self._ask(lambda: self.client.delete(where, preconditions={"uid": uid}))

    def tell(self, found: Object, status: Object) -> None:
        """Write a status, if it differs."""
        known = found.get("status") or {}
        if any(known.get(name) != value for name, value in status.items()):
            where = path_of(self.kind, found, "status")
            self._ask(lambda: self.client.patch(where, {"status": status}))

    def suffix(self) -> str:
        """Five characters, as of generated names."""
        return "".join(self.chance.choices(LETTERS, k=5))

    def _ask(self, call: Callable[[], object]) -> bool:
        """Make a request; after a refusal, the object is reconciled again."""
        self.attempt(call)
        self._failed = self._failed or bool(self.refused)
        return not self.refused

    def _turn(self, key: Key, seconds: float | None) -> None:
        self._due.discard((key, seconds))
        found = self.store.get(self.kind, key)
        if found is None or reading.leaving(found):
            return
        self._failed = False
        self.reconcile(found)
        if self._failed:
            self.mark(key, base.RETRY_SECONDS)

    def _own(self, before: Object | None, after: Object | None) -> None:
        del before
        if after is not None:
            self.mark(reading.key_of(after))

    def _owned(self, before: Object | None, after: Object | None) -> None:
        found = after or before
        assert found is not None
        for each in found["metadata"].get("ownerReferences") or ():
            key = found["metadata"].get("namespace", ""), each["name"]
            if self.store.exists(self.kind, each["uid"], key):
                self.mark(key)


class ReplicaSets(Controller):
    """Keep so many pods alive: new names for those that are gone."""

    kind = "replicasets"

    def reconcile(self, found: Object) -> None:
        """Create or delete pods."""
        pods = self.store.owned(found, "pods")
        live = [pod for pod in pods if not reading.ended(pod) and not reading.leaving(pod)]
        wanted = int(found["spec"].get("replicas", 1))
        key = reading.key_of(found)
        for _ in range(wanted - len(live)):
            name = f"{found['metadata']['name']}-{self.suffix()}"
            body = objects.pod(name, found["spec"]["template"], found)
            if not self.create("pods", key[0], body):
                return
        for each in sorted(live, key=_keep)[wanted:]:
            self.remove("pods", each)
        self.tell(found, {"replicas": len(live), "readyReplicas": sum(map(_runs, live))})
        for pod in pods:
            if reading.ended(pod) and not reading.leaving(pod):
                self.later(ENDED_SECONDS, functools.partial(self._clear, pod))

    def _clear(self, pod: Object) -> None:
        if self.store.exists("pods", pod["metadata"]["uid"], reading.key_of(pod)):
            self.remove("pods", pod)


class Deployments(Controller):
    """Keep one ReplicaSet for the present template; the earlier ones go down to nothing."""

    kind = "deployments"
    owns = ("replicasets",)

    def reconcile(self, found: Object) -> None:
        """Create or scale ReplicaSets."""
        spec = found["spec"]
        digest = f"{zlib.crc32(json.dumps(spec['template'], sort_keys=True).encode()):08x}"
        name, key = f"{found['metadata']['name']}-{digest}", reading.key_of(found)
        sets = self.store.owned(found, "replicasets")
        replicas = int(spec.get("replicas", 1))
        current = [each for each in sets if each["metadata"]["name"] == name]
        for each in sets:
            self._scale(each, replicas if each in current else 0)
            if each not in current:
                self._retire(each)
                self.mark(key, RETIREMENT_SECONDS)
        if not current:
            body = {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name, "ownerReferences": [objects.reference(found)]},
                "spec": {field: spec[field] for field in ("replicas", "selector", "template")},
            }
            self.create("replicasets", key[0], body)

    def _scale(self, found: Object, replicas: int) -> None:
        if found["spec"].get("replicas") != replicas:
            where = path_of("replicasets", found)
            self._ask(lambda: self.client.patch(where, {"spec": {"replicas": replicas}}))

    def _retire(self, found: Object) -> None:
        """Delete a ReplicaSet of an earlier template once it is empty."""
        if not found["spec"].get("replicas") and not self.store.owned(found, "pods"):
            self.remove("replicasets", found)


class Jobs(Controller):
    """Run so many pods at once, until so many have succeeded or too many have failed."""

    kind = "jobs"

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance, store=store)
        self._ended: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        """UIDs of pods that succeeded and failed, by the Job's UID: they count once they are gone,
        too."""

    def reconcile(self, found: Object) -> None:
        """Create or delete pods, and say when it is over."""
        pods, spec, key = self.store.owned(found, "pods"), found["spec"], reading.key_of(found)
        good, bad = self._ended.setdefault(found["metadata"]["uid"], ({}, {}))
        for pod in pods:
            if reading.ended(pod):
                done = good if reading.phase(pod) == "Succeeded" else bad
                done[pod["metadata"]["uid"]] = None
        live = [pod for pod in pods if not reading.ended(pod) and not reading.leaving(pod)]
        if finished(found):
            for each in live:
                self.remove("pods", each)
            return
        left = int(spec.get("completions") or spec["parallelism"]) - len(good)
        outcome = "Failed" if len(bad) > int(spec.get("backoffLimit", 6)) else ""
        outcome = outcome or ("Complete" if left <= 0 else "")
        wanted = 0 if outcome else min(int(spec["parallelism"]), left)
        for _ in range(wanted - len(live)):
            body = objects.pod(f"{key[1]}-{self.suffix()}", spec["template"], found)
            if not self.create("pods", key[0], body):
                break
        for each in sorted(live, key=_keep)[wanted:]:
            self.remove("pods", each)
        status: Object = {"active": wanted, "succeeded": len(good), "failed": len(bad)}
        if outcome:
            status["conditions"] = [{"type": outcome, "status": "True"}]
        self.tell(found, status)

    def _own(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:
            self._ended.pop(before["metadata"]["uid"], None)
        super()._own(before, after)


class StatefulSets(Controller):
    """Keep pods with fixed names; each name comes back once its pod is gone."""

    kind = "statefulsets"

    def reconcile(self, found: Object) -> None:
        """Create what is missing, in order unless all may come at once."""
        pods = {each["metadata"]["name"]: each for each in self.store.owned(found, "pods")}
        key, spec = reading.key_of(found), found["spec"]
        names = [f"{key[1]}-{number}" for number in range(int(spec.get("replicas", 1)))]
        parallel = spec.get("podManagementPolicy") == "Parallel"
        for name in names:
            pod = pods.pop(name, None)
            if pod is None:
                self._create_pod(found, name)
            elif reading.ended(pod) and not reading.leaving(pod):
                self.remove("pods", pod)
            if not parallel and (pod is None or not _runs(pod)):
                break
        for name in sorted(set(pods) - set(names), reverse=True):
            if not reading.leaving(pods[name]):
                self.remove("pods", pods[name])
        self.tell(found, {"replicas": len(names)})

    def _create_pod(self, found: Object, name: str) -> None:
        """Create the claims of a pod first, unless they are there; a claim that leaves must go."""
        key, spec = reading.key_of(found), found["spec"]
        body = objects.pod(name, spec["template"], found)
        used = []
        for each in spec.get("volumeClaimTemplates") or ():
            mount = each["metadata"]["name"]
            own = f"{mount}-{name}"
            used.append({"name": mount, "persistentVolumeClaim": {"claimName": own}})
            known = self.store.get("persistentvolumeclaims", (key[0], own))
            if known is not None and reading.leaving(known):
                self._failed = True
                return
            owner = {**objects.reference(found), "controller": False}
            wanted = {**each, "metadata": {"name": own, "ownerReferences": [owner]}}
            if known is None and not self.create("persistentvolumeclaims", key[0], wanted):
                return
        if used:
            body["spec"] = {**body["spec"], "volumes": [*body["spec"].get("volumes", ()), *used]}
        self.create("pods", key[0], body)


def finished(job: Object) -> bool:
    """Whether a Job has completed or failed."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in conditions
    )


def _runs(pod: Object) -> bool:
    return reading.phase(pod) == "Running" and not reading.leaving(pod)


def _keep(pod: Object) -> tuple[bool, bool, str]:
    """Who stays longest: those that run, those with a node, then by name."""
    return (
        reading.phase(pod) != "Running",
        not reading.node_of(pod),
        pod["metadata"]["name"],
    )


CONTROLLERS: Sequence[tuple[str, Callable[..., Controller]]] = (
    ("replicasets", ReplicaSets),
    ("deployments", Deployments),
    ("jobs", Jobs),
    ("statefulsets", StatefulSets),
)
