from typing import Any

import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.decode import fields, wire
from vscheduler.mirror.translate import pods
from vscheduler.mirror.translate.pods import Translator
from vscheduler.model.constraints import (
    Constraints,
    Effect,
    HostPort,
    Operator,
    PreferredTerm,
    Requirement,
    Term,
    Toleration,
)
from vscheduler.model.jobs import PREEMPTABLE, ROLE, Task, TaskStatus

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def translated(document: Document) -> pods.Pod:
    """The pod, seen by a scheduler called as the manifests' is."""
    return Translator((manifests.OURS,)).pod(wire_pod(document))


def wire_pod(document: Document) -> wire.Pod:
    """The pod as it is on the wire."""
    pod = manifests.read(document)
    assert isinstance(pod, wire.Pod)
    return pod


def task(**rest: Any) -> Task:
    """The task of a pod that nothing is wrong with."""
    found = translated(manifests.pod(rest.pop("name", "p"), **rest))
    assert found.task is not None, found.rejection
    return found.task


def conditions(**spec: Any) -> Constraints:
    """What a pod with this spec says about nodes."""
    return task(spec=spec).pod_class.constraints


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
GATED = {"schedulingGates": [{"name": "example.com/wait"}]}


@pytest.mark.parametrize(
    ("pod", "status", "holds_resources"),
    [
        ({}, "Pending", False),
        ({"phase": ""}, "Pending", False),
        ({"spec": GATED}, "Gated", False),
        ({"node": "n1", "phase": "Pending"}, "Bound", True),
        ({"node": "n1", "phase": "Pending", "spec": GATED}, "Bound", True),
        ({"node": "n1"}, "Running", True),
        ({"node": "n1", "phase": "Unknown"}, "Running", True),
        ({"node": "n1", "metadata": DELETED}, "Releasing", True),
        ({"node": "n1", "phase": "Pending", "metadata": DELETED}, "Releasing", True),
        ({"metadata": DELETED}, "Releasing", False),
        ({"node": "n1", "phase": "Succeeded"}, "Succeeded", False),
        ({"node": "n1", "phase": "Failed"}, "Failed", False),
        ({"node": "n1", "phase": "Failed", "metadata": DELETED}, "Failed", False),
        ({"phase": "Failed"}, "Failed", False),
    ],
)
def test_statuses_follow_phase_node_and_deletion(
    pod: dict[str, Any], status: str, holds_resources: bool
) -> None:
    """Volcano's statuses; only unfinished pods with a node hold room there."""
    found = translated(manifests.pod("p", **pod))
    assert (found.status, found.holds_resources) == (status, holds_resources)


