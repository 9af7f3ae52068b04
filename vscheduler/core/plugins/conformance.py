"""Conformance: pods the cluster itself depends on are never evicted.

Volcano: plugins/conformance.
"""

from collections.abc import Sequence

from vscheduler.core.api import contracts
from vscheduler.core.model import jobs

CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
"""Priority classes of pods the cluster depends on."""

SYSTEM_NAMESPACE = "kube-system"


class Conformance(contracts.Plugin):
    """Protects pods in kube-system, and pods of both system priority classes in any namespace."""

    name = "conformance"
    claims_last = True
    victim_role = contracts.VictimRole.PROTECTS

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Return all other pods, for any claimant (Volcano: conformance evictableFn)."""
        del claimant
        return [task for task in candidates if not _critical(task)]

    reclaimable = preemptable


def _critical(task: jobs.Task) -> bool:
    """Whether the cluster depends on the pod."""
    return task.priority_class in CRITICAL or task.namespace == SYSTEM_NAMESPACE
