"""Users whose pods have claims, people who take claims and volumes away, and hostile claims."""

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.actors import objects, tenants
from tests.simulation.actors.base import Clock, Object
from tests.simulation.actors.editors import Editor
from tests.simulation.actors.informers import path, path_of
from tests.simulation.actors.launchers import GANG_SIZES, Gangs, Launcher, Sets, Tenancy
from tests.simulation.actors.objects import Template
from tests.simulation.actors.storage import CLAIMS, VOLUMES
from tests.simulation.actors.tenants import Tenant
from tests.simulation.api_server.client import Client
from tests.simulation.judges import objects as reading
from tests.simulation.judges import volumes

CLASSES = ("local", "local", "zonal", "zonal", "picky", "nodal", "network")
SIZES = ("1Gi", "1Gi", "2Gi", "4Gi")
MOUNT = "data"
SHARED = 0.15
"""The part of the gangs whose pods share one more claim; some of these allow one pod only, so that
the gang can't start."""
LOCAL_SIZE = "2Gi"


def claim_spec(chance: random.Random) -> Object:
    """What a user asks for; all local volumes do for all claims of their class."""
    name = chance.choice(CLASSES)
    alone = name != "local" and chance.random() < 0.2
    size = LOCAL_SIZE if name == "local" else chance.choice(SIZES)
    return {
        "accessModes": [volumes.ALONE if alone else "ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": name,
    }


def claim(name: str, spec: Mapping[str, Any], owner: Object | None = None) -> Object:
    """A claim; of an owner, with which it goes."""
    metadata: Object = {"name": name}
    if owner is not None:
        metadata["ownerReferences"] = [{**objects.reference(owner), "controller": False}]
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**body, "metadata": metadata, "spec": dict(spec)}


def with_volumes(template: Template, *used: Object) -> Template:
    """The same pods with volumes."""
    return replace(template, spec={**template.spec, "volumes": list(used)})


class ScratchGangs(Gangs):
    """Jobs whose pods each have a claim that is made for them."""

    style = "scratch"

    def job_template(self, **annotations: str) -> Template:
        """Pods with one or two ephemeral volumes."""
        made = super().job_template(**annotations)
        used = [
            {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(self.chance)}}}
            for name in ((MOUNT, "more") if self.chance.random() < 0.2 else (MOUNT,))
        ]
        return with_volumes(made, *used)


class ClaimGangs(Launcher):
    """A PodGroup and bare pods, each with a claim of its own that was made before, or is made
    after; some share one more.
    """

    style = "claims"
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
        """Create claims and pods, in either order."""
        size = self.chance.choice(GANG_SIZES)
        template = self.job_template(**{objects.GROUP: name})
        group = objects.pod_group(name, self.some_queue(), size)
        owned = [("podgroups", group)]
        spec, mixed = claim_spec(self.chance), self.chance.random() < 0.3
        shared = f"{name}-shared" if self.chance.random() < SHARED else ""
        made: list[tuple[str, Object]] = []
        if shared:
            made.append((CLAIMS, claim(shared, {**spec, "storageClassName": "network"})))
        for number in range(size):
            own = f"{MOUNT}-{name}-{number}"
            made.append((CLAIMS, claim(own, claim_spec(self.chance) if mixed else spec)))
            used = [
                {"name": each, "persistentVolumeClaim": {"claimName": each}}
                for each in filter(None, (own, shared))
            ]
            pod = objects.pod(f"{name}-{number}", with_volumes(template, *used).written())
            made.append(("pods", pod))
        if self.chance.random() < 0.3:
            made.sort(key=lambda each: each[0] == CLAIMS)
        for plural, body in owned + made:
            self.create(plural, namespace, body)
        self._parts[name] = [
            path(plural, namespace, body["metadata"]["name"]) for plural, body in made[::-1] + owned
        ]
        return True

    def is_done(self, namespace: str, name: str) -> bool:
        """Whether all of its pods have ended, or its user is tired of it."""
        members = [
            pod
            for pod in self.around.store.all("pods")
            if reading.group_of(pod) == (namespace, name)
        ]
        return all(map(reading.ended, members)) or self.chance.random() < 0.004

    def remove(self, namespace: str, name: str) -> None:
        """Delete everything; seldom a claim is left."""
        del namespace
        for where in self._parts.pop(name):
            if f"/{CLAIMS}/" in where and self.chance.random() < 0.1:
                continue
            self.insist(functools.partial(self.client.delete, where))


