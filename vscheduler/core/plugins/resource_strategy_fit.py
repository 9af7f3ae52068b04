"""Resource-strategy-fit: fill nodes by some resources and spread by others, each with a weight.

Volcano: plugins/resource-strategy-fit. Argument `sra` also keeps nodes with scarce devices for pods
that need the devices. Argument `proportional` reserves cpu and memory on such nodes for free
devices.
"""

import json
import math
from collections.abc import Mapping
from typing import ClassVar, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Argument, FilterResult, NodeView, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.model import resources
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import NodeLayout
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.resources import Vector

FULL_SCORE = 100.0
ALWAYS = (0, 1)
"""The columns of cpu and memory, which count for every pod, requested or not."""

SCORING = "volcano.sh/resource-strategy-scoring-type"
WEIGHT = "volcano.sh/resource-strategy-weight"
"""Hints of a pod: the pod's own strategy, and weights of resources as JSON."""

WEIGHT_MAX = 2**31 - 1
"""The largest weight of a resource in a pod's hint."""

LEAST_ALLOCATED = "LeastAllocated"
MOST: Mapping[str, bool] = {LEAST_ALLOCATED: False, "MostAllocated": True}
"""Strategies, and whether full nodes score high."""

Scores = NDArray[np.float64]

Strategy: TypeAlias = tuple[bool | None, int]
"""Whether full nodes score high, and the weight. None stands for an unknown strategy, without any
score."""

DEFAULT: Mapping[str, Strategy] = {resources.CPU: (False, 1), resources.MEMORY: (False, 1)}


class Part(msgspec.Struct, frozen=True):
    """One resource that counts for a pod class."""

    column: int
    amount: int
    most: bool | None
    weight: int


class Scarce(msgspec.Struct, frozen=True):
    """The value of argument `sra`."""

    weight: int = 0
    resources: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Weight by resource."""


def strategies(value: Mapping[str, object]) -> Mapping[str, Strategy]:
    """Return argument `resources` as strategy and weight by resource name or `prefix*`.

    Raises ValueError for an invalid value.
    """
    found: dict[str, Strategy] = {}
    for name, entry in value.items():
        text = _text("a resource's name", name)
        if text == "*" or "*" in text[:-1]:
            raise ValueError(f"{text}: only one * is possible, at the end of a name")
        given = _known(text, entry, {"type", "weight"})
        written = _text(f"{text}.type", given.get("type", LEAST_ALLOCATED))
        if written not in MOST:
            raise ValueError(f"{text}.type must be one of {', '.join(MOST)}, not {written}")
        found[text] = (MOST[written], _whole(f"{text}.weight", given.get("weight", 1), 1))
    return found or DEFAULT


def scarce(value: Mapping[str, object]) -> Scarce:
    """Return argument `sra`; raise ValueError for an invalid value."""
    given = _known("sra", value, {"enable", "resources", "weight", "resourceWeight"})
    names = _listed(given.get("resources", ""))
    weights = _known("resourceWeight", given.get("resourceWeight", {}), None)
    resources_weighed = {
        name: _whole(f"resourceWeight.{name}", weights.get(name, 1), 0) for name in names
    }
    weight = _whole("weight", given.get("weight", 0), 0)
    return Scarce(weight, resources_weighed) if _enabled(given) else Scarce()


def proportions(value: Mapping[str, object]) -> Mapping[str, tuple[float, float]]:
    """Return argument `proportional` as cores and gigabytes for each device, by resource.

    Raises ValueError for an invalid value.
    """
    given = _known("proportional", value, {"enable", "resources", "resourceProportion"})
    names = _listed(given.get("resources", ""))
    rates = _known("resourceProportion", given.get("resourceProportion", {}), None)
    found = {name: (_rate(rates, f"{name}.cpu"), _rate(rates, f"{name}.memory")) for name in names}
    return found if _enabled(given) else {}


def matching(name: str, configured: Mapping[str, Strategy]) -> Strategy | None:
    """Return the strategy of a resource: by name, or else by the longest matching prefix."""
    if name in configured:
        return configured[name]
    fitting = [each for each in configured if each.endswith("*") and name.startswith(each[:-1])]
    return configured[max(fitting, key=len)] if fitting else None


def _known(name: str, value: object, keys: set[str] | None) -> Mapping[str, object]:
    """Return a mapping after checking its keys."""
    if type(value) is not dict:
        raise ValueError(f"{name} must be a mapping, not {value!r}")
    for key in value:
        if not isinstance(key, str) or (keys is not None and key not in keys):
            raise ValueError(f"{name} has no key {key!r}")
    return value


def _text(name: str, value: object) -> str:
    """Return a text after checking that it isn't empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be text, not {value!r}")
    return value


