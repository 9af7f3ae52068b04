"""What would start a gang of Kubernetes' own PodGroup (scheduling.k8s.io)."""

from typing import Any

import pytest

from tests import running
from tests.scenarios import test_native_pod_groups as native
from tests.scenarios.test_group_trees import group as below
from tests.scenarios.test_group_trees import root
from tests.scenarios.test_native_pod_groups import group, node, pods, queue
from vscheduler.explain import remedies, wording
from vscheduler.explain.remedies import Explanation, NotWaitingError
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

CONSTRAINED = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


def explained(*documents: Any, **options: Any) -> Explanation:
    """The explanation of PodGroup g, or of the job of this name."""
    every = [each for some in documents for each in (some if isinstance(some, list) else [some])]
    tree = {
        "actions": "enqueue, allocate, backfill, reclaim",
        "tiers": running.tiers(options.get("tiers", native.TIERS)),
    }
    policy = running.policy_of(tree)
    name = options.get("name", "default/g@scheduling.k8s.io")
    return remedies.explain(run.read(every, policy, Options()), policy, name)


def lines(found: Explanation) -> list[str]:
    """Its remedies."""
    assert found.starts is None
    assert found.cut == ()
    return [wording.sentence(remedy) for remedy in found.remedies]


def test_a_gang_that_is_too_large() -> None:
    """Its minimum has another name than Volcano's."""
    found = explained(node("n1"), group("g", 3), pods("g", 3))
    assert lines(found) == [
        "lower spec.schedulingPolicy.gang.minCount from 3 to 2, if the job can do with 2 pods",
        "let its pods ask for 1.3 cpu instead of 2",
        "add 1 more node like n1 (4 cpu and 64Gi memory)",
    ]
    assert all(remedy.minimal for remedy in found.remedies)


def test_the_bare_name_suffices_where_it_is_unique() -> None:
    """Volcano's PodGroup of that name comes first."""
    volcanos = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 2},
    }
    pod = pods("x", 1)[0]
    pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    del pod["spec"]["schedulingGroup"]
    given = [node("n1"), group("g", 3), *pods("g", 3)]
    assert explained(*given, name="default/g").job == "default/g@scheduling.k8s.io"
    assert explained(*given, volcanos, pod, name="default/g").job == "default/g"
    with pytest.raises(NotWaitingError, match="PodGroup default/g waits: no scheduler takes"):
        explained(*given, volcanos, name="default/g")


def test_a_gang_that_lacks_pods() -> None:
    """They are copied, with the name of their PodGroup."""
    found = explained(node("n1", 8), group("g", 4), pods("g", 3))
    assert lines(found) == [
        "create 1 more pod",
        "lower spec.schedulingPolicy.gang.minCount from 4 to 3, if the job can do with 3 pods",
    ]
    assert "(spec.schedulingPolicy.gang.minCount 4)" in wording.lines(found)[0]


def test_a_minimum_by_annotation() -> None:
    """The policy is basic, and the controllers have copied the annotation of a Job."""
    annotated = group("g")
    annotated["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": "3"}
    field = "annotation scheduling.volcano.sh/group-min-member"
    found = explained(node("n1"), annotated, pods("g", 3))
    assert lines(found)[0] == f"lower {field} from 3 to 2, if the job can do with 2 pods"
    lacking = explained(node("n1", 8), annotated, pods("g", 2))
    assert f"({field} 3)" in wording.lines(lacking)[0]


def test_a_queue_that_does_not_exist() -> None:
    """The PodGroup names it in an annotation."""
    found = explained(node("n1", 8), queue("lab"), group("g", 2, queue="lap"), pods("g", 2))
    annotation = "annotation scheduling.volcano.sh/queue-name"
    assert lines(found) == ["create queue lap", f"name queue lab instead of lap in {annotation}"]
    assert wording.lines(found)[0].endswith(
        f"queue lap doesn't exist; create it, or name another in {annotation}"
    )


def test_a_topology_is_left_out_and_never_softened() -> None:
    """The API has neither tiers nor modes, and constraints can't be changed."""
    found = explained(
        *(node("n1", 4, rack="a"), node("n2", 4, rack="b")),
        *(group("g", 4, **CONSTRAINED), pods("g", 4)),
        tiers=native.WITH_TOPOLOGY,
    )
    said = lines(found)
    assert "create the PodGroup without spec.schedulingConstraints (topology rack)" in said
    text = " ".join((*said, *wording.lines(found)))
    assert "create the PodGroup without spec.schedulingConstraints, ask for less" in text
    assert "tier" not in text
    assert "soft" not in text


def test_a_gang_starts_anew_in_another_domain() -> None:
    """A pod runs where the others have no room."""
    started = {
        "conditions": [
            {"type": "PodGroupInitiallyScheduled", "status": "True"},
            {"type": "vscheduler.io/Phase", "status": "True", "reason": "Running"},
        ]
    }
    found = explained(
        *(node("n1", 4, rack="a"), node("n2", 8, rack="b")),
        *(group("g", 3, status=started, **CONSTRAINED), pods("g", 1, on="n1")),
        pods("g", 2, first=1),
        tiers=native.WITH_TOPOLOGY,
    )
    assert "restart it: delete its 1 running pod" in lines(found)


def test_the_end_of_another_gang() -> None:
    """Its pods and its PodGroup go."""
    found = explained(
        *(node("n1", 8), group("old", 4), pods("old", 4, on="n1")),
        *(group("g", 2), pods("g", 2)),
    )
    assert [line for line in lines(found) if "end" in line] == [
        "wait for the end of job default/old@scheduling.k8s.io, or end it: its 4 pods hold 8 cpu"
    ]


