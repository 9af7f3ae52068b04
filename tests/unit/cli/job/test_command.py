"""The commands on a cluster of plain objects: what is printed where, and the exit status."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from click import testing

from tests.unit.cli import job_objects
from tests.unit.cli import test_deployed as deployments
from tests.unit.cli.job_objects import MESSAGE, Fake
from vscheduler.cli import main
from vscheduler.cli.job import job_figures
from vscheduler.cli.job.job_figures import Places
from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import Kind
from vscheduler.simulator import run as simulated
from vscheduler.simulator.run import Given

Run = Callable[..., testing.Result]


@pytest.fixture
def source() -> Fake:
    """Two queues; one job runs, two wait; `big` is a Job's, and its scheduler says why it waits."""
    found = job_objects.objects()
    groups = {each["metadata"]["name"]: each for each in found[Kind.POD_GROUP]}
    groups["runs"]["status"]["phase"] = "Running"
    job_objects.says(groups["big"], MESSAGE, "2026-01-01T11:30:00Z")
    for pod in found[Kind.POD]:
        if pod["metadata"]["name"].startswith("big"):
            job_objects.owned(pod, "Job", "train")
    return Fake(found)


@pytest.fixture
def run(source: Fake, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command on that cluster."""
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(source))
    return lambda *words: testing.CliRunner().invoke(main.vscheduler, ["job", *words])


def table(text: str) -> list[dict[str, str]]:
    """The rows of a table whose cells have no spaces, but for the last."""
    titles, *lines = (line.split(maxsplit=7) for line in text.splitlines())
    return [dict(zip(titles, line, strict=True)) for line in lines]


def test_list(run: Run) -> None:
    """Waiting jobs first, in the order of their turns, with the scheduler's own words."""
    done = run("list")
    assert (done.exit_code, done.stderr) == (0, "")
    rows = table(done.stdout)
    assert [(row["WORKLOAD"], row["QUEUE"], row["STATE"]) for row in rows] == [
        ("job/train", "lab", "Inqueue"),
        ("pod/small-0", "lab", "Pending"),
        ("podgroup/runs", "shop", "Running"),
    ]
    assert [(row["RUN/MIN/ALL"], row["IN-QUEUE"], row["OVERALL"]) for row in rows] == [
        ("0/3/3", "1/2", "1/2"),
        ("0/1/1", "2/2", "2/2"),
        ("2/2/2", "-", "-"),
    ]
    assert [row["REASON"] for row in rows] == ["no node has cpu left", "-", "-"]


def test_a_job_that_has_completed_doesnt_wait(run: Run, source: Fake) -> None:
    """Even if a scheduler has left a condition that says why it waited."""
    found = {each["metadata"]["name"]: each for each in source.found[Kind.POD_GROUP]}
    found["big"]["status"]["phase"] = "Completed"
    assert "job/train" not in run("list", "-o", "name", "--state=waiting").stdout
    assert "is finished." in run("why", "job/train").stdout


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--queue=shop"], ["podgroup/runs"]),
        (["--state=waiting"], ["job/train", "pod/small-0"]),
        (["--state=Running", "--state=pending"], ["pod/small-0", "podgroup/runs"]),
        (["--sort-by=name"], ["job/train", "pod/small-0", "podgroup/runs"]),
        (["--sort-by=pods"], ["job/train", "podgroup/runs", "pod/small-0"]),
        (["--sort-by=age"], ["pod/small-0", "job/train", "podgroup/runs"]),
        (["-n", "other"], []),
        (["-A"], ["job/train", "pod/small-0", "podgroup/runs"]),
    ],
)
def test_what_is_listed_and_in_which_order(run: Run, words: list[str], shown: list[str]) -> None:
    """Names only, for scripts; kubectl takes most of them."""
    done = run("list", "-o", "name", *words)
    assert (done.exit_code, done.stdout.split()) == (0, shown)


def test_wide_and_without_titles(run: Run) -> None:
    """The whole sentence, the PodGroup and the namespace."""
    done = run("list", "-A", "-o", "wide", "--no-headers")
    first = done.stdout.splitlines()[0]
    assert first.split()[:2] == ["default", "job/train"]
    assert first.endswith(MESSAGE)
    assert " big " in first
    hint = "No jobs found in this namespace; -A shows all namespaces.\n"
    assert run("list", "-n", "other").stderr == hint