class VolumeSets(Sets):
    """StatefulSets with claims of their own, which go with them."""

    style = "vset"

    def create(self, plural: str, namespace: str, body: Object) -> bool:
        """Add a template of claims."""
        wanted = claim(MOUNT, claim_spec(self.chance))
        body["spec"]["volumeClaimTemplates"] = [wanted]
        return super().create(plural, namespace, body)


STYLES: Sequence[tuple[str, type[Launcher], float]] = (
    ("scratch-gangs", ScratchGangs, 0.4),
    ("claim-gangs", ClaimGangs, 0.4),
    ("volume-sets", VolumeSets, 0.2),
)
"""Styles of workloads with volumes, and their part of all that have."""


class ClaimDeleter(Editor):
    """Deletes a claim, whoever waits for it, or gives it up and makes it anew."""

    def act(self) -> None:
        """Delete one that isn't bound, mostly."""
        found = [
            each
            for each in self.around.store.all(CLAIMS)
            if not reading.leaving(each)
            and (not volumes.is_bound(each) or self.chance.random() < 0.05)
        ]
        if not found:
            return
        chosen = self.chance.choice(found)
        key = reading.key_of(chosen)
        where = path_of(CLAIMS, chosen)
        self.attempt(lambda: self.client.delete(where))
        if self.chance.random() < 0.6 and not chosen["metadata"].get("ownerReferences"):
            again = claim(key[1], _asked(chosen))
            pause = self.chance.choice((0.5, 3.0, 60.0))
            self.clock.after(pause, lambda: self._again(key[0], again))

    def _again(self, namespace: str, body: Object) -> None:
        self.insist(lambda: self.client.create(path(CLAIMS, namespace), body))


def _asked(found: Object) -> Object:
    names = ("accessModes", "resources", "storageClassName")
    return {name: found["spec"][name] for name in names}


class VolumeTaker(Editor):
    """Reserves free local volumes by hand, and gives them back; deletes some."""

    def act(self) -> None:
        """Take one."""
        found = [
            each
            for each in self.around.store.all(VOLUMES)
            if not each["spec"].get("claimRef") and not reading.leaving(each)
        ]
        if not found:
            return
        where = path_of(VOLUMES, self.chance.choice(found))
        if self.chance.random() < 0.3:
            self.attempt(lambda: self.client.delete(where))
            return
        reference = {"kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "nobody"}
        self.attempt(lambda: self.client.patch(where, {"spec": {"claimRef": reference}}))
        pause = self.chance.uniform(1, 120)
        self.clock.after(pause, lambda: self._give_back(where))

    def _give_back(self, where: str) -> None:
        self.attempt(lambda: self.client.patch(where, {"spec": {"claimRef": None}}))


class ClaimGarbage(Tenant):
    """Claims that make no sense, nodes selected by hand, and volumes claimed by name."""

    def act(self) -> None:
        """Create a claim, and mostly a pod that uses it."""
        spec = claim_spec(self.chance)
        annotations: dict[str, str] = {}
        drawn = self.chance.random()
        if drawn < 0.3:
            name = self.chance.choice(("", "none", "../..", "x" * 253, "node-000"))
            annotations[volumes.SELECTED] = name
        elif drawn < 0.5:
            found = self.around.store.all(VOLUMES)
            names = [each["metadata"]["name"] for each in found] or ["none"]
            spec["volumeName"] = self.chance.choice(names)
        elif drawn < 0.6:
            annotations |= {volumes.BOUND: "yes", volumes.BY_CONTROLLER: "yes"}
        elif drawn < 0.7:
            spec["resources"] = {"requests": {"storage": self.chance.choice(tenants.QUANTITIES)}}
        elif drawn < 0.8:
            spec["selector"] = {"matchLabels": {"disk": "none"}}
        elif drawn < 0.9:
            spec["storageClassName"] = self.chance.choice(("", "none", "x" * 63))
        body = claim(self.name("claim")[:63], spec)
        body["metadata"]["annotations"] = annotations
        self.make(CLAIMS, tenants.NAMESPACE, body)
        if self.chance.random() < 0.7:
            own = body["metadata"]["name"]
            volume = {"name": MOUNT, "persistentVolumeClaim": {"claimName": own}}
            self.make("pods", tenants.NAMESPACE, self.pod("user", {}, volumes=[volume]))


HABITS: Sequence[tuple[str, type[Editor], float]] = (
    ("claim-deleter", ClaimDeleter, 1.0),
    ("volume-taker", VolumeTaker, 0.5),
    ("claim-garbage", ClaimGarbage, 0.3),
)
"""Names, and after how many times the storage's pause each acts again."""
RESTLESS = (*(name for name, *_ in (*STYLES, *HABITS)), "storage-trouble")
