"""Jobs of the past and reports, as tables and as comma-separated values. Pure: from the JSON of
docs/history.md to lines.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vscheduler.cli.queue import queue_figures, queue_tables
from vscheduler.cli.queue.queue_tables import ABSENT, Row, Style
from vscheduler.mirror.wording import phrases
from vscheduler.model import resources
from vscheduler.model.resources import ResourceSpace

Document = Mapping[str, Any]

GPU = "nvidia.com/gpu"
HOUR = 3600.0

TRACE = ("id", "submit", "duration", "limit", "pods", "cpu", "memory", "gpu", "queue", "user")
"""Columns of replay's table of jobs; `priority` as well."""

JOB_COLUMNS = (
    *("namespace", "podGroup", "workload", "user", "queue", "scheduler", "state", "priority"),
    *("created", "admitted", "started", "lastStarted", "finished", "waitSeconds", "limitSeconds"),
    *("pods", "succeeded", "failed", "evicted"),
)


def listed(jobs: Sequence[Document], style: Style, *, namespaces: bool) -> list[str]:
    """Return a table with a line per job."""
    rows = [_job_row(job, style, namespaces=namespaces) for job in jobs]
    return queue_tables.table(rows, style.paint)


def _job_row(job: Document, style: Style, *, namespaces: bool) -> Row:
    started, finished = (queue_figures.instant(job[each]) for each in ("started", "finished"))
    created = queue_figures.instant(job["created"])
    ran = (finished or style.now) - started if started else None
    waited = job["waitSeconds"] if started else (finished or style.now) - created
    return {
        **({"NAMESPACE": job["namespace"]} if namespaces else {}),
        "WORKLOAD": job["workload"] or f"podgroup/{job['podGroup']}",
        "QUEUE": job["queue"] or ABSENT,
        **({"USER": job["user"] or ABSENT} if style.wide else {}),
        "STATE": job["state"],
        "PODS": str(job["pods"]),
        "RESOURCES": _request(job["request"]),
        "CREATED": _moment(created),
        "WAITED": queue_figures.age(waited),
        "RAN": ABSENT if ran is None else queue_figures.age(ran),
        **(
            {
                "ADMITTED": _moment(queue_figures.instant(job["admitted"])),
                "STARTED": _moment(started),
                "FINISHED": _moment(finished),
                "CPU-HOURS": _hours(job["podSeconds"].get(resources.CPU, 0)),
                "GPU-HOURS": _hours(job["podSeconds"].get(GPU, 0)),
                "FAILED": str(job["failed"]),
            }
            if style.wide
            else {}
        ),
        "EVICTED": _evicted(job),
    }


def _evicted(job: Document) -> str:
    """Return `3 for ns/urgent`."""
    if not job["evicted"]:
        return ABSENT
    beneficiaries = sorted({each["for"] for each in job["evictions"]} - {""})
    named = f" for {phrases.listed(beneficiaries)}" if beneficiaries else ""
    return f"{job['evicted']}{named}"


def _request(amounts: Document) -> str:
    found = {name: value * _unit(name) for name, value in amounts.items()}
    named = phrases.request(found)
    return ABSENT if named == "no resources" else named


def _unit(name: str) -> int:
    return 1000 if name == resources.CPU else 1


def _moment(at: float) -> str:
    """Return `2026-11-29 12:00:40`; a dash for what isn't known."""
    return phrases.instant(at).removesuffix(" UTC") if at else ABSENT


def _hours(seconds: float) -> str:
    hours = seconds / HOUR
    return f"{hours:.0f}" if hours >= 100 else f"{hours:.2f}".rstrip("0").rstrip(".")


def report(found: Document, style: Style) -> list[str]:
    """Return a table with a line per queue, namespace, user or job, and their sum."""
    rows = found["rows"]
    names = _named(row["podSeconds"] for row in rows)
    made = [_report_row(row, found["by"], names) for row in rows]
    if len(made) > 1:
        made.append(_report_row(_sum(rows, names), found["by"], names))
    return queue_tables.table(made, style.paint)


def _report_row(row: Document, by: str, names: Sequence[str]) -> Row:
    waits, evictions = row["waits"] or {}, row["evictions"]
    cells = {
        by.upper(): _name(row) or ABSENT,
        **{_title(name): _resource_hours(name, row["podSeconds"].get(name, 0)) for name in names},
        "STARTED": str(waits.get("jobs", 0)),
        "FINISHED": str(row["finished"]),
    }
    for title, field in (("WAIT-P50", "p50"), ("WAIT-P90", "p90"), ("WAIT-MAX", "max")):
        cells[title] = queue_figures.age(waits[field]) if field in waits else ABSENT
    lost = evictions["podSeconds"].get(GPU) or evictions["podSeconds"].get(resources.CPU, 0)
    kind = "GPU" if evictions["podSeconds"].get(GPU) else "CPU"
    cells["EVICTED-PODS"] = str(evictions["pods"])
    cells["THEIR-HOURS"] = f"{_hours(lost)} {kind}" if evictions["pods"] else ABSENT
    return cells


