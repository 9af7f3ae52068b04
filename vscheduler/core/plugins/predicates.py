"""Predicates: which nodes a pod may use, free amounts aside.

Volcano: plugins/predicates, which calls kube-scheduler's filters. Free resources, pod slots and
node readiness are checked outside of plugins.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Argument, FilterResult, NodeView, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import PodAffinityState
from vscheduler.core.placement import nominated_pods
from vscheduler.core.placement.pod_affinity import filters
from vscheduler.core.placement.pod_affinity.filters import Changes, DomainFilter, HardSpread
from vscheduler.model import nodes as tables
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.refusals import Refusal, RefusalCode

CORDONED = Refusal(RefusalCode.CORDONED)
OTHER_TAINTS = Refusal(RefusalCode.OTHER_TAINTS)
NODE_AFFINITY = Refusal(RefusalCode.NODE_AFFINITY)
FEATURES = Refusal(RefusalCode.FEATURES)
PORTS = Refusal(RefusalCode.PORTS)
POD_AFFINITY = Refusal(RefusalCode.POD_AFFINITY)
POD_ANTI_AFFINITY = Refusal(RefusalCode.POD_ANTI_AFFINITY)
EXISTING_ANTI_AFFINITY = Refusal(RefusalCode.EXISTING_ANTI_AFFINITY)
TOPOLOGY_SPREAD = Refusal(RefusalCode.TOPOLOGY_SPREAD)
TOPOLOGY_LABEL = Refusal(RefusalCode.TOPOLOGY_LABEL)

ALLOCATES = "predicate.DynamicResourceAllocationEnable"

TAINTS_MAX = 16
"""At most this many taints are told apart. If every node has a taint of its own, the rest share one
message."""


class FilterRule(msgspec.Struct, frozen=True):
    """One refusal depending on other pods, with all filters behind the refusal."""

    refusal: Refusal
    domain_filters: Sequence[DomainFilter]
    curable: bool = True

    def verdict(self, nodes: NodeView, *, foresees: bool) -> FilterResult:
        """Return the rows passing all filters, now and, if `foresees`, after pods are gone."""
        first, *others = self.domain_filters
        now, later = first.on(nodes.rows)
        for domain_filter in others:
            on_now, on_later = domain_filter.on(nodes.rows)
            # Never in place: both may be one array.
            same = later is now and on_later is on_now
            now = now & on_now
            later = now if same else later & on_later
        return FilterResult(self.refusal, now, later if foresees else None, curable=self.curable)


class CachedRules(msgspec.Struct, frozen=True):
    """The rules for tasks with equal affinity state, valid until any pod counted there moves."""

    version: int
    rules: Sequence[FilterRule]
    elsewhere: Hashable
    local: Sequence[DomainFilter]
    """Filters whose result for a node changes only with pods on the node itself."""


class Predicates(Plugin):
    """Filters nodes by specs, labels, taints, host ports, volumes and other pods.

    Cordons, taints, node selectors and affinity, features, host ports, volumes, pod affinity and
    spread are checked.
    """

    name = "predicates"
    allocates_claims = ALLOCATES
    arguments: ClassVar[Mapping[str, Argument]] = {
        "predicate.NodeAffinityEnable": Argument(bool, default=True),
        "predicate.NodePortsEnable": Argument(bool, default=True),
        "predicate.TaintTolerationEnable": Argument(bool, default=True),
        "predicate.CacheEnable": Argument(bool, default=False),
        "predicate.PodAffinityEnable": Argument(bool, default=True),
        "predicate.NodeVolumeLimitsEnable": Argument(bool, default=True),
        "predicate.VolumeZoneEnable": Argument(bool, default=True),
        "predicate.PodTopologySpreadEnable": Argument(bool, default=True),
        "predicate.VolumeBindingEnable": Argument(bool, default=True),
        ALLOCATES: Argument(bool, default=True),
        "volumebinding.bindTimeoutSeconds": Argument(int, 600, minimum=0),
        # Volcano and kube-scheduler score by storage only behind a feature gate that is off.
        "volumebinding.weight": Argument(int, None, minimum=0, missing="scores by storage"),
        "volumebinding.shape": Argument(list, None, missing="scores by storage"),
        "dynamicresources.filterTimeoutSeconds": Argument(
            int, None, minimum=0, missing="a limit on the time that devices are searched for"
        ),
    }

    def open(self, session: Session) -> None:
        """Read the arguments. Results by node specs are computed once for each pod class."""
        values = self._values
        self._layout = session.snapshot.nodes.layout
        self._affinity_counts = session.affinity_counts
        self._nominated = session.nominated
        self._pod_affinity = bool(values["predicate.PodAffinityEnable"])
        self._spread = bool(values["predicate.PodTopologySpreadEnable"])
        self._foresees = True
        self._rulings: dict[PodAffinityState, CachedRules] = {}
        self._spreads: dict[PodAffinityState, Sequence[HardSpread]] = {}
        self._affinity = bool(values["predicate.NodeAffinityEnable"])
        self._taints = bool(values["predicate.TaintTolerationEnable"])
        self._ports = bool(values["predicate.NodePortsEnable"])
        self._volumes = session.volumes
        self._volume_binding = bool(values["predicate.VolumeBindingEnable"])
        self._volume_zones = bool(values["predicate.VolumeZoneEnable"])
        self._volume_limits = bool(values["predicate.NodeVolumeLimitsEnable"])
        if self._volume_limits:
            self._volumes.limit_attachments()
        if self._volume_binding:
            self._volumes.bind_claims(float(values["volumebinding.bindTimeoutSeconds"]))
        self._devices = session.devices
        self._allocation = bool(values[ALLOCATES])
        self._fixed: dict[Hashable, list[FilterResult]] = {}
        """Cached results, by the constraints of a pod class they follow from."""

    def _elsewhere(self, task: Task) -> Hashable:
        """Return which label values pass, for filters influenced by pods on other nodes.

        The result has flags instead of pod counts, so most placements leave the value for other
        nodes as before. For a pod with volumes or devices, the result also says what other pods
        took of them.
        """
        affinity = self._affinity_counts.state_of(task)
        near = None if affinity is None else self._ruling(affinity, task.pod_class).elsewhere
        limits = task.pod_class.constraints
        if not (limits.volumes or limits.resource_claims):
            return near
        taken = self._volumes.fingerprint(task.pod_class) if limits.volumes else None
        if limits.resource_claims and self._allocation:
            return near, taken, self._devices.fingerprint(task.pod_class)
        return near if taken is None else (near, taken)

    def _on_rows(self, task: Task, rows: NDArray[np.int64]) -> Sequence[Hashable] | None:
        """Return which filters pass on each node, for filters influenced by its own pods only.

        After a pod of a gang with anti-affinity to itself, for example, the node takes no second
        pod.
        """
        affinity = self._affinity_counts.state_of(task)
        local = () if affinity is None else self._ruling(affinity, task.pod_class).local
        found: list[Sequence[Hashable]] = []
        limits = task.pod_class.constraints
        if limits.volumes:
            attached = self._volumes.row_fingerprint(task.pod_class, rows)
            found += [] if attached is None else [attached]
        if limits.resource_claims and self._allocation:
            allocated = self._devices.row_fingerprint(task.pod_class, rows)
            found += [] if allocated is None else [allocated]
        if local:
            answers = [answer for domain_filter in local for answer in domain_filter.on(rows)]
            found.append([each.tobytes() for each in np.stack(answers, axis=1)])
        return list(zip(*found, strict=True)) if found else None

    @depends_on(On.CLASS | On.NODE | On.PORTS, fingerprint=_elsewhere, row_fingerprint=_on_rows)
    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Return the results of all filters that refuse any node of the cluster."""
        limits = task.pod_class.constraints
        place = (limits.tolerations, limits.node_selector, limits.required, limits.features)
        fixed = self._fixed.get(place)
        if fixed is None:
            key = ("filters", self._taints, self._affinity, *place)
            fixed = self._fixed[place] = nodes.layout.memo(
                key, lambda: self._work_out(task.pod_class, nodes.layout)
            )
        if nodes.rows is None:
            results = list(fixed)
        else:
            results = [FilterResult(each.refusal, each.passes[nodes.rows]) for each in fixed]
        wanted = limits.ports
        if self._ports and wanted and (nodes.ports or nodes.leaving_ports):
            later = tables.free_ports(nodes.layout, nodes.rows, wanted, nodes.ports)
            left = tables.free_ports(nodes.layout, nodes.rows, wanted, nodes.leaving_ports)
            results.append(FilterResult(PORTS, later & left, later, curable=True))
        if limits.volumes:
            results += self._volume_results(task.pod_class, nodes)
        if limits.resource_claims and self._allocation:
            results += self._devices.filter(task.pod_class, nodes)
        affinity = self._affinity_counts.state_of(task)
        if affinity is not None:
            rules = self._ruling(affinity, task.pod_class).rules
            about = [rule.verdict(nodes, foresees=self._foresees) for rule in rules]
            unlabelled = list(self._unlabelled(affinity, task, nodes))
            if unlabelled:  # in kube-scheduler's order, just before the spread
                about[-1:-1] = unlabelled
            results += about
        if self._nominated:
            asked = {"ports": self._ports, "distance": self._pod_affinity}
            results += nominated_pods.filtered(self._nominated.of(task), task, nodes, **asked)
        return results

    @depends_on(On.CLASS | On.NODE)
    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask:
        """Return the nodes passing cordons, taints and the pod's constraints, other pods aside."""
        limits = pod_class.constraints

        def compute() -> Mask:
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
        mask = layout.memo(("class", self._taints, self._affinity, *parts), compute)
        # What volumes allow changes with their objects, and not with the layout of the nodes.
        usable = self._usable(pod_class, layout) if limits.volumes else None
        if usable is not None:
            mask = mask & usable
        if limits.resource_claims and self._allocation:
            usable = self._devices.usable(pod_class, layout)
            return mask if usable is None else mask & usable
        return mask

    def _volume_results(self, pod_class: PodClass, nodes: NodeView) -> Iterator[FilterResult]:
        """Yield results for the volumes of a pod class, in kube-scheduler's order."""
        yield from self._volumes.restrictions(pod_class, nodes)
        if self._volume_limits:
            yield from self._volumes.limits(pod_class, nodes)
        if self._volume_binding:
            yield from self._volumes.binding(pod_class, nodes)
        if self._volume_zones:
            yield from self._volumes.zones(pod_class, nodes)

    def _usable(self, pod_class: PodClass, layout: NodeLayout) -> Mask | None:
        """Return the nodes (N,) that bound claims allow; None: all."""
        return self._volumes.usable(
            pod_class, layout, binding=self._volume_binding, zones=self._volume_zones
        )

    def _ruling(self, affinity: PodAffinityState, pod_class: PodClass) -> CachedRules:
        """Return the rules for a task in this state, cached until a counted pod moves."""
        known = self._rulings.get(affinity)
        version = affinity.version
        if known is None or known.version != version:
            rules = tuple(self._rules(affinity, pod_class))
            elsewhere = tuple(
                (domain_filter.now.tobytes(), domain_filter.later.tobytes())
                for rule in rules
                for domain_filter in rule.domain_filters
                if domain_filter.changes is Changes.ANYWHERE
            )
            local = [
                domain_filter
                for rule in rules
                for domain_filter in rule.domain_filters
                if domain_filter.changes is Changes.ON_ITS_NODE
            ]
            known = self._rulings[affinity] = CachedRules(version, rules, elsewhere or None, local)
        return known

    def _rules(self, affinity: PodAffinityState, pod_class: PodClass) -> Iterator[FilterRule]:
        """Yield rules in kube-scheduler's order: InterPodAffinity, PodTopologySpread."""
        if self._pod_affinity and affinity.required_affinity:
            yield FilterRule(POD_AFFINITY, filters.affinity_filters(affinity), curable=False)
        if self._pod_affinity and affinity.avoided:
            yield FilterRule(POD_ANTI_AFFINITY, filters.anti_affinity_filters(affinity.avoided))
        if self._pod_affinity and affinity.repelling:
            yield FilterRule(
                EXISTING_ANTI_AFFINITY, filters.anti_affinity_filters(affinity.repelling)
            )
        spreads = self._hard_spreads(affinity, pod_class) if self._spread else ()
        if spreads:
            yield FilterRule(TOPOLOGY_SPREAD, filters.spread_filters(spreads))

    def _hard_spreads(
        self, affinity: PodAffinityState, pod_class: PodClass
    ) -> Sequence[HardSpread]:
        """Return the hard spreads of tasks in this state, whose counts are found once."""
        if not affinity.spreading:
            return ()
        if affinity not in self._spreads:
            limits = pod_class.constraints
            self._spreads[affinity] = filters.hard_spreads(affinity, limits, self._layout)
        return self._spreads[affinity]

    def _unlabelled(
        self, affinity: PodAffinityState, task: Task, nodes: NodeView
    ) -> Iterator[FilterResult]:
        """Yield the result for nodes without the labels that pods are spread over, if any lacks
        one.
        """
        spreads = self._hard_spreads(affinity, task.pod_class) if self._spread else ()
        passes = filters.labelled(spreads, self._layout) if spreads else None
        if passes is not None:
            there = nodes.of(passes)
            later = there if self._foresees else None
            yield FilterResult(TOPOLOGY_LABEL, there, later)

    def _work_out(self, pod_class: PodClass, layout: NodeLayout) -> list[FilterResult]:
        """Return results that placements don't change, in kube-scheduler's order."""
        limits = pod_class.constraints
        results = [
            FilterResult(CORDONED, tables.uncordoned(layout, limits.tolerations)),
        ]
        if self._taints:
            results += _taint_results(pod_class, layout)
        if self._affinity:
            results.append(FilterResult(NODE_AFFINITY, tables.selected(layout, limits)))
        if limits.features:
            results.append(FilterResult(FEATURES, tables.featured(layout, limits.features)))
        return [result for result in results if not result.passes.all()]


def _taint_results(pod_class: PodClass, layout: NodeLayout) -> list[FilterResult]:
    """Return one result for each taint's key and value, with effects merged."""
    by_refusal: dict[Refusal, Mask] = {}
    for taint, passes in tables.barriers(layout, pod_class.constraints.tolerations).items():
        refusal = Refusal(RefusalCode.TAINT, taint.key, taint.value)
        if refusal not in by_refusal and len(by_refusal) >= TAINTS_MAX:
            refusal = OTHER_TAINTS
        known = by_refusal.get(refusal)
        by_refusal[refusal] = passes if known is None else np.logical_and(known, passes)
    return [FilterResult(*each) for each in sorted(by_refusal.items())]
