"""Fair shares of queues: the amounts each queue deserves, with reasons.

This module turns queues, limits and node pools into the input of
core.shares.constrained_max_min, where shares are computed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.shares import constrained_max_min
from vscheduler.core.shares.constrained_max_min import Shares, SharingProblem
from vscheduler.core.shares.node_pools import NodePools
from vscheduler.model import computed
from vscheduler.model.decisions import Basis, LimitedBy
from vscheduler.model.queues import ROOT, Queue
from vscheduler.model.resources import ResourceMap, ResourceSpace, Vector

Rows = NDArray[np.float64]

NEAR = 1e-9
"""Amounts that differ by less than this fraction of the total are equal."""


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Capabilities and guarantees of all queues, (Q, R), in the order of `names`."""

    names: tuple[str, ...]
    places: Mapping[str, int]
    """The row of each queue."""
    capability: Rows
    """The capability less what pods of the queue hold under other schedulers; inf is no limit."""
    guarantee: Rows
    """The guarantee less what pods of the queue hold under other schedulers; at most the
    capability."""
    guarantees: bool
    """Whether anything is guaranteed."""
    closed: NDArray[np.bool_]
    """Queues that take no pods, (Q,). Nothing is reserved for such a queue beyond what it holds."""
    weights: tuple[int, ...]
    whole: Rows
    """The most that all queues may have together, by the capability of queue root, (R,)."""


def limits(
    space: ResourceSpace,
    queues: Mapping[str, Queue],
    used_by_other_schedulers: Mapping[str, ResourceMap],
) -> QueueLimits:
    """Return the limits of these queues.

    `used_by_other_schedulers` is what pods of each queue hold under other schedulers. A guarantee
    above the queue's capability is cut to the capability. A guarantee of queue root is ignored, for
    root contains all other queues.
    """
    names = tuple(sorted(queues))
    shape = (len(names), space.size)
    held = {name: space.present(amounts) for name, amounts in used_by_other_schedulers.items()}
    capability = np.array([queues[name].ceiling(space) for name in names]).reshape(shape)
    guarantee = np.zeros(shape)
    for place, name in enumerate(names):
        if name != ROOT:
            guarantee[place] = space.present(queues[name].guarantee)
    for place, name in enumerate(names):
        if name in held:
            for limit in (capability, guarantee):
                limit[place] = np.maximum(limit[place] - held[name], 0.0)
    whole = np.full(space.size, np.inf)
    if ROOT in queues:
        whole = queues[ROOT].ceiling(space)
        whole = np.maximum(whole - sum(held.values(), start=space.zeros()), 0.0)
    guarantee = np.minimum(guarantee, capability)
    return QueueLimits(
        names=names,
        places={name: place for place, name in enumerate(names)},
        capability=capability,
        guarantee=guarantee,
        guarantees=bool(guarantee.any()),
        closed=np.array([not queues[name].open for name in names], dtype=np.bool_),
        weights=tuple(queues[name].weight for name in names),
        whole=whole,
    )


