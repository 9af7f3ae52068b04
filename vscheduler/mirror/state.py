"""Mirror: what the API server has shown so far, and what is being bound or evicted right now.

It is the one thing here that changes, and only through its methods. It may be called from one
thread only; what `snapshot` returns is frozen and can go anywhere.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from vscheduler.core.model import jobs, nodes, queues
from vscheduler.core.model import snapshot as snapshots
from vscheduler.mirror.decode import events
from vscheduler.mirror.index import (
    entries,
    job_index,
    node_usage,
    pod_affinity_index,
    pods_by_class,
)
from vscheduler.mirror.translate import bounds, kubelet_refusals, pods, translation

V = TypeVar("V", queues.Queue, snapshots.Budget, snapshots.Quota)

_KINDS: Mapping[type, events.Kind] = {
    queues.Queue: events.Kind.QUEUE,
    snapshots.Budget: events.Kind.BUDGET,
    snapshots.Quota: events.Kind.QUOTA,
}
"""Kinds that are in a snapshot as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to look at the cluster."""

    scheduler_names: tuple[str, ...]
    """Pods that name one of these in spec.schedulerName are ours."""
    default_queue: str = queues.DEFAULT
    """The queue of PodGroups that name none."""
    node_selector: tuple[tuple[str, str], ...] = ()
    """Labels: a node that has none of them isn't seen. Empty: all nodes are."""
    claim_unowned: bool = False
    """Whether PodGroups without pods and without an annotation on their scheduler are ours."""
    priority_classes: bool = True
    """Whether PriorityClasses order jobs."""
    assume_seconds: float = 30.0
    """How long a bind that was sent may stay unseen."""
    most: bounds.Bounds = bounds.DEFAULT
    """What one pod may ask for."""


