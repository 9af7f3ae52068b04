"""NodeTable: columns over all nodes, rows sorted by name.

Constraints are worked out on all nodes at once: one answer per node of a NodeLayout. Whatever
depends only on the nodes' specs is remembered by the layout, under the part of the constraints
that it follows from.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import constraints, resources

Mask = NDArray[np.bool_]
"""One answer per node: shape (N,)."""

MEMO_CELLS_MAX = 2**25
"""Masks that a layout remembers, times nodes: 32 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What a node is, but for amounts: it changes rarely, and heartbeats don't change it."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[constraints.Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    features: tuple[str, ...] = ()
    """What its kubelet says that it can do."""


class NodeLayout:
    """The nodes of a table without their amounts; shared by all snapshots until a NodeSpec changes.

    It holds what is worked out once for these nodes (label columns, masks of constraints) in
    `memo`: a pure function of the specs, so sharing it changes no decision.
    """

    def __init__(self, specs: Sequence[NodeSpec]) -> None:
        self.specs = tuple(specs)
        self.names = tuple(spec.name for spec in self.specs)
        self.rows = {name: row for row, name in enumerate(self.names)}
        assert list(self.names) == sorted(self.rows), "nodes are sorted and named once"
        self._memo: dict[object, Mask] = {}
        self._labels: dict[str, tuple[NDArray[np.int64], Mapping[str, int]]] = {}
        self._variant: NodeLayout | None = None

    @property
    def size(self) -> int:
        """N, the number of nodes."""
        return len(self.names)

    def memo(self, key: object, compute: Callable[[], Mask]) -> Mask:
        """The mask under this key, computed at the first call; nobody may write into it.

        The oldest are dropped where pods with ever new selectors come and go.
        """
        mask = self._memo.get(key)
        if mask is None:
            if len(self._memo) >= max(64, MEMO_CELLS_MAX // (self.size + 1)):
                del self._memo[next(iter(self._memo))]
            mask = compute()
            mask.setflags(write=False)
            self._memo[key] = mask
        return mask

    def label(self, key: str) -> tuple[NDArray[np.int64], Mapping[str, int]]:
        """A label as a column of codes (N,), -1 where it is missing, and value to code."""
        known = self._labels.get(key)
        if known is None and key not in self._label_keys:  # whoever may name any keys isn't noted
            return self._unlabelled
        if known is None:
            codes: dict[str, int] = {}
            column = np.full(self.size, -1, dtype=np.int64)
            for row, labels in enumerate(self._label_maps):
                value = labels.get(key)
                if value is not None:
                    column[row] = codes.setdefault(value, len(codes))
            known = self._labels[key] = (column, codes)
        return known

    def variant(self, specs: tuple[NodeSpec, ...]) -> "NodeLayout":
        """A layout of other nodes; the last one again where they are the same as then."""
        if self._variant is None or self._variant.specs != specs:
            self._variant = NodeLayout(specs)
        return self._variant

    @cached_property
    def taint_sets(self) -> Mapping[tuple[constraints.Taint, ...], NDArray[np.int64]]:
        """Each distinct set of taints, with the rows that have it: few sets, many nodes."""
        sets: dict[tuple[constraints.Taint, ...], list[int]] = {}
        for row, spec in enumerate(self.specs):
            sets.setdefault(spec.taints, []).append(row)
        return {taints: np.array(rows, dtype=np.int64) for taints, rows in sets.items()}

    @cached_property
    def schedulable(self) -> Mask:
        """Nodes that aren't cordoned."""
        return np.array([not spec.unschedulable for spec in self.specs], dtype=np.bool_)

    @cached_property
    def ready(self) -> Mask:
        """Nodes whose Ready condition is True."""
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
    """All nodes that may be used, with what they have and what is taken.

    used counts every pod that holds room there, whoever scheduled it, those that are being
    deleted (releasing) included; ours is the part of it that pods of our queues hold that stay.
    All arrays are (N, R) int64 and read-only.
    """

    layout: NodeLayout
    allocatable: resources.Vector
    used: resources.Vector
    releasing: resources.Vector
    ours: resources.Vector
    ports: Mapping[str, tuple[constraints.HostPort, ...]] = field(default_factory=dict)
    """Host ports of pods that stay, by node name; only nodes that have some."""
    leaving_ports: Mapping[str, tuple[constraints.HostPort, ...]] = field(default_factory=dict)
    """Host ports of pods that are being deleted, the same way."""
    holding: dict[object, Mask] = field(default_factory=dict, compare=False, repr=False)
    """Which nodes are large enough, (N,), by what for: shared by tables with this `allocatable`,
    from which it follows."""

    def large_enough(self, key: object, compute: Callable[[], Mask]) -> Mask:
        """What `holding` has under this key, computed at the first call; nobody may write into it.

        The oldest are dropped where pods of ever new sizes come and go.
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
"""The only field that a matchFields requirement may name."""

CORDON = constraints.Taint("node.kubernetes.io/unschedulable", "", constraints.Effect.NO_SCHEDULE)
"""Who tolerates this may use cordoned nodes (Kubernetes: NodeUnschedulable)."""

REPELLING = (constraints.Effect.NO_SCHEDULE, constraints.Effect.NO_EXECUTE)

INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
INTEGER_MAX = 2**63 - 1

Test = Callable[[str | None], bool]
"""Whether a label's value passes; None stands for a node without the label."""


def selected(layout: NodeLayout, limits: constraints.Constraints) -> Mask:
    """Nodes that the pod's nodeSelector and its required node affinity allow, (N,).

    Kubernetes: component-helpers nodeaffinity.RequiredNodeAffinity.
    """
    selector, required = limits.node_selector, limits.required

    def compute() -> Mask:
        mask = np.ones(layout.size, dtype=np.bool_)
        for key, value in selector:
            mask &= _on_label(layout, key, _equals(value))
        if required is not None:
            mask &= _any_term(layout, required)
        return mask

    return layout.memo(("selected", selector, required), compute)


def featured(layout: NodeLayout, features: tuple[str, ...]) -> Mask:
    """Nodes that say they have all of these features, (N,).

    Kubernetes: NodeDeclaredFeatures.
    """
    needed = frozenset(features)

    def compute() -> Mask:
        answers = [needed.issubset(spec.features) for spec in layout.specs]
        return np.array(answers, dtype=np.bool_)

    return layout.memo(("features", features), compute)


def matches(layout: NodeLayout, term: constraints.Term) -> Mask:
    """Nodes that meet all conditions of a term, (N,); none when it has none."""

    def compute() -> Mask:
        mask = np.full(layout.size, bool(term.labels or term.fields), dtype=np.bool_)
        for requirement in term.labels:
            mask &= _on_label(layout, requirement.key, _label_test(requirement))
        for requirement in term.fields:
            mask &= _on_field(layout, requirement)
        return mask

    return layout.memo(("term", term), compute)


def preference(
    layout: NodeLayout, preferred: tuple[constraints.PreferredTerm, ...]
) -> NDArray[np.float64]:
    """The summed weights of the preferred terms that each node meets, (N,)."""
    total = np.zeros(layout.size)
    for each in preferred:
        total += each.weight * matches(layout, each.term)
    return total


def barriers(
    layout: NodeLayout, tolerations: tuple[constraints.Toleration, ...]
) -> Mapping[constraints.Taint, Mask]:
    """The taints that keep the pod away, each with the nodes (N,) that it does not keep it from.

    A node counts for the first taint in its list that repels and isn't tolerated (Kubernetes:
    FindMatchingUntoleratedTaint).
    """
    found: dict[constraints.Taint, Mask] = {}
    for taints, rows in layout.taint_sets.items():
        taint = next(
            (each for each in taints if each.effect in REPELLING and _bars(each, tolerations)), None
        )
        if taint is not None:
            if taint not in found:
                found[taint] = np.ones(layout.size, dtype=np.bool_)
            found[taint][rows] = False
    return found


def soft_taints(
    layout: NodeLayout, tolerations: tuple[constraints.Toleration, ...]
) -> NDArray[np.int64]:
    """How many PreferNoSchedule taints of each node the pod doesn't tolerate, (N,).

    Tolerations for other effects don't count (Kubernetes: getAllTolerationPreferNoSchedule).
    """
    counts = np.zeros(layout.size, dtype=np.int64)
    soft = constraints.Effect.PREFER_NO_SCHEDULE
    for taints, rows in layout.taint_sets.items():
        counts[rows] = sum(taint.effect is soft and _bars(taint, tolerations) for taint in taints)
    return counts


def uncordoned(layout: NodeLayout, tolerations: tuple[constraints.Toleration, ...]) -> Mask:
    """Nodes that aren't cordoned, or all if the pod tolerates that, (N,)."""
    if _bars(CORDON, tolerations):
        return layout.schedulable
    return layout.memo("all", lambda: np.ones(layout.size, dtype=np.bool_))


def still_takes(
    before: NodeSpec, now: NodeSpec, tolerations: tuple[constraints.Toleration, ...]
) -> bool:
    """Whether a node is ready, and wasn't cordoned since for pods with these tolerations."""
    cordoned = now.unschedulable and not before.unschedulable
    return now.ready and not (cordoned and _bars(CORDON, tolerations))


def free_ports(
    layout: NodeLayout,
    rows: NDArray[np.int64] | None,
    wanted: tuple[constraints.HostPort, ...],
    taken: Mapping[str, tuple[constraints.HostPort, ...]],
) -> Mask:
    """Which of these rows (None: all) have all wanted host ports free, (n,).

    taken is by node name. It changes within a cycle, so nothing is remembered.
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


def _bars(taint: constraints.Taint, tolerations: tuple[constraints.Toleration, ...]) -> bool:
    return not any(toleration.tolerates(taint) for toleration in tolerations)


def _any_term(layout: NodeLayout, terms: tuple[constraints.Term, ...]) -> Mask:
    mask = np.zeros(layout.size, dtype=np.bool_)
    for term in terms:
        mask |= matches(layout, term)
    return mask


def _on_label(layout: NodeLayout, key: str, test: Test) -> Mask:
    """Ask once for each value that the label has, and once for nodes without it."""
    column, codes = layout.label(key)
    answers = np.zeros(len(codes) + 1, dtype=np.bool_)
    for value, code in codes.items():
        answers[code] = test(value)
    answers[-1] = test(None)  # a node without the label has code -1
    return answers[column]


def _on_field(layout: NodeLayout, requirement: constraints.Requirement) -> Mask:
    """Kubernetes takes exactly one value, In or NotIn, and the field metadata.name only."""
    mask = np.zeros(layout.size, dtype=np.bool_)
    if requirement.key != NAME_FIELD or len(requirement.values) != 1:
        return mask
    if requirement.operator not in (Operator.IN, Operator.NOT_IN):
        return mask
    row = layout.rows.get(requirement.values[0])
    if row is not None:
        mask[row] = True
    return mask if requirement.operator is Operator.IN else ~mask


def _equals(value: str) -> Test:
    return lambda label: label == value


def _label_test(requirement: constraints.Requirement) -> Test:
    """Kubernetes: labels.Requirement.Matches; one that its NewRequirement refuses matches nothing.

    NotIn also matches nodes without the label; Gt and Lt want integers on both sides.
    """
    values, operator = requirement.values, requirement.operator
    if operator in (Operator.GT, Operator.LT):
        return _number_test(requirement)
    if bool(values) is not (operator in (Operator.IN, Operator.NOT_IN)):
        return lambda _: False
    match operator:
        case Operator.IN:
            return frozenset(values).__contains__
        case Operator.NOT_IN:
            listed = frozenset(values)
            return lambda label: label not in listed
        case Operator.EXISTS:
            return lambda label: label is not None
    return lambda label: label is None


def _number_test(requirement: constraints.Requirement) -> Test:
    bound = _integer(requirement.values[0]) if len(requirement.values) == 1 else None
    above = requirement.operator is Operator.GT

    def test(label: str | None) -> bool:
        number = _integer(label)
        if bound is None or number is None:
            return False
        return number > bound if above else number < bound

    return test


def _integer(text: str | None) -> int | None:
    """As Go's ParseInt reads it: decimal, 64 bits."""
    if text is None or len(text) > 100 or not INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -INTEGER_MAX - 1 <= number <= INTEGER_MAX else None
