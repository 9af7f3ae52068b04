"""What Volcano's own tests of network topology expect, case by case, in both ways of deciding."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests import running
from tests.running import Document
from vscheduler.testing import pictures

GROUPS = "subGroupPolicy"


def hyper_nodes(text: str) -> Iterator[Document]:
    """HyperNodes: `s0=n1,n2 s1=n3,n4 | s2=s0,s1`, the lowest tier first."""
    for tier, names in enumerate(text.split("|"), 1):
        for name, members in (each.split("=") for each in names.split()):
            kind = "Node" if tier == 1 else "HyperNode"
            yield {
                "apiVersion": "topology.volcano.sh/v1alpha1",
                "kind": "HyperNode",
                "metadata": {"name": name, "uid": name},
                "spec": {
                    "tier": tier,
                    "tierName": f"tier-{tier}",
                    "members": [
                        {"type": kind, "selector": {"exactMatch": {"name": member}}}
                        for member in members.split(",")
                    ],
                },
            }


def nodes(first: int, last: int, cpu: int) -> str:
    """Nodes of these numbers."""
    return " ".join(f"node n{number} cpu={cpu}" for number in range(first, last + 1))


T4 = ("s0=n1,n2 s1=n3,n4 | s2=s0,s1", nodes(1, 4, 2))
FLAT = ("s0=n1,n2 s1=n3,n4", nodes(1, 4, 2))
T8 = (
    "s3=n1,n2 s4=n3,n4 s5=n5,n6 s6=n7,n8 | s1=s3,s4 s2=s5,s6 | s0=s1,s2",
    nodes(1, 8, 2),
)
E8 = (
    "s0=n0,n1 s1=n2,n3 s2=n4,n5 s3=n6,n7 | s4=s0,s1 s5=s2,s3 | s6=s4,s5",
    nodes(0, 7, 8),
)
ODD = ("s0=n1,n2 s1=n3,n4 s2=n5 | s3=s0,s1,s2", nodes(1, 5, 2))
WIDE = ("s0=n1,n2 s1=n3,n4", nodes(1, 4, 4))


class Case(NamedTuple):
    """A cluster, and where the pods of job `j` are bound."""

    tree: tuple[str, str]
    jobs: str
    binds: int
    within: tuple[str, ...] = ()
    """All binds are on the nodes of one of these."""
    policies: tuple[tuple[str, int, int, int | None], ...] = ()
    """Of sub-groups: the first letter of roles, the size, how many are needed, the tier."""


CASES = {
    "a gang doesn't cross its tier": Case(T4, "job q/j min=3 cpu=2 topology=hard:1 -*3", 0),
    "a gang spreads as far as it may": Case(T4, "job q/j min=3 cpu=2 topology=hard:2 -*3", 3),
    "several domains suffice": Case(
        T4, "job q/j min=2 cpu=2 topology=hard:1 -*2", 2, ("n1 n2", "n3 n4")
    ),
    "pods above the minimum join it": Case(
        T4, "job q/j min=1 cpu=2 topology=hard:1 -*2", 2, ("n1 n2", "n3 n4")
    ),
    "a node selector decides": Case(
        ("s0=n1 s1=n2", "node n1 cpu=2 node n2 cpu=2 label=role=master"),
        "job q/j min=1 cpu=2 select=role=master topology=hard:1 -",
        1,
        ("n2",),
    ),
    "one more pod in the next rack": Case(
        T4, "job q/j min=2 cpu=2 topology=hard:2 n1 n2 -", 1, ("n3 n4",)
    ),
    "no more pod in a full rack": Case(T4, "job q/j min=2 cpu=2 topology=hard:1 n1 n2 -", 0),
    "one more pod in the same spine": Case(
        T8, "job q/j min=2 cpu=2 topology=hard:2 n1 n2 -", 1, ("n3 n4",)
    ),
    "no more pod beside a full rack": Case(T8, "job q/j min=2 cpu=2 topology=hard:1 n1 n2 -", 0),
    "all nodes are a tier above the highest": Case(
        FLAT, "job q/j min=2 cpu=2 topology=hard:2 n1 n2 -", 1
    ),
    "a tier by name that is too low": Case(T4, "job q/j min=3 cpu=2 topology=hard:tier-1 -*3", 0),
    "a tier by name": Case(T4, "job q/j min=3 cpu=2 topology=hard:tier-2 -*3", 3),
    "the fuller domain": Case(
        ("s0=n1,n2 s1=n3,n4", "node n1 cpu=4 node n2 cpu=8 node n3 cpu=4 node n4 cpu=8"),
        "job q/o cpu=2 n1 n2 n2 job q/j min=2 topology=hard:1 -@2 -@4",
        2,
        ("n1 n2",),
    ),
    "two of three domains": Case(
        ("s0=n1,n2 s1=n3,n4 s2=n5,n6 | s3=s0,s1,s2", nodes(1, 6, 4)),
        "job q/j min=4 cpu=4 topology=hard:2 -*4",
        4,
        ("n1 n2 n3 n4", "n1 n2 n5 n6", "n3 n4 n5 n6"),
    ),
    "soft goes on anywhere": Case(T8, "job q/j min=2 cpu=2 topology=soft:1 n1 n2 -", 1),
    "each sub-group in a domain of its size": Case(
        ("s0=n1,n2 s1=n3 | s2=s0,s1", nodes(1, 3, 2)),
        "job q/j min=3 cpu=2 topology=hard:2 a:- b:-*2",
        3,
        policies=(("a", 1, 1, 1), ("b", 2, 1, 1)),
    ),
    "a sub-group larger than a rack": Case(
        T4,
        "job q/j min=4 cpu=2 topology=soft a:- b:-*3",
        0,
        policies=(("a", 1, 0, 1), ("b", 1, 0, 1)),
    ),
    "sub-groups of two sizes": Case(
        ODD,
        "job q/j min=5 cpu=2 topology=hard:2 a:- b1:-*2 b2:-*2",
        5,
        policies=(("a", 1, 1, 1), ("b", 2, 2, 1)),
    ),
    "as many sub-groups as have room": Case(
        T4,
        "job q/j min=3 cpu=2 topology=hard:2 a1:- a2:- a3:- a4:- b1:-*2 b2:-*2",
        4,
        policies=(("a", 1, 2, 1), ("b", 2, 1, 1)),
    ),
    "a minimum above the minima of sub-groups": Case(
        T4,
        "job q/j min=5 cpu=2 topology=hard:2 a1:- a2:- a3:- b1:-*2",
        0,
        policies=(("a", 1, 1, 1), ("b", 2, 1, 1)),
    ),
    "minima of sub-groups above the minimum": Case(
        T4,
        "job q/j min=3 cpu=2 topology=hard:2 a1:- b1:-*2 b2:-*2",
        0,
        policies=(("a", 1, 1, 1), ("b", 2, 2, 1)),
    ),
    "a sub-group beside its running pods": Case(
        WIDE,
        "job q/j min=4 cpu=2 topology=hard:1 b:n1 b:n2 b:-*2",
        2,
        ("n1 n2",),
        policies=(("b", 4, 1, 1),),
    ),
    "a sub-group without room beside its running pods": Case(
        WIDE,
        "job q/j min=3 cpu=4 topology=hard:1 b:n1 b:-*2",
        0,
        policies=(("b", 3, 1, 1),),
    ),
    "nodes in use": Case(
        E8, "job q/o cpu=1 n2 n3 job q/j min=2 cpu=2 topology=hard:1 -*2", 2, ("n2 n3",)
    ),
    "nodes in use with room": Case(
        E8,
        "job q/o cpu=6 n2 n3 job q/p cpu=1 n4 job q/j min=2 cpu=4 topology=hard:1 -*2",
        2,
        ("n4 n5",),
    ),
    "one slot in each rack": Case(
        E8,
        "job q/o cpu=8 n0 n2 n4 n6 job q/p cpu=4 n1 n3 n5 n7 "
        "job q/j min=2 cpu=4 topology=hard:2 -*2",
        2,
        ("n1 n3", "n5 n7"),
    ),
    "full spines": Case(
        E8,
        "job q/o cpu=8 n0 n1 n2 n4 n5 n6 job q/j min=2 cpu=8 topology=hard:2 -*2",
        0,
    ),
    "a pod that comes back": Case(E8, "job q/j min=2 cpu=4 topology=hard:1 n0 -", 1, ("n0 n1",)),
    "soft takes the nearest pair": Case(
        E8,
        "job q/o cpu=8 n0 n2 n4 n6 job q/p cpu=4 n1 n3 n5 n7 job q/j min=2 cpu=4 topology=soft -*2",
        2,
        ("n1 n3", "n5 n7"),
    ),
    "a partition in each rack": Case(
        E8,
        "job q/o cpu=8 n0 n2 n4 n5 n6 job q/p cpu=2 n1 n3 "
        "job q/j min=4 cpu=3 topology=hard:2 b1:-*2 b2:-*2",
        4,
        ("n1 n3",),
        policies=(("b", 2, 2, 1),),
    ),
    "partitions larger than what racks have left": Case(
        E8,
        "job q/o cpu=4 n0 n1 n2 n3 n4 n5 n6 n7 job q/j min=6 cpu=4 topology=hard:2 b1:-*3 b2:-*3",
        0,
        policies=(("b", 3, 2, 1),),
    ),
    "more than a rack by the minimum": Case(
        E8,
        "job q/j min=6 cpu=4 topology=hard:1 " + " ".join(f"b{each}:-*2" for each in range(6)),
        0,
        policies=(("b", 2, 2, 1),),
    ),
    "more than a rack by partitions": Case(
        E8,
        "job q/j min=4 cpu=4 topology=hard:1 " + " ".join(f"b{each}:-*2" for each in range(4)),
        0,
        policies=(("b", 2, 4, 1),),
    ),
}


def documents(case: Case) -> list[Document]:
    """The manifests."""
    found = pictures.documents(f"{case.tree[1]} queue q {case.jobs}")
    for document in found:
        labels = document["metadata"].get("labels", {})
        if role := labels.get(pictures.ROLE):
            labels["kind"] = role[0]
        if document["kind"] == "PodGroup" and document["metadata"]["name"] == "j" and case.policies:
            document["spec"][GROUPS] = [_policy(*each) for each in case.policies]
    return [*found, *hyper_nodes(case.tree[0])]


def _policy(kind: str, size: int, needed: int, tier: int | None) -> Document:
    found: Document = {
        "name": kind,
        "subGroupSize": size,
        "minSubGroups": needed,
        "labelSelector": {"matchLabels": {"kind": kind}},
        "matchLabelKeys": [pictures.ROLE],
    }
    if tier is not None:
        found["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
    return found


def policy(*, as_volcano: bool) -> dict[str, Any]:
    """A configuration with the plugin."""
    way = {"compatibility": "volcano"} if as_volcano else {}
    tiers = running.tiers("gang | predicates binpack network-topology-aware")
    return {"actions": "allocate", "tiers": tiers, **way}


def starts(case: Case, *, as_volcano: bool) -> dict[str, str]:
    """Pods of job `j` that are bound in one cycle, with their nodes."""
    result = running.run(documents(case), policy(as_volcano=as_volcano))
    return {bind.task.name: bind.node for bind in result.binds}


@pytest.mark.parametrize("as_volcano", [True, False])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_volcanos_cases(case: Case, as_volcano: bool) -> None:
    """So many pods are bound, and in such a domain."""
    found = starts(case, as_volcano=as_volcano)
    assert len(found) == case.binds
    if case.within:
        assert any(set(found.values()) <= set(each.split()) for each in case.within), found


UNEVEN = (
    "job q/o cpu=8 n0 n2 n4 n6 job q/p cpu=5 n1 n3 n7 job q/r cpu=6 n5 "
    "job q/j min=2 cpu=2 topology=hard:2 -*2"
)


@pytest.mark.parametrize(("as_volcano", "spine"), [(True, {"n5", "n7"}), (False, {"n1", "n3"})])
def test_volcano_takes_the_spine_in_use_most(as_volcano: bool, spine: set[str]) -> None:
    """Both have room for two pods, so by default the name decides."""
    assert set(starts(Case(E8, UNEVEN, 2), as_volcano=as_volcano).values()) == spine


@pytest.mark.parametrize("tier", ["hard:unknown", "hard"])
@pytest.mark.parametrize(("as_volcano", "binds"), [(True, 3), (False, 0)])
def test_volcano_ignores_a_tier_that_it_does_not_know(
    as_volcano: bool, binds: int, tier: str
) -> None:
    """By default the gang waits; without a tier it stays in one domain."""
    case = Case(FLAT, f"job q/j min=3 cpu=2 topology={tier} -*3", binds)
    assert len(starts(case, as_volcano=as_volcano)) == binds


@pytest.mark.parametrize("weight", [1, 2])
def test_volcano_scores_nodes_by_their_distance_from_placed_pods(weight: int) -> None:
    """The own rack, which has half of the pods, the next one, and another spine."""
    tree = (T8[0], nodes(1, 8, 4))
    case = Case(tree, "job q/j min=2 cpu=2 topology=soft n1 -", 1)
    tiers = running.tiers(f"gang | predicates network-topology-aware:weight={weight}")
    session = running.open_session(
        documents(case), {"actions": "allocate", "tiers": tiers, "compatibility": "volcano"}
    )
    (state,) = session.job_states.values()
    (task,) = [each for each in state.job.tasks if each.node is None]
    scores = session.placement.scores(task).tolist()
    assert scores == [150 * weight] * 2 + [50 * weight] * 2 + [0] * 4


IN_USE = "node n1 cpu=4 memory=8Gi node n2 cpu=4 memory=8Gi node n3 cpu=4 memory=8Gi"
PLAIN = "job q/o cpu=1 memory=4Gi n1 job q/p cpu=3 memory=1Gi n2 job q/j cpu=1 memory=1Gi -"


@pytest.mark.parametrize("as_volcano", [True, False])
@pytest.mark.parametrize(
    ("arguments", "node"),
    [
        ({}, "n2"),
        ({"hypernode.binpack.cpu": 0}, "n1"),
        ({"hypernode.binpack.cpu": 0, "hypernode.binpack.memory": 0}, "n1"),
        ({"hypernode.binpack.normal-pod.enable": False}, "n1"),
        ({"hypernode.binpack.resources": "cpu", "hypernode.binpack.resources.cpu": 9}, "n2"),
    ],
)
def test_pods_without_topology_go_into_domains_in_use(
    arguments: dict[str, Any], node: str, as_volcano: bool
) -> None:
    """By weighted resources; where nothing counts, the first node by name."""
    case = Case(("s0=n1 s1=n2 s2=n3", IN_USE), PLAIN, 1)
    found = policy(as_volcano=as_volcano)
    found["tiers"] = running.tiers("gang | predicates network-topology-aware")
    found["tiers"][-1]["plugins"][-1]["arguments"] = arguments
    result = running.run(documents(case), found)
    assert {bind.node for bind in result.binds} == {node}


@pytest.mark.parametrize(("fading", "node"), [(0.0, "n1"), (1.0, "n4")])
def test_higher_tiers_count_as_much_as_is_said(fading: float, node: str) -> None:
    """A rack is in use a little, and another one is empty in a spine that is full else."""
    tree = ("s0=n1 s1=n2 s2=n3 s3=n4 | s4=s0,s1 s5=s2,s3", nodes(1, 4, 4))
    case = Case(tree, "job q/o cpu=1 n1 job q/p cpu=4 n3 job q/j cpu=1 -", 1)
    name = f"network-topology-aware:hypernode.binpack.normal-pod.fading={fading}"
    result = running.run(
        documents(case),
        {"actions": "allocate", "tiers": running.tiers(f"gang | predicates {name}")},
    )
    assert {bind.node for bind in result.binds} == {node}


def test_volcano_counts_the_gang_before() -> None:
    """As the cycle begins, the other rack is in use a little more."""
    tree = (
        "s0=n1,n2 s1=n3,n4",
        "node n1 cpu=4 label=z=a node n2 cpu=4 label=z=a node n3 cpu=4 node n4 cpu=4",
    )
    first = "job q/a min=2 cpu=3 select=z=a topology=hard:1 - -"
    case = Case(tree, f"job q/o cpu=1 n3 {first} job q/j min=2 cpu=1 topology=hard:1 - -", 2)
    found = starts(case, as_volcano=True)
    assert {found["j-0"], found["j-1"]} == {"n1", "n2"}


LOW = "job {queue}/low cpu=8 priority=1 topology=hard:2"
EVICTIONS = {
    "one rack of two": ("min=2", "min=2 cpu=8 topology=hard:1 - -", 2, 1),
    "no rack is large enough": ("min=2", "min=3 cpu=5 topology=hard:1 - - -", 0, 0),
    "both racks": ("min=1", "min=3 cpu=5 topology=hard:2 - - -", 3, 2),
    "one rack, although two would do": ("min=2", "min=2 cpu=8 topology=hard:2 - -", 2, 1),
}
"""The minimum of the gang that runs, the one that preempts, how many victims, in how many racks."""


@pytest.mark.parametrize("as_volcano", [True, False])
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize(("low", "high", "victims", "racks"), EVICTIONS.values(), ids=EVICTIONS)
def test_evictions_make_room_in_as_few_racks_as_possible(
    low: str, high: str, victims: int, racks: int, action: str, as_volcano: bool
) -> None:
    """In one queue, and across queues. Nobody goes for a gang that no domain could hold."""
    queue = "q" if action == "preempt" else "lender"
    running_job = f"{LOW.format(queue=queue)} {low} n0 n1 n2 n3"
    queues = "queue q deserved=cpu:24 queue lender deserved=cpu:8"
    picture = f"{nodes(0, 3, 8)} {queues} {running_job} job q/j priority=9 {high}"
    found = [
        *pictures.documents(picture),
        *hyper_nodes("s0=n0,n1 s1=n2,n3 | s2=s0,s1"),
    ]
    way = {"compatibility": "volcano"} if as_volcano else {}
    tiers = running.tiers("priority gang | predicates capacity network-topology-aware")
    result = running.run(found, {"actions": f"allocate, {action}", "tiers": tiers, **way})
    assert len(result.evicts) == victims
    assert len({each.node in {"n0", "n1"} for each in result.pipelined}) == racks
