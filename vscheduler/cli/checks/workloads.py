"""Checks of workloads: pods, and what creates pods: Jobs, Deployments, Ray and Volcano Jobs.

A workload is looked at as the controllers would: its pod templates, and the annotations from which
its automatic PodGroup would be made. Labels that name a queue or a PodGroup where nothing reads
them are told, as annotations given as labels and labels of other schedulers.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from vscheduler.cli.checks import misspellings, native_groups
from vscheduler.cli.checks.findings import Level
from vscheduler.cli.checks.misspellings import METADATA, Slip
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.paths import NATIVE_POD_GROUPS
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.translate import group_terms, pod_owners, pods
from vscheduler.mirror.translate.group_terms import Problem, Source, Terms
from vscheduler.mirror.wording import phrases
from vscheduler.model import resources

Object = Mapping[str, Any]
Path = tuple[str | int, ...]

DEFAULT_SCHEDULER = "default-scheduler"
VOLCANO = "volcano"
MIN_MEMBER = group_terms.MIN_MEMBER
TEMPLATE: Path = ("spec", "template")
ORDERED = "OrderedReady"
POD, OWNER = "pod", "owner"
"""Whose annotations a problem is about."""

KINDS: Mapping[tuple[str, str], Path] = {
    ("", "Pod"): (),
    ("apps", "DaemonSet"): TEMPLATE,
    ("apps", "Deployment"): TEMPLATE,
    ("apps", "ReplicaSet"): TEMPLATE,
    ("apps", "StatefulSet"): TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", *TEMPLATE),
    ("batch", "Job"): TEMPLATE,
    ("batch.volcano.sh", "Job"): ("spec", "tasks"),
    ("ray.io", "RayCluster"): ("spec",),
    ("ray.io", "RayJob"): ("spec", "rayClusterSpec"),
    ("ray.io", "RayService"): ("spec", "rayClusterConfig"),
}
"""Where pod templates are, by API group and kind; in Ray and Volcano Jobs, where the list is."""

QUEUE = group_terms.QUEUE
GROUP = pods.GROUPS[0]

OF_KUEUE = "kueue.x-k8s.io/queue-name"
"""Names a LocalQueue, which in turn names the queue."""

OF_VOLCANO = "volcano.sh/queue-name"
"""Written by Volcano's job controller, and read by KubeRay from the objects of Ray."""

ANNOTATIONS: Mapping[str, str] = {
    **dict.fromkeys(pods.GROUPS, GROUP),
    **{name: name for name in (QUEUE, group_terms.MIN_MEMBER, group_terms.MIN_RESOURCES)},
}
"""Annotations that have no effect as labels, and the one to write instead."""

FOREIGN: Mapping[str, tuple[str, str]] = {
    OF_VOLCANO: ("Volcano's job controller", QUEUE),
    OF_KUEUE: ("Kueue", QUEUE),
    "kai.scheduler/queue": ("KAI", QUEUE),
    "runai/queue": ("KAI", QUEUE),
    "scheduling.x-k8s.io/pod-group": ("coscheduling", GROUP),
    "pod-group.scheduling.sigs.k8s.io": ("coscheduling", GROUP),
    "pod-group.scheduling.sigs.k8s.io/name": ("coscheduling", GROUP),
}
"""Keys that others read or write: whose they are, and the annotation that means the same here."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A pod template of a workload, or a pod."""

    path: Path
    tree: Object
    count: int | None
    """How many pods are made of it at a time, if the workload says so."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of its pods."""
        return _texts(self.tree, "annotations")

    @property
    def spec(self) -> Object:
        """The spec of its pods."""
        return _mapping(self.tree, "spec")


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is a pod or creates pods."""

    group: str
    kind: str
    key: str
    """`namespace/name`."""
    tree: Object
    annotations: Mapping[str, str]
    """The annotations of the pods' controller."""
    templates: tuple[Template, ...]

    @property
    def of_volcano(self) -> bool:
        """Whether Volcano's job controller creates the pods and the PodGroup."""
        return self.group == "batch.volcano.sh"


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What else the input has."""

    schedulers: Sequence[str]
    groups: frozenset[str]
    """Volcano's PodGroups as `namespace/name`."""
    native_groups: frozenset[str]
    """The same of Kubernetes' own."""
    queues: frozenset[str]
    """Empty if the input has no queues."""
    local_queues: Mapping[str, str]
    """The queue that each LocalQueue of Kueue stands for, by `namespace/name`; by `namespace/`, the
    own queue of a namespace."""
    largest: Mapping[str, int]
    """The largest allocatable amount of any node, by resource; empty without nodes."""
    options: Options


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """A finding about a part of a workload."""

    path: Path
    message: str
    level: Level = Level.WARNING


