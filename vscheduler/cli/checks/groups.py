"""Checks of PodGroups that would wait forever, or that don't mean what they seem to."""

from collections.abc import Iterator, Mapping
from typing import Any

from vscheduler.cli.checks import native_groups
from vscheduler.cli.checks.findings import FindingText
from vscheduler.core.topology.network import NetworkTopology, SettingError, UnknownError
from vscheduler.mirror.translate import translation
from vscheduler.mirror.wording import phrases, sentences
from vscheduler.model import jobs
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.model.jobs import Job, Task
from vscheduler.model.queues import ROOT, Queue
from vscheduler.model.resources import ResourceMap, ResourceSpace

Code = ReasonCode

ALWAYS = frozenset(
    {
        *(Code.QUEUE_CLOSED, Code.QUEUE_BARRED, Code.NOT_LEAF, Code.BAD_SETTING),
        Code.POD_GROUP_ERROR,
    }
)
"""Reasons that need a change of the input."""

WITH_PODS = frozenset({Code.TOO_FEW_PODS, Code.TOO_FEW_OF_ROLE, Code.TOO_FEW_SUB_GROUPS})
"""Reasons that only count if the group's pods are in the input."""

SYSTEM_CLASSES = "system-"
"""Name prefix of the PriorityClasses that exist in every cluster."""

HARD_WAITS = (
    "keeps the group from starting: plugin network-topology-aware isn't configured; add it, set "
    "mode soft, or hardNetworkTopology: anywhere in the scheduler's configuration"
)
NOT_READ = (
    "isn't looked at without plugin network-topology-aware: the pods start wherever there is room"
)

FIELDS: Mapping[Code, str] = {
    Code.QUEUE_MISSING: "spec.queue",
    Code.QUEUE_CLOSED: "spec.queue",
    Code.QUEUE_BARRED: "spec.queue",
    Code.NOT_LEAF: "spec.queue",
    Code.BAD_SETTING: "metadata.annotations",
    Code.TOO_FEW_PODS: "spec.minMember",
    Code.TOO_FEW_OF_ROLE: "spec.minTaskMember",
    Code.TOO_FEW_SUB_GROUPS: "spec.subGroupPolicy",
}


def waiting(
    result: CycleResult, *, with_pods: frozenset[str], complete: bool
) -> Iterator[FindingText]:
    """Iterate over reasons from a cycle why groups can't start, as far as the input proves them.

    `with_pods` are the groups with pods in the input. `complete` tells whether the input has
    queues.
    """
    for status in result.groups:
        reason = status.reason
        if reason is None:
            continue
        fields = native_groups.fields(status.job) if jobs.is_native(status.job) else FIELDS
        proven = reason.code in ALWAYS
        proven |= reason.code is Code.QUEUE_MISSING and complete
        proven |= reason.code in WITH_PODS and status.job in with_pods
        if proven:
            yield FindingText(
                status.job, fields.get(reason.code, "spec"), sentences.sentence(reason)
            )


def remarks(job: Job, queues: Mapping[str, Queue], *, enqueue: bool) -> Iterator[FindingText]:
    """Iterate over findings about a group and its queue."""
    if job.queue == ROOT:
        message = "root is above all queues and not for jobs; name one below it"
        native = jobs.is_native(job.id)
        yield FindingText(job.id, native_groups.QUEUE_FIELD if native else "spec.queue", message)
    if job.role_minimum > job.min_member:
        message = (
            f"is ignored: its sum, {job.role_minimum}, is more than minMember, {job.min_member}"
        )
        yield FindingText(job.id, "spec.minTaskMember", message)
    queue = queues.get(job.queue)
    if queue is not None and enqueue and job.min_resources:
        yield from _never_admitted(job, queue, job.min_resources)


def of_object(key: str, spec: Mapping[str, Any], classes: frozenset[str]) -> Iterator[FindingText]:
    """Iterate over findings from the object alone; `classes` are the PriorityClasses of the input,
    if any.
    """
    wanted = spec.get("priorityClassName")
    if classes and wanted and wanted not in classes and not wanted.startswith(SYSTEM_CLASSES):
        message = f"PriorityClass {wanted} isn't among those given; without it the priority is 0"
        yield FindingText(key, "spec.priorityClassName", message)


def without_topologies(
    key: str, spec: Mapping[str, Any], *, hard_waits: bool
) -> Iterator[FindingText]:
    """Iterate over requests to be near to each other, of which no plugin knows anything.

    `hard_waits`: gangs with a hard request wait.
    """
    parts = {f"spec.subGroupPolicy[{at}]": each for at, each in _items(spec, "subGroupPolicy")}
    for field, part in ({"spec": spec} | parts).items():
        topology = part.get("networkTopology")
        if topology is not None:
            hard = topology.get("mode") != translation.SOFT
            message = HARD_WAITS if hard and hard_waits else NOT_READ
            yield FindingText(key, f"{field}.networkTopology", message)


def with_topologies(job: Job, topology: NetworkTopology) -> Iterator[FindingText]:
    """Iterate over requests to be near to each other that can't be met as they are."""
    try:
        topology.check(job)
    except UnknownError as problem:
        message = f"keeps the group from starting: {problem}"
        native = jobs.is_native(job.id)
        field = native_groups.TOPOLOGY_FIELD if native else "spec.networkTopology"
        yield FindingText(job.id, field, message)
    except SettingError as problem:
        yield FindingText(job.id, "metadata.annotations", str(problem))


def of_pods(job: Job, spec: Mapping[str, Any], values: Mapping[str, int]) -> Iterator[FindingText]:
    """Iterate over groups without a class whose pods differ in priority; `values` are those of the
    PriorityClasses of the input.
    """
    if spec.get("priorityClassName"):
        return
    found = {_priority(task, values) for task in job.tasks}
    if len({value if value is not None else name for name, value in found}) > 1:
        named = sorted(
            f"{name} ({value})" if name and value is not None else name or str(value)
            for name, value in found
        )
        message = (
            f"is missing, and its pods have the priorities {phrases.listed(named)}: the lowest "
            "counts for the group; name the class that is meant"
        )
        yield FindingText(job.id, "spec.priorityClassName", message)


def _priority(task: Task, values: Mapping[str, int]) -> tuple[str, int | None]:
    """Return class and priority of a pod; None if the class isn't given."""
    name = task.priority_class
    if task.pod_priority or not name:
        return name, task.pod_priority
    return name, values.get(name)


def _items(spec: Mapping[str, Any], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    yield from enumerate(spec.get(name) or ())


def _never_admitted(job: Job, queue: Queue, needs: ResourceMap) -> Iterator[FindingText]:
    """Iterate over minResources that exceed the queue's capability, so the group is never
    admitted.
    """
    space = ResourceSpace.of(needs)
    most = queue.ceiling(space)
    for name, amount in sorted(needs.items()):
        limit = float(most[space.columns[name]])
        if amount > limit:
            message = (
                f"is never admitted: {phrases.amount(name, amount)} {name} is more than the "
                f"capability of queue {queue.name}, {phrases.amount(name, limit)}"
            )
            yield FindingText(job.id, f"spec.minResources.{name}", message)
