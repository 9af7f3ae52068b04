"""Each thing that must go on, and what it looks like when it doesn't."""

import asyncio
import json
import random
from collections.abc import Iterator

import pytest
from aiohttp import web

from tests import answers
from tests.unit.cluster.conftest import Serve
from vscheduler.cluster import reflector
from vscheduler.cluster.writes import write_queue
from vscheduler.daemon import codecs
from vscheduler.daemon.liveness import progress, supervision
from vscheduler.mirror import paths, state
from vscheduler.mirror.decode import events

Cause = progress.Cause


@pytest.fixture
def signs() -> Iterator[supervision.Signs]:
    """Nobody has given any."""
    made = supervision.Signs()
    loop = asyncio.new_event_loop()
    for pulse in made.pulses:
        pulse.begin(loop)
    yield made
    loop.close()


def causes(checks: list[progress.Check], seconds: float) -> set[Cause]:
    """What is stuck, after so much time without a step."""
    made = {check.cause: progress.Progress([check]) for check in checks}
    for each in made.values():
        each.look(0.0)
    return {cause for cause, each in made.items() if each.look(seconds) is not None}


def test_each_thread_that_does_not_answer_is_told(signs: supervision.Signs) -> None:
    """The event loop a third of the deadline before the others: its Lease must run out."""
    calls = write_queue.Lanes(workers=1, waiting_max=1)
    found = supervision.checks(signs, calls, (), deadline_seconds=30.0)
    assert causes(found, 19.0) == set()
    assert causes(found, 21.0) == {Cause.LOOP}
    assert causes(found, 31.0) == {Cause.LOOP, Cause.KOPF, Cause.ELECTION}
    signs.kopf.end()
    assert causes(found, 31.0) == {Cause.LOOP, Cause.ELECTION}


def test_cycles_that_run_for_long_or_come_to_nothing_are_told() -> None:
    """At the deadline that was given."""
    signs = supervision.Signs()
    calls = write_queue.Lanes(workers=1, waiting_max=1)
    found = supervision.checks(signs, calls, (), deadline_seconds=7.0)
    assert causes(found, 1e6) == set()
    signs.cycles.handed_on()
    assert causes(found, 6.0) == set()
    assert causes(found, 8.0) == {Cause.CYCLE}
    signs.cycles.ended(1)
    signs.cycles.dropped(3)
    assert causes(found, 6.0) == set()
    assert causes(found, 8.0) == {Cause.DROPPED}


async def test_calls_of_which_none_ends_are_told() -> None:
    """One that hangs doesn't count while others end, or a long one goes on."""
    calls = write_queue.Lanes(workers=2, waiting_max=9)
    (check,) = (
        each
        for each in supervision.checks(supervision.Signs(), calls, (), deadline_seconds=30.0)
        if each.cause is Cause.WRITES
    )
    assert check.mark() is None
    hang = asyncio.Event()
    served = asyncio.create_task(calls.run())

    async def end() -> None:
        pass

    async def wait() -> None:
        await hang.wait()

    calls.put(write_queue.Lane.BIND, wait)
    marks = [check.mark()]
    calls.put(write_queue.Lane.STATUS, end)
    async with asyncio.timeout(20):
        while check.mark() == marks[0]:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    marks.append(check.mark())
    calls.went_on()
    marks.append(check.mark())
    assert None not in marks
    assert len(set(marks)) == 3
    assert causes([check], supervision.WRITES_SECONDS + 1) == {Cause.WRITES}
    hang.set()
    await asyncio.wait_for(calls.wait_until_quiet(), 20)
    assert check.mark() is None
    served.cancel()
    await asyncio.wait({served})


async def test_a_watch_that_hears_nothing_and_tries_nothing_is_told(serve: Serve) -> None:
    """One that fails isn't: a new process wouldn't fare better."""
    refusing: list[bool] = []
    lines = asyncio.Queue[bytes]()

    async def answer(request: web.Request) -> web.StreamResponse:
        if refusing:
            return web.json_response({"message": "no"}, status=403)
        if "watch" not in request.query:
            return web.json_response(answers.a_list(request.path, resourceVersion="7"))
        response = web.StreamResponse()
        await response.prepare(request)
        while line := await lines.get():
            await response.write(line)
        return response

    mirror = state.Mirror(state.Options(scheduler_names=("vscheduler",)))
    watch = reflector.Watch(
        await serve(answer),
        paths.PODS.everywhere,
        codecs.Codec(events.Kind.POD, mirror.read),
        lambda _: None,
        pace=reflector.Pace(at_once_seconds=0.0, retry_seconds=0.01),
        chance=random.Random(1),
    )
    (check,) = (
        each
        for each in supervision.checks(
            supervision.Signs(),
            write_queue.Lanes(workers=1, waiting_max=1),
            [watch],
            deadline_seconds=9,
        )
        if each.cause is Cause.WATCH
    )
    begun = check.mark()

    async def changes(before: object) -> object:
        async with asyncio.timeout(20):
            while check.mark() == before:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)
        return check.mark()

    task = asyncio.create_task(watch.run())
    first = await changes(begun)
    await asyncio.sleep(0.1)
    quiet = check.mark()
    assert quiet is not None
    assert first is not None
    assert causes([check], supervision.WATCH_SECONDS + 1) == {Cause.WATCH}
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}
    lines.put_nowait(json.dumps(bookmark).encode() + b"\n")
    assert await changes(quiet) is not None
    refusing.append(True)
    lines.put_nowait(b"")
    async with asyncio.timeout(20):
        while check.mark() is not None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
    assert getattr(watch.problem, "status", None) == 403
    refusing.clear()
    assert await changes(None) is not None
    lines.put_nowait(b"")
    task.cancel()
    await asyncio.wait({task})
