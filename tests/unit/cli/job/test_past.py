"""`job history` and `report`, from a file and through the page."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click import testing

from tests.unit.history.clusters import START, Cluster, group, pod
from tests.web import clusters, stage
from tests.web.stage import Stage
from vscheduler.cli import main
from vscheduler.simulator.replay import traces

Run = Callable[..., testing.Result]
SINCE = f"--since={START - 1}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history of two queues: a job that ran, one that was evicted and runs, one that waits."""
    cluster = Cluster(tmp_path_factory.mktemp("history") / "history.db")
    cluster.begin()
    cluster.show(
        group("train", labels={"vscheduler.io/user": "ann"}),
        *(pod(f"t{at}", "train", requests={"cpu": "1500m", "nvidia.com/gpu": "2"}) for at in "ab"),
        group("tune", "lead", created=5),
    )
    requests = {"cpu": "1500m", "nvidia.com/gpu": "2"}
    for ended in (None, 3610):
        for at in "ab":
            cluster.show(pod(f"t{at}", "train", bound=10, ended=ended, requests=requests))
    cluster.show(group("train", phase="Completed", labels={"vscheduler.io/user": "ann"}))
    cluster.show(pod("u", "tune", bound=20))
    cluster.writer.evicted(["u-uid"], "reclaim", "ns/train")  # type: ignore[list-item]
    cluster.show(pod("u", "tune", bound=20, ended=80, failed=True))
    cluster.show(pod("v", "tune", bound=100), group("later", created=90), pod("w", "later"))
    cluster.now = 4000
    cluster.end()
    return cluster.path


def run(*words: str) -> testing.Result:
    """A command and what it says."""
    return testing.CliRunner().invoke(main.vscheduler, words)


def said(path: Path, *words: str) -> str:
    """What a command says about a file."""
    done = run(*words, SINCE, f"--history={path}")
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(text: str) -> list[dict[str, str]]:
    """Comma-separated values by their titles."""
    return list(csv.DictReader(io.StringIO(text)))


def test_jobs_of_the_past_are_listed(path: Path) -> None:
    """The latest first, with waits, run times and evictions."""
    lines = said(path, "job", "history").splitlines()
    assert [line.split()[1] for line in lines] == [
        "WORKLOAD",
        "podgroup/later",
        "podgroup/tune",
        "podgroup/train",
    ]
    assert "1 for ns/train" in lines[2]
    for part in ("Completed", "3 cpu and 4 nvidia.com/gpu", "2023-11-14 22:13:20", "10s", "60m"):
        assert part in lines[3], lines[3]
    wide = said(path, "job", "history", "-o", "wide", "train").splitlines()
    assert len(wide) == 2
    assert " ann " in wide[1]
    assert " 4 " in wide[1]  # GPU hours


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--queue=lead"], ["tune"]),
        (["--user=ann"], ["train"]),
        (["--user=nobody"], []),
        (["--state=waiting", "--state=completed"], ["later", "train"]),
        (["-n", "other"], []),
        (["-n", "ns", "tune"], ["tune"]),
        (["podgroup/tune"], []),
        (["--until", str(START + 50)], ["tune", "train"]),
        (["--since", str(START + 3700)], ["later", "tune"]),
        (["--limit=1"], ["later"]),
    ],
)
def test_filters(path: Path, flags: list[str], names: list[str]) -> None:
    """By queue, user, state, namespace, name and time."""
    found = json.loads(said(path, "job", "history", "-o", "json", *flags))
    if "--since" in flags:
        done = run("job", "history", "-o", "json", *flags, f"--history={path}")
        found = json.loads(done.stdout)
    assert [job["podGroup"] for job in found["jobs"]] == names


