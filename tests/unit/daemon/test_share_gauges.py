from dataclasses import replace

import prometheus_client
import pytest

from tests import pictures, running
from vscheduler.core import actions, cycle, plugins
from vscheduler.core.framework import policy
from vscheduler.core.model import decisions, queues, snapshot
from vscheduler.daemon import share_gauges

EMPTY = decisions.CycleResult(
    binds=(),
    pipelined=(),
    evicts=(),
    groups=(),
    queues=(),
    total={},
    carried=snapshot.FRESH,
)


def queue(
    name: str,
    *,
    allocated: dict[str, float],
    request: dict[str, float],
    deserved: dict[str, float] | None,
) -> decisions.QueueFigures:
    """A queue's figures; without an entitlement where nothing says what it deserves."""
    return decisions.QueueFigures(
        name=name,
        state=queues.QueueState.OPEN,
        weight=1,
        allocated=allocated,
        request=request,
        entitlement=None if deserved is None else decisions.Entitlement(deserved=deserved),
    )


@pytest.fixture
def gauges() -> share_gauges.ShareGauges:
    """Gauges that saw no cycle yet."""
    return share_gauges.ShareGauges()


def samples(gauges: share_gauges.ShareGauges) -> dict[str, float]:
    """Values of our own gauges by name and labels, without the prefix."""
    registry = prometheus_client.CollectorRegistry()
    registry.register(gauges)
    return {
        line.rpartition(" ")[0].removeprefix("vscheduler_"): float(line.rpartition(" ")[2])
        for line in prometheus_client.generate_latest(registry).decode().splitlines()
        if line.startswith("vscheduler_")
    }


STARVED = queue(
    "starved",
    allocated={"cpu": 1000, "memory": 30},
    request={"cpu": 8000, "memory": 30},
    deserved={"cpu": 4000.0, "memory": 40.0, "pods": 0.0},
)
GREEDY = queue("greedy", allocated={"cpu": 9000}, request={"cpu": 9000}, deserved={"cpu": 6000.0})


def test_ratios_are_by_what_is_deserved_and_by_what_is_owed(
    gauges: share_gauges.ShareGauges,
) -> None:
    """A queue that asks for less than its share is owed no more; nothing is divided by zero."""
    idle = queue("idle", allocated={}, request={}, deserved={"cpu": 2000.0})
    bare = queue("bare", allocated={"cpu": 5}, request={"cpu": 5}, deserved=None)
    gauges.observe(replace(EMPTY, queues=(STARVED, GREEDY, idle, bare)))
    found = {name: value for name, value in samples(gauges).items() if "_ratio{" in name}
    assert found == {
        'queue_allocated_ratio{queue_name="starved",resource="cpu"}': 0.25,
        'queue_allocated_ratio{queue_name="starved",resource="memory"}': 0.75,
        'queue_allocated_ratio{queue_name="greedy",resource="cpu"}': 1.5,
        'queue_allocated_ratio{queue_name="idle",resource="cpu"}': 0.0,
        'queue_owed_ratio{queue_name="starved",resource="cpu"}': 0.25,
        'queue_owed_ratio{queue_name="starved",resource="memory"}': 1.0,
        'queue_owed_ratio{queue_name="greedy",resource="cpu"}': 1.5,
    }


def test_the_fairness_error_is_what_is_missing_of_what_is_owed() -> None:
    """What one queue has too much doesn't make up for what another lacks."""
    error = share_gauges.fairness_error((STARVED, GREEDY))
    assert error == {"cpu": 3000 / 10_000, "memory": 0.0, "pods": 0.0}


def test_shares_that_are_met_have_no_error() -> None:
    """Neither have queues of which nobody says what they deserve, nor no queues."""
    met = replace(GREEDY, entitlement=decisions.Entitlement(deserved={"cpu": 9000.0}))
    assert share_gauges.fairness_error((met,)) == {"cpu": 0.0}
    assert share_gauges.fairness_error((replace(met, entitlement=None),)) == {}


def test_a_resource_that_is_gone_stays_at_zero(gauges: share_gauges.ShareGauges) -> None:
    """Else nobody could be told of a loss; units are those that people calculate with."""
    gauges.observe(replace(EMPTY, total={"cpu": 75_500, "memory": 4096, "nvidia.com/gpu": 8}))
    gauges.observe(replace(EMPTY, total={"cpu": 75_500, "memory": 4096, "hugepages-2Mi": 2**21}))
    assert samples(gauges) == {
        'usable_capacity{resource="cpu",unit="core"}': 75.5,
        'usable_capacity{resource="hugepages-2Mi",unit="byte"}': 2**21,
        'usable_capacity{resource="memory",unit="byte"}': 4096,
        'usable_capacity{resource="nvidia.com/gpu",unit="integer"}': 0,
    }


def test_excluded_nodes_are_counted_by_reason(gauges: share_gauges.ShareGauges) -> None:
    """Most of them first; beyond a bound, reasons share a series."""
    gauges.observe(
        replace(
            EMPTY,
            excluded=tuple(
                decisions.Exclusion(reason=f"reason {number}", nodes=("a", "b"))
                for number in range(share_gauges.REASONS_MAX + 3)
            ),
        )
    )
    found = samples(gauges)
    assert len(found) == share_gauges.REASONS_MAX + 1
    assert found['excluded_nodes{reason="reason 0"}'] == 2
    assert found['excluded_nodes{reason="other reasons"}'] == 6


def test_what_other_schedulers_hold_is_told_apart(gauges: share_gauges.ShareGauges) -> None:
    """It is in neither ratio."""
    gauges.observe(replace(EMPTY, queues=(replace(GREEDY, elsewhere={"cpu": 2500}),)))
    found = samples(gauges)
    assert found['queue_elsewhere{queue_name="greedy",resource="cpu",unit="core"}'] == 2.5
    assert found['queue_allocated_ratio{queue_name="greedy",resource="cpu"}'] == 1.5


def test_waiting_jobs_and_pods_are_counted_by_queue(gauges: share_gauges.ShareGauges) -> None:
    """A gang that waits counts whole, a job above its minimum with what is left of it."""
    picture = """
        node  n1 cpu=3
        queue lab        queue shop
        queue quiet
        job   lab/gang   min=3 -*3
        job   shop/part  min=1 n1 -*4
        """
    allocate = policy.ActionSetting(action=actions.ACTIONS[0])
    gang = next(plugin for plugin in plugins.PLUGINS if plugin.name == "gang")
    result = cycle.run_cycle(
        running.snapshot_of(pictures.documents(picture)),
        policy.Policy(actions=(allocate,), tiers=((policy.PluginSetting(plugin=gang),),)),
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


def test_pods_that_wait_for_others_to_go_are_pending() -> None:
    """They have no node yet; those of a job that is done or failed aren't."""
    (job,) = running.snapshot_of(
        pictures.documents("node n1 cpu=1\nqueue lab\njob lab/waits min=1 -")
    ).jobs
    group = decisions.GroupStatus(
        job=job.id,
        uid=job.uid,
        queue="lab",
        phase=job.phase,
        running=0,
        succeeded=1,
        failed=2,
        ready=False,
        reason=decisions.Reason(
            code=decisions.ReasonCode.WAITS_FOR_RELEASE, queue="lab", tasks=4, placed=2
        ),
    )
    waits = decisions.Pipeline(task=job.tasks[0], node="n1")
    result = replace(EMPTY, groups=(group,), pipelined=(waits,))
    assert share_gauges.pending(result) == ({"lab": 1}, {"lab": 1})
