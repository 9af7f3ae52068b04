"""What shares came to in the last cycle, put into words when Prometheus asks; and what queues are
owed: what waits of theirs though their shares have room for it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import core, registry

from vscheduler.core.model import decisions, jobs, resources
from vscheduler.daemon.observability import metric_table

REASONS_MAX = 20
"""Reasons that have a series of their own; a taint's value can be anything."""
OTHER_REASONS = "other reasons"

QUEUE = ("queue_name",)
BYTES = ("memory", "ephemeral-storage", "hugepages-")
"""How the names of resources begin that are counted in bytes."""

UNLIMITED = {resources.CPU: math.inf, resources.MEMORY: math.inf}

Series = Mapping[tuple[str, ...], float]
"""Values by the values of their labels."""

SLACK = 1e-3
"""A share that is short of a whole pod by so little has room for it: shares are fractions."""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """What waits in one queue."""

    groups: int = 0
    """PodGroups that wait, whole or in part."""
    pods: int = 0
    """Their pods that have no node."""
    classes: Counter[jobs.PodClass] = field(default_factory=Counter)
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
            queue.classes.update(task.pod_class for task in group.unplaced)
    queues = {group.job: group.queue for group in result.groups} if result.pipelined else {}
    for pipeline in result.pipelined:
        if pipeline.task.job in queues:
            queue = found[queues[pipeline.task.job]]
            queue.pods += 1
            queue.classes[pipeline.task.pod_class] += 1
    return found


