"""Rooms: what is short is shared by weight in each, and cut in two where no flow carries that.

The shares that flows carry are a polymatroid, so the fairest of them are found by decomposition:
Fujishige, "Lexicographically optimal base of a polymatroid", 1980; Groenevelt, 1991.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import max_flow

ResourceArray = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

SAME = 1e-10
"""Parts of what there is that aren't told apart; rounding makes about 1e-14."""
ROUNDING = 1e-13
"""A sum that is reached at several levels, between which nobody gets more, is at the lowest."""
DONE = -1
"""The room of what is settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowGraph:
    """What there is to share, as one graph of all resources; amounts are parts of what there is.

    Vertices V are queues, then kinds, then domains; of each, those of the first resource first.
    """

    scale: ResourceArray
    """How many units 1 is, a power of two so that nothing is rounded: (R,)."""
    resource: Indices
    """(V,)."""
    first_kind: int
    first_domain: int
    pinned: ResourceArray
    """(R * Q,), by queue."""
    limits: ResourceArray
    """The most that queues could use and may have: (R * Q,)."""
    supply: ResourceArray
    """(R * N,), by kind."""
    total: ResourceArray
    """What is supplied and what is pinned: (R,)."""
    whole: ResourceArray
    """The most that may be shared out: (R,)."""
    plain: Flags
    """Resources of which every pod can use all, so that it takes no flow: (R,)."""
    claims: tuple[Indices, Indices]
    """Queues and the domains that they want something of; none of plain resources."""
    bounds: ResourceArray
    """How much they want."""
    links: tuple[Indices, Indices]
    """Kinds and the domains that they are part of."""

    def network(self) -> max_flow.FlowNetwork:
        """The graph, with no flow."""
        few, many = self.bounds.size, self.links[0].size
        return max_flow.FlowNetwork(
            size=self.resource.size,
            ends=np.concatenate([self.claims[0], self.links[0]]),
            domains=np.concatenate([self.claims[1], self.links[1]]),
            onward=np.concatenate([self.bounds, np.zeros(many)]),
            back=np.concatenate([np.zeros(few), np.full(many, np.inf)]),
            bounds=np.concatenate([self.bounds, np.full(many, np.inf)]),
            queue_edges=few,
        )


class Decomposition:
    """Rooms that are cut until a flow carries what is shared out in each by weight alone.

    A room is what queues share that lack something, with the domains and kinds they share it on;
    what they have together is known. To begin with it is one for each resource.
    """

    def __init__(self, ground: FlowGraph, weights: ResourceArray) -> None:
        self.ground = ground
        self.weights = weights
        self.network = ground.network()
        self.shares = self.floors = self.limits = ground.pinned
        self.room = np.full(ground.resource.size, DONE)
        self.sums = np.zeros(0)
        self.joint = np.zeros(0, dtype=np.bool_)
        self.by_root = np.zeros(ground.scale.size, dtype=np.bool_)
        self.supply = np.zeros(ground.resource.size)
        self.supply[ground.first_kind : ground.first_domain] = ground.supply
        self.fixed = np.zeros(ground.resource.size)
        self.fixed[: ground.first_kind] = ground.pinned
        self.at_level = np.zeros(ground.first_kind, dtype=np.bool_)
        self.label = np.arange(ground.resource.size)
        self.edges: list[tuple[Indices, Indices]] = []

    def divide(self, floors: ResourceArray, limits: ResourceArray) -> None:
        """Share out: no queue gets less than its floor, nor more than its limit."""
        self.floors, self.limits, self.shares = floors, limits, limits.copy()
        self._open()
        while (self.room[: self.ground.first_kind] != DONE).any():
            self._finish(self._share_out())
            self._cut(self._flow(self.room != DONE))

    def _open(self) -> None:
        """Everybody takes as much as possible; who can't have all shares a room."""
        ground, many = self.ground, self.ground.scale.size
        self._flow(np.ones(ground.resource.size, dtype=np.bool_))
        wanted = max_flow.sums_by(ground.resource[: ground.first_kind], self.shares, many)
        stuck = max_flow.sums_by(ground.resource, self.network.excess, many)
        left = max_flow.sums_by(ground.resource, self.network.room, many)
        most = np.where(ground.plain, np.minimum(wanted, ground.total), ground.total - left)
        self.by_root = most > ground.whole * (1.0 + SAME)
        self.joint = self.by_root | ground.plain
        lacking = self.by_root | np.where(ground.plain, wanted - most > SAME, stuck > SAME)
        apart = (self.network.distance == 0) | self.joint[ground.resource]
        self.room = np.where(apart & lacking[ground.resource], ground.resource, DONE)
        self.sums = np.where(self.by_root, ground.whole, ground.total)
        self._separate()

    def _flow(self, open_now: Flags) -> ResourceArray:
        """Let what is shared out flow; what can't arrive, by vertex."""
        ground = self.ground
        wanted = self.fixed.copy()
        wanted[: ground.first_kind] = self.shares - wanted[: ground.first_kind]
        self.network.load(wanted * open_now, self.supply * open_now)
        self.network.settle()
        return self.network.excess

    def _share_out(self) -> Flags:
        """Share out each room's sum by weight; which rooms are settled by that, without a flow."""
        ground, count = self.ground, self.sums.size
        queues = np.flatnonzero(self.room[: ground.first_kind] != DONE)
        room, weights = self.room[queues], self.weights[queues]
        floors = np.maximum(self.floors, self.fixed[: ground.first_kind])[queues]
        limits = np.minimum(np.minimum(self.limits, self._usable())[queues], self.sums[room])
        limits = np.maximum(limits, floors)
        by_weight = levels(room, weights, floors, limits, self.sums)[room] * weights
        self.shares[queues] = np.clip(by_weight, floors, limits)
        self.at_level[queues] = (
            (by_weight >= floors * (1.0 - SAME))
            & (by_weight <= limits * (1.0 + SAME))
            & (self.shares < self.limits * (1.0 - SAME))[queues]
        )
        plain = np.zeros(count, dtype=np.bool_)
        plain[: ground.scale.size] = ground.plain
        return plain | (np.bincount(room, floors < limits, count) <= 1.0)

    def _usable(self) -> ResourceArray:
        """What queues could use at most in the room they are in, and outside already do."""
        ground, network = self.ground, self.network
        claims = slice(0, network.queue_edges)
        usable = max_flow.sums_by(
            network.ends[claims], network.bounds[claims], ground.resource.size
        )
        usable += self.fixed
        usable[: ground.first_kind][ground.plain[ground.resource[: ground.first_kind]]] = np.inf
        return usable[: ground.first_kind]

    def _cut(self, excess: ResourceArray) -> None:
        """Rooms whose sum can't arrive are two: what is cut off is one of its own."""
        queues, count = self.ground.first_kind, self.sums.size
        inside = self.room != DONE
        late = max_flow.sums_by(self.room[inside], excess[inside], count) > SAME
        apart = inside & (self.network.distance == 0)
        every = np.bincount(self.room[:queues][inside[:queues]], minlength=count)
        some = np.bincount(self.room[:queues][apart[:queues]], minlength=count)
        split = late & (some > 0) & (some < every)
        self._finish(~split)
        apart &= self.room != DONE
        number = count + np.cumsum(split) - 1
        self.room[apart] = number[self.room[apart]]
        old = np.flatnonzero(split)
        self.sums = np.concatenate([self.sums, np.zeros(old.size)])
        self.joint = np.concatenate([self.joint, np.zeros(old.size, dtype=np.bool_)])
        before = self.sums[old]
        self._separate()
        self.sums[old] = np.where(self.joint[old], before - self.sums[count:], self.sums[old])

    def _separate(self) -> None:
        """Take away edges between rooms: those out of a newer one are full, the others empty."""
        network, ground, count = self.network, self.ground, self.sums.size
        end, domain = self.room[network.ends], self.room[network.domains]
        full = np.flatnonzero(end[: network.queue_edges] > domain[: network.queue_edges])
        for side in (network.ends, network.domains):
            self.fixed += max_flow.sums_by(side[full], network.bounds[full], self.fixed.size)
        network.keep((end == domain) & (end != DONE))
        sums = self.supply + self.fixed
        sums[ground.first_domain :] *= -1.0
        inside = self.room != DONE
        found = max_flow.sums_by(self.room[inside], sums[inside], count)
        self.sums = np.where(self.joint, self.sums, found)

    def _finish(self, rooms: Flags) -> None:
        """Take these rooms as they are."""
        network, ground = self.network, self.ground
        leaving = (self.room != DONE) & rooms[self.room]
        joint = leaving & self.joint[self.room]
        self.label[joint] = -1 - ground.resource[joint]
        gone = leaving[network.ends]
        if gone.any():
            self.edges.append((network.ends[gone], network.domains[gone]))
            network.keep(~gone)
        self.room[leaving] = DONE

    def by_root_alone(self) -> Flags:
        """Queues that nothing but the sum of all limits: not a room of their own, by queue."""
        queues = slice(self.ground.first_kind)
        found: Flags = self.by_root[self.ground.resource[queues]] & (self.label[queues] < 0)
        return found

    def weights_by_room(self) -> ResourceArray:
        """The weights of the queues at one level that domains and kinds join, by queue."""
        ground, label = self.ground, self.label.copy()
        ends = np.concatenate([ends for ends, _ in self.edges] or [np.zeros(0, dtype=np.intp)])
        domains = np.concatenate([each for _, each in self.edges] or [np.zeros(0, dtype=np.intp)])
        while True:
            before = label.copy()
            np.minimum.at(label, domains, label[ends])
            np.minimum.at(label, ends, label[domains])
            if (before == label).all():
                break
        label = label[: ground.first_kind] + ground.scale.size
        weights = max_flow.sums_by(
            label, self.weights * self.at_level, self.label.size + label.size
        )
        return np.where(self.at_level, weights[label], 0.0)


