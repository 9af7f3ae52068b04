"""A competitor's processes, from start to end, and what they ask of the API server meanwhile."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.client import Client
from sandbox.control_plane import ControlPlane
from tests.benchmarks import figures, processes
from tests.benchmarks.competitors import Command, Competitor

SERVERS = ("kube-apiserver", "etcd")
BYSTANDERS = ("kwok", "kube-controller-manager")
"""Paused while it is measured, unless asked for: what they do, they do for every competitor."""

POLL_SECONDS = 0.1
QUIET_SECONDS = 2.0
"""Who writes nothing for so long has settled."""
SETTLE_LIMIT_SECONDS = 60.0
END_SECONDS = 30.0
WORDS = 2000


class FailedError(Exception):
    """A run that doesn't count, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A competitor that was started."""

    plane: ControlPlane
    command: Command
    process: subprocess.Popen[bytes]
    log: Path
    started: float
    """time.monotonic()."""

    def cpu_seconds(self) -> float:
        """Of all its processes so far."""
        return processes.cpu_seconds(processes.started_by(self.process.pid))

    def peak_mib(self) -> float:
        """The most memory that it has had."""
        return processes.peak_mib(processes.started_by(self.process.pid))

    def metrics(self) -> str:
        """Its own metrics; empty where it has none."""
        if not self.command.metrics:
            return ""
        with closing(Client(self.command.metrics, answer_seconds=10.0)) as client:
            return client.read("/metrics") or ""

    def wait(self, done: Callable[[], bool], seconds: float) -> None:
        """Until something is so. Raises FailedError with its last words where it never is."""
        deadline = time.monotonic() + seconds
        while not done():
            late = time.monotonic() > deadline
            if late or self.process.poll() is not None:
                why = f"not done in {seconds:.0f} s" if late else "it ended"
                words = self.log.read_text(errors="replace")[-WORDS:]
                raise FailedError(f"{why}; its last words:\n{words}")
            time.sleep(POLL_SECONDS)

    def settle(self) -> float:
        """Wait until nothing is written any more, or for a minute; time.monotonic() of the last
        look that showed a write.
        """
        deadline = time.monotonic() + SETTLE_LIMIT_SECONDS
        known, since = writes(asked(self.plane)), time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS and time.monotonic() < deadline:
            time.sleep(QUIET_SECONDS / 4)
            if (now := writes(asked(self.plane))) != known:
                known, since = now, time.monotonic()
        return since


@contextmanager
def running(plane: ControlPlane, competitor: Competitor) -> Iterator[Running]:
    """Run it for the time of the block, with all that it starts itself."""
    command = competitor.command(plane)
    log = plane.log_directory / "competitor.log"
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - a command of ours, or the user's own
            command.words, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield Running(plane=plane, command=command, process=process, log=log, started=started)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """First ask, then make sure; a wrapper's children are in its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)


def asked(plane: ControlPlane) -> Counter[tuple[str, str]]:
    """What the API server has been asked so far, by everybody."""
    return figures.calls(plane.api.ask("GET", "/metrics").text)


def writes(found: Counter[tuple[str, str]]) -> int:
    """How many of these were writes."""
    return sum(number for (call, _), number in found.items() if figures.is_write(call))


def server_ids(plane: ControlPlane) -> list[int]:
    """The processes of the API server and its store."""
    return [plane.process_ids[name] for name in SERVERS]


def bystander_ids(plane: ControlPlane) -> list[int]:
    """Those that are paused."""
    return [plane.process_ids[name] for name in BYSTANDERS]
