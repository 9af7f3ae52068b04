"""Table of all metrics. No metric has a series per job or pod.

Names with prefix `volcano_` have the same meaning as in Volcano, so that dashboards keep working.
`leader_election_master_status` is the metric of Kubernetes' own components.
"""

from enum import StrEnum

import msgspec


class MetricType(StrEnum):
    """Type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table."""

    name: str
    kind: MetricType
    about: str
    labels: tuple[str, ...] = ()


TABLE = (
    Metric(
        name="volcano_e2e_scheduling_latency_milliseconds",
        kind=MetricType.HISTOGRAM,
        about="Duration of a cycle, from the snapshot until its decisions are passed on.",
    ),
    Metric(
        name="volcano_open_session_duration_milliseconds",
        kind=MetricType.HISTOGRAM,
        about="Duration of taking the snapshot.",
    ),
    Metric(
        name="volcano_task_scheduling_latency_milliseconds",
        kind=MetricType.HISTOGRAM,
        about="Time from a pod's creation until its bind.",
        labels=("stage",),
    ),
    Metric(
        name="volcano_schedule_attempts_total",
        kind=MetricType.COUNTER,
        about="Pods that a cycle placed (scheduled) or could not place (unschedulable), and "
        "failed binds (error).",
        labels=("result",),
    ),
    Metric(
        name="volcano_unschedule_job_count",
        kind=MetricType.GAUGE,
        about="Jobs left waiting by the last cycle.",
    ),
    Metric(
        name="vscheduler_cycle_part_milliseconds",
        kind=MetricType.HISTOGRAM,
        about="Duration of the parts of a cycle: snapshot, decide, commit (passing decisions on).",
        labels=("part",),
    ),
    Metric(
        name="vscheduler_loop_lag_milliseconds",
        kind=MetricType.HISTOGRAM,
        about="Delay of the event loop during cycles in the thread, a hundred times a second.",
    ),
    Metric(
        name="vscheduler_binds_total",
        kind=MetricType.COUNTER,
        about="Binds, by result.",
        labels=("outcome",),
    ),
    Metric(
        name="volcano_total_preemption_attempts",
        kind=MetricType.GAUGE,
        about="Eviction plans sent for waiting jobs since the start; the value only grows.",
    ),
    Metric(
        name="volcano_pod_preemption_victims",
        kind=MetricType.GAUGE,
        about="Pods chosen by the last cycle with evictions.",
    ),
    Metric(
        name="volcano_eviction_transactions_total",
        kind=MetricType.COUNTER,
        about="Eviction plans carried out completely, by action.",
        labels=("action",),
    ),
    Metric(
        name="vscheduler_evictions_total",
        kind=MetricType.COUNTER,
        about="Evictions, by result.",
        labels=("outcome",),
    ),
    Metric(
        name="vscheduler_volume_requests_total",
        kind=MetricType.COUNTER,
        about="Requests for volumes and their withdrawals, by result.",
        labels=("outcome",),
    ),
    Metric(
        name="vscheduler_device_allocations_total",
        kind=MetricType.COUNTER,
        about="Allocations of resource claims and their withdrawals, by result.",
        labels=("outcome",),
    ),
    Metric(
        name="vscheduler_pods_waiting_for_volumes",
        kind=MetricType.GAUGE,
        about="Pods that the last cycle kept on nodes until their claims are bound.",
    ),
    Metric(
        name="vscheduler_cycles_dropped_total",
        kind=MetricType.COUNTER,
        about="Cycles dropped because of a defect of the scheduler, such as a broken invariant.",
    ),
    Metric(
        name="vscheduler_stuck_total",
        kind=MetricType.COUNTER,
        about="How often this process ended because it was stuck, by cause.",
        labels=("cause",),
    ),
    Metric(
        name="vscheduler_stalled_seconds",
        kind=MetricType.GAUGE,
        about="How long no progress has been seen, by cause of being stuck.",
        labels=("cause",),
    ),
    Metric(
        name="vscheduler_contained_failures_total",
        kind=MetricType.COUNTER,
        about="Unexpected failures, which are defects of the scheduler, by area.",
        labels=("area",),
    ),
    Metric(
        name="vscheduler_plugin_faults_total",
        kind=MetricType.COUNTER,
        about="Failures of plugins, by hook.",
        labels=("plugin", "hook"),
    ),
    Metric(
        name="vscheduler_plugin_seconds_total",
        kind=MetricType.COUNTER,
        about="Time of cycles in hooks of plugins, estimated by a look twice a second.",
        labels=("plugin", "hook"),
    ),
    Metric(
        name="vscheduler_work_total",
        kind=MetricType.COUNTER,
        about="Operations in cycles, by kind.",
        labels=("operation",),
    ),
    Metric(
        name="vscheduler_writes_total",
        kind=MetricType.COUNTER,
        about="Writes other than binds, by object and result.",
        labels=("object", "outcome"),
    ),
    Metric(
        name="vscheduler_podgroup_calls_total",
        kind=MetricType.COUNTER,
        about="Calls about automatic PodGroups, by action and result.",
        labels=("action", "outcome"),
    ),
    Metric(
        name="vscheduler_config_last_reload_successful",
        kind=MetricType.GAUGE,
        about="1 if the last configuration file read is in effect, 0 if it is invalid.",
    ),
    Metric(
        name="vscheduler_config_last_reload_success_timestamp_seconds",
        kind=MetricType.GAUGE,
        about="When the configuration in effect was read, in seconds since the epoch.",
    ),
    Metric(
        name="leader_election_master_status",
        kind=MetricType.GAUGE,
        about="1 if this process is the leader, 0 if it is a standby, for each Lease.",
        labels=("name",),
    ),
    Metric(
        name="vscheduler_lease_transitions_total",
        kind=MetricType.COUNTER,
        about="How often the holder of a Lease changed.",
        labels=("name",),
    ),
    Metric(
        name="vscheduler_lease_other_configuration",
        kind=MetricType.GAUGE,
        about="1 on a standby whose configuration differs from the leader's, for each Lease.",
        labels=("name",),
    ),
    Metric(
        name="vscheduler_lease_renewal_milliseconds",
        kind=MetricType.HISTOGRAM,
        about="Duration of renewals of a Lease, by result.",
        labels=("name", "outcome"),
    ),
    Metric(
        name="vscheduler_history_records_total",
        kind=MetricType.COUNTER,
        about="Records of history written: jobs and runs of pods that are new or changed.",
    ),
    Metric(
        name="vscheduler_history_lost_total",
        kind=MetricType.COUNTER,
        about="Changes and records lost to the history; most are made up for by comparing all.",
    ),
    Metric(
        name="vscheduler_history_size_bytes",
        kind=MetricType.GAUGE,
        about="Size of the history's file.",
    ),
    Metric(
        name="vscheduler_history_failing",
        kind=MetricType.GAUGE,
        about="1 while the history's file can't be written; the log says why.",
    ),
    Metric(
        name="vscheduler_log_lines_dropped_total",
        kind=MetricType.COUNTER,
        about="Log lines dropped because nobody read them in time.",
    ),
    Metric(
        name="vscheduler_rejected_objects",
        kind=MetricType.GAUGE,
        about="Invalid objects, which are left out.",
    ),
    Metric(
        name="vscheduler_ungrouped_pods",
        kind=MetricType.GAUGE,
        about="Pods of this scheduler that name no PodGroup, or a missing PodGroup.",
    ),
)

