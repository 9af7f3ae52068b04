"""A pod's conditions, those on other pods included, from the wire to core.model.constraints.

Kubernetes: core/v1 PodAffinity, PodAntiAffinity, TopologySpreadConstraint.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vscheduler.core.model import constraints
from vscheduler.mirror.decode import fields, wire, wire_terms
from vscheduler.mirror.translate import bounds, pod_constraints

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_POLICIES = {"Honor": True, "Ignore": False}


def of_pod(spec: wire.PodSpec, metadata: wire.Metadata) -> constraints.Constraints:
    """All of a pod's conditions, on nodes and on other pods; FieldError for what no API server
    would store.
    """
    found = pod_constraints.of_pod(spec)
    if not (_names_pods(spec.affinity) or spec.topology_spread_constraints):
        return found
    return replace(
        _with_affinity(found, spec.affinity, metadata),
        spread=tuple(
            _spread(each, metadata, f"spec.topologySpreadConstraints[{at}]")
            for at, each in enumerate(spec.topology_spread_constraints)
        ),
    )


def of_resident(spec: wire.PodSpec, metadata: wire.Metadata) -> constraints.Constraints:
    """What still means something once the pod is on a node: the ports that it takes there, and
    its conditions on pods that come later.
    """
    return _with_affinity(pod_constraints.of_ports(spec), spec.affinity, metadata)


def in_short(
    spec: wire.PodSpec, metadata: wire.Metadata, most: bounds.Bounds, *, ours: bool
) -> constraints.Constraints:
    """What counts of a pod that can't be refused, and asks for more than is looked at.

    Whom its required anti-affinity keeps away stays away. Where that is too much to look at, it
    keeps away every pod of the namespaces that any of its terms names, from the same topology
    domains. Its affinity and its preferences, which are about scores only, count for nothing.
    """
    nodes = bounds.node_values(spec) <= most.max_pod_selector_values
    whole = ours and nodes and len(spec.tolerations) <= most.max_pod_tolerations
    found = pod_constraints.of_pod(spec) if whole else pod_constraints.of_ports(spec)
    affinity = spec.affinity.pod_anti_affinity if spec.affinity else None
    if affinity is None or not affinity.required:
        return found
    if (
        len(affinity.required) <= most.max_pod_affinity_terms
        and bounds.pod_values(affinity.required) <= most.max_pod_selector_values
    ):
        terms = _required(affinity, metadata, "podAntiAffinity")
    else:
        terms = tuple(_widest(affinity.required, metadata, most.max_pod_affinity_terms))
    return replace(found, pod_anti_affinity=terms)


def _widest(
    terms: Sequence[wire_terms.PodAffinityTerm], metadata: wire.Metadata, most: int
) -> Iterator[constraints.PodTerm]:
    """One term for each topology key, about all pods that any of these could be about; for so many
    keys at most, by name, and for all namespaces where more are named.
    """
    distinct = {
        (term.topology_key, tuple(term.namespaces), term.namespace_selector is not None)
        for term in terms
        if term.label_selector is not None
    }
    by_key: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
    for key, names, selected in distinct:
        by_key.setdefault(key, []).append((names, selected))
    for key in sorted(filter(None, by_key))[:most]:
        named: set[str] = set()
        everywhere = False
        for names, selected in by_key[key]:
            named.update(names)
            everywhere |= selected
            if not names and not selected:
                named.add(metadata.namespace)
        everywhere |= len(named) > most
        anything = constraints.Selector()
        listed = () if everywhere else tuple(sorted(named))
        pods = constraints.PodSet(listed, anything, anything if everywhere else None)
        yield constraints.PodTerm(pods, key)


def _names_pods(affinity: wire_terms.Affinity | None) -> bool:
    return affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)


def _with_affinity(
    found: constraints.Constraints, affinity: wire_terms.Affinity | None, metadata: wire.Metadata
) -> constraints.Constraints:
    if affinity is None or not _names_pods(affinity):
        return found
    return replace(
        found,
        pod_affinity=_required(affinity.pod_affinity, metadata, "podAffinity"),
        pod_anti_affinity=_required(affinity.pod_anti_affinity, metadata, "podAntiAffinity"),
        pod_preferred=tuple(_preferred(affinity, metadata)),
    )


def _required(
    found: wire_terms.PodAffinity | None, metadata: wire.Metadata, name: str
) -> tuple[constraints.PodTerm, ...]:
    """The required terms of an affinity, or of an anti-affinity."""
    return tuple(
        _term(term, metadata, f"spec.affinity.{name}.{_REQUIRED}[{at}]")
        for at, term in enumerate(found.required if found else ())
    )


def _preferred(
    affinity: wire_terms.Affinity, metadata: wire.Metadata
) -> Iterator[constraints.PreferredPodTerm]:
    """The preferred terms of both, those of anti-affinity with weights below 0."""
    for name, sign, found in (
        ("podAffinity", 1, affinity.pod_affinity),
        ("podAntiAffinity", -1, affinity.pod_anti_affinity),
    ):
        for at, each in enumerate(found.preferred if found else ()):
            place = f"spec.affinity.{name}.{_PREFERRED}[{at}]"
            fields.check_int32(each.weight, f"{place}.weight")
            if not 1 <= each.weight <= 100:
                problem = f"{each.weight} is not between 1 and 100"
                raise fields.FieldError(f"{place}.weight", problem)
            term = _term(each.pod_affinity_term, metadata, f"{place}.podAffinityTerm")
            yield constraints.PreferredPodTerm(sign * each.weight, term)


def _term(
    term: wire_terms.PodAffinityTerm, metadata: wire.Metadata, field: str
) -> constraints.PodTerm:
    """Without any namespaces it is about the pod's own; an empty selector of them is about all."""
    if not term.topology_key:
        raise fields.FieldError(f"{field}.topologyKey", "is missing")
    labels = _labels(term.label_selector, f"{field}.labelSelector")
    if labels is not None:
        labels = _with_own(labels, metadata.labels, term.match_label_keys, constraints.Operator.IN)
        others = constraints.Operator.NOT_IN
        labels = _with_own(labels, metadata.labels, term.mismatch_label_keys, others)
    more = _labels(term.namespace_selector, f"{field}.namespaceSelector")
    namespaces = tuple(sorted(set(term.namespaces)))
    if not namespaces and more is None:
        namespaces = (metadata.namespace,)
    return constraints.PodTerm(constraints.PodSet(namespaces, labels, more), term.topology_key)


