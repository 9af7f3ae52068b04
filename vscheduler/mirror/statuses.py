"""Status and events of user objects: PodGroup status, pod conditions, Event notices.

Everything here is pure. Writers compare with the status they last sent, as computed by
`group_state`, and write only differences. Volcano: session close, gang OnSessionClose. Volcano
leaves an old Unschedulable condition True beside Scheduled; here Unschedulable turns False. The
condition of a PodGroup has the reason's own code, as `simulate`, metrics and the page have. Where
Volcano tells no reason of its own, it says NotEnoughResources.
"""

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeError
from vscheduler.mirror.paths import COLLECTIONS, Kind
from vscheduler.mirror.wording import phrases, sentences
from vscheduler.model import jobs
from vscheduler.model.decisions import (
    WAITS_FOR_CLAIMS,
    Bind,
    EndsSoon,
    Evict,
    GroupStatus,
    Reason,
    ReasonCode,
)
from vscheduler.model.jobs import (
    Condition,
    GroupState,
    InvalidPod,
    Job,
    JobId,
    Phase,
    Task,
    TaskStatus,
)

UNSCHEDULABLE = "Unschedulable"
NATIVE_UNSCHEDULABLE = "vscheduler.io/Unschedulable"
"""The same condition on PodGroups of Kubernetes' own API."""

OF_QUEUE = "queue "
"""Before the queue in the message of condition jobs.PHASE."""

NOT_ADMITTED = frozenset(
    {
        ReasonCode.QUEUE_FULL,
        ReasonCode.QUOTA_FULL,
        ReasonCode.CLUSTER_FULL,
    }
)
"""Reason codes of groups that wait for admission. Waiting for admission deserves no warning
(Volcano: JobEnqueueable).
"""

NO_NODE_HELPS = NOT_ADMITTED - {ReasonCode.CLUSTER_FULL} | {
    ReasonCode.QUEUE_MISSING,
    ReasonCode.QUEUE_CLOSED,
    ReasonCode.QUEUE_BARRED,
    ReasonCode.PLUGIN_FAILED,
    ReasonCode.PLUGIN_REFUSED,
    ReasonCode.NOT_LEAF,
    ReasonCode.SET_ASIDE,
    ReasonCode.BAD_SETTING,
    ReasonCode.TOPOLOGY_UNKNOWN,
    ReasonCode.POD_GROUP_ERROR,
    ReasonCode.POD_REJECTED,
    ReasonCode.TOO_FEW_PODS,
    ReasonCode.TOO_FEW_OF_ROLE,
    ReasonCode.TOO_FEW_SUB_GROUPS,
    ReasonCode.TOO_FEW_OF_SUB_GROUP,
    ReasonCode.GATED,
    ReasonCode.BIND_REFUSED,
    ReasonCode.WAITS_FOR_VOLUMES,
    ReasonCode.WAITS_FOR_DEVICES,
}
"""Reason codes with which pods would wait even in an empty cluster."""


def is_expected(reason: Reason) -> bool:
    """Whether waiting for this reason deserves no warning: admission and claims take time."""
    if reason.code in WAITS_FOR_CLAIMS.values():
        return not is_late(reason)
    return reason.code in NOT_ADMITTED


def is_late(reason: Reason) -> bool:
    """Whether volumes or devices that the job waits for could not be had so far."""
    return reason.claims is not None and bool(reason.claims.pause or reason.claims.refusal)


def pod_reason(reason: Reason) -> str:
    """Return the reason of the PodScheduled condition of pods that wait for this reason.

    Cluster autoscalers and Karpenter add nodes for pods with reason Unschedulable only. Pods
    therefore get Unschedulable only where a new node could help, and the reason's own code
    otherwise.
    """
    capped = any(shortage.owner for shortage in reason.shortages)
    return str(reason.code) if capped or reason.code in NO_NODE_HELPS else UNSCHEDULABLE


