"""Nominated pods of other schedulers: resources on nodes reserved for pods about to start.

kube-scheduler evicts pods for one of its own, and starts the nominated pod once the victims are
gone. Meanwhile the released resources are reserved for the nominated pod against pods of equal or
lower priority; otherwise the victims would have died in vain. Request, pod slot, host ports, and
anti-affinity in both directions count for a nominated pod. A nominated pod satisfies no affinity,
and spreads and scores ignore nominated pods.

Nominated pods don't change in the course of a cycle.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from vscheduler.core.api.contracts import FilterResult, NodeView
from vscheduler.core.api.views import NominatedReservations, Ports
from vscheduler.core.session.session import Session
from vscheduler.model import nodes
from vscheduler.model.constraints import HostPort, PodSet, PodTerm
from vscheduler.model.jobs import Task, TaskId
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Nominated, Snapshot

Places: TypeAlias = frozenset[tuple[str, str]]
"""Labels of nodes, with values a pod must stay away from."""


class NominatedPods:
    """Nominated pods whose node exists. Without any, each question costs one look."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._layout, self._space = snapshot.nodes.layout, snapshot.space
        self._affinity_index = snapshot.affinity_index
        self._pods = [each for each in snapshot.nominated if each.node in self._layout.rows]
        self.anybody = bool(self._pods)
        self._counted: dict[int, int] = {}
        self._by_task: dict[TaskId, NominatedReservations | None] = {}
        self._by_key: dict[Hashable, NominatedReservations] = {}
        self._by_places: dict[tuple[int, Places], NominatedReservations] = {}
        self._held: dict[int, tuple[Vector, Ports]] = {}
        self._members: dict[tuple[int, PodSet], list[int]] = {}

    def __bool__(self) -> bool:
        return self.anybody

    def of(self, task: Task) -> NominatedReservations | None:
        """Return the reservations against this task, or None."""
        if not self._pods:
            return None
        try:
            return self._by_task[task.uid]
        except KeyError:
            count = self._count(task.pod_priority)
            found = self._by_task[task.uid] = self._reservations(task, count) if count else None
            return found

    def _count(self, priority: int) -> int:
        """Return how many nominated pods, the first ones, have at least this priority."""
        if priority not in self._counted:
            self._counted[priority] = sum(pod.priority >= priority for pod in self._pods)
        return self._counted[priority]

    def _reservations(self, task: Task, count: int) -> NominatedReservations:
        """Return the reservations of the first `count` nominated pods against this task."""
        # Reservations are shared at two levels: by tasks with equal labels, and by all tasks that
        # anti-affinity keeps from the same places.
        key = (task.pod_class, task.namespace, frozenset(task.labels.items()), count)
        reserved = self._by_key.get(key)
        if reserved is None:
            places = frozenset(self._excluded_places(task, count))
            reserved = self._by_places.get((count, places))
            if reserved is None:
                reserved = self._by_places[count, places] = self._make(count, places)
            self._by_key[key] = reserved
        return reserved

    def _excluded_places(self, task: Task, count: int) -> Iterator[tuple[str, str]]:
        """Yield node labels excluded by anti-affinity, the task's or the nominated pods'."""
        for term in task.pod_class.constraints.pod_anti_affinity:
            for member in self._among(count, term.pods):
                yield from self._place(member, term)
        labels = self._affinity_index.namespace_labels(task.namespace)
        for number, each in enumerate(self._pods[:count]):
            for term in each.pod_class.constraints.pod_anti_affinity:
                if term.pods.includes(task.namespace, task.labels, labels):
                    yield from self._place(number, term)

    def _among(self, count: int, pods: PodSet) -> list[int]:
        """Return the numbers of nominated pods in this set."""
        found = self._members.get((count, pods))
        if found is None:
            found = self._members[count, pods] = [
                number
                for number, each in enumerate(self._pods[:count])
                if pods.includes(
                    each.namespace,
                    each.labels,
                    self._affinity_index.namespace_labels(each.namespace),
                )
            ]
        return found

    def _place(self, number: int, term: PodTerm) -> Iterator[tuple[str, str]]:
        """Yield the topology label of a nominated pod's node, if the node has the label."""
        spec = self._layout.specs[self._layout.rows[self._pods[number].node]]
        yield from (pair for pair in spec.labels if pair[0] == term.topology_key)

    def _make(self, count: int, places: Places) -> NominatedReservations:
        """Return the reservations of the first `count` pods, without nodes at these places."""
        if count not in self._held:
            self._held[count] = self._add_up(self._pods[:count])
        amounts, ports = self._held[count]
        apart = np.ones(self._layout.size, dtype=np.bool_)
        for key, value in places:
            column, codes = self._layout.label(key)
            apart &= column != codes[value]
        return NominatedReservations(len(self._by_places), amounts, ports, apart)

    def _add_up(self, found: Sequence[Nominated]) -> tuple[Vector, Ports]:
        """Return requests (N, R) and host ports of these nominated pods."""
        amounts = np.zeros((self._layout.size, self._space.size), dtype=np.int64)
        ports: dict[str, tuple[HostPort, ...]] = {}
        for each in found:
            amounts[self._layout.rows[each.node]] += self._space.present(each.pod_class.request)
            if each.pod_class.constraints.ports:
                ports[each.node] = (*ports.get(each.node, ()), *each.pod_class.constraints.ports)
        return amounts, ports


