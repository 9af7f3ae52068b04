"""Node and pod affinity, tolerations, topology spread and label selectors in wire form."""

import msgspec
from msgspec import field


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all wire terms; see wire.Struct."""


class Requirement(Struct, frozen=True):
    """core/v1 NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(Struct, frozen=True):
    """meta/v1 LabelSelector: all requirements must hold."""

    match_labels: dict[str, str] = {}
    match_expressions: list[Requirement] = []


class Term(Struct, frozen=True):
    """core/v1 NodeSelectorTerm."""

    match_expressions: list[Requirement] = []
    match_fields: list[Requirement] = []


class NodeSelector(Struct, frozen=True):
    """core/v1 NodeSelector: at least one term must hold."""

    node_selector_terms: list[Term] = []


class PreferredTerm(Struct, frozen=True):
    """core/v1 PreferredSchedulingTerm."""

    weight: int = 0
    preference: Term = Term()


class NodeAffinity(Struct, frozen=True):
    """core/v1 NodeAffinity."""

    required: NodeSelector | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredTerm] = field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True):
    """core/v1 PodAffinityTerm."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class PreferredPodAffinityTerm(Struct, frozen=True):
    """core/v1 WeightedPodAffinityTerm."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """core/v1 PodAffinity and PodAntiAffinity."""

    required: list[PodAffinityTerm] = field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredPodAffinityTerm] = field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True):
    """core/v1 Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    """core/v1 Toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SpreadConstraint(Struct, frozen=True):
    """core/v1 TopologySpreadConstraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] = []
