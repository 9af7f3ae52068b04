"""What volumes and devices forbid to pods that are placed together, from what is stored of them."""

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests import device_worlds
from tests.properties import devices_by_hand, volumes_by_hand
from tests.properties.devices_by_hand import Device
from tests.properties.filters_by_hand import amounts

Document = Mapping[str, Any]
Place = tuple[Document, str]
"""A pod, and the name of its node."""

BY_CLASS = "deviceclass.resource.kubernetes.io/"
NO_DEVICES = "has too few devices for its claims"
ELSEWHERE = "can't use the devices of a claim"
OTHER_CLAIM = "needs another claim for extended resources than there is"
NOT_MADE = "has a claim of devices that isn't there"


class Claims:
    """All volumes, devices and claims of a cluster."""

    def __init__(self, documents: Sequence[Any]) -> None:
        self._nodes = {each["metadata"]["name"]: each for each in documents if _is(each, "Node")}
        self._volumes = volumes_by_hand.Judge(documents)
        world = device_worlds.World(nodes=list(self._nodes.values()), devices=list(documents))
        self._devices = devices_by_hand.Judge(world)
        self._extended = {
            name: document["metadata"]["name"]
            for document in documents
            if _is(document, "DeviceClass")
            for name in (
                BY_CLASS + document["metadata"]["name"],
                document["spec"].get("extendedResourceName"),
            )
            if name
        }
        """The class that each extended resource stands for."""

    def refusals(
        self, pod: Any, name: str, others: Iterable[Place], living: Collection[str]
    ) -> Iterator[str]:
        """Why the node doesn't take the pod beside these others.

        living: UIDs of the pods that have what is allocated for them; nobody else has devices.
        """
        there = list(others)
        if pod["spec"].get("volumes"):
            yield from self._without_volumes(pod, name, there)
        yield from self._without_devices(pod, name, there, living)

    def stands_for(self, resource: str, node: Document) -> str:
        """The class whose devices a node has instead of a resource; empty if it has itself."""
        mine = resource in node["status"].get("allocatable", {})
        return "" if mine else self._extended.get(resource, "")

    def _without_volumes(self, pod: Document, name: str, others: list[Place]) -> Iterator[str]:
        using = [place for place in others if place[0]["spec"].get("volumes")]
        seated = [
            {**each, "spec": {**each["spec"], "nodeName": node}}
            for each, node in using
            if node in self._nodes
        ]
        judge = self._volumes.among(seated)
        found = list(judge.refusals(pod, name))
        yield from found
        if not found and not judge.have_volumes([*using, (pod, name)]):
            yield volumes_by_hand.NONE_FREE

    def _without_devices(
        self, pod: Any, name: str, others: list[Place], living: Collection[str]
    ) -> Iterator[str]:
        asked = self._asked(pod, name)
        if not self._suits_claim(pod, name):
            yield OTHER_CLAIM
            return
        if not asked:
            return
        if any(claim is None for claim in asked.values()):
            yield NOT_MADE
            return
        mine = [claim for claim in asked.values() if "allocation" in _status(claim)]
        on_node = set(self._devices.on(name))
        if not all(set(_results(claim)) <= on_node for claim in mine):
            yield ELSEWHERE
            return
        wanted = {key: [name] for key, claim in asked.items() if claim not in mine}
        documents = {key: asked[key] for key in wanted}
        for other, node in others:
            for key, claim in self._asked(other, node).items():
                if claim is None or "allocation" in _status(claim):
                    continue
                if node == name or key in asked:
                    documents[key] = claim
                    wanted.setdefault(key, []).append(node)
        judge = copy.copy(self._devices)
        judge.used = set(self._used(living))
        listed = [(documents[key], wanted[key]) for key in wanted]
        if not any(True for _ in judge.allocated(listed, frozenset())):
            yield NO_DEVICES

    def _asked(self, pod: Any, name: str) -> dict[str, Any]:
        """The pod's claims by name, those for extended resources on this node included."""
        made = {
            each["name"]: each["resourceClaimName"]
            for each in pod["status"].get("resourceClaimStatuses", ())
        }
        listed = (
            each.get("resourceClaimName") or made.get(each["name"], "")
            for each in pod["spec"].get("resourceClaims", ())
        )
        found = {key: self._devices.claims.get(key) for key in listed}
        known = pod["status"].get("extendedResourceClaimStatus")
        of_pod = self._devices.claims.get(known["resourceClaimName"]) if known else None
        if of_pod is not None and "allocation" in _status(of_pod):
            return found | {of_pod["metadata"]["name"]: of_pod}
        requests = [
            {
                "name": of_class,
                "exactly": {
                    "deviceClassName": of_class,
                    "allocationMode": "ExactCount",
                    "count": int(amount),
                },
            }
            for resource, amount in amounts.request(pod).items()
            if (of_class := self.stands_for(resource, self._nodes[name]))
        ]
        if requests:
            key = f"extended resources of {pod['metadata']['name']}"
            found[key] = {"spec": {"devices": {"requests": requests}}}
        return found

    def _suits_claim(self, pod: Any, name: str) -> bool:
        """Whether the claim that is made for the pod's extended resources is what it needs here:
        the kubelet insists on it.
        """
        known = pod["status"].get("extendedResourceClaimStatus")
        if known is None:
            return True
        made = {each["resourceName"] for each in known["requestMappings"]}
        asked = amounts.request(pod)
        return made == {each for each in asked if self.stands_for(each, self._nodes[name])}

    def _used(self, living: Collection[str]) -> Iterator[Device]:
        for claim in self._devices.claims.values():
            reserved = _status(claim).get("reservedFor") or ()
            if any(each["uid"] in living for each in reserved):
                yield from _results(claim)


def _is(document: Document, kind: str) -> bool:
    return bool(document["kind"] == kind)


def _status(claim: Any) -> Any:
    return claim.get("status", {})


def _results(claim: Any) -> list[Device]:
    """The devices that an allocated claim has."""
    allocation = _status(claim).get("allocation", {"devices": {"results": ()}})
    return [
        (result["driver"], result["pool"], result["device"])
        for result in allocation["devices"]["results"]
    ]
