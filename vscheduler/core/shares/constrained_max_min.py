"""Constrained max-min fairness: weighted shares of nodes that not all pods can use.

The definition is Ghodsi et al., "Choosy: Max-Min Fair Sharing for Datacenter Jobs with
Constraints", EuroSys 2013. docs/decisions/0008-fair-shares-by-flows.md says how shares are
computed, docs/decisions/0011-guarantees-above-what-there-is.md how guarantees are cut when nodes
can't give as much.

Array dimensions are Q queues, C domains (sets of nodes that some pods can use), N kinds of nodes
(nodes that are in the same domains) and R resources. Amounts are float64, in the units of
model.resources.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.shares import share_arithmetic
from vscheduler.core.shares.decomposition import Decomposition, FlowGraph

ResourceArray = NDArray[np.float64]
Flags = NDArray[np.bool_]


class SharingProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Demand, supply and limits of all queues: the input of `shares`."""

    weights: ResourceArray
    """(Q,), above 0."""
    demands: ResourceArray
    """What each queue's pods hold and ask for, by domain: (Q, C, R)."""
    reach: Flags
    """Which kinds of nodes are in each domain, (C, N)."""
    supply: ResourceArray
    """What nodes of each kind give, (N, R)."""
    pinned: ResourceArray
    """What queues hold on nodes that take no more of their pods. It belongs to them in any case,
    and is part of neither demands nor supply: (Q, R)."""
    guarantee: ResourceArray
    """Amounts that count as guaranteed, (Q, R): at most what `carried_guarantees` returns. Where
    they still don't all fit, they are reduced in proportion."""
    capability: ResourceArray
    """The most that each queue may have, pinned amounts included: (Q, R); inf is no limit."""
    whole: ResourceArray
    """The most that all queues may have together, pinned amounts included: (R,); inf is no
    limit."""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """The solution of a sharing problem: what each queue deserves."""

    deserved: ResourceArray
    """What each queue deserves, (Q, R)."""
    weights: ResourceArray
    """For a queue that its weight limits: the weights of all queues it competes with at the same
    level, (Q, R). 0 for any other queue, also for one above that level, by its guarantee or with
    nodes that nobody at the level can use."""
    by_root: Flags
    """Whether `whole`, and not the nodes, limits the queue: (Q, R)."""


def shares(problem: SharingProblem) -> Shares:
    """Return the weighted max-min fair shares among all shares that a flow can carry."""
    assert np.logical_and.reduce(problem.weights > 0.0)
    return without_flow(problem) or shares_by_flow(problem)


EXACT = 2.0**53
"""Sums of whole numbers below this are exact, in whatever order they are added up."""


def without_flow(problem: SharingProblem) -> Shares | None:
    """Return the shares if every queue plainly gets all it wants; None if it doesn't, or if that
    isn't as plain. Most clusters are like this most of the time.

    It is plain if all pods can use the same nodes and these suffice; or if each domain can take
    what its pods want from its kinds of nodes in proportion to what they supply, which would be one
    of the flows.
    """
    if _any(problem.guarantee, None):
        return None
    by_domain = np.add.reduce(problem.demands, axis=0)
    wanted = by_domain > 0.0
    in_demand = _any(wanted, 1)
    reach, wanted, by_domain = problem.reach[in_demand], wanted[in_demand], by_domain[in_demand]
    if not len(reach):
        return None
    asked = np.add.reduce(problem.demands, axis=1)
    deserved = np.maximum(np.minimum(problem.capability, problem.pinned + asked), problem.pinned)
    given, most = np.add.reduce(deserved, axis=0), np.add.reduce(problem.pinned, axis=0)
    if len(reach) == 1 or not _any(reach != reach[0], None):
        total = np.add.reduce(problem.supply[reach[0]], axis=0)
        if _any(_any(wanted, 0) & (total == 0.0), None):
            return None
        most += total
        limit = np.minimum(most, problem.whole)
    elif _is_proportionate(reach, problem.supply, by_domain):
        most += np.add.reduce(problem.supply, axis=0)
        limit = problem.whole
    else:
        return None
    if _any(most >= EXACT, None) or _any(given > limit, None):
        return None
    nobody = np.zeros(deserved.shape)
    return Shares(deserved=deserved, weights=nobody, by_root=np.zeros(nobody.shape, dtype=np.bool_))


