"""Gangs in English: what they lack, what a search for nodes for all pods has shown, and which pods
belong to them or stand aside without role or labels.
"""

import difflib
from collections.abc import Mapping, Sequence

from vscheduler.mirror import paths
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeError, Kind
from vscheduler.mirror.wording import phrases
from vscheduler.model import jobs
from vscheduler.model.decisions import Reason, Shortage
from vscheduler.model.gang_proof import GangProof, PodsOfKind
from vscheduler.model.jobs import MIN_COUNT, QUEUE_NAME, ROLE, JobId
from vscheduler.model.queues import ROOT
from vscheduler.model.unassigned_pods import UnassignedPods

KINDS_MAX = 3
"""So many kinds of pods are told apart in a sentence."""

QUEUES_MAX = 3
"""So many queues are named."""


def shown(proof: GangProof) -> list[str]:
    """Return which pods stand in each other's way, or that the search isn't through."""
    if not proof.proved:
        tried = f" in {proof.steps} attempts to place a pod" if proof.steps else ""
        return [f"no place was found for all at once{tried}"]
    if proof.limited:
        return ["no choice of pods that the queue may have finds room at once"]
    if not proof.blocking:
        return ["no choice of nodes has room for all at once"]
    if len(proof.blocking) == 1:
        return [_of_one_kind(proof.blocking[0])]
    words = [_kind(each) for each in proof.blocking[:KINDS_MAX]]
    more = sum(each.count for each in proof.blocking[KINDS_MAX:])
    words += [f"{more} more"] if more else []
    parts = [f"{phrases.listed(words)} don't fit at the same time, however they are placed"]
    return [*parts, "with any one fewer they would"] if proof.irreducible else parts


def over_share(reason: Reason) -> str:
    """Return what the gang lacks, and what its queue may have of it."""
    needs = phrases.listed(
        [phrases.quantity(shortage.resource, shortage.requested) for shortage in reason.shortages]
    )
    more = "more " if reason.lacking < reason.minimum or reason.placed >= reason.minimum else ""
    pods = f"{reason.lacking} {more}pods"
    text = f"needs {needs} for {pods}; {queue_has(reason)}"
    rest = [
        (shortage.resource, max(0.0, shortage.limit - shortage.allocated))
        for shortage in reason.shortages
    ]
    if not any(value for _, value in rest):
        return text
    if len(rest) == 1:  # the sentence has just named the resource
        return f"{text}, which leaves {phrases.amount(*rest[0])}"
    return f"{text}, which leaves {phrases.listed([some(*each) for each in rest])}"


def shortages(reason: Reason, limit: str) -> str:
    """Return `24 cpu of the 25 it deserves and 3 nvidia.com/gpu of the 4`, given `it deserves`.

    If the cluster is the limit, it is what there is to share.
    """
    if all(shortage.whole for shortage in reason.shortages):
        limit = "there are to share"
    has = [
        f"{phrases.quantity(shortage.resource, shortage.allocated)} "
        f"of the {phrases.amount(shortage.resource, shortage.limit)}"
        for shortage in reason.shortages
    ]
    text = f"{phrases.listed([f'{has[0]} {limit}', *has[1:]])}{beside(reason.shortages)}"
    more = [
        phrases.quantity(shortage.resource, shortage.elastic)
        for shortage in reason.shortages
        if shortage.elastic
    ]
    if not more:
        return text
    return f"{text}, besides {phrases.listed(more)} that jobs have beyond their minResources"


def queue_has(reason: Reason) -> str:
    """Return `queue q has 24 cpu of the 25 it may have`."""
    owner = reason.shortages[0].owner
    if owner == ROOT and any(shortage.kept for shortage in reason.shortages):
        return f"all queues together have {shortages(reason, 'they may have')}"
    limit = "it may have" if owner else "it deserves"
    return f"queue {owner or reason.queue} has {shortages(reason, limit)}"


def beside(shortages: Sequence[Shortage]) -> str:
    """Return ` beside the 12 cpu kept for queue a by its guarantee`, or nothing."""
    parts = [
        phrases.quantity(shortage.resource, shortage.kept)
        for shortage in shortages
        if shortage.keepers
    ]
    if not parts:
        return ""
    names = sorted({name for shortage in shortages for name in shortage.keepers})
    more = len(names) - QUEUES_MAX
    shown = [*names[:QUEUES_MAX], *([f"{more} more"] if more > 0 else [])]
    whose = "queue {} by its guarantee" if len(names) == 1 else "queues {} by their guarantees"
    return f" beside the {phrases.listed(parts)} kept for {whose.format(phrases.listed(shown))}"