def read(tree: object) -> Workload | None:
    """Return the workload in a document; None for other objects."""
    if not isinstance(tree, Mapping):
        return None
    group = str(tree.get("apiVersion", "")).rpartition("/")[0]
    kind = str(tree.get("kind", ""))
    path = KINDS.get((group, kind))
    metadata = _mapping(tree, "metadata")
    if path is None or not metadata.get("name"):
        return None
    owner = tree
    if kind == "CronJob":
        owner = _mapping(_mapping(tree, "spec"), "jobTemplate")
    return Workload(
        group=group,
        kind=kind,
        key=f"{metadata.get('namespace') or 'default'}/{metadata['name']}",
        tree=tree,
        annotations={} if kind == "Pod" else _texts(owner, "annotations"),
        templates=tuple(_templates(tree, kind, path)),
    )


def _templates(tree: Object, kind: str, path: Path) -> Iterator[Template]:
    found: Any = tree
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    if path[-1:] == ("tasks",):
        for at, task in enumerate(found if isinstance(found, list) else ()):
            if isinstance(task, Mapping):
                count = _number(task.get("replicas"), 1)
                yield _template((*path, at, "template"), task.get("template"), count)
    elif kind.startswith("Ray"):
        yield from _of_ray(path, found if isinstance(found, Mapping) else {})
    else:
        yield _template(path, found, _count(kind, tree))


def _of_ray(path: Path, cluster: Object) -> Iterator[Template]:
    head = _mapping(cluster, "headGroupSpec").get("template")
    yield _template((*path, "headGroupSpec", "template"), head, 1)
    workers = cluster.get("workerGroupSpecs")
    for at, each in enumerate(workers if isinstance(workers, list) else ()):
        if isinstance(each, Mapping):
            count = _number(each.get("replicas"), None)
            where = (*path, "workerGroupSpecs", at, "template")
            yield _template(where, each.get("template"), count)


def _template(path: Path, tree: object, count: int | None) -> Template:
    return Template(path=path, tree=tree if isinstance(tree, Mapping) else {}, count=count)


def _count(kind: str, tree: Object) -> int | None:
    """Return how many pods a controller wants at a time."""
    spec = _mapping(tree, "spec")
    match kind:
        case "Pod":
            return 1
        case "DaemonSet":
            return None
        case "CronJob":
            spec = _mapping(_mapping(spec, "jobTemplate"), "spec")
            return _of_job(spec)
        case "Job":
            return _of_job(spec)
    return _number(spec.get("replicas"), 1)


def _of_job(spec: Object) -> int | None:
    parallelism = _number(spec.get("parallelism"), 1)
    completions = _number(spec.get("completions"), parallelism)
    return None if parallelism is None or completions is None else min(parallelism, completions)


def remarks(workload: Workload, around: Surroundings) -> Iterator[Remark]:
    """Iterate over the findings about a workload."""
    yield from _of_keys(workload)
    yield from _of_scheduling(workload, around)
    ours = []
    for template in workload.templates:
        slips = list(_of_scheduler(workload, template, around))
        yield from slips
        if slips or _scheduler(workload, template) in around.schedulers:
            ours.append(template)  # a slip in the name hides no other mistake
            yield from _of_labels(workload, template, around)
            yield from _of_group(workload, template, around)
            yield from _of_request(workload, template, around)
    if not ours:
        return
    yield from _of_owner_labels(workload, ours[0], around)
    if workload.of_volcano:
        yield from _of_volcano_job(workload, around)
    elif not pods_name_a_group(workload):
        yield from _of_terms(workload, ours[0], around)
    if workload.kind == "StatefulSet":
        yield from _of_stateful_set(workload, ours[0])


def pods_name_a_group(workload: Workload) -> bool:
    """Whether the pods name a PodGroup, so that they get no automatic one."""
    return bool(_of_kubernetes(workload)) or any(
        template.annotations.get(name) for template in workload.templates for name in pods.GROUPS
    )


def _of_kubernetes(workload: Workload) -> bool:
    """Whether the pods name a PodGroup of Kubernetes' own API, or their Job asks for one."""
    named = (_mapping(each.spec, "schedulingGroup") for each in workload.templates)
    return bool(_scheduling(workload)[1]) or any(each.get("podGroupName") for each in named)


