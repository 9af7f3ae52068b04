"""Changes that complete a job: pods that it lacks, roles and labels that its pods lack, gates."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from vscheduler.core.model import unassigned_pods
from vscheduler.core.model.jobs import ROLE, VALID, Job, SubGroup, Task, TaskStatus
from vscheduler.explain.changes import (
    Change,
    CreatePods,
    Mark,
    MarkPods,
    NewPods,
    Remedy,
    RemoveGates,
)
from vscheduler.explain.search import Search
from vscheduler.mirror.decode.wire import Pod
from vscheduler.mirror.translate import pods as translated

NEW_VALUE = "new"
"""Value of the label keys of sub-groups that are created, with a number."""


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
    return sum(count >= policy.size for count in _by_values(job, policy).values())


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
        short = [each for each in groups.items() if len(each[1]) < policy.size]
        for _, tasks in sorted(short, key=lambda each: (-len(each[1]), each[0]))[:missing]:
            yield NewPods(like=tasks[0].uid, count=policy.size - len(tasks))
            missing -= 1
        like = next((tasks[0].uid for _, tasks in sorted(groups.items())), None)
        for number in range(1, missing + 1 if like and policy.keys else 1):
            labels = tuple((key, f"{NEW_VALUE}-{number}") for key in policy.keys)
            yield NewPods(like=like or "", count=policy.size, labels=labels)
