"""How a process ends that only a new one can help; in these tests it goes on."""

import asyncio
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from vscheduler.daemon.liveness import progress, watchdog

TICK_SECONDS = 0.01
PATIENCE_SECONDS = 20.0


@dataclass
class Scene:
    """What a watchdog watches and does."""

    cause: progress.Cause = progress.Cause.CYCLE
    mark: int | None = None
    stubborn: bool = False
    """Whether giving up doesn't end."""
    happened: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    pulse: progress.Pulse = field(default_factory=progress.Pulse)
    holds: int = 0

    def watchdog(self) -> watchdog.Watchdog:
        """Not started yet."""
        check = progress.Check(
            cause=self.cause,
            mark=lambda: self.mark,
            bound_seconds=3 * TICK_SECONDS,
            words="it hangs",
            details=lambda: {"where": ["there"]},
        )
        outlets = watchdog.Outlets(
            give_up=self._give_up, observe=self._observe, hold=self._hold, end=self._end
        )
        return watchdog.Watchdog([check], [self.pulse], outlets, tick_seconds=TICK_SECONDS)

    async def end(self) -> None:
        """Until the process would have ended."""
        assert await asyncio.to_thread(self.ended.wait, PATIENCE_SECONDS)

    async def _give_up(self) -> None:
        self.happened.append("gives up")
        if self.stubborn:
            await asyncio.sleep(PATIENCE_SECONDS)
        await asyncio.sleep(TICK_SECONDS)
        self.happened.append("gave up")

    def _observe(self, stuck: progress.Stuck) -> None:
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
    scene = Scene(mark=0)
    scene.pulse.begin(asyncio.get_running_loop())
    made = scene.watchdog()
    made.start()
    marks: set[object] = set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while scene.holds < 20 or len(marks) < 5:
            assert scene.mark is not None
            scene.mark += 1
            marks.add(scene.pulse.mark())
            await asyncio.sleep(TICK_SECONDS / 4)
    made.stop()
    assert (scene.happened, made.stuck) == ([], None)
    assert made.stalled()["cycle"] < PATIENCE_SECONDS


async def test_who_is_stuck_gives_up_says_why_once_and_ends() -> None:
    """In this order: nobody ends before others may take over."""
    scene = Scene(mark=1)
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
    scene = Scene(mark=1, stubborn=True)
    scene.watchdog().start()
    await scene.end()
    assert "gave up" not in scene.happened
    assert scene.happened[-1] == f"ends with {watchdog.STATUS}"


async def test_an_event_loop_that_is_blocked_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it sends when it goes on nobody knows: so it never does."""
    monkeypatch.setattr(watchdog, "LAST_WILL_SECONDS", 1000.0)
    scene = Scene(cause=progress.Cause.LOOP, mark=1)
    scene.watchdog().start()
    assert scene.ended.wait(PATIENCE_SECONDS)  # blocks it, too
    assert scene.happened == ["loop", f"ends with {watchdog.STATUS}"]


async def test_a_log_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the line that says why, nor the last flush."""
    monkeypatch.setattr(watchdog, "FLUSH_SECONDS", 0.02)
    go = threading.Event()

    def hang(*_: object) -> None:
        go.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(watchdog, "_tell", hang)
    monkeypatch.setattr("logging.shutdown", hang)
    scene = Scene(mark=1)
    scene.watchdog().start()
    await scene.end()
    go.set()
    assert scene.happened[-1] == f"ends with {watchdog.STATUS}"


async def test_a_process_that_was_suspended_is_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour between two looks counts as two ticks."""
    scene, hours = Scene(mark=0), 0.0

    def monotonic() -> float:
        nonlocal hours
        hours += 3600.0
        return hours

    monkeypatch.setattr(watchdog, "time", type("Clock", (), {"monotonic": monotonic}))
    made = scene.watchdog()
    made.start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while scene.holds < 8:
            if scene.holds % 2:
                scene.mark = scene.holds
            await asyncio.sleep(0)
    made.stop()
    assert scene.happened == []


HOG = """
import re, sys, threading, time
from vscheduler.daemon.liveness import watchdog
line = watchdog.Lifeline(1.0)
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
