"""Figures of jobs, from PodGroups and pods as the API server has them, for tables; and their
history: creation, binds, evictions and reports, from pods and events.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from vscheduler.cli import screen
from vscheduler.cli.job import trees
from vscheduler.cli.job.trees import Trees
from vscheduler.cli.queue import queue_figures
from vscheduler.mirror import statuses, workloads
from vscheduler.mirror.translate import pod_owners
from vscheduler.mirror.wording import phrases
from vscheduler.mirror.workloads import Workload
from vscheduler.model import jobs
from vscheduler.model.jobs import JobId, Phase
from vscheduler.model.queues import DEFAULT
from vscheduler.simulator.waiting_line import Place

Object = Mapping[str, Any]

FINISHED = ("Succeeded", "Failed")
KUBE_SCHEDULER = "default-scheduler"
"""The schedulerName of pods that name none."""
SCHEDULER = "scheduling.volcano.sh/scheduler-name"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"

Entry = tuple[float, str]
"""Seconds since the epoch, and what happened."""

EVENT_WORDS = {"Unschedulable": "waits: ", "Scheduled": "", "Evict": ""}
"""Reasons of events about PodGroups, with what comes before their messages."""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a job."""

    name: str
    uid: str
    phase: str
    """Terminating while the pod is being deleted."""
    node: str
    created: float
    bound: float
    """When the pod got its node; 0 without a node."""
    scheduler: str
    waits_because: str
    """The message of condition PodScheduled while the condition is False."""
    evicted: tuple[float, str] | None
    """When the pod was evicted, and for whom."""
    why: str = ""
    """The reason of that condition in one word."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup with its pods, a CompositePodGroup with those of all PodGroups below it, or a pod
    alone.
    """

    namespace: str
    name: str
    """Name of the PodGroup; of Kubernetes' own, with jobs.NATIVE or jobs.COMPOSITE behind it."""
    uid: str
    names: tuple[Workload, ...]
    """Names of the workload, the best one first."""
    queue: str
    """Empty while a PodGroup of Kubernetes' own API has none."""
    phase: str
    minimum: int
    running: int
    pods: tuple[Pod, ...] | None
    """None where pods can't be read."""
    created: float
    since: float
    """Since when the job waits, in seconds since the epoch; 0 unless it waits."""
    admitted: float
    """When all pods of the minimum had nodes; 0 if they never had."""
    reason: str
    """The reason for waiting in one word."""
    message: str
    """The reason for waiting in a sentence."""
    unreadable: str
    """What annotations of the workload can't be read."""
    scheduler: str
    place: Place | None
    """None unless the job waits, and where its place isn't known."""
    counted: int | None = None
    """How many pods there are where they are counted but not named."""

    @property
    def key(self) -> str:
        """`namespace/name` of the PodGroup."""
        return f"{self.namespace}/{self.name}"

    @property
    def native(self) -> bool:
        """Whether the PodGroup is Kubernetes' own."""
        return jobs.is_native(JobId(self.name))

    @property
    def group(self) -> str:
        """Kind and name of the PodGroup or CompositePodGroup."""
        if jobs.is_lone_pod(JobId(self.name)):
            return f"Pod {self.name.removesuffix(jobs.LONE_POD)}"
        if jobs.is_composite(JobId(self.name)):
            return f"CompositePodGroup {self.name.removesuffix(jobs.COMPOSITE)}"
        return f"PodGroup {self.name}"

    @property
    def workload(self) -> Workload:
        """The best name."""
        return self.names[0]

    @property
    def owner(self) -> str:
        """What creates the pods, such as `job/train`; empty if nobody is known to."""
        kinds = {workloads.POD_GROUP, workloads.COMPOSITE_POD_GROUP, workloads.POD}
        return "" if self.workload.kind in kinds else str(self.workload)

    @property
    def total(self) -> int | None:
        """How many pods there are; None where that can't be read."""
        return self.counted if self.pods is None else len(self.pods)

    @property
    def waits(self) -> bool:
        """Whether the job waits for its minimum."""
        return bool(self.since)


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Places in line, by `namespace/name` of the PodGroup."""

    found: Mapping[str, Place]


def lone_pods(
    pods: Iterable[Object], naming: Iterable[Object], places: Places, *, surely: bool
) -> list[Job]:
    """Return a job for each pod without a PodGroup. `naming` are owners and namespaces that may
    name their queue. `surely`: there are no PodGroups for them; otherwise pods of which no
    scheduler has said anything may still get one.
    """
    queues = {
        (each.get("kind"), _namespace(each), each["metadata"]["name"]): _annotated_queue(each)
        for each in naming
    }
    found = []
    for pod in map(screen.plain, filter(is_lone, pods)):
        space, (kind, name) = _namespace(pod), owner_of(pod)
        named = queues.get((kind, space, name)) or queues.get(("Namespace", "", space), "")
        found.append(_lone(pod, named, places))
    return [
        job
        for job in found
        if surely
        or job.phase != Phase.PENDING
        or (job.message and job.reason != jobs.POD_GROUP_NEEDED)
    ]


def is_lone(pod: Object) -> bool:
    """Whether a pod of another scheduler than kube-scheduler has no PodGroup."""
    scheduler = (pod.get("spec") or {}).get("schedulerName") or KUBE_SCHEDULER
    return scheduler != KUBE_SCHEDULER and not workloads.group_of(pod)


def owner_of(pod: Object) -> tuple[str, str]:
    """Return kind and name of the pod's controller; empty without one."""
    references = pod["metadata"].get("ownerReferences") or ()
    found = (each for each in references if each.get("controller"))
    return next(((str(each.get("kind")), str(each.get("name"))) for each in found), ("", ""))


