import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import testing

from tests import device_labs
from vscheduler.cli import main
from vscheduler.testing import pictures

LESSON = Path(__file__).parents[3] / "examples" / "15-devices"
GPU = "deviceclass.resource.k8s.io/gpu"
CAPACITY = """
    actions: "enqueue, allocate, backfill, reclaim"
    tiers:
    - plugins: [{name: priority}, {name: gang}]
    - plugins: [{name: predicates}, {name: capacity}]
"""
TREE = CAPACITY.replace("{name: capacity}", "{name: capacity, enableHierarchy: true}")
ANYWHERE = CAPACITY + "    hardNetworkTopology: anywhere\n"
WITHOUT_PRIORITY = CAPACITY.replace("{name: priority}, ", "")
AWARE = CAPACITY.replace("{name: capacity}", "{name: capacity}, {name: network-topology-aware}")
ELSEWHERE = {"vscheduler.io/network-topology": "fabric"}
IMPATIENT = {"volcano.sh/network-topology-patience": "soon"}
RACK = pictures.documents("hypernode r called=rack nodes=n1")[0]
GROUPS = CAPACITY.replace("{name: capacity}", "{name: capacity}, {name: nodegroup}")


def invoke(*arguments: str | Path, text: str | None = None) -> testing.Result:
    """Run the command as a person does."""
    return testing.CliRunner().invoke(main.vscheduler, ["check", *map(str, arguments)], text)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A Queue as people write it."""
    return thing("Queue", name, spec)


def queue_with(annotations: dict[str, str]) -> dict[str, Any]:
    """A Queue with these annotations."""
    tree = queue("a")
    tree["metadata"]["annotations"] = annotations
    return tree


def of_time(text: str) -> dict[str, Any]:
    """A Queue with this recovery time-out."""
    return queue_with({"vscheduler.io/recovery-timeout": text})


def group(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A PodGroup as people write it."""
    tree = thing("PodGroup", name, spec)
    tree["metadata"]["annotations"] = annotations or {}
    return tree