PORTS = Refusal(RefusalCode.NOMINATED_PORTS)
TOO_NEAR = Refusal(RefusalCode.NOMINATED_ANTI_AFFINITY)


def class_key(session: Session, task: Task) -> Hashable:
    """Return what distinguishes the task from other tasks of its class; None if nothing does.

    Three things can: selection by affinity terms of other pods, resources reserved for nominated
    pods, and the part of the network that its job may use.
    """
    topology = session.topology
    near = topology.class_key(task) if topology.is_used else None
    if near is None and session.affinity_counts.nobody and not session.nominated.anybody:
        return None
    affinity, reserved = session.affinity_counts.state_of(task), session.nominated.of(task)
    known = None if affinity is None else affinity.key
    found = known if reserved is None else (known, reserved.number)
    return found if near is None else (found, near)


def alike(session: Session, task: Task) -> Hashable:
    """Return a value equal for tasks with the same possible victims and nodes."""
    return task.pod_class, task.priority, class_key(session, task)


def rest(session: Session, task: Task, view: NodeView) -> Vector:
    """Return resources of these nodes less reservations against the task, (n, R)."""
    reserved = session.nominated.of(task)
    return view.allocatable if reserved is None else view.allocatable - view.of(reserved.amounts)


def room(session: Session, task: Task) -> Vector:
    """Return what is free for the task on each node after pending releases, (N, R).

    The amount is negative where reservations exceed the free resources.
    """
    return rest(session, task, session.cluster.view()) - session.cluster.future_used


def verdicts(session: Session, task: Task) -> Iterator[FilterResult]:
    """Yield the nodes (N,) with room for the task if nothing were reserved, by resource."""
    reserved = session.nominated.of(task)
    if reserved is None:
        return
    request = session.request(task)
    free = session.cluster.allocatable - session.cluster.future_used
    for column in np.flatnonzero(request).tolist():
        wanted, name = request[column], session.space.names[column]
        # Only nodes made too small by reservations: where room is short in any case, nominated pods
        # aren't the reason.
        short = (free[:, column] >= wanted) & (
            free[:, column] - reserved.amounts[:, column] < wanted
        )
        if short.any():
            refusal = Refusal(RefusalCode.NOMINATED_RESOURCE, name)
            yield FilterResult(refusal, ~short, temporary=True)


def filtered(
    reserved: NominatedReservations | None,
    task: Task,
    view: NodeView,
    *,
    ports: bool,
    distance: bool,
) -> Iterator[FilterResult]:
    """Yield filter results for nominated pods, for the enabled filters."""
    if reserved is None:
        return
    wanted = task.pod_class.constraints.ports
    if ports and wanted and reserved.ports:
        free = nodes.free_ports(view.layout, view.rows, wanted, reserved.ports)
        yield FilterResult(PORTS, free, temporary=True)
    if distance and not reserved.apart.all():
        yield FilterResult(TOO_NEAR, view.of(reserved.apart), temporary=True)
