"""Bounds: amounts that pods ask for in total, against what the nodes they may use can give them.

Whoever asks for more than that can't be placed; the converse doesn't hold.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.placement.gang_search import problem

SUBSETS_OF = 6
"""Up to so many kinds, each subset is looked at; of more kinds, only some subsets are."""


@cache
def _subsets(kinds: int) -> NDArray[np.int64]:
    """Return subsets as flags, (S, K)."""
    if kinds <= SUBSETS_OF:
        numbers = np.arange(1, 2**kinds)[:, np.newaxis]
        return (numbers >> np.arange(kinds)) & 1
    ones = np.eye(kinds, dtype=np.int64)
    return np.concatenate([ones, np.tril(np.ones_like(ones))[1:]])


def too_much(
    left: problem.Ints, requests: problem.Ints, places: problem.Ints, free: problem.Ints
) -> bool:
    """Whether some of the kinds ask for more than nodes can give them.

    `left` (K,) pods must be placed, `requests` is (K, R), `places` (K, N) says how many pods of one
    kind a node takes if it takes no others, and `free` is (N, R). With many kinds, the scarcest
    should come first.
    """
    kinds = np.flatnonzero(left)
    if not kinds.size:
        return False
    places, requests, left = (
        np.minimum(places[kinds], left[kinds, np.newaxis]),
        requests[kinds],
        left[kinds],
    )
    order = np.argsort(places.sum(axis=1) - left, kind="stable")
    places, requests, left = places[order], requests[order], left[order]
    subsets = _subsets(kinds.size)
    # What one node gives: no more than it has, and no more than the pods it takes ask for.
    most = subsets @ (places[:, :, np.newaxis] * requests[:, np.newaxis, :]).reshape(kinds.size, -1)
    given = np.minimum(most.reshape(len(subsets), *free.shape), free).sum(axis=1)
    return bool((given < subsets @ (left[:, np.newaxis] * requests)).any())
