"""What single objects say."""

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tests.simulation.judges.history import Change, Object

GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
SCHEDULER = "scheduling.volcano.sh/scheduler-name"
ENDED = ("Succeeded", "Failed")
EXCLUDING = ("NoSchedule", "NoExecute")
KEPT_MAX = 50_000
"""Of so many objects the judges remember what they say."""

Said = TypeVar("Said")


def once(say: Callable[[Object], Said]) -> Callable[[Object], Said]:
    """Let a function of one object be computed once for each object.

    An object of the history never changes: whatever is written to it makes another object. So its
    identity stands for all that it says, as long as the object itself is kept, too.
    """
    known: dict[int, tuple[Object, Said]] = {}

    @functools.wraps(say)
    def said(found: Object) -> Said:
        known_before = known.get(id(found))
        if known_before is not None:
            return known_before[1]
        if len(known) >= KEPT_MAX:
            known.clear()
        value = say(found)
        known[id(found)] = found, value
        return value

    return said


def key_of(found: Object) -> tuple[str, str]:
    """Namespace and name."""
    metadata = found["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def label(key: tuple[str, str]) -> str:
    """`namespace/name`, or the name alone."""
    return "/".join(filter(None, key))


def request(change: Change) -> str:
    """What was asked, and of which object: `patch queues/status q1`."""
    what = f"{change.verb} {change.resource}/{change.subresource}".rstrip("/")
    return f"{what} {label((change.namespace, change.name))}"


def annotations(found: Object) -> Mapping[str, str]:
    """Those of an object; none where it has none."""
    return found["metadata"].get("annotations") or {}


def labels(found: Object) -> Mapping[str, str]:
    """Those of an object; none where it has none."""
    return found["metadata"].get("labels") or {}


def leaving(found: Object) -> bool:
    """Whether it is being deleted."""
    return bool(found["metadata"].get("deletionTimestamp"))


def phase(found: Object) -> str:
    """The phase of a pod or a PodGroup; Pending unless it says something else."""
    return (found.get("status") or {}).get("phase") or "Pending"


def ended(pod: Object) -> bool:
    """Whether a pod has finished, well or not."""
    return phase(pod) in ENDED


@once
def automatic_groups(pod: Object) -> tuple[str, str]:
    """Names of its automatic PodGroup: ours, and Volcano's, which earlier releases used."""
    owner = pod["metadata"]
    for each in owner.get("ownerReferences") or ():
        if each.get("controller"):
            owner = each
    start = re.sub("[^a-z0-9]+", "-", owner["name"].lower()).strip("-")[:52].rstrip("-") or "pods"
    digits = hashlib.sha256(owner["uid"].encode()).hexdigest()[:8]
    check = hashlib.sha256(f"{start}-{digits}".encode()).hexdigest()[:2]
    return f"{start}-{digits}{check}", f"podgroup-{owner['uid']}"


def node_of(pod: Object) -> str:
    """Where a pod is; empty while it waits."""
    return pod["spec"].get("nodeName") or ""


def group_of(pod: Object) -> tuple[str, str] | None:
    """Namespace and name of the pod's PodGroup."""
    known = annotations(pod)
    for name in GROUPS:
        if known.get(name):
            return pod["metadata"].get("namespace", ""), known[name]
    return None


def scheduler_of(pod: Object) -> str:
    """The name of the scheduler that a pod asks for."""
    return pod["spec"].get("schedulerName") or "default-scheduler"


def minimum(group: Object) -> int:
    """The minMember of a PodGroup."""
    return int((group.get("spec") or {}).get("minMember") or 0)


def queue_of(group: Object, default: str) -> str:
    """The Queue of a PodGroup."""
    return (group.get("spec") or {}).get("queue") or default


def counts(pod: Object) -> bool:
    """Whether a pod counts towards minMember: it has a node and stays, or has succeeded."""
    if ended(pod):
        return phase(pod) == "Succeeded"
    return bool(node_of(pod)) and not leaving(pod)


def holds(pod: Object) -> bool:
    """Whether a pod uses room on its node."""
    return bool(node_of(pod)) and not ended(pod)


def selects(selector: Object | None, found: Mapping[str, str]) -> bool:
    """Whether a label selector matches labels; an empty one matches all, none matches nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(found.get(name) != value for name, value in wanted.items()):
        return False
    return all(_matches(each, found) for each in selector.get("matchExpressions") or ())


def _matches(expression: Object, found: Mapping[str, str]) -> bool:
    value = found.get(expression["key"])
    values = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def barriers(spec: Mapping[str, Any], node: Object) -> list[str]:
    """Why a node doesn't take such a pod, whoever else is there: cordon, taints, labels."""
    found = []
    tolerations = spec.get("tolerations") or ()
    if node["spec"].get("unschedulable") and not tolerated(
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, tolerations
    ):
        found.append("is cordoned")
    if not ready(node):
        found.append("isn't ready")
    found += [
        f"has taint {taint['key']}"
        for taint in node["spec"].get("taints") or ()
        if taint.get("effect") in EXCLUDING and not tolerated(taint, tolerations)
    ]
    has = labels(node)
    wanted = spec.get("nodeSelector") or {}
    found += [
        f"has no label {name}={wanted[name]}" for name in wanted if has.get(name) != wanted[name]
    ]
    return found


def ready(node: Object) -> bool:
    """Whether the node's condition Ready is True; a node without conditions isn't."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    exists = toleration.get("operator") == "Exists"
    if key != taint["key"]:
        return exists and not key
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")