def test_an_empty_list_says_what_was_looked_for(run: Run) -> None:
    """Other jobs may well be there."""
    found = run("list", "--state=unknown").stderr
    assert found == "No unknown jobs in this namespace; -A shows all namespaces.\n"
    found = run("list", "-A", "--queue=none", "--state=waiting", "--state=Running").stderr
    assert found == "No waiting or running jobs of queue none.\n"
    assert run("list", "-A", "--queue=none").stderr == "No jobs of queue none.\n"


def test_documents(run: Run) -> None:
    """A list in an object, or one job as it is."""
    listed = json.loads(run("list", "-o", "json").stdout)["jobs"]
    train = listed[0]
    assert train["place"] == {
        "inQueue": 1,
        "ofQueue": 2,
        "first": "",
        "overall": 1,
        "ofAll": 2,
    }
    assert train["pods"] == {"running": 0, "minimum": 3, "total": 3}
    assert (train["reason"], train["message"]) == ("NotEnoughResources", MESSAGE)
    got = yaml.safe_load(run("get", "job/train", "-o", "yaml").stdout)
    assert got["podGroup"] == "big"
    assert [each["name"] for each in got["members"]] == ["big-0", "big-1", "big-2"]
    assert "place" not in listed[2]


def test_get_shows_pods_and_history(run: Run) -> None:
    """When which pods were bound, and where."""
    text = run("get", "runs").stdout
    assert "podgroup/runs" in text
    assert "runs-1  Running  n1" in text
    assert "2 pods bound: runs-0 to n1 and runs-1 to n1" in text


def test_why(run: Run) -> None:
    """Sentence, place in line, and what the queue has."""
    done = run("why", "train")
    assert done.exit_code == 0
    assert "job/train in namespace default has been waiting for" in done.stdout
    assert "0 of 3 pods run; 3 must start together" in done.stdout
    assert MESSAGE in done.stdout
    assert "Place in line: 1 of 2 in queue lab, 1 of 2 overall." in done.stdout
    assert "--scheduler-conf" in done.stderr


def test_the_configuration_is_that_of_the_schedulers_deployment(run: Run, source: Fake) -> None:
    """Its ConfigMap has another order of jobs than the built-in configuration."""
    objects = deployments.Fake().objects
    conf = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n'
    objects[1]["data"] = {"scheduler.yaml": conf}
    for each in objects:
        each["metadata"]["namespace"] = "volcano-system"
        source.found[Kind(each["kind"])].append(each)
    done = run("why", "train")
    first = "default/small"  # the oldest
    assert f"Place in line: 2 of 2 in queue lab (first: {first})" in done.stdout
    assert done.stderr == ""


def test_why_nobody_says_anything(run: Run) -> None:
    """It tells which scheduler should."""
    done = run("why", "pod/small-0")
    assert "No scheduler has said anything about it yet. Its scheduler is vscheduler" in done.stdout
    assert "doesn't wait: it has been running" in run("why", "runs").stdout


@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_a_job_runs_as_soon_as_its_pods_have_nodes(run: Run, source: Fake, nodes: int) -> None:
    """The status of its PodGroup may be some seconds late."""
    rest = "- " * (2 - nodes)
    source.found = job_objects.objects(
        f"""
        node n1 cpu=4
        queue lab weight=1
        job lab/late min=2 phase=Inqueue  {"n1 " * nodes}{rest}
        """
    )
    said = run("why", "podgroup/late").stdout
    assert ("doesn't wait: it has been running" in said) == (nodes == 2)
    assert ("has been waiting for" in said) == (nodes < 2)


def test_why_says_what_would_start_a_job(run: Run) -> None:
    """Only of jobs that wait, and found by the scheduler's own decisions."""
    text = run("why", "train").stdout
    assert "Any one of these changes would start it:\n  - " in text
    assert "would start" not in run("why", "runs").stdout


