"""The judge itself, on examples worked out by hand: pods about pods, and whole clusters."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.properties.filters_by_hand import judging
from tests.properties.filters_by_hand.judging import Step
from tests.properties.filters_by_hand.making import (
    HOST,
    TWO,
    A,
    B,
    Document,
    apart,
    asking,
    gone,
    near,
    node,
    pod,
    spread,
    takers,
    term,
)
from tests.properties.filters_by_hand.worlds import State

STAYS, COMES, LEAVES = State.STAYS, State.COMES, State.LEAVES


def test_required_affinity_wants_company_in_the_same_place() -> None:
    """Runs in the same topology domain as pods that match; the node must have the label."""
    nodes = (*TWO, node("n2", "x"), node("n3"))
    running = pod("r", "n0", labels=A)
    assert takers(*nodes, running, pod("p", affinity=near(term()))) == ["n0", "n2"]
    assert takers(*nodes, running, pod("p", affinity=near(term(key=HOST)))) == ["n0"]
    assert takers(*nodes, running, pod("p", affinity=near(term("b")))) == []


def test_all_terms_are_about_the_same_pods() -> None:
    """kube-scheduler counts a pod as company only where all terms are about it; they needn't be
    met by one pod.
    """
    both = near(term("a"), term("b", HOST))
    assert (
        takers(*TWO, pod("r", "n0", labels=A), pod("s", "n0", labels=B), pod("p", affinity=both))
        == []
    )
    either = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    wanted = near(term(), {"labelSelector": either, "topologyKey": HOST})
    assert takers(*TWO, pod("r", "n0", labels=A), pod("p", affinity=wanted)) == ["n0"]


def test_the_first_of_its_kind_may_go_anywhere() -> None:
    """If no other pod matches, the pod matches its own terms, and the node has the labels."""
    nodes = (*TWO, node("n2"))
    mine = pod("p", labels=A, affinity=near(term()))
    assert takers(*nodes, mine) == ["n0", "n1"]
    assert takers(*nodes, pod("p", labels=B, affinity=near(term()))) == []
    assert takers(*nodes, pod("r", "n1", labels=A), mine) == ["n1"]
    assert takers(*nodes, pod("r", "n2", labels=A), mine) == ["n0", "n1"]


def test_anti_affinity_keeps_pods_apart_in_both_directions() -> None:
    """Its own terms about others, and "existing pods' anti-affinity" about it."""
    nodes = (*TWO, node("n2", "x"), node("n3"))
    assert takers(*nodes, pod("r", "n0", labels=A), pod("p", affinity=apart(term()))) == [
        "n1",
        "n3",
    ]
    repels = pod("r", "n0", affinity=apart(term()))
    assert takers(*nodes, repels, pod("p", labels=A)) == ["n1", "n3"]
    assert takers(*nodes, repels, pod("p", labels=B)) == ["n0", "n1", "n2", "n3"]
    assert takers(*nodes, pod("r", "n3", labels=A), pod("p", affinity=apart(term()))) == [
        "n0",
        "n1",
        "n2",
        "n3",
    ]


def test_one_term_of_anti_affinity_is_enough_to_keep_away() -> None:
    """Terms of anti-affinity count one by one."""
    wanted = pod("p", affinity=apart(term("a"), term("b", HOST)))
    assert takers(*TWO, pod("r", "n0", labels=A), wanted) == ["n1"]
    assert takers(*TWO, pod("r", "n0", labels=B), wanted) == ["n1"]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, ["n0", "n1"]),
        ({"namespaces": ["lab"]}, ["n1"]),
        ({"namespaces": ["shop"]}, ["n0", "n1"]),
        ({"namespaceSelector": {}}, ["n1"]),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, ["n1"]),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, ["n0", "n1"]),
        ({"namespaces": ["shop"], "namespaceSelector": {"matchLabels": {"team": "red"}}}, ["n1"]),
    ],
)
def test_namespaces_of_terms(more: Document, names: list[str]) -> None:
    """Without namespaces and namespaceSelector a term is about the pod's own namespace; the empty
    selector is about all; both together are ORed.
    """
    lab = {"kind": "Namespace", "metadata": {"name": "lab", "labels": {"team": "red"}}}
    running = pod("lab/r", "n0", labels=A)
    assert takers(*TWO, lab, running, pod("p", affinity=apart(term(**more)))) == names


def test_keys_of_labels_that_must_and_must_not_match() -> None:
    """Of matchLabelKeys and mismatchLabelKeys: the pod's own values; keys it lacks mean nothing."""
    running = pod("r", "n0", labels=A | {"rev": "1"})
    for rev, same in (("1", True), ("2", False)):
        own = {"rev": rev}
        equal = pod("p", labels=own, affinity=apart(term(matchLabelKeys=["rev", "none"])))
        other = pod("p", labels=own, affinity=apart(term(mismatchLabelKeys=["rev"])))
        assert takers(*TWO, running, equal) == (["n1"] if same else ["n0", "n1"])
        assert takers(*TWO, running, other) == (["n0", "n1"] if same else ["n1"])


