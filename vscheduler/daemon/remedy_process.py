"""What would start a job, found out by `vscheduler job why` in a process of its own.

No cycle waits for it: the process has the lowest priority, a time limit and a limit of memory, and
the kernel ends it before the scheduler when memory runs short.
"""

import asyncio
import json
import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from vscheduler.daemon.settings import Settings
from vscheduler.mirror.wording import plain_text
from vscheduler.web.remedies import FinderError, Found

log = structlog.get_logger(__name__)

SECONDS_MAX = 30.0
MEMORY_MAX = 1 << 30
MEMORY_LEAST = 128 << 20
RESERVE = 64 << 20
"""Bytes that stay free in the container."""

LOWEST_PRIORITY = 19
FIRST_TO_END = b"1000"
GROUP = Path("/sys/fs/cgroup")

SLOW = f"Finding out takes longer than {SECONDS_MAX:.0f} seconds in this cluster."
FAILED = "Finding out has failed; the scheduler's log has the details."
UNKNOWN = (
    "It isn't known what would help: the job has just started or changed, or the scheduler may not "
    "read all that decisions depend on."
)
CROWDED = "The scheduler has too little memory left to find out what would help."


class RemedyProcess:
    """Runs `vscheduler job why` with the daemon's own access to the cluster."""

    def __init__(self, settings: Settings) -> None:
        self._given = settings

    async def find(self, namespace: str, name: str) -> Found:
        """Return the changes that would start the job of this PodGroup. Raises FinderError."""
        if self._given.master:
            raise FinderError("With --master, the page can't find out what would help.")
        memory = memory_left(GROUP)
        if memory < MEMORY_LEAST:
            raise FinderError(CROWDED)
        process = await asyncio.create_subprocess_exec(
            *command(self._given, namespace, name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _restrain(process.pid, memory)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                output, errors = await process.communicate()
        except TimeoutError:
            raise FinderError(SLOW) from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode:
            said = plain_text.shown(errors.decode(errors="replace")[-2000:])
            log.warning("web.remedies_failed", status=process.returncode, message=said)
            raise FinderError(FAILED)
        found = json.loads(output).get("remedies")
        if not found:
            raise FinderError(UNKNOWN)
        return dict(found)


def command(settings: Settings, namespace: str, name: str) -> Sequence[str]:
    """Return the command line for one job."""
    flags = {
        "--kubeconfig": [settings.kubeconfig] if settings.kubeconfig else [],
        "--context": [settings.context] if settings.context else [],
        "--scheduler-conf": [settings.scheduler_conf] if settings.scheduler_conf else [],
        "--node-selector": [f"{key}={value}" for key, value in settings.node_selector],
        "--namespace": [namespace],
        "--output": ["json"],
    }
    words = [f"{flag}={value}" for flag, values in flags.items() for value in values]
    return [sys.executable, "-m", "vscheduler", "job", "why", f"podgroup/{name}", *words]


def memory_left(group: Path) -> int:
    """Return how much memory the process may use: less than the container has left."""
    try:
        most = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        return MEMORY_MAX if most == "max" else min(MEMORY_MAX, int(most) - used - RESERVE)
    except (OSError, ValueError):
        return MEMORY_MAX


def _restrain(process: int, memory: int) -> None:
    """Give way to the scheduler; a process that has ended already needs nothing."""
    with suppress(OSError):
        resource.prlimit(process, resource.RLIMIT_DATA, (memory, memory))
        os.setpriority(os.PRIO_PROCESS, process, LOWEST_PRIORITY)
        Path(f"/proc/{process}/oom_score_adj").write_bytes(FIRST_TO_END)
