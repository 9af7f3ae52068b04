"""Counters, gauges and histograms of the daemon. Their names and help texts are in metric_table."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import prometheus_client
from prometheus_client import metrics, parser
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from vscheduler.daemon.leader_election.api import LeaseStatus
from vscheduler.daemon.observability import metric_table
from vscheduler.daemon.observability.metric_table import MetricType
from vscheduler.daemon.observability.share_gauges import ShareGauges
from vscheduler.history.records import WriterStatus
from vscheduler.model.claim_decisions import ClaimKind
from vscheduler.model.decisions import CycleResult

MILLISECONDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)

Metric = TypeVar("Metric", bound=metrics.MetricWrapperBase)


class _Merged:
    """The metrics of a registry and those of a child process, as a registry.

    Counters and histograms add up. Of gauges that both have, the registry's count: they describe
    the same cluster. A child's times of creation are left out.
    """

    def __init__(self, own: prometheus_client.CollectorRegistry, child: str) -> None:
        self._own = own
        self._child = child

    def collect(self) -> Iterator[Family]:
        """Return all metrics, those of the child's that we lack at the end."""
        theirs = {each.name: each for each in parser.text_string_to_metric_families(self._child)}
        for ours in self._own.collect():
            child = theirs.pop(ours.name, None)
            if child is not None:
                _add(ours, child)
            yield ours
        yield from (each for name, each in theirs.items() if not name.endswith("_created"))


def _add(ours: Family, theirs: Family) -> None:
    """Add the samples of the same metric of another process."""
    places = {_key(sample): place for place, sample in enumerate(ours.samples)}
    for sample in theirs.samples:
        place = places.get(_key(sample))
        if place is None:
            ours.samples.append(sample)
        elif ours.type != "gauge":
            known = ours.samples[place]
            ours.samples[place] = known._replace(value=known.value + sample.value)


def _key(sample: Sample) -> tuple[str, tuple[tuple[str, str], ...]]:
    return sample.name, tuple(sorted(sample.labels.items()))


class Series(dict[tuple[str, tuple[str, ...]], Metric]):
    """Metrics by name and labels, which the library looks up under a lock, each time."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        super().__init__()
        self._metrics = metrics

    def __missing__(self, key: tuple[str, tuple[str, ...]]) -> Metric:
        """Return a series that hasn't been used yet."""
        name, labels = key
        metric = self._metrics[name]
        self[key] = series = metric.labels(*labels) if labels else metric
        return series


