"""The controllers as a child process: supervised, started again, and asked for what it reports.

Parent and child share a socket, which is the child's standard input. The parent asks over it for
the child's part of /metrics and /readyz. The kernel closes it with either process, so that a child
ends with a parent that was killed, on every system.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
import structlog

from vscheduler.backoff import Growth, Restarts
from vscheduler.containment import Failures
from vscheduler.daemon.health import Report

log = structlog.get_logger(__name__)

OWN_FLAGS = (
    "--only=controllers",
    "--supervised",
    "--scheduler-conf=",
    "--enable-metrics=false",
    "--enable-healthz=false",
    "--web-address=",
    "--web-tls-cert-file=",
    "--web-tls-private-key-file=",
)
"""Flags of the child that win over the parent's: the parent serves for both."""

ANSWER_SECONDS = 2.0
"""How long the parent waits for an answer of the child."""

ANSWER_BYTES_MAX = 16 << 20

END_SECONDS = 22.0
"""How long the child may take to end after SIGTERM: less than the parent itself may take."""

RESTARTS = Growth(first_seconds=1.0, longest_seconds=60.0, free=1)
"""The first restart needs no pause: a kind has come or gone."""

STEADY_SECONDS = 60.0
"""A child that ran for longer is started again without a pause."""

SILENT = Report(waits=("the controllers don't answer: they start, or start again",))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the child."""

    number: int
    """The number of the question."""
    metrics: str
    """In Prometheus' text format."""
    report: Report


class EndedError(Exception):
    """The child has ended by itself."""


def command(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the command of the controllers' process; `flags` are those given to the parent."""
    return (sys.executable, "-m", "vscheduler", "run", *flags, *OWN_FLAGS)


class ChildProcess:
    """The child, as seen by the parent."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._ending = asyncio.Event()
        self._asking = asyncio.Lock()
        self._questions = 0

    async def run(self, failures: Failures) -> None:
        """Run children, one after the other, until `end` is called.

        A child that ends with status 0 wants to start again, as when a kind comes or goes; any
        other status is a failure. After either the next child waits, longer each time. When
        cancelled, end the child first. The child is in a session of its own: Ctrl-C reaches only
        the parent, which ends it in order.
        """
        restarts, clock = Restarts(RESTARTS, STEADY_SECONDS), asyncio.get_running_loop().time
        while not self._ending.is_set():
            began = clock()
            with failures.contained("controllers", "controllers"):
                await self._run_one()
            with suppress(TimeoutError):
                async with asyncio.timeout(restarts.pause(clock() - began)):
                    await self._ending.wait()

    async def _run_one(self) -> None:
        """Run a child until it ends. Raises EndedError if it fails before it is told to end."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=theirs.fileno(), start_new_session=True
            )
        self._process = process
        if self._ending.is_set():  # while it was being started
            self.end()
        try:
            self._line = await asyncio.open_connection(sock=ours, limit=ANSWER_BYTES_MAX)
            log.info("controllers.started", pid=process.pid)
            status = await process.wait()
        finally:
            if self._line is None:
                ours.close()
            await self._clean_up(process)
        if status and not self._ending.is_set():
            raise EndedError(f"the process of the controllers has ended with status {status}")

    def end(self) -> None:
        """Tell the child to end, and let `run` return when it has ended."""
        self._ending.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    async def ask(self) -> Answer | None:
        """Return what the child has to tell; None if it doesn't answer."""
        async with self._asking:
            if self._line is None:
                return None
            reader, writer = self._line
            self._questions += 1
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    writer.write(f"{self._questions}\n".encode())
                    while True:  # an earlier question may have been given up before its answer
                        answer = msgspec.json.decode(await reader.readline(), type=Answer)
                        if answer.number == self._questions:
                            return answer
            except (OSError, ValueError, msgspec.DecodeError):
                return None

    async def _clean_up(self, process: asyncio.subprocess.Process) -> None:
        """End the child, at last by SIGKILL, and close the line to it."""
        if process.returncode is None:
            self.end()
            try:
                async with asyncio.timeout(END_SECONDS):
                    await process.wait()
            except TimeoutError:
                log.warning("controllers.killed", pid=process.pid, seconds=END_SECONDS)
                process.kill()
                await process.wait()
        line, self._line, self._process = self._line, None, None
        if line is not None:
            line[1].close()


async def answer(
    metrics: Callable[[], bytes], report: Callable[[], Report], on_end: Callable[[], None]
) -> None:
    """Answer the parent's questions, in the child; call `on_end` when the parent has ended."""
    line = socket.socket(fileno=os.dup(sys.__stdin__.fileno()))  # type: ignore[union-attr]  # open_standard_streams
    reader, writer = await asyncio.open_connection(sock=line)
    with suppress(OSError):
        while question := await reader.readline():
            reply = Answer(number=int(question), metrics=metrics().decode(), report=report())
            writer.write(msgspec.json.encode(reply) + b"\n")
    log.info("parent.ended")
    on_end()
