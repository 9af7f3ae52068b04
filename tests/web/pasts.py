"""A history of jobs, as if a scheduler had kept it for two weeks."""

from pathlib import Path

from sandbox.demo import made_up_past

QUEUES = ("vision", "speech", "ads", "search", "nightly")
REQUESTS = tuple(
    {"cpu": 8000, "memory": 64 << 30, "nvidia.com/gpu": gpus, "pods": 1} for gpus in (8, 4, 1, 2, 0)
)


def two_weeks(path: Path, now: float) -> Path:
    """Write jobs of a few tenants, some of them evicted once; return the path."""
    return made_up_past.write(path, now, QUEUES, REQUESTS)
