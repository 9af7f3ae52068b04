"""Gangs that lack pods, in English: which pods, and who stands aside without role or labels."""

import difflib
from collections.abc import Mapping

from vscheduler.core.model.decisions import Reason
from vscheduler.core.model.jobs import ROLE, JobId
from vscheduler.core.model.unassigned_pods import UnassignedPods
from vscheduler.mirror import phrases
from vscheduler.mirror.decode.events import DecodeError, Kind


def no_group(group: JobId, rejections: Mapping[tuple[Kind, str], DecodeError]) -> str:
    """Return why pods that name this PodGroup are in none: it is missing, or can't be used."""
    rejection = rejections.get((Kind.POD_GROUP, group))
    if rejection is None:
        return f"there is no PodGroup {group}"
    place = f"{rejection.field}: " if rejection.field else ""
    return f"PodGroup {group} can't be used ({place}{rejection.message})"


def too_few_pods(reason: Reason) -> str:
    """Return how many pods of minMember exist, and who creates the others."""
    there = f"{reason.tasks} of {phrases.pods(reason.minimum)} exist (minMember {reason.minimum})"
    if reason.unclaimed:
        return f"{there}; {phrases.unclaimed(reason.owner)}"
    if reason.owner and not reason.tasks:
        return f"{there}; {phrases.creates(reason.owner)}"
    return f"{there}; {_create(reason)}, or lower minMember"


def too_few_of_role(reason: Reason) -> str:
    """Return how many pods of a role exist, and which pods have no role of minTaskMember."""
    there = (
        f"{reason.tasks} of {phrases.pods(reason.minimum)} of role {reason.role} exist "
        f"(minTaskMember {reason.role}: {reason.minimum})"
    )
    create, aside = _create(reason), reason.unassigned
    if aside is None:
        return f"{there}; {create}"
    if not aside.role:
        cause = f"{_have(aside)} no role{_such_as(aside)}"
        return f"{cause}: set {ROLE}; {_rest(reason, there, create)}"
    cause = f"{_have(aside)} role {aside.role}{_such_as(aside)}"
    if difflib.get_close_matches(aside.role, [reason.role]):
        return f"{cause}, and not {reason.role}: correct {ROLE}; {_rest(reason, there, create)}"
    return f"{there}; {create}; {cause}, which minTaskMember doesn't name"


def too_few_sub_groups(reason: Reason) -> str:
    """Return how many sub-groups are whole, and which pods are in none for want of labels."""
    groups = f"{reason.minimum} sub-group{'' if reason.minimum == 1 else 's'}"
    there = (
        f"{reason.tasks} of {groups} of policy {reason.subject or '(no name)'} have all their pods "
        f"(minSubGroups {reason.minimum})"
    )
    if reason.unassigned is None:
        create = (
            f"see why {reason.owner} creates no others" if reason.owner else "create the others"
        )
        return f"{there}; {create}"
    return f"{_unlabelled(reason.unassigned)}; {there}"


def too_few_of_sub_group(reason: Reason) -> str:
    """Return how many pods of a sub-group exist, and which pods are in none for want of labels."""
    there = (
        f"{reason.tasks} of {phrases.pods(reason.minimum)}{sub_group(reason)} exist "
        f"(subGroupSize {reason.minimum})"
    )
    create = _create(reason)
    if reason.unassigned is None:
        return f"{there}; {create}"
    return f"{_unlabelled(reason.unassigned)}; {_rest(reason, there, create)}"


def sub_group(reason: Reason) -> str:
    """Return ` of the sub-group with part=a of policy p`."""
    labels = phrases.listed([f"{key}={value}" for key, value in (reason.sub_group or {}).items()])
    named = f" with {labels}" if labels else ""
    return f" of the sub-group{named} of policy {reason.subject or '(no name)'}"


def _create(reason: Reason) -> str:
    """Return what would add the pods that are missing: users don't create an owner's pods."""
    if reason.owner:
        return f"see why {reason.owner} creates no more"
    return f"create {reason.minimum - reason.tasks} more"


def _rest(reason: Reason, there: str, create: str) -> str:
    """Return what exists; and what to create, if the pods that stand aside are too few."""
    missing = reason.minimum - reason.tasks
    enough = reason.unassigned is not None and reason.unassigned.count >= missing
    return there if enough else f"{there}; {create}"


def _have(aside: UnassignedPods) -> str:
    return f"{phrases.pods(aside.count)} {'has' if aside.count == 1 else 'have'}"


def _such_as(aside: UnassignedPods) -> str:
    return f" ({aside.pod})" if aside.count == 1 else f", such as {aside.pod}"


def _unlabelled(aside: UnassignedPods) -> str:
    labels, them = ("label", "it") if len(aside.keys) == 1 else ("labels", "them")
    return f"{_have(aside)} no {labels} {phrases.listed(aside.keys)}{_such_as(aside)}: set {them}"
