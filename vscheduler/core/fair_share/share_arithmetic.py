"""Fair shares as arithmetic: Q queues by R resources, in float64.

Rows are queues, columns are resources; units as in model.resources.Amounts.
A Ledger is one queue's row while a cycle changes it, in plain numbers.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import decisions, resources

ResourceArray = NDArray[np.float64]

COUNTED_FINELY = (resources.CPU, resources.MEMORY, "ephemeral-storage", "hugepages-")
"""Resources, or beginnings of their names, whose unit (a milli, a byte) nobody asks for singly."""


def real_capability(
    total: ResourceArray,
    promised: ResourceArray,
    guarantee: ResourceArray,
    capability: ResourceArray,
) -> ResourceArray:
    """The most that each queue can ever have, (Q, R).

    total and promised are (R,): what there is, and the guarantees of all queues, with or without
    jobs. guarantee and capability are (Q, R); an unlimited dimension is inf. What is guaranteed
    to others is out of reach (Volcano: proportion buildQueueAttrs).
    """
    spare = np.maximum(total - promised, 0.0)
    return np.minimum(spare + guarantee, capability)


def water_fill(
    total: ResourceArray,
    weights: ResourceArray,
    request: ResourceArray,
    capability: ResourceArray,
    guarantee: ResourceArray,
) -> ResourceArray:
    """What each queue deserves, (Q, R): `total` (R,) poured out by weight (Q,).

    No queue gets more than it requests or can have, nor less than its guarantee. Volcano
    (proportion OnSessionOpen) pours in rounds until nothing is left or nobody takes more. After
    its first round every queue has its guarantee and only grows, in proportion to its weight, up
    to its limit: where the rounds end is a level for each resource, which is found here by
    sorting. The first round counts the weights of all queues, also of those that want nothing
    of a resource, so it is played as it is.

    A guarantee above the queue's share in that round comes on top of what the others got in it:
    then the sum may exceed the total, in Volcano as here.
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
    """How much per unit of weight what remains of each resource yields, (R,).

    A queue is full at a level of full_at (Q, R). Where there is enough for all, the level is that
    at which the last is full.
    """
    order = np.argsort(full_at, axis=0, kind="stable")
    levels = np.take_along_axis(full_at, order, axis=0)
    rooms = np.take_along_axis(room, order, axis=0)
    taken_before = np.cumsum(rooms, axis=0) - rooms
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
    """The dominant share: the largest part of a resource that is used; 1 where there is none.

    Both are one amount per resource. Plain numbers, since it is asked for single queues and jobs
    at every placement. Volcano: helpers.Share over all dimensions.
    """
    dominant = 0.0
    for has, whole in zip(allocated, deserved, strict=True):
        if has:
            part = has / whole if whole else 1.0
            dominant = max(dominant, part)
    return dominant


def slack(names: Sequence[str]) -> list[float]:
    """By how much an amount may exceed a fair share, for each of these resources.

    Amounts are whole and shares are sums of floats, so 2000 milli may be deserved as 1999.9999.
    Half a unit is far above such errors and far below what anyone asks for; where the unit is a
    whole device it would be half a device, so there it is half a thousandth.
    """
    return [0.5 if name.startswith(COUNTED_FINELY) else 0.0005 for name in names]


class QueueAttributes:
    """What one queue with jobs has and may have, one amount per column."""

    __slots__ = (
        *(
            "allocated",
            "ceiling",
            "deserved",
            "overused_at",
            "kept",
            "limit",
            "nominated_limit",
            "promised",
        ),
        *("real", "share", "reclaim_above"),
    )

    def __init__(self, size: int) -> None:
        self.allocated = [0] * size
        self.promised = [0] * size
        """To admitted groups that don't have it yet, less what groups have above their minimum
        (Volcano: inqueue, elastic)."""
        self.real: list[float] = []
        """The most that it can have in this cluster."""
        self.ceiling: list[float] = []
        """The most that it could have in any: its capability."""
        self.deserved: list[float] = []
        self.kept: list[float] = []
        """What others leave it: what it deserves, or did before nodes lost something just now."""
        self.limit: list[float] = []
        """The most that it may have where a pod asks for something."""
        self.reclaim_above: list[float] = []
        """Having more than this of something, it is above its share."""
        self.nominated_limit: list[float] = []
        """The most that it may have where room was promised to it, by its capability alone."""
        self.overused_at: list[float] = []
        """Having this much of everything, it is overused."""
        self.share: float | None = None
        """Until something changes."""

    def most_above(self, claimant: "QueueAttributes") -> float:
        """The largest part of what it deserves that it has, of anything that the claimant lacks."""
        parts = [
            has / deserved if deserved else math.inf
            for has, deserved, own, enough in zip(
                self.allocated, self.deserved, claimant.allocated, claimant.overused_at, strict=True
            )
            if has and own < enough
        ]
        return max(parts, default=0.0)


def share_after(
    column: int,
    *,
    loser: tuple[QueueAttributes, float],
    claimant: tuple[QueueAttributes, float],
    weight: float,
) -> decisions.ShareAfter:
    """Where the loser ends without an amount of one resource, and the claimant with another one.

    weight is the claimant's by the loser's: who deserves less than its weight would give it is
    compared by its weight.
    """
    theirs, lost = loser
    mine, claimed = claimant
    due = max(mine.deserved[column], weight * theirs.kept[column])
    left, owed = theirs.allocated[column] - lost, theirs.kept[column]
    return decisions.ShareAfter(
        loser=left / owed if owed > 0 else math.inf,
        claimant=(mine.allocated[column] + claimed) / due if due > 0 else 0.0,
    )
