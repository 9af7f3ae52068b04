"""Store: the database of history as its writer uses it. One thread owns it."""

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from vscheduler.history import schema
from vscheduler.history.records import Batch, JobRecord, JobState, RunRecord, Stored
from vscheduler.model import jobs
from vscheduler.model.jobs import JobId, TaskId
from vscheduler.model.resources import ResourceMap

DAY_SECONDS = 86_400
ASKED_AT_ONCE = 500
"""How many uids one query names."""

PRUNED_AT_ONCE = 5_000
"""How many rows one turn deletes at most, so that writing goes on."""

NAMES_MAX = 50_000
"""How many names and requests are remembered; more are looked up again."""


class InUseError(schema.HistoryError):
    """Another process writes to the file."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept."""

    seconds: float = 90.0 * DAY_SECONDS
    """How long ended runs and finished jobs are kept."""
    size: int = 1 << 30
    """The largest size of the file, in bytes."""


class Store:
    """Writes records, and forgets the oldest.

    Methods raise sqlite3.Error; a transaction that fails changes nothing.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        """Open or create the file. Raises sqlite3.Error, OSError, NewerError and InUseError."""
        self._path = path
        self._limits = limits
        self._names: dict[str, int] = {}
        self._requests: dict[str, int] = {}
        self._kinds: dict[tuple[int, ...], int] = {}
        self._lock = _lock(path)
        try:
            self._link = schema.open_to_write(path)
            schema.check(self._link)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Close the file, for another process to write to."""
        with suppress(sqlite3.Error):
            self._link.close()
        os.close(self._lock)

    def write(self, batch: Batch, now: int) -> None:
        """Write records, and that somebody looks at this time. A run needs its job there."""
        with self._transaction():
            self._link.executemany(JOB, [self._job_row(each) for each in batch.jobs])
            known = self._rows_of([each.job for each in batch.runs])
            self._link.executemany(
                RUN, [self._run_row(run, known[run.job]) for run in batch.runs if run.job in known]
            )
            self._link.execute("INSERT OR REPLACE INTO meta VALUES ('seen', ?)", (now,))

    def stored(
        self, schedulers: Collection[str], groups: Collection[str], pods: Collection[TaskId]
    ) -> Stored:
        """Return what is known of unfinished jobs of these schedulers, and of listed objects."""
        unfinished = self._link.execute("SELECT uid FROM jobs WHERE finished IS NULL")
        uids = dict.fromkeys([*(str(row[0]) for row in unfinished), *groups])
        found = [
            job
            for job in self._jobs_of(uids)
            if job.finished is not None or job.scheduler in {"", *schedulers}
        ]
        unended = {job.uid for job in found}
        runs = [run for run in self._open_runs() if run.job in unended]
        going_on = {run.pod for run in runs}
        seen = self._link.execute("SELECT value FROM meta WHERE key = 'seen'").fetchone()
        return Stored(
            jobs=found,
            runs=runs,
            ended=dict(self._ends_of([pod for pod in pods if pod not in going_on])),
            seen=0 if seen is None else int(seen[0]),
        )

    def prune(self, now: int) -> int:
        """Delete some of what is too old or too much; return how many rows.

        The age counts from the last end that is known, if that is earlier: a clock that is wrong
        deletes nothing.
        """
        last = self._link.execute("SELECT MAX(ended) FROM runs").fetchone()[0]
        oldest = min(now, now if last is None else int(last)) - int(self._limits.seconds)
        deleted = self._delete_until(oldest)
        if not deleted and self.size > self._limits.size:
            deleted = self._delete_until(None)
        if deleted:
            self._link.executescript("PRAGMA incremental_vacuum")  # in steps, which execute omits
        return deleted

    @property
    def size(self) -> int:
        """The size of the file in bytes, without what is free in it and without the log."""
        pages = int(self._link.execute("PRAGMA page_count").fetchone()[0])
        free = int(self._link.execute("PRAGMA freelist_count").fetchone()[0])
        return (pages - free) * int(self._link.execute("PRAGMA page_size").fetchone()[0])

    def _delete_until(self, end: int | None) -> int:
        """Delete the oldest ended runs and finished jobs, of all or until this end."""
        limit = 1 << 62 if end is None else end
        with self._transaction():
            deleted = 0
            for table, column in (("runs", "ended"), ("jobs", "finished")):
                statement = (
                    f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} "
                    f"WHERE {column} < ? ORDER BY {column} LIMIT ?)"
                )
                deleted += self._link.execute(statement, (limit, PRUNED_AT_ONCE)).rowcount
                if end is None and deleted:
                    # The jobs of the runs that are left stay.
                    kept = self._link.execute("SELECT MIN(ended) FROM runs").fetchone()[0]
                    limit = limit if kept is None else int(kept)
        return deleted

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._link.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._link.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._link.execute("ROLLBACK")
            self._names.clear()  # rows of this transaction are no more
            self._requests.clear()
            self._kinds.clear()
            raise

    def _job_row(self, job: JobRecord) -> tuple[Any, ...]:
        return (
            job.uid,
            self._name(job.scheduler),
            job.job,
            self._name(jobs.names_of(job.job)[0]),
            jobs.is_native(job.job),
            job.owner,
            self._name(job.user),
            self._name(job.queue),
            job.created,
            job.priority,
            job.run_limit,
            job.admitted,
            job.started,
            job.last_started,
            job.last_ended,
            job.finished,
            str(job.state),
            job.pods,
            self._request(job.request),
            job.evicted,
            job.succeeded,
            job.failed,
        )

    def _run_row(self, run: RunRecord, job: "_JobRow") -> tuple[Any, ...]:
        return (
            run.pod,
            run.began,
            job.id,
            run.name,
            self._name(run.node),
            self._kind(run, job),
            run.ended,
            None if run.how is None else str(run.how),
            run.action,
            run.evicted_for,
        )

    def _name(self, text: str) -> int:
        return self._row(self._names, "names", "text", text)

    def _request(self, amounts: ResourceMap) -> int:
        return self._row(self._requests, "requests", "amounts", json.dumps(amounts, sort_keys=True))

    def _kind(self, run: RunRecord, job: "_JobRow") -> int:
        """Return the row of what the run is summed by."""
        queue, request = self._name(run.queue), self._request(run.request)
        key = (queue, job.namespace, job.native, job.user, request)
        row = self._kinds.get(key)
        if row is None:
            if len(self._kinds) > NAMES_MAX:
                self._kinds.clear()
            self._link.execute(
                "INSERT OR IGNORE INTO kinds (queue, namespace, native, user, request) "
                "VALUES (?, ?, ?, ?, ?)",
                key,
            )
            found = self._link.execute(
                "SELECT id FROM kinds WHERE queue = ? AND namespace = ? AND native = ? "
                "AND user = ? AND request = ?",
                key,
            )
            row = self._kinds[key] = int(found.fetchone()[0])
        return row

    def _row(self, known: dict[str, int], table: str, column: str, text: str) -> int:
        """Return the row of a text, which is made if there is none."""
        row = known.get(text)
        if row is None:
            if len(known) > NAMES_MAX:
                known.clear()
            self._link.execute(f"INSERT OR IGNORE INTO {table} ({column}) VALUES (?)", (text,))
            found = self._link.execute(f"SELECT id FROM {table} WHERE {column} = ?", (text,))
            row = known[text] = int(found.fetchone()[0])
        return row

    def _rows_of(self, uids: Iterable[str]) -> Mapping[str, "_JobRow"]:
        found = {}
        for some in _chunks(dict.fromkeys(uids)):
            rows = self._link.execute(
                "SELECT uid, id, namespace, native, user FROM jobs "
                f"WHERE uid IN ({schema.marks(some)})",
                some,
            )
            found.update({uid: _JobRow(*row) for uid, *row in rows})
        return found

    def _jobs_of(self, uids: Iterable[str]) -> Iterator[JobRecord]:
        for some in _chunks(uids):
            rows = self._link.execute(
                f"{JOBS} WHERE jobs.uid IN ({schema.marks(some)})",
                some,
            )
            yield from map(_job, rows.fetchall())

    def _open_runs(self) -> Iterator[RunRecord]:
        rows = self._link.execute(
            "SELECT pod, began, jobs.uid, runs.name, node.text, queue.text, amounts, action, "
            "evicted_for FROM runs JOIN jobs ON jobs.id = runs.job "
            "JOIN kinds ON kinds.id = runs.kind JOIN names AS node ON node.id = node "
            "JOIN names AS queue ON queue.id = kinds.queue "
            "JOIN requests ON requests.id = kinds.request WHERE ended IS NULL"
        )
        for pod, began, job, name, node, queue, amounts, action, evicted_for in rows.fetchall():
            yield RunRecord(
                pod=pod,
                began=began,
                job=job,
                name=name,
                node=node,
                queue=queue,
                request=json.loads(amounts),
                action=action,
                evicted_for=evicted_for,
            )

    def _ends_of(self, pods: Sequence[TaskId]) -> Iterator[tuple[TaskId, int]]:
        for some in _chunks(pods):
            rows = self._link.execute(
                "SELECT pod, MAX(ended) FROM runs "
                f"WHERE pod IN ({schema.marks(some)}) GROUP BY pod",
                some,
            )
            yield from ((TaskId(pod), int(ended)) for pod, ended in rows if ended is not None)


