"""What to write back to people's objects: PodGroup status, pod conditions, events.

Pure: who writes compares with what it last sent, which `group_state` gives, so that nothing is
written that says the same again. Volcano: session close, gang OnSessionClose; there an old
Unschedulable stays True beside Scheduled, here it turns False.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from vscheduler.core.model import decisions, jobs
from vscheduler.mirror import wording

UNSCHEDULABLE = "Unschedulable"
SCHEDULED = "Scheduled"
SCHEDULER_ERROR = "SchedulerError"
"""Kubernetes: the reason of pods whose affinity and the like the scheduler can't read; no node
helps them."""
POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
EVICT = "Evict"
"""Volcano: the reason of events about evictions."""
RELOADED = "ConfigurationReloaded"
RELOAD_FAILED = "ConfigurationRejected"
LEADER_ELECTION = "LeaderElection"
"""client-go: the reason of events about Leases."""
READY_REASON = "tasks in gang are ready to be scheduled"
"""Volcano: the reason that condition Scheduled comes with."""

GROUP_REFUSED = "PodGroupRefused"
"""The reason of events about pods that can't have an automatic PodGroup."""

FAILED = "SchedulerFailed"
"""The reason of events about objects at which the scheduler itself failed."""

NOT_ENOUGH_RESOURCES = "NotEnoughResources"
REASONS = {
    decisions.ReasonCode.QUEUE_MISSING: "QueueNotFound",
    decisions.ReasonCode.POD_REJECTED: "NotEnoughTasks",
    decisions.ReasonCode.TOO_FEW_PODS: "NotEnoughTasks",
    decisions.ReasonCode.TOO_FEW_OF_ROLE: "NotEnoughPodsOfTask",
    decisions.ReasonCode.TOO_FEW_SUB_GROUPS: "NotEnoughPodsOfTask",
    decisions.ReasonCode.TOO_FEW_OF_SUB_GROUP: "NotEnoughPodsOfTask",
}
"""Reasons of condition Unschedulable, Volcano's but for the first, of which its webhook tells; all
others are NotEnoughResources."""

NOT_ADMITTED = frozenset(
    {
        decisions.ReasonCode.QUEUE_FULL,
        decisions.ReasonCode.QUOTA_FULL,
        decisions.ReasonCode.CLUSTER_FULL,
    }
)
"""Reasons of groups that wait for their turn, which is nothing to warn of (Volcano:
JobEnqueueable)."""

NO_NODE_HELPS = NOT_ADMITTED - {decisions.ReasonCode.CLUSTER_FULL} | {
    decisions.ReasonCode.QUEUE_MISSING,
    decisions.ReasonCode.QUEUE_CLOSED,
    decisions.ReasonCode.QUEUE_BARRED,
    decisions.ReasonCode.PLUGIN_FAILED,
    decisions.ReasonCode.NOT_LEAF,
    decisions.ReasonCode.SET_ASIDE,
    decisions.ReasonCode.BAD_SETTING,
    decisions.ReasonCode.TOPOLOGY_UNKNOWN,
    decisions.ReasonCode.POD_REJECTED,
    decisions.ReasonCode.TOO_FEW_PODS,
    decisions.ReasonCode.TOO_FEW_OF_ROLE,
    decisions.ReasonCode.TOO_FEW_SUB_GROUPS,
    decisions.ReasonCode.TOO_FEW_OF_SUB_GROUP,
    decisions.ReasonCode.GATED,
}
"""Reasons with which pods would wait in an empty cluster, too."""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNotice:
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


