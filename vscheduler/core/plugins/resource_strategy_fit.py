"""Resource-strategy-fit: fill nodes by one resource and spread by another, each with its weight.

Volcano: plugins/resource-strategy-fit. Besides, `sra` keeps nodes with scarce devices for pods that
need them, and `proportional` keeps cpu and memory there free for the devices that are.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts
from vscheduler.core.model import jobs, resources

FULL_SCORE = 100.0
ALWAYS = (0, 1)
"""The columns of cpu and memory, which count for every pod, also where it asks for none."""

SCORING = "volcano.sh/resource-strategy-scoring-type"
WEIGHT = "volcano.sh/resource-strategy-weight"
"""Hints of a pod: a strategy of its own, and the weights of resources as JSON."""

WEIGHT_MAX = 2**31 - 1
"""Of a resource, as a pod writes it."""

OUT_OF_PROPORTION = "node(s) kept cpu and memory for free {resource}"

LEAST_ALLOCATED = "LeastAllocated"
MOST: Mapping[str, bool] = {LEAST_ALLOCATED: False, "MostAllocated": True}
"""The strategies, and whether full nodes score high with them."""

Scores = NDArray[np.float64]

Strategy: TypeAlias = tuple[bool | None, int]
"""Whether full nodes score high, and the weight; None for a strategy that there isn't: it scores
nothing."""

DEFAULT: Mapping[str, Strategy] = {resources.CPU: (False, 1), resources.MEMORY: (False, 1)}


@dataclass(frozen=True, slots=True)
class Part:
    """One resource that counts for a class of pods."""

    column: int
    amount: int
    most: bool | None
    weight: int


@dataclass(frozen=True, slots=True)
class Scarce:
    """Argument `sra`."""

    weight: int = 0
    resources: Mapping[str, int] = field(default_factory=dict)
    """Weight by resource."""


def strategies(value: Mapping[str, object]) -> Mapping[str, Strategy]:
    """Argument `resources`: strategy and weight by resource, or by the beginning of a name that
    ends in `*`. ValueError where it isn't that.
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
    """Argument `sra`; ValueError where it isn't that."""
    given = _known("sra", value, {"enable", "resources", "weight", "resourceWeight"})
    names = _listed(given.get("resources", ""))
    weights = _known("resourceWeight", given.get("resourceWeight", {}), None)
    resources_weighed = {
        name: _whole(f"resourceWeight.{name}", weights.get(name, 1), 0) for name in names
    }
    weight = _whole("weight", given.get("weight", 0), 0)
    return Scarce(weight, resources_weighed) if _enabled(given) else Scarce()


def proportions(value: Mapping[str, object]) -> Mapping[str, tuple[float, float]]:
    """Argument `proportional`: cores and gigabytes for each device, by resource; ValueError where
    it isn't that.
    """
    given = _known("proportional", value, {"enable", "resources", "resourceProportion"})
    names = _listed(given.get("resources", ""))
    rates = _known("resourceProportion", given.get("resourceProportion", {}), None)
    found = {name: (_rate(rates, f"{name}.cpu"), _rate(rates, f"{name}.memory")) for name in names}
    return found if _enabled(given) else {}


def matching(name: str, configured: Mapping[str, Strategy]) -> Strategy | None:
    """The strategy of a resource: that of its name, else that of the longest beginning of it."""
    if name in configured:
        return configured[name]
    fitting = [each for each in configured if each.endswith("*") and name.startswith(each[:-1])]
    return configured[max(fitting, key=len)] if fitting else None


def _known(name: str, value: object, keys: set[str] | None) -> Mapping[str, object]:
    """A mapping with no other keys than these."""
    if type(value) is not dict:
        raise ValueError(f"{name} must be a mapping, not {value!r}")
    for key in value:
        if not isinstance(key, str) or (keys is not None and key not in keys):
            raise ValueError(f"{name} has no key {key!r}")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be text, not {value!r}")
    return value


def _listed(value: object) -> list[str]:
    if type(value) is not str:
        raise ValueError(f"resources must be text, names with commas between them, not {value!r}")
    return [name for name in map(str.strip, value.split(",")) if name]


def _whole(name: str, value: object, least: int) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return value


def _rate(rates: Mapping[str, object], name: str) -> float:
    value = rates.get(name, 1.0)
    if type(value) not in (int, float) or not 0 <= float(str(value)) < math.inf:
        raise ValueError(f"resourceProportion.{name} must be a number from 0 up, not {value!r}")
    return float(str(value))


def _enabled(given: Mapping[str, object]) -> bool:
    value = given.get("enable", False)
    if type(value) is not bool:
        raise ValueError(f"enable must be true or false, not {value!r}")
    return value


