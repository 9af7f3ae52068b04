from typing import Any

import pytest

from tests.unit.core import sessions
from vscheduler.core.api.contracts import NodeView
from vscheduler.core.plugins import predicates
from vscheduler.core.plugins.predicates import Predicates
from vscheduler.model import constraints, refusals
from vscheduler.model.constraints import HostPort, Taint, Toleration
from vscheduler.model.nodes import NodeLayout, NodeSpec
from vscheduler.model.refusals import Refusal, RefusalCode

Effect = constraints.Effect
DEDICATED = Taint("dedicated", "lab", Effect.NO_SCHEDULE)
LEAVING = Taint("dedicated", "lab", Effect.NO_EXECUTE)
PORT = HostPort("10.0.0.1", "TCP", 80)


def cluster() -> NodeView:
    """n0 and n1 ordinary, n2 cordoned, n3 and n4 tainted, n5 in a zone."""
    layout = NodeLayout(
        [
            NodeSpec(name="n0"),
            NodeSpec(name="n1"),
            NodeSpec(name="n2", unschedulable=True),
            NodeSpec(name="n3", taints=(DEDICATED,)),
            NodeSpec(name="n4", taints=(LEAVING,)),
            NodeSpec(name="n5", labels=(("zone", "a"),), features=("B", "C")),
        ]
    )
    return sessions.view(layout, [{}] * 6, ports={"n0": (PORT,)})


def refused(arguments: dict[str, Any], view: NodeView, **limits: Any) -> dict[Refusal, list[int]]:
    """Which rows are refused, by refusal; rows of a part must be refused alike."""
    plugin = Predicates(arguments)
    plugin.open(sessions.opened())
    pod = sessions.task("j", of=sessions.pod_class(**limits))
    verdicts = plugin.filter_nodes(pod, view)
    rows = list(range(view.size))
    whole = {refusals.of(verdict.refusal): verdict.passes for verdict in verdicts}
    for node in plugin.filter_nodes(pod, sessions.part(view, *reversed(rows))):
        assert node.passes.tolist() == whole[refusals.of(node.refusal)][::-1].tolist()
    return {refusal: [row for row in rows if not mask[row]] for refusal, mask in whole.items()}


Code = RefusalCode
CORDONED = Refusal(Code.CORDONED)
TAINTED = Refusal(Code.TAINT, "dedicated", "lab")
UNSELECTED = Refusal(Code.NODE_AFFINITY)
FEATURELESS = Refusal(Code.FEATURES)
PORTS_TAKEN = Refusal(Code.PORTS)
OTHER_TAINTS = Refusal(Code.OTHER_TAINTS)

ALWAYS = {CORDONED: [2]}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[Refusal, list[int]]]] = {
    "a plain pod": ({}, {}, {**ALWAYS, TAINTED: [3, 4]}),
    "a pod that bears everything": (
        {},
        {"tolerations": (Toleration(exists=True),)},
        {},
    ),
    "a selector": (
        {},
        {"node_selector": (("zone", "a"),)},
        {**ALWAYS, TAINTED: [3, 4], UNSELECTED: [0, 1, 2, 3, 4]},
    ),
    "features of kubelets": (
        {},
        {"features": ("B", "C")},
        {**ALWAYS, TAINTED: [3, 4], FEATURELESS: [0, 1, 2, 3, 4]},
    ),
    "features that no kubelet has": (
        {},
        {"features": ("A", "B")},
        {**ALWAYS, TAINTED: [3, 4], FEATURELESS: [0, 1, 2, 3, 4, 5]},
    ),
    "a port that is taken": (
        {},
        {"ports": (PORT,)},
        {**ALWAYS, TAINTED: [3, 4], PORTS_TAKEN: [0]},
    ),
    "filters that are switched off": (
        {
            f"predicate.{name}Enable": False
            for name in ("NodeAffinity", "NodePorts", "TaintToleration")
        },
        {"node_selector": (("zone", "a"),), "ports": (PORT,)},
        ALWAYS,
    ),
}


@pytest.mark.parametrize(("arguments", "limits", "expected"), CASES.values(), ids=CASES)
def test_nodes_are_refused_with_a_reason(
    arguments: dict[str, Any], limits: dict[str, Any], expected: dict[Refusal, list[int]]
) -> None:
    """By code; a filter that refuses nobody says nothing."""
    found = refused(arguments, cluster(), **limits)
    assert {refusal: rows for refusal, rows in found.items() if rows} == expected


def test_pods_that_differ_in_features_alone_are_told_apart() -> None:
    """What was worked out for one of them isn't the other's answer."""
    plugin = Predicates({})
    plugin.open(sessions.opened())
    view = cluster()
    passes = []
    for needed in ((), ("C",), ("A",)):
        pod = sessions.task("j", of=sessions.pod_class(features=needed))
        by_refusal = {node.refusal: node.passes for node in plugin.filter_nodes(pod, view)}
        mask = by_refusal.get(FEATURELESS)
        passes.append(None if mask is None else mask.tolist())
    assert passes == [None, [False] * 5 + [True], [False] * 6]


def test_shares_are_of_nodes_that_have_the_features() -> None:
    """What pods could use is asked apart from where one may go now."""
    plugin = Predicates({})
    plugin.open(sessions.opened())
    layout = cluster().layout
    found = {
        needed: plugin.class_nodes(sessions.pod_class(features=needed), layout).tolist()
        for needed in ((), ("C",))
    }
    assert found[()] == [True, True, False, False, False, True]
    assert found["C",] == [False, False, False, False, False, True]


def test_ports_taken_in_this_cycle_count() -> None:
    """The view's ports are looked at each time."""
    view = cluster()
    plugin = Predicates({})
    plugin.open(sessions.opened())
    pod = sessions.task("j", of=sessions.pod_class(ports=(PORT,)))
    before = plugin.filter_nodes(pod, view)[-1].passes.tolist()
    after = NodeView(
        view.layout, None, view.allocatable, view.used, view.future_used, {"n5": (PORT,)}, {}
    )
    assert before == [False, True, True, True, True, True]
    assert plugin.filter_nodes(pod, after)[-1].passes.tolist() == [True] * 5 + [False]


def test_many_taints_end_up_in_one_refusal() -> None:
    """Where each node has a taint of its own, the list stays short and no node is forgotten."""
    count = predicates.TAINTS_MAX + 5
    layout = NodeLayout(
        [
            NodeSpec(
                name=f"n{place:02}",
                taints=(Taint("host", f"{place:02}", Effect.NO_SCHEDULE),),
            )
            for place in range(count)
        ]
    )
    found = refused({}, sessions.view(layout, [{}] * count))
    assert len(found) == predicates.TAINTS_MAX + 1
    assert found[OTHER_TAINTS] == list(range(predicates.TAINTS_MAX, count))
    assert sorted(row for rows in found.values() for row in rows) == list(range(count))
