"""Jobs with room for all, and one object more with an odd number in it."""

import copy
from collections.abc import Mapping
from typing import Any

from vscheduler.testing import pictures

Document = pictures.Document

ROOMY = """
    node n1 cpu=900 memory=900Gi pods=500 example/gpu=50
    node n2 cpu=900 memory=900Gi pods=500 example/gpu=50
    queue mine weight=2   queue yours
    job mine/first min=2 -*2   job yours/second min=2 -*2   job mine/runs min=1 n1*2
"""

WAYS = ("waits", "runs")


def odd_one(way: str) -> list[Document]:
    """A job of a queue of its own, a budget, a quota and a class: one has the odd number."""
    place = {"name": "odd-0-1", "namespace": "odd"}
    labels = {"app": "odd"}
    spec: Document = {
        "schedulerName": pictures.SCHEDULER,
        "priorityClassName": "odd",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {}}}],
    }
    if way == "runs":
        spec["nodeName"] = "n2"
    status = {"phase": "Running" if way == "runs" else "Pending"}
    group: Document = {"minMember": 1, "queue": "odd", "priorityClassName": "odd"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **place,
                "uid": "odd-uid",
                "labels": labels,
                "annotations": {
                    "scheduling.k8s.io/group-name": "odd",
                    "volcano.sh/resource-strategy-scoring-type": "MostAllocated",
                    "volcano.sh/preemptable": "true",
                    "volcano.sh/task-spec": "worker",
                },
            },
            "spec": spec,
            "status": status,
        },
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {**place, "name": "odd", "annotations": {}},
            "spec": group,
            "status": {"phase": "Running" if way == "runs" else "Inqueue"},
        },
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {
                "name": "odd",
                "annotations": {"volcano.sh/hierarchy": "root/odd"},
            },
            "spec": {"weight": 1, "reclaimable": True},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {**place, "name": "odd"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": 1},
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {**place, "name": "odd"},
            "spec": {"hard": {"cpu": "9"}},
            "status": {"used": {"cpu": "1"}},
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "odd"},
            "value": 1,
        },
    ]


TEMPLATES: Mapping[str, Any] = {
    "spec.subGroupPolicy.0": {"name": "workers", "matchLabelKeys": ["app"]},
    "spec.topologySpreadConstraints.0": {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "odd"}},
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
    },
    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution.0": {
        "preference": {
            "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]
        }
    },
    "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution.0": {
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "odd"}},
        }
    },
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    ".nodeSelectorTerms.0.matchExpressions.0": {"key": "generation", "operator": "Gt"},
}
"""What stands around a number, by the path of it."""


def put(document: Document, path: str, value: Any) -> None:
    """Write the value there; what is missing on the way is made."""
    at: Any = document
    steps = path.split(".")
    for number, (step, following) in enumerate(zip(steps, [*steps[1:], None], strict=True)):
        key: Any = int(step) if step.isdecimal() else step
        if following is None:
            if key == 0:
                at[:] = [value]
            else:
                at[key] = value
            return
        if key == 0:
            if not at:
                at.append({})
        else:
            at.setdefault(key, [] if following == "0" else {})
        at = at[key]
        template = TEMPLATES.get(".".join(steps[: number + 1]))
        if template is not None and isinstance(at, dict):
            at.update(
                {name: each for name, each in copy.deepcopy(template).items() if name not in at}
            )


def world(kind: str, path: str, value: Any, way: str) -> list[Document]:
    """The others' jobs and an odd one; path is one of fields, or an annotation behind an @."""
    odd = odd_one(way)
    (document,) = (each for each in odd if each["kind"] == kind)
    if path.startswith("@"):
        document["metadata"]["annotations"][path[1:]] = value
    else:
        put(document, path, value)
    return [*pictures.documents(ROOMY), *odd]
