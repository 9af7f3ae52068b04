"""Reasons in English: a sentence, with numbers, on why a job waits.

Phrases about nodes are kube-scheduler's, known to kubectl users.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from vscheduler.core.eviction import incomplete_gangs
from vscheduler.mirror.wording import gang_sentences, phrases, refusal_sentences
from vscheduler.model import run_times
from vscheduler.model.claim_decisions import ClaimKind, ClaimWait
from vscheduler.model.decisions import (
    LEAVES_MAX,
    Bind,
    DomainRoom,
    EndsSoon,
    Evict,
    LostPods,
    MissingResource,
    NoPromise,
    PromisedStart,
    Reason,
    ReasonCode,
    RefusedBind,
    ReservedAhead,
    ReservedFor,
    Shortage,
)
from vscheduler.model.jobs import InvalidPod, Job, JobId
from vscheduler.model.queues import ProblemCode, QueueProblem
from vscheduler.model.reclaim_outlooks import Protection, ReclaimOutlook
from vscheduler.model.refusals import RefusalCode

Code = ReasonCode

MORE_NODES = "ask for less, or add nodes"
HIGHER_TIER = "allow a higher tier"
CONSTRAINTS = "spec.schedulingConstraints"
"""Of Kubernetes' own PodGroups: they can't be changed."""

NEVER_PREEMPTS = "no pod is evicted for it, as its preemptionPolicy is Never"


def sentence(reason: Reason) -> str:
    """Return why the job, or the rest of the job, isn't placed, and how to help."""
    text = _SENTENCES[reason.code](reason)
    if reason.plugin:
        text = f"plugin {reason.plugin}: {text}"
    if reason.promised is not None:
        text = "; ".join((text, *_promised(reason.promised)))
    if reason.refused_bind is None or reason.code is Code.BIND_REFUSED:
        return text
    refused = reason.refused_bind
    return f"{text}; before, {_refusal(refused, refused.task.key)}"


_STARTS_BY = re.compile(r"(?:^|; )starts by (\S+ \S+ UTC) at the latest")


_NO_PROMISE = {
    NoPromise.RUN_TIMES: "pods that run have no max-run-time",
    NoPromise.CLAIMS: "volumes, devices and host ports aren't kept free for it",
    NoPromise.OTHER_PODS: "where its pods may run depends on other pods",
    NoPromise.PLUGINS: "a plugin's filter changes with time or with what pods use",
}


def _promised(promised: PromisedStart) -> Iterator[str]:
    if promised.ahead is not None:
        yield from _ahead(promised.ahead)
    if promised.unknown is NoPromise.RUN_TIME_AHEAD:
        first = phrases.job(promised.unlimited or JobId(""))
        yield f"no start is promised: {first}, which starts first, has no max-run-time"
    elif promised.unknown is not None:
        yield f"no start is promised: {_NO_PROMISE[promised.unknown]}"
    elif promised.at < math.inf:
        yield _by(promised.at)


def _ahead(ahead: ReservedAhead) -> Iterator[str]:
    """Yield for which job nodes are reserved, and why this one doesn't start before it."""
    yield f"nodes are reserved for {phrases.job(ahead.job)}, which {_by(ahead.at)}"
    if ahead.limit == math.inf:
        yield "this job has no max-run-time, so it may still run then"
    else:
        limit = phrases.duration(ahead.limit)
        yield f"with its max-run-time of {limit}, this job may still run then"


def _by(start: float) -> str:
    return f"starts by {phrases.instant(start)} at the latest, if running jobs keep their limits"


def promised_start(message: str) -> str:
    """Return by when the job of this sentence starts at the latest; empty without a promise of its
    own.
    """
    found = _STARTS_BY.search(message)
    return found[1] if found else ""


def rejected(pod: InvalidPod) -> str:
    """Return the message for an unusable pod."""
    return f"the pod can't be used: {_flaw(pod)}"


def bind_refused(refused: RefusedBind) -> str:
    """Return the message for a pod that the API server refused to bind."""
    return _refusal(refused, "")


def _refusal(refused: RefusedBind, pod: str, others: str = "") -> str:
    said = f": {refused.message}" if refused.message else ""
    name = f"pod {pod}" if pod else "the pod"
    return f"the API server refused to bind {name} to {refused.node}{others}{said}"


