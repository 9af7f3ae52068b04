"""Users who launch workloads, and remove them when they are done."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.actors import objects
from tests.simulation.actors.base import Clock, Habit, Object
from tests.simulation.actors.controllers import finished
from tests.simulation.actors.informers import Store, path
from tests.simulation.actors.objects import Template
from tests.simulation.api_server.client import Client
from tests.simulation.judges import objects as reading

CPU = ("250m", "500m", "500m", "1", "1", "2")
MEMORY = ("256Mi", "512Mi", "1Gi", "2Gi")
GANG_SIZES = (1, 2, 2, 3, 4, 4, 6, 8)
SELECTORS: Sequence[Mapping[str, str]] = ({"disk": "ssd"}, {"zone": "a"}, {"zone": "b"})
PRIORITIES = ("low", "middle", "high")
ORPHANS = 0.1
"""The part of Jobs that are deleted with `--cascade=orphan`."""
EDITS = 0.03
"""How many changes an existing workload gets, each time its user looks."""
SERVICE_EDITS = 0.3
SCALED_DOWN_SECONDS = ((1, 30), (30, 50), (50, 90))
"""How long a service has no pods; after 30 s the daemon deletes its PodGroup."""

GPU_TOLERATION = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """What users share: where they work, and for whom their pods wait."""

    store: Store
    schedulers: Sequence[str]
    namespaces: Sequence[str]
    queues: Sequence[str]
    job_seconds: float
    """How long a pod of a Job runs, on average."""


class Launcher(Habit):
    """Keeps so many workloads of one style in motion."""

    style = ""
    kind = "jobs"

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        every: float,
        around: Tenancy,
        most: int,
    ) -> None:
        super().__init__(client, clock, chance, every=every)
        self.around = around
        self._most = most
        self._number = 0
        self._alive: dict[str, str] = {}
        """Namespace by name, of what was launched and not removed."""

    def act(self) -> None:
        """Remove what is done, and launch as many as are missing, a few at a time."""
        for name, namespace in list(self._alive.items()):
            if self.is_done(namespace, name):
                self.remove(namespace, name)
                del self._alive[name]
        missing = self._most - len(self._alive)
        for _ in range(min(missing, max(2, self._most // 4))):
            self._number += 1
            name = f"{self.style}-{self._number}"
            namespace = self.chance.choice(self.around.namespaces)
            if self.launch(namespace, name):
                self._alive[name] = namespace

    def launch(self, namespace: str, name: str) -> bool:
        """Create a workload; whether the API server took it."""
        raise NotImplementedError

    def is_done(self, namespace: str, name: str) -> bool:
        """Whether a workload isn't needed any more: it has ended, or its user is tired of it."""
        found = self.around.store.get(self.kind, (namespace, name))
        if found is None or self.chance.random() < 0.002:
            return True
        return finished(found) and self.chance.random() < 0.2

    def remove(self, namespace: str, name: str) -> None:
        """Delete a workload with all that belongs to it; seldom without its pods."""
        orphans = self.kind == "jobs" and self.chance.random() < ORPHANS
        more = {"propagationPolicy": "Orphan"} if orphans else {}
        self.insist(lambda: self.client.delete(path(self.kind, namespace, name), **more))

    def create(self, plural: str, namespace: str, body: Object) -> bool:
        """Create an object; whether the API server took it."""
        self.attempt(lambda: self.client.create(path(plural, namespace), body))
        return not self.refused

    def template(self, **annotations: str) -> Template:
        """Pods of one size; few of them ask for special nodes."""
        chance = self.chance
        spec: dict[str, Any] = {}
        requests = {"cpu": chance.choice(CPU), "memory": chance.choice(MEMORY)}
        drawn = chance.random()
        if drawn < 0.1:
            spec["nodeSelector"] = dict(chance.choice(SELECTORS))
        elif drawn < 0.15:
            requests[objects.GPU] = "1"
            spec["tolerations"] = [GPU_TOLERATION]
        elif drawn < 0.18:
            requests = {}
        if chance.random() < 0.3:
            spec["priorityClassName"] = chance.choice(PRIORITIES)
        if chance.random() < 0.05:
            annotations[objects.PREEMPTABLE] = "false"
        return Template(
            scheduler=chance.choice(self.around.schedulers),
            requests=requests,
            annotations=annotations,
            labels={"style": self.style},
            spec=spec,
        )

    def job_template(self, **annotations: str) -> Template:
        """Pods that end by themselves."""
        seconds = self.chance.expovariate(1 / self.around.job_seconds) + 5
        annotations |= {
            objects.SECONDS: f"{seconds:.0f}",
            objects.FAILS: self.chance.choice(("0", "0", "0", "5", "30")),
        }
        made = self.template(**annotations)
        return Template(
            scheduler=made.scheduler,
            requests=made.requests,
            annotations=made.annotations,
            labels=made.labels,
            spec=made.spec,
            restarts=False,
        )

    def some_queue(self) -> str:
        """A Queue; seldom one that doesn't exist."""
        if self.chance.random() < 0.01:
            return "nowhere"
        return self.chance.choice(self.around.queues)


