"""Constraints of pods on nodes and on other pods, translated to model.constraints.

Kubernetes: core/v1 NodeAffinity, PodAffinity, PodAntiAffinity, TopologySpreadConstraint.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from vscheduler.mirror.decode import fields, wire
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import (
    Affinity,
    LabelSelector,
    Metadata,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    SpreadConstraint,
)
from vscheduler.mirror.translate import bounds, pod_requests
from vscheduler.mirror.translate.bounds import Bounds
from vscheduler.model import constraints
from vscheduler.model.constraints import (
    Constraints,
    Effect,
    HostPort,
    Operator,
    PodSet,
    PodTerm,
    PreferredPodTerm,
    Selector,
    Spread,
)

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - Kubernetes' spelling of every address; nothing is bound
RESTART_ALL = "RestartAllContainers"
RESTARTS_ALL = "RestartAllContainersOnContainerExits"
USERS_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
"""A restart rule action, and the node features needed by two kinds of pods, under the names that
kubelets declare: pods with the action, and pods with their own users on the host network.
"""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_REQUIRED = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
_NODE_PREFERRED = f"spec.affinity.nodeAffinity.{_PREFERRED}"
_NUMERIC = (Operator.GT, Operator.LT)
_LISTED = (Operator.IN, Operator.NOT_IN)
_POLICIES = {"Honor": True, "Ignore": False}


def of_pod(spec: PodSpec, metadata: Metadata) -> Constraints:
    """Return all constraints of a pod, on nodes and on other pods.

    Raises FieldError for values that no API server would store.
    """
    on_nodes = _on_nodes(spec)
    if not (_names_pods(spec.affinity) or spec.topology_spread_constraints):
        return on_nodes
    return replace(
        _with_affinity(on_nodes, spec.affinity, metadata),
        spread=tuple(
            _spread(each, metadata, f"spec.topologySpreadConstraints[{at}]")
            for at, each in enumerate(spec.topology_spread_constraints)
        ),
    )


def of_resident(spec: PodSpec, metadata: Metadata) -> Constraints:
    """Return the constraints that matter once a pod is on its node: host ports, and affinity
    towards pods that arrive later.
    """
    return _with_affinity(of_ports(spec), spec.affinity, metadata)


def in_short(spec: PodSpec, metadata: Metadata, most: Bounds, *, ours: bool) -> Constraints:
    """Return reduced constraints of a pod that exceeds a bound but can't be refused.

    Required anti-affinity must keep other pods away. If its terms exceed a bound, they are replaced
    by wider terms: in the same topology domains, and for all pods of the namespaces that any term
    names. Affinity and preferences of such a pod are dropped: they only influence scores.
    """
    nodes = bounds.node_values(spec) <= most.max_pod_selector_values
    whole = ours and nodes and len(spec.tolerations) <= most.max_pod_tolerations
    on_nodes = _on_nodes(spec) if whole else of_ports(spec)
    affinity = spec.affinity.pod_anti_affinity if spec.affinity else None
    if affinity is None or not affinity.required:
        return on_nodes
    if (
        len(affinity.required) <= most.max_pod_affinity_terms
        and bounds.pod_values(affinity.required) <= most.max_pod_affinity_values
    ):
        terms = _required_pod_terms(affinity, metadata, "podAntiAffinity")
    else:
        terms = tuple(_widest(affinity.required, metadata, most.max_pod_affinity_terms))
    return replace(on_nodes, pod_anti_affinity=terms)


def _on_nodes(spec: PodSpec) -> Constraints:
    """Return the constraints of a pod on nodes, without pod affinity and topology spread.

    Raises FieldError for values that no API server would store.
    """
    ports, needed = host_ports(spec), features(spec)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if not (ports or needed or affinity or spec.node_selector or spec.tolerations):
        return constraints.ANYWHERE
    required = None
    preferred: tuple[constraints.PreferredTerm, ...] = ()
    if affinity is not None:
        if affinity.required is not None:
            terms = enumerate(affinity.required.node_selector_terms)
            required = tuple(node_term(term, f"{_NODE_REQUIRED}[{at}]") for at, term in terms)
        preferred = tuple(
            _preferred_node_term(term, f"{_NODE_PREFERRED}[{at}]")
            for at, term in enumerate(affinity.preferred)
        )
    return Constraints(
        node_selector=tuple(sorted(spec.node_selector.items())),
        required=required,
        preferred=preferred,
        tolerations=_tolerations(spec.tolerations),
        ports=ports,
        features=needed,
    )


def features(spec: PodSpec) -> tuple[str, ...]:
    """Return the optional kubelet features that the pod needs on its node, sorted.

    Kubernetes: component-helpers nodedeclaredfeatures InferForPodScheduling.
    """
    names = []
    for container in (*spec.containers, *spec.init_containers):
        if any(rule.action == RESTART_ALL for rule in container.restart_policy_rules):
            names.append(RESTARTS_ALL)
            break
    if spec.host_network and spec.host_users is False:
        names.append(USERS_ON_HOST_NETWORK)
    return tuple(names)


def of_ports(spec: PodSpec) -> Constraints:
    """Return constraints with the host ports of a pod only."""
    ports = host_ports(spec)
    return Constraints(ports=ports) if ports else constraints.ANYWHERE


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of a pod, sorted.

    On the host network every container port is a host port. Init containers free their ports before
    the containers start, except for sidecars. (Kubernetes: scheduler util.GetHostPorts.)
    """
    ports = set()
    sidecars = [
        container
        for container in spec.init_containers
        if container.restart_policy == pod_requests.ALWAYS
    ]
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                address = port.host_ip or ANY_ADDRESS
                ports.add(HostPort(address, port.protocol or "TCP", number))
    return tuple(sorted(ports))


