"""Groups of PodGroups: CompositePodGroups of Kubernetes' own API."""

from typing import Any

import pytest

from tests import device_labs
from tests.scenarios.test_native_pod_groups import WITH_TOPOLOGY, node, pods, queue, simulate
from tests.scenarios.test_native_pod_groups import group as plain
from vscheduler.model.claim_decisions import ClaimAllocation
from vscheduler.simulator import run
from vscheduler.simulator.run import Outcome

Document = dict[str, Any]


def root(name: str, count: int | None = None, **more: Any) -> Document:
    """A CompositePodGroup that needs so many groups, or with policy basic; `parent` is above it."""
    found = group(name, **more)
    gang = {"gang": {"minGroupCount": count}}
    found["spec"]["schedulingPolicy"] = {"basic": {}} if count is None else gang
    found["apiVersion"] = "scheduling.k8s.io/v1alpha3"
    return {**found, "kind": "CompositePodGroup"}


def group(name: str, count: int | None = None, parent: str = "", **more: Any) -> Document:
    """A PodGroup below this one."""
    above = {"parentCompositePodGroupName": parent} if parent else {}
    return plain(name, count, workloadRef={"workloadName": "w"}, **above, **more)


def parts(parent: str, *names: str, count: int = 2, cpu: int = 2) -> list[Document]:
    """PodGroups below a group, with just the pods that they need."""
    groups = [group(name, count, parent) for name in names]
    return [*groups, *(pod for name in names for pod in pods(name, count, cpu=cpu))]


def started(outcome: Outcome) -> dict[str, int]:
    """How many pods of each PodGroup were bound."""
    found: dict[str, int] = {}
    for key in run.tree(outcome)["binds"]:
        name = key.partition("/")[2].rpartition("-")[0]
        found[name] = found.get(name, 0) + 1
    return found


def told(outcome: Outcome, name: str) -> Document:
    """What is known of a CompositePodGroup, or else a PodGroup."""
    every: Document = run.tree(outcome)["podGroups"]
    key = f"default/{name}@composite.scheduling.k8s.io"
    found: Document = every.get(key) or every[f"default/{name}@scheduling.k8s.io"]
    return found


def conditions(outcome: Outcome, name: str) -> dict[str, tuple[str, str]]:
    """Its conditions by type: status and reason."""
    return {
        each["type"]: (each["status"], each["reason"]) for each in told(outcome, name)["conditions"]
    }


def test_a_gang_of_groups_starts_whole() -> None:
    """Both groups, of different sizes; the tree is one job, and says so."""
    outcome = simulate(
        *(node("n1"), node("n2"), root("r", 2), parts("r", "a"), parts("r", "b", count=1))
    )
    assert started(outcome) == {"a": 2, "b": 1}
    found = conditions(outcome, "r")
    assert found["CompositePodGroupInitiallyScheduled"] == ("True", "Scheduled")
    assert found["vscheduler.io/Phase"] == ("True", "Running")


def test_no_group_starts_without_the_others_that_it_needs() -> None:
    """One of the two would fit."""
    outcome = simulate(node("n1"), root("r", 2), parts("r", "a", "b"))
    assert started(outcome) == {}
    assert conditions(outcome, "r")["CompositePodGroupInitiallyScheduled"][0] == "False"


def test_as_many_groups_start_as_fit() -> None:
    """Two are needed, three exist, and two have room: of the third no pod starts."""
    outcome = simulate(node("n1", 6), node("n2"), root("r", 2), parts("r", "a", "b", "c"))
    assert sorted(started(outcome).values()) == [2, 2]
    more = simulate(node("n1", 6), node("n2", 6), root("r", 2), parts("r", "a", "b", "c"))
    assert started(more) == {"a": 2, "b": 2, "c": 2}


def test_the_needed_groups_may_be_unlike() -> None:
    """Two of three are needed: a small one starts with a large one, or with the other small one."""
    tree = [root("r", 2), parts("r", "a", count=4), parts("r", "b", count=1), parts("r", "c")]
    assert started(simulate(node("n1", 6), *tree)) == {"b": 1, "c": 2}
    assert started(simulate(node("n1", 5), *tree)) == {}
    assert started(simulate(node("n1", 10), node("n2", 4), *tree)) == {"a": 4, "b": 1, "c": 2}
    outcome = simulate(node("n1", 5), *tree)
    assert "3 pods" in told(outcome, "r")["message"]


