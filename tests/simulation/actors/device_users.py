"""Devices: drivers that publish them, the controller of claims, and users with such claims."""

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.simulation.actors import base, objects
from tests.simulation.actors.base import Clock, Object
from tests.simulation.actors.editors import Editor
from tests.simulation.actors.informers import Store, path, path_of
from tests.simulation.actors.launchers import Launcher, Tenancy
from tests.simulation.actors.objects import Template
from tests.simulation.actors.storage import StorageController
from tests.simulation.api_server.client import Client
from tests.simulation.judges import devices
from tests.simulation.judges import objects as reading

API = "resource.k8s.io/v1"
TEMPLATES = "resourceclaimtemplates"
FINALIZER = "resource.kubernetes.io/delete-protection"
MEMORY = ("40Gi", "80Gi")
SIZES = (1, 1, 2, 2, 2, 3, 4, 6)
"""Pods of a gang."""

SHARED = 0.3
"""The part of the gangs whose pods share one claim."""

BY_NAME = 0.3
"""The part of the gangs whose pods ask by the resource that stands for the class."""

TWICE = 0.2
"""The part of the gangs whose pods have two claims of the template each."""

TOLERANT = 0.3
"""The part of the gangs that take devices with a taint, too."""

QUICKER = 4
"""Pods with devices run for a so much shorter time: nodes have few devices."""

TIRED = 0.02
"""How likely somebody gives up a gang whose pods have no nodes, each time that he looks at it."""

