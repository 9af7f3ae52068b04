"""Nodes, queues, PodGroups, HyperNodes, priority classes, budgets and quotas, translated to the
model.

Every function raises fields.FieldError for an unusable field; `reject` turns the error into a
DecodeError. Module `pods` translates pods.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from vscheduler.mirror import workloads
from vscheduler.mirror.decode import events, fields, wire
from vscheduler.mirror.decode.events import DecodeError, Kind
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.quantities import Quantity
from vscheduler.mirror.decode.wire import (
    CompositePodGroup,
    GroupCondition,
    HyperNodeMember,
    Metadata,
    NativePodGroup,
    PodDisruptionBudget,
    PodGroup,
    PodGroupStatus,
    QueueAffinity,
    ResourceQuota,
    SchedulingConstraints,
    SubGroupPolicy,
)
from vscheduler.mirror.translate import pod_constraints, pod_owners, usage_annotation
from vscheduler.mirror.translate.pod_owners import Owner
from vscheduler.model import (
    constraints,
    durations,
    jobs,
    pod_affinity,
    queues,
    resources,
    run_times,
)
from vscheduler.model.group_texts import GroupAnnotations, GroupLabels
from vscheduler.model.jobs import ClaimGroup, Condition, GroupState, Job, JobId, Phase, SubGroup
from vscheduler.model.nodes import NodeSpec
from vscheduler.model.queues import GroupLimits, NodeGroups, QueueState
from vscheduler.model.resources import ResourceMap
from vscheduler.model.run_times import MAX_RUN_TIME
from vscheduler.model.snapshot import Budget, Quota
from vscheduler.model.topology import HyperNode, Member, TopologyRequest

SCHEDULER = "scheduling.volcano.sh/scheduler-name"
"""Annotation: the scheduler of a PodGroup without pods."""

SOFT = "soft"
"""Mode of a network topology that is only a preference."""

NODE, HYPER_NODE = "Node", "HyperNode"
"""Types of a HyperNode's members."""

QUEUE = jobs.QUEUE_NAME
"""Annotation of a namespace: the queue of PodGroups that name none. Annotation or label of
Kubernetes' own PodGroups: their queue."""

REQUIRE_QUEUE = "vscheduler.io/require-queue"
"""Annotation of a namespace: if `true`, no PodGroup that names no queue gets the default queue."""

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
"""Annotation of pods and their owners: how many pods must start together. The controllers write it
on Kubernetes' own PodGroups, too."""

DIGITS_MAX = 10

TRUE = "True"

NAMESPACES = "vscheduler.io/namespaces"
"""Annotation of a Queue: the namespaces whose jobs the queue accepts."""

GROUP_LIMITS = "volcano.sh/nodegroup-resource-limits"

MIN_RUN_TIME = "vscheduler.io/min-run-time"
"""Annotation of a Queue: how long its pods run before preempt and reclaim may evict them."""

EVICTION_DELAY = "vscheduler.io/eviction-delay"
"""Annotation of a Queue: how long its pods wait before others are evicted for them."""
"""Annotation of a Queue: its limits in groups of nodes, as `{"group1": {"cpu": "3", "memory":
"8Gi"}}`.
"""

REQUESTS = "requests."
"""Prefix of quota names that limit the sum of pod requests."""

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
"""Annotation of a Queue that is closed because an ancestor is closed (Volcano's)."""

HUGE_PAGES = "hugepages-"
STORAGE = f"{REQUESTS}storage"
"""Requests of volume claims, not of pods."""

_QUEUE_STATES = {"": QueueState.OPEN, **{str(state): state for state in QueueState}}
_PHASES = {str(phase): phase for phase in Phase}
_QUOTA_NAMES = {
    "count/pods": resources.PODS,
    **{name: name for name in (resources.CPU, resources.MEMORY, resources.PODS)},
    "ephemeral-storage": "ephemeral-storage",
}


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node: its spec and its allocatable resources."""

    spec: NodeSpec
    allocatable: ResourceMap


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup: a job without pods and priority."""

    job: Job
    priority_class: str
    scheduler: str
    """The scheduler named in the annotation; empty without the annotation."""
    owner: Owner | None = None
    priority: int | None = None
    """Of Kubernetes' own PodGroups: the priority that all of its pods must have."""
    preemption_policy: str = ""
    """Of Kubernetes' own PodGroups: what all of its pods must have; empty: anything."""
    gang: bool = True
    """Of Kubernetes' own PodGroups: whether policy gang or basic."""
    parent: JobId | None = None
    """The CompositePodGroup to which it belongs."""
    workload: str = ""
    """The Workload that it names."""
    defect: str = ""
    """Why none of its pods may start."""


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace. Pod affinity may select namespaces by label."""

    labels: Mapping[str, str]
    queue: str = ""
    """The queue of PodGroups that name none; empty without the annotation."""
    requires_queue: bool = False
    """Whether such PodGroups don't get the default queue."""

    def queue_of_groups(self, default: str) -> str:
        """Return the queue of PodGroups that name none; empty if they must name one."""
        return self.queue or ("" if self.requires_queue else default)


