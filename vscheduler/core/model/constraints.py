"""Where a pod may go, as values: selectors, affinity, tolerations, ports.

Kubernetes: core/v1 NodeSelectorTerm, Toleration, Taint, ContainerPort.

A pod may come with thousands of conditions, each of several nested values, and each of them is a
key of many dictionaries. So these values have their hash worked out once (`hashed_once`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

Value = TypeVar("Value", bound="Hashed")


class Hashed:
    """Base of frozen dataclasses with slots that are decorated with `hashed_once`."""

    __slots__ = ("_hash",)

    _hash: int


def hashed_once(cls: type[Value]) -> type[Value]:
    """The class, with a hash that is worked out when it is first asked for."""
    work_out = cls.__hash__

    def hash_of(self: Value) -> int:
        try:
            return self._hash
        except AttributeError:
            found = work_out(self)
            object.__setattr__(self, "_hash", found)
            return found

    cls.__hash__ = hash_of  # type: ignore[assignment, method-assign]  # a decorator's way
    return cls


class Operator(StrEnum):
    """How a requirement compares a label with its values (core/v1 NodeSelectorOperator)."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Effect(StrEnum):
    """What a taint does to pods that don't tolerate it (core/v1 TaintEffect)."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@hashed_once
@dataclass(frozen=True, slots=True)
class Requirement(Hashed):
    """One condition on a label, or on a field when it stands among a term's fields."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@hashed_once
@dataclass(frozen=True, slots=True)
class Selector(Hashed):
    """Conditions on an object's labels that must all hold; with none, every object matches.

    Kubernetes: meta/v1 LabelSelector, matchLabels written as In.
    """

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet all conditions; NotIn also holds where there is no label."""
        return all(_holds(each, labels.get(each.key)) for each in self.requirements)


def _holds(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case Operator.IN:
            return value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values
        case Operator.EXISTS:
            return value is not None
    return value is None


@hashed_once
@dataclass(frozen=True, slots=True)
class Term(Hashed):
    """Conditions that must all hold; a term with none matches no node."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@hashed_once
@dataclass(frozen=True, slots=True)
class PreferredTerm(Hashed):
    """A term that adds `weight` (1 to 100) to the score of the nodes it matches."""

    weight: int
    term: Term


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's mark that keeps pods away."""

    key: str
    value: str
    effect: Effect


@hashed_once
@dataclass(frozen=True, slots=True)
class Toleration(Hashed):
    """A pod's word that it bears a taint; an empty key with `exists` bears all."""

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Kubernetes: component-helpers Toleration.ToleratesTaint."""
        if self.effect is not None and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port that a pod takes on its node; address 0.0.0.0 takes it on every address."""

    address: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Whether the two can't stand on one node."""
        same = (self.protocol, self.port) == (other.protocol, other.port)
        wild = "0.0.0.0"  # noqa: S104 - Kubernetes' spelling of every address; nothing is bound
        return same and (self.address == other.address or wild in (self.address, other.address))


@hashed_once
@dataclass(frozen=True, slots=True)
class PodSet(Hashed):
    """Which pods a condition is about: those with such labels in these namespaces.

    Kubernetes: kube-scheduler framework.AffinityTerm, TopologySpreadConstraint.
    """

    namespaces: tuple[str, ...]
    """By name, sorted."""
    labels: Selector | None
    """None selects no pod."""
    more_namespaces: Selector | None = None
    """Namespaces with such labels count as well; None: only those by name do."""

    def includes(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Whether a pod with these labels in this namespace is one of them."""
        if self.labels is None or not self.labels.matches(labels):
            return False
        more = self.more_namespaces
        return namespace in self.namespaces or (more is not None and more.matches(namespace_labels))


@hashed_once
@dataclass(frozen=True, slots=True)
class PodTerm(Hashed):
    """Pods, and how near is near: nodes that have the same value of this label are one place."""

    pods: PodSet
    topology_key: str


@hashed_once
@dataclass(frozen=True, slots=True)
class PreferredPodTerm(Hashed):
    """A term that adds `weight` to the score of nodes near each such pod: 1 to 100, or less than
    0 where the pod prefers to be away from them.
    """

    weight: int
    term: PodTerm


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class Spread(Hashed):
    """How evenly pods are to be spread over the values of a label of nodes.

    Kubernetes: core/v1 TopologySpreadConstraint.
    """

    pods: PodSet
    """Those of the pod's own namespace that are counted."""
    topology_key: str
    max_skew: int = 1
    hard: bool = True
    """DoNotSchedule; else ScheduleAnyway."""
    min_domains: int = 1
    """With fewer values than this the fewest pods of any of them count as none."""
    honours_affinity: bool = True
    """Whether nodes that the pod's selector and node affinity exclude are left out of account."""
    honours_taints: bool = False
    """The same for nodes with taints that it doesn't tolerate."""


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints(Hashed):
    """All of a pod's own conditions on its node."""

    node_selector: tuple[tuple[str, str], ...] = ()
    required: tuple[Term, ...] | None = None
    """Alternatives (any must match); None when the pod has no required node affinity."""
    preferred: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    features: tuple[str, ...] = ()
    """What the node's kubelet must say that it can do, sorted."""
    pod_affinity: tuple[PodTerm, ...] = ()
    """All must hold, and for the same pods: near pods that are in all of their sets."""
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    """Near none of them."""
    pod_preferred: tuple[PreferredPodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()


ANYWHERE = Constraints()
"""No conditions at all."""
