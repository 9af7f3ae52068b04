"""Controllers of Kubernetes for claims and volumes, as kube-controller-manager has them."""

import functools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.simulation.actors import base, objects
from tests.simulation.actors.base import Actor, Clock, Key, Object
from tests.simulation.actors.informers import Store, path, path_of
from tests.simulation.api_server.client import Client
from tests.simulation.judges import objects as reading
from tests.simulation.judges import volumes

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses"
REACTION_SECONDS = (0.02, 0.4)
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
PROVISIONED = "pv.kubernetes.io/provisioned-by"
PROTECTED = {CLAIMS: "kubernetes.io/pvc-protection", VOLUMES: "kubernetes.io/pv-protection"}


class StorageController(Actor):
    """Looks at objects of some kinds a little after they, or others that matter, have changed."""

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance)
        self.store = store
        self._due: dict[tuple[str, Key], None] = {}

    def reconcile(self, plural: str, found: Object) -> None:
        """Take the next steps for an object."""
        raise NotImplementedError

    def mark(self, plural: str, key: Key, seconds: float | None = None) -> None:
        """Look at an object soon."""
        if not self.active or (plural, key) in self._due:
            return
        self._due[plural, key] = None
        pause = self.chance.uniform(*REACTION_SECONDS) if seconds is None else seconds
        self.later(pause, lambda: self._turn(plural, key))

    def follow(self, plural: str) -> None:
        """Look at each object of a kind that has changed."""
        self.store.on(plural, lambda _, after: self._marked(plural, after))

    def change(self, plural: str, found: Object, body: Object, part: str = "") -> bool:
        """Patch this version of an object; whether that was taken. If not, look again."""
        version = found["metadata"]["resourceVersion"]
        metadata = {**body.get("metadata", {}), "resourceVersion": version}
        where = path_of(plural, found, part)
        made = self.attempt(
            lambda: self.client.patch(where, {**body, "metadata": metadata}, kind="merge")
        )
        if made is None:
            self.mark(plural, reading.key_of(found), base.RETRY_SECONDS)
        return made is not None

    def tell(self, plural: str, found: Object, phase: str, **more: Any) -> None:
        """Write a status, if it differs."""
        known = found.get("status") or {}
        wanted = {"phase": phase, **more}
        if any(known.get(name) != value for name, value in wanted.items()):
            where = path_of(plural, found, "status")
            self.attempt(lambda: self.client.patch(where, {"status": wanted}))
            if self.refused:
                self.mark(plural, reading.key_of(found), base.RETRY_SECONDS)

    def _marked(self, plural: str, found: Object | None) -> None:
        if found is not None:
            self.mark(plural, reading.key_of(found))

    def _turn(self, plural: str, key: Key) -> None:
        self._due.pop((plural, key), None)
        found = self.store.get(plural, key)
        if found is not None:
            self.reconcile(plural, found)


