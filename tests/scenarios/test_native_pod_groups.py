"""Pods of Kubernetes' own PodGroups (scheduling.k8s.io)."""

from typing import Any

import pytest

from tests import running
from tests.scenarios import alone
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.simulator import run
from vscheduler.simulator.run import Options, Outcome

VERSION = "scheduling.k8s.io/v1beta1"
TIERS = "priority gang | drf predicates proportion nodeorder"
WITH_TOPOLOGY = f"{TIERS} network-topology-aware"


def node(name: str, cpu: int = 4, **labels: str) -> dict[str, Any]:
    """A node."""
    metadata = {"name": name, "labels": labels}
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": 110}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"allocatable": allocatable},
    }


def group(name: str, count: int | None = None, **more: Any) -> dict[str, Any]:
    """A PodGroup that needs so many pods, or with policy basic; `queue` is its annotation."""
    policy = {"basic": {}} if count is None else {"gang": {"minCount": count}}
    metadata: dict[str, Any] = {"name": name, "generation": 3}
    if queue := more.pop("queue", ""):
        metadata["annotations"] = {"scheduling.volcano.sh/queue-name": queue}
    status = more.pop("status", {})
    spec = {"schedulingPolicy": policy, **more}
    return {
        "apiVersion": VERSION,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def pods(of: str, number: int, cpu: int = 2, on: str = "", **more: Any) -> list[dict[str, Any]]:
    """So many pods of a PodGroup, all of them on a node or waiting; `first` is the first number."""
    begin = more.pop("first", 0)
    phase = more.pop("phase", "Running" if on else "Pending")
    spec = {
        "schedulerName": "vscheduler",
        "schedulingGroup": {"podGroupName": of},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        **({"nodeName": on} if on else {}),
        **more,
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{of}-{place}"},
            "spec": spec,
            "status": {"phase": phase},
        }
        for place in range(begin, begin + number)
    ]


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A Queue."""
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def simulate(*documents: Any, **options: Any) -> Outcome:
    """Run cycles with these objects, given one by one or as lists."""
    every = [each for some in documents for each in (some if isinstance(some, list) else [some])]
    tree = {
        "actions": options.pop("actions", "enqueue, allocate, backfill, reclaim"),
        "tiers": running.tiers(options.pop("tiers", TIERS)),
    }
    if "compatibility" in options:
        tree["compatibility"] = options.pop("compatibility")
        given = options.pop("arguments", {})
        tree["configurations"] = [{"name": name, "arguments": of} for name, of in given.items()]
    return run.simulate(every, running.policy_of(tree), Options(**{"cycles": 2, **options}))


def told(outcome: Outcome, name: str) -> dict[str, Any]:
    """What is known of a PodGroup after the last cycle."""
    found: dict[str, Any] = run.tree(outcome)["podGroups"][f"default/{name}@scheduling.k8s.io"]
    return found


def conditions(outcome: Outcome, name: str) -> dict[str, tuple[str, str, str]]:
    """Its conditions by type."""
    return {
        each["type"]: (each["status"], each["reason"], each.get("message", ""))
        for each in told(outcome, name)["conditions"]
    }


def why(outcome: Outcome, name: str) -> str:
    """Why it waits."""
    return conditions(outcome, name)["PodGroupInitiallyScheduled"][2]


def test_a_gang_starts_whole() -> None:
    """Three of three pods, and their PodGroup says so as kube-scheduler would."""
    outcome = simulate(node("n1"), node("n2"), group("g", 3), pods("g", 3))
    assert set(run.tree(outcome)["binds"]) == {"default/g-0", "default/g-1", "default/g-2"}
    found = conditions(outcome, "g")
    assert found["PodGroupInitiallyScheduled"] == ("True", "Scheduled", "")
    assert found["vscheduler.io/Phase"] == ("True", "Running", "queue default")


def test_a_gang_without_room_for_all_waits_whole() -> None:
    """Two of three would fit."""
    outcome = simulate(node("n1"), group("g", 3), pods("g", 3))
    assert not run.tree(outcome)["binds"]
    status, reason, message = conditions(outcome, "g")["PodGroupInitiallyScheduled"]
    assert (status, reason) == ("False", "Unschedulable")
    assert "2 of 3" in message
    assert conditions(outcome, "g")["vscheduler.io/Phase"][:2] == ("False", "Pending")


def test_a_gang_that_lacks_pods_waits() -> None:
    """Of four, three exist."""
    outcome = simulate(node("n1", 8), group("g", 4), pods("g", 3))
    assert not run.tree(outcome)["binds"]
    assert told(outcome, "g")["reason"] == "NotEnoughTasks"


def test_of_a_larger_gang_as_many_start_as_fit() -> None:
    """Four are needed, six exist, five have room."""
    outcome = simulate(node("n1", 10), group("g", 4), pods("g", 6))
    assert len(run.tree(outcome)["binds"]) == 5


def test_pods_of_a_basic_group_start_one_by_one() -> None:
    """No minimum."""
    outcome = simulate(node("n1"), group("g"), pods("g", 3))
    assert len(run.tree(outcome)["binds"]) == 2


@pytest.mark.parametrize(("text", "bound"), [("3", 0), ("2", 2), ("0", 2), ("many", 2)])
def test_a_basic_group_may_have_a_minimum_by_annotation(text: str, bound: int) -> None:
    """It is that of a Job which doesn't say `scheduling`; what is no number counts for nothing."""
    basic = group("g")
    basic["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": text}
    outcome = simulate(node("n1"), basic, pods("g", 3))
    assert len(run.tree(outcome)["binds"]) == bound


