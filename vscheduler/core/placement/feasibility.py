"""Feasibility of gangs: jobs that can't start even on empty nodes aren't admitted.

Two upper bounds are checked; no packing is searched for. The nodes usable for a pod class hold a
limited number of its pods, and a gang's smallest total request is at most what all usable nodes
have. A gang within both bounds may still fit nowhere.
"""

from collections.abc import Hashable
from math import inf

import numpy as np
from msgspec.structs import replace

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.memo.never_fitting import Need, Obstacle, Pods
from vscheduler.core.session import reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.shares import inqueue_resources
from vscheduler.model import computed, resources
from vscheduler.model.decisions import Reason, ReasonCode, Shortage
from vscheduler.model.jobs import VALID, Job, PodClass, TaskStatus
from vscheduler.model.queues import ROOT
from vscheduler.model.resources import Vector

CAPACITY_COST = 100
"""About how many microseconds it takes to count the pods of one class that nodes hold."""


class Feasibility:
    """The feasibility of all waiting gangs in one cycle; gangs with equal pods share an answer.

    Usable nodes come from the session's node pools, by taints, selectors, pod size and queue.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._whole = session.dispatch.asks(AllHooks.job_ready)
        """Whether any plugin demands a minimum; otherwise every pod may start by itself."""
        self._needs = f"needs {self._whole}"
        self._known: dict[tuple[str, tuple[Need, ...]], Obstacle | None] = {}
        self._passed: set[Hashable] = set()
        """Queues with what gangs need, of which no obstacle is known."""
        self._capacities: dict[tuple[int, PodClass], int] = {}
        self._totals: dict[frozenset[int], Vector] = {}

    def obstacle(self, state: JobState) -> Obstacle | None:
        """Return the proof that the gang can't start, whatever is evicted; None without a proof."""
        job, whole = state.job, self._whole
        entry = self._session.memos.never_fitting.entries.get(job.id)
        if entry is not None and state.untouched:
            return entry.obstacle
        needs = job.memo(self._needs, lambda: _needs(job, whole=whole))
        if not needs:
            return None
        key = (job.queue, needs)
        if key not in self._known:
            self._known[key] = self._find_alike(*key, state)
        return self._known[key]

    def reason(self, state: JobState, obstacle: Obstacle) -> Reason:
        """Return the obstacle as the reason shown to users."""
        job, need = state.job, obstacle.need
        if obstacle.unplaceable is not None and not obstacle.capped:
            return self._unplaceable(state, obstacle, obstacle.unplaceable)
        minimum = job.min_task_member[need.role] if need.role else job.min_member
        if obstacle.capped:
            return reasons.of(
                state,
                ReasonCode.QUEUE_OVER_SHARE,
                minimum=minimum,
                request=need.pods[0][0].request if len(need.pods) == 1 else {},
                capacity=obstacle.capacity + minimum - need.number,
                shortages=obstacle.capped,
                lacking=need.number,
                never=True,
            )
        return reasons.of(
            state,
            ReasonCode.NEVER_FITS,
            minimum=minimum,
            role=need.role,
            request=need.pods[0][0].request if len(need.pods) == 1 else {},
            capacity=obstacle.capacity + minimum - need.number,
            shortages=obstacle.shortages,
        )

    def _unplaceable(self, state: JobState, obstacle: Obstacle, pod_class: PodClass) -> Reason:
        """Return why no node takes a pod of this class; from an earlier cycle if unchanged."""
        job, known = state.job, self._session.memos.never_fitting
        if job.id in known.entries and state.untouched:
            return known.entries[job.id].reason
        pending = state.tasks(TaskStatus.PENDING)
        task = next(each for each in pending if each.pod_class is pod_class)
        reason = reasons.no_room(self._session, state, task, empty=True)
        if state.untouched and not self._session.placement.follows_pods(task):
            known.add(job, obstacle, reason)
        return reason

    def _find_alike(self, queue: str, needs: tuple[Need, ...], state: JobState) -> Obstacle | None:
        """Return what `_find` does. Gangs whose pods differ only in claims of their own share the
        answer that there is no obstacle; an obstacle names the pods.
        """
        if not any(pod_class.constraints.resource_claims for pod_class, _ in needs[0].pods):
            return self._find(queue, needs, state)
        first_like = self._session.devices.first_like
        alike = tuple(
            (need.number, need.role, *((first_like(each), count) for each, count in need.pods))
            for need in needs
        )
        if (queue, alike) in self._passed:
            return None
        found = self._find(queue, needs, state)
        if found is None:
            self._passed.add((queue, alike))
        return found

    def _find(self, queue: str, needs: tuple[Need, ...], state: JobState) -> Obstacle | None:
        """Return the first obstacle, checking pod counts for each need, then total requests, then
        capabilities.

        Where a capability forbids the pods, more nodes wouldn't help, and the obstacle says so.
        """
        for need in needs:
            capacities = [
                self._capacity_for(queue, pod_class, count) for pod_class, count in need.pods
            ]
            if sum(capacities) < need.number:
                pod_classes = [pod_class for pod_class, _ in need.pods]
                unplaceable = pod_classes[capacities.index(0)] if 0 in capacities else None
                found = Obstacle(need=need, unplaceable=unplaceable, capacity=sum(capacities))
                return replace(found, capped=self._capped(queue, need, state))
        need = needs[0]
        shortages = () if need.role or len(need.pods) == 1 else self._shortages(queue, need)
        capped = self._capped(queue, need, state)
        if not shortages and not capped:
            return None
        return Obstacle(need=need, capacity=need.number, shortages=shortages, capped=capped)

    def _capacity_for(self, queue: str, pod_class: PodClass, wanted: int) -> int:
        """Return how many of the wanted pods empty nodes could hold."""
        pools = self._session.pools
        domain = pools.find_domain(queue, pod_class)
        # Every node of a domain holds at least one pod, so counting is needed only for more pods
        # than nodes. A merged domain has nodes the class can't use; the bound holds all the same.
        if domain is None or wanted <= (size := self._sizes[domain]):
            return wanted
        if not size:
            return 0
        key = (domain, pod_class)
        if key not in self._capacities:
            self._session.spend("seats", CAPACITY_COST)
            request = self._session.space.vector(pod_class.request)
            room = pools.nodes.allocatable[pools.reach[domain][pools.kinds]]
            self._capacities[key] = int(resources.copies(request, room).sum())
        return min(wanted, self._capacities[key])

    def _shortages(self, queue: str, need: Need) -> tuple[Shortage, ...]:
        """Return the resources of which the needed pods request more than all usable nodes have."""
        least, total = self._least(need), self._total(queue, need.pods)
        return tuple(
            Shortage(
                resource=self._session.space.names[column],
                requested=int(least[column]),
                allocated=0,
                limit=int(total[column]),
            )
            for column in np.flatnonzero(least > total).tolist()
        )

    def _least(self, need: Need) -> Vector:
        """Return the smallest total request of the needed number of pods, by resource, (R,)."""
        requests = np.array(
            [self._session.space.vector(pod_class.request) for pod_class, _ in need.pods]
        )
        counts = np.array([count for _, count in need.pods], dtype=np.int64)[:, np.newaxis]
        order = np.argsort(requests, axis=0, kind="stable")
        counts = np.take_along_axis(np.broadcast_to(counts, requests.shape), order, axis=0)
        before = np.cumsum(counts, axis=0) - counts
        taken = np.clip(need.number - before, 0, counts)
        least: Vector = (taken * np.take_along_axis(requests, order, axis=0)).sum(axis=0)
        return least

    def _total(self, queue: str, pods: Pods) -> Vector:
        """Return what all nodes usable for any of these pods have together, (R,)."""
        pools = self._session.pools
        domains = frozenset(pools.domain(queue, pod_class) for pod_class, _ in pods)
        total = self._totals.get(domains)
        if total is None:
            rows = np.any(pools.reach[sorted(domains)], axis=0)[pools.kinds]
            total = self._totals[domains] = pools.nodes.allocatable[rows].sum(axis=0)
        return total

    @computed.once
    def _sizes(self) -> list[int]:
        """The number of nodes in each domain."""
        pools = self._session.pools
        of_kinds = np.bincount(pools.kinds, minlength=pools.reach.shape[1])
        sizes: list[int] = (pools.reach @ of_kinds).tolist()
        return sizes

    def _capped(self, queue: str, need: Need, state: JobState) -> tuple[Shortage, ...]:
        """Return what the pods request beyond the capability of the queue or of an ancestor.

        Only capabilities that a plugin enforces count.
        """
        session, known = self._session, self._session.queues
        line, name = {}, queue
        while name in known and name not in line:
            line[name] = known[name]
            name = known[name].parent or ROOT
        if not any(each.capability for each in line.values()):
            return ()
        least = session.space.amounts(self._least(need))
        if not any(
            least.get(resource, 0) > amount
            for each in line.values()
            for resource, amount in each.capability.items()
        ):
            return ()
        task = next(task for task in state.job.tasks if task.pod_class is need.pods[0][0])
        found: dict[str, Shortage] = {}
        for answer in session.dispatch.every(AllHooks.queue_limits, known[queue], task):
            for each in answer or ():
                owner = each.owner or queue
                most = line[owner].capability.get(each.resource, inf) if owner in line else inf
                # The topmost queue counts, as queues below can't have more in any case.
                if each.nodes is None and each.limit <= most < least.get(each.resource, 0):
                    found[each.resource] = Shortage(
                        resource=each.resource,
                        requested=int(least[each.resource]),
                        allocated=0,
                        limit=most,
                        owner=owner,
                    )
        return tuple(found[name] for name in sorted(found))


