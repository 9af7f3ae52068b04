"""`vscheduler` in processes forked from one that has imported it: a start takes 0.1 s, not 2 s.

Tests of how the program starts and ends run it as users do.
"""

import atexit
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PRELOADED = (
    "tests.integration.forking",
    "vscheduler.cli.main",
    "vscheduler.cli.run",
    "vscheduler.cli.job",
    "vscheduler.cli.queue",
    "vscheduler.daemon.application",
    "vscheduler.daemon.scheduler_process",
    "vscheduler.daemon.controllers_process",
    "kopf",
)
"""What a running scheduler and commands import. None of it starts a thread, so that it can be
forked.
"""
OURS = "vscheduler.cli.main"

SERVED = multiprocessing.get_context("forkserver")
SERVED.set_forkserver_preload(list(PRELOADED))


class Forked:
    """A process, with what tests use of subprocess.Popen."""

    def __init__(
        self,
        words: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        output: Path | None = None,
        module: str = OURS,
    ) -> None:
        """Its standard error goes to the log, and its standard output elsewhere where told; by
        default, its environment is this process's. Another module has a `vscheduler`, too.
        """
        log.touch()
        given = dict(os.environ if environment is None else environment)
        files = (str(output) if output else "", str(log))
        self._process = SERVED.Process(target=_run, args=(module, tuple(words), files, given))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its exit status."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("vscheduler", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send one, unless it has ended."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def run(*words: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run one of our commands to its end."""
    with tempfile.TemporaryDirectory() as folder:
        output, log = Path(folder) / "output", Path(folder) / "log"
        process = Forked(words, log, output=output)
        try:
            status = process.wait(seconds)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, status, output.read_text(), log.read_text())


def _run(
    module: str, words: Sequence[str], files: tuple[str, str], environment: Mapping[str, str]
) -> None:
    """Run the command line in the forked process."""
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    for number, path in enumerate(files, start=1):
        if path:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(opened, number)
            os.close(opened)
    try:
        importlib.import_module(module).vscheduler(list(words), prog_name="vscheduler")
    finally:
        atexit._run_exitfuncs()  # multiprocessing ends its processes without them
