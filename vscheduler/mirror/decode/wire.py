"""Kubernetes objects in wire form, reduced to the fields in use.

All remaining fields (managedFields, images, probes) are skipped while decoding. An absent field has
Go's zero value; the translation decides the meaning of zero values.
"""

import datetime as dt
from typing import TypeAlias

import msgspec
from msgspec import field

from vscheduler.mirror.decode.quantities import Quantity


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all wire objects. gc=False: decoded objects hold no reference cycles."""


class ClaimSource(Struct, frozen=True):
    """core/v1 PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""
    read_only: bool = False


class Disk(Struct, frozen=True):
    """A disk of an in-tree plugin, in a pod or a PersistentVolume: what identifies the disk.

    Kubernetes: core/v1 GCEPersistentDiskVolumeSource, AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource, CinderVolumeSource, PortworxVolumeSource.
    """

    pd_name: str = ""
    volume_id: str = field(default="", name="volumeID")
    disk_uri: str = field(default="", name="diskURI")
    read_only: bool = False

    @property
    def name(self) -> str:
        """The name of the disk for its plugin."""
        return self.pd_name or self.volume_id or self.disk_uri


class CephImage(Struct, frozen=True):
    """core/v1 RBDVolumeSource."""

    monitors: list[str] = []
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class Target(Struct, frozen=True):
    """core/v1 ISCSIVolumeSource."""

    iqn: str = ""
    read_only: bool = False


class Disks(Struct, frozen=True):
    """Volume sources with a disk, in a pod or a PersistentVolume."""

    gce_persistent_disk: Disk | None = None
    aws_elastic_block_store: Disk | None = None
    azure_disk: Disk | None = None
    cinder: Disk | None = None
    portworx_volume: Disk | None = None


class Volume(Disks, frozen=True):
    """core/v1 Volume, only sources that matter for the choice of a node."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: object = None
    rbd: CephImage | None = None
    iscsi: Target | None = None

    @property
    def matters(self) -> bool:
        """Whether any such source is given."""
        return (
            self.persistent_volume_claim is not None
            or self.ephemeral is not None
            or self.gce_persistent_disk is not None
            or self.aws_elastic_block_store is not None
            or self.azure_disk is not None
            or self.cinder is not None
            or self.portworx_volume is not None
            or self.rbd is not None
            or self.iscsi is not None
        )


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


ResourceList: TypeAlias = dict[str, Quantity]
"""Quantities by resource name."""


class OwnerReference(Struct, frozen=True):
    """meta/v1 OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Struct, frozen=True):
    """meta/v1 ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: dt.datetime | None = None
    deletion_timestamp: dt.datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []


class ResourceRequirements(Struct, frozen=True):
    """core/v1 ResourceRequirements. Missing requests default to the limits."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(Struct, frozen=True):
    """core/v1 ContainerPort."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(Struct, frozen=True):
    """core/v1 ContainerRestartRule, only the action."""

    action: str = ""


class Container(Struct, frozen=True):
    """core/v1 Container. restartPolicy Always makes an init container a sidecar."""

    name: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] = []
    restart_policy: str = ""
    restart_policy_rules: list[RestartRule] = []


class PodResourceClaim(Struct, frozen=True):
    """core/v1 PodResourceClaim: one of the fields beside the name."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    """core/v1 PodResourceClaimStatus: the claim made from a template, if one is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodSchedulingGroup(Struct, frozen=True):
    """core/v1 PodSchedulingGroup: the scheduling.k8s.io PodGroup of a pod."""

    pod_group_name: str = ""


class WorkloadReference(Struct, frozen=True):
    """core/v1 WorkloadReference of Kubernetes 1.35: a group of a scheduling.k8s.io Workload."""

    name: str = ""


