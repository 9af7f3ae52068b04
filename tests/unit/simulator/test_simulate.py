import json
import random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies

from tests import pictures
from vscheduler.core import actions, plugins
from vscheduler.core.config import policy
from vscheduler.core.model import jobs
from vscheduler.mirror.decode import documents as reader
from vscheduler.simulator import manifests, reporting, run

ALLOCATE = policy.ActionSetting(action=actions.allocate.Allocate)
POLICY = policy.Policy(actions=(ALLOCATE,), tiers=())
PICTURE = """
    node  n1 cpu=2    node n2 cpu=2
    queue gold weight=1
    job   gold/small min=2 cpu=1   - -
    job   gold/big   min=1 cpu=3   -
    job   gold/old   min=1 cpu=1   ~n2
"""


def simulate(documents: list[Any], **options: Any) -> run.Outcome:
    """One run with nothing but allocate."""
    return run.simulate(documents, POLICY, run.Options(**options))


def written(documents: list[Any], **options: Any) -> str:
    """The JSON of a run."""
    return json.dumps(reporting.tree(simulate(documents, **options)))


def test_one_cycle_decides_and_says_why() -> None:
    """Placements, phases, reasons, queue figures and the total, in Kubernetes' spelling."""
    tree = reporting.tree(simulate(pictures.documents(PICTURE)))
    assert tree["binds"] == {"default/small-0": "n1", "default/small-1": "n1"}
    assert (tree["pipelined"], tree["evicts"]) == ({}, [])
    assert tree["total"] == {"cpu": "4", "pods": "220"}
    assert {name: group["phase"] for name, group in tree["podGroups"].items()} == {
        "default/big": "Inqueue",
        "default/old": "Running",
        "default/small": "Inqueue",
    }
    big = tree["podGroups"]["default/big"]
    assert (big["queue"], big["reason"]) == ("gold", "NeverFits")
    assert big["message"] == (
        "a pod of 3 cpu is larger than any node it may use, the most is 2 cpu on n1; "
        "ask for less, or add a larger node"
    )
    assert [(each["type"], each["status"]) for each in big["conditions"]] == [
        ("Unschedulable", "True")
    ]
    assert tree["queues"]["gold"] == {
        "state": "Open",
        "weight": 1,
        "allocated": {"cpu": "2", "pods": "2"},
        "request": {"cpu": "5", "pods": "3"},
    }


def test_queues_say_how_their_shares_came_about() -> None:
    """With what is usable for them; nodes that nobody can use are named with the reason."""
    documents = pictures.documents(
        """
        node  n1 cpu=2      node n2 cpu=9 cordoned
        queue gold weight=1
        job   gold/big min=1 cpu=1   - - -
        """
    )
    fair = policy.built_in(plugins.PLUGINS, actions.ACTIONS)
    tree = reporting.tree(run.simulate(documents, fair, run.Options()))
    gold = tree["queues"]["gold"]
    assert (gold["usable"]["cpu"], gold["deserved"]["cpu"]) == ("2", "2")
    assert gold["message"] == ("2 of 2 usable CPU: all that others leave; n2 not usable: cordoned")
    assert tree["queues"]["root"]["message"] == "asks for nothing"
    assert "usable" not in tree["queues"]["root"]
    assert tree["total"]["cpu"] == "2"
    assert tree["excluded"] == [{"reason": "node(s) were unschedulable", "nodes": ["n2"]}]


def test_the_next_cycle_sees_what_the_first_one_decided() -> None:
    """Bound pods run; pods that were being deleted are gone, and so is what their group said."""
    first, second, third = simulate(pictures.documents(PICTURE), cycles=3).results
    assert len(first.binds) == 2
    assert second.binds == ()
    phases = {group.job: (group.phase, group.running) for group in second.groups}
    assert phases[jobs.JobId("default/small")] == (jobs.Phase.RUNNING, 2)
    assert phases[jobs.JobId("default/old")] == (jobs.Phase.PENDING, 0)
    assert jobs.JobId("default/old") not in {group.job for group in third.groups}
    assert second.queues[1].name == "gold"
    assert second.queues[1].allocated == {"cpu": 2000, "pods": 2}