class _JobRow(msgspec.Struct, frozen=True):
    """What runs take over from their job, as rows."""

    id: int
    namespace: int
    native: int
    user: int


JOB = f"""INSERT INTO jobs (uid, scheduler, job, namespace, native, owner, user, queue, created,
 priority, run_limit, admitted, started, last_started, last_ended, finished, state, pods, request,
 evicted, succeeded, failed) VALUES ({", ".join("?" * 22)})
ON CONFLICT (uid) DO UPDATE SET scheduler=excluded.scheduler, owner=excluded.owner,
 user=excluded.user, queue=excluded.queue, admitted=excluded.admitted, started=excluded.started,
 last_started=excluded.last_started, last_ended=excluded.last_ended, finished=excluded.finished,
 state=excluded.state, pods=excluded.pods, request=excluded.request, evicted=excluded.evicted,
 succeeded=excluded.succeeded, failed=excluded.failed"""

RUN = f"""INSERT INTO runs (pod, began, job, name, node, kind, ended, how, action, evicted_for)
 VALUES ({", ".join("?" * 10)})
ON CONFLICT (pod, began) DO UPDATE SET kind=excluded.kind, ended=excluded.ended, how=excluded.how,
 action=excluded.action, evicted_for=excluded.evicted_for"""

JOBS = """SELECT uid, scheduler.text, job, owner, user.text, queue.text, created, priority,
 run_limit, admitted, started, last_started, last_ended, finished, state, pods, amounts, evicted,
 succeeded, failed
FROM jobs JOIN names AS scheduler ON scheduler.id = scheduler JOIN names AS user ON user.id = user
JOIN names AS queue ON queue.id = queue JOIN requests ON requests.id = request"""


