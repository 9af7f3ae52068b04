"""Ledgers: what queues have, were promised and may have, in one cycle."""

import math

from vscheduler.core.model import decisions


class Ledger:
    """What one queue with jobs has and may have, one amount per column."""

    __slots__ = (
        *("allocated", "ceiling", "deserved", "enough", "kept", "limit", "most", "promised"),
        *("real", "share", "surely"),
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
        self.surely: list[float] = []
        """Having more than this of something, it is above its share."""
        self.most: list[float] = []
        """The most that it may have where room was promised to it, by its capability alone."""
        self.enough: list[float] = []
        """Having this much of everything, it is overused."""
        self.share: float | None = None
        """Until something changes."""

    def most_above(self, claimant: "Ledger") -> float:
        """The largest part of what it deserves that it has, of anything that the claimant lacks."""
        parts = [
            has / deserved if deserved else math.inf
            for has, deserved, own, enough in zip(
                self.allocated, self.deserved, claimant.allocated, claimant.enough, strict=True
            )
            if has and own < enough
        ]
        return max(parts, default=0.0)


def share_after(
    column: int, *, loser: tuple[Ledger, float], claimant: tuple[Ledger, float], weight: float
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
