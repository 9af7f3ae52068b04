"""Edits: the objects of a cluster as a user would change them, for each change of `changes`."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import TypeAlias, TypeVar

import msgspec

from vscheduler.core.config.policy import Policy
from vscheduler.core.topology.network import PATIENCE
from vscheduler.explain.changes import (
    ActionArgument,
    Change,
    CreateClaims,
    CreatePods,
    CreateQueue,
    DropAnnotation,
    EndOfJob,
    EndOfPatience,
    FewerPods,
    HigherPriority,
    HigherTier,
    HonorTaints,
    LabelNodes,
    LargerNodes,
    MarkPods,
    MayPreempt,
    MoreDisruptions,
    MoreNodes,
    NewPods,
    OneScheduler,
    OpenQueues,
    OtherParent,
    OtherQueue,
    PodPriorities,
    Preemptable,
    QueueAmounts,
    QueueNamespace,
    QueueWeight,
    QuotaAmounts,
    Reclaimable,
    RemoveGates,
    RemoveTaint,
    Restart,
    RunTime,
    SinglePods,
    SmallerRequest,
    SoftTopology,
    Tolerate,
    Uncordon,
    WithoutConstraints,
    WithoutNodeAffinity,
    WithoutQueueAnnotation,
    WithoutSelector,
)
from vscheduler.mirror.decode import events, quantities, wire
from vscheduler.mirror.decode.events import Kind, LargePod, Remove, Upsert
from vscheduler.mirror.decode.quantities import Quantity
from vscheduler.mirror.decode.wire import (
    CompositePodGroup,
    Container,
    DisruptionMode,
    GangPolicy,
    Metadata,
    NativePodGroup,
    NetworkTopology,
    Node,
    Object,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PodStatus,
    PriorityClass,
    Queue,
    ResourceList,
    ResourceQuota,
    ResourceRequirements,
    SchedulingConstraints,
    SchedulingPolicy,
    Toleration,
)
from vscheduler.mirror.decode.wire_storage import (
    ClaimReference,
    ClaimSpec,
    ClaimStatus,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeSpec,
    VolumeStatus,
)
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate import pod_requests, pods, storage, translation
from vscheduler.model import constraints, jobs
from vscheduler.model.constraints import HOSTNAME
from vscheduler.model.jobs import PREEMPTABLE, ROLE, WAITING, JobId, Phase
from vscheduler.model.nodes import CORDON
from vscheduler.model.queues import QueueState
from vscheduler.model.run_times import MAX_RUN_TIME
from vscheduler.simulator import admission

Event: TypeAlias = Upsert | Remove
Key: TypeAlias = tuple[Kind, str]
"""Kind and key of an object: a pod's UID, `namespace/name`, or a name."""

Struct = TypeVar("Struct", bound=Object)
Group: TypeAlias = PodGroup | NativePodGroup | CompositePodGroup

ALLOWED = "true"
NEW_CLASS = "vscheduler-why"
"""The PriorityClass of trials with another priority."""

FINISHED = ("Succeeded", "Failed")
SAY_PHASE = (jobs.PHASE, jobs.INITIALLY_SCHEDULED, jobs.TREE_SCHEDULED)
"""Conditions of Kubernetes' own PodGroups that say how far the job is."""

MANY_NODES = "ReadWriteMany"

_alter = msgspec.structs.replace


class Objects:
    """The readable objects of a cluster before any change, and one job that waits."""

    def __init__(self, given: Iterable[events.Event], mirror: Mirror, job: JobId) -> None:
        self.all = [each for each in given if isinstance(each, Upsert)]
        self._by_key = {key(each): each for each in self.all}
        self.job, self._job_of = job, mirror.job_of
        self.waiting = tuple(self._waiting(mirror))
        """The job's pods without a node, which a user would change together."""

    def original(self, kind: Kind, name: str) -> Upsert | None:
        """Return the unchanged object with this key, or None."""
        return self._by_key.get((kind, name))

    def of_kind(self, struct: type[Struct]) -> Iterator[Struct]:
        """Iterate over the objects of a kind."""
        return (each.object for each in self.all if isinstance(each.object, struct))

    def one(self, kind: Kind, name: str, struct: type[Struct]) -> Struct:
        """Return the object with this key, which must exist."""
        found = self._by_key[kind, name].object
        assert isinstance(found, struct)
        return found

    def members(self, job: JobId) -> list[Pod]:
        """Return the pods of a job, of all schedulers."""
        return self._members.get(job, [])

    def group(self, job: JobId) -> Group:
        """Return the PodGroup of a job, which must exist."""
        found = self.stored_group(job)
        assert found is not None
        return found

    def stored_group(self, job: JobId) -> Group | None:
        """Return the PodGroup of a job, or the CompositePodGroup; None if there is none."""
        found = self.original(events.kind_of_job(job), events.key_of(*jobs.names_of(job)))
        if found is None or jobs.is_lone_pod(job):
            return None
        assert isinstance(found.object, Group)
        return found.object

    @cached_property
    def _members(self) -> dict[JobId, list[Pod]]:
        found: dict[JobId, list[Pod]] = {}
        for pod in self.of_kind(Pod):
            job = pods.group_of(pod)
            if job is not None:
                found.setdefault(self._job_of(job), []).append(pod)
        return found

    def of_others(self, scheduler: str) -> list[Pod]:
        """Return the job's pods that live, and name another scheduler."""
        return [
            pod
            for pod in self.members(self.job)
            if pod.spec.scheduler_name != scheduler and pod.status.phase not in FINISHED
        ]

    def _waiting(self, mirror: Mirror) -> Iterator[Pod]:
        for pod in sorted(mirror.members(self.job), key=lambda each: each.uid):
            if pod.ours and pod.status in WAITING and pod.task is not None:
                yield _whole(self.one(Kind.POD, pod.uid, Pod))


def _whole(pod: Pod) -> Pod:
    """Return a pod with all of its fields: an edit of a LargePod would be overlooked."""
    if not isinstance(pod, LargePod):
        return pod
    whole = events.whole(pod)
    assert isinstance(whole, Upsert)
    assert isinstance(whole.object, Pod)
    return whole.object


def key(event: Event) -> Key:
    """Return kind and key of an event's object."""
    if isinstance(event, Remove):
        name = events.key_of(event.namespace, event.name)
        return event.kind, event.uid if event.kind is Kind.POD and event.uid else name
    metadata = event.object.metadata
    if event.kind is Kind.POD:
        return event.kind, pods.uid_of(metadata)
    return event.kind, events.key_of(metadata.namespace, metadata.name)


def policy(change: Change, before: Policy) -> Policy:
    """Return the policy after the change."""
    if isinstance(change, ActionArgument):
        return before.with_argument(change.action, change.name, change.after)
    return before


def objects(change: Change, there: Objects) -> list[Event]:
    """Return the events of the change: objects that differ, appear or are gone."""
    match change:
        case FewerPods() | SmallerRequest():
            return _smaller(there, change)
        case Tolerate() | WithoutSelector() | WithoutNodeAffinity() | RemoveGates():
            return [_pod(_unbarred(pod, change)) for pod in there.waiting]
        case (
            QueueWeight()
            | QueueAmounts()
            | Reclaimable()
            | WithoutQueueAnnotation()
            | OtherParent()
            | QueueNamespace()
        ):
            return [_queue(there, change)]
        case MoreNodes() | LargerNodes():
            return [_node(node) for node in _more_nodes(there, change)]
        case RemoveTaint() | Uncordon() | LabelNodes():
            return [_node(_changed_node(there, name, change)) for name in change.nodes]
    return _required(there, change) or _evictable(there, change)


def _required(objects: Objects, change: Change) -> list[Event]:
    """Return the events of a change that gives the job what it must have before it may start."""
    made: Iterable[Event] = ()
    match change:
        case OpenQueues():
            made = _opened(objects, change)
        case CreateQueue():
            metadata = Metadata(name=change.queue, uid=change.queue)
            made = [Upsert(kind=Kind.QUEUE, object=Queue(metadata=metadata))]
        case OtherQueue() | DropAnnotation() | EndOfPatience() | RunTime() | HigherPriority():
            made = _changed_settings(objects, change)
        case SoftTopology() | HigherTier() | WithoutConstraints():
            made = [_with_topology(objects.group(objects.job), change)]
        case HonorTaints() | MayPreempt() | PodPriorities() | OneScheduler():
            made = map(_pod, _created_again(objects, change))
        case MarkPods():
            made = map(_pod, _marked(objects, change))
        case CreatePods():
            made = map(_pod, _new_pods(objects, change))
        case Restart():
            made = _restarted(objects)
        case CreateClaims():
            made = (event for key in change.claims for event in _bound_claim(key))
    return list(made)


def _opened(objects: Objects, change: OpenQueues) -> Iterator[Event]:
    """Yield the queues with another state: those that are opened, and those below them that were
    closed with them.
    """
    known = {queue.metadata.name: queue for queue in objects.of_kind(Queue)}
    after = dict(known)
    for name in change.queues:
        status = _alter(known[name].status, state=str(QueueState.OPEN))
        after[name] = _alter(known[name], status=status)
    for queue in admission.with_states(after.values()):
        if queue is not known[queue.metadata.name]:
            yield Upsert(kind=Kind.QUEUE, object=queue)


def _changed_settings(
    objects: Objects, change: OtherQueue | DropAnnotation | EndOfPatience | RunTime | HigherPriority
) -> Iterator[Event]:
    """Yield the PodGroup, or the pod that is a job by itself, with other settings."""
    if isinstance(change, HigherPriority):
        yield from _with_priority(objects, change.after)
    elif not jobs.is_lone_pod(objects.job):
        yield _changed_group(objects.group(objects.job), change)
    elif isinstance(change, RunTime):
        yield from (
            _pod(_noted(pod, MAX_RUN_TIME, f"{change.seconds}s")) for pod in objects.waiting
        )
    else:
        after = change.after if isinstance(change, OtherQueue) else ""
        yield from (_pod(_noted(pod, translation.QUEUE, after)) for pod in objects.waiting)


def _with_priority(objects: Objects, priority: int) -> Iterator[Event]:
    """Yield the PodGroup with a PriorityClass of this value, or the pod that is a job by itself."""
    if jobs.is_lone_pod(objects.job):
        for pod in objects.waiting:
            spec = _alter(pod.spec, priority=priority, priority_class_name=NEW_CLASS)
            yield _pod(_alter(pod, spec=spec))
        return
    group = objects.group(objects.job)
    assert isinstance(group, PodGroup), "no other kind names a class"
    new = PriorityClass(metadata=Metadata(name=NEW_CLASS, uid=NEW_CLASS), value=priority)
    yield Upsert(kind=Kind.PRIORITY_CLASS, object=new)
    yield _group(_alter(group, spec=_alter(group.spec, priority_class_name=NEW_CLASS)))


def _changed_group(
    group: Group, change: OtherQueue | DropAnnotation | EndOfPatience | RunTime
) -> Event:
    match change:
        case RunTime():
            return _annotated(group, MAX_RUN_TIME, f"{change.seconds}s")
        case DropAnnotation():
            return _annotated(group, change.key, None)
        case EndOfPatience():
            return _annotated(group, PATIENCE, None)
        case OtherQueue():
            if isinstance(group, PodGroup):
                return _group(_alter(group, spec=_alter(group.spec, queue=change.after)))
            return _annotated(group, translation.QUEUE, change.after)


def _noted(pod: Pod, key: str, text: str) -> Pod:
    """Return a lone pod with this annotation."""
    annotations = {**pod.metadata.annotations, key: text}
    return _alter(pod, metadata=_alter(pod.metadata, annotations=annotations))


def _annotated(group: Group, key: str, text: str | None) -> Upsert:
    """Return the group with this annotation, or without it."""
    annotations = {name: each for name, each in group.metadata.annotations.items() if name != key}
    if text is not None:
        annotations[key] = text
    return _group(_alter(group, metadata=_alter(group.metadata, annotations=annotations)))


def _with_topology(group: Group, change: SoftTopology | HigherTier | WithoutConstraints) -> Event:
    """Return the group with each of its network topologies edited."""
    if not isinstance(group, PodGroup):
        spec = _alter(group.spec, scheduling_constraints=SchedulingConstraints())
        return _group(_alter(group, spec=spec))
    edit = partial(_raised_tier, change) if isinstance(change, HigherTier) else _softened
    policies = [
        _alter(each, network_topology=each.network_topology and edit(each.network_topology))
        for each in group.spec.sub_group_policy
    ]
    whole = group.spec.network_topology and edit(group.spec.network_topology)
    changed = _alter(group.spec, network_topology=whole, sub_group_policy=policies)
    return _group(_alter(group, spec=changed))


