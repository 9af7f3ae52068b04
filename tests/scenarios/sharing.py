"""What cycles make of shares, in figures that compare and read well."""

from collections import Counter
from typing import Any

from vscheduler.core.config import policy
from vscheduler.model.decisions import Basis, CycleResult

BUILT_IN: dict[str, Any] = dict(policy.BUILT_IN)


def deserved(result: CycleResult, resource: str = "cpu") -> dict[str, float]:
    """By queue; cpu in cores."""
    unit = 1000 if resource == "cpu" else 1
    return {
        queue.name: round(queue.entitlement.deserved.get(resource, 0) / unit, 3)
        for queue in result.queues
        if queue.entitlement is not None and queue.name not in ("default", "root")
    }


def basis(result: CycleResult, name: str, resource: str = "cpu") -> Basis:
    """How a queue's share came about."""
    (found,) = [queue.entitlement for queue in result.queues if queue.name == name]
    assert found is not None
    return found.bases[resource]


def losers(result: CycleResult) -> Counter[str]:
    """How many pods each job loses, or each queue where jobs are single pods."""
    names = {status.job: status.queue for status in result.groups}
    return Counter(names[evict.task.job] for evict in result.evicts)
