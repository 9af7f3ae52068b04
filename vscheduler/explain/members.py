"""Changes that complete a job: pods that it lacks, roles and labels that its pods lack, gates."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from vscheduler.core.model import jobs, unassigned_pods
from vscheduler.explain import changes, search
from vscheduler.mirror.decode import wire
from vscheduler.mirror.translate import pods as translated

NEW_VALUE = "new"
"""Value of the label keys of sub-groups that are created, with a number."""


def completed(found: search.Search, job: jobs.Job) -> Iterator[changes.Remedy]:
    """Yield the marks, and else the further pods, with which the job has all that it needs."""
    candidates: list[changes.Change] = []
    marks = (*_roles_to_name(job), *_sub_groups_to_name(job))
    if marks:
        candidates.append(changes.MarkPods(marks=marks))
    lacking = tuple(_lacking(job, found.trials.objects.members(job.id)))
    if lacking:
        candidates.append(changes.CreatePods(pods=lacking, owner=job.owner))
    for each in candidates:
        remedy = found.one(each)
        if remedy is not None:
            yield remedy


def opened(found: search.Search, job: jobs.Job) -> Iterator[changes.Remedy]:
    """Yield the removal of scheduling gates, if the job starts then."""
    gated = job.counts[jobs.TaskStatus.GATED]
    remedy = found.one(changes.RemoveGates(pods=gated)) if gated else None
    if remedy is not None:
        yield remedy


def _of_role(job: jobs.Job) -> Counter[str]:
    return Counter(task.role for task in job.tasks if task.status in jobs.VALID)


def _minimums(job: jobs.Job) -> list[tuple[str, int]]:
    """Return the minimums of roles that count."""
    return sorted(job.min_task_member.items()) if job.roles_count else []


def _roles_to_name(job: jobs.Job) -> Iterator[changes.Mark]:
    """Yield a role that lacks pods for each waiting pod without a role of the job."""
    present = _of_role(job)
    wanted = [role for role, minimum in _minimums(job) for _ in range(minimum - present[role])]
    for task, role in zip(unassigned_pods.without_role(job), wanted, strict=False):
        yield changes.Mark(pod=task.uid, key=translated.ROLE, value=role)


def _sub_groups_to_name(job: jobs.Job) -> Iterator[changes.Mark]:
    """Yield labels for waiting pods that a policy selects and that lack its label keys."""
    for policy in job.sub_groups:
        lost = unassigned_pods.without_sub_group(job, policy)
        missing = policy.minimum - _whole(job, policy)
        for at, task in enumerate(lost[: max(0, missing) * policy.size]):
            for key in policy.keys:
                value = f"{NEW_VALUE}-{at // policy.size + 1}"
                yield changes.Mark(pod=task.uid, key=key, value=value)


def _by_values(job: jobs.Job, policy: jobs.SubGroup) -> Counter[tuple[str, ...]]:
    """Return how many pods each sub-group of a policy has."""
    values = (policy.values(task.labels) for task in job.tasks if task.status in jobs.VALID)
    return Counter(each for each in values if each is not None)


def _whole(job: jobs.Job, policy: jobs.SubGroup) -> int:
    return sum(count >= policy.size for count in _by_values(job, policy).values())


def _lacking(job: jobs.Job, members: Sequence[wire.Pod]) -> Iterator[changes.NewPods]:
    """Yield the pods that the job lacks, as copies of its pods: none without any pod."""
    if not members:
        return
    made = [*_of_roles(job, members), *_of_sub_groups(job)]
    yield from made
    rest = job.min_member - job.valid_tasks - sum(each.count for each in made)
    if rest > 0:
        yield changes.NewPods(like=translated.uid_of(members[0].metadata), count=rest)


def _of_roles(job: jobs.Job, members: Sequence[wire.Pod]) -> Iterator[changes.NewPods]:
    present, like = _of_role(job), translated.uid_of(members[0].metadata)
    by_role = {task.role: task.uid for task in reversed(job.tasks)}
    for role, minimum in _minimums(job):
        if minimum > present[role]:
            yield changes.NewPods(
                like=by_role.get(role, like), count=minimum - present[role], role=role
            )


def _of_sub_groups(job: jobs.Job) -> Iterator[changes.NewPods]:
    """Yield what completes sub-groups, the fullest first, and then further sub-groups."""
    for policy in job.sub_groups:
        groups: defaultdict[tuple[str, ...], list[jobs.Task]] = defaultdict(list)
        for task in job.tasks:
            values = policy.values(task.labels) if task.status in jobs.VALID else None
            if values is not None:
                groups[values].append(task)
        missing = policy.minimum - _whole(job, policy)
        short = [each for each in groups.items() if len(each[1]) < policy.size]
        for _, tasks in sorted(short, key=lambda each: (-len(each[1]), each[0]))[:missing]:
            yield changes.NewPods(like=tasks[0].uid, count=policy.size - len(tasks))
            missing -= 1
        like = next((tasks[0].uid for _, tasks in sorted(groups.items())), None)
        for number in range(1, missing + 1 if like and policy.keys else 1):
            labels = tuple((key, f"{NEW_VALUE}-{number}") for key in policy.keys)
            yield changes.NewPods(like=like or "", count=policy.size, labels=labels)
