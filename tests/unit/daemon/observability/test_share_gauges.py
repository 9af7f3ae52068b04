import math

import prometheus_client
import pytest
from msgspec.structs import replace

from tests import running
from vscheduler.core import actions, cycle, plugins
from vscheduler.core.config.policy import ActionSetting, PluginSetting, Policy
from vscheduler.daemon.observability import share_gauges
from vscheduler.daemon.observability.share_gauges import ShareGauges
from vscheduler.model import refusals
from vscheduler.model.decisions import (
    Entitlement,
    Exclusion,
    GroupStatus,
    QueueFigures,
    Reason,
    ReasonCode,
)
from vscheduler.model.jobs import Task
from vscheduler.model.queues import QueueState
from vscheduler.testing import pictures


def queue(
    name: str,
    *,
    allocated: dict[str, float],
    request: dict[str, float],
    deserved: dict[str, float] | None,
) -> QueueFigures:
    """A queue's figures; without an entitlement where nothing says what it deserves."""
    return QueueFigures(
        name=name,
        state=QueueState.OPEN,
        weight=1,
        allocated=allocated,
        request=request,
        entitlement=None if deserved is None else Entitlement(deserved=deserved),
    )


def waiting_group(name: str, *, pods: int) -> tuple[GroupStatus, tuple[Task, ...]]:
    """A group of this queue that found no room, and its pods of 1 CPU."""
    (job,) = running.snapshot_of(
        pictures.documents(f"node n1 cpu=1\nqueue {name}\njob {name}/waits min=1 -*{pods}")
    ).jobs
    reason = Reason(code=ReasonCode.NO_ROOM, queue=name, tasks=pods)
    group = GroupStatus(
        job=job.id,
        uid=job.uid,
        queue=name,
        phase=job.phase,
        running=0,
        succeeded=0,
        failed=0,
        ready=False,
        reason=reason,
    )
    return group, job.tasks


@pytest.fixture
def gauges() -> ShareGauges:
    """Gauges that saw no cycle yet."""
    return ShareGauges()


def samples(gauges: ShareGauges) -> dict[str, float]:
    """Values of our own gauges by name and labels, without the prefix."""
    registry = prometheus_client.CollectorRegistry()
    registry.register(gauges)
    return {
        line.rpartition(" ")[0].removeprefix("vscheduler_"): float(line.rpartition(" ")[2])
        for line in prometheus_client.generate_latest(registry).decode().splitlines()
        if line.startswith("vscheduler_")
    }


GREEDY = queue("greedy", allocated={"cpu": 9000}, request={"cpu": 9000}, deserved={"cpu": 6000.0})


def test_ratios_are_by_what_is_deserved_and_by_what_of_it_is_wanted(
    gauges: ShareGauges,
) -> None:
    """A queue for which nothing waits has all that it wants; nothing is divided by zero."""
    modest = queue(
        "modest",
        allocated={"cpu": 1000, "memory": 30},
        request={"cpu": 1000, "memory": 30},
        deserved={"cpu": 4000.0, "memory": 40.0, "pods": 0.0, "example.com/gpu": math.inf},
    )
    idle = queue("idle", allocated={}, request={}, deserved={"cpu": 2000.0})
    bare = queue("bare", allocated={"cpu": 5}, request={"cpu": 5}, deserved=None)
    gauges.observe(replace(running.EMPTY, queues=(modest, GREEDY, idle, bare)))
    found = {name: value for name, value in samples(gauges).items() if "_ratio{" in name}
    assert found == {
        'queue_allocated_ratio{queue_name="modest",resource="cpu"}': 0.25,
        'queue_allocated_ratio{queue_name="modest",resource="memory"}': 0.75,
        'queue_allocated_ratio{queue_name="greedy",resource="cpu"}': 1.5,
        'queue_allocated_ratio{queue_name="idle",resource="cpu"}': 0.0,
        'queue_satisfied_ratio{queue_name="modest",resource="cpu"}': 1.0,
        'queue_satisfied_ratio{queue_name="modest",resource="memory"}': 1.0,
        'queue_satisfied_ratio{queue_name="greedy",resource="cpu"}': 1.5,
    }


def test_the_fairness_error_is_the_part_of_demands_that_is_not_met(
    gauges: ShareGauges,
) -> None:
    """What one queue has too much doesn't make up for what another lacks."""
    starved = queue(
        "starved", allocated={"cpu": 1000}, request={"cpu": 9000}, deserved={"cpu": 4000.0}
    )
    group, tasks = waiting_group("starved", pods=8)
    group = replace(group, unplaced=tasks)
    gauges.observe(replace(running.EMPTY, queues=(starved, GREEDY), changeable=(group,)))
    found = samples(gauges)
    assert found['fairness_error{resource="cpu"}'] == 3000 / 10_000
    assert found['queue_satisfied_ratio{queue_name="starved",resource="cpu"}'] == 0.25


def test_a_resource_that_is_gone_stays_at_zero(gauges: ShareGauges) -> None:
    """Else nobody could be told of a loss; units are those that people calculate with."""
    gauges.observe(
        replace(running.EMPTY, total={"cpu": 75_500, "memory": 4096, "nvidia.com/gpu": 8})
    )
    gauges.observe(
        replace(running.EMPTY, total={"cpu": 75_500, "memory": 4096, "hugepages-2Mi": 2**21})
    )
    assert samples(gauges) == {
        'usable_capacity{resource="cpu",unit="core"}': 75.5,
        'usable_capacity{resource="hugepages-2Mi",unit="byte"}': 2**21,
        'usable_capacity{resource="memory",unit="byte"}': 4096,
        'usable_capacity{resource="nvidia.com/gpu",unit="integer"}': 0,
    }


