"""Traces: lists of jobs as they were submitted, in the Standard Workload Format or as a table.

A line that can't be used is a problem with its line and field; the other lines count.
"""

import csv
import datetime as dt
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import QuantityError
from vscheduler.model.resources import CPU, MEMORY

GPU = "nvidia.com/gpu"
"""The resource that column `gpu` of a table asks for."""

CORE = 1000
"""A CPU in the units of the model."""

PODS_MAX = 100_000
"""More pods in one job are taken for a mistake in the trace."""

SECONDS_MAX = 1e11
"""Later times, and longer durations, are taken for a mistake, too."""

SWF_FIELDS = (
    *("job number", "submit time", "wait time", "run time", "allocated processors"),
    *("average CPU time", "used memory", "requested processors", "requested time"),
    *("requested memory", "status", "user", "group", "executable", "queue", "partition"),
    *("preceding job", "think time"),
)
"""Fields of a line in the Standard Workload Format, 2.2."""

PARTIAL = frozenset({2, 3, 4})
"""Statuses of lines that are about a part of a job's run time."""

TABLE_COLUMNS = (
    *("id", "submit", "duration", "limit", "pods", "cpu", "memory", "gpu", "queue", "user"),
    "priority",
)
NEEDED_COLUMNS = ("submit", "duration")

_SEPARATORS = re.compile(r"[\s/@]+")
_HEADER = re.compile(r";\s*(\w+):\s*(-?\d+)\s*$")

Number = TypeVar("Number", int, float)


class TraceJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a trace: a gang of equal pods."""

    id: str
    submit: float
    """In seconds, on the clock of the trace."""
    duration: float
    """How long it runs once it has started, in seconds."""
    limit: float | None = None
    """How long its user lets it run at most. None: unknown."""
    pods: int = 1
    request: Mapping[str, int]
    """What each pod requests, by resource."""
    queue: str = "default"
    user: str = "default"
    """The namespace."""
    priority: int = 0

    def total(self, resource: str) -> int:
        """How much of a resource all pods request."""
        return self.pods * self.request.get(resource, 0)


class LineProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A line that can't be used."""

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: {self.message}"


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a trace, in the order of their submission."""

    jobs: tuple[TraceJob, ...]
    problems: tuple[LineProblem, ...] = ()
    left_out: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By reason, how many usable lines are left out."""
    unused: tuple[str, ...] = ()
    """Columns of a table that mean nothing here."""
    epoch: float = 0.0
    """When the clock of the trace began, in seconds since 1970."""
    nodes: int | None = None
    """How many nodes the cluster had, if the trace says so."""
    cores: int | None = None
    """How many processors these had together."""

    @property
    def resource(self) -> str:
        """The resource by which jobs are small or large: GPUs if any job has them, else CPU."""
        return GPU if any(GPU in job.request for job in self.jobs) else CPU


class TraceError(Exception):
    """The file is no trace."""


class _FieldError(Exception):
    """A field that can't be used."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def read(text: str, *, table: bool) -> Trace:
    """Return the trace of a file: a table of jobs, or one in the Standard Workload Format.

    Raises TraceError if nothing in it is usable.
    """
    found = _table(text) if table else _swf(text)
    if not found.jobs:
        first = f": {found.problems[0]}" if found.problems else ""
        raise TraceError(f"has no job that ran{first}")
    order = sorted(range(len(found.jobs)), key=lambda at: (found.jobs[at].submit, at))
    return msgspec.structs.replace(found, jobs=tuple(found.jobs[at] for at in order))


class _Rows:
    """Jobs and problems, while a file is read."""

    def __init__(self) -> None:
        self.jobs: list[TraceJob] = []
        self.problems: list[LineProblem] = []
        self.left_out: Counter[str] = Counter()
        self._lines: dict[str, int] = {}
        """By id, the line of the job."""

    def add(self, line: int, job: TraceJob) -> None:
        """Take a job, unless there is one of its name."""
        before = self._lines.setdefault(job.id, line)
        if before != line:
            raise _FieldError("id", f"job {job.id} is in line {before}, too")
        self.jobs.append(job)

    def refuse(self, line: int, error: _FieldError) -> None:
        """Note that a line can't be used."""
        self.problems.append(LineProblem(line=line, field=error.field, message=str(error)))


def _swf(text: str) -> Trace:
    """Read the Standard Workload Format; -1 stands for what isn't known."""
    rows, header = _Rows(), dict[str, int]()
    numbers = list(_swf_numbers(text, rows, header))
    whole = {fields[0] for _, fields in numbers if int(fields[10]) not in PARTIAL}
    for line, fields in numbers:
        if int(fields[10]) in PARTIAL and fields[0] in whole:
            rows.left_out["parts of jobs that have a line for the whole"] += 1
            continue
        if fields[3] < 0:
            rows.left_out["jobs that never ran, such as those cancelled before their start"] += 1
            continue
        try:
            rows.add(line, _swf_job(fields))
        except _FieldError as error:
            rows.refuse(line, error)
    return Trace(
        jobs=tuple(rows.jobs),
        problems=tuple(rows.problems),
        left_out=dict(rows.left_out),
        epoch=float(max(0, header.get("UnixStartTime", 0))),
        nodes=_positive(header.get("MaxNodes")),
        cores=_positive(header.get("MaxProcs")),
    )