def test_fewer_groups_than_are_needed_do_not_start() -> None:
    """Two are needed, and one has room."""
    outcome = simulate(node("n1", 7), root("r", 2), parts("r", "a", "b", "c", cpu=3))
    assert started(outcome) == {}


def test_of_larger_groups_as_many_pods_start_as_fit() -> None:
    """Each needs two of its three pods: one pod more has room."""
    tree = [root("r", 2), group("a", 2, "r"), group("b", 2, "r"), *pods("a", 3), *pods("b", 3)]
    assert sorted(started(simulate(node("n1", 10), *tree)).values()) == [2, 3]
    assert started(simulate(node("n1", 7), *tree)) == {}


def test_a_pod_of_a_tree_that_runs_is_replaced() -> None:
    """One of its pods has failed: the new one starts beside the others."""
    done = {"conditions": [{"type": "CompositePodGroupInitiallyScheduled", "status": "True"}]}
    tree = [root("r", 2, status=done), group("a", 2, "r"), group("b", 2, "r")]
    outcome = simulate(
        *(node("n1", 8), tree, pods("b", 2, on="n1"), pods("a", 1, on="n1")),
        pods("a", 1, first=1),
    )
    assert started(outcome) == {"a": 1}


def ran(succeeded: int = 0) -> Document:
    """The status of a tree that has started, of which so many pods have succeeded."""
    found = [
        ("CompositePodGroupInitiallyScheduled", "Scheduled", ""),
        ("vscheduler.io/Phase", "Running", "queue default"),
        *([("vscheduler.io/Succeeded", "Succeeded", f"{succeeded} pods")] if succeeded else []),
    ]
    return {
        "conditions": [
            {"type": kind, "status": "True", "reason": reason, "message": message}
            for kind, reason, message in found
        ]
    }


REFILLED = {
    "another group lacks a pod, which nobody creates": ("a2:RW b2:R", 0, {"a": 1}),
    "the group lacks another one": ("a3:RW b2:RR", 0, {"a": 1}),
    "a pod of another group has succeeded": ("a2:RW b2:R", 1, {"a": 1}),
    "the others of the group have succeeded": ("a2:W b2:RR", 1, {"a": 1}),
    "all pods of another group have succeeded": ("a2:RW b2:", 2, {"a": 1}),
    "the others of the group are gone": ("a2:W b2:RR", 0, {}),
    "a group that hasn't started lacks a pod": ("a2:RR b2:RR c2:W", 0, {}),
    "a pod has succeeded, and a group hasn't started": ("a2:RW b2:R c2:W", 1, {"a": 1}),
    "a pod waits behind a gate": ("a2:RG b2:RW", 0, {"b": 1}),
    "all pods of the small one of three have succeeded": ("a3:RRW b1: c4:", 1, {"a": 1}),
    "one pod of the large one of three has succeeded": ("a1:W b4: c4:", 1, {}),
}


@pytest.mark.parametrize("case", REFILLED)
def test_replacements_in_a_tree_that_ran(case: str) -> None:
    """Those of PodGroups that still run start alone: others may never be created. PodGroups of
    which no pod is left begin anew, whole. R: runs, W: waits, G: waits behind a gate.
    """
    picture, succeeded, wanted = REFILLED[case]
    tree = [root("r", 2, status=ran(succeeded))]
    for text in picture.split():
        name, states = text[0], text.partition(":")[2]
        tree.append(group(name, int(text[1]), "r"))
        for first, state in enumerate(states):
            more: Document = {"schedulingGates": [{"name": "g"}]} if state == "G" else {}
            tree += pods(name, 1, first=first, on="n1" if state == "R" else "", **more)
    assert started(simulate(node("n1", 20), *tree)) == wanted


def test_a_group_of_a_tree_has_a_claim() -> None:
    """It is reserved for the PodGroup, whatever is above it."""
    claim = device_labs.claim("shared")
    entry = {"name": "gpus", "resourceClaimName": "shared"}
    members = pods("a", 2, cpu=1, resourceClaims=[entry])
    slice_ = device_labs.resource_slice("n2", 1)
    outcome = simulate(
        *(node("n1"), node("n2"), root("r", 1), group("a", 2, "r", resourceClaims=[entry])),
        *(claim, members, slice_, device_labs.device_class()),
    )
    (asked,) = outcome.results[0].claim_changes()
    assert isinstance(asked, ClaimAllocation)
    assert [(each.resource, each.name) for each in asked.reserved_for] == [("podgroups", "a")]
    assert set(run.tree(outcome)["binds"].values()) == {"n2"}


