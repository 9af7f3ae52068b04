"""A hostile tenant: everything that an API server takes, however little sense it makes.

Each habit keeps a few objects alive at most, and deletes the oldest of them.
"""

import functools
import random
from collections.abc import Mapping, Sequence

from tests.simulation.actors import objects
from tests.simulation.actors.base import Clock, Object
from tests.simulation.actors.editors import Editor
from tests.simulation.actors.informers import path, path_of
from tests.simulation.actors.launchers import Tenancy
from tests.simulation.actors.objects import Template
from tests.simulation.api_server.client import Client
from tests.simulation.judges import objects as reading

NAMESPACE = "mallory"
KEPT = 8
TEXTS = (
    *("", "a", "x" * 63, "x" * 4000, "../..", "a/b/c", "%00%2f", "\x00\x01\x1b[31m", "\u202e"),
    *("line\r\nHost: elsewhere", "\U0001f980", "NaN", "-1", "1e400", "9" * 400, "{}", "[" * 2000),
    *('{"cpu": null}', "null", "true", "{namespace}", "%s %n {0}"),
)
QUANTITIES = (
    *("0", "1n", "0.000000001", "1e3", "999Ei", "9223372036854775807", "9" * 30, ".5", "1."),
    *("+1", "0.1m", "1e-9", "12e17", "100m"),
)
ANNOTATIONS = (
    *(objects.GROUP, objects.MINIMUM, objects.QUEUE, objects.PREEMPTABLE),
    *("scheduling.volcano.sh/group-min-resources", "scheduling.volcano.sh/scheduler-name"),
    *("volcano.sh/task-priority", "volcano.sh/task-spec", "volcano.sh/sla-waiting-time"),
    *("volcano.sh/jdb-min-available", "vscheduler.io/leaving", "vscheduler.io/written"),
)
OWNERS = (
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("x.io/v1", "Thing"),
)
OWNER_NAMES = (
    *("nobody", "..", "a/b", "?watch=true&timeoutSeconds=3600", "%2e%2e", "a b", "x" * 4000),
    *("a\r\nHost: elsewhere", "\u202e"),
)
"""The API server takes any name of an owner that isn't empty."""
FINALIZER = "x.io/stays"


