"""What `check` says of Kubernetes' own PodGroups (scheduling.k8s.io), and of Jobs with them."""

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.test_group_trees import group as below
from tests.scenarios.test_group_trees import root
from tests.scenarios.test_native_pod_groups import group, node, pods, queue
from tests.unit.cli.checks import test_workloads as workloads
from tests.unit.cli.test_check import AWARE, said

Document = dict[str, Any]
QUEUE = "scheduling.volcano.sh/queue-name"
RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
KUEUE = {"kueue.x-k8s.io/queue-name": "lab"}
KAI = {"kai.scheduler/queue": "lab"}


def changed(document: Document, **parts: Any) -> Document:
    """The object with other metadata."""
    return {**document, "metadata": {**document["metadata"], **parts}}


def spec(**fields: Any) -> Document:
    """A PodGroup with exactly this spec."""
    return {**group("g", 2), "spec": fields}


def volcanos(**fields: Any) -> Document:
    """Volcano's PodGroup of the same name."""
    version = queue("q")["apiVersion"]
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": fields}


def named_in(annotation: str) -> list[Document]:
    """Two pods of `g` of Kubernetes' own API that also name Volcano's."""
    made = pods("g", 2)
    for each in made:
        each["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": annotation}
    return made


SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}

RIGHT = {
    "a gang": [group("g", 2), *pods("g", 2)],
    "a queue in a label": [queue("lab"), changed(group("g", 2), labels={QUEUE: "lab", **KAI})],
    "a queue in an annotation": [changed(group("g", 2), annotations={QUEUE: "default", **KUEUE})],
    "Volcano's with a queue": [changed(volcanos(queue="default"), labels=KUEUE)],
    "a namespace with a queue": [changed(SPACE, annotations={QUEUE: "default"}, labels=KAI)],
    "a tree": [
        *(root("r", 2, queue="default"), root("m", 1, parent="r"), below("a", 1, "r")),
        *(below("b", 2, "m"), *pods("a", 1), *pods("b", 2)),
    ],
    "all fields": [
        spec(
            schedulingPolicy={"gang": {"minCount": 2}},
            disruptionMode={"all": {}},
            workloadRef={"workloadName": "w", "templateName": "t"},
            resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}],
            priority=5,
            preemptionPolicy="Never",
        )
    ],
}


@pytest.mark.parametrize("documents", RIGHT.values(), ids=RIGHT)
def test_nothing_is_said_of_what_is_right(tmp_path: Path, documents: list[Document]) -> None:
    """With settings of others beside ours."""
    assert said(tmp_path, documents) == []


