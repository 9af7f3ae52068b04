"""Neighbours: which pods are near a node, as this cycle has it so far.

Plugins ask for a task's Standing: what its conditions on other pods are about, and which pods have
a condition that is about it. Behind it are Tallies, numbers of pods by node and by the values of
a label, made when they are first needed and kept up to date by the session from then on.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import constraints, jobs, nodes, residents

Counts: TypeAlias = NDArray[np.int64]


class Seat(IntEnum):
    """How a pod stands on its node: an index into counts."""

    STAYING = 0
    LEAVING = 1
    """It is being deleted, or was chosen to be evicted."""
    PROMISED = 2
    """It waits for room there that is being freed."""


class Domains:
    """Numbers of pods by the values of a label of nodes, those without the label left out."""

    __slots__ = ("_eligible", "_present", "apart", "codes", "counts")

    def __init__(self, codes: NDArray[np.int64], eligible: nodes.Mask | None = None) -> None:
        values = int(codes.max(initial=-1)) + 1
        self.codes = codes
        """The value that each node has, (N,), -1 where it has none: the last of the counts."""
        self.counts: Counts = np.zeros((len(Seat), values + 1), dtype=np.int64)
        """By Seat and by value; what has no value counts nowhere."""
        self.apart = values == int((codes >= 0).sum())
        """Whether no two nodes have the same value."""
        self._eligible = eligible
        self._present: NDArray[np.int64] | None = None

    def move(self, row: int, seat: Seat, step: int) -> None:
        """So many pods more in this seat of the node, if the node counts."""
        code = self.codes[row]
        if code >= 0 and (self._eligible is None or self._eligible[row]):
            self.counts[seat, code] += step

    @property
    def present(self) -> NDArray[np.int64]:
        """The values that nodes have that count, sorted."""
        if self._present is None:
            counted = self.codes if self._eligible is None else self.codes[self._eligible]
            self._present = np.unique(counted[counted >= 0])
        return self._present

    @property
    def standing(self) -> Counts:
        """Pods that stay or will come, by value."""
        total: Counts = self.counts[Seat.STAYING] + self.counts[Seat.PROMISED]
        return total


class Tally:
    """Pods of one kind: a company that somebody looks for, or those that carry the same tie."""

    __slots__ = ("_domains", "_layout", "_seated", "version")

    def __init__(self, layout: nodes.NodeLayout, seats: residents.Seats) -> None:
        self._layout = layout
        self._domains: dict[Hashable, Domains] = {}
        self._seated: Counter[tuple[int, Seat]] = Counter()
        self.version = 0
        """Rises whenever a pod moves."""
        for name, (staying, leaving) in seats.items():
            row = layout.rows.get(name)
            if row is not None:
                self._seated[row, Seat.STAYING] = staying
                self._seated[row, Seat.LEAVING] = leaving

    def move(self, row: int, seat: Seat, step: int) -> None:
        """A pod takes this seat, or leaves it (-1)."""
        self.version += 1
        self._seated[row, seat] += step
        for domains in self._domains.values():
            domains.move(row, seat, step)

    def by_label(self, key: str) -> Domains:
        """How many there are by the values of a label."""
        found = self._domains.get(key)
        return found or self._keep(key, Domains(self._layout.label(key)[0]))

    def among(self, key: str, scope: Hashable, eligible: nodes.Mask) -> Domains:
        """The same as by_label, on nodes that count only; the scope says which these are."""
        found = self._domains.get((key, scope))
        return found or self._keep((key, scope), Domains(self._layout.label(key)[0], eligible))

    def _keep(self, place: Hashable, domains: Domains) -> Domains:
        for (row, seat), count in self._seated.items():
            if count:
                domains.move(row, seat, count)
        self._domains[place] = domains
        return domains


@dataclass(frozen=True, slots=True)
class Near:
    """Pods near which a node is more or less welcome; weight is 1 where it is a must."""

    pods: Tally
    topology_key: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Spreading:
    """A spread of the task's own, with the pods that it counts."""

    spread: constraints.Spread
    pods: Tally
    counts_itself: bool


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """What a task and the pods on nodes are to each other. Equal tasks share one."""

    key: Hashable
    """None, or what tells it from other tasks of its class."""
    counted_in: tuple[Tally, ...]
    """What its own coming and going changes."""
    company: tuple[Near, ...] = ()
    """Required affinity: one of the same company in every one of these places."""
    is_company: bool = False
    """Whether it is what it looks for: then it may be the first (kube-scheduler)."""
    avoided: tuple[Near, ...] = ()
    """Required anti-affinity of its own."""
    repelling: tuple[Near, ...] = ()
    """Pods whose required anti-affinity is about it."""
    liked: tuple[Near, ...] = ()
    """Preferences, its own and those of others about it."""
    drawing: tuple[Near, ...] = ()
    """Pods whose required affinity is about it."""
    spreading: tuple[Spreading, ...] = ()

    @property
    def version(self) -> int:
        """Changes whenever a pod moves that filters depend on."""
        near = sum(each.pods.version for each in (*self.company, *self.avoided, *self.repelling))
        return near + sum(each.pods.version for each in self.spreading)