def _flaw(pod: InvalidPod) -> str:
    return f"{pod.field}: {pod.message}" if pod.field else pod.message


def assigned(bind: Bind) -> str:
    """Return the event message of a bind, in kube-scheduler's words."""
    text = f"Successfully assigned {bind.task.key} to {bind.node}"
    if bind.limit is None:
        return text
    return (
        f"{text}; it will be ended if it runs for {phrases.duration(bind.limit)} ({run_times.CAP})"
    )


def ends_soon(pod: EndsSoon) -> str:
    """Return the message of the event of a pod that will be ended."""
    ran = phrases.duration(pod.limit)
    return (
        f"will be ended at {phrases.instant(pod.at)}, when it has run for {ran} ({run_times.CAP})"
    )


def evicted(evict: Evict, gang: Job) -> str:
    """Return the message of an evicted pod's event and condition: for which job, by which rule.

    If the whole gang is evicted, the message also tells the resources needed to run again.
    """
    text = f"evicted from {evict.node} by {_rule(evict)}"
    if not evict.whole:
        return text
    asked = phrases.request(evict.task.pod_class.request)
    needs = phrases.pods(max(1, gang.min_member))
    return f"{text}; its whole gang goes, and needs {needs}, this one of {asked}, to run again"


def lost(evicts: Sequence[Evict]) -> str:
    """Return the event message of a PodGroup whose pods were evicted by a single plan."""
    return f"{phrases.pods(len(evicts))} evicted by {_rule(evicts[0])}"


