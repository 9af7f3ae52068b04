import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from structlog import testing

from tests import patience
from tests.unit.controllers import queue_api
from tests.unit.controllers.queue_api import Indexed, Server
from vscheduler.controllers.ports import RefusedError, Trouble
from vscheduler.controllers.queues import queue_index
from vscheduler.controllers.queues.queue_controller import Pace, QueueController
from vscheduler.controllers.queues.queue_index import QueueIndex, Witness
from vscheduler.controllers.queues.queue_objects import Group
from vscheduler.mirror import paths

pytestmark = pytest.mark.usefixtures("virtual_time")

PACE = Pace(
    together_seconds=0,
    spacing_seconds=0.002,
    counts_seconds=0,
    settle_seconds=0.01,
    retry_seconds=0.005,
    retry_max_seconds=0.05,
    absent_max_seconds=0.01,
)
QUEUES = paths.QUEUES.everywhere


class Keeper(NamedTuple):
    """A keeper at work, and what it knows."""

    controller: QueueController
    indexed: Indexed


@asynccontextmanager
async def keeping(
    server: Server,
    pace: Pace = PACE,
    *,
    deaf: bool = False,
    witness: Witness = queue_index.as_written,
) -> AsyncIterator[Keeper]:
    """A keeper at work; a deaf one hears of no PodGroups after its start."""
    indexed = Indexed(server, lambda: keeper.changed(), deaf=deaf)  # noqa: PLW0108 - it comes
    keeper = QueueController(
        server,
        index=QueueIndex(indexed.indices, "default", witness),
        observe=lambda *_: None,
        pace=pace,
    )
    task = asyncio.create_task(keeper.run())
    try:
        yield Keeper(keeper, indexed)
    finally:
        indexed.close()
        assert not task.done() or task.exception() is None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def rest(server: Server) -> None:
    """Wait until nothing more is written."""
    await patience.until_at_rest(lambda: len(server.writes), 0.06)


def finalizers(server: Server, name: str) -> list[str]:
    """Those of a Queue."""
    return list(server.objects[f"{QUEUES}/{name}"]["metadata"].get("finalizers", []))


async def test_all_is_brought_up_and_then_quiet() -> None:
    """Root and default are made, states and counts written once; a second keeper writes nothing."""
    server = Server()
    queue_api.a_queue(server, "red")
    for number, phase in enumerate(("", "Running", "Running")):
        queue_api.a_group(server, f"g{number}", "red", phase)
    queue_api.a_group(server, "lone", "")
    async with keeping(server):
        await patience.until(lambda: queue_api.status_of(server, "red").get("running") == 2)
        await rest(server)
        assert queue_api.status_of(server, "red")["pending"] == 1
        assert queue_api.status_of(server, "default")["pending"] == 1
        assert queue_api.state_of(server, "root") == "Open"
        assert [finalizers(server, each) for each in ("red", "default", "root")] == [
            ["vscheduler.io/in-use"]
        ] * 3
    before = len(server.writes)
    assert before == 2 + 3 + 3, "two are created; of three, the finalizer and the status"
    async with keeping(server):
        await asyncio.sleep(0.1)
    assert len(server.writes) == before


async def test_a_delete_waits_for_the_last_group() -> None:
    """The queue says what for, and is let go when the live lists say so, too."""
    server = Server()
    path = queue_api.a_queue(server, "red")
    group = queue_api.a_group(server, "g", "red", "Running")
    async with keeping(server):
        await patience.until(lambda: finalizers(server, "red"))
        server.remove(path)
        await patience.until(lambda: queue_api.state_of(server, "red") == "Closing")
        await rest(server)
        assert path in server.objects
        server.remove(group)
        await patience.until(lambda: path not in server.objects)
        await rest(server)
        assert server.calls[-1][0] == "patch"


