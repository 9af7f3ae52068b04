import math
import re

import msgspec
import prometheus_client
import pytest
from msgspec.structs import replace

from tests import running
from vscheduler.daemon.leader_election.api import LeaseStatus
from vscheduler.daemon.observability import metric_table
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.model.decisions import Entitlement, Fault, QueueFigures
from vscheduler.model.queues import QueueState

GOLD = QueueFigures(
    name="gold",
    state=QueueState.OPEN,
    weight=3,
    allocated={"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 2},
    request={"cpu": 4000},
    capability={"cpu": 8000},
    entitlement=Entitlement(deserved={"cpu": 3000.5}, real_capability={"cpu": 9000}, share=0.5),
)
RESULT = msgspec.structs.replace(
    running.EMPTY,
    queues=(GOLD,),
    work={"placements": 7},
    faults=(Fault(plugin="p", hook="score_nodes", error="e"),),
)
PARTS = {"snapshot": 0.001, "decide": 0.01, "commit": 0.002}


def values(observed: Metrics) -> dict[str, float]:
    """Every sample by name and labels."""
    lines = observed.exposition().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def test_a_cycle_is_observed_in_every_metric_that_it_is_about() -> None:
    """Time by part in milliseconds, work, faults, and the queues' figures by Volcano's names."""
    observed = Metrics()
    observed.observe_cycle(RESULT, PARTS)
    found = values(observed)
    expected = {
        "volcano_e2e_scheduling_latency_milliseconds_sum": 13,
        "volcano_open_session_duration_milliseconds_sum": 1,
        'vscheduler_cycle_part_milliseconds_sum{part="decide"}': 10,
        'vscheduler_work_total{operation="placements"}': 7,
        'vscheduler_plugin_faults_total{hook="score_nodes",plugin="p"}': 1,
        'volcano_queue_weight{queue_name="gold"}': 3,
        'volcano_queue_share{queue_name="gold"}': 0.5,
        'volcano_queue_allocated_milli_cpu{queue_name="gold"}': 1500,
        'volcano_queue_allocated_memory_bytes{queue_name="gold"}': 2**30,
        'volcano_queue_allocated_scalar_resources{queue_name="gold",resource="nvidia.com/gpu"}': 2,
        'volcano_queue_request_milli_cpu{queue_name="gold"}': 4000,
        'volcano_queue_deserved_milli_cpu{queue_name="gold"}': 3000.5,
        'volcano_queue_capacity_milli_cpu{queue_name="gold"}': 8000,
        'volcano_queue_capacity_memory_bytes{queue_name="gold"}': math.inf,
        'volcano_queue_real_capacity_milli_cpu{queue_name="gold"}': 9000,
        "volcano_unschedule_job_count": 0,
    }
    assert {name: round(found[name], 6) for name in expected} == expected


def test_a_queue_that_is_gone_leaves_no_series() -> None:
    """Queue figures are those of the last cycle."""
    observed = Metrics()
    observed.observe_cycle(RESULT, PARTS)
    observed.observe_cycle(replace(RESULT, queues=()), PARTS)
    assert not [name for name in values(observed) if "gold" in name]


def test_binds_and_writes_are_counted_by_what_came_of_them() -> None:
    """A failed bind is an error among the attempts; a bound one has its latency."""
    observed = Metrics()
    observed.observe_bind("bound", bound=True, seconds=0.2)
    observed.observe_bind("conflict", bound=False, seconds=0.2)
    observed.observe_write("event", "written")
    observed.observe_plans(claimed=1, victims=5)
    observed.observe_plans(claimed=2, victims=3)
    observed.observe_plan("reclaim")
    observed.observe_eviction("spared")
    observed.observe_dropped_cycle()
    observed.observe_rejected(rejected=4, ungrouped=5)
    found = values(observed)
    expected = {
        'vscheduler_binds_total{outcome="bound"}': 1,
        'vscheduler_binds_total{outcome="conflict"}': 1,
        'volcano_schedule_attempts_total{result="error"}': 1,
        'volcano_task_scheduling_latency_milliseconds_sum{stage="Bound"}': 200,
        'vscheduler_writes_total{object="event",outcome="written"}': 1,
        "volcano_total_preemption_attempts": 3,
        "volcano_pod_preemption_victims": 3,
        'volcano_eviction_transactions_total{action="reclaim"}': 1,
        'vscheduler_evictions_total{outcome="spared"}': 1,
        "vscheduler_cycles_dropped_total": 1,
        "vscheduler_rejected_objects": 4,
        "vscheduler_ungrouped_pods": 5,
    }
    assert {name: round(found[name], 6) for name in expected} == expected


def test_the_table_has_every_metric_once_and_says_what_it_is_about() -> None:
    """Names are Volcano's or ours; nothing is labelled by job or pod."""
    names = [row.name for row in metric_table.EVERY]
    assert sorted(names) == sorted(set(names))
    for row in metric_table.EVERY:
        assert re.fullmatch(r"(volcano|vscheduler|leader_election)_[a-z0-9_]+", row.name)
        assert row.about
        assert not {"job", "pod", "job_id", "job_name"} & set(row.labels)


def test_leading_is_a_gauge_and_takeovers_are_counted() -> None:
    """What is given back and taken again by the same one hasn't changed hands."""
    observed = Metrics()
    seen = [("", False), ("x", False), ("x", False), ("", False), ("me", True), ("", False)]
    for holder, leads in seen:
        observed.observe_lease_status(LeaseStatus(lease="a", leads=leads, holder=holder))
    assert values(observed)['leader_election_master_status{name="a"}'] == 0
    observed.observe_lease_status(LeaseStatus(lease="a", leads=True, holder="me"))
    found = values(observed)
    assert found['leader_election_master_status{name="a"}'] == 1
    assert found['vscheduler_lease_transitions_total{name="a"}'] == 1
    observed.observe_lease_status(LeaseStatus(lease="a", leads=False, holder="x"))
    assert values(observed)['vscheduler_lease_transitions_total{name="a"}'] == 2
    assert values(observed)['vscheduler_lease_other_configuration{name="a"}'] == 0
    other = LeaseStatus(lease="a", leads=False, holder="x", other_configuration="f00")
    observed.observe_lease_status(other)
    assert values(observed)['vscheduler_lease_other_configuration{name="a"}'] == 1


def test_renewals_are_timed_by_what_came_of_them() -> None:
    """In milliseconds."""
    observed = Metrics()
    observed.observe_renewal("a", 0.007, "renewed")
    assert (
        values(observed)['vscheduler_lease_renewal_milliseconds_sum{name="a",outcome="renewed"}']
        == 7
    )


def test_what_stalls_and_what_an_instance_is_stuck_of_are_told_by_cause() -> None:
    """A gauge as it is now, and a count."""
    observed = Metrics()
    observed.observe_stalled({"cycle": 12.5, "loop": 0.0})
    observed.observe_stalled({"cycle": 13.0, "loop": 0.5})
    observed.observe_stuck("cycle")
    value = observed.registry.get_sample_value
    assert value("vscheduler_stalled_seconds", {"cause": "cycle"}) == 13.0
    assert value("vscheduler_stalled_seconds", {"cause": "loop"}) == 0.5
    assert value("vscheduler_stuck_total", {"cause": "cycle"}) == 1.0
    assert value("vscheduler_stuck_total", {"cause": "loop"}) is None


def test_unexpected_failures_are_counted_by_where() -> None:
    """Each of them, told of or not."""
    observed = Metrics()
    for area in ("call", "call", "object"):
        observed.observe_failure(area)
    text = observed.exposition().decode()
    assert 'vscheduler_contained_failures_total{area="call"} 2.0' in text
    assert 'vscheduler_contained_failures_total{area="object"} 1.0' in text


def test_labels_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six series are updated for each pod."""
    observed = Metrics()
    asked: list[tuple[str, ...]] = []
    labels = prometheus_client.Counter.labels

    def note(metric: prometheus_client.Counter, *names: str) -> prometheus_client.Counter:
        asked.append(names)
        return labels(metric, *names)

    monkeypatch.setattr(prometheus_client.Counter, "labels", note)
    for outcome in ("written", "conflict") * 3:
        observed.observe_write("event", outcome)
    assert asked == [("event", "written"), ("event", "conflict")]
    found = values(observed)
    assert found['vscheduler_writes_total{object="event",outcome="written"}'] == 3
    assert found['vscheduler_writes_total{object="event",outcome="conflict"}'] == 3


def test_metrics_of_a_child_process_join_those_of_its_parent() -> None:
    """Counters and histograms add up; of gauges that both have, the parent's count."""
    parent, child = Metrics(), Metrics()
    for each, times in ((parent, 1), (child, 2)):
        for _ in range(times):
            each.observe_failure("call")
            each.observe_renewal("both", 0.001, "done")
        each.observe_rejected(rejected=times, ungrouped=0)
    child.observe_group_call("create", "done")
    child.observe_lease_status(LeaseStatus(lease="theirs", leads=True))
    text = parent.exposition(child.exposition().decode()).decode()
    lines = text.splitlines()
    for line in (
        'vscheduler_contained_failures_total{area="call"} 3.0',
        'vscheduler_lease_renewal_milliseconds_count{name="both",outcome="done"} 3.0',
        "vscheduler_rejected_objects 1.0",
        'vscheduler_podgroup_calls_total{action="create",outcome="done"} 1.0',
        'leader_election_master_status{name="theirs"} 1.0',
    ):
        assert line in lines
    assert sum(line.startswith("# TYPE") for line in lines) == len(
        {line for line in lines if line.startswith("# TYPE")}
    )
