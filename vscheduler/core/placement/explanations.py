"""Explanations: why nodes refuse pods, in numbers of nodes and in free amounts.

Most pods that find no node pass and fail the same filters as many others, and differ in their
requests only. What such pods have in common is worked out once.
"""

import bisect
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from vscheduler.core.api.contracts import FilterResult, NodeView
from vscheduler.core.placement import nominated_pods
from vscheduler.core.placement.reserved_room import ReservedAmounts
from vscheduler.core.session.interfaces import Holes
from vscheduler.core.session.session import Session
from vscheduler.model import refusals, resources
from vscheduler.model.decisions import MissingResource, RefusalCounts, ReservedFor
from vscheduler.model.jobs import Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Refused

KEPT_MAX = 16
"""How many combinations of filter results are kept at most."""

REFUSED_COST = 40
"""Approximate microseconds for counting the nodes of a new combination, beside the nodes' part."""

NODES_PER_UNIT = 20
"""For how many nodes the counting takes about a microsecond."""


class Explanations:
    """Explanations for the pods of one cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changes = 0
        """How many changes of nodes `_now` has followed."""
        self._now: list[RefusedNodes] = []
        """By filter results, the last one used first; so are the others."""
        self._empty: list[RefusedNodes] = []
        self._usable: list[UsableNodes] = []

    def now(self, task: Task, results: Sequence[FilterResult]) -> "RefusedNodes":
        """Return the nodes that refuse this task after pending releases, by these filter results,
        until a node changes.
        """
        session = self._session
        if session.nominated.of(task) is not None:  # what is free differs from pod to pod
            results = (*results, *nominated_pods.verdicts(session, task))
            free = nominated_pods.room(session, task)
            return RefusedNodes(session, results, free)
        if self._changes != len(session.cluster.touched):
            self._changes = len(session.cluster.touched)
            self._now.clear()
        known = _find(self._now, results)
        if known is None:
            free = session.cluster.allocatable - session.cluster.future_used
            known = self._refused(self._now, results, free)
        return known

    def empty(self, task: Task, results: Sequence[FilterResult]) -> tuple[RefusalCounts, Holes]:
        """Return why nodes would refuse this task without any pods on them."""
        known = _find(self._empty, results)
        if known is None:
            known = self._refused(self._empty, results, self._session.cluster.allocatable)
        return known.counts(self._session.request(task))

    def outsized(self, task: Task, results: Sequence[FilterResult]) -> Holes:
        """Return amounts of the largest nodes, if the task is larger than any usable node.

        The result covers resources of which no usable node, even empty, has enough, or all
        requested resources if each one alone would fit on some node. Usable are the nodes that
        pass all filters beyond the reach of evictions; a pod that is to be near others may use
        every node to which such pods may come.
        """
        lasting = [
            result
            for result in results
            if not result.curable
            and refusals.of(result.refusal).code is not RefusalCode.POD_AFFINITY
        ]
        known = _find(self._usable, lasting)
        if known is None:
            known = UsableNodes(self._session, lasting)
            _keep(self._usable, known)
        return known.outsized(self._session.request(task))

    def _refused(
        self,
        kept: "list[RefusedNodes]",
        results: Sequence[FilterResult],
        free: Vector,
    ) -> "RefusedNodes":
        session = self._session
        session.spend("refused nodes", REFUSED_COST + session.layout.size // NODES_PER_UNIT)
        made = RefusedNodes(session, results, free)
        _keep(kept, made)
        return made


class RefusedNodes:
    """The nodes that refuse pods by the same filters, and what all other nodes have free.

    As in kube-scheduler, a node counts once for the first filter refusing a pod; a node passing all
    filters counts once for each resource in short supply.
    """

    def __init__(
        self,
        session: Session,
        results: Sequence[FilterResult],
        free: Vector,
    ) -> None:
        """Count the nodes refused by these filter results. What is free (N, R) mustn't change."""
        self._names, self._layout = session.space.names, session.layout
        self.results = results
        alive = np.ones(session.layout.size, dtype=np.bool_)
        self._counts: dict[Refusal, int] = {}
        for result in results:
            passes = result.passes if result.later is None else result.later
            refused = int((alive & ~passes).sum())
            if refused:
                refusal = refusals.of(result.refusal)
                self._counts[refusal] = self._counts.get(refusal, 0) + refused
            alive &= passes
        self._usable, self._rows = alive, np.flatnonzero(alive)
        self._free = free
        self._columns: dict[int, list[int]] = {}
        """Free amounts in ascending order, by column."""
        self._by_shorts: dict[tuple[tuple[int, int], ...], tuple[RefusalCounts, Holes]] = {}
        """Answers, by requested columns and in how many nodes each is short."""
        self._holes: dict[int, MissingResource] = {}
        """The largest free amount, by column."""

    def counts(self, request: Vector) -> tuple[RefusalCounts, Holes]:
        """Return why nodes refuse a pod with this request."""
        shorts = tuple(
            (column, bisect.bisect_left(self._column(column), amount))
            for column, amount in enumerate(request.tolist())
            if amount and self._rows.size
        )
        known = self._by_shorts.get(shorts)
        if known is None:
            known = self._by_shorts[shorts] = self._count(shorts)
        return known

    def _count(self, shorts: tuple[tuple[int, int], ...]) -> tuple[RefusalCounts, Holes]:
        """Return the answer for a pod that requests these columns, each short in so many nodes."""
        counts = dict(self._counts)
        holes = []
        for column, short in shorts:
            name = self._names[column]
            if short:
                counts[Refusal(RefusalCode.INSUFFICIENT, name)] = short
            if name != resources.PODS:
                holes.append(self._hole(column))
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(ordered), tuple(sorted(holes, key=lambda hole: hole.resource))

    def kept_out_by(self, request: Vector, reserved: ReservedAmounts) -> ReservedFor | None:
        """Return for whom room is kept that a pod with this request would find."""
        return reserved.keeping_out(request, self._usable, self._free)

    def _column(self, column: int) -> list[int]:
        if column not in self._columns:
            self._columns[column] = np.sort(self._free[self._rows, column]).tolist()
        return self._columns[column]

    def _hole(self, column: int) -> MissingResource:
        if column not in self._holes:
            row = self._rows[int(self._free[self._rows, column].argmax())]
            self._holes[column] = MissingResource(
                resource=self._names[column],
                free=max(0, int(self._free[row, column])),
                node=self._layout.names[row],
            )
        return self._holes[column]


