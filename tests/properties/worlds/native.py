"""Groups of a world as PodGroups of Kubernetes' own API, wherever that can say the same.

The world itself, its owners and its judges go on with Volcano's. Only the scheduler is shown the
others, and has to decide the same.
"""

from collections.abc import Callable
from typing import TypeAlias

from tests.properties.worlds import manifests
from tests.properties.worlds.manifests import Document

Shown: TypeAlias = Callable[[Document], Document]

API = "scheduling.k8s.io/v1beta1"
QUEUE = "scheduling.volcano.sh/queue-name"
PHASE = "vscheduler.io/Phase"
SAYS = frozenset({"queue", "minMember", "priorityClassName"})
"""All of a spec that both kinds can say."""


def as_it_is(document: Document) -> Document:
    """Volcano's."""
    return document


def translator() -> Shown:
    """A function that gives an object as Kubernetes' API has it: groups before their pods."""
    translated: set[tuple[str, str]] = set()

    def shown(document: Document) -> Document:
        metadata, kind = document["metadata"], document["kind"]
        namespace = metadata.get("namespace", "")
        if kind == "PodGroup" and SAYS.issuperset(document["spec"]):
            translated.add((namespace, metadata["name"]))
            return _group(document)
        if kind == "Pod" and (namespace, metadata["annotations"][manifests.GROUP]) in translated:
            return _pod(document)
        return document

    return shown


def _group(document: Document) -> Document:
    metadata, spec, status = document["metadata"], document["spec"], document["status"]
    conditions = status.get("conditions", [])
    if not conditions and status["phase"] != "Pending":
        conditions = [{"type": PHASE, "status": "False", "reason": status["phase"]}]
    annotations = {**metadata.get("annotations", {}), QUEUE: spec["queue"]}
    return {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {**metadata, "annotations": annotations},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": spec["minMember"]}},
            "priority": int(spec.get("priorityClassName", "-0").partition("-")[2]),
        },
        "status": {"conditions": conditions},
    }


def _pod(document: Document) -> Document:
    annotations = dict(document["metadata"]["annotations"])
    group = {"podGroupName": annotations.pop(manifests.GROUP)}
    return {
        **document,
        "metadata": {**document["metadata"], "annotations": annotations},
        "spec": {**document["spec"], "schedulingGroup": group},
    }