def _namespace(found: Object) -> str:
    return str(found["metadata"].get("namespace", ""))


def _annotated_queue(found: Object) -> str:
    return str((found["metadata"].get("annotations") or {}).get(jobs.QUEUE_NAME) or "")


def _lone(pod: Object, named: str, places: Places) -> Job:
    """Return a pod as a job; `named` is the queue that its owner or namespace names."""
    found, namespace = _pod(pod), _namespace(pod)
    key = jobs.pod_id(namespace, found.name)
    waits = not found.node and found.phase not in FINISHED
    place = places.found.get(key) if waits else None
    queue = _annotated_queue(pod) or named or DEFAULT
    phase = Phase.PENDING if waits else Phase.RUNNING
    return Job(
        namespace=namespace,
        name=f"{found.name}{jobs.LONE_POD}",
        uid=found.uid,
        names=tuple(workloads.of_pod(pod)),
        queue=queue if place is None else place.queue,
        phase=Phase.COMPLETED if found.phase in FINISHED else phase,
        minimum=1,
        running=int(found.phase == "Running"),
        pods=(found,),
        created=found.created,
        since=found.created if waits else 0.0,
        admitted=found.bound,
        reason=found.why if waits else "",
        message=found.waits_because,
        unreadable="",
        scheduler=found.scheduler,
        place=place,
    )


def jobs_of(groups: Iterable[Object], pods: Iterable[Object] | None, places: Places) -> list[Job]:
    """Return a job for each PodGroup, and one for all that are below a CompositePodGroup which is a
    job; `pods` is None where pods can't be read.
    """
    every = {trees.id_of(group): group for group in map(screen.plain, groups)}
    found = trees.read(every.values())
    members: defaultdict[JobId, list[Object]] = defaultdict(list)
    for pod in map(screen.plain, pods or ()):
        named = workloads.group_of(pod)
        if named:
            key = JobId(f"{pod['metadata'].get('namespace', '')}/{named}")
            members[found.job_of(key) or key].append(pod)
    parts: defaultdict[JobId, list[Object]] = defaultdict(list)
    for key, group in every.items():
        job = found.job_of(key)
        if job is not None and job != key:
            parts[job].append(group)
    made = []
    for key, group in every.items():
        if found.job_of(key) == key:
            theirs = members[key] if pods is not None else None
            job_made = _job(_Whole(key, group, parts[key], found), theirs, places)
            if not (jobs.is_native(key) and _is_of_kubernetes(key, group, job_made)):
                made.append(job_made)
    return made


