"""How a process ends that only a new one can help; in these tests it goes on."""

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tests import answers, patience
from tests.unit.cluster.conftest import Serve
from vscheduler.cluster.reflector import Pace, Reflector
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.daemon.informers import Codec
from vscheduler.daemon.liveness import progress, watchdog
from vscheduler.daemon.liveness.progress import Check, Heartbeat, Progress, Stuck
from vscheduler.daemon.liveness.watchdog import Outlets, Signs, Watchdog
from vscheduler.mirror import paths
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror, Options

TICK_SECONDS = 0.01
PATIENCE_SECONDS = 50.0


@dataclass
class Scene:
    """What a watchdog watches and does."""

    cause: progress.Cause = progress.Cause.CYCLE
    mark: int = 1
    looks_per_step: int | None = None
    """How many looks see the same mark. By default, it never changes."""
    stubborn: bool = False
    """Whether giving up doesn't end."""
    happened: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    holds: int = 0

    def watchdog(self) -> Watchdog:
        """Not started yet."""
        check = Check(
            cause=self.cause,
            mark=self._mark,
            bound_seconds=3 * TICK_SECONDS,
            words="it hangs",
            details=lambda: {"where": ["there"]},
        )
        outlets = Outlets(
            give_up=self._give_up, observe=self._observe, hold=self._hold, end=self._end
        )
        return Watchdog([check], [self.heartbeat], outlets, tick_seconds=TICK_SECONDS)

    def _mark(self) -> int:
        if self.looks_per_step is not None:
            self.mark += self.holds % self.looks_per_step == 0
        return self.mark

    async def end(self) -> None:
        """Until the process would have ended."""
        assert await asyncio.to_thread(self.ended.wait, PATIENCE_SECONDS)

    async def _give_up(self) -> None:
        self.happened.append("gives up")
        if self.stubborn:
            await asyncio.sleep(PATIENCE_SECONDS)
        await asyncio.sleep(TICK_SECONDS)
        self.happened.append("gave up")

    def _observe(self, stuck: Stuck) -> None:
        self.happened.append(stuck.cause.value)

    def _hold(self) -> None:
        self.holds += 1

    def _end(self, status: int) -> None:
        self.happened.append(f"ends with {status}")
        self.ended.set()


@pytest.fixture(autouse=True)
def _log_that_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logging.shutdown", lambda: None)


async def test_while_all_goes_on_nothing_happens() -> None:
    """But that it is looked and asked, again and again."""
    scene = Scene(looks_per_step=1)
    scene.heartbeat.begin(asyncio.get_running_loop())
    made = scene.watchdog()
    made.start()
    marks: set[object] = set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while scene.holds < 20 or len(marks) < 5:
            marks.add(scene.heartbeat.mark())
            await asyncio.sleep(TICK_SECONDS / 4)
    made.stop()
    assert (scene.happened, made.stuck) == ([], None)
    assert made.stalled()["cycle"] < PATIENCE_SECONDS


async def test_who_is_stuck_gives_up_says_why_once_and_ends() -> None:
    """In this order: nobody ends before others may take over."""
    scene = Scene()
    made = scene.watchdog()
    with capture_logs() as lines:
        made.start()
        await scene.end()
    assert made.stuck is not None
    assert made.stuck.message == "it hangs (longer than 0.03 s)"
    assert sorted(scene.happened[:2]) == ["cycle", "gives up"]
    assert scene.happened[2:] == ["gave up", f"ends with {watchdog.STATUS}"]
    assert lines == [
        {
            "log_level": "critical",
            "event": "instance.stuck",
            "cause": "cycle",
            "message": "it hangs (longer than 0.03 s)",
            "where": ["there"],
        }
    ]


async def test_who_can_not_even_give_up_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Leases run out."""
    monkeypatch.setattr(watchdog, "LAST_WILL_SECONDS", 0.05)
    scene = Scene(stubborn=True)
    scene.watchdog().start()
    await scene.end()
    assert f"ends with {watchdog.STATUS}" in scene.happened
    assert "gave up" not in scene.happened


async def test_an_event_loop_that_is_blocked_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it sends when it goes on nobody knows: so it never does."""
    monkeypatch.setattr(watchdog, "LAST_WILL_SECONDS", 1000.0)
    scene = Scene(cause=progress.Cause.LOOP)
    scene.watchdog().start()
    assert scene.ended.wait(PATIENCE_SECONDS)  # blocks it, too
    assert scene.happened == ["loop", f"ends with {watchdog.STATUS}"]


