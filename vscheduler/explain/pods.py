"""Changes of the waiting job: fewer pods, smaller pods, pods that more nodes take."""

from collections.abc import Iterator
from functools import partial

from vscheduler.core.model import constraints, decisions, jobs, nodes, resources
from vscheduler.explain import changes, search, smaller_pods
from vscheduler.mirror.decode import events, wire

CPU_STEP = 100
"""The grid of cpu, in millicores."""

BYTES_STEP = 64 * 2**20
SIZES_MAX = 256
"""The steps of a grid double until it has at most so many sizes."""

NEVER = "Never"
"""The preemptionPolicy of pods for which nobody is evicted."""

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


def fewer(found: search.Search, job: jobs.Job) -> Iterator[changes.Remedy]:
    """Yield the highest minMember with which the job starts."""
    before = job.min_member
    remedy = found.smallest(partial(_fewer, before), before - 1, found.estimates.fewer_pods)
    if remedy is not None:
        yield remedy


def _fewer(before: int, size: int) -> changes.Change:
    return changes.FewerPods(before=before, after=before - size)


def smaller(found: search.Search, job: jobs.Job) -> Iterator[changes.Remedy]:
    """Yield for each resource the largest request with which the job starts."""
    del job
    waiting = found.trials.objects.waiting
    for resource in _requested(waiting) if waiting else ():
        if resource == resources.PODS:
            continue
        before = max(smaller_pods.requested(pod, resource) for pod in waiting)
        grid = step(resource, before)
        top = -(-before // grid)
        sizes = [_less(resource, before, grid, size).after for size in range(1, top)]
        remedy = found.smallest(
            partial(_less, resource, before, grid),
            top - 1,
            partial(found.estimates.smaller_pods, resource, sizes),
        )
        if remedy is not None:
            yield remedy


def _less(resource: str, before: int, grid: int, size: int) -> changes.SmallerRequest:
    after = (-(-before // grid) - size) * grid
    return changes.SmallerRequest(resource=resource, before=before, after=after, step=grid)


def claims(found: search.Search, job: jobs.Job) -> Iterator[changes.Remedy]:
    """Yield the creation of the PersistentVolumeClaims that waiting pods name and that don't
    exist.
    """
    names = {
        events.key_of(job.namespace, volume.persistent_volume_claim.claim_name)
        for pod in found.trials.objects.waiting
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }
    missing = [
        name
        for name in sorted(names)
        if found.trials.objects.original(events.Kind.CLAIM, name) is None
    ]
    remedy = found.one(changes.CreateClaims(claims=tuple(missing))) if missing else None
    if remedy is not None:
        yield remedy


def settings(found: search.Search, job: jobs.Job) -> Iterator[changes.Remedy]:
    """Yield the annotations of the PodGroup to drop, and a hard topology to soften, of which its
    reason says that they can't be used.
    """
    candidates: list[changes.Change] = []
    if found.reason is not None and found.reason.code is decisions.ReasonCode.BAD_SETTING:
        candidates += [
            changes.DropAnnotation(key=key)
            for key in sorted(job.annotations)
            if key in found.reason.subject
        ]
    if job.hard_topology:
        candidates.append(changes.SoftTopology())
    for each in candidates[:CANDIDATES_MAX]:
        remedy = found.one(each)
        if remedy is not None:
            yield remedy


def unbarred(found: search.Search, job: jobs.Job) -> Iterator[changes.Remedy]:
    """Yield tolerations, selectors to drop, and policies, with which the job starts."""
    del job
    yield from _tolerating(found)
    waiting = found.trials.objects.waiting
    entries = {entry for pod in waiting for entry in pod.spec.node_selector.items()}
    for key, value in sorted(entries)[:CANDIDATES_MAX]:
        remedy = found.one(changes.WithoutSelector(key=key, value=value))
        if remedy is not None:
            yield remedy
    others: list[changes.Change] = []
    if any(_needs_affinity(pod) for pod in waiting):
        others.append(changes.WithoutNodeAffinity())
    if barring(found) and any(_counts_tainted(pod) for pod in waiting):
        others.append(changes.HonorTaints())
    if any(pod.spec.preemption_policy == NEVER for pod in waiting):
        others.append(changes.MayPreempt())
    for each in others:
        remedy = found.one(each)
        if remedy is not None:
            yield remedy


def _tolerating(found: search.Search) -> Iterator[changes.Remedy]:
    for taint, names in barring(found)[:CANDIDATES_MAX]:
        remedy = found.one(changes.Tolerate(taint=taint, nodes=len(names)))
        if remedy is not None:
            yield remedy


def barring(found: search.Search) -> list[tuple[constraints.Taint, list[str]]]:
    """Return the taints that keep off pods of the job, the most frequent first, each with nodes."""
    layout = found.trials.snapshot.nodes.layout
    tolerations = {task.pod_class.constraints.tolerations for task in tasks(found)}
    counted: dict[constraints.Taint, set[str]] = {}
    for each in tolerations:
        for taint, passes in nodes.barriers(layout, each).items():
            names = (layout.names[row] for row in (~passes).nonzero()[0].tolist())
            counted.setdefault(taint, set()).update(names)
    listed = [(taint, sorted(names)) for taint, names in counted.items()]
    return sorted(
        listed, key=lambda each: (-len(each[1]), each[0].key, each[0].value, each[0].effect)
    )


def tasks(found: search.Search) -> list[jobs.Task]:
    """Return the waiting tasks of the job."""
    job = next(each for each in found.trials.snapshot.jobs if each.id == found.trials.job)
    return [task for task in job.tasks if task.status in jobs.WAITING]


def _requested(waiting: tuple[wire.Pod, ...]) -> list[str]:
    names = {name for pod in waiting for name in smaller_pods.all_requested(pod)}
    return list(resources.ResourceSpace.of(dict.fromkeys(names, 1)).names)


def _counts_tainted(pod: wire.Pod) -> bool:
    """Whether a required spread of the pod counts nodes that the pod may not use."""
    return any(
        each.when_unsatisfiable == "DoNotSchedule" and each.node_taints_policy != "Honor"
        for each in pod.spec.topology_spread_constraints
    )


def _needs_affinity(pod: wire.Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(affinity and affinity.node_affinity and affinity.node_affinity.required)
