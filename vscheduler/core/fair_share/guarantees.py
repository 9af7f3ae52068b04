"""Guarantees: what of them counts where they are more than there is.

docs/decisions/0011-guarantees-above-what-there-is.md says why. Rows are queues, columns resources;
units as in model.resources.Amounts.
"""

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import constrained_max_min, decomposition, share_arithmetic

Amounts = NDArray[np.float64]

NEAR = 1e-9
"""Amounts that differ by less than this part of them are equal."""


def kept(total: Amounts, weights: Amounts, guarantee: Amounts) -> Amounts:
    """What of each guarantee (Q, R) counts, where all may use all of `total` (R,).

    Guarantees that fit count whole. Else those that are above all there is come last, and of the
    others the largest by weight are cut to one level, so that they fit. Who was cut loses as much
    once more, which is left to those who were promised nothing: see
    docs/decisions/0011-guarantees-above-what-there-is.md.
    """
    if (guarantee.sum(axis=0) <= total).all():
        return guarantee
    beyond = guarantee > total
    modest = _fitted(total, weights, np.where(beyond, 0.0, guarantee))
    left = np.maximum(total - modest.sum(axis=0), 0.0)
    last = _fitted(left, weights, np.where(beyond, guarantee, 0.0))
    return _cut_twice(guarantee, np.where(beyond, last, modest))


def fitted(total: Amounts, weights: Amounts, guarantee: Amounts) -> Amounts:
    """The same, cut once: what is promised below a queue, to fit into what that one is promised."""
    if (guarantee.sum(axis=0) <= total).all():
        return guarantee
    return _fitted(total, weights, guarantee)


def _cut_twice(guarantee: Amounts, fits: Amounts) -> Amounts:
    """Guarantees less twice what they lack once they fit; nothing, where that is more."""
    near = NEAR * guarantee
    short = fits < guarantee - near
    found: Amounts = np.where(short, np.maximum(2.0 * fits - guarantee, 0.0), guarantee)
    return found


def _fitted(total: Amounts, weights: Amounts, guarantee: Amounts) -> Amounts:
    nothing = np.zeros_like(guarantee)
    return share_arithmetic.water_fill(
        total, weights, guarantee, np.full_like(guarantee, np.inf), nothing
    )


def carried(problem: constrained_max_min.Problem) -> Amounts:
    """What of each queue's guarantee counts, (Q, R), by what nodes can give it beside those of
    others: `kept`, where not all pods can use all nodes.

    What a queue asks for where there is no room for it at all is nobody's fault but its own, so
    that nothing is cut for it.
    """
    guarantee = problem.guarantee
    if not guarantee.any():
        return guarantee
    ground = constrained_max_min.graph(problem)
    beyond = guarantee > np.minimum(_usable(problem), problem.whole)
    due = np.where(beyond, guarantee, np.minimum(guarantee, _alone(problem)))
    table = (ground.scale.size, problem.weights.size)
    weights = np.tile(problem.weights, ground.scale.size)
    limits = np.minimum((due / ground.scale).T.ravel(), ground.limits)
    last = beyond.T.ravel()
    division = decomposition.Division(ground, weights)
    division.divide(ground.pinned, np.where(last, ground.pinned, np.maximum(limits, ground.pinned)))
    if last.any():
        before, division = division.shares, decomposition.Division(ground, weights)
        division.divide(before, np.where(last, np.maximum(limits, before), before))
    fits = np.ascontiguousarray(division.shares.reshape(table).T) * ground.scale
    near = NEAR * np.maximum(ground.total * ground.scale, 1.0)
    cut = _cut_twice(due, fits)
    found: Amounts = np.where(fits >= due - near, due, cut)
    return found


def _usable(problem: constrained_max_min.Problem) -> Amounts:
    """What nodes have that each queue wants something on, and what it has pinned: (Q, R)."""
    wants = (problem.demands > 0.0).transpose(2, 0, 1).astype(np.float64)
    kinds = (wants @ problem.reach.astype(np.float64)) > 0.0
    found: Amounts = np.einsum("rqn,nr->qr", kinds, problem.supply) + problem.pinned
    return found


def _alone(problem: constrained_max_min.Problem) -> Amounts:
    """At most so much could each queue have if there were no others: (Q, R)."""
    stock = problem.reach.astype(np.float64) @ problem.supply
    found: Amounts = np.minimum(problem.demands, stock).sum(axis=1) + problem.pinned
    return found
