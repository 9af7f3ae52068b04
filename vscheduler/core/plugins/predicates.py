"""Predicates: which nodes a pod may use, amounts aside.

Volcano: plugins/predicates, which asks kube-scheduler's filters. Room and pod slots are amounts:
the framework looks at them, and at whether a node is ready.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts, views
from vscheduler.core.model import jobs
from vscheduler.core.model import nodes as tables
from vscheduler.core.placement import nominated_pods
from vscheduler.core.placement.pod_affinity import filters

CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint {{{key}: {value}}}"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"
FEATURELESS = "node(s) didn't match Pod's required features"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
OTHER_TAINTS = "node(s) had other untolerated taints"
LONELY = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{UNEVEN} (missing required label)"

TAINTS_MAX = 16
"""So many taints are told apart; where every node has one of its own, the rest is one refusal."""


@dataclass(frozen=True, slots=True)
class FilterRule:
    """One refusal that depends on other pods: where a gate is closed."""

    refusal: str
    gates: Sequence[filters.DomainFilter]
    curable: bool = True

    def verdict(self, nodes: contracts.NodeView, *, foresees: bool) -> contracts.FilterResult:
        """The rows at which all gates are open; foresees: or will be when pods are gone."""
        now = np.ones(nodes.size, dtype=np.bool_)
        later = now.copy()
        for gate in self.gates:
            on_now, on_later = gate.on(nodes.rows)
            now &= on_now
            later &= on_later
        return contracts.FilterResult(
            self.refusal, now, later if foresees else None, curable=self.curable
        )


@dataclass(frozen=True, slots=True)
class CachedRules:
    """The rules for tasks of one standing, as long as no pod that they are about moves."""

    version: int
    rules: Sequence[FilterRule]
    outlook: Hashable
    local: Sequence[filters.DomainFilter]
    """Gates whose answer for a node only pods on that node change."""


class Predicates(contracts.Plugin):
    """Cordons, taints, node selectors and affinity, features, host ports, other pods."""

    name = "predicates"
    nodes_last = True
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "predicate.NodeAffinityEnable": contracts.Argument(bool, default=True),
        "predicate.NodePortsEnable": contracts.Argument(bool, default=True),
        "predicate.TaintTolerationEnable": contracts.Argument(bool, default=True),
        "predicate.CacheEnable": contracts.Argument(bool, default=False),
        "predicate.PodAffinityEnable": contracts.Argument(bool, default=True),
        "predicate.NodeVolumeLimitsEnable": contracts.Argument(
            bool, default=False, missing="volume limits of nodes"
        ),
        "predicate.VolumeZoneEnable": contracts.Argument(
            bool, default=False, missing="zones of volumes"
        ),
        "predicate.PodTopologySpreadEnable": contracts.Argument(bool, default=True),
        "predicate.VolumeBindingEnable": contracts.Argument(
            bool, default=False, missing="volume binding"
        ),
        "predicate.DynamicResourceAllocationEnable": contracts.Argument(
            bool, default=False, missing="dynamic resource allocation"
        ),
        "volumebinding.bindTimeoutSeconds": contracts.Argument(
            int, None, minimum=0, missing="volume binding"
        ),
        "volumebinding.weight": contracts.Argument(int, None, minimum=0, missing="volume binding"),
        "volumebinding.shape": contracts.Argument(list, None, missing="volume binding"),
        "dynamicresources.filterTimeoutSeconds": contracts.Argument(
            int, None, minimum=0, missing="dynamic resource allocation"
        ),
    }

    def open(self, session: contracts.Session) -> None:
        """What follows from the nodes' specs is worked out once per task class."""
        self._layout = session.snapshot.nodes.layout
        self._neighbours = session.neighbours
        self._nominated = session.nominated
        self._pod_affinity = bool(self.argument("predicate.PodAffinityEnable"))
        self._spread = bool(self.argument("predicate.PodTopologySpreadEnable"))
        self._foresees = True
        self._rulings: dict[views.PodAffinityState, CachedRules] = {}
        self._affinity = bool(self.argument("predicate.NodeAffinityEnable"))
        self._taints = bool(self.argument("predicate.TaintTolerationEnable"))
        self._ports = bool(self.argument("predicate.NodePortsEnable"))
        self._fixed: dict[Hashable, list[contracts.FilterResult]] = {}
        """By those of a class's constraints that they follow from."""

    def filter_nodes(
        self, task: jobs.Task, nodes: contracts.NodeView
    ) -> Sequence[contracts.FilterResult]:
        """Only filters that refuse some node of the cluster answer."""
        limits = task.pod_class.constraints
        place = (limits.tolerations, limits.node_selector, limits.required, limits.features)
        fixed = self._fixed.get(place)
        if fixed is None:
            fixed = self._fixed[place] = self._work_out(task.pod_class, nodes.layout)
        if nodes.rows is None:
            verdicts = list(fixed)
        else:
            verdicts = [
                contracts.FilterResult(each.refusal, each.passes[nodes.rows]) for each in fixed
            ]
        wanted = limits.ports
        if self._ports and wanted and (nodes.ports or nodes.leaving_ports):
            later = tables.free_ports(nodes.layout, nodes.rows, wanted, nodes.ports)
            left = tables.free_ports(nodes.layout, nodes.rows, wanted, nodes.leaving_ports)
            verdicts.append(contracts.FilterResult(PORTS_TAKEN, later & left, later, curable=True))
        standing = self._neighbours.standing(task)
        if standing is not None:
            rules = self._ruling(standing, task.pod_class).rules
            verdicts += [rule.verdict(nodes, foresees=self._foresees) for rule in rules]
        if self._nominated:
            asked = {"ports": self._ports, "distance": self._pod_affinity}
            verdicts += nominated_pods.filtered(self._nominated.of(task), task, nodes, **asked)
        return verdicts

    def class_nodes(self, kind: jobs.PodClass, layout: tables.NodeLayout) -> tables.Mask:
        """Nodes that cordons, taints and the pod's own conditions leave, other pods aside."""
        limits = kind.constraints

        def compute() -> tables.Mask:
            mask = tables.uncordoned(layout, limits.tolerations).copy()
            if self._taints:
                for passes in tables.barriers(layout, limits.tolerations).values():
                    mask &= passes
            if self._affinity:
                mask &= tables.selected(layout, limits)
            if limits.features:
                mask &= tables.featured(layout, limits.features)
            return mask

        parts = (limits.tolerations, limits.node_selector, limits.required, limits.features)
        return layout.memo(("class", self._taints, self._affinity, *parts), compute)

    def outlook(self, task: jobs.Task) -> Hashable:
        """Which values of labels pass, where a pod can change that for nodes that aren't its own:
        not how many pods there are, so that most placements leave other nodes as they were.
        """
        standing = self._neighbours.standing(task)
        return None if standing is None else self._ruling(standing, task.pod_class).outlook

    def row_outlook(self, task: jobs.Task, rows: NDArray[np.int64]) -> Sequence[Hashable] | None:
        """Which gates are open on a node, where pods on it are all that counts: a node that takes
        one of a gang takes no second one that must not meet it.
        """
        standing = self._neighbours.standing(task)
        local = () if standing is None else self._ruling(standing, task.pod_class).local
        if not local:
            return None
        answers = [answer for gate in local for answer in gate.on(rows)]
        return [each.tobytes() for each in np.stack(answers, axis=1)]

    def _ruling(self, standing: views.PodAffinityState, kind: jobs.PodClass) -> CachedRules:
        known = self._rulings.get(standing)
        version = standing.version
        if known is None or known.version != version:
            rules = tuple(self._rules(standing, kind))
            outlook = tuple(
                (gate.now.tobytes(), gate.later.tobytes())
                for rule in rules
                for gate in rule.gates
                if gate.changes is filters.Changes.ANYWHERE
            )
            local = [
                gate
                for rule in rules
                for gate in rule.gates
                if gate.changes is filters.Changes.ON_ITS_NODE
            ]
            known = self._rulings[standing] = CachedRules(version, rules, outlook or None, local)
        return known

    def _rules(self, standing: views.PodAffinityState, kind: jobs.PodClass) -> Iterator[FilterRule]:
        """In kube-scheduler's order: InterPodAffinity, PodTopologySpread."""
        if self._pod_affinity and standing.company:
            yield FilterRule(LONELY, filters.company_gates(standing), curable=False)
        if self._pod_affinity and standing.avoided:
            yield FilterRule(TOO_NEAR, filters.distance_gates(standing.avoided))
        if self._pod_affinity and standing.repelling:
            yield FilterRule(REPELLED, filters.distance_gates(standing.repelling))
        if self._spread and any(each.spread.hard for each in standing.spreading):
            yield FilterRule(UNLABELLED, filters.label_gates(standing), curable=False)
            gates = filters.spread_gates(standing, kind.constraints, self._layout)
            yield FilterRule(UNEVEN, gates)

    def _work_out(
        self, kind: jobs.PodClass, layout: tables.NodeLayout
    ) -> list[contracts.FilterResult]:
        """The verdicts that no placement changes, in kube-scheduler's order."""
        limits = kind.constraints
        verdicts = [
            contracts.FilterResult(CORDONED, tables.uncordoned(layout, limits.tolerations)),
        ]
        if self._taints:
            verdicts += _taint_verdicts(kind, layout)
        if self._affinity:
            verdicts.append(contracts.FilterResult(UNSELECTED, tables.selected(layout, limits)))
        if limits.features:
            verdicts.append(
                contracts.FilterResult(FEATURELESS, tables.featured(layout, limits.features))
            )
        return [verdict for verdict in verdicts if not verdict.passes.all()]


def _taint_verdicts(kind: jobs.PodClass, layout: tables.NodeLayout) -> list[contracts.FilterResult]:
    """One verdict per taint, by key and value; equal texts of different effects are one."""
    by_text: dict[str, tables.Mask] = {}
    for taint, passes in tables.barriers(layout, kind.constraints.tolerations).items():
        text = TAINTED.format(key=taint.key, value=taint.value)
        if text not in by_text and len(by_text) >= TAINTS_MAX:
            text = OTHER_TAINTS
        by_text[text] = np.logical_and(by_text[text], passes) if text in by_text else passes
    return [contracts.FilterResult(text, passes) for text, passes in sorted(by_text.items())]