class PriorityClass(msgspec.Struct, frozen=True, kw_only=True):
    """A PriorityClass."""

    name: str
    value: int
    is_default: bool


def reject(kind: Kind, metadata: Metadata, error: FieldError) -> DecodeError:
    """Return the error of an object with an unusable field, as users see it."""
    key = events.key_of(metadata.namespace, metadata.name)
    return DecodeError(kind=kind, key=key, field=error.field, message=error.message)


def node(node: wire.Node, annotations: Sequence[str] = ()) -> Node:
    """Translate a node, with these annotations.

    Without `allocatable` the capacity counts. A node without a Ready condition is ready (Volcano:
    NodeInfo.setNodeState). Resources with an amount of zero are dropped.
    """
    status = node.status
    amounts, place = status.allocatable, "status.allocatable"
    if not amounts:
        amounts, place = status.capacity, "status.capacity"
    return Node(
        spec=NodeSpec(
            name=node.metadata.name,
            labels=tuple(sorted(node.metadata.labels.items())),
            annotations=tuple((name, node.metadata.annotations.get(name)) for name in annotations),
            taints=tuple(_taint(taint, at) for at, taint in enumerate(node.spec.taints)),
            unschedulable=node.spec.unschedulable,
            ready=all(
                condition.status == "True"
                for condition in status.conditions
                if condition.type == "Ready"
            ),
            features=tuple(status.declared_features),
        ),
        allocatable={
            name: amount for name, amount in fields.allocatable(amounts, place).items() if amount
        },
    )


def queue(queue: wire.Queue, scheduler_names: Sequence[str]) -> queues.Queue:
    """Translate a queue. A missing state means Open; no pods are placed in a queue with an unknown
    state.

    `scheduler_names` tell our own usage record from foreign records.
    """
    spec = queue.spec
    fields.check_int32(spec.weight, "spec.weight")
    fields.check_int32(spec.priority, "spec.priority")
    if spec.weight < 1:
        raise FieldError("spec.weight", f"{spec.weight} is not at least 1")
    return queues.Queue(
        name=queue.metadata.name,
        uid=queue.metadata.uid,
        created=fields.seconds(queue.metadata.creation_timestamp),
        weight=spec.weight,
        priority=spec.priority,
        state=_QUEUE_STATES.get(queue.status.state, QueueState.UNKNOWN),
        reclaimable=spec.reclaimable,
        parent=spec.parent,
        capability=fields.totals(spec.capability, "spec.capability"),
        deserved=fields.totals(spec.deserved, "spec.deserved"),
        guarantee=fields.totals(spec.guarantee.resource, "spec.guarantee.resource"),
        annotations=usage_annotation.without_records(queue.metadata.annotations),
        labels=queue.metadata.labels,
        namespaces=_namespaces(queue.metadata.annotations.get(NAMESPACES)),
        run_time_cap=run_times.parse(queue.metadata.annotations.get(run_times.CAP)),
        max_run_time=run_times.parse(queue.metadata.annotations.get(MAX_RUN_TIME)),
        min_run_time=_seconds_or_for_ever(queue.metadata.annotations, MIN_RUN_TIME),
        eviction_delay=_seconds_or_for_ever(queue.metadata.annotations, EVICTION_DELAY),
        node_groups=None if spec.affinity is None else _node_groups(spec.affinity),
        group_limits=_group_limits(queue.metadata.annotations),
        past_usage=usage_annotation.read(queue.metadata.annotations, scheduler_names),
    )


