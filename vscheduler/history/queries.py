"""Queries: what ran, who waited, and how much was used, from the database of history.

Pod-seconds are what pods request, times the seconds for which they hold it: integers in the units
of the model (CPU in millicores), so that sums are exact whatever they are sums of.
"""

import json
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.history import schema
from vscheduler.history.records import JobRecord, JobState
from vscheduler.model import jobs, resources
from vscheduler.model.jobs import JobId
from vscheduler.model.resources import ResourceMap
from vscheduler.model.run_times import PAST_DAYS
from vscheduler.simulator.past_runs import PastRun, PastRuns

QUERY_SECONDS = 20.0
STEPS_BETWEEN_LOOKS = 100_000
"""Steps of SQLite's machine between looks at the clock."""

FAR = 1 << 62
"""Later than anything."""

RUNS_MAX = 100_000
"""So many jobs, the latest, count for how long others run."""

ROWS_MAX = 100
"""How many jobs a report names if nothing is said."""

DEVICE_WEIGHT = 100
"""How many CPUs a device counts as, where those that use most come first."""

STEPS_MAX = 2_000
"""How many steps a series has at most."""


class By(StrEnum):
    """What sums are by."""

    QUEUE = "queue"
    NAMESPACE = "namespace"
    USER = "user"
    JOB = "job"
    """Workloads by namespace: jobs that have the same owner count as one."""


SERIES_BY = (By.QUEUE, By.NAMESPACE, By.USER)
"""What use over time can be by: what runs of one kind have in common."""


class Visible(msgspec.Struct, frozen=True, kw_only=True):
    """Namespaces that are looked at; None: all."""

    volcano: frozenset[str] | None = None
    """For jobs with Volcano's PodGroups, and pods without any."""
    native: frozenset[str] | None = None
    """For those with Kubernetes' own."""

    def within(self, namespaces: Iterable[str]) -> "Visible":
        """Return the part in these namespaces."""
        only = frozenset(namespaces)
        return Visible(
            volcano=only if self.volcano is None else self.volcano & only,
            native=only if self.native is None else self.native & only,
        )


EVERYTHING = Visible()


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are asked for: those that existed at any time of [since, until)."""

    visible: Visible = EVERYTHING
    since: int = 0
    until: int = FAR
    queues: Sequence[str] = ()
    users: Sequence[str] = ()
    owners: Sequence[str] = ()
    """Workloads such as `job/train`."""
    names: Sequence[str] = ()
    """Names of PodGroups or of workloads, with or without their kind."""
    states: Sequence[str] = ()


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of a job that were evicted at the same time for the same job."""

    time: int
    pods: int
    action: str
    beneficiary: str
    """Empty if their gang was incomplete."""


class PastJob(JobRecord, frozen=True, kw_only=True):
    """A job with what it used."""

    row: int
    """Its place in the database: part of a cursor."""
    pod_seconds: ResourceMap = msgspec.field(default_factory=dict)
    evictions: tuple[Eviction, ...] = ()


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long jobs waited from their creation to their first start, in seconds."""

    jobs: int
    mean: float
    p50: int
    p90: int
    p99: int
    longest: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a report."""

    name: str
    others: int = 0
    """If not 0, the row is the sum of so many that have no row of their own."""
    pod_seconds: ResourceMap = {}
    waits: Waits | None = None
    """Of the jobs that started first in this time; None if none did."""
    finished: int = 0
    evicted_pods: int = 0
    evicted_jobs: int = 0
    evicted_pod_seconds: ResourceMap = {}
    """What runs had used, in all, that evictions ended in this time."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Use over time."""

    edges: Sequence[int]
    """Beginnings of the steps, and the end of the last."""
    used: Mapping[str, Mapping[str, Sequence[float]]]
    """Pod-seconds by name and resource, one for each step: rounded, unlike those of reports."""


