"""Counts of pods by node and topology domain, for pod affinity and topology spread.

Plugins ask for the PodAffinityState of a task: counts of the pods its affinity terms select, and of
the pods with terms selecting the task. The counts behind it are DomainCounts, numbers of pods by
node and by label value, made on first use and then updated by the session.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from vscheduler.core.api.views import Item, PodAffinityState, SpreadCount, TopologyCount
from vscheduler.model import pod_affinity
from vscheduler.model.constraints import Constraints, Spread
from vscheduler.model.jobs import Task, TaskId, TaskStatus
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.pod_affinity import (
    AffinityEffect,
    AffinityTermOfPods,
    PodAffinityIndex,
    PodsByNode,
    PodSets,
)

Counts: TypeAlias = NDArray[np.int64]
PodPresence = pod_affinity.PodPresence
Location: TypeAlias = tuple[int, PodPresence]
"""A row, and the state of pods there."""


class TopologyDomains:
    """Numbers of pods by value of a node label. Nodes without the label don't count."""

    __slots__ = ("_eligible", "_present", "apart", "codes", "counts")

    def __init__(
        self,
        codes: NDArray[np.int64],
        eligible: Mask | None = None,
        present: NDArray[np.int64] | None = None,
    ) -> None:
        """`present` are the codes of all values that eligible nodes have, if they are known."""
        values = int(codes.max(initial=-1)) + 1
        self.codes = codes
        """The code of each node's value, (N,). Nodes without the label have -1, the last element of
        the counts, which stays 0."""
        self.counts: Counts = np.zeros((len(PodPresence), values + 1), dtype=np.int64)
        """Numbers of pods by PodPresence and by value."""
        self.apart = values == int((codes >= 0).sum())
        """Whether no two nodes have the same value."""
        self._eligible = eligible
        self._present = present

    def move(self, row: int, presence: PodPresence, step: int) -> None:
        """Add `step` pods in this state on the node, if the node is eligible."""
        code = self.codes[row]
        if code >= 0 and (self._eligible is None or self._eligible[row]):
            self.counts[presence, code] += step

    @property
    def present(self) -> NDArray[np.int64]:
        """The codes of all values that eligible nodes have, sorted."""
        if self._present is None:
            self._present = _present(self.codes, self._eligible)
        return self._present

    @property
    def expected(self) -> Counts:
        """Pods that stay or will come, by value."""
        total: Counts = self.counts[PodPresence.STAYING] + self.counts[PodPresence.COMING]
        return total


def _present(codes: NDArray[np.int64], eligible: Mask | None) -> NDArray[np.int64]:
    """Return the codes of all values that eligible nodes have, sorted."""
    counted = codes if eligible is None else codes[eligible]
    return np.unique(counted[counted >= 0])


class DomainCounts:
    """Numbers of pods by node and label value.

    The pods are all selected by the same affinity terms, or all have the same term; or the numbers
    are a weighted sum of several such counts.
    """

    __slots__ = ("_domains", "_layout", "_placed", "version")

    def __init__(self, layout: NodeLayout, placed: Counter[Location] | None = None) -> None:
        self._layout = layout
        self._domains: dict[Hashable, TopologyDomains] = {}
        self._placed: Counter[Location] = Counter() if placed is None else placed
        self.version = 0
        """Increases whenever a pod moves."""

    def count(self, initial: PodsByNode, weight: int = 1) -> None:
        """Add pods as counted when the cycle began."""
        rows, placed = self._layout.rows, self._placed
        for name, (staying, leaving) in initial.items():
            row = rows.get(name)
            if row is not None:
                if staying:
                    placed[row, PodPresence.STAYING] += weight * staying
                if leaving:
                    placed[row, PodPresence.LEAVING] += weight * leaving

    def include(self, other: "DomainCounts", weight: int = 1) -> None:
        """Add everything another DomainCounts has counted so far."""
        for place, count in other._placed.items():  # noqa: SLF001 - one of its own
            self._placed[place] += weight * count

    def move(self, row: int, presence: PodPresence, step: int) -> None:
        """Add `step` pods in this state on the node."""
        self.version += 1
        self._placed[row, presence] += step
        for domains in self._domains.values():
            domains.move(row, presence, step)

    def by_label(self, key: str) -> TopologyDomains:
        """Return the counts by value of a node label."""
        found = self._domains.get(key)
        return found or self._keep(key, TopologyDomains(self._layout.label(key)[0]))

    def among(self, key: str, scope: Hashable, eligible: Mask) -> TopologyDomains:
        """Return the counts by value of a node label, on eligible nodes only.

        `scope` identifies these nodes.
        """
        found = self._domains.get((key, scope))
        if found is None:
            codes = self._layout.label(key)[0]
            # Gangs whose pods spread alike each have counts of their own, on the same nodes.
            present = self._layout.memo(("present", key, scope), lambda: _present(codes, eligible))
            found = self._keep((key, scope), TopologyDomains(codes, eligible, present))
        return found

    def _keep(self, place: Hashable, domains: TopologyDomains) -> TopologyDomains:
        """Fill new counts by label with all pods counted so far, and keep the counts."""
        for (row, presence), count in self._placed.items():
            if count:
                domains.move(row, presence, count)
        self._domains[place] = domains
        return domains


