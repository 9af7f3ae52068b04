"""Session: the working copy of a Snapshot in which a cycle makes its decisions."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.api.views import NominatedPods
from vscheduler.core.claims.devices.state import DeviceState
from vscheduler.core.claims.lifecycle import ClaimLifecycle
from vscheduler.core.claims.volumes.state import VolumeState
from vscheduler.core.config.policy import Policy
from vscheduler.core.memo import memos
from vscheduler.core.memo.unschedulable_jobs import UnschedulableGroup
from vscheduler.core.session import dispatch, hook_calls, job_state, unschedulable_pool
from vscheduler.core.session.carried import Admissions, EvictionHistory, GangSearches
from vscheduler.core.session.cluster_state import ClusterState
from vscheduler.core.session.decided import Decided, JobReasons
from vscheduler.core.session.dispatch import Dispatch
from vscheduler.core.session.held_pods import HeldPods
from vscheduler.core.session.hook_calls import Opened
from vscheduler.core.session.interfaces import Placement, PodAffinityCounts, Reservations
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.job_states import JobStates
from vscheduler.core.session.statement import Statement
from vscheduler.core.session.work_budget import WorkBudget
from vscheduler.core.shares import fair_shares, node_loss_grace, node_pools
from vscheduler.core.shares.demands import QueueDemands
from vscheduler.core.shares.fair_shares import QueueLimits
from vscheduler.core.shares.node_domains import KnownDomains
from vscheduler.core.shares.node_loss_grace import NodeLosses
from vscheduler.core.shares.node_pools import NodePools, NodePoolsBuilder
from vscheduler.core.topology.network import NetworkTopology
from vscheduler.model import computed
from vscheduler.model.decisions import Bind, Evict
from vscheduler.model.jobs import JobId, PodClass, Task, TaskId
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.queues import Queue
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import ReplacementReservation, Snapshot


class Session:
    """The state of one scheduling cycle: a copy of the cluster, and the open plugins.

    Each kind of state has an owner with named operations, and is read-only for everybody else:
    nodes and jobs a ClusterState, which actions change through `statement()` only; decisions a
    Decided; reasons a JobReasons; costs a WorkBudget; and what outlives the cycle Admissions, an
    EvictionHistory and NodeLosses.
    """

    placement: Placement
    reservations: Reservations
    _awaited: Sequence[ReplacementReservation] = ()

    def __init__(  # noqa: PLR0913 - the input of a cycle, and what it counts with
        self,
        snapshot: Snapshot,
        policy: Policy,
        *,
        budget: WorkBudget,
        affinity_counts: PodAffinityCounts,
        nominated: NominatedPods,
        volumes: VolumeState,
        devices: DeviceState,
        leaves_out: bool = True,
    ) -> None:
        """Copy the snapshot; the caller, core.cycle, calls `open` next.

        Unless `leaves_out`, every job is active, and all is derived anew, whatever was kept.
        """
        self.snapshot = snapshot
        self.policy = policy
        self.space = snapshot.space
        self.layout = snapshot.nodes.layout
        self.queues: Mapping[str, Queue] = snapshot.queues
        self.memos = memos.of(snapshot, policy) if leaves_out else memos.nothing(snapshot, policy)
        """What the last cycle learnt, as far as it is still right."""
        self.unchanged = self.memos.unchanged
        """Jobs that run, and that cycles leave out."""
        apart = leaves_out and affinity_counts.nobody
        self.unschedulable = unschedulable_pool.of(
            self.memos.unschedulable, snapshot, policy, apart=apart
        )
        active = self.memos.active_jobs(self.unschedulable.found)
        self.jobs_without_queue = [job for job in active if job.queue not in self.queues]
        """Jobs whose queue doesn't exist."""
        self.active = {job.id: job for job in active if job.queue in self.queues}
        """The jobs that this cycle goes through, by ID: neither unchanged nor unschedulable."""
        self.job_states = JobStates(
            self.active, self.unschedulable.found.jobs, self.unchanged, policy.rules
        )
        self.cluster = ClusterState(
            snapshot,
            self.job_states,
            affinity_counts,
            volumes,
            devices,
            evictable_before=self.memos.evictable,
        )
        self.request = self.cluster.request
        self.counted = self.cluster.counted
        self.job_state_of = self.cluster.job_state_of
        self.decided = Decided(snapshot.now)
        self.reasons = JobReasons()
        self.over_share: dict[JobId, JobState] = {}
        """Jobs that allocate has refused pods, or several, because of their queues' shares."""
        self.lending = self.preempting = False
        """Whether allocate lends, or preempt replaces pods, at this moment (contracts.Session)."""
        self.admissions = Admissions(snapshot.carried)
        self.eviction_history = EvictionHistory(snapshot.carried)
        self.gang_searches = GangSearches(snapshot.carried)
        self.work_budget = budget
        self.spend = budget.spend
        self._waiting: tuple[int, Sequence[JobState]] = (-1, ())
        waiting = self.waiting_jobs()
        self.work_budget.open(len(waiting))
        if snapshot.carried.work_by_namespace:
            self.work_budget.resume_round(waiting, snapshot.carried.attempted)
        if self.unschedulable.found.due < math.inf:
            self.wake(self.unschedulable.found.due)
        self.node_losses = NodeLosses(snapshot)
        self.affinity_counts = affinity_counts
        self.nominated = nominated
        self.volumes, self.devices = volumes, devices

    def open(
        self,
        guarded: frozenset[str],
        placement: Placement,
        reservations: Reservations,
        awaited: Sequence[ReplacementReservation],
    ) -> None:
        """Let actions prepare the cycle, then open all plugins. guarded names plugins that failed
        earlier in this cycle; awaited are reservations for pods that don't exist yet.
        """
        self.placement, self.reservations = placement, reservations
        self._awaited = awaited
        for action in self.policy.actions:
            action.action(action.arguments).prepare(self)
        settings = self.policy.settings
        plugins: list[Opened] = [hook_calls.UNOPENED] * len(settings)
        unopened: set[int] = set()
        for place, setting in enumerate(settings):
            try:
                plugin = setting.plugin(setting.arguments, setting.flags)
                plugin.open(self)
                plugins[place] = plugin
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                dispatch.check_guarded(setting, "open", guarded, error)
                unopened.add(place)
        self._attach(Dispatch(self.policy, plugins, guarded, unopened))
        started, failed = list(plugins), set(unopened)
        for place in self.policy.starting:
            if place in unopened:
                continue
            try:
                plugins[place].start()  # type: ignore[union-attr]  # `starting` says: it is there
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                dispatch.check_guarded(settings[place], "start", guarded, error)
                started[place] = hook_calls.UNOPENED
                failed.add(place)
        if failed != unopened:
            self._attach(Dispatch(self.policy, started, guarded, failed))

    def close(self) -> None:
        """Drop everything, at the end of the cycle.

        Plugins and others hold the session, which holds them. When it lets go, nearly all of them
        are freed at once, and the garbage collector, which stops the process, runs less often.
        """
        vars(self).clear()

    def _attach(self, to: Dispatch) -> None:
        self.dispatch = to
        self.cluster.attach(to.notify)

    @computed.once
    def total(self) -> Vector:
        """The resources that shares are computed from, (R,)."""
        return self.policy.rules.total(self)

    @computed.once
    def claims(self) -> ClaimLifecycle:
        """What pods need besides a node before they start."""
        return ClaimLifecycle(self.snapshot, self.volumes, self.devices)

    @computed.once
    def held_pods(self) -> HeldPods:
        """The pods that wait for volumes or devices."""
        return HeldPods(self.claims, lambda state: job_state.is_ready(self.dispatch, state))

    @computed.once
    def topology(self) -> NetworkTopology:
        """Which pods have to be near to each other in the network."""
        return self.cluster.topology

    @computed.once
    def bars(self) -> bool:
        """Whether `reasons.barred` could refuse any job."""
        limited = [queue for queue in self.queues.values() if queue.namespaces is not None]
        return bool(limited or [each for each in self.active.values() if each.hard_topology])

    @property
    def may_lend(self) -> bool:
        """Whether this cycle lends what no queue can use within its share. Evicted pods hold what
        they have until they are gone, so a cycle that evicts lends nothing.
        """
        busy = self.work_budget.exhausted or self.decided.evicts
        return self.policy.rules.lends and not busy

    @property
    def known_domains(self) -> KnownDomains:
        """The nodes that pods of a queue could use, as known from the last cycle."""
        return self.memos.domains.known

    @computed.once
    def queue_limits(self) -> QueueLimits:
        """Capabilities and guarantees of all queues."""
        return fair_shares.limits(self.space, self.queues, self.snapshot.used_by_other_schedulers)

    @property
    def promised_jobs(self) -> Sequence[JobState]:
        """The jobs that may have been promised more than they hold, by ID."""
        return self.job_states.promised()

    @computed.once
    def demands(self) -> QueueDemands:
        """Allocated and requested resources of queues as the cycle begins."""
        awaited = [(reservation.queue, reservation.task.pod_class) for reservation in self._awaited]
        return QueueDemands(
            self.space,
            self.active.values(),
            awaited,
            unchanged=self.unchanged.counted,
            unschedulable=self.unschedulable.found.members.counted,
        )

    def waiting_jobs(self) -> Sequence[JobState]:
        """Return the active jobs that could still request something; most jobs run, and don't.

        The list stays the same until a task moves, which touches a node, or jobs are activated.
        """
        changes = len(self.cluster.touched)
        if self._waiting[0] != changes:
            states, unfinished = self.job_states, self.job_states.unfinished()
            found = [
                states[each]
                for each, job in self.active.items()
                if not job.fully_scheduled or each in unfinished
            ]
            moved = [job for job in unfinished - self.active.keys() if job in self.unchanged]
            if moved:
                found = sorted(
                    (*found, *map(states.__getitem__, moved)), key=lambda state: state.job.id
                )
            self._waiting = (changes, found)
        return self._waiting[1]

    def unfinished_jobs(self) -> Sequence[JobState]:
        """Return all jobs that could still request something, unschedulable ones too."""
        unschedulable = [
            self.job_states[job] for group in self.unschedulable.groups for job in group.members
        ]
        if not unschedulable:
            return self.waiting_jobs()
        return sorted((*self.waiting_jobs(), *unschedulable), key=lambda state: state.job.id)

    def activate_jobs(self, groups: Iterable[UnschedulableGroup]) -> None:
        """Let the rest of the cycle go through these unschedulable jobs like through any others.

        What their cycle has done without them so far, it would have done with them as well.
        """
        activated = self.unschedulable.activate(groups)
        if not activated:
            return
        found = {job: each for group in activated for job, each in group.members.items()}
        found.update(self.active)
        self.active = {job: found[job] for job in sorted(found)}
        self._waiting = (-1, ())
        if self.unschedulable.seen is not None:
            for group in activated:
                if group in self.unschedulable.unchecked:
                    self.reasons.skip(*group.members)
                    continue
                for job in group.members:
                    self.reasons.note(job, group.reason)

    @computed.once
    def pools(self) -> NodePools:
        """The nodes as they are now, grouped by the queues and pods that could use them."""
        return self.pools_builder.build(node_pools.pool_nodes(self))

    @computed.once
    def pools_builder(self) -> NodePoolsBuilder:
        """The builder of all node pools in this cycle."""
        return NodePoolsBuilder(self)

    def nowhere(self, task: Task) -> bool:
        """Whether the task earns its queue no share because no node could take the task."""
        queue = self.job_state_of(task).job.queue
        return self.policy.rules.has_no_nodes(self, queue, task.pod_class)

    def pools_before(self, seconds: float) -> NodePools | None:
        """Return the node pools as if no node had lost anything in the last `seconds`; None if no
        node has. Losses are remembered for `seconds`, and a cycle is due when a loss expires.
        """
        lost = self.node_losses.recent(seconds)
        for loss in lost.values():
            self.wake(loss.since + seconds)
        if not lost:
            return None
        return self.pools_builder.build(
            node_loss_grace.nodes_before(self.pools.nodes, lost, self.space)
        )

    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask:
        """Return the nodes (N,) that pods of this class could use if no pods ran there."""
        mask = np.ones(layout.size, dtype=np.bool_)
        for answer in self.dispatch.each(
            AllHooks.class_nodes, dispatch.mask_of, None, pod_class, layout
        ):
            if answer is not None:
                mask &= answer
        return mask

    def queue_nodes(self, queue: Queue, layout: NodeLayout) -> Mask | None:
        """Return the nodes (N,) of the layout that pods of the queue could use; None: all."""
        answers = self.dispatch.each(AllHooks.queue_nodes, dispatch.mask_of, None, queue, layout)
        masks = [answer for answer in answers if answer is not None]
        return np.logical_and.reduce(masks) if masks else None

    def has_nomination(self, task: Task) -> bool:
        """Whether a node was nominated in an earlier cycle, or a reservation served the task."""
        return task.uid in self.snapshot.carried.nominations or task.uid in self.decided.moved_in

    def runs(self, action: str) -> bool:
        """Whether an action of this name is configured."""
        return self.policy.runs(action)

    def reachable(self, task: Task) -> Mask:
        """Return the nodes that the task could use if evictions made space for the task."""
        return self.placement.reachable(task)

    @property
    def free(self) -> Vector:
        """What nodes have free after pending releases, (N, R)."""
        free: Vector = self.cluster.allocatable - self.cluster.future_used
        return free

    @property
    def binds(self) -> Sequence[Bind]:
        """The pods bound so far."""
        return self.decided.binds

    @property
    def evicts(self) -> Mapping[TaskId, Evict]:
        """The pods evicted so far, by task."""
        return self.decided.evicts

    def wake(self, at: float) -> None:
        """Ask for a cycle at this instant, when a decision could change without an event."""
        self.decided.wake(at)

    def statement(self) -> Statement:
        """Return a journal of changes: `with session.statement() as trial: …; trial.commit()`."""
        held = self.held_pods if self.claims.exist else None
        return Statement(self.cluster, self.decided, self.work_budget, held)

    @property
    def work(self) -> Mapping[str, int]:
        """Counts of operations, by kind."""
        return self.work_budget.work
