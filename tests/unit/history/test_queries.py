"""Whom and what queries look at."""

import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from vscheduler.history import answers, documents, queries
from vscheduler.history.answers import BadQueryError
from vscheduler.history.queries import EVERYTHING, By, Filter, Reader, Visible
from vscheduler.history.records import Batch, Ending, JobRecord, JobState, RunRecord
from vscheduler.history.store import Limits, Store
from vscheduler.model.jobs import JobId, TaskId
from vscheduler.simulator import past_runs

START = 1_700_000_000
EVENTS = int(os.environ.get("HISTORY_EVENTS", "100000"))
"""How many events the large history has: jobs that come, are admitted, start and end, and the same
of their pods."""

DAYS = 24
QUERY_SECONDS = 0.5
"""CPU seconds of a query of a million events: measured 0.02 to 0.43 on a slow core."""


def ran(name: str, number: int, chance: random.Random) -> Batch:
    """A job that ran, with its pods."""
    created = START + number * DAYS * 86_400 * 10 // max(10, EVENTS)
    began = created + int(chance.expovariate(1 / 600))
    ended = began + int(chance.lognormvariate(7, 1.5))
    user = chance.randrange(100)
    pods = chance.randint(1, 5)
    request = {"cpu": 1000 * chance.randint(1, 8), "memory": 1 << 32, "pods": 1}
    evicted = chance.random() < 0.05
    job = JobRecord(
        uid=f"uid-{number}",
        scheduler="vscheduler",
        job=JobId(name.format(namespace=f"ns-{user % 40}", number=number)),
        user=f"user-{user}",
        queue=f"queue-{user % 20}",
        created=created,
        admitted=created + 1,
        started=began,
        last_started=began,
        last_ended=ended,
        finished=ended,
        state=JobState.COMPLETED,
        pods=pods,
        request=request,
        evicted=pods * evicted,
    )
    runs = [
        RunRecord(
            pod=TaskId(f"pod-{number}-{at}"),
            began=began,
            job=job.uid,
            name=f"pod-{at}",
            node=f"node-{chance.randrange(100)}",
            queue=job.queue,
            request=request,
            ended=ended,
            how=Ending.EVICTED if evicted else Ending.SUCCEEDED,
            action="reclaim" if evicted else "",
            evicted_for="ns-0/other" if evicted else "",
        )
        for at in range(pods)
    ]
    return Batch(jobs=[job], runs=runs)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 days of a large cluster."""
    path, chance = tmp_path_factory.mktemp("history") / "history.db", random.Random(1)
    store = Store(path, Limits())
    for first in range(0, EVENTS // 10, 500):
        some = [ran("{namespace}/job-{number}", first + at, chance) for at in range(500)]
        jobs = [job for batch in some for job in batch.jobs]
        runs = [run for batch in some for run in batch.runs]
        store.write(Batch(jobs=jobs, runs=runs), START)
    store.close()
    return path


NOW = START + DAYS * 86_400
ALL = Filter(since=START, until=NOW)
OWN = Visible(volcano=frozenset({"ns-1", "ns-2"}), native=frozenset())
QUESTIONS: dict[str, Callable[[Reader], object]] = {
    "report by queue": lambda reader: reader.report(By.QUEUE, ALL, NOW),
    "report by user": lambda reader: reader.report(By.USER, ALL, NOW),
    "report of a tenant": lambda reader: reader.report(
        By.USER, Filter(since=START, until=NOW, visible=OWN), NOW
    ),
    "report by job": lambda reader: reader.report(By.JOB, ALL, NOW),
    "report by job of a tenant": lambda reader: reader.report(
        By.JOB, Filter(since=START, until=NOW, visible=OWN), NOW
    ),
    "hours of all queues": lambda reader: reader.usage(By.QUEUE, ALL, 3600, NOW),
    "the latest jobs": lambda reader: reader.jobs(ALL, NOW, limit=200),
    "jobs of a tenant": lambda reader: reader.jobs(Filter(visible=OWN), NOW, limit=200),
    "jobs of a queue": lambda reader: reader.jobs(Filter(queues=["queue-7"]), NOW, limit=200),
    "how long jobs run": lambda reader: reader.past_runs(NOW),
    "a job": lambda reader: reader.jobs(Filter(names=["job-77"]), NOW, limit=200),
    "no job": lambda reader: reader.jobs(Filter(states=["Deleted"]), NOW, limit=200),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_about_a_large_history_are_answered_soon(large: Path, question: str) -> None:
    """Within half a second of CPU, of a million events with HISTORY_EVENTS=1000000."""
    reader = Reader(large)
    spent = []
    for _ in range(3):
        began = time.process_time()
        QUESTIONS[question](reader)
        spent.append(time.process_time() - began)
    assert min(spent) < QUERY_SECONDS, spent


def test_jobs_that_ended_lately_or_run_tell_how_long_jobs_run(tmp_path: Path) -> None:
    """Their last run counts; who never ran, or ended long ago, doesn't."""
    day = 86_400

    def job(number: int, state: JobState, started: int | None = None) -> JobRecord:
        return JobRecord(
            uid=f"u{number}",
            scheduler="s",
            job=JobId(f"ns/train-{number}"),
            queue="q",
            created=NOW - 50 * day,
            started=started,
            last_started=started,
            state=state,
        )

    def ended(number: int, seconds: int, at: int) -> JobRecord:
        before = job(number, JobState.COMPLETED, at - seconds)
        return msgspec.structs.replace(before, last_ended=at, finished=at)

    store = Store(tmp_path / "history.db", Limits())
    records = [
        *(ended(at, 100, NOW - at * day) for at in range(past_runs.FEWEST)),
        *(ended(at, 7, NOW - 31 * day) for at in range(20, 60)),
        *(job(at, JobState.RUNNING, NOW - 300) for at in range(60, 70)),
        *(job(at, JobState.WAITING, NOW - 5) for at in range(70, 90)),
        job(90, JobState.WAITING),
    ]
    store.write(Batch(jobs=records), START)
    store.close()
    found = Reader(tmp_path / "history.db").past_runs(NOW)
    kind = ("q", "ns", "train-")
    assert found.left(kind, 0.0, 0.5) == 100.0
    assert found.left(kind, 0.0, 0.51) == math.inf
    assert found.left(kind, 30.0, 0.1) == 70.0


