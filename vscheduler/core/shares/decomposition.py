"""Max-min fair shares by decomposition: divide by weight, split where no flow carries the shares.

The shares that a flow can carry form a polymatroid. The weighted max-min fair point of a
polymatroid is found by the decomposition algorithm: Fujishige, "Lexicographically optimal base of a
polymatroid", 1980; Groenevelt, 1991.

1. Share the total by weight alone, as if every queue could use every node.
2. Compute a maximum flow. If the flow carries all shares, the shares are fair.
3. If not, the minimum cut separates queues whose nodes are exhausted from queues that can get more.
   Both sides become components with totals of their own, and each starts again at step 1.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.shares import max_flow
from vscheduler.core.shares.max_flow import FlowNetwork

ResourceArray = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

SAME = 1e-10
"""Fractions of the total closer together than this are equal. Rounding errors are about 1e-14."""
ROUNDING = 1e-13
"""Slack when a level is looked up. Where several levels reach a sum and nobody gets more in
between, the lowest is taken in spite of rounding."""
DONE = -1
"""The component number of vertices that are settled."""


class FlowGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of a sharing problem, all resources in one; amounts are fractions of the total.

    The vertices (V) are first queues, then kinds of nodes, then domains. Within each of the three
    groups, vertices of the first resource come first. R, Q and N are the numbers of resources,
    queues and kinds.
    """

    scale: ResourceArray
    """How many units 1 stands for, (R,). A power of two, so that scaling rounds nothing."""
    resource: Indices
    """The resource of each vertex, (V,)."""
    first_kind: int
    """Index of the first vertex that is a kind of nodes."""
    first_domain: int
    """Index of the first vertex that is a domain."""
    pinned: ResourceArray
    """What each queue holds on nodes that take no more of its pods, (R * Q,)."""
    limits: ResourceArray
    """The most that each queue could use and is allowed to have, (R * Q,)."""
    supply: ResourceArray
    """What each kind of nodes gives, (R * N,)."""
    total: ResourceArray
    """What is supplied and what is pinned, (R,)."""
    whole: ResourceArray
    """The most that may be shared out, by the capability of queue root, (R,)."""
    plain: Flags
    """Resources for which every pod can use every node, so that no flow is needed: (R,)."""
    queue_edges: tuple[Indices, Indices]
    """Edges from queues to the domains in which they ask for something; none for plain
    resources."""
    bounds: ResourceArray
    """How much each of these edges can carry: what the queue asks for in the domain."""
    links: tuple[Indices, Indices]
    """Edges from kinds of nodes to the domains that contain them."""

    def network(self) -> FlowNetwork:
        """Return the flow network of this graph, with no flow in it."""
        few, many = self.bounds.size, self.links[0].size
        return FlowNetwork(
            size=self.resource.size,
            ends=np.concatenate([self.queue_edges[0], self.links[0]]),
            domains=np.concatenate([self.queue_edges[1], self.links[1]]),
            onward=np.concatenate([self.bounds, np.zeros(many)]),
            back=np.concatenate([np.zeros(few), np.full(many, np.inf)]),
            bounds=np.concatenate([self.bounds, np.full(many, np.inf)]),
            queue_edges=few,
        )


