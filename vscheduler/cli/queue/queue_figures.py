"""Figures of a queue, from objects of the API server, for tables.

Objects are taken as they are: unwritten fields are absent, unreadable values are shown literally.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from vscheduler.cli import screen
from vscheduler.mirror import queue_status, statuses
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import QuantityError
from vscheduler.mirror.wording import phrases
from vscheduler.model import jobs, queues, resources
from vscheduler.model.decisions import LimitedBy
from vscheduler.model.jobs import Phase
from vscheduler.model.queues import DEFAULT, Queue, QueueState, Tree
from vscheduler.model.resources import ResourceSpace

FAIR_SHARE = queue_status.condition_type("")
"""Suffix of a condition type; the prefix is the scheduler that wrote the condition."""

UNSCHEDULABLE = "Unschedulable"
WRITTEN_COUNTS = ("pending", "inqueue", "running", "unknown", "completed")
ABSENT = "-"
BY_WEIGHT = {str(LimitedBy.WEIGHT), str(LimitedBy.REQUEST), str(LimitedBy.CAPABILITY)}
"""Reasons of conditions that only schedulers give which divide by weight."""

Object = Mapping[str, Any]
Quantities = Mapping[str, str]
"""Amounts by resource, as written in an object."""

GroupCounts = Mapping[tuple[str, str], int]
"""Number of PodGroups by queue and phase."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup, reduced to fields relevant for its queue."""

    key: str
    queue: str
    phase: str
    created: float
    waits_because: str
    """The message of condition Unschedulable while the condition is True."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of PodGroups by phase."""

    pending: int
    inqueue: int
    running: int


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What a scheduler has given to a queue, and what the queue deserves under this scheduler."""

    scheduler: str
    allocated: Quantities
    deserved: Quantities
    share: float | None


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """Why a queue deserves what it deserves, as a scheduler says."""

    scheduler: str
    text: str
    reason: str = ""
    """The condition's reason: a decisions.LimitedBy, or a word of queue_status."""
    written: float = 0.0
    """When the scheduler last changed the status; 0 if unknown."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with its figures."""

    name: str
    state: str
    weight: int
    priority: int
    parent: str
    """Empty means root."""
    created: float
    allocated: Quantities
    deserved: Quantities
    request: Quantities
    real_capability: Quantities
    capability: Quantities
    guarantee: Quantities
    quota: Quantities
    """spec.deserved, used by plugin capacity."""
    share: float | None
    sentences: tuple[Sentence, ...]
    """Explanations of the deserved amounts, by scheduler."""
    counts: Counts | None
    """None where PodGroups can't be read."""
    schedulers: tuple["Part", ...] = ()
    """The figures of each scheduler, if more than one divides the queue's resources."""


def count_groups(groups: Iterable[Group]) -> GroupCounts:
    """Count PodGroups by queue and phase."""
    return Counter((group.queue, group.phase) for group in groups)


def figures(queue: Object, counted: GroupCounts | None) -> Figures:
    """Return the figures of a queue; `counted` is None where PodGroups can't be read.

    Counts written by a controller take precedence over `counted`.
    """
    queue = screen.plain(queue)
    metadata, spec, status = queue["metadata"], queue.get("spec") or {}, queue.get("status") or {}
    conditions = sorted(status.get("conditions") or (), key=lambda each: str(each.get("type")))
    return Figures(
        name=metadata["name"],
        state=status.get("state") or QueueState.OPEN,
        weight=spec.get("weight", 1),
        priority=spec.get("priority", 0),
        parent=spec.get("parent", ""),
        created=instant(metadata.get("creationTimestamp")),
        allocated=status.get("allocated") or {},
        deserved=status.get("deserved") or {},
        request=status.get("request") or {},
        real_capability=status.get("realCapability") or {},
        capability=spec.get("capability") or {},
        guarantee=(spec.get("guarantee") or {}).get("resource") or {},
        quota=spec.get("deserved") or {},
        share=status.get("share"),
        sentences=tuple(
            _sentence(condition, metadata)
            for condition in conditions
            if str(condition.get("type")).endswith(FAIR_SHARE)
        ),
        counts=_written(status) or _found(metadata["name"], counted),
        schedulers=_parts(status),
    )


