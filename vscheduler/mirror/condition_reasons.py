"""Reasons of conditions: which words pods get for the reason why they wait.

The condition of a PodGroup has the reason's own code, as `simulate`, metrics and the page have.
Where Volcano tells no reason of its own, it says NotEnoughResources.
"""

from vscheduler.core.model.decisions import WAITS_FOR_CLAIMS, Reason, ReasonCode

UNSCHEDULABLE = "Unschedulable"

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
    ReasonCode.NOT_LEAF,
    ReasonCode.SET_ASIDE,
    ReasonCode.BAD_SETTING,
    ReasonCode.TOPOLOGY_UNKNOWN,
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
