from tests.unit.controllers import queue_api
from tests.unit.controllers.queues import test_queue_controller
from vscheduler.mirror import paths


async def test_a_status_is_meant_for_one_queue() -> None:
    """Server-side apply would make a deleted Queue anew, or change its successor."""
    server = queue_api.Server()
    queue_api.a_queue(server, "red")
    named = []

    def note(method: str, path: str, body: object) -> None:
        if (method, path) == ("patch", paths.QUEUES.status("red")):
            assert isinstance(body, dict)
            named.append(body["metadata"].get("uid"))

    server.refuse = note
    async with test_queue_controller.keeping(server):
        await test_queue_controller.until(lambda: queue_api.status_of(server, "red").get("state"))
    uid = server.objects[paths.QUEUES.at("red")]["metadata"]["uid"]
    assert set(named) == {uid}