def rejected_configuration(path: str, problems: Sequence[str]) -> str:
    """Return the event message of a rejected configuration file; the log has all problems."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{path} can't be used, the last good one stays in force: {problems[0]}{more}"


def _rule(evict: Evict) -> str:
    if evict.lost is not None:
        return f"gang.recoveryTimeout, as {_ran_on(evict.lost)}"
    if evict.limit is not None:
        return f"{run_times.CAP}, as it ran for {phrases.duration(evict.limit)}"
    if evict.action == incomplete_gangs.RULE:
        return "gang.bindTimeout, as the rest of its gang could not be bound in time"
    if not evict.beneficiary:
        return evict.action
    return f"{evict.action} so that {phrases.job(evict.beneficiary)} can start"


def _ran_on(lost: LostPods) -> str:
    """Return how a gang went on that lost pods: `3 of 4 pods ran for 10m after one failed`."""
    count = lost.failed or lost.minimum - lost.ready
    number = "one" if count == 1 else str(count)
    ended = "failed" if lost.failed else "was lost" if count == 1 else "were lost"
    went_on = phrases.duration(lost.seconds)
    return f"{lost.ready} of {phrases.pods(lost.minimum)} ran for {went_on} after {number} {ended}"


def queue_problem(problem: QueueProblem) -> str:
    """Return why a queue and its descendants are set aside, and how to help."""
    queue, subjects = problem.queue, problem.subjects
    match problem.code:
        case ProblemCode.PARENT_MISSING:
            return (
                f"parent {subjects[0]} of queue {queue} doesn't exist; "
                f"create it, or correct spec.parent"
            )
        case ProblemCode.CYCLE:
            way = " -> ".join((*subjects, subjects[0]))
            return f"queue {queue} is its own ancestor ({way}); correct spec.parent of one of them"
        case ProblemCode.INNER_JOBS:
            return (
                f"queue {queue} has child queues and a job of its own, {subjects[0]}; "
                f"only queues without children are for jobs"
            )


def _queue_missing(reason: Reason) -> str:
    field = gang_sentences.queue_field(reason)
    return f"queue {reason.queue} doesn't exist; create it, or name another in {field}"


def _queue_closed(reason: Reason) -> str:
    field = gang_sentences.queue_field(reason)
    return f"queue {reason.queue} isn't open; open it, or name another in {field}"


def _queue_barred(reason: Reason) -> str:
    return (
        f"queue {reason.queue} isn't for namespace {reason.subject}; "
        f"name another, or have vscheduler.io/namespaces list it"
    )


def _plugin_failed(reason: Reason) -> str:
    where = "the scheduler's log, or simulate's stderr"
    return f"plugin {reason.subject} failed on this job; {where}, says why"


def _plugin_refused(reason: Reason) -> str:
    return reason.subject or "refuses the job, and gives no reason"


def _not_leaf(reason: Reason) -> str:
    text = f"queue {reason.queue} has child queues, and jobs go to leaf queues"
    field = gang_sentences.queue_field(reason)
    if not reason.leaves:
        return f"{text}; name one of those in {field}"
    named = reason.leaves[:LEAVES_MAX]
    leaves = phrases.listed([*named, "others"] if len(reason.leaves) > len(named) else named)
    return f"{text}: name {leaves if len(named) == 1 else f'one of {leaves}'} in {field}"


def _set_aside(reason: Reason) -> str:
    if reason.problem is None:
        return f"queue {reason.queue} is set aside until the tree of queues is put right"
    return f"queue {reason.queue} is set aside: {queue_problem(reason.problem)}"


def _bad_setting(reason: Reason) -> str:
    return f"{reason.subject}; correct it on {reason.on}"


def _topology_unknown(reason: Reason) -> str:
    if reason.native:
        return f"{reason.subject}; correct it, or create the PodGroup without {CONSTRAINTS}"
    return f"{reason.subject}; correct it, or set mode: soft to start anywhere"


def _no_domain(reason: Reason) -> str:
    """Name the best domains, all of which are too small, and what blocks the best one."""
    more = "more " if reason.placed else ""
    of = "" if reason.sub_group is None else gang_sentences.sub_group(reason)
    pods = f"{reason.lacking} {more}{'pod' if reason.lacking == 1 else 'pods'}{of}"
    if not reason.domains:
        if reason.placed:
            return f"{pods} must join those that run, which aren't in one domain of the network"
        return f"{pods} must start near each other, and no domain of the network has so low a tier"
    if reason.placed:
        return _domain_of_members(reason)
    best, *others = reason.domains
    text = f"{pods} must start in one {_kind(reason.domains)}"
    if reason.wider_at is not None:
        until = phrases.time_of_day(reason.wider_at)
        text = f"{pods} wait until {until} for one {_kind(reason.domains)}"
    if reason.code is Code.NEVER_FITS:
        could = f"the largest, {best.name}, could hold {_number(best)} if it were empty"
        why = _blocks(best) if best.refusals else ""
        wider = f"create the PodGroup without {CONSTRAINTS}" if reason.native else HIGHER_TIER
        return f"{text}; {could}{why}; {wider}, {MORE_NODES}"
    text = f"{text}; the best, {best.name}, has room for {_number(best)}{_blocks(best)}"
    if not others:
        return text
    return f"{text}; then {phrases.listed([f'{each.name} for {_number(each)}' for each in others])}"


def _domain_of_members(reason: Reason) -> str:
    """Return that the domain is full in which some pods of the job are."""
    best, total = reason.domains[0], reason.placed + reason.lacking
    if best.pods:
        text = f"{best.name} has room for {_number(best)} of {reason.lacking} more pods"
    else:
        text = f"{best.name} is full for {reason.lacking} of {phrases.pods(total)}"
    text = f"{text}{_blocks(best)}"
    return f"{text}; {reason.elsewhere.name} would hold all {total}" if reason.elsewhere else text


def _number(domain: DomainRoom) -> str:
    return f"{'' if domain.exact else 'at most '}{domain.pods}"


def _kind(domains: Sequence[DomainRoom]) -> str:
    """Return `rack`, or `domain of tier 1`."""
    widest = max(domains, key=lambda each: each.tier)
    return widest.tier_name.rpartition("/")[2] or f"domain of tier {widest.tier}"


def _blocks(domain: DomainRoom) -> str:
    """Return ` (of its 8 nodes: 2 Insufficient cpu)`; without refusals how many nodes it has."""
    nodes = f"its {domain.nodes} nodes" if domain.nodes != 1 else "its node"
    if not domain.refusals:
        return f" on {nodes}" if domain.pods else ""
    return f" (of {nodes}: {refusal_sentences.counted(domain.refusals)})"


def domains(reason: Reason) -> list[str]:
    """Return for each domain of the reason how many pods it has room for, and what blocks it."""
    could = "could hold" if reason.code is Code.NEVER_FITS else "has room for"
    return [
        f"{each.name} {could} {_number(each)} of {phrases.pods(reason.lacking)}{_blocks(each)}"
        for each in reason.domains
    ]


def placed_in(domain: DomainRoom) -> str:
    """Return `rack-3 (tier 1): 8 pods`."""
    name = f"{domain.name} (tier {domain.tier})" if domain.name else "the whole cluster"
    return f"{name}: {phrases.pods(domain.pods)}"


def _pod_rejected(reason: Reason) -> str:
    text = f"{reason.rejected} of {phrases.pods(reason.tasks)} can't be used"
    pod = reason.rejection
    if pod is None:
        return text
    example = ": pod" if reason.rejected == 1 else ", such as pod"
    return f"{text}{example} {pod.key}: {_flaw(pod)}"


def _queue_full(reason: Reason) -> str:
    owner = reason.subject or reason.queue
    never = [shortage for shortage in reason.shortages if shortage.requested > shortage.limit]
    if never:
        most = [phrases.quantity(each.resource, each.limit) for each in never]
        beside = gang_sentences.beside(never)
        advice = "ask for less" if beside else "ask for less, or raise its capability"
        if all(each.whole for each in never):
            advice = MORE_NODES
        return (
            f"not admitted: queue {owner} may have at most {phrases.listed(most)}{beside}; "
            f"{_asks(never)}; {advice}"
        )
    has = gang_sentences.shortages(reason, "it may have")
    return f"not admitted: queue {owner} uses or has reserved {has}; {_request(reason)}"


def _quota_full(reason: Reason) -> str:
    has = gang_sentences.shortages(reason, "it allows")
    return (
        f"not admitted: ResourceQuota {reason.subject} counts, with what is reserved, {has}; "
        f"{_request(reason)}"
    )


def _cluster_full(reason: Reason) -> str:
    asks = _request(reason)
    if reason.subject:
        has = gang_sentences.shortages(reason, "it may have")
        if any(shortage.keepers for shortage in reason.shortages):
            return f"not admitted: queue {reason.subject} uses or has reserved {has}; {asks}"
        return (
            f"not admitted: the cluster is too small for queue {reason.subject}, "
            f"which uses or has reserved {has}; {asks}"
        )
    if not any(shortage.limit for shortage in reason.shortages):
        names = phrases.listed([shortage.resource for shortage in reason.shortages])
        none = f"no {names} left to reserve"
        whose = "the nodes open to it have" if reason.some_nodes else "the cluster has"
        return f"not admitted: beside what runs {whose} {none}; {asks}"
    limits = phrases.listed(
        [gang_sentences.some(shortage.resource, shortage.limit) for shortage in reason.shortages]
    )
    # Reservations exceed the limit after nodes have left or foreign pods have arrived.
    rest = [
        (shortage.resource, shortage.limit - shortage.allocated) for shortage in reason.shortages
    ]
    left = [gang_sentences.some(name, max(0.0, value)) for name, value in rest]
    whose = "the nodes open to it" if reason.some_nodes else "the cluster"
    return (
        f"not admitted: of the {limits} that {whose} can reserve beside what runs, "
        f"{phrases.listed(left)} {'is' if len(left) == 1 else 'are'} left; {asks}"
    )


def _request(reason: Reason) -> str:
    """Return what the job asks for of what is short, and why nothing is evicted for it."""
    asks = _asks(reason.shortages)
    return f"{asks}; {NEVER_PREEMPTS}" if reason.never_preempts else asks


def _asks(shortages: Sequence[Shortage]) -> str:
    """Return the job's request for the resources that are short: `this job asks for 9 cpu
    (minResources)`, or `this job still asks for 2 of its 9 cpu (minResources)`.
    """
    asked, still = [], ""
    for each in shortages:
        text = phrases.quantity(each.resource, each.requested)
        if each.requested < each.minimum:
            still = "still "
            whole = phrases.quantity(each.resource, each.minimum)
            text = f"{phrases.amount(each.resource, each.requested)} of its {whole}"
        asked.append(text)
    return f"this job {still}asks for {phrases.listed(asked)} (minResources)"


def _queue_over_share(reason: Reason) -> str:
    if reason.never:
        return _beyond_capability(reason)
    text = gang_sentences.over_share(reason) if reason.lacking else _over_share(reason)
    return f"{text}; {NEVER_PREEMPTS}" if reason.never_preempts else text


def _over_share(reason: Reason) -> str:
    """Return what the queue has, and what the next pod, or any choice of pods, needs."""
    asked = phrases.request(reason.request)
    if not reason.shortages and reason.proof:
        return f"queue {reason.queue} may not have enough pods of this gang at once"
    if not reason.shortages:
        return f"queue {reason.queue} has had its share; this pod needs {asked}"
    lacking = {shortage.resource: shortage.requested for shortage in reason.shortages}
    if len(lacking) == 1:  # the sentence has just named the resource
        (asked,) = (phrases.amount(name, value) for name, value in lacking.items())
    elif any(lacking.values()):
        asked = phrases.request(lacking)
    state = gang_sentences.queue_has(reason)
    if reason.proof:  # whichever pods of the gang are chosen
        least = phrases.listed([phrases.quantity(name, value) for name, value in lacking.items()])
        return f"{state}; the smallest pods that this gang can start with need {least}"
    if 0 < reason.placed < reason.minimum:  # the figure includes the pods already placed
        needs = phrases.pods(reason.minimum)
        return f"needs {needs}; with {reason.placed} of them {state}; the next one needs {asked}"
    if reason.placed and reason.role:  # so it does where a role lacks pods
        pods = f"{reason.placed} of its {phrases.pods(reason.tasks)}"
        return f"with {pods} {state}; a pod of role {reason.role} needs {asked}"
    return f"{state}; this pod needs {asked}"


def _no_nodes(_: Reason) -> str:
    return "there is no node that this scheduler may use; add one, or look at its --node-selector"


def _never_fits(reason: Reason) -> str:
    if reason.domains:
        return _no_domain(reason)
    if reason.shortages:
        asked = phrases.listed(
            [
                phrases.quantity(shortage.resource, shortage.requested)
                for shortage in reason.shortages
            ]
        )
        there = phrases.listed(
            [
                gang_sentences.some(shortage.resource, shortage.limit)
                for shortage in reason.shortages
            ]
        )
        return (
            f"all nodes that it may use have {there}, and it needs {asked} at least; {MORE_NODES}"
        )
    asked = phrases.request(reason.request)
    missing = [hole.resource for hole in reason.holes if not hole.free]
    if missing:
        return f"a pod of {asked} may use no node that has {phrases.listed(missing)}; {MORE_NODES}"
    if reason.holes:
        return (
            f"a pod of {asked} is larger than any node it may use, "
            f"the most is {phrases.listed(_places(reason.holes))}; "
            "ask for less, or add a larger node"
        )
    return f"{_empty_room(reason)}; {MORE_NODES}"


def _empty_room(reason: Reason) -> str:
    """Return how many of the pods would fit on empty nodes."""
    role = f" of role {reason.role}" if reason.role else ""
    size = f" of {phrases.request(reason.request)}" if reason.request else ""
    return (
        f"the nodes that it may use have room for at most {reason.capacity} of "
        f"{phrases.pods(reason.minimum)}{role}{size}, even when empty"
    )


def _beyond_capability(reason: Reason) -> str:
    """Return what the gang needs, what its queue may have at most, and how many pods would fit."""
    owner = reason.shortages[0].owner
    most = phrases.listed(
        [phrases.quantity(shortage.resource, shortage.limit) for shortage in reason.shortages]
    )
    needs = phrases.listed(
        [phrases.amount(shortage.resource, shortage.requested) for shortage in reason.shortages]
    )
    more = "more " if reason.placed else ""
    pods = f"{reason.lacking} {more}pod{'' if reason.lacking == 1 else 's'}"
    verb = "needs" if reason.lacking == 1 else "need"
    text = f"queue {owner} may have at most {most}, and {pods} {verb} {needs}"
    if reason.capacity < reason.minimum:
        text = f"{_empty_room(reason)}; {text}"
    return f"{text}; ask for less, or raise the capability"


def _no_claim(reason: Reason) -> str:
    """Return which PersistentVolumeClaim doesn't exist; empty if all do."""
    codes = {refusal.code for refusal, _ in reason.refusals}
    if codes != {RefusalCode.CLAIM_MISSING}:
        return ""
    missing = refusal_sentences.text(reason.refusals[0][0])
    return f"{missing}: create it in the namespace of the pod, or correct spec.volumes"


def _no_room(reason: Reason) -> str:
    if without_claim := _no_claim(reason):
        return without_claim
    promised = reason.promised is not None and reason.promised.reserves
    beside = promised or reason.reserved is not None
    if reason.proof is None or _is_about_one(reason):
        # How much fits beside what is reserved tells nobody what is free.
        parts = [*_cause(reason), *(_needs(reason) if beside else _free(reason))]
    else:
        parts = [f"needs {phrases.pods(reason.minimum)}", *gang_sentences.shown(reason.proof)]
    if reason.never_preempts:
        parts.append(NEVER_PREEMPTS)
    if reason.refusals:  # otherwise each pod alone finds a node, but not all of them
        nodes = "node is" if reason.nodes == 1 else "nodes are"
        refusals = refusal_sentences.counted(reason.refusals)
        reserved = " beside what is reserved" if beside else ""
        parts.append(f"0/{reason.nodes} {nodes} available{reserved}: {refusals}")
    if reason.reserved is not None:
        parts.append(_reserved(reason.reserved))
    return "; ".join(parts)


def _reserved(reserved: ReservedFor) -> str:
    """Return `room on 3 nodes is reserved for team-a/big and 2 more jobs`."""
    nodes = f"{reserved.nodes} node{'' if reserved.nodes == 1 else 's'}"
    others = f" and {reserved.others} more job{'' if reserved.others == 1 else 's'}"
    more = others if reserved.others else ""
    return f"room on {nodes} is reserved for {phrases.job(reserved.job)}{more}"


def _is_about_one(reason: Reason) -> bool:
    """Whether a single pod is needed, so that what nodes say of it tells more than the search."""
    limited = reason.proof is not None and reason.proof.limited
    return reason.minimum <= 1 and bool(reason.request) and bool(reason.refusals) and not limited


def _waits_for_release(reason: Reason) -> str:
    waits = "waits for room that pods being deleted still hold"
    if reason.refusals:
        now = refusal_sentences.counted(reason.refusals)
        waits = f"waits until pods being deleted are gone; as long as they count, {now}"
    have = "has" if reason.placed == 1 else "have"
    if reason.placed > max(1, reason.minimum):
        return f"{waits}; {reason.placed} of its {phrases.pods(reason.tasks)} {have} a place"
    return f"{waits}; {reason.placed} of the {phrases.pods(reason.minimum)} it needs {have} a place"


def _waits_for_claims(reason: Reason) -> str:
    return "" if reason.claims is None else claim_wait(reason.claims)


def _gated(reason: Reason) -> str:
    group, setting = "", reason.minimum_field
    if reason.sub_group is not None:
        group, setting = gang_sentences.sub_group(reason), gang_sentences.sub_group_size(reason)
    return (
        f"{reason.tasks} of {phrases.pods(reason.minimum)}{group} may be placed "
        f"({setting} {reason.minimum}); the others wait behind their scheduling gates"
    )


def _bind_refused(reason: Reason) -> str:
    example = reason.refused_bind
    if example is None:
        return f"the API server refused to bind {phrases.pods(reason.rejected)}"
    others = f", and {reason.rejected - 1} more" if reason.rejected > 1 else ""
    return _refusal(example, example.task.key, others)


def _cause(reason: Reason) -> list[str]:
    """Return what keeps the pod off all nodes, if it isn't what nodes have free."""
    if reason.unmatched:
        labels = phrases.listed([f"{key}={value}" for key, value in reason.unmatched])
        return [f"no node has {labels}"]
    lead = refusal_sentences.lead(reason.refusals)
    return [lead] if lead else []


def _free(reason: Reason) -> list[str]:
    """Return what is needed, how much of it fits, and the largest free amounts."""
    return [*_gang(reason), *_holes(reason)]


def _needs(reason: Reason) -> list[str]:
    """Return what is needed."""
    fits = phrases.COUNTED.fullmatch
    return [part for part in _gang(reason) if not fits(part)]


def _gang(reason: Reason) -> list[str]:
    """Return the minimum of the job, and how much of it fits."""
    asked = phrases.request(reason.request)
    if reason.placed >= max(1, reason.minimum):
        needs = f"a pod of role {reason.role} needs" if reason.role else "the next one needs"
        return [
            f"{reason.placed} of {phrases.pods(reason.tasks)} have room",
            f"{needs} {asked}",
        ]
    if reason.minimum <= 1:
        return [f"needs {asked}"]
    fit = f"{reason.placed} of {reason.minimum} fit{'s' if reason.placed == 1 else ''}"
    if not reason.role:
        return [f"needs {phrases.pods(reason.minimum)} of {asked}", fit]
    return [
        f"needs {phrases.pods(reason.minimum)}",
        fit,
        f"a pod of role {reason.role} needs {asked}",
    ]


def _holes(reason: Reason) -> list[str]:
    """Return of what no node has any free, and the largest free amounts of what else is short on
    every node.
    """
    short = [hole for hole in reason.holes if hole.free < reason.request.get(hole.resource, 0)]
    places = _places([hole for hole in short if hole.free])
    said = _none_free(reason, [hole.resource for hole in short if not hole.free])
    if places:
        verb = " is" if len(places) == 1 else "s are"
        said.append(f"the largest hole{verb} {phrases.listed(places)}")
    return said


def _none_free(reason: Reason, names: Sequence[str]) -> list[str]:
    """Return `no node that it may use now has cpu or memory left`.

    Nodes that refuse the pod for something else may have them free.
    """
    if not names:
        return []
    every = all(each.code is RefusalCode.INSUFFICIENT for each, _ in reason.refusals)
    node = "no node" if every else "no node that it may use now"
    after = " for the next pod" if 0 < reason.placed < reason.minimum else ""
    return [f"{node} has {phrases.any_of(names)} left{after}"]


def _places(holes: Sequence[MissingResource]) -> list[str]:
    """Return `6 cpu on n7` for each resource."""
    return [f"{phrases.quantity(hole.resource, hole.free)} on {hole.node}" for hole in holes]


_SENTENCES: Mapping[Code, Callable[[Reason], str]] = {
    Code.QUEUE_MISSING: _queue_missing,
    Code.QUEUE_CLOSED: _queue_closed,
    Code.QUEUE_BARRED: _queue_barred,
    Code.PLUGIN_FAILED: _plugin_failed,
    Code.PLUGIN_REFUSED: _plugin_refused,
    Code.POD_GROUP_ERROR: lambda reason: reason.subject,
    Code.POD_REJECTED: _pod_rejected,
    Code.TOO_FEW_PODS: gang_sentences.too_few_pods,
    Code.TOO_FEW_OF_ROLE: gang_sentences.too_few_of_role,
    Code.TOO_FEW_SUB_GROUPS: gang_sentences.too_few_sub_groups,
    Code.TOO_FEW_OF_SUB_GROUP: gang_sentences.too_few_of_sub_group,
    Code.NOT_LEAF: _not_leaf,
    Code.SET_ASIDE: _set_aside,
    Code.BAD_SETTING: _bad_setting,
    Code.TOPOLOGY_UNKNOWN: _topology_unknown,
    Code.QUEUE_FULL: _queue_full,
    Code.QUOTA_FULL: _quota_full,
    Code.CLUSTER_FULL: _cluster_full,
    Code.NEVER_FITS: _never_fits,
    Code.QUEUE_OVER_SHARE: _queue_over_share,
    Code.NO_NODES: _no_nodes,
    Code.NO_ROOM: _no_room,
    Code.NO_DOMAIN: _no_domain,
    Code.WAITS_FOR_RELEASE: _waits_for_release,
    Code.WAITS_FOR_VOLUMES: _waits_for_claims,
    Code.WAITS_FOR_DEVICES: _waits_for_claims,
    Code.GATED: _gated,
    Code.BIND_REFUSED: _bind_refused,
}


RECLAIM_QUEUES_MAX = 3
"""So many queues are named."""

PROTECTIONS = {
    Protection.ANNOTATION: 'forbid evictions (volcano.sh/preemptable: "false")',
    Protection.YOUNG: "haven't run for their minimum run time",
    Protection.PLUGIN: "are protected by a plugin, such as conformance",
    Protection.BUDGET: "are protected by PodDisruptionBudgets",
    Protection.GANG: "belong to gangs that reclaim.wholeGangs protects",
    Protection.SHARE: "hold more than their queues have to give back",
}


def reclaim_outlook(queue: str, outlook: ReclaimOutlook) -> str:
    """Return `reclaim makes no room, though queue q has 0 of the 16 cpu it deserves: …`.

    Everybody who may see the queue reads it, so it names no job.
    """
    has = phrases.amount(outlook.resource, outlook.allocated)
    deserves = phrases.quantity(outlook.resource, outlook.deserved)
    figures = f"queue {queue} has {has} of the {deserves} it deserves"
    if outlook.configured and outlook.allocated >= outlook.deserved:
        return f"reclaim makes no room, as {figures}, and {_why(outlook)}"
    return f"reclaim makes no room, though {figures}: {_why(outlook)}"


def _why(outlook: ReclaimOutlook) -> str:
    if not outlook.configured:
        return "action reclaim isn't configured"
    if outlook.exceeds_share:
        return f"its job needs {phrases.quantity(outlook.resource, outlook.needed)} more"
    if not outlook.reclaimable:
        return f"{_others(outlook.others)} reclaimable: false"
    if not outlook.above:
        return f"{_none(outlook)} more of it than it deserves"
    named = list(outlook.above[:RECLAIM_QUEUES_MAX])
    more = len(outlook.above) - len(named)
    queues = phrases.listed([*named, f"{more} more"] if more else named)
    verb = "has" if len(outlook.above) == 1 else "have"
    surplus = phrases.quantity(outlook.resource, outlook.surplus)
    noun = "queue" if len(outlook.above) == 1 else "queues"
    if outlook.waits_until is not None:
        return f"{noun} {queues} {verb} {surplus} more than deserved, but {_delay(outlook)}"
    return f"{noun} {queues} {verb} {surplus} more than deserved, but {_pods(outlook)}"


def _others(count: int) -> str:
    return "the only other queue with pods has" if count == 1 else f"all {count} other queues have"


def _none(outlook: ReclaimOutlook) -> str:
    closed = outlook.others - outlook.reclaimable
    more = f" ({closed} more {'has' if closed == 1 else 'have'} reclaimable: false)"
    if outlook.reclaimable == 1:
        return f"the only other queue with pods{more if closed else ''} doesn't have"
    return f"none of the {outlook.reclaimable} other queues with pods{more if closed else ''} has"


def _delay(outlook: ReclaimOutlook) -> str:
    if outlook.waits_until == math.inf:
        return "annotation vscheduler.io/eviction-delay of the Queue can't be read"
    until = phrases.time_of_day(outlook.waits_until or 0.0)
    return f"new nodes have until {until} to come first (vscheduler.io/eviction-delay)"


def _pods(outlook: ReclaimOutlook) -> str:
    counts = dict(outlook.pods)
    free = counts.pop(Protection.NONE, 0)
    barred = [f"{count} {PROTECTIONS[each]}" for each, count in counts.items()]
    total = phrases.pods(free + sum(counts.values()))
    if not free:
        return f"of {total}, {phrases.listed(barred)}" if barred else "no pod of theirs may go"
    rest = f"; {phrases.listed(barred)}" if barred else ""
    if outlook.enough:
        return f"those that may go, {free} of {total}, make no room within the rules{rest}"
    return f"evicting those that may go, {free} of {total}, doesn't make enough room{rest}"


def claim_wait(wait: ClaimWait) -> str:
    """Return `3 of 8 claims are bound; waiting for data-3 (provisioner csi.example.com) on n2 since
    12:00:40`, or `3 of 8 resource claims are allocated; allocating claim train-3-gpu on n2`.

    The time is that of the day, in UTC: a duration would be another text in every cycle.
    """
    name = wait.claim.rpartition("/")[2]
    claim = f"claim {name} ({wait.source})" if wait.source else f"claim {name}"
    done = "allocated" if wait.kind is ClaimKind.DEVICES else "bound"
    if wait.pause:
        return (
            f"{_ready(wait)}; {claim} could not be bound, and the scheduler tries again "
            f"after a pause of {wait.pause} s"
        )
    if wait.refusal:
        return f"{_ready(wait)}; the API server refuses to have {claim} {done}: {wait.refusal}"
    if wait.kind is ClaimKind.DEVICES:
        return f"{_ready(wait)}; allocating {claim} on {wait.node}"
    since = phrases.time_of_day(wait.since)
    return f"{_ready(wait)}; waiting for {claim} on {wait.node} since {since}"


def _ready(wait: ClaimWait) -> str:
    if wait.kind is ClaimKind.DEVICES:
        if wait.claims == 1:
            return "the resource claim isn't allocated"
        return f"{wait.ready} of {wait.claims} resource claims are allocated"
    if wait.claims == 1:
        return "the claim is bound" if wait.ready else "the claim isn't bound"
    return f"{wait.ready} of {wait.claims} claims are bound"