TAINT = {"key": f"{devices.DRIVER}/sick", "value": "yes", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """How much of a world has to do with devices."""

    part: float = 0.0
    """The part of the workloads whose pods have claims."""
    each: int = 4
    """How many devices a node has at most."""
    change_seconds: float = 300.0
    """How often a driver publishes other devices, and somebody deletes a claim."""
    tainted: float = 0.0
    """The part of the devices that have a taint."""
    split: float = 0.0
    """How likely a pool has two slices."""
    slow_seconds: float = 0.0
    """How long a driver takes at most from one slice of a pool to the next."""


def device_class() -> Object:
    """The class of all devices."""
    selector = {"cel": {"expression": f'device.driver == "{devices.DRIVER}"'}}
    body = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": devices.CLASS}}
    return {**body, "spec": {"selectors": [selector], "extendedResourceName": devices.EXTENDED}}


def claim_spec(count: int, memory: str = "", *, tolerant: bool = False) -> Object:
    """A claim of so many devices, each with so much memory."""
    exactly: Object = {
        "deviceClassName": devices.CLASS,
        "allocationMode": "ExactCount",
        "count": count,
    }
    if memory:
        text = f'device.capacity["{devices.DRIVER}"].memory.compareTo(quantity("{memory}")) >= 0'
        exactly["selectors"] = [{"cel": {"expression": text}}]
    if tolerant:
        exactly["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}


def asking_by_name(template: Template, count: int) -> Template:
    """Pods that ask for so many devices more by the resource that stands for the class."""
    return replace(template, requests={**template.requests, devices.EXTENDED: str(count)})


class Driver(StorageController):
    """Publishes the devices of each node, which are a pool of their own; some change later.

    A pool of two slices is incomplete for as long as the driver takes for the second one.
    """

    restless = False

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        store: Store,
        wanted: Devices,
    ) -> None:
        super().__init__(client, clock, chance, store=store)
        self._wanted = wanted
        self._generations: dict[str, int] = {}
        self._unwritten: dict[str, list[Object]] = {}
        """By node, slices that are to be published yet."""
        self.follow("nodes")

    def reconcile(self, plural: str, found: Object) -> None:
        """Publish the devices of a new node."""
        assert plural == "nodes"
        node = found["metadata"]["name"]
        if self._unwritten.get(node):
            self._write(node)
        elif self.store.get(devices.SLICES, ("", f"{node}-gpus")) is None:
            self.publish(node)

    def publish(self, node: str) -> None:
        """Publish some devices, in a new generation of the pool."""
        generation = self._generations[node] = self._generations.get(node, 0) + 1
        count = self.chance.randint(1, self._wanted.each)
        listed = [self._device(number) for number in range(count)]
        split = self.chance.random() < self._wanted.split
        parts = [listed[::2], listed[1::2]] if split else [listed]
        pool = {"name": node, "generation": generation, "resourceSliceCount": len(parts)}
        spec = {"driver": devices.DRIVER, "nodeName": node, "pool": pool}
        self._unwritten[node] = [
            {
                "apiVersion": API,
                "kind": "ResourceSlice",
                "metadata": {"name": f"{node}-gpus" + "-more" * number},
                "spec": {**spec, "devices": part},
            }
            for number, part in enumerate(parts)
        ]
        self._write(node)

    def _device(self, number: int) -> Object:
        memory = {"value": self.chance.choice(MEMORY)}
        device: Object = {"name": f"gpu-{number}", "capacity": {"memory": memory}}
        if self.chance.random() < self._wanted.tainted:
            device["taints"] = [TAINT]
        return device

    def _write(self, node: str) -> None:
        """Publish the next slice, and see to the others after a while."""
        body = self._unwritten[node].pop(0)
        name = body["metadata"]["name"]
        if self.store.get(devices.SLICES, ("", name)) is None:
            self.insist(lambda: self.client.create(path(devices.SLICES), body))
        else:
            where = path(devices.SLICES, "", name)
            self.insist(lambda: self.client.patch(where, {"spec": body["spec"]}, kind="merge"))
        if self._unwritten[node]:
            pause = self.chance.uniform(0, self._wanted.slow_seconds)
            self.mark("nodes", ("", node), pause)


class ClaimController(StorageController):
    """Makes claims of templates, frees those of pods that are gone (resourceclaim-controller)."""

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance, store=store)
        self.follow("pods")
        self.follow(devices.CLAIMS)
        store.on("pods", self._pod)

    def reconcile(self, plural: str, found: Object) -> None:
        """Look at a pod or a claim."""
        if plural == "pods":
            self._make(found)
        else:
            self._free(found)

    def _make(self, pod: Object) -> None:
        if reading.leaving(pod) or reading.ended(pod):
            return
        known = (pod.get("status") or {}).get("resourceClaimStatuses") or []
        named = {each["name"] for each in known}
        made = []
        for each in pod["spec"].get("resourceClaims") or ():
            template = each.get("resourceClaimTemplateName")
            if not template or each["name"] in named:
                continue
            name = self._of_template(pod, each["name"], template)
            if not name:
                self.mark("pods", reading.key_of(pod), base.RETRY_SECONDS)
                return
            made.append({"name": each["name"], "resourceClaimName": name})
        if made:
            body = {"status": {"resourceClaimStatuses": [*known, *made]}}
            self.change("pods", pod, body, "status")

    def _of_template(self, pod: Object, entry: str, template: str) -> str:
        namespace, name = reading.key_of(pod)
        found = self.store.get(TEMPLATES, (namespace, template))
        if found is None:
            return ""
        own = f"{name}-{entry}-{pod['metadata']['uid'][:5]}"
        body: Object = {
            "apiVersion": API,
            "kind": "ResourceClaim",
            "metadata": {"name": own, "ownerReferences": [objects.reference(pod)]},
            "spec": found["spec"]["spec"],
        }
        where = path(devices.CLAIMS, namespace)
        self.attempt(functools.partial(self.client.create, where, body))
        return own if self.refused in (0, 409) else ""

    def _free(self, claim: Object) -> None:
        """Remove pods that are gone or have ended, and take back what nobody uses then."""
        status, metadata = claim.get("status") or {}, claim["metadata"]
        reserved = status.get("reservedFor") or []
        left = [each for each in reserved if self._lives(metadata["namespace"], each)]
        protected = FINALIZER in (metadata.get("finalizers") or ())
        if left != reserved:
            body: Object = {"status": {"reservedFor": left or None}}
            if not left:
                body["status"]["allocation"] = None
            self.change(devices.CLAIMS, claim, body, "status")
        elif reading.leaving(claim) and not left and protected:
            if status.get("allocation"):
                self.change(devices.CLAIMS, claim, {"status": {"allocation": None}}, "status")
            else:
                others = [each for each in metadata["finalizers"] if each != FINALIZER]
                self.change(devices.CLAIMS, claim, {"metadata": {"finalizers": others}})

    def _lives(self, namespace: str, consumer: Object) -> bool:
        pod = self.store.get("pods", (namespace, consumer["name"]))
        return (
            pod is not None and pod["metadata"]["uid"] == consumer["uid"] and not reading.ended(pod)
        )

    def _pod(self, before: Object | None, after: Object | None) -> None:
        if after is not None and not reading.ended(after):
            return
        for key in devices.claims_of(after or before or {}):
            if key is not None:
                self.mark(devices.CLAIMS, key)


