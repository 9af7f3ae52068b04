"""Processes that ought to have ended."""

import time
from collections.abc import Mapping
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