class FairShares:
    """The resources of node pools divided among queues by constrained max-min fairness."""

    def __init__(
        self,
        space: ResourceSpace,
        pools: NodePools,
        limits: QueueLimits,
        weights: Sequence[int],
    ) -> None:
        """Weights (Q,) are at least 1."""
        self.space = space
        self._pools = pools
        self._limits = limits
        self._weights = np.array(weights, dtype=np.float64)
        self.places = limits.places
        """The row of each queue."""
        domains = len(pools.reach)
        self._pods = np.zeros((len(limits.names), domains), dtype=np.int64)
        """Number of pods of each queue in each domain, (Q, C)."""
        self._demands = np.zeros((len(limits.names), domains, space.size))
        self._pinned = np.zeros(limits.guarantee.shape)
        for name, held in pools.pinned.items():
            self._pinned[self.places[name]] = held
        self._kept = np.zeros(limits.guarantee.shape)
        """What is guaranteed to queues beyond what their pods ask for, (Q, R)."""
        self._count()
        self._shares: Shares | None = None

    def add(self, queue: str, amounts: Vector) -> None:
        """Let the queue ask for more, (R,), on behalf of pods that don't exist yet.

        Nobody knows yet which nodes such pods can use. The demand goes to the domain of most of the
        queue's pods, if nodes of the domain have any of the resource; else to the domain of a pod
        without constraints; else to all nodes.
        """
        place = self.places[queue]
        for column in np.flatnonzero(amounts).tolist():
            self._demands[place, self._likely(place, column), column] += amounts[column]

    def divide(self) -> Shares:
        """Return each queue's share, including guarantees not asked for. Computed once."""
        if self._shares is None:
            if self._limits.guarantees:
                self._kept = self._unasked(self.guaranteed)
                for place in np.flatnonzero(self._kept.any(axis=1)).tolist():
                    self.add(self._limits.names[place], self._kept[place])
            self._shares = constrained_max_min.shares(self.problem)
        return self._shares

    @computed.once
    def guaranteed(self) -> Rows:
        """How much of each guarantee counts, (Q, R): everything where nodes can give as much.

        Computed once, and first read before `add` counts pods of admitted groups, so admission
        doesn't change guarantees.
        """
        if not self._limits.guarantees:
            return np.zeros(self._limits.guarantee.shape)
        asked = self._demands.sum(axis=1) + self._pinned
        closed = self._limits.closed[:, np.newaxis]
        configured = np.where(
            closed, np.minimum(self._limits.guarantee, asked), self._limits.guarantee
        )
        if not configured.any():
            return configured
        demands = self._demands.copy()
        for place, column in np.argwhere(self._unasked(configured)).tolist():
            lacks = configured[place, column] - asked[place, column]
            demands[place, self._likely(place, column), column] += lacks
        return constrained_max_min.carried_guarantees(self._problem(demands, configured))

    def _unasked(self, guarantee: Rows) -> Rows:
        """Return how much of each guarantee no pod asks for, (Q, R); 0 for closed queues."""
        asked = self._demands.sum(axis=1) + self._pinned
        kept: Rows = np.maximum(guarantee - asked, 0.0)
        kept[self._limits.closed] = 0.0
        return kept

    @property
    def problem(self) -> SharingProblem:
        """Demand and supply as known so far, as a sharing problem."""
        return self._problem(self._demands, self.guaranteed)

    def _problem(self, demands: Rows, guarantee: Rows) -> SharingProblem:
        return SharingProblem(
            weights=self._weights,
            demands=demands,
            reach=self._pools.reach,
            supply=self._pools.supply.astype(np.float64),
            pinned=self._pinned,
            guarantee=guarantee,
            capability=self._limits.capability,
            whole=self._limits.whole,
        )

    @computed.once
    def usable(self) -> Rows:
        """Resources of all nodes usable for each queue's pods, pinned amounts included: (Q, R).

        For a queue without pods, the nodes usable for a pod without constraints.
        """
        return self.usable_kinds @ self._pools.supply.astype(np.float64) + self._pinned

    @computed.once
    def real(self) -> Rows:
        """An upper bound of what each queue could ever have, (Q, R) (Volcano: real capability).

        Guarantees of queues restricted to the same nodes are out of reach. Pods created later may
        have other constraints, so nodes usable for a pod without constraints count as well; if none
        of the nodes has a resource, all nodes count.
        """
        reach, supply = self._pools.reach, self._pools.supply.astype(np.float64)
        wide = self.usable_kinds | reach[self._pools.open]
        most = wide @ supply
        most = np.where(most > 0.0, most, reach[self._pools.anywhere] @ supply) + self._pinned
        if not self._limits.guarantees:
            return self._capped(most)
        guarantee = self.guaranteed
        outside = (~wide).astype(np.float32) @ self.usable_kinds.T.astype(np.float32)
        # A guarantee can't take more from other queues than nodes have.
        owed = np.minimum(guarantee, self.usable)
        kept = (outside == 0) @ owed - owed
        real = np.maximum(most - kept, np.minimum(guarantee, most))
        return self._capped(real)

    def _capped(self, real: Rows) -> Rows:
        capped: Rows = np.minimum(np.minimum(real, self._limits.capability), self._limits.whole)
        return capped

    @computed.once
    def usable_kinds(self) -> NDArray[np.bool_]:
        """Which kinds of nodes each queue's pods could use, (Q, K)."""
        if self._pools.is_one:
            return np.ones((len(self._pods), self._pools.reach.shape[1]), dtype=np.bool_)
        # Products of whole numbers are exact in single precision, and numpy has none for booleans.
        waits = (self._pods > 0).astype(np.float32)
        usable: NDArray[np.bool_] = waits @ self._pools.reach.astype(np.float32) > 0
        usable[~self._pods.any(axis=1)] = self._pools.reach[self._pools.open]
        return usable

    @computed.once
    def _stocked(self) -> NDArray[np.bool_]:
        """Whether nodes of a domain have any of a resource, (C, R)."""
        return self._pools.reach @ (self._pools.supply > 0)

    def _likely(self, place: int, column: int) -> int:
        """Return the domain in which unknown pods of this queue would look for a resource."""
        pods = self._pods[place]
        usual = [int(pods.argmax())] if pods.any() else []
        for domain in (*usual, self._pools.open):
            if self._stocked[domain, column]:
                return domain
        return self._pools.anywhere

    def _count(self) -> None:
        """Fill in pods and requests by queue and domain."""
        columns = self.space.columns
        for (queue, domain), asked in self._pools.requested.items():
            row = [0] * self.space.size
            for name, amount in asked.amounts.items():
                row[columns[name]] += amount
            self._pods[self.places[queue], domain] = asked.pods
            self._demands[self.places[queue], domain] = row

    def bases(self, queue: str) -> Mapping[str, Basis]:
        """Return the share of each wanted resource, and which limit determines the share."""
        place, figures = self.places[queue], self._figures
        weight, closed = int(self._weights[place]), bool(self._limits.closed[place])
        found = {}
        rows = [row[place] for row in figures.rows]
        columns = zip(self.space.names, figures.near, *rows, strict=True)
        for name, near, wanted, limit, *others in columns:
            if not wanted + limit:
                continue
            asked, deserved, capability, guarantee, kept, usable, pinned, by_root, weights = others
            configured = 0.0 if closed else limit
            if not (closed or wanted or configured > guarantee + near):
                continue
            # The first limit that holds decides: own request or capability, then the capability of
            # root, and else the weight.
            bound = LimitedBy.WEIGHT
            if deserved >= min(asked, capability) - near:
                over = asked > capability + near
                bound = LimitedBy.CAPABILITY if over else LimitedBy.REQUEST
            elif by_root:
                bound = LimitedBy.ROOT
            raised = bound is LimitedBy.WEIGHT and 0 < guarantee >= deserved - near
            competing = round(weights) if weights else 0
            # Pods that no node takes have no use for the guarantee that they ask for.
            due = min(configured, asked + max(configured - wanted, 0.0))
            found[name] = Basis(
                deserved=deserved,
                usable=usable,
                bound=bound,
                weight=weight,
                weights=max(weight, competing),
                guaranteed=raised or deserved > asked - kept + near,
                pinned=pinned,
                guarantee=configured if due > guarantee + near else 0.0,
                kept=guarantee,
            )
        return found

    @computed.once
    def _figures(self) -> "Figures":
        """What `bases` reads of all queues, as plain numbers."""
        shares = self.divide()
        wanted = np.add.reduce(self._demands, axis=1) + self._pinned
        asked = np.einsum("qcr,cr->qr", self._demands, self._stocked) + self._pinned
        limits, total = self._limits, self._pools.total.tolist()
        rows = [wanted, limits.guarantee, asked, shares.deserved, limits.capability]
        rows += [self.guaranteed, self._kept, self.usable, self._pinned]
        rows += [shares.by_root, shares.weights]
        return Figures(
            near=[NEAR * each if each > 1.0 else NEAR for each in total],
            rows=np.array(rows).tolist(),
        )


class Figures(NamedTuple):
    """Amounts by queue and resource."""

    near: list[float]
    """By how much amounts of a resource differ that count as equal."""
    rows: list[list[list[Any]]]
    """Amounts of eleven kinds, (Q, R) each: `asked` is what pods ask for that a node could take."""