def beyond(session: Session, state: JobState) -> tuple[Shortage, ...]:
    """Return the required resources of a group that exceed all nodes usable for its queue.

    The group may have no pods yet, so taints and selectors aren't considered.
    """
    layout = session.layout
    allowed = session.queue_nodes(session.queues[state.job.queue], layout)
    rows = layout.ready if allowed is None else layout.ready & allowed
    whole = session.cluster.allocatable[rows].sum(axis=0)
    devices = session.devices.supply(session.space)
    if devices is not None:
        whole = whole + devices[rows].sum(axis=0)
    total = session.space.amounts(whole)
    return tuple(
        Shortage(resource=name, requested=amount, allocated=0, limit=total.get(name, 0))
        for name, amount in sorted(inqueue_resources.required(state).items())
        if name != resources.PODS and amount > total.get(name, 0)
    )


def _needs(job: Job, *, whole: bool) -> tuple[Need, ...]:
    """Return the pods that the job needs to start; empty while some of them don't exist yet.

    Gated and best-effort pods are assumed to find a node.
    """
    minimum = job.still_needed if whole else 0
    if job.valid_tasks < minimum:
        return ()
    waiting = {
        pod_class: pending
        for pod_class, (_, pending) in job.classes.items()
        if pending and not pod_class.best_effort
    }
    sure = job.ready_tasks + job.pending_best_effort + job.counts[TaskStatus.GATED]
    needs = [Need(max(1, minimum) - sure, tuple(waiting.items()))]
    if whole and job.roles_count:
        needs += [
            _role_need(job, role, least) for role, least in sorted(job.still_needed_of.items())
        ]
    return tuple(need for need in needs if need.number > 0 and need.pods)


def _role_need(job: Job, role: str, least: int) -> Need:
    """Return the pods of one role still missing for the role's minimum."""
    waiting: dict[PodClass, int] = {}
    for task in job.tasks:
        if task.role == role and task.status in VALID:
            if task.status is TaskStatus.PENDING and not task.best_effort:
                waiting[task.pod_class] = waiting.get(task.pod_class, 0) + 1
            else:
                least -= 1
    return Need(least, tuple(waiting.items()), role)