def closed_by_parent(queue: wire.Queue) -> bool:
    """Whether the queue is closed only because an ancestor is."""
    return queue.metadata.annotations.get(CLOSED_BY_PARENT) == "true"


def _namespaces(text: str | None) -> tuple[str, ...] | None:
    """Return the namespaces as manifests/admission/optional/namespaces.yaml reads them: empty text
    allows none.
    """
    return None if text is None else tuple(each.strip() for each in text.split(","))


def _seconds_or_for_ever(annotations: Mapping[str, str], name: str) -> float:
    """Return a duration that holds evictions back. While it can't be read, there are none at all:
    `eviction_setting_problem` tells the administrator.
    """
    try:
        return durations.seconds(annotations.get(name, "0"))
    except ValueError:
        return math.inf


def eviction_setting_problem(annotations: Mapping[str, str]) -> str:
    """Return which setting of a Queue for evictions can't be read, and why; empty if none."""
    for name, result in (
        (MIN_RUN_TIME, "pods of the queue aren't evicted"),
        (EVICTION_DELAY, "no pods are evicted for those of the queue"),
    ):
        try:
            durations.seconds(annotations.get(name, "0"))
        except ValueError as error:
            return f"annotation {name}: {error}; until it is corrected, {result}"
    return ""


def _group_limits(annotations: Mapping[str, str]) -> GroupLimits | None:
    """Return the limits of a queue by node group, or None.

    Unreadable text doesn't reject the queue: only plugin nodegroup reads the limits, and then lets
    the queue use no node at all (Volcano: parseNodeGroupResourceLimits).
    """
    text = annotations.get(GROUP_LIMITS)
    if not text:
        return None
    try:
        return GroupLimits(by_group=_amounts_by_group(text))
    except FieldError as error:
        where = f"{error.field}: " if error.field else ""
        return GroupLimits(problem=f"{where}{error.message}")


def _amounts_by_group(text: str) -> dict[str, ResourceMap]:
    groups = fields.json_object(text, "amounts by group of nodes")
    by_group: dict[str, ResourceMap] = {}
    for group, amounts in groups.items():
        if not isinstance(amounts, dict):
            raise FieldError(group, "must be an object: amounts by resource")
        for name, amount in amounts.items():
            fields.check_quantity(f"{group}.{name}", amount)
        by_group[group] = fields.totals(amounts, group)
    return by_group


def _node_groups(affinity: QueueAffinity) -> NodeGroups:
    to, apart = affinity.node_group_affinity, affinity.node_group_anti_affinity
    return NodeGroups(
        required=tuple(to.required),
        preferred=tuple(to.preferred),
        anti_required=tuple(apart.required),
        anti_preferred=tuple(apart.preferred),
    )


def pod_group(group: PodGroup, default_queue: str) -> Group:
    """Translate a PodGroup.

    A missing minMember is 0, as in Go. Missing minResources differ from empty minResources: a
    PodGroup without minResources is admitted unconditionally.
    """
    metadata, spec = group.metadata, group.spec
    _check_count(spec.min_member, "spec.minMember")
    for role, least in spec.min_task_member.items():
        _check_count(least, f"spec.minTaskMember.{role}")
    least_resources = None
    if spec.min_resources is not None:
        least_resources = fields.totals(
            {name: each for name, each in spec.min_resources.items() if _is_requested(name)},
            "spec.minResources",
        )
    owner = pod_owners.owner_of_group(metadata)
    return Group(
        job=Job(
            id=JobId(events.key_of(metadata.namespace, metadata.name)),
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            queue=spec.queue or default_queue,
            created=fields.seconds(metadata.creation_timestamp),
            min_member=spec.min_member,
            min_task_member=spec.min_task_member,
            min_resources=least_resources,
            sub_groups=_sub_groups(spec.sub_group_policy),
            topology=_topology(spec.network_topology, "spec.networkTopology"),
            state=_state(group.status),
            annotations=GroupAnnotations(metadata.annotations),
            labels=GroupLabels(metadata.labels),
            owner=creator(owner),
            max_run_time=run_times.parse(metadata.annotations.get(MAX_RUN_TIME)),
        ),
        priority_class=spec.priority_class_name,
        scheduler=metadata.annotations.get(SCHEDULER, ""),
        owner=owner,
    )


