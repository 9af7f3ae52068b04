"""Conformance: pods the cluster itself depends on are never evicted.

Volcano: plugins/conformance.
"""

from collections.abc import Sequence

from vscheduler.core.api.contracts import Plugin, VictimRole
from vscheduler.core.api.depends import On, depends_on
from vscheduler.model.jobs import Task

CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
"""Priority classes of pods the cluster depends on."""

SYSTEM_NAMESPACE = "kube-system"


class Conformance(Plugin):
    """Protects pods in kube-system, and pods of both system priority classes in any namespace."""

    name = "conformance"
    victim_role = VictimRole.PROTECTS

    @depends_on(On.VICTIM)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return all other pods, for any preemptor (Volcano: conformance evictableFn)."""
        del preemptor
        return [task for task in candidates if not _critical(task)]

    reclaimable = preemptable


def _critical(task: Task) -> bool:
    """Whether the cluster depends on the pod."""
    return task.priority_class in CRITICAL or task.namespace == SYSTEM_NAMESPACE
