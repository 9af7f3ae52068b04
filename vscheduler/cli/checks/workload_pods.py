"""Pods that Jobs, Deployments and their like in manifests would have, to simulate them.

An object that comes from a cluster has its pods there already, so only objects without a UID get
pods, and only if none of theirs are given. The PodGroup that some of these pods need is the one
that our controllers would make.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from vscheduler.cli.checks import workloads
from vscheduler.cli.checks.workloads import Template, Workload
from vscheduler.controllers.podgroups import auto_groups
from vscheduler.controllers.podgroups.auto_groups import Member
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Upsert
from vscheduler.mirror.decode.wire import Pod
from vscheduler.mirror.translate import lone_pods, pod_requests, pods
from vscheduler.mirror.wording import phrases
from vscheduler.model import resources
from vscheduler.simulator import manifests
from vscheduler.simulator.manifests import Manifest

Object = Mapping[str, Any]

KINDS = frozenset({("batch", "Job"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})
"""Owners of pods, by API group."""

JOB_SET = "jobset.x-k8s.io"

PODS_MAX = 5_000
"""A workload with more pods gets none."""


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that an object among the manifests would have."""

    kind: str
    name: str
    """`namespace/name`."""
    pods: int
    objects: tuple[Manifest, ...]
    """The pods, the PodGroups that they need, and the Jobs or the ReplicaSet between."""
    owners: tuple[str, ...]
    """The kinds of the objects between."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} is simulated with {phrases.pods(self.pods)}"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What else decides which PodGroups there are."""

    schedulers: Sequence[str]
    groups_all: bool
    """Whether pods that need no PodGroup have one, too."""


def created(given: Iterable[Manifest], settings: Settings) -> Iterator[Created]:
    """Yield the pods that objects among the manifests would have."""
    listed = list(manifests.expanded(given))
    owners = {owner for each in listed for owner in _owners(each.tree)}
    for manifest in listed:
        tree = manifest.tree
        if not isinstance(tree, Mapping) or _key(tree) in owners or _is_stored(tree):
            continue
        count, objects, between = 0, list[Manifest](), list[str]()
        for owner in _owners_of_pods(manifest):
            made, pods_made = _of_owner(owner, settings)
            if pods_made:
                count += pods_made
                objects += made
            if pods_made and owner is not manifest:
                objects.append(owner)
                between.append(_key(_mapping(owner.tree))[0])
        if count:
            kind, namespace, name = _key(tree)
            yield Created(
                kind=kind,
                name=f"{namespace}/{name}",
                pods=count,
                objects=tuple(objects),
                owners=tuple(between),
            )


def _of_owner(manifest: Manifest, settings: Settings) -> tuple[list[Manifest], int]:
    """Return the pods of a Job or its like, with the PodGroup that they need, and their number."""
    workload = workloads.read(manifest.tree)
    if workload is None or (workload.group, workload.kind) not in KINDS:
        return [], 0
    template, name = workload.templates[0], workload.key.partition("/")[2]
    count = template.count or 0
    if not 0 < count <= PODS_MAX:
        return [], 0
    body, found = _pod(workload, template), list[Manifest]()
    group = _group(workload, body, settings)
    if group is not None:
        body["metadata"]["annotations"][pods.GROUPS[0]] = group["metadata"]["name"]
        found.append(replace(manifest, tree=group))
    for number in range(count):
        tree = {**body, "metadata": {**body["metadata"], "name": f"{name}-{number}"}}
        found.append(replace(manifest, tree=tree, path=(*manifest.path, *template.path)))
    return found, count


def _key(tree: Object) -> tuple[str, str, str]:
    """Return kind, namespace and name."""
    metadata = _mapping(tree.get("metadata"))
    namespace = str(metadata.get("namespace") or manifests.DEFAULT_NAMESPACE)
    return str(tree.get("kind")), namespace, str(metadata.get("name"))


def _mapping(found: object) -> Object:
    return found if isinstance(found, Mapping) else {}


