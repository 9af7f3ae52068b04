"""Pod affinity and spread: pods counted per node and per topology domain, as a cycle changes them.

Plugins ask for the PodAffinityState of a task: the pods that its affinity terms select, and the
pods whose terms select the task. Behind it are DomainCounts, numbers of pods by node and by the
values of a label, made on first use and kept up to date by the session from then on.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import views
from vscheduler.core.model import constraints, jobs, nodes, pod_affinity

Counts: TypeAlias = NDArray[np.int64]
PodPresence = pod_affinity.Seat
Place: TypeAlias = tuple[int, PodPresence]
"""A row, and how pods are there."""


class TopologyDomains:
    """Numbers of pods by the values of a label of nodes, those without the label left out."""

    __slots__ = ("_eligible", "_present", "apart", "codes", "counts")

    def __init__(self, codes: NDArray[np.int64], eligible: nodes.Mask | None = None) -> None:
        values = int(codes.max(initial=-1)) + 1
        self.codes = codes
        """The value that each node has, (N,), -1 where it has none: the last of the counts."""
        self.counts: Counts = np.zeros((len(PodPresence), values + 1), dtype=np.int64)
        """By Seat and by value; what has no value counts nowhere."""
        self.apart = values == int((codes >= 0).sum())
        """Whether no two nodes have the same value."""
        self._eligible = eligible
        self._present: NDArray[np.int64] | None = None

    def move(self, row: int, seat: PodPresence, step: int) -> None:
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
        total: Counts = self.counts[PodPresence.STAYING] + self.counts[PodPresence.PROMISED]
        return total

    def staying(self, code: int) -> int:
        """The same for one value."""
        return int(self.counts[PodPresence.STAYING, code] + self.counts[PodPresence.PROMISED, code])


class DomainCounts:
    """Pods of one kind: a company that somebody looks for, those that carry the same tie, or the
    weighted sum of many of these.
    """

    __slots__ = ("_domains", "_layout", "_seated", "version")

    def __init__(self, layout: nodes.NodeLayout, seated: Counter[Place] | None = None) -> None:
        self._layout = layout
        self._domains: dict[Hashable, TopologyDomains] = {}
        self._seated: Counter[Place] = Counter() if seated is None else seated
        self.version = 0
        """Rises whenever a pod moves."""

    def count(self, seats: pod_affinity.Seats, weight: int = 1) -> None:
        """These pods are of its kind, as they were when the cycle began."""
        rows, seated = self._layout.rows, self._seated
        for name, (staying, leaving) in seats.items():
            row = rows.get(name)
            if row is not None:
                if staying:
                    seated[row, PodPresence.STAYING] += weight * staying
                if leaving:
                    seated[row, PodPresence.LEAVING] += weight * leaving

    def include(self, other: "DomainCounts", weight: int = 1) -> None:
        """All that another has counted so far is of its kind."""
        for place, count in other._seated.items():  # noqa: SLF001 - one of its own
            self._seated[place] += weight * count

    def move(self, row: int, seat: PodPresence, step: int) -> None:
        """A pod takes this seat, or leaves it (-1)."""
        self.version += 1
        self._seated[row, seat] += step
        for domains in self._domains.values():
            domains.move(row, seat, step)

    def by_label(self, key: str) -> TopologyDomains:
        """How many there are by the values of a label."""
        found = self._domains.get(key)
        return found or self._keep(key, TopologyDomains(self._layout.label(key)[0]))

    def among(self, key: str, scope: Hashable, eligible: nodes.Mask) -> TopologyDomains:
        """The same as by_label, on nodes that count only; the scope says which these are."""
        found = self._domains.get((key, scope))
        return found or self._keep(
            (key, scope), TopologyDomains(self._layout.label(key)[0], eligible)
        )

    def _keep(self, place: Hashable, domains: TopologyDomains) -> TopologyDomains:
        for (row, seat), count in self._seated.items():
            if count:
                domains.move(row, seat, count)
        self._domains[place] = domains
        return domains


Domain: TypeAlias = tuple[str, int]
"""A label of nodes, and the code of one of its values."""

Found: TypeAlias = tuple[
    frozenset[pod_affinity.Company], frozenset[pod_affinity.AffinityTermOfPods]
]
"""Conditions that a pod meets: companies that it is of, and ties that are about it."""

FIND_COST = 2
"""Microseconds, about: one condition that is about a task."""

COUNT_COST = 10
"""Microseconds, about: one tally of what tasks of a class have conditions on, or carry."""


Nears: TypeAlias = tuple[views.TopologyCount, ...]
Weighted: TypeAlias = tuple[views.Item, str, int]
"""What to be near to, by which label of nodes, and how much that counts."""


class PodAffinityCounts:
    """All counts of a cycle. Most tasks have no PodAffinityState, which costs one look-up each."""

    def __init__(
        self,
        layout: nodes.NodeLayout,
        found: pod_affinity.PodAffinityIndex,
        spend: Callable[[str, int], None] = lambda _kind, _cost: None,
    ) -> None:
        """`spend` is told of work: a name, and microseconds, about."""
        self._layout = layout
        self._residents = found
        self._spend = spend
        self._tallies: dict[views.Item, DomainCounts] = {}
        self._sums: dict[views.Item, list[tuple[DomainCounts, int]]] = {}
        """Sums of several tallies that this one is in, with its weight there."""
        self._standings: dict[Hashable, views.PodAffinityState] = {}
        self._by_task: dict[jobs.TaskId, views.PodAffinityState | None] = {}
        self._found: dict[Hashable, Found] = {}
        """By namespace, and labels that conditions name."""
        self._of_others: dict[
            frozenset[pod_affinity.AffinityTermOfPods], Mapping[pod_affinity.AffinityKind, Nears]
        ] = {}
        self._guests: dict[views.DomainCounts, Counter[Domain]] = {}
        """By company, and where it is: pods that this cycle placed there to be near it."""
        self._anyone = bool(found.companies or found.ties)

    @property
    def nobody(self) -> bool:
        """Whether no pod has a condition on other pods."""
        return not self._anyone

    def standing(self, task: jobs.Task) -> views.PodAffinityState | None:
        """None where no condition on pods is the task's own or about it."""
        if not self._anyone:
            return None
        try:
            return self._by_task[task.uid]
        except KeyError:
            found = self._by_task[task.uid] = self._work_out(task)
            return found

    def move(self, task: jobs.Task, row: int, seat: pod_affinity.Seat, step: int) -> None:
        """The task takes this seat, or leaves it (-1). Called by Session."""
        found = self.standing(task)
        if found is None:
            return
        for item, tally in found.counted_in.items():
            tally.move(row, seat, step)
            for total, weight in self._sums.get(item, ()):
                total.move(row, seat, step * weight)
        for near in found.company:  # which only those have that waited
            code = int(near.pods.by_label(near.topology_key).codes[row])
            self._guests.setdefault(near.pods, Counter())[near.topology_key, code] += step

    @property
    def has_guests(self) -> bool:
        """Whether any pod was placed near others that it must be near."""
        return bool(self._guests)

    def would_miss(self, tasks: Sequence[jobs.Task]) -> bool:
        """Whether these pods on nodes are the last that others were placed near in this cycle."""
        leaving: Counter[tuple[views.DomainCounts, Domain]] = Counter()
        for task in tasks if self._guests else ():
            found, row = self.standing(task), self._layout.rows.get(task.node or "")
            for tally in found.counted_in.values() if found and row is not None else ():
                for (key, code), guests in self._guests.get(tally, {}).items():
                    if guests and tally.by_label(key).codes[row] == code:
                        leaving[tally, (key, code)] += 1
        return any(
            tally.by_label(key).staying(code) <= count
            for (tally, (key, code)), count in leaving.items()
        )

    def _work_out(self, task: jobs.Task) -> views.PodAffinityState | None:
        companies, about = self._find(task)
        own = task.pod_class.constraints
        asks = own.pod_affinity or own.pod_anti_affinity or own.pod_preferred or own.spread
        if not (companies or about or asks):
            return None
        # Companies are those that waiting tasks ask for: nobody asks where a running one may go.
        waits = task.status is jobs.TaskStatus.PENDING
        place = (task.pod_class, waits, companies, about)
        found = self._standings.get(place)
        if found is None:
            found = self._standings[place] = self._make(own, companies, about, waits=waits)
        return found

    def _find(self, task: jobs.Task) -> Found:
        """The conditions that the task meets: the same for all whose labels differ in nothing that
        any condition names.
        """
        known = self._residents
        named = tuple(pair for pair in task.labels.items() if known.names(pair[0]))
        place = (task.namespace, named)
        found = self._found.get(place)
        if found is None:
            where = (task.namespace, task.labels, known.namespace_labels(task.namespace))
            companies = frozenset(known.company_finder.find(*where))
            about = frozenset(known.tie_finder.find(*where))
            found = self._found[place] = (companies, about)
            self._spend("neighbours", FIND_COST * (1 + len(companies) + len(about)))
        return found

    def _make(
        self,
        own: constraints.Constraints,
        companies: frozenset[pod_affinity.Company],
        about: frozenset[pod_affinity.AffinityTermOfPods],
        *,
        waits: bool,
    ) -> views.PodAffinityState:
        counted_in: dict[views.Item, None] = dict.fromkeys(companies)
        counted_in.update(dict.fromkeys(pod_affinity.ties(own)))
        asked = set(pod_affinity.companies(own)) if waits else set()
        self._spend("standings", COUNT_COST * (len(counted_in) + len(asked)))
        key = (about, companies & asked)
        of_others = self._of_others.get(about)
        if of_others is None:
            of_others = self._of_others[about] = self._gather(about)
        standing = views.PodAffinityState(
            key=key if any(key) else None,
            counted_in={each: self._tally(each) for each in counted_in},
            repelling=of_others[pod_affinity.AffinityKind.REPELS],
            drawing=of_others[pod_affinity.AffinityKind.DRAWS],
            liked=of_others[pod_affinity.AffinityKind.LIKES],
        )
        return self._with_own(standing, own, companies) if waits else standing

    def _gather(
        self, about: Iterable[pod_affinity.AffinityTermOfPods]
    ) -> Mapping[pod_affinity.AffinityKind, Nears]:
        """Ties by what they mean."""
        by_bond: dict[pod_affinity.AffinityKind, list[Weighted]] = {
            bond: [] for bond in pod_affinity.AffinityKind
        }
        for tie in about:
            by_bond[tie.bond].append((tie, tie.term.topology_key, tie.weight or 1))
        return {bond: self._near(weighted) for bond, weighted in by_bond.items()}

    def _with_own(
        self,
        standing: views.PodAffinityState,
        own: constraints.Constraints,
        companies: frozenset[pod_affinity.Company],
    ) -> views.PodAffinityState:
        company = pod_affinity.company(own.pod_affinity)
        preferred = self._near(
            ((each.term.pods,), each.term.topology_key, each.weight) for each in own.pod_preferred
        )
        return replace(
            standing,
            company=tuple(
                views.TopologyCount(self._tally(company), key)
                for key in dict.fromkeys(term.topology_key for term in own.pod_affinity)
            ),
            is_company=company in companies,
            avoided=self._near(
                ((term.pods,), term.topology_key, 1) for term in own.pod_anti_affinity
            ),
            liked=(*standing.liked, *preferred),
            spreading=tuple(self._spreading(each, companies) for each in own.spread),
        )

    def _spreading(
        self, spread: constraints.Spread, companies: frozenset[pod_affinity.Company]
    ) -> views.SpreadCount:
        pods = (spread.pods,)
        return views.SpreadCount(spread, self._tally(pods), pods in companies)

    def _near(self, weighted: Iterable[Weighted]) -> Nears:
        """One for each label of nodes: of several it is the sum."""
        by_key: dict[str, list[tuple[views.Item, int]]] = {}
        for item, key, weight in weighted:
            by_key.setdefault(key, []).append((item, weight))
        return tuple(
            views.TopologyCount(self._tally(found[0][0]), key, found[0][1])
            if len(found) == 1
            else views.TopologyCount(self._sum(found), key)
            for key, found in by_key.items()
        )

    def _sum(self, parts: Iterable[tuple[views.Item, int]]) -> DomainCounts:
        total = DomainCounts(self._layout)
        for item, weight in parts:
            known = self._tallies.get(item)
            if known is None:  # nobody of these has moved so far
                total.count(self._seats(item), weight)
            else:
                total.include(known, weight)
            self._sums.setdefault(item, []).append((total, weight))
        return total

    def _tally(self, of: views.Item) -> DomainCounts:
        found = self._tallies.get(of)
        if found is None:
            found = self._tallies[of] = DomainCounts(self._layout)
            found.count(self._seats(of))
        return found

    def _seats(self, of: views.Item) -> pod_affinity.Seats:
        known = self._residents
        seats = (
            known.ties.get(of)
            if isinstance(of, pod_affinity.AffinityTermOfPods)
            else known.companies.get(of)
        )
        return seats or {}