class VolumeBinder(StorageController):
    """Binds claims to volumes (pv_controller): those that were reserved, and others unless a class
    waits for the first consumer.
    """

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance, store=store)
        self.follow(CLAIMS)
        self.follow(VOLUMES)
        store.on(CLAIMS, self._claim_changed)
        store.on(VOLUMES, self._volume_changed)

    def reconcile(self, plural: str, found: Object) -> None:
        """Look at a claim or a volume."""
        if plural == VOLUMES:
            self._volume(found)
        elif volumes.BOUND in reading.annotations(found):
            self._bound_claim(found)
        else:
            self._unbound_claim(found)

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        for each in (before, after):
            if each is not None and (name := each["spec"].get("volumeName")):
                self.mark(VOLUMES, ("", name))
        if after is None and before is not None:
            for volume in self.store.all(VOLUMES):
                if volumes.is_of(before, volume):
                    self.mark(VOLUMES, reading.key_of(volume))

    def _volume_changed(self, before: Object | None, after: Object | None) -> None:
        found = after or before
        assert found is not None
        if (key := volumes.reserved_for(found)) is not None:
            self.mark(CLAIMS, key)
        elif after is not None:
            for claim in self.store.all(CLAIMS):
                if volumes.class_of(claim) == volumes.class_of(after):
                    self.mark(CLAIMS, reading.key_of(claim))

    def _unbound_claim(self, claim: Object) -> None:
        name = claim["spec"].get("volumeName")
        if name:
            volume = self.store.get(VOLUMES, ("", name))
            free = volume is not None and not volume["spec"].get("claimRef")
            if volume is not None and (free or volumes.is_of(claim, volume)):
                self._bind(claim, volume)
            else:
                self.tell(CLAIMS, claim, "Pending")
            return
        found = self.store.get(CLASSES, ("", volumes.class_of(claim))) or {}
        delayed = found.get("volumeBindingMode") == volumes.WAITS and not volumes.selected(claim)
        volume = self._match(claim, delayed=delayed)
        if volume is not None:
            self._bind(claim, volume)
            return
        self.tell(CLAIMS, claim, "Pending")
        driver = found.get("provisioner", volumes.NO_PROVISIONER)
        known = reading.annotations(claim).get(PROVISIONER)
        if not delayed and driver not in (volumes.NO_PROVISIONER, known):
            self.change(CLAIMS, claim, {"metadata": {"annotations": {PROVISIONER: driver}}})

    def _match(self, claim: Object, *, delayed: bool) -> Object | None:
        """The volume that is reserved for a claim, or else the smallest that suits it."""
        free = []
        for each in self.store.all(VOLUMES):
            if volumes.is_of(claim, each):
                return each
            if not each["spec"].get("claimRef") and suits(claim, each):
                free.append(each)
        if delayed or not free:
            return None
        return min(free, key=lambda each: (volumes.size(each), each["metadata"]["name"]))

    def _bind(self, claim: Object, volume: Object) -> None:
        """The volume first, then the claim, each with its status; whatever is missing of it."""
        key, uid = reading.key_of(claim), claim["metadata"]["uid"]
        name = volume["metadata"]["name"]
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid") != uid:
            made = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "uid": uid}
            body: Object = {"spec": {"claimRef": {**made, "namespace": key[0], "name": key[1]}}}
            if not reference:
                body["metadata"] = {"annotations": {volumes.BY_CONTROLLER: "yes"}}
            if not self.change(VOLUMES, volume, body):
                self.mark(CLAIMS, key, base.RETRY_SECONDS)
                return
        self.tell(VOLUMES, volume, "Bound")
        if not volumes.is_bound(claim):
            annotations = {volumes.BOUND: "yes"}
            if not claim["spec"].get("volumeName"):
                annotations[volumes.BY_CONTROLLER] = "yes"
            body = {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}}
            if not self.change(CLAIMS, claim, body):
                return
        spec = volume["spec"]
        self.tell(
            CLAIMS, claim, "Bound", accessModes=spec["accessModes"], capacity=spec["capacity"]
        )

    def _bound_claim(self, claim: Object) -> None:
        name = claim["spec"].get("volumeName", "")
        volume = self.store.get(VOLUMES, ("", name))
        if volume is None or (volume["spec"].get("claimRef") and not volumes.is_of(claim, volume)):
            self.tell(CLAIMS, claim, "Lost")
        else:
            self._bind(claim, volume)

    def _volume(self, volume: Object) -> None:
        key = volumes.reserved_for(volume)
        if key is None:
            self.tell(VOLUMES, volume, "Available")
            return
        claim = self.store.get(CLAIMS, key)
        if claim is None or not volumes.is_of(claim, volume):
            if volume["spec"]["claimRef"].get("uid"):
                self.tell(VOLUMES, volume, "Released")
            return
        name = claim["spec"].get("volumeName")
        if not name:
            self.mark(CLAIMS, key)
        elif name == volume["metadata"]["name"]:
            self.tell(VOLUMES, volume, "Bound")
        elif PROVISIONED in reading.annotations(volume):
            self.tell(VOLUMES, volume, "Released")
        elif volumes.BY_CONTROLLER in reading.annotations(volume):
            annotations = {"annotations": {volumes.BY_CONTROLLER: None}}
            body = {"spec": {"claimRef": None}, "metadata": annotations}
            self.change(VOLUMES, volume, body)


def suits(claim: Object, volume: Object) -> bool:
    """Whether a volume is as a claim wants it."""
    spec, has = claim["spec"], volume["spec"]
    return (
        volumes.class_of(claim) == volumes.class_of(volume)
        and volumes.size(volume) >= volumes.size(claim)
        and set(spec["accessModes"]) <= set(has["accessModes"])
        and spec["volumeMode"] == has["volumeMode"]
        and not reading.leaving(volume)
        and (volume.get("status") or {}).get("phase") == "Available"
    )


