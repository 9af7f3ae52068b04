"""Remedies in English, and as a JSON tree."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from vscheduler.explain.changes import (
    ActionArgument,
    Amounts,
    Change,
    CreateClaims,
    CreatePods,
    CreateQueue,
    DropAnnotation,
    EndOfJob,
    EndOfPatience,
    FewerPods,
    HigherPriority,
    HigherTier,
    HonorTaints,
    LabelNodes,
    LargerNodes,
    MarkPods,
    MayPreempt,
    MoreDisruptions,
    MoreNodes,
    NewPods,
    OneScheduler,
    OpenQueues,
    OtherParent,
    OtherQueue,
    PodPriorities,
    Preemptable,
    QueueAmounts,
    QueueField,
    QueueNamespace,
    QueueWeight,
    QuotaAmounts,
    Reclaimable,
    Remedy,
    RemoveGates,
    RemoveTaint,
    Restart,
    RunTime,
    SinglePods,
    SmallerRequest,
    SoftTopology,
    Tolerate,
    Uncordon,
    Victims,
    WithoutConstraints,
    WithoutNodeAffinity,
    WithoutQueueAnnotation,
    WithoutSelector,
)
from vscheduler.explain.remedies import Explanation
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.wording import phrases, sentences
from vscheduler.mirror.wording.sentences import CONSTRAINTS
from vscheduler.model.constraints import Taint
from vscheduler.model.decisions import Reason
from vscheduler.model.run_times import MAX_RUN_TIME

NAMES_MAX = 3
"""So many nodes are named in a sentence."""

VICTIMS_MAX = 3
"""So many jobs that lose pods are named in a sentence."""

UNKNOWN = "it had no turn within the budget of this explanation"

_HUMP = re.compile(r"_([a-z])")


def sentence(remedy: Remedy, *, named: bool = True) -> str:
    """Return what to change, whether less may do, and whose pods are evicted then; `named` says
    whether jobs and queues that lose pods are named.
    """
    text = _change(remedy.change)
    if remedy.minimal is False:
        text = f"{text} (less may do)"
    if not remedy.victims:
        return text
    pods = phrases.pods(remedy.evicts)
    if named and len(remedy.victims) == 1:
        return f"{text}; {pods} of {_loser(remedy.victims[0])} would be evicted for it"
    text = f"{text}; {pods} would be evicted for it"
    return f"{text}: {_losers(remedy.victims)}" if named else text


def _losers(victims: Sequence[Victims]) -> str:
    """Return `4 of job a/x in queue q and 2 of job b/y in queue r`; the first of many are named."""
    shown = [f"{victim.pods} of {_loser(victim)}" for victim in victims[:VICTIMS_MAX]]
    left = victims[VICTIMS_MAX:]
    if left:
        jobs = f"{len(left)} more job{'' if len(left) == 1 else 's'}"
        shown.append(f"{sum(each.pods for each in left)} of {jobs}")
    return phrases.listed(shown)


def _loser(victims: Victims) -> str:
    return f"job {victims.job} in queue {victims.queue}"


def lines(explanation: Explanation) -> list[str]:
    """Return an explanation as lines of text."""
    why = f"{explanation.job}, in queue {explanation.queue}"
    said = sentences.sentence(explanation.reason) if explanation.reason else UNKNOWN
    if explanation.starts is not None:
        start = phrases.start(explanation.starts, for_admission=explanation.for_admission)
        waits = f"; now: {said}" if explanation.starts > 1 and explanation.reason else ""
        return [f"{why}, {start}{waits}"]
    return [f"{why}, waits: {said}", *_reclaim(explanation), *remedy_lines(explanation)]


def _reclaim(explanation: Explanation) -> list[str]:
    """Return why reclaim makes no room, as a sentence; none if the job's queue has its share."""
    if explanation.outlook is None:
        return []
    said = sentences.reclaim_outlook(explanation.queue, explanation.outlook)
    return [f"{said[:1].upper()}{said[1:]}."]


