"""A pod's own conditions on its node, other pods aside, from the wire to core.model.constraints."""

from collections.abc import Sequence
from functools import lru_cache

from vscheduler.core.model import constraints
from vscheduler.mirror.decode import fields, wire, wire_terms
from vscheduler.mirror.translate import pod_requests

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - Kubernetes' spelling of every address; nothing is bound
RESTART_ALL = "RestartAllContainers"
RESTARTS_ALL = "RestartAllContainersOnContainerExits"
USERS_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
"""An action of restart rules, and the features that such a pod and one that has its own users on
the host's network need, by the names that kubelets declare them by."""
_AFFINITY = "spec.affinity.nodeAffinity"
_REQUIRED = f"{_AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_PREFERRED = f"{_AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution"
_NUMERIC = (constraints.Operator.GT, constraints.Operator.LT)
_LISTED = (constraints.Operator.IN, constraints.Operator.NOT_IN)


def of_pod(spec: wire.PodSpec) -> constraints.Constraints:
    """Everything that the pod says about nodes, other pods aside.

    FieldError for what no API server would store.
    """
    ports, needed = host_ports(spec), features(spec)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if not (ports or needed or affinity or spec.node_selector or spec.tolerations):
        return constraints.ANYWHERE
    required = None
    preferred: tuple[constraints.PreferredTerm, ...] = ()
    if affinity is not None:
        if affinity.required is not None:
            listed = enumerate(affinity.required.node_selector_terms)
            required = tuple(_term(term, f"{_REQUIRED}[{at}]") for at, term in listed)
        preferred = tuple(
            _preferred(term, f"{_PREFERRED}[{at}]") for at, term in enumerate(affinity.preferred)
        )
    return constraints.Constraints(
        node_selector=tuple(sorted(spec.node_selector.items())),
        required=required,
        preferred=preferred,
        tolerations=_tolerations(spec.tolerations),
        ports=ports,
        features=needed,
    )


def features(spec: wire.PodSpec) -> tuple[str, ...]:
    """What the pod needs of its node's kubelet, of that which kubelets may not have; sorted.

    Kubernetes: component-helpers nodedeclaredfeatures InferForPodScheduling.
    """
    found = []
    for container in (*spec.containers, *spec.init_containers):
        if any(rule.action == RESTART_ALL for rule in container.restart_policy_rules):
            found.append(RESTARTS_ALL)
            break
    if spec.host_network and spec.host_users is False:
        found.append(USERS_ON_HOST_NETWORK)
    return tuple(found)


def of_ports(spec: wire.PodSpec) -> constraints.Constraints:
    """Only the ports that the pod takes on its node."""
    ports = host_ports(spec)
    return constraints.Constraints(ports=ports) if ports else constraints.ANYWHERE


def host_ports(spec: wire.PodSpec) -> tuple[constraints.HostPort, ...]:
    """The ports that the pod takes on its node, sorted.

    On the host's network every container port is one. Init containers give theirs back before
    the others start; sidecars don't. (Kubernetes: scheduler util.GetHostPorts.)
    """
    found = set()
    sidecars = [each for each in spec.init_containers if each.restart_policy == pod_requests.ALWAYS]
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                address = port.host_ip or ANY_ADDRESS
                found.add(constraints.HostPort(address, port.protocol or "TCP", number))
    return tuple(sorted(found))


def of_labels(selector: wire_terms.LabelSelector, field: str) -> constraints.Selector:
    """What an object's labels must be like (Kubernetes: meta/v1 LabelSelectorAsSelector)."""
    expressions = _requirements(selector.match_expressions, f"{field}.matchExpressions")
    for at, each in enumerate(expressions):
        if each.operator in _NUMERIC:
            place = f"{field}.matchExpressions[{at}].operator"
            raise fields.FieldError(place, f"{each.operator} isn't for labels of objects")
    listed = sorted(selector.match_labels.items())
    equal = (constraints.Requirement(key, constraints.Operator.IN, (text,)) for key, text in listed)
    return constraints.Selector((*equal, *expressions))


def effect(text: str, field: str) -> constraints.Effect:
    """The effect of a taint or a toleration."""
    try:
        return constraints.Effect(text)
    except ValueError as error:
        known = ", ".join(constraints.Effect)
        raise fields.FieldError(field, f"{text!r} is none of {known}") from error


def _tolerations(listed: Sequence[wire_terms.Toleration]) -> tuple[constraints.Toleration, ...]:
    return tuple(
        _toleration(each.key, each.operator, each.value, each.effect, at)
        for at, each in enumerate(listed)
    )


@lru_cache(maxsize=4096)
def _toleration(
    key: str, operator: str, value: str, hindrance: str, at: int
) -> constraints.Toleration:
    field = f"spec.tolerations[{at}]"
    if operator not in ("", "Equal", "Exists"):
        message = f"{operator!r} isn't supported, only Equal and Exists are"
        raise fields.FieldError(f"{field}.operator", message)
    if not key and operator != "Exists":
        raise fields.FieldError(f"{field}.operator", "must be Exists where there is no key")
    return constraints.Toleration(
        key=key,
        exists=operator == "Exists",
        value=value,
        effect=effect(hindrance, f"{field}.effect") if hindrance else None,
    )


def _preferred(term: wire_terms.PreferredTerm, field: str) -> constraints.PreferredTerm:
    fields.check_int32(term.weight, f"{field}.weight")
    if not 1 <= term.weight <= 100:
        raise fields.FieldError(f"{field}.weight", f"{term.weight} is not between 1 and 100")
    return constraints.PreferredTerm(term.weight, _term(term.preference, f"{field}.preference"))


def _term(term: wire_terms.Term, field: str) -> constraints.Term:
    return constraints.Term(
        labels=_requirements(term.match_expressions, f"{field}.matchExpressions"),
        fields=_requirements(term.match_fields, f"{field}.matchFields"),
    )


def _requirements(
    listed: Sequence[wire_terms.Requirement], field: str
) -> tuple[constraints.Requirement, ...]:
    return tuple(_requirement(each, f"{field}[{at}]") for at, each in enumerate(listed))


def _requirement(requirement: wire_terms.Requirement, field: str) -> constraints.Requirement:
    """Kubernetes: validation.ValidateNodeSelectorRequirement.

    API servers store a Gt or Lt of anything; that of no integer matches nothing.
    """
    try:
        operator = constraints.Operator(requirement.operator)
    except ValueError as error:
        known = ", ".join(constraints.Operator)
        message = f"{requirement.operator!r} is none of {known}"
        raise fields.FieldError(f"{field}.operator", message) from error
    values = tuple(requirement.values)
    if not requirement.key:
        raise fields.FieldError(f"{field}.key", "is missing")
    if operator in _LISTED and not values:
        raise fields.FieldError(f"{field}.values", f"{operator} needs at least one value")
    if operator in _NUMERIC and len(values) != 1:
        raise fields.FieldError(f"{field}.values", f"{operator} needs one value")
    if operator not in _LISTED + _NUMERIC and values:
        raise fields.FieldError(f"{field}.values", f"{operator} takes no values")
    return constraints.Requirement(requirement.key, operator, values)
