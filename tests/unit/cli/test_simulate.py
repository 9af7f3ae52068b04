import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import testing

from vscheduler.cli import main
from vscheduler.core.plugins import gang
from vscheduler.history.records import Batch, JobRecord, JobState
from vscheduler.history.store import Limits, Store
from vscheduler.model.jobs import JobId
from vscheduler.testing import pictures

PICTURE = """
    node  n1 cpu=2 label=zone=a    node n2 cpu=2
    queue gold weight=1
    job   gold/small min=2 cpu=1   - -
    job   gold/big   min=1 cpu=3   -
"""
SHARE = "2 of 6 usable CPU: weight 1 of 3 that want more"
WHY = (
    "a pod of 3 cpu is larger than any node it may use, the most is 2 cpu on n1; ask for less, "
    "or add a larger node"
)


def invoke(*arguments: str | Path, text: str | None = None) -> testing.Result:
    """Run the command as a person does."""
    return testing.CliRunner().invoke(main.vscheduler, ["simulate", *map(str, arguments)], text)


def write(path: Path, documents: list[Any]) -> Path:
    """A file of manifests."""
    path.write_text(yaml.safe_dump_all(documents))
    return path


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A folder with one picture's manifests in two files."""
    documents = pictures.documents(PICTURE)
    write(tmp_path / "a.yaml", documents[:3])
    write(tmp_path / "b.yaml", documents[3:])
    return tmp_path


def test_a_table_shows_placements_queues_and_reasons(scene: Path) -> None:
    """What a person asks for, and nothing on stderr."""
    done = invoke(scene)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert (done.exit_code, done.stderr) == (0, "")
    assert ["default/small-0", "n1"] in rows
    assert ["gold", "Open", "1", "2", "cpu", "2", "cpu", "5", "cpu", "1.00", "(cpu)"] in rows
    assert ["default/big", "gold", "Pending", *WHY.split()] in rows


