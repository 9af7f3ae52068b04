"""Nodes and what their pods hold: the columns of a NodeTable, their names, and sums by node."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from vscheduler.core.model import constraints, jobs, nodes, resources
from vscheduler.mirror.index import entries, pods_by_class
from vscheduler.mirror.translate import pods, translation

T = TypeVar("T")

Ports: TypeAlias = dict[str, tuple[constraints.HostPort, ...]]
"""Host ports that are taken, sorted, by node name; only nodes with some."""

NOWHERE_MAX = 64
"""Resources that pods ask for, and no node or queue has, that are told apart: the first by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the pods of one node hold. Releasing pods are in both amounts."""

    used: resources.ResourceMap
    releasing: resources.ResourceMap
    ours: resources.ResourceMap
    """What those pods hold that are seated: ours, that stay and count for a queue."""
    ports: tuple[constraints.HostPort, ...]
    """Of pods that stay."""
    leaving_ports: tuple[constraints.HostPort, ...]


def usage(held: Iterable[pods.Pod], groups: Container[object]) -> Usage:
    """The sum over these pods, which all hold room; these are the PodGroups that are there."""
    every: defaultdict[jobs.PodClass, int] = defaultdict(int)
    leaving: defaultdict[jobs.PodClass, int] = defaultdict(int)
    ours: defaultdict[jobs.PodClass, int] = defaultdict(int)
    ports: list[constraints.HostPort] = []
    leaving_ports: list[constraints.HostPort] = []
    for pod in held:
        leaves = pod.status is jobs.TaskStatus.RELEASING
        every[pod.kind] += 1
        if leaves:
            leaving[pod.kind] += 1
        elif pod.task is not None and pod.group in groups:
            ours[pod.kind] += 1
        if pod.kind.constraints.ports:
            taken = leaving_ports if leaves else ports
            taken += pod.kind.constraints.ports
    return Usage(
        used=pods_by_class.total(every),
        releasing=pods_by_class.total(leaving),
        ours=pods_by_class.total(ours),
        ports=tuple(sorted(ports)),
        leaving_ports=tuple(sorted(leaving_ports)),
    )


class NodeColumns:
    """Rows sorted by name; only rows whose node or pods changed are worked out anew."""

    def __init__(self, work: Counter[str], groups: Container[object]) -> None:
        self._work = work
        self._groups = groups
        """PodGroups that are there, as they come and go: `reseat` tells of them."""
        self._nodes: dict[str, translation.Node] = {}
        self._pods: dict[str, dict[jobs.TaskId, pods.Pod]] = {}
        """Those that hold room, by node name, whether the node is there or not."""
        self._dirty: set[str] = set()
        self._respecified = False
        """Whether a NodeSpec came, went or changed, so that the layout must be made anew."""
        self._resized = False
        """Whether a node came, went or changed, so that what they have must be copied anew."""
        self._ports: Ports = {}
        self._leaving_ports: Ports = {}
        self._space = resources.ResourceSpace.of(())
        self._layout = nodes.NodeLayout(())
        self._arrays = [np.zeros((0, self._space.size), dtype=np.int64) for _ in range(4)]
        """allocatable, used, releasing, ours."""
        self._table: nodes.NodeTable | None = None

    def move_node(
        self, name: str, old: translation.Node | None, new: translation.Node | None
    ) -> None:
        """The node came (no old one), changed or went (no new one)."""
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

    def move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
        """The pod came, changed or went."""
        if old is not None and old.node is not None and old.holds_room:
            held = self._pods[old.node]
            del held[old.uid]
            if not held:
                del self._pods[old.node]
            self._dirty.add(old.node)
        if new is not None and new.node is not None and new.holds_room:
            self._pods.setdefault(new.node, {})[new.uid] = new
            self._dirty.add(new.node)

    def reseat(self, members: Iterable[pods.Pod]) -> None:
        """The PodGroup of these pods came or went, and so they are seated now, or no more."""
        for pod in members:
            if pod.task is not None and pod.node is not None and pod.holds_room:
                self._dirty.add(pod.node)

    def residents(self) -> Iterator[pods.Pod]:
        """All pods that hold room, those on nodes that aren't there included."""
        for held in self._pods.values():
            yield from held.values()

    def table(self, space: resources.ResourceSpace) -> nodes.NodeTable:
        """The table in these columns; the last one again when nothing changed."""
        if space != self._space:
            shape = (self._layout.size, space.size)
            self._arrays = [np.zeros(shape, dtype=np.int64) for _ in self._arrays]
            self._space = space
            self._table = None
            self._dirty.update(self._nodes)
        if self._respecified:
            self._rearrange()
        # A node that nobody has told of stays out, until it is there: then it is dirty anew.
        dirty = self._dirty & self._nodes.keys()
        self._dirty.clear()
        if self._table is None or dirty or self._table.layout is not self._layout:
            for name in dirty:
                self._refresh(name)
            self._table = self._copy()
        return self._table

    def _rearrange(self) -> None:
        """Make a new layout, and bring the rows into its order."""
        self._respecified = False
        before = self._layout.rows
        self._layout = nodes.NodeLayout([self._nodes[name].spec for name in sorted(self._nodes)])
        self._work["layouts"] += 1
        if self._layout.names == tuple(before):
            return
        origin = np.array([before.get(name, -1) for name in self._layout.names], dtype=np.int64)
        known = origin >= 0
        for at, array in enumerate(self._arrays):
            moved = np.zeros((self._layout.size, self._space.size), dtype=np.int64)
            moved[known] = array[origin[known]]
            self._arrays[at] = moved

    def _refresh(self, name: str) -> None:
        """Work out one row anew, from the node and its pods."""
        self._work["rows"] += 1
        row = self._layout.rows[name]
        found = usage(self._pods.get(name, {}).values(), self._groups)
        amounts = (self._nodes[name].allocatable, found.used, found.releasing, found.ours)
        for array, amount in zip(self._arrays, amounts, strict=True):
            array[row] = self._space.vector(amount)
        for ports, taken in (
            (self._ports, found.ports),
            (self._leaving_ports, found.leaving_ports),
        ):
            if taken:
                ports[name] = taken
            else:
                ports.pop(name, None)

    def _copy(self) -> nodes.NodeTable:
        allocatable, *taken = self._arrays
        last = self._table
        same = last is not None and not self._resized
        allocatable = last.allocatable if last is not None and same else allocatable.copy()
        self._resized = False
        used, releasing, ours = (array.copy() for array in taken)
        return nodes.NodeTable(
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
    """Which resources anything in the cluster names: the columns of a snapshot.

    Keeps count of who names what; a resource that nobody names any more is no column.
    """

    def __init__(self) -> None:
        self._classes: Counter[jobs.PodClass] = Counter()
        """How many pods that count are of a class."""
        self._named: Counter[str] = Counter()
        """How many nodes and queues name a resource."""
        self._asked: Counter[str] = Counter()
        """How many classes of pods, and groups, do."""
        self._space = resources.ResourceSpace.of(())

    def move(self, old: entries.Value | None, new: entries.Value | None) -> None:
        """Something that is no pod came, changed or went."""
        for value, step in ((old, -1), (new, 1)):
            asks = isinstance(value, translation.Group)
            counter = self._asked if asks else self._named
            _count(counter, entries.resources_of(value), step)

    def move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
        """A pod came, changed or went."""
        for pod, step in ((new, 1), (old, -1)):
            if pod is not None and (pod.ours or pod.holds_room):
                _count(self._classes, (pod.kind,), step)
                if self._classes[pod.kind] == max(step, 0):
                    _count(self._asked, pod.kind.request, step)

    def space(self) -> resources.ResourceSpace:
        """The columns; the last answer again if they are the same.

        Whoever writes pods may name any resources, and each would be a column of every node: of
        those that no node and no queue has only so many are told apart.
        """
        nowhere = self._asked.keys() - self._named.keys() - {*resources.FIRST}
        folded = len(nowhere) > NOWHERE_MAX
        if folded:
            names = {*self._named, *sorted(nowhere)[:NOWHERE_MAX]}
        else:
            names = {*self._named, *nowhere}
        space = resources.ResourceSpace.of(names, folded=folded)
        if space != self._space:
            self._space = space
        return self._space


def _count(counter: Counter[T], items: Iterable[T], step: int) -> None:
    """Count up or down; what is down to nothing is gone."""
    for item in items:
        counter[item] += step
        if not counter[item]:
            del counter[item]


@dataclass(frozen=True, slots=True)
class Assumption:
    """A bind that was sent and that the watch hasn't shown yet."""

    node: str
    since: float


class NodeUsage:
    """What all pods of a node hold, kept up to date at each step, for a last look before a bind.

    Sums by node, whoever schedules the pods; those that are being bound are in them.
    """

    def __init__(self) -> None:
        self._held: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
        """The pod came, changed or went."""
        if old is not None and new is not None and _holds_the_same(old, new):
            return
        for pod, step in ((new, 1), (old, -1)):
            if pod is None or pod.node is None or not pod.holds_room:
                continue
            held = self._held[pod.node]
            for name, amount in pod.kind.request.items():
                held[name] += step * amount
                if not held[name]:
                    del held[name]
            if not held:
                del self._held[pod.node]

    def fits(self, kind: jobs.PodClass, node: translation.Node, before: nodes.NodeSpec) -> bool:
        """Whether a node still takes pods like this one, which is counted there already, and has
        as much as all pods hold there of what it asks for.
        """
        held = self._held[node.spec.name]
        return nodes.still_takes(before, node.spec, kind.constraints.tolerations) and all(
            held[name] <= node.allocatable.get(name, 0) for name in kind.request
        )


def _holds_the_same(old: pods.Pod, new: pods.Pod) -> bool:
    """Whether it holds the same room."""
    return old.kind is new.kind and old.node == new.node and old.holds_room == new.holds_room
