"""A pod without a group → the PodGroup that it should have.

Volcano: podgroup controller, buildPodGroupFromPod. Pods of one controller owner share one group,
whatever the owner's kind; a pod without such an owner has one of its own.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vscheduler.controllers.podgroups import group_terms
from vscheduler.core.model import resources
from vscheduler.mirror.decode import events, fields
from vscheduler.mirror.translate import pods, translation

Body = dict[str, Any]
"""An object, or a patch of one, as JSON has it."""

API_VERSION = "scheduling.volcano.sh/v1beta1"
PREFIX = "podgroup-"
"""Beginning of the names of automatic groups, Volcano's and ours."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "vscheduler"
"""Label and its value that tell groups that we made from those of users and of Volcano."""

WRITTEN = "vscheduler.io/written"
"""Annotation: what we last wrote of a group's spec, so that a user's edit is told from that."""

COUNTED = ("minMember", "minResources")
"""The fields that follow the owner once the group is there."""

_REPLICAS = {
    ("apps", "ReplicaSet"): "replicas",
    ("apps", "StatefulSet"): "replicas",
    ("batch", "Job"): "parallelism",
}
"""Where an owner's spec says how many pods it wants, by API group and kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRef:
    """A pod's controller, as its ownerReferences name it."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A controller that was read."""

    ref: OwnerRef
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    replicas: int | None
    """How many pods it wants at once; None for a kind of which that isn't known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A pod, as far as its group depends on it."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    priority_class: str
    request: resources.ResourceMap
    """`pods: 1` included."""
    owner: OwnerRef | None
    """Its controller."""
    created: float = 0.0
    """Seconds since the epoch."""


def group_name(member: Member) -> str:
    """The name of the automatic group: that of its controller's UID, else of its own.

    Volcano: helpers.GeneratePodgroupName. An owner that is made anew has another UID, and so its
    pods have another group.
    """
    return automatic_name(member.owner.uid if member.owner is not None else member.uid)


def automatic_name(uid: str) -> str:
    """The name of the automatic group of the controller, or bare pod, with this UID."""
    return f"{PREFIX}{uid}"


def spokesman(members: Iterable[Member]) -> Member:
    """Which of a group's pods speaks for it: the newest, and always the same one of several.

    Pods of two generations may ask for different amounts; if each spoke in turn, the group would
    be written over and over.
    """
    return max(members, key=lambda member: (member.created, member.uid))


def wanted(
    member: Member,
    owner: Owner | None,
    *,
    scheduler: str,
    default_queue: str,
    inherit_owner_annotations: bool,
) -> Body:
    """The whole manifest of the group that the pod should have.

    owner is the pod's controller where it could be read. scheduler is the pod's; default_queue is
    what its namespace is annotated with (group_terms.QUEUE), else the daemon's. Without
    inherit_owner_annotations none of the owner's annotations counts, min-member included, as in
    Volcano. `problems` tells of annotations that can't be used.
    """
    terms = _terms(member, owner if inherit_owner_annotations else None)
    minimum = _min_member(terms, member, owner)
    spec: Body = {
        "minMember": minimum,
        "minResources": terms.min_resources(member.request, minimum),
        "queue": terms.queue(default_queue),
    }
    if member.priority_class:
        spec["priorityClassName"] = member.priority_class
    topology = terms.topology()
    if topology is not None:
        spec["networkTopology"] = topology
    counted = {name: spec[name] for name in COUNTED}
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "namespace": member.namespace,
            "name": group_name(member),
            "labels": {**group_terms.labels(member.labels), MANAGED_BY: MANAGER},
            "annotations": {
                **terms.annotations(),
                translation.SCHEDULER: scheduler,
                WRITTEN: _record(counted),
            },
            "ownerReferences": [_reference(member)],
        },
        "spec": spec,
    }


def problems(
    member: Member, owner: Owner | None, *, inherit_owner_annotations: bool
) -> tuple[group_terms.Problem, ...]:
    """What is wrong with the annotations that `wanted` reads; for the log, once per group."""
    terms = _terms(member, owner if inherit_owner_annotations else None)
    terms.min_resources(member.request, _min_member(terms, member, owner))
    terms.queue("")
    terms.topology()
    return tuple(terms.problems)


def change(stored: Mapping[str, Any], wanted: Body) -> Body | None:
    """The merge patch after which a group that we made is what is wanted; None: nothing to do.

    Only what follows the owner is changed (COUNTED), and of that only what still is as we wrote
    it: what a user edited stays. The patch carries UID and resourceVersion of what was read, so
    that it is refused where someone was faster.
    """
    metadata = stored.get("metadata", {})
    if metadata.get("labels", {}).get(MANAGED_BY) != MANAGER:
        return None
    spec = stored.get("spec", {})
    written = _read_record(metadata.get("annotations", {}).get(WRITTEN, ""))
    fresh = {
        name: wanted["spec"][name]
        for name in COUNTED
        if name in written
        and _same(spec.get(name), written[name])
        and not _same(spec.get(name), wanted["spec"][name])
    }
    if not fresh:
        return None
    return {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {WRITTEN: _record(written | fresh)},
        },
        "spec": {name: _merged(spec.get(name), each) for name, each in fresh.items()},
    }


def attachment(member: Member) -> Body:
    """The merge patch that puts the pod into its automatic group; refused for any other pod."""
    return {"metadata": {"uid": member.uid, "annotations": {pods.GROUPS[0]: group_name(member)}}}


def owner(body: Mapping[str, Any]) -> Owner:
    """A controller of any kind, as it was read."""
    metadata = body["metadata"]
    group, _, _ = body["apiVersion"].rpartition("/")
    field = _REPLICAS.get((group, body["kind"]))
    spec = body.get("spec", {}) if field is not None else {}
    replicas = spec.get(field)
    if replicas is not None and spec.get("completions") is not None:
        replicas = min(replicas, spec["completions"])
    return Owner(
        ref=OwnerRef(
            api_version=body["apiVersion"],
            kind=body["kind"],
            name=metadata["name"],
            uid=metadata["uid"],
        ),
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
        replicas=replicas,
    )


def _terms(member: Member, owner: Owner | None) -> group_terms.Terms:
    """What the pod's annotations say, and its owner's where they count."""
    namespace = member.namespace
    pod = group_terms.Source(
        object=f"Pod {events.key_of(namespace, member.name)}", annotations=member.annotations
    )
    if owner is None:
        return group_terms.Terms(pod, None)
    place = f"{owner.ref.kind} {events.key_of(namespace, owner.ref.name)}"
    source = group_terms.Source(object=place, annotations=owner.annotations)
    return group_terms.Terms(pod, source)


def _min_member(terms: group_terms.Terms, member: Member, owner: Owner | None) -> int:
    """What is asked for, as far as there will be pods: a bare pod is alone in its group."""
    replicas = None if owner is None else owner.replicas
    ref = member.owner
    of_job = ref is not None and ref.kind == "Job" and ref.api_version.startswith("batch/")
    return terms.min_member(1 if ref is None else replicas, of_job=of_job)


def _reference(member: Member) -> Body:
    """Who takes the group along when it goes.

    It doesn't block the owner's deletion, other than Volcano's: so a deletion in the foreground
    leaves the group until the pods are gone, and no right to the finalizers of every kind of owner
    is needed.
    """
    ref = member.owner or OwnerRef(api_version="v1", kind="Pod", name=member.name, uid=member.uid)
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "name": ref.name,
        "uid": ref.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _own(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in sorted(texts.items()) if name.startswith(pods.OWN)}


def _record(spec: Mapping[str, Any]) -> str:
    return json.dumps(spec, sort_keys=True, separators=(",", ":"))


def _read_record(text: str) -> Body:
    """What we wrote last; nothing where that was taken away or spoilt, so nothing is changed."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _same(left: object, right: object) -> bool:
    """Whether two values of a field say the same, in whatever words."""
    if isinstance(left, dict) and isinstance(right, dict):
        return _plain(left) == _plain(right)
    return left == right


def _plain(listed: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return fields.totals(listed, "")
    except (fields.FieldError, TypeError):
        return listed


def _merged(stored: object, fresh: Any) -> Any:
    """What a merge patch says to make `fresh` of what is stored: what goes is null."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        return dict.fromkeys(stored) | fresh
    return fresh
