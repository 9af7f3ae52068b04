"""Constrained max-min fair shares: queues share nodes that not all of their pods can use.

Ghodsi et al., "Choosy: Max-Min Fair Sharing for Datacenter Jobs with Constraints", EuroSys 2013.
Q queues, C domains (sets of nodes that pods can use), N kinds of nodes, R resources; float64, units
as in model.resources.Amounts. How they are found: docs/decisions/0008-fair-shares-by-flows.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import decomposition

Amounts = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Who wants what, and what there is."""

    weights: Amounts
    """(Q,), above 0."""
    demands: Amounts
    """What each queue's pods have and ask for, by domain: (Q, C, R)."""
    reach: Flags
    """Which kinds of nodes make up each domain: (C, N)."""
    supply: Amounts
    """What nodes of each kind give: (N, R)."""
    pinned: Amounts
    """What queues hold where nothing more is to be had: theirs in any case, and not part of demands
    or supply, (Q, R)."""
    guarantee: Amounts
    """(Q, R), of which no more than `guarantees.carried` counts; what can't be kept all the same is
    reduced in proportion."""
    capability: Amounts
    """The most that each queue may have, what is pinned included: (Q, R); inf is no limit."""
    whole: Amounts
    """The most that all may have together, what is pinned included: (R,); inf is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What each queue deserves."""

    deserved: Amounts
    """(Q, R)."""
    weights: Amounts
    """The weights of all queues that stand at the same level in the same room, for a queue that its
    weight limits, else 0: (Q, R). It is 0, too, where a queue stands above that level: by its
    guarantee, or with what nobody at that level can use."""
    by_root: Flags
    """Whether `whole` keeps the queue from what nodes could give it: (Q, R)."""


def shares(problem: Problem) -> Shares:
    """The weighted max-min fair shares among those that a flow from demands to nodes carries."""
    assert (problem.weights > 0.0).all()
    ground = graph(problem)
    guarantee = (problem.guarantee / ground.scale).T.ravel()
    floors = np.maximum(np.minimum(guarantee, ground.limits), ground.pinned)
    if (floors > ground.pinned).any():
        kept = decomposition.Division(ground, np.where(floors > ground.pinned, floors, 1.0))
        kept.divide(ground.pinned, floors)
        floors = kept.shares
    division = decomposition.Division(ground, np.tile(problem.weights, ground.scale.size))
    division.divide(floors, ground.limits)
    table = (ground.scale.size, problem.weights.size)
    by_root = division.by_root_alone().reshape(table).T
    return Shares(
        deserved=np.ascontiguousarray(division.shares.reshape(table).T) * ground.scale,
        weights=np.ascontiguousarray(division.weights_by_room().reshape(table).T),
        by_root=by_root,
    )


def graph(problem: Problem) -> decomposition.Ground:
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
    return decomposition.Ground(
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


def _merged(problem: Problem) -> tuple[Flags, Amounts, Amounts]:
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
