"""The most that can flow from queues through domains to kinds of nodes, for many rooms at once.

Queues and kinds are both "ends": every edge joins an end and a domain, and what flows over it can
be taken back. So what is pushed alternates between ends and domains. Rooms that share no edge are
solved together: a step costs hardly more for a hundred than for one.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

NOTHING = 2e-14
"""What rounding may leave of 1: nothing is pushed for less."""


@dataclass(slots=True, kw_only=True)
class Network:
    """A flow, and what it leaves. Amounts are parts of what there is; V vertices, E edges.

    The first `claims` edges lead from queues to domains, the others from domains to kinds: those
    are stored the other way round, with what flows over them as what may come back.
    """

    size: int
    """V."""
    ends: Indices
    """The queue or kind of each edge: (E,)."""
    domains: Indices
    """The domain of each edge: (E,)."""
    onward: Amounts
    """What may still flow from the end to the domain: (E,)."""
    back: Amounts
    """What may still flow from the domain to the end, inf to a kind: (E,)."""
    bounds: Amounts
    """What may flow from queue to domain, or domain to kind, in all: (E,)."""
    claims: int
    excess: Amounts = field(default_factory=lambda: np.zeros(0))
    """What stands at a vertex and has to go on: (V,)."""
    room: Amounts = field(default_factory=lambda: np.zeros(0))
    """What a kind still takes: (V,)."""
    distance: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """How far it is to a kind with room, counted from 1; 0 where there is no way: (V,)."""

    def keep(self, kept: Flags) -> None:
        """Forget the other edges, and what flows over them."""
        self.claims = int(np.count_nonzero(kept[: self.claims]))
        self.ends, self.domains = self.ends[kept], self.domains[kept]
        self.onward, self.back = self.onward[kept], self.back[kept]
        self.bounds = self.bounds[kept]

    def load(self, wanted: Amounts, supply: Amounts) -> None:
        """Let every vertex send what it wants to, on the ways taken so far if it can.

        wanted (V,) counts for queues, and for domains as what flows in beside the edges.
        """
        ends, domains = self.ends[: self.claims], self.domains[: self.claims]
        sent = sums_by(ends, self.back[: self.claims], self.size)
        part = _part(wanted, sent)
        less = self.back[: self.claims] * (1.0 - part[ends])
        self.back[: self.claims] -= less
        self.onward[: self.claims] += less
        arrived = sums_by(domains, self.back[: self.claims], self.size)
        excess = wanted - np.minimum(sent, wanted) + arrived
        ends, domains = self.ends[self.claims :], self.domains[self.claims :]
        sent = sums_by(domains, self.onward[self.claims :], self.size)
        self.onward[self.claims :] *= _part(excess, sent)[domains]
        gap = supply - sums_by(ends, self.onward[self.claims :], self.size)
        self.room = np.maximum(gap, 0.0)
        self.excess = np.maximum(excess - sent, 0.0) + np.maximum(-gap, 0.0)

    def settle(self) -> None:
        """Push all excess on until none of it can reach a kind with room.

        Then what has distance 0 is cut off: no more can flow out of it.
        """
        while True:
            layers = self._layers()
            if not ((self.excess > NOTHING) & (self.distance > 0)).any():
                return
            self._push(layers)

    def _layers(self) -> list[Indices]:
        """Edges on shortest ways to room, the nearest first: into ends, into domains, and so on."""
        self.distance = (self.room > NOTHING).astype(np.intp)
        sides = ((self.domains, self.ends, self.back), (self.ends, self.domains, self.onward))
        layers: list[Indices] = []
        while True:
            tails, heads, free = sides[len(layers) % 2]
            reached = (self.distance == len(layers) + 1)[heads]
            reached &= free > NOTHING
            reached &= (self.distance == 0)[tails]
            found = np.flatnonzero(reached)
            if not found.size:
                return layers
            layers.append(found)
            self.distance[tails[found]] = len(layers) + 1

    def _push(self, layers: list[Indices]) -> None:
        """Push along these edges, the farthest first.

        A vertex sends over each edge in proportion to what can flow on behind it, at most all of
        that. So what stays back has no way of this length any more, and a longer one is tried next.
        """
        potential = self.room.copy()
        most: list[Amounts] = []
        for layer, edges in enumerate(layers):
            tails, heads, free, _ = self._side(layer, edges)
            most.append(np.minimum(free[edges], potential[heads]))
            potential += sums_by(tails, most[-1], self.size)
        for layer in reversed(range(len(layers))):
            edges = layers[layer]
            tails, heads, free, other = self._side(layer, edges)
            pushed = most[layer] * _part(self.excess, potential)[tails]
            free[edges] -= pushed
            other[edges] += pushed
            self.excess -= sums_by(tails, pushed, self.size)
            self.excess += sums_by(heads, pushed, self.size)
        np.maximum(self.excess, 0.0, out=self.excess)
        taken = np.minimum(self.room, self.excess)
        self.room -= taken
        self.excess -= taken

    def _side(self, layer: int, edges: Indices) -> tuple[Indices, Indices, Amounts, Amounts]:
        """Tails and heads of a layer's edges; what is free their way, and the other, of all."""
        if layer % 2:
            return self.ends[edges], self.domains[edges], self.onward, self.back
        return self.domains[edges], self.ends[edges], self.back, self.onward


def _part(amount: Amounts, of: Amounts) -> Amounts:
    """How large a part of the second the first is, at most 1."""
    part: Amounts = np.divide(amount, of, out=np.ones_like(of), where=of > amount)
    return part


def sums_by(places: Indices, amounts: Amounts, size: int) -> Amounts:
    """What is at each place; bincount counts in integers where there is nothing at all."""
    found: Amounts = np.bincount(places, amounts, size).astype(np.float64, copy=False)
    return found
