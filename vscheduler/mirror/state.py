"""The Mirror: a local cache of the cluster as last seen, and of binds and evictions in flight.

The Mirror is the only mutable state of this package and changes only through its methods. Call them
from a single thread. A snapshot is frozen and may be handed to any thread.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from vscheduler.mirror import paths
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeError, DecodeFailed, Kind, Remove, Upsert
from vscheduler.mirror.index import entries
from vscheduler.mirror.index.claim_objects import CLAIM_OBJECTS, ClaimObjects
from vscheduler.mirror.index.entries import (
    Change,
    Entry,
    Event,
    OnError,
    Part,
    Reader,
    Reference,
    Replace,
    Value,
)
from vscheduler.mirror.index.group_trees import GroupTrees
from vscheduler.mirror.index.job_index import JobIndex
from vscheduler.mirror.index.node_usage import Alone, NodeColumns, PodOverlay, ResourceNames
from vscheduler.mirror.index.owner_index import OwnerIndex
from vscheduler.mirror.index.pod_affinity_index import PodAffinityIndexer
from vscheduler.mirror.index.pods_by_class import PodsByClass
from vscheduler.mirror.translate import bounds, lone_pods
from vscheduler.mirror.translate.bounds import Bounds
from vscheduler.mirror.translate.kubelet_refusals import KubeletRefusals, NominatedPods
from vscheduler.mirror.translate.lone_pods import Need
from vscheduler.mirror.translate.pod_owners import Owner
from vscheduler.mirror.translate.pods import Pod
from vscheduler.mirror.translate.translation import Group, Namespace, Node, PriorityClass
from vscheduler.model import jobs, pod_texts
from vscheduler.model import snapshot as snapshots
from vscheduler.model.jobs import WAITING, GroupState, JobId, Phase, TaskId
from vscheduler.model.nodes import NodeSpec
from vscheduler.model.pod_texts import PodReads
from vscheduler.model.queues import DEFAULT, Queue
from vscheduler.model.snapshot import Budget, Carried, Quota, Snapshot
from vscheduler.model.topology import NO_HYPER_NODES, HyperNode, HyperNodes


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How the Mirror reads the cluster."""

    scheduler_names: tuple[str, ...]
    """Pods that name any of these schedulers in spec.schedulerName are ours."""
    default_queue: str = DEFAULT
    """The queue of PodGroups without spec.queue."""
    node_selector: tuple[tuple[str, str], ...] = ()
    """A node needs at least one of these labels to be seen. Empty: every node is seen."""
    claim_unowned: bool = False
    """Whether PodGroups are ours that have neither pods nor a scheduler annotation."""
    priority_classes: bool = True
    """Whether PriorityClasses order jobs."""
    assume_seconds: float = 30.0
    """How long a sent bind may go unconfirmed by the watch, in seconds."""
    most: Bounds = bounds.DEFAULT
    """Upper bounds on the constraints of a pod."""
    reads: PodReads = pod_texts.NOTHING  # what plugins read of pods
    spares_groups: bool = False
    """Whether PodGroups are made only for pods that need one. The others are jobs by themselves."""
    inherits: bool = True
    """Whether annotations of pods' owners count."""


Index: TypeAlias = Callable[[str, Any, Any], bool | None]
"""Applies an object that came, changed or went, by its key and its values before and after. False:
no decision can depend on it."""

V = TypeVar("V")


def of(kind: type[V], move: Callable[[str, V | None, V | None], bool | None]) -> Index:
    """Return the index of objects with such values; mypy checks that it takes them."""
    del kind
    return move