def _softened(_: NetworkTopology) -> NetworkTopology:
    return NetworkTopology(mode=translation.SOFT)


def _raised_tier(change: HigherTier, before: NetworkTopology) -> NetworkTopology:
    if before.mode == translation.SOFT:
        return before
    number = before.highest_tier_allowed
    if before.highest_tier_name:
        if before.highest_tier_name not in change.below:
            return before
        if change.name:
            return _alter(before, highest_tier_name=change.name)
    elif number is None or number >= change.tier:
        return before
    return _alter(before, highest_tier_allowed=change.tier, highest_tier_name="")


def _restarted(objects: Objects) -> Iterator[Event]:
    """Yield the job as it is once its owner has created its pods again: not admitted yet."""
    group = objects.group(objects.job)
    if not isinstance(group, PodGroup):
        kept = [each for each in group.status.conditions if each.type not in SAY_PHASE]
        yield _group(_alter(group, status=_alter(group.status, conditions=kept)))
    else:
        yield _group(_alter(group, status=_alter(group.status, phase=str(Phase.PENDING))))
    for pod in map(_whole, objects.members(objects.job)):
        goes_on = pod.status.phase in ("Pending", "Running")
        if pod.spec.node_name and goes_on and pod.metadata.deletion_timestamp is None:
            spec = _alter(pod.spec, node_name="")
            yield _pod(_alter(pod, spec=spec, status=PodStatus(phase="Pending")))


def _marked(objects: Objects, change: MarkPods) -> Iterator[Pod]:
    """Yield the pods with their new labels; a role is an annotation, too."""
    by_pod: dict[str, dict[str, str]] = {}
    for mark in change.marks:
        by_pod.setdefault(mark.pod, {})[mark.key] = mark.value
    for uid, marks in by_pod.items():
        pod = objects.one(Kind.POD, uid, Pod)
        metadata = pod.metadata
        role = {key: value for key, value in marks.items() if key == ROLE}
        yield _alter(
            pod,
            metadata=_alter(
                metadata,
                labels={**metadata.labels, **marks},
                annotations={**metadata.annotations, **role},
            ),
        )


def _new_pods(objects: Objects, change: CreatePods) -> Iterator[Pod]:
    first = 1
    for new in change.pods:
        like = objects.one(Kind.POD, new.like, Pod)
        yield from _copies(new, like, first)
        first += new.count


def _copies(new: NewPods, like: Pod, first: int) -> Iterator[Pod]:
    """Yield the further pods as an owner would create them; `first` numbers the names."""
    metadata = like.metadata
    labels = {**metadata.labels, **dict(new.labels)}
    annotations = dict(metadata.annotations)
    if new.role:
        labels[ROLE] = annotations[ROLE] = new.role
    for number in range(first, first + new.count):
        name = f"{metadata.name}-more-{number}"
        own = _alter(
            metadata,
            name=name,
            uid=name,
            labels=labels,
            annotations=annotations,
            deletion_timestamp=None,
        )
        spec = _alter(like.spec, node_name="")
        yield _alter(like, metadata=own, spec=spec, status=PodStatus(phase="Pending"))


def _bound_claim(key: str) -> Iterator[Event]:
    """Yield a claim and the volume that it is bound to, which every node can use."""
    namespace, _, name = key.rpartition("/")
    volume = f"{namespace}-{name}"
    yield Upsert(
        kind=Kind.VOLUME,
        object=PersistentVolume(
            metadata=Metadata(name=volume, uid=volume),
            spec=VolumeSpec(
                access_modes=[MANY_NODES],
                claim_ref=ClaimReference(namespace=namespace, name=name, uid=key),
            ),
            status=VolumeStatus(phase="Bound"),
        ),
    )
    annotations = {storage.BIND_COMPLETED: "yes"}
    metadata = Metadata(name=name, namespace=namespace, uid=key, annotations=annotations)
    yield Upsert(
        kind=Kind.CLAIM,
        object=PersistentVolumeClaim(
            metadata=metadata,
            spec=ClaimSpec(access_modes=[MANY_NODES], volume_name=volume),
            status=ClaimStatus(phase="Bound"),
        ),
    )