WAITS_FOR_VOLUMES = "WaitsForVolumes"
SCHEDULED = "Scheduled"
SCHEDULER_ERROR = "SchedulerError"
"""Kubernetes' reason for pods with constraints that the scheduler can't read, and after a failed
bind; adding nodes doesn't help such pods."""
POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
EVICT = "Evict"
"""Volcano: the reason of eviction events."""
ENDS_SOON = "EndsSoon"
"""The reason of events about pods that will be ended when their time is up."""
RELOADED = "ConfigurationReloaded"
RELOAD_FAILED = "ConfigurationRejected"
CONFIGURATION_CHANGED = "ConfigurationChanged"
LEADER_ELECTION = "LeaderElection"
"""client-go: the reason of Lease events."""
READY_REASON = "tasks in gang are ready to be scheduled"
"""Volcano: the reason of condition Scheduled."""

GROUP_REFUSED = "PodGroupRefused"
"""The reason of events about pods that can't have an automatic PodGroup."""

GROUP_INVALID = "PodGroupInvalid"
"""The reason of events about PodGroups that are left out: invalid ones, and those too large."""

FAILED = "SchedulerFailed"
"""The reason of events about objects on which the scheduler itself failed."""

Body = dict[str, Any]


class EventNotice(msgspec.Struct, frozen=True, kw_only=True):
    """An event to record about an object."""

    kind: str
    """PodGroup, Pod, Queue or Lease."""
    namespace: str
    name: str
    uid: str
    type: str
    """Normal or Warning."""
    reason: str
    message: str
    api_version: str = ""  # empty for the kinds above; owners of pods have kinds of any API
    once: str = ""
    """Ends the event's name, so that there is one of that name, whoever records it; empty if each
    is an event of its own."""


class ReasonAndMessage(NamedTuple):
    """Reason and message of the PodScheduled condition of a waiting pod."""

    topic: str
    """An event is recorded when the topic changes. New numbers in the message alone record no
    event.
    """
    reason: str
    message: str


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True):
    """The object that an event is about."""

    kind: str
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    uid: str
    api_version: str = ""  # empty for the kinds that an EventNotice names


def reference_to(kind: Kind, *, namespace: str, name: str, uid: str) -> ObjectReference:
    """Return the reference to an object of a watched kind."""
    collection = COLLECTIONS[kind]
    native = kind in (Kind.NATIVE_POD_GROUP, Kind.COMPOSITE_POD_GROUP)
    version = collection.api_version if native else ""
    return ObjectReference(
        kind=collection.kind, api_version=version, namespace=namespace, name=name, uid=uid
    )


def group_state(
    status: GroupStatus, stored: GroupState, *, now: float, transition: str
) -> GroupState:
    """Return the new status of a PodGroup; conditions of foreign types are kept.

    `transition` is the ID of the cycle, `now` is in seconds since the epoch. A condition with
    unchanged text keeps its transition ID and lastTransitionTime. A condition with unchanged status
    and reason keeps its lastTransitionTime.
    """
    state = GroupState(
        phase=status.phase,
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        conditions=stored.conditions,
        generation=stored.generation,
    )
    conditions = {condition.type: condition for condition in stored.conditions}
    native = jobs.is_native(status.job)
    for wanted in (_native_conditions if native else _conditions)(status, conditions):
        known = conditions.get(wanted.type)
        if known is not None and _content(known) == _content(wanted):
            continue
        same = known is not None and (known.status, known.reason) == (wanted.status, wanted.reason)
        since = known.last_transition if known is not None and same else timestamp(now)
        conditions[wanted.type] = replace(wanted, last_transition=since, transition_id=transition)
    return replace(state, conditions=tuple(conditions.values()))


