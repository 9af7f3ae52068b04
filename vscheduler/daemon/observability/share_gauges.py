"""Gauges of shares, computed from the last cycle at each scrape.

They include the unmet share of each queue: requests of waiting pods that would fit into the queue's
deserved share.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from prometheus_client import core, registry

from vscheduler.daemon.observability import metric_table
from vscheduler.daemon.observability.metric_table import Metric
from vscheduler.mirror.wording import refusal_sentences
from vscheduler.model import resources
from vscheduler.model.decisions import CycleResult, Exclusion, QueueFigures, ReasonCode
from vscheduler.model.jobs import PodClass

REASONS_MAX = 20
"""Number of reasons with a series of their own. A taint's value can be anything, so the number is
limited."""
OTHER_REASONS = "other reasons"

HYPER_NODES = "HyperNodes"
"""The topology of the HyperNodes, as a label."""

QUEUE = ("queue_name",)
BYTES = ("memory", "ephemeral-storage", "hugepages-")
"""Prefixes of resource names measured in bytes."""

UNLIMITED = {resources.CPU: math.inf, resources.MEMORY: math.inf}

Series = Mapping[tuple[str, ...], float]
"""Metric values by label values."""

NO_LACK = {ReasonCode.NEVER_FITS, ReasonCode.NO_NODES, ReasonCode.BIND_REFUSED}
"""Reasons of jobs that would wait with the whole cluster to themselves: no queue owes them
anything."""

SLACK = 1e-3
"""A share short of a whole pod by at most this amount still has space for the pod, because shares
are fractions."""


class Waiting(msgspec.Struct, kw_only=True):
    """The waiting pods of a queue."""

    groups: int = 0
    """PodGroups that wait, completely or in part."""
    pods: int = 0
    """Number of these PodGroups' pods without a node."""
    classes: Counter[PodClass] = msgspec.field(default_factory=Counter)
    """Classes of the pods that found no node, or wait for resources being freed. Pods of PodGroups
    not admitted count only if the cluster alone has too few resources for them, and pods that
    nothing can start don't count."""


def waiting(result: CycleResult) -> Mapping[str, Waiting]:
    """Return the waiting pods by queue after this cycle.

    Queues without waiting pods are left out.
    """
    by_queue: defaultdict[str, Waiting] = defaultdict(Waiting)
    for group in result.changeable:
        if group.reason is not None:
            queue = by_queue[group.queue]
            queue.groups += 1
            without = group.reason.tasks - group.reason.placed - group.failed
            queue.pods += max(len(group.unplaced), without)
            if group.reason.code not in NO_LACK:
                queue.classes.update(task.pod_class for task in group.unplaced)
    queues = {group.job: group.queue for group in result.changeable} if result.pipelined else {}
    for pipeline in result.pipelined:
        if pipeline.task.job in queues:
            queue = by_queue[queues[pipeline.task.job]]
            queue.pods += 1
            queue.classes[pipeline.task.pod_class] += 1
    return by_queue