class _Steps:
    """Sums over steps of time.

    A run adds (t - began) from its beginning and takes (t - ended) away from its end, for any
    instant t. So what begins and ends in each step is enough for the sum until the step's end.
    """

    def __init__(
        self, runs: NDArray[np.int64], edges: NDArray[np.int64], step: int, keys: Sequence[int]
    ) -> None:
        """`runs` as of Reader._runs."""
        self._shape = (len(keys), len(edges) - 1)
        groups = np.searchsorted(np.array(keys, dtype=np.int64), runs[:, 0])
        self._requests, self._counts = runs[:, 1], runs[:, 4]
        self._times = runs[:, 2:4] - edges[0]
        self._ends = edges[1:] - edges[0]
        at = np.minimum(self._times // step, self._shape[1] - 1)
        self._places = groups[:, None] * self._shape[1] + at

    def sums(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return pod-seconds by group and step: shape (G, S). `amounts` are those of requests."""
        held = amounts[self._requests] * self._counts
        total = np.zeros(self._shape)
        for side, sign in ((0, 1.0), (1, -1.0)):
            places, times = self._places[:, side], self._times[:, side]
            total += sign * self._integral(places, held, held * times)
        return np.diff(total, axis=1, prepend=0.0)

    def _integral(
        self, places: NDArray[np.int64], held: NDArray[np.float64], moved: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        size = self._shape[0] * self._shape[1]
        count = np.bincount(places, held, size).reshape(self._shape).cumsum(axis=1)
        times = np.bincount(places, moved, size).reshape(self._shape).cumsum(axis=1)
        return np.asarray(count * self._ends - times, dtype=np.float64)


WORKLOAD = """CASE owner WHEN '' THEN job ELSE substr(job, 1, instr(job, '/')) || owner END"""
"""The owner in its namespace, or the PodGroup that nobody is known to have created."""


class _JobSums:
    """Sums by workload: those of all its jobs together."""

    def __init__(self, link: sqlite3.Connection, wanted: Filter, now: int) -> None:
        self._requests = _requests(link)
        of_runs, of_jobs = _Conditions(wanted, "kinds"), _Conditions(wanted, "jobs")
        given = {**of_runs.values, "until": min(wanted.until, now)}
        seen = f"kind IN (SELECT id FROM kinds WHERE {of_runs})" if of_runs else "TRUE"
        sums = [
            f"""SELECT job, kind, SUM(MIN({end}, :until) - MAX(began, :since)) FROM runs
            WHERE {condition} AND began < :until AND {seen} GROUP BY job, kind"""
            for end, condition in (("ended", "ended > :since"), (":until", "ended IS NULL"))
        ]
        self._used = _integers(link.execute(" UNION ALL ".join(sums), given), 3)
        """Job, request and seconds."""
        lost = f"""SELECT job, kind, SUM(ended - began), COUNT(*), job FROM runs
            WHERE how = 'evicted' AND ended >= :since AND ended < :until AND {seen}
            GROUP BY job, kind"""
        self._lost = _integers(link.execute(lost, of_runs.values), 5)
        """Job, request, seconds and pods, and the job again."""
        kinds = _integers(link.execute("SELECT id, request FROM kinds ORDER BY id"), 2)
        for each in (self._used, self._lost):
            each[:, 1] = kinds[np.searchsorted(kinds[:, 0], each[:, 1]), 1]
        # One pass, which reads the names of nearly all jobs on the way.
        statement = f"""SELECT id, CASE WHEN started >= :since AND started < :until AND created > 0
            THEN MAX(0, started - created) ELSE -1 END,
            IFNULL(finished >= :since AND finished < :until, 0), {WORKLOAD} FROM jobs NOT INDEXED
            WHERE (started >= :since AND started < :until
            OR finished >= :since AND finished < :until) AND {of_jobs}"""
        rows = link.execute(statement, of_jobs.values).fetchall()
        ids, waits, finished, names = zip(*rows, strict=True) if rows else ((), (), (), ())
        known = np.array([ids, waits, finished], dtype=np.int64).T.reshape(-1, 3)
        self._waits = known[known[:, 1] >= 0][:, :2]
        """Job and seconds."""
        self._finished = known[known[:, 2] == 1][:, :1]
        self._names = self._group(link, known[:, 0], list(names))
        """Of the workloads, whose places stand for jobs in all arrays by now."""

    def _group(
        self, link: sqlite3.Connection, ids: NDArray[np.int64], names: list[str]
    ) -> list[str]:
        """Return the workloads; `names` are those of these jobs."""
        of_runs = np.concatenate([self._used[:, 0], self._lost[:, 0]])
        others = np.unique(of_runs[~_among(of_runs, ids)])
        # Of a list of parameters, SQLite takes too few.
        statement = f"""SELECT IFNULL({WORKLOAD}, '') FROM json_each(?)
            LEFT JOIN jobs ON jobs.id = value ORDER BY value"""
        rows = link.execute(statement, (json.dumps(others.tolist()),))
        every, names = np.concatenate([ids, others]), [*names, *chain.from_iterable(rows)]
        if not names:
            return []
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        first = every.min()
        groups = np.zeros(every.max() - first + 1, dtype=np.int64)
        groups[every - first] = [numbers[name] for name in names]
        for each in (self._used, self._lost, self._waits, self._finished):
            each[:, 0] = groups[each[:, 0] - first]
        return list(numbers)

    def rows(self, limit: int) -> list[Row]:
        """Return so many rows, those with the largest use first, and one for all others."""
        weights = np.zeros(max(self._requests, default=0) + 1)
        for request, amounts in self._requests.items():
            weights[request] = size(amounts)
        of_runs = weights[self._used[:, 1]] * self._used[:, 2]
        sizes = np.bincount(self._used[:, 0], of_runs, len(self._names))
        order = np.argsort(-sizes, kind="stable")
        places = np.full(len(order), limit)
        places[order[:limit]] = np.arange(len(order[:limit]))
        used, lost, waits, finished = (
            _by_place(rows, places)
            for rows in (self._used, self._lost, self._waits, self._finished)
        )
        found = [
            self._row(_named(self._names[group]), used(place), lost(place), waits(place)[:, 1])
            for place, group in enumerate(order[:limit].tolist())
        ]
        if others := len(order[limit:]):
            rest = self._row("", used(limit), lost(limit), waits(limit)[:, 1])
            found.append(msgspec.structs.replace(rest, others=others))
        return [
            msgspec.structs.replace(row, finished=len(finished(place)))
            for place, row in enumerate(found)
        ]

    def _row(
        self,
        name: str,
        used: NDArray[np.int64],
        lost: NDArray[np.int64],
        waits: NDArray[np.int64],
    ) -> Row:
        return Row(
            name=name,
            pod_seconds=self._amounts(used),
            waits=_waits_of(np.sort(waits).tolist()) if len(waits) else None,
            evicted_pods=int(lost[:, 3].sum()),
            evicted_jobs=len(np.unique(lost[:, 4])),
            evicted_pod_seconds=self._amounts(lost),
        )

    def _amounts(self, rows: NDArray[np.int64]) -> ResourceMap:
        """Return exact sums, which may be larger than 64 bits, of rows with request and seconds."""
        seconds = np.zeros(int(rows[:, 1].max(initial=0)) + 1, dtype=np.int64)
        np.add.at(seconds, rows[:, 1], rows[:, 2])
        sums: dict[str, int] = {}
        for request in np.flatnonzero(seconds).tolist():
            for resource, amount in self._requests[request].items():
                sums[resource] = sums.get(resource, 0) + amount * int(seconds[request])
        return sums


def _among(numbers: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of these rows of the database are among some that have no order."""
    flags = np.zeros(max(numbers.max(initial=0), some.max(initial=0)) + 1, dtype=np.bool_)
    flags[some] = True
    return np.asarray(flags[numbers])


def _by_place(
    rows: NDArray[np.int64], places: NDArray[np.int64]
) -> Callable[[int], NDArray[np.int64]]:
    """Return what finds the rows of a place; `places` are those of workloads."""
    found = places[rows[:, 0]]
    order = np.argsort(found, kind="stable")
    edges = np.searchsorted(found[order], np.arange(places.max(initial=0) + 2))
    return lambda place: rows[order[edges[place] : edges[place + 1]]]


def _named(workload: str) -> str:
    """Return `team-a/job/train` as it is, and `team-a/podgroup/train` for `team-a/train`."""
    namespace, _, name = workload.partition("/")
    return workload if "/" in name else f"{namespace}/podgroup/{name}"


def size(amounts: Mapping[str, float]) -> float:
    """Return how much amounts count where the largest come first: CPUs, and devices as several."""
    devices = [
        amount
        for name, amount in amounts.items()
        if "/" in name and not name.startswith(("hugepages-", "attachable-volumes-"))
    ]
    return amounts.get(resources.CPU, 0) / 1000 + DEVICE_WEIGHT * sum(devices)


def _integers(rows: Iterable[Sequence[int]], columns: int) -> NDArray[np.int64]:
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64).reshape(-1, columns)


class Reader:
    """Answers queries, each over a connection of its own. Any thread may use it.

    All methods raise sqlite3.Error, schema.HistoryError and TimeoutError.
    """

    def __init__(self, path: Path, seconds: float = QUERY_SECONDS) -> None:
        """`seconds` is how long a query may take."""
        self._path = path
        self._seconds = seconds

    def namespaces(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return all namespaces with jobs, and those with PodGroups of Kubernetes' own API."""
        # One seek for each: the index is sorted by namespace.
        statement = """WITH RECURSIVE there(id) AS (SELECT MIN(namespace) FROM jobs UNION ALL
            SELECT (SELECT MIN(namespace) FROM jobs WHERE namespace > there.id) FROM there
            WHERE there.id IS NOT NULL) SELECT text FROM there JOIN names USING (id)"""
        with self._asking() as link:
            every = frozenset(str(row[0]) for row in link.execute(statement))
            own = link.execute(
                "SELECT DISTINCT text FROM kinds JOIN names ON names.id = namespace WHERE native"
            )
            return every, frozenset(str(row[0]) for row in own)

    def jobs(
        self, wanted: Filter, now: int, *, limit: int, before: tuple[int, int] | None = None
    ) -> list[PastJob]:
        """Return jobs, the latest first; `before` is (created, row) of the last one of the page
        before.
        """
        where = _of_jobs(wanted)
        if before is not None:
            created, row = map(where.value, before)
            where.add(f"(jobs.created, jobs.id) < ({created}, {row})")
        order = f"ORDER BY jobs.created DESC, jobs.id DESC LIMIT {where.value(limit)}"
        with self._asking() as link:
            rows = link.execute(f"{JOBS} WHERE {where} {order}", where.values)
            found = list(map(_job, rows))
            used = _used_by_jobs(link, [job.row for job in found], now)
            lost = _evictions_of(link, [job.row for job in found if job.evicted])
        return [
            msgspec.structs.replace(
                job, pod_seconds=used.get(job.row, {}), evictions=tuple(lost.get(job.row, ()))
            )
            for job in found
        ]

    def past_runs(self, now: int) -> PastRuns:
        """Return how long jobs have run that ended in the last days that count, or still run."""
        ran = f"""SELECT queue.text, namespace.text, job, owner, {{seconds}}
            FROM jobs JOIN names AS queue ON queue.id = queue
            JOIN names AS namespace ON namespace.id = namespace
            WHERE last_started IS NOT NULL AND {{condition}}
            ORDER BY jobs.id DESC LIMIT {RUNS_MAX}"""
        ended = ran.format(
            seconds="last_ended - last_started",
            condition="finished >= ? AND last_ended >= last_started",
        )
        running = ran.format(
            seconds="? - last_started",
            condition=f"finished IS NULL AND state = '{JobState.RUNNING}'",
        )
        with self._asking() as link:
            made = PastRuns(
                _past_run(row, ended=True)
                for row in link.execute(ended, (now - PAST_DAYS * 86400,))
            )
            for row in link.execute(running, (now,)):
                made.add(_past_run(row, ended=False))
        return made

    def report(self, by: By, wanted: Filter, now: int, limit: int = ROWS_MAX) -> list[Row]:
        """Return sums over [since, until), by name; by job those that used most, and then the sum
        of all others if there are more than `limit`. Filters by owner, name and state don't count:
        sums are about pods.
        """
        if by is By.JOB:
            with self._asking() as link:
                return _JobSums(link, wanted, now).rows(limit)
        with self._asking() as link:
            used = self._used(link, by, wanted, now)
            waits = self._waits(link, by, wanted)
            finished = self._finished(link, by, wanted)
            evictions = self._evicted(link, by, wanted)
            names = _names(link, {*used, *waits, *finished, *evictions})
        rows = []
        for key in sorted(names, key=names.__getitem__):
            pods, losers, lost = evictions.get(key, (0, 0, {}))
            rows.append(
                Row(
                    name=names[key],
                    pod_seconds=used.get(key, {}),
                    waits=waits.get(key),
                    finished=finished.get(key, 0),
                    evicted_pods=pods,
                    evicted_jobs=losers,
                    evicted_pod_seconds=lost,
                )
            )
        return rows

    def usage(self, by: By, wanted: Filter, step: int, now: int) -> Series:
        """Return the use in each step of [since, until); the last step may be shorter."""
        since, until = wanted.since, min(wanted.until, now)
        edges = [*range(since, max(since, until), step), until]
        with self._asking() as link:
            runs = self._runs(link, by, wanted, since, until)
            requests = _requests(link)
            keys = sorted({int(key) for key in np.unique(runs[:, 0])})
            names = _names(link, keys)
        found = _Steps(runs, np.array(edges, dtype=np.int64), step, keys)
        of_runs = [int(request) for request in np.unique(runs[:, 1])]
        used: dict[str, dict[str, Sequence[float]]] = {name: {} for name in sorted(names.values())}
        for resource in sorted({name for request in of_runs for name in requests[request]}):
            amounts = np.zeros(max(of_runs) + 1)
            for request in of_runs:
                amounts[request] = requests[request].get(resource, 0)
            for key, sums in zip(keys, found.sums(amounts), strict=True):
                if sums.any():
                    used[names[key]][resource] = [float(each) for each in sums]
        return Series(edges=edges, used=used)

    def _used(
        self, link: sqlite3.Connection, by: By, wanted: Filter, now: int
    ) -> Mapping[int, ResourceMap]:
        """Return pod-seconds in [since, until) by group."""
        until = min(wanted.until, now)
        where = _Conditions(wanted, "kinds")
        sums = [
            f"""SELECT kinds.{by}, request, SUM(MIN({end}, :until) - MAX(began, :since))
            FROM kinds CROSS JOIN runs ON kind = kinds.id
            WHERE {condition} AND began < :until AND {where} GROUP BY kinds.id"""
            for end, condition in (("ended", "ended > :since"), (":until", "ended IS NULL"))
        ]
        given = {**where.values, "until": until}
        return _amounts(link, link.execute(" UNION ALL ".join(sums), given).fetchall())

    def _runs(
        self, link: sqlite3.Connection, by: By, wanted: Filter, since: int, until: int
    ) -> NDArray[np.int64]:
        """Return group, request, beginning, end and number of equal runs in [since, until): shape
        (N, 5). Pods of a gang begin and end together; the index `usage` has them side by side.
        """
        where = _Conditions(wanted, "kinds")
        runs = [
            f"""SELECT kinds.{by}, request, MAX(began, :since), {end}, COUNT(*)
            FROM kinds CROSS JOIN runs ON kind = kinds.id
            WHERE {condition} AND began < :until AND {where} GROUP BY kinds.id, ended, began"""
            for end, condition in (
                ("MIN(ended, :until)", "ended > :since"),
                (":until", "ended IS NULL"),
            )
        ]
        given = {**where.values, "since": since, "until": until}
        return _integers(link.execute(" UNION ALL ".join(runs), given), 5)

    def _waits(self, link: sqlite3.Connection, by: By, wanted: Filter) -> Mapping[int, Waits]:
        where = _Conditions(wanted, "jobs")
        statement = f"""SELECT {by}, started - created FROM jobs
            WHERE started >= :since AND started < :until AND created > 0 AND {where}"""
        found = _integers(link.execute(statement, where.values), 2)
        keys, waits = found[:, 0], np.maximum(found[:, 1], 0)
        return {
            int(key): _waits_of(np.sort(waits[keys == key]).tolist()) for key in np.unique(keys)
        }

    def _finished(self, link: sqlite3.Connection, by: By, wanted: Filter) -> Mapping[int, int]:
        where = _Conditions(wanted, "jobs")
        # Counted here: SQLite would sort all rows to group them.
        statement = f"""SELECT {by} FROM jobs
            WHERE finished >= :since AND finished < :until AND {where}"""
        return Counter(chain.from_iterable(link.execute(statement, where.values)))

    def _evicted(
        self, link: sqlite3.Connection, by: By, wanted: Filter
    ) -> Mapping[int, tuple[int, int, ResourceMap]]:
        where = _Conditions(wanted, "kinds")
        statement = f"""SELECT kinds.{by}, request, job, COUNT(*), SUM(ended - began)
            FROM runs CROSS JOIN kinds ON kinds.id = kind
            WHERE how = 'evicted' AND ended >= :since AND ended < :until AND {where}
            GROUP BY kinds.{by}, request, job"""
        pods: dict[int, int] = defaultdict(int)
        losers: dict[int, set[int]] = defaultdict(set)
        seconds: dict[tuple[int, int], int] = defaultdict(int)
        for key, request, job, count, lost in link.execute(statement, where.values).fetchall():
            pods[key] += count
            losers[key].add(job)
            seconds[key, request] += lost
        amounts = _amounts(link, [(*key, lost) for key, lost in seconds.items()])
        return {key: (count, len(losers[key]), amounts[key]) for key, count in pods.items()}

    @contextmanager
    def _asking(self) -> Iterator[sqlite3.Connection]:
        """Provide a connection that sees one state of the database, and that gives up in time."""
        with closing(schema.open_to_read(self._path)) as link, _deadline(link, self._seconds):
            link.execute("BEGIN")
            yield link


@contextmanager
def _deadline(link: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Interrupt queries that take too long. Raises TimeoutError."""
    until = time.monotonic() + seconds
    link.set_progress_handler(lambda: time.monotonic() > until, STEPS_BETWEEN_LOOKS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            raise TimeoutError(f"the query took longer than {seconds:.0f} s") from None
        raise


COLUMNS = {
    "row": "jobs.id",
    **dict.fromkeys(("uid", "job", "owner")),
    **{name: f"{name}.text" for name in ("user", "queue", "scheduler")},
    **dict.fromkeys(("created", "priority", "run_limit", "admitted", "started", "last_started")),
    **dict.fromkeys(("last_ended", "finished", "state", "pods", "evicted", "succeeded", "failed")),
    "request": "amounts",
}
"""What of the database each field of a job is; None: the column of this name."""

JOBS = f"""SELECT {", ".join(each or name for name, each in COLUMNS.items())}
FROM jobs JOIN names AS scheduler ON scheduler.id = scheduler JOIN names AS user ON user.id = user
JOIN names AS queue ON queue.id = queue JOIN requests ON requests.id = request"""


def _past_run(row: tuple[Any, ...], *, ended: bool) -> PastRun:
    queue, namespace, job, owner, seconds = row
    name = owner or jobs.names_of(JobId(job))[1]
    return PastRun(
        queue=queue, namespace=namespace, name=name, seconds=max(0.0, float(seconds)), ended=ended
    )


def _job(row: tuple[Any, ...]) -> PastJob:
    found = dict(zip(COLUMNS, row, strict=True))
    found["state"], found["request"] = JobState(found["state"]), json.loads(found["request"])
    return PastJob(**found)


class _Conditions:
    """Conditions of a query, and their values by name."""

    def __init__(self, wanted: Filter, table: str) -> None:
        """Of the columns that jobs and runs both have: queue, user and namespace."""
        self._table = table
        self._where: list[str] = []
        self.values: dict[str, Any] = {"since": wanted.since, "until": wanted.until}
        if wanted.queues:
            self.add(self._named("queue", wanted.queues))
        if wanted.users:
            self.add(self._named("user", wanted.users))
        seen = wanted.visible
        if seen != EVERYTHING:
            self.add(self._inside(0, seen.volcano), self._inside(1, seen.native))

    def __str__(self) -> str:
        return " AND ".join(self._where) or "TRUE"

    def __bool__(self) -> bool:
        return bool(self._where)

    def add(self, *either: str) -> None:
        """Add a condition: that any of these is true."""
        self._where.append(f"({' OR '.join(either)})")

    def among(self, column: str, texts: Iterable[str]) -> str:
        """Return that the column has one of the texts."""
        return f"{self._table}.{column} IN ({', '.join(map(self.value, texts))})"

    def like(self, column: str, pattern: str) -> str:
        """Return that the column matches."""
        return f"{self._table}.{column} LIKE {self.value(pattern)} ESCAPE '\\'"

    def value(self, value: object) -> str:
        """Return what stands for a value."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def _named(self, column: str, texts: Iterable[str]) -> str:
        marks = ", ".join(map(self.value, texts))
        return f"{self._table}.{column} IN (SELECT id FROM names WHERE text IN ({marks}))"

    def _inside(self, native: int, namespaces: frozenset[str] | None) -> str:
        kind = f"{self._table}.native = {native}"
        if namespaces is None:
            return kind
        return f"({kind} AND {self._named('namespace', sorted(namespaces))})"


def _of_jobs(wanted: Filter) -> _Conditions:
    """Return the conditions of a list of jobs."""
    made = _Conditions(wanted, "jobs")
    made.add("jobs.created < :until")
    made.add("jobs.finished IS NULL", "jobs.finished >= :since")
    if wanted.owners:
        made.add(made.among("owner", wanted.owners))
    if wanted.states:
        made.add(made.among("state", wanted.states))
    if wanted.names:
        made.add(
            made.among("owner", wanted.names),
            *(
                made.like(column, f"%/{_literal(name)}{ending}")
                for name in wanted.names
                for column, ending in (("owner", ""), ("job", ""), ("job", _literal(jobs.NATIVE)))
            ),
        )
    return made


def _literal(text: str) -> str:
    """Return a text that stands for itself in a pattern."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _used_by_jobs(
    link: sqlite3.Connection, rows: Sequence[int], now: int
) -> Mapping[int, ResourceMap]:
    """Return pod-seconds by job."""
    statement = f"""SELECT job, request, SUM(MAX(0, IFNULL(ended, ?) - began))
        FROM runs JOIN kinds ON kinds.id = kind
        WHERE job IN ({schema.marks(rows)}) GROUP BY job, request"""
    return _amounts(link, link.execute(statement, (now, *rows)).fetchall())


def _evictions_of(link: sqlite3.Connection, rows: Sequence[int]) -> Mapping[int, list[Eviction]]:
    statement = f"""SELECT job, ended, action, evicted_for, COUNT(*) FROM runs
        WHERE job IN ({schema.marks(rows)}) AND how = 'evicted'
        GROUP BY job, ended, action, evicted_for ORDER BY ended, evicted_for"""
    found: dict[int, list[Eviction]] = defaultdict(list)
    for job, ended, action, beneficiary, pods in link.execute(statement, rows):
        found[job].append(Eviction(time=ended, pods=pods, action=action, beneficiary=beneficiary))
    return found


def _amounts(
    link: sqlite3.Connection, rows: Sequence[tuple[int, int, int]]
) -> Mapping[int, ResourceMap]:
    """Return amounts by key, of rows with a key, a request, and its seconds."""
    found: dict[int, dict[str, int]] = {}
    if not rows:
        return found
    requests = _requests(link)
    for key, request, seconds in rows:
        sums = found.setdefault(key, {})
        for resource, amount in requests[request].items():
            sums[resource] = sums.get(resource, 0) + amount * seconds
    return found


def _requests(link: sqlite3.Connection) -> dict[int, ResourceMap]:
    rows = link.execute("SELECT id, amounts FROM requests")
    return {int(row): json.loads(amounts) for row, amounts in rows}


def _names(link: sqlite3.Connection, keys: Any) -> dict[int, str]:
    """Return the texts of these rows."""
    wanted = sorted(keys)
    return dict(
        link.execute(
            f"SELECT id, text FROM names WHERE id IN ({schema.marks(wanted)})", wanted
        ).fetchall()
    )


def _waits_of(waits: Sequence[int]) -> Waits:
    """Return the figures of sorted waits."""

    def at(part: float) -> int:
        return waits[min(len(waits) - 1, int(part * len(waits)))]

    return Waits(
        jobs=len(waits),
        mean=sum(waits) / len(waits),
        p50=at(0.5),
        p90=at(0.9),
        p99=at(0.99),
        longest=waits[-1],
    )
