"""The most that can flow from queues through domains to kinds of nodes, for many rooms at once.

Queues and kinds are both "ends": every edge joins an end and a domain, and what flows over it can
be taken back. So what is pushed alternates between ends and domains. Rooms that share no edge are
solved together: a step costs hardly more for a hundred than for one.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ResourceArray = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

NOTHING = 2e-14
"""What rounding may leave of 1: nothing is pushed for less."""
LEAST = 1e-200
"""Instead of 0 where something is divided by it."""


class _Layer(NamedTuple):
    """Edges whose heads are all equally near."""

    edges: Indices
    tails: Indices
    heads: Indices
    free: ResourceArray
    """What may still flow from tail to head, of all edges of the network."""
    other: ResourceArray
    """And from head to tail."""


@dataclass(slots=True, kw_only=True)
class FlowNetwork:
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
    onward: ResourceArray
    """What may still flow from the end to the domain: (E,)."""
    back: ResourceArray
    """What may still flow from the domain to the end, inf to a kind: (E,)."""
    bounds: ResourceArray
    """What may flow from queue to domain, or domain to kind, in all: (E,)."""
    queue_edges: int
    excess: ResourceArray = field(default_factory=lambda: np.zeros(0))
    """What stands at a vertex and has to go on: (V,)."""
    room: ResourceArray = field(default_factory=lambda: np.zeros(0))
    """What a kind still takes: (V,)."""
    distance: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """How far it is to a kind with room, counted from 1; 0 where there is no way: (V,)."""

    def keep(self, kept: Flags) -> None:
        """Forget the other edges, and what flows over them."""
        self.queue_edges = int(np.count_nonzero(kept[: self.queue_edges]))
        self.ends, self.domains = self.ends[kept], self.domains[kept]
        self.onward, self.back = self.onward[kept], self.back[kept]
        self.bounds = self.bounds[kept]

    def load(self, wanted: ResourceArray, supply: ResourceArray) -> None:
        """Let every vertex send what it wants to, on the ways taken so far if it can.

        wanted (V,) counts for queues, and for domains as what flows in beside the edges.
        """
        ends, domains = self.ends[: self.queue_edges], self.domains[: self.queue_edges]
        sent = sums_by(ends, self.back[: self.queue_edges], self.size)
        part = _part(wanted, sent)
        less = self.back[: self.queue_edges] * (1.0 - part[ends])
        self.back[: self.queue_edges] -= less
        self.onward[: self.queue_edges] += less
        arrived = sums_by(domains, self.back[: self.queue_edges], self.size)
        excess = wanted - np.minimum(sent, wanted) + arrived
        ends, domains = self.ends[self.queue_edges :], self.domains[self.queue_edges :]
        sent = sums_by(domains, self.onward[self.queue_edges :], self.size)
        self.onward[self.queue_edges :] *= _part(excess, sent)[domains]
        gap = supply - sums_by(ends, self.onward[self.queue_edges :], self.size)
        self.room = np.maximum(gap, 0.0)
        self.excess = np.maximum(excess - sent, 0.0) + np.maximum(-gap, 0.0)

    def settle(self) -> None:
        """Push all excess on until none of it can reach a kind with room.

        Then what has distance 0 is cut off: no more can flow out of it.
        """
        while True:
            layers = self._layers()
            farthest = int((self.distance * (self.excess > NOTHING)).max(initial=0))
            if not farthest:
                return
            self._push(layers[: farthest - 1])

    def _layers(self) -> list[_Layer]:
        """The shortest ways to room, the nearest first: into ends, into domains, and so on."""
        self.distance = (self.room > NOTHING).astype(np.intp)
        sides = (
            (self.domains, self.ends, self.back, self.onward, self.back > NOTHING),
            (self.ends, self.domains, self.onward, self.back, self.onward > NOTHING),
        )
        layers: list[_Layer] = []
        while True:
            tails, heads, free, other, open_now = sides[len(layers) % 2]
            reached = (self.distance == len(layers) + 1)[heads]
            reached &= open_now
            reached &= (self.distance == 0)[tails]
            edges = reached.nonzero()[0]
            if not edges.size:
                return layers
            layer = _Layer(edges, tails[edges], heads[edges], free, other)
            layers.append(layer)
            self.distance[layer.tails] = len(layers) + 1

    def _push(self, layers: list[_Layer]) -> None:
        """Push along these edges, the farthest first.

        A vertex sends over each edge in proportion to what can flow on behind it, at most all of
        that. So what stays back has no way of this length any more, and a longer one is tried next.
        """
        potential = self.room.copy()
        most: list[ResourceArray] = []
        for layer in layers:
            most.append(np.minimum(layer.free[layer.edges], potential[layer.heads]))
            potential += sums_by(layer.tails, most[-1], self.size)
        for layer, at_most in zip(reversed(layers), reversed(most), strict=True):
            pushed = at_most * _part(self.excess, potential)[layer.tails]
            layer.free[layer.edges] -= pushed
            layer.other[layer.edges] += pushed
            self.excess -= sums_by(layer.tails, pushed, self.size)
            self.excess += sums_by(layer.heads, pushed, self.size)
        np.maximum(self.excess, 0.0, out=self.excess)
        taken = np.minimum(self.room, self.excess)
        self.room -= taken
        self.excess -= taken


def _part(amount: ResourceArray, of: ResourceArray) -> ResourceArray:
    """How large a part of the second the first is, at most 1; 0 of nothing."""
    part: ResourceArray = amount / np.maximum(np.maximum(amount, of), LEAST)
    return part


def sums_by(places: Indices, amounts: ResourceArray, size: int) -> ResourceArray:
    """What is at each place; bincount counts in integers where there is nothing at all."""
    found: ResourceArray = np.bincount(places, amounts, size).astype(np.float64, copy=False)
    return found