def levels(
    room: Indices,
    weights: ResourceArray,
    floors: ResourceArray,
    limits: ResourceArray,
    sums: ResourceArray,
) -> ResourceArray:
    """The amount per weight at which what each room's queues get adds up to its sum."""
    free = floors < limits
    at = np.concatenate([floors[free], limits[free]]) / np.tile(weights[free], 2)
    steps = np.concatenate([weights[free], -weights[free]])
    rooms = np.tile(room[free], 2)
    order = np.lexsort((at, rooms))
    at, rooms = at[order], rooms[order]
    slope = np.cumsum(steps[order])
    same = rooms[1:] == rooms[:-1]
    got = np.zeros_like(at)
    np.cumsum(np.where(same, slope[:-1] * np.diff(at), 0.0), out=got[1:])
    first = np.searchsorted(rooms, np.arange(sums.size))
    needed = sums - max_flow.sums_by(room, floors, sums.size)
    found = np.zeros_like(sums)
    events = np.bincount(rooms, minlength=sums.size)
    some = np.flatnonzero(events)
    short = got - got[first[rooms]] < needed[rooms] - ROUNDING
    below = np.bincount(rooms[short], minlength=sums.size)
    last = first[some] + np.clip(below[some] - 1, 0, events[some] - 2)
    rest = np.maximum(needed[some] - (got[last] - got[first[some]]), 0.0)
    found[some] = np.minimum(
        at[last] + rest / np.maximum(slope[last], max_flow.LEAST), at[last + 1]
    )
    by_weight = found[room] * weights
    active = (floors < by_weight) & (by_weight < limits)
    taken = np.where(active, 0.0, np.clip(by_weight, floors, limits))
    rest = sums - max_flow.sums_by(room, taken, sums.size)
    shared = max_flow.sums_by(room, weights * active, sums.size)
    return np.divide(rest, shared, out=found, where=shared > 0.0)