class Metrics:
    """The metrics of a process, in a separate registry."""

    def __init__(self, lines_dropped: Callable[[], int] = lambda: 0) -> None:
        """`lines_dropped` returns the number of dropped log lines."""
        self._lines_dropped = lines_dropped
        self._lines_counted = 0
        self.registry = prometheus_client.CollectorRegistry()
        self._counters: dict[str, prometheus_client.Counter] = {}
        self._gauges: dict[str, prometheus_client.Gauge] = {}
        self._histograms: dict[str, prometheus_client.Histogram] = {}
        for row in metric_table.TABLE:
            match row.kind:
                case MetricType.COUNTER:
                    self._counters[row.name] = prometheus_client.Counter(
                        row.name, row.about, row.labels, registry=self.registry
                    )
                case MetricType.GAUGE:
                    self._gauges[row.name] = prometheus_client.Gauge(
                        row.name, row.about, row.labels, registry=self.registry
                    )
                case MetricType.HISTOGRAM:
                    self._histograms[row.name] = prometheus_client.Histogram(
                        row.name,
                        row.about,
                        row.labels,
                        registry=self.registry,
                        buckets=MILLISECONDS,
                    )
        self._counted, self._timed = Series(self._counters), Series(self._histograms)
        self._history = WriterStatus()
        """What was counted of the history so far."""
        self._holders: dict[str, str] = {}
        """The last known holder of each Lease."""
        self._shares = ShareGauges()
        self.registry.register(self._shares)

    def exposition(self, child: str = "") -> bytes:
        """Return all metrics in Prometheus' text format, with those of a child process."""
        dropped = self._lines_dropped()
        self._count("vscheduler_log_lines_dropped_total", by=dropped - self._lines_counted)
        self._lines_counted = dropped
        return prometheus_client.generate_latest(_Merged(self.registry, child))

    def observe_cycle(self, result: CycleResult, parts: Mapping[str, float]) -> None:
        """Record a cycle; `parts` has the seconds of each part (snapshot, decide, commit)."""
        self._shares.observe(result)
        whole = sum(parts.values())
        self._observe("volcano_e2e_scheduling_latency_milliseconds", whole)
        self._observe("volcano_open_session_duration_milliseconds", parts["snapshot"])
        for part, seconds in parts.items():
            self._observe("vscheduler_cycle_part_milliseconds", seconds, part)
        waiting = unplaced = without_volumes = 0
        for group in result.changeable:
            waiting += group.reason is not None
            unplaced += len(group.unplaced)
            if group.claims is not None and group.claims.kind is ClaimKind.VOLUMES:
                without_volumes += len(group.without_claims)
        self._count("volcano_schedule_attempts_total", "scheduled", by=len(result.binds))
        self._count("volcano_schedule_attempts_total", "unschedulable", by=unplaced)
        self._gauges["volcano_unschedule_job_count"].set(waiting)
        self._gauges["vscheduler_pods_waiting_for_volumes"].set(without_volumes)
        for fault in result.faults:
            self._count("vscheduler_plugin_faults_total", fault.plugin, fault.hook)
        for operation, number in result.work.items():
            self._count("vscheduler_work_total", operation, by=number)

    def observe_hook(self, plugin: str, hook: str, seconds: float) -> None:
        """Record that a plugin's hook was seen to run; counts for so many seconds."""
        self._count("vscheduler_plugin_seconds_total", plugin, hook, by=seconds)

    def observe_lag(self, seconds: float) -> None:
        """Record a delay of the event loop during a cycle."""
        self._observe("vscheduler_loop_lag_milliseconds", seconds)

    def forget_figures(self) -> None:
        """Drop the figures of queues and jobs, because another instance reports them now.

        Figures reported by two instances would be added up.
        """
        self._shares.forget()
        self._gauges["volcano_unschedule_job_count"].set(0)
        self._gauges["vscheduler_pods_waiting_for_volumes"].set(0)
        self.observe_rejected(rejected=0, ungrouped=0)

    def observe_bind(self, outcome: str, *, bound: bool, seconds: float) -> None:
        """Count a bind; `seconds` is the time since the pod's creation."""
        self._count("vscheduler_binds_total", outcome)
        if bound:
            self._observe("volcano_task_scheduling_latency_milliseconds", seconds, "Bound")
        else:
            self._count("volcano_schedule_attempts_total", "error")

    def observe_plans(self, *, claimed: int, victims: int) -> None:
        """Count the eviction plans for waiting jobs, and the victims, of a cycle."""
        self._gauges["volcano_total_preemption_attempts"].inc(claimed)
        self._gauges["volcano_pod_preemption_victims"].set(victims)

    def observe_plan(self, action: str) -> None:
        """Count an eviction plan carried out completely."""
        self._count("volcano_eviction_transactions_total", action)

    def observe_claim(self, outcome: str) -> None:
        """Count a request for a volume, or its withdrawal, by result."""
        self._count("vscheduler_volume_requests_total", outcome)

    def observe_allocation(self, outcome: str) -> None:
        """Count an allocation of a resource claim, or its withdrawal, by result."""
        self._count("vscheduler_device_allocations_total", outcome)

    def observe_eviction(self, outcome: str) -> None:
        """Count an eviction by result."""
        self._count("vscheduler_evictions_total", outcome)

    def observe_write(self, written: str, outcome: str) -> None:
        """Count a write of a status, a condition or an event."""
        self._count("vscheduler_writes_total", written, outcome)

    def observe_group_call(self, action: str, outcome: str) -> None:
        """Count a call about an automatic PodGroup."""
        self._count("vscheduler_podgroup_calls_total", action, outcome)

    def observe_failure(self, area: str) -> None:
        """Count an unexpected exception."""
        self._count("vscheduler_contained_failures_total", area)

    def observe_dropped_cycle(self) -> None:
        """Count a dropped cycle."""
        self._count("vscheduler_cycles_dropped_total")

    def observe_stuck(self, cause: str) -> None:
        """Count that this process ends because it is stuck. Safe to call from any thread."""
        self._count("vscheduler_stuck_total", cause)

    def observe_stalled(self, seconds: Mapping[str, float]) -> None:
        """Set by cause how long no progress was seen. Safe to call from any thread."""
        for cause, each in seconds.items():
            self._gauges["vscheduler_stalled_seconds"].labels(cause).set(each)

    def observe_history(self, status: WriterStatus) -> None:
        """Record how the writer of history fares."""
        known, self._history = self._history, status
        self._count("vscheduler_history_records_total", by=status.written - known.written)
        self._count("vscheduler_history_lost_total", by=status.lost - known.lost)
        self._gauges["vscheduler_history_size_bytes"].set(status.size)
        self._gauges["vscheduler_history_failing"].set(not status.works)

    def observe_reload(self, *, successful: bool, now: float) -> None:
        """Record whether the configuration just read is in effect."""
        self._gauges["vscheduler_config_last_reload_successful"].set(successful)
        if successful:
            self._gauges["vscheduler_config_last_reload_success_timestamp_seconds"].set(now)

    def observe_lease_status(self, status: LeaseStatus) -> None:
        """Record the status of a Lease. A change of the holder is counted, a release is not."""
        name, holder = status.lease, status.holder
        self._gauges["leader_election_master_status"].labels(name).set(status.leads)
        other = bool(status.other_configuration)
        self._gauges["vscheduler_lease_other_configuration"].labels(name).set(other)
        if holder:
            before = self._holders.get(name, holder)
            self._count("vscheduler_lease_transitions_total", name, by=holder != before)
            self._holders[name] = holder

    def observe_renewal(self, lease: str, seconds: float, outcome: str) -> None:
        """Record a renewal of a Lease and its duration, from sending to the answer."""
        self._observe("vscheduler_lease_renewal_milliseconds", seconds, lease, outcome)

    def observe_rejected(self, *, rejected: int, ungrouped: int) -> None:
        """Set the number of invalid objects, and of pods without a PodGroup."""
        self._gauges["vscheduler_rejected_objects"].set(rejected)
        self._gauges["vscheduler_ungrouped_pods"].set(ungrouped)

    def _count(self, name: str, *labels: str, by: float = 1) -> None:
        self._counted[name, labels].inc(by)

    def _observe(self, name: str, seconds: float, *labels: str) -> None:
        self._timed[name, labels].observe(seconds * 1000)
