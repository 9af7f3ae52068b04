"""Simulated claims, volumes and devices: Kubernetes and provisioners answer before the next cycle.

A volume that is given to a claim is bound to it, and a claim with a selected node gets a new
volume. Claims whose class doesn't wait for pods are left as they are. Claims for devices are made
of templates and taken back; what a cycle allocates is written before the next cycle.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec

from vscheduler.mirror import device_requests, paths, volume_requests
from vscheduler.mirror.decode import events, wire_devices
from vscheduler.mirror.decode.events import DecodeFailed, Event, Kind, Remove, Upsert
from vscheduler.mirror.decode.wire import (
    Metadata,
    NativePodGroup,
    Node,
    NodeSelector,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    Requirement,
    Term,
)
from vscheduler.mirror.decode.wire_devices import ResourceClaim, ResourceClaimTemplate
from vscheduler.mirror.decode.wire_storage import (
    ClaimReference,
    ClaimStatus,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAffinity,
    VolumeSpec,
    VolumeStatus,
)
from vscheduler.mirror.translate import devices, pods, storage
from vscheduler.model.claim_decisions import ClaimAllocation, DeviceChange, VolumeChange
from vscheduler.model.decisions import CycleResult

Stored = PersistentVolumeClaim | PersistentVolume

POD = (paths.PODS.api_version, "Pod")
POD_GROUP = (paths.NATIVE_POD_GROUPS.api_version, "PodGroup")
"""Owners of claims made from templates."""


class SimulatedVolumes:
    """The claims, volumes and classes of a simulated cluster, and the labels of its nodes."""

    def __init__(self, objects: Iterable[object]) -> None:
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        for found in objects:
            match found:
                case PersistentVolumeClaim():
                    self._claims[_key(found.metadata)] = found
                case PersistentVolume():
                    self._volumes[found.metadata.name] = found
                case StorageClass():
                    self._classes[found.metadata.name] = found
                case Node():
                    self._labels[found.metadata.name] = found.metadata.labels

    def obey(self, result: CycleResult, scheduler: str, now: float) -> Iterator[Event]:
        """Write what a cycle asks for and gives back, and bind the claims that can be bound."""
        for change in result.claim_changes():
            if isinstance(change, VolumeChange):
                yield self._write(change, scheduler, now)
        for volume in list(self._volumes.values()):
            reference = volume.spec.claim_ref
            claim = reference and self._claims.get(f"{reference.namespace}/{reference.name}")
            if claim and reference and reference.uid == claim.metadata.uid and not _is_bound(claim):
                yield from self._bind(claim, volume)
        for claim in list(self._claims.values()):
            if storage.SELECTED_NODE in claim.metadata.annotations and not _is_bound(claim):
                yield from self._bind(claim, self._made_for(claim, now))

    def _write(self, change: VolumeChange, scheduler: str, now: float) -> Upsert:
        kind, key = volume_requests.place(change)
        found: Stored = self._claims[key] if kind is Kind.CLAIM else self._volumes[key]
        value = (
            storage.claim(found, (scheduler,))
            if isinstance(found, PersistentVolumeClaim)
            else storage.volume(found, (scheduler,))
        )
        patch = volume_requests.patch(value, change, version="", schedulers=(scheduler,), since=now)
        return self._put(patched(found, patch))

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Iterator[Upsert]:
        """Bind both to each other, as Kubernetes does."""
        reference = ClaimReference(
            namespace=claim.metadata.namespace, name=claim.metadata.name, uid=claim.metadata.uid
        )
        yield self._put(
            msgspec.structs.replace(
                volume,
                spec=msgspec.structs.replace(volume.spec, claim_ref=reference),
                status=VolumeStatus(phase="Bound"),
            )
        )
        notes = {**claim.metadata.annotations, storage.BIND_COMPLETED: "yes"}
        yield self._put(
            msgspec.structs.replace(
                claim,
                metadata=msgspec.structs.replace(claim.metadata, annotations=notes),
                spec=msgspec.structs.replace(claim.spec, volume_name=volume.metadata.name),
                status=ClaimStatus(phase="Bound"),
            )
        )

    def _made_for(self, claim: PersistentVolumeClaim, now: float) -> PersistentVolume:
        """Return the volume that a provisioner makes for the claim's node.

        It can be used where the node's labels are those that the class allows, or everywhere.
        """
        spec, node = claim.spec, claim.metadata.annotations[storage.SELECTED_NODE]
        named = claim.metadata.annotations.get(storage.OLD_CLASS, spec.storage_class_name or "")
        labels = self._labels.get(node, {})
        of_class = self._classes.get(named)
        terms = [] if of_class is None else of_class.allowed_topologies
        keys = {expression.key for term in terms for expression in term.match_label_expressions}
        rules = [
            Requirement(key=key, operator="In", values=[labels[key]])
            for key in sorted(keys & labels.keys())
        ]
        affinity = VolumeAffinity(required=NodeSelector([Term(match_expressions=rules)]))
        name = f"pvc-{claim.metadata.uid.replace('/', '-')}"
        return PersistentVolume(
            metadata=Metadata(
                name=name, uid=name, creation_timestamp=dt.datetime.fromtimestamp(now, dt.UTC)
            ),
            spec=VolumeSpec(
                access_modes=spec.access_modes,
                capacity=spec.resources.requests if spec.resources else {},
                node_affinity=affinity if rules else None,
                storage_class_name=named,
                volume_mode=spec.volume_mode,
                volume_attributes_class_name=spec.volume_attributes_class_name,
            ),
        )

    def _put(self, found: Stored) -> Upsert:
        if isinstance(found, PersistentVolumeClaim):
            self._claims[_key(found.metadata)] = found
            return Upsert(kind=Kind.CLAIM, object=found)
        self._volumes[found.metadata.name] = found
        return Upsert(kind=Kind.VOLUME, object=found)


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name)


def _key(metadata: Metadata) -> str:
    return events.key_of(metadata.namespace, metadata.name)


def with_claims(
    given: Iterable[Upsert | DecodeFailed],
) -> list[Upsert | DecodeFailed]:
    """Return objects with the claims that pods, and Kubernetes' own PodGroups, lack and that their
    templates give.
    """
    every = list(given)
    known = SimulatedDevices(each.object for each in every if isinstance(each, Upsert))
    of_groups = {
        _key(event.object.metadata): list(known.made_for_group(event.object))
        for event in every
        if isinstance(event, Upsert) and isinstance(event.object, NativePodGroup)
    }
    found: list[Upsert | DecodeFailed] = []
    for event in every:
        if isinstance(event, Upsert) and isinstance(event.object, Pod):
            found += known.made_for(event.object)
        elif isinstance(event, Upsert) and isinstance(event.object, NativePodGroup):
            found += of_groups[_key(event.object.metadata)]
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


class SimulatedDevices:
    """The claims and templates of a simulated cluster."""

    def __init__(self, objects: Iterable[object]) -> None:
        self._claims: dict[str, ResourceClaim] = {}
        self._templates: dict[str, ResourceClaimTemplate] = {}
        self._groups: dict[str, NativePodGroup] = {}
        for found in objects:
            match found:
                case ResourceClaim():
                    self._claims[_key(found.metadata)] = found
                case ResourceClaimTemplate():
                    self._templates[_key(found.metadata)] = found
                case NativePodGroup():
                    self._groups[_key(found.metadata)] = found

    def fork(self) -> Self:
        """Return a copy with a future of its own; the objects are shared."""
        groups = self._groups.values()
        return type(self)((*self._claims.values(), *self._templates.values(), *groups))

    def made_for_group(self, group: NativePodGroup) -> Iterator[Upsert]:
        """Iterate over the claims that a controller makes for a PodGroup, and the PodGroup."""
        made = list(group.status.resource_claim_statuses)
        yield from self._make(group.metadata, group.spec.resource_claims, made, POD_GROUP)
        status = msgspec.structs.replace(group.status, resource_claim_statuses=made)
        self._groups[_key(group.metadata)] = group = msgspec.structs.replace(group, status=status)
        yield Upsert(kind=Kind.NATIVE_POD_GROUP, object=group)

    def made_for(self, pod: Pod) -> Iterator[Upsert]:
        """Iterate over the claims that a controller makes for a new pod, and the pod itself."""
        made, metadata = list(pod.status.resource_claim_statuses), pod.metadata
        named = pod.spec.scheduling_group
        group = named and self._groups.get(events.key_of(metadata.namespace, named.pod_group_name))
        if group:
            entries = pod.spec.resource_claims
            shared = {each.name for each in group.spec.resource_claims if each in entries}
            made += (each for each in group.status.resource_claim_statuses if each.name in shared)
        yield from self._make(metadata, pod.spec.resource_claims, made, POD)
        if len(made) > len(pod.status.resource_claim_statuses):
            status = msgspec.structs.replace(pod.status, resource_claim_statuses=made)
            pod = msgspec.structs.replace(pod, status=status)
        yield Upsert(kind=Kind.POD, object=pod)

    def _make(
        self,
        owner: Metadata,
        entries: Iterable[PodResourceClaim],
        made: list[PodResourceClaimStatus],
        kind: tuple[str, str],
    ) -> Iterator[Upsert]:
        """Make the claims that an object of this version and kind lacks, and add them to those that
        are made.
        """
        known = {each.name for each in made}
        for entry in entries:
            template = self._templates.get(
                events.key_of(owner.namespace, entry.resource_claim_template_name or "")
            )
            if template is None or entry.name in known:
                continue
            claim = devices.of_template(template, owner, entry.name, kind)
            yield self._put(claim)
            name = claim.metadata.name
            made.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=name))

    def obey(self, result: CycleResult) -> Iterator[Event]:
        """Write what a cycle allocates and gives back."""
        for change in (each for each in result.claim_changes() if isinstance(each, DeviceChange)):
            found = self._claims.get(change.key) or _made(change)
            claim = devices.resource_claim(found)
            status = device_requests.status_patch(claim, change, "")["status"]
            yield self._put(patched(found, {"status": status}))

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
                status = wire_devices.ClaimStatus(
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


Found = TypeVar("Found", bound=msgspec.Struct)


def patched(found: Found, patch: Mapping[str, Any]) -> Found:
    """Return the object after a merge patch."""
    return msgspec.convert(_merged(msgspec.to_builtins(found), patch), type(found))


def _merged(plain: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data after a merge patch (RFC 7396)."""
    merged = dict(plain)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merged(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged
