"""Arithmetic of fair shares: water-filling, dominant shares, and the attributes of a queue.

Arrays are Q queues by R resources, in float64, in the units of model.resources.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.model import resources
from vscheduler.model.decisions import QueueLimit, ShareAfter, Shortage
from vscheduler.model.queues import ROOT

ResourceArray = NDArray[np.float64]

COUNTED_FINELY = (resources.CPU, resources.MEMORY, "ephemeral-storage", "hugepages-")
"""Resources, or prefixes of resource names, with a unit so small (a milli, a byte) that no request
is for a single unit."""


def real_capability(
    total: ResourceArray,
    guarantees: ResourceArray,
    guarantee: ResourceArray,
    capability: ResourceArray,
) -> ResourceArray:
    """Return the most that each queue can ever have, (Q, R).

    `total` (R,) is what the cluster has, `guarantees` (R,) the guarantees of all queues, with or
    without jobs. `guarantee` and `capability` are (Q, R); inf is no limit. Guarantees of other
    queues are out of reach (Volcano: proportion buildQueueAttrs).
    """
    spare = np.maximum(total - guarantees, 0.0)
    return np.minimum(spare + guarantee, capability)


def water_fill(
    total: ResourceArray,
    weights: ResourceArray,
    request: ResourceArray,
    capability: ResourceArray,
    guarantee: ResourceArray,
) -> ResourceArray:
    """Return what each queue deserves, (Q, R): `total` (R,) poured out by weight (Q,).

    No queue gets more than requested or allowed by the capability, nor less than guaranteed.
    Volcano (proportion OnSessionOpen) pours in rounds until nothing is left or no queue takes more.
    After the first round every queue has the guarantee and only grows, in proportion to the weight,
    up to the limit. The rounds thus end at one level for each resource; sorting finds the level
    directly. The first round counts the weights of all queues, also of queues without a request for
    a resource, and is computed as in Volcano.

    A guarantee above the queue's share in the first round comes on top of the other queues' shares,
    so the sum may exceed the total, as in Volcano.
    """
    weight = weights[:, np.newaxis]
    everyone = float(weights.sum())
    if everyone == 0.0:
        return np.zeros_like(request)
    limit = np.minimum(capability, request)
    first = np.maximum(np.minimum(total * weight / everyone, limit), guarantee)
    remaining = np.maximum(total - first.sum(axis=0), 0.0)
    limit = np.maximum(limit, guarantee)
    room = np.where(weight > 0.0, limit - first, 0.0)
    full_at = np.divide(room, weight, out=np.zeros_like(room), where=weight > 0.0)
    level = _level(remaining, weights, room, full_at)
    full = (full_at <= level) & (weight > 0.0)
    filled: ResourceArray = np.where(full, limit, np.minimum(first + level * weight, limit))
    return filled


def _level(
    remaining: ResourceArray, weights: ResourceArray, room: ResourceArray, full_at: ResourceArray
) -> ResourceArray:
    """Return how much of each resource remains per unit of weight, (R,).

    A queue is full at a level of `full_at` (Q, R). Where enough remains for all queues, the level
    is the highest of these.
    """
    # Between two sorted levels the set of queues still growing is constant, so the amount needed to
    # reach each level follows from cumulative sums, and the result from the first level that needs
    # all that remains.
    order = np.argsort(full_at, axis=0, kind="stable")
    levels = np.take_along_axis(full_at, order, axis=0)
    ordered_room = np.take_along_axis(room, order, axis=0)
    taken_before = np.cumsum(ordered_room, axis=0) - ordered_room
    sorted_weights = weights[order]
    weight_from = np.cumsum(sorted_weights[::-1], axis=0)[::-1]
    needed = taken_before + levels * weight_from
    enough = needed >= remaining
    at = np.argmax(enough, axis=0)[np.newaxis]
    before = np.take_along_axis(taken_before, at, axis=0)[0]
    still = np.take_along_axis(weight_from, at, axis=0)[0]
    level = np.divide(remaining - before, still, out=np.zeros_like(remaining), where=still > 0.0)
    found: ResourceArray = np.where(enough.any(axis=0), np.maximum(level, 0.0), levels[-1])
    return found


def share(allocated: Sequence[float], deserved: Sequence[float]) -> float:
    """Return the dominant share: the largest used fraction of any resource.

    The fraction is 1 if a used resource has a total of 0. Both arguments hold one amount per
    resource. Plain numbers, because placement asks for single queues and jobs all the time.
    Volcano: helpers.Share over all dimensions.
    """
    dominant = 0.0
    for has, whole in zip(allocated, deserved, strict=True):
        if has:
            part = has / whole if whole else 1.0
            if part > dominant:  # noqa: PLR1730 - max() costs more than all of the rest
                dominant = part
    return dominant


def slack(names: Sequence[str]) -> list[float]:
    """Return by how much an amount may exceed a fair share, for each of these resources.

    Amounts are whole numbers and shares are sums of floats, so a share of 2000 milli may come out
    as 1999.9999. Half a unit is far above such errors and far below any request. Where the unit is
    a whole device, half a unit would be half a device, so the slack is half a thousandth.
    """
    return [0.5 if name.startswith(COUNTED_FINELY) else 0.0005 for name in names]


class QueueAttributes:
    """What a queue with jobs has and may have, one amount per column (Volcano: queueAttr)."""

    __slots__ = (
        *(
            "allocated",
            "ceiling",
            "deserved",
            "overused_at",
            "kept",
            "limit",
            "nominated_limit",
            "preempt_limit",
            "inqueue",
        ),
        *("real", "share", "reclaim_above"),
    )

    def __init__(self, size: int) -> None:
        self.allocated = [0] * size
        self.inqueue = [0] * size
        """Reserved for admitted groups that don't have it yet, less what groups have above their
        minimum (Volcano: inqueue, elastic)."""
        self.real: list[float] = []
        """The most that the queue can have in this cluster (Volcano: realCapability)."""
        self.ceiling: list[float] = []
        """The most that the queue could have in any cluster: its capability."""
        self.deserved: list[float] = []
        self.kept: list[float] = []
        """What other queues leave to this one: what it deserves, or deserved before nodes lost
        something just now."""
        self.limit: list[float] = []
        """The most that the queue may have of a resource that a pod asks for."""
        self.reclaim_above: list[float] = []
        """With more than this of a resource, the queue is above its share, and its pods can be
        reclaimed."""
        self.nominated_limit: list[float] = []
        """The most that the queue may have where room was made for a pod by evictions: its
        capability alone counts then."""
        self.preempt_limit: list[float] = []
        """The most that the queue may have after preempt has replaced some of its pods: its share,
        or what it had as the cycle began, within its capability."""
        self.overused_at: list[float] = []
        """With this much of every resource, the queue is overused."""
        self.share: float | None = None
        """The dominant share; None once something has changed."""

    def bound(self, deserved: list[float], slack: Sequence[float]) -> None:
        """Set what the queue deserves, and the limits that follow."""
        self.deserved = deserved
        self.overused_at = [value - room for value, room in zip(deserved, slack, strict=True)]
        self.reclaim_above = [value + room for value, room in zip(deserved, slack, strict=True)]
        self.limit = list(self.reclaim_above)

    @property
    def figures(self) -> tuple[tuple[float, ...], ...]:
        """All that decides whether the queue may have more."""
        limits = (self.limit, self.overused_at, self.deserved, self.ceiling)
        return tuple(self.allocated), *map(tuple, limits)

    def most_above(self, preemptor: "QueueAttributes") -> float:
        """Return the largest allocated fraction of what is deserved, if the preemptor lacks it."""
        parts = [
            has / deserved if deserved else math.inf
            for has, deserved, own, overused_at in zip(
                self.allocated,
                self.deserved,
                preemptor.allocated,
                preemptor.overused_at,
                strict=True,
            )
            if has and own < overused_at
        ]
        return max(parts, default=0.0)

    def limits(self, names: Sequence[str], queue: str, most: Sequence[float]) -> list[QueueLimit]:
        """Return what is left of the most that the queue may have at present, by column."""
        return [
            QueueLimit(
                resource=name,
                room=most[column] - self.allocated[column],
                allocated=self.allocated[column],
                limit=self.ceiling[column] if capped else self.deserved[column],
                owner=queue if capped else "",
            )
            for column, name in enumerate(names)
            if most[column] < math.inf
            for capped in (most[column] >= self.ceiling[column],)
        ]


class RootLimit:
    """What all queues have together, and the most that they may have: queue root's capability."""

    def __init__(self, limit: list[float], held: Sequence[Sequence[int]]) -> None:
        """`limit` (R,) with inf for no limit; `held` is what each queue has, (Q, R)."""
        self.limit = limit
        self.allocated = [sum(column) for column in zip(*held, strict=True)] or [0] * len(limit)

    def exceeded(self, request: Sequence[tuple[int, int]]) -> bool:
        """Whether this much more, by column, would exceed the limit."""
        return any(
            self.allocated[column] + amount > self.limit[column] for column, amount in request
        )

    def limits(self, names: Sequence[str]) -> list[QueueLimit]:
        """Return what is left of the resources that are limited."""
        return [
            QueueLimit(resource=name, room=limit - has, allocated=has, limit=limit, owner=ROOT)
            for name, has, limit in zip(names, self.allocated, self.limit, strict=True)
            if limit < math.inf
        ]

    def shortages(self, names: Sequence[str], request: Sequence[tuple[int, int]]) -> list[Shortage]:
        """Return the resources of which this much more, by column, would exceed the limit."""
        return [
            Shortage(
                resource=names[column],
                requested=amount,
                allocated=self.allocated[column],
                limit=self.limit[column],
                owner=ROOT,
            )
            for column, amount in request
            if self.allocated[column] + amount > self.limit[column]
        ]


def share_after(
    column: int,
    *,
    loser: tuple[QueueAttributes, float],
    preemptor: tuple[QueueAttributes, float],
    weight: float,
    least: float,
) -> ShareAfter:
    """Return the shares of one resource with which a loser and a preemptor end.

    `loser` and `preemptor` are pairs of a queue and the amount lost or gained. `weight` is the
    preemptor's weight divided by the loser's. A preemptor with a small request may deserve less
    than its weight would give. Such a preemptor is compared by weight. `least` is what the victims'
    job holds of it at least while it runs.
    """
    theirs, lost = loser
    mine, demand = preemptor
    due = max(mine.deserved[column], weight * theirs.kept[column])
    left, owed = theirs.allocated[column] - lost, theirs.kept[column]
    return ShareAfter(
        loser=left / owed if owed > 0 else math.inf,
        preemptor=(mine.allocated[column] + demand) / due if due > 0 else 0.0,
        borrowed=least > owed,
    )