def test_spread_keeps_the_skew() -> None:
    """The number of matching pods in the target topology less the global minimum."""
    nodes = (*TWO, node("n2", "x"), node("n3"))
    mine = pod("p", labels=A, topologySpreadConstraints=spread())
    running = pod("r", "n0", labels=A)
    assert takers(*nodes, running, mine) == ["n1"]
    assert takers(*nodes, mine) == ["n0", "n1", "n2"]
    twice = pod("p", labels=A, topologySpreadConstraints=spread(2))
    assert takers(*nodes, running, twice) == ["n0", "n1", "n2"]
    soft = spread(whenUnsatisfiable="ScheduleAnyway")
    assert takers(*nodes, running, pod("p", labels=A, topologySpreadConstraints=soft)) == [
        *("n0", "n1", "n2", "n3")
    ]


def test_spread_counts_the_pod_itself_where_it_matches() -> None:
    """Selected by its own selector, it is one more."""
    other = pod("p", labels=B, topologySpreadConstraints=spread())
    assert takers(*TWO, pod("r", "n0", labels=A), other) == ["n0", "n1"]
    two = (pod("r", "n0", labels=A), pod("s", "n0", labels=A))
    assert takers(*TWO, *two, other) == ["n1"]


def test_spread_counts_its_own_namespace_and_nobody_who_leaves() -> None:
    """Pods of other namespaces and those being deleted don't count."""
    mine = pod("p", labels=A, topologySpreadConstraints=spread())
    assert takers(*TWO, pod("lab/r", "n0", labels=A), mine) == ["n0", "n1"]
    assert takers(*TWO, gone(pod("r", "n0", labels=A)), mine) == ["n0", "n1"]
    empty = spread(labelSelector={})
    assert takers(*TWO, pod("r", "n0"), pod("p", topologySpreadConstraints=empty)) == ["n0", "n1"]


def test_too_few_domains_make_the_minimum_zero() -> None:
    """minDomains: "when there are fewer eligible domains, the global minimum is treated as 0"."""
    running = (pod("r", "n0", labels=A), pod("s", "n1", labels=A))
    for least, names in ((2, ["n0", "n1"]), (3, [])):
        mine = pod("p", labels=A, topologySpreadConstraints=spread(minDomains=least))
        assert takers(*TWO, *running, mine) == names


