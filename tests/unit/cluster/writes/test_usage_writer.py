import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from tests import answers, patience
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.permits import Ending
from vscheduler.cluster.writes import queue_status_writer
from vscheduler.cluster.writes.queue_status_writer import UsageWriter
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.mirror.translate import usage_annotation as annotations
from vscheduler.model.decisions import QueueFigures
from vscheduler.model.queues import OURS, Account, Queue, QueueState, Usage

PATH = "/apis/scheduling.volcano.sh/v1beta1/queues/gold"
SPACING_SECONDS = 0.05


def used(rate: float, time: float = 100.0) -> Usage:
    """A record; equal ones are equal, and no more the same object than after a restart."""
    account = Account(used=7.0, rate=rate)
    return Usage(time=time, queue=account, namespaces={"lab": account})


def figures(usage: Usage | None, name: str = "gold") -> QueueFigures:
    """What a cycle says of a queue."""
    return QueueFigures(
        name=name,
        state=QueueState.OPEN,
        weight=1,
        allocated={},
        request={},
        usage=usage,
    )


@dataclass
class Desk:
    """A writer at work, and what the server was asked."""

    writer: UsageWriter
    queue: WriteQueue
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    """What the server answers, before it says yes to everything."""
    message: str = "no"
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hold: asyncio.Event | None = None
    """What it waits for before it answers."""
    written: Counter[tuple[str, str]] = field(default_factory=Counter)
    may_commit: bool | Ending = True

    def report(
        self,
        usage: Usage | None,
        *,
        uid: str = "uid-gold",
        stored: Usage | None = None,
    ) -> None:
        """Report a cycle about queue gold."""
        past = {} if stored is None else {OURS: stored}
        queue = Queue(name="gold", uid=uid, created=0.0, past_usage=past)
        self.writer.report([figures(usage)], {"gold": queue})

    async def has_sent(self, *rates: float) -> None:
        """Wait until these were sent, in this order, and see that nothing follows."""
        async with asyncio.timeout(40):
            while self.rates() != list(rates):
                await self.next_call()
        await asyncio.sleep(3 * SPACING_SECONDS)
        await asyncio.wait_for(self.queue.wait_until_quiet(), 20)
        assert self.rates() == list(rates)

    async def is_sending(self, rate: float) -> None:
        """Wait until this is with the server, which doesn't answer yet."""
        assert self.hold is not None
        async with asyncio.timeout(40):
            while self.rates()[-1:] != [rate]:
                await self.next_call()

    async def next_call(self) -> None:
        """Wait until the server was asked something else."""
        self.asked.clear()
        await self.asked.wait()

    def rates(self) -> list[float]:
        """What was sent, in order."""
        key = "vscheduler/fair-share-usage"
        texts = [body["metadata"]["annotations"][key] for _, _, body in self.calls]
        return [annotations.parse(text).queue.rate for text in texts]