class Mirror:
    """Objects in, Snapshots out. Equal objects give equal snapshots, in whatever order they came.

    Usage of nodes is always the sum over the pods that are there, so it can't drift. A pod whose
    PodGroup isn't there yet, or a PodGroup whose Queue isn't, waits for it.
    """

    def __init__(self, options: Options, *, told: entries.Told | None = None) -> None:
        self._options = options
        self.work: Counter[str] = Counter()
        """What snapshots have cost: jobs, rows, layouts and seats that were made anew."""
        self._entries: dict[events.Kind, dict[str, entries.Entry]] = {
            kind: {} for kind in events.Kind
        }
        """Pods by UID, everything else by `namespace/name` or name."""
        self._rejections: dict[tuple[events.Kind, str], events.DecodeError] = {}
        self._reader = entries.Reader(
            scheduler_names=options.scheduler_names,
            default_queue=options.default_queue,
            node_selector=options.node_selector,
            told=told,
            most=options.most,
        )
        self._seating = pods_by_class.PodsByClass(self.work)
        self._columns = node_usage.NodeColumns(self.work, self._seating.groups)
        self._node_usage = node_usage.NodeUsage()
        self._refusals = kubelet_refusals.KubeletRefusals()
        self._nominated = kubelet_refusals.NominatedPods()
        self._census = pod_affinity_index.PodAffinityIndexer(self.work, self._columns.residents)
        self._roster = job_index.JobIndex(
            self.work,
            scheduler_names=options.scheduler_names,
            claim_unowned=options.claim_unowned,
            priority_classes=options.priority_classes,
        )
        self._assumed: dict[jobs.TaskId, node_usage.Assumption] = {}
        self._evicting: dict[jobs.TaskId, float] = {}
        """Pods whose eviction was sent, and when, until the watch shows that they go."""
        self._resource_names = node_usage.ResourceNames()
        self._queues: Mapping[str, queues.Queue] | None = None
        """None: to be sorted anew, with the next two."""
        self._budgets: tuple[snapshots.Budget, ...] | None = None
        self._quotas: tuple[snapshots.Quota, ...] | None = None

    def serve(self, scheduler_names: tuple[str, ...]) -> None:
        """Take only the pods that name one of these for ours from now on.

        Pods and Queues that are there stay what they were until they are listed anew.
        """
        self._reader.serve(scheduler_names)
        self._roster.serve(scheduler_names)

    def read(self, event: events.Upsert | events.DecodeFailed) -> tuple[str, entries.Entry]:
        """An object's key (a pod's UID) and what it comes to; nothing changes."""
        return self._reader.take(event)

    def apply(self, event: entries.Event) -> entries.Change:
        """Take in what happened; what it changed, as far as decisions could depend on it.

        A version older than the one known is left out, but in a Replace, which is the truth even
        where versions go back (a restored etcd).
        """
        match event:
            case events.Upsert():
                key, entry = self.read(event)
                known = self._entries[event.kind].get(key)
                if known is not None and entry.reference.is_before(known.reference):
                    return entries.Change.NONE
                return self._put(event.kind, key, entry)
            case events.DecodeFailed():
                return self._put(event.kind, *self.read(event))
            case events.Remove():
                return self._remove(event)
            case entries.Replace() | entries.Part():
                return self._take_in(event)

    def assume(self, task: jobs.TaskId, node: str, now: float) -> bool:
        """A bind was sent: the task counts as Binding there until the watch shows it.

        False, and nothing happens, when the task is gone or isn't waiting any more.
        """
        pod = self._pod(task)
        if pod is None or not pod.waits:
            return False
        before = self._as_seen(pod)
        self._assumed[task] = node_usage.Assumption(node, now)
        self._move_pod(before, self._as_seen(pod))
        return True

    def still_fits(self, task: jobs.TaskId, before: nodes.NodeSpec) -> bool:
        """Whether a bind that was assumed can be sent: the node, which was decided for as it was
        before, still takes pods, and has room for all that are or are being bound there by now.
        """
        assumption = self._assumed.get(task)
        entry = self._entries[events.Kind.NODE].get(before.name)
        if assumption is None or assumption.node != before.name or entry is None:
            return False
        pod, there = self._pod(task), entry.value
        assert pod is not None, "an assumption ends with its pod"
        return isinstance(there, translation.Node) and self._node_usage.fits(
            pod.kind, there, before
        )

    def forget(self, task: jobs.TaskId) -> bool:
        """The bind failed: the task waits again. False when the watch has shown otherwise."""
        if task not in self._assumed:
            return False
        pod = self._pod(task)
        assert pod is not None, "an assumption ends with its pod"
        before = self._as_seen(pod)
        del self._assumed[task]
        self._move_pod(before, pod)
        return True

    def evicting(self, task: jobs.TaskId, now: float) -> bool:
        """An eviction was sent: the task counts as Releasing until the watch shows that it goes.

        False, and nothing happens, when the task is gone or going already.
        """
        pod = self._pod(task)
        if pod is None or not pod.stays:
            return False
        before = self._as_seen(pod)
        self._evicting[task] = now
        self._move_pod(before, self._as_seen(pod))
        return True

    def forget_eviction(self, task: jobs.TaskId) -> bool:
        """The eviction failed: the task stays. False when the watch has shown otherwise."""
        if task not in self._evicting:
            return False
        pod = self._pod(task)
        assert pod is not None, "what is assumed of a pod ends with it"
        before = self._as_seen(pod)
        del self._evicting[task]
        self._move_pod(before, pod)
        return True

    def expire(self, now: float) -> list[jobs.TaskId]:
        """Forget what was sent too long ago and never seen; of which pods, sorted."""
        limit = now - self._options.assume_seconds
        binds = sorted(task for task, bind in self._assumed.items() if bind.since < limit)
        evictions = sorted(task for task, since in self._evicting.items() if since < limit)
        for task in binds:
            self.forget(task)
        for task in evictions:
            self.forget_eviction(task)
        self._refusals.expire(now)
        return sorted(binds + evictions)

    def more_to_come(self) -> bool:
        """Whether a gang that came or changed since the last snapshot isn't whole yet."""
        return self._roster.more_to_come()

    def snapshot(
        self, now: float, carried: snapshots.Carried = snapshots.FRESH
    ) -> snapshots.Snapshot:
        """The cluster as it stands; costs what changed since the last one."""
        if self._queues is None:
            self._queues = {queue.name: queue for queue in self._sorted(queues.Queue)}
        if self._budgets is None or self._quotas is None:
            self._budgets = tuple(self._sorted(snapshots.Budget))
            self._quotas = tuple(self._sorted(snapshots.Quota))
        space = self._resource_names.space()
        return snapshots.Snapshot(
            now=now,
            space=space,
            nodes=self._columns.table(space),
            queues=self._queues,
            jobs=self._roster.owned(),
            budgets=self._budgets,
            quotas=self._quotas,
            seats=self._seating.seats(),
            elsewhere=self._seating.elsewhere(),
            refused=self._refusals.standing(now),
            nominated=self._nominated.freeze(),
            residents=self._census.freeze(),
            carried=carried,
        )

    def reference(self, kind: events.Kind, key: str) -> entries.Reference | None:
        """The object's UID and version, for preconditions. Pods are asked for by UID."""
        entry = self._entries[kind].get(key)
        return None if entry is None else entry.reference

    def group_state(self, job: jobs.JobId) -> jobs.GroupState | None:
        """The status that the PodGroup was last seen with: what a new one is compared with."""
        entry = self._entries[events.Kind.POD_GROUP].get(job)
        value = None if entry is None else entry.value
        return value.job.state if isinstance(value, translation.Group) else None

    @property
    def rejections(self) -> Mapping[tuple[events.Kind, str], events.DecodeError]:
        """Objects that can't be used, by kind and key (a pod's UID), until fixed or gone."""
        return MappingProxyType(self._rejections)

    @property
    def assumed(self) -> int:
        """How many binds are on the way."""
        return len(self._assumed)

    def ungrouped(self) -> Iterator[pods.Pod]:
        """Pods of ours that name no PodGroup, or one that isn't there: nobody will place them."""
        yield from self._roster.ungrouped()

    @property
    def groups(self) -> Mapping[jobs.JobId, translation.Group]:
        """PodGroups that are there, whoever schedules them."""
        return self._roster.groups

    def queue_of_namespace(self, name: str) -> str:
        """Where its PodGroups go that name no queue."""
        entry = self._entries[events.Kind.NAMESPACE].get(name)
        value = None if entry is None else entry.value
        named = value.queue if isinstance(value, translation.Namespace) else ""
        return named or self._options.default_queue

    def members(self, group: jobs.JobId) -> Collection[pods.Pod]:
        """Pods of all schedulers that name this PodGroup, there or not."""
        return self._roster.members(group)

    def subscribe(self, told: Callable[[jobs.JobId], object]) -> Callable[[], None]:
        """Name each PodGroup whose pods come, change or go, until what is given is called."""
        return self._roster.subscribe(told)

    def _put(self, kind: events.Kind, key: str, entry: entries.Entry) -> entries.Change:
        before = self._entries[kind].get(key)
        self._entries[kind][key] = entry
        self._note(kind, key, entry.rejection)
        return self._move(key, before.value if before else None, entry.value)

    def _remove(self, event: events.Remove) -> entries.Change:
        known = self._entries[event.kind]
        key = events.key_of(event.namespace, event.name)
        if event.kind is events.Kind.POD:
            key = event.uid or key
        entry = known.get(key)
        if entry is None or (event.uid and entry.reference.uid not in ("", event.uid)):
            return entries.Change.NONE
        return self._drop(event.kind, key)

    def _drop(self, kind: events.Kind, key: str) -> entries.Change:
        entry = self._entries[kind].pop(key)
        self._note(kind, key, None)
        return self._move(key, entry.value, None)

    def _take_in(self, event: entries.Replace | entries.Part) -> entries.Change:
        kind, known = event.kind, self._entries[event.kind]
        stale = known.keys() - event.found.keys() if isinstance(event, entries.Replace) else ()
        changes = [self._drop(kind, key) for key in sorted(stale)]
        new = [(key, entry) for key, entry in event.found.items() if known.get(key) is not entry]
        changes += [self._put(kind, key, entry) for key, entry in new]
        return max(changes, default=entries.Change.NONE)

    def _note(self, kind: events.Kind, key: str, rejection: events.DecodeError | None) -> None:
        if rejection is None:
            self._rejections.pop((kind, key), None)
        else:
            self._rejections[kind, key] = rejection

    def _sorted(self, kind: type[V]) -> Iterator[V]:
        """The values of one kind, by key."""
        found = self._entries[_KINDS[kind]]
        values = (found[key].value for key in sorted(found))
        return (value for value in values if isinstance(value, kind))

    def _pod(self, task: jobs.TaskId) -> pods.Pod | None:
        entry = self._entries[events.Kind.POD].get(task)
        return entry.value if entry is not None and isinstance(entry.value, pods.Pod) else None

    def _move(
        self, key: str, old: entries.Value | None, new: entries.Value | None
    ) -> entries.Change:
        """Tell those who keep account of such objects."""
        if isinstance(old, pods.Pod | None) and isinstance(new, pods.Pod | None):
            return self._confirm(old, new)
        change = entries.change(old, new)
        if change is entries.Change.NONE:
            if isinstance(new, queues.Queue):  # what it had used may be another by now
                self._queues = None
            return change
        self._resource_names.move(old, new)
        match old, new:
            case ((translation.Node() | None), (translation.Node() | None)):
                self._columns.move_node(key, old, new)
            case (
                (queues.Queue() | snapshots.Budget() | snapshots.Quota() | None),
                (queues.Queue() | snapshots.Budget() | snapshots.Quota() | None),
            ):
                self._queues = self._budgets = self._quotas = None
            case ((translation.Group() | None), (translation.Group() | None)):
                self._move_group(jobs.JobId(key), old, new)
            case ((translation.Namespace() | None), (translation.Namespace() | None)):
                self._census.move_namespace(key, None if new is None else new.labels)
            case ((translation.PriorityClass() | None), (translation.PriorityClass() | None)):
                self._roster.move_priority(key, new)
        return change

    def _confirm(self, old: pods.Pod | None, new: pods.Pod | None) -> entries.Change:
        """The pod came, changed or went, which may be the end of an assumption about it."""
        before = self._as_seen(old)
        known = old or new
        if known is not None:
            if new is None or not new.waits:
                self._assumed.pop(known.uid, None)
            if new is None or not new.stays:
                self._evicting.pop(known.uid, None)
            self._nominated.note(known.uid, None if new is None else new.nominated)
        after = self._as_seen(new)
        change = entries.change(before, after)
        if change is not entries.Change.NONE:
            self._move_pod(before, after)
        return change

    def _as_seen(self, pod: pods.Pod | None) -> pods.Pod | None:
        """The pod, on the node that it is being bound to, or on its way out."""
        if pod is None:
            return None
        if pod.uid in self._evicting:
            return pod.leaving()
        assumption = self._assumed.get(pod.uid)
        return pod if assumption is None else pod.bound_to(assumption.node)

    def _move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
        self._resource_names.move_pod(old, new)
        if new is not None and new.answer is not None and new.node is not None:
            self._refusals.note(new.uid, new.node, new.answer)
        self._node_usage.move_pod(old, new)
        self._columns.move_pod(old, new)
        self._seating.move_pod(old, new)
        self._census.move_pod(old, new)
        self._roster.move_pod(old, new)

    def _move_group(
        self, key: jobs.JobId, old: translation.Group | None, new: translation.Group | None
    ) -> None:
        self._roster.move_group(key, new)
        members = self._roster.members(key)
        self._seating.move_group(key, None if new is None else new.job.queue, members)
        if old is None or new is None:
            self._columns.reseat(members)
