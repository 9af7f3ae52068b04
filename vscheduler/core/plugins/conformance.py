"""Conformance: pods that the cluster itself needs never make room for others.

Volcano: plugins/conformance.
"""

from collections.abc import Sequence

from vscheduler.core.api import contracts
from vscheduler.core.model import jobs

CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
"""Priority classes of pods that the cluster needs."""

SYSTEM_NAMESPACE = "kube-system"


class Conformance(contracts.Plugin):
    """Protects kube-system, and pods of the two system priority classes anywhere."""

    name = "conformance"
    victim_role = contracts.VictimRole.PROTECTS

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """All others, whoever asks (Volcano: conformance evictableFn)."""
        del claimant
        return [task for task in candidates if not _critical(task)]

    reclaimable = preemptable


def _critical(task: jobs.Task) -> bool:
    return task.priority_class in CRITICAL or task.namespace == SYSTEM_NAMESPACE
