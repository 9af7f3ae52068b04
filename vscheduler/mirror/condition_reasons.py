"""Reasons of conditions: which words pods get for the reason why they wait.

The condition of a PodGroup has the reason's own code, as `simulate`, metrics and the page have.
Where Volcano tells no reason of its own, it says NotEnoughResources.
"""

from vscheduler.core.model import decisions

UNSCHEDULABLE = "Unschedulable"

WAITS_FOR_VOLUMES = str(decisions.ReasonCode.WAITS_FOR_VOLUMES)
"""The reason of conditions and events of pods that have a node, and wait for their claims."""

WAITS_FOR_DEVICES = str(decisions.ReasonCode.WAITS_FOR_DEVICES)
"""The same for pods whose devices the API server refuses to have allocated."""

NOT_ADMITTED = frozenset(
    {
        decisions.ReasonCode.QUEUE_FULL,
        decisions.ReasonCode.QUOTA_FULL,
        decisions.ReasonCode.CLUSTER_FULL,
    }
)
"""Reason codes of groups that wait for admission. Waiting for admission deserves no warning
(Volcano: JobEnqueueable).
"""

CLAIMS = (decisions.ReasonCode.WAITS_FOR_VOLUMES, decisions.ReasonCode.WAITS_FOR_DEVICES)
"""Reason codes of jobs that have nodes and wait for their claims."""

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
    decisions.ReasonCode.BIND_REFUSED,
    decisions.ReasonCode.WAITS_FOR_VOLUMES,
    decisions.ReasonCode.WAITS_FOR_DEVICES,
}
"""Reason codes with which pods would wait even in an empty cluster."""


def is_expected(reason: decisions.Reason) -> bool:
    """Whether waiting for this reason deserves no warning: admission and claims take time."""
    return not is_late(reason) if reason.code in CLAIMS else reason.code in NOT_ADMITTED


def is_late(reason: decisions.Reason) -> bool:
    """Whether volumes or devices that the job waits for could not be had so far."""
    volumes, devices = reason.volumes, reason.devices
    late = volumes is not None and bool(volumes.pause or volumes.refusal)
    return late or (devices is not None and bool(devices.refusal))


def pod_reason(reason: decisions.Reason) -> str:
    """Return the reason of the PodScheduled condition of pods that wait for this reason.

    Cluster autoscalers and Karpenter add nodes for pods with reason Unschedulable only. Pods
    therefore get Unschedulable only where a new node could help, and the reason's own code
    otherwise.
    """
    capped = any(shortage.owner for shortage in reason.shortages)
    return str(reason.code) if capped or reason.code in NO_NODE_HELPS else UNSCHEDULABLE