def test_values_are_exact(path: Path) -> None:
    """Seconds times what was asked for."""
    found = {row["podGroup"]: row for row in rows(said(path, "job", "history", "-o", "csv"))}
    assert found["train"]["podSeconds.cpu"] == str(2 * 3600 * 3 // 2)
    assert found["train"]["podSeconds.nvidia.com/gpu"] == str(2 * 3600 * 2)
    assert found["later"]["started"] == ""
    report = {row["queue"]: row for row in rows(said(path, "report", "-o", "csv"))}
    assert report["gold"]["podSeconds.cpu"] == str(2 * 3600 * 3 // 2)
    assert report["lead"]["evictions.podSeconds.cpu"] == "60"
    assert (report["lead"]["waits.p50"], report["lead"]["evictions.pods"]) == ("15", "1")


def test_a_report_sums_up(path: Path) -> None:
    """In hours, and all together in the last line."""
    lines = said(path, "report", "--until", str(START + 3620)).splitlines()
    assert lines[0].split()[:4] == ["QUEUE", "CPU-HOURS", "GPU-HOURS", "STARTED"]
    assert lines[1].split()[:5] == ["gold", "3", "4", "1", "1"]
    assert lines[-1].split()[:3] == ["all", "3.99", "4"]
    assert "0.02 CPU" in lines[2]
    by_user = json.loads(said(path, "report", "--by=user", "-o", "json"))
    assert [row["name"] for row in by_user["rows"]] == ["", "ann"]


def test_a_report_by_job_has_a_row_for_those_without_one(path: Path) -> None:
    """The one that used most first, and sums are those of all."""
    every = rows(said(path, "report", "--by=job", "-o", "csv"))
    assert [row["job"] for row in every] == ["ns/podgroup/tune", "ns/podgroup/train"]
    few = rows(said(path, "report", "--by=job", "--limit=1", "-o", "csv"))
    assert [row["job"] for row in few] == ["ns/podgroup/tune", "1 more"]
    for column in ("podSeconds.cpu", "finished", "evictions.pods"):
        assert sum(int(row[column]) for row in every) == sum(int(row[column]) for row in few)
    lines = said(path, "report", "--by=job", "--limit=1", "--until", str(START + 3620)).splitlines()
    assert [line.split()[0] for line in lines] == ["JOB", "ns/podgroup/train", "1", "all"]


def test_the_past_is_a_trace_for_replay(path: Path) -> None:
    """Jobs that have finished, as gangs of equal pods."""
    done = run("job", "history", "-A", "-o", "trace", SINCE, f"--history={path}")
    assert "2 jobs that didn't run or haven't finished left out" in done.stderr
    trace = traces.read(done.stdout, table=True)
    assert [*trace.problems, *trace.unused] == []
    (job,) = trace.jobs
    assert (job.submit, job.duration, job.pods) == (START, 3600, 2)
    assert job.request == {"cpu": 1500, "nvidia.com/gpu": 2}
    assert (job.queue, job.user) == ("gold", "ns")


def test_through_the_page_a_tenant_sees_its_own(path: Path, tmp_path: Path) -> None:
    """By the rights of its token, page after page, and with notes on what isn't shown."""
    made = Stage(clusters.three_queues(1e9), 1e9)
    made.decide()
    made.history = path
    with stage.served(made) as address:
        for token, lines in ((stage.ADMIN, 4), (stage.TENANT, 0)):
            (tmp_path / "token").write_text(token)
            flags = [SINCE, f"--server={address}", f"--token-file={tmp_path / 'token'}"]
            done = run("job", "history", "-A", *flags)
            assert (done.exit_code, len(done.stdout.splitlines())) == (0, lines), done.output
            summed = run("report", *flags)
            assert bool(summed.stdout) is bool(lines), summed.output
        assert "you may not list nodes" in summed.stderr
        wrong = run("report", *flags, "--since=yesterday")
        assert "since: 'yesterday' is neither an age" in wrong.stderr


def test_problems_are_sentences(path: Path, tmp_path: Path) -> None:
    """No place to ask, no database, a time that isn't one."""
    nowhere = run("report")
    assert nowhere.exit_code == 2
    assert "--server" in nowhere.stderr
    (tmp_path / "text").write_text("no database at all" * 100)
    (tmp_path / "empty").write_text("")
    for name in ("text", "empty"):
        bad = run("job", "history", f"--history={tmp_path / name}")
        assert bad.exit_code == 1
        assert str(tmp_path / name) in bad.stderr
    bad = run("job", "history", "--since=2026-13-01", f"--history={path}")
    assert "neither an age such as 30d" in bad.stderr
    none = run("job", "history", "--since=1d", "--until=12h", "x", f"--history={path}")
    assert (none.exit_code, none.stderr) == (0, "No jobs found.\n")