def _is_of_kubernetes(key: JobId, group: Object, job: Job) -> bool:
    """Whether kube-scheduler starts this PodGroup of Kubernetes' own API, as its pods say, and
    none of our schedulers; or it had done so, if there are no pods.
    """
    conditions = _conditions(group)
    if jobs.PHASE in conditions:
        return False
    started = conditions.get(jobs.initially_scheduled(key), {}).get("status") == "True"
    return job.scheduler == KUBE_SCHEDULER or (not job.scheduler and started)


def _conditions(group: Object) -> dict[str, Object]:
    found = (group.get("status") or {}).get("conditions") or ()
    return {str(each.get("type")): each for each in found}


class _Whole(NamedTuple):
    """A PodGroup that is a job, or a CompositePodGroup with all below it."""

    key: JobId
    group: Object
    parts: Sequence[Object]
    trees: Trees


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What a PodGroup of any kind says."""

    queue: str
    minimum: int
    phase: str
    unschedulable: Object
    """The condition, or empty."""
    scheduled: Object
    """The condition, or empty."""


def _stored(whole: _Whole) -> _Stored:
    key, group = whole.key, whole.group
    spec, conditions = group.get("spec") or {}, _conditions(group)
    if jobs.is_native(key):
        tree = whole.trees.wholes.get(key)
        named = queue_figures.native_queue(group["metadata"]) if tree is None else tree.queue
        scheduled = jobs.initially_scheduled(key)
        return _Stored(
            queue=named or _queue_told(conditions),
            minimum=_minimum(group) if tree is None else tree.min_member,
            phase=queue_figures.native_phase(conditions, scheduled),
            unschedulable=conditions.get(statuses.NATIVE_UNSCHEDULABLE, {}),
            scheduled=conditions.get(scheduled, {}),
        )
    return _Stored(
        queue=spec.get("queue") or DEFAULT,
        minimum=spec.get("minMember", 0),
        phase=(group.get("status") or {}).get("phase") or Phase.PENDING,
        unschedulable=conditions.get(queue_figures.UNSCHEDULABLE, {}),
        scheduled=conditions.get("Scheduled", {}),
    )


def _queue_told(conditions: Mapping[str, Object]) -> str:
    """Return the queue by the condition with the phase: below a CompositePodGroup, it is that of
    the uppermost one.
    """
    message = str(conditions.get(jobs.PHASE, {}).get("message") or "")
    return message.removeprefix(statuses.OF_QUEUE) if message.startswith(statuses.OF_QUEUE) else ""


def _minimum(group: Object) -> int:
    """Return how many pods of a PodGroup of Kubernetes' own API start together."""
    policy = (group.get("spec") or {}).get("schedulingPolicy") or {}
    if policy.get("gang"):
        return max(1, int(policy["gang"].get("minCount") or 1))
    text = str((group["metadata"].get("annotations") or {}).get(MIN_MEMBER) or "")
    return max(1, int(text)) if text.isascii() and text.isdecimal() else 1


def _job(whole: _Whole, pods: list[Object] | None, places: Places) -> Job:
    group, metadata, stored = whole.group, whole.group["metadata"], _stored(whole)
    said, scheduled, phase = stored.unschedulable, stored.scheduled, stored.phase
    told = said if said.get("status") == "True" and phase != Phase.COMPLETED else {}
    created = queue_figures.instant(metadata.get("creationTimestamp"))
    changed = queue_figures.instant(scheduled.get("lastTransitionTime"))
    figures = None if pods is None else tuple(map(_pod, sorted(pods, key=_order)))
    young = phase in {Phase.PENDING, Phase.INQUEUE} or bool(told)
    waits = young and not _has_nodes(figures, stored.minimum)
    schedulers = Counter(each.scheduler for each in figures or ())
    annotated = (metadata.get("annotations") or {}).get(SCHEDULER, "")
    return Job(
        namespace=metadata.get("namespace", ""),
        name=workloads.group_name(group),
        uid=metadata.get("uid", ""),
        names=tuple(dict.fromkeys(_names(whole, pods or ()))),
        queue=stored.queue,
        phase=phase,
        minimum=stored.minimum,
        running=_running(group, figures),
        pods=figures,
        created=created,
        since=(changed if scheduled.get("status") == "False" else 0.0) or created if waits else 0.0,
        admitted=changed if scheduled.get("status") == "True" else 0.0,
        reason=told.get("reason", ""),
        message=told.get("message", ""),
        unreadable=_conditions(group).get(pod_owners.CONDITION, {}).get("message", ""),
        scheduler=schedulers.most_common(1)[0][0] if schedulers else annotated,
        place=places.found.get(whole.key) if waits else None,
    )


