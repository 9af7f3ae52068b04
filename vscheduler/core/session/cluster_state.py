"""ClusterState: nodes, jobs and PodDisruptionBudgets after the decisions of a cycle so far."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import NodeView
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.claims.devices.state import DeviceState
from vscheduler.core.claims.volumes.state import VolumeState
from vscheduler.core.memo.evictable_pods import EvictablePods
from vscheduler.core.session.hook_calls import HookRef
from vscheduler.core.session.interfaces import PodAffinityCounts
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.job_states import JobStates
from vscheduler.core.topology.network import NetworkTopology
from vscheduler.model import computed, pod_affinity, resources
from vscheduler.model.constraints import HostPort
from vscheduler.model.jobs import PodClass, Task, TaskId, TaskStatus
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Budget, ReplacementReservation, Snapshot

PodPresence = pod_affinity.PodPresence

PRESENCE = {
    TaskStatus.ALLOCATED: PodPresence.STAYING,
    TaskStatus.PIPELINED: PodPresence.COMING,
}
"""How pod affinity counts a task that was placed in this cycle, by the new status of the task."""


class ClusterState:
    """The working copy of nodes and jobs, changed by a Statement and read by everybody else.

    Node columns are copies, and a JobState records changes to tasks; the Snapshot is never
    modified. Each change has an exact inverse: `take` and `give_back`, `evict` and `restore`,
    `reserve` and `release`.
    """

    _notify: Callable[[HookRef, Task], None]

    def __init__(
        self,
        snapshot: Snapshot,
        job_states: JobStates,
        affinity_counts: PodAffinityCounts,
        volumes: VolumeState,
        devices: DeviceState,
        *,
        evictable_before: EvictablePods,
    ) -> None:
        """Copy the nodes of the snapshot; all other arguments are changed in place, except for the
        pods that an earlier cycle knew to be evictable.
        """
        table = snapshot.nodes
        self.layout = table.layout
        self.allocatable = resources.by_column(table.allocatable)
        self.used = resources.by_column(table.used)
        self.future_used = resources.by_column(table.used - table.releasing)
        self._ports = dict(table.ports)
        self._leaving_ports = dict(table.leaving_ports)
        self._touched: list[int] = []
        self.ports = MappingProxyType(self._ports)
        self.leaving_ports = MappingProxyType(self._leaving_ports)
        self.touched: Sequence[int] = self._touched
        """Rows of changed nodes, in order of change; caches of answers about rows read them."""
        self.budgets = Budgets(snapshot.budgets)
        self._space = snapshot.space
        self._job_states = job_states
        self._affinity_counts = affinity_counts
        self._volumes, self._devices = volumes, devices
        self.topology = NetworkTopology(snapshot, job_states)
        """Which pods have to be near to each other; used by the plugin for it."""
        self._taken, self._evictable_before = snapshot, evictable_before
        self._requests: dict[PodClass, Vector] = {}
        self._counted: dict[PodClass, Vector] = {}
        self._evictable_on: dict[int, Sequence[Task]] = {}
        """By row. Many searches look at the same nodes."""

    def attach(self, notify: Callable[[HookRef, Task], None]) -> None:
        """Notify plugins of placements and evictions from here on: `notify(hook, task)`."""
        self._notify = notify

    def request(self, task: Task) -> Vector:
        """Return the resource request of the task, (R,), `pods` included; read-only."""
        try:  # most are known, and this is asked several times for each pod
            return self._requests[task.pod_class]
        except KeyError:
            vector = self._requests[task.pod_class] = self._space.vector(task.pod_class.request)
            vector.setflags(write=False)
            return vector

    def counted(self, task: Task) -> Vector:
        """Return what of the task counts for its queue, (R,): the request, and devices of its
        claims; read-only.
        """
        if not task.pod_class.devices:
            return self.request(task)
        vector = self._counted.get(task.pod_class)
        if vector is None:
            vector = self._counted[task.pod_class] = self._space.vector(task.pod_class.counted)
            vector.setflags(write=False)
        return vector

    @property
    def is_releasing(self) -> bool:
        """Whether anything is being released on any node."""
        return bool((self.used != self.future_used).any())

    def job_state_of(self, task: Task) -> JobState:
        """Return the state of the task's job in this cycle."""
        return self._job_states[task.job]

    def evictable_on(self, row: int) -> Sequence[Task]:
        """Return this scheduler's evictable pods on a node, as the cycle began, by UID."""
        found = self._evictable_on.get(row)
        if found is None:
            found = self._evictable_on[row] = tuple(self.evictable.on(row))
        return found

    @computed.once
    def evictable(self) -> EvictablePods:
        """This scheduler's evictable pods as the cycle began, without refused evictions."""
        taken = self._taken
        return self._evictable_before.of_jobs(
            taken.jobs, taken.carried.reported.eviction_refused_pods
        )

    @property
    def known_evictable(self) -> EvictablePods:
        """The evictable pods of the last cycle that asked for them, this one included."""
        found: EvictablePods
        found = self.__dict__.get("evictable", self._evictable_before)
        return found

    def view(self, rows: "np.ndarray[tuple[int], np.dtype[np.int64]] | None" = None) -> NodeView:
        """Return the nodes as plugins see them: all nodes, or copies of the given rows."""
        if rows is None:
            return self._whole
        arrays = (self.allocatable[rows], self.used[rows], self.future_used[rows])
        return NodeView(self.layout, rows, *arrays, self.ports, self.leaving_ports)

    @computed.once
    def _whole(self) -> NodeView:
        """All nodes as read-only views, which always show the current state."""
        every = (self.allocatable, self.used, self.future_used)
        allocatable, used, future_used = (array.view() for array in every)
        for array in (allocatable, used, future_used):
            array.setflags(write=False)
        arrays = (allocatable, used, future_used)
        return NodeView(self.layout, None, *arrays, self.ports, self.leaving_ports)

    def take(self, task: Task, row: int, status: TaskStatus) -> None:
        """Place the task on a node, as allocated or pipelined."""
        request = self.request(task)
        future = self.future_used[row]  # a view: `self.future_used[row] += …` would store it again
        future += request
        if status is TaskStatus.ALLOCATED:
            used = self.used[row]
            used += request
            over = used > self.allocatable[row]
            full = True in over.tolist()  # ten times as fast as `any` on so few elements
            assert not full or not request[over].any(), f"{task.key} overfills a node"
        name = self.layout.names[row]
        take_ports(self._ports, name, task)
        self._affinity_counts.move(task, row, PRESENCE[status], 1)
        if task.volumes:
            self._volumes.move(task, row, PRESENCE[status], 1)
            self._volumes.assume(task, row)
        if task.pod_class.constraints.resource_claims:
            self._devices.assume(task, row)
        if self.topology.is_used:
            self.topology.count(task, row, 1)
        self._touched.append(row)
        self._job_states[task.job].move(task, status, name)
        self._notify(AllHooks.on_allocate, task)

    def give_back(self, task: Task, row: int) -> None:
        """Undo `take` exactly, for the task that was taken last."""
        self._notify(AllHooks.on_deallocate, task)
        state = self._job_states[task.job]
        request = self.request(task)
        self.future_used[row] -= request
        if state.status(task) is TaskStatus.ALLOCATED:
            self.used[row] -= request
        self._affinity_counts.move(task, row, PRESENCE[state.status(task)], -1)
        if task.volumes:
            self._volumes.forget(task)
            self._volumes.move(task, row, PRESENCE[state.status(task)], -1)
        if task.pod_class.constraints.resource_claims:
            self._devices.forget(task)
        if self.topology.is_used:
            self.topology.count(task, row, -1)
        name = self.layout.names[row]
        give_ports_back(self._ports, name, task)
        self._touched.append(row)
        state.move(task, task.status, task.node)

    def reserve(self, reservation: ReplacementReservation) -> None:
        """Reserve resources for a pod that doesn't exist yet."""
        take_ports(self._ports, reservation.node, reservation.task)
        self._reserve(reservation, 1)

    def release(self, reservation: ReplacementReservation) -> None:
        """Undo `reserve` exactly."""
        give_ports_back(self._ports, reservation.node, reservation.task)
        self._reserve(reservation, -1)

    def _reserve(self, reservation: ReplacementReservation, step: int) -> None:
        row, task = self.layout.rows[reservation.node], reservation.task
        self.future_used[row] += step * self.request(task)
        self._affinity_counts.move(task, row, PodPresence.RESERVED, step)
        if task.volumes:
            self._volumes.move(task, row, PodPresence.COMING, step)
        self._touched.append(row)

    def hold(self, rows: NDArray[np.int64], amounts: Vector) -> None:
        """Let more, (n, R), of these nodes (n,) count as used; undone with the negative amounts."""
        self.future_used[rows] += amounts
        self._touched += rows.tolist()

    def evict(self, task: Task, row: int) -> None:
        """Make the task's resources available to waiting pods."""
        name = self.layout.names[row]
        self.future_used[row] -= self.request(task)
        give_ports_back(self._ports, name, task)
        take_ports(self._leaving_ports, name, task)
        self._change_presence(task, row, PodPresence.STAYING, PodPresence.LEAVING)
        self._devices.leave(task, 1)
        if self.topology.is_used:
            self.topology.count(task, row, -1)
        self._touched.append(row)
        self.budgets.take(task)
        self._job_states[task.job].move(task, TaskStatus.RELEASING, name)
        self._notify(AllHooks.on_deallocate, task)

    def restore(self, task: Task, row: int) -> None:
        """Undo `evict` exactly."""
        name = self.layout.names[row]
        self._notify(AllHooks.on_allocate, task)
        self.future_used[row] += self.request(task)
        self.budgets.give_back(task)
        give_ports_back(self._leaving_ports, name, task)
        take_ports(self._ports, name, task)
        self._change_presence(task, row, PodPresence.LEAVING, PodPresence.STAYING)
        self._devices.leave(task, -1)
        if self.topology.is_used:
            self.topology.count(task, row, 1)
        self._touched.append(row)
        self._job_states[task.job].move(task, task.status, task.node)

    def hold_back(self, task: Task, row: int) -> None:
        """Let pod affinity count an allocated task as waiting; others can't rely on it yet."""
        self._change_presence(task, row, PodPresence.STAYING, PodPresence.COMING)
        self._touched.append(row)

    def let_start(self, task: Task, row: int) -> None:
        """Undo `hold_back` exactly."""
        self._change_presence(task, row, PodPresence.COMING, PodPresence.STAYING)
        self._touched.append(row)

    def _change_presence(
        self,
        task: Task,
        row: int,
        before: PodPresence,
        after: PodPresence,
    ) -> None:
        """Count the task differently for pod affinity, and as a user of its volumes."""
        self._affinity_counts.move(task, row, before, -1)
        self._affinity_counts.move(task, row, after, 1)
        if task.volumes:
            self._volumes.move(task, row, before, -1)
            self._volumes.move(task, row, after, 1)


