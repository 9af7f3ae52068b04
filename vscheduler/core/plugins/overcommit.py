"""Overcommit: promise no more than a multiple of the cluster's resources.

Volcano: plugins/overcommit. The total is multiplied by a factor, so pods are ready to start when
others end. Volcano counts all ready nodes, no matter who can use them. Here a group is promised
resources on nodes usable for the group's pods.
"""

import math
from collections import defaultdict
from typing import ClassVar

import numpy as np

from vscheduler.core.api.contracts import Argument, Plugin, Session
from vscheduler.core.api.views import JobState
from vscheduler.core.shares import inqueue_resources
from vscheduler.core.shares.reachable_nodes import ReachableNodes
from vscheduler.model import nodes, resources
from vscheduler.model.decisions import AdmissionFailure, LimitExcess, ReasonCode, Shortage
from vscheduler.model.jobs import TaskStatus
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.resources import ResourceMap

FACTOR = "overcommit-factor"

Pool = int
"""A set of nodes: bit n stands for row n."""


class Overcommit(Plugin):
    """Admits groups as long as promised resources stay within the factor."""

    name = "overcommit"
    arguments: ClassVar[dict[str, Argument]] = {
        FACTOR: Argument(float, 1.2, minimum=1.0),
    }

    def open(self, session: Session) -> None:
        """Read the factor. Promises are added up when the first group asks; mostly none does."""
        self._session = session
        self._factor = float(self._values[FACTOR])
        self._counted = False
        size = session.space.size
        self._inqueue: defaultdict[Pool, list[int]] = defaultdict(lambda: [0] * size)
        """What groups were promised and don't have yet, by the nodes their pods may use."""
        self._room_by_pool: dict[Pool, list[float]] = {}
        self._reachable = ReachableNodes(session.reachable)

    def job_enqueueable(self, state: JobState) -> AdmissionFailure | bool:
        """Whether the group's minResources can be promised on top of all earlier promises.

        Both the nodes usable for the group's pods and, for all groups together, all nodes must have
        enough.
        """
        if state.job.min_resources is None:
            return True
        self._count()
        asked = self._asked(state)
        pool = self._pool(state)
        every = pool | self._open
        found = {each: self._shortages(each, asked) for each in (pool, every)}
        short = {each: shortages for each, shortages in found.items() if shortages}
        if not short:
            return True
        return AdmissionFailure(
            code=ReasonCode.CLUSTER_FULL,
            shortages=next(iter(short.values())),
            some_nodes=pool != every and bool(found[pool]),
            exceeded=tuple(
                LimitExcess(
                    queue="",
                    resource=shortage.resource,
                    amount=shortage.allocated + shortage.requested - shortage.limit,
                    promised=shortage.allocated,
                    nodes=places,
                )
                for places, shortages in short.items()
                for shortage in shortages
            ),
        )

    def job_enqueued(self, state: JobState) -> None:
        """Count the group's minResources as promised."""
        if state.job.min_resources is not None:
            self._count()
            self._add_inqueue(state, self._inqueue_of(state))

    def _asked(self, state: JobState) -> ResourceMap:
        """Return the resources the group asks for, without resources allocated already."""
        return inqueue_resources.outstanding(state)

    def _inqueue_of(self, state: JobState) -> ResourceMap:
        """Return what a group is promised when admitted now."""
        return inqueue_resources.outstanding(state)

    def _count(self) -> None:
        """Add up promises of earlier cycles."""
        if self._counted:
            return
        self._counted = True
        self._open = nodes.row_set(self._counted_nodes(self._session.snapshot.nodes.layout))
        left: dict[str, dict[str, int]] = {}
        for state in self._session.promised_jobs:
            if inqueue_resources.holds(state):
                self._add_inqueue(state, self._held(state, left))

    def _counted_nodes(self, layout: NodeLayout) -> Mask:
        """Return the nodes with resources promised to all groups together, (N,)."""
        return layout.ready & layout.schedulable

    def _held(self, state: JobState, left: dict[str, dict[str, int]]) -> ResourceMap:
        """Return what the group was promised before this cycle and doesn't have yet.

        The amounts are capped by what is left to the queue. `left` keeps the rest by queue and
        resource.
        """
        amounts = left.setdefault(state.job.queue, self._limits(state.job.queue))
        return inqueue_resources.within(inqueue_resources.outstanding(state), amounts)

    def _limits(self, queue: str) -> dict[str, int]:
        """Return what a queue may have in addition, for the resources in its capability.

        Groups can't have been promised more, whatever is written into their status.
        """
        names = self._session.space.columns
        held = self._session.demands.held[queue]
        capability = self._session.queues[queue].ceiling(self._session.space).tolist()
        return {
            name: max(0, int(capability[column]) - held[column])
            for name, column in names.items()
            if capability[column] < math.inf
        }

    def _add_inqueue(self, state: JobState, amounts: ResourceMap) -> None:
        """Add amounts to the promises on the group's nodes."""
        if any(amounts.values()):
            inqueue = self._inqueue[self._pool(state)]
            for name, amount in amounts.items():
                inqueue[self._session.space.columns[name]] += amount

    def _shortages(self, pool: Pool, asked: ResourceMap) -> tuple[Shortage, ...]:
        """Return what these nodes can't promise in addition.

        A promise on some of the nodes counts against all of them. Pod slots are ignored (Volcano:
        LessEqualWithDimension).
        """
        room = self._room_by_pool.get(pool)
        if room is None:
            room = self._room_by_pool[pool] = self._room(pool)
        inside = [amounts for other, amounts in self._inqueue.items() if not other & ~pool]
        found = []
        for name, amount in sorted(asked.items()):
            column = self._session.space.columns[name]
            inqueue = sum(amounts[column] for amounts in inside)
            if amount and name != resources.PODS and inqueue + amount > room[column]:
                found.append(
                    Shortage(
                        resource=name,
                        requested=amount,
                        allocated=inqueue,
                        limit=max(0.0, room[column]),
                    )
                )
        return tuple(found)

    def _room(self, pool: Pool) -> list[float]:
        """Return what these nodes may promise: allocatable times the factor, less usage."""
        table = self._session.snapshot.nodes
        rows = _rows(pool, table.layout.size)
        total = table.allocatable[rows].sum(axis=0) * self._factor
        left = total - table.used[rows].sum(axis=0)
        pool_nodes = self._session.pools.nodes
        if pool_nodes.devices is not None:
            left = left + pool_nodes.devices[rows].sum(axis=0) * self._factor
        room: list[float] = left.tolist()
        return room

    def _pool(self, state: JobState) -> Pool:
        """Return the nodes usable for any pending pod of the group.

        For a group without pods, the result is all schedulable nodes.
        """
        if not state.counts[TaskStatus.PENDING]:
            return self._open
        return self._reachable.of(state.tasks(TaskStatus.PENDING))


def _rows(pool: Pool, size: int) -> Mask:
    """Return an integer set of nodes as a mask."""
    packed = np.frombuffer(pool.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=size, bitorder="little").astype(np.bool_)
