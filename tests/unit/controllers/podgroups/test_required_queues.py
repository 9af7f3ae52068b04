"""Namespaces that require a queue."""

import pytest

from tests import patience
from tests.unit.controllers import group_api
from vscheduler.mirror.translate import translation

pytestmark = pytest.mark.usefixtures("virtual_time")

QUEUE = translation.QUEUE
REQUIRED = {translation.REQUIRE_QUEUE: "true"}
SAYS = (
    f'namespace ns has vscheduler.io/require-queue: "true", so name a queue in annotation {QUEUE}'
)


async def test_pods_get_no_group_in_the_default_queue() -> None:
    """Each is told once where to name a queue, and gets its group then."""
    async with group_api.world() as made:
        made.annotate_namespace(REQUIRED)
        owner = made.a_replica_set("web", 1)
        made.a_pod("a", owner)
        made.a_pod("bare")
        await patience.until(lambda: made.server.asked("get").total() > 4)
        told = {each.name: each.message for each in made.noticed}
        begin = f"waits for a PodGroup: {SAYS}"
        assert told == {
            "a": f"{begin} of ReplicaSet web or of its pods",
            "bare": f"{begin} of the pod",
        }
        assert (made.groups(), len(made.noticed)) == ({}, 2)
        for path in (f"{group_api.REPLICA_SETS}/web", f"{group_api.PODS}/bare"):
            made.server.change(path, {"metadata": {"annotations": {QUEUE: "q"}}})
        await patience.until(lambda: made.group_of("a") and made.group_of("bare"))
        assert {each["spec"]["queue"] for each in made.groups().values()} == {"q"}


async def test_a_group_that_has_the_default_queue_keeps_it() -> None:
    """The namespace requires one from now on; new pods of the owner join the PodGroup."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 2)
        made.a_pod("a", owner)
        await patience.until(lambda: made.group_of("a"))
        made.annotate_namespace(REQUIRED)
        made.a_pod("b", owner)
        await patience.until(lambda: made.group_of("b"))
        (group,) = made.groups().values()
        assert group["spec"]["queue"] == "default"
        assert made.noticed == []


async def test_groups_of_kubernetes_own_api_stay_without_a_queue() -> None:
    """They and their pods are told once, and have what somebody names then."""
    async with group_api.world() as made:
        made.annotate_namespace(REQUIRED)
        owner = made.a_replica_set("train", 1)
        made.a_native_group("g", owner)
        made.a_member("a", "g", owner)
        await patience.until(lambda: made.server.asked("get").total() > 4)
        assert [each.name for each in made.noticed] == ["g", "a"]
        says = f"waits for a queue: {SAYS} of PodGroup g or of ReplicaSet train or of its pods"
        assert {each.message for each in made.noticed} == {says}
        assert made.server.asked("patch").total() == 0
        path = f"{group_api.REPLICA_SETS}/train"
        made.server.change(path, {"metadata": {"annotations": {QUEUE: "q"}}})
        await patience.until(lambda: made.queue_of("g") == "q")


async def test_the_queue_of_the_namespace_itself_counts() -> None:
    """Nobody has to name another one."""
    async with group_api.world() as made:
        made.annotate_namespace({**REQUIRED, QUEUE: "team"})
        made.a_native_group("g")
        made.a_member("a", "g")
        made.a_pod("bare")
        await patience.until(lambda: made.queue_of("g") == "team")
        await patience.until(lambda: made.group_of("bare"))
        (group,) = made.groups().values()
        assert group["spec"]["queue"] == "team"
