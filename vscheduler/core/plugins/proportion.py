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

from vscheduler.core.api import contracts, views
from vscheduler.core.fair_share import (
    fair_shares,
    inqueue_resources,
    lending,
    share_arithmetic,
    surplus,
)
from vscheduler.core.model import decisions, durations, jobs, queues, resources

GRACE = "proportion.nodeLossGrace"


class Proportion(contracts.Plugin):
    """Weighted fair shares of queues, with guarantees and capabilities."""

    name = "proportion"
    claims_last = True
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        GRACE: contracts.Argument(str, "30s", parse=durations.seconds),
    }

    waiting_lasts = True
    alike_victims = ("reclaimable", "share_after")
    alike_claimants = ("reclaimable",)
    alike_resources = ("reclaimable",)

    def open(self, session: contracts.Session) -> None:
        """Add up resources held by queues with jobs, and resources promised to their groups."""
        self._session = session
        self._attributes: dict[str, share_arithmetic.QueueAttributes] = {}
        self._requests: dict[jobs.PodClass, list[tuple[int, int]]] = {}
        self._idle: dict[str, share_arithmetic.QueueAttributes] = {}
        """For queues without jobs."""
        self._fair_shares: fair_shares.FairShares | None = None
        self._surpluses: surplus.Surplus | None = None
        """Surplus by nodes, if the place of a queue's share makes a difference."""
        self._slack = share_arithmetic.slack(session.space.names)
        self._pods = session.space.columns[resources.PODS]
        self._nothing = np.zeros(session.space.size)
        self._root: share_arithmetic.RootLimit | None = None
        """The capability of queue root; None if it limits nothing."""
        for queue in session.demands.queues:
            attributes = self._attributes[queue] = share_arithmetic.QueueAttributes(
                session.space.size
            )
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
            held = [each.allocated for each in self._attributes.values()]
            self._root = share_arithmetic.RootLimit(limits.whole.tolist(), held)
        shares = fair_shares.FairShares(session.space, session.pools, limits, limits.weights)
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
            earlier = fair_shares.FairShares(session.space, before, limits, limits.weights)
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
        self._fair_shares = shares
        self._lending = lending.Lending(session, shares, self._attributes)
        if before is None and session.runs("reclaim") and not session.pools.uniform:
            self._surpluses = surplus.Surplus(session, session.pools, shares)

    def queue_key(self, queue: queues.Queue) -> contracts.Key:
        """Return the key: higher spec.priority, then smaller dominant share of deserved amounts."""
        attributes = self._attributes.get(queue.name)
        if attributes is None:
            return (-queue.priority, 0.0)
        if attributes.share is None:
            attributes.share = share_arithmetic.share(attributes.allocated, attributes.deserved)
        return (-queue.priority, attributes.share)

    def overused(self, queue: queues.Queue) -> bool:
        """Whether the queue has all deserved amounts of every resource (Volcano: OverusedFn)."""
        attributes = self._attributes.get(queue.name)
        if attributes is None or self._session.lending:
            return False
        for has, enough in zip(attributes.allocated, attributes.overused_at, strict=True):
            if has < enough:  # all() of a generator costs twice as much, at every turn
                return False
        return True

    def allocatable(self, queue: queues.Queue, task: jobs.Task) -> bool:
        """Whether the queue is open and stays within its share of the requested resources, and all
        queues together within the capability of queue root.

        Pod slots count only if the queue's capability names them (Volcano: AllocatableFn compares
        requested resources, pods aside). If pods were evicted for the task, the queue was entitled
        to the request at the time. A share that has shrunk since doesn't count then, so the
        evictions weren't in vain.
        """
        if not queue.open:
            return False
        attributes = self._attributes_of(task.job)
        allocated, limit = attributes.allocated, attributes.limit
        if self._session.lending:
            limit = self._lending.limit(queue.name, task)
        elif self._session.has_nomination(task):
            limit = attributes.nominated_limit
        for column, amount in self._requests.get(task.pod_class) or self._request(task):
            if allocated[column] + amount > limit[column]:
                return False
        return self._root is None or not self._root.exceeded(self._requests[task.pod_class])

    def queue_outlook(self, queue: queues.Queue) -> Hashable:
        """Return what the queue has and may have, and what root has left."""
        attributes = self._attributes.get(queue.name)
        if attributes is None:
            return None
        together = None if self._root is None else tuple(self._root.allocated)
        return attributes.figures, together

    def queue_limits(self, queue: queues.Queue, task: jobs.Task) -> Sequence[decisions.QueueLimit]:
        """Return what is left of the share, or of the capability, and of root's capability."""
        attributes, most = self._attributes_of(task.job), None
        if self._session.lending:
            most = self._lending.limit(queue.name, task)
        elif self._session.has_nomination(task):
            most = attributes.nominated_limit
        names = self._session.space.names
        found = attributes.limits(names, queue.name, most)
        return found if self._root is None else [*found, *self._root.limits(names)]

    def share_with(self, queue: queues.Queue, tasks: Sequence[jobs.Task]) -> float:
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

    def preemptive(self, queue: queues.Queue, tasks: Sequence[jobs.Task]) -> bool:
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

    def reclaimable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Return pods of queues above their share of a resource the claimant asks for.

        The pod must release some of the resource (Volcano: ReclaimableFn).
        """
        asked = self._requests.get(claimant.pod_class) or self._request(claimant)
        wanted = {column for column, _ in asked if column != self._pods}
        left: dict[share_arithmetic.QueueAttributes, list[int]] = {}
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

    def share_after(
        self, claimant: jobs.Task, claimed: resources.Vector, victims: Sequence[jobs.Task]
    ) -> decisions.ShareAfter | None:
        """Return the shares both queues end with, in the resource most in favour of the eviction.

        A claimant with a small request deserves less than its weight would give. Such a claimant is
        compared by weight: a small request met in full is no advantage.
        """
        mine, theirs = self._attributes_of(claimant.job), self._attributes_of(victims[0].job)
        lost: dict[int, list[int]] = {
            column: []
            for column, _ in self._requests.get(claimant.pod_class) or self._request(claimant)
            if theirs.allocated[column] > theirs.reclaim_above[column] and column != self._pods
        }
        for task in victims:
            for column, amount in self._requests.get(task.pod_class) or self._request(task):
                if column in lost:
                    lost[column].append(amount)
        least = max(1, self._session.job_states[victims[0].job].job.min_member)
        found = [
            share_arithmetic.share_after(
                column,
                loser=(theirs, sum(amounts) - self._slack[column]),
                claimant=(mine, int(claimed[column])),
                weight=self._weight(claimant) / self._weight(victims[0]),
                least=sum(sorted(amounts)[:least]) - self._slack[column],
            )
            for column, amounts in lost.items()
            if amounts
        ]
        return max(found, key=operator.attrgetter("fair", "loser"), default=decisions.WITHIN_SHARE)

    def victim_queue_key(self, claimant: queues.Queue, queue: queues.Queue) -> contracts.Key | None:
        """Return the queue with the most of a deserved amount first, of what the claimant lacks."""
        mine, theirs = self._attributes.get(claimant.name), self._attributes.get(queue.name)
        if mine is None or theirs is None:
            return None
        return -theirs.most_above(mine)

    def _surplus(self, task: jobs.Task, known: dict[tuple[str, int], list[float]]) -> list[float]:
        """Return the surplus of the task's queue on nodes of this kind, less earlier victims.

        A queue within its share can have a surplus as well: the rest of the share is on nodes that
        starved queues can't use. `known` caches the amounts by queue and kind of nodes.
        """
        found = None if self._surpluses is None else self._surpluses.surplus(task)
        place, surplus = found or (("", 0), self._nothing)
        if place not in known:
            known[place] = surplus.tolist()
        return known[place]

    def job_enqueueable(self, state: views.JobState) -> decisions.AdmissionFailure | bool:
        """Whether the queue can have the group's minResources too (Volcano: JobEnqueueableFn).

        Held and promised resources count as taken, less what jobs have above their minimum.
        """
        job = state.job
        queue = self._session.queues[job.queue]
        if not queue.open:
            return decisions.AdmissionFailure(code=decisions.ReasonCode.QUEUE_CLOSED)
        attributes = self._attributes_of(job.id)
        found = []
        for name, asked in sorted(self._asked(state, queue).items()):
            column = self._session.space.columns[name]
            taken = attributes.allocated[column] + attributes.inqueue[column]
            if asked > 0 and taken + asked > attributes.real[column]:
                found.append(
                    decisions.Shortage(
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
        full, code = self._is_full(attributes, found), decisions.ReasonCode
        beside = (self._beside_guarantees(queue.name, attributes, each) for each in found)
        return decisions.AdmissionFailure(
            code=code.QUEUE_FULL if full else code.CLUSTER_FULL,
            shortages=tuple(beside),
            subject="" if full else queue.name,
            exceeded=tuple(self._excess(queue.name, attributes, each) for each in found),
        )

    def _excess(
        self,
        queue: str,
        attributes: share_arithmetic.QueueAttributes,
        shortage: decisions.Shortage,
    ) -> decisions.LimitExcess:
        """Return what the queue would have above its limit."""
        column = self._session.space.columns[shortage.resource]
        elastic = self._session.demands.elastic[queue][column]
        return decisions.LimitExcess(
            queue=queue,
            resource=shortage.resource,
            amount=shortage.allocated + shortage.requested + elastic - shortage.limit,
            promised=attributes.inqueue[column] + elastic,
        )

    def job_enqueued(self, state: views.JobState) -> None:
        """Count the group's minResources as promised."""
        self._add_inqueue(self._attributes_of(state.job.id), self._inqueue_of(state))

    def shortages(self, queue: queues.Queue, task: jobs.Task) -> Sequence[decisions.Shortage]:
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
                decisions.Shortage(
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

    def on_allocate(self, task: jobs.Task) -> None:
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

    def on_deallocate(self, task: jobs.Task) -> None:
        """Stop counting the task."""
        attributes = self._attributes_of(task.job)
        for column, amount in self._requests.get(task.pod_class) or self._request(task):
            attributes.allocated[column] -= amount
            if self._root is not None:
                self._root.allocated[column] -= amount
        attributes.share = None
        if self._surpluses is not None:
            self._surpluses.move(task, -1)

    def entitlements(self) -> Mapping[str, decisions.Entitlement]:
        """Return all entitlements. A queue without jobs deserves at most its guarantee."""
        names = self._session.space.names
        found = {}
        for queue, attributes in {**self._idle, **self._attributes}.items():
            deserved = zip(names, attributes.deserved, strict=True)
            found[queue] = decisions.Entitlement(
                deserved={name: value for name, value in deserved if value},
                real_capability=dict(zip(names, attributes.real, strict=True)),
                share=share_arithmetic.share(attributes.allocated, attributes.deserved),
                bases={} if self._fair_shares is None else self._fair_shares.bases(queue),
            )
        return found

    def _attributes_of(self, job: jobs.JobId) -> share_arithmetic.QueueAttributes:
        return self._attributes[self._session.job_states[job].job.queue]

    def _asked(self, state: views.JobState, queue: queues.Queue) -> resources.ResourceMap:
        """Return the group's minResources, less resources already counted as the queue's.

        Pod slots count only if the queue's capability names them.
        """
        job = state.job
        return {
            name: amount - job.allocated.get(name, 0)
            for name, amount in inqueue_resources.required(state).items()
            if name != resources.PODS or name in queue.capability
        }

    def _inqueue_of(self, state: views.JobState) -> resources.ResourceMap:
        """Return what an admitted group is promised and doesn't have yet."""
        return inqueue_resources.outstanding(state)

    def _is_full(
        self, attributes: share_arithmetic.QueueAttributes, shortages: Sequence[decisions.Shortage]
    ) -> bool:
        """Whether the queue may not have as much in any cluster."""
        return any(
            each.allocated + each.requested > self._ceiling(attributes, each.resource)
            for each in shortages
        )

    def _ceiling(self, attributes: share_arithmetic.QueueAttributes, resource: str) -> float:
        """Return the most of a resource in any cluster: by the queue's capability and root's."""
        column = self._session.space.columns[resource]
        own = attributes.ceiling[column]
        return own if self._root is None else min(own, self._root.limit[column])

    def _beside_guarantees(
        self,
        queue: str,
        attributes: share_arithmetic.QueueAttributes,
        found: decisions.Shortage,
    ) -> decisions.Shortage:
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

    def _weight(self, task: jobs.Task) -> int:
        return self._session.queues[self._session.job_states[task.job].job.queue].weight

    def _add_inqueue(
        self, attributes: share_arithmetic.QueueAttributes, amounts: resources.ResourceMap
    ) -> None:
        for name, amount in amounts.items():
            attributes.inqueue[self._session.space.columns[name]] += amount

    def _add_missing_pods(self, shares: fair_shares.FairShares) -> None:
        """Add the demand of groups whose pods don't exist yet.

        Otherwise no share of the cluster would be left to admit them to. A group larger than its
        queue can ever have is left out.
        """
        columns = self._session.space.columns
        for job in self._session.demands.bounded:
            state = self._session.job_states[job.id]
            if state.phase not in jobs.YOUNG:
                continue
            attributes = self._attributes_of(job.id)
            within = all(
                amount <= attributes.real[columns[name]]
                for name, amount in inqueue_resources.required(state).items()
            )
            if within and self._session.queues[job.queue].open:
                missing = inqueue_resources.missing_pods(state)
                shares.add(job.queue, self._session.space.vector(missing))

    def _nobody(self) -> share_arithmetic.QueueAttributes:
        """Return the attributes of a queue without jobs."""
        attributes = share_arithmetic.QueueAttributes(self._session.space.size)
        attributes.deserved = [0.0] * self._session.space.size
        return attributes

    def _request(self, task: jobs.Task) -> list[tuple[int, int]]:
        """Return the columns and amounts of a request, computed once for each class."""
        row: list[int] = self._session.counted(task).tolist()
        request = [(column, amount) for column, amount in enumerate(row) if amount]
        self._requests[task.pod_class] = request
        return request