def of_parts(
    status: GroupStatus, job: Job, binds: Iterable[Bind], phase_of: Callable[[JobId], Phase]
) -> Iterator[GroupStatus]:
    """Iterate over the statuses of the PodGroups below a CompositePodGroup, without UIDs.

    `phase_of` returns the stored phase of a PodGroup.
    """
    if not jobs.is_composite(job.id):
        return
    starting = {bind.task.uid for bind in binds if bind.task.job == job.id}
    pods = defaultdict[str, list[Task]](list)
    for task in job.tasks:
        pods[task.labels[jobs.POD_GROUP_LABEL]].append(task)
    for policy in job.sub_groups:
        assert policy.selector is not None, "a policy of PodGroups selects them by name"
        for name in policy.selector.requirements[0].values:
            tasks, key = pods[name], jobs.native_id(job.namespace, name)
            placed = sum(task.status in jobs.READY or task.uid in starting for task in tasks)
            has_minimum = placed >= policy.size_of((name,))
            before = partial(phase_of, key)
            phase = _phase_of_part(status.phase, tasks, before, has_minimum=has_minimum)
            waits = not has_minimum and phase is not Phase.COMPLETED
            yield GroupStatus(
                job=key,
                uid="",
                queue=status.queue,
                phase=phase,
                running=0,
                succeeded=0,
                failed=0,
                ready=has_minimum,
                reason=status.reason if waits else None,
            )


def _phase_of_part(
    tree: Phase, tasks: Sequence[Task], before: Callable[[], Phase], *, has_minimum: bool
) -> Phase:
    """Return the phase of a PodGroup below a CompositePodGroup, in the sense of PodGroups that are
    jobs by themselves. One without running pods is Inqueue while others of the tree run: it needs
    no admission.
    """
    if tree is Phase.COMPLETED:
        return tree
    if not tasks:
        is_over = before() is Phase.COMPLETED
    else:
        is_over = all(task.status in jobs.FINISHED for task in tasks)
    if is_over:
        return Phase.COMPLETED
    if has_minimum:
        return Phase.RUNNING
    if tree in jobs.YOUNG:
        return tree
    runs = any(task.status in jobs.HOLDING for task in tasks)
    return Phase.UNKNOWN if runs else Phase.INQUEUE


def group_patch(stored: GroupState, wanted: GroupState) -> Body | None:
    """Return the fields of `status` to merge into the PodGroup, or None when nothing differs.

    If `conditions` is present, it is the whole list, and the patch must carry the resourceVersion
    that `stored` was read from.
    """
    body: Body = {
        name: getattr(wanted, name)
        for name in ("running", "succeeded", "failed")
        if getattr(wanted, name) != getattr(stored, name)
    }
    if stored.blank or wanted.phase is not stored.phase:
        body["phase"] = str(wanted.phase)
    if _contents(wanted.conditions) != _contents(stored.conditions):
        body["conditions"] = [condition(each) for each in wanted.conditions]
    return body or None


def native_group_patch(stored: GroupState, wanted: GroupState) -> Body | None:
    """Return the fields of `status` to merge strategically into a PodGroup of Kubernetes' own API,
    or None when nothing differs. Conditions are merged by type.
    """
    known = {condition.type: _content(condition) for condition in stored.conditions}
    changed = [each for each in wanted.conditions if known.get(each.type) != _content(each)]
    if not changed:
        return None
    return {
        "conditions": [
            {
                **condition(replace(each, transition_id="")),
                "message": each.message,  # needn't say anything, but must be there
                "observedGeneration": wanted.generation,
            }
            for each in changed
        ]
    }


def condition(stored: Condition) -> Body:
    """Return a PodGroup condition as JSON fields, without empty fields."""
    fields = {
        "type": stored.type,
        "status": stored.status,
        "reason": stored.reason,
        "message": stored.message,
        "lastTransitionTime": stored.last_transition,
        "transitionID": stored.transition_id,
    }
    return {name: value for name, value in fields.items() if value}


