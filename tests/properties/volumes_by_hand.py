"""kube-scheduler's filters about volumes, node by node, read from the documents themselves.

Nothing here is shared with the scheduler, and nothing is quick.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]

COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
NOBODY = "kubernetes.io/no-provisioner"
EBS, EBS_DRIVER = "kubernetes.io/aws-ebs", "ebs.csi.aws.com"
UNUSABLE = "has unusable claims"
IN_USE = (
    "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by"
    " another pod"
)
NONE_FREE = "didn't find available persistent volumes to bind"
TOO_MANY = "exceed max volume count"
ELSEWHERE = "didn't match PersistentVolume's node affinity"
OF_NODES = (IN_USE, TOO_MANY, ELSEWHERE, NONE_FREE)
UNITS = {"Gi": 2**30, "Mi": 2**20, "G": 10**9}
ZONES = (
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
)


class Judge:
    """A cluster in which pods are judged."""

    def __init__(self, documents: Iterable[Document]) -> None:
        listed = list(documents)
        self.pods = [each for each in listed if each["kind"] == "Pod"]
        self.nodes = _by_name(listed, "Node")
        self.claims = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each
            for each in listed
            if each["kind"] == "PersistentVolumeClaim"
        }
        self.volumes = _by_name(listed, "PersistentVolume")
        self.classes = _by_name(listed, "StorageClass")
        self.csi_nodes = _by_name(listed, "CSINode")
        self.drivers = _by_name(listed, "CSIDriver")
        self.capacities = [each for each in listed if each["kind"] == "CSIStorageCapacity"]
        self.attachments = [each for each in listed if each["kind"] == "VolumeAttachment"]

    def among(self, pods: Iterable[Document]) -> "Judge":
        """The same cluster with these pods instead."""
        other = copy.copy(self)
        other.pods = list(pods)
        return other

    def takes(self, pod: Document, name: str) -> bool:
        """Whether the node takes the pod, as far as volumes go."""
        return not any(self.refusals(pod, name))

    def refusals(self, pod: Document, name: str) -> Iterator[str]:
        """Why the node doesn't take the pod, in kube-scheduler's words."""
        found = [self.claim(pod, volume) for volume in _claiming(pod)]
        claims = [each for each in found if each is not None]
        unusable = len(claims) < len(found) or not all(map(self._is_usable, claims))
        if unusable:
            yield UNUSABLE
        others = [each for each in self._on(name) if each is not pod]
        if not self._is_alone(pod, claims):
            yield IN_USE
        if any(_share_disk(pod, other) for other in others):
            yield "had no available disk"
        node = self.csi_nodes.get(name)
        for driver in sorted({driver for driver, _ in self._handles(pod, node)}):
            if self._needs_driver(driver) and not _has_driver(node, driver):
                yield f"without CSI driver {driver}"
        if not self._is_within_limits(pod, others, name):
            yield TOO_MANY
        if not all(self._reaches(claim, name) for claim in claims if _is_bound(claim)):
            yield ELSEWHERE
        unbound = [claim for claim in claims if not _is_bound(claim)]
        if not unusable and not self._gets_volumes(unbound, name):
            yield NONE_FREE

    def have_volumes(self, places: Iterable[tuple[Document, str]]) -> bool:
        """Whether all claims that need an existing volume get one each, with these pods on these
        nodes.
        """
        asked: dict[str, list[set[str]]] = {}
        for pod, name in places:
            for volume in _claiming(pod):
                claim = self.claim(pod, volume)
                if claim is None or _is_bound(claim):
                    continue
                of_class = self.classes[claim["spec"]["storageClassName"]]
                if of_class["provisioner"] == NOBODY:
                    mine = asked.setdefault(claim["metadata"]["uid"], [])
                    mine.append(set(self._choices(claim, name, ())))
        choices = sorted((set.intersection(*each) for each in asked.values()), key=len)
        return _all_get_one(choices, frozenset())

    def claim(self, pod: Document, volume: Document) -> Document | None:
        """The claim of a volume; None if it isn't there, or is another pod's."""
        metadata = pod["metadata"]
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            return self.claims.get((metadata["namespace"], name))
        found = self.claims.get((metadata["namespace"], f"{metadata['name']}-{volume['name']}"))
        owners = found["metadata"].get("ownerReferences", ()) if found else ()
        return found if any(owner["uid"] == metadata["uid"] for owner in owners) else None

    def _on(self, name: str) -> list[Document]:
        return [pod for pod in self.pods if pod["spec"].get("nodeName") == name]

    def _is_usable(self, claim: Document) -> bool:
        if claim.get("status", {}).get("phase") == "Lost":
            return False
        if "deletionTimestamp" in claim["metadata"]:
            return False
        if _is_bound(claim):
            return True
        of_class = self.classes.get(claim["spec"].get("storageClassName", ""))
        waits = of_class and of_class["volumeBindingMode"] == "WaitForFirstConsumer"
        return bool(waits) and not claim["spec"].get("volumeName")

    def _is_alone(self, pod: Document, claims: Sequence[Document]) -> bool:
        single = [
            document["metadata"]["name"]
            for document in claims
            if "ReadWriteOncePod" in document["spec"]["accessModes"]
        ]
        for other in self.pods:
            if other is pod or not other["spec"].get("nodeName"):
                continue
            if other["metadata"]["namespace"] != pod["metadata"]["namespace"]:
                continue
            used = {
                each["persistentVolumeClaim"]["claimName"]
                for each in other["spec"].get("volumes", ())
                if "persistentVolumeClaim" in each
            }
            if used & set(single):
                return False
        return True

    def _needs_driver(self, name: str) -> bool:
        driver = self.drivers.get(name)
        return bool(driver and driver["spec"].get("preventPodSchedulingIfMissing"))

    def _is_within_limits(self, pod: Document, others: Sequence[Document], name: str) -> bool:
        node = self.csi_nodes.get(name)
        wanted = set(self._handles(pod, node))
        used = {handle for other in others for handle in self._handles(other, node)}
        attached = set()
        for attachment in self.attachments:
            volume = self.volumes.get(attachment["spec"]["source"]["persistentVolumeName"])
            if attachment["spec"]["nodeName"] == name and volume and "csi" in volume["spec"]:
                attached.add(
                    (attachment["spec"]["attacher"], volume["spec"]["csi"]["volumeHandle"])
                )
        for driver in {each for each, _ in wanted - used}:
            limit = _limit(node, driver)
            held = sum(each == driver for each, _ in used | attached)
            more = sum(each == driver for each, _ in wanted - used)
            if limit is not None and held + more > limit:
                return False
        return True

    def _handles(self, pod: Document, node: Document | None) -> Iterator[tuple[str, str]]:
        migrated = node is not None
        for volume in pod["spec"].get("volumes", ()):
            if "awsElasticBlockStore" in volume and migrated:
                yield EBS_DRIVER, volume["awsElasticBlockStore"]["volumeID"]
            if "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
                continue
            claim = self.claim(pod, volume)
            if claim is None:
                continue
            found = self.volumes.get(claim["spec"].get("volumeName", ""))
            if found is None:
                yield from self._pending_handle(claim, migrated=migrated)
            elif "csi" in found["spec"]:
                yield found["spec"]["csi"]["driver"], found["spec"]["csi"]["volumeHandle"]
            elif "awsElasticBlockStore" in found["spec"] and migrated:
                yield EBS_DRIVER, found["spec"]["awsElasticBlockStore"]["volumeID"]

    def _pending_handle(self, claim: Document, *, migrated: bool) -> Iterator[tuple[str, str]]:
        of_class = self.classes.get(claim["spec"].get("storageClassName", ""))
        if of_class is None:
            return
        maker, name = of_class["provisioner"], f"pending {claim['metadata']['name']}"
        if maker != EBS:
            yield maker, name
        elif migrated:
            yield EBS_DRIVER, name

    def _reaches(self, claim: Document, name: str) -> bool:
        volume = self.volumes.get(claim["spec"]["volumeName"])
        labels = self.nodes[name]["metadata"].get("labels", {})
        if volume is None or not _allows(volume, labels):
            return False
        if not any(key in labels for pair in ZONES for key in pair):
            return True
        for key, instead in ZONES:
            value = volume["metadata"].get("labels", {}).get(key)
            if value is not None and labels.get(key, labels.get(instead)) not in value.split("__"):
                return False
        return True

    def _gets_volumes(self, claims: Sequence[Document], name: str) -> bool:
        unique = list({document["metadata"]["name"]: document for document in claims}.values())
        chosen: set[str] = set()
        for claim in sorted(unique, key=_size_of_claim):
            selected = claim["metadata"].get("annotations", {}).get(SELECTED)
            if selected not in (None, name):
                return False
            volume = None if selected else self.match(claim, name, chosen)
            if volume is not None:
                chosen.add(volume)
            elif not self._makes(claim, name):
                return False
        return True

    def match(self, claim: Document, name: str, without: Iterable[str] = ()) -> str | None:
        """The volume that the claim gets on the node."""
        found = self._choices(claim, name, without)
        sizes = {key: _bytes(self.volumes[key]["spec"]["capacity"]["storage"]) for key in found}
        return min(sizes, key=lambda key: (sizes[key], key), default=None)

    def _choices(self, claim: Document, name: str, without: Iterable[str]) -> list[str]:
        """The volumes that it could get there; only the one that is reserved for it, if any."""
        labels = self.nodes[name]["metadata"].get("labels", {})
        found: list[str] = []
        for key, volume in self.volumes.items():
            spec = volume["spec"]
            reference = spec.get("claimRef")
            same = spec["storageClassName"] == claim["spec"].get("storageClassName", "")
            mode = spec.get("volumeMode", "Filesystem")
            if (
                key in without
                or not same
                or _bytes(spec["capacity"]["storage"]) < _size_of_claim(claim)
                or mode != claim["spec"].get("volumeMode", "Filesystem")
            ):
                continue
            if reference is not None:
                if _refers(reference, claim):
                    return [key] if _allows(volume, labels) else []
                continue
            if (
                volume["status"]["phase"] == "Available"
                and _selects(claim["spec"].get("selector"), volume["metadata"].get("labels", {}))
                and set(claim["spec"]["accessModes"]) <= set(spec["accessModes"])
                and _allows(volume, labels)
            ):
                found.append(key)
        return found

    def _makes(self, claim: Document, name: str) -> bool:
        of_class = self.classes[claim["spec"]["storageClassName"]]
        labels = self.nodes[name]["metadata"].get("labels", {})
        if of_class["provisioner"] == NOBODY:
            return False
        allowed = of_class.get("allowedTopologies", ())
        if allowed and not any(
            all(labels.get(each["key"]) in each["values"] for each in term["matchLabelExpressions"])
            for term in allowed
        ):
            return False
        driver = self.drivers.get(of_class["provisioner"])
        if driver is None or not driver["spec"]["storageCapacity"]:
            return True
        for capacity in self.capacities:
            most = capacity.get("maximumVolumeSize", capacity.get("capacity"))
            if (
                capacity["storageClassName"] == of_class["metadata"]["name"]
                and most is not None
                and _bytes(most) >= _size_of_claim(claim)
                and capacity.get("nodeTopology") is not None
                and _selects(capacity["nodeTopology"], labels)
            ):
                return True
        return False


def _all_get_one(choices: Sequence[set[str]], taken: frozenset[str]) -> bool:
    """Whether each gets another one of its choices."""
    if not choices:
        return True
    free = sorted(choices[0] - taken)
    return any(_all_get_one(choices[1:], taken | {each}) for each in free)


def _by_name(documents: Iterable[Document], kind: str) -> dict[str, Document]:
    return {
        document["metadata"]["name"]: document for document in documents if document["kind"] == kind
    }


def _claiming(pod: Document) -> list[Document]:
    volumes = pod["spec"].get("volumes", ())
    return [
        volume for volume in volumes if "persistentVolumeClaim" in volume or "ephemeral" in volume
    ]


def _is_bound(claim: Document) -> bool:
    return bool(claim["spec"].get("volumeName")) and (
        COMPLETED in claim["metadata"].get("annotations", {})
        or claim.get("status", {}).get("phase") == "Bound"
    )


def _size_of_claim(claim: Document) -> int:
    return _bytes(claim["spec"]["resources"]["requests"]["storage"])


def _bytes(text: str) -> int:
    for suffix, unit in UNITS.items():
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * unit
    return int(text)


def _has_driver(node: Document | None, driver: str) -> bool:
    return any(each["name"] == driver for each in (node["spec"]["drivers"] if node else ()))


def _limit(node: Document | None, driver: str) -> int | None:
    for each in node["spec"]["drivers"] if node else ():
        if each["name"] == driver and "allocatable" in each:
            return int(each["allocatable"]["count"])
    return None


def _allows(volume: Document, labels: Mapping[str, str]) -> bool:
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return True
    terms = affinity["required"]["nodeSelectorTerms"]
    return any(
        all(_holds(each, labels.get(each["key"])) for each in term["matchExpressions"])
        for term in terms
    )


def _selects(selector: Document | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return True
    equal = selector.get("matchLabels", {}).items()
    return all(labels.get(key) == value for key, value in equal) and all(
        _holds(each, labels.get(each["key"])) for each in selector.get("matchExpressions", ())
    )


def _holds(requirement: Document, value: str | None) -> bool:
    match requirement["operator"]:
        case "In":
            return value in requirement["values"]
        case "Exists":
            return value is not None
    assert requirement["operator"] == "DoesNotExist"
    return value is None


def _refers(reference: Document, claim: Document) -> bool:
    names = claim["metadata"]
    return (
        reference["namespace"] == names["namespace"]
        and reference["name"] == names["name"]
        and reference.get("uid", "") in ("", names["uid"])
    )


def _share_disk(pod: Document, other: Document) -> bool:
    """Whether the two can't be on one node because of a disk."""
    for mine in pod["spec"].get("volumes", ()):
        for theirs in other["spec"].get("volumes", ()):
            for kind in mine.keys() & theirs.keys() - {"name"}:
                one, two = mine[kind], theirs[kind]
                reads = one.get("readOnly", False) and two.get("readOnly", False)
                match kind:
                    case "gcePersistentDisk":
                        clash = one["pdName"] == two["pdName"] and not reads
                    case "awsElasticBlockStore":
                        clash = one["volumeID"] == two["volumeID"]
                    case "iscsi":
                        clash = one["iqn"] == two["iqn"] and not reads
                    case "rbd":
                        near = set(one["monitors"]) & set(two["monitors"])
                        clash = bool(near) and one["image"] == two["image"] and not reads
                    case _:
                        clash = False
                if clash:
                    return True
    return False
