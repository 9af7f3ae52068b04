"""Simulated claims and volumes: Kubernetes and provisioners answer before the next cycle.

A volume that is given to a claim is bound to it, and a claim with a selected node gets a new
volume. Claims whose class doesn't wait for pods are left as they are.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from vscheduler.core.model.claim_decisions import VolumeChange
from vscheduler.core.model.decisions import CycleResult
from vscheduler.mirror import volume_requests
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Event, Kind, Upsert
from vscheduler.mirror.decode.wire import Metadata, Node, NodeSelector, Requirement, Term
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
from vscheduler.mirror.translate import storage
from vscheduler.simulator import patches

Stored = PersistentVolumeClaim | PersistentVolume


class Volumes:
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
        return self._put(patches.patched(found, patch))

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