def test_why_reads_the_cluster_once_for_all_jobs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for the line, and once with all that decisions depend on; each job is told the same."""
    alone = [run("why", name).stdout for name in ("train", "pod/small-0")]
    read, count = simulated.read, 0

    def counted(*given: Any) -> Given:
        nonlocal count
        count += 1
        return read(*given)

    monkeypatch.setattr(simulated, "read", counted)
    together = run("why", "train", "pod/small-0").stdout
    assert count == 2
    assert all(text.strip() in together for text in alone)


def test_why_without_pods(run: Run, source: Fake) -> None:
    """After all were evicted and nobody made them anew, no change of the cluster would help."""
    source.found[Kind.POD] = [
        pod for pod in source.found[Kind.POD] if not pod["metadata"]["name"].startswith("big")
    ]
    text = run("why", "podgroup/big").stdout
    assert "None of its pods exist: create 3 pods, or see why their owner doesn't." in text
    groups = {each["metadata"]["name"]: each for each in source.found[Kind.POD_GROUP]}
    job_objects.owned(groups["big"], "Job", "train")
    text = run("why", "podgroup/big").stdout
    assert "None of its pods exist: job/train creates them, unless it is suspended" in text
    assert "create 3" not in text


def test_why_needs_all_that_decisions_depend_on(run: Run, source: Fake) -> None:
    """Without the right to read budgets, nothing can be verified."""
    source.refused = frozenset({Kind.BUDGET})
    text = run("why", "train").stdout
    assert "What would help isn't known without reading all namespaces" in text


def test_why_names_annotations_that_cannot_be_read(run: Run, source: Fake) -> None:
    """As the controllers have written it."""
    group = source.found[Kind.POD_GROUP][0]
    said = {"type": "vscheduler.io/Annotations", "status": "False", "message": "'eight' is none"}
    group["status"].setdefault("conditions", []).append(said)
    text = run("why", f"pg/{group['metadata']['name']}").stdout
    assert "Annotations can't be read: 'eight' is none" in text


@pytest.mark.parametrize("verb", ["get", "why"])
def test_a_job_that_is_not_there(run: Run, verb: str) -> None:
    """The others are shown; near names are named."""
    done = run(verb, "job/trian", "runs")
    assert done.exit_code == 1
    assert "there is no job job/trian in namespace default; did you mean job/train?" in done.stderr
    assert "podgroup/runs" in done.stdout


def test_a_job_of_another_namespace_is_pointed_at(run: Run) -> None:
    """As far as the user may read it."""
    done = run("why", "train", "-n", "other")
    assert done.stderr == (
        "there is no job train in namespace other; namespace default has one: add -n default\n"
    )
    done = run("why", "default/train", "-n", "other")
    assert "other; did you mean `train -n default`?" in done.stderr


@pytest.mark.parametrize(
    ("scheduler", "group", "says"),
    [
        ("vscheduler", "gone", "there is no PodGroup gone, which the pod names"),
        ("default-scheduler", "", "which knows neither queues nor PodGroups"),
        ("vschedular", "", "does `vscheduler run --scheduler-name vschedular` run"),
    ],
)
def test_pods_without_a_podgroup(
    run: Run, source: Fake, scheduler: str, group: str, says: str
) -> None:
    """The usual mistakes."""
    name = {"scheduling.k8s.io/group-name": group} if group else {}
    metadata = {"name": "lone-0", "namespace": "default", "annotations": name}
    pod = {"metadata": metadata, "spec": {"schedulerName": scheduler}}
    source.found[Kind.POD].append(job_objects.owned(pod, "Job", "lone"))
    done = run("why", "job/lone")
    assert done.exit_code == 1
    assert "pod lone-0: " in done.stderr
    assert says in done.stderr


@pytest.mark.parametrize("name", ["nightly", "job/nightly-290", "cronjob/nightly"])
def test_a_job_whose_pods_are_refused_is_explained_by_its_events(
    run: Run, source: Fake, name: str
) -> None:
    """By a ResourceQuota or a webhook; the last warning counts, not what came before or after."""
    refused = 'pods "nightly-290-x" is forbidden: exceeded quota: small'
    source.found[Kind.EVENT] += [
        happened("Warning", "FailedCreate", f"(combined from similar events): {refused}", 30),
        happened("Warning", "FailedCreate", "an earlier one", 20),
        happened("Normal", "Suspended", "a later one", 40),
        happened("Warning", "FailedCreate", "of another job", 50, job="other-290"),
    ]
    done = run("why", name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "job/nightly-290 has no pods that could be scheduled. Its last warning, FailedCreate: "
        f"{refused}\n"
    )


def happened(
    kind: str, reason: str, message: str, second: int, job: str = "nightly-290"
) -> dict[str, Any]:
    """An event about a Job."""
    return {
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-01-01T00:00:{second}Z",
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "name": job},
        "metadata": {"name": f"e{second}", "namespace": "default"},
    }


def test_a_tenant_sees_its_own_namespace(source: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its places depend on what it may not read, so none is told; the page would tell them."""
    fake = Fake(source.found, "default")
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(fake))
    done = testing.CliRunner().invoke(main.vscheduler, ["job", "list"])
    assert done.exit_code == 0
    assert [row["IN-QUEUE"] for row in table(done.stdout)] == ["-", "-", "-"]
    assert [row["OVERALL"] for row in table(done.stdout)] == ["-", "-", "-"]
    kinds = (
        "priorityclasses, nodes, podgroups, podgroups.scheduling.k8s.io, compositepodgroups and "
        "pods"
    )
    assert f"places in line aren't known: you may not list {kinds} in the whole" in done.stderr
    assert "with --server" in done.stderr
    why = testing.CliRunner().invoke(main.vscheduler, ["job", "why", "train"])
    assert "Place in line" not in why.stdout