COUNT = "spec.schedulingPolicy.gang.minCount"
GROUPS = "spec.schedulingPolicy.gang.minGroupCount"
WRONG = {
    "an unknown field": (
        [spec(schedulingPolicy={"gang": {"minCuont": 2, "minCount": 2}})],
        "error: default/g: spec.schedulingPolicy.gang.minCuont: unknown field; did you mean",
    ),
    "no pods": (
        [group("g", 0)],
        f"error: default/g: {COUNT}: must be greater than or equal to 1, not 0",
    ),
    "two policies": (
        [spec(schedulingPolicy={"basic": {}, "gang": {"minCount": 2}})],
        "error: default/g: spec.schedulingPolicy: must have one of basic and gang",
    ),
    "no policy": (
        [spec(schedulingPolicy={})],
        "error: default/g: spec.schedulingPolicy: must have one of basic and gang",
    ),
    "two keys": (
        [group("g", 2, schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]})],
        "error: default/g: spec.schedulingConstraints.topology: must have at most 1 items, not 2",
    ),
    "no queue": (
        [queue("lab"), group("g", 2, queue="lap"), *pods("g", 2)],
        "warning: default/g: metadata.annotations: queue lap doesn't exist; create it",
    ),
    "too few pods": (
        [group("g", 3), *pods("g", 2)],
        f"warning: default/g: {COUNT}: 2 of 3 pods exist",
    ),
    "several schedulers": (
        [group("g", 2), *pods("g", 2), *pods("g", 1, first=2, schedulerName="other")],
        "warning: default/g: spec: its pods name several schedulers",
    ),
    "several priorities": (
        [group("g", 2, priority=5), *pods("g", 1, priority=5), *pods("g", 1, first=1, priority=7)],
        "warning: default/g: spec: pod g-1 has priority 7, its PodGroup 5",
    ),
    "an unknown field of a tree": (
        [root("r", 1, minGroupCuont=1)],
        "error: default/r: spec.minGroupCuont: unknown field",
    ),
    "a tree that needs no group": (
        [root("r", 0)],
        f"error: default/r: {GROUPS}: must be greater than or equal to 1, not 0",
    ),
    "a tree without a Workload": (
        [{**root("r", 1), "spec": {"schedulingPolicy": {"basic": {}}}}],
        "error: default/r: spec.workloadRef: Required value: it is missing",
    ),
    "no queue of a tree": (
        [queue("lab"), root("r", 1, queue="lap"), below("a", 1, "r"), *pods("a", 1)],
        "warning: default/r: metadata.annotations: queue lap doesn't exist; create it",
    ),
    "too few pods of a tree": (
        [root("r", 1), below("a", 2, "r"), *pods("a", 1)],
        f"warning: default/r: {GROUPS}: PodGroup a has fewer pods than its minCount; create",
    ),
    "no root": (
        [below("a", 1, "r")],
        "warning: default/a: spec.parentCompositePodGroupName: CompositePodGroup r, to which it",
    ),
    "a tree that lacks a group": (
        [root("r", 2), below("a", 1, "r"), *pods("a", 1)],
        "warning: default/a: spec: 1 of 2 groups of CompositePodGroup r exist",
    ),
    "no plugin for a tree": (
        [root("r", 1, **RACK), below("a", 1, "r")],
        "warning: default/r: spec.schedulingConstraints.topology: keeps the group from starting: ",
    ),
    "Kueue's queue of a tree": (
        [changed(root("r", 1), labels=KUEUE)],
        "warning: default/r: metadata.labels.kueue.x-k8s.io/queue-name: is for Kueue only; write",
    ),
    "no plugin": (
        [group("g", 2, **RACK)],
        (
            "warning: default/g: spec.schedulingConstraints.topology: keeps the group from "
            "starting: plugin network-topology-aware isn't configured; add it, or"
        ),
    ),
    "no PodGroup": (
        [*pods("g", 1)],
        (
            "warning: default/g-0: spec.schedulingGroup.podGroupName: there is no PodGroup g of "
            "scheduling.k8s.io/v1beta1 among the given objects"
        ),
    ),
    "groups of both kinds": (
        [group("g", 2), volcanos(minMember=0), *named_in("g")],
        (
            "warning: default/g-0: metadata.annotations.scheduling.k8s.io/group-name: has no "
            "effect: spec.schedulingGroup names PodGroup g, which counts"
        ),
    ),
    "Kueue's queue": (
        [changed(group("g", 2), labels=KUEUE)],
        (
            "warning: default/g: metadata.labels.kueue.x-k8s.io/queue-name: is for Kueue only; "
            f"write annotation {QUEUE}: the ClusterQueue of LocalQueue lab"
        ),
    ),
    "KAI's queue": (
        [changed(volcanos(), labels=KAI)],
        (
            "warning: default/g: metadata.labels.kai.scheduler/queue: is for KAI only; write "
            "spec.queue: lab"
        ),
    ),
    "KAI's queue of a namespace": (
        [changed(SPACE, labels=KAI)],
        (
            "warning: lab: metadata.labels.kai.scheduler/queue: is for KAI only; write "
            f"annotation {QUEUE}: lab"
        ),
    ),
}


@pytest.mark.parametrize(("documents", "message"), WRONG.values(), ids=WRONG)
def test_mistakes_are_named(tmp_path: Path, documents: list[Document], message: str) -> None:
    """With their fields, whichever kind has them."""
    assert any(each.startswith(message) for each in said(tmp_path, documents)), said(
        tmp_path, documents
    )


def test_a_key_that_no_node_has(tmp_path: Path) -> None:
    """With the plugin, and with nodes."""
    found = said(tmp_path, [node("n1"), group("g", 2, **RACK), *pods("g", 2)], AWARE)
    field = "spec.schedulingConstraints.topology"
    assert (
        f"warning: default/g: {field}: keeps the group from starting: "
        f"{field}[0]: no node has the label rack"
    ) in found


def job(scheduling: Document, **more: Any) -> Document:
    """A Job of two pods at a time."""
    return workloads.job(scheduling=scheduling, **more)


def gang(count: int | None = None) -> Document:
    """What a Job says of its PodGroup."""
    return {"schedulingPolicy": {"gang": {} if count is None else {"minCount": count}}}


JOBS = {
    "all of its pods": (job(gang()), ""),
    "as many": (job(gang(2)), ""),
    "too many": (job(gang(3)), "3 is more than the 2 pods that there will be: none starts"),
    "no scheduler": (
        job(gang(), template=workloads.template(scheduler=None)),
        (
            "is missing, so kube-scheduler starts the pods, without queues and fair shares; name "
            "vscheduler"
        ),
    ),
    "another scheduler": (job(gang(), template=workloads.template(scheduler="another")), ""),
    "no gang": (
        job({"schedulingPolicy": {"basic": {}}}, template=workloads.template(scheduler=None)),
        "",
    ),
    "a queue in a label": (workloads.labelled(job(gang()), {QUEUE: "lab"}), ""),
    "a queue in a label of pods": (
        job(gang(), template=workloads.labelled(workloads.template(), {QUEUE: "lab"})),
        "",
    ),
}


@pytest.mark.parametrize(("document", "message"), JOBS.values(), ids=JOBS)
def test_jobs_that_ask_for_a_gang(tmp_path: Path, document: Document, message: str) -> None:
    """`spec.scheduling` of a Job; labels count for its queue."""
    found = [said for _, said in workloads.said(tmp_path, document)]
    assert found == ([message] if message else [])