def _quota(objects: Objects, change: QuotaAmounts) -> Event:
    quota = objects.one(Kind.QUOTA, change.quota, ResourceQuota)
    after = dict(change.after)
    hard = {key: _raised(key, text, after) for key, text in quota.spec.hard.items()}
    spec = _alter(quota.spec, hard=hard)
    return Upsert(kind=Kind.QUOTA, object=_alter(quota, spec=spec))


def _raised(key: str, text: Quantity, after: Mapping[str, int]) -> Quantity:
    """Return the amount of an entry of a quota: a resource may have several."""
    name = translation.quota_resource(key)
    if name is None or name not in after or _read(name, text) >= after[name]:
        return text
    return _written(name, after[name])


def _evictable(objects: Objects, change: Change) -> list[Event]:
    """Return the events of a change that frees what running jobs hold, or what a quota keeps."""
    match change:
        case EndOfJob():
            group = objects.stored_group(JobId(change.job))
            gone = [_pod(member) for member in objects.members(JobId(change.job))]
            return [events.removal(each) for each in (*gone, *([_group(group)] if group else ()))]
        case Preemptable():
            return list(_preemptable(objects, JobId(change.job)))
        case SinglePods():
            there = objects.group(JobId(change.job))
            assert isinstance(there, NativePodGroup), "no other kind has the field"
            spec = _alter(there.spec, disruption_mode=DisruptionMode())
            return [_group(_alter(there, spec=spec))]
        case MoreDisruptions():
            return [_budget(objects, change)]
        case QuotaAmounts():
            return [_quota(objects, change)]
    return []


def _pod(pod: Pod) -> Upsert:
    return Upsert(kind=Kind.POD, object=pod)


def _node(node: Node) -> Event:
    return Upsert(kind=Kind.NODE, object=node)


def _group(group: Group) -> Upsert:
    return Upsert(kind=events.kind_of_struct(type(group)), object=group)


