"""What Kubernetes and its drivers do about volumes and devices between two cycles of a world.

Volumes that are given to claims are bound, others are made or refused, each after a while; claims
of pods are made with them and go with them; devices are taken back from those that are gone.
Once change is over everything that is asked for comes at once.
"""

import copy
import random
from collections.abc import Callable, Container, Mapping

from tests import volume_labs, volume_manifests
from tests.properties.worlds import census as censuses
from tests.properties.worlds import claims, manifests
from tests.properties.worlds.manifests import Document, Key
from vscheduler.mirror import device_requests, volume_requests
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.state import Mirror
from vscheduler.model.claim_decisions import ClaimAllocation, DeviceChange, VolumeChange
from vscheduler.model.decisions import CycleResult
from vscheduler.model.devices import ResourceClaim

SOON = 0.5
"""How likely something happens in a cycle that is to happen."""
LOST = 0.05
"""The part of the writes about claims that the API server refuses."""

REFUSED = 0.15
"""How likely a driver gives a node back instead of making a volume."""

PVC, PV, DEVICES = "PersistentVolumeClaim", "PersistentVolume", "ResourceClaim"
OF_NODES = ("CSINode", "ResourceSlice")
KINDS = {Kind.CLAIM: PVC, Kind.VOLUME: PV}