def test_which_nodes_count_for_spread() -> None:
    """Policies are Honor for affinity and Ignore for taints, unless they say otherwise; nodes
    without the labels of all constraints never count.
    """
    running = (pod("r", "n0", labels=A), pod("s", "n2", labels=A))
    tainted = node("n1", "y", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    nodes = (node("n0", "x"), tainted, node("n2", "z"))

    def chosen(selector: Document, **more: Any) -> list[str]:
        spreads = spread(**more)
        return takers(
            *nodes,
            *running,
            pod("p", labels=A, nodeSelector=selector, topologySpreadConstraints=spreads),
        )

    assert chosen({}) == []
    assert chosen({}, nodeTaintsPolicy="Honor") == ["n0", "n2"]
    assert chosen({"zone": "x"}) == ["n0"]
    assert chosen({"zone": "x"}, nodeAffinityPolicy="Ignore") == []


def test_spread_by_keys_of_labels() -> None:
    """MatchLabelKeys: only pods with the same value count."""
    running = pod("r", "n0", labels=A | {"rev": "1"})
    for rev, names in (("1", ["n1"]), ("2", ["n0", "n1"])):
        constraints = spread(matchLabelKeys=["rev"])
        mine = pod("p", labels=A | {"rev": rev}, topologySpreadConstraints=constraints)
        assert takers(*TWO, running, mine) == names


def test_pods_that_leave_hold_what_they_have() -> None:
    """Room, ports, company and distance, as kube-scheduler counts them; who waits for their going
    may be promised the place.
    """
    leaver = gone(pod("r", "n0", labels=A, containers=asking(cpu="4")))
    wanted = pod("p", containers=asking(cpu="1"))
    assert takers(*TWO, leaver, wanted) == ["n1"]
    assert judging.feasible([*TWO, leaver, wanted], "default/p") == ["n0", "n1"]
    away, along = (pod("p", affinity=apart(term())), pod("p", affinity=near(term())))
    assert takers(*TWO, leaver, away) == ["n1"]
    assert judging.feasible([*TWO, leaver, away], "default/p") == ["n0", "n1"]
    assert takers(*TWO, leaver, along) == ["n0"]
    assert judging.feasible([*TWO, leaver, along], "default/p") == []


def test_the_whole_cluster_is_judged_with_everybody_in_place() -> None:
    """Two that must not meet, bound to one node: each is told."""
    pods = [pod(name, labels=A, affinity=apart(term(key=HOST))) for name in ("p", "q")]
    documents = [*TWO, *pods]
    assert judging.judge(documents, {"default/p": "n0", "default/q": "n1"}) == []
    found = judging.judge(documents, {"default/p": "n0", "default/q": "n0"})
    assert {text.partition(" ")[0] for text in found} == {"default/p", "default/q"}
    assert judging.judge(documents, {"default/p": "n7"}) == ["default/p on n7 (now): doesn't exist"]


def test_who_waits_counts_for_those_who_stay_and_not_for_those_who_start() -> None:
    """A promise is kept free; the pods that are evicted for it are there until they are gone."""
    runs = pod("r", "n0", containers=asking(cpu="4"))
    documents = [
        *TWO,
        runs,
        pod("p", containers=asking(cpu="3")),
        pod("q", containers=asking(cpu="2")),
    ]
    waits = {"default/p": "n0"}
    assert judging.judge(documents, {}, waiting=waits, evicted=["default/r"]) == []
    assert judging.judge(documents, {}, waiting=waits) != []
    assert judging.judge(documents, {"default/q": "n0"}, evicted=["default/r"]) == [
        "default/q on n0 (now): has 4 cpu, 4 in use, and 2 asked for"
    ]
    both = judging.judge(documents, {"default/q": "n1"}, waiting={"default/p": "n1"})
    assert both == [
        "default/q on n1 (then): has 4 cpu, 3 in use, and 2 asked for",
        "default/p on n1 (then): has 4 cpu, 2 in use, and 3 asked for",
    ]


def test_order_matters_for_spread_and_for_the_first_of_its_kind() -> None:
    """Each pod is judged on the cluster as it is when its turn comes."""
    names = ("p", "q", "r")
    pods = [pod(name, labels=A, topologySpreadConstraints=spread()) for name in names]
    keys = [f"default/{name}" for name in names]

    def steps(*nodes: str, state: State = STAYS) -> list[Step]:
        listed = zip(keys, nodes, strict=False)
        return [Step(pod=key, node=each, state=state) for key, each in listed]

    assert judging.in_order([*TWO, *pods], steps("n0", "n1", "n0")) == []
    (found,) = judging.in_order([*TWO, *pods], steps("n0", "n0", "n1"))
    assert found.startswith("default/q on n0")
    placed = dict(zip(keys, ("n0", "n0", "n1"), strict=True))
    assert judging.judge([*TWO, *pods], placed) == []
    alike = [pod(name, labels=A, affinity=near(term())) for name in names]
    assert judging.in_order([*TWO, *alike], steps("n0", "n0")) == []
    (told,) = judging.in_order([*TWO, *alike], steps("n0", "n1"))
    assert told == "default/q on n1 (now): has nobody near of those that it must be near"
    assert judging.judge([*TWO, *alike], {"default/p": "n0", "default/q": "n1"}) == []
    assert judging.in_order([*TWO, *alike], steps("n0", "n0", state=COMES)) == []


@pytest.mark.parametrize(
    ("nodes", "state", "holds"),
    [
        (("n0", "n0", "n1"), COMES, True),
        (("n0", "n0", "n1"), STAYS, False),
        (("n0", "n0", "n0"), COMES, False),
    ],
    ids=["waiting", "bound", "uneven"],
)
def test_pods_that_wait_for_room_come_as_they_may(
    nodes: Sequence[str], state: State, *, holds: bool
) -> None:
    """What is bound is bound in this order, and no order makes up for a spread that is uneven."""
    pods = [pod(name, labels=A, topologySpreadConstraints=spread()) for name in "pqr"]
    steps = [
        Step(pod=f"default/{name}", node=node, state=state)
        for name, node in zip("pqr", nodes, strict=True)
    ]
    documents = [*TWO, *pods]
    assert judging.in_order(documents, steps)
    found = judging.in_order(documents, judging.as_they_may(documents, steps))
    assert bool(found) is not holds


def test_an_eviction_takes_a_pod_out_of_the_count() -> None:
    """What is to be evicted leaves, from its step on."""
    running = pod("r", "n0", labels=A)
    documents = [*TWO, running, pod("p", labels=A, topologySpreadConstraints=spread())]
    step = Step(pod="default/p", node="n0", state=STAYS)
    out = Step(pod="default/r", node="n0", state=LEAVES)
    assert len(judging.in_order(documents, [step])) == 1
    assert judging.in_order(documents, [out, step]) == []