def test_a_table_says_how_shares_came_about(tmp_path: Path) -> None:
    """And which nodes nobody can use, in no more than 100 columns."""
    taint = "node-role.kubernetes.io/control-plane"
    picture = f"""
        node  n1 cpu=6
        node  n2 cpu=9 taint={taint}:NoSchedule
        queue gold weight=1
        queue iron weight=2
        job   gold/a cpu=1   - - - - - -
        job   iron/b cpu=1 memory=1Gi   - - - - - -
        job   iron/c cpu=1              - - - - - -
    """
    done = invoke(write(tmp_path / "all.yaml", pictures.documents(picture)))
    assert (done.exit_code, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["gold", *SHARE.split()] in rows
    assert ["n2", "taint", taint] in rows
    assert not [row for row in rows if row[:1] == ["root"] and "asks" in row]
    (wide,) = [
        line for line in done.stdout.splitlines() if line.startswith("iron ") and ":" in line
    ]
    assert len(wide.rstrip()) <= 100
    assert "that want more; no memory on any node" in wide


def test_json_and_yaml_are_the_same_tree(scene: Path) -> None:
    """For programs: nothing but the result on stdout."""
    first, second = invoke(scene, "-o", "json"), invoke(scene, "--output=yaml")
    tree = json.loads(first.stdout)
    assert tree == yaml.safe_load(second.stdout)
    assert tree["binds"] == {"default/small-0": "n1", "default/small-1": "n1"}
    assert tree["podGroups"]["default/big"]["message"] == WHY


def test_the_order_of_files_makes_no_difference(scene: Path) -> None:
    """Also when a list comes over stdin."""
    files = [scene / "a.yaml", scene / "b.yaml"]
    expected = invoke(scene, "-o", "json").stdout
    listed = yaml.safe_dump({"kind": "List", "items": pictures.documents(PICTURE)[::-1]})
    assert invoke(*files[::-1], "-o", "json").stdout == expected
    assert invoke("-", "-o", "json", text=listed).stdout == expected


@pytest.mark.parametrize(("strict", "status"), [([], 0), (["--strict"], 1)])
def test_a_bad_object_is_named_and_left_out(scene: Path, strict: list[str], status: int) -> None:
    """File, line, kind, name and field; an error only where asked for."""
    bad = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3"}}
    file = write(scene / "c.yaml", [bad | {"status": {"allocatable": {"cpu": "many"}}}])
    done = invoke(scene, *strict)
    assert done.exit_code == status
    assert f"left out: {file}:7: Node n3: status.allocatable.cpu: 'many' is no" in done.stderr
    assert ("default/small-0" in done.stdout) == (status == 0)


@pytest.mark.parametrize(("strict", "status"), [([], 0), (["--strict"], 1)])
def test_a_plugin_that_fails_is_named(
    scene: Path, monkeypatch: pytest.MonkeyPatch, strict: list[str], status: int
) -> None:
    """With the line of its file; an error only where asked for."""

    def fail(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(gang.Gang, "job_valid", fail)
    done = invoke(scene, *strict, "-o", "json")
    assert done.exit_code == status
    said = done.stderr.splitlines()
    assert re.fullmatch(
        r"plugin gang failed in job_valid \(test_simulate.py:\d+\): KeyError: 'x'", said[0]
    )
    if strict:
        assert said[1:] == ["plugins failed: gang (--strict)"]
    else:
        (fault,) = json.loads(done.stdout)["faults"]
        assert (fault["plugin"], fault["hook"], fault["error"]) == (
            "gang",
            "job_valid",
            "KeyError: 'x'",
        )


def test_what_decides_nothing_is_said_on_stderr(scene: Path) -> None:
    """A Deployment makes no pods here."""
    write(scene / "c.yaml", [{"apiVersion": "apps/v1", "kind": "Deployment"}])
    done = invoke(scene, "--strict", "-o", "json")
    assert done.exit_code == 0
    assert done.stderr.startswith("not simulated: 1 Deployment")
    json.loads(done.stdout)


def test_why_refuses_what_it_would_ignore(scene: Path) -> None:
    """It has cycles of its own."""
    done = invoke(scene, "--why", "default/big", "--cycles", "3")
    assert done.exit_code == 2
    assert "--cycles has no effect with --why" in done.stderr


TEMPLATE: dict[str, Any] = {
    "spec": {
        "schedulerName": "vscheduler",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    }
}
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


def workload(kind: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A Job or its like, called `fit`."""
    versions = {"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}
    return {
        "apiVersion": versions.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": "fit", "annotations": annotations or {}},
        "spec": spec,
    }


JOB = workload("Job", parallelism=2, completions=5, template=TEMPLATE)
SET = [{"name": "w", "replicas": 2, "template": {"spec": JOB["spec"]}}]


@pytest.mark.parametrize(
    ("given", "pods"),
    [
        (JOB, ["fit-0", "fit-1"]),
        (workload("Deployment", replicas=2, template=TEMPLATE), ["fit-0", "fit-1"]),
        (workload("StatefulSet", template=TEMPLATE), ["fit-0"]),
        (workload("JobSet", replicatedJobs=SET), [f"fit-w-{at}-{n}" for at in "01" for n in "01"]),
        (workload("Job", suspend=True, template=TEMPLATE), []),
        (JOB | {"metadata": {"name": "fit", "uid": "stored"}}, []),
        (workload("Job", {MIN_MEMBER: "5"}, parallelism=5, template=TEMPLATE), []),
    ],
    ids=["Job", "Deployment", "StatefulSet", "JobSet", "suspended", "from a cluster", "gang"],
)
def test_jobs_and_their_like_get_the_pods_that_they_would_have(
    tmp_path: Path, given: dict[str, Any], pods: list[str]
) -> None:
    """With the PodGroup that a gang needs: five pods don't fit on four cores."""
    write(tmp_path / "given.yaml", [*pictures.documents("node n1 cpu=4"), given])
    done = invoke(tmp_path, "-o", "json")
    found = json.loads(done.stdout)
    assert sorted(found["binds"]) == [f"default/{pod}" for pod in pods]
    gang = MIN_MEMBER in given["metadata"].get("annotations", {})
    assert ("default/fit" in found["podGroups"]) == gang
    assert done.stderr.startswith(f"{given['kind']} default/fit is simulated") == bool(pods or gang)


def test_pods_that_are_given_are_not_made_again(tmp_path: Path) -> None:
    """As where somebody dumps a Job without its UID."""
    owner = {"kind": "Job", "name": "fit", "controller": True}
    metadata = {"name": "mine", "ownerReferences": [owner]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    write(tmp_path / "given.yaml", [*pictures.documents("node n1 cpu=4"), JOB, pod])
    done = invoke(tmp_path, "-o", "json")
    assert "simulated with" not in done.stderr


@pytest.mark.parametrize("more", [[], ["--why", "default/p"]])
@pytest.mark.parametrize("given", ["", "{apiVersion: v1, kind: Pod, metadata: {name: p}}"])
def test_without_nodes_there_is_no_result(given: str, more: list[str]) -> None:
    """As where kubectl, before the pipe, has failed."""
    done = invoke("-", *more, text=given)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no nodes given" in done.stderr


def test_every_problem_of_a_configuration_is_told_with_its_line(
    scene: Path, tmp_path: Path
) -> None:
    """Two mistakes, two lines."""
    conf = tmp_path / "scheduler.conf"
    conf.write_text("actions: allocate, dance\ntiers:\n- plugins:\n  - name: gnag\n")
    done = invoke(scene, "--scheduler-conf", conf)
    assert (done.exit_code, done.stdout) == (1, "")
    assert [line.partition(": ")[0] for line in done.stderr.splitlines()] == [
        f"{conf}:1",
        f"{conf}:4",
    ]


def test_a_configuration_decides(scene: Path, tmp_path: Path) -> None:
    """With no plugin there is no gang, and no queue has a share."""
    conf = tmp_path / "scheduler.conf"
    conf.write_text("actions: allocate\ntiers: []\n")
    tree = json.loads(invoke(scene, "--scheduler-conf", conf, "-o", "json").stdout)
    assert "deserved" not in tree["queues"]["gold"]


@pytest.mark.parametrize(
    ("arguments", "binds"),
    [
        (["--scheduler-name", "other"], {}),
        (["--node-selector", "zone=a"], {"n1"}),
        (["--node-selector", "zone:a", "--scheduler-name=vscheduler"], {"n1"}),
        (["--node-selector", "zone=b"], {}),
        (["--cycles", "3"], {"n1"}),
    ],
)
def test_flags_mean_what_they_mean_to_the_daemon(
    scene: Path, arguments: list[str], binds: set[str]
) -> None:
    """Names of schedulers, nodes that may be used, and more than one cycle."""
    tree = json.loads(invoke(scene, *arguments, "-o", "json").stdout)
    assert set(tree["binds"].values()) == set(binds)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing argument 'FILE...'"),
        (["missing.yaml"], "does not exist"),
        (["-", "--cycles", "0"], "'--cycles'"),
        (["-", "--now", "yesterday"], "'--now': 'yesterday' is not an RFC 3339 time"),
        (["-", "--now", "2026-01-01T12:00:00"], "'--now': '2026-01-01T12:00:00' is not an RFC"),
        (["-", "--now", ""], "'--now': '' is not an RFC 3339"),
        (["-", "--now", "1969-12-31T23:59:59Z"], "'--now': '1969-12-31T23:59:59Z' is not between"),
        (["-", "--now", "9999-12-31T00:00:00Z"], "is not between 1970 and 9999"),
        (["-", "-o", "xml"], "'xml' is not one of"),
        (["-", "--node-selector", "zone"], "--node-selector: 'zone' is no label"),
        (["-", "--scheduler-name", "A_B"], "--scheduler-name: 'A_B' is no DNS-1123"),
        (["-", "--nope"], "No such option"),
    ],
)
def test_wrong_usage_has_status_two(arguments: list[str], complaint: str) -> None:
    """And a sentence on stderr."""
    done = invoke(*arguments, text="")
    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr


def test_unreadable_input_is_an_error(tmp_path: Path) -> None:
    """Status 1, with file and line."""
    file = tmp_path / "a.yaml"
    file.write_text("a: b: c\n")
    done = invoke(file)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{file}:1: ")


SEESAW = """
    node n1 cpu=2 memory=2Gi
    queue a deserved=cpu:4,memory:1Gi   job a/x cpu=2 memory=2Gi n1
    queue b deserved=cpu:1,memory:4Gi   job b/y cpu=2 memory=2Gi -
"""
VOLCANO = """
compatibility: volcano
actions: allocate, reclaim
tiers:
- plugins: [{name: gang}]
- plugins: [{name: capacity}, {name: predicates}, {name: nodeorder}]
"""


@pytest.fixture
def seesaw(tmp_path: Path) -> list[str]:
    """The arguments for a cluster in which Volcano evicts back and forth."""
    conf = tmp_path / "scheduler.conf"
    conf.write_text(VOLCANO)
    scene = write(tmp_path / "all.yaml", pictures.documents(SEESAW))
    return [str(scene), "--scheduler-conf", str(conf), "--cycles", "12"]


def test_evicted_pods_return_and_going_round_is_told(seesaw: list[str]) -> None:
    """In one sentence on stderr; programs and people are told in which cycle it was."""
    done = invoke(*seesaw, "--evicted-return", "-o", "json")
    assert (done.exit_code, done.stderr) == (
        0,
        "jobs default/x and default/y have evicted each other since cycle 1\n",
    )
    tree = json.loads(done.stdout)
    assert [(each["pod"], each["cycle"]) for each in tree["evicts"]] == [
        ("default/x-0", 1),
        ("default/y-0", 4),
        ("default/x-0-r1", 7),
        ("default/y-0-r1", 10),
    ]
    assert tree["bindCycles"] == {
        "default/x-0-r1": 6,
        "default/x-0-r2": 12,
        "default/y-0": 3,
        "default/y-0-r1": 9,
    }
    rows = [line.split() for line in invoke(*seesaw, "--evicted-return").stdout.splitlines()]
    assert ["EVICTED", "NODE", "CYCLE", "ACTION", "FOR"] in rows
    assert ["default/y-0", "n1", "4", "reclaim", "default/x"] in rows
    assert ["default/y-0-r1", "n1", "9"] in rows


def test_without_return_what_is_evicted_is_gone(seesaw: list[str]) -> None:
    """And the run comes to rest."""
    done = invoke(*seesaw, "-o", "json")
    tree = json.loads(done.stdout)
    assert (done.stderr, len(tree["evicts"])) == ("", 1)
    assert tree["bindCycles"] == {"default/y-0": 3}
    assert "CYCLE" not in invoke(*seesaw).stdout


@pytest.mark.parametrize("now", ["2027-01-01T12:00:00Z", "2027-01-01T14:00:00+02:00"])
def test_now_is_the_instant_of_the_first_cycle(scene: Path, now: str) -> None:
    """Not the latest instant in the manifests; each cycle is a second later."""
    tree = json.loads(invoke(scene, "--now", now, "--cycles", "2", "-o", "json").stdout)
    times = {
        each["lastTransitionTime"]
        for group in tree["podGroups"].values()
        for each in group["conditions"]
    }
    assert times == {"2027-01-01T12:00:00Z"}


def test_a_bound_of_one_pod_is_that_of_the_daemon(tmp_path: Path) -> None:
    """The same flag: a pod with more waits, and the group's reason names the bound."""
    documents = pictures.documents("node n1 cpu=2 queue q job q/j min=1 cpu=1 -")
    pod = documents[-1]
    pod["spec"]["tolerations"] = [{"key": str(each), "operator": "Exists"} for each in range(3)]
    path = write(tmp_path / "a.yaml", documents)
    assert json.loads(invoke(path, "-o", "json").stdout)["binds"]
    done = invoke(path, "--max-pod-tolerations=2", "-o", "json")
    said = "asks for 3 tolerations; at most 2 are looked at (--max-pod-tolerations)"
    (group,) = json.loads(done.stdout)["podGroups"].values()
    assert group["reason"] == "PodRejected"
    assert said in group["message"]
    assert said in done.stderr


LATE = "node n1 cpu=4   queue q   job q/late min=5 select=zone=a -*5"


def test_why_shows_what_would_start_a_job(tmp_path: Path) -> None:
    """As text, and as the same tree in JSON and YAML; names can't paint the terminal."""
    documents = pictures.documents(LATE.replace("=zone=a", "=zone=\x1b[31m"))
    file = write(tmp_path / "all.yaml", documents)
    done = invoke(file, "--why", "default/late")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("default/late, in queue q, waits: ")
    assert "\x1b" not in done.stdout
    tree = json.loads(invoke(file, "--why", "default/late", "-o", "json").stdout)
    assert tree == yaml.safe_load(invoke(file, "--why", "default/late", "-o", "yaml").stdout)
    assert (tree["podGroup"], tree["queue"], tree["startsInCycle"]) == ("default/late", "q", None)


BEHIND = "node n1 cpu=4   queue q   job q/busy scheduled=600 n1@4   job q/late -"


def test_why_says_when_a_job_is_likely_to_start(tmp_path: Path) -> None:
    """As long as jobs ran in a file of history; a file that isn't one is named, and left out."""
    file, history = write(tmp_path / "all.yaml", pictures.documents(BEHIND)), tmp_path / "h.db"
    said = "When it starts isn't known: 1 pod on nodes has no vscheduler.io/max-run-time"
    assert said in invoke(file, "--why", "default/late").stdout
    now = int(pictures.NOW.timestamp())
    ran = [
        JobRecord(
            uid=str(at),
            scheduler="vscheduler",
            job=JobId(f"default/old-{at}"),
            queue="q",
            created=0,
            started=now - 8000,
            last_started=now - 8000,
            last_ended=now - 8000 + 900,
            finished=now - 7100,
            state=JobState.COMPLETED,
        )
        for at in range(10)
    ]
    store = Store(history, Limits())
    store.write(Batch(jobs=ran), now)
    store.close()
    done = invoke(file, "--why", "default/late", "--history", str(history))
    said = "Likely to start in about 5m, by run times of the last 30 days."
    assert said in done.stdout
    tree = invoke(file, "--why", "default/late", "--history", str(history), "-o", "json")
    assert json.loads(tree.stdout)["likelyStart"] == {
        "earliestSeconds": 300,
        "latestSeconds": 300,
        "byPastRuns": True,
        "message": said,
    }
    broken = tmp_path / "broken.db"
    broken.write_text("nothing of the kind")
    done = invoke(file, "--why", "default/late", "--history", str(broken))
    assert f"Run times of the past don't count: {broken} can't be read" in done.stderr
    assert "When it starts isn't known" in done.stdout
    alone = invoke(file, "--history", str(history))
    assert "--history has no effect without --why" in alone.stderr


@pytest.mark.parametrize("why", [[], ["--why=default/bare"]])
def test_a_configuration_says_whether_pods_need_a_podgroup(
    scene: Path, tmp_path: Path, why: list[str]
) -> None:
    """With --why as without: `compatibility: volcano` has no pods that start alone."""
    alone = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": "default"},
        "spec": {**TEMPLATE["spec"], "nodeSelector": {"no": "where"}},
    }
    write(scene / "c.yaml", [alone])
    assert "default/bare" in invoke(scene, *why).stdout
    conf = tmp_path / "volcano.conf"
    conf.write_text("actions: allocate\ntiers: []\ncompatibility: volcano\n")
    assert "default/bare" not in invoke(scene, *why, "--scheduler-conf", conf).stdout


def test_why_names_what_is_wrong(tmp_path: Path) -> None:
    """A job that doesn't exist is an error, not an empty answer."""
    done = invoke(write(tmp_path / "all.yaml", pictures.documents(LATE)), "--why", "default/nobody")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "--why: there is no PodGroup default/nobody; these wait: default/late\n"


@pytest.mark.parametrize("strict", [[], ["--strict"]])
@pytest.mark.parametrize("why", [[], ["--why=default/big"]])
def test_unknown_fields_are_named_with_what_may_be_meant(
    tmp_path: Path, why: list[str], strict: list[str]
) -> None:
    """An API server drops them; those of statuses don't matter."""
    documents = pictures.documents(PICTURE)
    for document in documents:
        if document["kind"] == "PodGroup":
            document["status"]["unheardOf"] = 1
        if document["metadata"]["name"] == "big":
            document["spec"]["minMembers"] = 2
        if document["metadata"]["name"] == "gold":
            document["spec"]["weigth"] = 2
            document["spec"]["colour"] = "red"
    done = invoke(write(tmp_path / "a.yaml", documents), *why, *strict)
    said = [line.partition("a.yaml:")[2].partition(": ")[2] for line in done.stderr.splitlines()]
    assert [each for each in said if each] == [
        "PodGroup default/big: spec.minMembers: unknown field; did you mean minMember?",
        "Queue gold: spec.colour: unknown field",
        "Queue gold: spec.weigth: unknown field; did you mean weight?",
    ]
    assert done.exit_code == (1 if strict else 0)
    if strict:
        assert done.stderr.splitlines()[-1].endswith("3 fields of the input are unknown (--strict)")


def test_a_pod_of_an_unknown_class_is_left_out(tmp_path: Path) -> None:
    """Without its priority the decisions would be wrong."""
    documents = pictures.documents(PICTURE)
    pod = next(document for document in documents if document["metadata"]["name"] == "big-0")
    pod["spec"].pop("priority", None)
    pod["spec"]["priorityClassName"] = "urgent"
    done = invoke(write(tmp_path / "a.yaml", documents))
    assert "Pod default/big-0: spec.priorityClassName: no PriorityClass with name urgent" in (
        done.stderr
    )


def test_hyper_nodes_are_read(tmp_path: Path) -> None:
    """A gang waits for a rack that is large enough; one that can't be read is named."""
    racks = "hypernode a called=rack nodes=n1   hypernode b called=rack pattern=^n[23]$"
    nodes = "node n1 cpu=2   node n2 cpu=2   node n3 cpu=2"
    job = "queue q   job q/j min=2 cpu=2 topology=hard:rack -*2"
    tiers = [{"plugins": [{"name": "gang"}, {"name": "network-topology-aware"}]}]
    conf = tmp_path / "conf.yaml"
    conf.write_text(yaml.safe_dump({"actions": "allocate", "tiers": tiers}))
    documents = pictures.documents(f"{nodes} {racks} {job}")
    manifests = write(tmp_path / "m.yaml", documents)
    done = invoke(manifests, "--scheduler-conf", conf, "-o", "json")
    binds = json.loads(done.stdout)["binds"]
    assert sorted(binds.values()) == ["n2", "n3"]
    (rack,) = (each for each in documents if each["metadata"]["name"] == "b")
    rack["spec"]["members"][0]["selector"] = {}
    done = invoke(write(manifests, documents), "--scheduler-conf", conf, "-o", "json")
    assert json.loads(done.stdout)["binds"] == {}
    assert "HyperNode b: spec.members[0].selector: must have exactly one" in done.stderr
