"""Node usage: the columns of a NodeTable, their resource names, and the room left for a bind; pods
as cycles see them, with binds and evictions in flight.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np

from vscheduler.mirror.index import entries, pods_by_class
from vscheduler.mirror.index.entries import Entry, Reader, Value
from vscheduler.mirror.index.owner_index import OwnerIndex
from vscheduler.mirror.translate import extended_resources, lone_pods
from vscheduler.mirror.translate.lone_pods import Need
from vscheduler.mirror.translate.pods import Pod
from vscheduler.mirror.translate.translation import Group, Node
from vscheduler.model import nodes, resources
from vscheduler.model.constraints import HostPort
from vscheduler.model.jobs import JobId, PodClass, TaskId
from vscheduler.model.nodes import NodeLayout, NodeSpec, NodeTable
from vscheduler.model.resources import ResourceMap, ResourceSpace

T = TypeVar("T")

Ports: TypeAlias = dict[str, tuple[HostPort, ...]]
"""Host ports in use, sorted, by node name; nodes without any are left out."""

REQUESTED_ONLY_MAX = 64
"""How many resources that only pods request, and no node or queue names, get a column each: the
first by name.
"""

OVERDUE_SECONDS = 300.0
"""How long after its grace period the resources of a terminating pod count as being released. A pod
that is still there then may never go: its kubelet may be gone."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Resources held by the pods of a node. `used` includes `releasing`.

    Pods that should have gone long ago count as pods that stay, but not as ours.
    """

    used: ResourceMap
    releasing: ResourceMap
    ours: ResourceMap
    """Held by our pods that stay and whose PodGroup exists."""
    ports: tuple[HostPort, ...]
    """Host ports of pods that stay."""
    leaving_ports: tuple[HostPort, ...]


def usage(
    placed_pods: Iterable[Pod], groups: Container[object], overdue: Container[TaskId] = ()
) -> Usage:
    """Sum up the resources of pods on a node.

    Every pod in `placed_pods` must hold room; `groups` are the existing PodGroups, and `overdue`
    are the terminating pods that should have gone long ago.
    """
    every: defaultdict[PodClass, int] = defaultdict(int)
    leaving: defaultdict[PodClass, int] = defaultdict(int)
    ours: defaultdict[PodClass, int] = defaultdict(int)
    ports: list[HostPort] = []
    leaving_ports: list[HostPort] = []
    for pod in placed_pods:
        leaves = pod.leaves and pod.uid not in overdue
        every[pod.pod_class] += 1
        if leaves:
            leaving[pod.pod_class] += 1
        elif not pod.leaves and pod.task is not None and pod.group in groups:
            ours[pod.pod_class] += 1
        if pod.pod_class.constraints.ports:
            used_ports = leaving_ports if leaves else ports
            used_ports += pod.pod_class.constraints.ports
    return Usage(
        used=pods_by_class.total(every),
        releasing=pods_by_class.total(leaving),
        ours=pods_by_class.total(ours),
        ports=tuple(sorted(ports)),
        leaving_ports=tuple(sorted(leaving_ports)),
    )


class NodeColumns:
    """Node rows sorted by name; a row is recomputed only when its node or pods changed."""

    def __init__(self, work: Counter[str], groups: Container[object]) -> None:
        self._work = work
        self._groups = groups
        """A live view of the existing PodGroups; `reseat` reports changes."""
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, dict[TaskId, Pod]] = {}
        """Pods that hold room, by node name, whether the node exists or not."""
        self._leaving: dict[TaskId, tuple[float, str]] = {}
        """Until when the resources of terminating pods count as being released, and their nodes."""
        self.overdue: frozenset[TaskId] = frozenset()
        """Those for which this instant has passed."""
        self._dirty: set[str] = set()
        self._respecified = False
        """Whether a NodeSpec came, went or changed: the layout must be rebuilt."""
        self._resized = False
        """Whether a node came, went or changed: the allocatable column must be copied again."""
        self._ports: Ports = {}
        self._leaving_ports: Ports = {}
        self._space = ResourceSpace.of(())
        self._layout = NodeLayout(())
        self._arrays = [np.zeros((0, self._space.size), dtype=np.int64) for _ in range(4)]
        """allocatable, used, releasing, ours."""
        self._table: NodeTable | None = None

    def move_node(self, name: str, old: Node | None, new: Node | None) -> None:
        """Apply a node that came (old is None), changed or went (new is None)."""
        self._resized = True
        if new is None:
            del self._nodes[name]
            self._ports.pop(name, None)
            self._leaving_ports.pop(name, None)
        else:
            self._nodes[name] = new
            self._dirty.add(name)
        if old is None or new is None or old.spec != new.spec:
            self._respecified = True

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went."""
        if old is not None and old.node is not None and old.holds_resources:
            on_node = self._pods[old.node]
            del on_node[old.uid]
            if not on_node:
                del self._pods[old.node]
            self._dirty.add(old.node)
            self._leaving.pop(old.uid, None)
        if new is not None and new.node is not None and new.holds_resources:
            self._pods.setdefault(new.node, {})[new.uid] = new
            if new.leaves and new.gone_by is not None:
                self._leaving[new.uid] = (new.gone_by + OVERDUE_SECONDS, new.node)
            self._dirty.add(new.node)

    def expire(self, now: float) -> float | None:
        """Count on terminating pods no longer that should have gone long ago.

        Return the next instant at which this changes anything, or None.
        """
        overdue = frozenset(uid for uid, (until, _) in self._leaving.items() if until <= now)
        changed = overdue ^ self.overdue
        self._dirty.update(self._leaving[uid][1] for uid in changed & self._leaving.keys())
        self.overdue = overdue
        return min((until for until, _ in self._leaving.values() if until > now), default=None)

    def reseat(self, members: Iterable[Pod]) -> None:
        """Mark the nodes of these pods for recomputation, for the PodGroup of the pods came or
        went.
        """
        for pod in members:
            if pod.task is not None and pod.node is not None and pod.holds_resources:
                self._dirty.add(pod.node)

    def fits(self, pod: Pod, node: Node, before: NodeSpec) -> bool:
        """Whether the node still takes this pod and has room for all its pods: a last check before
        a bind is sent.

        Pods of all schedulers and pods being bound count, the pod itself among them. Only resources
        that the pod requests are compared. `before` is the node as the decision saw it.
        """
        limits = pod.pod_class.constraints
        if not nodes.still_takes(before, node.spec, limits.tolerations):
            return False
        by_claim = {
            name
            for use in limits.resource_claims
            for name in use.resources
            if not node.allocatable.get(name)
        }
        there = self._pods.get(node.spec.name, {}).values()
        used = pods_by_class.total(Counter(each.pod_class for each in there))
        return all(
            used.get(name, 0) <= node.allocatable.get(name, 0)
            for name in pod.pod_class.request
            if name not in by_claim
        )

    def placed_pods(self) -> Iterator[Pod]:
        """Iterate over all pods that hold room, including pods on unknown nodes."""
        for pods in self._pods.values():
            yield from pods.values()

    def table(self, space: ResourceSpace) -> NodeTable:
        """Return the table with these columns; the last table object again when nothing changed."""
        if space != self._space:
            shape = (self._layout.size, space.size)
            self._arrays = [np.zeros(shape, dtype=np.int64) for _ in self._arrays]
            self._space = space
            self._table = None
            self._dirty.update(self._nodes)
        if self._respecified:
            self._rearrange()
        # Rows exist only for known nodes. A node that arrives later is marked dirty then.
        dirty = self._dirty & self._nodes.keys()
        self._dirty.clear()
        if self._table is None or dirty or self._table.layout is not self._layout:
            for name in dirty:
                self._refresh(name)
            self._table = self._copy()
        return self._table

    def _rearrange(self) -> None:
        """Build a new layout, and move the rows into its order."""
        self._respecified = False
        before = self._layout.rows
        self._layout = NodeLayout([self._nodes[name].spec for name in sorted(self._nodes)])
        self._work["layouts"] += 1
        if self._layout.names == tuple(before):
            return
        # Rows of new nodes start with zeros: move_node has marked the nodes dirty.
        origin = np.array([before.get(name, -1) for name in self._layout.names], dtype=np.int64)
        was_there = origin >= 0
        for at, array in enumerate(self._arrays):
            moved = np.zeros((self._layout.size, self._space.size), dtype=np.int64)
            moved[was_there] = array[origin[was_there]]
            self._arrays[at] = moved

    def _refresh(self, name: str) -> None:
        """Recompute a row from its node and pods."""
        self._work["rows"] += 1
        row = self._layout.rows[name]
        node_usage = usage(self._pods.get(name, {}).values(), self._groups, self.overdue)
        amounts = (
            self._nodes[name].allocatable,
            node_usage.used,
            node_usage.releasing,
            node_usage.ours,
        )
        for array, amount in zip(self._arrays, amounts, strict=True):
            array[row] = self._space.vector(amount)
        for ports, used_ports in (
            (self._ports, node_usage.ports),
            (self._leaving_ports, node_usage.leaving_ports),
        ):
            if used_ports:
                ports[name] = used_ports
            else:
                ports.pop(name, None)

    def _copy(self) -> NodeTable:
        # The arrays keep changing, but the table is frozen, so it gets copies. Allocatable amounts
        # rarely change: tables share one copy until a node does.
        allocatable, *taken = self._arrays
        last = self._table
        same = last is not None and not self._resized
        allocatable = last.allocatable if last is not None and same else allocatable.copy()
        self._resized = False
        used, releasing, ours = (array.copy() for array in taken)
        return NodeTable(
            layout=self._layout,
            allocatable=allocatable,
            used=used,
            releasing=releasing,
            ours=ours,
            holding=last.holding if last is not None and same else {},
            ports=dict(sorted(self._ports.items())),
            leaving_ports=dict(sorted(self._leaving_ports.items())),
        )


