from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.mirror.index.entries import Change, Reference
from vscheduler.mirror.state import Mirror
from vscheduler.model import topology
from vscheduler.model.jobs import NO_TASKS, TaskId, TaskStatus

Document = manifests.Document
KIND = Kind

CLUSTER = (
    manifests.node("n1"),
    manifests.node("n2"),
    manifests.queue("q"),
    manifests.group("g", {"queue": "q"}),
)


NONE, STEP, OTHER = Change
BOUND = manifests.pod("p", node="n1", phase="Pending")
BORN = "2026-01-01T00:00:00Z"
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "QueueFull"}
SCHEDULED = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": BORN}]


def apply(seen: Mirror, document: Document) -> Change:
    """Show a manifest to the Mirror; what it changed."""
    return seen.apply(manifests.event_of(document))


def test_a_snapshot_is_sorted_and_whole() -> None:
    """Nodes, queues, jobs and columns in canonical order, whatever order they came in."""
    documents = [
        *reversed(CLUSTER),
        manifests.group("a", {"queue": "q", "minResources": {"example.com/c": "1"}}),
        manifests.pod("b-0", group="a", requests={"cpu": "1", "example.com/b": "1"}),
        manifests.pod("p", group="g", node="n1", requests={"memory": "1Ki"}),
        manifests.queue("b", {"capability": {"example.com/a": "1"}}),
    ]
    found = manifests.mirror(*documents).snapshot(5.0)
    assert found.now == 5.0
    assert found.space.names == ("cpu", "memory", "pods", *(f"example.com/{x}" for x in "abc"))
    assert found.nodes.layout.names == ("n1", "n2")
    assert found.nodes.allocatable[:, :3].tolist() == [[4000, 0, 10]] * 2
    assert found.nodes.used[:, :3].tolist() == [[0, 1024, 1], [0, 0, 0]]
    assert list(found.queues) == ["b", "q"]
    assert [job.id for job in found.jobs] == ["ns/a", "ns/g"]
    (job,) = (job for job in found.jobs if job.name == "g")
    assert job.allocated == {"memory": 1024, "pods": 1}
    assert job.counts == {**NO_TASKS, TaskStatus.RUNNING: 1}


def test_a_tree_is_another_job_after_a_change_of_a_group_below() -> None:
    """The status of the PodGroup is written again where somebody else has changed it."""

    def native(kind: str, version: str, **spec: Any) -> Document:
        metadata = {
            "name": kind,
            "namespace": "ns",
            "uid": kind,
            "creationTimestamp": BORN,
            "annotations": {"scheduling.volcano.sh/queue-name": "q"},
        }
        api = f"scheduling.k8s.io/{version}"
        return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}

    above = native("CompositePodGroup", "v1alpha3", schedulingPolicy={"gang": {"minGroupCount": 1}})
    below = native(
        "PodGroup",
        "v1beta1",
        parentCompositePodGroupName="CompositePodGroup",
        schedulingPolicy={"gang": {"minCount": 1}},
    )
    pod = manifests.pod("p")
    pod["spec"]["schedulingGroup"] = {"podGroupName": "PodGroup"}
    seen = manifests.mirror(*CLUSTER[:3], above, below, pod)
    (before,) = seen.snapshot(0.0).jobs
    (same,) = seen.snapshot(0.0).jobs
    apply(seen, {**below, "status": {"conditions": SCHEDULED}})
    found = seen.snapshot(0.0)
    assert same is before
    assert found.job(before.id) is next(iter(found.jobs)) is not before


