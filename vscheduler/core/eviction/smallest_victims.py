"""Smallest victims: which of the victims on a node free enough, and as little more as possible.

A queue may lose only what it has above its share, so the victims that are preferred otherwise may
be too large.
"""

from collections.abc import Sequence

import numpy as np

from vscheduler.core.model.resources import Share, Vector

VICTIMS_MAX = 10
"""Of so many victims on a node, every choice is looked at."""


def order(freed: Sequence[Vector], lacking: Vector) -> list[int] | None:
    """Return the victims to be evicted, the smallest first; None if there is nothing to choose.

    `freed` is what each victim frees on the node, (R,), the preferred victims first, and `lacking`
    what the node lacks, (R,), as far as anything is lacking. As long as a queue has more than its
    share, it may lose one more pod, so the largest comes last.
    """
    scarce = np.flatnonzero(lacking > 0)
    table = _table(freed, lacking)
    choices = _sufficient(table[:, scarce], lacking[scarce])
    if not choices.size:
        return None
    parts = (choices @ table[:, scarce] / lacking[scarce]).sum(axis=1)
    best = np.lexsort((choices.sum(axis=1), parts))[0]
    chosen = np.flatnonzero(choices[best])
    sizes = (table[chosen][:, scarce] / lacking[scarce]).sum(axis=1)
    found: list[int] = chosen[np.argsort(sizes, kind="stable")].tolist()
    return found


def least(freed: Sequence[Vector], lacking: Vector, weights: Share) -> float:
    """Return the least that sufficient victims free in all, weighted; inf if none suffice."""
    scarce = np.flatnonzero(lacking > 0)
    if not scarce.size:
        return 0.0
    table = _table(freed, lacking)
    choices = _sufficient(table[:, scarce], lacking[scarce])
    return float((choices @ (table @ weights)).min()) if choices.size else np.inf


def _table(freed: Sequence[Vector], lacking: Vector) -> Vector:
    """Return what each of the victims frees that are looked at, (V, R)."""
    return np.array(freed[:VICTIMS_MAX], dtype=np.int64).reshape(-1, lacking.size)


def _sufficient(table: Vector, lacking: Vector) -> Vector:
    """Return the choices of victims (C, V) that free what is lacking, each of 0 and 1."""
    if not table.size:
        return table
    choices = (np.arange(1, 2 ** len(table))[:, np.newaxis] >> np.arange(len(table))) & 1
    enough: Vector = choices[(choices @ table >= lacking).all(axis=1)]
    return enough