class ResourceNames:
    """The resources named by any object in the cluster, which become the columns of a snapshot.

    References are counted: a resource that no object names any longer loses its column.
    """

    def __init__(self) -> None:
        self._classes: dict[PodClass, int] = {}
        """How many counted pods are of a class."""
        self._provided: Counter[str] = Counter()
        """How many nodes and queues name a resource."""
        self._requested: Counter[str] = Counter()
        """How many pod classes and PodGroups name a resource."""
        self._space = ResourceSpace.of(())

    def move(self, old: Value | None, new: Value | None) -> None:
        """Apply an object, not a pod, that came, changed or went."""
        for value, step in ((old, -1), (new, 1)):
            if value is not None:
                is_request = isinstance(value, Group)
                counter = self._requested if is_request else self._provided
                _count(counter, entries.resources_of(value), step)

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went."""
        came = new.pod_class if new is not None and (new.ours or new.holds_resources) else None
        left = old.pod_class if old is not None and (old.ours or old.holds_resources) else None
        if came is left:
            return
        classes = self._classes
        if came is not None:
            classes[came] = number = classes.get(came, 0) + 1
            if number == 1:
                _count(self._requested, came.counted, 1)
        if left is not None:
            classes[left] -= 1
            if not classes[left]:
                del classes[left]
                _count(self._requested, left.counted, -1)

    def space(self, backed: Collection[str] = (), awaited: Collection[str] = ()) -> ResourceSpace:
        """Return the resources as columns; the last object again when they are unchanged. `backed`
        are those that stand for a DeviceClass, `awaited` those of pods that are still to come.

        Anyone who creates pods can name arbitrary resources, and each would add a column to every
        node. So at most REQUESTED_ONLY_MAX resources get a column that no node or queue names.
        """
        requested = {*self._requested, *awaited}
        known = {*self._provided, *requested.intersection(backed)}
        requested_only = requested - known - {*resources.FIRST}
        folded = len(requested_only) > REQUESTED_ONLY_MAX
        if folded:
            names = {*known, *sorted(requested_only)[:REQUESTED_ONLY_MAX]}
        else:
            names = {*known, *requested_only}
        space = ResourceSpace.of(names, folded=folded)
        if space != self._space:
            self._space = space
        return self._space


def _count(counter: Counter[T], items: Iterable[T], step: int) -> None:
    """Add or subtract a reference for each item; items without references are removed."""
    for item in items:
        counter[item] += step
        if not counter[item]:
            del counter[item]


class Assumption(msgspec.Struct, frozen=True):
    """A sent bind that the watch hasn't confirmed yet."""

    node: str
    since: float
    pod: Pod
    """The pod without the bind."""
    bound: Pod
    """The same pod as Binding, kept because each look at it asks for it."""


