"""What happened to a job: creation, binds, evictions and reports, from pods and events."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from vscheduler.cli import screen
from vscheduler.cli.job.job_figures import Job, Pod
from vscheduler.cli.queue import queue_figures
from vscheduler.mirror import phrases

Object = Mapping[str, Any]
Entry = tuple[float, str]
"""Seconds since the epoch, and what happened."""

WORDS = {"Unschedulable": "waits: ", "Scheduled": "", "Evict": ""}
"""Reasons of events about PodGroups, with what comes before their messages."""


def of(job: Job, events: Iterable[Object]) -> list[Entry]:
    """Return the history of a job, oldest first; `events` are those of its namespace."""
    found: list[Entry] = [(job.created, f"PodGroup {job.name} created")] if job.created else []
    if job.admitted:
        found.append((job.admitted, "all pods that must start together have nodes"))
    binds: defaultdict[float, list[Pod]] = defaultdict(list)
    for pod in job.pods or ():
        if pod.bound and pod.node:
            binds[pod.bound].append(pod)
        if pod.evicted is not None:
            at, message = pod.evicted
            found.append((at or pod.created, f"pod {pod.name} {message}"))
    for at, pods in binds.items():
        named = [(pod.name, pod.node) for pod in pods[: phrases.BINDS_MAX]]
        found.append((at, phrases.bound(named, len(pods))))
    found += [entry for event in events if (entry := _entry(job, screen.plain(event)))]
    return sorted(found, key=lambda entry: entry[0])


def _entry(job: Job, event: Object) -> Entry | None:
    """Return the entry for an event about the PodGroup; None for other events."""
    about, reason = event.get("involvedObject") or {}, event.get("reason", "")
    if about.get("uid") != job.uid or reason not in WORDS:
        return None
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    at = max(map(queue_figures.instant, filter(None, times)), default=0.0)
    return (at, f"{WORDS[reason]}{event.get('message', '')}") if at else None
