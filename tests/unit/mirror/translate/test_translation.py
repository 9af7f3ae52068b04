from typing import Any

import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.decode import wire
from vscheduler.mirror.decode.wire import PodGroup
from vscheduler.mirror.translate import translation
from vscheduler.mirror.translate.translation import Group
from vscheduler.model import queues, resources
from vscheduler.model.constraints import Effect, Operator, Requirement, Selector, Taint
from vscheduler.model.jobs import Condition, GroupState, Job, JobId, Phase, SubGroup
from vscheduler.model.queues import NodeGroups, QueueState
from vscheduler.model.topology import HyperNode, Member


def node(**rest: Any) -> translation.Node:
    """The node of a manifest."""
    found = manifests.read(manifests.node("n1", rest.pop("amounts", None), **rest))
    assert isinstance(found, wire.Node)
    return translation.node(found)


def queue(spec: dict[str, Any], **status: Any) -> queues.Queue:
    """The queue of a manifest."""
    found = manifests.read(manifests.queue("q", spec, **status))
    assert isinstance(found, wire.Queue)
    return translation.queue(found, (manifests.OURS,))


def group(spec: dict[str, Any], **rest: Any) -> Group:
    """The PodGroup of a manifest, read with `standard` as the default queue."""
    found = manifests.read(manifests.group("g", spec, **rest))
    assert isinstance(found, PodGroup)
    return translation.pod_group(found, "standard")


def test_a_node_is_translated_whole() -> None:
    """Labels sorted, taints, cordon; amounts beyond measure are cut, and nothing is no resource."""
    found = node(
        amounts={"cpu": "7900m", "memory": "9E", "hugepages-1Gi": "0", "count/x": "1"},
        labels={"zone": "a", "arch": "x"},
        spec={"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
    )
    assert found.spec.labels == (("arch", "x"), ("zone", "a"))
    assert found.spec.taints == (Taint("gpu", "", Effect.NO_SCHEDULE),)
    assert found.spec.unschedulable
    assert found.allocatable == {"cpu": 7900, "memory": resources.ALLOCATABLE_MAX}


def test_capacity_stands_in_for_allocatable() -> None:
    """Hand-written nodes often have one of the two."""
    found = node(status={"allocatable": {}, "capacity": {"cpu": "2"}})
    assert found.allocatable == {"cpu": 2000}


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], True),
        ([{"type": "MemoryPressure", "status": "False"}], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
    ],
)
def test_a_node_is_ready_unless_it_says_otherwise(
    conditions: list[dict[str, str]], ready: bool
) -> None:
    """A node with no conditions at all counts as ready, as in Volcano."""
    assert node(status={"conditions": conditions}).spec.ready is ready


def test_a_queue_is_translated_whole() -> None:
    """Every field that a decision may depend on; a zero limit stays one."""
    found = queue(
        {
            "weight": 3,
            "priority": 2,
            "reclaimable": False,
            "parent": "root",
            "capability": {"cpu": "1", "nvidia.com/gpu": 0},
            "deserved": {"memory": "1Gi"},
            "guarantee": {"resource": {"cpu": "500m"}},
            "affinity": {
                "nodeGroupAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": ["a", "b"],
                    "preferredDuringSchedulingIgnoredDuringExecution": ["b"],
                },
                "nodeGroupAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": ["c"],
                    "preferredDuringSchedulingIgnoredDuringExecution": ["d"],
                },
            },
        },
        state="Closing",
    )
    assert found == queues.Queue(
        name="q",
        uid="q",
        created=0.0,
        weight=3,
        priority=2,
        reclaimable=False,
        parent="root",
        state=QueueState.CLOSING,
        capability={"cpu": 1000, "nvidia.com/gpu": 0},
        deserved={"memory": 2**30},
        guarantee={"cpu": 500},
        node_groups=NodeGroups(
            required=("a", "b"), preferred=("b",), anti_required=("c",), anti_preferred=("d",)
        ),
    )
    assert queue({}).node_groups is None
    assert queue({"affinity": {"nodeGroupAffinity": {}}}).node_groups == NodeGroups()


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, QueueState.OPEN),
        ({"state": ""}, QueueState.OPEN),
        ({"state": "Closed"}, QueueState.CLOSED),
        ({"state": "Ajar"}, QueueState.UNKNOWN),
    ],
)
def test_a_queue_is_open_unless_it_says_otherwise(
    status: dict[str, str], state: QueueState
) -> None:
    """A new queue has no status yet; a state that nobody knows isn't Open."""
    assert queue({}, **status).state is state


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, ""),
        ({"networkTopology": None}, ""),
        ({"networkTopology": {"mode": "soft"}}, ""),
        ({"networkTopology": {}}, "spec.networkTopology"),
        ({"networkTopology": {"mode": "hard", "highestTierName": "a"}}, "spec.networkTopology"),
        ({"networkTopology": {"mode": "firm"}}, "spec.networkTopology"),
        (
            {"subGroupPolicy": [{"networkTopology": {"mode": "soft"}}, {"networkTopology": {}}]},
            "spec.subGroupPolicy[1].networkTopology",
        ),
    ],
)
def test_what_is_not_soft_must_be_near_together(spec: dict[str, Any], field: str) -> None:
    """The first field that says so; the schema's default is hard."""
    assert group(spec).job.hard_topology == field


