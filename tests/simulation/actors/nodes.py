"""What happens to nodes: taints by their controller, changes by people, accidents."""

import functools
import random
from typing import Any

from tests.simulation.actors import objects
from tests.simulation.actors.base import Actor, Clock, Habit, Key, Object
from tests.simulation.actors.informers import Store, path, path_of
from tests.simulation.actors.machines import Machines
from tests.simulation.api_server.client import Client
from tests.simulation.judges import objects as reading

SILENCE_SECONDS = 40.0
"""How long a machine may be silent before its node counts as unreachable."""

OWN_TAINTS = (objects.NOT_READY, objects.UNREACHABLE, objects.CORDONED)


class NodeController(Actor):
    """Taints nodes that are silent or cordoned, and deletes the pods that don't tolerate it."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        store: Store,
        machines: Machines,
    ) -> None:
        super().__init__(client, clock, chance)
        self._store = store
        self._machines = machines
        self._due: dict[str, None] = {}
        self._judged: dict[tuple[str, str], None] = {}
        """Pods, by UID, and taints for which an eviction is under way."""
        machines.subscribe(self._switched)
        store.on("nodes", self._node)
        store.on("pods", self._pod)

    def _switched(self, name: str, on: bool) -> None:
        if not on:
            self.later(SILENCE_SECONDS, lambda: self._miss(name))

    def _miss(self, name: str) -> None:
        """Say that nobody knows how a machine is."""
        node = self._store.get("nodes", ("", name))
        if node is None or self._machines.works(name):
            return
        condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        where = path_of("nodes", node, "status")
        body = {"status": {"conditions": [condition]}}
        self.insist(lambda: self.client.patch(where, body, kind="strategic"))

    def _node(self, before: Object | None, after: Object | None) -> None:
        if after is None or not self.active:
            return
        name = after["metadata"]["name"]
        if (before is None or _sight(before) != _sight(after)) and name not in self._due:
            self._due[name] = None
            self.later(self.chance.uniform(0.05, 1.0), lambda: self._reconcile(name))

    def _reconcile(self, name: str) -> None:
        self._due.pop(name, None)
        node = self._store.get("nodes", ("", name))
        if node is None:
            return
        taints = node["spec"].get("taints") or []
        wanted = [taint for taint in taints if taint["key"] not in OWN_TAINTS]
        if node["spec"].get("unschedulable"):
            wanted.append({"key": objects.CORDONED, "effect": "NoSchedule"})
        if not reading.ready(node):
            status = {each["type"]: each["status"] for each in node["status"]["conditions"]}
            key = objects.NOT_READY if status.get("Ready") == "False" else objects.UNREACHABLE
            wanted += [{"key": key, "effect": each} for each in ("NoSchedule", "NoExecute")]
        if [_short(each) for each in wanted] != [_short(taint) for taint in taints]:
            where = path_of("nodes", node)
            body = {"spec": {"taints": wanted or None}}
            self.insist(lambda: self.client.patch(where, body))
        for pod in list(self._store.pods_on[name].values()):
            self._consider(pod)

    def _pod(self, before: Object | None, after: Object | None) -> None:
        if after is None or not self.active or not reading.holds(after):
            return
        if before is None or not reading.node_of(before):
            self._consider(after)

    def _consider(self, pod: Object) -> None:
        """Delete a pod, at once or when its toleration ends."""
        node = self._store.get("nodes", ("", reading.node_of(pod)))
        if node is None or reading.leaving(pod):
            return
        for taint in node["spec"].get("taints") or ():
            mark = pod["metadata"]["uid"], taint["key"]
            if taint["effect"] != "NoExecute" or mark in self._judged:
                continue
            matching = [
                each
                for each in pod["spec"].get("tolerations") or ()
                if reading.tolerated(taint, [each])
            ]
            limits = [each.get("tolerationSeconds") for each in matching]
            if matching and None in limits:
                continue
            seconds = max(0.0, min(float(limit) for limit in limits)) if matching else 0.0
            self._judged[mark] = None
            key = reading.key_of(pod)
            self.later(seconds, functools.partial(self._evict, key, mark))

    def _evict(self, key: Key, mark: tuple[str, str]) -> None:
        self._judged.pop(mark, None)
        pod = self._store.get("pods", key)
        if pod is None or pod["metadata"]["uid"] != mark[0] or reading.leaving(pod):
            return
        node = self._store.get("nodes", ("", reading.node_of(pod)))
        taints = (node["spec"].get("taints") or ()) if node is not None else ()
        if any(taint["key"] == mark[1] and taint["effect"] == "NoExecute" for taint in taints):
            where = path_of("pods", pod)
            self.insist(lambda: self.client.delete(where, preconditions={"uid": mark[0]}))


def _sight(node: Object) -> tuple[Any, ...]:
    """What the controller looks at."""
    taints = node["spec"].get("taints") or ()
    return (
        reading.ready(node),
        node["spec"].get("unschedulable"),
        [_short(taint) for taint in taints],
    )


def _short(taint: Object) -> tuple[str, str, str]:
    return taint["key"], taint.get("value", ""), taint["effect"]


class NodeHabit(Habit):
    """Something that happens to a random node."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        every: float,
        store: Store,
        machines: Machines,
    ) -> None:
        super().__init__(client, clock, chance, every=every)
        self.store = store
        self.machines = machines

    def some_node(self) -> Object | None:
        """A node, if there is any."""
        nodes = self.store.all("nodes")
        return self.chance.choice(nodes) if nodes else None


