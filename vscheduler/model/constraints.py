"""Scheduling constraints of pods as values: selectors, affinity, tolerations, ports.

Kubernetes: core/v1 NodeSelectorTerm, Toleration, Taint, ContainerPort.

A pod may have thousands of constraints, each with several nested values, and each used as a key in
many dictionaries. Each value therefore computes its hash only once (`cache_hash`).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

HOSTNAME = "kubernetes.io/hostname"
"""The label that differs from node to node."""


class Operator(StrEnum):
    """How a requirement compares a label with its values (core/v1 NodeSelectorOperator)."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Effect(StrEnum):
    """The effect of a taint on pods without a matching toleration (core/v1 TaintEffect)."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Requirement(msgspec.Struct, frozen=True, cache_hash=True):
    """A condition on a label, or on a field when listed in the fields of a Term."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class Selector(msgspec.Struct, frozen=True, cache_hash=True):
    """A label selector: all requirements must hold. Without requirements, every object matches.

    Kubernetes: meta/v1 LabelSelector, with matchLabels written as In.
    """

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet all requirements. NotIn also holds when the label is missing."""
        return all(
            _holds(requirement, labels.get(requirement.key)) for requirement in self.requirements
        )


def _holds(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case Operator.IN:
            return value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values
        case Operator.EXISTS:
            return value is not None
    return value is None


class Term(msgspec.Struct, frozen=True, cache_hash=True):
    """A node selector term: all requirements must hold.

    A term without requirements matches no node.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PreferredTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A preferred node affinity term: adds `weight` (1 to 100) to the score of matching nodes."""

    weight: int
    term: Term


class Taint(msgspec.Struct, frozen=True):
    """A node's taint, which keeps away pods without a matching toleration."""

    key: str
    value: str
    effect: Effect


class Toleration(msgspec.Struct, frozen=True, cache_hash=True):
    """A pod's toleration of taints. An empty key with `exists` tolerates every taint."""

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint is tolerated.

        Kubernetes: component-helpers Toleration.ToleratesTaint.
        """
        if self.effect is not None and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or (bool(self.key) and self.value == taint.value)


class HostPort(msgspec.Struct, frozen=True, order=True):
    """A host port of a pod. The address 0.0.0.0 stands for every address of the node."""

    address: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Whether two host ports cannot be used on the same node."""
        same = (self.protocol, self.port) == (other.protocol, other.port)
        wild = "0.0.0.0"  # noqa: S104 - Kubernetes' spelling of every address; nothing is bound
        return same and (self.address == other.address or wild in (self.address, other.address))


class ClaimUse(msgspec.Struct, frozen=True, cache_hash=True):
    """A volume of a pod that comes from a claim, which may be a generic ephemeral volume."""

    claim: str
    """The claim as `namespace/name`."""
    read_only: bool = False
    owner: str = ""
    """UID of the pod, if the claim is made for this pod (a generic ephemeral volume)."""


class ResourceClaimUse(msgspec.Struct, frozen=True, cache_hash=True):
    """A resource claim of a pod."""

    name: str
    """The entry of the pod's spec.resourceClaims."""
    claim: str
    """The claim as `namespace/name`. Empty until a claim is made from the template."""
    owner: str = ""
    """UID of the pod, if the claim is made for this pod, from a template or by the scheduler."""
    resources: tuple[str, ...] = ()
    """Extended resources of the pod that the claim stands for, if the scheduler makes it."""
    group: str = ""
    """Id of the pod's PodGroup of Kubernetes' own API, for which the claim may be made and reserved
    in place of the pod."""


class DiskUse(msgspec.Struct, frozen=True, cache_hash=True):
    """A volume of a pod that names a disk of an in-tree plugin instead of a claim."""

    plugin: str
    """Name of the plugin, such as kubernetes.io/gce-pd."""
    disk: tuple[str, ...]
    """What identifies the disk for the plugin."""
    read_only: bool = False
    monitors: tuple[str, ...] = ()
    """Addresses of Ceph monitors (rbd); disks are the same only if they share one."""


PodVolume: TypeAlias = ClaimUse | DiskUse
"""A volume of a pod that matters for the choice of a node."""


class PodSet(msgspec.Struct, frozen=True, cache_hash=True):
    """The pods matched by a pod affinity term or spread constraint: labels and namespaces.

    Kubernetes: kube-scheduler framework.AffinityTerm, TopologySpreadConstraint.
    """

    namespaces: tuple[str, ...]
    """Namespace names, sorted."""
    labels: Selector | None
    """Label selector of the pods; None selects no pod."""
    more_namespaces: Selector | None = None
    """Label selector of further namespaces; None adds no namespaces."""

    def includes(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Whether a pod with these labels in this namespace is in the set."""
        if self.labels is None or not self.labels.matches(labels):
            return False
        more = self.more_namespaces
        return namespace in self.namespaces or (more is not None and more.matches(namespace_labels))


class PodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A pod affinity term: a set of pods, and the label that defines topology domains.

    Nodes with equal values of the label form a topology domain.
    """

    pods: PodSet
    topology_key: str


class PreferredPodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A preferred pod affinity term: adds `weight` for each matching pod in a node's domain.

    The weight is 1 to 100 for affinity, and negative for anti-affinity.
    """

    weight: int
    term: PodTerm


class Spread(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A topology spread constraint: how evenly pods spread over the domains of a node label.

    Kubernetes: core/v1 TopologySpreadConstraint.
    """

    pods: PodSet
    """The counted pods, in the namespace of the pod with the constraint."""
    topology_key: str
    max_skew: int = 1
    hard: bool = True
    """Whether whenUnsatisfiable is DoNotSchedule; otherwise ScheduleAnyway."""
    min_domains: int = 1
    """With fewer domains than this, the smallest count of any domain is taken as zero."""
    honours_affinity: bool = True
    """Whether nodes excluded by the pod's node selector and node affinity are left out of the
    count."""
    honours_taints: bool = False
    """Whether nodes with taints not tolerated by the pod are left out of the count."""


class Constraints(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """All constraints of a pod on its node."""

    node_selector: tuple[tuple[str, str], ...] = ()
    required: tuple[Term, ...] | None = None
    """Alternative terms, any of which must match. None: the pod has no required node affinity."""
    preferred: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    features: tuple[str, ...] = ()
    """Features that the node's kubelet must declare, sorted."""
    pod_affinity: tuple[PodTerm, ...] = ()
    """Required pod affinity. All terms must hold for the same pods, which are in the pod sets of
    all terms."""
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    """Required pod anti-affinity: no matching pod may be in the node's domain."""
    pod_preferred: tuple[PreferredPodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    """Volumes from claims, and disks of in-tree plugins, in the order of the manifest. Only in the
    classes of waiting pods, since many pods have a claim of their own."""
    resource_claims: tuple[ResourceClaimUse, ...] = ()
    """Claims for devices, in the order of the manifest. Likewise."""


ANYWHERE = Constraints()
"""No constraints at all."""
