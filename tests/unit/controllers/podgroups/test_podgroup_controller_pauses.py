import asyncio
import time

import pytest

from tests import patience
from tests.unit.controllers import group_api
from vscheduler.controllers.ports import Trouble

pytestmark = pytest.mark.usefixtures("virtual_time")

TRIES = 10
PAUSES_SECONDS = 0.7
"""The sum of nine pauses that begin with 0.02 s and double up to 0.1 s is 0.74 s."""


async def test_a_pod_that_may_not_join_is_patched_ever_less() -> None:
    """A policy refuses its patch again and again."""
    async with group_api.world() as made:
        path = f"{group_api.PODS}/bare"
        made.server.refusals["patch", path] = [Trouble.INVALID] * 100
        began = time.monotonic()
        made.a_pod("bare")
        await patience.until(lambda: made.server.asked("patch")[path] >= TRIES)
        assert time.monotonic() - began > PAUSES_SECONDS


async def test_a_group_follows_an_owner_that_changes_before_any_watch_shows_the_group() -> None:
    """The owner is scaled while its group is made; the watch of groups is late."""
    async with group_api.world() as made:
        create = ("create", group_api.GROUPS)
        made.server.late[create] = asyncio.Event()
        owner = made.a_replica_set("web", 1, {"scheduling.volcano.sh/group-min-member": "5"})
        made.a_pod("p", owner)
        await patience.until(lambda: create in made.server.calls)
        made.scale("web", 5)
        made.deaf = True
        made.server.late.pop(create).set()
        await patience.until(lambda: made.counted["attach", "done"])
        await made.rest()
        made.deaf = False
        for each in (*made.groups().values(), made.server.objects[f"{group_api.PODS}/p"]):
            made.show("MODIFIED", each)
        name = group_api.name_of(owner)
        await patience.until(lambda: made.groups()[name]["spec"]["minMember"] == 5)


async def test_a_group_that_may_not_be_deleted_is_tried_ever_less() -> None:
    """Its owner is gone, and a policy refuses the delete again and again."""
    async with group_api.world(grace_seconds=0.01) as made:
        owner = made.a_replica_set("web", 1)
        path = f"{group_api.GROUPS}/{group_api.name_of(owner)}"
        made.a_pod("p", owner)
        await patience.until(lambda: made.group_of("p"))
        made.server.refusals["delete", path] = [Trouble.INVALID] * 100
        made.scale("web", 0)
        made.server.drop(f"{group_api.PODS}/p")
        await patience.until(lambda: made.server.asked("delete")[path])
        began = time.monotonic()
        await patience.until(lambda: made.server.asked("delete")[path] > TRIES)
        assert time.monotonic() - began > PAUSES_SECONDS


async def test_an_update_that_fails_is_tried_again() -> None:
    """The API server is busy when an owner has been scaled, and nothing else happens."""
    async with group_api.world() as made:
        minimum = {"scheduling.volcano.sh/group-min-member": "5"}
        owner = made.a_replica_set("web", 1, minimum)
        name = group_api.name_of(owner)
        made.a_pod("p", owner)
        await patience.until(lambda: made.group_of("p") == name)
        await made.rest()
        path = f"{group_api.GROUPS}/{name}"
        made.server.refusals["patch", path] = [Trouble.THROTTLED]
        made.scale("web", 5)
        await patience.until(lambda: made.groups()[name]["spec"]["minMember"] == 5)
