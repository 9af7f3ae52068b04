"""Simulated claims for devices: Kubernetes makes them of templates and takes them back.

What a cycle allocates is written before the next cycle.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import msgspec

from vscheduler.core.model.claim_decisions import ClaimAllocation, DeviceChange
from vscheduler.core.model.decisions import CycleResult
from vscheduler.mirror import device_requests
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeFailed, Event, Kind, Remove, Upsert
from vscheduler.mirror.decode.wire import Metadata, Pod, PodResourceClaimStatus
from vscheduler.mirror.decode.wire_devices import ClaimStatus, ResourceClaim, ResourceClaimTemplate
from vscheduler.mirror.translate import devices, pods
from vscheduler.simulator import patches


def with_claims(
    given: Iterable[Upsert | DecodeFailed],
) -> list[Upsert | DecodeFailed]:
    """Return objects with the claims that pods lack and that their templates give."""
    every = list(given)
    known = Devices(each.object for each in every if isinstance(each, Upsert))
    found: list[Upsert | DecodeFailed] = []
    for event in every:
        if isinstance(event, Upsert) and isinstance(event.object, Pod):
            found += known.made_for(event.object)
        else:
            found.append(event)
    return found


def allocated(results: Sequence[CycleResult]) -> Iterator[dict[str, Any]]:
    """Iterate over the devices that claims got, as JSON trees."""
    for number, result in enumerate(results, 1):
        for decided in result.claims:
            for claim in decided.requests:
                if not isinstance(claim, ClaimAllocation) or claim.allocation is None:
                    continue
                for device in claim.allocation.devices:
                    yield {
                        "claim": claim.key,
                        "device": "/".join(device.id),
                        "request": device.request,
                        "for": decided.job,
                        "cycle": number,
                    }


class Devices:
    """The claims and templates of a simulated cluster."""

    def __init__(self, objects: Iterable[object]) -> None:
        self._claims: dict[str, ResourceClaim] = {}
        self._templates: dict[str, ResourceClaimTemplate] = {}
        for found in objects:
            match found:
                case ResourceClaim():
                    self._claims[_key(found.metadata)] = found
                case ResourceClaimTemplate():
                    self._templates[_key(found.metadata)] = found

    def fork(self) -> Self:
        """Return a copy with a future of its own; the objects are shared."""
        return type(self)((*self._claims.values(), *self._templates.values()))

    def made_for(self, pod: Pod) -> Iterator[Upsert]:
        """Iterate over the claims that a controller makes for a new pod, and the pod itself."""
        made = list(pod.status.resource_claim_statuses)
        known = {each.name for each in made}
        for entry in pod.spec.resource_claims:
            template = self._templates.get(
                events.key_of(pod.metadata.namespace, entry.resource_claim_template_name or "")
            )
            if template is None or entry.name in known:
                continue
            claim = devices.of_template(template, pod.metadata, entry.name)
            yield self._put(claim)
            name = claim.metadata.name
            made.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=name))
        if len(made) > len(pod.status.resource_claim_statuses):
            status = msgspec.structs.replace(pod.status, resource_claim_statuses=made)
            pod = msgspec.structs.replace(pod, status=status)
        yield Upsert(kind=Kind.POD, object=pod)

    def obey(self, result: CycleResult) -> Iterator[Event]:
        """Write what a cycle allocates and gives back."""
        for change in (each for each in result.claim_changes() if isinstance(each, DeviceChange)):
            found = self._claims.get(change.key) or _made(change)
            claim = devices.resource_claim(found)
            status = device_requests.status_patch(claim, change, "")["status"]
            yield self._put(patches.patched(found, {"status": status}))

    def gone(self, pod: Pod) -> Iterator[Event]:
        """Take back what a pod had that is gone, and delete the claims that were made for it."""
        uid = str(pods.uid_of(pod.metadata))
        for key, found in list(self._claims.items()):
            if devices.resource_claim(found).owner == uid:
                del self._claims[key]
                metadata = found.metadata
                yield Remove(
                    kind=Kind.RESOURCE_CLAIM,
                    namespace=metadata.namespace,
                    name=metadata.name,
                )
                continue
            left = [each for each in found.status.reserved_for if each.uid != uid]
            if len(left) < len(found.status.reserved_for):
                status = ClaimStatus(
                    allocation=found.status.allocation if left else None, reserved_for=left
                )
                yield self._put(msgspec.structs.replace(found, status=status))

    def _put(self, claim: ResourceClaim) -> Upsert:
        self._claims[_key(claim.metadata)] = claim
        return Upsert(kind=Kind.RESOURCE_CLAIM, object=claim)


def _made(change: DeviceChange) -> ResourceClaim:
    """Return the claim that a cycle makes for extended resources of a pod."""
    assert isinstance(change, ClaimAllocation)
    body = device_requests.creation(change)
    return msgspec.convert(body, ResourceClaim)


def _key(metadata: Metadata) -> str:
    return events.key_of(metadata.namespace, metadata.name)
