from typing import Any

import numpy as np
import pytest

from tests.unit.core import sessions
from vscheduler.core.api.contracts import NodeView, Plugin
from vscheduler.core.plugins.binpack import Binpack
from vscheduler.core.plugins.nodeorder import NodeOrder
from vscheduler.model.constraints import (
    Effect,
    Operator,
    PreferredTerm,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from vscheduler.model.jobs import PodClass
from vscheduler.model.nodes import NodeLayout, NodeSpec

GI = 2**30
SOFT = Taint("spot", "", Effect.PREFER_NO_SCHEDULE)
OFF = {
    f"{name}.weight": 0
    for name in ("leastrequested", "balancedresource", "nodeaffinity", "tainttoleration")
}


def plain(count: int) -> NodeLayout:
    """Nodes without labels."""
    return NodeLayout([NodeSpec(name=f"n{place}") for place in range(count)])


def scores(plugin: Plugin, of: PodClass, view: NodeView) -> list[float]:
    """What the plugin gives all nodes; a part of them must get the same."""
    plugin.open(sessions.opened())
    pod = sessions.task("j", of=of)
    whole: list[float] = plugin.score_nodes(pod, view).tolist()  # type: ignore[attr-defined]  # by hook
    last = view.size - 1
    rows = plugin.score_nodes(pod, sessions.part(view, last, 0))  # type: ignore[attr-defined]  # by hook
    assert rows.tolist() == [whole[last], whole[0]]
    return whole


EIGHT = {"cpu": 8000, "memory": 8 * GI}
USED = [{}, {"cpu": 3000, "memory": 3 * GI}, {"cpu": 7000, "memory": GI}]
ONE = sessions.pod_class(cpu=1000, memory=GI)

USAGE: dict[str, tuple[dict[str, int], list[float]]] = {
    "least": ({"leastrequested.weight": 1}, [87.5, 50.0, 37.5]),
    "most": ({"mostrequested.weight": 2}, [25.0, 100.0, 125.0]),
    "balanced": ({"balancedresource.weight": 1}, [100.0, 100.0, 62.5]),
    "all": (
        {
            "leastrequested.weight": 1,
            "mostrequested.weight": 2,
            "balancedresource.weight": 1,
        },
        [212.5, 250.0, 225.0],
    ),
    "none": ({}, [0.0, 0.0, 0.0]),
}


@pytest.mark.parametrize(("weights", "expected"), USAGE.values(), ids=USAGE)
def test_nodes_are_judged_by_usage(weights: dict[str, int], expected: list[float]) -> None:
    """With the pod on them, cpu and memory alike."""
    view = sessions.view(plain(3), [EIGHT] * 3, USED)
    assert scores(NodeOrder(OFF | weights), ONE, view) == pytest.approx(expected)


def test_odd_nodes_are_judged_without_fuss() -> None:
    """Nodes over their allocatable, without memory, without anything, and with promises."""
    view = sessions.view(
        plain(4),
        [EIGHT, {"cpu": 8000}, {}, EIGHT],
        [{"cpu": 9000, "memory": 9 * GI}, {"cpu": 3000}, {}, {}],
        [{"cpu": 1000, "memory": GI}, {"cpu": 3000}, {}, {"cpu": 3000, "memory": 3 * GI}],
    )
    weights = OFF | {"leastrequested.weight": 1}
    assert scores(NodeOrder(weights), ONE, view) == [0.0, 50.0, 0.0, 50.0]
    weights = OFF | {"balancedresource.weight": 1}
    assert scores(NodeOrder(weights), ONE, view) == [100.0] * 4


def test_preferred_terms_count_with_their_weight() -> None:
    """The plugin's weight times the sum, not scaled to the best node."""
    layout = NodeLayout(
        [
            NodeSpec(name="n1", labels=(("zone", "a"),)),
            NodeSpec(name="n2"),
        ]
    )
    zone = Requirement("zone", Operator.IN, ("a",))
    preferred = (PreferredTerm(30, Term(labels=(zone,))),)
    view = sessions.view(layout, [EIGHT] * 2)
    weights = OFF | {"nodeaffinity.weight": 2}
    assert scores(NodeOrder(weights), sessions.pod_class(preferred=preferred), view) == [
        60.0,
        0.0,
    ]


SPOTS: dict[str, tuple[list[bool], int, list[float] | None]] = {
    "most of them 0, none 100": ([True] * 3, 3, [300.0, 150.0, 0.0]),
    "among those that are feasible": ([True, True, False], 3, [300.0, 0.0, 0.0]),
    "feasible ones without any": ([True, False, False], 1, [100.0, 0.0, 0.0]),
    "nobody asks": ([True] * 3, 0, None),
}


@pytest.mark.parametrize(("feasible", "weight", "expected"), SPOTS.values(), ids=SPOTS)
def test_soft_taints_cost_score(
    feasible: list[bool], weight: int, expected: list[float] | None
) -> None:
    """Scaled to the feasible node that has most of them."""
    other = Taint("old", "", Effect.PREFER_NO_SCHEDULE)
    layout = NodeLayout(
        [
            NodeSpec(name="n1"),
            NodeSpec(name="n2", taints=(SOFT,)),
            NodeSpec(name="n3", taints=(SOFT, other)),
        ]
    )
    plugin = NodeOrder({"tainttoleration.weight": weight})
    plugin.open(sessions.opened())
    view = sessions.view(layout, [EIGHT] * 3)
    found = plugin.score_node_set(sessions.task("j"), view, np.array(feasible))
    assert (found if found is None else found.tolist()) == expected
    tolerant = sessions.pod_class(tolerations=(Toleration(exists=True),))
    everywhere = np.ones(3, dtype=np.bool_)
    assert plugin.score_node_set(sessions.task("j", of=tolerant), view, everywhere) is None


MIXED = sessions.pod_class(cpu=2000, memory=8 * GI, gpu=1)
ALLOCATABLE = {"cpu": 8000, "memory": 32 * GI, sessions.GPU: 4}
PACKED: dict[str, tuple[dict[str, Any], list[dict[str, int]], list[float]]] = {
    "the mean of cpu and memory": (
        {},
        [{"cpu": 2000, "memory": 8 * GI}, {}, {"cpu": 6000, "memory": 24 * GI}],
        [50.0, 25.0, 100.0],
    ),
    "weights of resources, and of the plugin": (
        {"binpack.weight": 10, "binpack.cpu": 3},
        [{"cpu": 6000}, {"memory": 24 * GI}, {}],
        [812.5, 437.5, 250.0],
    ),
    "listed resources": (
        {"binpack.resources": f"{sessions.GPU}, x/y", f"binpack.resources.{sessions.GPU}": 2},
        [{sessions.GPU: 3}, {sessions.GPU: 1}, {}],
        [62.5, 37.5, 25.0],
    ),
    "what wouldn't fit adds nothing": (
        {"binpack.memory": 0},
        [{"cpu": 7000}, {"cpu": 6000}, {}],
        [0.0, 100.0, 25.0],
    ),
    "no weight at all": (
        {"binpack.cpu": 0, "binpack.memory": 0},
        [{"cpu": 7000}, {}, {}],
        [0.0, 0.0, 0.0],
    ),
}


@pytest.mark.parametrize(("arguments", "used", "expected"), PACKED.values(), ids=PACKED)
def test_full_nodes_are_packed(
    arguments: dict[str, Any], used: list[dict[str, int]], expected: list[float]
) -> None:
    """Each resource that the pod asks for counts by its weight."""
    view = sessions.view(plain(3), [ALLOCATABLE] * 3, used)
    assert scores(Binpack(arguments), MIXED, view) == pytest.approx(expected)


def test_packing_looks_at_what_is_requested() -> None:
    """A node without the resource, and a pod that asks for nothing, give nothing."""
    view = sessions.view(plain(2), [{"memory": GI}, EIGHT])
    assert scores(Binpack({}), sessions.pod_class(cpu=2000), view) == [0.0, 25.0]
    assert scores(Binpack({}), sessions.pod_class(cpu=0), view) == [0.0, 0.0]
