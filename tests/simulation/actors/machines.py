"""The machines behind the nodes, and what a kubelet does on each of them."""

import random
from collections import Counter
from collections.abc import Callable

from tests.simulation.actors import base, objects
from tests.simulation.actors.base import Actor, Clock, Key, Object
from tests.simulation.actors.informers import Store, path, path_of
from tests.simulation.api_server.client import Client
from tests.simulation.judges import amounts, devices, volumes
from tests.simulation.judges import objects as reading
from tests.simulation.judges.amounts import Amounts

CLAIMS = "persistentvolumeclaims"
START_SECONDS = (0.2, 3.0)
STOP_SECONDS = (0.5, 15.0)
HEARTBEAT_SECONDS = 60.0
SHORT_NAMES = {"cpu": "OutOfcpu", "memory": "OutOfmemory", "pods": "OutOfpods"}


class Machines:
    """Which machines have power; all have at first."""

    def __init__(self) -> None:
        self._down: dict[str, None] = {}
        self._listeners: list[Callable[[str, bool], None]] = []

    def subscribe(self, listener: Callable[[str, bool], None]) -> None:
        """Be told of each machine that goes down or comes up again."""
        self._listeners.append(listener)

    def works(self, name: str) -> bool:
        """Whether the machine of a node has power."""
        return name not in self._down

    def switch(self, name: str, *, on: bool) -> None:
        """Turn a machine off or on."""
        if on == self.works(name):
            return
        if on:
            del self._down[name]
        else:
            self._down[name] = None
        for listener in self._listeners:
            listener(name, on)

    def restore(self) -> None:
        """Turn on what is off."""
        for name in list(self._down):
            self.switch(name, on=True)