class Outages(NodeHabit):
    """Machines lose power, and come back after a while."""

    def act(self) -> None:
        """Turn a machine off."""
        node = self.some_node()
        if node is None:
            return
        name = node["metadata"]["name"]
        self.machines.switch(name, on=False)
        seconds = self.chance.choice((5.0, 30.0, 120.0, 600.0)) * self.chance.uniform(0.5, 1.5)
        self.later(seconds, lambda: self.machines.switch(name, on=True))

    def stop(self) -> None:
        """Turn everything on again."""
        super().stop()
        self.machines.restore()


class Cordons(NodeHabit):
    """Nodes are cordoned, sometimes drained, and uncordoned."""

    def act(self) -> None:
        """Cordon a node, or the other way round."""
        node = self.some_node()
        if node is None:
            return
        closed = bool(node["spec"].get("unschedulable"))
        where = path_of("nodes", node)
        body = {"spec": {"unschedulable": None if closed else True}}
        self.attempt(lambda: self.client.patch(where, body))
        if not closed:
            name = node["metadata"]["name"]
            self.later(self.chance.uniform(60, 600), lambda: self._uncordon(name))
            if self.chance.random() < 0.3:
                self._drain(name)

    def _uncordon(self, name: str) -> None:
        node = self.store.get("nodes", ("", name))
        if node is not None and node["spec"].get("unschedulable"):
            where = path_of("nodes", node)
            self.insist(lambda: self.client.patch(where, {"spec": {"unschedulable": None}}))

    def _drain(self, name: str) -> None:
        for pod in list(self.store.pods_on[name].values()):
            namespace, own = reading.key_of(pod)
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": own, "namespace": namespace},
            }
            where = path_of("pods", pod, "eviction")
            self.attempt(functools.partial(self.client.create, where, body))


class Joins(NodeHabit):
    """Nodes leave, and come back under the same name."""

    def act(self) -> None:
        """Delete a node, and let it join again after a while."""
        node = self.some_node()
        if node is None or len(self.store.all("nodes")) < 3:
            return
        name, labels = node["metadata"]["name"], reading.labels(node)
        amounts = node["status"]["capacity"]
        taints = [
            each for each in node["spec"].get("taints") or () if each["key"] not in OWN_TAINTS
        ]
        where = path_of("nodes", node)
        self.attempt(lambda: self.client.delete(where))
        again = objects.node(name, amounts, labels, taints)
        self.later(self.chance.uniform(20, 400), lambda: self._join(again))

    def _join(self, node: Object) -> None:
        if self.attempt(lambda: self.client.create(path("nodes"), node)) is None:
            self.later(30.0, lambda: self._join(node))


class Relabels(NodeHabit):
    """The labels of nodes change, so that other pods fit there."""

    def act(self) -> None:
        """Give a node another disk, or move it to another zone."""
        node = self.some_node()
        if node is None:
            return
        name = self.chance.choice(tuple(objects.CHOICES))
        body = {"metadata": {"labels": {name: self.chance.choice(objects.CHOICES[name])}}}
        self.attempt(lambda: self.client.patch(path_of("nodes", node), body))


class Shrinks(NodeHabit):
    """The allocatable resources of nodes shrink and grow again."""

    def act(self) -> None:
        """Take away a part, or give everything back."""
        node = self.some_node()
        if node is None:
            return
        status = node["status"]
        whole = status["allocatable"] == status["capacity"]
        cpu = str(max(1, int(status["capacity"]["cpu"]) // 2)) if whole else None
        allocatable = {"cpu": cpu} if cpu else status["capacity"]
        where = path_of("nodes", node, "status")
        self.attempt(lambda: self.client.patch(where, {"status": {"allocatable": allocatable}}))