class Tenant(Editor):
    """A habit that cleans up behind itself, more or less."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        every: float,
        around: Tenancy,
    ) -> None:
        super().__init__(client, clock, chance, every=every, around=around)
        self._number = 0
        self._made: list[str] = []

    def name(self, prefix: str) -> str:
        """A name of its own, seldom as long as a name may be."""
        self._number += 1
        name = f"{prefix}-{self._number}"
        return f"{name}-{'n' * (200 - len(name))}" if self.chance.random() < 0.1 else name

    def make(self, plural: str, namespace: str, body: Object) -> None:
        """Create an object, and delete the oldest if there are many."""
        self.attempt(lambda: self.client.create(path(plural, namespace), body))
        if not self.refused:
            self._made.append(path(plural, namespace, body["metadata"]["name"]))
        while len(self._made) > KEPT:
            self.insist(functools.partial(self.client.delete, self._made.pop(0)))

    def pod(self, prefix: str, annotations: Mapping[str, str], **spec: object) -> Object:
        """A pod for the daemon."""
        template = Template(
            scheduler=self.chance.choice(self.around.schedulers),
            requests={"cpu": "100m"},
            annotations=annotations,
            spec=spec,
        )
        return objects.pod(self.name(prefix), template.written())


class Garbage(Tenant):
    """Odd annotations, quantities, labels and owners."""

    def act(self) -> None:
        """Create a pod or a PodGroup."""
        if self.chance.random() < 0.7:
            pod = self.pod("odd", self._annotations())
            self._spoil(pod)
            self.make("pods", NAMESPACE, pod)
            return
        queue = self.chance.choice((*self.around.queues, "root", "x" * 253, ".."))
        group = objects.pod_group(self.name("odd"), queue, self.chance.choice((0, 1, 2**31 - 1)))
        group["metadata"]["annotations"] = self._annotations()
        if self.chance.random() < 0.5:
            group["spec"]["minResources"] = {"cpu": self.chance.choice(QUANTITIES)}
        if self.chance.random() < 0.2:
            group["spec"]["networkTopology"] = {"mode": "hard"}
        self.make("podgroups", NAMESPACE, group)

    def _annotations(self) -> dict[str, str]:
        count = self.chance.randint(0, 4)
        return {self.chance.choice(ANNOTATIONS): self.chance.choice(TEXTS) for _ in range(count)}

    def _spoil(self, pod: Object) -> None:
        container = pod["spec"]["containers"][0]
        container["resources"]["requests"] = {
            self.chance.choice(("cpu", "memory")): self.chance.choice(QUANTITIES)
        }
        if self.chance.random() < 0.4:
            version, kind = self.chance.choice(OWNERS)
            number = self.chance.randint(0, 20)
            name = OWNER_NAMES[number % len(OWNER_NAMES)]
            owner = {"apiVersion": version, "kind": kind, "name": name, "controller": True}
            owner["uid"] = f"{number:08d}-0000-0000-0000-000000000000"
            pod["metadata"]["ownerReferences"] = [owner]
        if self.chance.random() < 0.2:
            pod["spec"]["schedulingGates"] = [{"name": "x.io/gate"}]
        if self.chance.random() < 0.2:
            pod["metadata"]["labels"] = {"x" * 63: "y" * 63}


class Impostor(Tenant):
    """Pods that name PodGroups of others; some have a node already."""

    def act(self) -> None:
        """Join a PodGroup in a namespace of others."""
        group = self.one_of("podgroups")
        if group is None:
            return
        namespace, name = reading.key_of(group)
        pod = self.pod("guest", {objects.GROUP: name})
        node = self.one_of("nodes")
        if node is not None and self.chance.random() < 0.2:
            pod["spec"]["nodeName"] = node["metadata"]["name"]
        self.make("pods", namespace, pod)


class Giant(Tenant):
    """PodGroups that can never start: too many pods, or more than all nodes have."""

    def act(self) -> None:
        """Create a PodGroup and some of its pods."""
        name = self.name("giant")[:63]
        queue = self.chance.choice(self.around.queues)
        self.make(
            "podgroups",
            NAMESPACE,
            objects.pod_group(name, queue, self.chance.choice((3, 100, 2**31 - 1))),
        )
        for _ in range(3):
            pod = self.pod("giant", {objects.GROUP: name})
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            requests["cpu"] = self.chance.choice(("100m", "500", "9000000"))
            self.make("pods", NAMESPACE, pod)


class Clinger(Tenant):
    """Objects with a finalizer of its own, which is taken away late."""

    def act(self) -> None:
        """Create an object, delete it, and let it hang."""
        if self.chance.random() < 0.5:
            plural, body = "pods", self.pod("cling", {})
        else:
            queue = self.chance.choice(self.around.queues)
            plural, body = "podgroups", objects.pod_group(self.name("cling"), queue, 1)
        body["metadata"]["finalizers"] = [FINALIZER]
        self.attempt(lambda: self.client.create(path(plural, NAMESPACE), body))
        where = path(plural, NAMESPACE, body["metadata"]["name"])
        pause, hang = self.chance.uniform(1, 60), self.chance.uniform(1, 300)
        self.clock.after(pause, lambda: self.insist(lambda: self.client.delete(where)))
        patch = {"metadata": {"finalizers": None}}
        self.clock.after(pause + hang, lambda: self.insist(lambda: self.client.patch(where, patch)))


class Forger(Tenant):
    """False statuses of PodGroups and pods."""

    def act(self) -> None:
        """Write one."""
        group = self.one_of("podgroups")
        if group is None:
            return
        status: Object = {
            "phase": self.chance.choice(("Pending", "Inqueue", "Running", "Completed", "Unknown")),
            "running": self.chance.randint(0, 5),
        }
        if self.chance.random() < 0.3:
            status["conditions"] = None
        self.patch(path_of("podgroups", group), {"status": status})


class Churner(Tenant):
    """Pods that come and go within moments."""

    def act(self) -> None:
        """Create some pods, and delete them at once."""
        for _ in range(self.chance.randint(1, 6)):
            pod = self.pod("churn", {})
            self.attempt(functools.partial(self.client.create, path("pods", NAMESPACE), pod))
            where = path("pods", NAMESPACE, pod["metadata"]["name"])
            self.clock.after(
                self.chance.choice((0.0, 0.05, 0.5, 5.0)),
                functools.partial(self.insist, functools.partial(self.client.delete, where)),
            )


HABITS: Sequence[tuple[str, type[Tenant], float]] = (
    ("garbage", Garbage, 20.0),
    ("impostor", Impostor, 45.0),
    ("giant", Giant, 300.0),
    ("clinger", Clinger, 60.0),
    ("forger", Forger, 60.0),
    ("churner", Churner, 30.0),
)
"""Names, and after how many seconds each acts again."""
