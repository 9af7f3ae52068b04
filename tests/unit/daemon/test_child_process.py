"""The child process of the controllers: a small program in its place."""

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import patience
from vscheduler.containment import Failures
from vscheduler.daemon import child_process
from vscheduler.daemon.child_process import ChildProcess, EndedError
from vscheduler.daemon.health import Report

ANSWERING = """
import asyncio, pathlib, signal, sys
from vscheduler.daemon import child_process
from vscheduler.daemon.health import Report

async def run():
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    task = asyncio.create_task(child_process.answer(
        lambda: b"a 1\\n", lambda: Report(leases=("x: leader",)), end.set))
    pathlib.Path(sys.argv[1]).write_text("ready")
    await end.wait()
    pathlib.Path(sys.argv[1]).write_text("ended")

asyncio.run(run())
"""
DEAF = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text("ready")
time.sleep(60)
"""
PARENT = """
import asyncio, sys
from vscheduler.containment import Failures
from vscheduler.daemon.child_process import ChildProcess
child = ChildProcess((sys.executable, *sys.argv[1:]))
asyncio.run(child.run(Failures()))
"""


@asynccontextmanager
async def running(
    program: str, note: Path, observe: Callable[[str], None] = lambda _: None
) -> AsyncIterator[tuple[ChildProcess, "asyncio.Task[None]"]]:
    """A child that runs this program, and has told so in the file."""
    child = ChildProcess((sys.executable, "-c", program, str(note)))
    task = asyncio.create_task(child.run(Failures(observe)))
    await patience.until(note.exists)
    try:
        yield child, task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_child_tells_its_metrics_and_readiness(tmp_path: Path) -> None:
    """As often as it is asked, and by many at once."""
    async with running(ANSWERING, tmp_path / "note") as (child, _):
        answers = await asyncio.gather(*(child.ask() for _ in range(5)))
        assert {told and told.metrics for told in answers} == {"a 1\n"}
        assert {told and told.report for told in answers} == {Report(leases=("x: leader",))}


async def test_a_child_that_does_not_answer_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be starting; its answer to an earlier question isn't taken for that to a later one."""
    monkeypatch.setattr(child_process, "ANSWER_SECONDS", 0.05)
    async with running(ANSWERING, tmp_path / "note") as (child, _):
        await patience.until(lambda: child._process)
        assert child._process is not None
        child._process.send_signal(signal.SIGSTOP)
        assert await child.ask() is None
        monkeypatch.setattr(child_process, "ANSWER_SECONDS", 60.0)
        child._process.send_signal(signal.SIGCONT)
        told = await child.ask()
        assert told is not None
        assert told.number == 2


@pytest.mark.contains_failures
async def test_a_child_that_fails_is_counted(tmp_path: Path) -> None:
    """It is started again all the same; meanwhile nobody answers."""
    note, areas = tmp_path / "note", list[str]()
    failing = f"open({str(note)!r}, 'a').write('x'); raise SystemExit(3)"
    async with running(failing, note, areas.append) as (child, task):
        await patience.until(lambda: len(areas) > 1)
        assert await child.ask() is None
        child.end()
        await task
    assert set(areas) == {"controllers"}


async def test_a_child_that_ends_in_order_is_started_again(tmp_path: Path) -> None:
    """It wants to, when a kind has come or gone; that is no failure."""
    note = tmp_path / "note"
    again = f"open({str(note)!r}, 'a').write('x'); raise SystemExit(0)"
    async with running(again, note) as (child, task):
        await patience.until(lambda: len(note.read_text()) > 1)
        assert not task.done()
        child.end()
        await task


@pytest.mark.contains_failures
@pytest.mark.usefixtures("virtual_time")
async def test_children_that_end_soon_are_started_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever their status; one that has run for a while is followed by the next one at once."""
    child, clock = ChildProcess(()), asyncio.get_running_loop().time
    lasts, starts = [0.0, 0.0, 0.0, 0.0, 100.0, 0.0], list[float]()

    async def run_one() -> None:
        starts.append(clock())
        await asyncio.sleep(lasts[len(starts) - 1])
        if len(starts) == len(lasts):
            child.end()
        elif len(starts) % 2:
            raise EndedError

    monkeypatch.setattr(child, "_run_one", run_one)
    await child.run(Failures())
    pauses = [
        later - start - seconds
        for (start, later), seconds in zip(itertools.pairwise(starts), lasts, strict=False)
    ]
    assert [round(pause, 3) for pause in pauses] == [0, 1, 2, 4, 0]


async def test_a_child_is_ended_in_order(tmp_path: Path) -> None:
    """By SIGTERM, and waited for; no other one is started then."""
    note = tmp_path / "note"
    async with running(ANSWERING, note) as (child, task):
        child.end()
        await task
        assert note.read_text() == "ended"
        await child.run(Failures())


async def test_a_child_that_is_just_being_started_is_ended_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who ends it then doesn't have it yet."""
    child = ChildProcess((sys.executable, "-c", "import time; time.sleep(60)"))
    start = asyncio.create_subprocess_exec

    async def start_slowly(*command: str, **given: Any) -> asyncio.subprocess.Process:
        process = await start(*command, **given)
        child.end()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_slowly)
    async with asyncio.timeout(10):
        await child.run(Failures())


async def test_a_child_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time."""
    monkeypatch.setattr(child_process, "END_SECONDS", 0.1)
    async with running(DEAF, tmp_path / "note") as (child, task):
        process = child._process
        assert process is not None
        task.cancel()
        await asyncio.wait([task])
        assert process.returncode == -signal.SIGKILL


async def test_a_child_is_ended_by_who_is_cancelled_before_the_line_to_it_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It runs by then, and nobody else would end it."""
    opening = asyncio.Event()

    async def never(**_: object) -> None:
        opening.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", never)
    child = ChildProcess((sys.executable, "-c", "import time; time.sleep(60)"))
    task = asyncio.create_task(child.run(Failures()))
    await opening.wait()
    process = child._process
    assert process is not None
    task.cancel()
    await asyncio.wait([task])
    assert process.returncode == -signal.SIGTERM


async def test_a_child_ends_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    """Nobody else could end it: it is in a session of its own."""
    note = tmp_path / "note"
    words = (sys.executable, "-c", PARENT, "-c", ANSWERING, str(note))
    parent = await asyncio.create_subprocess_exec(*words)
    await patience.until(note.exists)
    os.kill(parent.pid, signal.SIGKILL)
    await parent.wait()
    await patience.until(lambda: note.read_text() == "ended")
