"""`job … --server`: the page's JSON in place of the cluster, by the rights of a token."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click import testing
from msgspec.structs import replace

from tests.web import clusters, stage
from tests.web.stage import Stage
from vscheduler.cli import main
from vscheduler.model.jobs import JobId

WRONG = "wrong-token"

Run = Callable[..., testing.Result]


@pytest.fixture
def made() -> Stage:
    """Three tenants."""
    now = time.time()
    found = Stage(clusters.three_queues(now), now)
    found.decide()
    found.finder.changes = [
        {"change": "FewerPods", "message": "lower minMember from 8 to 4"},
        {"change": "MoreNodes", "message": "add 1 more node like worker-0"},
    ]
    return found


@pytest.fixture
def run(made: Stage, tmp_path: Path) -> Iterator[Run]:
    """Run a command of a tenant of robotics, unless another token is given."""
    with stage.served(made) as address:

        def run(*words: str, token: str = stage.TENANT) -> testing.Result:
            (tmp_path / "token").write_text(f"{token}\n")
            flags = [f"--server={address}", f"--token-file={tmp_path / 'token'}"]
            return testing.CliRunner().invoke(main.vscheduler, ["job", *words, *flags])

        yield run


def test_a_tenant_lists_its_own_jobs(run: Run) -> None:
    """With places in the whole line, which its own permissions couldn't tell."""
    done = run("list", "-n", "robotics", "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["jobs"]
    assert {each["namespace"] for each in found} == {"robotics"}
    first = next(each for each in found if "place" in each)
    assert first["place"]["overall"] >= 1
    assert first["pods"]["total"] >= first["pods"]["minimum"]
    assert "Nodes are only counted: you may not list nodes." in done.stderr
    everything = run("list", "-A", "-o", "name", token=stage.ADMIN)
    assert len(everything.stdout.split()) > len(found)
    assert run("list", "-A", "-o", "name").stdout.split() == [each["workload"] for each in found]
    assert run("list", "-A", token=stage.STRANGER).stdout == ""


def test_get_and_why(run: Run, made: Stage) -> None:
    """Pods, decisions, the queue's figures, and what would start the job."""
    waiting = next(
        group for group in made.result.groups if group.reason and "robotics/" in group.job
    )
    namespace, _, name = waiting.job.partition("/")
    got = run("get", f"podgroup/{name}", "-n", namespace, token=stage.ADMIN)
    assert got.exit_code == 0, got.output
    assert f"PodGroup:   {name}" in got.stdout
    told = run("why", f"podgroup/{name}", "-n", namespace)
    assert told.exit_code == 0, told.output
    assert "Place in line: " in told.stdout
    assert "Queue robotics has, of what it deserves: " in told.stdout
    assert "\nLikely to start in 2h to 5h.\n" in told.stdout
    assert "  - lower minMember from 8 to 4\n1 more would, which concern what" in told.stdout
    assert "Not searched to the end: weights." in told.stdout
    assert "--history" not in told.stderr
    file = Path(__file__)
    told = run("why", f"pg/{name}", "-n", namespace, f"--history={file}")
    assert "--history doesn't count with --server: the page has" in told.stderr
    tree = json.loads(run("why", f"pg/{name}", "-n", namespace, "-o", "json").stdout)
    assert [each["change"] for each in tree["remedies"]["remedies"]] == ["FewerPods"]
    made.finder.problem = "It takes too long."
    made.finder.changes = []
    other = next(
        group.job.partition("/")[2]
        for group in made.result.groups
        if group.reason and group.job.startswith("speech/")
    )
    failed = run("why", f"pg/{other}", "-n", "speech", token=stage.ADMIN)
    assert (failed.exit_code, "It takes too long." in failed.stdout) == (0, True)


def test_a_job_that_is_not_there(run: Run) -> None:
    """An error, with what may be meant; foreign jobs are as good as none."""
    done = run("why", "job/none", "-n", "robotics")
    assert done.exit_code == 1
    assert "there is no job job/none in namespace robotics that you may see" in done.stderr


def test_a_job_of_another_namespace_is_hinted_at(run: Run) -> None:
    """Only where the token may see it; a namespace without any job says how to look elsewhere."""
    said = "there is no job job/simulate-1 in namespace default that you may see"
    done = run("why", "job/simulate-1", "-n", "default")
    assert f"{said}; namespace robotics has one: add -n robotics\n" in done.stderr
    done = run("get", "job/train-large", "-n", "robotics")
    assert "in namespace robotics that you may see\n" in done.stderr
    done = run("why", "job/simulat-1", "-n", "robotics")
    assert "; did you mean job/simulate-1" in done.stderr
    nothing = "There are no jobs in namespace default that you may see: name another one with -n"
    assert nothing in run("list", "-n", "default").stderr
    assert "There are no jobs" not in run("list", "-n", "robotics").stderr


@pytest.mark.parametrize(
    ("owner", "said"), [("", "create 12 pods, or see why"), ("job/gone", "job/gone creates them")]
)
def test_a_job_without_pods_says_what_to_do(run: Run, made: Stage, owner: str, said: str) -> None:
    """It is listed with its state, and nobody searches for changes."""
    gone = next(job for job in made.taken.jobs if job.namespace == "robotics")
    gone = replace(gone, tasks=(), name="gone", id=JobId("robotics/gone"), owner=owner)
    made.without_pods = (gone,)
    listed = json.loads(run("list", "-n", "robotics", "-o", "json").stdout)["jobs"]
    (found,) = (each for each in listed if each["podGroup"] == "gone")
    assert (found["state"], found["pods"]["total"]) == (gone.phase, 0)
    assert found["message"].startswith(f"0 of {gone.min_member} pods exist")
    told = run("why", "pg/gone", "-n", "robotics")
    assert f"None of its pods exist: {said}" in told.stdout
    assert made.finder.asked == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--server=http://page.example"], "would get your token unencrypted; use https"),
        (["--server=page.example"], "isn't an address like https://"),
        (["--server=https://x", "--token-file=/none"], "--token-file can't be read"),
        (["--server=http://127.0.0.1:9"], "127.0.0.1:9 doesn't answer"),
        (["--server=https://x", "--server-ca=/none"], "--server-ca can't be used"),
    ],
)
def test_wrong_flags_are_sentences(tmp_path: Path, flags: list[str], said: str) -> None:
    """No token leaves in clear text, and no traceback is shown."""
    (tmp_path / "token").write_text("secret")
    words = ["job", "list", f"--token-file={tmp_path / 'token'}", *flags]
    done = testing.CliRunner().invoke(main.vscheduler, words)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "secret" not in done.output


def test_an_unknown_token_and_a_stand_by(run: Run, made: Stage) -> None:
    """The page's own words. A standby doesn't say that there are no jobs, nor that all is well."""
    assert "The API server doesn't know this token." in run("list", token=WRONG).stderr
    stage.stand_by(made)
    for words in (("list", "-A"), ("get", "train"), ("why", "train")):
        done = run(*words, token=stage.ADMIN)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "b-7d4f" in done.stderr
        assert "o job" not in done.stderr


def test_watching_shows_jobs_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until Ctrl-C, here after the second look."""

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    done = run("list", "-n", "robotics", "-w")
    assert done.exit_code == 130
    assert done.stdout.startswith("WORKLOAD")
