"""Owners of pods and PodGroups, and the pod fields that automatic PodGroups are built from."""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from vscheduler.mirror.decode.wire import Metadata, OwnerReference, Pod
from vscheduler.mirror.translate import group_names

DOMAIN = "volcano.sh/"
"""Part of annotation names that an automatic PodGroup copies, or is built from."""

KEPT = 4096
"""How many distinct owners and templates are cached."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """An owner reference: the controller of a pod, or the object that a PodGroup was created
    for.
    """

    api_version: str
    kind: str
    name: str
    uid: str


class OwnerTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """Pod fields that an automatic PodGroup depends on, apart from labels and requests.

    Pods of a controller share the same object.
    """

    owner: Owner | None
    """The controller; None for a bare pod."""
    annotations: Mapping[str, str]
    """Annotations in Volcano's domains."""
    priority_class: str
    scheduler: str
    """The pod's spec.schedulerName."""


def of_pod(pod: Pod, group: str | None) -> OwnerTemplate | None:
    """Return the template for the PodGroup of a pod; `group` is the PodGroup's name in the pod, if
    any.

    A pod with a PodGroup created by somebody else needs no template: None. A name tells whose an
    automatic PodGroup is; what merely looks like one is a name that a client has given. Pods on
    nodes may have come to another owner since.
    """
    metadata = pod.metadata
    if group is not None and not _is_automatic(group, pod):
        return None
    annotations = tuple(sorted(each for each in metadata.annotations.items() if DOMAIN in each[0]))
    spec = pod.spec
    return _template(
        controller(metadata), annotations, spec.priority_class_name, spec.scheduler_name
    )


def _is_automatic(group: str, pod: Pod) -> bool:
    if not group_names.is_automatic(group):
        return False
    owner = controller(pod.metadata)
    uid = pod.metadata.uid if owner is None else owner.uid
    return bool(pod.spec.node_name) or group_names.belongs(group, uid)


def controller(metadata: Metadata) -> Owner | None:
    """Return the owner that is the object's controller, or None."""
    for reference in metadata.owner_references:
        if reference.controller:
            return _owner(reference)
    return None


def owner_of_group(metadata: Metadata) -> Owner | None:
    """Return the owner of a PodGroup: its controller, else its first owner."""
    owners = metadata.owner_references
    return controller(metadata) or (_owner(owners[0]) if owners else None)


def _owner(reference: OwnerReference) -> Owner:
    return _shared(reference.api_version, reference.kind, reference.name, reference.uid)


@lru_cache(maxsize=KEPT)
def _shared(api_version: str, kind: str, name: str, uid: str) -> Owner:
    return Owner(api_version=api_version, kind=kind, name=name, uid=uid)


@lru_cache(maxsize=KEPT)
def _template(
    owner: Owner | None,
    annotations: tuple[tuple[str, str], ...],
    priority_class: str,
    scheduler: str,
) -> OwnerTemplate:
    return OwnerTemplate(
        owner=owner,
        annotations=dict(annotations),
        priority_class=priority_class,
        scheduler=scheduler,
    )
