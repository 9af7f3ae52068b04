"""What one tenant may write to make everybody else wait: manifests of pods and PodGroups."""

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMESPACE = "team-a"
QUEUE = "qa"
HOST = "kubernetes.io/hostname"


def group(name: str, minimum: int = 1, namespace: str = NAMESPACE, queue: str = QUEUE) -> Document:
    """A PodGroup of the tenant."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": minimum, "queue": queue},
    }


def pod(
    name: str, of: str, namespace: str = NAMESPACE, requests: Document | None = None, **spec: Any
) -> Document:
    """A small pod of this group."""
    amounts = requests or {"cpu": "10m"}
    limits = {name: amount for name, amount in amounts.items() if "/" in name}  # as they must be
    resources = {"requests": amounts, "limits": limits}
    container = {"name": "main", "image": "none", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"scheduling.k8s.io/group-name": of},
        },
        "spec": {"schedulerName": "vscheduler", "containers": [container], **spec},
    }


def gang(name: str, namespace: str, queue: str, size: int = 2) -> Iterator[Document]:
    """Somebody else's job, which is nothing special."""
    yield group(name, size, namespace, queue)
    for number in range(size):
        yield pod(f"{name}-{number}", name, namespace)


def apart(terms: int, number: int = 0, *, from_all: bool = False) -> Document:
    """The affinity of pod `number`: to be apart from pods with labels that nobody has, or,
    from_all, from those of all namespaces that don't have them.
    """
    return {
        "podAntiAffinity": {
            REQUIRED: [
                {"topologyKey": HOST, **_about(f"k{number}-{each}", from_all=from_all)}
                for each in range(terms)
            ]
        }
    }


def _about(key: str, *, from_all: bool) -> Document:
    if not from_all:
        return {"labelSelector": {"matchLabels": {key: "v"}}}
    expression = {"key": key, "operator": "DoesNotExist"}
    return {"labelSelector": {"matchExpressions": [expression]}, "namespaceSelector": {}}


def conditions(pods: int, terms: int, **more: Any) -> Iterator[Document]:
    """A group of pods of which each has so many conditions of its own; more: as of `apart`."""
    yield group("aff")
    for number in range(pods):
        yield pod(f"aff-{number}", "aff", affinity=apart(terms, number, **more))


def classes(count: int, by: str) -> Iterator[Document]:
    """Groups of one pod for which there is no node, no two alike; by: selector, amount, name."""
    for number in range(count):
        name = f"a-{number:04}"
        yield group(name)
        match by:
            case "selector":
                yield pod(f"{name}-0", name, nodeSelector={"zone": f"z{number}"})
            case "amount":
                yield pod(f"{name}-0", name, requests={"cpu": str(1000 + number)})
            case _:
                yield pod(f"{name}-0", name, requests={f"example.com/r{number:04}": "1"})