def native_pod_group(group: NativePodGroup) -> Group:
    """Translate a PodGroup of Kubernetes' own API (scheduling.k8s.io).

    Its queue is empty until the controllers have written it into annotation QUEUE.
    """
    metadata, spec = group.metadata, group.spec
    gang = spec.scheduling_policy.gang
    if gang is not None:
        _check_minimum(gang.min_count, jobs.MIN_COUNT)
    found = _of_scheduling(
        group,
        jobs.native_id(metadata.namespace, metadata.name),
        minimum=None if gang is None else gang.min_count,
    )
    return replace(found, job=replace(found.job, claim_groups=tuple(_claim_groups(group))))


def composite_pod_group(group: CompositePodGroup) -> Group:
    """Translate a CompositePodGroup; min_member of its job is how many groups it needs."""
    metadata, gang = group.metadata, group.spec.scheduling_policy.gang
    if gang is not None:
        _check_minimum(gang.min_group_count, "spec.schedulingPolicy.gang.minGroupCount")
    return _of_scheduling(
        group,
        jobs.composite_id(metadata.namespace, metadata.name),
        minimum=None if gang is None else gang.min_group_count,
    )


def _of_scheduling(
    group: NativePodGroup | CompositePodGroup, key: JobId, minimum: int | None
) -> Group:
    """Translate what both kinds of groups have; `minimum` is None for policy basic."""
    metadata, spec = group.metadata, group.spec
    above, owner = spec.parent_composite_pod_group_name, pod_owners.owner_of_group(metadata)
    return Group(
        job=Job(
            id=key,
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            queue=metadata.annotations.get(QUEUE) or metadata.labels.get(QUEUE, ""),
            created=fields.seconds(metadata.creation_timestamp),
            min_member=_without_policy(metadata) if minimum is None else minimum,
            minimum_field=_minimum_field(key, minimum),
            topology=_topology_by_label(spec.scheduling_constraints),
            state=_native_state(group, key),
            annotations=GroupAnnotations(metadata.annotations),
            labels=GroupLabels(metadata.labels),
            owner=creator(owner),
            goes_whole=spec.disruption_mode.all is not None,
            max_run_time=run_times.parse(metadata.annotations.get(MAX_RUN_TIME)),
        ),
        priority_class="",
        scheduler="",
        owner=owner,
        priority=spec.priority or 0,
        preemption_policy=spec.preemption_policy,
        gang=minimum is not None,
        parent=jobs.composite_id(metadata.namespace, above) if above else None,
        workload="" if spec.workload_ref is None else spec.workload_ref.workload_name,
    )


def _claim_groups(group: NativePodGroup) -> Iterator[ClaimGroup]:
    """Yield the PodGroup if claims are reserved for it in place of its pods."""
    metadata, entries = group.metadata, group.spec.resource_claims
    if entries:
        yield ClaimGroup(
            id=jobs.native_id(metadata.namespace, metadata.name),
            uid=metadata.uid or events.key_of(metadata.namespace, metadata.name),
            claims=frozenset(
                (entry.name, events.key_of(metadata.namespace, entry.resource_claim_name))
                for entry in entries
                if entry.resource_claim_name
            ),
        )


def _minimum_field(key: JobId, minimum: int | None) -> str:
    """Return where the number of pods is that start together."""
    if jobs.is_composite(key):
        return "minCount of its PodGroups"
    return f"annotation {MIN_MEMBER}" if minimum is None else jobs.MIN_COUNT


def _without_policy(metadata: Metadata) -> int:
    """Return the minimum of a PodGroup with policy basic: annotation MIN_MEMBER, else 1."""
    return max(1, count(metadata.annotations.get(MIN_MEMBER, "")))


