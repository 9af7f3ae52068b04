"""Schedulers in front of the stub, each on another core than the stub."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import competitors, processes, running
from tests.benchmarks.competitors import Command, Competitor
from tests.benchmarks.stub.server import Stub

START_SECONDS = 600.0
POLL_SECONDS = 0.02
JSON = "application/json"
"""The stub knows no protobuf."""


class TooSlowError(running.FailedError):
    """Not all pods were bound in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a scheduler is told of the stub."""

    kubeconfig: Path
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Processes of schedulers."""

    processes: Sequence[subprocess.Popen[bytes]]
    log: Path
    at: float
    """time.monotonic()."""

    def cpu_seconds(self) -> float:
        """Of all of them so far."""
        return processes.cpu_seconds(self._ids())

    def peak_mib(self) -> float:
        """The most memory that they have had."""
        return processes.peak_mib(self._ids())

    def check(self) -> None:
        """Raise running.FailedError if one has ended."""
        if any(process.poll() is not None for process in self.processes):
            words = self.log.read_text(errors="replace")[-running.WORDS :]
            raise running.FailedError(f"it ended; its last words:\n{words}")

    def _ids(self) -> list[int]:
        return [found for one in self.processes for found in processes.started_by(one.pid)]


def vscheduler(*flags: str) -> Competitor:
    """Ours: decisions and their writes, without controllers."""
    return competitors.vscheduler("--only=scheduler", "--leader-elect=false", *flags)


def kube_scheduler() -> Competitor:
    """Kubernetes' own, in JSON."""
    return competitors.kube_scheduler(JSON)


@contextmanager
def started(commands: Sequence[Command], log: Path) -> Iterator[Started]:
    """Run schedulers for the time of the block."""
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        begun = time.monotonic()
        children = []
        first, *_, last = sorted(os.sched_getaffinity(0)) * 2
        os.sched_setaffinity(0, {last})  # which children inherit
        for command in commands:
            child = subprocess.Popen(  # noqa: S603 - a command of ours
                command.words, stdout=output, stderr=output, start_new_session=True
            )
            stack.callback(running.end, child)
            children.append(child)
        os.sched_setaffinity(0, {first})
        yield Started(processes=children, log=log, at=begun)


async def wait_for_binds(stub: Stub, started: Started, count: int, seconds: float) -> None:
    """Wait until so many pods are bound. Raises running.FailedError."""
    deadline = time.monotonic() + seconds
    while len(stub.bound) < count:
        started.check()
        if time.monotonic() > deadline:
            raise TooSlowError(f"{len(stub.bound)} of {count} pods bound after {seconds:.0f} s")
        await asyncio.sleep(POLL_SECONDS)
