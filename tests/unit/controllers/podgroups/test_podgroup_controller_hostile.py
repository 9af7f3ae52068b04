"""What one pod or one group does to the controller of PodGroups concerns no other."""

import pytest

from tests.unit.controllers import group_api


@pytest.mark.contains_failures
async def test_a_group_that_the_controller_fails_at_holds_up_no_other() -> None:
    """Whatever is raised: it pauses, and is tried again."""
    async with group_api.world() as made:
        left = [ZeroDivisionError(), KeyError("x"), RecursionError()]

        def fail(method: str, path: str) -> None:
            wrong = path.endswith(("/bad", "podgroup-pod-bad"))
            if method in ("create", "patch") and wrong and left:
                raise left.pop()

        made.server.before = fail
        made.a_pod("bad")
        made.a_pod("good")
        await group_api.until(lambda: made.group_of("good"))
        await group_api.until(lambda: made.group_of("bad"))
        assert left == []


@pytest.mark.parametrize("name", ["?limit=1&x=%", "a/../b", "..", "", "x" * 300])
async def test_an_owner_that_nothing_can_be_called_is_gone(name: str) -> None:
    """Nobody is asked about it; pods beside it get their groups."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 1)
        odd = {**owner, "metadata": {**owner["metadata"], "name": name, "uid": "odd"}}
        made.a_pod("odd", odd)
        made.a_pod("good", owner)
        await group_api.until(lambda: made.group_of("good"))
        await made.rest()
        assert made.group_of("odd") is None
        asked = [path for _, path in made.server.calls if "replicasets" in path]
        assert all(path.count("/") == 7 and "?" not in path for path in asked)