def of_labels(selector: LabelSelector, field: str) -> Selector:
    """Return a selector for labels of objects (Kubernetes: meta/v1 LabelSelectorAsSelector)."""
    expressions = _requirements(selector.match_expressions, f"{field}.matchExpressions")
    for at, each in enumerate(expressions):
        if each.operator in _NUMERIC:
            place = f"{field}.matchExpressions[{at}].operator"
            raise FieldError(place, f"{each.operator} isn't for labels of objects")
    requirements = sorted(selector.match_labels.items())
    equal = (constraints.Requirement(key, Operator.IN, (text,)) for key, text in requirements)
    return Selector((*equal, *expressions))


def effect(text: str, field: str) -> Effect:
    """Return the effect of a taint or a toleration."""
    try:
        return Effect(text)
    except ValueError as error:
        effects = ", ".join(Effect)
        raise FieldError(field, f"{text!r} is none of {effects}") from error


def _tolerations(tolerations: Sequence[wire.Toleration]) -> tuple[constraints.Toleration, ...]:
    return tuple(
        _toleration(each.key, each.operator, each.value, each.effect, at)
        for at, each in enumerate(tolerations)
    )


@lru_cache(maxsize=4096)
def _toleration(
    key: str, operator: str, value: str, effect_name: str, at: int
) -> constraints.Toleration:
    field = f"spec.tolerations[{at}]"
    if operator not in ("", "Equal", "Exists"):
        message = f"{operator!r} isn't supported, only Equal and Exists are"
        raise FieldError(f"{field}.operator", message)
    if not key and operator != "Exists":
        raise FieldError(f"{field}.operator", "must be Exists where there is no key")
    return constraints.Toleration(
        key=key,
        exists=operator == "Exists",
        value=value,
        effect=effect(effect_name, f"{field}.effect") if effect_name else None,
    )


def _preferred_node_term(term: wire.PreferredTerm, field: str) -> constraints.PreferredTerm:
    fields.check_int32(term.weight, f"{field}.weight")
    if not 1 <= term.weight <= 100:
        raise FieldError(f"{field}.weight", f"{term.weight} is not between 1 and 100")
    return constraints.PreferredTerm(term.weight, node_term(term.preference, f"{field}.preference"))


def node_term(term: wire.Term, field: str) -> constraints.Term:
    """Translate a node selector term."""
    return constraints.Term(
        labels=_requirements(term.match_expressions, f"{field}.matchExpressions"),
        fields=_requirements(term.match_fields, f"{field}.matchFields"),
    )


def _requirements(
    requirements: Sequence[wire.Requirement], field: str
) -> tuple[constraints.Requirement, ...]:
    return tuple(_requirement(each, f"{field}[{at}]") for at, each in enumerate(requirements))


def _requirement(requirement: wire.Requirement, field: str) -> constraints.Requirement:
    """Translate a requirement. Kubernetes: validation.ValidateNodeSelectorRequirement.

    API servers store Gt and Lt with any value; a value other than an integer matches nothing.
    """
    try:
        operator = Operator(requirement.operator)
    except ValueError as error:
        operators = ", ".join(Operator)
        message = f"{requirement.operator!r} is none of {operators}"
        raise FieldError(f"{field}.operator", message) from error
    values = tuple(requirement.values)
    if not requirement.key:
        raise FieldError(f"{field}.key", "is missing")
    if operator in _LISTED and not values:
        raise FieldError(f"{field}.values", f"{operator} needs at least one value")
    if operator in _NUMERIC and len(values) != 1:
        raise FieldError(f"{field}.values", f"{operator} needs one value")
    if operator not in _LISTED + _NUMERIC and values:
        raise FieldError(f"{field}.values", f"{operator} takes no values")
    return constraints.Requirement(requirement.key, operator, values)