def _scheduling(workload: Workload) -> tuple[Path, Object]:
    """Return the path and the tree of the spec of a Job with `scheduling`; empty without it."""
    if workload.group != "batch":
        return (), {}
    path: Path = ("spec", "jobTemplate", "spec") if workload.kind == "CronJob" else ("spec",)
    found: Object = workload.tree
    for part in path:
        found = _mapping(found, str(part))
    return (path, found) if _mapping(found, "scheduling") else ((), {})


def _of_scheduling(workload: Workload, around: Surroundings) -> Iterator[Remark]:
    """Iterate over mistakes in what a Job says of its PodGroup of Kubernetes' own API."""
    path, spec = _scheduling(workload)
    for template in workload.templates if spec else ():
        named = template.spec.get("schedulerName")
        scheduling, ours = _mapping(spec, "scheduling"), around.schedulers[0]
        for below, message in native_groups.of_job(scheduling, template.count, named, ours):
            yield Remark(path=(*path, *below), message=message)


def _scheduler(workload: Workload, template: Template) -> str:
    """Return the scheduler that the pods name."""
    own = template.spec.get("schedulerName")
    if workload.of_volcano:
        own = own or _mapping(workload.tree, "spec").get("schedulerName") or VOLCANO
    return str(own or DEFAULT_SCHEDULER)


def _of_keys(workload: Workload) -> Iterator[Remark]:
    """Iterate over annotations, labels and fields that nothing reads, and that look like slips."""
    slips = [*misspellings.of_metadata(workload.tree)]
    if workload.kind == "CronJob":
        made = _mapping(_mapping(workload.tree, "spec"), "jobTemplate")
        slips += misspellings.of_metadata(made, ("spec", "jobTemplate"))
    if workload.kind != "Pod":
        slips += misspellings.of_spec(workload.tree)
        for template in workload.templates:
            slips += misspellings.of_metadata(template.tree, template.path)
    for template in workload.templates:
        slips += misspellings.of_pod_spec(template.spec, (*template.path, "spec"))
    for path, message in slips:
        yield Remark(path=path, message=message)


def _of_labels(workload: Workload, template: Template, around: Surroundings) -> Iterator[Remark]:
    """Iterate over labels of pods that name a queue or a PodGroup, and that nothing reads."""
    settled = _settled(workload, template)
    queue_of = partial(meant_queue, around.local_queues, workload.key.partition("/")[0])
    for path, message in labels_for_others(template.tree, template.path, settled, queue_of):
        yield Remark(path=path, message=message)


def _of_owner_labels(
    workload: Workload, template: Template, around: Surroundings
) -> Iterator[Remark]:
    """Iterate over such labels of what creates the pods."""
    settled = _settled(workload, template)
    queue_of = partial(meant_queue, around.local_queues, workload.key.partition("/")[0])
    if workload.kind != "Pod":
        for path, message in labels_for_others(workload.tree, (), settled, queue_of):
            if workload.group != "ray.io" or path[-1] != OF_VOLCANO:
                yield Remark(path=path, message=message)
    if workload.kind == "CronJob":
        made = _mapping(_mapping(workload.tree, "spec"), "jobTemplate")
        for path, message in labels_for_others(made, ("spec", "jobTemplate"), settled, queue_of):
            yield Remark(path=path, message=message)


def _settled(workload: Workload, template: Template) -> Mapping[str, str]:
    """Return what labels can't change, and where to write it instead, by annotation."""
    if workload.of_volcano:
        queue = _mapping(workload.tree, "spec").get("queue")
        settled = dict.fromkeys(ANNOTATIONS.values(), "")
        return settled | {group_terms.QUEUE: "" if queue else "spec.queue"}
    if any(template.annotations.get(name) for name in pods.GROUPS):
        return dict.fromkeys(ANNOTATIONS.values(), "")
    settled = dict.fromkeys({**workload.annotations, **template.annotations}, "")
    if _of_kubernetes(workload):  # labels count for its queue, too
        labels = {**_texts(workload.tree, "labels"), **_texts(template.tree, "labels")}
        settled |= {QUEUE: ""} if QUEUE in labels else {}
    return settled