def test_each_api_has_namespaces_of_its_own(tmp_path: Path) -> None:
    """A right to list the PodGroups of one API is none to list those of the other."""
    path, chance = tmp_path / "history.db", random.Random(1)
    store = Store(path, Limits())
    names = ("ns-1/one", "ns-2/two", "ns-1/three@scheduling.k8s.io", "ns-2/four@scheduling.k8s.io")
    for number, name in enumerate(names):
        store.write(ran(name, number, chance), START)
    store.close()
    reader = Reader(path)
    seen = Visible(volcano=frozenset({"ns-1"}), native=frozenset({"ns-2"}))
    wanted = Filter(visible=seen, until=NOW * 2)
    found = {job.job for job in reader.jobs(wanted, NOW * 2, limit=9)}
    assert found == {"ns-1/one", "ns-2/four@scheduling.k8s.io"}
    names_seen = {row.name for row in reader.report(By.NAMESPACE, wanted, NOW * 2)}
    assert names_seen == {"ns-1", "ns-2"}
    nobody = Filter(visible=Visible(volcano=frozenset(), native=frozenset()), until=NOW * 2)
    assert reader.jobs(nobody, NOW * 2, limit=9) == []
    assert reader.report(By.USER, nobody, NOW * 2) == []
    assert [set(each) for each in reader.namespaces()] == [{"ns-1", "ns-2"}] * 2


def test_jobs_of_one_owner_are_one_workload(tmp_path: Path) -> None:
    """In each namespace; what nobody is known to have created is named by its PodGroup."""
    path, chance = tmp_path / "history.db", random.Random(1)
    store = Store(path, Limits())
    for number, (name, owner) in enumerate(
        (
            *(("ns-1/web-a", "deployment/web"), ("ns-1/web-b", "deployment/web")),
            *(("ns-2/web-a", "deployment/web"), ("ns-1/bare", "")),
        )
    ):
        batch = ran(name, number, chance)
        jobs = [replace(job, owner=owner, created=START) for job in batch.jobs]
        store.write(Batch(jobs=jobs, runs=batch.runs), START)
    store.close()
    rows = Reader(path).report(By.JOB, Filter(until=NOW * 2), NOW * 2)
    names = {row.name: row.finished for row in rows}
    web = "deployment/web"
    assert names == {f"ns-1/{web}": 2, f"ns-2/{web}": 1, "ns-1/podgroup/bare": 1}
    used = [queries.size(row.pod_seconds) for row in rows]
    assert used == sorted(used, reverse=True)
    (first, rest) = Reader(path).report(By.JOB, Filter(until=NOW * 2), NOW * 2, 1)
    assert (first, rest.others) == (rows[0], 2)


def test_use_over_time_is_not_by_job(tmp_path: Path) -> None:
    """There may be very many."""
    with pytest.raises(BadQueryError, match=r"by is none of queue, namespace, user$"):
        answers.usage(Reader(tmp_path / "none.db"), EVERYTHING, {"by": ["job"]}, NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30d", NOW - 30 * 86_400),
        ("2w", NOW - 14 * 86_400),
        ("90m", NOW - 5400),
        ("1h30m", NOW - 5400),
        ("0", 0),
        ("1700000000", 1_700_000_000),
        ("2023-11-14", 1_699_920_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000),
        ("yesterday", None),
        ("30", 30),
        ("-1d", None),
        ("d", None),
        ("٣d", None),
        ("99999999999999d", None),
        ("", None),
    ],
)
def test_times_have_many_forms(text: str, seconds: int | None) -> None:
    """Ages, times and numbers; whatever else is given is an error in a sentence."""
    if seconds is None:
        with pytest.raises(ValueError, match="neither an age"):
            documents.instant(text, NOW)
    else:
        assert documents.instant(text, NOW) == seconds
