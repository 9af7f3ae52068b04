"""Jobs for which there is no node as things stand: they needn't stand in line to be told so.

While allocate runs, room only gets less. So a job whose waiting pods all are of one class that no
node takes finds none later either, and whoever is placed before it makes no difference. Only pods
that depend on other pods are left out: company may come.
"""

from collections import defaultdict
from typing import TYPE_CHECKING

from vscheduler.core.framework import gangs
from vscheduler.core.model import jobs

if TYPE_CHECKING:
    from vscheduler.core.framework import session as working


class Roomless:
    """Such jobs by queue, in no order: what they are told depends on none."""

    def __init__(self, session: "working.Session") -> None:
        self._session = session
        self._nowhere: dict[tuple[jobs.TaskClass, str, int], bool] = {}
        """By class, queue, and how much had been touched when placement was asked."""
        self._waiting: defaultdict[str, list[gangs.Gang]] = defaultdict(list)

    def take(self, gang: gangs.Gang) -> bool:
        """Take in the job if it is one of these; else it is to stand in line."""
        session, task = self._session, representative(gang.job)
        if task is None or not gang.untouched or not self.finds_nowhere(task, gang):
            return False
        promised = session.snapshot.carried.nominations
        for each in waiting(gang.job) if promised or not session.neighbours.nobody else ():
            if each.uid in promised or session.neighbours.standing(each) is not None:
                return False
        self._waiting[gang.job.queue].append(gang)
        return True

    def leave(self, queue: str) -> list[gangs.Gang]:
        """Those of this queue: each is told once."""
        return self._waiting.pop(queue, [])

    def finds_nowhere(self, task: jobs.Task, gang: gangs.Gang) -> bool:
        """Whether no node takes the task, now or once what is being freed is free."""
        key = (task.kind, gang.job.queue, len(self._session.touched))
        found = self._nowhere.get(key)
        if found is None:
            found = self._nowhere[key] = self._session.placement.choose(task) is None
        return found


def waiting(job: jobs.Job) -> list[jobs.Task]:
    """Pods of the job that want a node, but for those that ask for nothing, by UID."""
    pending = jobs.TaskStatus.PENDING
    return [task for task in job.tasks if task.status is pending and not task.best_effort]


def representative(job: jobs.Job) -> jobs.Task | None:
    """The first of these, where all of them are alike in class and role."""
    return job.memo("representative", lambda: _representative(job))


def _representative(job: jobs.Job) -> jobs.Task | None:
    tasks = waiting(job)
    if job.sub_groups or len({(task.kind, task.role) for task in tasks}) != 1:
        return None
    return tasks[0]