def thing(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object of Volcano's group."""
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def pod(name: str, group: str) -> dict[str, Any]:
    """A pod of a group."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"scheduling.k8s.io/group-name": group}},
        "spec": {"schedulerName": "vscheduler", "containers": [{"name": "c", "image": "i"}]},
    }


def important(name: str, named: str, priority: int | None) -> dict[str, Any]:
    """A pod of group `g` with a PriorityClass."""
    made = pod(name, "g")
    made["spec"] |= {"priorityClassName": named, "priority": priority}
    return made


def node(cpu: int) -> dict[str, Any]:
    """A node with so many cores."""
    status = {"allocatable": {"cpu": cpu, "pods": 10}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}


def said(tmp_path: Path, documents: list[Any], conf: str = "", *flags: str) -> list[str]:
    """What is said of these objects, each as `level: name: field: message`."""
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all(documents))
    arguments: list[str | Path] = [tmp_path / "m.yaml", "-o", "json", *flags]
    if conf:
        (tmp_path / "c.yaml").write_text(textwrap.dedent(conf))
        arguments += ["--scheduler-conf", tmp_path / "c.yaml"]
    done = invoke(*arguments)
    found = json.loads(done.stdout)
    assert done.exit_code == (1 if found["errors"] else 0)
    names = ("level", "name", "field", "message")
    return [": ".join(each[name] for name in names) for each in found["complaints"]]


def test_nothing_is_said_of_what_is_right(tmp_path: Path) -> None:
    """On stdout; how much was looked at stands on stderr."""
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump_all([queue("a", weight=2), group("g", queue="a", minMember=2)]))
    done = invoke(path)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "0 errors, 0 warnings; 2 objects looked at\n"


def test_a_folder_of_folders_is_no_silent_success(tmp_path: Path) -> None:
    """A configuration alone has no objects, either, but nothing was to be looked at."""
    folder = tmp_path / "all" / "queues"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(yaml.safe_dump(queue("a")))
    (tmp_path / "all" / "conf.yaml").write_text(CAPACITY)
    said = "A folder stands for the manifests directly in it, not for those in its folders.\n"
    assert invoke(tmp_path / "all").stderr.endswith(f"0 objects looked at\n{said}")
    alone = invoke("--scheduler-conf", tmp_path / "all" / "conf.yaml")
    assert alone.stderr.endswith("0 objects looked at\n")


def test_a_queue_without_a_spec_is_right(tmp_path: Path) -> None:
    """The API server fills in what its schema has a default for, and judges rules then."""
    bare = {key: value for key, value in queue("a").items() if key != "spec"}
    assert said(tmp_path, [bare]) == []


def test_a_configuration_may_stand_among_the_files(tmp_path: Path) -> None:
    """The manifests are checked against it, whatever its name."""
    conf = tmp_path / "anything.txt"
    conf.write_text(textwrap.dedent(CAPACITY).replace("capacity", "capacty"))
    done = invoke(conf)
    assert done.exit_code == 1
    assert (
        'anything.txt:5: error: tiers[1].plugins[1].name: unknown plugin "capacty"' in done.stdout
    )
    conf.write_text(textwrap.dedent(CAPACITY))
    manifests = tmp_path / "m.yaml"
    manifests.write_text(yaml.safe_dump(queue("a", weight=2)))
    found = invoke(manifests, conf).stdout
    assert "m.yaml:6: warning: Queue a: spec.weight: has no effect" in found
    assert found == invoke(manifests, "--scheduler-conf", conf).stdout


def test_everything_is_said_at_once_with_its_line(tmp_path: Path) -> None:
    """Of a configuration, of files that can't be read, and of objects; by file and line."""
    conf, bad, good = (tmp_path / name for name in ("a.conf", "b.yaml", "c.yaml"))
    conf.write_text(
        'actions: "allocate, backfil"\ntiers:\n- plugins: [{name: gagn}]\nmetrics: {}\n'
    )
    bad.write_text("a: [\n")
    good.write_text(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\n"
        "spec:\n  weight: 0\n  capability:\n    nvidia.com/gpu: 4x\n---\n"
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"
    )
    done = invoke(bad, good, "--scheduler-conf", conf)
    starts = [
        f'{conf}:1: error: actions: unknown action "backfil"; did you mean backfill?',
        f'{conf}:3: error: tiers[0].plugins[0].name: unknown plugin "gagn"; did you mean gang?',
        f"{conf}:4: warning: metrics: is left out",
        f"{bad}:2: error: ",
        f"{good}:5: error: Queue a: spec.weight: must be greater than or equal to 1, not 0",
        f"{good}:7: error: Queue a: spec.capability.nvidia.com/gpu: must be a quantity such as",
    ]
    lines = done.stdout.splitlines()
    assert done.exit_code == 1
    assert len(lines) == len(starts)
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert done.stderr == "5 errors, 1 warning; 2 objects looked at\n"


def test_json_and_yaml_are_the_same_tree() -> None:
    """With file and line apart; stdin is a file, too."""
    text = yaml.safe_dump(queue("a", dequeueStrategy="lifo"))
    tree = json.loads(invoke("-", "-o", "json", text=text).stdout)
    assert tree == yaml.safe_load(invoke("-", "-o", "yaml", text=text).stdout)
    message = 'unsupported value "lifo"; supported values: "fifo", "traverse"'
    assert tree == {
        "errors": 1,
        "warnings": 0,
        "complaints": [
            {
                "level": "error",
                "file": "stdin",
                "line": 6,
                "kind": "Queue",
                "name": "a",
                "field": "spec.dequeueStrategy",
                "message": message,
            }
        ],
    }


TOO_MUCH = "3 pods need 3 cpu, more than the capability of queue a, 2"
NO_CLAIM = (
    "there is no PersistentVolumeClaim data among the given objects; without it the pod waits"
)


def test_jobs_that_never_start_are_told_by_their_pods(tmp_path: Path) -> None:
    """The queue may not have so much, no node has the label, and there is no claim."""
    annotations = {
        "scheduling.volcano.sh/queue-name": "a",
        "scheduling.volcano.sh/group-min-member": "3",
    }
    spec = {
        "schedulerName": "vscheduler",
        "nodeSelector": {"gpu": "a100"},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "annotations": annotations},
        "spec": {"parallelism": 3, "template": {"spec": spec}},
    }
    objects = [*pictures.documents("node n1 cpu=8"), queue("a", capability={"cpu": "2"}), job]
    assert said(tmp_path, objects) == [
        f"warning: default/{each}"
        for each in (
            f"j: spec.minMember: the job never starts: {TOO_MUCH}",
            "j-0: spec.nodeSelector: no given node has gpu=a100: the pod waits for one",
            f"j-0: spec.volumes: {NO_CLAIM}",
        )
    ]


