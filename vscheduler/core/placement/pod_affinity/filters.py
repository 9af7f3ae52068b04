"""Nearness: what neighbours mean for a task, worked out on the values of node labels.

Kubernetes: kube-scheduler plugins InterPodAffinity and PodTopologySpread. Where it counts all pods
alike, this tells apart those that stay, leave, and will come. Distance is kept from all of them;
company is only who is there now, and who will stay.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import views
from vscheduler.core.model import constraints, nodes, pod_affinity

Seat = pod_affinity.Seat
Flags = NDArray[np.bool_]
Scores = NDArray[np.float64]

FULL_SCORE = 100.0


class Changes(Enum):
    """Where a pod that comes or goes can change a gate's answer."""

    NOWHERE = auto()
    ON_ITS_NODE = auto()
    ANYWHERE = auto()


@dataclass(frozen=True, slots=True)
class DomainFilter:
    """One condition on a label of nodes: which of its values pass.

    The last flag is for nodes without the label. Codes are (N,), flags as long as there are values.
    """

    codes: NDArray[np.int64]
    now: Flags
    later: Flags
    """Once the pods that are leaving are gone."""
    changes: "Changes"

    def on(self, rows: NDArray[np.int64] | None) -> tuple[nodes.Mask, nodes.Mask]:
        """Which of these rows pass, now and later."""
        codes = self.codes if rows is None else self.codes[rows]
        return self.now[codes], self.later[codes]


def company_gates(standing: views.PodAffinityState) -> list[DomainFilter]:
    """Nodes near what the task must be near to, in every respect.

    The first of pods that look for each other may go wherever the labels are.
    """
    places = [near.pods.by_label(near.topology_key) for near in standing.company]
    total = sum((domains.counts.sum(axis=1) for domains in places), start=np.zeros(len(Seat)))
    gates = []
    for domains in places:
        labelled = _labelled(domains)
        staying, leaving, promised = domains.counts
        now, later = staying + leaving > 0, staying + promised > 0
        if standing.is_company and not total.any():
            now = labelled
        if standing.is_company and not total[[Seat.STAYING, Seat.PROMISED]].any():
            later = labelled
        gates.append(DomainFilter(domains.codes, now, later, Changes.ANYWHERE))
    return gates


def distance_gates(near: Sequence[views.TopologyCount]) -> list[DomainFilter]:
    """Nodes near none of these pods; a node without the label is near nobody."""
    gates = []
    for each in near:
        domains = each.pods.by_label(each.topology_key)
        now, later = domains.counts.sum(axis=0) == 0, domains.standing == 0
        changes = Changes.ON_ITS_NODE if domains.apart else Changes.ANYWHERE
        gates.append(DomainFilter(domains.codes, now, later, changes))
    return gates


def spread_gates(
    standing: views.PodAffinityState, limits: constraints.Constraints, layout: nodes.NodeLayout
) -> list[DomainFilter]:
    """Nodes where one more pod keeps hard spreads within their skew; leaving pods don't count."""
    spreads = [each for each in standing.spreading if each.spread.hard]
    gates = []
    for each, domains in zip(spreads, _domains(spreads, limits, layout), strict=True):
        spread, present, counts = each.spread, domains.present, domains.standing
        few = present.size < max(spread.min_domains, 1)
        least = 0 if few else int(counts[present].min())
        passes = counts + int(each.counts_itself) - least <= spread.max_skew
        passes &= _labelled(domains)
        gates.append(DomainFilter(domains.codes, passes, passes, Changes.ANYWHERE))
    return gates


def label_gates(standing: views.PodAffinityState) -> list[DomainFilter]:
    """Nodes that have the labels of all hard spreads."""
    gates = []
    for each in standing.spreading:
        if each.spread.hard:
            domains = each.pods.by_label(each.spread.topology_key)
            passes = _labelled(domains)
            gates.append(DomainFilter(domains.codes, passes, passes, Changes.NOWHERE))
    return gates