class Protection(StorageController):
    """Lets claims go that no pod on a node uses, and volumes that aren't bound."""

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance, store=store)
        self.follow(CLAIMS)
        self.follow(VOLUMES)
        store.on("pods", self._pod)

    def reconcile(self, plural: str, found: Object) -> None:
        """Take the finalizer away from what is being deleted."""
        known = found["metadata"].get("finalizers") or ()
        if not reading.leaving(found) or PROTECTED[plural] not in known:
            return
        if plural == CLAIMS:
            key = reading.key_of(found)
            used = any(
                reading.holds(pod) and key in volumes.claims_of(pod)
                for pod in self.store.all("pods")
            )
        else:
            used = (found.get("status") or {}).get("phase") == "Bound"
        if not used:
            kept = [each for each in known if each != PROTECTED[plural]]
            self.change(plural, found, {"metadata": {"finalizers": kept or None}})

    def _pod(self, before: Object | None, after: Object | None) -> None:
        if before is not None and (after is None or reading.ended(after)):
            for key in volumes.claims_of(before):
                self.mark(CLAIMS, key)


class EphemeralClaims(StorageController):
    """Makes the claims of generic ephemeral volumes; each belongs to its pod."""

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance, store=store)
        self.follow("pods")
        store.on(CLAIMS, self._claim)

    def reconcile(self, plural: str, found: Object) -> None:
        """Create what is missing."""
        if reading.leaving(found) or reading.ended(found):
            return
        for key, template in volumes.made_for(found).items():
            if self.store.get(CLAIMS, key) is not None:
                continue
            metadata = {"name": key[1], "ownerReferences": [objects.reference(found)]}
            body = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {**(template.get("metadata") or {}), **metadata},
                "spec": template["spec"],
            }
            self.attempt(functools.partial(self.client.create, path(CLAIMS, key[0]), body))
            if self.refused:
                self.mark(plural, reading.key_of(found), base.RETRY_SECONDS)

    def _claim(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:
            for owner in before["metadata"].get("ownerReferences") or ():
                if owner["kind"] == "Pod":
                    self.mark("pods", (before["metadata"]["namespace"], owner["name"]))


class Attacher(StorageController):
    """Attaches the CSI volumes of pods to their nodes, and detaches them afterwards."""

    DETACH_SECONDS = (1.0, 8.0)

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, store: Store
    ) -> None:
        super().__init__(client, clock, chance, store=store)
        store.on("pods", self._pod)
        store.on(CLAIMS, self._claim)

    def reconcile(self, plural: str, found: Object) -> None:
        """Compare the attachments of a node with what its pods use."""
        assert plural == "nodes"
        node = found["metadata"]["name"]
        wanted = dict(self._wanted(node))
        known = {
            each["spec"]["source"].get("persistentVolumeName", ""): each
            for each in self.store.all("volumeattachments")
            if each["spec"]["nodeName"] == node
        }
        for name in sorted(wanted.keys() - known.keys()):
            spec = {
                "attacher": wanted[name],
                "nodeName": node,
                "source": {"persistentVolumeName": name},
            }
            body = {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": {"name": f"csi-{name}-{node}"[:200]},
                "spec": spec,
            }
            self.attempt(functools.partial(self.client.create, path("volumeattachments"), body))
        for name in sorted(known.keys() - wanted.keys()):
            where = path_of("volumeattachments", known[name])
            self.attempt(functools.partial(self.client.delete, where))

    def _wanted(self, node: str) -> Iterable[tuple[str, str]]:
        for pod in self.store.pods_on[node].values():
            for key in volumes.claims_of(pod):
                claim = self.store.get(CLAIMS, key)
                if claim is None or not volumes.is_bound(claim):
                    continue
                name = claim["spec"]["volumeName"]
                volume = self.store.get(VOLUMES, ("", name))
                source = volumes.attached(volume) if volume is not None else None
                if source is not None:
                    yield name, source.driver

    def _pod(self, before: Object | None, after: Object | None) -> None:
        for each, pause in ((after, None), (before, self.DETACH_SECONDS)):
            if each is not None and reading.node_of(each) and volumes.claims_of(each):
                seconds = self.chance.uniform(*pause) if pause else None
                self.mark("nodes", ("", reading.node_of(each)), seconds)

    def _claim(self, before: Object | None, after: Object | None) -> None:
        if after is None or not volumes.is_bound(after) or before == after:
            return
        key = reading.key_of(after)
        for node in [name for name, pods in self.store.pods_on.items() if pods]:
            if any(key in volumes.claims_of(pod) for pod in self.store.pods_on[node].values()):
                self.mark("nodes", ("", node))


CONTROLLERS: Sequence[tuple[str, Callable[..., StorageController]]] = (
    ("volume-binder", VolumeBinder),
    ("volume-protection", Protection),
    ("ephemeral-claims", EphemeralClaims),
    ("attacher", Attacher),
)
