"""Every metric in one table, and what a cycle adds to them. No series per job or pod.

Names that begin with `volcano_` are Volcano's, with its meaning, so that dashboards go on working.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import prometheus_client
from prometheus_client import core, registry

from vscheduler.core.model import decisions, resources

MILLISECONDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


class Kind(StrEnum):
    """What a metric's value means."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the table."""

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()


TABLE = (
    Metric(
        name="volcano_e2e_scheduling_latency_milliseconds",
        kind=Kind.HISTOGRAM,
        about="One whole cycle, from the snapshot until its decisions are handed on.",
    ),
    Metric(
        name="volcano_open_session_duration_milliseconds",
        kind=Kind.HISTOGRAM,
        about="Taking the snapshot.",
    ),
    Metric(
        name="volcano_task_scheduling_latency_milliseconds",
        kind=Kind.HISTOGRAM,
        about="From a pod's creation until it is bound.",
        labels=("stage",),
    ),
    Metric(
        name="volcano_schedule_attempts_total",
        kind=Kind.COUNTER,
        about="Pods that a cycle placed (scheduled) or tried in vain (unschedulable), and binds "
        "that failed (error).",
        labels=("result",),
    ),
    Metric(
        name="volcano_unschedule_job_count",
        kind=Kind.GAUGE,
        about="Jobs that the last cycle left waiting.",
    ),
    Metric(
        name="vscheduler_cycle_part_milliseconds",
        kind=Kind.HISTOGRAM,
        about="Parts of a cycle: snapshot, decide, commit (handing decisions on).",
        labels=("part",),
    ),
    Metric(
        name="vscheduler_binds_total",
        kind=Kind.COUNTER,
        about="Binds by what came of them.",
        labels=("outcome",),
    ),
    Metric(
        name="volcano_total_preemption_attempts",
        kind=Kind.GAUGE,
        about="Plans to evict pods for a waiting job that were sent, all in all; it only grows.",
    ),
    Metric(
        name="volcano_pod_preemption_victims",
        kind=Kind.GAUGE,
        about="Pods that the last cycle with evictions chose.",
    ),
    Metric(
        name="volcano_eviction_transactions_total",
        kind=Kind.COUNTER,
        about="Plans of evictions that were done whole, by the action that made them.",
        labels=("action",),
    ),
    Metric(
        name="vscheduler_evictions_total",
        kind=Kind.COUNTER,
        about="Evictions by what came of them.",
        labels=("outcome",),
    ),
    Metric(
        name="vscheduler_cycles_dropped_total",
        kind=Kind.COUNTER,
        about="Cycles thrown away because an invariant was broken: a defect of the scheduler.",
    ),
    Metric(
        name="vscheduler_plugin_faults_total",
        kind=Kind.COUNTER,
        about="Plugins that failed in a hook.",
        labels=("plugin", "hook"),
    ),
    Metric(
        name="vscheduler_work_total",
        kind=Kind.COUNTER,
        about="Operations of cycles, by kind.",
        labels=("operation",),
    ),
    Metric(
        name="vscheduler_writes_total",
        kind=Kind.COUNTER,
        about="Writes other than binds, by what was written and what came of it.",
        labels=("object", "outcome"),
    ),
    Metric(
        name="vscheduler_config_last_reload_successful",
        kind=Kind.GAUGE,
        about="1 where the configuration file that was read last is in force, 0 where it is bad.",
    ),
    Metric(
        name="vscheduler_config_last_reload_success_timestamp_seconds",
        kind=Kind.GAUGE,
        about="When the configuration that is in force was read, in seconds since the epoch.",
    ),
    Metric(
        name="vscheduler_rejected_objects",
        kind=Kind.GAUGE,
        about="Objects that are left out because something in them can't be used.",
    ),
    Metric(
        name="vscheduler_ungrouped_pods",
        kind=Kind.GAUGE,
        about="Pods of ours that name no PodGroup, or one that isn't there.",
    ),
)

QUEUE_TABLE = (
    Metric(name="volcano_queue_weight", kind=Kind.GAUGE, about="A queue's weight."),
    Metric(name="volcano_queue_share", kind=Kind.GAUGE, about="Its largest allocated/deserved."),
    Metric(name="volcano_queue_allocated", kind=Kind.GAUGE, about="What its pods have"),
    Metric(name="volcano_queue_request", kind=Kind.GAUGE, about="What its pods have or ask for"),
    Metric(name="volcano_queue_deserved", kind=Kind.GAUGE, about="Its fair share"),
    Metric(name="volcano_queue_real_capacity", kind=Kind.GAUGE, about="The most it may ever have"),
)
"""Gauges per queue; those of amounts come as _milli_cpu, _memory_bytes and _scalar_resources."""