def liking(
    standing: views.PodAffinityState, drawing_weight: int, feasible: nodes.Mask
) -> Scores | None:
    """Preferences among feasible nodes, 0 to 100, the best and the worst of them at the ends (N,).

    drawing_weight is what those count who require the task's company. None where nobody's
    preference is about the task. Kubernetes: InterPodAffinity.NormalizeScore.
    """
    drawn = standing.drawing if drawing_weight else ()
    if not (standing.liked or drawn):
        return None
    total = np.zeros(feasible.size, dtype=np.int64)
    for each in standing.liked:
        total += each.weight * _standing_near(each)
    for each in drawn:
        total += drawing_weight * _standing_near(each)
    inside = total[feasible]
    if not inside.size or inside.min() == inside.max():
        return np.zeros(feasible.size)
    least, most = int(inside.min()), int(inside.max())
    scores: Scores = np.floor(FULL_SCORE * ((total - least) / (most - least)))
    scores[~feasible] = 0.0
    return scores


def evenness(
    standing: views.PodAffinityState,
    limits: constraints.Constraints,
    layout: nodes.NodeLayout,
    feasible: nodes.Mask,
) -> Scores | None:
    """How few pods of soft spreads feasible nodes have near, 0 to 100 (N,); None: there are none.

    Kubernetes: PodTopologySpread.Score, NormalizeScore. Hostnames are labels like others here:
    no two nodes have the same.
    """
    spreads = [each for each in standing.spreading if not each.spread.hard]
    if not spreads:
        return None
    counted = feasible & _all_labelled({each.spread.topology_key for each in spreads}, layout)
    if not counted.any():
        return np.zeros(layout.size)
    total = np.zeros(layout.size)
    for each, domains in zip(spreads, _domains(spreads, limits, layout), strict=True):
        near, values = domains.standing[domains.codes], np.unique(domains.codes[counted]).size
        total += near * np.log(values + 2) + (each.spread.max_skew - 1)
    total = np.floor(total + 0.5)
    least, most = total[counted].min(), total[counted].max()
    if not most:
        return np.where(counted, FULL_SCORE, 0.0)
    scores: Scores = np.floor(FULL_SCORE * (most + least - total) / most)
    scores[~counted] = 0.0
    return scores


def _standing_near(near: views.TopologyCount) -> NDArray[np.int64]:
    """How many such pods stay or will come near each node, (N,)."""
    domains = near.pods.by_label(near.topology_key)
    return domains.standing[domains.codes]


def _domains(
    spreads: Sequence[views.SpreadCount],
    limits: constraints.Constraints,
    layout: nodes.NodeLayout,
) -> Iterator[views.TopologyDomains]:
    """The counts of these spreads, on nodes that have the labels of all of them and that the
    policies of each leave in.
    """
    keys = tuple(sorted({each.spread.topology_key for each in spreads}))
    for each in spreads:
        spread = each.spread
        selector = (limits.node_selector, limits.required) if spread.honours_affinity else None
        tolerations = limits.tolerations if spread.honours_taints else None
        scope = ("spread over", keys, selector, tolerations)
        eligible = layout.memo(scope, functools.partial(_eligible, spread, keys, limits, layout))
        yield each.pods.among(spread.topology_key, scope, eligible)


def _eligible(
    spread: constraints.Spread,
    keys: Iterable[str],
    limits: constraints.Constraints,
    layout: nodes.NodeLayout,
) -> nodes.Mask:
    mask = _all_labelled(keys, layout)
    if spread.honours_affinity:
        mask &= nodes.selected(layout, limits)
    if spread.honours_taints:
        for passes in nodes.barriers(layout, limits.tolerations).values():
            mask &= passes
    return mask


def _all_labelled(keys: Iterable[str], layout: nodes.NodeLayout) -> nodes.Mask:
    mask = np.ones(layout.size, dtype=np.bool_)
    for key in keys:
        mask &= layout.label(key)[0] >= 0
    return mask


def _labelled(domains: views.TopologyDomains) -> Flags:
    """All values, and not the place of nodes without the label."""
    flags = np.ones(domains.counts.shape[1], dtype=np.bool_)
    flags[-1] = False
    return flags