@pytest.mark.parametrize("parent", ["", "parent=root"])
def test_a_gang_may_be_too_large_for_an_ancestor(tmp_path: Path, parent: str) -> None:
    """For root, too, whose children needn't name it."""
    picture = f"""
        node  n1 cpu=8
        queue root capability=cpu:2   queue a {parent}
        job   a/big min=3 - - -
        """
    too_much = TOO_MUCH.replace("queue a", "queue root")
    message = f"warning: default/big: spec.minMember: the job never starts: {too_much}"
    assert message in said(tmp_path, pictures.documents(picture))


def test_warnings_fail_only_where_that_is_wanted() -> None:
    """--strict is for pipelines."""
    text = yaml.safe_dump(queue("a", deserved={"cpu": 1}))
    assert invoke("-", text=text).exit_code == 0
    assert invoke("-", "--strict", text=text).exit_code == 1


def test_there_must_be_something_to_check() -> None:
    """Wrong usage is 2; a file that isn't there, too."""
    assert invoke().exit_code == 2
    assert invoke("nowhere.yaml").exit_code == 2
    assert invoke("--scheduler-conf", "nowhere.yaml").exit_code == 1
    assert invoke("-", "--scheduler-name", "_", text="").exit_code == 2


@pytest.mark.parametrize(
    ("documents", "conf", "flags", "expected"),
    [
        (
            [of_time("soon")],
            "",
            [],
            ["error: a: metadata.annotations: annotation vscheduler.io/recovery-timeout: 'soon'"],
        ),
        (
            [queue_with({"vscheduler.io/eviction-delay": "soon"})],
            "",
            [],
            [
                "error: a: metadata.annotations: annotation vscheduler.io/eviction-delay: 'soon'",
            ],
        ),
        ([queue_with({"vscheduler.io/min-run-time": "5m"})], "", [], []),
        (
            [group("g", {"vscheduler.io/max-run-time": "soon"})],
            "",
            [],
            ["warning: default/g: metadata.annotations.vscheduler.io/max-run-time: 'soon' is no "],
        ),
        (
            [of_time("10m")],
            CAPACITY.replace(", {name: gang}", ""),
            [],
            [
                "warning: : : no plugin keeps minMember",
                "warning: a: metadata.annotations: annotation vscheduler.io/recovery-timeout",
            ],
        ),
        ([queue("a", weight=2)], CAPACITY, [], ["warning: a: spec.weight: has no effect: neither"]),
        ([queue("a", deserved={"cpu": 1})], "", [], ["warning: a: spec.deserved: has no effect"]),
        ([queue("a", parent="default")], "", [], ["warning: a: spec.parent: has no effect on"]),
        ([queue("a", parent="default")], TREE, [], []),
        (
            [queue("a", parent="b")],
            TREE,
            [],
            ["warning: a: spec.parent: parent b of queue a doesn"],
        ),
        (
            [queue("a", parent="b"), queue("b", parent="a")],
            TREE,
            [],
            [f"error: {name}: spec.parent: queue a is its own ancestor" for name in "ab"],
        ),
        (
            [queue("a1"), *(queue(f"a{at}", parent=f"a{at - 1}") for at in range(2, 7))],
            TREE,
            [],
            ["warning: a6: spec.parent: the queue is 6 levels below root"],
        ),
        (
            [queue("a", deserved={"cpu": 1}), queue("b", parent="a", deserved={"cpu": 2})],
            TREE,
            [],
            ["warning: a: spec.deserved: its child queues together deserve 2 of cpu"],
        ),
        (
            [queue("a", capability={"cpu": 1}), queue("b", parent="a", capability={"cpu": 2})],
            TREE,
            [],
            ["warning: b: spec.capability.cpu: 2 can't be reached: its parent a has at most 1"],
        ),
        (
            [queue("a", affinity={})],
            "",
            [],
            ["warning: a: spec.affinity: has no effect: plugin nodegroup isn't"],
        ),
        (
            [queue("a")],
            GROUPS,
            [],
            ["warning: a: spec.affinity: is missing: with plugin nodegroup"],
        ),
        ([queue("a", affinity={})], GROUPS, [], []),
        (
            [queue("a", capability={"cpu": 0, "pods": 0})],
            "",
            [],
            ["warning: a: spec.capability.cpu: 0 is no limit"],
        ),
        (
            [queue("a", deserved={"cpu": 1}), queue("b")],
            CAPACITY,
            [],
            ["warning: b: spec.deserved: is missing: all that its pods hold is borrowed"],
        ),
        (
            [queue("a", deserved={"cpu": 1}), queue("b")],
            CAPACITY.replace(", reclaim", ""),
            [],
            [],
        ),
        ([queue("a"), queue("b")], CAPACITY, [], []),
        (
            [queue("root", parent="a"), queue("a")],
            TREE,
            [],
            ["error: root: spec.parent: root is above all"],
        ),
        ([queue("root", capability={"cpu": 9})], "", [], []),
        (
            [queue("root", capability={"cpu": 9})],
            "",
            ["--autoscaler"],
            ["warning: root: spec.capability: limits all queues", "warning: : : enqueue keeps"],
        ),
        (
            [
                queue("root", capability={"cpu": 9}),
                *(queue(name, guarantee={"resource": {"cpu": 5}}) for name in "ab"),
            ],
            "",
            [],
            ["warning: a: spec.guarantee.resource.cpu: guarantees of a and b add up to 10 cpu"],
        ),
        (
            [node(4), *(queue(name, guarantee={"resource": {"cpu": "2500m"}}) for name in "ab")],
            "",
            [],
            ["warning: a: spec.guarantee.resource.cpu: guarantees of a and b add up to 5 cpu"],
        ),
        ([node(4), queue("a", guarantee={"resource": {GPU: 9}})], "", [], []),
        (
            [queue("b", parent="a"), queue("a", reclaimable=False)],
            TREE,
            [],
            ["warning: a: spec.reclaimable: has no effect: only pods are reclaimed"],
        ),
        ([queue("a", reclaimable=False)], TREE, [], []),
        (
            [queue("a", capability={"gpu": 8, "cpu": 1, "hugepages-2Mi": "2Mi"})],
            "",
            [],
            ["warning: a: spec.capability.gpu: has no effect: no node has gpu; did you mean amd"],
        ),
        (
            [node(4), queue("a", capability={"example.com/nic": 8})],
            "",
            [],
            ["warning: a: spec.capability.example.com/nic: has no effect: no given node has"],
        ),
        ([queue("a", capability={"example.com/nic": 8})], "", [], []),
    ],
)
def test_queues_that_mislead(
    tmp_path: Path, documents: list[Any], conf: str, flags: list[str], expected: list[str]
) -> None:
    """These and no others."""
    found = said(tmp_path, documents, conf, *flags)
    assert [line[: len(start)] for line, start in zip(found, expected, strict=False)] == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize(("count", "warned"), [(4, 0), (5, 1)])
