"""Writes that tell nobody anything new, and wait until no binds are added any more."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests import patience
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.writes import test_status_writer, test_write_queue
from vscheduler.cluster.writes import status_writer, write_queue
from vscheduler.cluster.writes.status_writer import StoredGroup
from vscheduler.cluster.writes.write_queue import CoalescingQueue, WritePriority, WriteQueue
from vscheduler.mirror.translate import pod_owners
from vscheduler.model import jobs
from vscheduler.model.decisions import Bind, Reason, ReasonCode
from vscheduler.model.jobs import GroupState, Phase

pytestmark = pytest.mark.usefixtures("virtual_time")


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes of one object are spaced by milliseconds."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.01)


@pytest.mark.parametrize("longest", [60.0, 0.02])
async def test_what_tells_nobody_anything_lets_binds_go_first(
    monkeypatch: pytest.MonkeyPatch, longest: float
) -> None:
    """Until there are no more of them, or for a while; only the newest is written, once."""
    quiet = [False]
    monkeypatch.setattr(write_queue, "QUIET_SECONDS", 0.005)
    monkeypatch.setattr(write_queue, "QUIET_MAX_SECONDS", longest)
    monkeypatch.setattr(WriteQueue, "is_quiet", property(lambda _: quiet[0]))
    queue = WriteQueue(workers=1, waiting_max=10)
    box = CoalescingQueue(queue, WritePriority.STATUS, spacing_seconds=0.005)
    seen: list[str] = []
    task = asyncio.create_task(queue.run())
    box.offer_when_quiet("key", test_write_queue.noting("older", seen))
    box.offer("key", test_write_queue.noting("newer", seen))
    if longest > 1:
        await asyncio.sleep(0.05)
        assert seen == []
        quiet[0] = True
    await patience.until(lambda: seen)
    assert seen == ["newer"]
    task.cancel()
    await asyncio.wait([task])


async def test_binds_are_what_keeps_it_from_being_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait or are in progress, however long ago they came, and those of a moment ago."""
    monkeypatch.setattr(write_queue, "QUIET_SECONDS", 0.1)
    queue = WriteQueue(workers=1, waiting_max=10)
    answered = asyncio.Event()

    async def bind() -> None:
        await answered.wait()

    def is_quiet() -> bool:
        return queue.is_quiet

    queue.put(WritePriority.STATUS, test_write_queue.noting("status", []))
    assert is_quiet()
    queue.put(WritePriority.BIND, bind)
    await asyncio.sleep(0.15)
    assert not is_quiet(), "it waits"
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0.05)
    assert not is_quiet(), "it is in progress"
    answered.set()
    await patience.until(is_quiet)
    queue.put(WritePriority.BIND, bind)
    await queue.wait_until_quiet()
    assert not is_quiet(), "it came a moment ago"
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(("pods", "phases"), [(1, ["Completed"]), (2, ["Running", "Completed"])])
async def test_a_group_of_one_pod_costs_a_write_less_while_others_are_bound(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, pods: int, phases: list[str]
) -> None:
    """Its pod shows that it runs; whatever came of it by the time all is quiet is written once."""
    quiet = [False]
    monkeypatch.setattr(write_queue, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(WriteQueue, "is_quiet", property(lambda _: quiet[0]))
    binds = tuple(Bind(task=test_status_writer.a_task(f"a-{n}"), node="n1") for n in range(pods))
    tallied: dict[str, Any] = jobs.tally([bind.task for bind in binds])
    job = replace(test_status_writer.STORED, **tallied)
    async with test_status_writer.desk(serve) as made:
        made.report(
            replace(test_status_writer.RUNS, phase=Phase.INQUEUE, running=0),
            binds=binds,
            job=job,
        )
        made.report(test_status_writer.RUNS, job=job)
        for _ in range(3):
            await made.settle()
        made.report(replace(test_status_writer.RUNS, phase=Phase.COMPLETED, running=0), job=job)
        await made.settle()
        quiet[0] = True
        await patience.until(lambda: len(made.group_bodies()) >= len(phases))
        await made.settle()
        assert [body["status"]["phase"] for body in made.group_bodies()] == phases


@pytest.mark.parametrize(
    ("name", "phases"),
    [("a", ["Pending", "Running"]), (pod_owners.automatic_name("a", "uid-1", ""), ["Running"])],
)
async def test_a_group_made_for_pods_is_not_said_to_lack_them(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, name: str, phases: list[str]
) -> None:
    """They join it in a moment. Whoever makes a group himself is told at once that it has none."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.5)
    reason = Reason(code=ReasonCode.TOO_FEW_PODS, queue="q", minimum=1)
    empty = replace(test_status_writer.WAITS, unplaced=(), reason=reason)
    blank = GroupState(blank=True)
    job = replace(test_status_writer.STORED, name=name)
    async with test_status_writer.desk(serve) as made:
        made.group = StoredGroup(uid="uid-a", resource_version="7", state=blank)
        made.report(empty, job=job)
        await asyncio.sleep(0.05)
        assert len(made.group_bodies()) == len(phases) - 1
        made.report(
            test_status_writer.RUNS,
            job=replace(job, tasks=(test_status_writer.a_task("a-0"),)),
        )
        await patience.until(lambda: len(made.group_bodies()) == len(phases))
        assert [body["status"]["phase"] for body in made.group_bodies()] == phases
        assert made.events()["Unschedulable", "PodGroup"] == len(phases) - 1