@asynccontextmanager
async def desk(serve: Serve) -> AsyncIterator[Desk]:
    """A writer, its lanes, and a server."""

    async def handle(request: web.Request) -> web.Response:
        made.calls.append((request.content_type, request.path_qs, await request.json()))
        made.asked.set()
        if made.hold is not None:
            await made.hold.wait()
        code = made.codes.pop(0) if made.codes else 200
        return web.json_response(
            {**answers.an_object(request.path), "message": made.message}, status=code
        )

    def observe(what: str, outcome: str) -> None:
        made.written[what, outcome] += 1

    queue = WriteQueue(workers=2, waiting_max=50)
    link = await serve(handle)
    made = Desk(writer=None, queue=queue)  # type: ignore[arg-type]  # the next line
    made.writer = UsageWriter(
        link, queue, "vscheduler", may_commit=lambda: bool(made.may_commit), observe=observe
    )
    task = asyncio.create_task(queue.run())
    yield made
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute in a blink."""
    monkeypatch.setattr(queue_status_writer, "USAGE_SPACING_SECONDS", SPACING_SECONDS)


async def test_a_record_is_an_annotation_of_this_very_queue(serve: Serve) -> None:
    """Nothing else of it is touched."""
    async with desk(serve) as made:
        made.report(used(2.0))
        await made.has_sent(2.0)
    text = annotations.text(used(2.0))
    patch = {"uid": "uid-gold", "annotations": {"vscheduler/fair-share-usage": text}}
    (call,) = made.calls
    assert call == (
        "application/merge-patch+json",
        f"{PATH}?fieldManager=vscheduler",
        {"metadata": patch},
    )
    assert made.written == {("usage", "written"): 1}


async def test_nothing_is_written_twice(serve: Serve) -> None:
    """Nor what an earlier process wrote, nor anything for queues without a record."""
    async with desk(serve) as made:
        made.report(None)
        made.report(used(1.0), stored=used(1.0))
        await made.has_sent()
        made.report(used(2.0), stored=used(1.0))
        await made.has_sent(2.0)
        made.report(used(2.0), stored=used(1.0))
        await made.has_sent(2.0)


async def test_many_changes_are_two_writes(serve: Serve) -> None:
    """The first at once, the last after the rest."""
    async with desk(serve) as made:
        made.hold = asyncio.Event()
        made.report(used(1.0))
        await made.is_sending(1.0)
        for rate in range(2, 20):
            made.report(used(float(rate)))
        made.hold.set()
        await made.has_sent(1.0, 19.0)


async def test_a_queue_that_was_made_anew_is_written_to_again(serve: Serve) -> None:
    """Under its own UID; also where only its record is the same."""
    async with desk(serve) as made:
        made.report(used(1.0))
        await made.has_sent(1.0)
        made.report(used(1.0), uid="another")
        await made.has_sent(1.0, 1.0)
    assert [body["metadata"]["uid"] for _, _, body in made.calls] == ["uid-gold", "another"]


async def test_what_is_not_kept_any_more_is_not_written(serve: Serve) -> None:
    """The plugin was switched off, or the queue is gone."""
    async with desk(serve) as made:
        made.hold = asyncio.Event()
        made.report(used(1.0))
        await made.is_sending(1.0)
        made.report(used(2.0))
        made.writer.report([], {})
        made.hold.set()
        made.writer.close(lambda: True)
        await made.has_sent(1.0)


@pytest.mark.parametrize(
    ("code", "rates"), [(409, [1.0, 1.0]), (503, [1.0, 1.0]), (403, [1.0]), (404, [1.0])]
)
async def test_a_failed_write_is_counted_and_made_again_where_that_helps(
    serve: Serve, code: int, rates: list[float]
) -> None:
    """A refusal ends it until there is something new to write."""
    async with desk(serve) as made:
        made.codes = [code]
        made.report(used(1.0))
        await made.has_sent(*rates)
        made.report(used(1.0))
        await made.has_sent(*rates)
        assert made.written.total() == len(rates)
        made.report(used(3.0))
        await made.has_sent(*rates, 3.0)


async def test_a_queue_that_is_another_by_now_is_no_news(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is counted, and written again when the watch has shown the new one."""
    async with desk(serve) as made:
        made.codes = [422]
        made.message = f"gold is invalid: {queue_status_writer.UID_DIFFERS}: it is immutable"
        made.report(used(1.0))
        await made.has_sent(1.0)
        assert made.written == {("usage", "conflict"): 1}
        made.report(used(1.0), uid="another")
        await made.has_sent(1.0, 1.0)
    assert "write.failed" not in capsys.readouterr().out


async def test_who_may_not_commit_writes_nothing(serve: Serve) -> None:
    """Another instance keeps the records."""
    async with desk(serve) as made:
        made.may_commit = False
        made.report(used(1.0))
        await made.has_sent()


async def test_a_stop_writes_what_rests(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, though nothing else may be sent any more; and nothing after that."""
    monkeypatch.setattr(queue_status_writer, "USAGE_SPACING_SECONDS", 60.0)
    async with desk(serve) as made:
        made.report(used(1.0))
        await made.has_sent(1.0)
        made.report(used(2.0))
        await made.has_sent(1.0)
        made.may_commit = False
        made.writer.close(lambda: True)
        made.report(used(3.0))
        await made.has_sent(1.0, 2.0)


async def test_a_stop_waits_for_what_is_under_way(serve: Serve) -> None:
    """So that the older record isn't the last to arrive."""
    async with desk(serve) as made:
        made.hold = asyncio.Event()
        made.report(used(1.0))
        await made.is_sending(1.0)
        made.report(used(2.0))
        made.writer.close(lambda: True)
        await asyncio.sleep(SPACING_SECONDS)
        assert made.rates() == [1.0]
        made.hold.set()
        await made.has_sent(1.0, 2.0)


async def test_a_stop_does_not_insist(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be written then stays as old as it is."""
    monkeypatch.setattr(queue_status_writer, "USAGE_SPACING_SECONDS", 60.0)
    async with desk(serve) as made:
        made.hold = asyncio.Event()
        made.report(used(1.0))
        await made.is_sending(1.0)
        made.codes = [503]
        made.report(used(2.0))
        made.writer.close(lambda: True)
        made.hold.set()
        await made.has_sent(1.0)
    assert made.written == {("usage", "unavailable"): 1}


async def test_leave_that_ends_while_a_call_is_prepared_keeps_it_from_being_sent(
    serve: Serve,
) -> None:
    """It is asked again when the bytes are written."""
    async with desk(serve) as made:
        made.may_commit = ending = Ending(1)
        made.report(used(1.0))
        await patience.until(lambda: ending.left < 0)
        await asyncio.wait_for(made.queue.wait_until_quiet(), 20)
        assert made.calls == []
