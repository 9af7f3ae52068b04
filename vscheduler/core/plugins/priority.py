"""Priority: what is more important comes first, jobs by PriorityClass, pods within a job.

Volcano: plugins/priority.
"""

from collections.abc import Sequence

from vscheduler.core.api import contracts, views
from vscheduler.core.model import jobs


class Priority(contracts.Plugin):
    """Orders by priority; in a queue, the higher one may take room from the lower one."""

    name = "priority"

    def open(self, session: contracts.Session) -> None:
        """Priorities stand in jobs and tasks: there is nothing to work out."""
        self._session = session

    def job_key(self, gang: views.JobState) -> contracts.Key:
        """The PodGroup's PriorityClass; the priorities of its pods don't count."""
        return -gang.job.priority

    def job_starving(self, gang: views.JobState) -> bool:
        """Whether any pod has no place (Volcano: priority jobStarvingFn)."""
        return gang.ready_tasks + gang.waiting_tasks < len(gang.job.tasks)

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task] | None:
        """Pods of jobs of a lower priority; in the claimant's own job, pods of a lower one.

        Among jobs of equal priority it has no say.
        """
        below = self._below(claimant, candidates)
        if below:
            return below
        level = all(self._distance(claimant, task) == 0 for task in candidates)
        return None if level else below

    def _below(self, claimant: jobs.Task, candidates: Sequence[jobs.Task]) -> list[jobs.Task]:
        """The candidates whose priority is lower than the claimant's."""
        return [task for task in candidates if self._distance(claimant, task) > 0]

    def _distance(self, claimant: jobs.Task, task: jobs.Task) -> int:
        """How far the claimant's priority is above the task's."""
        if claimant.job == task.job:
            return claimant.priority - task.priority
        jobs_known = self._session.gangs
        return jobs_known[claimant.job].job.priority - jobs_known[task.job].job.priority

    def task_key(self, task: jobs.Task) -> contracts.Key:
        """The pod's own priority."""
        return -task.priority
