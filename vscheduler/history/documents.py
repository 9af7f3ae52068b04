"""History as JSON, for the page and for the command line (docs/history.md). Pure.

Amounts are in cores, bytes and units; pod-seconds in these times seconds.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from vscheduler.history import queries
from vscheduler.history.queries import By, PastJob, Row, Series
from vscheduler.mirror import statuses
from vscheduler.mirror.wording import plain_text
from vscheduler.model import durations, jobs, resources
from vscheduler.model.resources import ResourceMap

VERSION = "v1"
SERIES_MAX = 20
"""How many names have a series of their own: those with the most; the rest is summed up."""

OTHERS = ""
"""The name of what the rest is summed up as."""

Document = dict[str, Any]

_UNITS = {"d": 86_400.0, "w": 7 * 86_400.0}


def instant(text: str, now: float) -> int:
    """Return the instant that a text names: so long ago (`30d`, `12h`, `90m`), a date or a time as
    in RFC 3339 (UTC without an offset), or seconds since the epoch.

    Raises ValueError.
    """
    if text.isascii() and text.isdecimal() and len(text) <= 12:
        return int(text)
    count = text[:-1]
    if count.isascii() and count.isdecimal() and len(count) <= 5 and text[-1] in _UNITS:
        return int(now - int(count) * _UNITS[text[-1]])
    try:
        return int(now - durations.seconds(text))
    except ValueError:
        pass
    try:
        found = dt.datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp())
    except (ValueError, OverflowError):
        raise ValueError(
            f"{durations.shown(text)} is neither an age such as 30d or 12h nor a time such as "
            "2026-11-01 or 2026-11-01T08:30:00Z"
        ) from None


def jobs_of(found: Sequence[PastJob], limit: int, now: int) -> Document:
    """Return jobs, and where to go on if there may be more."""
    last = found[-1] if found and len(found) >= limit else None
    return {
        "apiVersion": VERSION,
        "time": statuses.timestamp(now),
        "jobs": [_job(job) for job in found],
        "next": None if last is None else f"{last.created}:{last.row}",
    }


def place(text: str) -> tuple[int, int] | None:
    """Return the place that `next` names; None for an empty text. Raises ValueError."""
    if not text:
        return None
    created, _, row = text.partition(":")
    if not (created.isdecimal() and row.isdecimal() and len(text) <= 40):
        raise ValueError("before names no place of another answer")
    return int(created), int(row)


def _job(job: PastJob) -> Document:
    namespace = jobs.names_of(job.job)[0]
    waited = None if job.started is None or not job.created else job.started - job.created
    return {
        "namespace": namespace,
        "podGroup": plain_text.shown(job.job.partition("/")[2]),
        "workload": plain_text.shown(job.owner),
        "user": plain_text.shown(job.user),
        "queue": job.queue,
        "scheduler": job.scheduler,
        "state": str(job.state),
        "priority": job.priority,
        "limitSeconds": job.run_limit,
        "created": _time(job.created or None),
        "admitted": _time(job.admitted),
        "started": _time(job.started),
        "lastStarted": _time(job.last_started),
        "finished": _time(job.finished),
        "waitSeconds": None if waited is None else max(0, waited),
        "pods": job.pods,
        "request": amounts(job.request),
        "podSeconds": amounts(job.pod_seconds),
        "succeeded": job.succeeded,
        "failed": job.failed,
        "evicted": job.evicted,
        "evictions": [
            {
                "time": _time(each.time),
                "pods": each.pods,
                "action": each.action,
                "for": plain_text.shown(each.beneficiary),
            }
            for each in job.evictions
        ],
    }


def report(rows: Sequence[Row], by: By, since: int, until: int) -> Document:
    """Return sums by name."""
    return {
        "apiVersion": VERSION,
        "since": _time(since),
        "until": _time(until),
        "by": str(by),
        "rows": [
            {
                "name": plain_text.shown(row.name),
                **({"names": row.others} if row.others else {}),
                "podSeconds": amounts(row.pod_seconds),
                "waits": None
                if row.waits is None
                else {
                    "jobs": row.waits.jobs,
                    "mean": round(row.waits.mean, 1),
                    "p50": row.waits.p50,
                    "p90": row.waits.p90,
                    "p99": row.waits.p99,
                    "max": row.waits.longest,
                },
                "finished": row.finished,
                "evictions": {
                    "pods": row.evicted_pods,
                    "jobs": row.evicted_jobs,
                    "podSeconds": amounts(row.evicted_pod_seconds),
                },
            }
            for row in rows
        ],
    }


def usage(found: Series, by: By, step: int) -> Document:
    """Return how much was used on average in each step, by name: of those with the most, and of all
    others together.
    """
    largest = sorted(found.used, key=lambda name: (-_size(found.used[name]), name))
    named, rest = sorted(largest[:SERIES_MAX]), largest[SERIES_MAX:]
    steps = [until - since for since, until in zip(found.edges, found.edges[1:], strict=False)]
    series: list[Document] = [
        {"name": plain_text.shown(name), "used": _means(found.used[name], steps)} for name in named
    ]
    if rest:
        sums: dict[str, Sequence[float]] = {}
        for lines in (found.used[name] for name in rest):
            for resource, line in lines.items():
                before = sums.get(resource)
                sums[resource] = (
                    line
                    if before is None
                    else [one + other for one, other in zip(before, line, strict=True)]
                )
        series.append({"name": OTHERS, "used": _means(sums, steps), "names": len(rest)})
    return {
        "apiVersion": VERSION,
        "by": str(by),
        "step": step,
        "times": list(found.edges[:-1]),
        "until": found.edges[-1],
        "series": series,
    }


def _size(lines: Mapping[str, Sequence[float]]) -> float:
    """Return how much a series counts."""
    return queries.size({name: sum(line) for name, line in lines.items()})


def _means(
    lines: Mapping[str, Sequence[float]], steps: Sequence[int]
) -> Mapping[str, Sequence[float]]:
    found = {}
    for name, line in sorted(lines.items()):
        unit = 1000.0 if name == resources.CPU else 1.0
        means = zip(line, steps, strict=True)
        found[name] = [round(each / (step * unit), 3) if step else 0.0 for each, step in means]
    return found


def amounts(found: ResourceMap) -> dict[str, int | float]:
    """Return amounts in cores, bytes and units. CPU is a whole number or has up to 3 decimals."""
    return {name: _amount(name, amount) for name, amount in sorted(found.items()) if amount}


def _amount(name: str, amount: int) -> int | float:
    if name != resources.CPU:
        return amount
    return amount / 1000 if amount % 1000 else amount // 1000


def _time(at: int | None) -> str | None:
    return None if at is None else statuses.timestamp(at)