def group_notice(
    status: GroupStatus,
    stored: GroupState,
    wanted: GroupState,
    *,
    pods: int,
) -> EventNotice | None:
    """Return the event for a change of a PodGroup's conditions, or None when no condition turned
    True or changed its reason.

    A PodGroup with a single pod gets no event for condition Scheduled, for the pod has its own
    event.
    """
    before = {
        condition.type: (condition.status, condition.reason) for condition in stored.conditions
    }
    for condition in wanted.conditions:
        if condition.status != "True" or before.get(condition.type) == (
            condition.status,
            condition.reason,
        ):
            continue
        if condition.type in (UNSCHEDULABLE, NATIVE_UNSCHEDULABLE):
            calm = status.reason is not None and is_expected(status.reason)
            details = ("Normal" if calm else "Warning", UNSCHEDULABLE, condition.message)
            return _group_notice(status.job, status.uid, details)
        if condition.type in (SCHEDULED, jobs.initially_scheduled(status.job)) and pods > 1:
            details = ("Normal", SCHEDULED, "pod group is ready")
            return _group_notice(status.job, status.uid, details)
    return None


def pod_words(
    status: GroupStatus,
) -> Iterator[tuple[Task | InvalidPod, ReasonAndMessage]]:
    """Iterate over the pods of the group that deserve a PodScheduled condition, each with its
    reason and message.

    All waiting pods of a group get the group's reason; unusable pods, and pods whose binds were
    refused, get their own. Gated pods are left out, for the API server has already set their
    condition. Callers drop repetitions.
    """
    if status.unplaced and status.reason is not None:
        code, message = status.reason.code, sentences.sentence(status.reason)
        topic = f"{code}, late" if is_late(status.reason) else str(code)
        words = ReasonAndMessage(topic, pod_reason(status.reason), message)
        for task in status.unplaced:
            yield task, words
    if status.claims is not None:
        why, message = (
            str(WAITS_FOR_CLAIMS[status.claims.kind]),
            sentences.claim_wait(status.claims),
        )
        words = ReasonAndMessage(message if status.claims.refusal else why, why, message)
        yield from ((task, words) for task in status.without_claims)
    for refused in status.refused_binds:
        message = sentences.bind_refused(refused)
        yield refused.task, ReasonAndMessage(message, SCHEDULER_ERROR, message)
    for pod in status.rejections:
        if not pod.gated:
            message = sentences.rejected(pod)
            yield pod, ReasonAndMessage(topic=message, reason=SCHEDULER_ERROR, message=message)


def without_group(why: str) -> ReasonAndMessage:
    """Return the reason of a pod that waits for its automatic PodGroup."""
    message = f"waits for a PodGroup, which the controllers make: {why}"
    code = jobs.POD_GROUP_NEEDED
    return ReasonAndMessage(topic=code, reason=code, message=message)


def pod_patch(words: ReasonAndMessage, *, now: float) -> Body:
    """Return the pod `status` to merge (strategic merge: conditions are merged by type)."""
    return {
        "conditions": [
            {
                "type": POD_SCHEDULED,
                "status": "False",
                "reason": words.reason,
                "message": words.message,
                "lastTransitionTime": timestamp(now),
            }
        ]
    }


def waiting_notice(pod: Task | InvalidPod, words: ReasonAndMessage) -> EventNotice:
    """Return the event of a pod without a suitable node, or with a node but without its claims."""
    if words.topic == WAITS_FOR_VOLUMES:
        return _pod_notice(pod, ("Normal", WAITS_FOR_VOLUMES, words.message))
    return _pod_notice(pod, ("Warning", "FailedScheduling", words.message))


def bound_notice(bind: Bind) -> EventNotice:
    """Return the event of a pod that was bound."""
    return _pod_notice(bind.task, ("Normal", SCHEDULED, sentences.assigned(bind)))


def ends_soon_notice(pod: EndsSoon) -> EventNotice:
    """Return the event of a pod that will be ended when its time is up."""
    notice = _pod_notice(pod.task, ("Warning", ENDS_SOON, sentences.ends_soon(pod)))
    return replace(notice, once=f"{math.ceil(pod.at):x}")


def evicted_notice(evict: Evict, gang: Job) -> EventNotice:
    """Return the event of a pod that was evicted."""
    return _pod_notice(evict.task, ("Warning", EVICT, sentences.evicted(evict, gang)))


def lost_notice(uid: str, evicts: Sequence[Evict]) -> EventNotice:
    """Return the event of the PodGroup with this UID, whose pods were evicted."""
    job = evicts[0].task.job
    return _group_notice(job, uid, ("Normal", EVICT, sentences.lost(evicts)))


