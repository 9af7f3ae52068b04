"""Checks of waiting pods that their queue, or every given node, keeps out for good."""

from collections.abc import Iterator

from vscheduler.cli.checks.findings import FindingText
from vscheduler.mirror.wording import phrases
from vscheduler.model import nodes, queues, resources
from vscheduler.model.constraints import Constraints
from vscheduler.model.jobs import Job, TaskStatus
from vscheduler.model.queues import Queue
from vscheduler.model.resources import ResourceSpace
from vscheduler.model.snapshot import Snapshot


def of_gangs(snapshot: Snapshot) -> Iterator[FindingText]:
    """Iterate over gangs whose smallest pods are more than a queue may have."""
    paths = queues.tree(snapshot.queues, {}).paths
    for job in snapshot.jobs:
        lacking = job.min_member - job.ready_tasks
        if not 0 < lacking <= sum(count for _, count in job.classes.values()):
            continue
        for name in (job.queue, *reversed(paths.get(job.queue, ()))):
            if name in snapshot.queues:
                yield from _beyond(job, lacking, snapshot.queues[name])


def _beyond(job: Job, lacking: int, queue: Queue) -> Iterator[FindingText]:
    names = {name for each in job.classes for name in each.counted}
    space = ResourceSpace.of(dict.fromkeys(names, 1))
    most = queue.ceiling(space)
    for name in sorted(names - {resources.PODS}):
        needs, limit = job.least(name, lacking), float(most[space.columns[name]])
        if needs > limit:
            has = f"more than the capability of queue {queue.name}, {phrases.amount(name, limit)}"
            verb = "needs" if lacking == 1 else "need"
            pods = f"{phrases.pods(lacking)} {verb} {phrases.quantity(name, needs)}"
            yield FindingText(job.id, "spec.minMember", f"the job never starts: {pods}, {has}")


def of_pods(snapshot: Snapshot) -> Iterator[FindingText]:
    """Iterate over waiting pods whose selectors match no node, one for each set of selectors."""
    layout, seen = snapshot.nodes.layout, set[tuple[object, object]]()
    for task in (task for job in snapshot.jobs for task in job.tasks):
        limits = task.pod_class.constraints
        key = limits.node_selector, limits.required
        if task.status is not TaskStatus.PENDING or key in seen:
            continue
        seen.add(key)
        if layout.size and not nodes.selected(layout, limits).any():
            message = f"no given node has {_asked(limits)}: the pod waits for one"
            yield FindingText(task.key, _field(limits), message)


def _asked(limits: Constraints) -> str:
    asked = [f"{key}={value}" for key, value in limits.node_selector]
    if limits.required is not None:
        asked.append("what its node affinity requires")
    return phrases.listed(asked)


def _field(limits: Constraints) -> str:
    return "spec.nodeSelector" if limits.node_selector else "spec.affinity.nodeAffinity"