class Decomposition:
    """Components of a sharing problem, split until a flow carries what each one shares by weight.

    A component is a set of queues that lack something, with the domains and kinds of nodes they
    share; the sum of the queues' shares is known. At the start each resource has a single
    component.
    """

    def __init__(self, graph: FlowGraph, weights: ResourceArray) -> None:
        self.graph = graph
        self.weights = weights
        self.network = graph.network()
        self.shares = self.floors = self.limits = graph.pinned
        self.component = np.full(graph.resource.size, DONE)
        """The component of each vertex, or DONE."""
        self.sums = np.zeros(0)
        """What the queues of each component get together."""
        self.joint = np.zeros(0, dtype=np.bool_)
        """Whether a component's sum is a given amount, by root's capability or of a plain resource,
        instead of what its kinds of nodes supply."""
        self.by_root = np.zeros(graph.scale.size, dtype=np.bool_)
        """Whether root's capability leaves less of a resource than nodes give, (R,)."""
        self.supply = np.zeros(graph.resource.size)
        self.supply[graph.first_kind : graph.first_domain] = graph.supply
        self.fixed = np.zeros(graph.resource.size)
        """What flows over edges between components: for a queue what it gets outside its component
        and what it has pinned, for a domain what it passes on for queues of other components,
        (V,)."""
        self.fixed[: graph.first_kind] = graph.pinned
        self.at_level = np.zeros(graph.first_kind, dtype=np.bool_)
        """Whether a queue ended at its component's level, limited neither by its floor nor by its
        limit."""
        self.label = np.arange(graph.resource.size)
        """Labels of connected vertices, for `weights_by_component`: the vertex's own index at
        first, -1 - resource for all vertices of a component with a given sum."""
        self.edges: list[tuple[Indices, Indices]] = []
        """Edges inside settled components, for `weights_by_component`."""

    def divide(self, floors: ResourceArray, limits: ResourceArray) -> None:
        """Compute the shares: no queue gets less than its floor or more than its limit."""
        self.floors, self.limits, self.shares = floors, limits, limits.copy()
        self._open()
        while (self.component[: self.graph.first_kind] != DONE).any():
            self._finish(self._share_out())
            self._cut(self._flow(self.component != DONE))

    def _open(self) -> None:
        """Make the first components, of queues that lack something if all take all they can."""
        graph, resources = self.graph, self.graph.scale.size
        self._flow(np.ones(graph.resource.size, dtype=np.bool_))
        wanted = max_flow.sums_by(graph.resource[: graph.first_kind], self.shares, resources)
        stuck = max_flow.sums_by(graph.resource, self.network.excess, resources)
        left = max_flow.sums_by(graph.resource, self.network.residual, resources)
        # How much can be shared out at all. A plain resource needs no flow for that.
        most = np.where(graph.plain, np.minimum(wanted, graph.total), graph.total - left)
        self.by_root = most > graph.whole * (1.0 + SAME)
        self.joint = self.by_root | graph.plain
        lacking = self.by_root | np.where(graph.plain, wanted - most > SAME, stuck > SAME)
        # The source side of the cut: queues that want more, and the exhausted kinds of nodes they
        # share. All other queues have everything they want and are settled. Where the sum itself is
        # the limit, no kind of nodes need be exhausted, so all queues of the resource are in.
        apart = (self.network.distance == 0) | self.joint[graph.resource]
        self.component = np.where(apart & lacking[graph.resource], graph.resource, DONE)
        self.sums = np.where(self.by_root, graph.whole, graph.total)
        self._separate()

    def _flow(self, open_now: Flags) -> ResourceArray:
        """Send the present shares of these vertices through the network; return the excess."""
        graph = self.graph
        wanted = self.fixed.copy()
        wanted[: graph.first_kind] = self.shares - wanted[: graph.first_kind]
        self.network.load(wanted * open_now, self.supply * open_now)
        self.network.push_to_maximum()
        return self.network.excess

    def _share_out(self) -> Flags:
        """Share the sum of each component by weight, and return the components settled thereby.

        Without a flow, a component is settled if its resource is plain, or if at most one of its
        queues can get more or less.
        """
        graph, count = self.graph, self.sums.size
        queues = np.flatnonzero(self.component[: graph.first_kind] != DONE)
        component, weights = self.component[queues], self.weights[queues]
        floors = np.maximum(self.floors, self.fixed[: graph.first_kind])[queues]
        limits = np.minimum(np.minimum(self.limits, self._usable())[queues], self.sums[component])
        limits = np.maximum(limits, floors)
        by_weight = levels(component, weights, floors, limits, self.sums)[component] * weights
        self.shares[queues] = np.clip(by_weight, floors, limits)
        self.at_level[queues] = (
            (by_weight >= floors * (1.0 - SAME))
            & (by_weight <= limits * (1.0 + SAME))
            & (self.shares < self.limits * (1.0 - SAME))[queues]
        )
        plain = np.zeros(count, dtype=np.bool_)
        plain[: graph.scale.size] = graph.plain
        return plain | (np.bincount(component, floors < limits, count) <= 1.0)

    def _usable(self) -> ResourceArray:
        """Return an upper bound for each queue, by demand inside and shares outside components."""
        graph, network = self.graph, self.network
        queue_edges = slice(0, network.queue_edges)
        usable = max_flow.sums_by(
            network.ends[queue_edges], network.bounds[queue_edges], graph.resource.size
        )
        usable += self.fixed
        usable[: graph.first_kind][graph.plain[graph.resource[: graph.first_kind]]] = np.inf
        return usable[: graph.first_kind]

    def _cut(self, excess: ResourceArray) -> None:
        """Split components whose shares no flow carries, and settle all other components.

        Vertices on the source side of the minimum cut become a component of their own.
        """
        queues, count = self.graph.first_kind, self.sums.size
        inside = self.component != DONE
        # `late` components have shares that can't all arrive. Their cut-off queues (`apart`) have
        # too large a share by weight, the remaining ones too small a share.
        late = max_flow.sums_by(self.component[inside], excess[inside], count) > SAME
        apart = inside & (self.network.distance == 0)
        every = np.bincount(self.component[:queues][inside[:queues]], minlength=count)
        some = np.bincount(self.component[:queues][apart[:queues]], minlength=count)
        # A cut with all queues on one side is rounding: nothing is left to tell apart.
        split = late & (some > 0) & (some < every)
        self._finish(~split)
        apart &= self.component != DONE
        number = count + np.cumsum(split) - 1
        self.component[apart] = number[self.component[apart]]
        old = np.flatnonzero(split)
        self.sums = np.concatenate([self.sums, np.zeros(old.size)])
        self.joint = np.concatenate([self.joint, np.zeros(old.size, dtype=np.bool_)])
        before = self.sums[old]
        self._separate()
        # A given sum isn't in the supply, so the old component keeps what the new one doesn't take.
        self.sums[old] = np.where(self.joint[old], before - self.sums[count:], self.sums[old])

    def _separate(self) -> None:
        """Remove edges between components, and compute the sum of each component.

        An edge of a minimum cut is full in one direction and empty in the other: a full edge leads
        from a queue in the newer component to a domain in an older one.
        """
        network, graph, count = self.network, self.graph, self.sums.size
        end, domain = self.component[network.ends], self.component[network.domains]
        full = np.flatnonzero(end[: network.queue_edges] > domain[: network.queue_edges])
        for side in (network.ends, network.domains):
            self.fixed += max_flow.sums_by(side[full], network.bounds[full], self.fixed.size)
        network.keep_edges((end == domain) & (end != DONE))
        # A component shares what its kinds supply and what its queues have outside, less what its
        # domains pass on for queues of other components.
        sums = self.supply + self.fixed
        sums[graph.first_domain :] *= -1.0
        inside = self.component != DONE
        found = max_flow.sums_by(self.component[inside], sums[inside], count)
        self.sums = np.where(self.joint, self.sums, found)

    def _finish(self, components: Flags) -> None:
        """Settle these components: the present shares are final."""
        network, graph = self.network, self.graph
        leaving = (self.component != DONE) & components[self.component]
        joint = leaving & self.joint[self.component]
        self.label[joint] = -1 - graph.resource[joint]
        gone = leaving[network.ends]
        if gone.any():
            self.edges.append((network.ends[gone], network.domains[gone]))
            network.keep_edges(~gone)
        self.component[leaving] = DONE

    def by_root_alone(self) -> Flags:
        """Return which queues root's capability limits instead of nodes, (R * Q,)."""
        queues = slice(self.graph.first_kind)
        found: Flags = self.by_root[self.graph.resource[queues]] & (self.label[queues] < 0)
        return found

    def weights_by_component(self) -> ResourceArray:
        """Return the total weight of the queues with which each queue at a level competes.

        Queues compete if they stand at the level of their component, and common domains and kinds
        of nodes join them, directly or through further queues. For a queue limited by a floor or a
        limit the result is 0.
        """
        graph, label = self.graph, self.label.copy()
        ends = np.concatenate([ends for ends, _ in self.edges] or [np.zeros(0, dtype=np.intp)])
        domains = np.concatenate([each for _, each in self.edges] or [np.zeros(0, dtype=np.intp)])
        # Spread the smallest label along edges until nothing changes: connected vertices then have
        # one label.
        while True:
            before = label.copy()
            np.minimum.at(label, domains, label[ends])
            np.minimum.at(label, ends, label[domains])
            if (before == label).all():
                break
        label = label[: graph.first_kind] + graph.scale.size
        weights = max_flow.sums_by(
            label, self.weights * self.at_level, self.label.size + label.size
        )
        return np.where(self.at_level, weights[label], 0.0)


