"""What becomes of a pod in virtual time, as the watch would show it."""

from msgspec.structs import replace

from vscheduler.mirror.translate.pods import Pod
from vscheduler.model.jobs import TaskId, TaskStatus


def running(pod: Pod, node: str, now: float) -> Pod:
    """Return a waiting pod of ours that is bound to a node now, and runs."""
    assert pod.task is not None
    task = replace(pod.task, status=TaskStatus.RUNNING, node=node, scheduled_at=now)
    return replace(pod, status=task.status, node=node, task=task)


def finished(pod: Pod, status: TaskStatus) -> Pod:
    """Return a pod of ours that has come to its end: one of jobs.FINISHED."""
    assert pod.task is not None
    task = replace(pod.task, status=status)
    return replace(pod, status=task.status, task=task)


def created_again(pod: Pod, uid: TaskId, now: float) -> Pod:
    """Return the pod that an owner creates now in place of an evicted one."""
    assert pod.task is not None
    task = replace(
        pod.task, uid=uid, status=TaskStatus.PENDING, node=None, scheduled_at=None, created=now
    )
    return replace(pod, uid=uid, status=task.status, node=None, task=task, gone_by=None)