async def test_a_delete_waits_for_groups_of_kubernetes_own_api() -> None:
    """Also for one that the keeper hasn't heard of; one without a queue keeps none."""
    server = Server()
    server.native = None
    path = queue_api.a_queue(server, "red")
    group = queue_api.a_native_group(server, "g", "red", "Running")
    queue_api.a_native_group(server, "unqueued", "")
    async with keeping(server) as keeper:
        await patience.until(lambda: finalizers(server, "red"))
        await patience.until(lambda: queue_api.status_of(server, "red").get("running") == 1)
        assert queue_api.status_of(server, "default")["pending"] == 0
        keeper.indexed.forget(server.objects[group]["metadata"]["uid"])
        server.remove(path)
        await patience.until(lambda: queue_api.state_of(server, "red") == "Closed")
        await asyncio.sleep(0.1)
        assert path in server.objects
        server.remove(group)
        await patience.until(lambda: path not in server.objects)


@pytest.mark.parametrize("trouble", [Trouble.MISSING, Trouble.FORBIDDEN])
async def test_queues_need_no_groups_of_kubernetes_own_api(trouble: Trouble) -> None:
    """Where they aren't served, or may not be listed, a queue is let go without them."""
    server = Server()
    server.native = trouble
    path = queue_api.a_queue(server, "red")
    group = queue_api.a_group(server, "g", "red")
    async with keeping(server):
        await patience.until(lambda: finalizers(server, "red"))
        server.remove(path)
        server.remove(group)
        await patience.until(lambda: path not in server.objects)


async def test_a_queue_isnt_let_go_while_native_groups_cant_be_listed() -> None:
    """Whoever can't say what is there can't say that nothing is."""
    server = Server()
    path = queue_api.a_queue(server, "red")
    group = queue_api.a_group(server, "g", "red")
    async with keeping(server):
        await patience.until(lambda: finalizers(server, "red"))
        server.native = Trouble.UNANSWERED
        server.remove(path)
        server.remove(group)
        await asyncio.sleep(0.1)
        assert path in server.objects
        server.native = None
        await patience.until(lambda: path not in server.objects)


async def test_a_queue_isnt_let_go_unseen() -> None:
    """A group that the keeper hasn't heard of keeps its queue; so does a list that fails."""
    server = Server()
    path = queue_api.a_queue(server, "red")
    group = queue_api.a_group(server, "g", "red")
    refuse = itertools.count()

    def no_lists(method: str, *_: Any) -> None:
        if method == "list":
            next(refuse)
            raise RefusedError(Trouble.UNANSWERED, "no lists today")

    async with keeping(server) as keeper:
        await patience.until(lambda: finalizers(server, "red"))
        keeper.indexed.forget(server.objects[group]["metadata"]["uid"])
        server.remove(path)
        await rest(server)
        assert finalizers(server, "red") == ["vscheduler.io/in-use"]
        server.refuse = no_lists
        server.remove(group)
        await patience.until(lambda: next(refuse) > 5)
        assert path in server.objects
        server.refuse = lambda *_: None
        await patience.until(lambda: path not in server.objects)


async def test_what_went_unheard_is_found_by_the_live_lists() -> None:
    """After each list of Kopf's, and from time to time."""
    server = Server()
    queue_api.a_queue(server, "red")
    group = queue_api.a_group(server, "g", "red")
    async with keeping(server, deaf=True) as keeper:
        await patience.until(lambda: queue_api.status_of(server, "red").get("pending") == 1)
        server.remove(group)
        keeper.controller.changed(listed=True)
        await patience.until(lambda: queue_api.status_of(server, "red")["pending"] == 0)
    group = queue_api.a_group(server, "g", "red")
    async with keeping(server, replace(PACE, audit_seconds=0.02), deaf=True):
        await patience.until(lambda: queue_api.status_of(server, "red").get("pending") == 1)
        server.remove(group)
        await patience.until(lambda: queue_api.status_of(server, "red")["pending"] == 0)


