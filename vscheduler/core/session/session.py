"""Session: the working copy of a Snapshot in which a cycle makes its decisions."""

import collections
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np

from vscheduler.core.api import contracts, views
from vscheduler.core.config import policy as policies
from vscheduler.core.fair_share import demands, node_loss_grace, node_pools
from vscheduler.core.model import decisions, jobs, nodes, pod_affinity, queues, resources
from vscheduler.core.model import snapshot as snapshots
from vscheduler.core.session import (
    decided,
    dispatch,
    interfaces,
    job_reasons,
    job_state,
    remembered,
    statement,
    unschedulable_jobs,
    work_budget,
)

PRESENCE = {
    jobs.TaskStatus.ALLOCATED: pod_affinity.PodPresence.STAYING,
    jobs.TaskStatus.PIPELINED: pod_affinity.PodPresence.COMING,
}
"""How pod affinity counts a task that was placed in this cycle, by the new status of the task."""


class Session:
    """The state of one scheduling cycle: a copy of the cluster, and the open plugins.

    Node columns are copies, and a JobState records changes to tasks; the Snapshot is never
    modified. Actions change the session through `statement()` only.
    """

    placement: interfaces.Placement
    _awaited: Sequence[snapshots.ReplacementReservation] = ()

    def __init__(
        self,
        snapshot: snapshots.Snapshot,
        policy: policies.Policy,
        *,
        spending: work_budget.WorkBudget,
        affinity_counts: interfaces.PodAffinityCounts,
        nominated: views.NominatedPods,
    ) -> None:
        """Copy the snapshot; the caller, core.cycle, calls `open` next."""
        table = snapshot.nodes
        self.snapshot = snapshot
        self.policy = policy
        self.space = snapshot.space
        self.layout = table.layout
        self.allocatable = resources.by_column(table.allocatable)
        self.used = resources.by_column(table.used)
        self.future_used = resources.by_column(table.used - table.releasing)
        self.ports = dict(table.ports)
        self.leaving_ports = dict(table.leaving_ports)
        self.touched: list[int] = []
        """Rows of changed nodes, in order of change; caches of answers about rows read them."""
        self.queues: Mapping[str, queues.Queue] = snapshot.queues
        self.job_states = {
            job.id: job_state.JobState(job, policy.rules)
            for job in snapshot.jobs
            if job.queue in self.queues
        }
        self.jobs_without_queue = [job for job in snapshot.jobs if job.queue not in self.queues]
        """Jobs whose queue doesn't exist."""
        self.budgets = work_budget.Budgets(snapshot.budgets)
        self.decided = decided.Decided(snapshot.now)
        self.reasons = job_reasons.JobReasons()
        self.admissions = remembered.Admissions(snapshot.carried)
        self.eviction_history = remembered.EvictionHistory(snapshot.carried)
        self.spending = spending
        self.spend = spending.spend
        if snapshot.carried.work_by_namespace:
            self.spending.resume_round(self.unfinished_jobs(), snapshot.carried.attempted)
        self._evictable: collections.defaultdict[int, list[jobs.Task]] | None = None
        self._requests: dict[jobs.PodClass, resources.Vector] = {}
        self._losses, self._losses_kept = node_loss_grace.losses(snapshot), 0.0
        self.affinity_counts = affinity_counts
        self.nominated = nominated

    def open(
        self,
        guarded: frozenset[str],
        placement: interfaces.Placement,
        awaited: Sequence[snapshots.ReplacementReservation],
    ) -> None:
        """Let actions prepare the cycle, then open all plugins. guarded names plugins that failed
        earlier in this cycle; awaited are reservations for pods that don't exist yet.
        """
        self.placement = placement
        self._awaited = awaited
        for action in self.policy.actions:
            action.action(action.arguments).prepare(self)
        tiers = [
            [(setting, self._opened(setting, guarded)) for setting in tier]
            for tier in self.policy.tiers
        ]
        self.dispatch = dispatch.Dispatch(tiers, guarded)
        started = [
            [(setting, self._started(setting, plugin, guarded)) for setting, plugin in tier]
            for tier in tiers
        ]
        if started != tiers:
            self.dispatch = dispatch.Dispatch(started, guarded)

    def _opened(
        self, setting: policies.PluginSetting, guarded: frozenset[str]
    ) -> contracts.Plugin | dispatch.Unopened:
        def opened() -> contracts.Plugin:
            plugin = setting.plugin(setting.arguments, setting.flags)
            plugin.open(self)
            return plugin

        return dispatch.tried(setting, "open", guarded, opened)

    @staticmethod
    def _started(
        setting: policies.PluginSetting,
        plugin: contracts.Plugin | dispatch.Unopened,
        guarded: frozenset[str],
    ) -> contracts.Plugin | dispatch.Unopened:
        if "start" not in setting.answers or isinstance(plugin, dispatch.Unopened):
            return plugin

        def started() -> contracts.Plugin:
            plugin.start()  # type: ignore[attr-defined]  # `answers` says that it is there
            return plugin

        return dispatch.tried(setting, "start", guarded, started)

    @cached_property
    def total(self) -> resources.Vector:
        """The resources that shares are computed from, (R,)."""
        return self.policy.rules.total(self)

    @cached_property
    def bars(self) -> bool:
        """Whether `reasons.barred` could refuse any job."""
        limited = [each for each in self.queues.values() if each.namespaces is not None]
        return bool(
            limited or [each for each in self.job_states.values() if each.job.hard_topology]
        )

    @cached_property
    def known_unschedulable(self) -> unschedulable_jobs.KnownUnschedulable:
        """Earlier findings about jobs that can't start on empty nodes, if still valid."""
        return unschedulable_jobs.still_known(self)

    @property
    def known_nowhere(self) -> Collection[tuple[str, jobs.PodClass]]:
        """Pairs of queue and pod class for which no node is known to be suitable."""
        return self.known_unschedulable.nowhere

    @cached_property
    def demands(self) -> demands.QueueDemands:
        """Allocated and requested resources of queues as the cycle begins."""
        awaited = [(reservation.queue, reservation.task.pod_class) for reservation in self._awaited]
        return demands.QueueDemands(self.space, self.job_states.values(), awaited)

    def unfinished_jobs(self) -> list[job_state.JobState]:
        """Return the jobs that could still request something; most jobs run, and don't."""
        return [state for state in self.job_states.values() if not state.fully_scheduled]

    @cached_property
    def pools(self) -> node_pools.NodePools:
        """The nodes as they are now, grouped by the queues and pods that could use them."""
        return self.pools_builder.build(node_pools.pool_nodes(self))

    @cached_property
    def pools_builder(self) -> node_pools.NodePoolsBuilder:
        """The builder of all node pools in this cycle."""
        return node_pools.NodePoolsBuilder(self)

    def nowhere(self, task: jobs.Task) -> bool:
        """Whether the task earns its queue no share because no node could take the task."""
        queue = self.job_state_of(task).job.queue
        return self.policy.rules.has_no_nodes(self, queue, task.pod_class)

    def pools_before(self, seconds: float) -> node_pools.NodePools | None:
        """Return the node pools as if no node had lost anything in the last `seconds`; None if no
        node has. Losses are remembered for `seconds`, and a cycle is due when a loss expires.
        """
        self._losses_kept = max(seconds, self._losses_kept)
        now = self.snapshot.now
        lost = {name: loss for name, loss in self._losses.items() if loss.since + seconds > now}
        for loss in lost.values():
            self.wake(loss.since + seconds)
        if not lost:
            return None
        return self.pools_builder.build(
            node_loss_grace.nodes_before(self.pools.nodes, lost, self.space)
        )

    def kept_losses(self) -> Mapping[str, snapshots.NodeLoss]:
        """Return the node losses that the next cycle must know. A loss is dropped once it is old
        enough and the node has left with all pods of this scheduler.
        """
        if not self._losses_kept:
            return {}
        oldest = self.snapshot.now - self._losses_kept
        return {
            name: loss
            for name, loss in self._losses.items()
            if loss.since > oldest or loss.held or name in self.layout.rows
        }

    def class_nodes(self, pod_class: jobs.PodClass, layout: nodes.NodeLayout) -> nodes.Mask:
        """Return the nodes (N,) that pods of this class could use if no pods ran there."""
        mask = np.ones(layout.size, dtype=np.bool_)
        for answer in self.dispatch.each("class_nodes", dispatch.mask_of, None, pod_class, layout):
            if answer is not None:
                mask &= answer
        return mask

    def queue_nodes(self, queue: queues.Queue, layout: nodes.NodeLayout) -> nodes.Mask | None:
        """Return the nodes (N,) of the layout that pods of the queue could use; None: all."""
        answers = self.dispatch.each("queue_nodes", dispatch.mask_of, None, queue, layout)
        masks = [answer for answer in answers if answer is not None]
        return np.logical_and.reduce(masks) if masks else None

    def request(self, task: jobs.Task) -> resources.Vector:
        """Return the resource request of the task, (R,), `pods` included; read-only."""
        vector = self._requests.get(task.pod_class)
        if vector is None:
            vector = self._requests[task.pod_class] = self.space.vector(task.pod_class.request)
            vector.setflags(write=False)
        return vector

    def has_nomination(self, task: jobs.Task) -> bool:
        """Whether a node was nominated in an earlier cycle, or a reservation served the task."""
        return task.uid in self.snapshot.carried.nominations or task.uid in self.decided.moved_in

    def runs(self, action: str) -> bool:
        """Whether an action of this name is configured."""
        return self.policy.runs(action)

    def reachable(self, task: jobs.Task) -> nodes.Mask:
        """Return the nodes that the task could use if evictions made space for the task."""
        return self.placement.reachable(task)

    @property
    def binds(self) -> Sequence[decisions.Bind]:
        """The pods bound so far."""
        return self.decided.binds

    @property
    def evicts(self) -> Mapping[jobs.TaskId, decisions.Evict]:
        """The pods evicted so far, by task."""
        return self.decided.evicts

    def wake(self, at: float) -> None:
        """Ask for a cycle at this instant, when a decision could change without an event."""
        self.decided.wake(at)

    def evictable_on(self, row: int) -> Sequence[jobs.Task]:
        """Return this scheduler's evictable pods on a node, as the cycle began, by UID."""
        if self._evictable is None:
            spared = self.snapshot.carried.eviction_refused_pods
            self._evictable = collections.defaultdict(list)
            for state in self.job_states.values():
                for status in jobs.EVICTABLE:
                    if state.job.counts.get(status):
                        for task in state.job.tasks:
                            if task.status is not status or task.uid in spared:
                                continue
                            if task.node in self.layout.rows:
                                self._evictable[self.layout.rows[task.node]].append(task)
            for tasks in self._evictable.values():
                tasks.sort(key=lambda task: task.uid)
        return self._evictable.get(row, ())

    def job_state_of(self, task: jobs.Task) -> job_state.JobState:
        """Return the state of the task's job in this cycle."""
        return self.job_states[task.job]

    def statement(self) -> statement.Statement:
        """Return a journal of changes: `with session.statement() as trial: …; trial.commit()`."""
        return statement.Statement(self)

    def view(
        self, rows: "np.ndarray[tuple[int], np.dtype[np.int64]] | None" = None
    ) -> contracts.NodeView:
        """Return the nodes as plugins see them: all nodes, or copies of the given rows."""
        if rows is None:
            return self._whole
        whole = self._whole
        arrays = (self.allocatable[rows], self.used[rows], self.future_used[rows])
        return contracts.NodeView(self.layout, rows, *arrays, whole.ports, whole.leaving_ports)

    @cached_property
    def _whole(self) -> contracts.NodeView:
        """All nodes as read-only views, which always show the current state."""
        every = (self.allocatable, self.used, self.future_used)
        allocatable, used, future_used = (array.view() for array in every)
        for array in (allocatable, used, future_used):
            array.setflags(write=False)
        ports, leaving = MappingProxyType(self.ports), MappingProxyType(self.leaving_ports)
        return contracts.NodeView(self.layout, None, allocatable, used, future_used, ports, leaving)

    @property
    def work(self) -> Counter[str]:
        """Counts of operations, by kind."""
        return self.spending.work

    def take(self, task: jobs.Task, row: int, status: jobs.TaskStatus) -> None:
        """Place the task on a node, as allocated or pipelined. Called by Statement."""
        request = self.request(task)
        future = self.future_used[row]  # a view: `self.future_used[row] += …` would store it again
        future += request
        if status is jobs.TaskStatus.ALLOCATED:
            used = self.used[row]
            used += request
            over = used > self.allocatable[row]
            full = True in over.tolist()  # ten times as fast as `any` on so few elements
            assert not full or not request[over].any(), f"{task.key} overfills a node"
        name = self.layout.names[row]
        work_budget.take_ports(self.ports, name, task)
        self.affinity_counts.move(task, row, PRESENCE[status], 1)
        self.touched.append(row)
        self.job_state_of(task).move(task, status, name)
        self.dispatch.notify("on_allocate", task)

    def give_back(self, task: jobs.Task, row: int) -> None:
        """Undo `take` exactly, for the task that was taken last. Called by Statement."""
        self.dispatch.notify("on_deallocate", task)
        state = self.job_state_of(task)
        request = self.request(task)
        self.future_used[row] -= request
        if state.status(task) is jobs.TaskStatus.ALLOCATED:
            self.used[row] -= request
        self.affinity_counts.move(task, row, PRESENCE[state.status(task)], -1)
        name = self.layout.names[row]
        work_budget.give_ports_back(self.ports, name, task)
        self.touched.append(row)
        state.move(task, task.status, task.node)

    def keep(self, reservation: snapshots.ReplacementReservation, step: int = 1) -> None:
        """Reserve resources for a future pod, or (-1) release them. Called by Statement."""
        row = self.layout.rows[reservation.node]
        self.future_used[row] += step * self.request(reservation.task)
        move = work_budget.take_ports if step > 0 else work_budget.give_ports_back
        move(self.ports, reservation.node, reservation.task)
        self.affinity_counts.move(reservation.task, row, pod_affinity.PodPresence.COMING, step)
        self.touched.append(row)

    def evict(self, task: jobs.Task, row: int) -> None:
        """Make the task's resources available to waiting pods. Called by Statement."""
        name = self.layout.names[row]
        self.future_used[row] -= self.request(task)
        work_budget.give_ports_back(self.ports, name, task)
        work_budget.take_ports(self.leaving_ports, name, task)
        self.affinity_counts.move(task, row, pod_affinity.PodPresence.STAYING, -1)
        self.affinity_counts.move(task, row, pod_affinity.PodPresence.LEAVING, 1)
        self.touched.append(row)
        self.budgets.take(task)
        self.job_state_of(task).move(task, jobs.TaskStatus.RELEASING, name)
        self.dispatch.notify("on_deallocate", task)

    def restore(self, task: jobs.Task, row: int) -> None:
        """Undo `evict` exactly. Called by Statement."""
        name = self.layout.names[row]
        self.dispatch.notify("on_allocate", task)
        self.future_used[row] += self.request(task)
        self.budgets.give_back(task)
        work_budget.give_ports_back(self.leaving_ports, name, task)
        work_budget.take_ports(self.ports, name, task)
        self.affinity_counts.move(task, row, pod_affinity.PodPresence.LEAVING, -1)
        self.affinity_counts.move(task, row, pod_affinity.PodPresence.STAYING, 1)
        self.touched.append(row)
        self.job_state_of(task).move(task, task.status, task.node)
