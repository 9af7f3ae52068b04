"""Objects of Kueue as ours, and what is said of the rest."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import testing

from vscheduler.cli import main
from vscheduler.cli.convert import kueue
from vscheduler.cli.convert.kueue import Converted
from vscheduler.daemon import configuration

Tree = dict[str, Any]


def thing(kind: str, name: str, namespace: str = "", **spec: Any) -> Tree:
    """An object of Kueue."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def quota(name: str, nominal: Any, **more: Any) -> Tree:
    """The quota of a resource."""
    return {"name": name, "nominalQuota": nominal, **more}


def flavors(*each: tuple[str, list[Tree]]) -> list[Tree]:
    """One group of resources."""
    return [{"flavors": [{"name": name, "resources": found} for name, found in each]}]


def cluster_queue(name: str, cohort: str, *quotas: Tree, **more: Any) -> Tree:
    """A ClusterQueue with one flavor."""
    more = {"cohortName": cohort} | more if cohort else more
    return thing("ClusterQueue", name, resourceGroups=flavors(("default", list(quotas))), **more)


def converted(*objects: Tree) -> Converted:
    """What is made of these; the order of objects makes no difference."""
    made = kueue.convert(objects)
    shuffled = list(objects)
    random.Random(1).shuffle(shuffled)
    assert kueue.convert(shuffled) == made
    return made


def specs(made: Converted) -> dict[str, Tree]:
    """The specs of Queues by name, without their weights."""
    return {
        each["metadata"]["name"]: {
            key: value for key, value in each["spec"].items() if key != "weight"
        }
        for each in made.objects
        if each["kind"] == "Queue"
    }


def lost(made: Converted) -> list[str]:
    """What has no counterpart."""
    return list(map(str, made.lost))


def test_a_queue_without_a_cohort_borrows_nothing() -> None:
    """So its quota is its limit, too."""
    made = converted(cluster_queue("a", "", quota("cpu", 9), quota("memory", "36Gi")))
    amounts = {"cpu": "9", "memory": "36Gi"}
    assert specs(made) == {"a": {"deserved": amounts, "capability": amounts}}


def test_limits_of_borrowing_and_lending_in_a_cohort() -> None:
    """What isn't lent is a guarantee; an inner queue has what those below it have."""
    made = converted(
        cluster_queue("a", "org", quota("cpu", 8, borrowingLimit=4, lendingLimit=2)),
        cluster_queue("b", "org", quota("cpu", "2500m")),
    )
    assert specs(made) == {
        "a": {
            "parent": "org",
            "deserved": {"cpu": "8"},
            "capability": {"cpu": "12"},
            "guarantee": {"resource": {"cpu": "6"}},
        },
        "b": {"parent": "org", "deserved": {"cpu": "2.5"}},
        "org": {"deserved": {"cpu": "10.5"}, "guarantee": {"resource": {"cpu": "6"}}},
    }


