"""What becomes of a trace, worked out without the scheduler."""

from collections.abc import Sequence

from vscheduler.simulator.replay.traces import TraceJob


def starts(jobs: Sequence[TraceJob], cores: int) -> list[float]:
    """When jobs start that are asked in their order at every instant, whether they fit."""
    began: dict[int, float] = {}
    ends: dict[int, float] = {}
    """Of running jobs."""
    now = jobs[0].submit
    while True:
        ends = {at: end for at, end in ends.items() if end > now}
        for at, job in enumerate(jobs):
            free = cores - sum(jobs[other].pods for other in ends)
            if at not in began and job.submit <= now and job.pods <= free:
                began[at], ends[at] = now, now + job.duration
        later = [*ends.values(), *(job.submit for job in jobs if job.submit > now)]
        if not later:
            return [began[at] for at in range(len(jobs))]
        now = min(later)
