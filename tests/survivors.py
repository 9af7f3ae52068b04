"""Processes that ought to end with their parent, and to have ended."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PATIENCE_SECONDS = 60.0


def alive(process_id: int) -> bool:
    """Whether a process exists and is not merely waiting to be reaped."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def all_gone(process_ids: Mapping[str, int]) -> bool:
    """Whether all processes end within a moment."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(map(alive, process_ids.values())):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def parent(
    script: str, directory: Path, *words: str
) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    """A Python process that starts others, and the process ids that it prints as a JSON object."""
    with subprocess.Popen(  # noqa: S603 - this Python on the text of a test
        [sys.executable, "-c", script, str(directory), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, "the process could not start the others"
            yield process, json.loads(line)
        finally:
            process.kill()