async def test_a_write_that_no_watch_has_shown_isnt_repeated() -> None:
    """Its answer tells the version to wait for; after a while nothing is waited for."""
    server = Server()
    queue_api.a_queue(server, "red")

    def marks() -> int:
        return sum(path.endswith("queues/red") for method, path in server.writes)

    async with keeping(server, replace(PACE, shown_seconds=1.0)) as keeper:
        await patience.until(lambda: queue_api.state_of(server, "red") == "Open")
        await rest(server)
        keeper.indexed.close()
        queue = server.objects[f"{QUEUES}/red"]
        keeper.indexed.hear(f"{queue_api.GROUPS}/g", a_stored_group("g", "red"), gone=False)
        await patience.until(lambda: marks() == 1)
        for _ in range(20):
            keeper.controller.changed()
            await asyncio.sleep(0.01)
        assert marks() == 1
        assert queue["metadata"]["uid"]
        server.listeners.append(keeper.indexed.hear)
        await patience.until(lambda: marks() > 1)


def a_stored_group(name: str, queue: str) -> dict[str, Any]:
    """A PodGroup as the server has it."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"queue": queue}}


async def test_counts_are_written_together() -> None:
    """However many groups come and go, a queue is written to once in a while."""
    server = Server()
    queue_api.a_queue(server, "red")
    async with keeping(server, replace(PACE, counts_seconds=0.3)):
        await patience.until(lambda: queue_api.state_of(server, "red"))
        await rest(server)
        before, started = len(server.writes), time.monotonic()
        for number in range(50):
            queue_api.a_group(server, f"g{number}", "red")
            await asyncio.sleep(0.001)
        await patience.until(lambda: queue_api.status_of(server, "red")["pending"] == 50)
        most = 3 + (time.monotonic() - started) / 0.3
        assert len(server.writes) - before <= most, "the finalizer, and some for each 0.3 s"


async def test_commands_are_written_down_before_they_are_deleted() -> None:
    """In the order in which they were made; a crash in between repeats them."""
    server = Server()
    queue_api.a_queue(server, "red")
    first = queue_api.a_command(server, "b", "CloseQueue", "red")
    second = queue_api.a_command(server, "a", "OpenQueue", "red")

    def no_deletes(method: str, path: str, _: Any) -> None:
        if method == "delete" and path == second:
            raise RefusedError(Trouble.UNANSWERED, "lost")

    server.refuse = no_deletes
    async with keeping(server):
        await patience.until(lambda: first not in server.objects)
        await patience.until(lambda: sum(call[0] == "delete" for call in server.calls) > 3)
        assert second in server.objects
        server.refuse = lambda *_: None
        await patience.until(lambda: second not in server.objects)
        assert queue_api.state_of(server, "red") == "Open"


@pytest.mark.parametrize(
    ("queue", "uid"), [("root", ""), ("none", ""), ("red", "of-an-earlier-one")]
)
async def test_commands_that_cant_be_obeyed_are_told_and_deleted(queue: str, uid: str) -> None:
    """Root stays open, and a Command never hits a queue that it isn't meant for."""
    server = Server()
    queue_api.a_queue(server, "red")
    with testing.capture_logs() as logs:
        async with keeping(server):
            path = queue_api.a_command(server, "c", "CloseQueue", queue, uid)
            await patience.until(lambda: path not in server.objects)
            await rest(server)
    assert [log["queue"] for log in logs if log["event"] == "command.refused"] == [queue]
    assert queue_api.state_of(server, "red") == "Open"


async def test_a_missing_crd_is_waited_for() -> None:
    """Nothing is planned before the live lists are there."""
    server = Server()

    def absent(*_: Any) -> None:
        raise RefusedError(Trouble.MISSING, "no such kind")

    server.refuse = absent
    async with keeping(server):
        await patience.until(lambda: len(server.calls) > 5)
        assert not server.writes
        server.refuse = lambda *_: None
        await patience.until(lambda: queue_api.state_of(server, "default"))


async def test_one_bad_queue_stops_no_other_and_is_told_once() -> None:
    """What the server refuses for good is left alone for long."""
    server = Server()
    queue_api.a_queue(server, "bad")
    queue_api.a_queue(server, "good")

    def refuse(method: str, path: str, _: Any) -> None:
        if method == "patch" and "bad" in path:
            raise RefusedError(Trouble.INVALID, "no")

    server.refuse = refuse
    with testing.capture_logs() as logs:
        async with keeping(server):
            await patience.until(lambda: queue_api.state_of(server, "good"))
            for number in range(5):
                queue_api.a_group(server, f"g{number}", "good")
                await asyncio.sleep(0.02)
            tries = sum(write[1].endswith("bad/status") for write in server.writes)
            assert tries <= 4
            server.refuse = lambda *_: None
            await patience.until(lambda: queue_api.state_of(server, "bad"))
    assert len([log for log in logs if log["event"] == "queue.not_kept"]) == 1


