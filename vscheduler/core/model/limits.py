"""Limits that others set: PodDisruptionBudgets and ResourceQuotas."""

from dataclasses import dataclass

from vscheduler.core.model import constraints, jobs, resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget, as far as evictions depend on it."""

    namespace: str
    name: str
    selector: constraints.Selector | None
    """None selects no pod (policy/v1: a missing selector)."""
    allowed: int
    """status.disruptionsAllowed: how many of its pods may go now."""

    def covers(self, task: jobs.Task) -> bool:
        """Whether the task's pod is one of those that it protects."""
        return (
            self.selector is not None
            and task.namespace == self.namespace
            and self.selector.matches(task.labels)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A ResourceQuota without scopes: what a namespace may request in sum.

    Names are a pod's resources (`requests.cpu` and `cpu` are both cpu), amounts as in
    resources.Amounts; what limits nothing that pods request isn't in it.
    """

    namespace: str
    name: str
    hard: resources.Amounts
    used: resources.Amounts