class Metrics:
    """The metrics of one process, on a registry of their own."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._counters: dict[str, prometheus_client.Counter] = {}
        self._gauges: dict[str, prometheus_client.Gauge] = {}
        self._histograms: dict[str, prometheus_client.Histogram] = {}
        for row in TABLE:
            match row.kind:
                case Kind.COUNTER:
                    self._counters[row.name] = prometheus_client.Counter(
                        row.name, row.about, row.labels, registry=self.registry
                    )
                case Kind.GAUGE:
                    self._gauges[row.name] = prometheus_client.Gauge(
                        row.name, row.about, row.labels, registry=self.registry
                    )
                case Kind.HISTOGRAM:
                    self._histograms[row.name] = prometheus_client.Histogram(
                        row.name,
                        row.about,
                        row.labels,
                        registry=self.registry,
                        buckets=MILLISECONDS,
                    )
        self._queues = QueueGauges()
        self.registry.register(self._queues)

    def exposition(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return prometheus_client.generate_latest(self.registry)

    def observe_cycle(self, result: decisions.CycleResult, parts: Mapping[str, float]) -> None:
        """Count a cycle; parts are its seconds by part (snapshot, decide, commit)."""
        self._queues.figures = result.queues
        whole = sum(parts.values())
        self._observe("volcano_e2e_scheduling_latency_milliseconds", whole)
        self._observe("volcano_open_session_duration_milliseconds", parts["snapshot"])
        for part, seconds in parts.items():
            self._observe("vscheduler_cycle_part_milliseconds", seconds, part)
        unplaced = sum(len(group.unplaced) for group in result.groups)
        self._count("volcano_schedule_attempts_total", "scheduled", by=len(result.binds))
        self._count("volcano_schedule_attempts_total", "unschedulable", by=unplaced)
        waiting = sum(group.reason is not None for group in result.groups)
        self._gauges["volcano_unschedule_job_count"].set(waiting)
        for fault in result.faults:
            self._count("vscheduler_plugin_faults_total", fault.plugin, fault.hook)
        for operation, number in result.work.items():
            self._count("vscheduler_work_total", operation, by=number)

    def observe_bind(self, outcome: str, *, bound: bool, seconds: float) -> None:
        """Count a bind; seconds are from the pod's creation until now."""
        self._count("vscheduler_binds_total", outcome)
        if bound:
            self._observe("volcano_task_scheduling_latency_milliseconds", seconds, "Bound")
        else:
            self._count("volcano_schedule_attempts_total", "error")

    def observe_plans(self, *, claimed: int, victims: int) -> None:
        """Count what is sent of a cycle's evictions: plans for waiting jobs, and victims."""
        self._gauges["volcano_total_preemption_attempts"].inc(claimed)
        self._gauges["volcano_pod_preemption_victims"].set(victims)

    def observe_plan(self, action: str) -> None:
        """Count a plan that was done whole."""
        self._count("volcano_eviction_transactions_total", action)

    def observe_eviction(self, outcome: str) -> None:
        """Count an eviction."""
        self._count("vscheduler_evictions_total", outcome)

    def observe_write(self, written: str, outcome: str) -> None:
        """Count a write of a status, a condition or an event."""
        self._count("vscheduler_writes_total", written, outcome)

    def observe_dropped_cycle(self) -> None:
        """Count a cycle that was thrown away."""
        self._count("vscheduler_cycles_dropped_total")

    def observe_reload(self, *, successful: bool, now: float) -> None:
        """Note whether the configuration that was just read is in force."""
        self._gauges["vscheduler_config_last_reload_successful"].set(successful)
        if successful:
            self._gauges["vscheduler_config_last_reload_success_timestamp_seconds"].set(now)

    def observe_strays(self, *, rejected: int, ungrouped: int) -> None:
        """Set how many objects, and how many pods of ours, are left out."""
        self._gauges["vscheduler_rejected_objects"].set(rejected)
        self._gauges["vscheduler_ungrouped_pods"].set(ungrouped)

    def _count(self, name: str, *labels: str, by: float = 1) -> None:
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(by)

    def _observe(self, name: str, seconds: float, *labels: str) -> None:
        histogram = self._histograms[name]
        (histogram.labels(*labels) if labels else histogram).observe(seconds * 1000)


class QueueGauges(registry.Collector):
    """The last cycle's figures of all queues, put into words when they are asked for.

    A queue that is gone leaves no series behind.
    """

    def __init__(self) -> None:
        self.figures: Sequence[decisions.QueueFigures] = ()

    def collect(self) -> Iterator[core.GaugeMetricFamily]:
        """The rows of QUEUE_TABLE (prometheus_client calls this at each scrape)."""
        about = {row.name: row.about for row in QUEUE_TABLE}
        weight, share, allocated, request, deserved, real = about
        yield self._numbers(weight, about, {each.name: each.weight for each in self.figures})
        entitled = {each.name: each.entitlement for each in self.figures if each.entitlement}
        yield self._numbers(share, about, {name: each.share for name, each in entitled.items()})
        for name, amounts in (
            (allocated, {each.name: each.allocated for each in self.figures}),
            (request, {each.name: each.request for each in self.figures}),
            (deserved, {queue: each.deserved for queue, each in entitled.items()}),
            (real, {queue: each.real_capability or {} for queue, each in entitled.items()}),
        ):
            yield from self._amounts(name, about[name], amounts)

    @staticmethod
    def _numbers(
        name: str, about: Mapping[str, str], values: Mapping[str, float]
    ) -> core.GaugeMetricFamily:
        family = core.GaugeMetricFamily(name, about[name], labels=("queue_name",))
        for queue, value in values.items():
            family.add_metric((queue,), value)
        return family

    @staticmethod
    def _amounts(
        name: str, about: str, values: Mapping[str, Mapping[str, float]]
    ) -> Iterator[core.GaugeMetricFamily]:
        queue = ("queue_name",)
        cpu = core.GaugeMetricFamily(f"{name}_milli_cpu", f"{about}, milli CPU.", labels=queue)
        memory = core.GaugeMetricFamily(f"{name}_memory_bytes", f"{about}, bytes.", labels=queue)
        scalar = core.GaugeMetricFamily(
            f"{name}_scalar_resources", f"{about}, by resource.", labels=(*queue, "resource")
        )
        for holder, amounts in values.items():
            cpu.add_metric((holder,), amounts.get(resources.CPU, 0))
            memory.add_metric((holder,), amounts.get(resources.MEMORY, 0))
            for resource, amount in sorted(amounts.items()):
                if resource not in (resources.CPU, resources.MEMORY):
                    scalar.add_metric((holder, resource), amount)
        yield from (cpu, memory, scalar)
