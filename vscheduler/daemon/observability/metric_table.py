"""Table of all metrics. No metric has a series per job or pod.

Names with prefix `volcano_` have the same meaning as in Volcano, so that dashboards keep working.
`leader_election_master_status` is the metric of Kubernetes' own components.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A row of the table."""

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
        name="vscheduler_loop_lag_milliseconds",
        kind=Kind.HISTOGRAM,
        about="How late the event loop is while a cycle runs, a hundred times a second.",
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
        name="vscheduler_stuck_total",
        kind=Kind.COUNTER,
        about="Times that this process found that only a new one can help, and ended, by cause.",
        labels=("cause",),
    ),
    Metric(
        name="vscheduler_stalled_seconds",
        kind=Kind.GAUGE,
        about="For how long what must go on hasn't, by the cause that it would be stuck of.",
        labels=("cause",),
    ),
    Metric(
        name="vscheduler_contained_failures_total",
        kind=Kind.COUNTER,
        about="Work that failed in a way that nobody expects, by where: a defect of the scheduler.",
        labels=("area",),
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
        name="vscheduler_podgroup_calls_total",
        kind=Kind.COUNTER,
        about="Calls about PodGroups that are made for pods, by action and by what came of them.",
        labels=("action", "outcome"),
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
        name="leader_election_master_status",
        kind=Kind.GAUGE,
        about="1 where this process leads, 0 where it stands by, for each Lease.",
        labels=("name",),
    ),
    Metric(
        name="vscheduler_lease_transitions_total",
        kind=Kind.COUNTER,
        about="Times that a Lease was seen with another holder than before.",
        labels=("name",),
    ),
    Metric(
        name="vscheduler_lease_renewal_milliseconds",
        kind=Kind.HISTOGRAM,
        about="Renewing a Lease, by what came of it.",
        labels=("name", "outcome"),
    ),
    Metric(
        name="vscheduler_log_lines_dropped_total",
        kind=Kind.COUNTER,
        about="Lines of the log that were dropped, as nobody read them.",
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
    Metric(name="volcano_queue_capacity", kind=Kind.GAUGE, about="Its spec.capability"),
    Metric(name="volcano_queue_real_capacity", kind=Kind.GAUGE, about="The most it may ever have"),
)
"""Gauges per queue. Amounts are split into _milli_cpu, _memory_bytes and _scalar_resources."""

SHARE_TABLE = (
    Metric(
        name="vscheduler_queue_allocated_ratio",
        kind=Kind.GAUGE,
        about="What a queue's pods have, by what it deserves; absent where it deserves nothing.",
        labels=("queue_name", "resource"),
    ),
    Metric(
        name="vscheduler_queue_owed_ratio",
        kind=Kind.GAUGE,
        about="What a queue's pods have, by what it is owed: what it has of what it deserves, and "
        "what its waiting pods ask for, as many as its share has room for.",
        labels=("queue_name", "resource"),
    ),
    Metric(
        name="vscheduler_queue_elsewhere",
        kind=Kind.GAUGE,
        about="What a queue's pods of other schedulers hold; in none of its other figures.",
        labels=("queue_name", "resource", "unit"),
    ),
    Metric(
        name="vscheduler_queue_pending_jobs",
        kind=Kind.GAUGE,
        about="A queue's jobs that the last cycle left waiting, whole or in part.",
        labels=("queue_name",),
    ),
    Metric(
        name="vscheduler_queue_pending_pods",
        kind=Kind.GAUGE,
        about="Pods of these jobs that have no node yet.",
        labels=("queue_name",),
    ),
    Metric(
        name="vscheduler_fairness_error",
        kind=Kind.GAUGE,
        about="The part of what all queues are owed that they don't have: 0 is perfect, 1 is "
        "nothing at all.",
        labels=("resource",),
    ),
    Metric(
        name="vscheduler_usable_capacity",
        kind=Kind.GAUGE,
        about="What shares are computed from; 0 for a resource that there was once.",
        labels=("resource", "unit"),
    ),
    Metric(
        name="vscheduler_excluded_nodes",
        kind=Kind.GAUGE,
        about="Nodes that no queue's pods can use, by why; they are no part of that.",
        labels=("reason",),
    ),
)
"""Gauges of shares, computed from the last cycle at each scrape."""

EVERY = (*TABLE, *QUEUE_TABLE, *SHARE_TABLE)