@settings(max_examples=25, deadline=None)
@given(seed=strategies.integers(0, 10**6), cycles=strategies.integers(1, 3))
def test_shuffled_input_gives_the_same_bytes(seed: int, cycles: int) -> None:
    """Nothing depends on the order of documents, nor on the run."""
    documents = pictures.documents(PICTURE)
    expected = written(documents, cycles=cycles)
    random.Random(seed).shuffle(documents)
    assert written(documents, cycles=cycles) == expected


def test_a_bad_object_stops_nothing() -> None:
    """It is named with its place and field, and left out."""
    documents = pictures.documents(PICTURE)
    bad = next(each for each in documents if each["metadata"]["name"] == "small-0")
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4x"
    text = yaml.safe_dump({"kind": "List", "items": documents})
    (document,) = reader.load(text, "jobs.yaml")
    whole = manifests.Manifest(tree=document.content, document=document)
    outcome = run.simulate([whole], POLICY, run.Options())
    line = text.splitlines().index("          cpu: 4x") + 1
    assert [str(problem) for problem in outcome.problems] == [
        (
            f"jobs.yaml:{line}: Pod default/small-0: spec.containers[0].resources.requests.cpu: "
            "'4x' is no quantity: there is no suffix 'x', "
            "only n u m k M G T P E and Ki Mi Gi Ti Pi Ei"
        )
    ]
    assert [bind.task.name for bind in outcome.binds] == ["small-1"]


def test_what_people_write_is_enough() -> None:
    """No UIDs, times, namespaces or queues: the default queue stands, the time is zero."""
    version = "scheduling.volcano.sh/v1beta1"
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}}
    annotations = {"scheduling.k8s.io/group-name": "g"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {
            "schedulerName": "vscheduler",
            "containers": [{"resources": {"requests": {"cpu": 1}}}],
        },
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": 2, "pods": 1}},
    }
    outcome = simulate([group | {"spec": {"minMember": 1}}, pod, node])
    assert {bind.task.key: bind.node for bind in outcome.binds} == {"default/p": "n"}
    assert [queue.name for queue in outcome.last.queues] == ["default", "root"]
    assert (outcome.problems, outcome.notes) == ((), ())


@pytest.mark.parametrize(
    ("names", "binds"), [(("vscheduler",), 2), (("other",), 0), (("other", "vscheduler"), 2)]
)
def test_only_pods_that_name_the_scheduler_are_placed(names: tuple[str, ...], binds: int) -> None:
    """As the daemon's --scheduler-name does."""
    outcome = simulate(pictures.documents(PICTURE), scheduler_names=names)
    assert len(outcome.binds) == binds


def test_only_selected_nodes_are_used() -> None:
    """As the daemon's --node-selector does."""
    picture = PICTURE.replace("node n2 cpu=2", "node n2 cpu=9 label=zone=b")
    outcome = simulate(pictures.documents(picture), node_selector=(("zone", "b"),))
    assert {bind.node for bind in outcome.binds} == {"n2"}


def test_what_decides_nothing_is_said_once() -> None:
    """Kinds that make pods elsewhere, and pods that nobody will ever place."""
    documents = pictures.documents(PICTURE)
    for each in documents:
        if each["metadata"]["name"].startswith("small-"):
            each["metadata"]["annotations"] = {}
        if each["metadata"]["name"] == "big-0":
            each["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "lost"}
    documents += [{"apiVersion": "apps/v1", "kind": "Deployment"}] * 2
    assert simulate(documents).notes == (
        "left out of account: 2 Deployment (pods count, what would make them doesn't)",
        (
            "2 pods can't be placed, as no annotation scheduling.k8s.io/group-name names a "
            "PodGroup: default/small-0, …"
        ),
        "1 pod can't be placed, as there is no PodGroup default/lost: default/big-0",
    )
