"""Constrained max-min fair shares: queues share nodes that not all of their pods can use.

Ghodsi et al., "Choosy: Max-Min Fair Sharing for Datacenter Jobs with Constraints", EuroSys 2013.
Q queues, C domains (sets of nodes that pods can use), N kinds of nodes, R resources; float64, units
as in model.resources.Amounts. How they are found: docs/decisions/0008-fair-shares-by-flows.md.

Guarantees are cut to what counts of them where they are more than there is:
docs/decisions/0011-guarantees-above-what-there-is.md says why.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import decomposition, share_arithmetic

ResourceArray = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingProblem:
    """Who wants what, and what there is."""

    weights: ResourceArray
    """(Q,), above 0."""
    demands: ResourceArray
    """What each queue's pods have and ask for, by domain: (Q, C, R)."""
    reach: Flags
    """Which kinds of nodes make up each domain: (C, N)."""
    supply: ResourceArray
    """What nodes of each kind give: (N, R)."""
    pinned: ResourceArray
    """What queues hold where nothing more is to be had: theirs in any case, and not part of demands
    or supply, (Q, R)."""
    guarantee: ResourceArray
    """(Q, R), of which no more than `carried_guarantees` counts; what can't be kept all the same is
    reduced in proportion."""
    capability: ResourceArray
    """The most that each queue may have, what is pinned included: (Q, R); inf is no limit."""
    whole: ResourceArray
    """The most that all may have together, what is pinned included: (R,); inf is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What each queue deserves."""

    deserved: ResourceArray
    """(Q, R)."""
    weights: ResourceArray
    """The weights of all queues that stand at the same level in the same room, for a queue that its
    weight limits, else 0: (Q, R). It is 0, too, where a queue stands above that level: by its
    guarantee, or with what nobody at that level can use."""
    by_root: Flags
    """Whether `whole` keeps the queue from what nodes could give it: (Q, R)."""


def shares(problem: SharingProblem) -> Shares:
    """The weighted max-min fair shares among those that a flow from demands to nodes carries."""
    assert (problem.weights > 0.0).all()
    ground = graph(problem)
    guarantee = (problem.guarantee / ground.scale).T.ravel()
    floors = np.maximum(np.minimum(guarantee, ground.limits), ground.pinned)
    if (floors > ground.pinned).any():
        kept = decomposition.Decomposition(ground, np.where(floors > ground.pinned, floors, 1.0))
        kept.divide(ground.pinned, floors)
        floors = kept.shares
    division = decomposition.Decomposition(ground, np.tile(problem.weights, ground.scale.size))
    division.divide(floors, ground.limits)
    table = (ground.scale.size, problem.weights.size)
    by_root = division.by_root_alone().reshape(table).T
    return Shares(
        deserved=np.ascontiguousarray(division.shares.reshape(table).T) * ground.scale,
        weights=np.ascontiguousarray(division.weights_by_room().reshape(table).T),
        by_root=by_root,
    )


def graph(problem: SharingProblem) -> decomposition.FlowGraph:
    """The problem as one graph, without what nobody wants or can use."""
    reach, supply, demands = _merged(problem)
    links: Flags = reach & (supply[:, np.newaxis, :] > 0.0)
    demands = demands * _any(links, 2)[:, np.newaxis, :]
    wanted = _any(demands > 0.0, 1)
    links &= wanted[:, :, np.newaxis]
    used = _any(links, 1)
    supply = supply * used
    plain = ~_any(links != (wanted[:, :, np.newaxis] & used[:, np.newaxis, :]), (1, 2))
    pinned = problem.pinned.T
    total = supply.sum(axis=1) + pinned.sum(axis=1)
    scale = np.ldexp(1.0, np.frexp(total)[1])
    asked = np.minimum(problem.capability.T, pinned + demands.sum(axis=2))
    queues, domains, kinds = demands.shape[1], *links.shape[1:]
    claim = np.nonzero(demands * ~plain[:, np.newaxis, np.newaxis])
    link = np.nonzero(links & ~plain[:, np.newaxis, np.newaxis])
    first_kind = queues * plain.size
    first_domain = first_kind + kinds * plain.size
    return decomposition.FlowGraph(
        scale=scale,
        resource=np.repeat(
            np.tile(np.arange(plain.size), 3), np.repeat((queues, kinds, domains), plain.size)
        ),
        first_kind=first_kind,
        first_domain=first_domain,
        pinned=(pinned / scale[:, np.newaxis]).ravel(),
        limits=(np.maximum(asked, pinned) / scale[:, np.newaxis]).ravel(),
        supply=(supply / scale[:, np.newaxis]).ravel(),
        total=total / scale,
        whole=np.maximum(problem.whole, pinned.sum(axis=1)) / scale,
        plain=plain,
        claims=(claim[0] * queues + claim[1], first_domain + claim[0] * domains + claim[2]),
        bounds=demands[claim] / scale[claim[0]],
        links=(first_kind + link[0] * kinds + link[2], first_domain + link[0] * domains + link[1]),
    )