def some(resource: str, value: float) -> str:
    """Return `8 cpu`, or `no cpu`."""
    return phrases.quantity(resource, value) if value else f"no {resource}"


def _of_one_kind(pods: PodsOfKind) -> str:
    """Return that one pod is too many."""
    which = f"{_role(pods)} with {phrases.request(pods.request)}"
    if not pods.nodes:
        return f"no node takes a pod{which}"
    where = f"{pods.nodes} node{'' if pods.nodes == 1 else 's'}"
    fits = "doesn't fit" if pods.count == 1 else "don't fit"
    return f"{phrases.pods(pods.count)}{which} {fits} on the {where} with room for one"


def _kind(pods: PodsOfKind) -> str:
    """Return `2 pods of role ps with 1 cpu (3 nodes have room for one)`."""
    where = f"{pods.nodes} {'node has' if pods.nodes == 1 else 'nodes have'} room for one"
    return (
        f"{phrases.pods(pods.count)}{_role(pods)} with {phrases.request(pods.request)} "
        f"({where if pods.nodes else 'no node takes one'})"
    )


def _role(pods: PodsOfKind) -> str:
    return f" of role {pods.role}" if pods.role else ""


def no_group(
    group: JobId, rejections: Mapping[tuple[Kind, str], DecodeError], *, served: bool = True
) -> str:
    """Return why pods that name this PodGroup are in none: it is missing, or can't be used.
    `served` says whether Volcano's are served.
    """
    kind = events.kind_of_job(group)
    key = events.key_of(*jobs.names_of(group))
    rejection = rejections.get((kind, key))
    if rejection is not None:
        place = f"{rejection.field}: " if rejection.field else ""
        return f"PodGroup {key} can't be used ({place}{rejection.message})"
    if kind is Kind.POD_GROUP:
        unserved = "" if served else f": the API server doesn't serve those of {paths.VOLCANO}"
        return f"there is no PodGroup {key}{unserved}"
    version = paths.NATIVE_POD_GROUPS.api_version
    return f"there is no PodGroup {key} of {version}, or the API server doesn't serve this version"


def no_queue(group: JobId) -> str:
    """Return that a PodGroup of Kubernetes' own API names no queue yet."""
    return (
        f"PodGroup {jobs.names_of(group)[1]} has no queue yet: vscheduler's controllers write "
        f"annotation {QUEUE_NAME}, unless its namespace requires that you do"
    )


def too_few_pods(reason: Reason) -> str:
    """Return how many pods of minMember exist, and who creates the others."""
    field = reason.minimum_field
    there = f"{reason.tasks} of {phrases.pods(reason.minimum)} exist ({field} {reason.minimum})"
    if reason.unclaimed:
        return f"{there}; {phrases.unclaimed(reason.owner, native=reason.native)}"
    if reason.owner and not reason.tasks:
        return f"{there}; {phrases.creates(reason.owner)}"
    return f"{there}; {_create(reason)}, or lower {field}"


def queue_field(reason: Reason) -> str:
    """Return where the PodGroup names its queue."""
    return f"annotation {QUEUE_NAME}" if reason.native else "spec.queue"


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
    if reason.native:  # a group of PodGroups; the policy is called like one of the groups
        there = (
            f"{reason.subject} has fewer pods than its minCount"
            if reason.subject.startswith("PodGroup ")
            else f"{reason.tasks} of {reason.minimum} PodGroups of {reason.subject} have all their "
            f"pods (minGroupCount {reason.minimum})"
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
        f"({sub_group_size(reason)} {reason.minimum})"
    )
    create = _create(reason)
    if reason.unassigned is None:
        return f"{there}; {create}"
    return f"{_unlabelled(reason.unassigned)}; {_rest(reason, there, create)}"


def sub_group_size(reason: Reason) -> str:
    """Return the field that says how many pods a sub-group needs."""
    return MIN_COUNT if reason.native else "subGroupSize"


def sub_group(reason: Reason) -> str:
    """Return ` of the sub-group with part=a of policy p`, or ` of PodGroup a`."""
    values = reason.sub_group or {}
    if jobs.POD_GROUP_LABEL in values:
        return f" of PodGroup {values[jobs.POD_GROUP_LABEL]}"
    labels = phrases.listed([f"{key}={value}" for key, value in values.items()])
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
