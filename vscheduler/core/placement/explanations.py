"""Explanations: why nodes refuse pods, in numbers of nodes and in free amounts.

Most pods that find no node pass and fail the same filters as many others, and differ in their
requests only. What such pods have in common is worked out once.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts
from vscheduler.core.model import decisions, jobs, nodes, refusals, resources
from vscheduler.core.placement import nominated_pods
from vscheduler.core.session import interfaces
from vscheduler.core.session import session as working

KEPT_MAX = 64
"""How many combinations of filter results are kept at most."""

REFUSED_COST = 40
"""Approximate microseconds for counting the nodes of a new combination, beside the nodes' part."""

NODES_PER_UNIT = 20
"""For how many nodes the counting takes about a microsecond."""


class Explanations:
    """Explanations for the pods of one cycle."""

    def __init__(self, session: working.Session) -> None:
        self._session = session
        self._kept: OrderedDict[Hashable, RefusedNodes] = OrderedDict()
        """By what the answers follow from, the last one used last."""
        self._usable: OrderedDict[Hashable, UsableNodes] = OrderedDict()

    def now(
        self, task: jobs.Task, results: Sequence[contracts.FilterResult]
    ) -> tuple[decisions.RefusalCounts, interfaces.Holes]:
        """Return why nodes refuse this task after pending releases, by these filter results."""
        session = self._session
        if session.nominated.of(task) is not None:  # what is free differs from pod to pod
            results = (*results, *nominated_pods.verdicts(session, task))
            free = nominated_pods.room(session, task)
            return RefusedNodes(session, results, free).explain(session.request(task))
        key = (len(session.cluster.touched), _identity(results))
        known = self._kept.get(key)
        if known is None:
            session.spend("refused nodes", REFUSED_COST + session.layout.size // NODES_PER_UNIT)
            free = session.cluster.allocatable - session.cluster.future_used
            known = _keep(self._kept, key, RefusedNodes(session, results, free))
        return known.explain(session.request(task))

    def empty(
        self, task: jobs.Task, results: Sequence[contracts.FilterResult]
    ) -> tuple[decisions.RefusalCounts, interfaces.Holes]:
        """Return why nodes would refuse this task without any pods on them."""
        session, key = self._session, ("empty", _identity(results))
        known = self._kept.get(key)
        if known is None:
            session.spend("refused nodes", REFUSED_COST + session.layout.size // NODES_PER_UNIT)
            allocatable = session.cluster.allocatable
            known = _keep(self._kept, key, RefusedNodes(session, results, allocatable))
        return known.explain(session.request(task))

    def outsized(
        self, task: jobs.Task, results: Sequence[contracts.FilterResult]
    ) -> interfaces.Holes:
        """Return amounts of the largest nodes, if the task is larger than any usable node.

        The result covers resources of which no usable node, even empty, has enough, or all
        requested resources if each one alone would fit on some node. Usable are the nodes that
        pass all filters beyond the reach of evictions.
        """
        key = _identity([each for each in results if not each.curable])
        known = self._usable.get(key)
        if known is None:
            known = _keep(self._usable, key, UsableNodes(self._session, results))
        return known.outsized(self._session.request(task))


class RefusedNodes:
    """The nodes that refuse pods by the same filters, and what all other nodes have free.

    As in kube-scheduler, a node counts once for the first filter refusing a pod; a node passing all
    filters counts once for each resource in short supply.
    """

    def __init__(
        self,
        session: working.Session,
        results: Sequence[contracts.FilterResult],
        free: resources.Vector,
    ) -> None:
        """Count the nodes refused by these filter results. What is free (N, R) mustn't change."""
        self._names, self._layout = session.space.names, session.layout
        self._results = results  # so that no other object gets the identity of one of these
        alive = np.ones(session.layout.size, dtype=np.bool_)
        self._counts: dict[refusals.Refusal, int] = {}
        for result in results:
            passes = result.passes if result.later is None else result.later
            refused = int((alive & ~passes).sum())
            if refused:
                refusal = refusals.of(result.refusal)
                self._counts[refusal] = self._counts.get(refusal, 0) + refused
            alive &= passes
        self._rows = np.flatnonzero(alive)
        self._free = free
        self._columns: dict[int, NDArray[np.int64]] = {}
        """Free amounts in ascending order, by column."""
        self._holes: dict[int, decisions.MissingResource] = {}
        """The largest free amount, by column."""

    def explain(
        self, request: resources.Vector
    ) -> tuple[decisions.RefusalCounts, interfaces.Holes]:
        """Return why nodes refuse a pod with this request."""
        counts = dict(self._counts)
        holes = []
        for column, amount in enumerate(request.tolist()):
            if not (amount and self._rows.size):
                continue
            short = int(self._column(column).searchsorted(amount))
            name = self._names[column]
            if short:
                counts[refusals.Refusal(refusals.RefusalCode.INSUFFICIENT, name)] = short
            if name != resources.PODS:
                holes.append(self._hole(column))
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(ordered), tuple(sorted(holes, key=lambda hole: hole.resource))

    def _column(self, column: int) -> NDArray[np.int64]:
        if column not in self._columns:
            self._columns[column] = np.sort(self._free[self._rows, column])
        return self._columns[column]

    def _hole(self, column: int) -> decisions.MissingResource:
        if column not in self._holes:
            row = self._rows[int(self._free[self._rows, column].argmax())]
            self._holes[column] = decisions.MissingResource(
                resource=self._names[column],
                free=max(0, int(self._free[row, column])),
                node=self._layout.names[row],
            )
        return self._holes[column]


class UsableNodes:
    """The nodes that pass the same filters beyond the reach of evictions."""

    def __init__(self, session: working.Session, results: Sequence[contracts.FilterResult]) -> None:
        self._space, self._layout = session.space, session.layout
        self._results = results  # so that no other object gets the identity of one of these
        self._rows = np.flatnonzero(reachable(results, session.layout))
        self._allocatable = session.cluster.allocatable[self._rows]
        self._fitting: resources.Vector | None = None
        """The last node that turned out to be large enough, (R,)."""

    def outsized(self, request: resources.Vector) -> interfaces.Holes:
        """Return the largest amounts, if no node is large enough for this request."""
        if not self._rows.size or self._fits(request):
            return ()
        most = self._allocatable.max(axis=0)
        wanted = np.flatnonzero(request)
        short = wanted[most[wanted] < request[wanted]]
        return tuple(
            decisions.MissingResource(
                resource=self._space.names[column],
                free=int(most[column]),
                node=self._layout.names[self._rows[int(self._allocatable[:, column].argmax())]],
            )
            for column in (short if short.size else wanted).tolist()
            if self._space.names[column] != resources.PODS
        )

    def _fits(self, request: resources.Vector) -> bool:
        if self._fitting is not None and (request <= self._fitting)[request > 0].all():
            return True
        large_enough = np.flatnonzero(resources.fits(request, self._allocatable))
        if large_enough.size:
            self._fitting = self._allocatable[large_enough[0]]
        return bool(large_enough.size)


def reachable(results: Sequence[contracts.FilterResult], layout: nodes.NodeLayout) -> nodes.Mask:
    """Return the nodes (N,) passing all filters beyond the reach of evictions."""
    mask = np.ones(layout.size, dtype=np.bool_)
    for result in results:
        if not result.curable:
            mask &= result.passes
    return mask


def _identity(results: Sequence[contracts.FilterResult]) -> Hashable:
    """Return a key that is equal for the same arrays only, while the results are kept."""
    return tuple((each.refusal, id(each.passes), id(each.later)) for each in results)


Kept = TypeVar("Kept")


def _keep(kept: OrderedDict[Hashable, Kept], key: Hashable, made: Kept) -> Kept:
    """Keep what was made, instead of the oldest one if there are too many."""
    kept[key] = made
    if len(kept) > KEPT_MAX:
        kept.popitem(last=False)
    return made