class PodSpec(Struct, frozen=True):
    """core/v1 PodSpec."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    host_network: bool = False
    host_users: bool | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    scheduling_gates: list[object] = []
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    topology_spread_constraints: list[SpreadConstraint] = []
    resource_claims: list[PodResourceClaim] = []
    volumes: list[Volume] = []
    active_deadline_seconds: int | None = None


class Condition(Struct, frozen=True):
    """A condition of a pod or a node."""

    type: str = ""
    status: str = ""
    reason: str = ""


class PodCondition(Condition, frozen=True):
    """core/v1 PodCondition."""

    last_transition_time: dt.datetime | None = None


class GroupCondition(Condition, frozen=True):
    """scheduling.volcano.sh/v1beta1 PodGroupCondition."""

    message: str = ""
    last_transition_time: str = ""
    transition_id: str = field(default="", name="transitionID")


class Terminated(Struct, frozen=True):
    """core/v1 ContainerStateTerminated."""

    finished_at: dt.datetime | None = None


class ContainerState(Struct, frozen=True):
    """core/v1 ContainerState, only of a container that has ended."""

    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True):
    """core/v1 ContainerStatus: resources that the kubelet has granted so far during a resize, and
    when the container ended.
    """

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True):
    """core/v1 PodStatus."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: dt.datetime | None = None
    nominated_node_name: str = ""
    resource_claim_statuses: list[PodResourceClaimStatus] = []
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class Pod(Struct, frozen=True):
    """core/v1 Pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(Struct, frozen=True):
    """core/v1 Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    """core/v1 NodeSpec."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(Struct, frozen=True):
    """core/v1 NodeStatus."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: list[Condition] = []
    declared_features: list[str] = []


class Node(Struct, frozen=True):
    """core/v1 Node."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Guarantee(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 Guarantee."""

    resource: ResourceList = {}


