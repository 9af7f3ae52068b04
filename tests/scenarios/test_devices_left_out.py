"""Devices that the configuration leaves out."""

from tests import running
from tests.scenarios import test_device_quotas
from vscheduler.core import cycle


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
    tiers = running.tiers("priority gang | predicates proportion")
    for plugin in tiers[1]["plugins"]:
        if plugin["name"] == "predicates":
            plugin["arguments"] = {"predicate.DynamicResourceAllocationEnable": "false"}
    actions = "enqueue, allocate, backfill, reclaim"
    off = running.policy_of({"actions": actions, "tiers": tiers})
    for policy, total in ((found.policy, 8), (off, 0)):
        taken = found.mirror().snapshot(found.now)
        opened = cycle.open_session(taken, policy)
        assert opened.total[taken.space.columns[test_device_quotas.GPU]] == total
        result = cycle.run_cycle(taken, policy)
        assert (result.evicts, result.binds) == ((), ())
        assert test_device_quotas.figures(result)[0] == 2