def test_who_may_read_nothing_is_told(source: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all namespaces, or of another one."""
    fake = Fake(source.found, "theirs")
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(fake))
    for words in (["-A"], ["-n", "default"]):
        done = testing.CliRunner().invoke(main.vscheduler, ["job", "list", *words])
        assert done.exit_code == 1
        assert done.stderr == "Error: may not list PodGroup\n"


def test_without_pods_the_counts_are_those_of_the_status(
    source: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is known is shown."""
    fake = Fake(source.found, refused=frozenset({Kind.POD}))
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(fake))
    done = testing.CliRunner().invoke(main.vscheduler, ["job", "list"])
    assert {row["RUN/MIN/ALL"] for row in table(done.stdout)} == {"0/3/-", "0/1/-", "0/2/-"}


@pytest.mark.parametrize("alias", ["podgroup", "pg", "jobs"])
def test_other_names_of_the_command(run: Run, alias: str) -> None:
    """As kubectl calls them."""
    done = testing.CliRunner().invoke(main.vscheduler, [alias, "list", "-o", "name"])
    assert done.stdout == run("list", "-o", "name").stdout


def test_numbers_in_names_of_pods_sort_as_numbers() -> None:
    """w-2 comes before w-10."""
    pods = [
        {
            "metadata": {
                "name": f"w-{number}",
                "namespace": "ns",
                "annotations": {"scheduling.k8s.io/group-name": "g"},
            }
        }
        for number in (10, 2, 1)
    ]
    group = {"metadata": {"name": "g", "namespace": "ns"}}
    places = Places(found={})
    (job,) = job_figures.jobs_of([group], pods, places)
    assert [pod.name for pod in job.pods or ()] == ["w-1", "w-2", "w-10"]


def test_what_a_silent_scheduler_would_do_is_not_told(run: Run) -> None:
    """Whether it runs at all isn't known: `it starts in cycle 1` would be a promise."""
    text = run("why", "pod/small-0").stdout
    assert "No scheduler has said anything about it yet" in text
    assert "would start" not in text
    assert "in cycle" not in text


def test_why_nobody_takes_a_group_is_told_with_what_to_set(run: Run, source: Fake) -> None:
    """Its owner creates pods once it is admitted, and names their scheduler itself."""
    source.found[Kind.POD] = [
        pod for pod in source.found[Kind.POD] if not pod["metadata"]["name"].startswith("small")
    ]
    groups = {each["metadata"]["name"]: each for each in source.found[Kind.POD_GROUP]}
    text = run("why", "podgroup/small").stdout
    assert "create its pods, with spec.schedulerName" in text
    job_objects.owned(groups["small"], "PyTorchJob", "net")
    text = run("why", "podgroup/small").stdout
    assert "No scheduler takes its PodGroup" in text
    assert (
        "set the annotation scheduling.volcano.sh/scheduler-name on it, or on pytorchjob/net "
        "before its PodGroup is made, or start vscheduler with --claim-unowned-podgroups."
    ) in text
    assert "spec.schedulerName" not in text


def test_why_tells_of_the_queue_what_the_jobs_own_scheduler_says(run: Run, source: Fake) -> None:
    """Another one may be gone, and divides other things in any case."""
    (queue,) = (each for each in source.found[Kind.QUEUE] if each["metadata"]["name"] == "lab")
    queue.setdefault("status", {})["conditions"] = [
        {"type": f"{name}/FairShare", "status": "True", "message": f"as {name} divides"}
        for name in ("gone", "vscheduler")
    ]
    text = run("why", "train").stdout
    assert "vscheduler says: as vscheduler divides." in text
    assert "gone" not in text
