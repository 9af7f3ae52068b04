"""Dividing: what queues deserve of what there is, and how that came about.

The arithmetic is in core.fair_share.constrained_max_min; here queues, their limits and a survey
become its problem.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import constrained_max_min, node_pools
from vscheduler.core.model import decisions, queues, resources

Rows = NDArray[np.float64]

NEAR = 1e-9
"""Amounts that differ by less than this part of the total are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """What queues may have, (Q, R), in the order of `names`."""

    names: tuple[str, ...]
    capability: Rows
    """Less what their pods hold under other schedulers; inf is no limit."""
    guarantee: Rows
    """What is kept for them, less what their pods hold under other schedulers; no more than they
    may have."""
    closed: NDArray[np.bool_]
    """Queues that take no pods: what they don't hold isn't kept for them, (Q,)."""
    whole: Rows
    """The most that all may have together, by the capability of queue root: (R,)."""


def limits(
    space: resources.ResourceSpace,
    known: Mapping[str, queues.Queue],
    elsewhere: Mapping[str, resources.ResourceMap],
) -> QueueLimits:
    """A guarantee above the capability promises no more than that; root's own keeps nothing from
    those below it.
    """
    names = tuple(sorted(known))
    shape = (len(names), space.size)
    held = {name: space.present(amounts) for name, amounts in elsewhere.items()}
    capability = np.array([known[name].ceiling(space) for name in names]).reshape(shape)
    guarantee = np.zeros(shape)
    for place, name in enumerate(names):
        if name != queues.ROOT:
            guarantee[place] = space.present(known[name].guarantee)
    for place, name in enumerate(names):
        if name in held:
            for limit in (capability, guarantee):
                limit[place] = np.maximum(limit[place] - held[name], 0.0)
    whole = np.full(space.size, np.inf)
    if queues.ROOT in known:
        whole = known[queues.ROOT].ceiling(space)
        whole = np.maximum(whole - sum(held.values(), start=space.zeros()), 0.0)
    return QueueLimits(
        names=names,
        capability=capability,
        guarantee=np.minimum(guarantee, capability),
        closed=np.array([not known[name].open for name in names], dtype=np.bool_),
        whole=whole,
    )


