"""Classes of jobs: what jobs have in common that find the same in a cycle.

Jobs made from one template differ in names and ages only. Whatever plugins and nodes refuse to one
of them, they refuse to all, unless placements or evictions come between.
"""

from collections.abc import Hashable, Mapping

from vscheduler.model.jobs import Job, Task, TaskStatus


def of_waiting(job: Job) -> Hashable:
    """Return a key for a job of which no pod has started; None for any other job."""
    return job.memo("class_key", lambda: _of_waiting(job))


def _of_waiting(job: Job) -> Hashable:
    if job.sub_groups or len(job.tasks) > job.counts[TaskStatus.PENDING]:
        return None
    return (job.namespace, needs(job), tuple(map(traits, job.tasks)))


def needs(job: Job) -> Hashable:
    """Return the part of a class key for the job itself."""
    texts = map(_frozen, (job.min_task_member, job.annotations, job.labels))
    counts = job.min_member, job.succeeded_gone
    return (job.queue, job.priority, *counts, job.topology, *texts)


def traits(task: Task) -> Hashable:
    """Return the part of a class key for one task."""
    return (
        *(task.pod_class, task.role, task.priority, task.preemptable, task.never_preempts),
        *(task.priority_class, _frozen(task.annotations), _frozen(task.labels)),
    )


def _frozen(texts: Mapping[str, Hashable]) -> Hashable:
    return frozenset(texts.items())
