"""Proportion: queues share the cluster by weight; what a queue doesn't ask for goes to the others.

Volcano: plugins/proportion. Deserved amounts are computed at the beginning of a cycle, from what
queues hold and ask for, and then limit the queues.
"""

import math
import operator
from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from vscheduler.core.api.contracts import Argument, Key, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.core.shares import inqueue_resources, share_arithmetic
from vscheduler.core.shares.fair_shares import FairShares
from vscheduler.core.shares.lending import Lending
from vscheduler.core.shares.share_arithmetic import QueueAttributes, RootLimit
from vscheduler.core.shares.surplus import Surplus
from vscheduler.model import durations, resources
from vscheduler.model.decisions import (
    WITHIN_SHARE,
    AdmissionFailure,
    Entitlement,
    LimitExcess,
    QueueLimit,
    ReasonCode,
    ShareAfter,
    Shortage,
)
from vscheduler.model.jobs import YOUNG, Job, JobId, PodClass, Task
from vscheduler.model.queues import Queue
from vscheduler.model.resources import ResourceMap, Vector

GRACE = "proportion.nodeLossGrace"


class Proportion(Plugin):
    """Weighted fair shares of queues, with guarantees and capabilities."""

    name = "proportion"
    arguments: ClassVar[Mapping[str, Argument]] = {
        GRACE: Argument(str, "30s", parse=durations.seconds),
    }

    def open(self, session: Session) -> None:
        """Add up resources held by queues with jobs, and resources promised to their groups."""
        self._session = session
        self._attributes: dict[str, QueueAttributes] = {}
        self._requests: dict[PodClass, list[tuple[int, int]]] = {}
        self._idle: dict[str, QueueAttributes] = {}
        """For queues without jobs."""
        self._fair_shares: FairShares | None = None
        self._surpluses: Surplus | None = None
        """Surplus by nodes, if the place of a queue's share makes a difference."""
        self._slack = share_arithmetic.slack(session.space.names)
        self._pods = session.space.columns[resources.PODS]
        self._nothing = np.zeros(session.space.size)
        self._root: RootLimit | None = None
        """The capability of queue root; None if it limits nothing."""
        for queue in session.demands.queues:
            attributes = self._attributes[queue] = QueueAttributes(session.space.size)
            attributes.allocated = list(session.demands.held[queue])
            # What a group has above its minimum counts as given back.
            attributes.inqueue = [-amount for amount in session.demands.elastic[queue]]
        for job in session.demands.bounded:
            state = session.job_states[job.id]
            if inqueue_resources.holds(state):
                self._add_inqueue(self._attributes[job.queue], self._inqueue_of(state))
        for name, amounts in session.demands.promised:
            self._add_inqueue(self._attributes[name], amounts)

    def start(self) -> None:
        """Compute max-min fair shares of the nodes usable for queues' pods."""
        session = self._session
        limits = session.queue_limits
        if np.isfinite(limits.whole).any():
            held = [attribute.allocated for attribute in self._attributes.values()]
            self._root = RootLimit(limits.whole.tolist(), held)
        shares = FairShares(session.space, session.pools, limits, limits.weights)
        rows = zip(limits.names, shares.real.tolist(), limits.capability.tolist(), strict=True)
        for name, real, capability in rows:
            attributes = self._attributes.get(name) or self._idle.setdefault(name, self._nobody())
            attributes.real, attributes.ceiling = real, capability
        self._add_missing_pods(shares)
        deserved = shares.divide().deserved
        # A queue above its share only because of recent node losses doesn't give anything back yet.
        before = session.pools_before(self.seconds(GRACE))
        kept = deserved
        if before is not None:
            earlier = FairShares(session.space, before, limits, limits.weights)
            self._add_missing_pods(earlier)
            kept = np.maximum(deserved, earlier.divide().deserved)
        slack = self._slack
        for name, row, most in zip(limits.names, deserved.tolist(), kept.tolist(), strict=True):
            attributes = self._attributes.get(name) or self._idle[name]
            attributes.bound(row, slack)
            attributes.kept = most
            attributes.reclaim_above = [
                value + room for value, room in zip(most, slack, strict=True)
            ]
            pods = session.queues[name].capability.get(resources.PODS, np.inf)
            attributes.limit[session.space.columns[resources.PODS]] = pods
            attributes.nominated_limit = [
                max(pair) for pair in zip(attributes.limit, attributes.real, strict=True)
            ]
            attributes.preempt_limit = [
                max(share, min(held, real))
                for share, held, real in zip(
                    attributes.limit, attributes.allocated, attributes.real, strict=True
                )
            ]
        self._fair_shares = shares
        self._lending = Lending(session, shares, self._attributes)
        if before is None and session.runs("reclaim") and not session.pools.uniform:
            self._surpluses = Surplus(session, session.pools, shares)

    def queue_key(self, queue: Queue) -> Key:
        """Return the key: higher spec.priority, then smaller dominant share of deserved amounts."""
        attributes = self._attributes.get(queue.name)
        if attributes is None:
            return (-queue.priority, 0.0)
        if attributes.share is None:
            attributes.share = share_arithmetic.share(attributes.allocated, attributes.deserved)
        return (-queue.priority, attributes.share)

    def _figures(self, queue: Queue) -> Hashable:
        """Return what the queue has and may have, and what root has left."""
        attributes = self._attributes.get(queue.name)
        if attributes is None:
            return None
        together = None if self._root is None else tuple(self._root.allocated)
        return attributes.figures, together

    @depends_on(On.QUEUE, fingerprint=_figures)
    def overused(self, queue: Queue) -> bool:
        """Whether the queue has all deserved amounts of every resource (Volcano: OverusedFn)."""
        attributes = self._attributes.get(queue.name)
        if attributes is None or self._session.lending:
            return False
        for has, enough in zip(attributes.allocated, attributes.overused_at, strict=True):
            if has < enough:  # all() of a generator costs twice as much, at every turn
                return False
        return True

    @depends_on(On.CLASS | On.QUEUE, fingerprint=_figures)
    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether the queue is open and stays within its share of the requested resources, and all
        queues together within the capability of queue root.

        Pod slots count only if the queue's capability names them (Volcano: AllocatableFn compares
        requested resources, pods aside). If pods were evicted for the task, the queue was entitled
        to the request at the time. A share that has shrunk since doesn't count then, so the
        evictions weren't in vain. Preempt may replace pods that hold what their queue borrows: the
        queue ends with no more than it had.
        """
        if not queue.open:
            return False
        attributes = self._attributes_of(task.job)
        allocated, limit = attributes.allocated, self._limit(queue, task, attributes)
        for column, amount in self._requests.get(task.pod_class) or self._request(task):
            if allocated[column] + amount > limit[column]:
                return False
        return self._root is None or not self._root.exceeded(self._requests[task.pod_class])

    def queue_limits(self, queue: Queue, task: Task) -> Sequence[QueueLimit]:
        """Return what is left of the share, or of the capability, and of root's capability."""
        attributes, names = self._attributes_of(task.job), self._session.space.names
        found = attributes.limits(names, queue.name, self._limit(queue, task, attributes))
        return found if self._root is None else [*found, *self._root.limits(names)]

    def share_with(self, queue: Queue, tasks: Sequence[Task]) -> float:
        """Return the largest part of its share that the queue would have of these resources."""
        attributes, wanted = self._attributes[queue.name], [0] * self._session.space.size
        for task in tasks:
            for column, amount in self._requests.get(task.pod_class) or self._request(task):
                wanted[column] += amount
        parts = (
            (has + amount) / deserved if deserved else math.inf
            for has, amount, deserved in zip(
                attributes.allocated, wanted, attributes.deserved, strict=True
            )
            if amount
        )
        return max(parts, default=0.0)

    @depends_on(On.CLASS | On.QUEUE, fingerprint=_figures)
    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether the queue is open and deserves these tasks, too (Volcano: PreemptiveFn)."""
        if not queue.open:
            return False
        attributes = self._attributes[queue.name]
        wanted = list(attributes.allocated)
        touched = set()
        for task in tasks:
            for column, amount in self._requests.get(task.pod_class) or self._request(task):
                wanted[column] += amount
                touched.add(column)
        return all(wanted[column] <= attributes.limit[column] for column in touched)

    @depends_on(On.PREEMPTOR_RESOURCES | On.VICTIM_RESOURCES)
    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return pods of queues above their share of a resource the preemptor asks for.

        The pod must release some of the resource (Volcano: ReclaimableFn).
        """
        asked = self._requests.get(preemptor.pod_class) or self._request(preemptor)
        wanted = {column for column, _ in asked if column != self._pods}
        left: dict[QueueAttributes, list[int]] = {}
        gone: dict[tuple[str, int], list[float]] = {}
        victims = []
        for task in candidates:
            attributes = self._attributes_of(task.job)
            allocated = left.setdefault(attributes, list(attributes.allocated))
            request = self._requests.get(task.pod_class) or self._request(task)
            above, surplus = attributes.reclaim_above, self._surplus(task, gone)
            for column, _ in request:  # any() of a generator costs twice as much, for every pod
                if column in wanted and (
                    allocated[column] > above[column] or surplus[column] > self._slack[column]
                ):
                    victims.append(task)
                    for freed, amount in request:
                        allocated[freed] -= amount
                        surplus[freed] -= amount
                    break
        return victims

    @depends_on(On.PREEMPTOR | On.VICTIM_CLASS)
    def share_after(
        self, preemptor: Task, demand: Vector, victims: Sequence[Task]
    ) -> ShareAfter | None:
        """Return the shares both queues end with, in the resource most in favour of the eviction.

        A preemptor with a small request deserves less than its weight would give. Such a preemptor
        is compared by weight: a small request met in full is no advantage.
        """
        mine, theirs = self._attributes_of(preemptor.job), self._attributes_of(victims[0].job)
        lost: dict[int, list[int]] = {
            column: []
            for column, _ in self._requests.get(preemptor.pod_class) or self._request(preemptor)
            if theirs.allocated[column] > theirs.reclaim_above[column] and column != self._pods
        }
        for task in victims:
            for column, amount in self._requests.get(task.pod_class) or self._request(task):
                if column in lost:
                    lost[column].append(amount)
        job = self._session.job_states[victims[0].job].job
        found = [
            share_arithmetic.share_after(
                column,
                loser=(theirs, sum(amounts) - self._slack[column]),
                preemptor=(mine, int(demand[column])),
                weight=self._weight(preemptor) / self._weight(victims[0]),
                least=_least(job, self._session.space.names[column]) - self._slack[column],
            )
            for column, amounts in lost.items()
            if amounts
        ]
        return max(found, key=operator.attrgetter("fair", "loser"), default=WITHIN_SHARE)

    def victim_queue_key(self, preemptor_queue: Queue, queue: Queue) -> Key | None:
        """Return first the queue with the most of what it deserves of what the preemptor lacks."""
        mine = self._attributes.get(preemptor_queue.name)
        theirs = self._attributes.get(queue.name)
        if mine is None or theirs is None:
            return None
        return -theirs.most_above(mine)

    def _surplus(self, task: Task, known: dict[tuple[str, int], list[float]]) -> list[float]:
        """Return the surplus of the task's queue on nodes of this kind, less earlier victims.

        A queue within its share can have a surplus as well: the rest of the share is on nodes that
        starved queues can't use. `known` caches the amounts by queue and kind of nodes.
        """
        found = None if self._surpluses is None else self._surpluses.surplus(task)
        place, surplus = found or (("", 0), self._nothing)
        if place not in known:
            known[place] = surplus.tolist()
        return known[place]

    def job_enqueueable(self, state: JobState) -> AdmissionFailure | bool:
        """Whether the queue can have the group's minResources too (Volcano: JobEnqueueableFn).

        Held and promised resources count as taken, less what jobs have above their minimum.
        """
        job = state.job
        queue = self._session.queues[job.queue]
        if not queue.open:
            return AdmissionFailure(code=ReasonCode.QUEUE_CLOSED)
        attributes = self._attributes_of(job.id)
        found = []
        for name, asked in sorted(self._asked(state, queue).items()):
            column = self._session.space.columns[name]
            taken = attributes.allocated[column] + attributes.inqueue[column]
            if asked > 0 and taken + asked > attributes.real[column]:
                found.append(
                    Shortage(
                        resource=name,
                        requested=asked,
                        allocated=taken,
                        limit=attributes.real[column],
                        elastic=self._session.demands.elastic[job.queue][column],
                    )
                )
        if not found:
            return True
        # Unless it is full, more nodes would help: the queue may have more than the cluster has.
        full, code = self._is_full(attributes, found), ReasonCode
        beside = (self._beside_guarantees(queue.name, attributes, each) for each in found)
        return AdmissionFailure(
            code=code.QUEUE_FULL if full else code.CLUSTER_FULL,
            shortages=tuple(beside),
            subject="" if full else queue.name,
            exceeded=tuple(self._excess(queue.name, attributes, each) for each in found),
        )

    def _excess(
        self,
        queue: str,
        attributes: QueueAttributes,
        shortage: Shortage,
    ) -> LimitExcess:
        """Return what the queue would have above its limit."""
        column = self._session.space.columns[shortage.resource]
        elastic = self._session.demands.elastic[queue][column]
        return LimitExcess(
            queue=queue,
            resource=shortage.resource,
            amount=shortage.allocated + shortage.requested + elastic - shortage.limit,
            promised=attributes.inqueue[column] + elastic,
        )

    def job_enqueued(self, state: JobState) -> None:
        """Count the group's minResources as promised."""
        self._add_inqueue(self._attributes_of(state.job.id), self._inqueue_of(state))

    @depends_on(On.CLASS | On.QUEUE, fingerprint=_figures)
    def shortages(self, queue: Queue, task: Task) -> Sequence[Shortage]:
        """Return the resources of which the task would take the queue above its share."""
        if not queue.open:
            return ()
        attributes = self._attributes_of(task.job)
        names = self._session.space.names
        request = self._requests.get(task.pod_class) or self._request(task)
        found = []
        for column, amount in request:
            has, deserved = attributes.allocated[column], attributes.deserved[column]
            if has + amount <= attributes.limit[column]:
                continue
            # Above the capability in any cluster, or only above the share of this cluster.
            capped = has + amount > attributes.ceiling[column]
            whole = bool(deserved + self._slack[column] >= self._session.total[column])
            found.append(
                Shortage(
                    resource=names[column],
                    requested=amount,
                    allocated=has,
                    limit=attributes.ceiling[column] if capped else deserved,
                    owner=queue.name if capped else "",
                    whole=whole and not capped,
                )
            )
        if not found and self._root is not None:
            found = self._root.shortages(names, request)
        return tuple(sorted(found, key=lambda shortage: shortage.resource))

    def on_allocate(self, task: Task) -> None:
        """Count the task. Resources only reserved so far count as well, as in Volcano."""
        attributes = self._attributes_of(task.job)
        allocated = attributes.allocated
        for column, amount in self._requests.get(task.pod_class) or self._request(task):
            allocated[column] += amount
            if self._root is not None:
                self._root.allocated[column] += amount
        attributes.share = None
        if self._surpluses is not None:
            self._surpluses.move(task, 1)

    def on_deallocate(self, task: Task) -> None:
        """Stop counting the task."""
        attributes = self._attributes_of(task.job)
        for column, amount in self._requests.get(task.pod_class) or self._request(task):
            attributes.allocated[column] -= amount
            if self._root is not None:
                self._root.allocated[column] -= amount
        attributes.share = None
        if self._surpluses is not None:
            self._surpluses.move(task, -1)

    def on_ended(self, amounts: Mapping[str, Vector]) -> None:
        """Stop counting what pods have that will have ended; victims aren't chosen meanwhile."""
        for name, vector in amounts.items():
            attributes = self._attributes.get(name)
            if attributes is None:
                continue
            for column, amount in enumerate(vector.tolist()):
                attributes.allocated[column] -= amount
                if self._root is not None:
                    self._root.allocated[column] -= amount
            attributes.share = None

    def entitlements(self) -> Mapping[str, Entitlement]:
        """Return all entitlements. A queue without jobs deserves at most its guarantee."""
        names = self._session.space.names
        found = {}
        for queue, attributes in {**self._idle, **self._attributes}.items():
            deserved = zip(names, attributes.deserved, strict=True)
            found[queue] = Entitlement(
                deserved={name: value for name, value in deserved if value},
                real_capability=dict(zip(names, attributes.real, strict=True)),
                share=share_arithmetic.share(attributes.allocated, attributes.deserved),
                bases={} if self._fair_shares is None else self._fair_shares.bases(queue),
            )
        return found

    def _limit(self, queue: Queue, task: Task, attributes: QueueAttributes) -> Sequence[float]:
        """Return the most that the queue may have to place the task, by column."""
        if self._session.lending:
            return self._lending.limit(queue.name, task)
        if self._session.has_nomination(task):
            return attributes.nominated_limit
        return attributes.preempt_limit if self._session.preempting else attributes.limit

    def _attributes_of(self, job: JobId) -> QueueAttributes:
        return self._attributes[self._session.job_states[job].job.queue]

    def _asked(self, state: JobState, queue: Queue) -> ResourceMap:
        """Return the group's minResources, less resources already counted as the queue's.

        Pod slots count only if the queue's capability names them.
        """
        job = state.job
        return {
            name: amount - job.allocated.get(name, 0)
            for name, amount in inqueue_resources.required(state).items()
            if name != resources.PODS or name in queue.capability
        }

    def _inqueue_of(self, state: JobState) -> ResourceMap:
        """Return what an admitted group is promised and doesn't have yet."""
        return inqueue_resources.outstanding(state)

    def _is_full(self, attributes: QueueAttributes, shortages: Sequence[Shortage]) -> bool:
        """Whether the queue may not have as much in any cluster."""
        return any(
            shortage.allocated + shortage.requested > self._ceiling(attributes, shortage.resource)
            for shortage in shortages
        )

    def _ceiling(self, attributes: QueueAttributes, resource: str) -> float:
        """Return the most of a resource in any cluster: by the queue's capability and root's."""
        column = self._session.space.columns[resource]
        own = attributes.ceiling[column]
        return own if self._root is None else min(own, self._root.limit[column])

    def _beside_guarantees(
        self,
        queue: str,
        attributes: QueueAttributes,
        found: Shortage,
    ) -> Shortage:
        """Return the shortage with what is kept for other queues, by their guarantees, unless a
        capability is the limit.
        """
        column, shares = self._session.space.columns[found.resource], self._fair_shares
        if shares is None or found.limit >= self._ceiling(attributes, found.resource):
            return found
        kept = shares.guaranteed[:, column].copy()
        kept[shares.places[queue]] = 0.0
        if not kept.any():
            return found
        keepers = (name for name, place in shares.places.items() if kept[place])
        return msgspec.structs.replace(
            found, kept=float(kept.sum()), keepers=tuple(sorted(keepers))
        )

    def _weight(self, task: Task) -> int:
        return self._session.queues[self._session.job_states[task.job].job.queue].weight

    def _add_inqueue(self, attributes: QueueAttributes, amounts: ResourceMap) -> None:
        for name, amount in amounts.items():
            attributes.inqueue[self._session.space.columns[name]] += amount

    def _add_missing_pods(self, shares: FairShares) -> None:
        """Add the demand of groups whose pods don't exist yet.

        Otherwise no share of the cluster would be left to admit them to. A group larger than its
        queue can ever have is left out.
        """
        columns = self._session.space.columns
        for job in self._session.demands.bounded:
            state = self._session.job_states[job.id]
            if state.phase not in YOUNG:
                continue
            attributes = self._attributes_of(job.id)
            within = all(
                amount <= attributes.real[columns[name]]
                for name, amount in inqueue_resources.required(state).items()
            )
            if within and self._session.queues[job.queue].open:
                missing = inqueue_resources.missing_pods(state)
                shares.add(job.queue, self._session.space.vector(missing))

    def _nobody(self) -> QueueAttributes:
        """Return the attributes of a queue without jobs."""
        attributes = QueueAttributes(self._session.space.size)
        attributes.deserved = [0.0] * self._session.space.size
        return attributes

    def _request(self, task: Task) -> list[tuple[int, int]]:
        """Return the columns and amounts of a request, computed once for each class."""
        row: list[int] = self._session.counted(task).tolist()
        request = [(column, amount) for column, amount in enumerate(row) if amount]
        self._requests[task.pod_class] = request
        return request


def _least(job: Job, resource: str) -> int:
    """Return the least that the job holds of a resource while it runs: its smallest pods, as many
    as it needs, or all of them if none may be evicted alone.
    """
    return job.memo(f"least {resource}", lambda: _smallest(job, resource))


def _smallest(job: Job, resource: str) -> int:
    sizes = [(each.counted.get(resource, 0), held) for each, (held, _) in job.classes.items()]
    left = sum(held for _, held in sizes) if job.goes_whole else max(1, job.min_member)
    total = 0
    for size, held in sorted(sizes):
        total += size * min(left, held)
        left -= min(left, held)
    return total
