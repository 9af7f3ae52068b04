"""Maximum flow from queues through domains to kinds of nodes, for many components at once.

A queue sends what its pods ask for to the domains (sets of nodes) that the pods can use, and a
domain passes the flow on to kinds of nodes. The method is Dinic's: find the shortest augmenting
paths, push a blocking flow along them, repeat. Queues and kinds are both *ends*: every edge joins
an end and a domain, and flow over an edge can be taken back. A path therefore alternates between
ends and domains, and two arrays of residual capacities describe the network.

Components without a common edge are solved together: numpy takes hardly longer for a hundred
components than for one.
"""

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

ResourceArray = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

NOTHING = 2e-14
"""What rounding may leave of 1. Smaller amounts are not pushed."""
LEAST = 1e-200
"""Stands in for 0 as a divisor."""


class _Layer(NamedTuple):
    """Edges whose heads are all at the same distance from free capacity."""

    edges: Indices
    tails: Indices
    heads: Indices
    free: ResourceArray
    """Residual capacity from tail to head, for all edges of the network."""
    other: ResourceArray
    """Residual capacity from head to tail, for all edges of the network."""


class FlowNetwork(msgspec.Struct, kw_only=True):
    """A flow and its residual network, with V vertices and E edges.

    Amounts are fractions of the total. The first `queue_edges` edges lead from queues to domains.
    The others lead from domains to kinds and are stored in reverse, from kind to domain: the flow
    over such an edge is the residual capacity `onward`.
    """

    size: int
    """The number of vertices, V."""
    ends: Indices
    """The queue or kind of each edge, (E,)."""
    domains: Indices
    """The domain of each edge, (E,)."""
    onward: ResourceArray
    """Residual capacity from the end to the domain, (E,). Of an edge to a kind: its flow."""
    back: ResourceArray
    """Residual capacity from the domain to the end, (E,). Of a queue's edge: its flow; of an edge
    to a kind: inf."""
    bounds: ResourceArray
    """Capacity of each edge, from queue to domain or from domain to kind, (E,)."""
    queue_edges: int
    excess: ResourceArray = msgspec.field(default_factory=lambda: np.zeros(0))
    """Amounts that have reached a vertex and still have to move on, (V,)."""
    residual: ResourceArray = msgspec.field(default_factory=lambda: np.zeros(0))
    """Free capacity of kinds, (V,); 0 for all other vertices."""
    distance: Indices = msgspec.field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """Length of the shortest path to a kind with free capacity, counted from 1; 0 where there is no
    path: (V,)."""

    def keep_edges(self, kept: Flags) -> None:
        """Drop all edges but these, and the flow over them."""
        self.queue_edges = int(np.count_nonzero(kept[: self.queue_edges]))
        self.ends, self.domains = self.ends[kept], self.domains[kept]
        self.onward, self.back = self.onward[kept], self.back[kept]
        self.bounds = self.bounds[kept]

    def load(self, wanted: ResourceArray, supply: ResourceArray) -> None:
        """Start a new problem from the flow of the last one, reduced to what each vertex now sends.

        `wanted` (V,) is what a queue sends, and what enters a domain from outside the network.
        `supply` (V,) is the capacity of kinds. Call `push_to_maximum` afterwards: amounts without a
        path so far are in `excess`.
        """
        ends, domains = self.ends[: self.queue_edges], self.domains[: self.queue_edges]
        sent = sums_by(ends, self.back[: self.queue_edges], self.size)
        # Keeping most of the last flow saves most of the pushes: between two calls few shares
        # change.
        part = _part(wanted, sent)
        less = self.back[: self.queue_edges] * (1.0 - part[ends])
        self.back[: self.queue_edges] -= less
        self.onward[: self.queue_edges] += less
        arrived = sums_by(domains, self.back[: self.queue_edges], self.size)
        excess = wanted - np.minimum(sent, wanted) + arrived
        ends, domains = self.ends[self.queue_edges :], self.domains[self.queue_edges :]
        sent = sums_by(domains, self.onward[self.queue_edges :], self.size)
        self.onward[self.queue_edges :] *= _part(excess, sent)[domains]
        # A kind with more flow than supply gives the difference back as excess.
        gap = supply - sums_by(ends, self.onward[self.queue_edges :], self.size)
        self.residual = np.maximum(gap, 0.0)
        self.excess = np.maximum(excess - sent, 0.0) + np.maximum(-gap, 0.0)

    def push_to_maximum(self) -> None:
        """Push excess along augmenting paths until no more can reach a kind with free capacity.

        Afterwards the flow is maximal. The vertices with distance 0 are the source side of a
        minimum cut: nothing more can leave them.
        """
        while True:
            # Each round blocks all shortest paths, so a vertex that still has excess is farther
            # away in the next round: there are at most as many rounds as vertices, in practice a
            # few.
            layers = self._layers()
            farthest = int((self.distance * (self.excess > NOTHING)).max(initial=0))
            if not farthest:
                return
            self._push(layers[: farthest - 1])

    def _layers(self) -> list[_Layer]:
        """Return the edges of shortest paths to free capacity, nearest layer first.

        The search runs backwards from kinds with free capacity. Layers alternate: into ends, into
        domains, into ends, and so on.
        """
        self.distance = (self.residual > NOTHING).astype(np.intp)
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
        """Push a blocking flow along these layers, farthest layer first.

        A vertex divides its excess among its edges in proportion to how much can flow on behind
        each, and never sends more. Excess left at a vertex has no free path of the current length;
        the next round tries longer paths.
        """
        # First pass, nearest layer first: how much each vertex could pass on. An upper bound, since
        # two vertices may both count on a third one further on.
        potential = self.residual.copy()
        capacities: list[ResourceArray] = []
        for layer in layers:
            capacities.append(np.minimum(layer.free[layer.edges], potential[layer.heads]))
            potential += sums_by(layer.tails, capacities[-1], self.size)
        # Second pass, farthest layer first: a vertex sends when everything from behind has arrived.
        # What goes beyond the vertex's own edges stays there as excess.
        for layer, capacity in zip(reversed(layers), reversed(capacities), strict=True):
            pushed = capacity * _part(self.excess, potential)[layer.tails]
            layer.free[layer.edges] -= pushed
            layer.other[layer.edges] += pushed
            self.excess -= sums_by(layer.tails, pushed, self.size)
            self.excess += sums_by(layer.heads, pushed, self.size)
        np.maximum(self.excess, 0.0, out=self.excess)
        taken = np.minimum(self.residual, self.excess)
        self.residual -= taken
        self.excess -= taken


def _part(amount: ResourceArray, of: ResourceArray) -> ResourceArray:
    """Return how large a fraction of `of` the amount is, at most 1; 0 where both are 0."""
    part: ResourceArray = amount / np.maximum(np.maximum(amount, of), LEAST)
    return part


def sums_by(places: Indices, amounts: ResourceArray, size: int) -> ResourceArray:
    """Return the sum of `amounts` at each of `size` places, as floats.

    The conversion is for empty input, for which numpy's bincount returns integers.
    """
    found: ResourceArray = np.bincount(places, amounts, size).astype(np.float64, copy=False)
    return found
