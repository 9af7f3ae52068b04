"""Automatic PodGroups: the manifest for pods that name no PodGroup.

Volcano: podgroup controller, buildPodGroupFromPod. Pods of a controller share a PodGroup, whatever
the controller's kind. A pod without a controller has a PodGroup of its own.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from vscheduler.mirror.decode import events, fields
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.translate import group_terms, pod_owners, pods, translation
from vscheduler.mirror.translate.group_terms import Problem, Source, Terms
from vscheduler.model.resources import ResourceMap
from vscheduler.model.run_times import MAX_RUN_TIME

Body = dict[str, Any]
"""An object, or a patch, as plain JSON data."""

API_VERSION = "scheduling.volcano.sh/v1beta1"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "vscheduler"
"""Label and value that mark our PodGroups, as opposed to PodGroups of users and of Volcano."""

WRITTEN = "vscheduler.io/written"
"""Annotation: the spec fields, annotations and labels that we wrote last, to detect edits by
users.
"""

MESSAGE_MAX = 1024
"""Of the condition about annotations: their values may be long."""

FOLLOWED = ("minMember", "minResources", "priorityClassName", "queue", "networkTopology")
"""Fields that follow the owner and its newest pod after the PodGroup was created."""

TEXTS = ("annotations", "labels")
"""Parts of the metadata that follow, too, as far as pods and owners say them."""


class OwnerRef(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's controller, as named in ownerReferences."""

    api_version: str
    kind: str
    name: str
    uid: str


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A controller as read from the API server."""

    ref: OwnerRef
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    replicas: int | None
    """How many pods the controller wants at a time; None for unknown kinds. A Job wants no more
    pods than it lacks completions, and one when it is complete.
    """
    deadline_seconds: int | None = None
    """How many seconds a Job runs at most (`activeDeadlineSeconds`), and so each of its pods."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, reduced to the fields that its automatic PodGroup depends on."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    priority_class: str
    request: ResourceMap
    """Includes `pods: 1`."""
    owner: OwnerRef | None
    """The pod's controller."""
    created: float = 0.0
    """Seconds since the epoch."""


def group_name(member: Member, scheduler: str) -> str:
    """Return the name of a new automatic PodGroup for a pod of this scheduler."""
    owner = member.owner
    if owner is None:
        return pod_owners.automatic_name(member.name, member.uid, scheduler)
    return pod_owners.automatic_name(owner.name, owner.uid, scheduler)


def representative(members: Iterable[Member]) -> Member:
    """Return the pod that a shared PodGroup is built from: the newest; the UID breaks ties.

    Pods of two generations may request different amounts. If they took turns, the PodGroup would be
    rewritten over and over.
    """
    return max(members, key=lambda member: (member.created, member.uid))


def wanted(
    member: Member,
    owner: Owner | None,
    *,
    name: str,
    scheduler: str,
    default_queue: str,
    inherit_owner_annotations: bool,
) -> Body:
    """Return the manifest of the PodGroup that the pod should have.

    `owner` is the pod's controller, if readable. `name` is the name of the PodGroup, `scheduler`
    the pod's scheduler name.
    `default_queue` is that of a PodGroup that exists, else comes from the namespace's annotation
    (group_terms.QUEUE), else from the daemon.
    Without `inherit_owner_annotations` all annotations of the owner are ignored, min-member
    included, as in Volcano. `problems` returns unusable annotations.
    """
    terms = terms_of(member, owner if inherit_owner_annotations else None)
    minimum = min_member(terms, member, owner)
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
    annotations = terms.annotations()
    if inherit_owner_annotations and owner is not None and owner.deadline_seconds:
        annotations.setdefault(MAX_RUN_TIME, f"{owner.deadline_seconds}s")
    texts = {"annotations": annotations, "labels": group_terms.labels(member.labels)}
    written = {name: spec.get(name) for name in FOLLOWED} | texts
    conditions = _conditions(terms.problems)
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "namespace": member.namespace,
            "name": name,
            "labels": {**texts["labels"], MANAGED_BY: MANAGER},
            "annotations": {
                **texts["annotations"],
                translation.SCHEDULER: scheduler,
                WRITTEN: _record(written),
            },
            "ownerReferences": [_reference(member)],
        },
        "spec": spec,
        **({"status": {"conditions": conditions}} if conditions else {}),
    }


def problems(
    member: Member, owner: Owner | None, *, inherit_owner_annotations: bool
) -> tuple[Problem, ...]:
    """Return the defects of annotations that `wanted` reads, for the log, once per PodGroup."""
    terms = terms_of(member, owner if inherit_owner_annotations else None)
    terms.min_resources(member.request, min_member(terms, member, owner))
    terms.queue("")
    terms.topology()
    return tuple(terms.problems)


def unreadable(body: Mapping[str, Any]) -> str:
    """Return the message about annotations that can't be read; empty if all can be read."""
    problem = (
        condition
        for condition in _stored_conditions(body)
        if condition.get("type") == pod_owners.CONDITION
    )
    return str(next(problem, {}).get("message", ""))


def _conditions(problems: Iterable[Problem]) -> list[Body]:
    message = "; ".join(map(str, problems))
    condition = {"type": pod_owners.CONDITION, "status": "False", "reason": pod_owners.UNREADABLE}
    return [{**condition, "message": message[:MESSAGE_MAX]}] if message else []


def _stored_conditions(body: Mapping[str, Any]) -> list[Body]:
    return list((body.get("status") or {}).get("conditions") or ())


