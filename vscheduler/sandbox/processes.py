"""The near end of the supervisor: start processes that cannot outlive this one."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vscheduler.sandbox import errors, supervising

END_TIMEOUT_SECONDS = 15.0
POLL_SECONDS = 0.02
LOG_TAIL_LINES = 15
GARBAGE_PERCENT = "200"  # of the heap, for Go: a tenth less CPU than at 100, twice the memory


class Supervisor:
    """A process of its own that owns every process of one sandbox."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log_directory = directory / "logs"
        self.log_directory.mkdir(exist_ok=True)
        self.process_ids: dict[str, int] = {}
        with (self.log_directory / "supervisor.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # this Python on our own script
                [sys.executable, "-I", supervising.__file__, str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={"GOGC": GARBAGE_PERCENT, **os.environ},
                start_new_session=True,
            )

    @property
    def process_id(self) -> int:
        """The supervisor's own process id."""
        return self._process.pid

    def start(self, name: str, arguments: Sequence[str | Path]) -> int:
        """Start one program; its output goes to a log of its name."""
        answer = self._ask(
            {
                "do": "start",
                "name": name,
                "arguments": [str(word) for word in arguments],
                "log": str(self.log_path(name)),
            }
        )
        if "error" in answer:
            raise errors.StartFailed(f"{name} could not be started: {answer['error']}")
        self.process_ids[name] = int(answer["pid"])
        return self.process_ids[name]

    def check(self) -> None:
        """Raise if a process has ended; none is meant to."""
        ended: Mapping[str, int] = self._ask({"do": "ended"})["ended"]
        for name, status in ended.items():
            raise errors.StartFailed(f"{name} ended with status {status}.\n{self.log_tail(name)}")

    def own_directory(self) -> None:
        """Let the directory be removed when the supervisor ends, even if we are killed."""
        self._ask({"do": "own directory"})

    def keep(self) -> None:
        """Let everything run on after this process has ended."""
        self._ask({"do": "keep"})
        self._close_pipes()

    def end(self) -> None:
        """End every process and wait until all are gone."""
        self._close_pipes()
        try:
            self._process.wait(END_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the kernel then kills its children
            self._process.wait()

    def log_path(self, name: str) -> Path:
        """Where the output of a process goes."""
        return self.log_directory / f"{name}.log"

    def log_tail(self, name: str) -> str:
        """The last lines that a process wrote, for an error message."""
        path = self.log_path(name)
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join([f"The last lines of {path}:", *lines[-LOG_TAIL_LINES:]])

    def _ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise errors.StartFailed(f"The supervisor is gone.\n{self.log_tail('supervisor')}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def is_running(directory: Path) -> bool:
    """Tell whether a supervisor holds this directory."""
    try:
        with (directory / supervising.LOCK_NAME).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def end_kept(directory: Path, process_id: int) -> None:
    """End a supervisor that was kept; the lock, not the process id, says when it is gone."""
    if is_running(directory):
        os.kill(process_id, signal.SIGTERM)
    deadline = time.monotonic() + END_TIMEOUT_SECONDS
    while is_running(directory):
        if time.monotonic() > deadline:
            raise errors.TimedOut(f"the sandbox in {directory} did not end; see its logs")
        time.sleep(POLL_SECONDS)