@pytest.mark.parametrize(
    ("metadata", "spec", "expected"),
    [
        ({}, {}, {"priority": 1, "role": "", "preemptable": True, "index": -1}),
        ({}, {"priority": 0}, {"priority": 0}),
        ({}, {"priority": 7}, {"priority": 7}),
        ({"annotations": {fields.PRIORITY: "9"}}, {"priority": 7}, {"priority": 9}),
        (
            {"annotations": {fields.PRIORITY: "x"}},
            {"nodeName": "n", "priority": 7},
            {"priority": 7},
        ),
        ({"annotations": {ROLE: "ps"}, "labels": {ROLE: "w"}}, {}, {"role": "ps"}),
        ({"labels": {ROLE: "w"}}, {}, {"role": "w"}),
        ({"annotations": {PREEMPTABLE: "false"}}, {}, {"preemptable": False}),
        ({"annotations": {PREEMPTABLE: "maybe"}}, {}, {"preemptable": False}),
        ({"labels": {PREEMPTABLE: "false"}}, {}, {"preemptable": False}),
        (
            {"annotations": {PREEMPTABLE: "true"}, "labels": {PREEMPTABLE: "false"}},
            {},
            {"preemptable": True},
        ),
        ({"name": "job-worker-12"}, {}, {"index": 12}),
        ({"name": "worker-12"}, {}, {"index": -1}),
        ({"name": "job-worker-x1"}, {}, {"index": -1}),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, {}, {"job": "ns/g"}),
        ({"annotations": {"scheduling.volcano.sh/group-name": "g"}}, {}, {"job": "ns/g"}),
        ({}, {"preemptionPolicy": "Never"}, {"never_preempts": True}),
        ({"creationTimestamp": "1970-01-01T00:01:00Z"}, {}, {"created": 60.0}),
        ({"uid": None}, {}, {"uid": "ns/p", "created": 0.0}),
    ],
)
def test_a_task_has_what_volcano_reads(
    metadata: dict[str, Any], spec: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Annotations come before labels and spec; what isn't said has Volcano's default."""
    found = task(metadata=metadata, spec=spec)
    assert {name: getattr(found, name) for name in expected} == expected


def test_labels_are_kept_and_shared() -> None:
    """200,000 pods have few distinct sets of labels, and most have no annotations of ours."""
    labels = {"b": "1", "a": "2"}
    one = task(name="one", metadata={"labels": labels})
    two = task(name="two", metadata={"labels": dict(reversed(labels.items()))})
    assert one.labels == labels
    assert two.labels is one.labels
    assert one.annotations is two.annotations is task(name="three").annotations


def test_annotations_of_volcano_are_kept() -> None:
    """The others are no business of a scheduler's."""
    texts = {"volcano.sh/cooldown-time": "10m", "example.com/x": "y", "volcano.shx/a": "b"}
    assert task(metadata={"annotations": texts}).annotations == {"volcano.sh/cooldown-time": "10m"}


@pytest.mark.parametrize(
    ("annotations", "hints"),
    [
        ({}, {}),
        ({"volcano.sh/revocable-zone": "*"}, {"volcano.sh/revocable-zone": "*"}),
        ({"volcano.sh/revocable-zone": "rz1"}, {}),
        ({PREEMPTABLE: "true"}, {"volcano.sh/revocable-zone": "*"}),
        ({PREEMPTABLE: "false"}, {}),
        ({PREEMPTABLE: "true", "volcano.sh/revocable-zone": "rz1"}, {}),
        (
            {
                "volcano.sh/resource-strategy-weight": '{"cpu": 1}',
                "volcano.sh/resource-strategy-scoring-type": "LeastAllocated",
                "volcano.sh/cooldown-time": "1m",
            },
            {
                "volcano.sh/resource-strategy-scoring-type": "LeastAllocated",
                "volcano.sh/resource-strategy-weight": '{"cpu": 1}',
            },
        ),
    ],
)
def test_hints_are_what_plugins_place_by(
    annotations: dict[str, str], hints: dict[str, str]
) -> None:
    """They make another class of task; what says nothing doesn't."""
    plain, hinted = manifests.pod("p"), manifests.pod("p", metadata={"annotations": annotations})
    translator = Translator((manifests.OURS,))
    found, others = (translator.pod(wire_pod(each)) for each in (hinted, plain))
    assert found.pod_class.hints == hints
    assert (found.pod_class is others.pod_class) is (not hints)


SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, None),
        ({"conditions": [SCHEDULED]}, 60.0),
        ({"conditions": [SCHEDULED], "startTime": "1970-01-01T00:02:00Z"}, 60.0),
        ({"startTime": "1970-01-01T00:02:00Z"}, 120.0),
        ({"conditions": [SCHEDULED | {"status": "False"}]}, None),
        ({"conditions": [SCHEDULED | {"type": "Ready"}]}, None),
        ({"conditions": [SCHEDULED | {"lastTransitionTime": None}]}, None),
    ],
)
def test_when_a_pod_was_scheduled(status: dict[str, Any], expected: float | None) -> None:
    """By its condition, else by when it was started."""
    assert task(node="n1", status=status).scheduled_at == expected


def test_the_name_of_its_priority_class_is_kept() -> None:
    """System-critical pods are known by it."""
    found = task(spec={"priorityClassName": "system-node-critical"})
    assert found.priority_class == "system-node-critical"


def test_a_nominated_node_is_kept() -> None:
    """It is where an earlier cycle found room for the pod."""
    assert task(status={"nominatedNodeName": "n1"}).nominated_node == "n1"


def test_affinity_is_translated_whole() -> None:
    """Expressions and fields, required alternatives and weighted preferences."""
    gpu = {"key": "gpu", "operator": "Exists"}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    found = conditions(
        nodeSelector={"zone": "a", "disk": None},
        affinity={
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [{"matchExpressions": [gpu]}, {"matchFields": [name]}]
                },
                PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [gpu]}}],
            }
        },
    )
    has_gpu = Requirement("gpu", Operator.EXISTS)
    is_n1 = Requirement("metadata.name", Operator.IN, ("n1",))
    assert found == Constraints(
        node_selector=(("disk", ""), ("zone", "a")),
        required=(Term(labels=(has_gpu,)), Term(fields=(is_n1,))),
        preferred=(PreferredTerm(5, Term(labels=(has_gpu,))),),
    )


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": "a", "value": "b"}, Toleration("a", exists=False, value="b")),
        ({"operator": "Exists"}, Toleration(exists=True)),
        (
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3},
            Toleration("a", exists=True, effect=Effect.NO_EXECUTE),
        ),
    ],
)
def test_tolerations_are_translated(toleration: dict[str, Any], expected: Toleration) -> None:
    """No operator means Equal, no effect all of them."""
    assert conditions(tolerations=[toleration]).tolerations == (expected,)