def _merged(problem: SharingProblem) -> tuple[Flags, ResourceArray, ResourceArray]:
    """Reach (1, C, N), supply (R, N) and demands (R, Q, C), with what is alike as one."""
    reach, supply = problem.reach, problem.supply.T
    demands = problem.demands.transpose(2, 0, 1)
    kinds = _alike(reach.T)
    if len(kinds) < reach.shape[1]:
        supply = np.stack([supply[:, same].sum(axis=1) for same in kinds], axis=1)
        reach = reach[:, [same[0] for same in kinds]]
    domains = _alike(reach)
    if len(domains) < reach.shape[0]:
        demands = np.stack([demands[:, :, same].sum(axis=2) for same in domains], axis=2)
        reach = reach[[same[0] for same in domains]]
    return reach[np.newaxis], supply, demands


def _alike(rows: Flags) -> list[list[int]]:
    """Which rows are equal, in order of the first of each."""
    found: dict[bytes, list[int]] = {}
    for number, row in enumerate(np.ascontiguousarray(rows)):
        found.setdefault(row.tobytes(), []).append(number)
    return list(found.values())


def _any(table: Flags, axis: int | tuple[int, ...]) -> Flags:
    """Where anything is set along an axis."""
    found: Flags = np.logical_or.reduce(table, axis=axis)
    return found


NEAR = 1e-9
"""Amounts that differ by less than this part of them are equal."""


def kept_guarantees(
    total: ResourceArray, weights: ResourceArray, guarantee: ResourceArray
) -> ResourceArray:
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


def fitted_guarantees(
    total: ResourceArray, weights: ResourceArray, guarantee: ResourceArray
) -> ResourceArray:
    """The same, cut once: what is promised below a queue, to fit into what that one is promised."""
    if (guarantee.sum(axis=0) <= total).all():
        return guarantee
    return _fitted(total, weights, guarantee)


def _cut_twice(guarantee: ResourceArray, fits: ResourceArray) -> ResourceArray:
    """Guarantees less twice what they lack once they fit; nothing, where that is more."""
    near = NEAR * guarantee
    short = fits < guarantee - near
    found: ResourceArray = np.where(short, np.maximum(2.0 * fits - guarantee, 0.0), guarantee)
    return found


def _fitted(
    total: ResourceArray, weights: ResourceArray, guarantee: ResourceArray
) -> ResourceArray:
    nothing = np.zeros_like(guarantee)
    return share_arithmetic.water_fill(
        total, weights, guarantee, np.full_like(guarantee, np.inf), nothing
    )


def carried_guarantees(problem: SharingProblem) -> ResourceArray:
    """What of each queue's guarantee counts, (Q, R), by what nodes can give it beside those of
    others: `kept`, where not all pods can use all nodes.

    What a queue asks for where there is no room for it at all is nobody's fault but its own, so
    that nothing is cut for it.
    """
    guarantee = problem.guarantee
    if not guarantee.any():
        return guarantee
    ground = graph(problem)
    beyond = guarantee > np.minimum(_usable(problem), problem.whole)
    due = np.where(beyond, guarantee, np.minimum(guarantee, _alone(problem)))
    table = (ground.scale.size, problem.weights.size)
    weights = np.tile(problem.weights, ground.scale.size)
    limits = np.minimum((due / ground.scale).T.ravel(), ground.limits)
    last = beyond.T.ravel()
    division = decomposition.Decomposition(ground, weights)
    division.divide(ground.pinned, np.where(last, ground.pinned, np.maximum(limits, ground.pinned)))
    if last.any():
        before, division = division.shares, decomposition.Decomposition(ground, weights)
        division.divide(before, np.where(last, np.maximum(limits, before), before))
    fits = np.ascontiguousarray(division.shares.reshape(table).T) * ground.scale
    near = NEAR * np.maximum(ground.total * ground.scale, 1.0)
    cut = _cut_twice(due, fits)
    found: ResourceArray = np.where(fits >= due - near, due, cut)
    return found


def _usable(problem: SharingProblem) -> ResourceArray:
    """What nodes have that each queue wants something on, and what it has pinned: (Q, R)."""
    wants = (problem.demands > 0.0).transpose(2, 0, 1).astype(np.float64)
    kinds = (wants @ problem.reach.astype(np.float64)) > 0.0
    found: ResourceArray = np.einsum("rqn,nr->qr", kinds, problem.supply) + problem.pinned
    return found


def _alone(problem: SharingProblem) -> ResourceArray:
    """At most so much could each queue have if there were no others: (Q, R)."""
    stock = problem.reach.astype(np.float64) @ problem.supply
    found: ResourceArray = np.minimum(problem.demands, stock).sum(axis=1) + problem.pinned
    return found
