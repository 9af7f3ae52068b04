"""Edits: the objects of a cluster as a user would change them, for each change of `changes`."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias, TypeVar

import msgspec

from vscheduler.core.config import policy as policies
from vscheduler.core.model import constraints, jobs, nodes, queues
from vscheduler.explain import changes, smaller_pods
from vscheduler.mirror import state
from vscheduler.mirror.decode import events, large_pods, quantities, wire, wire_storage, wire_terms
from vscheduler.mirror.translate import pods, storage, translation
from vscheduler.simulator import closed_queues

Event: TypeAlias = events.Upsert | events.Remove
Key: TypeAlias = tuple[events.Kind, str]
"""Kind and key of an object: a pod's UID, `namespace/name`, or a name."""

Struct = TypeVar("Struct", bound=wire.Object)

HOSTNAME = "kubernetes.io/hostname"
"""The label that is different on each node."""

ALLOWED = "true"
MANY_NODES = "ReadWriteMany"

_alter = msgspec.structs.replace


class Objects:
    """The readable objects of a cluster before any change, and one job that waits."""

    def __init__(
        self, given: Iterable[events.Event], mirror: state.Mirror, job: jobs.JobId
    ) -> None:
        self.all = [each for each in given if isinstance(each, events.Upsert)]
        self._by_key = {key(each): each for each in self.all}
        self.job = job
        self.waiting = tuple(self._waiting(mirror))
        """The job's pods without a node, which a user would change together."""

    def original(self, kind: events.Kind, name: str) -> events.Upsert | None:
        """Return the unchanged object with this key, or None."""
        return self._by_key.get((kind, name))

    def of_kind(self, struct: type[Struct]) -> Iterator[Struct]:
        """Iterate over the objects of a kind."""
        return (each.object for each in self.all if isinstance(each.object, struct))

    def one(self, kind: events.Kind, name: str, struct: type[Struct]) -> Struct:
        """Return the object with this key, which must exist."""
        found = self._by_key[kind, name].object
        assert isinstance(found, struct)
        return found

    def members(self, job: str) -> list[wire.Pod]:
        """Return the pods of a job, of all schedulers."""
        return self._members.get(job, [])

    def group(self, job: str) -> wire.PodGroup:
        """Return the PodGroup of a job."""
        return self.one(events.Kind.POD_GROUP, job, wire.PodGroup)

    @cached_property
    def _members(self) -> dict[str, list[wire.Pod]]:
        found: dict[str, list[wire.Pod]] = {}
        for pod in self.of_kind(wire.Pod):
            name = next(filter(None, map(pod.metadata.annotations.get, pods.GROUPS)), None)
            if name is not None:
                job = events.key_of(pod.metadata.namespace, name)
                found.setdefault(job, []).append(pod)
        return found

    def _waiting(self, mirror: state.Mirror) -> Iterator[wire.Pod]:
        for pod in sorted(mirror.members(self.job), key=lambda each: each.uid):
            if pod.ours and pod.status in jobs.WAITING and pod.task is not None:
                found = self.one(events.Kind.POD, pod.uid, wire.Pod)
                if isinstance(found, large_pods.LargePod):  # an edit of it would be overlooked
                    whole = events.whole(found)
                    assert isinstance(whole, events.Upsert)
                    assert isinstance(whole.object, wire.Pod)
                    found = whole.object
                yield found


def key(event: Event) -> Key:
    """Return kind and key of an event's object."""
    if isinstance(event, events.Remove):
        name = events.key_of(event.namespace, event.name)
        return event.kind, event.uid if event.kind is events.Kind.POD and event.uid else name
    metadata = event.object.metadata
    if event.kind is events.Kind.POD:
        return event.kind, pods.uid_of(metadata)
    return event.kind, events.key_of(metadata.namespace, metadata.name)


def removal(kind: events.Kind, name: str) -> events.Remove:
    """Return the removal of the object with this key."""
    namespace, _, rest = name.rpartition("/")
    uid = name if kind is events.Kind.POD else ""
    return events.Remove(kind=kind, namespace=namespace, name=rest, uid=uid)