async def test_two_keepers_at_once_come_to_rest() -> None:
    """Each writes what it thinks best, and then both agree."""
    server = Server()
    top = queue_api.a_queue(server, "top")
    queue_api.a_queue(server, "leaf", parent="top")
    queue_api.a_group(server, "g", "leaf")
    async with keeping(server), keeping(server):
        server.edit(top, {"metadata": {"annotations": {"vscheduler.io/wanted-state": "Closed"}}})
        await patience.until(lambda: queue_api.state_of(server, "leaf") == "Closing")
        server.edit(top, {"metadata": {"annotations": {"vscheduler.io/wanted-state": "Open"}}})
        await patience.until(lambda: queue_api.state_of(server, "leaf") == "Open")
        await rest(server)
        marks = server.objects[f"{QUEUES}/leaf"]["metadata"].get("annotations", {})
        assert "volcano.sh/closed-by-parent" not in marks


async def test_volcanos_crd_gets_what_it_has_a_place_for() -> None:
    """Conditions are left out after a refusal, and `allocated` is there where it must be.

    What they would have said, the log says once.
    """
    server = Server()
    path = queue_api.a_queue(server, "red", parent="nowhere")

    def narrow(method: str, path: str, body: Any) -> None:
        if method == "patch" and path.endswith("/status"):
            if "conditions" in body["status"]:
                message = ".status.conditions: field not declared in schema"
                raise RefusedError(Trouble.UNANSWERED, message)
            if "allocated" not in body["status"]:
                message = "status.allocated: Required value"
                raise RefusedError(Trouble.INVALID, message)

    server.refuse = narrow
    with testing.capture_logs() as logs:
        async with keeping(server):
            await patience.until(lambda: queue_api.state_of(server, "red") == "Open")
            await rest(server)
            wish = {"metadata": {"annotations": {"vscheduler.io/wanted-state": "Closed"}}}
            server.edit(path, wish)
            await patience.until(lambda: queue_api.state_of(server, "red") == "Closed")
            await rest(server)
            server.edit(path, {"spec": {"parent": "root"}})
            await rest(server)
    assert len([log for log in logs if log["event"] == "queue.conditions_missing"]) == 1
    told = [log for log in logs if log["event"] == "queue.condition"]
    assert [(each["queue"], each["type"], each["reason"]) for each in told] == [
        ("red", "vscheduler.io/Tree", "ParentMissing")
    ]
    assert "nowhere" in told[0]["message"]
    ended = [log for log in logs if log["event"] == "queue.condition_ended"]
    assert [(each["queue"], each["type"]) for each in ended] == [("red", "vscheduler.io/Tree")]
    assert queue_api.status_of(server, "red")["allocated"] == {"cpu": "0", "memory": "0"}


async def test_what_pods_bear_out_is_counted_when_they_move() -> None:
    """Nothing happens to the group itself."""
    server = Server()
    borne_out: set[str] = set()
    server.put(f"{QUEUES}/red", {"metadata": {"name": "red"}, "spec": {}})
    server.put(
        f"{queue_api.GROUPS}/g",
        {
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"queue": "red"},
            "status": {"phase": "Running", "running": 1000},
        },
    )

    def counts() -> tuple[int, int]:
        status = server.objects[f"{QUEUES}/red"].get("status", {})
        return status.get("pending", -1), status.get("running", -1)

    def witness(group: Group) -> str:
        return group.counter if group.key in borne_out else "pending"

    async with keeping(server, witness=witness) as keeper:
        await patience.until(lambda: counts() == (1, 0))
        await rest(server)
        borne_out.add("default/g")
        keeper.controller.changed()
        await patience.until(lambda: counts() == (0, 1))