def test_every_unfinished_pod_counts_on_its_node() -> None:
    """Of all schedulers, those being deleted twice, finished ones not at all."""
    wants = {"cpu": "1", "example.com/x": "2"}
    seen = manifests.mirror(
        *CLUSTER,
        manifests.pod("ours", group="g", node="n1"),
        manifests.pod("stranger", scheduler="other", node="n1", requests=wants),
        manifests.pod("gone", node="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        manifests.pod("done", group="g", node="n1", phase="Succeeded"),
        manifests.pod("elsewhere", node="n9"),
    )
    found = seen.snapshot(0.0).nodes
    assert found.used.tolist() == [[3000, 0, 3, 2], [0, 0, 0, 0]]
    assert found.releasing.tolist() == [[1000, 0, 1, 0], [0, 0, 0, 0]]
    apply(seen, manifests.node("n9"))
    assert manifests.used(seen, "n9") == 1000


def test_host_ports_are_known_by_node() -> None:
    """Sorted, of nodes that are there, and only while a pod has them."""

    def taking(name: str, port: int, node: str, **rest: Any) -> Document:
        container = {"name": "main", "ports": [{"hostPort": port}]}
        return manifests.pod(name, node=node, spec={"containers": [container]}, **rest)

    def ports(seen: Mirror) -> list[tuple[str, list[int]]]:
        found = seen.snapshot(0.0).nodes.ports
        return [(node, [each.port for each in taken]) for node, taken in found.items()]

    low = taking("low", 80, "n1", scheduler="other")
    seen = manifests.mirror(*CLUSTER, taking("other", 82, "n2"), taking("high", 81, "n1"))
    assert ports(seen) == [("n1", [81]), ("n2", [82])]
    apply(seen, low)
    assert ports(seen) == [("n1", [80, 81]), ("n2", [82])]
    seen.apply(manifests.removal_of(manifests.node("n2")))
    seen.apply(manifests.removal_of(manifests.pod("high")))
    assert ports(seen) == [("n1", [80])]
    seen.apply(manifests.removal_of(low))
    apply(seen, manifests.node("n2"))
    assert ports(seen) == [("n2", [82])]
    apply(seen, taking("late", 84, "n1"))
    assert ports(seen) == [("n1", [84]), ("n2", [82])]


def test_ports_of_pods_that_leave_are_apart() -> None:
    """They are free once those pods are gone; a pod that stays may have taken one as well."""
    spec = {"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]}
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    seen = manifests.mirror(*CLUSTER, manifests.pod("p", node="n1", spec=spec))
    apply(seen, manifests.pod("p", node="n1", spec=spec, metadata=leaving))
    found = seen.snapshot(0.0).nodes
    assert [*found.ports] == []
    assert [(name, len(ports)) for name, ports in found.leaving_ports.items()] == [("n1", 1)]
    apply(seen, manifests.pod("q", node="n1", spec=spec))
    seen.apply(manifests.removal_of(manifests.pod("p")))
    found = seen.snapshot(0.0).nodes
    assert ([*found.ports], [*found.leaving_ports]) == (["n1"], [])
    apply(seen, manifests.pod("q", node="n1", spec=spec, metadata=leaving))
    seen.snapshot(0.0)
    seen.apply(manifests.removal_of(manifests.node("n1")))
    assert dict(seen.snapshot(0.0).nodes.leaving_ports) == {}


def test_budgets_and_quotas_are_in_a_snapshot_while_they_are_there() -> None:
    """Sorted by name; one that is changed so that it says nothing is out."""
    seen = manifests.mirror(
        manifests.budget("b", {}, allowed=2),
        manifests.budget("a"),
        manifests.quota("q", {"pods": "4"}),
    )
    found = seen.snapshot(0.0)
    assert [(budget.name, budget.allowed) for budget in found.budgets] == [("a", 1), ("b", 2)]
    assert [(quota.name, quota.hard) for quota in found.quotas] == [("q", {"pods": 4})]
    assert seen.snapshot(1.0).budgets is found.budgets
    assert apply(seen, manifests.quota("q", {"services": "1"}))
    seen.apply(manifests.removal_of(manifests.budget("a")))
    found = seen.snapshot(0.0)
    assert ([budget.name for budget in found.budgets], found.quotas) == (["b"], ())


def test_hyper_nodes_are_one_value_until_any_of_them_changes() -> None:
    """Trees are made anew only then; a wrong one is left out alone, and told of."""
    seen = manifests.mirror(manifests.hyper_node("b"), manifests.hyper_node("a", tier=0))
    found = seen.snapshot(0.0).hyper_nodes
    assert [each.name for each in found.every] == ["a", "b"]
    apply(seen, manifests.queue("q", {"weight": 2}))
    apply(seen, manifests.hyper_node("b") | {"status": {"nodeCount": 1}})
    assert seen.snapshot(0.0).hyper_nodes is found
    apply(seen, manifests.hyper_node("b", {"type": "Node", "selector": {}}))
    found = seen.snapshot(0.0).hyper_nodes
    assert [each.name for each in found.every] == ["a"]
    (wrong,) = seen.rejections.values()
    assert str(wrong).startswith("HyperNode b: spec.members[0].selector: must have exactly one")
    seen.apply(manifests.removal_of(manifests.hyper_node("a")))
    assert seen.snapshot(0.0).hyper_nodes is topology.NO_HYPER_NODES


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (manifests.pod("p"), manifests.pod("p", version=2), NONE),
        (manifests.pod("p"), manifests.pod("p", status={"conditions": [{"type": "x"}]}), NONE),
        (manifests.pod("p"), manifests.pod("p", metadata={"labels": {"a": "b"}}), OTHER),
        (manifests.pod("p"), manifests.pod("p", node="n1"), OTHER),
        (manifests.pod("p"), manifests.pod("p", group="g"), OTHER),
        (BOUND, manifests.pod("p", node="n1"), STEP),
        (BOUND, manifests.pod("p", node="n1", status={"conditions": SCHEDULED}), STEP),
        (manifests.pod("p", node="n1"), BOUND, OTHER),
        (BOUND, manifests.pod("p", node="n1", metadata={"labels": {"a": "b"}}), OTHER),
        (BOUND, manifests.pod("p", node="n1", requests={"cpu": "2"}), OTHER),
        (BOUND, manifests.pod("p", node="n2"), OTHER),
        (BOUND, manifests.pod("p", node="n1", phase="Failed"), OTHER),
        (manifests.pod("p", node="n1"), manifests.pod("p", node="n1", phase="Succeeded"), OTHER),
        (BOUND, manifests.pod("p", node="n1", metadata={"deletionTimestamp": BORN}), OTHER),
        (
            manifests.pod("p", scheduler="other", node="n1", phase="Pending"),
            manifests.pod("p", scheduler="other", node="n1"),
            STEP,
        ),
        (manifests.pod("p"), manifests.pod("p", requests={"cpu": "2"}), OTHER),
        (manifests.pod("p"), manifests.pod("p", requests={"cpu": "1000m"}), NONE),
        (
            manifests.node("n1"),
            manifests.node(
                "n1",
                version=2,
                status={
                    "conditions": [
                        {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01"}
                    ]
                },
            ),
            NONE,
        ),
        (manifests.node("n1"), manifests.node("n1", labels={"a": "b"}), OTHER),
        (manifests.node("n1"), manifests.node("n1", {"cpu": "5"}), OTHER),
        (manifests.queue("q"), manifests.queue("q", {}, allocated={"cpu": "1"}), NONE),
        (manifests.queue("q"), manifests.queue("q", {"weight": 2}), OTHER),
        (manifests.queue("q"), manifests.queue("q", {}, state="Closed"), OTHER),
        (manifests.group("g"), manifests.group("g", version=3), NONE),
        (manifests.group("g"), manifests.group("g", status={"phase": "Inqueue"}), STEP),
        (manifests.group("g"), manifests.group("g", {"minMember": 2}), OTHER),
        (
            manifests.group("g"),
            manifests.group("g", {"minMember": 2}, status={"phase": "Inqueue"}),
            OTHER,
        ),
        (manifests.priority_class("c", 1), manifests.priority_class("c", 1), NONE),
        (manifests.priority_class("c", 1), manifests.priority_class("c", 2), OTHER),
        (manifests.budget("b"), manifests.budget("b"), NONE),
        (manifests.budget("b"), manifests.budget("b", allowed=2), OTHER),
        (manifests.quota("l", {"cpu": "1"}), manifests.quota("l", {"cpu": "1000m"}), NONE),
        (manifests.quota("l", {"cpu": "1"}), manifests.quota("l", {"cpu": "2"}), OTHER),
        (
            manifests.quota("l", {"cpu": "1"}),
            manifests.quota("l", {"cpu": "1"}, {"cpu": "1"}),
            OTHER,
        ),
        (manifests.hyper_node("h"), manifests.hyper_node("h") | {"status": {"nodeCount": 1}}, NONE),
        (manifests.hyper_node("h"), manifests.hyper_node("h", tierName="rack"), OTHER),
    ],
)
def test_what_a_decision_depends_on_is_a_change(
    before: Document, after: Document, change: Change
) -> None:
    """Heartbeats, versions and other people's fields wake nobody."""
    seen = manifests.mirror(before)
    assert apply(seen, after) is change


@pytest.mark.parametrize(
    ("first", "second", "node"),
    [
        (manifests.pod("p", version=9, node="n1"), manifests.pod("p", version=10), None),
        (manifests.pod("p", version=10, node="n1"), manifests.pod("p", version=9), "n1"),
        (manifests.pod("p", version="", node="n1"), manifests.pod("p", version=9), None),
        (manifests.pod("p", version=10, node="n1"), manifests.pod("p", version=""), None),
    ],
)
def test_an_older_version_is_left_out(first: Document, second: Document, node: str | None) -> None:
    """Versions are compared as numbers; an object without one is taken at its word."""
    seen = manifests.mirror(*CLUSTER)
    for document in (first, second):
        document["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        apply(seen, document)
    assert manifests.job_of(seen, "g").tasks[0].node == node


def test_a_reason_in_a_pod_s_condition_is_known_and_changes_nothing() -> None:
    """It is for those who write reasons; decisions don't depend on it."""
    waits, task = manifests.pod("p", group="g"), TaskId("p")
    seen = manifests.mirror(*CLUSTER, waits)
    told = {**waits, "status": {**waits["status"], "conditions": [UNSCHEDULED]}}
    assert not seen.has_reason(task)
    assert apply(seen, told) is NONE
    assert seen.has_reason(task)
    assert apply(seen, waits) is NONE
    assert not seen.has_reason(task)
    assert not seen.has_reason(TaskId("unknown"))


def test_a_pod_made_anew_under_its_name_is_another_pod() -> None:
    """The end of the old one isn't the end of the new one."""
    old = manifests.pod("p", uid="old", node="n1", version=1)
    new = manifests.pod("p", uid="new", node="n1", version=2)
    seen = manifests.mirror(*CLUSTER, old, new)
    assert manifests.used(seen, "n1") == 2000
    seen.apply(manifests.removal_of(old))
    assert manifests.used(seen, "n1") == 1000
    assert not seen.apply(manifests.removal_of(old))
    assert seen.reference(KIND.POD, "new") == Reference(uid="new", resource_version="2")
    assert seen.reference(KIND.POD, "old") is None


@pytest.mark.parametrize("uid", ["old", "new", ""])
def test_other_kinds_go_only_by_their_own_uid(uid: str) -> None:
    """A late word of the old object's end leaves the new one; without a UID the name counts."""
    seen = manifests.mirror(manifests.node("n1", uid="old"), manifests.node("n1", uid="new"))
    seen.apply(Remove(kind=KIND.NODE, namespace="", name="n1", uid=uid))
    assert seen.snapshot(0.0).nodes.layout.size == (1 if uid == "old" else 0)


def test_a_list_replaces_everything_of_its_kind() -> None:
    """What isn't in it is gone, also where its versions are older than those known."""
    seen = manifests.mirror(
        *CLUSTER,
        manifests.pod("a", group="g", node="n1", version=5),
        manifests.pod("b", group="g", node="n1", version=5),
    )
    left = (
        manifests.pod("b", group="g", node="n2", version=1),
        manifests.pod("c", group="g"),
    )
    assert manifests.show_list(seen, KIND.POD, *left)
    assert manifests.statuses(manifests.job_of(seen, "g")) == {"b": "Running", "c": "Pending"}
    assert (manifests.used(seen, "n1"), manifests.used(seen, "n2")) == (0, 1000)
    assert not manifests.show_list(seen, KIND.POD, *left)
    assert manifests.show_list(seen, KIND.NODE)
    assert seen.snapshot(0.0).nodes.layout.size == 0
    assert len(seen.snapshot(0.0).jobs) == 1


def test_rejections_last_until_mended_or_gone() -> None:
    """Of wrong types and of wrong values; the object itself is left out."""
    bad_type = manifests.queue("a", {"weight": "heavy"})
    bad_value = manifests.queue("b", {"weight": 0})
    nameless = manifests.queue("")
    seen = manifests.mirror(bad_type, bad_value, nameless)
    assert {key: each.field for (_, key), each in seen.rejections.items()} == {
        "a": "spec.weight",
        "b": "spec.weight",
        "": "metadata.name",
    }
    assert list(seen.snapshot(0.0).queues) == []
    apply(seen, manifests.queue("a"))
    seen.apply(manifests.removal_of(bad_value))
    assert list(seen.rejections) == [(KIND.QUEUE, "")]
    assert manifests.show_list(seen, KIND.QUEUE, bad_type)
    assert list(seen.rejections) == [(KIND.QUEUE, "a")]
    assert list(seen.snapshot(0.0).queues) == []


def test_a_rejected_pod_keeps_its_room_and_its_group_an_owner() -> None:
    """It is no task, but it is ours, and it is there."""
    spec = {"tolerations": [{"value": "a"}]}
    seen = manifests.mirror(*CLUSTER, manifests.pod("p", group="g", node="n1", spec=spec))
    assert manifests.used(seen, "n1") == 1000
    assert manifests.job_of(seen, "g").tasks == ()
    assert [key for _, key in seen.rejections] == ["p"]


def test_an_empty_table_has_all_columns() -> None:
    """Before any node is there, too."""
    seen = manifests.mirror(*CLUSTER[2:])
    assert seen.snapshot(0.0).nodes.used.shape == (0, 3)
    apply(seen, manifests.pod("p", group="g", requests={"example.com/x": "1"}))
    assert seen.snapshot(0.0).nodes.used.shape == (0, 4)


def test_columns_come_and_go_with_the_names() -> None:
    """A resource that nothing names any more has no column, and the rest stays right."""
    with_gpu = manifests.node("n1", {"cpu": "4", "aaa.com/gpu": "8"})
    seen = manifests.mirror(*CLUSTER, manifests.pod("p", node="n1"))
    assert seen.snapshot(0.0).space.size == 3
    apply(seen, with_gpu)
    found = seen.snapshot(0.0)
    assert found.space.names[3:] == ("aaa.com/gpu",)
    assert found.nodes.allocatable.tolist() == [[4000, 0, 0, 8], [4000, 0, 10, 0]]
    assert found.nodes.used[0].tolist() == [1000, 0, 1, 0]
    apply(seen, manifests.node("n1"))
    assert seen.snapshot(0.0).space.size == 3
    pod = manifests.pod("q", group="g", requests={"aaa.com/gpu": "1"})
    apply(seen, pod)
    assert seen.snapshot(0.0).space.size == 4
    seen.apply(manifests.removal_of(pod))
    assert seen.snapshot(0.0).space.size == 3


def test_only_selected_nodes_are_seen() -> None:
    """A node needs one of the labels; it may get it and lose it while we run."""
    seen = manifests.mirror(
        manifests.node("n1", labels={"pool": "a"}),
        manifests.node("n2", labels={"pool": "c"}),
        manifests.node("n3", labels={"gpu": "b", "pool": "c"}),
        manifests.pod("p", node="n2", requests={"cpu": "1", "example.com/x": "1"}),
        node_selector=(("pool", "a"), ("gpu", "b")),
    )
    assert seen.snapshot(0.0).nodes.layout.names == ("n1", "n3")
    assert apply(seen, manifests.node("n2", labels={"pool": "a"}))
    assert manifests.used(seen, "n2") == 1000
    assert apply(seen, manifests.node("n1", labels={}))
    assert seen.snapshot(0.0).nodes.layout.names == ("n2", "n3")
    assert not apply(seen, manifests.node("n1", {"cpu": "9"}, labels={}))


def test_a_snapshot_stays_as_it_was() -> None:
    """What happens later doesn't reach into it."""
    seen = manifests.mirror(*CLUSTER, manifests.pod("p", group="g", node="n1"))
    before = seen.snapshot(0.0)
    kept = manifests.canonical(before)
    for document in (
        manifests.pod("p2", group="g", node="n1"),
        manifests.node("n0"),
        manifests.queue("q", {"weight": 9}),
        manifests.group("g", {"queue": "x"}),
    ):
        apply(seen, document)
        assert manifests.canonical(seen.snapshot(1.0)) != kept
        assert manifests.canonical(before) == kept


def test_one_event_costs_one_job_and_one_row() -> None:
    """Counted, with thousands of pods around: everything else is shared with the last snapshot."""
    documents = [manifests.node(f"n{number:03}", {"cpu": "99"}) for number in range(100)]
    documents += [manifests.group(f"g{number:03}") for number in range(200)]
    documents += [
        manifests.pod(f"p{number}", group=f"g{number % 200:03}", node=f"n{number % 100:03}")
        for number in range(3000)
    ]
    seen = manifests.mirror(*documents)
    before = seen.snapshot(0.0)
    assert seen.work == {"layouts": 1, "jobs": 200, "rows": 100, "seats": 1}
    apply(seen, manifests.pod("p7", group="g007", node="n007", phase="Succeeded"))
    after = seen.snapshot(1.0)
    assert seen.work == {"layouts": 1, "jobs": 201, "rows": 101, "seats": 2}
    changed = [new.name for old, new in zip(before.jobs, after.jobs, strict=True) if new is not old]
    assert changed == ["g007"]
    kept = zip(list(before.jobs)[7].tasks, list(after.jobs)[7].tasks, strict=True)
    assert [new.name for old, new in kept if new is not old] == ["p7"]
    assert after.nodes.layout is before.nodes.layout
    assert after.nodes.allocatable is before.nodes.allocatable
    again = seen.snapshot(2.0)
    assert again.queues is after.queues
    assert again.nodes is after.nodes
    assert again.jobs is after.jobs
    apply(seen, manifests.node("n0005", {"cpu": "1"}))
    assert seen.snapshot(3.0).nodes.used.sum() == after.nodes.used.sum()
    assert seen.work == {"layouts": 2, "jobs": 201, "rows": 102, "seats": 2}