def missing(
    figures: decisions.QueueFigures, classes: Mapping[jobs.PodClass, int]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is kept of a cycle's result."""

    queues: Sequence[decisions.QueueFigures] = ()
    total: Mapping[str, float] = field(default_factory=dict)
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Nodes by reason."""
    result: decisions.CycleResult | None = None
    """The cycle's; counted by queue at a scrape, as cycles are far more frequent."""


class ShareGauges(registry.Collector):
    """The last cycle's figures of all queues, and of what they share.

    A queue that is gone leaves no series behind; a resource that is gone stays, at 0, so that its
    loss can be seen.
    """

    def __init__(self) -> None:
        self._figures = Figures()

    def observe(self, result: decisions.CycleResult) -> None:
        """Keep what the next scrape is to tell."""
        total = dict.fromkeys(self._figures.total, 0.0) | dict(result.total)
        self._figures = Figures(
            queues=result.queues,
            total=total,
            excluded=nodes_by_reason(result.excluded),
            result=result,
        )

    def forget(self) -> None:
        """Tell nothing, as somebody else does."""
        self._figures = Figures()

    def collect(self) -> Iterator[core.GaugeMetricFamily]:
        """The rows of QUEUE_TABLE and SHARE_TABLE (prometheus_client calls this at each scrape)."""
        figures = self._figures
        yield from queue_gauges(figures.queues)
        yield from share_gauges(figures)


def nodes_by_reason(excluded: Sequence[decisions.Exclusion]) -> Counter[str]:
    """How many nodes are left out for what, most of them first."""
    nodes: Counter[str] = Counter()
    for at, each in enumerate(excluded):
        nodes[each.reason if at < REASONS_MAX else OTHER_REASONS] += len(each.nodes)
    return nodes


def fairness_error(
    owed: Sequence[Mapping[str, float]], lacks: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """By resource, the part of what queues are owed, all together, that they lack."""
    whole: defaultdict[str, float] = defaultdict(float)
    for amounts in owed:
        for name, amount in amounts.items():
            whole[name] += amount
    return {
        name: sum(each.get(name, 0) for each in lacks) / amount
        for name, amount in sorted(whole.items())
    }


def queue_gauges(queues: Sequence[decisions.QueueFigures]) -> Iterator[core.GaugeMetricFamily]:
    """Those under Volcano's names."""
    weight, share, allocated, request, deserved, capacity, real = metric_table.QUEUE_TABLE
    entitled = [(each.name, each.entitlement) for each in queues if each.entitlement]
    yield _family(weight, {(each.name,): each.weight for each in queues}, QUEUE)
    yield _family(share, {(name,): each.share for name, each in entitled}, QUEUE)
    for row, amounts in (
        (allocated, [(each.name, each.allocated) for each in queues]),
        (request, [(each.name, each.request) for each in queues]),
        (deserved, [(name, each.deserved) for name, each in entitled]),
        (capacity, [(each.name, UNLIMITED | dict(each.capability)) for each in queues]),
        (real, [(name, each.real_capability or {}) for name, each in entitled]),
    ):
        yield from _amounts(row, amounts)


def share_gauges(figures: Figures) -> Iterator[core.GaugeMetricFamily]:
    """Ours, in the order of the table."""
    queues, idle = figures.queues, Waiting()
    by_queue = {} if figures.result is None else waiting(figures.result)
    waits = [by_queue.get(each.name, idle) for each in queues]
    lacks = [missing(each, of.classes) for each, of in zip(queues, waits, strict=True)]
    due = [owed(each, of) for each, of in zip(queues, lacks, strict=True)]
    deserved = [each.entitlement.deserved if each.entitlement else {} for each in queues]
    values: tuple[Series, ...] = (
        _ratios(queues, deserved),
        _ratios(queues, due),
        {
            (each.name, *resource): amount
            for each in queues
            for resource, amount in _in_units(each.elsewhere)
        },
        {(each.name,): of.groups for each, of in zip(queues, waits, strict=True)},
        {(each.name,): of.pods for each, of in zip(queues, waits, strict=True)},
        {(name,): error for name, error in fairness_error(due, lacks).items()},
        dict(_in_units(figures.total)),
        {(reason,): number for reason, number in figures.excluded.items()},
    )
    for row, series in zip(metric_table.SHARE_TABLE, values, strict=True):
        yield _family(row, series, row.labels)


def _ratios(
    queues: Sequence[decisions.QueueFigures], amounts: Sequence[Mapping[str, float]]
) -> Series:
    """What queues have by these amounts, without those that are nothing or have no limit."""
    return {
        (each.name, resource): each.allocated.get(resource, 0) / amount
        for each, of in zip(queues, amounts, strict=True)
        for resource, amount in sorted(of.items())
        if 0 < amount < math.inf
    }


def _in_units(amounts: Mapping[str, float]) -> Iterator[tuple[tuple[str, str], float]]:
    """Resource and unit, as kube-state-metrics has them, with the amount in that unit."""
    for resource, amount in sorted(amounts.items()):
        if resource == resources.CPU:
            yield (resource, "core"), amount / 1000
        else:
            yield (resource, "byte" if resource.startswith(BYTES) else "integer"), amount


def _family(
    row: metric_table.Metric, series: Series, labels: Sequence[str]
) -> core.GaugeMetricFamily:
    family = core.GaugeMetricFamily(row.name, row.about, labels=labels)
    for values, value in series.items():
        family.add_metric(values, value)
    return family


def _amounts(
    row: metric_table.Metric, values: Iterable[tuple[str, Mapping[str, float]]]
) -> Iterator[core.GaugeMetricFamily]:
    """One row in Volcano's three: milli CPU, bytes, and all other resources."""
    cpu = core.GaugeMetricFamily(f"{row.name}_milli_cpu", f"{row.about}, milli CPU.", labels=QUEUE)
    memory = core.GaugeMetricFamily(
        f"{row.name}_memory_bytes", f"{row.about}, bytes.", labels=QUEUE
    )
    scalar = core.GaugeMetricFamily(
        f"{row.name}_scalar_resources", f"{row.about}, by resource.", labels=(*QUEUE, "resource")
    )
    for queue, amounts in values:
        cpu.add_metric((queue,), amounts.get(resources.CPU, 0))
        memory.add_metric((queue,), amounts.get(resources.MEMORY, 0))
        for resource, amount in sorted(amounts.items()):
            if resource not in (resources.CPU, resources.MEMORY):
                scalar.add_metric((queue, resource), amount)
    yield from (cpu, memory, scalar)
