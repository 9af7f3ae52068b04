from typing import Any

import numpy as np
import pytest

from tests.unit.core import sessions
from vscheduler.core.compat.plugins import VolcanoResourceStrategyFit
from vscheduler.core.config.validation import Findings
from vscheduler.core.plugins import resource_strategy_fit as fit
from vscheduler.core.plugins.resource_strategy_fit import ResourceStrategyFit
from vscheduler.model.jobs import PodClass
from vscheduler.model.nodes import NodeLayout, NodeSpec

GI = 2**30
NODES = [
    {"cpu": 8000, "memory": 8 * GI, "pods": 10},
    {"cpu": 8000, "memory": 8 * GI, "pods": 10, sessions.GPU: 4},
]
USED = [{"cpu": 1000}, {"cpu": 5000, "memory": 2 * GI, sessions.GPU: 1}]
LAYOUT = NodeLayout([NodeSpec(name="n0"), NodeSpec(name="n1")])
VIEW = sessions.view(LAYOUT, NODES, USED)
POD = sessions.pod_class(cpu=1000)
DEVICE = sessions.pod_class(cpu=1000, gpu=1)


def complaints(**arguments: Any) -> list[str]:
    """What is wrong with these arguments."""
    found = Findings()
    found.arguments((), arguments, ResourceStrategyFit.arguments, "it")
    return [str(problem) for problem in found.problems]


def opened(
    kind: type[ResourceStrategyFit] = ResourceStrategyFit, /, **arguments: Any
) -> ResourceStrategyFit:
    """The plugin with these arguments."""
    assert complaints(**arguments) == []
    plugin = kind(arguments)
    plugin.open(sessions.opened())
    return plugin


def scores(plugin: ResourceStrategyFit, pod_class: PodClass) -> list[float]:
    """What both nodes get; a part of them gets the same."""
    task = sessions.task("j", of=pod_class)
    whole = plugin.score_nodes(task, VIEW)
    part = plugin.score_nodes(task, sessions.part(VIEW, 1))
    assert part.tolist() == whole[1:].tolist()
    return [round(each, 6) for each in whole.tolist()]


def test_pods_spread_by_default() -> None:
    """The mean of what is left of cpu and memory, weight ten; the pod asks for no memory."""
    assert scores(opened(), POD) == [875.0, 500.0]
    assert scores(opened(resourceStrategyFitWeight=1), POD) == [87.5, 50.0]
    assert scores(opened(resourceStrategyFitWeight=0), POD) == [0.0, 0.0]


STRATEGIES: dict[str, tuple[dict[str, Any], PodClass, list[float]]] = {
    "most": ({"cpu": {"type": "MostAllocated"}}, POD, [250.0, 750.0]),
    "the type may be missing": ({"cpu": {}}, POD, [750.0, 250.0]),
    "weights": (
        {"cpu": {"type": "MostAllocated", "weight": 3}, "memory": {"type": "LeastAllocated"}},
        POD,
        [437.5, 750.0],
    ),
    "a device that the node hasn't got counts with nothing": (
        {"cpu": {"type": "MostAllocated"}, sessions.GPU: {"type": "MostAllocated"}},
        DEVICE,
        [125.0, 625.0],
    ),
    "only what the pod asks for": (
        {"cpu": {"type": "MostAllocated"}, sessions.GPU: {"type": "MostAllocated"}},
        POD,
        [250.0, 750.0],
    ),
    "by the beginning of a name": ({"nvidia.com/*": {"type": "MostAllocated"}}, DEVICE, [0, 500]),
    "the longest one wins": (
        {"nvidia.com/*": {"type": "MostAllocated"}, "nvidia*": {"type": "LeastAllocated"}},
        sessions.pod_class(gpu=2),
        [0.0, 750.0],
    ),
    "the name itself wins": (
        {"nvidia.com/*": {}, sessions.GPU: {"type": "MostAllocated", "weight": 2}},
        sessions.pod_class(gpu=2),
        [0.0, 750.0],
    ),
    "nothing that counts": ({"example.com/x": {}}, POD, [0.0, 0.0]),
    "a node where it doesn't fit": ({"cpu": {}}, sessions.pod_class(cpu=4000), [375.0, 0.0]),
    "nor is the rest of its score left": (
        {"cpu": {}, "memory": {}},
        sessions.pod_class(cpu=4000),
        [687.5, 0.0],
    ),
    "pod slots": ({"pods": {"type": "MostAllocated"}}, POD, [100.0, 100.0]),
}