def test_guarantees_of_devices_are_compared_with_those_given(
    tmp_path: Path, count: int, warned: int
) -> None:
    """Where pods wait for some: the lesson has four."""
    documents = [
        each
        for name in ("cluster.yaml", "train.yaml")
        for each in yaml.safe_load_all((LESSON / name).read_text())
    ]
    for document in documents:
        if document["kind"] == "Queue":
            document["spec"] = {"guarantee": {"resource": {GPU: count}}}
    found = said(tmp_path, documents, "")
    text = f"add up to 5 {GPU}, more than what the nodes given have, 4"
    assert sum(text in each for each in found) == len(found) == warned


@pytest.mark.parametrize(
    ("documents", "conf", "expected"),
    [
        ([group("g", queue="b")], "", []),
        (
            [group("g", queue="b"), queue("a")],
            "",
            ["default/g: spec.queue: queue b doesn't exist; create it"],
        ),
        ([group("g"), queue("a")], "", []),
        ([group("g", queue="root")], "", ["default/g: spec.queue: root is above all queues and"]),
        (
            [group("g", queue="a"), queue("a"), queue("b", parent="a")],
            TREE,
            ["default/g: spec.queue: queue a has child queues, and jobs go to leaf queues; name"],
        ),
        (
            [group("g", queue="a"), queue("a") | {"status": {"state": "Closed"}}],
            "",
            ["default/g: spec.queue: queue a isn't open"],
        ),
        (
            [group("g", minMember=1, minTaskMember={"a": 2})],
            "",
            ["default/g: spec.minTaskMember: is ignored: its sum, 2, is more than minMember, 1"],
        ),
        (
            [group("g", queue="a", minResources={"cpu": 3}), queue("a", capability={"cpu": 2})],
            "",
            ["default/g: spec.minResources.cpu: is never admitted: 3 cpu is more than the capab"],
        ),
        ([group("g", minMember=2), pod("p", "g")], "", ["default/g: spec.minMember: 1 of 2 pods"]),
        ([group("g", minMember=1), pod("p", "g")], "", []),
        (
            [group("g", networkTopology={"highestTierAllowed": 1})],
            "",
            ["default/g: spec.networkTopology: keeps the group from starting"],
        ),
        (
            [group("g", networkTopology={"mode": "hard"}, minMember=2), pod("p", "g")],
            "",
            [
                "default/g: spec.minMember: 1 of 2 pods",
                "default/g: spec.networkTopology: keeps the group from starting",
            ],
        ),
        (
            [group("g", networkTopology={"mode": "hard"})],
            ANYWHERE,
            ["default/g: spec.networkTopology: isn't looked at without plugin network-topology-aw"],
        ),
        (
            [group("g", networkTopology={"mode": "soft"})],
            "",
            ["default/g: spec.networkTopology: isn't looked at without plugin network-topology-aw"],
        ),
        ([group("g", networkTopology={"highestTierName": "rack"}), RACK], AWARE, []),
        ([group("g", networkTopology={"highestTierAllowed": 1})], AWARE, []),
        ([group("g", networkTopology={"mode": "soft"}), RACK], AWARE, []),
        (
            [group("g", networkTopology={"highestTierName": "rock"}), RACK],
            AWARE,
            ["default/g: spec.networkTopology: keeps the group from starting: spec.networkTopo"],
        ),
        (
            [group("g", ELSEWHERE, networkTopology={"mode": "soft"}), RACK],
            AWARE,
            ["default/g: spec.networkTopology: keeps the group from starting: annotation vschedu"],
        ),
        (
            [group("g", IMPATIENT, networkTopology={"highestTierAllowed": 1}), RACK],
            AWARE,
            ["default/g: metadata.annotations: annotation volcano.sh/network-topology-patience"],
        ),
        ([group("g", networkTopology=None)], "", []),
        (
            [group("g", subGroupPolicy=[{"networkTopology": {"mode": "hard"}}])],
            "",
            ["default/g: spec.subGroupPolicy[0].networkTopology: keeps the group from starting"],
        ),
        ([group("g", priorityClassName="high")], "", []),
        (
            [group("g", minResources={"gpu": 3})],
            "",
            ["default/g: spec.minResources.gpu: has no effect: no node has gpu"],
        ),
        (
            [group("g"), important("p", "low", 1), important("q", "high", 1000)],
            "",
            ["default/g: spec.priorityClassName: is missing, and its pods have the priorities h"],
        ),
        ([group("g"), important("p", "high", None), important("q", "high", None)], "", []),
        ([group("g"), important("p", "a", 7), important("q", "b", 7)], "", []),
        (
            [group("g"), important("p", "low", 1), important("q", "high", 1000)],
            WITHOUT_PRIORITY,
            [],
        ),
        (
            [
                group("g", priorityClassName="high"),
                group("h", priorityClassName="system-node-critical"),
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": "low"},
                    "value": 1,
                },
            ],
            "",
            ["default/g: spec.priorityClassName: PriorityClass high isn't among those given"],
        ),
        (
            [group("g", annotations={"sla-waiting-time": "soon"})],
            CAPACITY.replace("tiers:", "tiers:\n    - plugins: [{name: sla}]"),
            ["default/g: metadata.annotations: annotation sla-waiting-time: 'soon' is no duration"],
        ),
    ],
)
def test_groups_that_would_wait_for_ever(
    tmp_path: Path, documents: list[Any], conf: str, expected: list[str]
) -> None:
    """And those that don't mean what they say; these and no others."""
    found = [line.removeprefix("warning: ") for line in said(tmp_path, documents, conf)]
    assert [line[: len(start)] for line, start in zip(found, expected, strict=False)] == expected
    assert len(found) == len(expected)


