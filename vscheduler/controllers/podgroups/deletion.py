"""May this PodGroup be deleted, and with which preconditions.

Only automatic groups that we made go, and only while nobody uses them: their owner is gone or
wants no pods, and no live pod is in them or about to be. Between two looks anything may happen, a
request may be late, come twice or outlive who sent it; so a deletion takes two steps.

1. A group that was unused for the grace period is *marked*: an annotation, put on with the UID and
   resourceVersion of what was read.
2. Then everything is read anew and live, in this order: the group (it has the mark), its owner, the
   pods of its namespace. If it is unused still, it is deleted with the UID and resourceVersion of
   that very object as preconditions.

Whoever puts a pod into a group reads the group after the pod (`join`), and takes off a mark before.
So a delete never hits a group that a pod is in, or on its way to:

- The pod was there before the list of pods: then it counts, whether it names the group already or
  is only about to (`Pod.automatic`).
- It came later: then the group had the mark when it was looked at for this pod, and taking it off
  changed the resourceVersion, so the delete is refused; or the group was gone, and a new one, with
  another UID, was made.

It follows that neither step may be taken from a watch, which may be late. One hole is left and
heals: an owner that lets go of a pod (orphans it) while the pod's patch is on its way. A pod whose
automatic group is missing gets a new one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from vscheduler.controllers.podgroups import auto_groups
from vscheduler.mirror import statuses
from vscheduler.mirror.translate import pods as mirrored
from vscheduler.mirror.translate import translation

LEAVING = "vscheduler.io/leaving"
"""Annotation: the mark, with the time at which it was put on."""

FINISHED = ("Succeeded", "Failed")


class OwnerState(StrEnum):
    """What became of the controller, or the bare pod, that a group belongs to."""

    GONE = "gone"
    SCALED_TO_ZERO = "scaled to zero"
    ALIVE = "alive"
    UNKNOWN = "unknown"
    """It couldn't be read: forbidden, or an answer that didn't come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of the group's namespace."""

    group: str
    """The name of the group that it names; empty where it names none."""
    automatic: str
    """The name of the group that it would be given."""
    live: bool
    """Neither finished nor being deleted: neither can be undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A group as it was read, and who uses it."""

    uid: str
    resource_version: str
    ours: bool
    marked: bool
    owner: OwnerState
    pods: int
    """Live pods that are in it or about to be."""
    unused_since: float | None
    """Since when it was found unused, in the seconds of `now`; None: never before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """It stays, and nothing is due."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """It is unused; look again then."""

    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Put the mark on (`marking`), and look again."""

    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmark:
    """Take the mark off (`unmarking`)."""

    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete it with these as preconditions (`preconditions`).

    409: look again. 404: done. No answer: look again, and never just repeat it.
    """

    uid: str
    resource_version: str


Step: TypeAlias = Keep | Wait | Mark | Unmark | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """There is no group: make it. 409: somebody did; read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The pod may be put into it now."""


Entry: TypeAlias = Create | Unmark | Wait | Join


def judge(found: Found, now: float, grace_seconds: float) -> Step:
    """What is to be done with a group. now is in seconds, of any clock.

    Owner unknown never leads to a delete. A finished pod doesn't keep a group, but its owner does:
    that of a Job goes with the Job, that of a bare pod with the pod. A mark that is found on an
    unused group stands for a grace period that is over, after a restart too.
    """
    if not found.ours:
        return Keep(why="it isn't one that we made")
    if found.pods or found.owner is OwnerState.ALIVE:
        if found.marked:
            return Unmark(uid=found.uid, resource_version=found.resource_version)
        count = "1 pod" if found.pods == 1 else f"{found.pods} pods"
        return Keep(why=f"{count} in it" if found.pods else "its owner is there")
    if found.owner is OwnerState.UNKNOWN:
        return Keep(why="what became of its owner isn't known")
    return _part_with(found, now, grace_seconds)


def _part_with(found: Found, now: float, grace_seconds: float) -> Wait | Mark | Delete:
    """One that we made and nobody uses."""
    if found.marked:
        return Delete(uid=found.uid, resource_version=found.resource_version)
    since = now if found.unused_since is None else found.unused_since
    if now < since + grace_seconds:
        return Wait(until=since + grace_seconds)
    return Mark(uid=found.uid, resource_version=found.resource_version)


def join(group: Mapping[str, Any] | None, now: float, retry_seconds: float = 1.0) -> Entry:
    """What is to be done before a pod is put into its automatic group.

    group is as it was read after the pod was seen, or None where there was none. After anything
    but Join, read it again. One that is being deleted (it has finalizers) is waited for.
    """
    if group is None:
        return Create()
    metadata = group["metadata"]
    if metadata.get("deletionTimestamp"):
        return Wait(until=now + retry_seconds)
    if is_marked(group):
        return Unmark(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    return Join()


def found(
    group: Mapping[str, Any],
    owner: OwnerState,
    pods: Iterable[Pod],
    *,
    schedulers: Iterable[str],
    unused_since: float | None,
) -> Found:
    """A group that was read, then its owner, then the pods of its namespace: in that order."""
    metadata = group["metadata"]
    name = metadata["name"]
    return Found(
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        ours=is_ours(group, schedulers),
        marked=is_marked(group),
        owner=owner,
        pods=sum(pod.live and (pod.group or pod.automatic) == name for pod in pods),
        unused_since=unused_since,
    )


def is_ours(group: Mapping[str, Any], schedulers: Iterable[str]) -> bool:
    """Whether we made it, for pods of one of these schedulers; a user may take the label away.

    One of another name is a copy that somebody made.
    """
    metadata = group["metadata"]
    scheduler = metadata.get("annotations", {}).get(translation.SCHEDULER)
    label = metadata.get("labels", {}).get(auto_groups.MANAGED_BY)
    named = str(metadata["name"]).startswith(auto_groups.PREFIX)
    return named and label == auto_groups.MANAGER and scheduler in schedulers


def is_marked(group: Mapping[str, Any]) -> bool:
    """Whether it has the mark."""
    return LEAVING in group["metadata"].get("annotations", {})


def owner_uid(group: Mapping[str, Any]) -> str:
    """The UID of the controller or pod that an automatic group is of, which its name says."""
    return str(group["metadata"]["name"]).removeprefix(auto_groups.PREFIX)


def owner_ref(group: Mapping[str, Any]) -> auto_groups.OwnerRef | None:
    """The owner of an automatic group; None where the group has no reference to it any more."""
    for each in group["metadata"].get("ownerReferences", ()):
        if each["uid"] == owner_uid(group):
            return auto_groups.OwnerRef(
                api_version=each["apiVersion"],
                kind=each["kind"],
                name=each["name"],
                uid=each["uid"],
            )
    return None


def owner_state(uid: str, owner: auto_groups.Owner | None) -> OwnerState:
    """What became of the owner with this UID, of what was found under its name, or None.

    An owner that is being deleted is alive: once it is gone, its groups go.
    """
    if owner is None or owner.ref.uid != uid:
        return OwnerState.GONE
    return OwnerState.SCALED_TO_ZERO if owner.replicas == 0 else OwnerState.ALIVE


def pod(body: Mapping[str, Any]) -> Pod:
    """A pod as it was read."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations", {})
    references = metadata.get("ownerReferences", ())
    controllers = [each["uid"] for each in references if each.get("controller")]
    return Pod(
        group=next(filter(None, map(annotations.get, mirrored.GROUPS)), ""),
        automatic=auto_groups.automatic_name((controllers or [metadata["uid"]])[0]),
        live=not metadata.get("deletionTimestamp")
        and body.get("status", {}).get("phase") not in FINISHED,
    )


def marking(step: Mark, now: float) -> auto_groups.Body:
    """The merge patch that puts the mark on; now is in seconds since the epoch."""
    return _patch(step, statuses.timestamp(now))


def unmarking(step: Unmark) -> auto_groups.Body:
    """The merge patch that takes the mark off."""
    return _patch(step, None)


def preconditions(step: Delete) -> auto_groups.Body:
    """What the DELETE carries."""
    return {"uid": step.uid, "resourceVersion": step.resource_version}


def _patch(step: Mark | Unmark, mark: str | None) -> auto_groups.Body:
    return {
        "metadata": {
            "uid": step.uid,
            "resourceVersion": step.resource_version,
            "annotations": {LEAVING: mark},
        }
    }
