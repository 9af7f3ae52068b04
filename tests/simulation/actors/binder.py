"""A second scheduler, which binds its own pods to any node with room, and knows no queues."""

import random

from tests.simulation.actors.base import RETRY_SECONDS, Actor, Clock, Key, Object
from tests.simulation.actors.informers import Store, path_of
from tests.simulation.api_server.client import Client
from tests.simulation.judges import amounts
from tests.simulation.judges import objects as reading

RECONSIDER_SECONDS = 10.0


class Binder(Actor):
    """Binds the pods of one scheduler name, one by one, in the order in which they come."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        store: Store,
        scheduler: str = "default-scheduler",
    ) -> None:
        super().__init__(client, clock, chance)
        self._store = store
        self._scheduler = scheduler
        self._due: dict[Key, None] = {}
        store.on("pods", self._pod)

    def _pod(self, before: Object | None, after: Object | None) -> None:
        del before
        if after is not None and self.active and self._waits(after):
            self._mark(reading.key_of(after), self.chance.uniform(0.05, 1.0))

    def _mark(self, key: Key, seconds: float) -> None:
        if key not in self._due:
            self._due[key] = None
            self.later(seconds, lambda: self._turn(key))

    def _turn(self, key: Key) -> None:
        self._due.pop(key, None)
        pod = self._store.get("pods", key)
        if pod is None or not self._waits(pod):
            return
        node = self._choose(pod)
        if node is None:
            self._mark(key, RECONSIDER_SECONDS)
            return
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key[1], "namespace": key[0], "uid": pod["metadata"]["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        where = path_of("pods", pod, "binding")
        self.attempt(lambda: self.client.create(where, body))
        if self.refused:
            self._mark(key, RETRY_SECONDS)

    def _waits(self, pod: Object) -> bool:
        if pod["spec"].get("schedulerName") != self._scheduler or reading.node_of(pod):
            return False
        return not (
            reading.leaving(pod) or reading.ended(pod) or pod["spec"].get("schedulingGates")
        )

    def _choose(self, pod: Object) -> str | None:
        """Any node that takes the pod and has room."""
        asked = amounts.request(pod)
        nodes = self._store.all("nodes")
        self.chance.shuffle(nodes)
        for node in nodes:
            name = node["metadata"]["name"]
            room, used = self._store.room(node), self._store.used[name]
            fits = all(used[each] + amount <= room[each] for each, amount in asked.items())
            if fits and not reading.barriers(pod["spec"], node):
                return str(name)
        return None
