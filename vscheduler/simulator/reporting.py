"""An Outcome as the JSON tree that people and programs read: sorted, in Kubernetes' spelling."""

from collections.abc import Sequence
from typing import Any

from vscheduler.core.model import decisions, jobs
from vscheduler.mirror import queue_status, queue_statuses, statuses, wording
from vscheduler.mirror.decode import quantities
from vscheduler.simulator import run


def tree(outcome: run.Outcome) -> dict[str, Any]:
    """Binds and evictions of all cycles; everything else as it is after the last one."""
    last = outcome.last
    binds = [
        (number, bind) for number, result in enumerate(outcome.results, 1) for bind in result.binds
    ]
    binds.sort(key=_pod)
    return {
        "binds": {bind.task.key: bind.node for _, bind in binds},
        "bindCycles": {bind.task.key: number for number, bind in binds},
        "pipelined": {each.task.key: each.node for each in last.pipelined},
        "evicts": [
            _evict(evict, number)
            for number, result in enumerate(outcome.results, 1)
            for evict in result.evicts
        ],
        "podGroups": {
            status.job: _group(status, outcome.states[status.job]) for status in last.groups
        },
        "queues": {queue.name: _queue(queue, last.excluded) for queue in last.queues},
        "total": quantities.format_amounts(last.total),
        "excluded": [{"reason": each.reason, "nodes": list(each.nodes)} for each in last.excluded],
    }


def _pod(bound: tuple[int, decisions.Bind]) -> str:
    return bound[1].task.key


def _evict(evict: decisions.Evict, number: int) -> dict[str, Any]:
    return {
        "pod": evict.task.key,
        "node": evict.node,
        "action": evict.action,
        "for": evict.beneficiary,
        "cycle": number,
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


def _queue(
    queue: decisions.QueueFigures, excluded: Sequence[decisions.Exclusion]
) -> dict[str, Any]:
    figures: dict[str, Any] = {"state": str(queue.state), "weight": queue.weight}
    entitlement = queue.entitlement
    if entitlement is not None:
        figures["deserved"] = quantities.format_amounts(entitlement.deserved)
    figures["allocated"] = quantities.format_amounts(queue.allocated)
    figures["request"] = quantities.format_amounts(queue.request)
    if entitlement is not None:
        if entitlement.real_capability is not None:
            figures["realCapability"] = quantities.format_amounts(entitlement.real_capability)
        figures["share"] = round(entitlement.share, queue_statuses.SHARE_DIGITS)
        if entitlement.bases:
            usable = {name: basis.usable for name, basis in entitlement.bases.items()}
            figures["usable"] = quantities.format_amounts(usable)
    explained = queue_status.explanation(queue, excluded)
    if explained is not None:
        figures["message"] = explained.message
    return figures