class UsableNodes:
    """The nodes that pass the same filters beyond the reach of evictions."""

    def __init__(self, session: Session, results: Sequence[FilterResult]) -> None:
        self._space, self._layout = session.space, session.layout
        self.results = results
        self._rows = np.flatnonzero(reachable(results, session.layout))
        self._allocatable = session.cluster.allocatable[self._rows]
        self._fitting: list[int] | None = None
        """What the last node has that turned out to be large enough, by column."""

    def outsized(self, request: Vector) -> Holes:
        """Return the largest amounts, if no node is large enough for this request."""
        if not self._rows.size or self._fits(request):
            return ()
        most = self._allocatable.max(axis=0)
        wanted = np.flatnonzero(request)
        short = wanted[most[wanted] < request[wanted]]
        return tuple(
            MissingResource(
                resource=self._space.names[column],
                free=int(most[column]),
                node=self._layout.names[self._rows[int(self._allocatable[:, column].argmax())]],
            )
            for column in (short if short.size else wanted).tolist()
            if self._space.names[column] != resources.PODS
        )

    def _fits(self, request: Vector) -> bool:
        if self._fitting is not None:
            wanted = zip(request.tolist(), self._fitting, strict=True)
            if all(amount <= limit for amount, limit in wanted if amount):
                return True
        large_enough = np.flatnonzero(resources.fits(request, self._allocatable))
        if large_enough.size:
            self._fitting = self._allocatable[large_enough[0]].tolist()
        return bool(large_enough.size)


def reachable(results: Sequence[FilterResult], layout: NodeLayout) -> Mask:
    """Return the nodes (N,) passing all filters beyond the reach of evictions, now or once pods
    that come and go have done so.
    """
    mask = np.ones(layout.size, dtype=np.bool_)
    for result in results:
        if not result.curable:
            mask &= result.passes if result.later is None else result.passes | result.later
    return mask


class _Kept(Protocol):
    """What follows from filter results."""

    results: Sequence[FilterResult]


Kept = TypeVar("Kept", bound=_Kept)


def _find(kept: list[Kept], results: Sequence[FilterResult]) -> Kept | None:
    """Return what is kept for these results, and move it to the front; None for new results.

    Filters that give the same array for many pods give the same object. Equal arrays aren't looked
    for, which would cost more than it saves.
    """
    for place, each in enumerate(kept):
        if len(each.results) == len(results) and all(map(_are_same, each.results, results)):
            kept.insert(0, kept.pop(place))
            return each
    return None


def _are_same(left: FilterResult, right: FilterResult) -> bool:
    return (
        left.passes is right.passes and left.later is right.later and left.refusal == right.refusal
    )


def _keep(kept: list[Kept], made: Kept) -> None:
    """Keep what was made, instead of the one that was used least recently if there are too many."""
    kept.insert(0, made)
    del kept[KEPT_MAX:]


def paused(refused: Mapping[str, Refused], layout: NodeLayout) -> dict[Refusal, Mask]:
    """Return the nodes (N,) not paused, by refusal.

    Regardless of configuration, a node gets no pods for a while after its kubelet has refused one.
    """
    found: dict[Refusal, Mask] = {}
    for name, each in refused.items():
        if name in layout.rows:
            code = RefusalCode.KUBELET_REFUSED
            refusal = Refusal(code, each.reason, str(each.seconds))
            passes = found.setdefault(refusal, np.ones(layout.size, dtype=np.bool_))
            passes[layout.rows[name]] = False
    return dict(sorted(found.items()))


def nobody(plugin: str, view: NodeView) -> list[FilterResult]:
    """Return the filter results of a plugin that failed: no node passes."""
    refusal = Refusal(RefusalCode.FILTER_FAILED, plugin)
    return [FilterResult(refusal, np.zeros(view.size, dtype=np.bool_))]