def policy(change: changes.Change, before: policies.Policy) -> policies.Policy:
    """Return the policy after the change."""
    if isinstance(change, changes.ActionArgument):
        return before.with_argument(change.action, change.name, change.after)
    return before


def objects(change: changes.Change, there: Objects) -> list[Event]:
    """Return the events of the change: objects that differ, appear or are gone."""
    match change:
        case changes.FewerPods() | changes.SmallerRequest():
            return _smaller(there, change)
        case (
            changes.Tolerate()
            | changes.WithoutSelector()
            | changes.WithoutNodeAffinity()
            | changes.RemoveGates()
        ):
            return [_pod(_unbarred(pod, change)) for pod in there.waiting]
        case (
            changes.QueueWeight()
            | changes.QueueAmounts()
            | changes.Reclaimable()
            | changes.OtherParent()
            | changes.QueueNamespace()
        ):
            return [_queue(there, change)]
        case changes.MoreNodes() | changes.LargerNodes():
            return [_node(each) for each in _more_nodes(there, change)]
        case changes.RemoveTaint() | changes.Uncordon() | changes.LabelNodes():
            return [_node(_changed_node(there, name, change)) for name in change.nodes]
    return _required(there, change) or _evictable(there, change)


def _required(there: Objects, change: changes.Change) -> list[Event]:
    """Return the events of a change that gives the job what it must have before it may start."""
    made: Iterable[Event] = ()
    match change:
        case changes.OpenQueues():
            made = _opened(there, change)
        case changes.CreateQueue():
            metadata = wire.Metadata(name=change.queue, uid=change.queue)
            made = [events.Upsert(kind=events.Kind.QUEUE, object=wire.Queue(metadata=metadata))]
        case changes.OtherQueue() | changes.DropAnnotation() | changes.SoftTopology():
            made = [_changed_group(there, change)]
        case changes.HonorTaints() | changes.MayPreempt():
            made = [_pod(_with_policy(pod, change)) for pod in there.waiting]
        case changes.MarkPods():
            made = map(_pod, _marked(there, change))
        case changes.CreatePods():
            made = map(_pod, _new_pods(there, change))
        case changes.CreateClaims():
            made = (event for key in change.claims for event in _bound_claim(key))
        case changes.QuotaAmounts():
            made = [_quota(there, change)]
    return list(made)


def _opened(there: Objects, change: changes.OpenQueues) -> Iterator[Event]:
    """Yield the queues with another state: those that are opened, and those below them that were
    closed with them.
    """
    known = {queue.metadata.name: queue for queue in there.of_kind(wire.Queue)}
    after = dict(known)
    for name in change.queues:
        status = _alter(known[name].status, state=str(queues.QueueState.OPEN))
        after[name] = _alter(known[name], status=status)
    for queue in closed_queues.settled(after.values()):
        if queue is not known[queue.metadata.name]:
            yield events.Upsert(kind=events.Kind.QUEUE, object=queue)


def _changed_group(
    there: Objects, change: changes.OtherQueue | changes.DropAnnotation | changes.SoftTopology
) -> Event:
    group = there.group(there.job)
    match change:
        case changes.OtherQueue():
            group = _alter(group, spec=_alter(group.spec, queue=change.after))
        case changes.DropAnnotation():
            kept = {key: text for key, text in _notes(group).items() if key != change.key}
            group = _alter(group, metadata=_alter(group.metadata, annotations=kept))
        case changes.SoftTopology():
            group = _alter(group, spec=_softened(group.spec))
    return events.Upsert(kind=events.Kind.POD_GROUP, object=group)


def _notes(group: wire.PodGroup) -> Mapping[str, str]:
    return group.metadata.annotations


def _softened(spec: wire.PodGroupSpec) -> wire.PodGroupSpec:
    soft = wire.NetworkTopology(mode="soft")
    policies = [
        _alter(each, network_topology=each.network_topology and soft)
        for each in spec.sub_group_policy
    ]
    whole = spec.network_topology and soft
    return _alter(spec, network_topology=whole, sub_group_policy=policies)