def test_cohorts_form_a_tree() -> None:
    """With quotas of their own; v1beta1 calls two of the fields otherwise."""
    old = cluster_queue("a", "", quota("cpu", 1))
    old["spec"]["cohort"] = "team"
    old["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    own = flavors(("default", [quota("cpu", 10, borrowingLimit=1)]))
    made = converted(
        old,
        thing("Cohort", "team", parent="org", resourceGroups=own),
        thing("Cohort", "org"),
        thing("Cohort", "nobody"),
    )
    assert specs(made) == {
        "a": {"parent": "team", "deserved": {"cpu": "1"}},
        "team": {"parent": "org", "deserved": {"cpu": "11"}, "capability": {"cpu": "11"}},
        "org": {"deserved": {"cpu": "11"}},
    }
    assert "Cohort nobody: no ClusterQueue is in it, so no Queue was made of it" in lost(made)


def test_names_that_are_taken() -> None:
    """Kueue's cohorts and ClusterQueues don't share their names, and root is ours."""
    made = converted(
        cluster_queue("a", "a", quota("cpu", 1)), cluster_queue("root", "", quota("cpu", 1))
    )
    assert set(specs(made)) == {"a", "a-cohort", "root-queue"}
    assert specs(made)["a"]["parent"] == "a-cohort"


def test_quotas_of_flavors_are_added_up() -> None:
    """A limit for borrowing of one flavor is none for all of them; what no node has is left out."""
    several = flavors(
        ("spot", [quota("cpu", 9, borrowingLimit=1)]),
        ("on-demand", [quota("cpu", 9), quota("cpu_credits", 14)]),
    )
    made = converted(thing("ClusterQueue", "a", resourceGroups=several, cohortName="org"))
    assert specs(made)["a"] == {"parent": "org", "deserved": {"cpu": "18"}}
    assert (
        "ClusterQueue a: quota of cpu: the quotas of flavors spot and on-demand are added up"
        in lost(made)
    )
    none = "one of its flavors has none, so the sum of all has none"
    assert f"ClusterQueue a: borrowingLimit of cpu: {none}" in lost(made)
    field = "spec.resourceGroups[0].flavors[1].resources[1]"
    assert f"ClusterQueue a: {field}: no node can have cpu_credits; left out" in lost(made)


def test_local_queues_say_who_may_use_a_queue() -> None:
    """The first of a namespace is the one of jobs that name none."""
    made = converted(
        cluster_queue("a", "", quota("cpu", 1)),
        cluster_queue("b", "", quota("cpu", 1)),
        thing("LocalQueue", "main", "lab", clusterQueue="a"),
        thing("LocalQueue", "other", "lab", clusterQueue="b"),
        thing("LocalQueue", "main", "shop", clusterQueue="a", stopPolicy="Hold"),
    )
    queues = {each["metadata"]["name"]: each["metadata"] for each in made.objects}
    assert queues["a"]["annotations"] == {"vscheduler.io/namespaces": "lab, shop"}
    assert queues["lab"]["annotations"] == {"scheduling.volcano.sh/queue-name": "a"}
    assert any(each.startswith("LocalQueue lab/other: ") for each in lost(made))
    assert any(each.startswith("LocalQueue shop/main: spec.stopPolicy: ") for each in lost(made))


def test_priority_classes() -> None:
    """Kubernetes' own names and values aren't for users."""

    def of(name: str, value: int) -> Tree:
        return thing("WorkloadPriorityClass", name) | {"value": value, "description": "for a"}

    made = converted(of("high", 1000), of("system-x", 2_000_000_000))
    assert [(each["metadata"]["name"], each["value"]) for each in made.objects] == [
        ("high", 1000),
        ("workload-system-x", 1_000_000_000),
    ]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"stopPolicy": "HoldAndDrain"}, "spec.stopPolicy"),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, "spec.namespaceSelector"),
        ({"queueingStrategy": "StrictFIFO"}, "spec.queueingStrategy"),
        ({"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}, "spec.flavorFungibility"),
        ({"admissionChecksStrategy": {"admissionChecks": []}}, "spec.admissionChecksStrategy"),
        ({"admissionScope": {"admissionMode": "x"}}, "spec.admissionScope"),
        ({"fairSharing": {"weight": "2"}}, "spec.fairSharing.weight 2"),
        ({"preemption": {"reclaimWithinCohort": "LowerPriority"}}, "reclaimWithinCohort"),
        ({"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}, "borrowWithinCohort"),
        ({"preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority"}}, "withinClusterQueue"),
    ],
)
def test_fields_without_a_counterpart_are_listed(more: Tree, says: str) -> None:
    """With the object and the field, and nothing else that isn't always said."""
    usual = set(lost(converted(cluster_queue("a", "org", quota("cpu", 1)))))
    found = set(lost(converted(cluster_queue("a", "org", quota("cpu", 1), **more)))) - usual
    (line,) = found
    assert line.startswith("ClusterQueue a: ")
    assert says in line


@pytest.mark.parametrize(("other", "told"), [("Never", False), ("Any", True)])
def test_who_gets_no_quota_back_is_told_if_others_do(other: str, told: bool) -> None:
    """The action is for all queues; without it nothing is lost."""
    made = converted(
        cluster_queue("a", "org", quota("cpu", 1)),
        cluster_queue("b", "org", quota("cpu", 1), preemption={"reclaimWithinCohort": other}),
    )
    lines = [line for line in lost(made) if "reclaimWithinCohort" in line]
    assert [line.startswith("ClusterQueue a: ") for line in lines] == [True] * told


def test_flavors_and_other_kinds_are_listed() -> None:
    """With what pods need now."""
    flavor: Tree = {"nodeLabels": {"pool": "a"}, "tolerations": [{}], "topologyName": "t"}
    made = converted(
        thing("ResourceFlavor", "f", **flavor),
        thing("AdmissionCheck", "c"),
        thing("Surprise", "s"),
    )
    assert lost(made) == [
        "AdmissionCheck c: nothing is asked before admission",
        "ResourceFlavor f: spec.nodeLabels: pods select such nodes themselves: nodeSelector pool=a",
        "ResourceFlavor f: spec.tolerations: write them into the pods that may use these nodes",
        f"ResourceFlavor f: spec.topologyName: {kueue.KINDS['Topology']}",
        "Surprise s: it has no counterpart",
    ]


@pytest.mark.parametrize(
    ("within", "reclaim", "actions"),
    [
        ("Never", "Never", "enqueue, allocate, backfill"),
        ("LowerPriority", "Any", "enqueue, allocate, backfill, preempt, reclaim"),
    ],
)
def test_the_configuration_fits(within: str, reclaim: str, actions: str) -> None:
    """It is valid, and evicts only if any ClusterQueue does."""
    preemption = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
    made = converted(cluster_queue("a", "org", quota("cpu", 1), preemption=preemption))
    policy = configuration.parse(made.configuration, "x").policy
    assert ", ".join(action.action.name for action in policy.actions) == actions


def test_the_command(tmp_path: Path) -> None:
    """Ours on stdout, the rest on stderr; what is converted passes `check`."""
    path, conf, ours = (tmp_path / name for name in ("k.yaml", "s.conf", "ours.yaml"))
    objects = [
        cluster_queue(
            "a",
            "org",
            quota("cpu", 8, borrowingLimit=4, lendingLimit=2),
            flavorFungibility={"whenCanBorrow": "TryNextFlavor"},
        ),
        thing("LocalQueue", "main", "lab", clusterQueue="a"),
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    path.write_text(yaml.safe_dump(listed))
    run = testing.CliRunner()
    done = run.invoke(main.vscheduler, ["convert", str(path), f"--write-conf={conf}"])
    assert done.exit_code == 0
    assert "no counterpart: ClusterQueue a: spec.flavorFungibility: " in done.stderr
    assert [each["kind"] for each in yaml.safe_load_all(done.stdout)] == [
        "Queue",
        "Queue",
        "Namespace",
    ]
    ours.write_text(done.stdout)
    checked = run.invoke(main.vscheduler, ["check", str(ours), f"--scheduler-conf={conf}"])
    assert (checked.exit_code, checked.stdout) == (0, "")
    assert run.invoke(main.vscheduler, ["convert", str(path), "--strict"]).exit_code == 1
    path.write_text("kind: Pod\napiVersion: v1\n")
    assert run.invoke(main.vscheduler, ["convert", str(path)]).exit_code == 1
