"""What pods ask for and nodes have, in exact fractions.

Kubernetes: concepts/configuration/manage-resources-containers, concepts/workloads/pods/
{init,sidecar}-containers ("Resource sharing within containers"), scheduling-eviction/pod-overhead,
and Quantity in apimachinery, all worked out anew: nothing of the mirror is used.
"""

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

Document = Mapping[str, Any]
Amounts = dict[str, Fraction]

BINARY = {f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)}
DECIMAL = {letter: Fraction(1000) ** power for power, letter in enumerate("kMGTPE", 1)}
SMALL = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)}
SUFFIXES = BINARY | DECIMAL | SMALL
QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]i?|[KMGTPE]i)?)")

POD_LEVEL = ("cpu", "memory")
SLOTS = "pods"


def quantity(written: object) -> Fraction:
    """A quantity, as text or as a number: `1500m`, `1.5`, `2Gi`, `1e3`."""
    text = str(written)
    matched = QUANTITY.fullmatch(text)
    if matched is None:
        raise ValueError(f"{text!r} is no quantity")
    number, exponent, suffix = matched.groups()
    return Fraction(number) * Fraction(10) ** int(exponent or 0) * SUFFIXES[suffix or ""]


def listed(named: Mapping[str, Any] | None) -> Amounts:
    """A ResourceList."""
    return {name: quantity(each) for name, each in (named or {}).items()}


def total(lists: Iterable[Amounts]) -> Amounts:
    """The sum by name."""
    found: Amounts = {}
    for each in lists:
        for name, amount in each.items():
            found[name] = found.get(name, Fraction(0)) + amount
    return found


def largest(lists: Iterable[Amounts]) -> Amounts:
    """The maximum by name."""
    found: Amounts = {}
    for each in lists:
        for name, amount in each.items():
            found[name] = max(found.get(name, amount), amount)
    return found


def request(pod: Document) -> Amounts:
    """What the pod takes on a node, its slot aside, as kube-scheduler counts it.

    Containers and sidecars run together. Before them each init container runs beside the sidecars
    that were started before it: the pod asks for the larger of the two. What spec.resources says
    of cpu, memory and huge pages is said of the pod as a whole; the overhead comes on top.
    """
    spec = pod["spec"]
    found = whole(pod, _containers(pod))
    found = total((found, listed(spec.get("overhead"))))
    return {name: rounded(name, amount) for name, amount in found.items() if amount}


def rounded(name: str, amount: Fraction) -> Fraction:
    """Up to what is counted: thousandths of a cpu, and whole units of all else."""
    scale = 1000 if name == "cpu" else 1
    return Fraction(math.ceil(amount * scale), scale)


def _containers(pod: Document) -> Amounts:
    spec, status = pod["spec"], pod.get("status", {})
    given = {
        each["name"]: each
        for kind in ("containerStatuses", "initContainerStatuses")
        for each in status.get(kind) or []
    }
    together = [asked(pod, each, given) for each in spec["containers"]]
    sidecars: list[Amounts] = []
    before: list[Amounts] = []
    for container in spec.get("initContainers") or []:
        wanted = asked(pod, container, given)
        before.append(total((*sidecars, wanted)))
        if container.get("restartPolicy") == "Always":
            sidecars.append(wanted)
    return largest((total((*together, *sidecars)), *before))


def asked(pod: Document, container: Document, given: Mapping[str, Document]) -> Amounts:
    """One container's requests; an API server stores its limits as such where it has none.

    While a resize is under way the node may still give more than is wished for, or never give it.
    """
    resources = container.get("resources") or {}
    wish = listed(resources.get("limits")) | listed(resources.get("requests"))
    status = given.get(container["name"], {}) if pod["spec"].get("nodeName") else {}
    return resized(pod, wish, status)


def resized(pod: Document, wish: Amounts, status: Document) -> Amounts:
    """The largest of what is wished for, allocated and in force; without the wish where the node
    can never grant it.
    """
    if status.get("resources") is None:
        return wish
    has = [listed(status["resources"].get("requests")), listed(status.get("allocatedResources"))]
    never = any(
        each["type"] == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in pod["status"].get("conditions") or []
    )
    return largest(has if never else [wish, *has])


def whole(pod: Document, containers: Amounts) -> Amounts:
    """With what is said of the pod as a whole in place of what its containers say."""
    level = pod["spec"].get("resources") or {}
    limits, requests = (
        {name: amount for name, amount in listed(level.get(kind)).items() if is_pod_level(name)}
        for kind in ("limits", "requests")
    )
    stored = limits | {name: containers[name] for name in limits if name in containers} | requests
    if not stored:
        return containers
    status = pod.get("status", {}) if pod["spec"].get("nodeName") else {}
    return containers | resized(pod, stored, status)


def is_pod_level(name: str) -> bool:
    """Whether spec.resources of a pod can say something about it."""
    return name in POD_LEVEL or name.startswith("hugepages-")


def room(node: Document) -> Amounts:
    """What pods can have on the node, its slots included."""
    status = node.get("status", {})
    given = listed(status.get("allocatable") or status.get("capacity"))
    return {name: rounded(name, amount) for name, amount in given.items()}