def _widest(terms: Sequence[PodAffinityTerm], metadata: Metadata, most: int) -> Iterator[PodTerm]:
    """Return a term for each topology key, wide enough for all pods that any given term selects.

    At most `most` topology keys are kept, by name. With more than `most` namespaces, a term selects
    all namespaces.
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
        anything = Selector()
        namespaces = () if everywhere else tuple(sorted(named))
        pods = PodSet(namespaces, anything, anything if everywhere else None)
        yield PodTerm(pods, key)


def _names_pods(affinity: Affinity | None) -> bool:
    return affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)


def _with_affinity(
    found: Constraints, affinity: Affinity | None, metadata: Metadata
) -> Constraints:
    if affinity is None or not _names_pods(affinity):
        return found
    return replace(
        found,
        pod_affinity=_required_pod_terms(affinity.pod_affinity, metadata, "podAffinity"),
        pod_anti_affinity=_required_pod_terms(
            affinity.pod_anti_affinity, metadata, "podAntiAffinity"
        ),
        pod_preferred=tuple(_preferred_pod_terms(affinity, metadata)),
    )


def _required_pod_terms(
    found: PodAffinity | None, metadata: Metadata, name: str
) -> tuple[PodTerm, ...]:
    """Return the required terms of pod affinity or pod anti-affinity."""
    return tuple(
        _pod_term(term, metadata, f"spec.affinity.{name}.{_REQUIRED}[{at}]")
        for at, term in enumerate(found.required if found else ())
    )


def _preferred_pod_terms(affinity: Affinity, metadata: Metadata) -> Iterator[PreferredPodTerm]:
    """Iterate over the preferred terms of affinity, and of anti-affinity with negative weights."""
    for name, sign, found in (
        ("podAffinity", 1, affinity.pod_affinity),
        ("podAntiAffinity", -1, affinity.pod_anti_affinity),
    ):
        for at, each in enumerate(found.preferred if found else ()):
            place = f"spec.affinity.{name}.{_PREFERRED}[{at}]"
            fields.check_int32(each.weight, f"{place}.weight")
            if not 1 <= each.weight <= 100:
                problem = f"{each.weight} is not between 1 and 100"
                raise FieldError(f"{place}.weight", problem)
            term = _pod_term(each.pod_affinity_term, metadata, f"{place}.podAffinityTerm")
            yield PreferredPodTerm(sign * each.weight, term)


def _pod_term(term: PodAffinityTerm, metadata: Metadata, field: str) -> PodTerm:
    """Translate a pod affinity term.

    A term without any namespaces is about the pod's own namespace. An empty namespace selector
    means all namespaces.
    """
    if not term.topology_key:
        raise FieldError(f"{field}.topologyKey", "is missing")
    labels = _labels(term.label_selector, f"{field}.labelSelector")
    if labels is not None:
        labels = _with_own(labels, metadata.labels, term.match_label_keys, Operator.IN)
        others = Operator.NOT_IN
        labels = _with_own(labels, metadata.labels, term.mismatch_label_keys, others)
    more = _labels(term.namespace_selector, f"{field}.namespaceSelector")
    namespaces = tuple(sorted(set(term.namespaces)))
    if not namespaces and more is None:
        namespaces = (metadata.namespace,)
    return PodTerm(PodSet(namespaces, labels, more), term.topology_key)


def _spread(constraint: SpreadConstraint, metadata: Metadata, field: str) -> Spread:
    if not constraint.topology_key:
        raise FieldError(f"{field}.topologyKey", "is missing")
    fields.check_int32(constraint.max_skew, f"{field}.maxSkew")
    if constraint.max_skew < 1:
        raise FieldError(f"{field}.maxSkew", f"{constraint.max_skew} is not at least 1")
    least = 1 if constraint.min_domains is None else constraint.min_domains
    fields.check_int32(least, f"{field}.minDomains")
    if least < 1:
        raise FieldError(f"{field}.minDomains", f"{least} is not at least 1")
    kinds = {"DoNotSchedule": True, "ScheduleAnyway": False}
    labels = _labels(constraint.label_selector, f"{field}.labelSelector")
    if labels is not None:
        keys = constraint.match_label_keys
        labels = _with_own(labels, metadata.labels, keys, Operator.IN)
        # kube-scheduler matches no pods with an empty selector.
        labels = labels if labels.requirements else None
    return Spread(
        pods=PodSet((metadata.namespace,), labels),
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        hard=_choice(constraint.when_unsatisfiable, kinds, f"{field}.whenUnsatisfiable"),
        min_domains=least,
        honours_affinity=_choice(
            constraint.node_affinity_policy, _POLICIES, f"{field}.nodeAffinityPolicy"
        ),
        honours_taints=_choice(
            constraint.node_taints_policy, _POLICIES, f"{field}.nodeTaintsPolicy"
        ),
    )


def _labels(selector: LabelSelector | None, field: str) -> Selector | None:
    return None if selector is None else of_labels(selector, field)


def _with_own(
    selector: Selector,
    labels: Mapping[str, str],
    keys: Sequence[str],
    operator: Operator,
) -> Selector:
    """Return the selector extended by the pod's own values of the given labels, if present.

    API servers do the same before storing a pod; manifests don't have the values yet.
    """
    own = (constraints.Requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return Selector(tuple(dict.fromkeys((*selector.requirements, *own))))


def _choice(text: str, choices: Mapping[str, bool], field: str) -> bool:
    try:
        return choices[text]
    except KeyError as error:
        known = ", ".join(choices)
        raise FieldError(field, f"{text!r} is none of {known}") from error