def test_pods_wait_for_their_group_and_are_told() -> None:
    """It may come yet, or it is of a version that isn't served."""
    outcome = simulate(node("n1"), pods("g", 1), cycles=1)
    (status,) = outcome.results[0].groups
    (rejection,) = status.rejections
    assert not outcome.results[0].binds
    assert rejection.name == "g-0"
    assert rejection.field == "spec.schedulingGroup.podGroupName"
    assert rejection.message.startswith("there is no PodGroup default/g of scheduling.k8s.io/v1b")


def test_pods_wait_if_their_group_is_deleted_meanwhile() -> None:
    """They start once there is one of this name again."""
    members = [alone.a_pod(f"g-{place}", group="g") for place in range(3)]
    gang = [alone.a_group("g", 3, "lab"), *members]
    mirror = alone.a_mirror(alone.a_node("n1"), alone.a_queue("lab"), *gang)
    assert not alone.binds(mirror)
    mirror.apply(Remove(kind=Kind.NATIVE_POD_GROUP, namespace="default", name="g", uid=""))
    alone.show(mirror, alone.a_node("n2"))
    assert not alone.binds(mirror)
    (status,) = alone.decide(mirror).groups
    assert {each.field for each in status.rejections} == {"spec.schedulingGroup.podGroupName"}
    alone.show(mirror, gang[0])
    assert alone.binds(mirror) == ["g-0", "g-1", "g-2"]


def test_both_kinds_of_groups_may_have_one_name() -> None:
    """A pod that names both belongs to Kubernetes' own; the other one lacks pods."""
    theirs = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1},
    }
    members = pods("g", 2)
    for each in members:
        each["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    outcome = simulate(node("n1"), theirs, group("g", 2), members, claim_unowned=True)
    assert len(run.tree(outcome)["binds"]) == 2
    assert run.tree(outcome)["podGroups"]["default/g"]["reason"] == "NotEnoughTasks"


@pytest.mark.parametrize("where", ["annotation", "namespace", "default"])
def test_a_group_has_a_queue(where: str) -> None:
    """Its own, else its namespace's, else the default one."""
    named: dict[str, Any] = {"name": "default"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": named}
    if where == "namespace":
        named["annotations"] = {"scheduling.volcano.sh/queue-name": "team"}
    wanted = {"annotation": "own", "namespace": "team", "default": "default"}[where]
    own = {"queue": "own"} if where == "annotation" else {}
    outcome = simulate(
        *(node("n1"), space, queue("own"), queue("team")), group("g", 2, **own), pods("g", 2)
    )
    assert told(outcome, "g")["queue"] == wanted
    assert len(run.tree(outcome)["binds"]) == 2


@pytest.mark.parametrize("part", ["annotations", "labels"])
@pytest.mark.parametrize("where", ["pod", "owner", "controller"])
def test_a_group_gets_the_queue_of_pods_and_owners(where: str, part: str) -> None:
    """As the controllers write it: of the newest pod, else of what has created it or its pods."""
    queues = {part: {"scheduling.volcano.sh/queue-name": "own"}}
    space = {"name": "default", "annotations": {"scheduling.volcano.sh/queue-name": "team"}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
    owned, members = group("g", 2), pods("g", 2)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j"}
    for each, created in zip(
        members, ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), strict=True
    ):
        each["metadata"]["creationTimestamp"] = created
    if where == "pod":
        members[0]["metadata"] |= queues
        members[1]["metadata"][part] = {"scheduling.volcano.sh/queue-name": "team"}
    else:
        owner["metadata"] = {"name": "train", **queues}
        for each in [owned] if where == "owner" else members:
            each["metadata"]["ownerReferences"] = [reference]
    outcome = simulate(
        *(node("n1"), queue("own"), queue("team"), owner, owned, members),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": space},
    )
    assert told(outcome, "g")["queue"] == "own"
    assert len(run.tree(outcome)["binds"]) == 2


@pytest.mark.parametrize(
    ("on", "text", "minimum"),
    [("pod", "3", 3), ("owner", "3", 3), ("owner", "parallelism", 4), ("owner", "9", 4)],
)
def test_a_group_without_a_gang_gets_the_minimum_of_its_job(
    on: str, text: str, minimum: int
) -> None:
    """As the controllers write it: no more than the Job has pods."""
    least = {"annotations": {"scheduling.volcano.sh/group-min-member": text}}
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j"}
    job: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 4}}
    job["metadata"] = {"name": "train", **(least if on == "owner" else {})}
    members = pods("g", minimum)
    for each in members:
        owned = {"ownerReferences": [{**reference, "controller": True}]}
        each["metadata"] |= {**owned, **(least if on == "pod" else {})}
    few = simulate(node("n1", 8), job, group("g"), members[1:])
    assert run.tree(few)["binds"] == {}
    assert f"(annotation scheduling.volcano.sh/group-min-member {minimum})" in why(few, "g")
    assert len(run.tree(simulate(node("n1", 8), job, group("g"), members))["binds"]) == minimum