def _fewer_pods(group: Group, change: FewerPods) -> Event:
    assert not isinstance(group, CompositePodGroup), "its PodGroups have the minimum"
    if isinstance(group, NativePodGroup):
        if group.spec.scheduling_policy.gang is None:
            return _annotated(group, translation.MIN_MEMBER, str(change.after))
        policy = SchedulingPolicy(gang=GangPolicy(min_count=change.after))
        return _group(_alter(group, spec=_alter(group.spec, scheduling_policy=policy)))
    spec = _alter(group.spec, min_member=change.after)
    if not spec.min_resources:
        return _group(_alter(group, spec=spec))
    least = {
        name: _written(name, -(-_read(name, text) * change.after // max(1, change.before)))
        for name, text in spec.min_resources.items()
    }
    return _group(_alter(group, spec=_alter(spec, min_resources=least)))


def _smaller(objects: Objects, change: FewerPods | SmallerRequest) -> list[Event]:
    """Return the pods with a smaller request, and the group with less to be promised."""
    if isinstance(change, FewerPods):
        return [_fewer_pods(objects.group(objects.job), change)]
    name = change.resource
    made: list[Event] = []
    before = after = 0
    for pod in objects.waiting:
        smaller = capped(pod, name, change.after)
        before += requested(pod, name)
        after += requested(smaller, name)
        if smaller is not pod:
            made.append(_pod(smaller))
    group = objects.stored_group(objects.job)
    least = group.spec.min_resources if isinstance(group, PodGroup) else None
    if isinstance(group, PodGroup) and least and name in least and before:
        amount = -(-_read(name, least[name]) * after // before)
        spec = _alter(group.spec, min_resources={**least, name: _written(name, amount)})
        made.append(_group(_alter(group, spec=spec)))
    return made


def _more_nodes(objects: Objects, change: MoreNodes | LargerNodes) -> Iterator[Node]:
    like = objects.one(Kind.NODE, change.like, Node)
    if isinstance(change, LargerNodes):
        larger = {name: _written(name, amount) for name, amount in change.allocatable}
        allocatable = {**like.status.allocatable, **larger}
        capacity = {**like.status.capacity, **larger}
        status = _alter(like.status, allocatable=allocatable, capacity=capacity)
        like = _alter(like, status=status)
    number = made = 0
    while made < change.count:
        number += 1
        name = f"{change.like}-more-{number}"
        if objects.original(Kind.NODE, name) is not None:
            continue
        made += 1
        labels = dict(like.metadata.labels)
        if HOSTNAME in labels:
            labels[HOSTNAME] = name
        yield _alter(like, metadata=_alter(like.metadata, name=name, uid=name, labels=labels))


def _queue(
    objects: Objects,
    change: (
        QueueWeight
        | QueueAmounts
        | Reclaimable
        | WithoutQueueAnnotation
        | OtherParent
        | QueueNamespace
    ),
) -> Event:
    queue = objects.one(Kind.QUEUE, change.queue, Queue)
    fields: dict[str, object] = {}
    match change:
        case QueueWeight():
            fields = {"weight": change.after}
        case QueueAmounts():
            before: Mapping[str, Quantity] = getattr(queue.spec, change.field)
            after = {name: _written(name, amount) for name, amount in change.after}
            fields = {str(change.field): {**before, **after}}
        case Reclaimable():
            fields = {"reclaimable": True}
        case OtherParent():
            fields = {"parent": change.after}
        case WithoutQueueAnnotation():
            annotations = dict(queue.metadata.annotations)
            del annotations[change.name]
            queue = _alter(queue, metadata=_alter(queue.metadata, annotations=annotations))
        case QueueNamespace():
            annotations = dict(queue.metadata.annotations)
            known = annotations.get(translation.NAMESPACES, "")
            annotations[translation.NAMESPACES] = f"{known},{change.namespace}".lstrip(",")
            queue = _alter(queue, metadata=_alter(queue.metadata, annotations=annotations))
    spec = _alter(queue.spec, **fields)
    return Upsert(kind=Kind.QUEUE, object=_alter(queue, spec=spec))


def _preemptable(objects: Objects, job: JobId) -> Iterator[Event]:
    group = objects.stored_group(job)
    if group is not None and _forbids(group.metadata):
        yield _group(_allowing(group))
    for pod in objects.members(job):
        if _forbids(pod.metadata):
            yield Upsert(kind=Kind.POD, object=_allowing(pod))


def _forbids(metadata: Metadata) -> bool:
    """Whether the annotation, or the label without an annotation, forbids evictions."""
    text = metadata.annotations.get(PREEMPTABLE)
    if text is None:
        text = metadata.labels.get(PREEMPTABLE, ALLOWED)
    return text not in pods.TRUE


def _allowing(there: Struct) -> Struct:
    annotations = {**there.metadata.annotations, PREEMPTABLE: ALLOWED}
    return _alter(there, metadata=_alter(there.metadata, annotations=annotations))


def _budget(objects: Objects, change: MoreDisruptions) -> Event:
    budget = objects.one(Kind.BUDGET, change.budget, PodDisruptionBudget)
    status = _alter(budget.status, disruptions_allowed=change.after)
    return Upsert(kind=Kind.BUDGET, object=_alter(budget, status=status))


def _changed_node(
    objects: Objects,
    name: str,
    change: RemoveTaint | Uncordon | LabelNodes,
) -> Node:
    node = objects.one(Kind.NODE, name, Node)
    match change:
        case RemoveTaint():
            kept = [taint for taint in node.spec.taints if not _is(taint, change.taint)]
            return _alter(node, spec=_alter(node.spec, taints=kept))
        case Uncordon():
            kept = [taint for taint in node.spec.taints if taint.key != CORDON.key]
            return _alter(node, spec=_alter(node.spec, taints=kept, unschedulable=False))
        case LabelNodes():
            labels = {**node.metadata.labels, change.key: change.value}
            return _alter(node, metadata=_alter(node.metadata, labels=labels))


def _created_again(
    objects: Objects, change: HonorTaints | MayPreempt | PodPriorities | OneScheduler
) -> Iterator[Pod]:
    """Yield pods with another policy; new ones in place of those that name another scheduler."""
    if not isinstance(change, OneScheduler):
        yield from (_with_policy(pod, change) for pod in objects.waiting)
        return
    for pod in objects.of_others(change.after):
        spec = _alter(_whole(pod).spec, scheduler_name=change.after, node_name="")
        yield _alter(_whole(pod), spec=spec, status=PodStatus(phase="Pending"))


def _with_policy(pod: Pod, change: HonorTaints | MayPreempt | PodPriorities) -> Pod:
    spec = pod.spec
    match change:
        case PodPriorities():
            return _alter(pod, spec=_alter(spec, priority=change.after))
        case HonorTaints():
            rules = spec.topology_spread_constraints
            rules = [_alter(rule, node_taints_policy="Honor") for rule in rules]
            return _alter(pod, spec=_alter(spec, topology_spread_constraints=rules))
        case MayPreempt():
            return _alter(pod, spec=_alter(spec, preemption_policy="PreemptLowerPriority"))


def _unbarred(
    pod: Pod,
    change: (Tolerate | WithoutSelector | WithoutNodeAffinity | RemoveGates),
) -> Pod:
    """Return a waiting pod that may use more nodes, or nodes at all."""
    spec = pod.spec
    match change:
        case RemoveGates():
            return _alter(pod, spec=_alter(spec, scheduling_gates=[]))
        case Tolerate():
            taint = change.taint
            made = Toleration(
                key=taint.key, operator="Equal", value=taint.value, effect=str(taint.effect)
            )
            return _alter(pod, spec=_alter(spec, tolerations=[*spec.tolerations, made]))
        case WithoutSelector():
            selector = dict(spec.node_selector)
            selector.pop(change.key, None)
            return _alter(pod, spec=_alter(spec, node_selector=selector))
        case WithoutNodeAffinity():
            if spec.affinity is None or spec.affinity.node_affinity is None:
                return pod
            free = _alter(spec.affinity.node_affinity, required=None)
            affinity = _alter(spec.affinity, node_affinity=free)
            return _alter(pod, spec=_alter(spec, affinity=affinity))


def _is(written: wire.Taint, taint: constraints.Taint) -> bool:
    return (written.key, written.value, written.effect) == (taint.key, taint.value, taint.effect)


def _read(name: str, text: Quantity) -> int:
    return quantities.parse(name, text)


def _written(name: str, amount: int) -> str:
    return quantities.format_quantity(name, amount)


def requested(pod: Pod, resource: str) -> int:
    """Return how much of a resource the pod requests."""
    return pod_requests.of_pod(pod).get(resource, 0)


def all_requested(pod: Pod) -> list[str]:
    """Return the names of all resources that the pod requests."""
    return list(pod_requests.of_pod(pod))


def capped(pod: Pod, resource: str, most: int) -> Pod:
    """Return the pod with a request of at most `most`: its largest containers ask for less.

    The overhead of a runtime class can't be lowered, so the request may remain above `most`.
    """
    if requested(pod, resource) <= most:
        return pod
    spec = pod.spec
    most = max(0, most - _amount(spec.overhead, resource))
    containers = list(spec.containers)
    excess = sum(_of(container, resource) for container in containers) - most
    for index in sorted(range(len(containers)), key=lambda at: -_of(containers[at], resource)):
        has = _of(containers[index], resource)
        less = min(has, max(0, excess))
        if less:
            containers[index] = _with(containers[index], resource, has - less)
            excess -= less
    before = [
        _with(container, resource, most) if _of(container, resource) > most else container
        for container in spec.init_containers
    ]
    whole = spec.resources
    if whole is not None and resource in {**whole.requests, **whole.limits}:
        whole = _less(whole, resource, most)
    changed = _alter(spec, containers=containers, init_containers=before, resources=whole)
    return _alter(pod, spec=changed)


def _of(container: Container, resource: str) -> int:
    if container.resources is None:
        return 0
    asked = container.resources
    return _amount({**asked.limits, **asked.requests}, resource)


def _amount(amounts: ResourceList, resource: str) -> int:
    return quantities.parse(resource, amounts[resource]) if resource in amounts else 0


def _with(container: Container, resource: str, amount: int) -> Container:
    assert container.resources is not None
    return _alter(container, resources=_less(container.resources, resource, amount))


def _less(asked: ResourceRequirements, resource: str, amount: int) -> ResourceRequirements:
    text = quantities.format_quantity(resource, amount)
    return _alter(asked, requests={**asked.requests, resource: text})