def test_groups_below_groups_start_together() -> None:
    """Three levels; the last PodGroup has no room."""
    tree = [root("r", 2), root("m", 2, parent="r"), parts("r", "a"), parts("m", "b", "c")]
    assert started(simulate(node("n1", 12), *tree)) == {"a": 2, "b": 2, "c": 2}
    assert started(simulate(node("n1", 11), *tree)) == {}


def test_two_of_three_below_a_gang_of_all() -> None:
    """The lower group needs two of its three, the upper one both of its two."""
    tree = [root("r", 2), root("m", 2, parent="r"), parts("r", "a"), parts("m", "b", "c", "d")]
    assert sorted(started(simulate(node("n1", 12), *tree)).values()) == [2, 2, 2]
    assert started(simulate(node("n1", 11), *tree)) == {}


def test_groups_with_policy_basic_are_independent() -> None:
    """One of them fits, and starts; a gang below is one job."""
    tree = [root("r"), root("m", 2, parent="r"), parts("r", "a"), parts("m", "b", "c")]
    assert started(simulate(node("n1", 4), *tree)) == {"a": 2}
    assert started(simulate(node("n1", 12), *tree)) == {"a": 2, "b": 2, "c": 2}


def near(key: str) -> Document:
    """A topology constraint."""
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


def racks(*sizes: int) -> list[Document]:
    """Nodes, each a rack of its own; two racks are a zone."""
    return [node(f"n{at}", cpu, zone=f"z{at // 2}", rack=f"r{at}") for at, cpu in enumerate(sizes)]


def test_domains_lie_inside_domains() -> None:
    """Each group in one rack, and both in one zone: the first has room for four pods, not so."""
    tree = [root("r", 2, **near("zone")), *pods("a", 2), *pods("b", 2)]
    tree += [group(name, 2, "r", **near("rack")) for name in "ab"]
    outcome = simulate(racks(6, 2, 4, 4), *tree, tiers=WITH_TOPOLOGY)
    binds = run.tree(outcome)["binds"]
    assert {binds[f"default/{name}-0"] for name in "ab"} == {"n2", "n3"}
    assert all(binds[f"default/{name}-0"] == binds[f"default/{name}-1"] for name in "ab")
    assert started(simulate(racks(6, 2, 6, 3), *tree, tiers=WITH_TOPOLOGY)) == {}


def test_only_the_groups_below_may_have_domains() -> None:
    """Each in one rack, wherever it is."""
    tree = [root("r", 2), *pods("a", 2), *pods("b", 2)]
    tree += [group(name, 2, "r", **near("rack")) for name in "ab"]
    outcome = simulate(racks(4, 3, 4), *tree, tiers=WITH_TOPOLOGY)
    assert set(run.tree(outcome)["binds"].values()) == {"n0", "n2"}
    assert started(simulate(racks(4, 3, 3), *tree, tiers=WITH_TOPOLOGY)) == {}


def test_independent_groups_share_a_domain() -> None:
    """Policy basic: the first group is in the zone, in which the second has no room."""
    tree = [root("r", **near("zone")), parts("r", "a", "b")]
    outcome = simulate(racks(4, 3, 4, 3), *tree, tiers=WITH_TOPOLOGY)
    assert started(outcome) == {"a": 2}
    assert started(simulate(racks(4, 4), *tree, tiers=WITH_TOPOLOGY)) == {"a": 2, "b": 2}


