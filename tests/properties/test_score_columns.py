"""What is worked out in place, column by column, is bit for bit what the plain formulas say."""

import numpy as np
import pytest
from hypothesis import given, strategies
from numpy.typing import NDArray

from tests.properties import clusters
from tests.unit.core import sessions
from vscheduler.core.api.contracts import NodeView
from vscheduler.core.plugins.binpack import Binpack
from vscheduler.core.plugins.nodeorder import NodeOrder
from vscheduler.model import resources
from vscheduler.model.jobs import PodClass
from vscheduler.model.nodes import NodeLayout, NodeSpec
from vscheduler.model.resources import Vector

Scores = NDArray[np.float64]

HUGE = resources.ALLOCATABLE_MAX
WEIGHTS = {"leastrequested.weight": 1, "mostrequested.weight": 3, "balancedresource.weight": 5}
SEEDS = strategies.integers(0, 2**32)


def view(chance: np.random.Generator) -> NodeView:
    """Nodes with amounts of all sizes: without some resource, full, and over what they have."""
    size = int(chance.integers(1, 40))
    layout = NodeLayout([NodeSpec(name=f"n{row:02}") for row in range(size)])
    shape = (size, sessions.SPACE.size)
    most = chance.choice([3, 1000, 2**35, HUGE])
    allocatable = chance.integers(0, most, shape, dtype=np.int64, endpoint=True)
    allocatable[chance.random(shape) < 0.1] = 0
    used = (allocatable * chance.choice([0, 0.3, 1, 1.2], shape)).astype(np.int64)
    future = np.where(chance.random(shape) < 0.5, used, used // 2)
    rows = [resources.by_column(each) for each in (allocatable, used, future)]
    return NodeView(layout, None, rows[0], rows[1], rows[2], {}, {})


def some_kind(chance: np.random.Generator, nodes: NodeView) -> PodClass:
    """A class of pods that some of these nodes may have room for."""
    row = nodes.allocatable[int(chance.integers(nodes.size))]
    amounts = (row * chance.random(row.size)).astype(int).tolist()
    names = zip(sessions.SPACE.names, amounts, strict=True)
    return PodClass(request={name: amount for name, amount in names if amount})


def usage(request: Vector, nodes: NodeView) -> Scores:
    """Nodeorder's, with the weights above."""
    cpu, memory = (
        np.minimum(
            (np.maximum(nodes.used[:, column], nodes.future_used[:, column]) + request[column])
            / np.maximum(nodes.allocatable[:, column], 1),
            1.0,
        )
        for column in (0, 1)
    )
    no_cpu, no_memory = (nodes.allocatable[:, column] == 0 for column in (0, 1))
    cpu, memory = np.where(no_cpu, memory, cpu), np.where(no_memory, cpu, memory)
    scores: Scores = 600.0 + 100.0 * (cpu + memory)
    scores -= 250.0 * np.abs(cpu - memory)
    return scores


def packing(request: Vector, nodes: NodeView) -> Scores:
    """Binpack's, where memory counts twice."""
    weights = {0: 1, 1: 2}
    whole = sum(weight for column, weight in weights.items() if request[column])
    total = np.zeros(nodes.size)
    for column, weight in weights.items():
        if request[column]:
            allocatable = nodes.allocatable[:, column]
            used = nodes.used[:, column] + request[column]
            part = np.where(used <= allocatable, used / np.maximum(allocatable, 1), 0.0)
            total += 100.0 * weight / whole * part
    return total


@pytest.mark.parametrize("plain", [usage, packing])
@clusters.bounded(300)
@given(SEEDS)
def test_scores_are_those_of_the_plain_formula(plain: object, seed: int) -> None:
    """To the last bit, as ties decide; of all nodes, of some, and asked again."""
    chance = np.random.default_rng(seed)
    nodes = view(chance)
    plugin: NodeOrder | Binpack = NodeOrder(WEIGHTS)
    formula = usage
    if plain is packing:
        plugin, formula = Binpack({"binpack.memory": 2}), packing
    plugin.open(sessions.opened())
    before = [array.copy() for array in (nodes.allocatable, nodes.used, nodes.future_used)]
    for number in range(3):
        pod_class = some_kind(chance, nodes)
        pod = sessions.task("j", number, of=pod_class)
        expected = formula(sessions.SPACE.vector(pod_class.request), nodes)
        assert plugin.score_nodes(pod, nodes).tolist() == expected.tolist()
        rows = chance.integers(0, nodes.size, 3).tolist()
        part = plugin.score_nodes(pod, sessions.part(nodes, *rows))
        assert part.tolist() == expected[rows].tolist()
    for array, kept in zip((nodes.allocatable, nodes.used, nodes.future_used), before, strict=True):
        assert (array == kept).all()


@clusters.bounded(300)
@given(SEEDS)
def test_room_is_looked_at_in_requested_columns_only(seed: int) -> None:
    """Row by row, amount by amount."""
    chance = np.random.default_rng(seed)
    nodes = view(chance)
    request = sessions.SPACE.vector(some_kind(chance, nodes).request)
    expected = [
        all(
            amount <= has - used
            for amount, has, used in zip(*map(np.ndarray.tolist, row), strict=True)
            if amount
        )
        for row in zip(
            np.tile(request, (nodes.size, 1)), nodes.allocatable, nodes.used, strict=True
        )
    ]
    assert resources.fits(request, nodes.allocatable, nodes.used).tolist() == expected
    assert resources.fits(request, nodes.allocatable - nodes.used).tolist() == expected