def _name(row: Document) -> str:
    """Return whose row it is: `7 more` for the sum of those without a row of their own."""
    return f"{row['names']} more" if "names" in row else str(row["name"])


def _title(name: str) -> str:
    unit = "GIB-HOURS" if name.startswith(phrases.BYTES) else "HOURS"
    short = "GPU" if name == GPU else name.upper()
    return f"{short}-{unit}"


def _resource_hours(name: str, seconds: float) -> str:
    return _hours(seconds / 2**30 if name.startswith(phrases.BYTES) else seconds)


def _sum(rows: Sequence[Document], names: Iterable[str]) -> Document:
    """Return a row for all together; waits of different rows can't be summed up."""
    lost = _named(row["evictions"]["podSeconds"] for row in rows)
    started = sum((row["waits"] or {}).get("jobs", 0) for row in rows)
    return {
        "name": "all",
        "podSeconds": {name: sum(row["podSeconds"].get(name, 0) for row in rows) for name in names},
        "waits": {"jobs": started},
        "finished": sum(row["finished"] for row in rows),
        "evictions": {
            "pods": sum(row["evictions"]["pods"] for row in rows),
            "podSeconds": {
                name: sum(row["evictions"]["podSeconds"].get(name, 0) for row in rows)
                for name in lost
            },
        },
    }


def _named(several: Iterable[Document]) -> list[str]:
    """Return the names of resources, CPU and memory first, without pods."""
    names = {name for amounts in several for name in amounts}
    return [name for name in ResourceSpace.of(names).names if name in names - {resources.PODS}]


def report_values(found: Document) -> str:
    """Return a report as comma-separated values, in seconds, cores, bytes and units."""
    rows = found["rows"]
    used, lost = (
        sorted({name for row in rows for name in amounts(row)})
        for amounts in (_of_pods, _of_evictions)
    )
    waits = ("jobs", "mean", "p50", "p90", "p99", "max")
    titles = [
        found["by"],
        *(f"podSeconds.{name}" for name in used),
        *(f"waits.{field}" for field in waits),
        "finished",
        "evictions.pods",
        "evictions.jobs",
        *(f"evictions.podSeconds.{name}" for name in lost),
    ]
    lines = [
        [
            _name(row),
            *(row["podSeconds"].get(name, 0) for name in used),
            *((row["waits"] or {"jobs": 0}).get(field, "") for field in waits),
            row["finished"],
            row["evictions"]["pods"],
            row["evictions"]["jobs"],
            *(row["evictions"]["podSeconds"].get(name, 0) for name in lost),
        ]
        for row in rows
    ]
    return _values(titles, lines)


def _of_pods(row: Document) -> Document:
    found: Document = row["podSeconds"]
    return found


def _of_evictions(row: Document) -> Document:
    found: Document = row["evictions"]["podSeconds"]
    return found


def job_values(jobs: Sequence[Document]) -> str:
    """Return jobs as comma-separated values."""
    names = sorted({name for job in jobs for name in job["podSeconds"]} | {resources.CPU})
    titles = [
        *JOB_COLUMNS,
        *(f"request.{name}" for name in names),
        *(f"podSeconds.{name}" for name in names),
    ]
    lines = [
        [
            *("" if job[column] is None else job[column] for column in JOB_COLUMNS),
            *(job["request"].get(name, 0) for name in names),
            *(job["podSeconds"].get(name, 0) for name in names),
        ]
        for job in jobs
    ]
    return _values(titles, lines)


def trace(jobs: Sequence[Document]) -> str:
    """Return the jobs that have finished as a table of jobs for `vscheduler replay`: gangs of equal
    pods that run as long as the run in which the job ended.
    """
    lines = [_trace_line(job) for job in jobs if has_ended(job)]
    return _values([*TRACE, "priority"], sorted(lines, key=lambda line: (line[1], line[0])))


def has_ended(job: Document) -> bool:
    """Whether a job ran, and has finished."""
    return bool(job["lastStarted"] and job["finished"] and job["pods"])


def _trace_line(job: Document) -> list[Any]:
    created, started, finished = (
        queue_figures.instant(job[each]) for each in ("created", "lastStarted", "finished")
    )
    pods, request = job["pods"], job["request"]
    milli = math.ceil(round(request.get(resources.CPU, 0) * 1000) / pods)
    memory, gpus = (math.ceil(request.get(name, 0) / pods) for name in (resources.MEMORY, GPU))
    return [
        f"{job['namespace']}/{job['podGroup']}@{int(created)}",
        int(created),
        max(1, int(finished - started)),
        "" if job["limitSeconds"] is None else job["limitSeconds"],
        pods,
        f"{milli}m" if milli else "",
        memory or "",
        gpus or "",
        job["queue"],
        job["namespace"],
        job["priority"],
    ]


def _values(titles: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(lines)
    return made.getvalue().rstrip("\n")