def _marked(there: Objects, change: changes.MarkPods) -> Iterator[wire.Pod]:
    """Yield the pods with their new labels; a role is an annotation, too."""
    by_pod: dict[str, dict[str, str]] = {}
    for mark in change.marks:
        by_pod.setdefault(mark.pod, {})[mark.key] = mark.value
    for uid, marks in by_pod.items():
        pod = there.one(events.Kind.POD, uid, wire.Pod)
        metadata = pod.metadata
        role = {key: value for key, value in marks.items() if key == pods.ROLE}
        yield _alter(
            pod,
            metadata=_alter(
                metadata,
                labels={**metadata.labels, **marks},
                annotations={**metadata.annotations, **role},
            ),
        )


def _new_pods(there: Objects, change: changes.CreatePods) -> Iterator[wire.Pod]:
    first = 1
    for new in change.pods:
        like = there.one(events.Kind.POD, new.like, wire.Pod)
        yield from _copies(new, like, first)
        first += new.count


def _copies(new: changes.NewPods, like: wire.Pod, first: int) -> Iterator[wire.Pod]:
    """Yield the further pods as an owner would create them; `first` numbers the names."""
    metadata = like.metadata
    labels = {**metadata.labels, **dict(new.labels)}
    annotations = dict(metadata.annotations)
    if new.role:
        labels[pods.ROLE] = annotations[pods.ROLE] = new.role
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
        yield _alter(like, metadata=own, spec=spec, status=wire.PodStatus(phase="Pending"))


def _bound_claim(key: str) -> Iterator[Event]:
    """Yield a claim and the volume that it is bound to, which every node can use."""
    namespace, _, name = key.rpartition("/")
    volume = f"{namespace}-{name}"
    yield events.Upsert(
        kind=events.Kind.VOLUME,
        object=wire_storage.PersistentVolume(
            metadata=wire.Metadata(name=volume, uid=volume),
            spec=wire_storage.VolumeSpec(
                access_modes=[MANY_NODES],
                claim_ref=wire_storage.ClaimReference(namespace=namespace, name=name, uid=key),
            ),
            status=wire_storage.VolumeStatus(phase="Bound"),
        ),
    )
    annotations = {storage.BIND_COMPLETED: "yes"}
    metadata = wire.Metadata(name=name, namespace=namespace, uid=key, annotations=annotations)
    yield events.Upsert(
        kind=events.Kind.CLAIM,
        object=wire_storage.PersistentVolumeClaim(
            metadata=metadata,
            spec=wire_storage.ClaimSpec(access_modes=[MANY_NODES], volume_name=volume),
            status=wire_storage.ClaimStatus(phase="Bound"),
        ),
    )


def _quota(there: Objects, change: changes.QuotaAmounts) -> Event:
    quota = there.one(events.Kind.QUOTA, change.quota, wire.ResourceQuota)
    after = dict(change.after)
    hard = {key: _raised(key, text, after) for key, text in quota.spec.hard.items()}
    spec = _alter(quota.spec, hard=hard)
    return events.Upsert(kind=events.Kind.QUOTA, object=_alter(quota, spec=spec))


def _raised(key: str, text: quantities.Quantity, after: Mapping[str, int]) -> quantities.Quantity:
    """Return the amount of an entry of a quota: a resource may have several."""
    name = translation.quota_resource(key)
    if name is None or name not in after or _read(name, text) >= after[name]:
        return text
    return _written(name, after[name])


def _evictable(there: Objects, change: changes.Change) -> list[Event]:
    """Return the events of a change that frees what running jobs hold."""
    match change:
        case changes.EndOfJob():
            group = there.original(events.Kind.POD_GROUP, change.job)
            gone = [_pod(each) for each in there.members(change.job)]
            return [events.removal(each) for each in (*gone, *([group] if group else ()))]
        case changes.Preemptable():
            return list(_preemptable(there, change.job))
        case changes.MoreDisruptions():
            return [_budget(there, change)]
    return []


def _pod(pod: wire.Pod) -> Event:
    return events.Upsert(kind=events.Kind.POD, object=pod)


