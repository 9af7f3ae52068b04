import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import processes, supervising
from sandbox.errors import StartFailed
from sandbox.processes import Supervisor
from tests import survivors

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
FAIL = [sys.executable, "-c", "import sys; print('bad luck', flush=True); sys.exit(3)"]

PARENT = """
import json, sys, time
from pathlib import Path
from sandbox import processes
supervisor = processes.Supervisor(Path(sys.argv[1]))
for name in ("one", "two"):
    supervisor.start(name, ["sleep", "600"])
print(json.dumps(supervisor.process_ids | {"supervisor": supervisor.process_id}), flush=True)
time.sleep(600)
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor with nothing to supervise yet."""
    running = Supervisor(tmp_path)
    yield running
    running.end()


def wait_for_text(path: Path, text: str) -> None:
    """Wait until a log says something."""
    deadline = time.monotonic() + 10
    while not path.exists() or text not in path.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def check_for_a_while(supervisor: Supervisor) -> None:
    """Check again and again, as a process needs a moment to end."""
    for _ in range(500):
        supervisor.check()
        time.sleep(0.01)


def test_output_goes_to_a_log_and_the_end_is_the_end(supervisor: Supervisor) -> None:
    """While it runs the lock is held; after the end it is free."""
    supervisor.start("sleeper", SLEEP)
    wait_for_text(supervisor.log_path("sleeper"), "up")
    supervisor.check()
    assert processes.is_running(supervisor.directory)
    supervisor.end()
    assert not processes.is_running(supervisor.directory)


def test_death_of_a_process_is_noticed_with_its_last_words(
    supervisor: Supervisor,
) -> None:
    """The error names the process, its status and the end of its log."""
    supervisor.start("unlucky", FAIL)
    wait_for_text(supervisor.log_path("unlucky"), "bad luck")
    with pytest.raises(StartFailed, match=r"(?s)unlucky ended with status 3.*bad luck"):
        check_for_a_while(supervisor)


def test_missing_program_is_an_error(supervisor: Supervisor) -> None:
    """Not a dead supervisor."""
    with pytest.raises(StartFailed, match="ghost could not be started"):
        supervisor.start("ghost", [supervisor.directory / "ghost"])
    supervisor.check()


def test_owned_directory_is_removed(tmp_path: Path) -> None:
    """A temporary directory does not outlive its sandbox."""
    directory = tmp_path / "sandbox"
    directory.mkdir()
    supervisor = Supervisor(directory)
    supervisor.own_directory()
    supervisor.end()
    assert not directory.exists()


def test_second_supervisor_is_refused(supervisor: Supervisor) -> None:
    """One directory, one sandbox."""
    supervisor.start("sleeper", SLEEP)
    second = Supervisor(supervisor.directory)
    try:
        with pytest.raises(StartFailed, match="supervisor is gone"):
            second.check()
    finally:
        second.end()
    assert processes.is_running(supervisor.directory)


def test_lock_has_a_name_of_its_own(tmp_path: Path) -> None:
    """An empty directory is free."""
    assert not processes.is_running(tmp_path)
    (tmp_path / supervising.LOCK_NAME).touch()
    assert not processes.is_running(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_all_end_with_the_parent(tmp_path: Path, number: signal.Signals) -> None:
    """Whatever ends it."""
    with survivors.parent(PARENT, tmp_path) as (process, process_ids):
        assert len(process_ids) == 3
        assert all(map(survivors.alive, process_ids.values()))
        process.send_signal(number)
        assert survivors.all_gone(process_ids)


def test_all_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    """The kernel does what the supervisor can't any more."""
    with survivors.parent(PARENT, tmp_path) as (_, process_ids):
        os.kill(process_ids["supervisor"], signal.SIGKILL)
        assert survivors.all_gone(process_ids)