@pytest.mark.parametrize(
    ("resources", "pod_class", "expected"), STRATEGIES.values(), ids=STRATEGIES
)
def test_each_resource_has_its_strategy(
    resources: dict[str, Any], pod_class: PodClass, expected: list[float]
) -> None:
    """The weighted mean of what would be used, or left."""
    assert scores(opened(resources=resources), pod_class) == expected


OWN = {
    "most": ("MostAllocated", '{"cpu": 1}', [250.0, 750.0]),
    "what it leaves out doesn't count": ("LeastAllocated", '{"memory": 2}', [1000.0, 750.0]),
    "no such strategy": ("Fastest", '{"cpu": 1}', [0.0, 0.0]),
    "no weights": ("MostAllocated", "", [0.0, 0.0]),
    "weights that can't be read": ("MostAllocated", "{", [0.0, 0.0]),
    "weights that are no mapping": ("MostAllocated", "[1]", [0.0, 0.0]),
    "weights that are no whole numbers": ("MostAllocated", '{"cpu": 1.5}', [0.0, 0.0]),
    "no strategy": ("", '{"cpu": 1}', [875.0, 500.0]),
}


@pytest.mark.parametrize(("written", "weights", "expected"), OWN.values(), ids=OWN)
def test_a_pod_may_have_its_own(written: str, weights: str, expected: list[float]) -> None:
    """Read from its hints, in place of what is configured."""
    hints = {fit.SCORING: written, fit.WEIGHT: weights}
    pod_class = PodClass(request=POD.request, hints=hints)
    assert scores(opened(), pod_class) == expected


SRA = {"enable": True, "resources": f" {sessions.GPU}, example.com/x", "weight": 5}


@pytest.mark.parametrize(
    ("settings", "pod_class", "expected"),
    [
        ({}, POD, [500.0, 250.0]),
        ({"resourceWeight": {sessions.GPU: 4}}, POD, [500.0, 100.0]),
        ({}, DEVICE, [0.0, 250.0]),
        ({"weight": 0}, POD, [0.0, 0.0]),
        ({"enable": False}, POD, [0.0, 0.0]),
        ({"resourceWeight": {sessions.GPU: 0, "example.com/x": 0}}, POD, [0.0, 0.0]),
        ({"resources": ""}, POD, [0.0, 0.0]),
    ],
)
def test_scarce_devices_keep_ordinary_pods_away(
    settings: dict[str, Any], pod_class: PodClass, expected: list[float]
) -> None:
    """By weight; a node that hasn't got what the pod asks for has no score at all."""
    plugin = opened(resourceStrategyFitWeight=0, sra=SRA | settings)
    assert scores(plugin, pod_class) == expected


def kept(cpu: float, memory: float, **more: Any) -> dict[str, Any]:
    """So much for each free device."""
    rates = {f"{sessions.GPU}.cpu": cpu, f"{sessions.GPU}.memory": memory}
    return {"enable": True, "resources": sessions.GPU, "resourceProportion": rates} | more


# One node with four devices, one of them in use, three cores and six gibibytes free.
PROPORTIONS = {
    "two cores are left for three devices": (kept(0.6, 0), POD, True),
    "just so": (kept(2 / 3, 0), POD, True),
    "too few cores": (kept(0.7, 0), POD, False),
    "too little memory": (kept(0, 2.2), POD, False),
    "enough memory": (kept(0, 2.1), POD, True),
    "pods with devices may": (kept(9, 9), DEVICE, True),
    "one each, where nothing is said": (kept(0, 0, resourceProportion={}), POD, False),
    "off": (kept(9, 9, enable=False), POD, True),
    "a device that nobody has": (kept(9, 9, resources="example.com/x"), POD, True),
}