class ClaimControllers:
    """All of them, for one world."""

    def __init__(
        self,
        documents: dict[Key, Document],
        put: Callable[[Document], None],
        drop: Callable[[Key], None],
        seed: int,
    ) -> None:
        self.kind = False
        """Whether nothing takes time or is refused any more."""
        self.busy = False
        """Whether anything happened in the last turn, or was asked for since."""
        self._documents, self._put, self._drop = documents, put, drop
        self._seed, self._chance = seed, random.Random(f"controllers {seed}")
        self._uids = 0

    def create(self, document: Document) -> None:
        """Store a claim unless there is one of its name."""
        if manifests.key_of(document) not in self._documents:
            self._uids += 1
            document["metadata"]["uid"] = f"claim-{self._uids:05}"
            self._put(document)

    def turn(self) -> None:
        """Everything that is due."""
        self.busy = False
        self._follow_nodes()
        pods = dict(self._of_kind("Pod"))
        for pod in list(pods.values()):
            if not (censuses.leaving(pod) or censuses.finished(pod)):
                self._make_claims(pod)
        living = {pod["metadata"]["uid"] for pod in pods.values() if not censuses.finished(pod)}
        for key, claim in self._of_kind(DEVICES):
            self._free(key, claim, living)
        self._clean(pods)
        for _, claim in self._of_kind(PVC):
            if not claim["spec"].get("volumeName") and (self.kind or self._luck() < SOON):
                self._bind(claim)

    def obey(self, mirror: Mirror, result: CycleResult, now: float) -> None:
        """Write what a cycle has decided, but for what is refused now and then."""
        changes = list(result.claim_changes())
        for request in (each for each in changes if isinstance(each, VolumeChange)):
            self.busy = True
            target = mirror.claims.target(request)
            if target is None or self._is_refused():
                continue
            namespace, _, name = target.key.rpartition("/")
            key = KINDS[target.kind], namespace, name
            assert isinstance(target.value, volume_requests.Wanted)
            patch = volume_requests.patch(
                target.value,
                request,
                version=target.version,
                schedulers=(manifests.SCHEDULER,),
                since=now,
            )
            self._patch(key, patch)
        for change in (each for each in changes if isinstance(each, DeviceChange)):
            self.busy = True
            if not self._is_refused():
                self._allocate(mirror, change)

    def _allocate(self, mirror: Mirror, change: DeviceChange) -> None:
        target = mirror.claims.target(change)
        assert target is not None, change
        key = DEVICES, change.namespace, change.name
        if key not in self._documents:
            assert isinstance(change, ClaimAllocation)
            self.create({**device_requests.creation(change), "status": {}})
            pod = "Pod", change.namespace, change.reserved_for[0].name
            self._patch(pod, device_requests.announcement(change))
        assert isinstance(target.value, ResourceClaim)
        self._patch(key, device_requests.status_patch(target.value, change, target.version))

    def _patch(self, key: Key, patch: Document) -> None:
        """Merge a patch whose preconditions hold, as nobody else has written meanwhile."""
        for name in ("uid", "resourceVersion"):
            patch["metadata"].pop(name, None)
        self._put(volume_labs.merged(copy.deepcopy(self._documents[key]), patch))

    def _of_kind(self, kind: str) -> list[tuple[Key, Document]]:
        return sorted((key, each) for key, each in self._documents.items() if key[0] == kind)

    def _luck(self) -> float:
        return self._chance.random()

    def _is_refused(self) -> bool:
        return not self.kind and self._luck() < LOST

    def _changed(self, document: Document) -> None:
        self.busy = True
        self._put(document)

    def _follow_nodes(self) -> None:
        """What kubelets and drivers say of nodes comes and goes with these."""
        for key, document in [pair for kind in OF_NODES for pair in self._of_kind(kind)]:
            node = document["spec"].get("nodeName", key[2])
            if ("Node", "", node) not in self._documents:
                self._drop(key)
        for (_, _, name), _ in self._of_kind("Node"):
            if ("CSINode", "", name) not in self._documents:
                for document in claims.of_node(self._seed, name):
                    self._put(document)

    def _make_claims(self, pod: Document) -> None:
        """Those of templates, in the turn after the pod's creation."""
        metadata = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"]}
        owners = [{**owner, "uid": metadata["uid"], "controller": True}]
        for volume in pod["spec"].get("volumes", ()):
            name = f"{metadata['name']}-{volume['name']}"
            if "ephemeral" in volume and self._is_missing(PVC, pod, name):
                found = manifests.claim(
                    name, metadata["namespace"], volume["ephemeral"]["volumeClaimTemplate"]["spec"]
                )
                found["metadata"]["ownerReferences"] = owners
                self.create(found)
        known = pod["status"].get("resourceClaimStatuses", [])
        made = []
        for entry in pod["spec"].get("resourceClaims", ()):
            template = entry.get("resourceClaimTemplateName")
            if template and entry["name"] not in {each["name"] for each in known}:
                name = f"{metadata['name']}-{entry['name']}-{metadata['uid'][-6:]}"
                found = claims.device_claim(name, metadata["namespace"], template)
                found["metadata"]["ownerReferences"] = owners
                self.create(found)
                made.append({"name": entry["name"], "resourceClaimName": name})
        if made:
            status = {**pod["status"], "resourceClaimStatuses": [*known, *made]}
            self._changed({**pod, "status": status})

    def _is_missing(self, kind: str, pod: Document, name: str) -> bool:
        return (kind, pod["metadata"]["namespace"], name) not in self._documents

    def _free(self, key: Key, claim: Document, living: Container[str]) -> None:
        """Take devices back from pods that are gone or have ended."""
        status = claim["status"]
        reserved = status.get("reservedFor") or []
        left = [each for each in reserved if each["uid"] in living]
        owners = claim["metadata"].get("ownerReferences", ())
        if left != reserved:
            self._changed({**claim, "status": {**status, "reservedFor": left} if left else {}})
        if not all(owner["uid"] in living for owner in owners):
            self._drop(key)

    def _clean(self, pods: Mapping[Key, Document]) -> None:
        """Claims go with the pods and jobs that they were made for, volumes are emptied then."""
        owners = {pod["metadata"]["uid"] for pod in pods.values()}
        groups = {(namespace, name) for (_, namespace, name), _ in self._of_kind("PodGroup")}
        groups |= {
            (key[1], pod["metadata"]["annotations"][manifests.GROUP]) for key, pod in pods.items()
        }
        for key, claim in [pair for kind in (PVC, DEVICES) for pair in self._of_kind(kind)]:
            of_pods = claim["metadata"].get("ownerReferences", ())
            job = claim["metadata"].get("labels", {}).get(manifests.JOB)
            gone = any(each["uid"] not in owners for each in of_pods)
            if gone or (job and (key[1], job) not in groups):
                self._drop(key)
        uids = {claim["metadata"]["uid"] for _, claim in self._of_kind(PVC)}
        for key, volume in self._of_kind(PV):
            reference = volume["spec"].get("claimRef")
            if reference is None or reference["uid"] in uids:
                continue
            self._drop(key)
            if volume["spec"]["storageClassName"] == claims.LOCAL:
                spec = {name: each for name, each in volume["spec"].items() if name != "claimRef"}
                self._changed({**volume, "spec": spec, "status": {"phase": "Available"}})

    def _bind(self, claim: Document) -> None:
        """To the volume that is given to it, or to one that is made for it."""
        uid = claim["metadata"]["uid"]
        for _, volume in self._of_kind(PV):
            if volume["spec"].get("claimRef", {}).get("uid") == uid:
                self._bound(claim, volume)
                return
        of_class = claim["spec"]["storageClassName"]
        selected = claim["metadata"]["annotations"].get(volume_manifests.SELECTED, "")
        if of_class == claims.PINNED:
            selected = self._chance.choice([name for (_, _, name), _ in self._of_kind("Node")])
        if not selected:
            return
        node = self._documents.get(("Node", "", selected))
        refused = node is None or (not self.kind and self._luck() < REFUSED)
        if refused and of_class != claims.PINNED:
            annotations = {
                name: text
                for name, text in claim["metadata"]["annotations"].items()
                if name != volume_manifests.SELECTED
            }
            self._changed({**claim, "metadata": {**claim["metadata"], "annotations": annotations}})
        elif node is not None:
            labels = node["metadata"]["labels"]
            where = "zone" if of_class == claims.ZONAL and "zone" in labels else manifests.HOST
            volume = volume_manifests.volume(
                f"made-{uid}",
                of_class,
                size="2Gi",
                modes=claim["spec"]["accessModes"],
                terms=volume_manifests.on_labels(where, labels[where]),
                source=volume_manifests.csi(uid, claims.DRIVER),
            )
            self._bound(claim, volume)

    def _bound(self, claim: Document, volume: Document) -> None:
        for each in volume_manifests.bound(claim, volume):
            self._changed(each)