class ReasonAndMessage(NamedTuple):
    """What the condition of a pod that waits says."""

    topic: str
    """An event is recorded where this is another than before: numbers alone are none."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReference:
    """An object that an event is about."""

    kind: str
    namespace: str
    """Empty for an object that is in none."""
    name: str
    uid: str


def group_state(
    status: decisions.GroupStatus, stored: jobs.GroupState, *, now: float, transition: str
) -> jobs.GroupState:
    """What the PodGroup's status should be, conditions of other types left as they are.

    transition names the cycle; now is in seconds since the epoch. A condition that says the same
    as before keeps both; one with the same status and reason keeps its lastTransitionTime.
    """
    state = jobs.GroupState(
        phase=status.phase,
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        conditions=stored.conditions,
    )
    conditions = {condition.type: condition for condition in stored.conditions}
    for wanted in _conditions(status, conditions):
        known = conditions.get(wanted.type)
        if known is not None and _says(known) == _says(wanted):
            continue
        same = known is not None and (known.status, known.reason) == (wanted.status, wanted.reason)
        since = known.last_transition if known is not None and same else timestamp(now)
        conditions[wanted.type] = replace(wanted, last_transition=since, transition_id=transition)
    return replace(state, conditions=tuple(conditions.values()))


def group_patch(stored: jobs.GroupState, wanted: jobs.GroupState) -> Body | None:
    """The fields of `status` to merge into the object; None when all are so already.

    Where `conditions` is among them it is the whole list, and the patch must carry the
    resourceVersion from which `stored` was read.
    """
    body: Body = {
        name: getattr(wanted, name)
        for name in ("running", "succeeded", "failed")
        if getattr(wanted, name) != getattr(stored, name)
    }
    if stored.blank or wanted.phase is not stored.phase:
        body["phase"] = str(wanted.phase)
    if _all_say(wanted.conditions) != _all_say(stored.conditions):
        body["conditions"] = [condition(each) for each in wanted.conditions]
    return body or None


def condition(stored: jobs.Condition) -> Body:
    """A PodGroup's condition as it stands in the object; empty fields are left out."""
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
    status: decisions.GroupStatus,
    stored: jobs.GroupState,
    wanted: jobs.GroupState,
    *,
    pods: int,
) -> EventNotice | None:
    """The event that goes with a change of a group's conditions; None where none turned.

    That it has its minimum is told of a group of one pod by that pod's own event.
    """
    before = {each.type: (each.status, each.reason) for each in stored.conditions}
    for each in wanted.conditions:
        if each.status != "True" or before.get(each.type) == (each.status, each.reason):
            continue
        if each.type == UNSCHEDULABLE:
            refused = status.reason is not None and status.reason.code in NOT_ADMITTED
            said = ("Normal" if refused else "Warning", UNSCHEDULABLE, each.message)
            return _group_notice(status.job, status.uid, said)
        if each.type == SCHEDULED and pods > 1:
            said = ("Normal", SCHEDULED, "pod group is ready")
            return _group_notice(status.job, status.uid, said)
    return None


def pod_words(
    status: decisions.GroupStatus,
) -> Iterator[tuple[jobs.Task | jobs.InvalidPod, ReasonAndMessage]]:
    """What pods of the group are told; the same again is no news.

    All that wait for the same are told the same, and each that can't be used why. One that is gated
    has been told so by the API server.
    """
    if status.unplaced and status.reason is not None:
        code, message = status.reason.code, wording.sentence(status.reason)
        words = ReasonAndMessage(topic=str(code), reason=pod_reason(status.reason), message=message)
        for task in status.unplaced:
            yield task, words
    for pod in status.rejections:
        if not pod.gated:
            message = wording.rejected(pod)
            yield pod, ReasonAndMessage(topic=message, reason=SCHEDULER_ERROR, message=message)


def pod_reason(reason: decisions.Reason) -> str:
    """The reason of the condition of pods that wait for this.

    Cluster autoscalers and Karpenter make nodes for pods whose reason is Unschedulable, and for no
    others: it is said only where a node could help.
    """
    capped = any(shortage.owner for shortage in reason.shortages)
    return str(reason.code) if capped or reason.code in NO_NODE_HELPS else UNSCHEDULABLE


def pod_patch(words: ReasonAndMessage, *, now: float) -> Body:
    """The pod's `status` to merge (strategically: conditions are merged by type)."""
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


def waiting_notice(pod: jobs.Task | jobs.InvalidPod, message: str) -> EventNotice:
    """The event of a pod that found no node."""
    return _pod_notice(pod, ("Warning", "FailedScheduling", message))


def bound_notice(bind: decisions.Bind) -> EventNotice:
    """The event of a pod that was bound."""
    return _pod_notice(bind.task, ("Normal", SCHEDULED, wording.assigned(bind)))


def evicted_notice(evict: decisions.Evict, gang: jobs.Job) -> EventNotice:
    """The event of a pod that was evicted."""
    return _pod_notice(evict.task, ("Warning", EVICT, wording.evicted(evict, gang)))


