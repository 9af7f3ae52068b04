"""Owners of pods and PodGroups: the pod fields that automatic PodGroups are built from, and their
names, from the name of the pods' controller and a short hash of its UID.

Pods of scheduler `volcano` get Volcano's names, so that Volcano's controllers and ours never create
two PodGroups for the same pods. Earlier versions used Volcano's names for all schedulers. Their
PodGroups are still recognised.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from vscheduler.mirror.decode.wire import Metadata, OwnerReference, Pod
from vscheduler.model import run_times, topology

VOLCANO = "volcano"
"""The scheduler name whose automatic PodGroups have Volcano's names."""

PREFIX = "podgroup-"
"""Start of Volcano's names; the UID follows (Volcano: helpers.GeneratePodgroupName)."""

NAME_MAX = 63
"""The longest name, in characters: also valid as the value of a label."""

HASH_DIGITS = 8
CHECK_DIGITS = 2
"""The check digits tell automatic names from names that merely end with ten digits."""

CONDITION = "vscheduler.io/Annotations"
"""Type of the condition of automatic PodGroups whose workload has annotations that can't be
read.
"""

UNREADABLE = "AnnotationUnreadable"
"""The reason of this condition, and of events about such workloads."""

FALLBACK = "pods"
"""The start of the name if no character of the controller's name is allowed."""

_SHORT = re.compile(rf"(.+)-([0-9a-f]{{{HASH_DIGITS}}})([0-9a-f]{{{CHECK_DIGITS}}})")
_FORBIDDEN = re.compile(r"[^a-z0-9]+")
_NAMES_MAX = 4096
"""How many names are cached."""


def automatic_name(name: str, uid: str, scheduler: str) -> str:
    """Return the name of the automatic PodGroup for pods of a controller, or for a bare pod.

    `name` and `uid` are those of the controller or bare pod, `scheduler` is the pods' scheduler
    name. The result is a DNS-1123 label, whatever the name contains: owner references aren't
    validated. A recreated controller has a new UID, so its pods get a new PodGroup.
    """
    return volcano_name(uid) if scheduler == VOLCANO else short_name(name, uid)


def volcano_name(uid: str) -> str:
    """Return Volcano's name for the automatic PodGroup of the controller or bare pod."""
    return f"{PREFIX}{uid}"


@lru_cache(maxsize=_NAMES_MAX)
def short_name(name: str, uid: str) -> str:
    """Return our name: `train-` and ten hexadecimal digits for a Job `train`."""
    start_max = NAME_MAX - 1 - HASH_DIGITS - CHECK_DIGITS
    start = _FORBIDDEN.sub("-", name.lower()).strip("-")[:start_max].rstrip("-") or FALLBACK
    digits = _digest(uid)[:HASH_DIGITS]
    return f"{start}-{digits}{_check(start, digits)}"


def is_automatic(name: str) -> bool:
    """Whether the name is that of an automatic PodGroup, ours or Volcano's."""
    if name.startswith(PREFIX):
        return True
    dash = -1 - HASH_DIGITS - CHECK_DIGITS
    return name[dash : dash + 1] == "-" and _is_short(name)


@lru_cache(maxsize=_NAMES_MAX)
def _is_short(name: str) -> bool:
    """Whether the name ends with the digits of our names."""
    match = _SHORT.fullmatch(name)
    return match is not None and match[3] == _check(match[1], match[2])


def belongs(group: str, uid: str) -> bool:
    """Whether the automatic PodGroup of this name belongs to the controller or bare pod."""
    if group == volcano_name(uid):
        return True
    match = _SHORT.fullmatch(group)
    return (
        match is not None
        and match[2] == _digest(uid)[:HASH_DIGITS]
        and match[3] == _check(match[1], match[2])
    )


def _check(start: str, digits: str) -> str:
    return _digest(f"{start}-{digits}")[:CHECK_DIGITS]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


DOMAIN = "volcano.sh/"
"""Part of annotation names that an automatic PodGroup copies, or is built from."""

OURS = (topology.TOPOLOGY, run_times.MAX_RUN_TIME)
"""Names of further such annotations."""

OWNERS_MAX = 4096
"""How many distinct owners and templates are cached."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """An owner reference: the controller of a pod, or the object that a PodGroup was created
    for.
    """

    api_version: str
    kind: str
    name: str
    uid: str


class OwnerTexts(msgspec.Struct, frozen=True):
    """An owner of pods, reduced to the annotations that count for its pods. Equal ones are the same
    object.
    """

    annotations: Mapping[str, str]


class OwnerTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """Pod fields that an automatic PodGroup depends on, apart from labels and requests.

    Pods of a controller share the same object.
    """

    owner: Owner | None
    """The controller; None for a bare pod."""
    annotations: Mapping[str, str]
    """Annotations that count for PodGroups."""
    priority_class: str
    scheduler: str
    """The pod's spec.schedulerName."""


def template_of(pod: Pod, group: str | None) -> OwnerTemplate | None:
    """Return the template for the PodGroup of a pod; `group` is the PodGroup's name in the pod, if
    any.

    A pod with a PodGroup created by somebody else needs no template: None. A name tells whose an
    automatic PodGroup is; what merely looks like one is a name that a client has given. Pods on
    nodes may have come to another owner since.
    """
    metadata = pod.metadata
    if group is not None and not _is_of_automatic_group(group, pod):
        return None
    spec = pod.spec
    return _template(
        controller(metadata), kept(metadata), spec.priority_class_name, spec.scheduler_name
    )


def kept(metadata: Metadata) -> tuple[tuple[str, str], ...]:
    """Return the annotations that count for PodGroups, sorted."""
    return tuple(sorted(each for each in metadata.annotations.items() if _counts(each[0])))


def _counts(name: str) -> bool:
    return DOMAIN in name or name in OURS


def texts_of_owner(metadata: Metadata) -> OwnerTexts:
    """Return what counts of an owner with this metadata."""
    return _owner_texts(kept(metadata))


@lru_cache(maxsize=OWNERS_MAX)
def _owner_texts(annotations: tuple[tuple[str, str], ...]) -> OwnerTexts:
    return OwnerTexts(dict(annotations))


def _is_of_automatic_group(group: str, pod: Pod) -> bool:
    if not is_automatic(group):
        return False
    owner = controller(pod.metadata)
    uid = pod.metadata.uid if owner is None else owner.uid
    return bool(pod.spec.node_name) or belongs(group, uid)


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


@lru_cache(maxsize=OWNERS_MAX)
def _shared(api_version: str, kind: str, name: str, uid: str) -> Owner:
    return Owner(api_version=api_version, kind=kind, name=name, uid=uid)


@lru_cache(maxsize=OWNERS_MAX)
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
