"""Nominated pods: what pods of other schedulers, once they start, will hold on which nodes.

kube-scheduler evicts pods for one of its own, and starts it when they are gone. In between, what
they leave is as good as taken for pods of the same priority and below: else they died in vain. Of
such a pod count what it asks for, its slot, its host ports, and anti-affinity, its own and that of
others about it. Nobody counts on it as company, and spreads and scores leave it out.

All of it is the same from a cycle's beginning to its end.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vscheduler.core.api import contracts, views
from vscheduler.core.model import constraints, jobs, nodes, resources, snapshot

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


Places: TypeAlias = frozenset[tuple[str, str]]
"""Labels of nodes, and the values that are out of bounds."""


class NominatedPods:
    """Those whose node is there. Where there are none, asking costs one look."""

    def __init__(self, taken: snapshot.Snapshot) -> None:
        self._layout, self._space = taken.nodes.layout, taken.space
        self._residents = taken.residents
        self._found = [each for each in taken.nominated if each.node in self._layout.rows]
        self.anybody = bool(self._found)
        self._counted: dict[int, int] = {}
        self._by_task: dict[jobs.TaskId, views.Kept | None] = {}
        self._by_likeness: dict[Hashable, views.Kept] = {}
        self._kept: dict[tuple[int, Places], views.Kept] = {}
        self._held: dict[int, tuple[resources.Vector, views.Ports]] = {}
        self._members: dict[tuple[int, constraints.PodSet], list[int]] = {}

    def __bool__(self) -> bool:
        return self.anybody

    def of(self, task: jobs.Task) -> views.Kept | None:
        """What is kept from this task; None where nothing is."""
        if not self._found:
            return None
        try:
            return self._by_task[task.uid]
        except KeyError:
            count = self._count(task.pod_priority)
            found = self._by_task[task.uid] = self._work_out(task, count) if count else None
            return found

    def _count(self, priority: int) -> int:
        """How many of them have this priority at least: the first ones."""
        if priority not in self._counted:
            self._counted[priority] = sum(each.priority >= priority for each in self._found)
        return self._counted[priority]

    def _work_out(self, task: jobs.Task, count: int) -> views.Kept:
        likeness = (task.pod_class, task.namespace, frozenset(task.labels.items()), count)
        kept = self._by_likeness.get(likeness)
        if kept is None:
            places = frozenset(self._out_of_bounds(task, count))
            kept = self._kept.get((count, places))
            if kept is None:
                kept = self._kept[count, places] = self._make(count, places)
            self._by_likeness[likeness] = kept
        return kept

    def _out_of_bounds(self, task: jobs.Task, count: int) -> Iterator[tuple[str, str]]:
        """Where the task may not be, by its own anti-affinity and by theirs."""
        for term in task.pod_class.constraints.pod_anti_affinity:
            for member in self._among(count, term.pods):
                yield from self._place(member, term)
        labels = self._residents.namespace_labels(task.namespace)
        for number, each in enumerate(self._found[:count]):
            for term in each.kind.constraints.pod_anti_affinity:
                if term.pods.includes(task.namespace, task.labels, labels):
                    yield from self._place(number, term)

    def _among(self, count: int, pods: constraints.PodSet) -> list[int]:
        """The numbers of those that are in this set."""
        found = self._members.get((count, pods))
        if found is None:
            found = self._members[count, pods] = [
                number
                for number, each in enumerate(self._found[:count])
                if pods.includes(
                    each.namespace, each.labels, self._residents.namespace_labels(each.namespace)
                )
            ]
        return found

    def _place(self, number: int, term: constraints.PodTerm) -> Iterator[tuple[str, str]]:
        """The value of the label at its node, if it has one."""
        spec = self._layout.specs[self._layout.rows[self._found[number].node]]
        yield from (pair for pair in spec.labels if pair[0] == term.topology_key)

    def _make(self, count: int, places: Places) -> views.Kept:
        if count not in self._held:
            self._held[count] = self._add_up(self._found[:count])
        amounts, ports = self._held[count]
        apart = np.ones(self._layout.size, dtype=np.bool_)
        for key, value in places:
            column, codes = self._layout.label(key)
            apart &= column != codes[value]
        return views.Kept(len(self._kept), amounts, ports, apart)

    def _add_up(self, found: Sequence[snapshot.Nominated]) -> tuple[resources.Vector, views.Ports]:
        amounts = np.zeros((self._layout.size, self._space.size), dtype=np.int64)
        ports: dict[str, tuple[constraints.HostPort, ...]] = {}
        for each in found:
            amounts[self._layout.rows[each.node]] += self._space.present(each.kind.request)
            if each.kind.constraints.ports:
                ports[each.node] = (*ports.get(each.node, ()), *each.kind.constraints.ports)
        return amounts, ports


SHORT = "node(s) had {resource} that is nominated to pods of other schedulers"
SHORT_OF_SLOTS = "node(s) had pod slots that are nominated to pods of other schedulers"
PORTS = "node(s) had host ports that are nominated to pods of other schedulers"
TOO_NEAR = "node(s) didn't match anti-affinity rules with pods nominated by other schedulers"


def likeness(session: "working.Session", task: jobs.Task) -> Hashable:
    """None, or what tells the task from others of its class: what it is to the pods on nodes, and
    what is kept from it.
    """
    if session.neighbours.nobody and not session.nominated.anybody:
        return None
    standing, kept = session.neighbours.standing(task), session.nominated.of(task)
    known = None if standing is None else standing.key
    return known if kept is None else (known, kept.number)


def alike(session: "working.Session", task: jobs.Task) -> Hashable:
    """Equal for tasks for which the same pods may go, and which start on the same nodes."""
    return task.pod_class, task.priority, likeness(session, task)


def rest(session: "working.Session", task: jobs.Task, view: contracts.NodeView) -> resources.Vector:
    """What these nodes have, but for what is kept from the task: (n, R)."""
    kept = session.nominated.of(task)
    return view.allocatable if kept is None else view.allocatable - view.of(kept.amounts)


def room(session: "working.Session", task: jobs.Task) -> resources.Vector:
    """What is left for the task on each node once what is being freed is free, (N, R); below 0
    where there is less than is promised.
    """
    return rest(session, task, session.view()) - session.future_used


def verdicts(session: "working.Session", task: jobs.Task) -> Iterator[contracts.FilterResult]:
    """Nodes (N,) that have room for the task but for what is kept from it, by what is short."""
    kept = session.nominated.of(task)
    if kept is None:
        return
    request = session.request(task)
    free = session.allocatable - session.future_used
    for column in np.flatnonzero(request).tolist():
        wanted, name = request[column], session.space.names[column]
        short = (free[:, column] >= wanted) & (free[:, column] - kept.amounts[:, column] < wanted)
        if short.any():
            refusal = SHORT_OF_SLOTS if name == resources.PODS else SHORT.format(resource=name)
            yield contracts.FilterResult(refusal, ~short, passing=True)


def filtered(
    kept: views.Kept | None,
    task: jobs.Task,
    view: contracts.NodeView,
    *,
    ports: bool,
    distance: bool,
) -> Iterator[contracts.FilterResult]:
    """What filters say for the sake of nominated pods; ports, distance: which of them ask."""
    if kept is None:
        return
    wanted = task.pod_class.constraints.ports
    if ports and wanted and kept.ports:
        free = nodes.free_ports(view.layout, view.rows, wanted, kept.ports)
        yield contracts.FilterResult(PORTS, free, passing=True)
    if distance and not kept.apart.all():
        yield contracts.FilterResult(TOO_NEAR, view.of(kept.apart), passing=True)