def test_what_is_wrong_with_hyper_nodes_is_told(tmp_path: Path) -> None:
    """What needs others to be seen is a warning; what an API server refuses is an error."""
    picture = """
        node a1 cpu=1   node a2 cpu=1
        hypernode r1 nodes=a1,a2   hypernode r2 nodes=a2   hypernode r3 pattern=a(
        hypernode s tier=2 children=r1,r9
    """
    documents = pictures.documents(picture)
    wrong = thing("HyperNode", "w", {"tier": 1, "members": [{"type": "Node", "selector": {}}]})
    documents.append(wrong | {"apiVersion": "topology.volcano.sh/v1alpha1"})
    error, *warnings = sorted(said(tmp_path, documents, ""))
    assert error.startswith("error: w: spec.members[0].selector: must have exactly one of exactM")
    assert warnings == [
        "warning: r1: spec: it has nodes in common with r2",
        "warning: r2: spec: it has nodes in common with r1",
        "warning: r3: spec: its pattern a(: missing ), unterminated subpattern at position 1",
        "warning: s: spec: its member r9 doesn't exist",
    ]


@pytest.mark.parametrize(("count", "warned"), [(2, False), (3, True)])
def test_devices_count_as_the_extended_resource_of_their_class(
    tmp_path: Path, *, count: int, warned: bool
) -> None:
    """No node has it by a device plugin, and each has two devices."""
    named = device_labs.device_class()
    named["spec"]["extendedResourceName"] = "example.com/gpu"
    picture = "node n1 cpu=8  queue q  job q/train min=1 cpu=1 -"
    documents = [*pictures.documents(picture), named, device_labs.resource_slice("n1", 2)]
    for document in documents:
        if document["kind"] == "Pod":
            requests = document["spec"]["containers"][0]["resources"]["requests"]
            requests["example.com/gpu"] = str(count)
    text = "the most that a given node has is 2 example.com/gpu: it never fits"
    assert any(text in each for each in said(tmp_path, documents, "")) is warned