Domain: TypeAlias = tuple[str, int]
"""A node label, and the code of one of its values."""

Found: TypeAlias = tuple[frozenset[PodSets], frozenset[AffinityTermOfPods]]
"""The terms that select a pod: sets of pods it is in, and terms owned by other pods."""

FIND_COST = 2
"""About how many microseconds it takes to find one term that selects a task."""

COUNT_COST = 10
"""About how many microseconds it takes to make the counts for one term of a class."""


TopologyCounts: TypeAlias = tuple[TopologyCount, ...]
Weighted: TypeAlias = tuple[Item, str, int]
"""What to be near to, by which node label, and with which weight."""


class PodAffinityCounts:
    """All counts of a cycle. Most tasks have no PodAffinityState, and cost one look-up each."""

    def __init__(
        self,
        layout: NodeLayout,
        found: PodAffinityIndex,
        spend: Callable[[str, int], None] = lambda _kind, _cost: None,
    ) -> None:
        """`spend` is told of work: a name, and about how many microseconds."""
        self._layout = layout
        self._index = found
        self._spend = spend
        self._counts: dict[Item, DomainCounts] = {}
        self._sums: dict[Item, list[tuple[DomainCounts, int]]] = {}
        """The weighted sums that each DomainCounts is part of, with its weight."""
        self._states: dict[Hashable, PodAffinityState] = {}
        self._by_task: dict[TaskId, PodAffinityState | None] = {}
        self._found: dict[Hashable, Found] = {}
        """Results by namespace and by labels that any term names."""
        self._of_others: dict[
            frozenset[AffinityTermOfPods],
            Mapping[AffinityEffect, TopologyCounts],
        ] = {}
        self._anyone = bool(found.pod_set_counts or found.term_counts)

    @property
    def nobody(self) -> bool:
        """Whether no pod has a term about other pods."""
        return not self._anyone

    def state_of(self, task: Task) -> PodAffinityState | None:
        """Return the affinity state of the task; None without terms of or about the task."""
        if not self._anyone:
            return None
        try:
            return self._by_task[task.uid]
        except KeyError:
            found = self._by_task[task.uid] = self._first_state(task)
            return found

    def move(self, task: Task, row: int, presence: pod_affinity.PodPresence, step: int) -> None:
        """Add `step` for the task in this state on the node. Called by Session."""
        found = self.state_of(task)
        if found is None:
            return
        for item, counts in found.counted_in.items():
            counts.move(row, presence, step)
            for total, weight in self._sums.get(item, ()):
                total.move(row, presence, step * weight)

    def rests_on(self, task: Task, others: Iterable[Task]) -> bool:
        """Whether required affinity, or a hard spread, of the waiting task counts these pods.

        Other terms only keep the task away from pods.
        """
        found = self.state_of(task)
        if found is None or not (found.required_affinity or found.spreading):
            return False
        counts = {near.pods for near in found.required_affinity}
        counts |= {each.pods for each in found.spreading if each.spread.hard}
        states = filter(None, map(self.state_of, others))
        return any(not counts.isdisjoint(state.counted_in.values()) for state in states)

    def _first_state(self, task: Task) -> PodAffinityState | None:
        """Return the affinity state of a task seen for the first time; None without terms."""
        selected_by, about = self._find(task)
        own = task.pod_class.constraints
        asks = own.pod_affinity or own.pod_anti_affinity or own.pod_preferred or own.spread
        if not (selected_by or about or asks):
            return None
        # Terms of a task's own matter only while the task is pending: nobody asks where a running
        # task may go.
        waits = task.status is TaskStatus.PENDING
        place = (task.pod_class, waits, selected_by, about)
        found = self._states.get(place)
        if found is None:
            found = self._states[place] = self._make(own, selected_by, about, waits=waits)
        return found

    def _find(self, task: Task) -> Found:
        """Return the terms that select the task.

        Tasks share a result if their labels differ only in labels without any term.
        """
        known = self._index
        named = tuple(pair for pair in task.labels.items() if known.names(pair[0]))
        place = (task.namespace, named)
        found = self._found.get(place)
        if found is None:
            where = (task.namespace, task.labels, known.namespace_labels(task.namespace))
            selected_by = frozenset(known.pod_set_index.find(*where))
            about = frozenset(known.term_index.find(*where))
            found = self._found[place] = (selected_by, about)
            self._spend("neighbours", FIND_COST * (1 + len(selected_by) + len(about)))
        return found

    def _make(
        self,
        own: Constraints,
        selected_by: frozenset[PodSets],
        about: frozenset[AffinityTermOfPods],
        *,
        waits: bool,
    ) -> PodAffinityState:
        """Return the affinity state shared by all tasks of a class that the same terms select."""
        counted_in: dict[Item, None] = dict.fromkeys(selected_by)
        counted_in.update(dict.fromkeys(pod_affinity.affinity_terms(own)))
        asked = set(pod_affinity.counted_pod_sets(own)) if waits else set()
        self._spend("standings", COUNT_COST * (len(counted_in) + len(asked)))
        key = (about, selected_by & asked)
        of_others = self._of_others.get(about)
        if of_others is None:
            of_others = self._of_others[about] = self._gather(about)
        affinity = PodAffinityState(
            key=key if any(key) else None,
            counted_in={each: self._counts_of(each) for each in counted_in},
            repelling=of_others[AffinityEffect.REPELS],
            drawing=of_others[AffinityEffect.DRAWS],
            liked=of_others[AffinityEffect.LIKES],
        )
        return self._with_own(affinity, own, selected_by) if waits else affinity

    def _gather(
        self, about: Iterable[AffinityTermOfPods]
    ) -> Mapping[AffinityEffect, TopologyCounts]:
        """Return the counts for other pods' terms, by kind of term."""
        by_effect: dict[AffinityEffect, list[Weighted]] = {effect: [] for effect in AffinityEffect}
        for affinity_term in about:
            by_effect[affinity_term.effect].append(
                (affinity_term, affinity_term.term.topology_key, affinity_term.weight or 1)
            )
        return {effect: self._topology_counts(weighted) for effect, weighted in by_effect.items()}

    def _with_own(
        self,
        affinity: PodAffinityState,
        own: Constraints,
        selected_by: frozenset[PodSets],
    ) -> PodAffinityState:
        """Return the state with counts for the task's own terms added."""
        pod_sets = pod_affinity.pod_sets_of(own.pod_affinity)
        preferred = self._topology_counts(
            ((each.term.pods,), each.term.topology_key, each.weight) for each in own.pod_preferred
        )
        return replace(
            affinity,
            required_affinity=tuple(
                TopologyCount(self._counts_of(pod_sets), key)
                for key in dict.fromkeys(term.topology_key for term in own.pod_affinity)
            ),
            matches_itself=pod_sets in selected_by,
            avoided=self._topology_counts(
                ((term.pods,), term.topology_key, 1) for term in own.pod_anti_affinity
            ),
            liked=(*affinity.liked, *preferred),
            spreading=tuple(self._spreading(each, selected_by) for each in own.spread),
        )

    def _spreading(self, spread: Spread, selected_by: frozenset[PodSets]) -> SpreadCount:
        """Return the counts for one spread constraint."""
        pods = (spread.pods,)
        return SpreadCount(spread, self._counts_of(pods), pods in selected_by)

    def _topology_counts(self, weighted: Iterable[Weighted]) -> TopologyCounts:
        """Return one count for each node label, the weighted sum of terms with this label."""
        by_key: dict[str, list[tuple[Item, int]]] = {}
        for item, key, weight in weighted:
            by_key.setdefault(key, []).append((item, weight))
        return tuple(
            TopologyCount(self._counts_of(found[0][0]), key, found[0][1])
            if len(found) == 1
            else TopologyCount(self._sum(found), key)
            for key, found in by_key.items()
        )

    def _sum(self, parts: Iterable[tuple[Item, int]]) -> DomainCounts:
        """Return the weighted sum of several counts, kept up to date with them."""
        total = DomainCounts(self._layout)
        for item, weight in parts:
            known = self._counts.get(item)
            if known is None:  # none of these pods has moved so far
                total.count(self._initial(item), weight)
            else:
                total.include(known, weight)
            self._sums.setdefault(item, []).append((total, weight))
        return total

    def _counts_of(self, of: Item) -> DomainCounts:
        """Return the counts of these pods, made on first use."""
        found = self._counts.get(of)
        if found is None:
            found = self._counts[of] = DomainCounts(self._layout)
            found.count(self._initial(of))
        return found

    def _initial(self, of: Item) -> PodsByNode:
        """Return the numbers of these pods on nodes when the cycle began."""
        known = self._index
        initial = (
            known.term_counts.get(of)
            if isinstance(of, AffinityTermOfPods)
            else known.pod_set_counts.get(of)
        )
        return initial or {}