def _sentence(condition: Object, metadata: Object) -> Sentence:
    scheduler = condition["type"].removesuffix(FAIR_SHARE)
    written = (queue_status.field_manager(scheduler), "status")
    times = [
        instant(each.get("time"))
        for each in metadata.get("managedFields") or ()
        if (each.get("manager"), each.get("subresource")) == written
    ]
    return Sentence(
        scheduler=scheduler,
        text=condition.get("message", ""),
        reason=str(condition.get("reason", "")),
        written=max(times, default=0.0),
    )


def _parts(status: Object) -> tuple[Part, ...]:
    """Return the figures by scheduler; none for a single scheduler, whose figures are the queue's.

    A queue's `allocated` counts the pods of all schedulers, and its `deserved` is that of the
    scheduler which wrote last: together they would say nothing.
    """
    found = [
        Part(
            scheduler=str(each.get("name", "")),
            allocated=each.get("allocated") or {},
            deserved=each.get("deserved") or {},
            share=each.get("share"),
        )
        for each in status.get("schedulers") or ()
    ]
    found.sort(key=lambda each: each.scheduler)
    return tuple(found) if len(found) > 1 else ()


def tree(shown: Iterable[Figures]) -> Tree:
    """Return the tree that these queues form."""
    known = {
        each.name: Queue(name=each.name, uid=each.name, created=each.created, parent=each.parent)
        for each in shown
    }
    return queues.tree(known, {})


def divided_by_weight(shown: Iterable[Figures]) -> bool:
    """Whether weights mean something: not to plugin capacity, which gives all queues quotas."""
    reasons = {sentence.reason for each in shown for sentence in each.sentences}
    return str(LimitedBy.QUOTA) not in reasons or bool(reasons & BY_WEIGHT)


def share(figures: Figures | Part) -> str:
    """Return the share with the resource that makes it, such as `0.96 (cpu)`."""
    if figures.share is None:
        return ABSENT
    return phrases.share(figures.share, _parsed(figures.allocated), _parsed(figures.deserved))


def _parsed(amounts: Quantities) -> dict[str, float]:
    """Return the readable ones of these amounts as numbers."""
    found: dict[str, float] = {}
    for name, text in amounts.items():
        with suppress(QuantityError):
            found[name] = quantities.parse(name, text)
    return found


def group(found: Object) -> Group:
    """Return a PodGroup from its JSON."""
    found = screen.plain(found)
    metadata, status = found["metadata"], found.get("status") or {}
    return Group(
        key=f"{metadata.get('namespace', '')}/{metadata['name']}",
        queue=(found.get("spec") or {}).get("queue") or DEFAULT,
        phase=status.get("phase") or Phase.PENDING,
        created=instant(metadata.get("creationTimestamp")),
        waits_because=next(
            (
                each.get("message", "")
                for each in status.get("conditions") or ()
                if each.get("type") == UNSCHEDULABLE and each.get("status") == "True"
            ),
            "",
        ),
    )


def native_group(found: Object) -> Group | None:
    """Return a PodGroup of Kubernetes' own API from its JSON; None until it has a queue."""
    found = screen.plain(found)
    metadata, conditions = found["metadata"], (found.get("status") or {}).get("conditions") or ()
    by_type = {str(each.get("type")): each for each in conditions}
    unschedulable, queue = by_type.get(statuses.NATIVE_UNSCHEDULABLE, {}), native_queue(metadata)
    if not queue:
        return None
    return Group(
        key=jobs.native_id(metadata.get("namespace", ""), metadata["name"]),
        queue=queue,
        phase=native_phase(by_type),
        created=instant(metadata.get("creationTimestamp")),
        waits_because=(
            unschedulable.get("message", "") if unschedulable.get("status") == "True" else ""
        ),
    )


def native_queue(metadata: Object) -> str:
    """Return the queue of a PodGroup of Kubernetes' own API; empty until it has one."""
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    return str(annotations.get(jobs.QUEUE_NAME) or labels.get(jobs.QUEUE_NAME) or "")