class DeviceGangs(Launcher):
    """A PodGroup, a template of claims and bare pods; some share one claim more."""

    style = "devices"
    kind = "podgroups"

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
        super().__init__(client, clock, chance, every=every, around=around, most=most)
        self._parts: dict[str, list[str]] = {}
        """Paths of all that belongs to a gang, the PodGroup last."""

    def launch(self, namespace: str, name: str) -> bool:
        """Create the template or the pods first."""
        size = self.chance.choice(SIZES)
        memory = self.chance.choice(("", "", *MEMORY))
        template = self.job_template(**{objects.GROUP: name})
        seconds = 5 + self.chance.expovariate(QUICKER / self.around.job_seconds)
        made_shorter = {**template.annotations, objects.SECONDS: f"{seconds:.0f}"}
        template = replace(template, annotations=made_shorter)
        uses: list[Mapping[str, Any]] = [{"name": "own", "resourceClaimTemplateName": name}]
        tolerant = self.chance.random() < TOLERANT
        spec = claim_spec(self.chance.choice((1, 1, 2)), memory, tolerant=tolerant)
        body: Object = {"apiVersion": API, "metadata": {"name": name}}
        made = [(TEMPLATES, {**body, "kind": "ResourceClaimTemplate", "spec": {"spec": spec}})]
        if self.chance.random() < SHARED:
            uses.append({"name": "shared", "resourceClaimName": name})
            made.append((devices.CLAIMS, {**body, "kind": "ResourceClaim", "spec": claim_spec(1)}))
        if self.chance.random() < TWICE:
            uses.append({"name": "more", "resourceClaimTemplateName": name})
        if self.chance.random() < BY_NAME:
            del uses[0]
            template = asking_by_name(template, self.chance.choice((1, 1, 2)))
        with_claims = replace(template, spec={**template.spec, "resourceClaims": uses})
        pods = [
            ("pods", objects.pod(f"{name}-{number}", with_claims.written()))
            for number in range(size)
        ]
        made = [*pods, *made] if self.chance.random() < 0.3 else [*made, *pods]
        made.insert(0, ("podgroups", objects.pod_group(name, self.some_queue(), size)))
        for plural, each in made:
            self.create(plural, namespace, each)
        self._parts[name] = [
            path(plural, namespace, each["metadata"]["name"]) for plural, each in made[::-1]
        ]
        return True

    def is_done(self, namespace: str, name: str) -> bool:
        """Whether all of its pods have ended, or its user is tired of it, mostly of waiting."""
        members = [
            pod
            for pod in self.around.store.all("pods")
            if reading.group_of(pod) == (namespace, name)
        ]
        tired = 0.004 if any(map(reading.node_of, members)) else TIRED
        return all(map(reading.ended, members)) or self.chance.random() < tired

    def remove(self, namespace: str, name: str) -> None:
        """Delete everything."""
        del namespace
        for where in self._parts.pop(name):
            self.insist(functools.partial(self.client.delete, where))


class DeviceEditor(Editor):
    """Deletes a claim, whoever uses it, has a driver publish other devices of a node, or limits the
    devices of a Queue.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: random.Random,
        *,
        every: float,
        around: Tenancy,
        driver: Driver,
    ) -> None:
        super().__init__(client, clock, chance, every=every, around=around)
        self._driver = driver

    def act(self) -> None:
        """Do one of these."""
        drawn = self.chance.random()
        if drawn < 0.2:
            limit = self.chance.choice((None, *map(str, range(1, 9))))
            where = path("queues", name=self.chance.choice(self.around.queues))
            self.patch(where, {"spec": {"capability": {devices.COUNTED: limit}}})
            return
        if drawn < 0.6:
            found = self.around.store.all("nodes")
            if found:
                self._driver.publish(self.chance.choice(found)["metadata"]["name"])
            return
        claims = [
            each for each in self.around.store.all(devices.CLAIMS) if not reading.leaving(each)
        ]
        if claims:
            where = path_of(devices.CLAIMS, self.chance.choice(claims))
            self.attempt(lambda: self.client.delete(where))


CONTROLLERS: Sequence[tuple[str, Callable[..., StorageController]]] = (
    ("claim-controller", ClaimController),
)
RESTLESS = ("device-gangs", "device-editor")