def _is_proportionate(reach: Flags, supply: ResourceArray, asked: ResourceArray) -> bool:
    """Whether no kind of nodes gives too much if each domain takes what is asked for there, (C, R),
    from its kinds in proportion to what they supply.
    """
    total = reach @ supply
    if _any((asked > 0.0) & (total == 0.0), None):
        return False
    part = np.divide(asked, total, out=np.zeros(asked.shape), where=total > 0.0)
    used = reach.T @ part
    return not _any((used > 1.0 - NEAR) & (supply > 0.0), None)


def shares_by_flow(problem: SharingProblem) -> Shares:
    """Return the same, by flows whether needed or not."""
    flow_graph = graph(problem)
    guarantee = (problem.guarantee / flow_graph.scale).T.ravel()
    # Guarantees come first, as floors. Where no flow carries all of them, they are shared out with
    # themselves as weights, that is, reduced in proportion.
    floors = np.maximum(np.minimum(guarantee, flow_graph.limits), flow_graph.pinned)
    if (floors > flow_graph.pinned).any():
        kept = Decomposition(flow_graph, np.where(floors > flow_graph.pinned, floors, 1.0))
        kept.divide(flow_graph.pinned, floors)
        floors = kept.shares
    fair = Decomposition(flow_graph, np.tile(problem.weights, flow_graph.scale.size))
    fair.divide(floors, flow_graph.limits)
    table = (flow_graph.scale.size, problem.weights.size)
    by_root = fair.by_root_alone().reshape(table).T
    return Shares(
        deserved=np.ascontiguousarray(fair.shares.reshape(table).T) * flow_graph.scale,
        weights=np.ascontiguousarray(fair.weights_by_component().reshape(table).T),
        by_root=by_root,
    )


def graph(problem: SharingProblem) -> FlowGraph:
    """Return the problem as one flow graph, without unwanted resources and unusable nodes.

    A resource is *plain* if every domain in demand contains every kind of nodes that supplies the
    resource.
    """
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
    edge = np.nonzero(demands * ~plain[:, np.newaxis, np.newaxis])
    link = np.nonzero(links & ~plain[:, np.newaxis, np.newaxis])
    first_kind = queues * plain.size
    first_domain = first_kind + kinds * plain.size
    return FlowGraph(
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
        queue_edges=(edge[0] * queues + edge[1], first_domain + edge[0] * domains + edge[2]),
        bounds=demands[edge] / scale[edge[0]],
        links=(first_kind + link[0] * kinds + link[2], first_domain + link[0] * domains + link[1]),
    )


def _merged(problem: SharingProblem) -> tuple[Flags, ResourceArray, ResourceArray]:
    """Return reach (1, C, N), supply (R, N) and demands (R, Q, C), with duplicates merged."""
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
    """Return the indices of equal rows, group by group, in order of each group's first row."""
    found: dict[bytes, list[int]] = {}
    for number, row in enumerate(np.ascontiguousarray(rows)):
        found.setdefault(row.tobytes(), []).append(number)
    return list(found.values())


def _any(table: Flags | ResourceArray, axis: int | tuple[int, ...] | None) -> Flags:
    """Return where anything is set along an axis, or whether anything is; unlike the method, this
    leads to no calls in Python.
    """
    found: Flags = np.logical_or.reduce(table, axis=axis)
    return found


NEAR = 1e-9
"""Amounts that differ by less than this fraction of themselves are equal."""


