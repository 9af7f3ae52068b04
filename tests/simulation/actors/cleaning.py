"""Controllers for garbage, for pods of missing nodes, and for statuses of budgets."""

import functools
import random
from collections.abc import Mapping

from tests.simulation.actors.base import RETRY_SECONDS, TRANSIENT, Actor, Clock, Key, Object
from tests.simulation.actors.informers import Listener, Store, path_of
from tests.simulation.api_server.client import Client
from tests.simulation.judges import objects as reading
from tests.simulation.judges import queue_rules

OWNERS: Mapping[tuple[str, str], str] = {
    ("v1", "Pod"): "pods",
    ("v1", "Node"): "nodes",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "Deployment"): "deployments",
    ("batch/v1", "Job"): "jobs",
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): "podgroups",
    ("scheduling.volcano.sh/v1beta1", "Queue"): "queues",
}
"""Plural by apiVersion and kind, of the owners that the garbage collector knows."""

DEPENDENTS = ("pods", "podgroups", "replicasets", "jobs", "persistentvolumeclaims")
ORPHAN = "orphan"
"""The finalizer of what is deleted with `--cascade=orphan`."""
ORPHAN_SECONDS = 40.0


class GarbageCollector(Actor):
    """Deletes objects none of whose owners exists, and frees those that are to be orphans."""

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance)
        self._store = store
        for plural in store.followed:
            store.on(plural, self._gone)
            store.on(plural, self._going(plural))
        for plural in DEPENDENTS:
            if plural in store.followed:
                store.on(plural, self._came(plural))

    def _gone(self, before: Object | None, after: Object | None) -> None:
        if before is None or not self.active:
            return
        if after is None or after["metadata"]["uid"] != before["metadata"]["uid"]:
            for (plural, key), found in self._store.dependents.get(
                before["metadata"]["uid"], {}
            ).items():
                self._doubt(plural, key, found["metadata"]["uid"])

    def _going(self, plural: str) -> Listener:
        def changed(before: Object | None, after: Object | None) -> None:
            del before
            if after is not None and self.active and _leaves_orphans(after):
                seconds = self.chance.uniform(0.1, 2.0)
                self.later(seconds, lambda: self._orphan(plural, reading.key_of(after)))

        return changed

    def _orphan(self, plural: str, key: Key) -> None:
        """Take an owner away from what it owns, and then let it go."""
        found = self._store.get(plural, key)
        if found is None or not _leaves_orphans(found):
            return
        uid = found["metadata"]["uid"]
        failed = False
        for (owned, _), each in list(self._store.dependents.get(uid, {}).items()):
            others = [ref for ref in each["metadata"]["ownerReferences"] if ref["uid"] != uid]
            self._change(owned, each, {"ownerReferences": others or None})
            failed = failed or self.refused in TRANSIENT
        if not failed:
            kept = [name for name in found["metadata"]["finalizers"] if name != ORPHAN]
            self._change(plural, found, {"finalizers": kept or None})
            failed = self.refused in TRANSIENT
        if failed:
            self.later(RETRY_SECONDS, lambda: self._orphan(plural, key))

    def _change(self, plural: str, found: Object, metadata: Object) -> None:
        body = {"metadata": {"uid": found["metadata"]["uid"], **metadata}}
        self.attempt(lambda: self.client.patch(path_of(plural, found), body))

    def _came(self, plural: str) -> Listener:
        def changed(before: Object | None, after: Object | None) -> None:
            if before is None and after is not None and self.active:
                key = reading.key_of(after)
                if after["metadata"].get("ownerReferences"):
                    self._doubt(plural, key, after["metadata"]["uid"])

        return changed

    def _doubt(self, plural: str, key: Key, uid: str) -> None:
        seconds = self.chance.uniform(0.1, 2.0)
        self.later(seconds, lambda: self._collect(plural, key, uid))

    def _collect(self, plural: str, key: Key, uid: str) -> None:
        found = self._store.get(plural, key)
        if found is None or found["metadata"]["uid"] != uid or reading.leaving(found):
            return
        owners = found["metadata"].get("ownerReferences") or ()
        if not owners or any(self._may_exist(owner, key[0]) for owner in owners):
            return
        where = path_of(plural, found)
        self.insist(lambda: self.client.delete(where, preconditions={"uid": uid}))

    def _may_exist(self, owner: Object, namespace: str) -> bool:
        plural = OWNERS.get((owner["apiVersion"], owner["kind"]))
        if plural is None:
            return True
        inside = "" if plural in ("nodes", "queues") else namespace
        return self._store.exists(plural, owner["uid"], (inside, owner["name"]))


def _leaves_orphans(found: Object) -> bool:
    return reading.leaving(found) and ORPHAN in (found["metadata"].get("finalizers") or ())


class PodCollector(Actor):
    """Removes pods whose node is gone: nobody else would end them."""

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance)
        self._store = store
        store.on("nodes", self._node)
        store.on("pods", self._pod)

    def _node(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None and self.active:
            name = before["metadata"]["name"]
            self.later(ORPHAN_SECONDS, lambda: self._sweep(name))

    def _pod(self, before: Object | None, after: Object | None) -> None:
        del before
        if after is None or not self.active:
            return
        name = reading.node_of(after)
        if name and self._store.get("nodes", ("", name)) is None:
            self.later(ORPHAN_SECONDS, lambda: self._sweep(name))

    def _sweep(self, name: str) -> None:
        if self._store.get("nodes", ("", name)) is not None:
            return
        for pod in self._store.all("pods"):
            if reading.node_of(pod) == name:
                where = path_of("pods", pod)
                uid = pod["metadata"]["uid"]
                self.insist(
                    functools.partial(
                        self.client.delete,
                        where,
                        gracePeriodSeconds=0,
                        preconditions={"uid": uid},
                    )
                )


class Budgets(Actor):
    """Keeps the statuses of PodDisruptionBudgets."""

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance)
        self._store = store
        self._due: dict[Key, None] = {}
        store.on("poddisruptionbudgets", self._changed)
        store.on("pods", self._pod)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        del before
        if after is not None:
            self._mark(after)

    def _pod(self, before: Object | None, after: Object | None) -> None:
        namespace = ((after or before) or {"metadata": {}})["metadata"].get("namespace")
        for budget in self._store.all("poddisruptionbudgets"):
            if budget["metadata"]["namespace"] == namespace and any(
                each is not None and queue_rules.covers(budget, each) for each in (before, after)
            ):
                self._mark(budget)

    def _mark(self, budget: Object) -> None:
        key = reading.key_of(budget)
        if self.active and key not in self._due:
            self._due[key] = None
            self.later(self.chance.uniform(0.05, 0.5), lambda: self._reconcile(key))

    def _reconcile(self, key: Key) -> None:
        self._due.pop(key, None)
        budget = self._store.get("poddisruptionbudgets", key)
        if budget is None:
            return
        covered = [
            pod
            for pod in self._store.all("pods")
            if queue_rules.covers(budget, pod) and not reading.ended(pod)
        ]
        healthy = sum(
            reading.phase(pod) == "Running" and not reading.leaving(pod) for pod in covered
        )
        desired = queue_rules.desired(budget, len(covered))
        status = {
            "expectedPods": len(covered),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(0, healthy - desired) if covered else 0,
            "observedGeneration": budget["metadata"].get("generation", 1),
            "disruptedPods": None,
        }
        known = budget.get("status") or {}
        if any(known.get(name) != value for name, value in status.items()):
            where = path_of("poddisruptionbudgets", budget, "status")
            self.insist(lambda: self.client.patch(where, {"status": status}))