class Budgets:
    """The PodDisruptionBudgets of a snapshot, and the number of pods evicted from each since.

    The planner of evictions uses Budgets with any configuration, and so does the plugin pdb.
    """

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self._budgets = budgets
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, budget in enumerate(budgets):
            self._places[budget.namespace].append(place)
        self._taken: defaultdict[int, int] = defaultdict(int)
        self._covering: dict[TaskId, tuple[int, ...]] = {}

    def spare(self, tasks: Sequence[Task]) -> bool:
        """Whether the budgets allow evicting all these tasks together.

        A pod under two budgets is never allowed: the Eviction API answers 500, whatever the budgets
        permit.
        """
        if len(tasks) == 1:  # most questions are about one pod, and most pods have no budget
            covering = self._of(tasks[0])
            return not covering or (
                len(covering) == 1 and self._taken[covering[0]] < self._budgets[covering[0]].allowed
            )
        wanted: Counter[int] = Counter()
        for task in tasks:
            covering = self._of(task)
            if len(covering) > 1:
                return False
            wanted.update(covering)
        return all(
            self._taken[place] + count <= self._budgets[place].allowed
            for place, count in wanted.items()
        )

    def take(self, task: Task) -> None:
        """Count the task as evicted."""
        for place in self._of(task):
            self._taken[place] += 1

    def give_back(self, task: Task) -> None:
        """Undo `take` exactly."""
        for place in self._of(task):
            self._taken[place] -= 1

    def _of(self, task: Task) -> tuple[int, ...]:
        """Return the indexes of the budgets that cover the task; computed once for each task."""
        covering = self._covering.get(task.uid)
        if covering is None:
            covering = self._covering[task.uid] = tuple(
                place
                for place in self._places.get(task.namespace, ())
                if self._budgets[place].covers(task)
            )
        return covering


Ports = dict[str, tuple[HostPort, ...]]


def take_ports(ports: Ports, name: str, task: Task) -> None:
    """Add the task's host ports to the node."""
    if task.pod_class.constraints.ports:
        ports[name] = tuple(sorted((*ports.get(name, ()), *task.pod_class.constraints.ports)))


def give_ports_back(ports: Ports, name: str, task: Task) -> None:
    """Remove the task's host ports from the node; a node without host ports leaves the table."""
    if task.pod_class.constraints.ports:
        left = list(ports[name])
        for port in task.pod_class.constraints.ports:
            left.remove(port)
        ports[name] = tuple(left)
        if not left:
            del ports[name]
