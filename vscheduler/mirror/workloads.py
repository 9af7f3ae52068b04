"""Workloads: what users call a job, such as `job/train`, from the owners of PodGroups and pods.

Only PodGroups and pods are read, so a workload is known by what its pods say of it.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from vscheduler.mirror import paths
from vscheduler.model import jobs
from vscheduler.model.jobs import JobId

Object = Mapping[str, Any]

GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
TEMPLATE_HASH = "pod-template-hash"
"""Label of a Deployment's pods; its value ends the name of their ReplicaSet."""

RAY_KIND = "ray.io/originated-from-crd"
RAY_NAME = "ray.io/originated-from-cr-name"
"""Labels by KubeRay: the RayJob or RayService that a RayCluster was created for."""

OUTER_OWNERS = {
    "jobset.sigs.k8s.io/jobset-name": "jobset",
    "leaderworkerset.sigs.k8s.io/name": "leaderworkerset",
}
"""By label of pods whose value is its name, the kind of the owner's owner."""

POD = "pod"
POD_GROUP = "podgroup"
COMPOSITE_POD_GROUP = "compositepodgroup"
VOLCANO_JOB = "vcjob"
OF_VOLCANO = "@scheduling.volcano.sh"
"""Tells Volcano's PodGroup from Kubernetes' own of the same name, as jobs.NATIVE the other one."""

ALIASES = {
    "lws": "leaderworkerset",
    "cj": "cronjob",
    "deploy": "deployment",
    "ds": "daemonset",
    "pg": POD_GROUP,
    "po": POD,
    "rs": "replicaset",
    "sts": "statefulset",
    "vj": VOLCANO_JOB,
}
"""kubectl's short names."""

_ALSO_CALLED = {VOLCANO_JOB: "job", COMPOSITE_POD_GROUP: POD_GROUP}
_MARKS = {
    (collection.api_version, collection.kind): mark
    for collection, mark in (
        (paths.NATIVE_POD_GROUPS, jobs.NATIVE),
        (paths.COMPOSITE_POD_GROUPS, jobs.COMPOSITE),
    )
}
"""By API version and kind, what JobIds have behind the name."""

SIMILAR_MAX = 3


class Workload(msgspec.Struct, frozen=True, order=True):
    """The object that a user created: a Job, a Deployment, a bare pod, or a PodGroup."""

    kind: str
    """In lower case."""
    name: str
    """Of Kubernetes' own PodGroups, with jobs.NATIVE behind it."""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def parse(text: str) -> Workload:
    """Return the workload that a user names: `job/train`, `deploy/web`; without a kind, the kind is
    empty.
    """
    kind, slash, name = text.partition("/")
    if not slash:
        return Workload("", text)
    kind = kind.lower().partition(".")[0]
    if kind not in ALIASES and kind.endswith("s") and kind[:-1]:
        kind = kind[:-1]
    return Workload(ALIASES.get(kind, kind), name)


def of_owner(api_version: str, kind: str, name: str) -> Workload:
    """Return an owner as a workload."""
    volcano = api_version.startswith("batch.volcano.sh/") and kind.lower() == "job"
    return Workload(VOLCANO_JOB if volcano else kind.lower(), name)


def is_final(owner_kind: str, labels: Mapping[str, str]) -> bool:
    """Whether users know the pods by their owner, and not by an owner of the owner.

    `labels` are those of a pod.
    """
    inner = owner_kind in {"Pod", "ReplicaSet"} or bool(labels.get(RAY_KIND))
    return not inner and not any(map(labels.get, OUTER_OWNERS))


def group_of(pod: Object) -> str:
    """Return the name of the pod's PodGroup, as in JobIds; empty without a PodGroup."""
    native = (pod.get("spec") or {}).get("schedulingGroup") or {}
    if native.get("podGroupName"):
        return f"{native['podGroupName']}{jobs.NATIVE}"
    annotations = pod["metadata"].get("annotations") or {}
    named = str(next(filter(None, map(annotations.get, GROUP_ANNOTATIONS)), ""))
    return "" if jobs.MARK in named else named