def test_a_group_is_translated_whole() -> None:
    """A job without pods, with the stored status to compare a new one with."""
    annotations = {translation.SCHEDULER: "other"}
    condition = {"type": "Scheduled", "status": "True", "reason": "r", "message": "m"}
    condition |= {"lastTransitionTime": "2026-01-01T00:00:00Z", "transitionID": "t"}
    found = group(
        {
            "minMember": 2,
            "minTaskMember": {"ps": 1},
            "minResources": {"cpu": "2"},
            "queue": "gold",
            "priorityClassName": "high",
            "subGroupPolicy": [
                {
                    "name": "replicas",
                    "subGroupSize": 4,
                    "minSubGroups": 2,
                    "labelSelector": {"matchLabels": {"app": "a"}},
                    "matchLabelKeys": ["replica", "zone"],
                },
                {},
            ],
        },
        annotations=annotations,
        status={"phase": "Running", "conditions": [condition], "running": 2, "failed": 1},
    )
    assert (found.priority_class, found.scheduler) == ("high", "other")
    assert found.job == Job(
        id=JobId("ns/g"),
        uid="g",
        namespace="ns",
        name="g",
        queue="gold",
        created=0.0,
        min_member=2,
        min_task_member={"ps": 1},
        min_resources={"cpu": 2000},
        sub_groups=(
            SubGroup(
                name="replicas",
                size=4,
                minimum=2,
                selector=Selector((Requirement("app", Operator.IN, ("a",)),)),
                keys=("replica", "zone"),
            ),
            SubGroup(name="", size=1, minimum=0),
        ),
        annotations=annotations,
        state=GroupState(
            phase=Phase.RUNNING,
            conditions=(
                Condition(
                    type="Scheduled",
                    status="True",
                    reason="r",
                    message="m",
                    last_transition="2026-01-01T00:00:00Z",
                    transition_id="t",
                ),
            ),
            running=2,
            failed=1,
        ),
    )


def test_an_empty_group_has_the_defaults() -> None:
    """The configured queue, minMember as in Go, no minResources, and no phase is Pending."""
    job = group({}, status={"phase": "Dancing"}).job
    assert (job.queue, job.min_member, job.min_resources) == ("standard", 0, None)
    assert job.state == GroupState(blank=True)
    assert not group({}, status={"phase": "Pending"}).job.state.blank
    assert group({"minResources": {}}).job.min_resources == {}


def member(
    kind: str = "Node",
    *,
    name: str | None = None,
    pattern: str | None = None,
    labels: Document | None = None,
) -> Document:
    """A member of a HyperNode; without any selector nothing is selected."""
    selector: Document = {}
    if name is not None:
        selector["exactMatch"] = {"name": name}
    if pattern is not None:
        selector["regexMatch"] = {"pattern": pattern}
    if labels is not None:
        selector["labelMatch"] = {"matchLabels": labels}
    return {"type": kind, "selector": selector}