def test_host_ports_are_those_that_stay_taken() -> None:
    """Of containers and sidecars, sorted, once each; on the host's network all ports are."""
    port = {"containerPort": 80, "hostPort": 8080}
    other = {"containerPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP"}
    containers = [{"name": "a", "ports": [other, port]}, {"name": "b", "ports": [port]}]
    starting = [
        {"name": "c", "ports": [{"hostPort": 1}]},
        {"name": "d", "ports": [{"hostPort": 2}], "restartPolicy": "Always"},
    ]
    wild = "0.0.0.0"  # noqa: S104 - Kubernetes' spelling of every address
    taken = [HostPort(wild, "TCP", 2), HostPort(wild, "TCP", 8080)]
    spec = {"containers": containers, "initContainers": starting}
    assert conditions(**spec).ports == tuple(taken)
    on_host = conditions(**spec, hostNetwork=True).ports
    assert on_host == (*taken, HostPort("10.0.0.1", "UDP", 81))


def with_node_affinity(**affinity: Any) -> dict[str, Any]:
    """The spec of a pod with this node affinity."""
    return {"affinity": {"nodeAffinity": affinity}}


def with_requirement(requirement: dict[str, Any]) -> dict[str, Any]:
    """The spec of a pod with this one requirement."""
    terms = [{"matchExpressions": [requirement]}]
    return with_node_affinity(**{REQUIRED: {"nodeSelectorTerms": terms}})


TERM = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
UNSUPPORTED = [
    ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims[0]", "names neither a claim"),
    (
        {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {}}]},
        "spec.volumes[1].persistentVolumeClaim.claimName",
        "is missing",
    ),
    (
        {"workloadRef": {"name": "w", "podGroup": "g"}},
        "spec.workloadRef",
        "names Workload w as Kubernetes 1.35 did; use spec.schedulingGroup, which needs sched",
    ),
]


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        *UNSUPPORTED,
        (with_requirement({"key": "a", "operator": "Is"}), f"{TERM}.operator", "'Is' is none of"),
        (with_requirement({"operator": "Exists"}), f"{TERM}.key", "missing"),
        (with_requirement({"key": "a", "operator": "In"}), f"{TERM}.values", "at least one"),
        (
            with_requirement({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
            f"{TERM}.values",
            "Gt needs one value",
        ),
        (
            with_requirement({"key": "a", "operator": "Exists", "values": ["x"]}),
            f"{TERM}.values",
            "takes no values",
        ),
        (
            with_node_affinity(**{PREFERRED: [{"weight": 101, "preference": {}}]}),
            f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight",
            "101 is not between 1 and 100",
        ),
        (
            {"tolerations": [{"key": "a", "effect": "Never"}]},
            "spec.tolerations[0].effect",
            "'Never' is none of",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Lt"}]},
            "spec.tolerations[0].operator",
            "'Lt' isn't supported",
        ),
        ({"tolerations": [{"value": "a"}]}, "spec.tolerations[0].operator", "must be Exists"),
    ],
)
def test_a_waiting_pod_that_cant_be_placed_rightly_is_refused(
    spec: dict[str, Any], field: str, says: str
) -> None:
    """Nothing that a pod requires is passed over: the field is named, and what is wrong."""
    found = translated(manifests.pod("p", spec=spec))
    assert found.task is None
    assert found.rejection is not None
    assert (found.rejection.key, found.rejection.field) == ("ns/p", field)
    assert says in found.rejection.message


@pytest.mark.parametrize("spec", [spec for spec, _, _ in UNSUPPORTED])
def test_a_pod_that_has_a_node_is_taken_as_it_is(spec: dict[str, Any]) -> None:
    """What we couldn't have placed still counts for its job and on its node."""
    assert task(node="n1", spec=spec).status is TaskStatus.RUNNING


def test_a_claim_does_not_stop_a_pod() -> None:
    """One that has a name is taken as bound."""
    spec = {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}]}
    assert task(spec=spec).status is TaskStatus.PENDING


def test_a_task_priority_that_is_no_number_is_refused() -> None:
    """The annotation is named as people find it."""
    found = translated(manifests.pod("p", metadata={"annotations": {fields.PRIORITY: "high"}}))
    assert found.rejection is not None
    place = "metadata.annotations[volcano.sh/task-priority]"
    assert str(found.rejection) == f"Pod ns/p: {place}: 'high' is not an integer"


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({"tolerations": [{"value": "a"}]}, {"cpu": 1000, "pods": 1}),
        ({"overhead": {"cpu": "x"}}, {"pods": 1}),
    ],
)
def test_a_pod_with_a_mistake_holds_what_can_be_read(
    spec: dict[str, Any], held: dict[str, int]
) -> None:
    """It is on its node all the same."""
    found = translated(manifests.pod("p", node="n1", spec=spec))
    assert found.task is None
    assert found.holds_resources
    assert found.pod_class.request == held


def test_a_stranger_is_only_what_it_holds() -> None:
    """Another scheduler's pod is no task; no name at all is Kubernetes' own scheduler."""
    unreadable = {"tolerations": [{"value": "a"}]}
    for scheduler in ("other", ""):
        found = translated(manifests.pod("p", scheduler=scheduler, node="n1", spec=unreadable))
        assert (found.ours, found.task, found.rejection) == (False, None, None)
        assert found.pod_class.request == {"cpu": 1000, "pods": 1}