def lost_notice(uid: str, evicts: Sequence[decisions.Evict]) -> EventNotice:
    """The event of a PodGroup, of this UID, of which these pods were evicted."""
    job = evicts[0].task.job
    return _group_notice(job, uid, ("Normal", EVICT, wording.lost(evicts)))


def evicted_patch(evict: decisions.Evict, gang: jobs.Job, *, now: float) -> Body:
    """The pod's `status` to merge strategically: who takes its place, and by which rule.

    kube-scheduler's words, so that Jobs' podFailurePolicy and people's tools know them.
    """
    return {
        "conditions": [
            {
                "type": DISRUPTION_TARGET,
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": wording.evicted(evict, gang),
                "lastTransitionTime": timestamp(now),
            }
        ]
    }


def nominated_patch(node: str | None) -> Body:
    """The pod's `status` to merge: where room is kept for it, or None where that is over."""
    return {"nominatedNodeName": node}


def reload_notice(subject: ObjectReference, path: str, problems: Sequence[str]) -> EventNotice:
    """The event that goes with a configuration file that was read again."""
    if problems:
        said = ("Warning", RELOAD_FAILED, wording.rejected_configuration(path, problems))
    else:
        said = ("Normal", RELOADED, f"{path} is in force")
    return _notice(subject, said)


def refused_notice(pod: ObjectReference, why: str) -> EventNotice:
    """The event of a pod that can't have an automatic PodGroup, in the API server's words."""
    return _notice(pod, ("Warning", GROUP_REFUSED, f"waits for a PodGroup: {why}"))


def failure_notice(about: ObjectReference, area: str) -> EventNotice:
    """The event of an object at which the scheduler itself failed; its log has the details."""
    message = f"the scheduler failed at this ({area}), which is a defect of it; it goes on trying"
    return _notice(about, ("Warning", FAILED, message))


def lease_notice(lease: ObjectReference, holder: str, *, leads: bool) -> EventNotice:
    """The event of a Lease that this process, the holder, gained or lost, in client-go's words."""
    message = f"{holder} {'became leader' if leads else 'stopped leading'}"
    return _notice(lease, ("Normal", LEADER_ELECTION, message))


def timestamp(now: float) -> str:
    """Seconds since the epoch as Kubernetes writes them: RFC 3339, whole seconds, UTC."""
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def microtime(now: float) -> str:
    """The same with microseconds, as events and Leases have it (meta/v1 MicroTime)."""
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _conditions(
    status: decisions.GroupStatus, known: Mapping[str, jobs.Condition]
) -> Iterable[jobs.Condition]:
    """The conditions that this cycle has something to say about."""
    if status.ready:
        old = known.get(UNSCHEDULABLE)
        if old is not None and old.status == "True":
            yield jobs.Condition(type=UNSCHEDULABLE, status="False", reason=SCHEDULED)
        yield jobs.Condition(type=SCHEDULED, status="True", reason=READY_REASON)
    elif status.reason is not None:
        reason = REASONS.get(status.reason.code, NOT_ENOUGH_RESOURCES)
        yield jobs.Condition(
            type=UNSCHEDULABLE,
            status="True",
            reason=reason,
            message=wording.sentence(status.reason),
        )
        if SCHEDULED in known:
            yield jobs.Condition(type=SCHEDULED, status="False", reason=reason)


def _says(stored: jobs.Condition) -> tuple[str, str, str, str]:
    """A condition without its times."""
    return (stored.type, stored.status, stored.reason, stored.message)


def _all_say(conditions: Iterable[jobs.Condition]) -> list[tuple[str, str, str, str]]:
    return [_says(each) for each in conditions]


def _notice(subject: ObjectReference, said: tuple[str, str, str]) -> EventNotice:
    kind, reason, message = said
    return EventNotice(
        kind=subject.kind,
        namespace=subject.namespace,
        name=subject.name,
        uid=subject.uid,
        type=kind,
        reason=reason,
        message=message,
    )


def _group_notice(job: jobs.JobId, uid: str, said: tuple[str, str, str]) -> EventNotice:
    namespace, _, name = job.partition("/")
    return _notice(ObjectReference(kind="PodGroup", namespace=namespace, name=name, uid=uid), said)


def _pod_notice(pod: jobs.Task | jobs.InvalidPod, said: tuple[str, str, str]) -> EventNotice:
    subject = ObjectReference(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
    return _notice(subject, said)