@pytest.mark.parametrize(("settings", "pod_class", "passes"), PROPORTIONS.values(), ids=PROPORTIONS)
def test_free_devices_keep_what_goes_with_them(
    settings: dict[str, Any], pod_class: PodClass, passes: bool
) -> None:
    """Nodes without devices take whatever fits."""
    plugin = opened(proportional=settings)
    mask = np.ones(2, dtype=np.bool_)
    for verdict in plugin.filter_nodes(sessions.task("j", of=pod_class), VIEW):
        assert verdict.curable
        mask &= verdict.passes
    assert mask.tolist() == [True, passes]


def test_what_is_being_freed_counts_for_those_who_wait() -> None:
    """But in Volcano, which then can't evict for it either."""
    future = [{"cpu": 1000}, {"cpu": 1000, sessions.GPU: 1}]
    view = sessions.view(LAYOUT, NODES, USED, future)
    task = sessions.task("j", of=POD)
    (here,) = opened(proportional=kept(1, 0)).filter_nodes(task, view)
    assert here.passes.tolist() == [True, False]
    assert here.later is not None
    assert here.later.tolist() == [True, True]
    volcanos = opened(VolcanoResourceStrategyFit, proportional=kept(1, 0))
    (there,) = volcanos.filter_nodes(task, view)
    assert (there.passes.tolist(), there.later, there.curable) == ([True, False], None, False)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a weight": ({"resourceStrategyFitWeight": -1}, "must be at least 0, not -1"),
    "all names": ({"resources": {"*": {}}}, "*: only one * is possible, at the end of a name"),
    "a star inside": (
        {"resources": {"a*b*": {}}},
        "a*b*: only one * is possible, at the end of a name",
    ),
    "a type": (
        {"resources": {"cpu": {"type": "Most"}}},
        "cpu.type must be one of LeastAllocated, MostAllocated, not Most",
    ),
    "no weight": (
        {"resources": {"cpu": {"weight": 0}}},
        "cpu.weight must be a whole number of at least 1, not 0",
    ),
    "a key": ({"resources": {"cpu": {"wieght": 1}}}, "cpu has no key 'wieght'"),
    "no mapping": ({"resources": {"cpu": 1}}, "cpu must be a mapping, not 1"),
    "no name": ({"resources": {5: {}}}, "a resource's name must be text, not 5"),
    "sra: a key": ({"sra": {"enabled": True}}, "sra has no key 'enabled'"),
    "sra: enable": ({"sra": {"enable": "yes"}}, "enable must be true or false, not 'yes'"),
    "sra: names": (
        {"sra": {"resources": ["a"]}},
        "resources must be text, names with commas between them, not ['a']",
    ),
    "sra: a weight": (
        {"sra": {"weight": -1}},
        "weight must be a whole number of at least 0, not -1",
    ),
    "sra: a resource's weight": (
        {"sra": {"resources": "a", "resourceWeight": {"a": 1.5}}},
        "resourceWeight.a must be a whole number of at least 0, not 1.5",
    ),
    "proportional: a rate": (
        {"proportional": {"resources": "a", "resourceProportion": {"a.cpu": -1}}},
        "resourceProportion.a.cpu must be a number from 0 up, not -1",
    ),
    "proportional: no number": (
        {"proportional": {"resources": "a", "resourceProportion": {"a.memory": "1"}}},
        "resourceProportion.a.memory must be a number from 0 up, not '1'",
    ),
    "proportional: no mapping": (
        {"proportional": {"resourceProportion": 1}},
        "resourceProportion must be a mapping, not 1",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_arguments_are_read_strictly(arguments: dict[str, Any], message: str) -> None:
    """Volcano puts a default in place of what it doesn't like."""
    (name,) = arguments
    assert complaints(**arguments) == [f"{name}: {message}"]
