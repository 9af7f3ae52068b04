"""Groups of a world as PodGroups of Kubernetes' own API, wherever that can say the same.

The world itself, its owners and its judges go on with Volcano's. Only the scheduler is shown the
others, and has to decide the same. A group with sub-groups or roles is a CompositePodGroup above a
PodGroup for each of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tests.properties.worlds import manifests
from tests.properties.worlds.manifests import Document

Shown: TypeAlias = Callable[[Document], Sequence[Document]]

API = "scheduling.k8s.io/v1beta1"
COMPOSITE_API = "scheduling.k8s.io/v1alpha3"
SUB_GROUPS = ("s0", "s1", "s2")
"""What workloads call them; there may be no pods of the last one."""

QUEUE = "scheduling.volcano.sh/queue-name"
PHASE = "vscheduler.io/Phase"
SAYS = frozenset({"queue", "minMember", "priorityClassName"})
"""All of a spec that both kinds can say, but for sub-groups and roles."""


def as_it_is(document: Document) -> Sequence[Document]:
    """Volcano's."""
    return [document]


def translator() -> Shown:
    """A function that gives the objects of Kubernetes' API for one: groups before their pods."""
    translated: dict[tuple[str, str], bool] = {}

    def shown(document: Document) -> Sequence[Document]:
        metadata, kind = document["metadata"], document["kind"]
        namespace = metadata.get("namespace", "")
        if kind == "PodGroup" and (parts := _parts(document["spec"])) is not None:
            is_tree = bool(parts)
            translated[namespace, metadata["name"]] = is_tree
            return _tree(document, parts) if is_tree else [_group(document)]
        if kind == "Pod":
            known = translated.get((namespace, metadata["annotations"][manifests.GROUP]))
            return [document if known is None else _pod(document, is_part=known)]
        return [document]

    return shown


def _parts(spec: Document) -> Mapping[str, int] | None:
    """By sub-group or role, how many pods it needs; empty if there are none, None if Kubernetes'
    API can't say the same.
    """
    roles, policies = spec.get("minTaskMember", {}), spec.get("subGroupPolicy", [])
    if not {*SAYS, "subGroupPolicy", "minTaskMember"}.issuperset(spec):
        return None
    if policies:
        return dict.fromkeys(SUB_GROUPS, policies[0]["subGroupSize"])
    return roles if sum(roles.values()) in {0, spec["minMember"]} else None


def _tree(document: Document, sizes: Mapping[str, int]) -> Sequence[Document]:
    """A CompositePodGroup, which has the status, and a PodGroup for each sub-group or role."""
    root, policies = _group(document), document["spec"].get("subGroupPolicy")
    of = {"workloadName": document["metadata"]["name"], "templateName": "t"}
    spec = {**root["spec"], "workloadRef": of}
    count = policies[0]["minSubGroups"] if policies else len(sizes)
    gang = {"gang": {"minGroupCount": count}}
    parts = [
        {
            **root,
            "metadata": {
                **document["metadata"],
                "name": f"{document['metadata']['name']}-{name}",
                "uid": f"{document['metadata']['uid']}-{name}",
            },
            "spec": {
                **spec,
                "schedulingPolicy": {"gang": {"minCount": size}},
                "parentCompositePodGroupName": document["metadata"]["name"],
            },
            "status": {},
        }
        for name, size in sizes.items()
    ]
    head = {"apiVersion": COMPOSITE_API, "kind": "CompositePodGroup"}
    return [{**root, **head, "spec": {**spec, "schedulingPolicy": gang}}, *parts]


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


def _pod(document: Document, *, is_part: bool) -> Document:
    annotations = dict(document["metadata"]["annotations"])
    name = annotations.pop(manifests.GROUP)
    if is_part:
        name = f"{name}-{document['metadata']['labels'][manifests.ROLE]}"
    group = {"podGroupName": name}
    return {
        **document,
        "metadata": {**document["metadata"], "annotations": annotations},
        "spec": {**document["spec"], "schedulingGroup": group},
    }
