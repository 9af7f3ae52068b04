"""Rules for the deletion of automatic PodGroups: whether, in which steps, and with which
preconditions.

Only automatic PodGroups of ours are deleted, and only unused ones: the owner is gone, wants no
pods, or none that need a group, and no live pod is in the group or about to join. Between a read
and a write anything may happen, and a request may be delayed, repeated, or outlive its sender. So a
deletion takes two steps.

1. A group that was unused for the grace period is *marked*: an annotation is set, with the UID and
   resourceVersion of the group as preconditions.
2. Then everything is read again, live, in this order: the group (now with the mark), its owner, the
   pods of its namespace. A group that is still unused is deleted, with the UID and resourceVersion
   from this read as preconditions.

Code that puts a pod into a group reads the group after the pod (`join`), and first removes a mark.
Therefore a delete never hits a group with a pod in it or on its way:

- A pod from before the list of pods is counted, whether the pod names the group already or is about
  to (`Pod.automatic`).
- A pod from after the list finds the mark on the group. Removing the mark changes the
  resourceVersion, so the delete is refused. Or the pod finds the group gone, and a new group with a
  new UID is created.

So neither step may rely on a watch, which may lag behind. A single gap remains and heals: an owner
may orphan a pod while the patch of the pod is on its way. A pod whose automatic group is missing
gets a new group.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from vscheduler.controllers.podgroups import auto_groups
from vscheduler.controllers.podgroups.auto_groups import Body, Owner, OwnerRef
from vscheduler.mirror import statuses
from vscheduler.mirror.translate import pod_owners, translation
from vscheduler.mirror.translate import pods as mirrored

LEAVING = "vscheduler.io/leaving"
"""Annotation: the mark, with the time when the mark was set."""

FINISHED = ("Succeeded", "Failed")


class OwnerState(StrEnum):
    """State of the controller, or of the bare pod, that a group belongs to."""

    GONE = "gone"
    SCALED_TO_ZERO = "scaled to zero"
    SPARED = "its pods need no PodGroup"
    ALIVE = "alive"
    UNKNOWN = "unknown"
    """The owner couldn't be read: forbidden, or no answer."""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod in the group's namespace."""

    group: str
    """Name of the pod's group; empty without a group."""
    automatic: frozenset[str]
    """Names of the automatic groups that the pod might get."""
    live: bool
    """Whether the pod is neither finished nor being deleted. Both are final."""

    @property
    def groups(self) -> frozenset[str]:
        """Names of the groups in which the pod counts: its group, else all that it might get."""
        return frozenset((self.group,)) if self.group else self.automatic


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A group as read, with its usage."""

    uid: str
    resource_version: str
    ours: bool
    marked: bool
    owner: OwnerState
    pods: int
    """Live pods in the group or about to join."""
    unused_since: float | None
    """When the group was first found unused, on the clock of `now`; None: not found unused
    before.
    """


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """Keep the group; nothing is due."""

    why: str


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """The group is unused; check again at `until`."""

    until: float


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Set the mark (`marking`), and check again."""

    uid: str
    resource_version: str


class Unmark(msgspec.Struct, frozen=True, kw_only=True):
    """Remove the mark (`unmarking`)."""

    uid: str
    resource_version: str


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the group with these preconditions (`preconditions`).

    On 409 check again. On 404 the group is gone. Without an answer check again, and never blindly
    repeat the delete.
    """

    uid: str
    resource_version: str


Step: TypeAlias = Keep | Wait | Mark | Unmark | Delete


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """No group exists: create the group. On 409 somebody else has created the group: read it."""


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """The pod may join the group now."""


Entry: TypeAlias = Create | Unmark | Wait | Join


def judge(found: Found, now: float, grace_seconds: float) -> Step:
    """Decide on the next step for a group. `now` is in seconds, of any clock.

    A group with an unknown owner is never deleted. A finished pod doesn't keep its group, but an
    existing owner does: the group of a Job goes with the Job, the group of a bare pod with the pod.
    A mark on an unused group proves that the grace period is over, even after a restart.
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
    return _release(found, now, grace_seconds)


