from typing import Any

from tests import patience
from tests.unit.controllers import queue_api
from tests.unit.controllers.queue_api import Server
from tests.unit.controllers.queues import test_queue_controller
from vscheduler.controllers.ports import RefusedError, Trouble
from vscheduler.mirror import paths


async def test_a_status_is_meant_for_one_queue() -> None:
    """Server-side apply would make a deleted Queue anew, or change its successor."""
    server = Server()
    queue_api.a_queue(server, "red")
    named = []

    def note(method: str, path: str, body: object) -> None:
        if (method, path) == ("patch", paths.QUEUES.status("red")):
            assert isinstance(body, dict)
            named.append(body["metadata"].get("uid"))

    server.refuse = note
    async with test_queue_controller.keeping(server):
        await patience.until(lambda: queue_api.status_of(server, "red").get("state"))
    uid = server.objects[paths.QUEUES.at("red")]["metadata"]["uid"]
    assert set(named) == {uid}


async def test_counts_are_told_again_after_others_without_an_answer() -> None:
    """A PodGroup came, which was written but not answered, and went."""
    server = Server()
    queue_api.a_queue(server, "red")

    def lose(method: str, path: str, body: Any) -> None:
        if (method, path) == ("patch", paths.QUEUES.status("red")) and body["status"]["pending"]:
            server.edit(paths.QUEUES.at("red"), {"status": body["status"]})
            server.remove(group)
            raise RefusedError(Trouble.UNANSWERED, "no answer")

    async with test_queue_controller.keeping(server):
        await patience.until(lambda: queue_api.state_of(server, "red"))
        await test_queue_controller.rest(server)
        server.refuse = lose
        group = queue_api.a_group(server, "g", "red", "Pending")
        await patience.until(lambda: group not in server.objects)
        await patience.until(lambda: not queue_api.status_of(server, "red")["pending"])