def test_excluded_nodes_are_counted_by_reason(gauges: ShareGauges) -> None:
    """Most of them first; beyond a bound, reasons share a series."""
    gauges.observe(
        replace(
            running.EMPTY,
            excluded=tuple(
                Exclusion(refusal=refusals.of(f"reason {number}"), nodes=("a", "b"))
                for number in range(share_gauges.REASONS_MAX + 3)
            ),
        )
    )
    found = samples(gauges)
    assert len(found) == share_gauges.REASONS_MAX + 1
    assert found['excluded_nodes{reason="reason 0"}'] == 2
    assert found['excluded_nodes{reason="other reasons"}'] == 6


RACKS = """
    node n1 cpu=4 label=spine=s label=rack=a   node n2 cpu=4 label=spine=s label=rack=a
    node n3 cpu=4 label=spine=s label=rack=b   node n4 cpu=4 label=spine=s label=rack=b cordoned
    node n5 cpu=9
    queue q   job q/busy min=1 cpu=3 n1   job q/late min=1 cpu=2 -
"""


def test_the_most_that_is_free_in_a_domain_is_told_by_tier(gauges: ShareGauges) -> None:
    """After the binds of the cycle; nodes in no domain and cordoned ones don't count."""
    tiers = running.tiers("gang | predicates")
    levels = {"topologies": [{"name": "fabric", "levels": ["spine", "rack"]}]}
    tiers[-1]["plugins"].append({"name": "network-topology-aware", "arguments": levels})
    documents = pictures.documents(RACKS.replace("cpu=2 -", "cpu=2 select=rack=b -"))
    gauges.observe(running.run(documents, {"actions": "allocate", "tiers": tiers}))
    found = {each: value for each, value in samples(gauges).items() if "largest_free" in each}
    name = "topology_largest_free"
    labels = 'resource="cpu",tier="{}",topology="fabric",unit="core"'
    assert found[f"{name}{{{labels.format(1)}}}"] == 5
    assert found[f"{name}{{{labels.format(2)}}}"] == 7
    assert not any('tier="3"' in each for each in found)
    gauges.observe(running.run(documents, {"actions": "allocate", "tiers": running.tiers("gang")}))
    assert not any(name in each for each in samples(gauges))


def test_what_other_schedulers_hold_is_told_apart(gauges: ShareGauges) -> None:
    """It is in neither ratio."""
    gauges.observe(
        replace(running.EMPTY, queues=(replace(GREEDY, used_by_other_schedulers={"cpu": 2500}),))
    )
    found = samples(gauges)
    assert found['queue_elsewhere{queue_name="greedy",resource="cpu",unit="core"}'] == 2.5
    assert found['queue_allocated_ratio{queue_name="greedy",resource="cpu"}'] == 1.5


def test_waiting_jobs_and_pods_are_counted_by_queue(gauges: ShareGauges) -> None:
    """A gang that waits counts whole, a job above its minimum with what is left of it."""
    picture = """
        node  n1 cpu=3
        queue lab        queue shop
        queue quiet
        job   lab/gang   min=3 -*3
        job   shop/part  min=1 n1 -*4
        """
    allocate = ActionSetting(action=actions.ACTIONS[0])
    gang = next(plugin for plugin in plugins.PLUGINS if plugin.name == "gang")
    result = cycle.run_cycle(
        running.snapshot_of(pictures.documents(picture)),
        Policy(actions=(allocate,), tiers=((PluginSetting(plugin=gang),),)),
    )
    assert len(result.binds) == 2
    gauges.observe(result)
    assert {name: value for name, value in samples(gauges).items() if "_pending_" in name} == {
        'queue_pending_jobs{queue_name="lab"}': 1,
        'queue_pending_jobs{queue_name="quiet"}': 0,
        'queue_pending_jobs{queue_name="shop"}': 1,
        'queue_pending_pods{queue_name="lab"}': 3,
        'queue_pending_pods{queue_name="quiet"}': 0,
        'queue_pending_pods{queue_name="shop"}': 2,
    }


@pytest.mark.parametrize(
    ("code", "counts"), [(ReasonCode.NO_ROOM, True), (ReasonCode.NEVER_FITS, False)]
)
def test_a_job_that_can_never_start_is_no_demand(
    gauges: ShareGauges, code: ReasonCode, *, counts: bool
) -> None:
    """One impossible gang is no unfairness, and raises no alert about its queue; it still waits."""
    group, pods = waiting_group("needy", pods=4)
    assert group.reason is not None
    group = replace(group, reason=replace(group.reason, code=code), unplaced=pods)
    needy = queue("needy", allocated={}, request={"cpu": 4000}, deserved={"cpu": 4000.0})
    gauges.observe(replace(running.EMPTY, queues=(needy,), changeable=(group,)))
    found = samples(gauges)
    assert found['queue_pending_pods{queue_name="needy"}'] == 4
    assert ('queue_satisfied_ratio{queue_name="needy",resource="cpu"}' in found) == counts
    assert found.get('fairness_error{resource="cpu"}', 0.0) == (1.0 if counts else 0.0)