class NodeGroups(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 NodeGroupAffinity and NodeGroupAntiAffinity."""

    required: list[str] = field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[str] = field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class QueueAffinity(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 Affinity of a queue."""

    node_group_affinity: NodeGroups = NodeGroups()
    node_group_anti_affinity: NodeGroups = NodeGroups()


class QueueSpec(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 QueueSpec."""

    weight: int = 1
    capability: ResourceList = {}
    deserved: ResourceList = {}
    guarantee: Guarantee = Guarantee()
    reclaimable: bool = True
    parent: str = ""
    priority: int = 0
    affinity: QueueAffinity | None = None


class QueueStatus(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 QueueStatus."""

    state: str = ""


class Queue(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 Queue."""

    metadata: Metadata = Metadata()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class NetworkTopology(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 NetworkTopologySpec."""

    mode: str = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 SubGroupPolicySpec."""

    name: str = ""
    sub_group_size: int | None = None
    min_sub_groups: int = 0
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    network_topology: NetworkTopology | None = None


class PodGroupSpec(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 PodGroupSpec."""

    min_member: int = 0
    min_task_member: dict[str, int] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceList | None = None
    sub_group_policy: list[SubGroupPolicy] = []
    network_topology: NetworkTopology | None = None


class PodGroupStatus(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 PodGroupStatus."""

    phase: str = ""
    conditions: list[GroupCondition] = []
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(Struct, frozen=True):
    """scheduling.volcano.sh/v1beta1 PodGroup."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class GenerationMetadata(Metadata, frozen=True):
    """meta/v1 ObjectMeta with the generation, to which conditions refer."""

    generation: int = 0


class GangPolicy(Struct, frozen=True):
    """scheduling.k8s.io/v1beta1 GangSchedulingPolicy."""

    min_count: int = 0


class SchedulingPolicy(Struct, frozen=True):
    """scheduling.k8s.io/v1beta1 PodGroupSchedulingPolicy; basic, if there is no gang."""

    gang: GangPolicy | None = None


class TopologyConstraint(Struct, frozen=True):
    """scheduling.k8s.io/v1beta1 TopologyConstraint."""

    key: str = ""


class SchedulingConstraints(Struct, frozen=True):
    """scheduling.k8s.io/v1beta1 PodGroupSchedulingConstraints."""

    topology: list[TopologyConstraint] = []


class DisruptionMode(Struct, frozen=True):
    """scheduling.k8s.io/v1beta1 DisruptionMode; single, if there is no `all`."""

    all: object = None


class GroupWorkload(Struct, frozen=True):
    """scheduling.k8s.io/v1beta1 WorkloadReference."""

    workload_name: str = ""


class NativeSpec(Struct, frozen=True):
    """What PodGroups and CompositePodGroups of scheduling.k8s.io have in common."""

    parent_composite_pod_group_name: str = ""
    workload_ref: GroupWorkload | None = None
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    disruption_mode: DisruptionMode = DisruptionMode()
    priority: int | None = None
    preemption_policy: str = ""


class NativePodGroupSpec(NativeSpec, frozen=True):
    """scheduling.k8s.io/v1beta1 PodGroupSpec."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    resource_claims: list[PodResourceClaim] = []


class NativePodGroupStatus(Struct, frozen=True):
    """scheduling.k8s.io/v1beta1 PodGroupStatus."""

    conditions: list[GroupCondition] = []
    resource_claim_statuses: list[PodResourceClaimStatus] = []


class NativePodGroup(Struct, frozen=True):
    """scheduling.k8s.io/v1beta1 PodGroup: Kubernetes' own."""

    metadata: GenerationMetadata = GenerationMetadata()
    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()


class CompositeGangPolicy(Struct, frozen=True):
    """scheduling.k8s.io/v1alpha3 CompositeGangSchedulingPolicy."""

    min_group_count: int = 0


class CompositePolicy(Struct, frozen=True):
    """scheduling.k8s.io/v1alpha3 CompositePodGroupSchedulingPolicy; basic, if there is no gang."""

    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(NativeSpec, frozen=True):
    """scheduling.k8s.io/v1alpha3 CompositePodGroupSpec."""

    scheduling_policy: CompositePolicy = CompositePolicy()


class CompositePodGroupStatus(Struct, frozen=True):
    """scheduling.k8s.io/v1alpha3 CompositePodGroupStatus."""

    conditions: list[GroupCondition] = []


class CompositePodGroup(Struct, frozen=True):
    """scheduling.k8s.io/v1alpha3 CompositePodGroup."""

    metadata: GenerationMetadata = GenerationMetadata()
    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: CompositePodGroupStatus = CompositePodGroupStatus()


class PriorityClass(Struct, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: Metadata = Metadata()
    value: int = 0
    global_default: bool = False


class Namespace(Struct, frozen=True):
    """core/v1 Namespace, only the metadata."""

    metadata: Metadata = Metadata()


class BudgetSpec(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetSpec. The allowed disruptions are in the status."""

    selector: LabelSelector | None = None


class BudgetStatus(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetStatus."""

    disruptions_allowed: int = 0


class PodDisruptionBudget(Struct, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: Metadata = Metadata()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class QuotaSpec(Struct, frozen=True):
    """core/v1 ResourceQuotaSpec. Scopes are only checked for presence."""

    hard: ResourceList = {}
    scopes: list[str] = []
    scope_selector: object = None


class QuotaStatus(Struct, frozen=True):
    """core/v1 ResourceQuotaStatus."""

    used: ResourceList = {}


class ResourceQuota(Struct, frozen=True):
    """core/v1 ResourceQuota."""

    metadata: Metadata = Metadata()
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class ExactMatch(Struct, frozen=True):
    """topology.volcano.sh/v1alpha1 ExactMatch."""

    name: str = ""


class RegexMatch(Struct, frozen=True):
    """topology.volcano.sh/v1alpha1 RegexMatch."""

    pattern: str = ""


class MemberSelector(Struct, frozen=True):
    """topology.volcano.sh/v1alpha1 MemberSelector: exactly one of the fields."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Struct, frozen=True):
    """topology.volcano.sh/v1alpha1 MemberSpec."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Struct, frozen=True):
    """topology.volcano.sh/v1alpha1 HyperNodeSpec."""

    tier: int = 0
    tier_name: str = ""
    members: list[HyperNodeMember] = []


class HyperNode(Struct, frozen=True):
    """topology.volcano.sh/v1alpha1 HyperNode, without its status."""

    metadata: Metadata = Metadata()
    spec: HyperNodeSpec = HyperNodeSpec()


class ReplicaSet(Struct, frozen=True):
    """The metadata of an apps/v1 ReplicaSet."""

    metadata: Metadata = Metadata()


class StatefulSet(Struct, frozen=True):
    """The metadata of an apps/v1 StatefulSet."""

    metadata: Metadata = Metadata()


class Job(Struct, frozen=True):
    """The metadata of a batch/v1 Job."""

    metadata: Metadata = Metadata()


Object: TypeAlias = (
    Pod
    | Node
    | Namespace
    | Queue
    | PodGroup
    | NativePodGroup
    | CompositePodGroup
    | PriorityClass
    | PodDisruptionBudget
    | ResourceQuota
    | HyperNode
    | ReplicaSet
    | StatefulSet
    | Job
)