def count(text: str) -> int:
    """Return a number of pods; 0 for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) < DIGITS_MAX
    return int(text) if is_number else 0


def _topology_by_label(constraints: SchedulingConstraints) -> TopologyRequest | None:
    """Translate a topology constraint: the pods must be on nodes with one value of the label."""
    if not constraints.topology:
        return None
    field = "spec.schedulingConstraints.topology"
    if len(constraints.topology) > 1:
        raise FieldError(field, "must have one entry at most")
    key = constraints.topology[0].key
    if not key:
        raise FieldError(f"{field}[0].key", "is missing")
    return TopologyRequest(field=f"{field}[0]", tier_name=key, key=key)


def _native_state(group: NativePodGroup | CompositePodGroup, key: JobId) -> GroupState:
    """Translate the stored status. Kubernetes' API has no phase: ours is the reason of condition
    jobs.PHASE. Of a PodGroup that another scheduler has started, the phase is Running.
    """
    conditions = tuple(map(_condition, group.status.conditions))
    by_type = {each.type: each for each in conditions}
    started = by_type.get(jobs.initially_scheduled(key))
    phase = Phase.RUNNING if started is not None and started.status == TRUE else Phase.PENDING
    said = _PHASES.get(by_type[jobs.PHASE].reason) if jobs.PHASE in by_type else None
    ended = by_type.get(jobs.SUCCEEDED_PODS)
    return GroupState(
        phase=phase if said is None else said,
        blank=said is None,
        conditions=conditions,
        succeeded=0 if ended is None else count(ended.message.partition(" ")[0]),
        generation=group.metadata.generation,
    )


def creator(owner: Owner | None) -> str:
    """Return what creates the pods of a PodGroup with this owner; a pod creates none."""
    if owner is None or owner.kind == "Pod":
        return ""
    return str(workloads.of_owner(owner.api_version, owner.kind, owner.name))


def namespace(namespace: wire.Namespace) -> Namespace:
    """Translate a namespace. Its name is always a label: API servers set the label."""
    metadata = namespace.metadata
    return Namespace(
        labels={**metadata.labels, pod_affinity.NAME_LABEL: metadata.name},
        queue=metadata.annotations.get(QUEUE, ""),
        requires_queue=metadata.annotations.get(REQUIRE_QUEUE) == "true",
    )


def priority_class(priority: wire.PriorityClass) -> PriorityClass:
    """Translate a PriorityClass."""
    fields.check_int32(priority.value, "value")
    return PriorityClass(
        name=priority.metadata.name, value=priority.value, is_default=priority.global_default
    )


def budget(budget: PodDisruptionBudget) -> Budget:
    """Translate a budget. Without a status no disruption is allowed, as on the API server."""
    selector = budget.spec.selector
    return Budget(
        namespace=budget.metadata.namespace,
        name=budget.metadata.name,
        selector=None if selector is None else pod_constraints.of_labels(selector, "spec.selector"),
        allowed=max(0, budget.status.disruptions_allowed),
    )


def quota(quota: ResourceQuota) -> Quota | None:
    """Translate a quota; None if the quota has scopes, or limits no resources of pods.

    Volcano's plugin ignores scopes, and so refuses jobs because of pods that the quota doesn't
    count. The API server still enforces quotas with scopes, pod by pod.
    """
    if quota.spec.scopes or quota.spec.scope_selector is not None:
        return None
    hard = _quota_amounts(quota.spec.hard, "spec.hard")
    used = _quota_amounts(quota.status.used, "status.used")
    if not hard:
        return None
    return Quota(
        namespace=quota.metadata.namespace,
        name=quota.metadata.name,
        hard={name: min(amounts) for name, amounts in hard.items()},
        used={name: max(amounts) for name, amounts in used.items() if name in hard},
    )


def hyper_node(found: wire.HyperNode) -> HyperNode:
    """Translate a HyperNode. Whether its members exist isn't looked at."""
    spec = found.spec
    _check_count(spec.tier, "spec.tier")
    if not spec.members:
        raise FieldError("spec.members", "is empty: a HyperNode needs a member")
    return HyperNode(
        name=found.metadata.name,
        tier=spec.tier,
        tier_name=spec.tier_name,
        members=tuple(
            _member(member, f"spec.members[{at}]") for at, member in enumerate(spec.members)
        ),
    )


def _member(member: HyperNodeMember, field: str) -> Member:
    if member.type not in (NODE, HYPER_NODE):
        raise FieldError(f"{field}.type", f"{member.type!r} is neither {NODE} nor {HYPER_NODE}")
    place, selector = f"{field}.selector", member.selector
    exact, regex, labels = selector.exact_match, selector.regex_match, selector.label_match
    if [exact, regex, labels].count(None) != 2:
        raise FieldError(place, "must have exactly one of exactMatch, regexMatch and labelMatch")
    if exact is not None:
        if not exact.name:
            raise FieldError(f"{place}.exactMatch.name", "is missing")
        is_node = member.type == NODE
        return Member(node=exact.name) if is_node else Member(hyper_node=exact.name)
    if member.type == HYPER_NODE:
        raise FieldError(place, f"members of type {HYPER_NODE} are named by exactMatch")
    if regex is not None:
        if not regex.pattern:
            raise FieldError(f"{place}.regexMatch.pattern", "is missing")
        return Member(pattern=regex.pattern)
    assert labels is not None
    return Member(selector=pod_constraints.of_labels(labels, f"{place}.labelMatch"))


