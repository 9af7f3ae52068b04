"""Users who change what exists: Queues, PodGroups, pods, budgets and Leases."""

import functools
import random
from collections.abc import Sequence

from tests.simulation.actors import objects
from tests.simulation.actors.base import Actor, Clock, Habit, Object
from tests.simulation.actors.informers import path, path_of
from tests.simulation.actors.launchers import Tenancy
from tests.simulation.api_server.client import Client
from tests.simulation.api_server.pods import UNBINDABLE
from tests.simulation.judges import objects as reading

LEASE_NAMESPACE = "volcano-system"
RETURNS = 2.0
"""Services a second that return after the daemon has decided to delete their PodGroup."""
"""The part of the pods of gangs that an admission policy keeps from their nodes."""
MOMENT_SECONDS = 0.01
MERCY_SECONDS = 600.0
"""How long a Queue that nobody can use stays like that at most."""


class Editor(Habit):
    """Changes something that exists already."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        every: float,
        around: Tenancy,
    ) -> None:
        super().__init__(client, clock, chance, every=every)
        self.around = around

    def one_of(self, plural: str) -> Object | None:
        """An object of a kind, in the namespaces of users."""
        found = [
            each
            for each in self.around.store.all(plural)
            if each["metadata"].get("namespace", "") in (*self.around.namespaces, "")
        ]
        return self.chance.choice(found) if found else None

    def patch(self, where: str, body: Object) -> None:
        """Change an object."""
        self.attempt(lambda: self.client.patch(where, body))


class QueueEditor(Editor):
    """Changes weights and limits, closes Queues and opens them again."""

    def act(self) -> None:
        """Change one Queue."""
        name = self.chance.choice(self.around.queues)
        where = path("queues", name=name)
        drawn = self.chance.random()
        if drawn < 0.4:
            self.patch(where, {"spec": {"weight": self.chance.randint(1, 8)}})
        elif drawn < 0.6:
            limit = self.chance.choice((None, {"cpu": str(self.chance.randint(4, 60))}))
            self.patch(where, {"spec": {"capability": limit}})
        elif drawn < 0.7:
            self.patch(where, {"spec": {"reclaimable": self.chance.random() < 0.7}})
        else:
            self._want(name, "Closed")
            seconds = self.chance.uniform(5, MERCY_SECONDS)
            self.later(seconds, lambda: self._want(name, "Open"))

    def stop(self) -> None:
        """Open what is closed."""
        if self.active:
            for name in self.around.queues:
                self._want(name, "Open")
        super().stop()

    def _want(self, name: str, state: str) -> None:
        body = {"metadata": {"annotations": {objects.WANTED_STATE: state}}}
        self.insist(lambda: self.client.patch(path("queues", name=name), body))


class QueueReplacer(Editor):
    """Deletes a Queue, and creates it again once it is gone, even after this actor has stopped."""

    def act(self) -> None:
        """Delete one."""
        if len(self.around.queues) < 2:
            return
        name = self.chance.choice(self.around.queues[1:])
        self.attempt(lambda: self.client.delete(path("queues", name=name)))
        self.clock.after(self.chance.uniform(1, 120), lambda: self._again(name))

    def _again(self, name: str) -> None:
        found = self.around.store.get("queues", ("", name))
        if found is not None and not reading.leaving(found):
            return
        body = objects.queue(name, weight=self.chance.randint(1, 8))
        self.attempt(lambda: self.client.create(path("queues"), body))
        if self.refused:
            self.clock.after(30.0, lambda: self._again(name))


class PodDeleter(Editor):
    """Deletes pods: mostly with grace, seldom at once."""

    def act(self) -> None:
        """Delete one."""
        pod = self.one_of("pods")
        if pod is not None:
            options = {"gracePeriodSeconds": 0} if self.chance.random() < 0.1 else {}
            self.attempt(lambda: self.client.delete(path_of("pods", pod), **options))


class Returner(Actor):
    """Scales a service up again just when the daemon is about to delete its PodGroup."""

    restless = True

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, around: Tenancy
    ) -> None:
        super().__init__(client, clock, chance)
        self._store = around.store
        around.store.on("podgroups", self._changed)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is None or not self.active or objects.LEAVING not in reading.annotations(after):
            return
        if before is not None and objects.LEAVING in reading.annotations(before):
            return
        namespace = after["metadata"]["namespace"]
        for each in after["metadata"].get("ownerReferences") or ():
            replica_set = self._store.get("replicasets", (namespace, each["name"]))
            for owner in (replica_set or {"metadata": {}})["metadata"].get("ownerReferences") or ():
                where = path("deployments", namespace, owner["name"])
                self.later(self.chance.expovariate(RETURNS), functools.partial(self._scale, where))

    def _scale(self, where: str) -> None:
        self.attempt(lambda: self.client.patch(where, {"spec": {"replicas": 1}}))


class BindingPolicy(Actor):
    """An admission policy that keeps some pods from their nodes for a while.

    Their gangs start in part. The pods are known by a label.
    """

    restless = True

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        around: Tenancy,
        part: float,
    ) -> None:
        """`part` is the part of all pods of groups that are denied."""
        super().__init__(client, clock, chance)
        self._store = around.store
        self._part = part
        around.store.on("pods", self._changed)

    def stop(self) -> None:
        """Let all of them pass."""
        if self.active:
            for pod in self._store.all("pods"):
                if UNBINDABLE in reading.labels(pod):
                    self._label(pod, None)
        super().stop()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None or after is None or not self.active:
            return
        if reading.group_of(after) is not None and self.chance.random() < self._part:
            pod = after
            self.later(MOMENT_SECONDS, lambda: self._label(pod, "true"))
            seconds = self.chance.uniform(20, 400)
            self.later(seconds, lambda: self._label(pod, None))

    def _label(self, pod: Object, value: str | None) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"], "labels": {UNBINDABLE: value}}}
        self.insist(lambda: self.client.patch(path_of("pods", pod), body))


class MinimumEditor(Editor):
    """Changes minMember, and seldom the Queue, of PodGroups."""

    def act(self) -> None:
        """Change one."""
        group = self.one_of("podgroups")
        if group is None:
            return
        minimum = max(0, reading.minimum(group) + self.chance.choice((-1, -1, 1)))
        body: Object = {"spec": {"minMember": minimum}}
        if self.chance.random() < 0.2:
            body = {"spec": {"queue": self.chance.choice(self.around.queues)}}
        self.patch(path_of("podgroups", group), body)


class BudgetKeeper(Editor):
    """Protects services with PodDisruptionBudgets, for a while."""

    def act(self) -> None:
        """Create a budget, to be deleted later."""
        found = self.one_of("deployments")
        if found is None:
            return
        namespace, name = reading.key_of(found)
        spec = self.chance.choice(({"minAvailable": 1}, {"maxUnavailable": 1}))
        body = objects.budget(name, {"app": name}, **spec)
        self.attempt(lambda: self.client.create(path("poddisruptionbudgets", namespace), body))
        where = path("poddisruptionbudgets", namespace, name)
        self.later(
            self.chance.uniform(60, 900),
            lambda: self.insist(lambda: self.client.delete(where)),
        )


class LeaseMeddler(Editor):
    """Touches Leases by hand: a label, a time, another holder, and now and then all of it.

    It never does what the daemon can't notice: restore a Lease, or give it back for its holder.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        every: float,
        around: Tenancy,
        leases: Sequence[str],
    ) -> None:
        super().__init__(client, clock, chance, every=every, around=around)
        self._leases = leases

    def act(self) -> None:
        """Touch one."""
        where = path("leases", LEASE_NAMESPACE, self.chance.choice(self._leases))
        drawn = self.chance.random()
        if drawn < 0.3:
            number = str(self.chance.randint(0, 99))
            self.patch(where, {"metadata": {"labels": {"touched": number}}})
        elif drawn < 0.6:
            now = objects.written(self.clock.now()).replace("Z", ".000000Z")
            self.patch(where, {"spec": {"renewTime": now}})
        elif drawn < 0.8:
            body = {"spec": {"holderIdentity": f"stranger-{self.chance.randint(0, 99)}"}}
            self.patch(where, body)
        else:
            self.attempt(lambda: self.client.delete(where))