NOBODY = JobId("")


class Alone(msgspec.Struct):
    """Which pods that name no PodGroup are jobs by themselves."""

    spares_groups: bool = False
    """Whether PodGroups are made only for pods that need one; False: for all."""
    inherits: bool = True
    """Whether annotations of pods' owners count."""
    readable: bool = True
    """Whether owners can be read."""
    served: bool = True
    """Whether there are PodGroups of Volcano's at all."""


class PodOverlay:
    """Pods as cycles see them, with what the API server doesn't say of them, by UID.

    These are binds and evictions in flight, pauses between binds, the claim for extended resources
    that stand for devices, and the devices of claims that count for a pod.
    """

    def __init__(
        self, reader: Reader, stored: Mapping[str, Entry], owners: OwnerIndex, alone: Alone
    ) -> None:
        """`stored` are all pods as last seen, by UID."""
        self._reader, self._stored = reader, stored
        self._owners = owners
        self.alone = alone
        self.classes: Mapping[str, str] = {}
        """DeviceClasses by the extended resource that stands for their devices."""
        self.assumed: dict[TaskId, Assumption] = {}
        """Binds in flight, until the watch shows the pod on a node."""
        self.evicting: dict[TaskId, float] = {}
        """When an eviction in flight was sent, until the watch shows the pod leaving."""
        self.held_back: dict[TaskId, None] = {}
        """Waiting pods for which no node is searched for now; an ordered set."""
        self.charged: dict[TaskId, Mapping[str, int]] = {}
        """Devices of claims that count for the pod."""
        self.group_texts: dict[JobId, Mapping[str, str]] = {}
        """What plugins read of PodGroups, as hints of pod classes."""
        self.roots: dict[JobId, JobId] = {}
        """The CompositePodGroup whose job the pods of a PodGroup belong to."""
        self._below: dict[TaskId, JobId] = {}
        """The same by pod: pods move one by one, and all others are seen as before meanwhile."""

    def assume(self, pod: Pod, node: str, now: float) -> tuple[Pod, Pod]:
        """Let a waiting pod be Binding to a node; return the pod as seen before and now."""
        before = self.as_seen(pod)
        assert before is not None
        after = before.bound_to(node)
        self.assumed[pod.uid] = Assumption(node, now, before, after)
        return before, after

    def as_seen(self, pod: Pod | None) -> Pod | None:
        """Return the pod with all of this: Binding, leaving, or held back."""
        if pod is None:
            return None
        if pod.origin is not None and self._is_alone(pod):
            pod = self._with_texts(lone_pods.alone(pod))
        if self._below and (root := self._below.get(pod.uid)):
            pod = pod.below(root)
        if pod.extended and self.classes:
            pod = self._with_claim(pod)
        if self.group_texts and pod.ours and (texts := self.group_texts.get(pod.group or NOBODY)):
            pod = self._reader.grouped(pod, texts)
        if self.charged and (devices := self.charged.get(pod.uid)):
            pod = self._reader.charged(pod, devices)
        if pod.uid in self.evicting:
            return pod.leaving(self.evicting[pod.uid])
        assumption = self.assumed.get(pod.uid)
        if assumption is None:
            return pod.held_back() if pod.uid in self.held_back and pod.waits else pod
        return assumption.bound if assumption.pod is pod else pod.bound_to(assumption.node)

    def rename(self, classes: Mapping[str, str]) -> list[tuple[Pod | None, Pod | None]]:
        """Let other extended resources stand for DeviceClasses; return the pods with such resources
        as seen before and now.
        """
        if classes == self.classes:
            return []
        every = (entry.value for entry in self._stored.values())
        concerned = [pod for pod in every if isinstance(pod, Pod) and pod.extended]
        before = [self.as_seen(pod) for pod in concerned]
        self.classes = classes
        return list(zip(before, map(self.as_seen, concerned), strict=True))

    def need(self, pod: Pod) -> Need:
        """Return whether a pod that names no PodGroup needs one."""
        if not self.alone.served:
            return Need.NOTHING
        if not self.alone.spares_groups or pod.group is not None or pod.origin is None:
            return Need.POD_GROUP
        if pod.asks_for_group:
            return Need.POD_GROUP
        return lone_pods.need(
            pod.origin,
            self.owner_annotations(pod),
            inherits=self.alone.inherits,
            readable=self.alone.readable,
        )

    def owner_annotations(self, pod: Pod) -> Mapping[str, str] | None:
        """Return the annotations of the pod's owner, if they count and are known."""
        if not self.alone.inherits or pod.origin is None:
            return None
        return self._owners.annotations(pod.origin.owner)

    def _is_alone(self, pod: Pod) -> bool:
        """Whether the pod is a job by itself.

        Of one with a node, the owner may be gone. It has started alone, as it names no PodGroup.
        """
        if not self.alone.served:
            return lone_pods.is_lone(pod)
        if not self.alone.spares_groups or pod.group is not None:
            return False
        need = self.need(pod)
        started = pod.node is not None or pod.uid in self.assumed
        return need is Need.NOTHING or (need is Need.OWNER and started)

    def _with_texts(self, pod: Pod) -> Pod:
        """Return a pod that is a job by itself, with the texts that plugins read of PodGroups."""
        if not self._reader.reads_texts:
            return pod
        found = lone_pods.texts_of(pod, self.owner_annotations(pod))
        texts = self._reader.texts(found.annotations, found.labels)
        return self._reader.grouped(pod, texts) if texts else pod

    def revise(
        self, pods: Iterable[Pod], change: Callable[[], None]
    ) -> Iterator[tuple[Pod | None, Pod | None]]:
        """Make a change of what is known of these pods; iterate over them as seen before and
        now.
        """
        known = list(pods)
        before = [self.as_seen(pod) for pod in known]
        change()
        return zip(before, map(self.as_seen, known), strict=True)

    def without_podgroup(self) -> Iterator[Pod]:
        """Iterate over all pods of ours, of which nobody but us might have made a PodGroup."""
        every = (entry.value for entry in self._stored.values())
        return (pod for pod in every if isinstance(pod, Pod) and lone_pods.is_lone(pod))

    def regroup(
        self, key: JobId, texts: Mapping[str, str], members: Collection[Pod]
    ) -> list[tuple[Pod | None, Pod | None]]:
        """Let a PodGroup have other texts that plugins read; return its pods as seen before and
        now.
        """
        if texts == self.group_texts.get(key, {}):
            return []
        before = list(members)
        self.group_texts[key] = texts
        if not texts:
            del self.group_texts[key]
        stored = (self._stored[pod.uid].value for pod in before)
        now = [self.as_seen(pod) if isinstance(pod, Pod) else None for pod in stored]
        return list(zip(before, now, strict=True))

    def reroot(
        self, roots: Mapping[JobId, JobId], members: Callable[[JobId], Collection[Pod]]
    ) -> Iterator[tuple[Pod | None, Pod | None]]:
        """Let PodGroups be parts of other jobs, or again jobs by themselves; iterate over their
        pods as seen before and now. `members` returns the pods of a PodGroup as seen before.
        """
        moved = [pod.uid for part in roots for pod in members(part)]
        for part, root in roots.items():
            self.roots[part] = root
            if root == part:
                del self.roots[part]
        for uid in moved:
            pod = self._stored[uid].value
            assert isinstance(pod, Pod), "only such pods are members"
            before = self.as_seen(pod)
            self.place(uid, pod)
            yield before, self.as_seen(pod)

    def place(self, uid: TaskId, pod: Pod | None) -> None:
        """Note below which CompositePodGroup a pod is; None: it is gone."""
        root = self.roots.get(pod.group or NOBODY) if pod is not None and self.roots else None
        if root is not None:
            self._below[uid] = root
        elif self._below:
            self._below.pop(uid, None)

    def _with_claim(self, pod: Pod) -> Pod:
        """Return the pod with the claim that stands for its extended resources, if any do."""
        use = extended_resources.use_of(pod.key, pod.uid, pod.extended, self.classes)
        return pod if use is None else self._reader.claiming(pod, use)