def _is_stored(tree: Object) -> bool:
    """Whether an API server has stored the object, or it has no pods for now."""
    suspended = _mapping(tree.get("spec")).get("suspend")
    return bool(suspended) or "uid" in _mapping(tree.get("metadata"))


def _owners(tree: object) -> Iterator[tuple[str, str, str]]:
    """Yield kind, namespace and name of the owners of an object."""
    metadata = _mapping(_mapping(tree).get("metadata"))
    references = metadata.get("ownerReferences")
    for each in references if isinstance(references, list) else ():
        named = {"namespace": metadata.get("namespace"), "name": _mapping(each).get("name")}
        yield _key({"kind": _mapping(each).get("kind"), "metadata": named})


def _owners_of_pods(manifest: Manifest) -> Iterator[Manifest]:
    """Yield the objects that own the pods: the Jobs of a JobSet, the ReplicaSet of a Deployment,
    else the object itself.
    """
    tree = _mapping(manifest.tree)
    group = str(tree.get("apiVersion")).rpartition("/")[0]
    if group == JOB_SET:
        yield from _jobs(manifest, tree)
    elif (group, tree.get("kind")) == ("apps", "Deployment"):
        yield replace(manifest, tree={**tree, "kind": "ReplicaSet"})
    else:
        yield manifest


def _jobs(manifest: Manifest, job_set: Object) -> Iterator[Manifest]:
    """Yield the Jobs that a JobSet would create."""
    _, namespace, name = _key(job_set)
    listed = _mapping(job_set.get("spec")).get("replicatedJobs")
    for at, each in enumerate(map(_mapping, listed if isinstance(listed, list) else ())):
        template, count = _mapping(each.get("template")), each.get("replicas", 1)
        path = (*manifest.path, "spec", "replicatedJobs", at, "template")
        for number in range(min(count, PODS_MAX) if isinstance(count, int) else 0):
            metadata = {
                **_mapping(template.get("metadata")),
                "name": f"{name}-{each.get('name')}-{number}",
                "namespace": namespace,
            }
            tree = {**template, "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
            yield replace(manifest, tree=tree, path=path)


def _pod(workload: Workload, template: Template) -> dict[str, Any]:
    """Return a pod of the template, without a name."""
    namespace, _, name = workload.key.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_mapping(template.tree.get("metadata")),
            "name": name,
            "namespace": namespace,
            "annotations": dict(template.annotations),
            "ownerReferences": [
                {
                    "apiVersion": workload.tree["apiVersion"],
                    "kind": workload.kind,
                    "name": name,
                    "uid": workload.key,
                    "controller": True,
                }
            ],
        },
        "spec": dict(template.spec),
    }


def _group(workload: Workload, pod: Object, settings: Settings) -> dict[str, Any] | None:
    """Return the PodGroup that the controllers would make for the pods; None if they need none."""
    event = events.convert(Kind.POD, pod)
    if not isinstance(event, Upsert) or not isinstance(event.object, Pod):
        return None
    read, metadata = event.object, event.object.metadata
    scheduler = read.spec.scheduler_name
    if scheduler not in settings.schedulers or workloads.pods_name_a_group(workload):
        return None
    says_more = any(map(lone_pods.says_more, (workload.annotations, metadata.annotations)))
    if not (says_more or settings.groups_all):
        return None
    named = {**workload.tree["metadata"], "uid": workload.key}
    owner = auto_groups.owner({**workload.tree, "metadata": named})
    member = Member(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=workload.key,
        labels=metadata.labels,
        annotations=metadata.annotations,
        priority_class=read.spec.priority_class_name,
        request={**pod_requests.of_pod(read), resources.PODS: 1},
        owner=owner.ref,
    )
    return auto_groups.wanted(
        member,
        owner,
        name=metadata.name,
        scheduler=scheduler,
        default_queue="",  # the Mirror knows that of the namespace
        inherit_owner_annotations=True,
    )
