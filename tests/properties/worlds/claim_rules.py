"""What is stored of volumes and devices: nothing is given twice, and nothing is kept in vain."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests import volume_manifests
from tests.properties.worlds import census as censuses
from tests.properties.worlds import claims, manifests
from tests.properties.worlds.census import Census
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Moment

PVC, PV, DEVICES = "PersistentVolumeClaim", "PersistentVolume", "ResourceClaim"


def nothing_is_given_twice(moment: Moment) -> Iterable[str]:
    """No device has two claims, no volume two claims, and no claim two volumes."""
    census = moment.census
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for claim in _of_kind(census, DEVICES):
        for result in claim["status"].get("allocation", {"devices": {"results": ()}})["devices"][
            "results"
        ]:
            device = f"{result['driver']}/{result['pool']}/{result['device']}"
            owners[device].append(claim["metadata"]["name"])
    for volume in _of_kind(census, PV):
        reference = volume["spec"].get("claimRef")
        if reference is not None:
            owners[f"claim {reference['name']}"].append(volume["metadata"]["name"])
    for claim in _of_kind(census, PVC):
        if name := claim["spec"].get("volumeName"):
            owners[f"volume {name}"].append(claim["metadata"]["name"])
    for what, names in owners.items():
        if len(names) > 1:
            yield f"SHARED {what} goes to {' and '.join(names)}"


def nodes_attach_their_volumes(moment: Moment) -> Iterable[str]:
    """No node has more volumes of a driver than it can attach."""
    census = moment.census
    limits = {
        document["metadata"]["name"]: driver["allocatable"]["count"]
        for document in _of_kind(census, "CSINode")
        for driver in document["spec"]["drivers"]
        if "allocatable" in driver
    }
    made = {
        claim["metadata"]["name"]
        for claim in _of_kind(census, PVC)
        if claim["spec"]["storageClassName"] != claims.LOCAL
    }
    for node, most in limits.items():
        used = {name for pod in census.residents[node] for name in censuses.claims(pod)} & made
        if len(used) > most:
            yield f"ATTACHED {node} has {len(used)} volumes, and can have {most}"


def pods_start_with_their_claims(moment: Moment) -> Iterable[str]:
    """Whoever is bound has all its claims, bound, allocated and reserved for it."""
    census = moment.census
    volumes = {each["metadata"]["name"]: each for each in _of_kind(census, PVC)}
    devices = {each["metadata"]["name"]: each for each in _of_kind(census, DEVICES)}
    for bind in moment.binds if census.others else ():
        pod = census.pods[bind.pod]
        for name in censuses.claims(pod):
            if name not in volumes or not volumes[name]["spec"].get("volumeName"):
                yield f"UNBOUND {bind.pod} starts, and its claim {name} isn't bound"
        for name in _device_claims(pod, census.nodes[bind.node]):
            reserved = devices.get(name, {"status": {}})["status"].get("reservedFor") or ()
            if all(each["uid"] != pod["metadata"]["uid"] for each in reserved):
                yield f"UNBOUND {bind.pod} starts, and claim {name} isn't reserved for it"


def nothing_is_kept_in_vain(moment: Moment) -> Iterable[str]:
    """At rest nobody waits with a volume or a device: who gave up has given it back.

    In Volcano's way a part of a gang may wait on its nodes for ever.
    """
    census = moment.census
    if moment.setting.volcano:
        return
    unbound = {
        claim["metadata"]["name"]
        for claim in _of_kind(census, PVC)
        if not claim["spec"].get("volumeName")
    }
    for claim in _of_kind(census, PVC):
        node = claim["metadata"].get("annotations", {}).get(volume_manifests.SELECTED)
        if node and claim["metadata"]["name"] in unbound:
            yield f"KEPT {claim['metadata']['name']} waits for a volume on {node} at rest"
    for volume in _of_kind(census, PV):
        name = volume["spec"].get("claimRef", {}).get("name")
        if name in unbound:
            yield f"KEPT {volume['metadata']['name']} is kept for {name}, which isn't bound"
    running = {pod["metadata"]["uid"] for pods in census.residents.values() for pod in pods}
    for claim in _of_kind(census, DEVICES):
        reserved = claim["status"].get("reservedFor") or ()
        if reserved and all(each["uid"] not in running for each in reserved):
            yield f"KEPT {claim['metadata']['name']} has devices, and nobody with it runs"


def _of_kind(census: Census, kind: str) -> Iterator[Document]:
    return (document for document in census.others if document["kind"] == kind)


def _device_claims(pod: Document, node: Document) -> Iterator[str]:
    """Those that it needs on the node, which may have itself what stands for devices."""
    status = pod["status"]
    made = {
        each["name"]: each["resourceClaimName"] for each in status.get("resourceClaimStatuses", ())
    }
    for entry in pod["spec"].get("resourceClaims", ()):
        yield entry.get("resourceClaimName") or made.get(entry["name"], "")
    known = status.get("extendedResourceClaimStatus")
    if known and manifests.EXTENDED not in node["status"]["allocatable"]:
        yield known["resourceClaimName"]
