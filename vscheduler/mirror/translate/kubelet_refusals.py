"""What others say of nodes in the status of pods: kubelets that refuse pods of ours, and schedulers
that nominate their own.

Two schedulers that bind to one node at the same moment can't know of each other; the kubelet takes
who comes first and refuses the other, for good: the pod is Failed, and its controller makes a new
one at once. So that it isn't bound there and refused again, over and over, the node is left alone:
for half a minute at first, longer each time, until a pod of ours starts there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from vscheduler.core.model import jobs, snapshot
from vscheduler.mirror.decode import fields, wire

FIRST_SECONDS = 30
LONGEST_SECONDS = 300
KEPT_SECONDS = 3600.0
"""How long a refusal counts towards later ones. An hour has room for the refusals that lead to the
longest pause."""

SHORT_OF = "OutOf"
"""Beginning of the reason where a resource is short: `OutOfcpu`, `OutOfnvidia.com/gpu`."""

REASONS = frozenset(
    {
        *("UnexpectedAdmissionError", "UnexpectedPredicateFailureType", "UnknownReason"),
        *("InvalidNodeInfo", "NodeShutdown", "NodeName", "NodePorts"),
        *("NodeAffinity", "NodeAffinityChanged", "TaintToleration"),
    }
)
"""Other reasons that are about the node (Kubernetes: kubelet lifecycle, nodeshutdown). Those that
are about what the pod asks for (SysctlForbidden, AppArmor, PodOSNotSupported and so on) aren't
among them: with such pods one user could keep all others from every node."""

UNDER_PRESSURE = "Evicted"
REJECTED = "Pod was rejected"
"""The reason of a node under pressure is that of evictions, too: these say something else."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the kubelet said of a pod of ours that was bound to its node."""

    at: float
    """Seconds since the epoch."""
    refusal: str = ""
    """Its reason; empty where it has started the pod."""


@dataclass(frozen=True, slots=True)
class KubeletRefusal:
    """One pod that was refused."""

    reason: str
    at: float
    """By the kubelet's clock."""
    since: float
    """The same, or when it was first seen, if that clock is ahead."""


class KubeletRefusals:
    """Keeps them, beyond the life of the pods: who made a pod deletes it, and makes another."""

    def __init__(self) -> None:
        self._refused: defaultdict[str, dict[jobs.TaskId, KubeletRefusal]] = defaultdict(dict)
        """By node."""
        self._started: dict[str, float] = {}
        """When a pod of ours was last started, by node."""

    def note(self, pod: jobs.TaskId, node: str, answer: Answer) -> None:
        """What the kubelet said of a pod; to say so again changes nothing."""
        if not answer.refusal:
            self._started[node] = max(answer.at, self._started.get(node, answer.at))
        elif pod not in self._refused[node]:
            self._refused[node][pod] = KubeletRefusal(answer.refusal, answer.at, answer.at)

    def standing(self, now: float) -> Mapping[str, snapshot.Refused]:
        """The nodes that are to be left alone now, sorted."""
        found = {}
        for node in sorted(self._refused):
            refused = self._refused[node]
            for pod, each in refused.items():
                if each.since > now:
                    refused[pod] = replace(each, since=now)
            started = self._started.get(node)
            since_then = [
                each
                for each in refused.values()
                if (started is None or each.at >= started) and each.since > now - KEPT_SECONDS
            ]
            pause = _pause(sorted(since_then, key=lambda each: (each.since, each.reason)))
            if pause is not None and pause.until > now:
                found[node] = pause
        return found

    def expire(self, now: float) -> None:
        """Forget what doesn't count any more."""
        oldest = now - KEPT_SECONDS
        self._started = {node: at for node, at in self._started.items() if at > oldest}
        for node, refused in list(self._refused.items()):
            for pod in [pod for pod, each in refused.items() if each.since <= oldest]:
                del refused[pod]
            if not refused:
                del self._refused[node]


def answer_of(pod: wire.Pod) -> Answer | None:
    """What the kubelet has said of this pod, if it has.

    Whatever its clock says, it was after the pod was made and bound.
    """
    status = pod.status
    refusal = ""
    if status.phase == "Failed":
        refusal = status.reason if _is_refusal(status) else ""
    if not pod.spec.node_name or not (refusal or status.phase in ("Running", "Succeeded")):
        return None
    bound = [each.last_transition_time for each in status.conditions if each.type == "PodScheduled"]
    instants = (pod.metadata.creation_timestamp, status.start_time, *bound)
    return Answer(max(fields.seconds(each) for each in instants), refusal)


def _is_refusal(status: wire.PodStatus) -> bool:
    """Whether the pod never ran, for a reason that is about its node."""
    reason = status.reason
    if reason == UNDER_PRESSURE:
        return status.message.startswith(REJECTED)
    return reason in REASONS or reason.startswith(SHORT_OF)


def _pause(refusals: Iterable[KubeletRefusal]) -> snapshot.Refused | None:
    """The last pause that these, one after the other, led to."""
    pause: snapshot.Refused | None = None
    for each in refusals:
        seconds = FIRST_SECONDS
        if pause is not None:
            if each.since < pause.until:  # it was bound before the pause began
                continue
            if each.since < pause.until + LONGEST_SECONDS:
                seconds = min(2 * pause.seconds, LONGEST_SECONDS)
        pause = snapshot.Refused(reason=each.reason, seconds=seconds, until=each.since + seconds)
    return pause


class NominatedPods:
    """Pods of other schedulers that wait for room that is nominated to them.

    Kept as pods come, change and go; sorted anew only when one of them did.
    """

    def __init__(self) -> None:
        self._found: dict[jobs.TaskId, snapshot.Nominated] = {}
        self._frozen: tuple[snapshot.Nominated, ...] | None = ()

    def note(self, uid: jobs.TaskId, found: snapshot.Nominated | None) -> None:
        """What this pod is nominated to, if anything: None, too, when it has gone."""
        if self._found.get(uid) == found:
            return
        if found is None:
            del self._found[uid]
        else:
            self._found[uid] = found
        self._frozen = None

    def freeze(self) -> tuple[snapshot.Nominated, ...]:
        """The highest priority first, then by name; the last answer again if nothing changed."""
        if self._frozen is None:
            order = sorted(self._found.values(), key=lambda each: (-each.priority, each.key))
            self._frozen = tuple(order)
        return self._frozen


def nomination_of(
    pod: wire.Pod,
    key: str,
    kind: jobs.PodClass,
    status: jobs.TaskStatus,
    labels: Mapping[str, str],
) -> snapshot.Nominated | None:
    """A pod of another scheduler, if it counts on the node that it is nominated to.

    kube-scheduler writes the node down when it evicts others for the pod, or is about to bind it,
    and takes that back when it finds no room for it after all; it forgets pods that are bound or
    deleted (its nominator). What is being deleted won't start, nor does what waits at a gate.
    """
    node = pod.status.nominated_node_name
    if not node or status is not jobs.TaskStatus.PENDING:
        return None
    return snapshot.Nominated(
        key=key,
        node=node,
        priority=pod.spec.priority or 0,
        kind=kind,
        namespace=pod.metadata.namespace,
        labels=labels,
    )
