"""Where pods and PodGroups come from: their owners, and what an automatic PodGroup is made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from vscheduler.mirror.decode import wire

AUTOMATIC = "podgroup-"
"""Beginning of the name of a PodGroup that was made for pods that had none; then comes the UID of
their controller, or of the pod (Volcano: helpers.GeneratePodgroupName)."""

DOMAIN = "volcano.sh/"
"""In the annotations that a PodGroup takes over from its pods, or is made by."""

KEPT = 4096
"""How many different owners and origins are shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An owner reference: of a pod its controller, of a PodGroup whatever it was made for."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerTemplate:
    """What the PodGroup of a pod without one depends on, beside its labels and requests.

    Pods of one controller share theirs.
    """

    owner: Owner | None
    """The controller; None for a bare pod."""
    annotations: Mapping[str, str]
    """Those of Volcano's domains."""
    priority_class: str
    scheduler: str
    """Which of ours the pod names."""


def of_pod(pod: wire.Pod, group: str | None) -> OwnerTemplate | None:
    """The origin of a pod that names this PodGroup (its name only), or none.

    A pod that names one that somebody else has made needs none.
    """
    if group is not None and not group.startswith(AUTOMATIC):
        return None
    metadata = pod.metadata
    kept = tuple(sorted(each for each in metadata.annotations.items() if DOMAIN in each[0]))
    spec = pod.spec
    return _origin(controller(metadata), kept, spec.priority_class_name, spec.scheduler_name)


def controller(metadata: wire.Metadata) -> Owner | None:
    """The one owner that manages the object."""
    for each in metadata.owner_references:
        if each.controller:
            return _owner(each)
    return None


def owner_of_group(metadata: wire.Metadata) -> Owner | None:
    """What a PodGroup was made for: its controller, else its first owner."""
    found = metadata.owner_references
    return controller(metadata) or (_owner(found[0]) if found else None)


def _owner(reference: wire.OwnerReference) -> Owner:
    return _shared(reference.api_version, reference.kind, reference.name, reference.uid)


@lru_cache(maxsize=KEPT)
def _shared(api_version: str, kind: str, name: str, uid: str) -> Owner:
    return Owner(api_version=api_version, kind=kind, name=name, uid=uid)


@lru_cache(maxsize=KEPT)
def _origin(
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