def invalid_notice(uid: str, rejection: DecodeError) -> EventNotice:
    """Return the event of the PodGroup with this UID, which can't be used."""
    place = f"{rejection.field}: " if rejection.field else ""
    text = f"{place}{rejection.message}; none of its pods starts until it is corrected"
    namespace, _, name = rejection.key.partition("/")
    group = reference_to(rejection.kind, namespace=namespace, name=name, uid=uid)
    return _notice(group, ("Warning", GROUP_INVALID, text))


def evicted_patch(evict: Evict, gang: Job, *, now: float) -> Body:
    """Return the pod `status` to merge strategically: condition DisruptionTarget, with the
    beneficiary and the rule.

    Type and reason are kube-scheduler's, known to podFailurePolicy of Jobs and to users' tools.
    """
    return _disruption(sentences.evicted(evict, gang), now)


def lost_patch(evicts: Sequence[Evict], *, now: float) -> Body:
    """Return the `status` to merge strategically into a PodGroup of Kubernetes' own API of which
    all pods were evicted, as kube-scheduler writes it.
    """
    return _disruption(sentences.lost(evicts), now)


def _disruption(message: str, now: float) -> Body:
    return {
        "conditions": [
            {
                "type": DISRUPTION_TARGET,
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": message,
                "lastTransitionTime": timestamp(now),
            }
        ]
    }


def nominated_patch(node: str | None) -> Body:
    """Return the pod `status` to merge: the nominated node, or None to clear the nomination."""
    return {"nominatedNodeName": node}


def reload_notice(subject: ObjectReference, path: str, problems: Sequence[str]) -> EventNotice:
    """Return the event for a configuration file that was reloaded or rejected."""
    if problems:
        details = ("Warning", RELOAD_FAILED, sentences.rejected_configuration(path, problems))
    else:
        details = ("Normal", RELOADED, f"{path} is in force")
    return _notice(subject, details)


def refused_notice(pod: ObjectReference, why: str) -> EventNotice:
    """Return the event of a pod refused an automatic PodGroup, in the API server's words."""
    return _notice(pod, ("Warning", GROUP_REFUSED, f"waits for a PodGroup: {why}"))


def no_queue_notice(about: ObjectReference, why: str) -> EventNotice:
    """Return the event of a PodGroup of Kubernetes' own API, or of its pod, while no queue can be
    written on the PodGroup, in the API server's words.
    """
    return _notice(about, ("Warning", GROUP_REFUSED, f"waits for a queue: {why}"))


def failure_notice(about: ObjectReference, area: str) -> EventNotice:
    """Return the event of an object on which the scheduler itself failed. Details are in the
    scheduler's log.
    """
    message = (
        f"the scheduler failed on this object ({area}), which is a defect of the scheduler; "
        f"it keeps trying"
    )
    return _notice(about, ("Warning", FAILED, message))


def lease_notice(lease: ObjectReference, holder: str, *, leads: bool) -> EventNotice:
    """Return the event of a Lease that this process, the holder, gained or lost, in client-go's
    words.
    """
    message = f"{holder} {'became leader' if leads else 'stopped leading'}"
    return _notice(lease, ("Normal", LEADER_ELECTION, message))


def configuration_notice(lease: ObjectReference, holder: str, before: str, now: str) -> EventNotice:
    """Return the event of a Lease whose new holder decides by another configuration.

    Both are given as digests.
    """
    message = f"{holder} decides by configuration {now}; the leader before had {before}"
    return _notice(lease, ("Warning", CONFIGURATION_CHANGED, message))


def timestamp(now: float) -> str:
    """Return seconds since the epoch as a Kubernetes timestamp: RFC 3339, whole seconds, UTC."""
    return f"{dt.datetime.fromtimestamp(now, dt.UTC).isoformat(timespec='seconds')[:-6]}Z"