DEEP = [root("r1", 1), *(root(f"r{at}", 1, parent=f"r{at - 1}") for at in (2, 3, 4))]
MISSING = (
    "CompositePodGroup r, to which it belongs, doesn't exist, or the API server doesn't serve "
    "scheduling.k8s.io/v1alpha3"
)
UNEQUAL = (
    "CompositePodGroup r: minGroupCount 1 of 2 groups is only supported for PodGroups with "
    "equal topology"
)
ALL: Document = {"disruptionMode": {"all": {}}}
WRONG: dict[str, tuple[list[Document], str]] = {
    "missing parent": (
        [group("a", 1, "r")],
        MISSING,
    ),
    "missing child": (
        [root("r", 2), group("a", 1, "r")],
        "1 of 2 groups of CompositePodGroup r exist",
    ),
    "circle": (
        [root("r", 1, parent="s"), root("s", 1, parent="r"), group("a", 1, "s")],
        "CompositePodGroup r is above itself",
    ),
    "depth": ([*DEEP, group("a", 1, "r4")], "PodGroup a is on level 5; 4 are allowed"),
    "priority": (
        [root("r", 1, priority=3), group("a", 1, "r")],
        "PodGroup a has priority 0, CompositePodGroup r 3; both must name the same PriorityClass",
    ),
    "policy": (
        [root("r", 1), group("a", None, "r")],
        "PodGroup a has policy basic, CompositePodGroup r above it gang; both must be gangs",
    ),
    "mode": (
        [root("r", 1, **ALL), group("a", 1, "r")],
        "PodGroup a has no disruptionMode all, CompositePodGroup r above it has; both need it",
    ),
    "workload": (
        [root("r", 1), plain("a", 1, parentCompositePodGroupName="r")],
        "PodGroup a names Workload (none), CompositePodGroup r w; both must name the same",
    ),
    "unequal": (
        [root("r", 1), group("a", 1, "r"), group("b", 1, "r", **near("rack"))],
        UNEQUAL,
    ),
    "some of groups of groups": (
        [root("r", 1), group("a", 1, "r"), root("m", 1, parent="r")],
        UNEQUAL,
    ),
    "topology in the middle": (
        [root("r", 1), root("m", 1, parent="r", **near("rack")), group("a", 1, "m")],
        "a topology of CompositePodGroup m, which is below another, isn't supported",
    ),
    "topologies side by side": (
        [root("r", 2), group("a", 1, "r", **near("rack")), group("b", 1, "r", **near("row"))],
        "PodGroups with several topologies (rack, row) aren't supported",
    ),
    "topology above gangs of groups": (
        [root("r", **near("zone")), root("m", 1, parent="r"), group("a", 1, "m")],
        "CompositePodGroup r: a topology with policy basic is only supported above PodGroups",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_pods_wait_for_a_tree_that_is_right(case: str) -> None:
    """What is wrong, or isn't supported, is told to the PodGroup and its pods."""
    tree, says = WRONG[case]
    outcome = simulate(node("n1"), tree, pods("a", 1), cycles=1)
    assert started(outcome) == {}
    assert told(outcome, "a")["reason"] == "PodGroupError"
    assert told(outcome, "a")["message"] == says
    (status,) = (each for each in outcome.results[0].groups if each.rejections)
    assert [each.message for each in status.rejections] == [says]


@pytest.mark.parametrize(("above", "below", "wanted"), [("x", "y", "x"), ("", "y", "y")])
def test_the_queue_is_that_of_the_root(above: str, below: str, wanted: str) -> None:
    """Else that of a PodGroup."""
    tree = [root("r", 1, queue=above), group("a", 2, "r", queue=below), pods("a", 2)]
    outcome = simulate(node("n1"), queue("x"), queue("y"), *tree)
    assert started(outcome) == {"a": 2}
    assert told(outcome, "r")["queue"] == wanted


@pytest.mark.parametrize(("count", "wanted"), [(2, {"a": 2, "b": 2}), (None, {"b": 2})])
def test_a_group_without_a_queue_is_in_that_of_its_tree(
    count: int | None, wanted: dict[str, int]
) -> None:
    """Where the tree is one job, it is that of the PodGroup that names one; the default queue is
    closed.
    """
    closed = {**queue("default"), "status": {"state": "Closed"}}
    tree = [root("r", count), parts("r", "a"), group("b", 2, "r", queue="y"), pods("b", 2)]
    outcome = simulate(node("n1", 8), closed, queue("y"), *tree)
    assert started(outcome) == wanted


@pytest.mark.parametrize(("mode", "evicted"), [(ALL, 5), ({}, 1)])
def test_evictions_take_what_the_tree_permits(mode: Document, evicted: int) -> None:
    """A tree that borrows has a pod above its minimum: this one goes, or all."""
    tree = [root("r", 2, queue="x", **mode), group("a", 2, "r", **mode), group("b", 2, "r", **mode)]
    outcome = simulate(
        *(node("n1", 10), queue("x"), queue("y"), tree),
        *(pods("a", 3, on="n1"), pods("b", 2, on="n1"), plain("new", 1, queue="y"), pods("new", 1)),
        cycles=1,
    )
    assert len(run.tree(outcome)["evicts"]) == evicted