def remedy_lines(explanation: Explanation) -> list[str]:
    """Return what would start the job as lines of text."""
    messages = [sentence(remedy) for remedy in explanation.remedies]
    if explanation.uncreated:
        return [phrases.without_pods(explanation.uncreated, explanation.owner)]
    untried = explanation.untried
    made = phrases.domains(_domains(explanation.reason))
    likely = likely_start(explanation)
    made += [likely] if likely and _is_known(explanation) else []
    made += phrases.remedies(
        explanation.starts,
        messages,
        explanation.cut,
        untried=untried,
        for_admission=explanation.for_admission,
    )
    made += phrases.not_enough(_not_enough(explanation))
    return made + ([likely] if likely and not _is_known(explanation) else [])


def likely_start(explanation: Explanation) -> str:
    """Return when the job is likely to start, or why that isn't known, as a sentence; empty if it
    doesn't start without a change, or has been promised a start and nothing more is known.
    """
    found = explanation.likely
    promised = explanation.reason.promised if explanation.reason else None
    if found is None or (not found.by_past and promised and promised.at < math.inf):
        return ""
    if found.earliest < math.inf:
        return phrases.likely(found.earliest, found.latest, by_past=found.by_past)
    if not found.unknown:
        return ""
    return phrases.unknown_start(found.unknown, found.pods)


def _is_known(explanation: Explanation) -> bool:
    """Whether anything is known of when the job starts."""
    return explanation.likely is not None and explanation.likely.earliest < math.inf


def _not_enough(explanation: Explanation) -> str:
    """Return `create queue q: after that, ...`; empty if a single change is enough."""
    found = explanation.not_enough
    return (
        f"{_change(found.change)}: after that, {sentences.sentence(found.reason)}" if found else ""
    )


def _domains(reason: Reason | None) -> list[str]:
    return [] if reason is None else sentences.domains(reason)


