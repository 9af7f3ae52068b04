"""Run times: how long pods run at most, as their owners and queues say, and when they end."""

import math

from vscheduler.model import durations
from vscheduler.model.jobs import Job, Task
from vscheduler.model.queues import Queue

MAX_RUN_TIME = "vscheduler.io/max-run-time"
"""Annotation of PodGroups, pods and owners: how long each pod runs at most. Of Queues: that of pods
for which nothing else says it."""

CAP = "vscheduler.io/run-time-cap"
"""Annotation of Queues: how long each of their pods may run. It is ended when its time is up."""

PAST_DAYS = 30
"""For so many days, run times of jobs that have ended count for forecasts."""


def parse(text: str | None) -> float | None:
    """Return a run time in seconds; None if there is none, or it can't be read."""
    if text is None:
        return None
    try:
        return durations.positive(text)
    except ValueError:
        return None


def problem(text: str | None) -> str:
    """Return what is wrong with a run time; empty if nothing is."""
    try:
        durations.positive("1s" if text is None else text)
    except ValueError as error:
        return f"{error}; the run time counts as unknown"
    return ""


def of(job: Job, task: Task, queue: Queue) -> float | None:
    """Return how many seconds the pod runs at most: as its PodGroup says, else the pod itself, else
    its Queue, up to the Queue's cap; None if it isn't known.
    """
    found = (job.max_run_time, task.max_run_time, queue.max_run_time)
    return capped(next((seconds for seconds in found if seconds is not None), None), queue)


def capped(seconds: float | None, queue: Queue) -> float | None:
    """Return the run time as far as the queue allows it; None if neither is known."""
    known = [each for each in (seconds, queue.run_time_cap) if each is not None]
    return min(known, default=None)


def end(start: float, seconds: float, now: float) -> float:
    """Return when a pod is expected to end that started then and runs at most so many seconds.

    A pod that has outlived its limit is expected to run twice as long, and so on.
    """
    ran = now - start
    if ran < seconds:
        return start + seconds
    doublings = math.floor(math.log2(ran / seconds)) + 1
    return start + math.ldexp(seconds, doublings)