def _release(found: Found, now: float, grace_seconds: float) -> Wait | Mark | Delete:
    """Decide on the next step for an unused group of ours."""
    if found.marked:
        return Delete(uid=found.uid, resource_version=found.resource_version)
    since = now if found.unused_since is None else found.unused_since
    if now < since + grace_seconds:
        return Wait(until=since + grace_seconds)
    return Mark(uid=found.uid, resource_version=found.resource_version)


def join(group: Mapping[str, Any] | None, now: float, retry_seconds: float = 1.0) -> Entry:
    """Decide on the next step before a pod joins its automatic group.

    `group` must be read after the pod was seen; None if no group exists. After any result except
    Join, read the group again. A group that is being deleted but has finalizers is waited for.
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
    """Return the usage of a group. The group, its owner and the pods must be read in this order."""
    metadata = group["metadata"]
    name = metadata["name"]
    return Found(
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        ours=is_ours(group, schedulers),
        marked=is_marked(group),
        owner=owner,
        pods=sum(
            pod.live and (pod.group == name if owner is OwnerState.SPARED else name in pod.groups)
            for pod in pods
        ),
        unused_since=unused_since,
    )


def is_ours(group: Mapping[str, Any], schedulers: Iterable[str]) -> bool:
    """Whether we created the group for pods of any of these schedulers.

    Users may take over a group by removing our label. A group with a different name is somebody's
    copy.
    """
    metadata = group["metadata"]
    scheduler = metadata.get("annotations", {}).get(translation.SCHEDULER)
    label = metadata.get("labels", {}).get(auto_groups.MANAGED_BY)
    named = pod_owners.is_automatic(str(metadata["name"]))
    return named and label == auto_groups.MANAGER and scheduler in schedulers


def is_marked(group: Mapping[str, Any]) -> bool:
    """Whether the group has the mark."""
    return LEAVING in group["metadata"].get("annotations", {})


def owner_ref(group: Mapping[str, Any]) -> OwnerRef | None:
    """Return the reference to the owner that the group's name tells; None if the reference was
    removed.
    """
    for each in group["metadata"].get("ownerReferences", ()):
        if pod_owners.belongs(str(group["metadata"]["name"]), each["uid"]):
            return OwnerRef(
                api_version=each["apiVersion"],
                kind=each["kind"],
                name=each["name"],
                uid=each["uid"],
            )
    return None


def owner_state(uid: str, owner: Owner | None) -> OwnerState:
    """Return the state of the owner with this UID; `owner` is the object found under its name, if
    any.

    An owner that is being deleted counts as alive. Its groups go after the owner is gone.
    """
    if owner is None or owner.ref.uid != uid:
        return OwnerState.GONE
    return OwnerState.SCALED_TO_ZERO if owner.replicas == 0 else OwnerState.ALIVE


def pod(body: Mapping[str, Any]) -> Pod:
    """Return a pod from its JSON."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations", {})
    references = metadata.get("ownerReferences", ())
    controllers = [reference for reference in references if reference.get("controller")]
    owner = (controllers or [metadata])[0]
    return Pod(
        group=next(filter(None, map(annotations.get, mirrored.GROUPS)), ""),
        automatic=frozenset(
            (
                pod_owners.volcano_name(owner["uid"]),
                pod_owners.short_name(owner["name"], owner["uid"]),
            )
        ),
        live=not metadata.get("deletionTimestamp")
        and body.get("status", {}).get("phase") not in FINISHED,
    )


def marking(step: Mark, now: float) -> Body:
    """Return the merge patch that sets the mark; `now` is in seconds since the epoch."""
    return _patch(step, statuses.timestamp(now))


def unmarking(step: Unmark) -> Body:
    """Return the merge patch that removes the mark."""
    return _patch(step, None)


def preconditions(step: Delete) -> Body:
    """Return the preconditions of a DELETE request."""
    return {"uid": step.uid, "resourceVersion": step.resource_version}


def _patch(step: Mark | Unmark, mark: str | None) -> Body:
    return {
        "metadata": {
            "uid": step.uid,
            "resourceVersion": step.resource_version,
            "annotations": {LEAVING: mark},
        }
    }
