"""Changes of the waiting job: fewer pods, smaller pods, pods that more nodes take, and what
completes it: pods that it lacks, roles and labels that its pods lack, gates.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from vscheduler.explain import edits
from vscheduler.explain.changes import (
    Change,
    CreateClaims,
    CreatePods,
    DropAnnotation,
    FewerPods,
    HonorTaints,
    Mark,
    MarkPods,
    MayPreempt,
    NewPods,
    OneScheduler,
    PodPriorities,
    Remedy,
    RemoveGates,
    SmallerRequest,
    Tolerate,
    WithoutNodeAffinity,
    WithoutSelector,
)
from vscheduler.explain.search import Search
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.decode.wire import CompositePodGroup, NativePodGroup, Pod
from vscheduler.mirror.translate import pods as translated
from vscheduler.mirror.translate.pods import NEVER
from vscheduler.model import jobs, nodes, resources, unassigned_pods
from vscheduler.model.constraints import Taint
from vscheduler.model.decisions import ReasonCode
from vscheduler.model.jobs import ROLE, VALID, WAITING, Job, SubGroup, Task, TaskStatus
from vscheduler.model.resources import ResourceSpace

CPU_STEP = 100
"""The grid of cpu, in millicores."""

BYTES_STEP = 64 * 2**20
SIZES_MAX = 256
"""The steps of a grid double until it has at most so many sizes."""

CANDIDATES_MAX = 8
"""So many taints, labels and the like are tried."""

ABOUT_SETTINGS = (ReasonCode.BAD_SETTING, ReasonCode.PLUGIN_REFUSED)
"""Reasons whose subject may name an annotation."""

NEW_VALUE = "new"
"""Value of the label keys of sub-groups that are created, with a number."""


def step(resource: str, extent: int) -> int:
    """Return the step of the grid for amounts of a resource up to `extent`."""
    size = 1
    if resource == resources.CPU:
        size = CPU_STEP
    elif resource == resources.MEMORY or resource.endswith("storage") or "hugepages" in resource:
        size = BYTES_STEP
    while extent > size * SIZES_MAX:
        size *= 2
    return size


def fewer(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the highest minMember with which the job starts. A tree has one in each PodGroup."""
    before = 1 if jobs.is_composite(job.id) else job.min_member
    fewer_pods = partial(_fewer, before, job.minimum_field)
    remedy = search.smallest(fewer_pods, before - 1, search.estimates.fewer_pods)
    if remedy is not None:
        yield remedy


def _fewer(before: int, field: str, size: int) -> Change:
    return FewerPods(before=before, after=before - size, field=field)


