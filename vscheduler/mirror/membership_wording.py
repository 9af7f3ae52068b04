"""Gangs that lack pods, in English: which pods, and who stands aside without role or labels."""

import difflib

from vscheduler.core.model import decisions, unassigned_pods
from vscheduler.mirror import phrases

ROLE = "volcano.sh/task-spec"
"""Volcano: the annotation, or label, of pods with their role."""


def too_few_pods(reason: decisions.Reason) -> str:
    """Return how many pods of minMember exist."""
    return (
        f"{reason.tasks} of {phrases.pods(reason.minimum)} exist (minMember {reason.minimum}); "
        f"create {reason.minimum - reason.tasks} more, or lower minMember"
    )


def too_few_of_role(reason: decisions.Reason) -> str:
    """Return how many pods of a role exist, and which pods have no role of minTaskMember."""
    there = (
        f"{reason.tasks} of {phrases.pods(reason.minimum)} of role {reason.role} exist "
        f"(minTaskMember {reason.role}: {reason.minimum})"
    )
    create = f"create {reason.minimum - reason.tasks} more"
    aside = reason.unassigned
    if aside is None:
        return f"{there}; {create}"
    if not aside.role:
        cause = f"{_have(aside)} no role{_such_as(aside)}"
        return f"{cause}: set {ROLE}; {_rest(reason, there, create)}"
    cause = f"{_have(aside)} role {aside.role}{_such_as(aside)}"
    if difflib.get_close_matches(aside.role, [reason.role]):
        return f"{cause}, and not {reason.role}: correct {ROLE}; {_rest(reason, there, create)}"
    return f"{there}; {create}; {cause}, which minTaskMember doesn't name"


def too_few_sub_groups(reason: decisions.Reason) -> str:
    """Return how many sub-groups are whole, and which pods are in none for want of labels."""
    groups = f"{reason.minimum} sub-group{'' if reason.minimum == 1 else 's'}"
    there = (
        f"{reason.tasks} of {groups} of policy {reason.subject or '(no name)'} have all their pods "
        f"(minSubGroups {reason.minimum})"
    )
    if reason.unassigned is None:
        return f"{there}; create the others"
    return f"{_unlabelled(reason.unassigned)}; {there}"


def too_few_of_sub_group(reason: decisions.Reason) -> str:
    """Return how many pods of a sub-group exist, and which pods are in none for want of labels."""
    there = (
        f"{reason.tasks} of {phrases.pods(reason.minimum)}{sub_group(reason)} exist "
        f"(subGroupSize {reason.minimum})"
    )
    create = f"create {reason.minimum - reason.tasks} more"
    if reason.unassigned is None:
        return f"{there}; {create}"
    return f"{_unlabelled(reason.unassigned)}; {_rest(reason, there, create)}"


def sub_group(reason: decisions.Reason) -> str:
    """Return ` of the sub-group with part=a of policy p`."""
    labels = phrases.listed([f"{key}={value}" for key, value in (reason.sub_group or {}).items()])
    named = f" with {labels}" if labels else ""
    return f" of the sub-group{named} of policy {reason.subject or '(no name)'}"


def _rest(reason: decisions.Reason, there: str, create: str) -> str:
    """Return what exists; and what to create, if the pods that stand aside are too few."""
    missing = reason.minimum - reason.tasks
    enough = reason.unassigned is not None and reason.unassigned.count >= missing
    return there if enough else f"{there}; {create}, with those"


def _have(aside: unassigned_pods.UnassignedPods) -> str:
    return f"{phrases.pods(aside.count)} {'has' if aside.count == 1 else 'have'}"


def _such_as(aside: unassigned_pods.UnassignedPods) -> str:
    return f" ({aside.pod})" if aside.count == 1 else f", such as {aside.pod}"


def _unlabelled(aside: unassigned_pods.UnassignedPods) -> str:
    labels, them = ("label", "it") if len(aside.keys) == 1 else ("labels", "them")
    return f"{_have(aside)} no {labels} {phrases.listed(aside.keys)}{_such_as(aside)}: set {them}"