def native_phase(
    conditions: Mapping[str, Object], scheduled: str = jobs.INITIALLY_SCHEDULED
) -> str:
    """Return the phase of a PodGroup of Kubernetes' own API with these conditions, by type;
    `scheduled` is the type that says whether it has started.
    """
    started = conditions.get(scheduled, {}).get("status") == "True"
    phase = Phase.RUNNING if started else Phase.PENDING
    return str(conditions.get(jobs.PHASE, {}).get("reason") or phase)


def waiting(name: str, groups: Iterable[Group]) -> list[Group]:
    """Return the queue's PodGroups that wait with a reason, oldest first.

    A Completed PodGroup waits for nothing, whatever a scheduler has left in its conditions.
    """
    found = [
        group
        for group in groups
        if group.queue == name and group.waits_because and group.phase != Phase.COMPLETED
    ]
    return sorted(found, key=lambda each: (each.created, each.key))


def without_bookkeeping(queue: Object) -> dict[str, Any]:
    """Return the object without managedFields, as kubectl prints objects."""
    metadata = {key: value for key, value in queue["metadata"].items() if key != "managedFields"}
    return {**queue, "metadata": metadata}


def named(shown: Iterable[Figures], *, limits: bool = False) -> list[str]:
    """Return the resources in any figure of these queues: cpu and memory always and first, pods
    never. `limits`: those of which they may have only so much, too.
    """
    found = {
        name
        for each in shown
        for amounts in (each.allocated, each.deserved, each.request, each.guarantee, each.quota)
        for name, text in amounts.items()
        if text not in {"0", 0}
    }
    if limits:
        found.update(name for each in shown for name in each.capability)
    return _ordered(found | {resources.CPU, resources.MEMORY})


def named_in(amounts: Quantities) -> list[str]:
    """Return the resources in these amounts, in the same order as `named`."""
    return _ordered(set(amounts))


def amount(resource: str, amounts: Quantities) -> str:
    """Return a short amount; `-` without any amounts, 0 if only the requested resource is
    missing.
    """
    if not amounts:
        return ABSENT
    text = amounts.get(resource, "0")
    try:
        value = quantities.parse(resource, text)
    except QuantityError:
        return str(text)
    return phrases.figure(resource, value)


def limit(resource: str, amounts: Quantities) -> str:
    """Return a short limit; `-` if the resource has no limit."""
    return amount(resource, amounts) if resource in amounts else ABSENT


def age(seconds: float) -> str:
    """Return a time span as kubectl prints ages: 42s, 3m7s, 45m, 5h12m, 30h, 3d4h, 80d, 2y20d.

    apimachinery: duration.HumanDuration.
    """
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    for below, large, small in (
        (120, "", f"{whole}s"),
        (600, f"{minutes}m", f"{whole % 60}s"),
        (3 * 3600, "", f"{minutes}m"),
        (8 * 3600, f"{hours}h", f"{minutes % 60}m"),
        (48 * 3600, "", f"{hours}h"),
        (8 * 86400, f"{days}d", f"{hours % 24}h"),
        (2 * 365 * 86400, "", f"{days}d"),
        (8 * 365 * 86400, f"{days // 365}y", f"{days % 365}d"),
    ):
        if whole < below:
            return large if large and small[:-1] == "0" else large + small
    return f"{days // 365}y"


def instant(text: str | None) -> float:
    """Return seconds since the epoch from a Kubernetes timestamp; 0 without a timestamp."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _ordered(names: set[str]) -> list[str]:
    return [name for name in ResourceSpace.of(names).names if name in names - {resources.PODS}]


def _written(status: Object) -> Counts | None:
    """Return the counts written by a controller, or None."""
    if not any(name in status for name in WRITTEN_COUNTS):
        return None
    return Counts(**{name: status.get(name, 0) for name in ("pending", "inqueue", "running")})


def _found(name: str, counted: GroupCounts | None) -> Counts | None:
    if counted is None:
        return None
    return Counts(
        pending=counted.get((name, Phase.PENDING), 0),
        inqueue=counted.get((name, Phase.INQUEUE), 0),
        running=counted.get((name, Phase.RUNNING), 0),
    )
