"""Filters and scores for pod affinity and topology spread, computed on values of node labels.

Kubernetes: kube-scheduler plugins InterPodAffinity and PodTopologySpread. kube-scheduler counts all
pods alike; here pods that stay, leave or will come are told apart. Anti-affinity holds against all
three, and against replacements that resources are reserved for. Affinity is satisfied now only by
pods present, and later only by pods that stay or will come.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.views import PodAffinityState, SpreadCount, TopologyCount, TopologyDomains
from vscheduler.model import nodes, pod_affinity
from vscheduler.model.constraints import Constraints, Spread
from vscheduler.model.nodes import Mask, NodeLayout

PodPresence = pod_affinity.PodPresence
Flags = NDArray[np.bool_]
Scores = NDArray[np.float64]

FULL_SCORE = 100.0


class Changes(Enum):
    """On which nodes a pod that comes or goes can change the result of a filter."""

    ON_ITS_NODE = auto()
    ANYWHERE = auto()


class DomainFilter(msgspec.Struct, frozen=True):
    """The result of one condition on a node label: which values pass.

    `codes` are (N,). Flags have one element for each value, and a last element for nodes without
    the label.
    """

    codes: NDArray[np.int64]
    now: Flags
    later: Flags
    """The result after pods being deleted are gone."""
    changes: "Changes"

    def on(self, rows: NDArray[np.int64] | None) -> tuple[Mask, Mask]:
        """Return which of these rows pass, now and later."""
        codes = self.codes if rows is None else self.codes[rows]
        now = self.now[codes]
        return now, now if self.later is self.now else self.later[codes]


def affinity_filters(affinity: PodAffinityState) -> list[DomainFilter]:
    """Return filters for required affinity, one for each topology key.

    If no pod matches yet and the task matches its own terms, the task may go to any node with the
    labels: the first of a group must start somewhere.
    """
    places = [near.pods.by_label(near.topology_key) for near in affinity.required_affinity]
    total = sum(
        (domains.counts.sum(axis=1) for domains in places), start=np.zeros(len(PodPresence))
    )
    filters = []
    for domains in places:
        labelled = _labelled(domains)
        staying, leaving, coming, _ = domains.counts
        now, later = staying + leaving > 0, staying + coming > 0
        if affinity.matches_itself and not total[[*pod_affinity.EXISTING]].any():
            now = labelled
        if affinity.matches_itself and not total[[*pod_affinity.LASTING]].any():
            later = labelled
        filters.append(DomainFilter(domains.codes, now, later, Changes.ANYWHERE))
    return filters


def anti_affinity_filters(near: Sequence[TopologyCount]) -> list[DomainFilter]:
    """Return filters for nodes without these pods in their domain.

    A node without the label always passes.
    """
    filters = []
    for each in near:
        domains = each.pods.by_label(each.topology_key)
        pods = domains.counts.sum(axis=0)
        now, later = pods == 0, pods == domains.counts[PodPresence.LEAVING]
        changes = Changes.ON_ITS_NODE if domains.apart else Changes.ANYWHERE
        filters.append(DomainFilter(domains.codes, now, later, changes))
    return filters


HardSpread: TypeAlias = tuple[SpreadCount, TopologyDomains]
"""A hard spread, with the counts on eligible nodes."""


def hard_spreads(
    affinity: PodAffinityState, limits: Constraints, layout: NodeLayout
) -> list[HardSpread]:
    """Return the hard spreads of a task."""
    spreads = [each for each in affinity.spreading if each.spread.hard]
    every = spread_domains(spreads, limits, layout)
    return [(each, domains) for each, (domains, _) in zip(spreads, every, strict=True)]


def spread_filters(spreads: Iterable[HardSpread]) -> list[DomainFilter]:
    """Return filters for hard spreads: one more pod must keep the skew.

    Pods being deleted don't count.
    """
    filters = []
    for each, domains in spreads:
        spread, present, counts = each.spread, domains.present, domains.expected
        values = counts[:-1] if present.size == counts.size - 1 else counts[present]
        few = present.size < max(spread.min_domains, 1)
        least = 0 if few else int(np.minimum.reduce(values))
        passes = counts <= spread.max_skew + least - int(each.counts_itself)
        passes[-1] = False  # nodes without the label
        filters.append(DomainFilter(domains.codes, passes, passes, Changes.ANYWHERE))
    return filters


def labelled(spreads: Iterable[HardSpread], layout: NodeLayout) -> Mask | None:
    """Return the nodes that have the labels of all hard spreads; None if all nodes have."""
    keys = tuple(sorted({each.spread.topology_key for each, _ in spreads}))

    def compute() -> Mask | None:
        mask = _all_labelled(keys, layout)
        return None if mask.all() else mask

    return layout.memo(("labelled", keys), compute)


def affinity_score(
    affinity: PodAffinityState, drawing_weight: int, feasible: Mask
) -> Scores | None:
    """Return the scores of preferred affinity for feasible nodes (N,), from 0 to 100.

    `drawing_weight` is the weight of pods whose required affinity selects the task. None if no
    preference concerns the task. Kubernetes: InterPodAffinity.NormalizeScore.
    """
    drawn = affinity.drawing if drawing_weight else ()
    if not (affinity.liked or drawn):
        return None
    total = np.zeros(feasible.size, dtype=np.int64)
    for each in affinity.liked:
        total += each.weight * _pods_nearby(each)
    for each in drawn:
        total += drawing_weight * _pods_nearby(each)
    inside = total[feasible]
    if not inside.size or inside.min() == inside.max():
        return np.zeros(feasible.size)
    least, most = int(inside.min()), int(inside.max())
    scores: Scores = np.floor(FULL_SCORE * ((total - least) / (most - least)))
    scores[~feasible] = 0.0
    return scores


def spread_score(
    affinity: PodAffinityState,
    limits: Constraints,
    layout: NodeLayout,
    feasible: Mask,
) -> Scores | None:
    """Return the scores of soft spreads for feasible nodes (N,), from 0 to 100; None without any.

    A node with fewer matching pods in its domain scores higher. Kubernetes:
    PodTopologySpread.Score, NormalizeScore. Hostnames are treated like other labels: no two nodes
    have the same.
    """
    spreads = [each for each in affinity.spreading if not each.spread.hard]
    if not spreads:
        return None
    counted = feasible & _all_labelled({spread.spread.topology_key for spread in spreads}, layout)
    if not counted.any():
        return np.zeros(layout.size)
    total = np.zeros(layout.size)
    every = spread_domains(spreads, limits, layout)
    for each, (domains, _) in zip(spreads, every, strict=True):
        near, values = domains.expected[domains.codes], np.unique(domains.codes[counted]).size
        total += near * np.log(values + 2) + (each.spread.max_skew - 1)
    total = np.floor(total + 0.5)
    least, most = total[counted].min(), total[counted].max()
    if not most:
        return np.where(counted, FULL_SCORE, 0.0)
    scores: Scores = np.floor(FULL_SCORE * (most + least - total) / most)
    scores[~counted] = 0.0
    return scores


def _pods_nearby(near: TopologyCount) -> NDArray[np.int64]:
    """Return how many of these pods stay or will come in each node's domain, (N,)."""
    domains = near.pods.by_label(near.topology_key)
    return domains.expected[domains.codes]


