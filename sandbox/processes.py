"""Client of the supervisor process: starts processes that end with this process."""

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

from sandbox import supervising
from sandbox.errors import StartFailed, TimedOut

END_TIMEOUT_SECONDS = 15.0
POLL_SECONDS = 0.02
LOG_TAIL_LINES = 15
GARBAGE_PERCENT = "200"  # of the heap, for Go: a tenth less CPU than at 100, twice the memory


class Supervisor:
    """Handle of the supervisor process, which owns all processes of a sandbox."""

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
        """The supervisor's own process ID."""
        return self._process.pid

    def start(self, name: str, arguments: Sequence[str | Path]) -> int:
        """Start a program; its output goes to a log named after the program."""
        answer = self._ask(
            {
                "do": "start",
                "name": name,
                "arguments": [str(word) for word in arguments],
                "log": str(self.log_path(name)),
            }
        )
        if "error" in answer:
            raise StartFailed(f"{name} could not be started: {answer['error']}")
        self.process_ids[name] = int(answer["pid"])
        return self.process_ids[name]

    def check(self) -> None:
        """Raise StartFailed if a process has ended: all processes should run on."""
        ended: Mapping[str, int] = self._ask({"do": "ended"})["ended"]
        for name, status in ended.items():
            raise StartFailed(f"{name} ended with status {status}.\n{self.log_tail(name)}")

    def own_directory(self) -> None:
        """Have the supervisor remove the directory when it ends, even if this process is killed."""
        self._ask({"do": "own directory"})

    def keep(self) -> None:
        """Let all processes outlive this process."""
        self._ask({"do": "keep"})
        self._close_pipes()

    def end(self) -> None:
        """Kill every process and wait for the end."""
        self._close_pipes()
        try:
            self._process.wait(END_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the kernel then kills its children
            self._process.wait()

    def log_path(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.log_directory / f"{name}.log"

    def log_tail(self, name: str) -> str:
        """Return the last log lines of a process, for an error message."""
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
            raise StartFailed(f"The supervisor is gone.\n{self.log_tail('supervisor')}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def is_running(directory: Path) -> bool:
    """Whether a supervisor holds the lock of this directory."""
    try:
        with (directory / supervising.LOCK_NAME).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def end_kept(directory: Path, process_id: int) -> None:
    """Stop a kept supervisor. The lock, not the process ID, shows when the supervisor is gone."""
    if is_running(directory):
        os.kill(process_id, signal.SIGTERM)
    deadline = time.monotonic() + END_TIMEOUT_SECONDS
    while is_running(directory):
        if time.monotonic() > deadline:
            raise TimedOut(f"the sandbox in {directory} did not end; see its logs")
        time.sleep(POLL_SECONDS)