def _node(node: wire.Node) -> Event:
    return events.Upsert(kind=events.Kind.NODE, object=node)


def _group(there: Objects, spec: wire.PodGroupSpec) -> Event:
    group = _alter(there.group(there.job), spec=spec)
    return events.Upsert(kind=events.Kind.POD_GROUP, object=group)


def _fewer_pods(group: wire.PodGroup, change: changes.FewerPods) -> wire.PodGroupSpec:
    spec = _alter(group.spec, min_member=change.after)
    if not spec.min_resources:
        return spec
    least = {
        name: _written(name, -(-_read(name, text) * change.after // max(1, change.before)))
        for name, text in spec.min_resources.items()
    }
    return _alter(spec, min_resources=least)


def _smaller(there: Objects, change: changes.FewerPods | changes.SmallerRequest) -> list[Event]:
    """Return the pods with a smaller request, and the group with less to be promised."""
    if isinstance(change, changes.FewerPods):
        return [_group(there, _fewer_pods(there.group(there.job), change))]
    name, made = change.resource, []
    before = after = 0
    for pod in there.waiting:
        smaller = smaller_pods.capped(pod, name, change.after)
        before += smaller_pods.requested(pod, name)
        after += smaller_pods.requested(smaller, name)
        if smaller is not pod:
            made.append(_pod(smaller))
    group = there.group(there.job)
    least = group.spec.min_resources
    if least and name in least and before:
        amount = -(-_read(name, least[name]) * after // before)
        spec = _alter(group.spec, min_resources={**least, name: _written(name, amount)})
        made.append(_group(there, spec))
    return made


def _more_nodes(
    there: Objects, change: changes.MoreNodes | changes.LargerNodes
) -> Iterator[wire.Node]:
    like = there.one(events.Kind.NODE, change.like, wire.Node)
    if isinstance(change, changes.LargerNodes):
        larger = {name: _written(name, amount) for name, amount in change.allocatable}
        allocatable = {**like.status.allocatable, **larger}
        capacity = {**like.status.capacity, **larger}
        status = _alter(like.status, allocatable=allocatable, capacity=capacity)
        like = _alter(like, status=status)
    number = made = 0
    while made < change.count:
        number += 1
        name = f"{change.like}-more-{number}"
        if there.original(events.Kind.NODE, name) is not None:
            continue
        made += 1
        labels = dict(like.metadata.labels)
        if HOSTNAME in labels:
            labels[HOSTNAME] = name
        yield _alter(like, metadata=_alter(like.metadata, name=name, uid=name, labels=labels))


def _queue(
    there: Objects,
    change: (
        changes.QueueWeight
        | changes.QueueAmounts
        | changes.Reclaimable
        | changes.OtherParent
        | changes.QueueNamespace
    ),
) -> Event:
    queue = there.one(events.Kind.QUEUE, change.queue, wire.Queue)
    fields: dict[str, object] = {}
    match change:
        case changes.QueueWeight():
            fields = {"weight": change.after}
        case changes.QueueAmounts():
            before: Mapping[str, quantities.Quantity] = getattr(queue.spec, change.field)
            after = {name: _written(name, amount) for name, amount in change.after}
            fields = {str(change.field): {**before, **after}}
        case changes.Reclaimable():
            fields = {"reclaimable": True}
        case changes.OtherParent():
            fields = {"parent": change.after}
        case changes.QueueNamespace():
            annotations = dict(queue.metadata.annotations)
            known = annotations.get(translation.NAMESPACES, "")
            annotations[translation.NAMESPACES] = f"{known},{change.namespace}".lstrip(",")
            queue = _alter(queue, metadata=_alter(queue.metadata, annotations=annotations))
    spec = _alter(queue.spec, **fields)
    return events.Upsert(kind=events.Kind.QUEUE, object=_alter(queue, spec=spec))


def _preemptable(there: Objects, job: str) -> Iterator[Event]:
    group = there.original(events.Kind.POD_GROUP, job)
    found = None if group is None else group.object
    if isinstance(found, wire.PodGroup) and _forbids(found.metadata):
        yield events.Upsert(kind=events.Kind.POD_GROUP, object=_allowing(found))
    for pod in there.members(job):
        if _forbids(pod.metadata):
            yield events.Upsert(kind=events.Kind.POD, object=_allowing(pod))


def _forbids(metadata: wire.Metadata) -> bool:
    """Whether the annotation, or the label without an annotation, forbids evictions."""
    text = metadata.annotations.get(jobs.PREEMPTABLE)
    if text is None:
        text = metadata.labels.get(jobs.PREEMPTABLE, ALLOWED)
    return text not in pods.TRUE


def _allowing(there: Struct) -> Struct:
    annotations = {**there.metadata.annotations, jobs.PREEMPTABLE: ALLOWED}
    return _alter(there, metadata=_alter(there.metadata, annotations=annotations))


def _budget(there: Objects, change: changes.MoreDisruptions) -> Event:
    budget = there.one(events.Kind.BUDGET, change.budget, wire.PodDisruptionBudget)
    status = _alter(budget.status, disruptions_allowed=change.after)
    return events.Upsert(kind=events.Kind.BUDGET, object=_alter(budget, status=status))


def _changed_node(
    there: Objects,
    name: str,
    change: changes.RemoveTaint | changes.Uncordon | changes.LabelNodes,
) -> wire.Node:
    node = there.one(events.Kind.NODE, name, wire.Node)
    match change:
        case changes.RemoveTaint():
            kept = [each for each in node.spec.taints if not _is(each, change.taint)]
            return _alter(node, spec=_alter(node.spec, taints=kept))
        case changes.Uncordon():
            kept = [each for each in node.spec.taints if each.key != nodes.CORDON.key]
            return _alter(node, spec=_alter(node.spec, taints=kept, unschedulable=False))
        case changes.LabelNodes():
            labels = {**node.metadata.labels, change.key: change.value}
            return _alter(node, metadata=_alter(node.metadata, labels=labels))


def _with_policy(pod: wire.Pod, change: changes.HonorTaints | changes.MayPreempt) -> wire.Pod:
    spec = pod.spec
    match change:
        case changes.HonorTaints():
            rules = spec.topology_spread_constraints
            rules = [_alter(each, node_taints_policy="Honor") for each in rules]
            return _alter(pod, spec=_alter(spec, topology_spread_constraints=rules))
        case changes.MayPreempt():
            return _alter(pod, spec=_alter(spec, preemption_policy="PreemptLowerPriority"))


def _unbarred(
    pod: wire.Pod,
    change: (
        changes.Tolerate
        | changes.WithoutSelector
        | changes.WithoutNodeAffinity
        | changes.RemoveGates
    ),
) -> wire.Pod:
    """Return a waiting pod that may use more nodes, or nodes at all."""
    spec = pod.spec
    match change:
        case changes.RemoveGates():
            return _alter(pod, spec=_alter(spec, scheduling_gates=[]))
        case changes.Tolerate():
            taint = change.taint
            made = wire_terms.Toleration(
                key=taint.key, operator="Equal", value=taint.value, effect=str(taint.effect)
            )
            return _alter(pod, spec=_alter(spec, tolerations=[*spec.tolerations, made]))
        case changes.WithoutSelector():
            selector = dict(spec.node_selector)
            selector.pop(change.key, None)
            return _alter(pod, spec=_alter(spec, node_selector=selector))
        case changes.WithoutNodeAffinity():
            if spec.affinity is None or spec.affinity.node_affinity is None:
                return pod
            free = _alter(spec.affinity.node_affinity, required=None)
            affinity = _alter(spec.affinity, node_affinity=free)
            return _alter(pod, spec=_alter(spec, affinity=affinity))


def _is(written: wire.Taint, taint: constraints.Taint) -> bool:
    return (written.key, written.value, written.effect) == (taint.key, taint.value, taint.effect)


def _read(name: str, text: quantities.Quantity) -> int:
    return quantities.parse(name, text)


def _written(name: str, amount: int) -> str:
    return quantities.format_quantity(name, amount)