def group_name(group: Object) -> str:
    """Return the name of a PodGroup or CompositePodGroup, as in JobIds."""
    mark = _MARKS.get((str(group.get("apiVersion")), str(group.get("kind"))), "")
    return f"{group['metadata']['name']}{mark}"


def of_group_name(name: str) -> Workload:
    """Return a PodGroup, CompositePodGroup or lone pod, named as in JobIds, as a workload."""
    if jobs.is_lone_pod(JobId(name)):
        return Workload(POD, name.removesuffix(jobs.LONE_POD))
    if jobs.is_composite(JobId(name)):
        return Workload(COMPOSITE_POD_GROUP, name.removesuffix(jobs.COMPOSITE))
    return Workload(POD_GROUP, name)


def of_pod(pod: Object) -> list[Workload]:
    """Return what the pod is part of, the user's object first, the pod itself last."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    workloads = []
    if labels.get(RAY_KIND) and labels.get(RAY_NAME):
        workloads.append(Workload(str(labels[RAY_KIND]).lower(), str(labels[RAY_NAME])))
    workloads += [
        Workload(kind, labels[key]) for key, kind in OUTER_OWNERS.items() if labels.get(key)
    ]
    owner = _owner(metadata)
    if owner is not None:
        ending = f"-{labels.get(TEMPLATE_HASH, '')}"
        if owner.kind == "replicaset" and len(ending) > 1 and owner.name.endswith(ending):
            workloads.append(Workload("deployment", owner.name.removesuffix(ending)))
        workloads.append(owner)
    return [*workloads, Workload(POD, metadata["name"])]


def with_its_maker(owner: Workload) -> list[Workload]:
    """Return an owner of pods, and the Deployment or CronJob that its name says has made it."""
    maker = {"replicaset": "deployment", "job": "cronjob"}.get(owner.kind)
    name = owner.name.rpartition("-")[0]
    return [owner, Workload(maker, name)] if maker and name else [owner]


def of_group(group: Object, pods: Iterable[Object]) -> list[Workload]:
    """Return all names of a PodGroup's workload, the best name first, the PodGroup last."""
    workloads: list[Workload] = []
    members = [of_pod(pod) for pod in pods]
    owner = _owner(group["metadata"])
    if owner is not None and owner.kind != POD:
        workloads += [member[0] for member in members if owner in member]
        workloads.append(owner)
    elif len({member[0] for member in members}) == 1:
        workloads.append(members[0][0])
    itself = of_group_name(group_name(group))
    others = (workload for member in members for workload in member)
    return list(dict.fromkeys((*workloads, *([] if workloads else [itself]), *others, itself)))


def matches(wanted: Workload, names: Iterable[Workload]) -> bool:
    """Whether one of the names is the wanted one. A Volcano Job may also be called a job, and a
    CompositePodGroup a PodGroup.
    """
    return any(
        wanted.name in _written(name)
        and (wanted.kind in {"", name.kind} or _ALSO_CALLED.get(name.kind) == wanted.kind)
        for name in names
    )


def _written(name: Workload) -> tuple[str, ...]:
    """Return how the name may be written: PodGroups of all kinds without or with their API."""
    if name.kind == COMPOSITE_POD_GROUP:
        return name.name, f"{name.name}{jobs.COMPOSITE}"
    if name.kind != POD_GROUP:
        return (name.name,)
    bare = name.name.removesuffix(jobs.NATIVE)
    return bare, name.name if bare != name.name else f"{bare}{OF_VOLCANO}"


def similar(wanted: Workload, names: Iterable[Workload]) -> list[str]:
    """Return names that may be meant, of the wanted kind where a name has several."""
    candidates = sorted(set(names), key=lambda each: (each.kind == wanted.kind, each))
    by_name = {each.name: str(each) for each in candidates}
    near = difflib.get_close_matches(wanted.name, sorted(by_name), n=SIMILAR_MAX, cutoff=0.6)
    return [by_name[each] for each in near]


def _owner(metadata: Object) -> Workload | None:
    """Return the controller of an object, else its first owner, else None."""
    references = metadata.get("ownerReferences") or ()
    for each in sorted(references, key=lambda each: not each.get("controller")):
        words = (each.get("apiVersion", ""), each.get("kind", ""), each.get("name"))
        return of_owner(*map(str, words))
    return None