def change(stored: Mapping[str, Any], wanted: Body) -> Body | None:
    """Return the merge patch that updates a PodGroup of ours, or None when nothing has to change.

    Only what is in FOLLOWED and TEXTS changes, and only as long as it has the value we wrote: edits
    by users stay. The condition about annotations changes, too. The patch carries the UID and
    resourceVersion of `stored`, so the API server refuses the patch after a concurrent change.
    """
    metadata = stored.get("metadata", {})
    if metadata.get("labels", {}).get(MANAGED_BY) != MANAGER:
        return None
    patch = _followed(stored, wanted)
    if unreadable(stored) != unreadable(wanted):
        others = [
            condition
            for condition in _stored_conditions(stored)
            if condition.get("type") != pod_owners.CONDITION
        ]
        patch["status"] = {"conditions": [*others, *_stored_conditions(wanted)]}
    if not patch:
        return None
    identity = {name: metadata[name] for name in ("uid", "resourceVersion")}
    return patch | {"metadata": identity | patch.get("metadata", {})}


def _followed(stored: Mapping[str, Any], wanted: Body) -> Body:
    """Return the part of the patch for what follows; empty when nothing has to change."""
    spec, metadata = stored.get("spec", {}), stored.get("metadata", {})
    written = _read_record(metadata.get("annotations", {}).get(WRITTEN, ""))
    now = _read_record(wanted["metadata"]["annotations"][WRITTEN])
    fresh = {
        name: now[name]
        for name in FOLLOWED
        if name in written
        and _same(spec.get(name), written[name])
        and not _same(spec.get(name), now[name])
    }
    texts = {
        part: _fresh_texts(metadata.get(part, {}), written.get(part), now[part]) for part in TEXTS
    }
    patch: Body = {}
    if fresh:
        patch["spec"] = {name: _merged(spec.get(name), each) for name, each in fresh.items()}
    if fresh or any(texts.values()):
        kept = {part: _without_gaps(written[part] | texts[part]) for part in TEXTS if texts[part]}
        texts["annotations"][WRITTEN] = _record(written | fresh | kept)
        patch["metadata"] = {
            part: written_texts for part, written_texts in texts.items() if written_texts
        }
    return patch


def _fresh_texts(
    stored: Mapping[str, str], written: object, now: Mapping[str, str]
) -> dict[str, str | None]:
    """Return what changes of annotations or labels that nobody has edited; None for what goes."""
    if not isinstance(written, dict):  # of an earlier release
        return {}
    return {
        name: now.get(name)
        for name in sorted(written.keys() | now.keys())
        if stored.get(name) == written.get(name) != now.get(name)
    }


def _without_gaps(texts: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: text for name, text in texts.items() if text is not None}


def attachment(member: Member, group: str) -> Body:
    """Return the merge patch that puts this very pod, checked by UID, into its automatic
    PodGroup.
    """
    return {"metadata": {"uid": member.uid, "annotations": {pods.GROUPS[0]: group}}}


def owner(body: Mapping[str, Any]) -> Owner:
    """Return a controller of any kind from its JSON."""
    metadata = body["metadata"]
    return Owner(
        ref=OwnerRef(
            api_version=body["apiVersion"],
            kind=body["kind"],
            name=metadata["name"],
            uid=metadata["uid"],
        ),
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
        replicas=group_terms.replicas(body),
        deadline_seconds=group_terms.deadline_seconds(body),
    )


def terms_of(member: Member, owner: Owner | None) -> Terms:
    """Return the terms in the pod's annotations, and in the owner's if `owner` is given."""
    namespace = member.namespace
    pod = Source(
        object=f"Pod {events.key_of(namespace, member.name)}", annotations=member.annotations
    )
    if owner is None:
        return Terms(pod, None)
    place = f"{owner.ref.kind} {events.key_of(namespace, owner.ref.name)}"
    source = Source(object=place, annotations=owner.annotations)
    return Terms(pod, source)


def min_member(terms: Terms, member: Member, owner: Owner | None) -> int:
    """Return the minimum, limited to the number of expected pods: a bare pod is alone in its
    group.
    """
    replicas = None if owner is None else owner.replicas
    ref = member.owner
    of_job = ref is not None and group_terms.is_job(ref.api_version, ref.kind)
    return terms.min_member(1 if ref is None else replicas, of_job=of_job)


def _reference(member: Member) -> Body:
    """Return the owner reference of the PodGroup: garbage collection deletes the PodGroup with its
    owner.

    Unlike Volcano's, the reference doesn't block the owner's deletion. So a foreground deletion
    leaves the PodGroup until the pods are gone, and we need no permission on the finalizers of
    every kind of owner.
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


def _record(spec: Mapping[str, Any]) -> str:
    return json.dumps(spec, sort_keys=True, separators=(",", ":"))


def _read_record(text: str) -> Body:
    """Return the fields that we wrote last. Empty if the record is missing or unreadable: nothing
    changes then.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _same(left: object, right: object) -> bool:
    """Whether two values of a field are equal; quantities are compared by amount."""
    if isinstance(left, dict) and isinstance(right, dict):
        return _plain(left) == _plain(right)
    return left == right


def _plain(amounts: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return fields.totals(amounts, "")
    except (FieldError, TypeError):
        return amounts


def _merged(stored: object, fresh: Any) -> Any:
    """Return the part of a merge patch that turns `stored` into `fresh`: removed keys are null."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        return dict.fromkeys(stored) | fresh
    return fresh