class Follower(Protocol):
    """Is told of changes at once, in the Mirror's thread; it must neither fail nor wait."""

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod of any scheduler came, changed or went."""

    def group(self, old: Group | None, new: Group | None, queue: str) -> None:
        """A PodGroup came, changed or went; `queue` is the queue that it counts for."""


class Mirror:
    """The cluster's objects, updated by watch events and frozen into Snapshots.

    Equal objects give equal snapshots, whatever the order of their events. Node usage is always a
    sum over the known pods, so usage cannot drift. A pod may arrive before its PodGroup, and a
    PodGroup before its Queue: the Mirror keeps the pod or PodGroup until both are known.
    """

    def __init__(self, options: Options, *, on_error: OnError | None = None) -> None:
        self._options = options
        self.work: Counter[str] = Counter()
        """How many jobs, node rows, layouts and per-class counts snapshots had to recompute."""
        self._entries: dict[Kind, dict[str, Entry]] = {k: {} for k in Kind}
        """Pods by UID, all kinds but pods by `namespace/name` or name."""
        self._rejections: dict[tuple[Kind, str], DecodeError] = {}
        self._reader = Reader(
            scheduler_names=options.scheduler_names,
            default_queue=options.default_queue,
            node_selector=options.node_selector,
            on_error=on_error,
            most=options.most,
            reads=options.reads,
        )
        self._pods_by_class = PodsByClass(self.work)
        self._columns = NodeColumns(self.work, self._pods_by_class.groups)
        self._refusals = KubeletRefusals()
        self._nominated = NominatedPods()
        self._pod_affinity = PodAffinityIndexer(self.work, self._columns.placed_pods)
        pods = self._entries[Kind.POD]
        self._trees = GroupTrees()
        self._lone_pods: Counter[tuple[str, Phase]] = Counter()
        self._owners = OwnerIndex(self._reader.take)
        alone = Alone(spares_groups=options.spares_groups, inherits=options.inherits)
        self._overlay = overlay = PodOverlay(self._reader, pods, self._owners, alone)
        self._as_seen = overlay.as_seen
        self._assumed, self._evicting = overlay.assumed, overlay.evicting
        self._job_index = JobIndex(
            self.work,
            scheduler_names=options.scheduler_names,
            claim_unowned=options.claim_unowned,
            priority_classes=options.priority_classes,
            refused=self._rejections,
        )
        self.claims = ClaimObjects(
            self._entries,
            lambda task: self._as_seen(self._pod(task)),
            self._members_of,
            self._charge,
        )
        self.storage, self.devices = self.claims.storage, self.claims.devices
        self._resource_names = ResourceNames()
        self._named = NamedObjects(self._entries)
        self._indexes = self._table()
        self._follower: Follower | None = None

    def serve(self, scheduler_names: tuple[str, ...]) -> None:
        """Set the scheduler names of our pods. Known objects are read anew when listed again."""
        self._reader.serve(scheduler_names)
        self._job_index.serve(scheduler_names)

    def serve_queues(self, *, served: bool) -> None:
        """Say whether the API server serves Queues. If it doesn't, all jobs are in the default
        queue, which has no limits.
        """
        only = "" if served else self._options.default_queue
        self._named.put_in(only)
        self._job_index.put_in(only)
        for key, group in self._job_index.groups.items():
            queue, members = self._job_index.queue_of(group), self._job_index.members(key)
            self._pods_by_class.move_group(key, queue or None, members)

    def serve_pod_groups(self, *, served: bool) -> None:
        """Say whether the API server serves Volcano's PodGroups. If it doesn't, pods without a
        PodGroup are jobs by themselves: no automatic one can be made for them.
        """
        self._job_index.serve_volcano(served=served)
        if not served:
            self._take_in(Replace(kind=Kind.POD_GROUP, found={}))
        if self._overlay.alone.served is not served:
            self._decide_anew(partial(setattr, self._overlay.alone, "served", served))

    def serve_owners(self, *, served: bool) -> None:
        """Say whether owners of pods can be read. If they can't, all pods with owners need
        PodGroups.
        """
        if self._overlay.alone.readable is not served:
            self._decide_anew(partial(setattr, self._overlay.alone, "readable", served))

    def _decide_anew(self, change: Callable[[], None]) -> None:
        """Make a change that decides which pods are jobs by themselves."""
        for before, after in self._overlay.revise(self._overlay.without_podgroup(), change):
            if before != after:
                self._move_pod(before, after)

    def read(self, event: Upsert | DecodeFailed) -> tuple[str, Entry]:
        """Return the key of an object (a pod's UID) and its entry. Nothing changes."""
        return self._reader.take(event)

    def apply(self, event: Event) -> Change:
        """Apply a watch event or a list; return how far decisions can depend on the change.

        An object older than the known version is ignored. A Replace is applied even when versions
        go back, as they do after a restore of etcd.
        """
        if event.kind in paths.OWNERS:
            return self._take_owners(event)
        match event:
            case Upsert():
                key, entry = self.read(event)
                known = self._entries[event.kind].get(key)
                if known is not None and entry.reference.is_before(known.reference):
                    return Change.NONE
                return self._put(event.kind, key, entry)
            case DecodeFailed():
                return self._put(event.kind, *self.read(event))
            case Remove():
                return self._remove(event)
            case Replace() | Part():
                return self._take_in(event)

    def assume(self, task: TaskId, node: str, now: float) -> bool:
        """Count the task as Binding on the node after its bind was sent, until the watch confirms.

        Return False, and change nothing, when the task is gone or no longer waits.
        """
        pod = self._pod(task)
        if pod is None or not pod.waits or task in self._overlay.held_back:
            return False
        self._move_pod(*self._overlay.assume(pod, node, now))
        return True

    def hold_back(self, task: TaskId) -> None:
        """Search no node for this waiting pod, and free its place, until `release`.

        The pod counts as gated. This is for pods whose binds are refused again and again.
        """
        pod = self._pod(task)
        if pod is None or not pod.waits:
            return
        before = self._as_seen(pod)
        self._assumed.pop(task, None)
        self._overlay.held_back[task] = None
        self._move_pod(before, self._as_seen(pod))

    def release(self, task: TaskId) -> bool:
        """Undo `hold_back`; return False when the pod isn't held back."""
        return self._undo(self._overlay.held_back, task)

    def release_all(self) -> None:
        """Undo every `hold_back`: who has decided them decides no longer."""
        for task in list(self._overlay.held_back):
            self.release(task)

    def still_fits(self, task: TaskId, before: NodeSpec) -> bool:
        """Whether an assumed bind can still be sent.

        The node must still take the pod, compared with the node as the decision saw it (`before`),
        and must have room for every pod that is bound or being bound to the node by now.
        """
        assumption = self._assumed.get(task)
        entry = self._entries[Kind.NODE].get(before.name)
        if assumption is None or assumption.node != before.name or entry is None:
            return False
        pod, there = self._as_seen(self._pod(task)), entry.value
        assert pod is not None, "an assumption ends with its pod"
        return isinstance(there, Node) and self._columns.fits(pod, there, before)

    def forget(self, task: TaskId) -> bool:
        """Undo `assume` after a failed bind; return False when the watch shows the outcome."""
        return self._undo(self._assumed, task)

    def evicting(self, task: TaskId, now: float) -> bool:
        """Count the task as Releasing after its eviction was sent, until the watch confirms.

        Return False, and change nothing, when the task is gone or already leaving.
        """
        pod = self._pod(task)
        if pod is None or not pod.stays:
            return False
        before = self._as_seen(pod)
        self._evicting[task] = now
        self._move_pod(before, self._as_seen(pod))
        return True

    def forget_eviction(self, task: TaskId) -> bool:
        """Undo `evicting` after a failure; return False when the watch shows the outcome."""
        return self._undo(self._evicting, task)

    def expire(self, now: float, *, every: bool = False) -> list[TaskId]:
        """Forget calls left unconfirmed for too long, or every call; return their tasks, sorted."""
        limit = float("inf") if every else now - self._options.assume_seconds
        binds = sorted(task for task, bind in self._assumed.items() if bind.since < limit)
        evictions = sorted(task for task, since in self._evicting.items() if since < limit)
        for task in binds:
            self.forget(task)
        for task in evictions:
            self.forget_eviction(task)
        self._refusals.expire(now)
        return sorted(binds + evictions)

    def more_to_come(self) -> bool:
        """Whether a gang that is new or changed since the last snapshot still lacks pods."""
        self._settle()
        return self._job_index.more_to_come()

    def snapshot(self, now: float, carried: Carried = snapshots.FRESH) -> Snapshot:
        """Return the cluster as a frozen Snapshot. The cost depends on changes since the last."""
        self._settle()
        self._named.refresh()
        backed, awaited = self.devices.extended_resources, carried.awaited_resources
        space = self._resource_names.space(backed, awaited)
        next_overdue = self._columns.expire(now)
        self.storage.expire(self._columns.overdue)
        return Snapshot(
            now=now,
            next_overdue=next_overdue,
            space=space,
            nodes=self._columns.table(space),
            queues=self._named.queues,
            jobs=self._job_index.owned(),
            budgets=self._named.budgets,
            quotas=self._named.quotas,
            pods_by_class=self._pods_by_class.own_pods(),
            used_by_other_schedulers=self._pods_by_class.used_by_other_schedulers(),
            refused=self._refusals.current(now),
            nominated=self._nominated.freeze(),
            affinity_index=self._pod_affinity.freeze(),
            storage=self.storage.freeze(),
            devices=self.devices.freeze(space.names, self._columns.overdue),
            hyper_nodes=self._named.hyper_nodes,
            extended_resources=backed,
            carried=carried,
        )

    def entry(self, kind: Kind, key: str) -> Entry | None:
        """Return an object as last seen (a pod: by UID); a Part with it restores it."""
        return self._entries[kind].get(key)

    def reference(self, kind: Kind, key: str) -> Reference | None:
        """Return the UID and version of an object (a pod: by UID), for write preconditions."""
        entry = self._entries[kind].get(key)
        return None if entry is None else entry.reference

    def group_reference(self, job: JobId) -> Reference | None:
        """Return the UID and version of a PodGroup, of either API."""
        return self.reference(events.kind_of_job(job), events.key_of(*jobs.names_of(job)))

    def group_state(self, job: JobId) -> GroupState | None:
        """Return the status last seen on the PodGroup, to compare a new status with."""
        group = self._trees.group(job) or self._job_index.groups.get(job)
        return None if group is None else group.job.state

    def has_reason(self, task: TaskId) -> bool:
        """Whether the pod's condition, as last seen, gives a reason for waiting."""
        return self._entries[Kind.POD].get(task, entries.UNKNOWN).has_reason

    def waiting_version(self, task: TaskId) -> str | None:
        """Return the resourceVersion of a pod that has no node, as last seen; None of others.

        Unusable pods, and those that are gated or held back, count, too. Only the watch tells that
        a bind was successful.
        """
        entry = self._entries[Kind.POD].get(task)
        if entry is None:
            return None
        if isinstance(entry.value, Pod) and entry.value.status not in WAITING:
            return None
        return entry.reference.resource_version

    @property
    def rejections(self) -> Mapping[tuple[Kind, str], DecodeError]:
        """Unusable objects by kind and key (a pod's UID), until they are corrected or deleted."""
        return MappingProxyType(self._rejections)

    @property
    def assumed(self) -> int:
        """How many binds are in flight."""
        return len(self._assumed)

    @property
    def spares_groups(self) -> bool:
        """Whether PodGroups are made only for pods that need one, as far as owners are known."""
        return self._overlay.alone.spares_groups and self._overlay.alone.readable

    @property
    def needs_owners(self) -> bool:
        """Whether annotations of owners decide which pods are jobs by themselves."""
        return self._overlay.alone.spares_groups and self._overlay.alone.inherits

    def owner_annotations(self, owner: Owner) -> Mapping[str, str] | None:
        """Return the annotations that count of a pod's owner; None if it isn't known."""
        return self._owners.annotations(owner)

    def need(self, pod: Pod) -> Need:
        """Return whether a pod without a PodGroup needs one."""
        return self._overlay.need(pod)

    def why_ungrouped(self, pod: Pod) -> str:
        """Return why a pod needs an automatic PodGroup; empty if it doesn't.

        One that names a PodGroup of Kubernetes' own API waits for that one.
        """
        if pod.origin is None or not lone_pods.is_lone(pod):
            return ""
        owner = self._overlay.owner_annotations(pod)
        needed, spares = self._overlay.need(pod), self.spares_groups
        return lone_pods.why(pod.origin, owner, needed, spares_groups=spares)

    def ungrouped(self) -> Iterator[Pod]:
        """Iterate over our pods that cannot be placed: their PodGroup is unnamed or missing."""
        self._settle()
        yield from self._job_index.ungrouped()

    @property
    def groups(self) -> Mapping[JobId, Group]:
        """All known PodGroups, whichever scheduler owns them."""
        self._settle()
        return self._job_index.groups

    @property
    def lone_pods(self) -> Mapping[tuple[str, Phase], int]:
        """How many jobs are pods without a PodGroup, by queue and phase."""
        return MappingProxyType(self._lone_pods)

    @property
    def unqueued(self) -> Collection[JobId]:
        """Known PodGroups that name no queue, whichever scheduler owns them: Kubernetes' own."""
        self._settle()
        return self._job_index.unqueued

    def groups_of_trees(self) -> Iterator[Group]:
        """Iterate over the PodGroups below CompositePodGroups, whichever scheduler owns them."""
        return self._trees.pod_groups()

    def queue_beside(self, group: JobId) -> str:
        """Return the queue that the first PodGroup with the same parent names; empty if none."""
        return self._trees.queue_beside(group)

    def queue_of_namespace(self, name: str) -> str:
        """Return the queue of PodGroups in this namespace that name no queue themselves; empty if
        they must name one.
        """
        return self._named.queue_of_namespace(name, self._options.default_queue)

    def has_queue(self, name: str) -> bool:
        """Whether jobs can be in this queue."""
        self._named.refresh()
        return name in self._named.queues

    def members(self, group: JobId) -> Collection[Pod]:
        """Return the pods of all schedulers that name this PodGroup, even a missing PodGroup."""
        self._settle()
        return self._job_index.members(group)

    def job_of(self, group: JobId) -> JobId:
        """Return the job of a PodGroup's pods: that of the CompositePodGroup above it, if any."""
        return self._overlay.roots.get(group, group)

    def subscribe(self, listener: Callable[[JobId], object]) -> Callable[[], None]:
        """Call `listener` with the PodGroup of each pod that changes, until unsubscribed."""
        return self._job_index.subscribe(listener)

    def follow(self, follower: "Follower | None") -> None:
        """Tell the follower of every change of pods and PodGroups from now on; None: nobody."""
        self._follower = follower

    def told_of(self) -> tuple[list[Pod], list[tuple[Group, str]]]:
        """Return what a follower is told of: our pods that name a PodGroup, and all PodGroups with
        their queues.
        """
        self._settle()
        values = (self._as_seen(self._pod_of(entry)) for entry in self._entries[Kind.POD].values())
        found = [pod for pod in values if pod is not None and pod.ours and pod.group is not None]
        groups = self._job_index.groups.values()
        return found, [(group, self._job_index.queue_of(group)) for group in groups]

    @staticmethod
    def _pod_of(entry: Entry) -> Pod | None:
        return entry.value if isinstance(entry.value, Pod) else None

    def _put(self, kind: Kind, key: str, entry: Entry) -> Change:
        stored = self._entries[kind]
        before = stored.get(key)
        stored[key] = entry
        change = self._move(kind, key, before.value if before else None, entry.value)
        self._note(kind, key, entry.rejection)
        return change

    def _remove(self, event: Remove) -> Change:
        stored = self._entries[event.kind]
        key = events.key_of(event.namespace, event.name)
        if event.kind is Kind.POD:
            key = event.uid or key
        entry = stored.get(key)
        if entry is None or (event.uid and entry.reference.uid not in ("", event.uid)):
            return Change.NONE
        return self._drop(event.kind, key)

    def _drop(self, kind: Kind, key: str) -> Change:
        change = self._move(kind, key, self._entries[kind].pop(key).value, None)
        self._note(kind, key, None)
        return change

    def _take_in(self, event: Replace | Part) -> Change:
        kind, stored = event.kind, self._entries[event.kind]
        stale = stored.keys() - event.found.keys() if isinstance(event, Replace) else ()
        changes = [self._drop(kind, key) for key in sorted(stale)]
        new = [(key, entry) for key, entry in event.found.items() if stored.get(key) is not entry]
        changes += [self._put(kind, key, entry) for key, entry in new]
        return max(changes, default=Change.NONE)

    def _take_owners(self, event: Event) -> Change:
        """Apply an event about owners of pods: decide anew about their pods."""
        changed = self._owners.changed(event)
        stored = (self._pod(uid) for uid in self._owners.pods(changed))
        pods = [pod for pod in stored if pod is not None]
        change = partial(self._owners.take, event.kind, changed)
        most = Change.NONE
        for before, after in self._overlay.revise(pods, change):
            if before != after:
                most = Change.OTHER
                self._move_pod(before, after)
            elif self._move_lone(after):  # the owner may name another queue
                most = Change.OTHER
        return most

    def _note(self, kind: Kind, key: str, rejection: DecodeError | None) -> None:
        """Note whether the object can't be used; pods of a PodGroup are told so, or no longer."""
        if rejection is not None:
            self._rejections[kind, key] = rejection
        elif self._rejections.pop((kind, key), None) is None:
            return
        if kind is Kind.NATIVE_POD_GROUP:
            self._job_index.refresh(jobs.native_id(*jobs.names_of(JobId(key))))

    def _pod(self, task: TaskId) -> Pod | None:
        value = self._entries[Kind.POD].get(task, entries.UNKNOWN).value
        return value if isinstance(value, Pod) else None

    def _move(self, kind: Kind, key: str, old: Value | None, new: Value | None) -> Change:
        """Pass a change on to the index of its kind."""
        if kind is Kind.POD:
            assert isinstance(old, Pod | None)
            assert isinstance(new, Pod | None)
            return self._confirm(old, new)
        change = entries.change(old, new)
        if change is Change.NONE:
            if kind is Kind.QUEUE:  # its past usage is left out of the comparison
                self._named.change()
            return change
        self._resource_names.move(old, new)
        matters = self._indexes[kind](key, old, new)
        return Change.NONE if matters is False else change

    def _table(self) -> Mapping[Kind, Index]:
        """Return the index of each kind of objects but pods."""
        named = self._named
        return {
            Kind.POD_GROUP: of(Group, self._move_group),
            Kind.NATIVE_POD_GROUP: of(Group, partial(self._move_tree, jobs.native_id)),
            Kind.COMPOSITE_POD_GROUP: of(Group, partial(self._move_tree, jobs.composite_id)),
            Kind.NODE: of(Node, self._columns.move_node),
            Kind.PRIORITY_CLASS: of(
                PriorityClass, lambda key, _, new: self._job_index.move_priority(key, new)
            ),
            Kind.NAMESPACE: of(Namespace, self._move_namespace),
            **dict.fromkeys((Kind.QUEUE, Kind.BUDGET, Kind.QUOTA), lambda *_: named.change()),
            Kind.HYPER_NODE: lambda *_: named.change_hyper_nodes(),
            **{kind: partial(self._move_claim_object, kind) for kind in CLAIM_OBJECTS},
        }

    def _move_claim_object(
        self, kind: Kind, key: str, old: Value | None, new: Value | None
    ) -> bool:
        moved = self.claims.move(kind, key, old, new)
        return self._renamed() or moved

    def _renamed(self) -> bool:
        """Look at pods anew if other extended resources stand for devices; return whether so."""
        for before, after in (moved := self._overlay.rename(self.devices.extended_resources)):
            self._move_pod(before, after)
        return bool(moved)

    def _confirm(self, old: Pod | None, new: Pod | None) -> Change:
        """Apply a pod that came, changed or went; drop assumptions that the watch has settled."""
        before = self._as_seen(old)
        if old is not None:
            if new is None or not new.waits:
                self._assumed.pop(old.uid, None)
                self._overlay.held_back.pop(old.uid, None)
            if new is None or not new.stays:
                self._evicting.pop(old.uid, None)
        if new is not None and new.nominated is not None:
            self._nominated.note(new.uid, new.nominated)
        elif old is not None and old.nominated is not None:
            self._nominated.note(old.uid, None)
        self._owners.move_pod(old, new)
        known = old or new
        if known is not None:
            self._overlay.place(known.uid, new)
        after = self._as_seen(new)
        if self._follower is not None:
            self._follower.pod(before, after)
        change = entries.change(before, after)
        if change is not Change.NONE or (after is not None and after.leaves):
            self._move_pod(before, after)
        return change

    def _undo(self, unconfirmed: dict[TaskId, Any], task: TaskId) -> bool:
        """Drop the unconfirmed bind or eviction of the task, or its pause; return whether there was
        one.
        """
        if task not in unconfirmed:
            return False
        pod = self._pod(task)
        assert pod is not None, "whatever is known of a pod ends with it"
        before = self._as_seen(pod)
        del unconfirmed[task]
        self._move_pod(before, self._as_seen(pod))
        return True

    def _charge(self, task: TaskId, devices: Mapping[str, int]) -> None:
        """Let these devices count for a pod."""
        pod = self._pod(task)
        before = self._as_seen(pod)
        self._overlay.charged[task] = devices
        if not devices:
            del self._overlay.charged[task]
        if pod is not None:
            after = self._as_seen(pod)
            if self._follower is not None:
                self._follower.pod(before, after)
            self._move_pod(before, after)

    def _move_pod(self, old: Pod | None, new: Pod | None) -> None:
        self._move_lone(new)
        self._resource_names.move_pod(old, new)
        if new is not None and new.answer is not None and new.node is not None:
            self._refusals.note(new.uid, new.node, new.answer)
        self._columns.move_pod(old, new)
        self._pods_by_class.move_pod(old, new)
        self._pod_affinity.move_pod(old, new)
        self._job_index.move_pod(old, new)
        if old is not None and old.group is not None and jobs.is_lone_pod(old.group):
            self._end_lone(old.group)
        self.claims.move_pod(old, new)  # last: it may move the pod, or others, once more

    def _move_lone(self, pod: Pod | None) -> bool:
        """Let a pod that is a job by itself have a group, before it is a member of it; return
        whether the group is new or has changed.
        """
        if pod is None or pod.group is None or not jobs.is_lone_pod(pod.group):
            return False
        queue = self.queue_of_namespace(pod.namespace)
        owner = self._overlay.owner_annotations(pod)
        group = lone_pods.group_of(pod, owner, queue, self._options.default_queue)
        known = self._job_index.groups.get(pod.group)
        if group != known:
            self._move_group("", known, group)
        return group != known

    def _end_lone(self, key: JobId) -> None:
        """Drop the group of a lone pod that is gone, or isn't one any more."""
        if not self._job_index.members(key):
            self._move_group("", self._job_index.groups[key], None)

    def _move_namespace(self, key: str, old: Namespace | None, new: Namespace | None) -> None:
        self._pod_affinity.move_namespace(key, None if new is None else new.labels)
        default = self._options.default_queue
        named = {default if each is None else each.queue_of_groups(default) for each in (old, new)}
        if len(named) > 1:  # another queue for its pods
            lone = [job for job in self._job_index.groups if jobs.is_lone_pod(job)]
            for pod in [pod for job in lone for pod in self._job_index.members(job)]:
                if pod.namespace == key:
                    self._move_lone(pod)

    def _move_tree(
        self, named: Callable[[str, str], JobId], key: str, old: Group | None, new: Group | None
    ) -> None:
        """Apply a group of Kubernetes' own API that came, changed or went."""
        if not self._trees.move(named(*jobs.names_of(JobId(key))), new):
            self._move_group(key, old, new)

    def _settle(self) -> None:
        """Let groups of changed trees be the jobs that they are now."""
        if not self._trees.has_changed:
            return
        moved = self._trees.settle(self._job_index.groups)
        for job, group in moved.shown.items():
            self._move_group(job, self._job_index.groups.get(job), group)
        for before, after in self._overlay.reroot(moved.roots, self._members_of):
            self._move_pod(before, after)

    def _members_of(self, group: JobId) -> Collection[Pod]:
        """Return the pods that name a PodGroup, whatever is above it."""
        root = self.job_of(group)
        if root == group:
            return self._job_index.members(group)
        return [pod for pod in self._job_index.members(root) if pod.part == group]

    def _move_group(self, _: str, old: Group | None, new: Group | None) -> None:
        group = new or old
        assert group is not None, "one of both exists"
        key = group.job.id
        if jobs.is_lone_pod(key):
            self._count_lone(old, new)
        self._job_index.move_group(key, new)
        if self._follower is not None:
            self._follower.group(old, new, self._job_index.queue_of(group))
        members = self._job_index.members(key)
        # Without a queue, it doesn't count yet.
        queue_of = self._job_index.queue_of
        before, after = (None if each is None else queue_of(each) or None for each in (old, new))
        self._pods_by_class.move_group(key, after, members)
        if before is None or after is None:
            self._columns.reseat(members)
        if jobs.is_lone_pod(key):
            return
        texts = {} if new is None else self._reader.group_texts(new)
        for pod, regrouped in self._overlay.regroup(key, texts, members):
            self._move_pod(pod, regrouped)

    def _count_lone(self, old: Group | None, new: Group | None) -> None:
        """Count a pod that is a job by itself in its queue."""
        for group, step in ((old, -1), (new, 1)):
            if group is not None:
                counted = group.job.queue, group.job.state.phase
                self._lone_pods[counted] += step
                if not self._lone_pods[counted]:
                    del self._lone_pods[counted]


class NamedObjects:
    """Sorts these objects anew once any of them has changed."""

    def __init__(self, stored: Mapping[Kind, Mapping[str, Entry]]) -> None:
        """`stored` has all objects as last seen."""
        self._stored = stored
        self.queues: Mapping[str, Queue] = {}
        self.budgets: tuple[Budget, ...] = ()
        self.quotas: tuple[Quota, ...] = ()
        self.hyper_nodes = NO_HYPER_NODES
        """One value until any HyperNode changes: the tree that follows from it is kept there."""
        self._current = False
        self._only_queue = ""
        self._has_hyper_nodes = True

    def change(self) -> None:
        """Sort again at the next refresh."""
        self._current = False

    def put_in(self, only_queue: str) -> None:
        """Let this queue be the only one, without limits; all Queues if it is empty."""
        self._only_queue = only_queue
        self.change()

    def change_hyper_nodes(self) -> None:
        """Collect the HyperNodes again at the next refresh."""
        self._has_hyper_nodes = False

    def queue_of_namespace(self, name: str, default: str) -> str:
        """Return the queue that a namespace names, else the default; empty if it permits none."""
        value = self._stored[Kind.NAMESPACE].get(name, entries.UNKNOWN).value
        if not isinstance(value, Namespace):
            return default
        return value.queue_of_groups(default)

    def refresh(self) -> None:
        """Make the attributes current; the last objects stay when nothing changed."""
        if not self._has_hyper_nodes:
            self._has_hyper_nodes = True
            every = HyperNodes(entries.values(self._stored[Kind.HYPER_NODE], HyperNode))
            self.hyper_nodes = every or NO_HYPER_NODES
        if self._current:
            return
        self._current = True
        only = self._only_queue
        unlimited = [Queue(name=only, uid="", created=0.0)]
        queues = unlimited if only else entries.values(self._stored[Kind.QUEUE], Queue)
        self.queues = {queue.name: queue for queue in queues}
        self.budgets = tuple(entries.values(self._stored[Kind.BUDGET], Budget))
        self.quotas = tuple(entries.values(self._stored[Kind.QUOTA], Quota))
