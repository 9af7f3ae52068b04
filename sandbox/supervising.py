"""Supervisor of the control plane's processes: kills them when the supervisor or its parent ends.

`processes.Supervisor` runs the module as a script, so only the standard library is imported. The
script reads a JSON command per line from stdin and answers each with a line on stdout. End of stdin
means that the parent is gone, for whatever reason: then all started processes are killed. After
`keep` the supervisor outlives its parent and waits for SIGTERM.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LOCK_NAME = "supervisor.lock"
PARENT_CHECK_SECONDS = 1.0
PR_SET_PDEATHSIG = 1


class Family:
    """The started processes, by name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.removes_directory = False
        self.outlives_parent = False
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute a command of the parent; return the answer."""
        match command["do"]:
            case "start":
                return self._start(command["name"], command["arguments"], Path(command["log"]))
            case "ended":
                return {
                    "ended": {
                        name: child.returncode
                        for name, child in self._children.items()
                        if child.poll() is not None
                    }
                }
            case "own directory":
                self.removes_directory = True
            case "keep":
                self.outlives_parent = True
        return {}

    def end(self) -> None:
        """Kill all processes: a graceful shutdown would only take time."""
        for child in self._children.values():
            child.kill()
        for child in self._children.values():
            child.wait()
        if self.removes_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self, name: str, arguments: list[str], log: Path) -> dict[str, Any]:
        with log.open("ab") as stream:
            try:
                child = subprocess.Popen(  # noqa: S603  # the control plane's own programs
                    arguments,
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    preexec_fn=_die_with_parent,  # noqa: PLW1509  # one thread
                )
            except OSError as error:
                return {"error": str(error)}
        self._children[name] = child
        return {"pid": child.pid}


def _die_with_parent() -> None:
    """Have Linux kill this child even if the supervisor itself is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(family: Family) -> None:
    """Execute commands until stdin ends or the parent is gone."""
    parent = os.getppid()
    pending = b""
    while True:
        readable, _, _ = select.select([0], [], [], PARENT_CHECK_SECONDS)
        if not readable:
            if os.getppid() != parent:  # a fork of the parent may still hold the pipe open
                return
            continue
        received = os.read(0, 65536)
        if not received:
            return
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            answer = json.dumps(family.obey(json.loads(line))) + "\n"
            os.write(1, answer.encode())


def main() -> None:
    """Hold the lock that shows a live sandbox, serve, and always clean up."""
    directory = Path(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    signal.signal(signal.SIGTERM, _raise_exit)
    family = Family(directory)
    with (directory / LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            serve(family)
            while family.outlives_parent:
                time.sleep(PARENT_CHECK_SECONDS)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            family.end()


def _raise_exit(_number: int, _frame: object) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