def tree(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain data."""
    reason = explanation.reason
    why = {"reason": str(reason.code), "message": sentences.sentence(reason)} if reason else {}
    return {
        "podGroup": explanation.job,
        "queue": explanation.queue,
        **why,
        **({"reclaim": " ".join(_reclaim(explanation))} if explanation.outlook else {}),
        "startsInCycle": explanation.starts,
        "forAdmission": explanation.for_admission,
        "domains": _domains(reason),
        **({"likelyStart": _likely(explanation)} if explanation.likely else {}),
        "remedies": [_remedy(remedy) for remedy in explanation.remedies],
        **({"notEnough": said} if (said := _not_enough(explanation)) else {}),
        "cutShort": list(explanation.cut),
        "untried": list(explanation.untried),
        "trials": explanation.trials,
        "spent": explanation.spent,
    }


def _likely(explanation: Explanation) -> dict[str, Any]:
    found = explanation.likely
    assert found is not None
    earliest, latest = (
        None if each == math.inf else round(each) for each in (found.earliest, found.latest)
    )
    return {
        "earliestSeconds": earliest,
        "latestSeconds": latest,
        "byPastRuns": found.by_past,
        "message": likely_start(explanation),
    }


def _remedy(remedy: Remedy) -> dict[str, Any]:
    fields = {
        _HUMP.sub(lambda found: found[1].upper(), name): _plain(getattr(remedy.change, name))
        for name in remedy.change.__struct_fields__
    }
    return {
        "change": type(remedy.change).__name__,
        **fields,
        "message": sentence(remedy),
        "messageWithoutVictims": sentence(remedy, named=False),
        "startsInCycle": remedy.cycle,
        "evictions": remedy.evicts,
        "evicted": [
            {"job": victim.job, "queue": victim.queue, "pods": victim.pods}
            for victim in remedy.victims
        ],
        "minimal": remedy.minimal,
    }


def _plain(value: object) -> object:
    """Return the value of a field as JSON has it; amounts as Kubernetes writes quantities."""
    match value:
        case Taint():
            return {"key": value.key, "value": value.value, "effect": str(value.effect)}
        case QueueField():
            return str(value)
        case tuple() if value and isinstance(value[0], msgspec.Struct):
            return msgspec.to_builtins(value)
        case tuple() if value and isinstance(value[0], tuple):
            return {name: quantities.format_quantity(name, amount) for name, amount in value}
        case tuple():
            return list(value)
    return value


def _change(change: Change) -> str:
    return (
        _of_the_job(change) or _of_queues(change) or _of_nodes(change) or _of_running_jobs(change)
    )


def _of_the_job(change: Change) -> str:
    match change:
        case FewerPods():
            enough = f"if the job can do with {phrases.pods(change.after)}"
            return f"lower {change.field} from {change.before} to {change.after}, {enough}"
        case SmallerRequest():
            asked = phrases.quantity(change.resource, change.after)
            before = phrases.amount(change.resource, change.before)
            return f"let its pods ask for {asked} instead of {before}"
        case Tolerate():
            return f"let its pods tolerate {_taint(change.taint)}, a taint of {_some(change.nodes)}"
        case WithoutSelector():
            return f"drop {change.key}={change.value} from the nodeSelector of its pods"
        case WithoutNodeAffinity():
            return "drop the required node affinity of its pods"
    return _of_its_objects(change)


def _of_its_objects(change: Change) -> str:
    """Return a change of what the job must have before it may start."""
    text = ""
    match change:
        case CreatePods():
            who = f"let {change.owner} " if change.owner else ""
            text = f"{who}create {phrases.listed([_new(pod) for pod in change.pods])}"
        case MarkPods():
            text = phrases.listed(_marks(change))
        case RemoveGates():
            text = f"remove the scheduling gates of {phrases.pods(change.pods)}"
        case CreateClaims():
            claims = f"PersistentVolumeClaim{'' if len(change.claims) == 1 else 's'}"
            tried = "with a volume that every node can use"
            text = f"create {claims} {_named(change.claims)} (tried {tried})"
        case DropAnnotation() | RunTime():
            text = _annotation(change)
        case PodPriorities() | OneScheduler() | HigherPriority():
            text = _created_again(change)
        case HonorTaints():
            text = "set nodeTaintsPolicy: Honor in the topology spread of its pods"
        case MayPreempt():
            text = "set preemptionPolicy: PreemptLowerPriority on its pods"
        case QuotaAmounts():
            text = f"raise ResourceQuota {change.quota}: {_rises(change)}"
    return text or _of_its_topology(change)


def _annotation(change: DropAnnotation | RunTime) -> str:
    if isinstance(change, DropAnnotation):
        return f"drop the annotation {change.key} of the PodGroup, or correct it"
    limit = phrases.duration(change.seconds)
    where = "the pod" if change.alone else "the PodGroup"
    return f"set {MAX_RUN_TIME}: {limit} or less on {where}, if its pods end by then"


def _created_again(change: PodPriorities | OneScheduler | HigherPriority) -> str:
    if isinstance(change, HigherPriority):
        again = "create the pod again with" if change.alone else "give the PodGroup"
        return f"{again} a PriorityClass of value {change.after} instead of {change.before}"
    created = f"create {phrases.pods(change.pods)} again with"
    if isinstance(change, OneScheduler):
        return f"{created} schedulerName {change.after}, as the others have"
    return f"{created} priority {change.after}, that of the PodGroup"


def _of_its_topology(change: Change) -> str:
    match change:
        case SoftTopology():
            return "set mode: soft in the network topology of the PodGroup"
        case WithoutConstraints():
            return f"create the PodGroup without {CONSTRAINTS} (topology {change.key})"
        case HigherTier():
            return _higher(change)
        case EndOfPatience():
            return f"wait until {phrases.time_of_day(change.until)}, when its patience ends"
        case Restart():
            running = f"{change.pods} running pod{'' if change.pods == 1 else 's'}"
            return f"restart it: delete its {running}"
    return ""


def _higher(change: HigherTier) -> str:
    """Return `set highestTierName: spine instead of rack in the PodGroup`."""
    by_name = change.before in change.below
    if by_name and change.name:
        after = f"highestTierName: {change.name}"
    else:
        after = f"highestTierAllowed: {change.tier}"
    before = f"highestTierName: {change.before}" if by_name and not change.name else change.before
    named = f" ({change.name})" if change.name and not by_name else ""
    return f"set {after}{named} instead of {before} in the network topology of the PodGroup"


def _new(new: NewPods) -> str:
    """Return `2 more pods of role worker`."""
    more = f"{new.count} more pod{'' if new.count == 1 else 's'}"
    if new.role:
        return f"{more} of role {new.role}"
    labels = phrases.listed([f"{key}={value}" for key, value in new.labels])
    return f"{more} with {labels}" if labels else more


def _marks(change: MarkPods) -> list[str]:
    """Return `set volcano.sh/task-spec to decode on 2 of its pods` for each label."""
    counts = Counter((mark.key, mark.value) for mark in change.marks)
    return [
        f"set {key} to {value} on {count} of its pods"
        for (key, value), count in sorted(counts.items())
    ]


def _of_queues(change: Change) -> str:
    match change:
        case QueueWeight():
            return (
                f"raise the weight of queue {change.queue} from {change.before} to {change.after}"
            )
        case QueueAmounts():
            what = f"the {change.field}" + (
                " amounts" if change.field is QueueField.DESERVED else ""
            )
            return f"raise {what} of queue {change.queue}: {_rises(change)}"
        case Reclaimable():
            return f"set reclaimable: true on queue {change.queue}"
        case WithoutQueueAnnotation():
            return f"remove {change.name}: {change.before} from queue {change.queue}"
    return _of_the_tree(change)


def _of_the_tree(change: Change) -> str:
    """Return a change of whether there is a queue that takes the job."""
    match change:
        case OpenQueues():
            return f"open {_queues(change.queues)}"
        case CreateQueue():
            return f"create queue {change.queue}"
        case OtherQueue():
            return f"name queue {change.after} instead of {change.before} in {change.field}"
        case OtherParent():
            return f"set spec.parent of queue {change.queue} to {change.after}"
        case QueueNamespace():
            return (
                f"let vscheduler.io/namespaces of queue {change.queue} list "
                f"namespace {change.namespace}"
            )
    return ""


def _queues(names: Sequence[str]) -> str:
    return f"queue{'' if len(names) == 1 else 's'} {phrases.listed(names)}"


def _rises(change: QueueAmounts | QuotaAmounts) -> str:
    """Return `cpu from 3 to 4` for each resource."""
    was = dict(change.before)
    return phrases.listed(
        [
            f"{name} from {phrases.amount(name, was[name])} to {phrases.amount(name, amount)}"
            for name, amount in change.after
        ]
    )


def _of_nodes(change: Change) -> str:
    match change:
        case MoreNodes():
            nodes = f"{change.count} more node{'' if change.count == 1 else 's'}"
            return f"add {nodes} like {change.like} ({_size(change.allocatable)})"
        case LargerNodes():
            nodes = f"a node like {change.like} with"
            if change.count > 1:
                nodes = f"{change.count} nodes like {change.like} with"
            return f"add {nodes} {_size(change.allocatable)}"
        case RemoveTaint():
            return f"remove the taint {_taint(change.taint)} from {_named(change.nodes)}"
        case Uncordon():
            return f"uncordon {_named(change.nodes)}"
        case LabelNodes():
            return f"label {_named(change.nodes)} with {change.key}={change.value}"
    return ""


def _of_running_jobs(change: Change) -> str:
    match change:
        case EndOfJob():
            return (
                f"wait for the end of job {change.job}, or end it: "
                f"its {phrases.pods(change.pods)} hold{'s' if change.pods == 1 else ''} "
                f"{_size(change.holds)}"
            )
        case Preemptable():
            pods = phrases.pods(change.pods)
            return f"allow evictions of job {change.job} (volcano.sh/preemptable), which has {pods}"
        case SinglePods():
            return (
                f"create PodGroup {change.job} again with disruptionMode single, as it has "
                f"{phrases.pods(change.pods)} and needs {change.minimum}"
            )
        case ActionArgument():
            return f"set {change.name}: {change.after} instead of {change.before}"
        case MoreDisruptions():
            return (
                f"let PodDisruptionBudget {change.budget} allow {change.after} disruptions "
                f"instead of {change.before}"
            )
    raise AssertionError(change)


def _size(amounts: Amounts) -> str:
    return phrases.request(dict(amounts))


def _taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _some(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _named(names: tuple[str, ...]) -> str:
    shown = list(names[:NAMES_MAX])
    more = len(names) - len(shown)
    return phrases.listed([*shown, f"{more} more"] if more else shown)