def _swf_numbers(
    text: str, rows: _Rows, header: dict[str, int]
) -> Iterator[tuple[int, list[float]]]:
    """Iterate over the lines of jobs, each with its fields as numbers; fill the header."""
    for line, content in enumerate(text.splitlines(), 1):
        if content.lstrip().startswith(";"):
            told = _HEADER.match(content.strip())
            if told is not None:
                header.setdefault(told[1], int(told[2]))
            continue
        words = content.split()
        if not words:
            continue
        try:
            yield line, _swf_fields(words)
        except _FieldError as error:
            rows.refuse(line, error)


def _swf_fields(words: Sequence[str]) -> list[float]:
    if len(words) < len(SWF_FIELDS):
        missing = SWF_FIELDS[len(words)]
        raise _FieldError(missing, f"is missing: a line has {len(SWF_FIELDS)} fields")
    return [
        _number(word, f"field {number} ({name})", low=-math.inf)
        for number, (word, name) in enumerate(zip(words, SWF_FIELDS, strict=False), 1)
    ]


def _swf_job(fields: Sequence[float]) -> TraceJob:
    number, submit, _, duration, allocated, _, _, requested, limit = fields[:9]
    pods = int(requested if requested > 0 else allocated)
    if not 0 < pods <= PODS_MAX:
        raise _FieldError("field 8 (requested processors)", f"{pods} is not from 1 to {PODS_MAX}")
    queue, partition, user = int(fields[14]), int(fields[15]), int(fields[11])
    named = f"queue-{queue}" if queue >= 0 else "default"
    if queue < 0 <= partition:
        named = f"partition-{partition}"
    return TraceJob(
        id=f"{number:.0f}",
        submit=submit,
        duration=duration,
        limit=limit if limit > 0 else None,
        pods=pods,
        request=ONE_CORE,
        queue=named,
        user=f"user-{user}" if user >= 0 else "unknown",
    )


ONE_CORE: Mapping[str, int] = {CPU: CORE}


def _table(text: str) -> Trace:
    """Read a table of jobs: comma-separated values, with the names of the columns in line 1."""
    lines = csv.reader(io.StringIO(text))
    names = [name.strip().lower() for name in next(lines, [])]
    missing = [name for name in NEEDED_COLUMNS if name not in names]
    if missing:
        raise TraceError(f"line 1: has no column {' and no column '.join(missing)}")
    twice = [name for name, count in Counter(names).items() if count > 1 and name in TABLE_COLUMNS]
    if twice:
        raise TraceError(f"line 1: has column {twice[0]} twice")
    rows = _Rows()
    for words in lines:
        if not any(words):
            continue
        try:
            job = _table_job(_row(names, words), len(rows.jobs) + len(rows.problems) + 1)
            rows.add(lines.line_num, job)
        except _FieldError as error:
            rows.refuse(lines.line_num, error)
    return Trace(
        jobs=tuple(rows.jobs),
        problems=tuple(rows.problems),
        unused=tuple(name for name in names if name not in TABLE_COLUMNS),
    )


def _row(names: Sequence[str], words: Sequence[str]) -> Mapping[str, str]:
    if len(words) != len(names):
        raise _FieldError("columns", f"has {len(words)}, line 1 has {len(names)}")
    return {name: word.strip() for name, word in zip(names, words, strict=True)}


def _table_job(row: Mapping[str, str], number: int) -> TraceJob:
    limit = row.get("limit")
    return TraceJob(
        id=_SEPARATORS.sub("-", row.get("id") or str(number)),
        submit=_instant(row["submit"]),
        duration=_number(row["duration"], "duration"),
        limit=_number(limit, "limit", low=1e-6) if limit else None,
        pods=int(_number(row.get("pods") or "1", "pods", low=1, high=PODS_MAX)),
        request=_request(row),
        queue=_SEPARATORS.sub("-", row.get("queue") or "default"),
        user=_SEPARATORS.sub("-", row.get("user") or "default"),
        priority=int(_number(row.get("priority") or "0", "priority", low=-math.inf)),
    )


def _request(row: Mapping[str, str]) -> Mapping[str, int]:
    """Return what a pod requests: one CPU if the row names nothing else."""
    found = {}
    for column, resource in (("cpu", CPU), ("memory", MEMORY), ("gpu", GPU)):
        written = row.get(column)
        try:
            amount = quantities.parse(resource, written) if written else 0
        except QuantityError as error:
            raise _FieldError(column, str(error)) from error
        if amount < 0:
            raise _FieldError(column, f"{written} is below 0")
        if amount:
            found[resource] = amount
    return found or ONE_CORE


def _instant(text: str) -> float:
    """Return a time as seconds: a number, or a time of the calendar, which is UTC by default."""
    if "-" in text[1:]:
        with suppress(ValueError):
            moment = dt.datetime.fromisoformat(text)
            return moment.replace(tzinfo=moment.tzinfo or dt.UTC).timestamp()
    return _number(text, "submit", low=-math.inf)


def _number(text: str, field: str, *, low: float = 0.0, high: float = SECONDS_MAX) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise _FieldError(field, f"{text!r} is not a number") from error
    if not math.isfinite(number) or not low <= number <= high:
        bounds = f"at least {low:g}" if number < low else f"at most {high:g}"
        raise _FieldError(field, f"{text} is not {bounds}")
    return number


def _positive(number: int | None) -> int | None:
    return number if number and number > 0 else None
