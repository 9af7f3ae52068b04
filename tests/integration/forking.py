"""`vscheduler` in processes forked from one that has imported it: a start takes 0.1 s, not 2 s.

Tests of how the program starts and ends run it as users do.
"""

import atexit
import multiprocessing
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PRELOADED = (
    "tests.integration.forking",
    "vscheduler.cli.main",
    "vscheduler.cli.run",
    "vscheduler.daemon.application",
    "vscheduler.controllers.operator",
    "kopf",
)
"""What a running scheduler imports. None of it starts a thread, so that it can be forked."""

SERVED = multiprocessing.get_context("forkserver")
SERVED.set_forkserver_preload(list(PRELOADED))


class Forked:
    """A process, with what tests use of subprocess.Popen."""

    def __init__(
        self, words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Its standard error goes to the log; by default, its environment is this process's."""
        log.touch()
        given = dict(os.environ if environment is None else environment)
        self._process = SERVED.Process(target=_run, args=(tuple(words), str(log), given))
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


def _run(words: Sequence[str], log: str, environment: Mapping[str, str]) -> None:
    """Run the command line in the forked process."""
    os.environ.clear()
    os.environ.update(environment)
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(opened, 2)
    os.close(opened)
    from vscheduler.cli import main  # noqa: PLC0415 - in the forked process only

    try:
        main.vscheduler(list(words), prog_name="vscheduler")
    finally:
        atexit._run_exitfuncs()  # multiprocessing ends its processes without them
