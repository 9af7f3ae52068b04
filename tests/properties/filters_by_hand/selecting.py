"""What pods say about nodes and about labels, read as the Kubernetes documentation has it.

Kubernetes: concepts/overview/working-with-objects/labels, concepts/scheduling-eviction/
{assign-pod-node,taint-and-toleration}.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]
Labels = Mapping[str, str]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CORDON = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}
REPELLING = ("NoSchedule", "NoExecute")
INTEGER = re.compile(r"[+-]?[0-9]+")
INTEGER_MAX = 2**63


def labels(document: Document) -> Labels:
    """The labels of an object."""
    return document["metadata"].get("labels") or {}


def meets(requirement: Document, found: Labels) -> bool:
    """One requirement on labels. NotIn holds where there is no such label; Gt and Lt compare
    integers of 64 bits, and nothing else.
    """
    key, operator, values = (
        requirement["key"],
        requirement["operator"],
        requirement.get("values") or [],
    )
    match operator:
        case "In":
            return key in found and found[key] in values
        case "NotIn":
            return key not in found or found[key] not in values
        case "Exists":
            return key in found
        case "DoesNotExist":
            return key not in found
    here, there = integer(found.get(key, "")), integer(values[0])
    if here is None or there is None:
        return False
    return here > there if operator == "Gt" else here < there


def integer(text: str) -> int | None:
    """What Go's ParseInt makes of it; None: an error."""
    number = int(text) if INTEGER.fullmatch(text) else INTEGER_MAX
    return number if -INTEGER_MAX <= number < INTEGER_MAX else None


def selects(selector: Document | None, found: Labels) -> bool:
    """A LabelSelector: all of it must hold; an empty one selects everything, none nothing."""
    if selector is None:
        return False
    listed = selector.get("matchExpressions") or []
    pairs = (selector.get("matchLabels") or {}).items()
    return all(found.get(key) == value for key, value in pairs) and all(
        meets(each, found) for each in listed
    )


def wants(pod: Document, node: Document) -> bool:
    """Node selector and required node affinity: both must hold; of the terms one is enough, and a
    term without conditions matches no node.
    """
    spec, found = pod["spec"], labels(node)
    if any(found.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(REQUIRED)
    return required is None or any(
        term_matches(term, node) for term in required.get("nodeSelectorTerms") or []
    )


def term_matches(term: Document, node: Document) -> bool:
    """A NodeSelectorTerm; the only field of nodes there is is their name."""
    fields = {"metadata.name": node["metadata"]["name"]}
    expressions = term.get("matchExpressions") or []
    named = term.get("matchFields") or []
    return (
        bool(expressions or named)
        and all(meets(expression, labels(node)) for expression in expressions)
        and all(meets(each, fields) for each in named)
    )


def tolerates(toleration: Document, taint: Document) -> bool:
    """No key is any key, no effect any effect; Exists is any value."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (
        taint.get("value") or ""
    )


def untolerated(pod: Document, node: Document) -> Iterator[Document]:
    """The node's taints that keep the pod away."""
    for taint in node.get("spec", {}).get("taints") or []:
        if taint["effect"] in REPELLING and not bears(pod, taint):
            yield taint


def bears(pod: Document, taint: Document) -> bool:
    """Whether one of the pod's tolerations is about this taint."""
    return any(tolerates(each, taint) for each in pod["spec"].get("tolerations") or [])


def cordoned(pod: Document, node: Document) -> bool:
    """Whether the node is closed to the pod; who tolerates the taint of cordons may still come."""
    return bool(node.get("spec", {}).get("unschedulable")) and not bears(pod, CORDON)


def is_ready(node: Document) -> bool:
    """Whether the kubelet says so; one that has said nothing yet counts as ready."""
    conditions = node.get("status", {}).get("conditions") or []
    return all(
        condition["status"] == "True" for condition in conditions if condition["type"] == "Ready"
    )


def host_ports(pod: Document) -> set[tuple[str, str, int]]:
    """(protocol, address, port) of containers and sidecars; no address is every address.

    On the host's network an API server stores each container port as a port of the host.
    """
    spec = pod["spec"]
    inits = spec.get("initContainers") or []
    sidecars = [init for init in inits if init.get("restartPolicy") == "Always"]
    own = bool(spec.get("hostNetwork"))
    return {
        (port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number)  # noqa: S104
        for container in (*spec["containers"], *sidecars)
        for port in container.get("ports") or []
        if (number := port.get("hostPort") or (port["containerPort"] if own else 0))
    }


def clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    """Whether two host ports exclude each other: 0.0.0.0 takes the port on every address."""
    (protocol, address, port), (of_other, there, same) = one, other
    everywhere = "0.0.0.0" in (address, there)  # noqa: S104 - Kubernetes' spelling
    return (protocol, port) == (of_other, same) and (address == there or everywhere)