def kept_guarantees(
    total: ResourceArray, weights: ResourceArray, guarantee: ResourceArray
) -> ResourceArray:
    """Return how much of each guarantee (Q, R) counts, if every queue can use all of `total`.

    Guarantees that fit into `total` (R,) together count in full. Otherwise a guarantee above
    `total` comes last, and the largest of the others, by weight, are cut to one level. A cut
    guarantee then loses the lost amount once more, in favour of queues without guarantees:
    docs/decisions/0011-guarantees-above-what-there-is.md says why.
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
    """Return guarantees cut to fit `total`, but cut once only.

    For children in a tree, which share a parent's guarantee.
    """
    if (guarantee.sum(axis=0) <= total).all():
        return guarantee
    return _fitted(total, weights, guarantee)


def _cut_twice(guarantee: ResourceArray, fits: ResourceArray) -> ResourceArray:
    """Return guarantees less twice the amount that was cut, at least 0."""
    near = NEAR * guarantee
    short = fits < guarantee - near
    found: ResourceArray = np.where(short, np.maximum(2.0 * fits - guarantee, 0.0), guarantee)
    return found


def _fitted(
    total: ResourceArray, weights: ResourceArray, guarantee: ResourceArray
) -> ResourceArray:
    """Return guarantees cut to fit `total`: the largest by weight are cut to one level."""
    nothing = np.zeros_like(guarantee)
    return share_arithmetic.water_fill(
        total, weights, guarantee, np.full_like(guarantee, np.inf), nothing
    )


def carried_guarantees(problem: SharingProblem) -> ResourceArray:
    """Return how much of each guarantee counts, (Q, R), if not all pods can use all nodes.

    The rules of `kept_guarantees` apply, and guarantees fit if a flow carries all of them at once.
    A guarantee is first limited to what the queue could have if the cluster were empty of other
    queues. No other queue is at fault for the difference, so the difference is not deducted twice.
    """
    guarantee = problem.guarantee
    if not guarantee.any():
        return guarantee
    flow_graph = graph(problem)
    beyond = guarantee > np.minimum(_usable(problem), problem.whole)
    due = np.where(beyond, guarantee, np.minimum(guarantee, _alone(problem)))
    table = (flow_graph.scale.size, problem.weights.size)
    weights = np.tile(problem.weights, flow_graph.scale.size)
    limits = np.minimum((due / flow_graph.scale).T.ravel(), flow_graph.limits)
    last = beyond.T.ravel()
    fitted = Decomposition(flow_graph, weights)
    # Guarantees that could be kept by themselves come first. Those above all usable nodes get what
    # is left.
    fitted.divide(
        flow_graph.pinned, np.where(last, flow_graph.pinned, np.maximum(limits, flow_graph.pinned))
    )
    if last.any():
        before, fitted = fitted.shares, Decomposition(flow_graph, weights)
        fitted.divide(before, np.where(last, np.maximum(limits, before), before))
    fits = np.ascontiguousarray(fitted.shares.reshape(table).T) * flow_graph.scale
    # Flows round in proportion to the total, not to a single guarantee.
    near = NEAR * np.maximum(flow_graph.total * flow_graph.scale, 1.0)
    cut = _cut_twice(due, fits)
    found: ResourceArray = np.where(fits >= due - near, due, cut)
    return found


def _usable(problem: SharingProblem) -> ResourceArray:
    """Return all resources on nodes of the domains in demand, plus pinned amounts: (Q, R)."""
    wants = (problem.demands > 0.0).transpose(2, 0, 1).astype(np.float64)
    kinds = (wants @ problem.reach.astype(np.float64)) > 0.0
    found: ResourceArray = np.einsum("rqn,nr->qr", kinds, problem.supply) + problem.pinned
    return found


def _alone(problem: SharingProblem) -> ResourceArray:
    """Return an upper bound of what each queue could have without competitors, (Q, R)."""
    stock = problem.reach.astype(np.float64) @ problem.supply
    found: ResourceArray = np.minimum(problem.demands, stock).sum(axis=1) + problem.pinned
    return found