QUEUE_TABLE = (
    Metric(name="volcano_queue_weight", kind=MetricType.GAUGE, about="A queue's weight."),
    Metric(
        name="volcano_queue_share", kind=MetricType.GAUGE, about="Its largest allocated/deserved."
    ),
    Metric(name="volcano_queue_allocated", kind=MetricType.GAUGE, about="Held by its pods"),
    Metric(
        name="volcano_queue_request", kind=MetricType.GAUGE, about="Held or requested by its pods"
    ),
    Metric(name="volcano_queue_deserved", kind=MetricType.GAUGE, about="Its fair share"),
    Metric(name="volcano_queue_capacity", kind=MetricType.GAUGE, about="Its spec.capability"),
    Metric(
        name="volcano_queue_real_capacity", kind=MetricType.GAUGE, about="The most it may ever have"
    ),
)
"""Gauges per queue. Amounts are split into _milli_cpu, _memory_bytes and _scalar_resources."""

SHARE_TABLE = (
    Metric(
        name="vscheduler_queue_allocated_ratio",
        kind=MetricType.GAUGE,
        about="Allocated / deserved resources of a queue; absent if it deserves nothing.",
        labels=("queue_name", "resource"),
    ),
    Metric(
        name="vscheduler_queue_satisfied_ratio",
        kind=MetricType.GAUGE,
        about="Allocated resources of a queue / its demand within its share: the deserved share in "
        "use, plus the requests of waiting pods that fit into the rest of it.",
        labels=("queue_name", "resource"),
    ),
    Metric(
        name="vscheduler_queue_elsewhere",
        kind=MetricType.GAUGE,
        about="Resources held by a queue's pods under other schedulers; in no other figure.",
        labels=("queue_name", "resource", "unit"),
    ),
    Metric(
        name="vscheduler_queue_pending_jobs",
        kind=MetricType.GAUGE,
        about="A queue's jobs left waiting by the last cycle, completely or in part.",
        labels=("queue_name",),
    ),
    Metric(
        name="vscheduler_queue_pending_pods",
        kind=MetricType.GAUGE,
        about="Pods of these jobs without a node.",
        labels=("queue_name",),
    ),
    Metric(
        name="vscheduler_fairness_error",
        kind=MetricType.GAUGE,
        about="The part of all queues' demand within their shares that isn't met, from 0 "
        "(perfect) to 1 (none of it is).",
        labels=("resource",),
    ),
    Metric(
        name="vscheduler_usable_capacity",
        kind=MetricType.GAUGE,
        about="Total from which shares are computed; 0 for a resource that no longer exists.",
        labels=("resource", "unit"),
    ),
    Metric(
        name="vscheduler_excluded_nodes",
        kind=MetricType.GAUGE,
        about="Nodes unusable for the pods of every queue, by reason; not part of the total.",
        labels=("reason",),
    ),
    Metric(
        name="vscheduler_topology_largest_free",
        kind=MetricType.GAUGE,
        about="The most that nodes of one domain of the network have free, of all in a tier.",
        labels=("topology", "tier", "resource", "unit"),
    ),
)
"""Gauges of shares, computed from the last cycle at each scrape."""

EVERY = (*TABLE, *QUEUE_TABLE, *SHARE_TABLE)