async def test_a_log_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the line that says why, nor the last flush."""
    monkeypatch.setattr(watchdog, "FLUSH_SECONDS", 0.02)
    go = threading.Event()

    def hang(*_: object) -> None:
        go.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(watchdog, "_log_stuck", hang)
    monkeypatch.setattr("logging.shutdown", hang)
    scene = Scene()
    scene.watchdog().start()
    await scene.end()
    go.set()
    assert scene.happened[-1] == f"ends with {watchdog.STATUS}"


async def test_a_process_that_was_suspended_is_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour between two looks counts as two ticks."""
    scene, hours = Scene(looks_per_step=2), 0.0

    def monotonic() -> float:
        nonlocal hours
        hours += 3600.0
        return hours

    monkeypatch.setattr(watchdog, "time", type("Clock", (), {"monotonic": monotonic}))
    made = scene.watchdog()
    made.start()
    await patience.until(lambda: scene.holds >= 8)
    made.stop()
    assert scene.happened == []


HOG = """
import re, sys, threading, time
from vscheduler.daemon.liveness import watchdog
line = watchdog.KillTimer(1.0)
def watch():
    while True:
        line.hold()
        time.sleep(0.05)
threading.Thread(target=watch, daemon=True).start()
end = time.monotonic() + 2.5
while time.monotonic() < end:
    pass
print("slices are fine", flush=True)
re.match("(a+)+$", "a" * 60 + "b")
"""


def test_the_kernel_ends_who_keeps_the_interpreter_to_himself() -> None:
    """A regular expression never lets others have it; a loop in Python does."""
    began = time.monotonic()
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", HOG], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "slices are fine\n"
    assert done.returncode < 0
    assert "in match" in done.stderr
    assert time.monotonic() - began < 100


Cause = progress.Cause


@pytest.fixture
def signs() -> Iterator[Signs]:
    """Nobody has given any."""
    made = Signs()
    loop = asyncio.new_event_loop()
    for heartbeat in made.heartbeats:
        heartbeat.begin(loop)
    yield made
    loop.close()


def causes(checks: list[Check], seconds: float) -> set[Cause]:
    """What is stuck, after so much time without a step."""
    made = {check.cause: Progress([check]) for check in checks}
    for each in made.values():
        each.look(0.0)
    return {cause for cause, each in made.items() if each.look(seconds) is not None}


def test_each_thread_that_does_not_answer_is_told(signs: Signs) -> None:
    """The event loop a third of the deadline before the others: its Lease must run out."""
    calls = WriteQueue(workers=1, waiting_max=1)
    found = watchdog.checks(signs, calls, (), deadline_seconds=30.0)
    assert causes(found, 19.0) == set()
    assert causes(found, 21.0) == {Cause.LOOP}
    assert causes(found, 31.0) == {Cause.LOOP, Cause.ELECTION}


def test_cycles_that_run_for_long_or_come_to_nothing_are_told() -> None:
    """At the deadline that was given."""
    signs = Signs()
    calls = WriteQueue(workers=1, waiting_max=1)
    found = watchdog.checks(signs, calls, (), deadline_seconds=7.0)
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
    calls = WriteQueue(workers=2, waiting_max=9)
    (check,) = (
        check
        for check in watchdog.checks(Signs(), calls, (), deadline_seconds=30.0)
        if check.cause is Cause.WRITES
    )
    assert check.mark() is None
    hang = asyncio.Event()
    served = asyncio.create_task(calls.run())

    async def end() -> None:
        pass

    async def wait() -> None:
        await hang.wait()

    calls.put(WritePriority.BIND, wait)
    marks = [check.mark()]
    calls.put(WritePriority.STATUS, end)
    await patience.until(lambda: check.mark() != marks[0])
    marks.append(check.mark())
    assert None not in marks
    assert len(set(marks)) == 2
    assert causes([check], watchdog.WRITES_SECONDS + 1) == {Cause.WRITES}
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

    mirror = Mirror(Options(scheduler_names=("vscheduler",)))
    watch = Reflector(
        await serve(answer),
        paths.PODS.everywhere,
        Codec(Kind.POD, mirror.read),
        lambda _: None,
        pace=Pace(at_once_seconds=0.0, retry_seconds=0.01),
        chance=random.Random(1),
    )
    (check,) = (
        check
        for check in watchdog.checks(
            Signs(),
            WriteQueue(workers=1, waiting_max=1),
            [watch],
            deadline_seconds=9,
        )
        if check.cause is Cause.WATCH
    )
    begun = check.mark()

    async def changes(before: object) -> object:
        await patience.until(lambda: check.mark() != before)
        return check.mark()

    task = asyncio.create_task(watch.run())
    first = await changes(begun)
    await asyncio.sleep(0.1)
    quiet = check.mark()
    assert quiet is not None
    assert first is not None
    assert causes([check], watchdog.WATCH_SECONDS + 1) == {Cause.WATCH}
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}
    lines.put_nowait(json.dumps(bookmark).encode() + b"\n")
    assert await changes(quiet) is not None
    refusing.append(True)
    lines.put_nowait(b"")
    await patience.until(lambda: check.mark() is None)
    assert getattr(watch.problem, "status", None) == 403
    refusing.clear()
    assert await changes(None) is not None
    lines.put_nowait(b"")
    task.cancel()
    await asyncio.wait({task})