def test_pods_that_contradict_their_group_exist() -> None:
    """Nobody is to create them."""
    found = explained(
        *(node("n1", 8), group("g", 2, priority=5)),
        *(pods("g", 1, priority=5), pods("g", 1, first=1, priority=7)),
    )
    assert lines(found) == ["create 1 pod again with priority 5, that of the PodGroup"]
    assert found.uncreated == 0
    assert not found.for_admission
    assert "pod g-1 has priority 7" in wording.lines(found)[0]


@pytest.mark.parametrize("on", ["", "n1"])
def test_pods_that_name_another_scheduler_are_created_again(on: str) -> None:
    """Those that have a node, too: nobody may start a part of a gang."""
    found = explained(
        *(node("n1", 8), group("g", 3), pods("g", 2)),
        pods("g", 1, first=2, on=on, schedulerName="default-scheduler"),
    )
    assert lines(found) == ["create 1 pod again with schedulerName vscheduler, as the others have"]


@pytest.mark.parametrize(("minimum", "helps"), [(2, True), (3, False)])
def test_a_gang_that_goes_whole_could_lose_single_pods(minimum: int, *, helps: bool) -> None:
    """It is too large to go for a single pod, and has more pods than it needs."""
    every: dict[str, Any] = {"disruptionMode": {"all": {}}}
    found = explained(
        *(node("n1", 12), queue("a"), queue("b")),
        *(group("old", minimum, queue="a", **every), pods("old", 3, on="n1")),
        *(group("other", 3, queue="a", **every), pods("other", 3, on="n1")),
        *(group("g", 1, queue="b"), pods("g", 1)),
    )
    said = (
        "create PodGroup default/old@scheduling.k8s.io again with disruptionMode single, "
        f"as it has 3 pods and needs {minimum}"
    )
    assert any(line.startswith(said) for line in lines(found)) is helps


@pytest.mark.parametrize("name", ["default/r", "default/a", "default/b@scheduling.k8s.io"])
def test_changes_of_a_tree(name: str) -> None:
    """It may be named by a part of it. Nothing is said of the minimum, as it has several."""
    tree = [root("r", 2), below("a", 2, "r"), below("b", 1, "r")]
    found = explained(node("n1"), tree, pods("a", 2), pods("b", 1), name=name)
    assert found.job == "default/r@composite.scheduling.k8s.io"
    assert lines(found) == [
        "let its pods ask for 1.3 cpu instead of 2",
        "add 1 more node like n1 (4 cpu and 64Gi memory)",
    ]


def test_other_queue_of_a_tree() -> None:
    """The queue of the CompositePodGroup counts for all."""
    tree = [root("r", 1, queue="lap"), below("a", 2, "r", queue="lap"), *pods("a", 2)]
    found = explained(node("n1"), queue("lab"), tree, name="default/r")
    assert lines(found) == [
        "create queue lap",
        "name queue lab instead of lap in annotation scheduling.volcano.sh/queue-name",
    ]


def test_pods_that_a_tree_lacks() -> None:
    """Of the PodGroup that lacks some; pods of one without any can't be copied."""
    tree = [root("r", 2), below("a", 1, "r"), below("b", 2, "r"), *pods("a", 1)]
    lacks_one = explained(node("n1", 8), tree, pods("b", 1), name="default/r")
    assert lines(lacks_one) == ["create 1 more pod"]
    lacks_all = explained(node("n1", 8), tree, name="default/r")
    assert lines(lacks_all) == []


def test_topology_of_a_tree() -> None:
    """The CompositePodGroup has it."""
    racks = [node("n1", 2, rack="r1"), node("n2", 2, rack="r2")]
    tree = [root("r", 1, **CONSTRAINED), below("a", 2, "r"), *pods("a", 2)]
    found = explained(*racks, tree, name="default/r", tiers=native.WITH_TOPOLOGY)
    said = "create the PodGroup without spec.schedulingConstraints (topology rack)"
    assert said in lines(found)


def test_restart_of_a_tree() -> None:
    """Pods that run keep the others from a place beside them."""
    racks = [node("n1", 2, rack="r1"), node("n2", 4, rack="r2")]
    done = {"conditions": [{"type": "CompositePodGroupInitiallyScheduled", "status": "True"}]}
    tree = [root("r", 1, status=done, **CONSTRAINED), below("a", 2, "r")]
    members = [*pods("a", 1, on="n1"), *pods("a", 1, first=1)]
    found = explained(*racks, tree, members, name="default/r", tiers=native.WITH_TOPOLOGY)
    assert "restart it: delete its 1 running pod" in lines(found)


def test_priority_of_a_tree() -> None:
    """All of its pods need it."""
    tree = [root("r", 1, priority=5), below("a", 1, "r", priority=5), *pods("a", 1, priority=3)]
    found = explained(node("n1"), tree, name="default/r")
    assert lines(found) == ["create 1 pod again with priority 5, that of the PodGroup"]


def test_the_end_of_a_tree_makes_room() -> None:
    """All of its pods go."""
    tree = [root("r", 2), below("a", 2, "r"), below("b", 2, "r")]
    running_ = [*pods("a", 2, on="n1"), *pods("b", 2, on="n1")]
    found = explained(node("n1", 8), tree, running_, group("g", 3), pods("g", 3))
    assert lines(found)[-1] == (
        "wait for the end of job default/r@composite.scheduling.k8s.io, or end it: "
        "its 4 pods hold 8 cpu"
    )