def test_hyper_node_names_and_selects_its_members() -> None:
    """Each of them in one way."""
    members = (
        member(name="n1"),
        member("HyperNode", name="h1"),
        member(pattern="^r1-"),
        member(labels={"rack": "a"}),
    )
    found = manifests.read(manifests.hyper_node("h", *members, tier=2, tierName="spine"))
    assert isinstance(found, wire.HyperNode)
    selects_rack = Selector((Requirement("rack", Operator.IN, ("a",)),))
    assert translation.hyper_node(found) == HyperNode(
        name="h",
        tier=2,
        tier_name="spine",
        members=(
            Member(node="n1"),
            Member(hyper_node="h1"),
            Member(pattern="^r1-"),
            Member(selector=selects_rack),
        ),
    )


def test_what_a_quota_counts_is_not_what_pods_request() -> None:
    """Volcano's job controller writes all of this."""
    least = {
        "cpu": "1",
        "requests.cpu": "1",
        "limits.cpu": "2",
        "count/pods": "4",
        "pods": "4",
        "requests.nvidia.com/gpu": "1",
        "nvidia.com/gpu": "1",
    }
    found = group({"minResources": least}).job.min_resources
    assert found == {"cpu": 1000, "pods": 4, "nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (manifests.queue("q", {"weight": 0}), "spec.weight"),
        (manifests.queue("q", {"capability": {"cpu": "-1"}}), "spec.capability.cpu"),
        (
            manifests.queue("q", {"guarantee": {"resource": {"a/b": "x"}}}),
            "spec.guarantee.resource.a/b",
        ),
        (manifests.group("g", {"minMember": -1}), "spec.minMember"),
        (manifests.group("g", {"minTaskMember": {"ps": -1}}), "spec.minTaskMember.ps"),
        (manifests.group("g", {"minResources": {"cpu": ""}}), "spec.minResources.cpu"),
        (
            manifests.group("g", {"subGroupPolicy": [{}, {"subGroupSize": 0}]}),
            "spec.subGroupPolicy[1].subGroupSize",
        ),
        (
            manifests.group("g", {"subGroupPolicy": [{"minSubGroups": -1}]}),
            "spec.subGroupPolicy[0].minSubGroups",
        ),
        (
            manifests.group(
                "g", {"subGroupPolicy": [{"labelSelector": {"matchExpressions": [{"key": "a"}]}}]}
            ),
            "spec.subGroupPolicy[0].labelSelector.matchExpressions[0].operator",
        ),
        (manifests.quota("l", {"requests.cpu": "x"}), "spec.hard.requests.cpu"),
        (
            manifests.budget("b", {"matchExpressions": [{"operator": "Exists"}]}),
            "spec.selector.matchExpressions[0].key",
        ),
        (manifests.node("n", {"cpu": "four"}), "status.allocatable.cpu"),
        (manifests.hyper_node("h", tier=-1), "spec.tier"),
        (manifests.hyper_node("h") | {"spec": {"tier": 1}}, "spec.members"),
        (manifests.hyper_node("h", {}), "spec.members[0].type"),
        (manifests.hyper_node("h", member(name="a"), member()), "spec.members[1].selector"),
        (
            manifests.hyper_node("h", member("HyperNode", labels={"rack": "a"})),
            "spec.members[0].selector",
        ),
        (manifests.hyper_node("h", member(name="")), "spec.members[0].selector.exactMatch.name"),
        (
            manifests.hyper_node("h", member(pattern="")),
            "spec.members[0].selector.regexMatch.pattern",
        ),
        (
            manifests.hyper_node(
                "h",
                {
                    "type": "Node",
                    "selector": {"labelMatch": {"matchExpressions": [{"operator": "Exists"}]}},
                },
            ),
            "spec.members[0].selector.labelMatch.matchExpressions[0].key",
        ),
        (manifests.node("n", spec={"taints": [{"key": "a"}]}), "spec.taints[0].effect"),
    ],
)
def test_a_bad_field_is_named(document: Document, place: str) -> None:
    """Whatever the kind, and the Mirror tells of it until it is mended."""
    seen = manifests.mirror(document)
    (rejection,) = seen.rejections.values()
    assert (rejection.kind, rejection.field) == (document["kind"], place)