def missing(figures: QueueFigures, classes: Mapping[PodClass, int]) -> dict[str, float]:
    """Return the requests of waiting pods that fit into the rest of the deserved share.

    A pod counts only if it fits in every resource of which the queue deserves any: where CPU is
    scarce and memory is plentiful, a queue with its full CPU share lacks no memory. Neither does a
    queue whose remaining share is less than a pod.
    """
    remaining = {
        name: each - figures.allocated.get(name, 0) for name, each in figures.deserved.items()
    }
    unmet: defaultdict[str, float] = defaultdict(float)
    for pod_class, pods in classes.items():
        asked = {
            name: each for name, each in pod_class.counted.items() if each and name in remaining
        }
        fitting = min(
            (pods, *((remaining[name] + SLACK) // each for name, each in asked.items()))
            if asked
            else (0,)
        )
        for name, each in asked.items() if fitting > 0 else ():
            unmet[name] += fitting * each
            remaining[name] -= fitting * each
    return unmet


def demand_in_share(figures: QueueFigures, unmet: Mapping[str, float]) -> dict[str, float]:
    """Return the part of the deserved share in use plus the missing amounts, without zeros."""
    amounts = {
        name: min(figures.allocated.get(name, 0), each) + unmet.get(name, 0)
        for name, each in figures.deserved.items()
    }
    return {name: amount for name, amount in amounts.items() if amount > 0}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a cycle's result kept for the next scrape."""

    queues: Sequence[QueueFigures] = ()
    total: Mapping[str, float] = msgspec.field(default_factory=dict)
    excluded: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Number of nodes by reason."""
    result: CycleResult | None = None
    """The cycle's result. Counting by queue is left to the scrape, because cycles are far more
    frequent."""


class ShareGauges(registry.Collector):
    """The figures of all queues in the last cycle, and of the resources they share.

    A deleted queue leaves no series behind. A lost resource stays with value 0, so that the loss is
    visible.
    """

    def __init__(self) -> None:
        self._figures = Figures()

    def observe(self, result: CycleResult) -> None:
        """Keep the figures of a cycle for the next scrape."""
        total = dict.fromkeys(self._figures.total, 0.0) | dict(result.total)
        self._figures = Figures(
            queues=result.queues,
            total=total,
            excluded=nodes_by_reason(result.excluded),
            result=result,
        )

    def forget(self) -> None:
        """Report nothing, because another instance does."""
        self._figures = Figures()

    def collect(self) -> Iterator[core.GaugeMetricFamily]:
        """Yield the rows of QUEUE_TABLE and SHARE_TABLE, at each scrape."""
        figures = self._figures
        yield from queue_gauges(figures.queues)
        yield from share_gauges(figures)


def nodes_by_reason(excluded: Sequence[Exclusion]) -> Counter[str]:
    """Return the number of excluded nodes by reason, largest first."""
    nodes: Counter[str] = Counter()
    for at, each in enumerate(excluded):
        reason = refusal_sentences.text(each.refusal) if at < REASONS_MAX else OTHER_REASONS
        nodes[reason] += len(each.nodes)
    return nodes


def fairness_error(
    demands: Sequence[Mapping[str, float]], unmet: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """Return by resource the part of all queues' demand within their shares that isn't met."""
    whole: defaultdict[str, float] = defaultdict(float)
    for amounts in demands:
        for name, amount in amounts.items():
            whole[name] += amount
    return {
        name: sum(each.get(name, 0) for each in unmet) / amount
        for name, amount in sorted(whole.items())
    }


def queue_gauges(queues: Sequence[QueueFigures]) -> Iterator[core.GaugeMetricFamily]:
    """Yield the gauges with Volcano's names."""
    weight, share, allocated, request, deserved, capacity, real = metric_table.QUEUE_TABLE
    entitled = [(queue.name, queue.entitlement) for queue in queues if queue.entitlement]
    yield _family(weight, {(queue.name,): queue.weight for queue in queues}, QUEUE)
    yield _family(share, {(name,): each.share for name, each in entitled}, QUEUE)
    for row, amounts in (
        (allocated, [(queue.name, queue.allocated) for queue in queues]),
        (request, [(queue.name, queue.request) for queue in queues]),
        (deserved, [(name, each.deserved) for name, each in entitled]),
        (capacity, [(queue.name, UNLIMITED | dict(queue.capability)) for queue in queues]),
        (real, [(name, each.real_capability or {}) for name, each in entitled]),
    ):
        yield from _amounts(row, amounts)


def share_gauges(figures: Figures) -> Iterator[core.GaugeMetricFamily]:
    """Yield this scheduler's own gauges, in the order of the table."""
    queues, idle = figures.queues, Waiting()
    by_queue = {} if figures.result is None else waiting(figures.result)
    waits = [by_queue.get(queue.name, idle) for queue in queues]
    unmet = [missing(each, of.classes) for each, of in zip(queues, waits, strict=True)]
    demands = [demand_in_share(each, of) for each, of in zip(queues, unmet, strict=True)]
    values: tuple[Series, ...] = (
        _ratios(queues, [queue.deserved for queue in queues]),
        _ratios(queues, demands),
        {
            (queue.name, *resource): amount
            for queue in queues
            for resource, amount in _in_units(queue.used_by_other_schedulers)
        },
        {(each.name,): of.groups for each, of in zip(queues, waits, strict=True)},
        {(each.name,): of.pods for each, of in zip(queues, waits, strict=True)},
        {(name,): error for name, error in fairness_error(demands, unmet).items()},
        dict(_in_units(figures.total)),
        {(reason,): number for reason, number in figures.excluded.items()},
        {
            (each.topology or HYPER_NODES, str(each.tier), *resource): amount
            for each in (figures.result.free_by_tier if figures.result else ())
            for resource, amount in _in_units(each.free)
        },
    )
    for row, series in zip(metric_table.SHARE_TABLE, values, strict=True):
        yield _family(row, series, row.labels)


def _ratios(queues: Sequence[QueueFigures], amounts: Sequence[Mapping[str, float]]) -> Series:
    """Return allocated ÷ amount by queue and resource, leaving out zero and infinite amounts."""
    return {
        (each.name, resource): each.allocated.get(resource, 0) / amount
        for each, of in zip(queues, amounts, strict=True)
        for resource, amount in sorted(of.items())
        if 0 < amount < math.inf
    }


def _in_units(amounts: Mapping[str, float]) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield resource and unit, as in kube-state-metrics, with the amount in the unit."""
    for resource, amount in sorted(amounts.items()):
        if resource == resources.CPU:
            yield (resource, "core"), amount / 1000
        else:
            yield (resource, "byte" if resource.startswith(BYTES) else "integer"), amount


def _family(row: Metric, series: Series, labels: Sequence[str]) -> core.GaugeMetricFamily:
    family = core.GaugeMetricFamily(row.name, row.about, labels=labels)
    for values, value in series.items():
        family.add_metric(values, value)
    return family


def _amounts(
    row: Metric, values: Iterable[tuple[str, Mapping[str, float]]]
) -> Iterator[core.GaugeMetricFamily]:
    """Yield a row as Volcano's three families: milli CPU, bytes, and all other resources."""
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
