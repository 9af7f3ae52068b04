"""Session: the working copy of a Snapshot in which a cycle decides."""

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
    dispatch,
    interfaces,
    job_state,
    statement,
    unschedulable_jobs,
    work_budget,
)

PRECEDENCE = {code: place for place, code in enumerate(decisions.ReasonCode)}

SEATS = {
    jobs.TaskStatus.ALLOCATED: pod_affinity.Seat.STAYING,
    jobs.TaskStatus.PIPELINED: pod_affinity.Seat.PROMISED,
}
"""What a task that was given room is to its neighbours."""


class Session:
    """A cluster that can be changed, and the plugins that are asked about it.

    Node columns are copies, Gangs note what happens to tasks; the snapshot stays as it is.
    Actions change it through `statement()` only.
    """

    placement: interfaces.Placement
    _awaited: Sequence[snapshots.ReplacementReservation] = ()

    def __init__(
        self,
        snapshot: snapshots.Snapshot,
        policy: policies.Policy,
        *,
        spending: work_budget.WorkBudget,
        neighbours: interfaces.PodAffinityCounts,
        nominated: views.NominatedPods,
    ) -> None:
        """`open` is to follow. Called by core.cycle."""
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
        self.as_volcano = policy.volcano
        self.touched: list[int] = []
        """Rows in the order in which they changed: who keeps an answer about rows looks here."""
        self.queues: Mapping[str, queues.Queue] = snapshot.queues
        self.gangs = {
            job.id: job_state.JobState(job, as_volcano=self.as_volcano)
            for job in snapshot.jobs
            if job.queue in self.queues
        }
        self.strays = [job for job in snapshot.jobs if job.queue not in self.queues]
        """Jobs whose queue doesn't exist."""
        self.binds: list[decisions.Bind] = []
        self.pipelined: dict[jobs.TaskId, decisions.Pipeline] = {}
        self.evicts: dict[jobs.TaskId, decisions.Evict] = {}
        self.budgets = work_budget.Budgets(snapshot.budgets)
        self.kept_rooms: list[snapshots.ReplacementReservation] = []
        """Room for pods that their owners are to make anew."""
        self.nominations: dict[jobs.TaskId, str] = {}
        """Room that evictions made, now or before, by the waiting task that it is kept for."""
        self.reasons: dict[jobs.JobId, decisions.Reason] = {}
        self.reclaim_failed = set(snapshot.carried.reclaim_failed)
        """By action, jobs for which it found no victims, in unfinished cycles before, too."""
        self.unreached: set[jobs.JobId] = set()
        """Jobs that this cycle didn't look at: it says nothing about them."""
        self.admitted = dict(snapshot.carried.admitted)
        """Since when groups are Inqueue, by UID; those that aren't any more included."""
        self.admission_expired = dict(snapshot.carried.admission_expired)
        """When groups lost their place, by UID, those that were admitted again included."""
        self.partial_since: dict[str, float] = {}
        """Since when gangs are bound in part, by UID: those that still are."""
        self.wake_at: float | None = None
        self.shuffled_at = snapshot.carried.shuffled_at
        """When the action shuffle last evicted a pod, in this cycle or before."""
        self.spending = spending
        self.spend = spending.spend
        if snapshot.carried.spent:
            self.spending.hurry(self.unsettled(), snapshot.carried.attempted)
        self._residents: collections.defaultdict[int, list[jobs.Task]] | None = None
        self._requests: dict[jobs.PodClass, resources.Vector] = {}
        self._losses, self._losses_kept = node_loss_grace.losses(snapshot), 0.0
        self.neighbours = neighbours
        self.nominated = nominated

    def open(
        self,
        guarded: frozenset[str],
        placement: interfaces.Placement,
        awaited: Sequence[snapshots.ReplacementReservation],
    ) -> None:
        """Let actions prepare the cycle, and open all plugins; those that are guarded have failed
        in this cycle before. Awaited: room that is kept for pods that aren't there yet.
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
        """What shares are computed from, (R,): what the pods of queues could use. In Volcano's way,
        all that nodes have that are ready.
        """
        if self.as_volcano:
            everything: resources.Vector = self.allocatable[self.layout.ready].sum(axis=0)
            return everything
        return self.usable.total

    @cached_property
    def bars(self) -> bool:
        """Whether there is anything that could bar a job."""
        limited = [each for each in self.queues.values() if each.namespaces is not None]
        return bool(limited or [each for each in self.gangs.values() if each.job.hard_topology])

    @cached_property
    def told_hopeless(self) -> unschedulable_jobs.Told:
        """What was said of jobs that can't start on empty nodes, and still holds."""
        return unschedulable_jobs.still(self)

    @property
    def known_nowhere(self) -> Collection[tuple[str, jobs.PodClass]]:
        """Queues, and classes for which no node is known to do."""
        return self.told_hopeless.nowhere

    @cached_property
    def moved_in(self) -> set[jobs.TaskId]:
        """Pods that have come for which room was kept."""
        return set()

    @cached_property
    def demands(self) -> demands.QueueDemands:
        """What queues have and ask for as the cycle begins."""
        awaited = [(room.queue, room.task.pod_class) for room in self._awaited]
        return demands.QueueDemands(self.space, self.gangs.values(), awaited)

    def unsettled(self) -> list[job_state.JobState]:
        """Jobs that could have something to ask for: most have what they need, and run."""
        return [gang for gang in self.gangs.values() if not gang.settled]

    @cached_property
    def usable(self) -> node_pools.NodePools:
        """The nodes as they are, as far as pods of queues could use them."""
        return self.surveyor.survey(node_pools.ground(self))

    @cached_property
    def surveyor(self) -> node_pools.NodePoolsBuilder:
        """Who makes surveys in this cycle."""
        return node_pools.NodePoolsBuilder(self)

    def nowhere(self, task: jobs.Task) -> bool:
        """Whether the task has no share, as there is no node that it could use. In Volcano's way,
        shares don't ask for that.
        """
        queue = self.gang_of(task).job.queue
        return not self.as_volcano and self.usable.nowhere(queue, task.pod_class)

    def usable_before(self, seconds: float) -> node_pools.NodePools | None:
        """The nodes as if nothing that they had so many seconds ago had gone since; None where
        nothing has. What has gone is remembered for so long, and there is a cycle when that ends.
        """
        self._losses_kept = max(seconds, self._losses_kept)
        now = self.snapshot.now
        lost = {name: loss for name, loss in self._losses.items() if loss.since + seconds > now}
        for loss in lost.values():
            self.wake(loss.since + seconds)
        if not lost:
            return None
        return self.surveyor.survey(node_loss_grace.before(self.usable.ground, lost, self.space))

    def kept_losses(self) -> Mapping[str, snapshots.NodeLoss]:
        """What the next cycle is to know of what nodes have lost: until that is long enough ago,
        and the node is as it was, or gone with all pods that were on it.
        """
        if not self._losses_kept:
            return {}
        oldest = self.snapshot.now - self._losses_kept
        return {
            name: loss
            for name, loss in self._losses.items()
            if loss.since > oldest or loss.held or name in self.layout.rows
        }

    def class_nodes(self, kind: jobs.PodClass, layout: nodes.NodeLayout) -> nodes.Mask:
        """Nodes of a layout that pods of this class could use, whoever is there now: (N,)."""
        mask = np.ones(layout.size, dtype=np.bool_)
        for answer in self.dispatch.each("class_nodes", dispatch.mask_of, None, kind, layout):
            if answer is not None:
                mask &= answer
        return mask

    def queue_nodes(self, queue: queues.Queue, layout: nodes.NodeLayout) -> nodes.Mask | None:
        """The same for pods of a queue; None: all."""
        answers = self.dispatch.each("queue_nodes", dispatch.mask_of, None, queue, layout)
        masks = [answer for answer in answers if answer is not None]
        return np.logical_and.reduce(masks) if masks else None

    def request(self, task: jobs.Task) -> resources.Vector:
        """What the task asks for, (R,), `pods` included; not to be written to."""
        vector = self._requests.get(task.pod_class)
        if vector is None:
            vector = self._requests[task.pod_class] = self.space.vector(task.pod_class.request)
            vector.setflags(write=False)
        return vector

    def promised(self, task: jobs.Task) -> bool:
        """Whether pods were evicted for this task in an earlier cycle, or room was kept for it."""
        return task.uid in self.snapshot.carried.nominations or task.uid in self.moved_in

    def runs(self, action: str) -> bool:
        """Whether an action of this name is configured."""
        return self.policy.runs(action)

    def reachable(self, task: jobs.Task) -> nodes.Mask:
        """Nodes that nothing but room, or what evictions could change, keeps from the task."""
        return self.placement.reachable(task)

    def wake(self, at: float) -> None:
        """At this instant a decision could change with no event; what is past isn't due again."""
        if at > self.snapshot.now:
            self.wake_at = at if self.wake_at is None else min(at, self.wake_at)

    def residents(self, row: int) -> Sequence[jobs.Task]:
        """Our pods on a node that could be evicted when the cycle began, by UID."""
        if self._residents is None:
            spared = self.snapshot.carried.eviction_refused_pods
            self._residents = collections.defaultdict(list)
            for gang in self.gangs.values():
                for status in jobs.EVICTABLE:
                    if gang.job.counts.get(status):
                        for task in gang.job.tasks:
                            if task.status is not status or task.uid in spared:
                                continue
                            if task.node in self.layout.rows:
                                self._residents[self.layout.rows[task.node]].append(task)
            for tasks in self._residents.values():
                tasks.sort(key=lambda task: task.uid)
        return self._residents.get(row, ())

    def gang_of(self, task: jobs.Task) -> job_state.JobState:
        """The task's job as it stands in this cycle."""
        return self.gangs[task.job]

    def statement(self) -> statement.Statement:
        """A journal of what-ifs: `with session.statement() as trial: …; trial.commit()`."""
        return statement.Statement(self)

    def view(
        self, rows: "np.ndarray[tuple[int], np.dtype[np.int64]] | None" = None
    ) -> contracts.NodeView:
        """The nodes as plugins see them: all, or a copy of these rows."""
        if rows is None:
            return self._whole
        whole = self._whole
        arrays = (self.allocatable[rows], self.used[rows], self.future_used[rows])
        return contracts.NodeView(self.layout, rows, *arrays, whole.ports, whole.leaving_ports)

    @cached_property
    def _whole(self) -> contracts.NodeView:
        """All nodes, always as they are just now."""
        every = (self.allocatable, self.used, self.future_used)
        allocatable, used, future_used = (array.view() for array in every)
        for array in (allocatable, used, future_used):
            array.setflags(write=False)
        ports, leaving = MappingProxyType(self.ports), MappingProxyType(self.leaving_ports)
        return contracts.NodeView(self.layout, None, allocatable, used, future_used, ports, leaving)

    def note(self, job: jobs.JobId, reason: decisions.Reason) -> None:
        """Why a job, or the rest of it, isn't placed: the dominant reason stays, else the first."""
        if self.is_news(job, reason.code):
            self.reasons[job] = reason

    def is_news(self, job: jobs.JobId, code: decisions.ReasonCode) -> bool:
        """Whether a reason of this kind would be noted."""
        known = self.reasons.get(job)
        return known is None or PRECEDENCE[code] < PRECEDENCE[known.code]

    @property
    def work(self) -> Counter[str]:
        """How often something was done, by kind."""
        return self.spending.work

    def take(self, task: jobs.Task, row: int, status: jobs.TaskStatus) -> None:
        """Give the task room on a node. Called by Statement."""
        request = self.request(task)
        future = self.future_used[row]  # a view; in one step, `+=` would write it twice
        future += request
        if status is jobs.TaskStatus.ALLOCATED:
            used = self.used[row]
            used += request
            over = used > self.allocatable[row]
            full = True in over.tolist()  # `any` takes ten times as long on so few
            assert not full or not request[over].any(), f"{task.key} overfills a node"
        name = self.layout.names[row]
        work_budget.take_ports(self.ports, name, task)
        self.neighbours.move(task, row, SEATS[status], 1)
        self.touched.append(row)
        self.gang_of(task).move(task, status, name)
        self.dispatch.tell("on_allocate", task)

    def give_back(self, task: jobs.Task, row: int) -> None:
        """The exact opposite of `take`, of the last task taken first. Called by Statement."""
        self.dispatch.tell("on_deallocate", task)
        gang = self.gang_of(task)
        request = self.request(task)
        self.future_used[row] -= request
        if gang.status(task) is jobs.TaskStatus.ALLOCATED:
            self.used[row] -= request
        self.neighbours.move(task, row, SEATS[gang.status(task)], -1)
        name = self.layout.names[row]
        work_budget.give_ports_back(self.ports, name, task)
        self.touched.append(row)
        gang.move(task, task.status, task.node)

    def keep(self, room: snapshots.ReplacementReservation, step: int = 1) -> None:
        """Take, or give back (-1), room for a pod that isn't there yet. Called by Statement."""
        row = self.layout.rows[room.node]
        self.future_used[row] += step * self.request(room.task)
        move = work_budget.take_ports if step > 0 else work_budget.give_ports_back
        move(self.ports, room.node, room.task)
        self.neighbours.move(room.task, row, pod_affinity.Seat.PROMISED, step)
        self.touched.append(row)

    def evict(self, task: jobs.Task, row: int) -> None:
        """The task's room is there for those who wait. Called by Statement."""
        name = self.layout.names[row]
        self.future_used[row] -= self.request(task)
        work_budget.give_ports_back(self.ports, name, task)
        work_budget.take_ports(self.leaving_ports, name, task)
        self.neighbours.move(task, row, pod_affinity.Seat.STAYING, -1)
        self.neighbours.move(task, row, pod_affinity.Seat.LEAVING, 1)
        self.touched.append(row)
        self.budgets.take(task)
        self.gang_of(task).move(task, jobs.TaskStatus.RELEASING, name)
        self.dispatch.tell("on_deallocate", task)

    def restore(self, task: jobs.Task, row: int) -> None:
        """The exact opposite of `evict`. Called by Statement."""
        name = self.layout.names[row]
        self.dispatch.tell("on_allocate", task)
        self.future_used[row] += self.request(task)
        self.budgets.give_back(task)
        work_budget.give_ports_back(self.leaving_ports, name, task)
        work_budget.take_ports(self.ports, name, task)
        self.neighbours.move(task, row, pod_affinity.Seat.LEAVING, -1)
        self.neighbours.move(task, row, pod_affinity.Seat.STAYING, 1)
        self.touched.append(row)
        self.gang_of(task).move(task, task.status, task.node)
