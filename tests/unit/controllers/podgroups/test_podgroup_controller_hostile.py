"""What one pod or one group does to the controller of PodGroups concerns no other."""

import pytest

from tests import patience
from tests.unit.controllers import group_api
from vscheduler.mirror.translate import group_terms

pytestmark = pytest.mark.usefixtures("virtual_time")


@pytest.mark.contains_failures
async def test_a_group_that_the_controller_fails_at_holds_up_no_other() -> None:
    """Whatever is raised: it pauses, and is tried again."""
    async with group_api.world() as made:
        left = [ZeroDivisionError(), KeyError("x"), RecursionError()]

        def fail(method: str, path: str) -> None:
            wrong = path.endswith(("/bad", group_api.name_of_bare("bad")))
            if method in ("create", "patch") and wrong and left:
                raise left.pop()

        made.server.before = fail
        made.a_pod("bad")
        made.a_pod("good")
        await patience.until(lambda: made.group_of("good"))
        await patience.until(lambda: made.group_of("bad"))
        assert left == []


@pytest.mark.parametrize("name", ["?limit=1&x=%", "a/../b", "..", "", "x" * 300])
async def test_an_owner_that_nothing_can_be_called_is_gone(name: str) -> None:
    """Nobody is asked about it; pods beside it get their groups."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 1)
        odd = {**owner, "metadata": {**owner["metadata"], "name": name, "uid": "odd"}}
        made.a_pod("odd", odd)
        made.a_pod("good", owner)
        await patience.until(lambda: made.group_of("good"))
        await made.rest()
        assert made.group_of("odd") is None
        asked = [path for _, path in made.server.calls if "replicasets" in path]
        assert all(path.count("/") == 7 and "?" not in path for path in asked)


async def test_a_pod_that_names_the_group_of_others_says_nothing_about_it() -> None:
    """Though it is the newest, and asks for less."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 2, {group_terms.MIN_MEMBER: "3"})
        name = group_api.name_of(owner)
        made.a_pod("web-1", owner)
        await patience.until(lambda: made.group_of("web-1") == name)
        made.server.put(
            group_api.PODS,
            {
                "metadata": {
                    "name": "guest",
                    "uid": "guest",
                    "creationTimestamp": "2030-01-01T00:00:00Z",
                    "annotations": {
                        "scheduling.k8s.io/group-name": name,
                        group_terms.MIN_MEMBER: "1",
                    },
                },
                "spec": {"schedulerName": "vscheduler", "containers": [{"name": "main"}]},
            },
        )
        made.scale("web", 5)
        await patience.until(lambda: made.groups()[name]["spec"]["minMember"] == 3)
        assert made.groups()[name]["spec"]["minResources"]["cpu"] == "3"