def levels(
    component: Indices,
    weights: ResourceArray,
    floors: ResourceArray,
    limits: ResourceArray,
    sums: ResourceArray,
) -> ResourceArray:
    """Return the level of each component: the amount per weight at which shares add up to sums.

    A queue gets weight times level, but at least the floor and at most the limit. The sum is thus
    piecewise linear in the level, with a bend wherever a queue leaves the floor or reaches the
    limit.
    """
    # Sort the bends of each component and add up what is given out by each of them.
    free = floors < limits
    at = np.concatenate([floors[free], limits[free]]) / np.tile(weights[free], 2)
    steps = np.concatenate([weights[free], -weights[free]])
    components = np.tile(component[free], 2)
    order = np.lexsort((at, components))
    at, components = at[order], components[order]
    slope = np.cumsum(steps[order])
    same = components[1:] == components[:-1]
    got = np.zeros_like(at)
    np.cumsum(np.where(same, slope[:-1] * np.diff(at), 0.0), out=got[1:])
    first = np.searchsorted(components, np.arange(sums.size))
    # The level lies between the last bend at which less than `needed` is given out, and the next
    # one.
    needed = sums - max_flow.sums_by(component, floors, sums.size)
    found = np.zeros_like(sums)
    events = np.bincount(components, minlength=sums.size)
    some = np.flatnonzero(events)
    short = got - got[first[components]] < needed[components] - ROUNDING
    below = np.bincount(components[short], minlength=sums.size)
    last = first[some] + np.clip(below[some] - 1, 0, events[some] - 2)
    rest = np.maximum(needed[some] - (got[last] - got[first[some]]), 0.0)
    found[some] = np.minimum(
        at[last] + rest / np.maximum(slope[last], max_flow.LEAST), at[last + 1]
    )
    # Cumulative sums round. Compute the level anew from the queues that are neither at a floor nor
    # at a limit there.
    by_weight = found[component] * weights
    active = (floors < by_weight) & (by_weight < limits)
    taken = np.where(active, 0.0, np.clip(by_weight, floors, limits))
    rest = sums - max_flow.sums_by(component, taken, sums.size)
    shared = max_flow.sums_by(component, weights * active, sums.size)
    return np.divide(rest, shared, out=found, where=shared > 0.0)