class Neighbours:
    """All tallies of a cycle. Nearly all tasks have no Standing, which costs one look-up each."""

    def __init__(self, layout: nodes.NodeLayout, found: residents.Residents) -> None:
        self._layout = layout
        self._residents = found
        self._tallies: dict[residents.Company | residents.Tie, Tally] = {}
        self._standings: dict[Hashable, Standing] = {}
        self._by_task: dict[jobs.TaskId, Standing | None] = {}
        self._companies: residents.Finder[residents.Company] = residents.Finder()
        self._ties: residents.Finder[residents.Tie] = residents.Finder()
        for company in found.companies:
            self._companies.add(company, company)
        for tie in found.ties:
            self._ties.add(tie, (tie.term.pods,))
        self._anyone = bool(found.companies or found.ties)

    @property
    def nobody(self) -> bool:
        """Whether no pod has a condition on other pods."""
        return not self._anyone

    def standing(self, task: jobs.Task) -> Standing | None:
        """None where no condition on pods is the task's own or about it."""
        if not self._anyone:
            return None
        try:
            return self._by_task[task.uid]
        except KeyError:
            found = self._by_task[task.uid] = self._work_out(task)
            return found

    def move(self, task: jobs.Task, row: int, seat: Seat, step: int) -> None:
        """The task takes this seat, or leaves it (-1). Called by Session."""
        found = self.standing(task)
        if found is not None:
            for tally in found.counted_in:
                tally.move(row, seat, step)

    def _work_out(self, task: jobs.Task) -> Standing | None:
        labels = self._residents.namespace_labels(task.namespace)
        where = (task.namespace, task.labels, labels)
        companies = frozenset(self._companies.find(*where))
        about = frozenset(self._ties.find(*where))
        own = task.kind.constraints
        asks = own.pod_affinity or own.pod_anti_affinity or own.pod_preferred or own.spread
        if not (companies or about or asks):
            return None
        # Companies are those that waiting tasks ask for: nobody asks where a running one may go.
        waits = task.status is jobs.TaskStatus.PENDING
        place = (task.kind, waits, companies, about)
        found = self._standings.get(place)
        if found is None:
            found = self._standings[place] = self._make(own, companies, about, waits=waits)
        return found

    def _make(
        self,
        own: constraints.Constraints,
        companies: frozenset[residents.Company],
        about: frozenset[residents.Tie],
        *,
        waits: bool,
    ) -> Standing:
        counted_in: dict[residents.Company | residents.Tie, None] = dict.fromkeys(companies)
        counted_in.update(dict.fromkeys(residents.ties(own)))
        asked = set(residents.companies(own)) if waits else set()
        key = (about, companies & asked)
        of_others = {
            bond: tuple(
                Near(self._tally(tie), tie.term.topology_key, tie.weight or 1)
                for tie in about
                if tie.bond is bond
            )
            for bond in residents.Bond
        }
        standing = Standing(
            key=key if any(key) else None,
            counted_in=tuple(self._tally(each) for each in counted_in),
            repelling=of_others[residents.Bond.REPELS],
            drawing=of_others[residents.Bond.DRAWS],
            liked=of_others[residents.Bond.LIKES],
        )
        return self._with_own(standing, own, companies) if waits else standing

    def _with_own(
        self,
        standing: Standing,
        own: constraints.Constraints,
        companies: frozenset[residents.Company],
    ) -> Standing:
        company = residents.company(own.pod_affinity)
        preferred = (
            Near(self._tally((each.term.pods,)), each.term.topology_key, each.weight)
            for each in own.pod_preferred
        )
        return replace(
            standing,
            company=tuple(
                Near(self._tally(company), key)
                for key in dict.fromkeys(term.topology_key for term in own.pod_affinity)
            ),
            is_company=company in companies,
            avoided=tuple(
                Near(self._tally((term.pods,)), term.topology_key) for term in own.pod_anti_affinity
            ),
            liked=(*standing.liked, *preferred),
            spreading=tuple(self._spreading(each, companies) for each in own.spread),
        )

    def _spreading(
        self, spread: constraints.Spread, companies: frozenset[residents.Company]
    ) -> Spreading:
        pods = (spread.pods,)
        return Spreading(spread, self._tally(pods), pods in companies)

    def _tally(self, of: residents.Company | residents.Tie) -> Tally:
        found = self._tallies.get(of)
        if found is None:
            known = self._residents
            seats = known.ties.get(of) if isinstance(of, residents.Tie) else known.companies.get(of)
            found = self._tallies[of] = Tally(self._layout, seats or {})
        return found