class Gangs(Launcher):
    """A PodGroup and a Job: all pods start together, or none."""

    style = "gang"

    def launch(self, namespace: str, name: str) -> bool:
        """Create the PodGroup first, mostly."""
        size = self.chance.choice(GANG_SIZES)
        template = self.job_template(**{objects.GROUP: name})
        more: Object = {}
        if "priorityClassName" in template.spec:
            more["priorityClassName"] = template.spec["priorityClassName"]
        minimum = self.minimum(size)
        if self.chance.random() < 0.3:
            more["minResources"] = {"cpu": str(minimum)}
        more |= self.more_of_group()
        group = objects.pod_group(name, self.some_queue(), minimum, **more)
        made = [("podgroups", group), ("jobs", objects.job(name, template, size))]
        if self.chance.random() < 0.1:
            made.reverse()
        return all([self.create(plural, namespace, body) for plural, body in made])  # noqa: C419 - both are created

    def minimum(self, size: int) -> int:
        """The minMember of a gang."""
        return size

    def more_of_group(self) -> Object:
        """More of the PodGroup's spec."""
        return {}

    def remove(self, namespace: str, name: str) -> None:
        """Delete the Job, and the PodGroup at last."""
        super().remove(namespace, name)
        self.insist(lambda: self.client.delete(path("podgroups", namespace, name)))


class ElasticJobs(Gangs):
    """Gangs that need a part of their pods only, and change their size."""

    style = "elastic"

    def minimum(self, size: int) -> int:
        """Half of the pods."""
        return max(1, size // 2)

    def act(self) -> None:
        """Change the size of one of them, too."""
        super().act()
        names = list(self._alive)
        if self.chance.random() < EDITS * len(names):
            name = self.chance.choice(names)
            size = self.chance.choice(GANG_SIZES)
            body = {"spec": {"parallelism": size}}
            self.attempt(lambda: self.client.patch(path("jobs", self._alive[name], name), body))


class PlainJobs(Launcher):
    """Jobs without a PodGroup: they get one from the daemon."""

    style = "plain"

    def launch(self, namespace: str, name: str) -> bool:
        """Create a Job; some want a minimum."""
        size = self.chance.choice(GANG_SIZES)
        annotations = {objects.QUEUE: self.some_queue()}
        if self.chance.random() < 0.5:
            annotations[objects.MINIMUM] = str(self.chance.randint(1, size))
        template = self.job_template(**annotations)
        return self.create("jobs", namespace, objects.job(name, template, size))


class SinglePods(Launcher):
    """Bare pods, which end by themselves."""

    style = "single"
    kind = "pods"

    def launch(self, namespace: str, name: str) -> bool:
        """Create a pod."""
        template = self.job_template(**{objects.QUEUE: self.some_queue()})
        return self.create("pods", namespace, objects.pod(name, template.written()))

    def is_done(self, namespace: str, name: str) -> bool:
        """Ended pods are removed after a while."""
        found = self.around.store.get(self.kind, (namespace, name))
        return found is None or (reading.ended(found) and self.chance.random() < 0.3)


class Services(Launcher):
    """Deployments, which are scaled to nothing and back again."""

    style = "service"
    kind = "deployments"

    def launch(self, namespace: str, name: str) -> bool:
        """Create a Deployment."""
        size = self.chance.randint(1, 4)
        template = self.template(**{objects.QUEUE: self.some_queue()})
        body = objects.workload("Deployment", name, template, size)
        return self.create(self.kind, namespace, body)

    def is_done(self, namespace: str, name: str) -> bool:
        """Services stay for long."""
        found = self.around.store.get(self.kind, (namespace, name))
        return found is None or self.chance.random() < 0.005

    def act(self) -> None:
        """Scale one of them, or change its template, too."""
        super().act()
        names = list(self._alive)
        if self.chance.random() > SERVICE_EDITS * len(names):
            return
        name = self.chance.choice(names)
        where = path(self.kind, self._alive[name], name)
        drawn = self.chance.random()
        if drawn < 0.3:
            self._scale(where, 0)
            pause = self.chance.uniform(*self.chance.choice(SCALED_DOWN_SECONDS))
            self.later(pause, lambda: self._scale(where, 1))
        elif drawn < 0.5:
            self._scale(where, self.chance.randint(1, 5))
        elif drawn < 0.6:
            text = objects.written(self.clock.now())
            body = {"spec": {"template": {"metadata": {"annotations": {"restarted": text}}}}}
            self.attempt(lambda: self.client.patch(where, body))

    def _scale(self, where: str, replicas: int) -> None:
        self.insist(lambda: self.client.patch(where, {"spec": {"replicas": replicas}}))


class Sets(Services):
    """StatefulSets, whose pods come back under their names; some start as gangs."""

    style = "set"
    kind = "statefulsets"

    def launch(self, namespace: str, name: str) -> bool:
        """Create a StatefulSet."""
        size = self.chance.randint(1, 4)
        gang = self.chance.random() < 0.5
        annotations = {objects.QUEUE: self.some_queue()}
        if gang:
            annotations[objects.MINIMUM] = str(size)
        body = objects.workload(
            "StatefulSet",
            name,
            self.template(**annotations),
            size,
            podManagementPolicy="Parallel" if gang else "OrderedReady",
        )
        body["spec"]["serviceName"] = name
        return self.create(self.kind, namespace, body)


class Outsiders(Services):
    """Deployments for the second scheduler."""

    style = "outsider"

    def template(self, **annotations: str) -> Template:
        """Pods that the daemon has nothing to do with."""
        del annotations
        requests = {"cpu": self.chance.choice(CPU), "memory": self.chance.choice(MEMORY)}
        return Template(scheduler="default-scheduler", requests=requests)
