"""Node table: columns over all nodes, with rows sorted by name.

Constraints are evaluated for all nodes at once, with one answer per node of a NodeLayout. Results
that depend only on node specs are cached in the layout, keyed by the constraints involved.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.model import constraints
from vscheduler.model.constraints import (
    Constraints,
    Effect,
    HostPort,
    PreferredTerm,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from vscheduler.model.pod_texts import UndeclaredReadError, undeclared
from vscheduler.model.resources import Vector

Answer = TypeVar("Answer")
Mask = NDArray[np.bool_]
"""A boolean per node: shape (N,)."""

MEMO_CELLS_MAX = 2**25
"""Limit of a layout's cache, as number of masks times number of nodes: 32 MiB."""


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a node apart from amounts.

    Changes are rare; heartbeats change nothing here.
    """

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str | None], ...] = ()
    """Those that plugins declare to read, with None for missing ones."""
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    features: tuple[str, ...] = ()
    """Features declared by the kubelet."""


UNDECLARED = "\0"
"""Stands for a text that no plugin reads; no text has this value."""


def _coded(values: Sequence[str | None]) -> tuple[NDArray[np.int64], Mapping[str, int]]:
    """Return the code of each value, (N,), -1 for None, and the codes."""
    codes: dict[str, int] = {}
    column = np.full(len(values), -1, dtype=np.int64)
    for row, value in enumerate(values):
        if value is not None:
            column[row] = codes.setdefault(value, len(codes))
    return column, codes


class NodeLayout:
    """The nodes of a table without amounts, shared by all snapshots until a NodeSpec changes.

    A layout caches label columns and masks of constraints in `memo`. All cached values are pure
    functions of the specs, so sharing a layout changes no decision.
    """

    def __init__(self, specs: Sequence[NodeSpec]) -> None:
        self.specs = tuple(specs)
        self.names = tuple(spec.name for spec in self.specs)
        self.rows = {name: row for row, name in enumerate(self.names)}
        assert list(self.names) == sorted(self.rows), "nodes are sorted and named once"
        self._memo: dict[Hashable, Any] = {}
        self._labels: dict[str, tuple[NDArray[np.int64], Mapping[str, int]]] = {}
        self._annotations: dict[str, tuple[NDArray[np.int64], Mapping[str, int]]] = {}
        self._variant: NodeLayout | None = None

    @property
    def size(self) -> int:
        """N, the number of nodes."""
        return len(self.names)

    def memo(self, key: Hashable, compute: Callable[[], Answer]) -> Answer:
        """Return the read-only mask, or what has that size, under this key, computed on first use.

        When the cache is full, the oldest is dropped, lest pods with ever new selectors fill it.
        """
        if key not in self._memo:
            if len(self._memo) >= max(64, MEMO_CELLS_MAX // (self.size + 1)):
                del self._memo[next(iter(self._memo))]
            computed = self._memo[key] = compute()
            if isinstance(computed, np.ndarray):
                computed.setflags(write=False)
        found: Answer = self._memo[key]
        return found

    def label(self, key: str) -> tuple[NDArray[np.int64], Mapping[str, int]]:
        """Return a label as a column (N,), -1 for a missing label, and the code of each value."""
        known = self._labels.get(key)
        if known is None and key not in self._label_keys:  # users may ask for any number of keys
            return self._unlabelled
        if known is None:
            values = [labels.get(key) for labels in self._label_maps]
            known = self._labels[key] = _coded(values)
        return known

    def annotation(self, key: str) -> tuple[NDArray[np.int64], Mapping[str, int]]:
        """Return an annotation as `label` does; raise UndeclaredReadError if no plugin reads it."""
        known = self._annotations.get(key)
        if known is None:
            values = [dict(spec.annotations).get(key, UNDECLARED) for spec in self.specs]
            if UNDECLARED in values:
                message = undeclared("annotation", key, "reads_annotations", "nodes")
                raise UndeclaredReadError(message)
            known = self._annotations[key] = _coded(values)
        return known

    def variant(self, specs: tuple[NodeSpec, ...]) -> "NodeLayout":
        """Return a layout of different nodes. The last variant is reused for equal specs."""
        if self._variant is None or self._variant.specs != specs:
            self._variant = NodeLayout(specs)
        return self._variant

    @cached_property
    def taint_sets(self) -> Mapping[tuple[Taint, ...], NDArray[np.int64]]:
        """The distinct sets of taints, each with its rows: few sets for many nodes."""
        sets: dict[tuple[Taint, ...], list[int]] = {}
        for row, spec in enumerate(self.specs):
            sets.setdefault(spec.taints, []).append(row)
        return {taints: np.array(rows, dtype=np.int64) for taints, rows in sets.items()}

    @cached_property
    def schedulable(self) -> Mask:
        """Mask of nodes that are not cordoned."""
        return np.array([not spec.unschedulable for spec in self.specs], dtype=np.bool_)

    @cached_property
    def ready(self) -> Mask:
        """Mask of nodes whose Ready condition is True."""
        return np.array([spec.ready for spec in self.specs], dtype=np.bool_)

    @cached_property
    def _label_keys(self) -> frozenset[str]:
        return frozenset(key for spec in self.specs for key, _ in spec.labels)

    @cached_property
    def _unlabelled(self) -> tuple[NDArray[np.int64], Mapping[str, int]]:
        return np.full(self.size, -1, dtype=np.int64), {}

    @cached_property
    def _label_maps(self) -> tuple[dict[str, str], ...]:
        return tuple(dict(spec.labels) for spec in self.specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """All usable nodes with their capacity and usage.

    `used` counts every pod on a node, of any scheduler, including pods being deleted; `releasing`
    counts the pods being deleted. `ours` counts the remaining pods of this scheduler's queues. All
    arrays are (N, R) int64 and read-only.
    """

    layout: NodeLayout
    allocatable: Vector
    used: Vector
    releasing: Vector
    ours: Vector
    ports: Mapping[str, tuple[HostPort, ...]] = field(default_factory=dict)
    """Host ports of pods not being deleted, by node name. Nodes without host ports are left out."""
    leaving_ports: Mapping[str, tuple[HostPort, ...]] = field(default_factory=dict)
    """Host ports of pods being deleted, by node name."""
    holding: dict[object, Mask] = field(default_factory=dict, compare=False, repr=False)
    """Cache of large_enough, shared by all tables with equal `allocatable`, on which the masks
    depend."""

    def large_enough(self, key: object, compute: Callable[[], Mask]) -> Mask:
        """Return the read-only mask (N,) of nodes with enough capacity, computed on first use.

        When the cache is full, the oldest mask is dropped. Pods of ever new sizes therefore cannot
        fill the memory.
        """
        mask = self.holding.get(key)
        if mask is None:
            if len(self.holding) >= max(64, MEMO_CELLS_MAX // (self.layout.size + 1)):
                del self.holding[next(iter(self.holding))]
            mask = self.holding[key] = compute()
            mask.setflags(write=False)
        return mask

    def __post_init__(self) -> None:
        for array in (self.allocatable, self.used, self.releasing, self.ours):
            assert array.shape[0] == self.layout.size
            array.setflags(write=False)


Operator = constraints.Operator

NAME_FIELD = "metadata.name"
"""The only field allowed in a matchFields requirement."""

CORDON = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)
"""The taint of cordoned nodes. Pods that tolerate the taint may use cordoned nodes (Kubernetes:
NodeUnschedulable)."""

REPELLING = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)

INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
INTEGER_MAX = 2**63 - 1

Test = Callable[[str | None], bool]
"""Whether a label value matches; None stands for a node without the label."""


def selected(layout: NodeLayout, limits: Constraints) -> Mask:
    """Return the nodes allowed by nodeSelector and required node affinity, (N,).

    Kubernetes: component-helpers nodeaffinity.RequiredNodeAffinity.
    """
    selector, required = limits.node_selector, limits.required

    def compute() -> Mask:
        mask = np.ones(layout.size, dtype=np.bool_)
        for key, value in selector:
            mask &= _among(layout, key, (value,))
        if required is not None:
            mask &= matches_any(layout, required)
        return mask

    return layout.memo(("selected", selector, required), compute)


def featured(layout: NodeLayout, features: tuple[str, ...]) -> Mask:
    """Return the nodes that declare all of the features, (N,).

    Kubernetes: NodeDeclaredFeatures.
    """
    needed = frozenset(features)

    def compute() -> Mask:
        answers = [needed.issubset(spec.features) for spec in layout.specs]
        return np.array(answers, dtype=np.bool_)

    return layout.memo(("features", features), compute)


def matches(layout: NodeLayout, term: Term) -> Mask:
    """Return the nodes that meet all requirements of a term, (N,); none for an empty term."""

    def compute() -> Mask:
        mask = np.full(layout.size, bool(term.labels or term.fields), dtype=np.bool_)
        for requirement in term.labels:
            mask &= _met(layout, requirement)
        for requirement in term.fields:
            mask &= _on_field(layout, requirement)
        return mask

    return layout.memo(("term", term), compute)


def matches_any(layout: NodeLayout, terms: tuple[Term, ...]) -> Mask:
    """Return the nodes that any of these terms matches, (N,)."""
    mask = np.zeros(layout.size, dtype=np.bool_)
    for term in terms:
        mask |= matches(layout, term)
    return mask


def preference(layout: NodeLayout, preferred: tuple[PreferredTerm, ...]) -> NDArray[np.float64]:
    """Return for each node the sum of the weights of all matching preferred terms, (N,)."""
    total = np.zeros(layout.size)
    for each in preferred:
        total += each.weight * matches(layout, each.term)
    return total


def barriers(layout: NodeLayout, tolerations: tuple[Toleration, ...]) -> Mapping[Taint, Mask]:
    """Return the untolerated taints, each with the mask (N,) of nodes not excluded by the taint.

    A node counts for the first untolerated NoSchedule or NoExecute taint in its list (Kubernetes:
    FindMatchingUntoleratedTaint).
    """
    found: dict[Taint, Mask] = {}
    for taints, rows in layout.taint_sets.items():
        taint = next(
            (taint for taint in taints if taint.effect in REPELLING and _bars(taint, tolerations)),
            None,
        )
        if taint is not None:
            if taint not in found:
                found[taint] = np.ones(layout.size, dtype=np.bool_)
            found[taint][rows] = False
    return found


def soft_taints(layout: NodeLayout, tolerations: tuple[Toleration, ...]) -> NDArray[np.int64]:
    """Return the number of untolerated PreferNoSchedule taints of each node, (N,).

    Tolerations for other effects do not count (Kubernetes: getAllTolerationPreferNoSchedule).
    """
    counts = np.zeros(layout.size, dtype=np.int64)
    soft = Effect.PREFER_NO_SCHEDULE
    for taints, rows in layout.taint_sets.items():
        counts[rows] = sum(taint.effect is soft and _bars(taint, tolerations) for taint in taints)
    return counts


def uncordoned(layout: NodeLayout, tolerations: tuple[Toleration, ...]) -> Mask:
    """Return the nodes open to new pods, (N,): not cordoned, or cordoned and tolerated."""
    if _bars(CORDON, tolerations):
        return layout.schedulable
    return layout.memo("all", lambda: np.ones(layout.size, dtype=np.bool_))


def still_takes(before: NodeSpec, now: NodeSpec, tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a node is ready and was not cordoned meanwhile, as far as the tolerations matter."""
    cordoned = now.unschedulable and not before.unschedulable
    return now.ready and not (cordoned and _bars(CORDON, tolerations))