def test_a_gang_of_nobody_is_refused() -> None:
    """The API server refuses it, too."""
    outcome = simulate(node("n1"), group("g", 0), pods("g", 1))
    assert run.tree(outcome)["binds"] == {}
    (problem,) = outcome.problems
    assert "spec.schedulingPolicy.gang.minCount: 0 is not at least 1" in str(problem)


def test_a_gang_that_was_evicted_and_runs_again_is_no_target() -> None:
    """While it waits, the condition tells for whom it went."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    evicted = group("g", 2, status={"conditions": [{**condition, "message": "m"}]})
    waits = simulate(node("n1", 1), evicted, pods("g", 2))
    assert conditions(waits, "g")["DisruptionTarget"][0] == "True"
    runs = simulate(node("n1", 8), evicted, pods("g", 2))
    assert conditions(runs, "g")["DisruptionTarget"] == ("False", "Scheduled", "")


def test_a_namespace_may_require_that_a_group_names_a_queue() -> None:
    """Then the group doesn't start in the default queue, and a note says why."""
    required = {"vscheduler.io/require-queue": "true"}
    metadata = {"name": "default", "annotations": required}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    outcome = simulate(node("n1"), space, group("g", 2), pods("g", 2))
    assert run.tree(outcome)["binds"] == {}
    (note,) = outcome.notes
    assert note.startswith("PodGroup default/g can't start, as it names no queue")
    named = group("g", 2, queue="own")
    outcome = simulate(node("n1"), space, queue("own"), named, pods("g", 2))
    assert (len(run.tree(outcome)["binds"]), outcome.notes) == (2, ())


def test_three_queues_share_fairly_whatever_their_groups_are() -> None:
    """75 CPU: pods of Kubernetes' PodGroups count as all others do."""
    documents: list[Any] = [node(f"n{at}", 15) for at in range(5)]
    for name in ("a", "b", "c"):
        documents += [queue(name, weight=1), group(name, queue=name), *pods(name, 40, cpu=1)]
    outcome = simulate(*documents)
    found = run.tree(outcome)["queues"]
    assert {name: found[name]["allocated"]["cpu"] for name in "abc"} == dict.fromkeys("abc", "25")


def test_pods_of_several_schedulers_contradict_their_group() -> None:
    """Nobody may start a part of it."""
    outcome = simulate(
        node("n1", 8), group("g", 2), pods("g", 2), pods("g", 1, first=2, schedulerName="other")
    )
    assert not run.tree(outcome)["binds"]
    assert told(outcome, "g")["reason"] == "PodGroupError"
    assert conditions(outcome, "g")["PodGroupInitiallyScheduled"][:2] == ("False", "PodGroupError")