def microtime(now: float) -> str:
    """Return seconds since the epoch with microseconds, as used by Events and Leases (meta/v1
    MicroTime).
    """
    return f"{dt.datetime.fromtimestamp(now, dt.UTC).isoformat(timespec='microseconds')[:-6]}Z"


def _conditions(status: GroupStatus, by_type: Mapping[str, Condition]) -> Iterable[Condition]:
    """Iterate over the conditions that this cycle sets."""
    completed = status.phase is Phase.COMPLETED and status.reason is None
    if status.ready or completed:
        old = by_type.get(UNSCHEDULABLE)
        if old is not None and old.status == "True":
            why = SCHEDULED if status.ready else str(Phase.COMPLETED)
            yield Condition(type=UNSCHEDULABLE, status="False", reason=why)
    if status.ready:
        yield Condition(type=SCHEDULED, status="True", reason=READY_REASON)
    elif status.reason is not None:
        reason = str(status.reason.code)
        yield Condition(
            type=UNSCHEDULABLE,
            status="True",
            reason=reason,
            message=sentences.sentence(status.reason),
        )
        if SCHEDULED in by_type:
            yield Condition(type=SCHEDULED, status="False", reason=reason)


def _native_conditions(
    status: GroupStatus, by_type: Mapping[str, Condition]
) -> Iterable[Condition]:
    """Iterate over the conditions that this cycle sets on a PodGroup of Kubernetes' own API.

    Its own condition is as kube-scheduler writes it: once True, it stays so.
    """
    started = status.phase not in jobs.YOUNG
    yield Condition(
        type=jobs.PHASE,
        status=str(started),
        reason=str(status.phase),
        message=f"{OF_QUEUE}{status.queue}",
    )
    if status.succeeded or jobs.SUCCEEDED_PODS in by_type:
        yield Condition(
            type=jobs.SUCCEEDED_PODS,
            status=str(bool(status.succeeded)),
            reason=str(TaskStatus.SUCCEEDED),
            message=f"{phrases.pods(status.succeeded)} succeeded",
        )
    kind = jobs.initially_scheduled(status.job)
    initially = by_type.get(kind)
    if initially is None or initially.status != "True":
        if started:
            yield Condition(type=kind, status="True", reason=SCHEDULED)
        elif status.reason is not None:
            refused = status.reason.code is ReasonCode.POD_GROUP_ERROR
            yield Condition(
                type=kind,
                status="False",
                reason=str(status.reason.code) if refused else UNSCHEDULABLE,
                message=sentences.sentence(status.reason),
            )
    evicted = by_type.get(DISRUPTION_TARGET)
    if status.ready and evicted is not None and evicted.status == "True":
        yield Condition(type=DISRUPTION_TARGET, status="False", reason=SCHEDULED)
    known = by_type.get(NATIVE_UNSCHEDULABLE)
    told = {} if known is None else {UNSCHEDULABLE: known}
    for each in _conditions(status, told):
        if each.type == UNSCHEDULABLE:
            yield replace(each, type=NATIVE_UNSCHEDULABLE)


def _content(stored: Condition) -> tuple[str, str, str, str]:
    """Return the fields of a condition except transition ID and time."""
    return (stored.type, stored.status, stored.reason, stored.message)


def _contents(conditions: Iterable[Condition]) -> list[tuple[str, str, str, str]]:
    return [_content(condition) for condition in conditions]


def _notice(subject: ObjectReference, details: tuple[str, str, str]) -> EventNotice:
    kind, reason, message = details
    return EventNotice(
        kind=subject.kind,
        namespace=subject.namespace,
        name=subject.name,
        uid=subject.uid,
        type=kind,
        reason=reason,
        message=message,
        api_version=subject.api_version,
    )


def _group_notice(job: JobId, uid: str, details: tuple[str, str, str]) -> EventNotice:
    namespace, name = jobs.names_of(job)
    group = reference_to(events.kind_of_job(job), namespace=namespace, name=name, uid=uid)
    return _notice(group, details)


def _pod_notice(pod: Task | InvalidPod, details: tuple[str, str, str]) -> EventNotice:
    subject = ObjectReference(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
    return _notice(subject, details)