class ResourceStrategyFit(contracts.Plugin):
    """What a pod doesn't say itself, the configuration says, resource by resource."""

    name = "resource-strategy-fit"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "resourceStrategyFitWeight": contracts.Argument(int, 10, minimum=0),
        "resources": contracts.Argument(dict, {}, parse=strategies),
        "sra": contracts.Argument(dict, {}, parse=scarce),
        "proportional": contracts.Argument(dict, {}, parse=proportions),
    }

    def open(self, session: contracts.Session) -> None:
        """Which resources count follows from the task class only."""
        self._session = session
        self._weight = self.number("resourceStrategyFitWeight")
        self._strategies = strategies(self._mapping("resources"))
        self._scarce = scarce(self._mapping("sra"))
        self._proportions = proportions(self._mapping("proportional"))
        self._parts: dict[jobs.PodClass, list[Part]] = {}

    def row_outlook(self, task: jobs.Task, rows: NDArray[np.int64]) -> None:
        """Nothing: the view shows all that counts."""

    def score_nodes(self, task: jobs.Task, nodes: contracts.NodeView) -> Scores:
        """Both kinds of scores, each with its weight."""
        scores = np.zeros(nodes.size)
        if self._weight:
            scores += self._weight * FULL_SCORE * self._fit(task, nodes)
        if self._scarce.weight:
            scores += self._scarce.weight * FULL_SCORE * self._ordinary(task, nodes)
        return scores

    def filter_nodes(
        self, task: jobs.Task, nodes: contracts.NodeView
    ) -> list[contracts.FilterResult]:
        """Nodes that would have too little cpu or memory left for their free devices.

        Volcano: checkNodeResourceIsProportional.
        """
        columns = self._session.space.columns
        request = self._session.request(task)
        kept = {name: each for name, each in self._proportions.items() if name in columns}
        if any(request[columns[name]] for name in kept):
            return []
        verdicts = []
        for name, (cores, gigabytes) in sorted(kept.items()):
            now, later = (
                self._keeps(nodes, used, request, columns[name], (cores, gigabytes))
                for used in (nodes.used, nodes.future_used)
            )
            refusal = OUT_OF_PROPORTION.format(resource=name)
            verdicts.append(contracts.FilterResult(refusal, now, later, curable=True))
        return verdicts

    def _keeps(
        self,
        nodes: contracts.NodeView,
        used: resources.Vector,
        request: resources.Vector,
        column: int,
        rates: tuple[float, float],
    ) -> NDArray[np.bool_]:
        """Whether free devices, by this much use, keep their cores and gigabytes, (n,)."""
        cores, gigabytes = rates
        idle = nodes.allocatable - used
        devices = np.maximum(idle[:, column], 0)
        left = idle[:, ALWAYS] - request[list(ALWAYS)]
        enough = (left[:, 0] >= devices * cores * 1000) & (left[:, 1] >= devices * gigabytes * 1e9)
        keeps: NDArray[np.bool_] = enough | (nodes.allocatable[:, column] == 0)
        return keeps

    def _fit(self, task: jobs.Task, nodes: contracts.NodeView) -> Scores:
        """The weighted mean of what would be used or left, 0 to 1; a node without room has 0.

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

    def _ordinary(self, task: jobs.Task, nodes: contracts.NodeView) -> Scores:
        """1 for nodes without any scarce resource, less by the weights of those that they have.

        0 where the node has nothing of something that the pod asks for (Volcano: sraScore).
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

    def _work_out(self, task: jobs.Task) -> list[Part]:
        """The resources that count for the task."""
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

    def _columns(self, task: jobs.Task) -> list[int]:
        """cpu, memory, and whatever the task asks for."""
        return sorted({*ALWAYS, *np.flatnonzero(self._session.request(task)).tolist()})

    def _mapping(self, name: str) -> Mapping[str, object]:
        value = self.argument(name)
        assert isinstance(value, dict)
        return value


def _is_weight(value: object) -> bool:
    """Whether it is a whole number that sums of scores stay finite with."""
    return type(value) is int and abs(value) <= WEIGHT_MAX


def _own(kind: jobs.PodClass) -> Mapping[str, Strategy] | None:
    """The pod's own strategy by resource; None where it has none.

    One that can't be read scores nothing, as in Volcano.
    """
    written = kind.hints.get(SCORING)
    if not written:
        return None
    try:
        weights = json.loads(kind.hints.get(WEIGHT, ""))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(weights, dict) or not all(map(_is_weight, weights.values())):
        return {}
    most = MOST.get(written)
    return {name: (most, weight) for name, weight in weights.items()}