def test_pods_of_another_priority_contradict_their_group() -> None:
    """The first one is named."""
    outcome = simulate(
        *(node("n1", 8), group("g", 2, priority=5)),
        *(pods("g", 1, priority=5), pods("g", 1, first=1, priority=7)),
    )
    assert not run.tree(outcome)["binds"]
    assert told(outcome, "g")["message"] == (
        "pod g-1 has priority 7, its PodGroup 5; both must name the same PriorityClass"
    )


@pytest.mark.parametrize(("policy", "bound"), [("Never", 2), ("PreemptLowerPriority", 0), ("", 2)])
def test_pods_of_another_preemption_policy_contradict_their_group(policy: str, bound: int) -> None:
    """Where the PodGroup says one: older API servers don't."""
    says = {"preemptionPolicy": policy} if policy else {}
    outcome = simulate(
        *(node("n1", 8), group("g", 2, priority=5, **says)),
        pods("g", 2, priority=5, preemptionPolicy="Never"),
    )
    assert len(run.tree(outcome)["binds"]) == bound


def test_a_pod_is_replaced_though_others_succeeded_and_are_deleted() -> None:
    """A condition counts them, for whoever starts scheduling then."""
    told_before = [
        {"type": "vscheduler.io/Phase", "status": "True", "reason": "Running"},
        {"type": "vscheduler.io/Succeeded", "status": "True", "message": "2 pods succeeded"},
    ]
    waits = pods("g", 1, first=3)
    outcome = simulate(node("n1", 8), group("g", 3, status={"conditions": told_before}), waits)
    assert set(run.tree(outcome)["binds"]) == {"default/g-3"}
    assert conditions(outcome, "g")["vscheduler.io/Succeeded"][2] == "2 pods succeeded"


def test_a_pod_is_replaced_after_another_one_has_finished() -> None:
    """A gang Job of which one index is done and another has failed isn't stuck."""
    started = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
    outcome = simulate(
        *(node("n1", 8), group("g", 3, status=started)),
        *(pods("g", 1, on="n1", phase="Succeeded"), pods("g", 1, first=1, on="n1")),
        pods("g", 1, first=3),
    )
    assert set(run.tree(outcome)["binds"]) == {"default/g-3"}


def test_the_last_pod_is_replaced_alone() -> None:
    """Nothing of the gang runs any more, and all others have succeeded."""
    started = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
    outcome = simulate(
        *(node("n1", 8), group("g", 3, status=started)),
        *(pods("g", 2, on="n1", phase="Succeeded"), pods("g", 1, first=3)),
    )
    assert set(run.tree(outcome)["binds"]) == {"default/g-3"}


@pytest.mark.parametrize(("mode", "evicted"), [({"all": {}}, 4), ({"single": {}}, 2)])
def test_evictions_take_what_the_group_permits(mode: dict[str, Any], evicted: int) -> None:
    """A group that borrows has two pods above its minimum: these go, or all."""
    outcome = simulate(
        *(node("n1", 8), queue("a"), queue("b")),
        *(group("old", 2, queue="a", disruptionMode=mode), pods("old", 4, on="n1")),
        *(group("new", 2, queue="b"), pods("new", 2)),
        cycles=1,
    )
    evicts = run.tree(outcome)["evicts"]
    assert len(evicts) == evicted
    assert {each["action"] for each in evicts} == {"reclaim"}


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(("mode", "evicted"), [({"single": {}}, 1), ({"all": {}}, 4)])
def test_with_compatibility_a_gang_goes_whole_too(
    action: str, mode: dict[str, Any], evicted: int, *, dry_run: bool
) -> None:
    """Also its pods on other nodes, for a single pod on one of them."""
    arguments = {"preempt": {"enableTopologyAwarePreemption": dry_run}}
    queues = ("a", "b") if action == "reclaim" else ("a", "a")
    outcome = simulate(
        *(node("n1"), node("n2"), *map(queue, "ab")),
        group("old", 2, queue=queues[0], disruptionMode=mode, priority=0),
        *(pods("old", 2, on="n1"), pods("old", 2, on="n2", first=2)),
        *(group("new", 1, queue=queues[1], priority=5), pods("new", 1, priority=5)),
        cycles=1,
        actions=f"enqueue, allocate, {action}",
        tiers="priority | drf predicates proportion nodeorder",
        compatibility="volcano",
        arguments=arguments,
    )
    evicts = run.tree(outcome)["evicts"]
    assert len(evicts) == evicted
    assert {each["action"] for each in evicts} == {action}