def _listed(value: object) -> list[str]:
    """Return names separated by commas as a list."""
    if type(value) is not str:
        raise ValueError(f"resources must be text, names with commas between them, not {value!r}")
    return [name for name in map(str.strip, value.split(",")) if name]


def _whole(name: str, value: object, least: int) -> int:
    """Return a whole number after checking its minimum."""
    if type(value) is not int or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return value


def _rate(rates: Mapping[str, object], name: str) -> float:
    """Return a rate after checking its range; 1 if not given."""
    value = rates.get(name, 1.0)
    if type(value) not in (int, float) or not 0 <= float(str(value)) < math.inf:
        raise ValueError(f"resourceProportion.{name} must be a number from 0 up, not {value!r}")
    return float(str(value))


def _enabled(given: Mapping[str, object]) -> bool:
    """Return the value of `enable`, False if not given."""
    value = given.get("enable", False)
    if type(value) is not bool:
        raise ValueError(f"enable must be true or false, not {value!r}")
    return value


class ResourceStrategyFit(Plugin):
    """Scores nodes by a pod's own strategy, or else by the configured strategies."""

    name = "resource-strategy-fit"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "resourceStrategyFitWeight": Argument(int, 10, minimum=0),
        "resources": Argument(dict, {}, parse=strategies),
        "sra": Argument(dict, {}, parse=scarce),
        "proportional": Argument(dict, {}, parse=proportions),
    }

    def open(self, session: Session) -> None:
        """Read the arguments. The resources that count depend on the pod class only."""
        self._session = session
        self._weight = self.number("resourceStrategyFitWeight")
        self._strategies = strategies(self._mapping("resources"))
        self._scarce = scarce(self._mapping("sra"))
        self._proportions = proportions(self._mapping("proportional"))
        self._parts: dict[PodClass, list[Part]] = {}

    @depends_on(On.CLASS | On.NODE | On.USED)
    def score_nodes(self, task: Task, nodes: NodeView) -> Scores:
        """Return the weighted scores by strategy and by absence of scarce resources."""
        scores = np.zeros(nodes.size)
        if self._weight:
            scores += self._weight * FULL_SCORE * self._fit(task, nodes)
        if self._scarce.weight:
            scores += self._scarce.weight * FULL_SCORE * self._ordinary(task, nodes)
        return scores

    @depends_on(On.NOTHING)
    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> None:
        """Return None: on empty nodes, devices are free that pods without devices leave aside."""
        del pod_class, layout

    @depends_on(On.CLASS | On.NODE | On.USED)
    def filter_nodes(self, task: Task, nodes: NodeView) -> list[FilterResult]:
        """Refuse nodes that would have too little cpu or memory left for free devices.

        Volcano: checkNodeResourceIsProportional, which ignores pending releases.
        """
        columns = self._session.space.columns
        request = self._session.request(task)
        kept = {name: each for name, each in self._proportions.items() if name in columns}
        if any(request[columns[name]] for name in kept):
            return []
        results = []
        for name, (cores, gigabytes) in sorted(kept.items()):
            now, later = (
                self._keeps(nodes, used, request, columns[name], (cores, gigabytes))
                for used in (nodes.used, nodes.future_used)
            )
            refusal = Refusal(RefusalCode.OUT_OF_PROPORTION, name)
            results.append(FilterResult(refusal, now, later, curable=True))
        return results

    def _keeps(
        self,
        nodes: NodeView,
        used: Vector,
        request: Vector,
        column: int,
        rates: tuple[float, float],
    ) -> NDArray[np.bool_]:
        """Whether free devices keep enough cores and gigabytes at this usage, (n,)."""
        cores, gigabytes = rates
        idle = nodes.allocatable - used
        devices = np.maximum(idle[:, column], 0)
        left = idle[:, ALWAYS] - request[list(ALWAYS)]
        enough = (left[:, 0] >= devices * cores * 1000) & (left[:, 1] >= devices * gigabytes * 1e9)
        keeps: NDArray[np.bool_] = enough | (nodes.allocatable[:, column] == 0)
        return keeps

    def _fit(self, task: Task, nodes: NodeView) -> Scores:
        """Return the weighted mean of used or free fractions, 0 to 1; 0 for nodes without room.

        Volcano: Score.
        """
        known = self._parts.get(task.pod_class)
        parts = self._work_out(task) if known is None else known
        total = np.zeros(nodes.size)
        fits = np.ones(nodes.size, dtype=np.bool_)
        for part in parts:
            if part.most is None or not part.weight:
                continue
            allocatable = nodes.allocatable[:, part.column]
            used = nodes.used[:, part.column] + part.amount
            counted = used if part.most else allocatable - used
            total += part.weight * np.where(
                allocatable > 0, counted / np.maximum(allocatable, 1), 0.0
            )
            fits &= (used <= allocatable) | (allocatable == 0)
        whole = sum(part.weight for part in parts)
        return np.where(fits, total / whole if whole > 0 else total, 0.0)

    def _ordinary(self, task: Task, nodes: NodeView) -> Scores:
        """Return 1 for nodes without scarce resources, less the weights of those present.

        A node without any of a requested resource has 0 (Volcano: sraScore).
        """
        columns = self._session.space.columns
        scarce, whole = np.zeros(nodes.size), sum(self._scarce.resources.values())
        if not whole:
            return scarce
        for name, weight in self._scarce.resources.items():
            if name in columns:
                scarce += weight * (nodes.allocatable[:, columns[name]] > 0)
        able = np.all(nodes.allocatable[:, self._columns(task)] > 0, axis=1)
        return np.where(able, 1.0 - scarce / whole, 0.0)

    def _work_out(self, task: Task) -> list[Part]:
        """Return the resources that count for the task."""
        request: list[int] = self._session.request(task).tolist()
        names = self._session.space.names
        own = _own(task.pod_class)
        parts = []
        for column in self._columns(task):
            if own is None:
                strategy = matching(names[column], self._strategies)
            else:
                strategy = own.get(names[column])
            if strategy is not None:
                most, weight = strategy
                parts.append(Part(column, request[column], most, weight))
        self._parts[task.pod_class] = parts
        return parts

    def _columns(self, task: Task) -> list[int]:
        """Return the columns of cpu, memory and all requested resources."""
        return sorted({*ALWAYS, *np.flatnonzero(self._session.request(task)).tolist()})

    def _mapping(self, name: str) -> Mapping[str, object]:
        """Return an argument that is a mapping."""
        value = self.argument(name)
        assert isinstance(value, dict)
        return value


def _is_weight(value: object) -> bool:
    """Whether the value is a whole number small enough for finite sums of scores."""
    return type(value) is int and abs(value) <= WEIGHT_MAX


def _own(pod_class: PodClass) -> Mapping[str, Strategy] | None:
    """Return the pod's own strategies by resource; None without any.

    Strategies that can't be read score nothing, as in Volcano.
    """
    written = pod_class.hints.get(SCORING)
    if not written:
        return None
    try:
        weights = json.loads(pod_class.hints.get(WEIGHT, ""))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(weights, dict) or not all(map(_is_weight, weights.values())):
        return {}
    most = MOST.get(written)
    return {name: (most, weight) for name, weight in weights.items()}
