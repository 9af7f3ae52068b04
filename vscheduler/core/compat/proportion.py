"""VolcanoProportion: plugin proportion with Volcano's shares."""

import operator
from collections.abc import Sequence

import numpy as np

from vscheduler.core.api import views
from vscheduler.core.fair_share import fair_shares, inqueue_resources, share_arithmetic
from vscheduler.core.model import decisions, jobs, queues, resources
from vscheduler.core.plugins import proportion


class VolcanoProportion(proportion.Proportion):
    """Divides what all ready nodes have, by weight alone, between queues with jobs."""

    def start(self) -> None:
        """Work out shares by water filling (Volcano: proportion buildQueueAttrs, OnSessionOpen)."""
        space, known = self._session.space, self._session.queues
        limits = fair_shares.limits(space, known, {})
        names, total = limits.names, self._session.total.astype(np.float64)
        guarantee = np.zeros((len(names), space.size))
        for place, name in enumerate(names):
            guarantee[place] = space.present(known[name].guarantee)
        kept = guarantee.sum(axis=0)
        real = share_arithmetic.real_capability(total, kept, guarantee, limits.capability)
        busy = [place for place, name in enumerate(names) if name in self._attributes]
        for place, name in enumerate(names):
            attributes = self._attributes.get(name) or self._idle.setdefault(name, self._nobody())
            attributes.real = real[place].tolist()
            attributes.ceiling = limits.capability[place].tolist()
        taking_part = {names[place]: self._attributes[names[place]] for place in busy}
        demands = self._session.demands
        request = np.array([demands.held[name] for name in taking_part], dtype=np.float64)
        request += [demands.pending[name] for name in taking_part]
        deserved = share_arithmetic.water_fill(
            total,
            np.array([known[names[place]].weight for place in busy], dtype=np.float64),
            request,
            real[busy],
            guarantee[busy],
        )
        for attributes, row in zip(taking_part.values(), deserved.tolist(), strict=True):
            self._bound(attributes, row, self._slack)
            attributes.limit[space.columns[resources.PODS]] = np.inf
            # A nomination gives no claim to more than the share.
            attributes.nominated_limit = attributes.limit

    def reclaimable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Return pods of queues that have more than they deserve of any resource, whether the
        claimant needs that resource or not (Volcano: proportion ReclaimableFn).
        """
        del claimant
        left: dict[share_arithmetic.QueueAttributes, list[int]] = {}
        victims = []
        for task in candidates:
            attributes = self._attributes_of(task.job)
            allocated = left.setdefault(attributes, list(attributes.allocated))
            if any(map(operator.gt, allocated, attributes.reclaim_above)):
                victims.append(task)
                for column, amount in self._requests.get(task.pod_class) or self._request(task):
                    allocated[column] -= amount
        return victims

    def share_after(
        self, claimant: jobs.Task, claimed: resources.Vector, victims: Sequence[jobs.Task]
    ) -> decisions.ShareAfter | None:
        """Abstain: no shares are compared for a whole plan."""
        del claimant, claimed, victims
        return None

    def victim_queue_key(self, claimant: queues.Queue, queue: queues.Queue) -> None:
        """Abstain: no queue loses pods before another."""

    def job_enqueued(self, state: views.JobState) -> None:
        """Promise the whole minResources to the queue."""
        self._add_inqueue(self._attributes_of(state.job.id), inqueue_resources.minimum(state))

    def _asked(self, state: views.JobState, queue: queues.Queue) -> resources.ResourceMap:
        """Return the whole minResources but pod slots, whatever of these the group has already."""
        del queue
        least = state.job.min_resources or {}
        return {name: amount for name, amount in least.items() if name != resources.PODS}

    def _is_full(
        self, attributes: share_arithmetic.QueueAttributes, shortages: Sequence[decisions.Shortage]
    ) -> bool:
        """Return True: a cluster that is too small is a queue that is full."""
        del attributes, shortages
        return True
