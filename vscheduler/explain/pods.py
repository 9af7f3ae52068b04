"""Changes of the waiting job: fewer pods, smaller pods, pods that more nodes take."""

from collections.abc import Iterator
from functools import partial

from vscheduler.core.model import nodes, resources
from vscheduler.core.model.constraints import Taint
from vscheduler.core.model.decisions import ReasonCode
from vscheduler.core.model.jobs import WAITING, Job, Task
from vscheduler.core.model.resources import ResourceSpace
from vscheduler.explain import smaller_pods
from vscheduler.explain.changes import (
    Change,
    CreateClaims,
    DropAnnotation,
    FewerPods,
    HonorTaints,
    MayPreempt,
    Remedy,
    SmallerRequest,
    SoftTopology,
    Tolerate,
    WithoutNodeAffinity,
    WithoutSelector,
)
from vscheduler.explain.search import Search
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.decode.wire import Pod
from vscheduler.mirror.translate.pods import NEVER

CPU_STEP = 100
"""The grid of cpu, in millicores."""

BYTES_STEP = 64 * 2**20
SIZES_MAX = 256
"""The steps of a grid double until it has at most so many sizes."""

CANDIDATES_MAX = 8
"""So many taints, labels and the like are tried."""


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
    """Yield the highest minMember with which the job starts."""
    before = job.min_member
    remedy = search.smallest(partial(_fewer, before), before - 1, search.estimates.fewer_pods)
    if remedy is not None:
        yield remedy


def _fewer(before: int, size: int) -> Change:
    return FewerPods(before=before, after=before - size)


def smaller(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield for each resource the largest request with which the job starts."""
    del job
    waiting = search.trials.objects.waiting
    for resource in _requested(waiting) if waiting else ():
        if resource == resources.PODS:
            continue
        before = max(smaller_pods.requested(pod, resource) for pod in waiting)
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


def settings(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the annotations of the PodGroup to drop, and a hard topology to soften, of which its
    reason says that they can't be used.
    """
    candidates: list[Change] = []
    if search.reason is not None and search.reason.code is ReasonCode.BAD_SETTING:
        candidates += [
            DropAnnotation(key=key)
            for key in sorted(job.annotations)
            if key in search.reason.subject
        ]
    if job.hard_topology:
        candidates.append(SoftTopology())
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
    names = {name for pod in waiting for name in smaller_pods.all_requested(pod)}
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
