"""Standing: how much of what queues hold where can stay, once everybody has a fair share.

A queue may be within its share and stand in the way all the same: on nodes that others need, while
its share is waiting for it where only its own pods could go.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import constrained_max_min, max_flow

Amounts = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Where pods are, pinned ones left out: M places, each of one queue, domain and kind."""

    queues: Indices
    """(M,), as the domains and kinds."""
    domains: Indices
    kinds: Indices
    amounts: Amounts
    """(M, R)."""

    def by_kind(self, queues: int, kinds: int) -> Amounts:
        """What each queue holds on nodes of each kind: (Q, N, R)."""
        found = np.zeros((queues, kinds, self.amounts.shape[1]))
        np.add.at(found, (self.queues, self.kinds), self.amounts)
        return found


def staying(problem: constrained_max_min.Problem, deserved: Amounts, held: Held) -> Amounts:
    """How much of each queue's share can be on nodes of each kind: (Q, N, R); inf where it makes no
    difference, as whoever wants the resource can use all of it.

    deserved is (Q, R), what is pinned included; held is within demands and supply. Shares flow to
    where pods are, and elsewhere only as far as they can't all stay there.
    """
    queues, _, resources = problem.demands.shape
    found = np.full((queues, problem.supply.shape[0], resources), np.inf)
    for column in range(resources):
        asked = (problem.demands[:, :, column] > 0).any(axis=0)
        reach = problem.reach[asked][:, problem.supply[:, column] > 0]
        if reach.size and not reach.all():
            found[:, :, column] = _settled(problem, column, deserved[:, column], held)
    return found


def _settled(
    problem: constrained_max_min.Problem, column: int, deserved: Amounts, held: Held
) -> Amounts:
    """The same for one resource: (Q, N)."""
    demands, supply = problem.demands[:, :, column], problem.supply[:, column]
    scale = max(1.0, float(supply.sum()))
    queues, kinds = demands.shape[0], supply.size
    owners, domains = np.nonzero(demands)
    pairs = np.full(demands.shape, -1, dtype=np.intp)
    pairs[owners, domains] = np.arange(owners.size)
    there = np.zeros((owners.size, kinds))
    some = held.amounts[:, column] > 0
    at = (pairs[held.queues[some], held.domains[some]], held.kinds[some])
    np.add.at(there, at, held.amounts[some, column] / scale)
    wanted = np.maximum(deserved - problem.pinned[:, column], 0.0) / scale
    has = max_flow.sums_by(owners, there.sum(axis=1), queues)
    there *= np.minimum(1.0, wanted / np.maximum(has, max_flow.LEAST))[owners, np.newaxis]
    links, ends = np.nonzero(problem.reach[domains] & (supply > 0))
    stays, taken = there[links, ends], there.sum(axis=1)
    bounds = demands[owners, domains] / scale
    network = max_flow.Network(
        size=queues + kinds + owners.size,
        ends=np.concatenate([owners, queues + ends]),
        domains=queues + kinds + np.concatenate([np.arange(owners.size), links]),
        onward=np.concatenate([np.maximum(bounds - taken, 0.0), np.zeros(links.size)]),
        back=np.concatenate([np.zeros(owners.size), np.full(links.size, np.inf)]),
        bounds=np.concatenate([bounds, np.full(links.size, np.inf)]),
        claims=owners.size,
    )
    more, room = np.zeros(network.size), np.zeros(network.size)
    more[:queues] = np.maximum(wanted - has, 0.0)
    room[queues : queues + kinds] = np.maximum(supply / scale - there.sum(axis=0), 0.0)
    network.load(more, room)
    network.settle()
    # What is there only moves for what else doesn't find a way.
    network.back[: owners.size] += taken
    network.onward[owners.size :] += stays
    network.settle()
    found = np.zeros((queues, kinds))
    np.add.at(found, (owners[links], ends), network.onward[owners.size :] * scale)
    return found