class Kubelets(Actor):
    """Start pods that fit, end those of Jobs, and remove those that terminate.

    What a pod does depends on its name and on the seed alone.
    """

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
        self._seed = chance.getrandbits(64)
        self._store = store
        self._machines = machines
        self._admitted: dict[str, dict[str, Amounts]] = {}
        """Requests of the pods that run on a node, by UID."""
        self._busy: dict[tuple[str, str], None] = {}
        """Pods, by UID, for which a step is under way."""
        store.on("pods", self._changed)
        if CLAIMS in store.followed:
            store.on(CLAIMS, self._claim_changed)
        machines.subscribe(self._switched)

    def start(self) -> None:
        """Begin with heartbeats."""
        super().start()
        self.later(HEARTBEAT_SECONDS, self._beat)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            if before is not None:
                self._forget(before)
            return
        if self.active and reading.node_of(after):
            self._consider(after)

    def _switched(self, name: str, on: bool) -> None:
        if on:
            self.later(self.chance.uniform(1, 5), lambda: self._resume(name))

    def _resume(self, name: str) -> None:
        """A kubelet that comes back says so, and looks at its pods."""
        if not self._machines.works(name):
            return
        node = self._store.get("nodes", ("", name))
        if node is not None and not reading.ready(node):
            self._report(name, "True")
        for pod in self._store.all("pods"):
            if reading.node_of(pod) == name:
                self._consider(pod)

    def _beat(self) -> None:
        """Node statuses with a new time."""
        for node in self._store.all("nodes"):
            name = node["metadata"]["name"]
            if self._machines.works(name) and reading.ready(node):
                self._report(name, "True")
        self.later(HEARTBEAT_SECONDS, self._beat)

    def _report(self, name: str, status: str) -> None:
        condition = {
            "type": "Ready",
            "status": status,
            "reason": "KubeletReady",
            "lastHeartbeatTime": objects.written(self.clock.now()),
        }
        body = {"status": {"conditions": [condition]}}
        where = path("nodes", name=name, part="status")
        self.insist(lambda: self.client.patch(where, body, kind="strategic"))

    def _consider(self, pod: Object) -> None:
        """Begin with the next step of a pod, unless it has begun."""
        luck = self._luck(pod)
        if reading.leaving(pod):
            grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
            ended = reading.ended(pod) or reading.phase(pod) == "Pending"
            wait = 0.1 if ended else min(grace, luck.uniform(*STOP_SECONDS))
            self._step(pod, "remove", wait, self._remove)
        elif reading.phase(pod) == "Pending":
            self._step(pod, "run", luck.uniform(*START_SECONDS), self._run)
        elif reading.phase(pod) == "Running":
            seconds = reading.annotations(pod).get(objects.SECONDS)
            if seconds is not None:
                drawn = float(seconds) * luck.uniform(0.5, 1.5)
                self._step(pod, "end", drawn, self._end)

    def _step(self, pod: Object, what: str, seconds: float, call: Callable[[Object], None]) -> None:
        uid, key = pod["metadata"]["uid"], reading.key_of(pod)
        if (uid, what) in self._busy:
            return
        self._busy[uid, what] = None

        def act() -> None:
            self._busy.pop((uid, what), None)
            now = self._store.get("pods", key)
            if now is None or now["metadata"]["uid"] != uid:
                return
            if self._machines.works(reading.node_of(now)):
                call(now)

        self.later(seconds, act)

    def _run(self, pod: Object) -> None:
        """Admit a pod, or refuse it for good."""
        if reading.phase(pod) != "Pending" or reading.leaving(pod):
            return
        if not all(map(self._is_usable, volumes.claims_of(pod))):
            return
        name = reading.node_of(pod)
        node = self._store.get("nodes", ("", name))
        if node is None:
            return
        reason = self._refusal(node, pod)
        now = objects.written(self.clock.now())
        if reason:
            self._tell(pod, {"phase": "Failed", "reason": reason, "startTime": now})
            return
        self._admitted.setdefault(name, {})[pod["metadata"]["uid"]] = amounts.request(pod)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        self._tell(pod, {"phase": "Running", "startTime": now, "conditions": [ready]})

    def _is_usable(self, key: Key) -> bool:
        """Whether a claim is bound and stays: a pod doesn't start before."""
        claim = self._store.get(CLAIMS, key)
        return claim is not None and volumes.is_bound(claim) and not reading.leaving(claim)

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        """Look again at the pods that wait on their nodes for a claim."""
        del before
        if after is None or not volumes.is_bound(after):
            return
        key = reading.key_of(after)
        for pods in list(self._store.pods_on.values()):
            for pod in list(pods.values()):
                if reading.phase(pod) == "Pending" and key in volumes.claims_of(pod):
                    self._consider(pod)

    def _refusal(self, node: Object, pod: Object) -> str:
        """Why a kubelet doesn't run a pod: there is no room, or the node isn't as it must be."""
        wanted = pod["spec"].get("nodeSelector") or {}
        has = reading.labels(node)
        if any(has.get(name) != value for name, value in wanted.items()):
            return "NodeAffinity"
        room = self._store.room(node)
        asked = amounts.request(pod)
        used: Amounts = Counter()
        for uid, each in self._admitted.get(node["metadata"]["name"], {}).items():
            if uid != pod["metadata"]["uid"]:
                used.update(each)
        claimed = devices.from_claims(pod)
        for resource, amount in asked.items():
            if resource in claimed:
                continue
            if amount and used[resource] + amount > room[resource]:
                return SHORT_NAMES.get(resource, f"OutOf{resource}")
        return ""

    def _end(self, pod: Object) -> None:
        """End a pod that has run long enough."""
        if reading.phase(pod) != "Running" or reading.leaving(pod):
            return
        odds = float(reading.annotations(pod).get(objects.FAILS, "0")) / 100
        failed = self._luck(pod, "end").random() < odds
        self._tell(pod, {"phase": "Failed" if failed else "Succeeded"})
        self._forget(pod)

    def _remove(self, pod: Object) -> None:
        self._forget(pod)
        where, uid = path_of("pods", pod), pod["metadata"]["uid"]
        self.insist(
            lambda: self.client.delete(where, gracePeriodSeconds=0, preconditions={"uid": uid})
        )

    def _tell(self, pod: Object, status: Object) -> None:
        where = path_of("pods", pod, "status")
        body = {"status": status}
        self.attempt(lambda: self.client.patch(where, body, kind="strategic"))
        if self.refused in base.TRANSIENT:
            self.later(base.RETRY_SECONDS, lambda: self._again(reading.key_of(pod)))

    def _again(self, key: Key) -> None:
        pod = self._store.get("pods", key)
        if pod is not None and reading.node_of(pod):
            self._consider(pod)

    def _forget(self, pod: Object) -> None:
        self._admitted.get(reading.node_of(pod), {}).pop(pod["metadata"]["uid"], None)

    def _luck(self, pod: Object, what: str = "") -> random.Random:
        return random.Random(f"{self._seed}/{'/'.join(reading.key_of(pod))}/{what}")
