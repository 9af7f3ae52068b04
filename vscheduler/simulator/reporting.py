"""An Outcome as the JSON tree that people and programs read: sorted, in Kubernetes' spelling."""

import math
from collections.abc import Mapping
from typing import Any

from vscheduler.core.model import decisions, jobs
from vscheduler.mirror import quantities, statuses, wording
from vscheduler.simulator import run

SHARE_DIGITS = 6


def tree(outcome: run.Outcome) -> dict[str, Any]:
    """Binds and evictions of all cycles; everything else as it is after the last one."""
    last = outcome.last
    return {
        "binds": {bind.task.key: bind.node for bind in sorted(outcome.binds, key=_pod)},
        "pipelined": {each.task.key: each.node for each in last.pipelined},
        "evicts": [_evict(evict) for evict in outcome.evicts],
        "podGroups": {
            status.job: _group(status, outcome.states[status.job]) for status in last.groups
        },
        "queues": {queue.name: _queue(queue) for queue in last.queues},
        "total": amounts(last.total),
    }


def amounts(named: Mapping[str, float]) -> dict[str, str]:
    """Kubernetes quantities by resource; what is unlimited is left out."""
    return {
        name: quantities.format_quantity(name, amount)
        for name, amount in sorted(named.items())
        if math.isfinite(amount)
    }


def _pod(bind: decisions.Bind) -> str:
    return bind.task.key


def _evict(evict: decisions.Evict) -> dict[str, Any]:
    return {
        "pod": evict.task.key,
        "node": evict.node,
        "action": evict.action,
        "for": evict.beneficiary,
    }


def _group(status: decisions.GroupStatus, state: jobs.GroupState) -> dict[str, Any]:
    reason = status.reason
    said = {"reason": str(reason.code), "message": wording.sentence(reason)} if reason else {}
    return {
        "phase": str(status.phase),
        "queue": status.queue,
        **said,
        "conditions": [statuses.condition(each) for each in state.conditions],
    }


def _queue(queue: decisions.QueueFigures) -> dict[str, Any]:
    figures: dict[str, Any] = {"state": str(queue.state), "weight": queue.weight}
    entitlement = queue.entitlement
    if entitlement is not None:
        figures["deserved"] = amounts(entitlement.deserved)
    figures["allocated"] = amounts(queue.allocated)
    figures["request"] = amounts(queue.request)
    if entitlement is not None:
        if entitlement.real_capability is not None:
            figures["realCapability"] = amounts(entitlement.real_capability)
        figures["share"] = round(entitlement.share, SHARE_DIGITS)
        if entitlement.problem is not None:
            figures["message"] = wording.queue_problem(entitlement.problem)
    return figures