def spread_domains(
    spreads: Sequence[SpreadCount],
    limits: Constraints,
    layout: NodeLayout,
) -> Iterator[tuple[TopologyDomains, Mask]]:
    """Yield the counts of these spreads on eligible nodes, and these nodes (N,).

    A node is eligible if it has the labels of all spreads and no policy of the spread excludes it.
    """
    keys = tuple(sorted({spread.spread.topology_key for spread in spreads}))
    for each in spreads:
        spread = each.spread
        selector = (limits.node_selector, limits.required) if spread.honours_affinity else None
        tolerations = limits.tolerations if spread.honours_taints else None
        scope = ("spread over", keys, selector, tolerations)
        eligible = layout.memo(scope, functools.partial(_eligible, spread, keys, limits, layout))
        yield each.pods.among(spread.topology_key, scope, eligible), eligible


def _eligible(
    spread: Spread,
    keys: Iterable[str],
    limits: Constraints,
    layout: NodeLayout,
) -> Mask:
    """Return the nodes that count for a spread."""
    mask = _all_labelled(keys, layout)
    if spread.honours_affinity:
        mask &= nodes.selected(layout, limits)
    if spread.honours_taints:
        for passes in nodes.barriers(layout, limits.tolerations).values():
            mask &= passes
    return mask


def _all_labelled(keys: Iterable[str], layout: NodeLayout) -> Mask:
    """Return the nodes that have all of these labels."""
    mask = np.ones(layout.size, dtype=np.bool_)
    for key in keys:
        mask &= layout.label(key)[0] >= 0
    return mask


def _labelled(domains: TopologyDomains) -> Flags:
    """Return flags with all values set, and the element for nodes without the label cleared."""
    flags = np.ones(domains.counts.shape[1], dtype=np.bool_)
    flags[-1] = False
    return flags