def free_ports(
    layout: NodeLayout,
    rows: NDArray[np.int64] | None,
    wanted: tuple[HostPort, ...],
    taken: Mapping[str, tuple[HostPort, ...]],
) -> Mask:
    """Return which of the rows (None: all) have all wanted host ports free, (n,).

    `taken` is by node name. Ports in use change within a cycle, so the result is not cached.
    """
    names = layout.names if rows is None else [layout.names[row] for row in rows.tolist()]
    return np.array(
        [
            name not in taken
            or not any(port.conflicts(other) for port in wanted for other in taken[name])
            for name in names
        ],
        dtype=np.bool_,
    )


def _bars(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return not any(toleration.tolerates(taint) for toleration in tolerations)


def _met(layout: NodeLayout, requirement: Requirement) -> Mask:
    """Return which nodes (N,) meet a requirement on a label."""
    if not requirement.values or requirement.operator not in (Operator.IN, Operator.NOT_IN):
        return _on_label(layout, requirement.key, _label_test(requirement))
    listed = _among(layout, requirement.key, requirement.values)
    return listed if requirement.operator is Operator.IN else ~listed


def _among(layout: NodeLayout, key: str, values: tuple[str, ...]) -> Mask:
    """Return which nodes (N,) have one of these values; one look-up for each listed value."""
    column, codes = layout.label(key)
    answers = np.zeros(len(codes) + 1, dtype=np.bool_)
    answers[[codes[value] for value in values if value in codes]] = True
    return answers[column]  # a node without the label has code -1


def _on_label(layout: NodeLayout, key: str, test: Test) -> Mask:
    """Evaluate a test once for each distinct value of a label, and once for a missing label."""
    column, codes = layout.label(key)
    answers = np.zeros(len(codes) + 1, dtype=np.bool_)
    for value, code in codes.items():
        answers[code] = test(value)
    answers[-1] = test(None)  # a node without the label has code -1
    return answers[column]


def _on_field(layout: NodeLayout, requirement: Requirement) -> Mask:
    """Evaluate a matchFields requirement.

    Kubernetes allows only metadata.name, with In or NotIn and one value.
    """
    mask = np.zeros(layout.size, dtype=np.bool_)
    if requirement.key != NAME_FIELD or len(requirement.values) != 1:
        return mask
    if requirement.operator not in (Operator.IN, Operator.NOT_IN):
        return mask
    row = layout.rows.get(requirement.values[0])
    if row is not None:
        mask[row] = True
    return mask if requirement.operator is Operator.IN else ~mask


def _label_test(requirement: Requirement) -> Test:
    """Return the test of a requirement. An invalid requirement matches nothing.

    In and NotIn with values need no test. Gt and Lt need integers on both sides. Kubernetes:
    labels.Requirement.Matches, and NewRequirement for validity.
    """
    values, operator = requirement.values, requirement.operator
    if operator in (Operator.GT, Operator.LT):
        return _number_test(requirement)
    if values or operator in (Operator.IN, Operator.NOT_IN):
        return lambda _: False
    return lambda label: (label is not None) is (operator is Operator.EXISTS)


def _number_test(requirement: Requirement) -> Test:
    bound = _integer(requirement.values[0]) if len(requirement.values) == 1 else None
    above = requirement.operator is Operator.GT

    def test(label: str | None) -> bool:
        number = _integer(label)
        if bound is None or number is None:
            return False
        return number > bound if above else number < bound

    return test


def _integer(text: str | None) -> int | None:
    """Parse an integer like Go's ParseInt: decimal, 64 bits. Return None for any other text."""
    if text is None or len(text) > 100 or not INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -INTEGER_MAX - 1 <= number <= INTEGER_MAX else None


def row_set(mask: Mask) -> int:
    """Return a mask of nodes (N,) as a set in an integer: bit n stands for row n."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")