def test_with_compatibility_a_gang_stays_of_which_one_pod_has_to() -> None:
    """Who needs room takes another one."""
    keep = {"volcano.sh/preemptable": "false"}
    kept = pods("old", 2, on="n1")
    kept[0]["metadata"]["annotations"] = keep
    outcome = simulate(
        *(node("n1"), node("n2"), *map(queue, "ab")),
        *(group("old", 2, queue="a", disruptionMode={"all": {}}), kept),
        *(group("other", 1, queue="a"), pods("other", 2, on="n2")),
        *(group("new", 1, queue="b"), pods("new", 1)),
        cycles=1,
        actions="enqueue, allocate, reclaim",
        tiers="priority | drf predicates proportion nodeorder",
        compatibility="volcano",
    )
    assert [each["pod"] for each in run.tree(outcome)["evicts"]] == ["default/other-1"]


@pytest.mark.parametrize(
    ("mode", "evicted"), [({"single": {}}, ["g-0"]), ({"all": {}}, ["g-0", "g-1"])]
)
def test_with_compatibility_a_gang_leaves_lent_nodes_whole(
    mode: dict[str, Any], evicted: list[str]
) -> None:
    """Also its pod on a node that isn't lent."""
    zone = {"volcano.sh/revocable-zone": "night"}
    members = [*pods("g", 1, on="n1"), *pods("g", 1, first=1, on="n2")]
    for each in members:
        each["metadata"]["annotations"] = {"volcano.sh/preemptable": "true"}
    outcome = simulate(
        *(node("n1", 4, **zone), node("n2"), group("g", 1, disruptionMode=mode), members),
        cycles=1,
        actions="shuffle",
        tiers="gang predicates tdm:tdm.revocable-zone.night=22:00-06:00",
        compatibility="volcano",
    )
    assert [each["pod"] for each in run.tree(outcome)["evicts"]] == [
        f"default/{name}" for name in evicted
    ]


def test_a_topology_key_keeps_the_gang_on_nodes_with_one_value() -> None:
    """Rack b has room for all; in the whole cluster is more."""
    racks = [node("n1", 4, rack="a"), node("n2", 4, rack="b"), node("n3", 4, rack="b"), node("n4")]
    near = {"topology": [{"key": "rack"}]}
    outcome = simulate(
        *(racks, group("g", 4, schedulingConstraints=near), pods("g", 4)),
        tiers=WITH_TOPOLOGY,
    )
    assert set(run.tree(outcome)["binds"].values()) == {"n2", "n3"}


@pytest.mark.parametrize("where", ["n2", "n3"])
def test_nobody_joins_pods_that_are_in_no_domain(where: str) -> None:
    """One runs in rack a; the other in rack b, or on a node without a rack."""
    nodes = node("n1", 8, rack="a"), node("n2", 8, rack="b"), node("n3", 8)
    near = {"topology": [{"key": "rack"}]}
    members = pods("g", 1, on="n1"), pods("g", 1, first=1, on=where), pods("g", 1, first=2)
    grown = group("g", 2, schedulingConstraints=near)
    outcome = simulate(*nodes, grown, *members, tiers=WITH_TOPOLOGY)
    assert not run.tree(outcome)["binds"]
    assert told(outcome, "g")["message"].endswith("which aren't in one domain of the network")


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"rack": ""}, "spec.schedulingConstraints.topology[0]: no node has the label rack"),
        (
            {"rack": "a"},
            "4 pods must start in one rack; the largest, a, could hold 2 if it were empty",
        ),
    ],
)
def test_a_topology_key_is_never_broken(labels: dict[str, str], says: str) -> None:
    """There is room in the cluster, and in no domain; an empty value makes none."""
    near = {"topology": [{"key": "rack"}]}
    outcome = simulate(
        *(node("n1", 4, **labels), node("n2", 8)),
        *(group("g", 4, schedulingConstraints=near), pods("g", 4)),
        tiers=WITH_TOPOLOGY,
    )
    assert not run.tree(outcome)["binds"]
    assert says in told(outcome, "g")["message"]


def test_without_the_plugin_nobody_knows_of_topologies() -> None:
    """The sentence names what the API has."""
    near = {"topology": [{"key": "rack"}]}
    outcome = simulate(node("n1", 8), group("g", 2, schedulingConstraints=near), pods("g", 2))
    assert told(outcome, "g")["message"] == (
        "spec.schedulingConstraints.topology[0] is required, and plugin network-topology-aware "
        "isn't configured; correct it, or create the PodGroup without spec.schedulingConstraints"
    )
