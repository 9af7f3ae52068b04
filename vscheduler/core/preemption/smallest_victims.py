"""Smallest victims: which of the victims on a node free enough, and as little more as possible.

A queue may lose only what it has above its share, so the victims that are preferred otherwise may
be too large.
"""

from collections.abc import Sequence

import numpy as np

from vscheduler.core.model import resources

VICTIMS_MAX = 10
"""Of so many victims on a node, every choice is looked at."""


def order(freed: Sequence[resources.Vector], lacking: resources.Vector) -> list[int] | None:
    """Return the victims to be evicted, the smallest first; None if there is nothing to choose.

    `freed` is what each victim frees on the node, (R,), the preferred victims first, and `lacking`
    what the node lacks, (R,), as far as anything is lacking. As long as a queue has more than its
    share, it may lose one more pod, so the largest comes last.
    """
    scarce = np.flatnonzero(lacking > 0)
    table = np.array(freed[:VICTIMS_MAX]).reshape(-1, lacking.size)[:, scarce]
    if not table.size:
        return None
    choices = (np.arange(1, 2 ** len(table))[:, np.newaxis] >> np.arange(len(table))) & 1
    sums = choices @ table
    choices, sums = (each[(sums >= lacking[scarce]).all(axis=1)] for each in (choices, sums))
    if not choices.size:
        return None
    parts = (sums / lacking[scarce]).sum(axis=1)
    best = np.lexsort((choices.sum(axis=1), parts))[0]
    chosen = np.flatnonzero(choices[best])
    sizes = (table[chosen] / lacking[scarce]).sum(axis=1)
    found: list[int] = chosen[np.argsort(sizes, kind="stable")].tolist()
    return found
