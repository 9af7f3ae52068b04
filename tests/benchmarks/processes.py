"""What processes have used so far, from /proc: works for whatever is started, children included."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
USED = (11, 12, 13, 14)
PARENT, SESSION = 1, 3
"""Fields of /proc/PID/stat, counted from the state, which follows the name: utime, stime, cutime,
cstime; parent, session.
"""


def started_by(leader: int) -> list[int]:
    """The leader of a session, and whatever it has started: the rest of its session, and children
    in sessions of their own, as vscheduler's controllers.
    """
    above: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            fields = _stat(int(path.name))
            above[int(path.name)] = (int(fields[PARENT]), int(fields[SESSION]))
    found = {leader}
    while more := {each for each, of in above.items() if found & {*of}} - found:
        found |= more
    return sorted(found & above.keys())


def cpu_seconds(process_ids: Iterable[int]) -> float:
    """User and system time so far, of children that have ended as well; nothing of who is gone."""
    ticks = 0
    for process_id in process_ids:
        with suppress(OSError):
            fields = _stat(process_id)
            ticks += sum(int(fields[number]) for number in USED)
    return ticks / TICKS_PER_SECOND


def peak_mib(process_ids: Iterable[int]) -> float:
    """The most memory that these have had resident, each at its own time."""
    peaks = 0
    for process_id in process_ids:
        with suppress(OSError):
            text = Path(f"/proc/{process_id}/status").read_text(encoding="utf-8")
            lines = (line.split() for line in text.splitlines())
            peaks += sum(int(words[1]) for words in lines if words[0] == "VmHWM:")
    return peaks / 1024


def _stat(process_id: int) -> list[str]:
    text = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    return text.rpartition(")")[2].split()


@contextmanager
def paused(process_ids: Iterable[int]) -> Iterator[None]:
    """Keep processes from running for the time of the block."""
    stopped = list(process_ids)
    for process_id in stopped:
        os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        for process_id in stopped:
            os.kill(process_id, signal.SIGCONT)