def smaller(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield for each resource the largest request with which the job starts."""
    del job
    waiting = search.trials.objects.waiting
    for resource in _requested(waiting) if waiting else ():
        if resource == resources.PODS:
            continue
        before = max(edits.requested(pod, resource) for pod in waiting)
        grid = step(resource, before)
        top = -(-before // grid)
        sizes = [_less(resource, before, grid, size).after for size in range(1, top)]
        remedy = search.smallest(
            partial(_less, resource, before, grid),
            top - 1,
            partial(search.estimates.smaller_pods, resource, sizes),
        )
        if remedy is not None:
            yield remedy


def _less(resource: str, before: int, grid: int, size: int) -> SmallerRequest:
    after = (-(-before // grid) - size) * grid
    return SmallerRequest(resource=resource, before=before, after=after, step=grid)


def claims(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the creation of the PersistentVolumeClaims that waiting pods name and that don't
    exist.
    """
    names = {
        events.key_of(job.namespace, volume.persistent_volume_claim.claim_name)
        for pod in search.trials.objects.waiting
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }
    missing = [
        name for name in sorted(names) if search.trials.objects.original(Kind.CLAIM, name) is None
    ]
    remedy = search.one(CreateClaims(claims=tuple(missing))) if missing else None
    if remedy is not None:
        yield remedy


def _priorities(search: Search, job: Job) -> Iterator[Change]:
    if not job.defect:
        return
    group = search.trials.objects.stored_group(job.id)
    if isinstance(group, NativePodGroup | CompositePodGroup):
        after = group.spec.priority or 0
        count = sum((pod.spec.priority or 0) != after for pod in search.trials.objects.waiting)
        if count:
            yield PodPriorities(after=after, pods=count)


def _of_one_scheduler(search: Search, job: Job) -> Iterator[Change]:
    objects = search.trials.objects
    if job.defect and objects.waiting:
        after = objects.waiting[0].spec.scheduler_name
        others = objects.of_others(after)
        if others:
            yield OneScheduler(after=after, pods=len(others))


def settings(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the annotations of the PodGroup to drop of which its reason says that they can't be
    used; and the priority of the PodGroup, or one scheduler, for pods that contradict it.
    """
    candidates: list[Change] = [*_priorities(search, job), *_of_one_scheduler(search, job)]
    if search.reason is not None and search.reason.code in ABOUT_SETTINGS:
        candidates += [
            DropAnnotation(key=key)
            for key in sorted(job.annotations)
            if key in search.reason.subject
        ]
    for candidate in candidates[:CANDIDATES_MAX]:
        remedy = search.one(candidate)
        if remedy is not None:
            yield remedy


def unbarred(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield tolerations, selectors to drop, and policies, with which the job starts."""
    del job
    yield from _tolerating(search)
    waiting = search.trials.objects.waiting
    entries = {entry for pod in waiting for entry in pod.spec.node_selector.items()}
    for key, value in sorted(entries)[:CANDIDATES_MAX]:
        remedy = search.one(WithoutSelector(key=key, value=value))
        if remedy is not None:
            yield remedy
    others: list[Change] = []
    if any(_needs_affinity(pod) for pod in waiting):
        others.append(WithoutNodeAffinity())
    if barring(search) and any(_counts_tainted(pod) for pod in waiting):
        others.append(HonorTaints())
    if any(pod.spec.preemption_policy == NEVER for pod in waiting):
        others.append(MayPreempt())
    for each in others:
        remedy = search.one(each)
        if remedy is not None:
            yield remedy


def _tolerating(search: Search) -> Iterator[Remedy]:
    for taint, names in barring(search)[:CANDIDATES_MAX]:
        remedy = search.one(Tolerate(taint=taint, nodes=len(names)))
        if remedy is not None:
            yield remedy


def barring(search: Search) -> list[tuple[Taint, list[str]]]:
    """Return the taints that keep off pods of the job, the most frequent first, each with nodes."""
    layout = search.trials.snapshot.nodes.layout
    tolerations = {task.pod_class.constraints.tolerations for task in tasks(search)}
    counted: dict[Taint, set[str]] = {}
    for each in tolerations:
        for taint, passes in nodes.barriers(layout, each).items():
            names = (layout.names[row] for row in (~passes).nonzero()[0].tolist())
            counted.setdefault(taint, set()).update(names)
    listed = [(taint, sorted(names)) for taint, names in counted.items()]
    return sorted(
        listed, key=lambda each: (-len(each[1]), each[0].key, each[0].value, each[0].effect)
    )


def tasks(search: Search) -> list[Task]:
    """Return the waiting tasks of the job."""
    job = next(job for job in search.trials.snapshot.jobs if job.id == search.trials.job)
    return [task for task in job.tasks if task.status in WAITING]


def _requested(waiting: tuple[Pod, ...]) -> list[str]:
    names = {name for pod in waiting for name in edits.all_requested(pod)}
    return list(ResourceSpace.of(dict.fromkeys(names, 1)).names)


def _counts_tainted(pod: Pod) -> bool:
    """Whether a required spread of the pod counts nodes that the pod may not use."""
    return any(
        constraint.when_unsatisfiable == "DoNotSchedule"
        and constraint.node_taints_policy != "Honor"
        for constraint in pod.spec.topology_spread_constraints
    )


def _needs_affinity(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(affinity and affinity.node_affinity and affinity.node_affinity.required)


def completed(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the marks, and else the further pods, with which the job has all that it needs."""
    candidates: list[Change] = []
    marks = (*_roles_to_name(job), *_sub_groups_to_name(job))
    if marks:
        candidates.append(MarkPods(marks=marks))
    lacking = tuple(_lacking(job, search.trials.objects.members(job.id)))
    if lacking:
        candidates.append(CreatePods(pods=lacking, owner=job.owner))
    for candidate in candidates:
        remedy = search.one(candidate)
        if remedy is not None:
            yield remedy


def opened(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the removal of scheduling gates, if the job starts then."""
    gated = job.counts[TaskStatus.GATED]
    remedy = search.one(RemoveGates(pods=gated)) if gated else None
    if remedy is not None:
        yield remedy


def _of_role(job: Job) -> Counter[str]:
    return Counter(task.role for task in job.tasks if task.status in VALID)


def _minimums(job: Job) -> list[tuple[str, int]]:
    """Return the minimums of roles that count."""
    return sorted(job.min_task_member.items()) if job.roles_count else []


def _roles_to_name(job: Job) -> Iterator[Mark]:
    """Yield a role that lacks pods for each waiting pod without a role of the job."""
    present = _of_role(job)
    wanted = [role for role, minimum in _minimums(job) for _ in range(minimum - present[role])]
    for task, role in zip(unassigned_pods.without_role(job), wanted, strict=False):
        yield Mark(pod=task.uid, key=ROLE, value=role)


def _sub_groups_to_name(job: Job) -> Iterator[Mark]:
    """Yield labels for waiting pods that a policy selects and that lack its label keys."""
    for policy in job.sub_groups:
        lost = unassigned_pods.without_sub_group(job, policy)
        missing = policy.minimum - _whole(job, policy)
        for at, task in enumerate(lost[: max(0, missing) * policy.size]):
            for key in policy.keys:
                value = f"{NEW_VALUE}-{at // policy.size + 1}"
                yield Mark(pod=task.uid, key=key, value=value)


def _by_values(job: Job, policy: SubGroup) -> Counter[tuple[str, ...]]:
    """Return how many pods each sub-group of a policy has."""
    values = (policy.values(task.labels) for task in job.tasks if task.status in VALID)
    return Counter(each for each in values if each is not None)


def _whole(job: Job, policy: SubGroup) -> int:
    return sum(count >= policy.size_of(values) for values, count in _by_values(job, policy).items())


def _lacking(job: Job, members: Sequence[Pod]) -> Iterator[NewPods]:
    """Yield the pods that the job lacks, as copies of its pods: none without any pod."""
    if not members:
        return
    made = [*_of_roles(job, members), *_of_sub_groups(job)]
    yield from made
    rest = job.min_member - job.valid_tasks - sum(each.count for each in made)
    if rest > 0:
        yield NewPods(like=translated.uid_of(members[0].metadata), count=rest)


def _of_roles(job: Job, members: Sequence[Pod]) -> Iterator[NewPods]:
    present, like = _of_role(job), translated.uid_of(members[0].metadata)
    by_role = {task.role: task.uid for task in reversed(job.tasks)}
    for role, minimum in _minimums(job):
        if minimum > present[role]:
            yield NewPods(like=by_role.get(role, like), count=minimum - present[role], role=role)


def _of_sub_groups(job: Job) -> Iterator[NewPods]:
    """Yield what completes sub-groups, the fullest first, and then further sub-groups."""
    for policy in job.sub_groups:
        groups: defaultdict[tuple[str, ...], list[Task]] = defaultdict(list)
        for task in job.tasks:
            values = policy.values(task.labels) if task.status in VALID else None
            if values is not None:
                groups[values].append(task)
        missing = policy.minimum - _whole(job, policy)
        short = [each for each in groups.items() if len(each[1]) < policy.size_of(each[0])]
        for values, tasks in sorted(short, key=lambda each: (-len(each[1]), each[0]))[:missing]:
            yield NewPods(like=tasks[0].uid, count=policy.size_of(values) - len(tasks))
            missing -= 1
        if jobs.is_composite(job.id):
            continue  # pods of another PodGroup are no copies of these
        like = next((tasks[0].uid for _, tasks in sorted(groups.items())), None)
        for number in range(1, missing + 1 if like and policy.keys else 1):
            labels = tuple((key, f"{NEW_VALUE}-{number}") for key in policy.keys)
            yield NewPods(like=like or "", count=policy.size, labels=labels)
