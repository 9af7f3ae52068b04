"""Requests for volumes, as patches of claims and volumes, and their withdrawal.

The fields are those that kube-scheduler writes (plugin VolumeBinding): for a volume that is to be
provisioned, an annotation of the claim names the node; an existing volume is given to the claim in
`spec.claimRef`, and Kubernetes completes the binding. Beside them stands an annotation of this
scheduler with the node and the time. Each patch names the UID and the version of the object as last
seen, so that the API server refuses it once anything has changed (409). What was seen since the
decision was made is looked at before (`is_about`).
"""

from collections.abc import Collection
from typing import Any, TypeAlias

from msgspec.structs import replace

from vscheduler.mirror import paths, statuses
from vscheduler.mirror.paths import Kind, Path
from vscheduler.mirror.translate import storage as translation
from vscheduler.model.claim_decisions import (
    ClaimBinding,
    ReleaseClaim,
    ReleaseVolume,
    VolumeChange,
)
from vscheduler.model.storage import Claim, ClaimReference, Selection, Volume

Body: TypeAlias = dict[str, Any]

Wanted: TypeAlias = Claim | Volume
"""An object as it will be once a change is written."""


MISMATCH = "a change is about an object of another kind"


def place(change: VolumeChange) -> tuple[Kind, str]:
    """Return the kind and the key of the object that is to be written."""
    match change:
        case ClaimBinding(volume=str(name)) | ReleaseVolume(name=name):
            return Kind.VOLUME, name
        case ClaimBinding() | ReleaseClaim():
            return Kind.CLAIM, change.key


def is_about(change: VolumeChange, value: Wanted) -> bool:
    """Whether the object is still the one that was decided on, and may get the change."""
    match change, value:
        case ClaimBinding(volume=str()), Volume():
            of = value.claim
            mine = of is None or ((of.key, of.uid) == (change.key, ""))
            return mine and not value.deleting
        case ReleaseVolume(), Volume():
            mine = value.claim is None or value.claim.key == change.key
            return value.uid == change.uid and mine and value.available and not value.deleting
        case _, Claim():
            return value.uid == change.uid and not (value.volume or value.deleting)
    raise AssertionError(MISMATCH)


def path(value: Wanted) -> Path:
    """Return the path of the object."""
    if isinstance(value, Volume):
        return paths.VOLUMES.at(value.name)
    return paths.CLAIMS.at(value.name, value.namespace)


def patch(
    value: Wanted,
    change: VolumeChange,
    *,
    version: str,
    schedulers: Collection[str],
    since: float,
) -> Body:
    """Return the merge patch of a change to the object in this version.

    The first of the `schedulers` is the one that asks; what any of them has noted is withdrawn.
    `since` is in seconds since the epoch.
    """
    notes: dict[str, str | None] = {f"{name}/{translation.SELECTION}": None for name in schedulers}
    body: Body = {}
    match change:
        case ClaimBinding():
            note = f"{change.node} {statuses.timestamp(since)}"
            notes = dict.fromkeys(list(notes)[:1], note)
            if change.volume is None:
                notes[translation.SELECTED_NODE] = change.node
            else:
                body = {"spec": {"claimRef": _reference(change)}}
                if not _is_reserved(value):
                    notes[translation.BOUND_BY_CONTROLLER] = "yes"
        case ReleaseClaim():
            notes[translation.SELECTED_NODE] = None
        case ReleaseVolume():
            body = {"spec": {"claimRef": {"uid": None} if change.reserved else None}}
            if not change.reserved:
                notes[translation.BOUND_BY_CONTROLLER] = None
    metadata = {"uid": value.uid, "resourceVersion": version, "annotations": notes}
    return {"metadata": metadata, **body}


def is_shown(patch: Body, found: Body) -> bool:
    """Whether the API server's object shows a patch: the notes of this scheduler are unique."""
    notes = found["metadata"].get("annotations", {})
    return all(notes.get(name) == text for name, text in patch["metadata"]["annotations"].items())


def result(value: Wanted, change: VolumeChange, *, since: float) -> Wanted:
    """Return the object as it will be once the change is written."""
    match change, value:
        case ClaimBinding(), Claim():
            selection = Selection(node=change.node, since=since)
            return replace(value, selected_node=change.node, selection=selection)
        case ClaimBinding(), Volume():
            return replace(
                value,
                claim=ClaimReference(namespace=change.namespace, name=change.name, uid=change.uid),
                selection=Selection(node=change.node, since=since),
                bound_by_controller=value.bound_by_controller or not _is_reserved(value),
            )
        case ReleaseClaim(), Claim():
            return replace(value, selected_node="", selection=None)
        case ReleaseVolume(), Volume():
            kept = None
            if change.reserved and value.claim is not None:
                kept = replace(value.claim, uid="")
            return replace(value, claim=kept, selection=None, bound_by_controller=False)
    raise AssertionError(MISMATCH)


def _is_reserved(value: Wanted) -> bool:
    """Whether whoever made the volume has reserved it for the claim."""
    return isinstance(value, Volume) and value.claim is not None


def _reference(binding: ClaimBinding) -> Body:
    return {
        "apiVersion": paths.CLAIMS.api_version,
        "kind": paths.CLAIMS.kind,
        "namespace": binding.namespace,
        "name": binding.name,
        "uid": binding.uid,
    }