def _sub_groups(policies: Sequence[SubGroupPolicy]) -> tuple[SubGroup, ...]:
    if not policies:
        return ()
    return tuple(
        _sub_group(policy, f"spec.subGroupPolicy[{at}]") for at, policy in enumerate(policies)
    )


def _sub_group(policy: SubGroupPolicy, field: str) -> SubGroup:
    """Translate a policy. The default size of a sub-group is a single pod (Volcano:
    NewSubJobInfo).
    """
    size = 1 if policy.sub_group_size is None else policy.sub_group_size
    _check_minimum(size, f"{field}.subGroupSize")
    _check_count(policy.min_sub_groups, f"{field}.minSubGroups")
    selector = policy.label_selector
    place = f"{field}.labelSelector"
    return SubGroup(
        name=policy.name,
        size=size,
        minimum=policy.min_sub_groups,
        selector=None if selector is None else pod_constraints.of_labels(selector, place),
        keys=tuple(policy.match_label_keys),
        topology=_topology(policy.network_topology, f"{field}.networkTopology"),
    )


def _check_count(number: int, field: str) -> None:
    """Raise FieldError for a number that can't count pods."""
    fields.check_int32(number, field)
    if number < 0:
        raise FieldError(field, f"{number} is negative")


def _check_minimum(number: int, field: str) -> None:
    """Raise FieldError for a number that can't be how many pods or groups start together."""
    _check_count(number, field)
    if number < 1:
        raise FieldError(field, f"{number} is not at least 1")


def _topology(topology: wire.NetworkTopology | None, field: str) -> TopologyRequest | None:
    """Translate a networkTopology; any mode but soft is hard."""
    if topology is None:
        return None
    return TopologyRequest(
        field=field,
        hard=topology.mode != SOFT,
        tier=topology.highest_tier_allowed,
        tier_name=topology.highest_tier_name,
    )


def _state(status: PodGroupStatus) -> GroupState:
    """Translate the stored status. Only the scheduler writes the phase, so an unknown phase is
    Pending.
    """
    return GroupState(
        phase=_PHASES.get(status.phase, Phase.PENDING),
        blank=status.phase not in _PHASES,
        conditions=tuple(map(_condition, status.conditions)),
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
    )


def _condition(condition: GroupCondition) -> Condition:
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        last_transition=condition.last_transition_time,
        transition_id=condition.transition_id,
    )


def _is_requested(name: str) -> bool:
    """Whether pods request the resource.

    Volcano's job controller copies quota names (`requests.cpu`, `limits.cpu`) into minResources
    beside `cpu`; its scheduler ignores them.
    """
    return not name.startswith(("requests.", "limits."))


def _taint(taint: wire.Taint, at: int) -> constraints.Taint:
    effect = pod_constraints.effect(taint.effect, f"spec.taints[{at}].effect")
    return constraints.Taint(taint.key, taint.value, effect)


def _quota_amounts(listed: Mapping[str, Quantity], field: str) -> dict[str, tuple[int, ...]]:
    """Return amounts by resource; a quota may name a resource twice (`cpu` and `requests.cpu`)."""
    found: dict[str, tuple[int, ...]] = {}
    for key, quantity in sorted(listed.items()):
        name = quota_resource(key)
        if name is not None and not name.startswith(fields.QUOTA_PREFIX):
            try:
                amounts = fields.totals({name: quantity}, field).values()
            except FieldError as error:
                raise FieldError(f"{field}.{key}", error.message) from error
            found[name] = (*found.get(name, ()), *amounts)
    return found


def quota_resource(key: str) -> str | None:
    """Return the pod resource that a quota name limits; None for anything else."""
    if key in _QUOTA_NAMES or key.startswith(HUGE_PAGES):
        return _QUOTA_NAMES.get(key, key)
    if key.startswith(REQUESTS) and key != STORAGE:
        return key.removeprefix(REQUESTS)
    return None