def _spread(
    found: wire_terms.SpreadConstraint, metadata: wire.Metadata, field: str
) -> constraints.Spread:
    if not found.topology_key:
        raise fields.FieldError(f"{field}.topologyKey", "is missing")
    fields.check_int32(found.max_skew, f"{field}.maxSkew")
    if found.max_skew < 1:
        raise fields.FieldError(f"{field}.maxSkew", f"{found.max_skew} is not at least 1")
    least = 1 if found.min_domains is None else found.min_domains
    fields.check_int32(least, f"{field}.minDomains")
    if least < 1:
        raise fields.FieldError(f"{field}.minDomains", f"{least} is not at least 1")
    kinds = {"DoNotSchedule": True, "ScheduleAnyway": False}
    labels = _labels(found.label_selector, f"{field}.labelSelector")
    if labels is not None:
        keys = found.match_label_keys
        labels = _with_own(labels, metadata.labels, keys, constraints.Operator.IN)
        # kube-scheduler counts no pods at all where nothing is asked of them.
        labels = labels if labels.requirements else None
    return constraints.Spread(
        pods=constraints.PodSet((metadata.namespace,), labels),
        topology_key=found.topology_key,
        max_skew=found.max_skew,
        hard=_choice(found.when_unsatisfiable, kinds, f"{field}.whenUnsatisfiable"),
        min_domains=least,
        honours_affinity=_choice(
            found.node_affinity_policy, _POLICIES, f"{field}.nodeAffinityPolicy"
        ),
        honours_taints=_choice(found.node_taints_policy, _POLICIES, f"{field}.nodeTaintsPolicy"),
    )


def _labels(selector: wire_terms.LabelSelector | None, field: str) -> constraints.Selector | None:
    return None if selector is None else pod_constraints.of_labels(selector, field)


def _with_own(
    selector: constraints.Selector,
    labels: Mapping[str, str],
    keys: Sequence[str],
    operator: constraints.Operator,
) -> constraints.Selector:
    """The selector with the pod's own values of these labels in it, where it has them.

    API servers write them into the selectors that they store; manifests are as people write them.
    """
    own = (constraints.Requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return constraints.Selector(tuple(dict.fromkeys((*selector.requirements, *own))))


def _choice(text: str, choices: Mapping[str, bool], field: str) -> bool:
    try:
        return choices[text]
    except KeyError as error:
        known = ", ".join(choices)
        raise fields.FieldError(field, f"{text!r} is none of {known}") from error
