"""What queues are owed: what waits of theirs though their shares have room for it."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from vscheduler.core.model import decisions, jobs

SLACK = 1e-3
"""A share that is short of a whole pod by so little has room for it: shares are fractions."""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """What waits in one queue."""

    groups: int = 0
    """PodGroups that wait, whole or in part."""
    pods: int = 0
    """Their pods that have no node."""
    classes: Counter[jobs.TaskClass] = field(default_factory=Counter)
    """Those of these pods that found no room, or wait for some; not those of groups that aren't
    admitted, unless the cluster is all that has no room for them."""


def waiting(result: decisions.CycleResult) -> Mapping[str, Waiting]:
    """What waits after this cycle, by queue; queues in which nothing does aren't in it."""
    found: defaultdict[str, Waiting] = defaultdict(Waiting)
    for group in result.groups:
        if group.reason is not None:
            queue = found[group.queue]
            queue.groups += 1
            without = group.reason.tasks - group.reason.placed - group.failed
            queue.pods += max(len(group.unplaced), without)
            queue.classes.update(task.kind for task in group.unplaced)
    queues = {group.job: group.queue for group in result.groups} if result.pipelined else {}
    for pipeline in result.pipelined:
        if pipeline.task.job in queues:
            queue = found[queues[pipeline.task.job]]
            queue.pods += 1
            queue.classes[pipeline.task.kind] += 1
    return found


def missing(
    figures: decisions.QueueFigures, classes: Mapping[jobs.TaskClass, int]
) -> dict[str, float]:
    """What as many of these pods ask for as what the queue deserves still has room for.

    A pod counts only if there is room for it in every resource that the queue deserves any of:
    where CPU is scarce and memory isn't, a queue that has its CPU lacks no memory. So does one
    whose share ends within a pod.
    """
    deserved = {} if figures.entitlement is None else figures.entitlement.deserved
    room = {name: each - figures.allocated.get(name, 0) for name, each in deserved.items()}
    lacks: defaultdict[str, float] = defaultdict(float)
    for kind, pods in classes.items():
        asked = {name: each for name, each in kind.request.items() if each and name in room}
        fitting = min(
            (pods, *((room[name] + SLACK) // each for name, each in asked.items()))
            if asked
            else (0,)
        )
        for name, each in asked.items() if fitting > 0 else ():
            lacks[name] += fitting * each
            room[name] -= fitting * each
    return lacks


def owed(figures: decisions.QueueFigures, lacks: Mapping[str, float]) -> dict[str, float]:
    """What the queue has of what it deserves, and what it lacks; without what is nothing."""
    deserved = {} if figures.entitlement is None else figures.entitlement.deserved
    amounts = {
        name: min(figures.allocated.get(name, 0), each) + lacks.get(name, 0)
        for name, each in deserved.items()
    }
    return {name: amount for name, amount in amounts.items() if amount > 0}
