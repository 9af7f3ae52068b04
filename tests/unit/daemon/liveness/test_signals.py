import os
import signal
import subprocess
import sys

import pytest

STUCK = """
import asyncio, threading, sys
from vscheduler.daemon.liveness import signals
signals.END_SECONDS = 0.2

async def run():
    signals.listen(lambda: print("stop"), flush=lambda: print("flushed", flush=True))
    print("ready", flush=True)
    threading.Thread(target=threading.Event().wait).start()
    await asyncio.Event().wait()

asyncio.run(run())
"""

STARTING = """
import time
from vscheduler.daemon.liveness import signals
signals.end_at_once()
print("ready", flush=True)
time.sleep(60)
"""

ENDED = """
import asyncio, threading, time
from vscheduler.daemon.liveness import signals

async def run():
    signals.listen(lambda: None, flush=lambda: None)
    signals.ignore()

asyncio.run(run())
threading.Thread(target=threading.Event().wait).start()
print("ready", flush=True)
time.sleep(0.5)
signals.end(lambda: print("flushed", flush=True))
"""


def started(program: str) -> "subprocess.Popen[str]":
    """A process that does this, and has said that it is ready."""
    made = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n"
    return made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_end_that_is_stuck_has_an_end(number: signal.Signals) -> None:
    """Whatever work or thread it waits for; the log is flushed before."""
    process = started(STUCK)
    process.send_signal(number)
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 1
    lines = out.splitlines()
    assert [line for line in lines if " " not in line] == ["stop", "flushed"]
    assert "stop.overdue" in lines[-2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_start_ends_at_once(number: signal.Signals) -> None:
    """There is nothing to give back yet, also where it waits for something."""
    process = started(STARTING)
    process.send_signal(number)
    assert process.wait(timeout=90) == 0
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_after_the_end_of_a_shutdown_changes_nothing(number: signal.Signals) -> None:
    """The log is flushed, and no thread keeps the process."""
    process = started(ENDED)
    process.send_signal(number)
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 0
    assert out == "flushed\n"