class FairShares:
    """What a survey found, divided among queues."""

    def __init__(
        self,
        space: resources.ResourceSpace,
        survey: node_pools.NodePools,
        limits: QueueLimits,
        weights: Sequence[int],
    ) -> None:
        """Weights (Q,) are at least 1."""
        self.space = space
        self._survey = survey
        self._limits = limits
        self._weights = np.array(weights, dtype=np.float64)
        self.places = {name: place for place, name in enumerate(limits.names)}
        """Where each queue's row is."""
        domains = len(survey.reach)
        self._pods = np.zeros((len(limits.names), domains), dtype=np.int64)
        """Pods of each queue by domain."""
        self._demands = np.zeros((len(limits.names), domains, space.size))
        self._pinned = np.zeros_like(limits.guarantee)
        for name, held in survey.pinned.items():
            self._pinned[self.places[name]] = held
        self._kept = np.zeros_like(limits.guarantee)
        """What is guaranteed to queues that don't ask for it."""
        self._count()
        self._shares: constrained_max_min.Shares | None = None

    def add(self, queue: str, amounts: resources.Vector) -> None:
        """The queue asks for this much (R,) more, for pods that don't exist yet.

        Nobody knows where they could go: where most of its pods can, as far as there is any there,
        else where a pod without conditions can, else anywhere.
        """
        place = self.places[queue]
        for column in np.flatnonzero(amounts).tolist():
            self._demands[place, self._likely(place, column), column] += amounts[column]

    def divide(self) -> constrained_max_min.Shares:
        """What queues deserve, what is guaranteed to those that don't ask for it included."""
        if self._shares is None:
            guaranteed = self.guaranteed
            self._kept = self._unasked(guaranteed)
            for place in np.flatnonzero(self._kept.any(axis=1)).tolist():
                self.add(self._limits.names[place], self._kept[place])
            self._shares = constrained_max_min.shares(self.problem)
        return self._shares

    @cached_property
    def guaranteed(self) -> Rows:
        """What of the guarantees counts, (Q, R): all, where there is as much.

        It is worked out once, before groups are announced whose pods don't exist.
        """
        asked = self._demands.sum(axis=1) + self._pinned
        closed = self._limits.closed[:, np.newaxis]
        promised = np.where(
            closed, np.minimum(self._limits.guarantee, asked), self._limits.guarantee
        )
        if not promised.any():
            return promised
        demands = self._demands.copy()
        for place, column in np.argwhere(self._unasked(promised)).tolist():
            lacks = promised[place, column] - asked[place, column]
            demands[place, self._likely(place, column), column] += lacks
        return constrained_max_min.carried_guarantees(self._problem(demands, promised))

    def _unasked(self, guarantee: Rows) -> Rows:
        """What of a guarantee a queue doesn't ask for; one that is closed is kept nothing."""
        asked = self._demands.sum(axis=1) + self._pinned
        kept: Rows = np.maximum(guarantee - asked, 0.0)
        kept[self._limits.closed] = 0.0
        return kept

    @property
    def problem(self) -> constrained_max_min.SharingProblem:
        """What is asked for and what there is, as far as that has been told."""
        return self._problem(self._demands, self.guaranteed)

    def _problem(self, demands: Rows, guarantee: Rows) -> constrained_max_min.SharingProblem:
        return constrained_max_min.SharingProblem(
            weights=self._weights,
            demands=demands,
            reach=self._survey.reach,
            supply=self._survey.supply.astype(np.float64),
            pinned=self._pinned,
            guarantee=guarantee,
            capability=self._limits.capability,
            whole=self._limits.whole,
        )

    @cached_property
    def usable(self) -> Rows:
        """What there is on nodes that each queue's pods could use, and what it has pinned: (Q, R).
        For a queue without pods, on those that a pod without conditions could use.
        """
        return self._rooms @ self._survey.supply.astype(np.float64) + self._pinned

    @cached_property
    def real(self) -> Rows:
        """The most that each queue could have, (Q, R): an upper bound. What is guaranteed to those
        who could use no other nodes is out of its reach.

        Pods that don't exist yet may be of another kind, so that nodes count that any pod could
        use, and where these have nothing of a resource, all do.
        """
        reach, supply = self._survey.reach, self._survey.supply.astype(np.float64)
        wide = self._rooms | reach[self._survey.open]
        most = wide @ supply
        most = np.where(most > 0.0, most, reach[self._survey.anywhere] @ supply) + self._pinned
        guarantee = self.guaranteed
        outside = (~wide).astype(np.float32) @ self._rooms.T.astype(np.float32)
        # No more can be kept from others than there is.
        owed = np.minimum(guarantee, self.usable)
        kept = (outside == 0) @ owed - owed
        real = np.maximum(most - kept, np.minimum(guarantee, most))
        capped: Rows = np.minimum(np.minimum(real, self._limits.capability), self._limits.whole)
        return capped

    @cached_property
    def _rooms(self) -> NDArray[np.bool_]:
        """Which kinds of nodes each queue's pods could use: (Q, K)."""
        rooms = (self._pods > 0) @ self._survey.reach
        rooms[~self._pods.any(axis=1)] = self._survey.reach[self._survey.open]
        return rooms

    @cached_property
    def _stocked(self) -> NDArray[np.bool_]:
        """Whether there is any of a resource in a domain: (C, R)."""
        return self._survey.reach @ (self._survey.supply > 0)

    def _likely(self, place: int, column: int) -> int:
        """Where pods of this queue that nothing is known of could find a resource."""
        pods = self._pods[place]
        usual = [int(pods.argmax())] if pods.any() else []
        for domain in (*usual, self._survey.open):
            if self._stocked[domain, column]:
                return domain
        return self._survey.anywhere

    def _count(self) -> None:
        """Add up what pods want, where."""
        columns = self.space.columns
        sums: dict[tuple[str, int], tuple[int, list[int]]] = {}
        for (queue, pod_class), (domain, count) in self._survey.demands.items():
            pods, row = sums.get((queue, domain)) or (0, [0] * self.space.size)
            for name, amount in pod_class.request.items():
                row[columns[name]] += amount * count
            sums[queue, domain] = (pods + count, row)
        for (queue, domain), (pods, row) in sums.items():
            self._pods[self.places[queue], domain] = pods
            self._demands[self.places[queue], domain] = row

    def bases(self, queue: str) -> Mapping[str, decisions.Basis]:
        """How it came about what the queue deserves of each resource that it wants."""
        place, shares = self.places[queue], self.divide()
        wanted = self._demands[place].sum(axis=0) + self._pinned[place]
        found = {}
        for column in np.flatnonzero(wanted + self._limits.guarantee[place]).tolist():
            deserved = float(shares.deserved[place, column])
            near = NEAR * max(1.0, float(self._survey.total[column]))
            capability = float(self._limits.capability[place, column])
            guarantee = float(self.guaranteed[place, column])
            promised = float(self._limits.guarantee[place, column])
            if self._limits.closed[place]:
                promised = 0.0
            elif not (wanted[column] or promised > guarantee + near):
                continue
            bound = decisions.LimitedBy.WEIGHT
            if deserved >= min(wanted[column], capability) - near:
                over = wanted[column] > capability + near
                bound = decisions.LimitedBy.CAPABILITY if over else decisions.LimitedBy.REQUEST
            elif shares.by_root[place, column]:
                bound = decisions.LimitedBy.ROOT
            asked = wanted[column] - self._kept[place, column]
            raised = bound is decisions.LimitedBy.WEIGHT and 0 < guarantee >= deserved - near
            weight = int(self._weights[place])
            found[self.space.names[column]] = decisions.Basis(
                deserved=deserved,
                usable=float(self.usable[place, column]),
                bound=bound,
                weight=weight,
                weights=max(weight, round(float(shares.weights[place, column]))),
                guaranteed=raised or bool(deserved > asked + near),
                pinned=float(self._pinned[place, column]),
                promised=promised if promised > guarantee + near else 0.0,
                kept=guarantee,
            )
        return found
