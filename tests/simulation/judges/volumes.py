"""What claims, volumes and pods with volumes say."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.simulation.judges import amounts, objects
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.history import Object

SELECTED = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
WAITS = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ALONE = "ReadWriteOncePod"
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
REGIONS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")


class Attached(NamedTuple):
    """A volume as a driver knows it."""

    driver: str
    handle: str


def claims_of(pod: Object) -> Sequence[Key]:
    """The claims that a pod uses, those that are made for it included, each once."""
    listed = pod["spec"].get("volumes")
    if not listed:
        return ()
    namespace, name = objects.key_of(pod)
    found: dict[Key, None] = {}
    for each in listed:
        if "persistentVolumeClaim" in each:
            found[namespace, each["persistentVolumeClaim"]["claimName"]] = None
        elif "ephemeral" in each:
            found[namespace, f"{name}-{each['name']}"] = None
    return list(found)


def made_for(pod: Object) -> Mapping[Key, Object]:
    """The templates of the claims that are to be made for a pod."""
    namespace, name = objects.key_of(pod)
    return {
        (namespace, f"{name}-{each['name']}"): each["ephemeral"]["volumeClaimTemplate"]
        for each in pod["spec"].get("volumes") or ()
        if "ephemeral" in each
    }


def class_of(found: Object) -> str:
    """The storage class of a claim or a volume; empty where there is none."""
    return found["spec"].get("storageClassName") or ""


def size(found: Object) -> int:
    """How much a claim asks for, or a volume has, in bytes."""
    spec = found["spec"]
    listed = spec.get("capacity") or (spec.get("resources") or {}).get("requests") or {}
    return amounts.quantity("storage", str(listed.get("storage", "0")))


def is_bound(claim: Object) -> bool:
    """Whether claim and volume know each other for good."""
    return bool(claim["spec"].get("volumeName")) and BOUND in objects.annotations(claim)


def selected(claim: Object) -> str:
    """The node for which the claim is to be provisioned."""
    return objects.annotations(claim).get(SELECTED, "")


def is_of(claim: Object, volume: Object) -> bool:
    """Whether a volume is reserved for a claim, of this UID or of any."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return False
    if (reference.get("namespace", ""), reference.get("name", "")) != objects.key_of(claim):
        return False
    return reference.get("uid", "") in ("", claim["metadata"]["uid"])


def reserved_for(volume: Object) -> Key | None:
    """Namespace and name of the claim that a volume is reserved for."""
    reference = volume["spec"].get("claimRef")
    return (reference.get("namespace", ""), reference.get("name", "")) if reference else None


def attached(volume: Object) -> Attached | None:
    """The volume as its CSI driver knows it; None for other kinds of volumes."""
    source = volume["spec"].get("csi")
    return Attached(source["driver"], source["volumeHandle"]) if source else None


def reaches(volume: Object, node: Object) -> bool:
    """Whether a pod on the node can use the volume: node affinity, and labels of zones."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is not None and not any(
        _takes(term, node) for term in required.get("nodeSelectorTerms") or ()
    ):
        return False
    has = objects.labels(node)
    if not any(name in has for name in (*ZONES, *REGIONS)):
        return True
    return all(
        has.get(name) in text.split("__")
        for name, text in objects.labels(volume).items()
        if name in (*ZONES, *REGIONS)
    )


def _takes(term: Object, node: Object) -> bool:
    """Whether a term of a node selector matches; one without any expression never does."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    name = {"metadata.name": node["metadata"]["name"]}
    return objects.selects({"matchExpressions": expressions}, objects.labels(node)) and (
        objects.selects({"matchExpressions": fields}, name)
    )


def allows(storage_class: Object, node: Object) -> bool:
    """Whether volumes of a class may be provisioned for a node (allowedTopologies)."""
    terms = storage_class.get("allowedTopologies") or ()
    has = objects.labels(node)
    return not terms or any(
        all(
            has.get(each["key"]) in each["values"]
            for each in term.get("matchLabelExpressions") or ()
        )
        for term in terms
    )


def of_pod(pod: Object, cluster: Cluster) -> Iterator[tuple[Object, Object]]:
    """The bound claims of a pod, with their volumes."""
    for key in claims_of(pod):
        claim = cluster.get("persistentvolumeclaims", key)
        if claim is None or not is_bound(claim):
            continue
        volume = cluster.get("persistentvolumes", ("", claim["spec"]["volumeName"]))
        if volume is not None:
            yield claim, volume


def limit(cluster: Cluster, node: str, driver: str) -> int | None:
    """How many volumes of a driver a node can have; None where nothing says so."""
    found = cluster.get("csinodes", ("", node))
    for each in ((found or {"spec": {}})["spec"].get("drivers")) or ():
        if each["name"] == driver:
            count = (each.get("allocatable") or {}).get("count")
            return None if count is None else int(count)
    return None
