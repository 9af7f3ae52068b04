"""Pods that wait and count for no role or sub-group, though the job lacks pods of one."""

import operator
from collections.abc import Sequence

import msgspec

from vscheduler.model.jobs import WAITING, Job, SubGroup, Task

by_name = operator.attrgetter("name")


class UnassignedPods(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods there are, and one of them."""

    count: int
    pod: str
    """Its name."""
    role: str = ""
    """The role that it has instead; empty: none."""
    keys: tuple[str, ...] = ()
    """Labels that it lacks."""


def without_role(job: Job) -> list[Task]:
    """Return the waiting pods with none of the roles in minTaskMember, by name; first those that
    have no role at all.
    """
    found = [
        task
        for task in job.tasks
        if task.status in WAITING and task.role not in job.min_task_member
    ]
    return sorted(found, key=lambda task: (bool(task.role), task.name))


def without_sub_group(job: Job, policy: SubGroup) -> list[Task]:
    """Return the waiting pods that the policy selects and that lack its labels, by name."""
    return sorted(
        (
            task
            for task in job.tasks
            if task.status in WAITING
            and policy.values(task.labels) is None
            and (policy.selector is None or policy.selector.matches(task.labels))
        ),
        key=by_name,
    )


def of_role(job: Job) -> UnassignedPods | None:
    """Return the pods without any role, else those with a role that minTaskMember doesn't name."""
    found = without_role(job)
    if not found:
        return None
    role = found[0].role
    alike = sum(task.role == role for task in found)
    return UnassignedPods(count=alike, pod=found[0].name, role=role)


def of_sub_group(job: Job, policy: SubGroup) -> UnassignedPods | None:
    """Return the pods that belong to no sub-group of the policy for want of labels."""
    found: Sequence[Task] = without_sub_group(job, policy)
    if not found:
        return None
    keys = tuple(key for key in policy.keys if not found[0].labels.get(key))
    return UnassignedPods(count=len(found), pod=found[0].name, keys=keys)
