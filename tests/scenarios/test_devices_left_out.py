"""Devices that the configuration leaves out."""

from tests import running
from tests.scenarios import test_device_quotas
from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy


def without_devices() -> Policy:
    """A policy of which no plugin looks at claims for devices."""
    tiers = running.tiers("priority gang | predicates proportion")
    for plugin in tiers[1]["plugins"]:
        if plugin["name"] == "predicates":
            plugin["arguments"] = {"predicate.DynamicResourceAllocationEnable": "false"}
    actions = "enqueue, allocate, backfill, reclaim"
    return running.policy_of({"actions": actions, "tiers": tiers})


OFF = without_devices()


def test_devices_that_the_configuration_leaves_out_are_in_no_total() -> None:
    """Nobody gets any; who runs with some loses nothing."""
    found = test_device_quotas.lab(
        """
        queue q
        queue other
        job   q/a min=2 cpu=1 - -
        """,
        test_device_quotas.own("a-0", "a-1"),
        plugins="predicates proportion",
    )
    assert test_device_quotas.started(test_device_quotas.run(found)) == {"a-0", "a-1"}
    for policy, total in ((found.policy, 8), (OFF, 0)):
        taken = found.mirror().snapshot(found.now)
        opened = cycle.open_session(taken, policy)
        assert opened.total[taken.space.columns[test_device_quotas.GPU]] == total
        result = cycle.run_cycle(taken, policy)
        assert (result.evicts, result.binds) == ((), ())
        assert test_device_quotas.figures(result)[0] == 2


def test_no_group_is_promised_devices_that_the_configuration_leaves_out() -> None:
    """A group that asks for devices, admitted while they were shared, goes back to Pending before
    anything is promised to it.
    """
    found = test_device_quotas.lab("queue q\njob q/a min=1 cpu=1 -", {})
    group = found.get("PodGroup", "a")
    group["spec"]["minResources"] = {test_device_quotas.GPU: "2"}
    group["status"] = {"phase": "Inqueue"}
    found.put(group)
    for policy, phase in ((found.policy, "Inqueue"), (OFF, "Pending")):
        opened = cycle.open_session(found.mirror().snapshot(found.now), policy)
        (state,) = opened.waiting_jobs()
        assert state.phase == phase