def _job(row: tuple[Any, ...]) -> JobRecord:
    uid, scheduler, job, owner, user, queue, created, priority, limit = row[:9]
    admitted, started, last_started, last_ended, finished, state, pods, amounts = row[9:17]
    return JobRecord(
        uid=uid,
        scheduler=scheduler,
        job=JobId(job),
        owner=owner,
        user=user,
        queue=queue,
        created=created,
        priority=priority,
        run_limit=limit,
        admitted=admitted,
        started=started,
        last_started=last_started,
        last_ended=last_ended,
        finished=finished,
        state=JobState(state),
        pods=pods,
        request=json.loads(amounts),
        evicted=row[17],
        succeeded=row[18],
        failed=row[19],
    )


def _chunks(values: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Iterate over the values, as many at a time as one query names."""
    rest = iter(values)
    while some := tuple(islice(rest, ASKED_AT_ONCE)):
        yield some


def _lock(path: Path) -> int:
    """Lock the file for this process. Raises OSError and InUseError."""
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InUseError(f"another process writes to {path}") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def set_aside(path: Path, now: float) -> Path:
    """Rename a damaged file and its log; return the new name. Raises OSError."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    target = path.with_name(f"{path.name}.damaged-{stamp}")
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{ending}").replace(f"{target}{ending}")
    return target