def _of_scheduler(workload: Workload, template: Template, around: Surroundings) -> Iterator[Remark]:
    """Iterate over scheduler names that look like slips, and settings that have no effect."""
    name = _scheduler(workload, template)
    if name in around.schedulers:
        return
    path = (*template.path, "spec", "schedulerName")
    near = difflib.get_close_matches(name, around.schedulers, n=1, cutoff=0.7)
    if near and name != DEFAULT_SCHEDULER:
        message = f"{name} is no scheduler that is known here; did you mean {near[0]}?"
        yield Remark(path=path, message=message)
    elif name == DEFAULT_SCHEDULER:
        settings = {**workload.annotations, **template.annotations}
        idle = [each for each in (*pods.GROUPS, MIN_MEMBER, group_terms.QUEUE) if each in settings]
        if idle:
            message = (
                f"is {DEFAULT_SCHEDULER}, which doesn't look at {idle[0]}; name "
                f"{around.schedulers[0]}"
            )
            yield Remark(path=path, message=message)


def _of_group(workload: Workload, template: Template, around: Surroundings) -> Iterator[Remark]:
    """Iterate over names of PodGroups that aren't given."""
    if workload.of_volcano:
        return
    namespace = workload.key.partition("/")[0]
    native = _mapping(template.spec, "schedulingGroup").get("podGroupName")
    if native and f"{namespace}/{native}" not in around.native_groups:
        message = (
            f"there is no PodGroup {native} of {NATIVE_POD_GROUPS.api_version} among the given "
            "objects; unless the cluster has it, the pods wait"
        )
        path: Path = (*template.path, "spec", "schedulingGroup", "podGroupName")
        yield Remark(path=path, message=message)
    for annotation in pods.GROUPS:
        name = template.annotations.get(annotation)
        if not name or pod_owners.is_automatic(name):
            continue
        if native:
            path = (*template.path, "metadata", "annotations", annotation)
            message = f"has no effect: spec.schedulingGroup names PodGroup {native}, which counts"
            yield Remark(path=path, message=message)
            return
        if f"{namespace}/{name}" not in around.groups:
            message = (
                f"there is no PodGroup {name} among the given objects; unless the cluster has it, "
                "the pods wait"
            )
            yield Remark(
                path=(*template.path, "metadata", "annotations", annotation), message=message
            )
        return


def _of_terms(workload: Workload, template: Template, around: Surroundings) -> Iterator[Remark]:
    """Iterate over annotations for the automatic PodGroup that can't be read, or do nothing."""
    owned = workload.kind != "Pod"
    pod = Source(object=POD, annotations=template.annotations)
    owner = Source(object=OWNER, annotations=workload.annotations)
    terms = Terms(pod, owner if owned else None)
    minimum = terms.min_member(template.count, of_job=workload.kind in {"Job", "CronJob"})
    terms.min_resources({}, minimum)
    queue = terms.queue("")
    terms.topology()
    for problem in terms.problems:
        yield Remark(path=_annotated(workload, template, problem), message=problem.message)
    for source, annotations in ((OWNER, workload.annotations), (POD, template.annotations)):
        text = annotations.get(MIN_MEMBER, "")
        if template.count is not None and text.isdecimal() and int(text) > template.count:
            message = f"{text} is more than the {phrases.pods(template.count)} that there will be"
            path = _path(workload, template, source, MIN_MEMBER)
            yield Remark(path=path, message=f"{message}; {template.count} is used")
    if around.queues and queue and queue not in around.queues:
        source = POD if template.annotations.get(group_terms.QUEUE) == queue else OWNER
        message = f"there is no queue {queue} among the given ones; without it the pods wait"
        yield Remark(path=_path(workload, template, source, group_terms.QUEUE), message=message)


def _annotated(workload: Workload, template: Template, problem: Problem) -> Path:
    """Return the path of the annotation that a problem is about."""
    annotation = problem.field.removeprefix("metadata.annotations[").removesuffix("]")
    return _path(workload, template, problem.object, annotation)


def _path(workload: Workload, template: Template, source: str, annotation: str) -> Path:
    """Return the path of an annotation of the pods, or of their controller."""
    tail = ("metadata", "annotations", annotation)
    if source == POD:
        return (*template.path, *tail)
    return ("spec", "jobTemplate", *tail) if workload.kind == "CronJob" else tail


