"""Columns: what pods ask for beside resources, such as devices or volumes, as further resources.

Of things that satisfy several demands, each can be used once. By Hall's theorem, pods fit on a node
if for every set of demands, no more is asked for than satisfies any of them. So each set is a
column, like a resource.
"""

import itertools
from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from vscheduler.core.placement.gang_search.solver import problem
from vscheduler.core.placement.gang_search.solver.problem import Ints, Pool, Problem

SETS_MAX = 4
"""Of how many different demands all sets are columns; of more, the single ones and all of them."""


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """What the pods of a gang ask for and nodes have, by column."""

    requests: Ints
    """(K, C)."""
    free: Ints
    """(N, C)."""
    idle: Ints
    """What of `free` is there without evictions, (N, C)."""
    shared: tuple[Pool, ...] = ()
    """Nodes that share what they have, with room for these columns only."""

    def add_to(self, whole: Problem) -> Problem:
        """Return the problem with these columns. Its own columns come first."""
        plenty = np.full(self.free.shape[1], problem.PLENTY, dtype=np.int64)
        before = np.full(whole.free.shape[1], problem.PLENTY, dtype=np.int64)
        nothing = np.zeros_like(self.free)
        room = whole.queue_room
        return replace(
            whole,
            kinds=tuple(
                replace(
                    kind,
                    request=np.concatenate([kind.request, self.requests[at]]),
                    reserved=None
                    if kind.reserved is None
                    else np.concatenate([kind.reserved, nothing], axis=1),
                )
                for at, kind in enumerate(whole.kinds)
            ),
            free=np.concatenate([whole.free, self.free], axis=1),
            idle=None if whole.idle is None else np.concatenate([whole.idle, self.idle], axis=1),
            queue_room=None if room is None else np.concatenate([room, plenty]),
            pools=(
                *(replace(pool, room=np.concatenate([pool.room, plenty])) for pool in whole.pools),
                *(
                    Pool(rows=each.rows, room=np.concatenate([before, each.room]))
                    for each in self.shared
                    if each.rows.any()
                ),
            ),
        )

    def on(self, rows: Ints) -> "Columns":
        """Return the columns of these nodes alone."""
        return replace(
            self,
            free=self.free[rows],
            idle=self.idle[rows],
            shared=tuple(replace(each, rows=each.rows[rows]) for each in self.shared),
        )


def sets(size: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of so many demands that are columns."""
    if size <= SETS_MAX:
        for count in range(1, size + 1):
            yield from itertools.combinations(range(size), count)
        return
    yield from ((at,) for at in range(size))
    yield tuple(range(size))
