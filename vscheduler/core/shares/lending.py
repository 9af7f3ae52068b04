"""Lending: how much a queue may have beyond its share, of what no queue can use within its own.

The limits are capabilities, of the queue and of root, and the guarantees of other queues.
"""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.shares.fair_shares import FairShares, QueueLimits
from vscheduler.core.shares.node_pools import NodePools
from vscheduler.core.shares.share_arithmetic import QueueAttributes
from vscheduler.model.jobs import Task
from vscheduler.model.nodes import Mask
from vscheduler.model.resources import Vector

Rows = NDArray[np.float64]


class Session(Protocol):
    """The running cycle, as far as lending reads it."""

    @property
    def free(self) -> Vector:
        """What nodes have free after pending releases, (N, R)."""

    @property
    def pools(self) -> NodePools:
        """The nodes, by the queues and pods that could use them."""

    @property
    def queue_limits(self) -> QueueLimits:
        """Capabilities and guarantees of all queues."""

    def reachable(self, task: Task) -> Mask:
        """Return the nodes the task could use after evictions."""


class Lending:
    """The limits of queues that borrow, in the present state of the session."""

    def __init__(
        self,
        session: Session,
        shares: FairShares,
        attributes: Mapping[str, QueueAttributes],
    ) -> None:
        """`attributes` are those of queues with jobs."""
        self._session, self._shares, self._attributes = session, shares, attributes

    def limit(self, queue: str, task: Task) -> list[float]:
        """Return the most that the queue may have to start the task, by column.

        The capability of root counts by itself, and here together with guarantees.
        """
        limits = self._session.queue_limits
        most, place = np.array(self._attributes[queue].ceiling), limits.places[queue]
        if not limits.guarantees:
            return self._attributes[queue].ceiling
        allocated = np.zeros(limits.capability.shape)
        for name, attributes in self._attributes.items():
            allocated[limits.places[name]] = attributes.allocated
        kept = np.maximum(self._shares.guaranteed - allocated, 0.0)
        kept[place] = 0.0
        room = limits.whole - allocated.sum(axis=0) - kept.sum(axis=0)
        if kept.any():
            room = np.minimum(room, self._beside(kept, self._session.reachable(task)))
        found: list[float] = np.minimum(most, allocated[place] + room).tolist()
        return found

    def _beside(self, kept: Rows, usable: Mask) -> Rows:
        """Return what these nodes have free beside unused guarantees, (R,); inf if none needs any.

        A guarantee, (Q, R), needs these nodes as far as other nodes of its queue don't suffice.
        """
        free = np.maximum(self._session.free, 0)
        kinds = self._session.pools.kinds
        needed = np.zeros(kept.shape[1])
        for place in np.flatnonzero(kept.any(axis=1)).tolist():
            near = self._shares.usable_kinds[place][kinds]
            elsewhere = free[near & ~usable].sum(axis=0)
            common = free[near & usable].sum(axis=0)
            needed += np.minimum(np.maximum(kept[place] - elsewhere, 0.0), common)
        return np.where(needed > 0.0, free[usable].sum(axis=0) - needed, np.inf)
