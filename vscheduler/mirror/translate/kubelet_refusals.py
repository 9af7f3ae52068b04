"""Nodes reserved or avoided because of pod statuses: refusals by kubelets, and nominations by
foreign schedulers.

Two schedulers that bind to a node at the same moment can't know of each other. The kubelet admits
the first pod and refuses the second for good: the pod is Failed, and its controller creates a
replacement at once. To avoid an endless series of refusals, we stop using the node for a while:
half a minute at first, longer after each further refusal, until a pod of ours starts there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from vscheduler.mirror.decode.wire import Pod, PodStatus
from vscheduler.model.jobs import PodClass, TaskId, TaskStatus
from vscheduler.model.snapshot import Nominated, Refused

FIRST_SECONDS = 30
LONGEST_SECONDS = 300
KEPT_SECONDS = 3600.0
"""How long a refusal counts towards later pauses, in seconds. An hour is enough for the series of
refusals that leads to the longest pause.
"""

SHORT_OF = "OutOf"
"""Prefix of reasons for a lack of a resource: `OutOfcpu`, `OutOfnvidia.com/gpu`."""

REASONS = frozenset(
    {
        *("UnexpectedAdmissionError", "UnexpectedPredicateFailureType", "UnknownReason"),
        *("InvalidNodeInfo", "NodeShutdown", "NodeName", "NodePorts"),
        *("NodeAffinity", "NodeAffinityChanged", "TaintToleration"),
    }
)
"""Further reasons that concern the node (Kubernetes: kubelet lifecycle, nodeshutdown). Reasons that
concern the pod's own request (SysctlForbidden, AppArmor, PodOSNotSupported and more) are left out:
otherwise a single user could make every node unusable for everybody.
"""

UNDER_PRESSURE = "Evicted"
REJECTED = "Pod was rejected"
"""Message prefix of a refusal by a node under pressure. The reason alone doesn't tell refusals from
evictions.
"""


class Answer(msgspec.Struct, frozen=True):
    """The kubelet's answer about a pod of ours that was bound to its node."""

    at: float
    """Seconds since the epoch."""
    refusal: str = ""
    """The reason of a refusal; empty if the kubelet started the pod."""


class KubeletRefusal(msgspec.Struct, frozen=True):
    """A pod refused by a kubelet."""

    reason: str
    at: float
    """Time by the kubelet's clock, in seconds since the epoch."""
    since: float
    """Like `at`, but not after the refusal was first seen here, for the kubelet's clock may be
    ahead.
    """


class KubeletRefusals:
    """Refusals by node, and the resulting pauses.

    Refusals outlive the pods: controllers delete a refused pod and create a replacement.
    """

    def __init__(self) -> None:
        self._refused: defaultdict[str, dict[TaskId, KubeletRefusal]] = defaultdict(dict)
        """By node."""
        self._started: dict[str, float] = {}
        """When a pod of ours was last started, by node."""

    def note(self, pod: TaskId, node: str, answer: Answer) -> None:
        """Record the kubelet's answer about a pod. Repetitions change nothing."""
        if not answer.refusal:
            self._started[node] = max(answer.at, self._started.get(node, answer.at))
        elif pod not in self._refused[node]:
            self._refused[node][pod] = KubeletRefusal(answer.refusal, answer.at, answer.at)

    def current(self, now: float) -> Mapping[str, Refused]:
        """Return the nodes to avoid at present, sorted."""
        found = {}
        for node in sorted(self._refused):
            refused = self._refused[node]
            for pod, each in refused.items():
                if each.since > now:  # the kubelet's clock is ahead: count from the first look
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
        """Forget answers that no longer count."""
        oldest = now - KEPT_SECONDS
        self._started = {node: at for node, at in self._started.items() if at > oldest}
        for node, refused in list(self._refused.items()):
            for pod in [pod for pod, each in refused.items() if each.since <= oldest]:
                del refused[pod]
            if not refused:
                del self._refused[node]


def answer_of(pod: Pod, at: float) -> Answer | None:
    """Return the kubelet's answer in the status of a pod, or None.

    `at` is the time of an answer: never before the pod was created and bound, whatever the
    kubelet's clock says.
    """
    status = pod.status
    refusal = ""
    if status.phase == "Failed":
        refusal = status.reason if _is_refusal(status) else ""
    if not pod.spec.node_name or not (refusal or status.phase in ("Running", "Succeeded")):
        return None
    return Answer(at, refusal)


def _is_refusal(status: PodStatus) -> bool:
    """Whether the pod never ran, for a reason that concerns its node."""
    reason = status.reason
    if reason == UNDER_PRESSURE:
        return status.message.startswith(REJECTED)
    return reason in REASONS or reason.startswith(SHORT_OF)


def _pause(refusals: Iterable[KubeletRefusal]) -> Refused | None:
    """Return the last pause caused by a series of refusals, sorted by time."""
    pause: Refused | None = None
    for refusal in refusals:
        seconds = FIRST_SECONDS
        if pause is not None:
            if refusal.since < pause.until:  # the pod was bound before the pause began
                continue
            if refusal.since < pause.until + LONGEST_SECONDS:
                seconds = min(2 * pause.seconds, LONGEST_SECONDS)
        pause = Refused(reason=refusal.reason, seconds=seconds, until=refusal.since + seconds)
    return pause


class NominatedPods:
    """Pods of foreign schedulers with a nominated node. Sorted again only after a change."""

    def __init__(self) -> None:
        self._found: dict[TaskId, Nominated] = {}
        self._frozen: tuple[Nominated, ...] | None = ()

    def note(self, uid: TaskId, nominated: Nominated | None) -> None:
        """Record the nomination of a pod; None without a nomination, or when the pod is gone."""
        if self._found.get(uid) == nominated:
            return
        if nominated is None:
            del self._found[uid]
        else:
            self._found[uid] = nominated
        self._frozen = None

    def freeze(self) -> tuple[Nominated, ...]:
        """Return nominated pods, highest priority first, then by name; the last tuple again if
        unchanged.
        """
        if self._frozen is None:
            order = sorted(self._found.values(), key=lambda each: (-each.priority, each.key))
            self._frozen = tuple(order)
        return self._frozen


def nomination_of(
    pod: Pod,
    key: str,
    pod_class: PodClass,
    status: TaskStatus,
    labels: Mapping[str, str],
) -> Nominated | None:
    """Return the nomination of a foreign pod, if the pod counts on its nominated node.

    kube-scheduler nominates a node when evicting pods in favour of this pod, or just before
    binding. kube-scheduler clears the nomination when the pod turns out not to fit, and forgets
    pods that are bound or deleted (its nominator). A pod that is being deleted or gated won't
    start, and doesn't count either.
    """
    node = pod.status.nominated_node_name
    if not node or status is not TaskStatus.PENDING:
        return None
    return Nominated(
        key=key,
        node=node,
        priority=pod.spec.priority or 0,
        pod_class=pod_class,
        namespace=pod.metadata.namespace,
        labels=labels,
    )