def _of_stateful_set(workload: Workload, template: Template) -> Iterator[Remark]:
    """Iterate over gangs whose pods are created one after the other."""
    spec = _mapping(workload.tree, "spec")
    policy = spec.get("podManagementPolicy") or ORDERED
    text = workload.annotations.get(MIN_MEMBER) or template.annotations.get(MIN_MEMBER) or ""
    minimum = min(int(text) if text.isdecimal() else 1, template.count or 1)
    if policy == ORDERED and minimum > 1:
        message = (
            f"is {ORDERED}: the second pod is created when the first one is ready, so a gang of "
            f"{minimum} never starts; set Parallel"
        )
        yield Remark(path=("spec", "podManagementPolicy"), message=message)


def _of_volcano_job(workload: Workload, around: Surroundings) -> Iterator[Remark]:
    """Iterate over Volcano Jobs that wait for ever."""
    spec = _mapping(workload.tree, "spec")
    minimum = _number(spec.get("minAvailable"), None)
    total = sum(template.count or 0 for template in workload.templates)
    if minimum is not None and minimum > total:
        message = f"{minimum} is more than the {phrases.pods(total)} of all tasks: it never starts"
        yield Remark(path=("spec", "minAvailable"), message=message)
    queue = str(spec.get("queue") or "")
    if around.queues and queue and queue not in around.queues:
        message = f"there is no queue {queue} among the given ones; without it the pods wait"
        yield Remark(path=("spec", "queue"), message=message)


def _of_request(workload: Workload, template: Template, around: Surroundings) -> Iterator[Remark]:
    """Iterate over pods that can't be read, or that are larger than any given node."""
    namespace, _, name = workload.key.partition("/")
    metadata = {"name": name, "namespace": namespace, "annotations": {}}
    tree = {"metadata": metadata, "spec": dict(template.spec)}
    mirror = Mirror(replace(around.options, scheduler_names=(_scheduler(workload, template),)))
    mirror.apply(events.convert(Kind.POD, tree))
    if workload.kind != "Pod":  # the scheduler's own checks look at pods
        for rejection in mirror.rejections.values():
            path = (*template.path, *filter(None, rejection.field.split(".")))
            message = f"{rejection.field}: {rejection.message}" if rejection.field else ""
            yield Remark(path=path, message=message or rejection.message, level=Level.ERROR)
    if not around.largest:
        return
    for pod in mirror.ungrouped():
        for resource, amount in pod.pod_class.request.items():
            most = around.largest.get(resource, 0)
            if amount > most and resource != resources.PODS:
                has = f"the most that a given node has is {phrases.quantity(resource, most)}"
                if not most:
                    has = misspellings.no_node_has(resource, around.largest)
                message = f"asks for {phrases.quantity(resource, amount)}, and {has}: it never fits"
                yield Remark(path=(*template.path, "spec", "containers"), message=message)


def _mapping(tree: Object, name: str) -> Object:
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def _texts(tree: Object, name: str) -> Mapping[str, str]:
    """Return annotations; values that aren't text are left to the API server."""
    found = _mapping(_mapping(tree, "metadata"), name)
    return {str(key): value for key, value in found.items() if isinstance(value, str)}


def _number(found: object, default: int | None) -> int | None:
    if found is None:
        return default
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def labels_for_others(
    tree: Mapping[str, Any],
    path: tuple[str | int, ...],
    settled: Mapping[str, str],
    queue_of: Callable[[str], str],
) -> Iterator[Slip]:
    """Iterate over labels, and annotations of other schedulers, of an object or a pod template.

    `settled` are the settings that count already, by their annotation, and what to write for
    others: an empty text where nothing is left to be said. `queue_of` returns what a LocalQueue
    stands for.
    """
    metadata = tree.get("metadata")
    for part in METADATA:
        found = metadata.get(part) if isinstance(metadata, Mapping) else None
        for key, value in (found if isinstance(found, Mapping) else {}).items():
            meant = ANNOTATIONS.get(key, "") if part == "labels" else ""
            owner, same = FOREIGN.get(key, ("", meant))
            if not same:
                continue
            where = settled.get(same, f"annotation {same}")
            if where:
                why = f"is for {owner} only" if owner else "is no label but an annotation"
                named = queue_of(str(value)) if key == OF_KUEUE else value
                yield (*path, "metadata", part, str(key)), f"{why}; write {where}: {named}"


def meant_queue(local_queues: Mapping[str, str], namespace: str, name: str) -> str:
    """Return the queue that a LocalQueue stands for; in words if it isn't known."""
    found = local_queues.get(f"{namespace}/{name}") or local_queues.get(f"{namespace}/")
    return found or f"the ClusterQueue of LocalQueue {name}"
