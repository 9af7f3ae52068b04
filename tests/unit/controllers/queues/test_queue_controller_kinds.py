"""Queues whose kind is taken away, and queues that the keeper fails at."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests import patience
from tests.unit.controllers import queue_api
from tests.unit.controllers.queue_api import Server
from tests.unit.controllers.queues.test_queue_controller import (
    PACE,
    QUEUES,
    finalizers,
    keeping,
    rest,
)

pytestmark = pytest.mark.usefixtures("virtual_time")

KINDS_PACE = replace(PACE, kinds_seconds=0.01)


@pytest.mark.contains_failures
async def test_a_queue_that_the_keeper_fails_at_holds_up_no_other() -> None:
    """Whatever is raised; it is tried again."""
    server = Server()
    left = [ZeroDivisionError(), KeyError("x")]

    def fail(method: str, path: str, _: Any) -> None:
        if method == "patch" and path.endswith("/bad/status") and left:
            raise left.pop()

    server.refuse = fail
    queue_api.a_queue(server, "bad")
    queue_api.a_queue(server, "good")
    async with keeping(server):
        await patience.until(lambda: queue_api.state_of(server, "good") == "Open")
        await patience.until(lambda: queue_api.state_of(server, "bad") == "Open")
    assert left == []


async def test_queues_go_with_their_kind() -> None:
    """Whatever they hold; nothing is made anew before the kind is back."""
    server = Server()
    path = queue_api.a_queue(server, "lab")
    queue_api.a_group(server, "job", "lab")
    async with keeping(server, KINDS_PACE):
        await patience.until(lambda: finalizers(server, "lab"))
        server.offers["queues"] = ("delete", "get", "list", "watch")
        for each in [each for each in server.objects if each.startswith(f"{QUEUES}/")]:
            server.remove(each)
        await patience.until(lambda: path not in server.objects)
        await patience.until(lambda: f"{QUEUES}/default" not in server.objects)
        del server.offers["queues"]
        before = len(server.writes)
        await asyncio.sleep(0.2)
        assert len(server.writes) == before
        server.offers["queues"] = queue_api.VERBS
        await patience.until(lambda: f"{QUEUES}/default" in server.objects)
        await rest(server)


async def test_a_queue_of_a_kind_that_stays_waits_for_what_it_holds() -> None:
    """A deletion of it alone; and where the server doesn't say."""
    server = Server()
    path = queue_api.a_queue(server, "lab")
    group = queue_api.a_group(server, "job", "lab")
    async with keeping(server, KINDS_PACE):
        await patience.until(lambda: finalizers(server, "lab"))
        server.remove(path)
        await asyncio.sleep(0.1)
        assert finalizers(server, "lab")
        server.silent = True
        await asyncio.sleep(0.1)
        assert finalizers(server, "lab")
        server.remove(group)
        await patience.until(lambda: path not in server.objects)


async def test_queues_need_not_wait_for_a_kind_that_is_gone() -> None:
    """There are no PodGroups where the server has missed them twice."""
    server = Server()
    path = queue_api.a_queue(server, "lab")
    group = queue_api.a_group(server, "job", "lab")
    async with keeping(server, replace(KINDS_PACE, audit_seconds=0.02), deaf=True):
        await patience.until(lambda: finalizers(server, "lab"))
        server.remove(group)
        server.remove(path)
        del server.offers["podgroups"]
        await patience.until(lambda: path not in server.objects)


async def test_queues_are_kept_without_podgroups_of_volcano() -> None:
    """Nothing is asked all the time for that, and lists do without them."""
    server = Server()
    del server.offers["podgroups"]
    path = queue_api.a_queue(server, "lab")
    async with keeping(server, KINDS_PACE):
        await patience.until(lambda: queue_api.state_of(server, "lab") == "Open")
        await rest(server)
        asked = server.questions
        await asyncio.sleep(0.5)
        assert server.questions == asked
        server.remove(path)
        await patience.until(lambda: path not in server.objects)
