"""Kubernetes objects in wire form, reduced to the fields in use.

All remaining fields (managedFields, images, probes) are skipped while decoding. An absent field has
Go's zero value; the translation decides the meaning of zero values.
"""

import datetime as dt
from typing import TypeAlias

import msgspec
from msgspec import field

from vscheduler.mirror.decode.quantities import Quantity
from vscheduler.mirror.decode.wire_terms import (
    Affinity,
    LabelSelector,
    SpreadConstraint,
    Toleration,
)
from vscheduler.mirror.decode.wire_volumes import Volume

ResourceList: TypeAlias = dict[str, Quantity]
"""Quantities by resource name."""


class Struct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all wire objects. gc=False: decoded objects hold no reference cycles."""


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


class ContainerStatus(Struct, frozen=True):
    """core/v1 ContainerStatus: resources that the kubelet has granted so far during a resize."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


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
    """scheduling.volcano.sh/v1beta1 NetworkTopologySpec, only the mode."""

    mode: str = "hard"


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


Object: TypeAlias = (
    Pod | Node | Namespace | Queue | PodGroup | PriorityClass | PodDisruptionBudget | ResourceQuota
)