def _names(whole: _Whole, pods: Iterable[Object]) -> Iterator[Workload]:
    """Iterate over what users may call the job, also by the names of its parts."""
    yield from workloads.of_group(whole.group, pods)
    for part in whole.parts:
        yield from workloads.of_group(part, ())


def _has_nodes(pods: tuple[Pod, ...] | None, minimum: int) -> bool:
    """Whether all pods are known and have nodes: a PodGroup's status may be some seconds late."""
    return pods is not None and len(pods) >= max(1, minimum) and all(pod.node for pod in pods)


def _running(group: Object, pods: tuple[Pod, ...] | None) -> int:
    if pods is None:
        return int((group.get("status") or {}).get("running", 0))
    return sum(pod.phase == "Running" for pod in pods)


def _pod(pod: Object) -> Pod:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    status = pod.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    evicted = conditions.get("DisruptionTarget") or {}
    instant = queue_figures.instant(scheduled.get("lastTransitionTime"))
    leaves = metadata.get("deletionTimestamp") and status.get("phase") not in FINISHED
    return Pod(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        phase="Terminating" if leaves else status.get("phase", "Pending"),
        node=spec.get("nodeName", ""),
        created=queue_figures.instant(metadata.get("creationTimestamp")),
        bound=instant if scheduled.get("status") == "True" else 0.0,
        scheduler=spec.get("schedulerName", ""),
        waits_because=scheduled.get("message", "") if scheduled.get("status") == "False" else "",
        evicted=(
            (queue_figures.instant(evicted.get("lastTransitionTime")), evicted.get("message", ""))
            if evicted.get("status") == "True"
            else None
        ),
        why=scheduled.get("reason", "") if scheduled.get("status") == "False" else "",
    )


def _order(pod: Object) -> list[tuple[int, str]]:
    """Return a sort key with numbers in numerical order: w-2 before w-10."""
    parts = [""]
    for character in pod["metadata"]["name"]:
        if character.isdecimal() != parts[-1].isdecimal() and parts[-1]:
            parts.append("")
        parts[-1] += character
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def history_of(job: Job, events: Iterable[Object]) -> list[Entry]:
    """Return the history of a job, oldest first; `events` are those of its namespace."""
    found: list[Entry] = [(job.created, f"{job.group} created")] if job.created else []
    if job.admitted:
        found.append((job.admitted, "all pods that must start together have nodes"))
    binds: defaultdict[float, list[Pod]] = defaultdict(list)
    for pod in job.pods or ():
        if pod.bound and pod.node:
            binds[pod.bound].append(pod)
        if pod.evicted is not None:
            at, message = pod.evicted
            found.append((at or pod.created, f"pod {pod.name} {message}"))
    for at, pods in binds.items():
        named = [(pod.name, pod.node) for pod in pods[: phrases.BINDS_MAX]]
        found.append((at, phrases.bound(named, len(pods))))
    found += [entry for event in events if (entry := _entry_of(job, screen.plain(event)))]
    return sorted(found, key=lambda entry: entry[0])


def time_of(event: Object) -> float:
    """Return when the event was last seen, in seconds since the epoch; 0 if it doesn't say."""
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return max(map(queue_figures.instant, filter(None, times)), default=0.0)


def _entry_of(job: Job, event: Object) -> Entry | None:
    """Return the entry for an event about the PodGroup; None for other events. A pod tells itself
    when it was bound and evicted.
    """
    if jobs.is_lone_pod(JobId(job.name)):
        return None
    about, reason = event.get("involvedObject") or {}, event.get("reason", "")
    if about.get("uid") != job.uid or reason not in EVENT_WORDS:
        return None
    at = time_of(event)
    return (at, f"{EVENT_WORDS[reason]}{event.get('message', '')}") if at else None
