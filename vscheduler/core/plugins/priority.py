"""Priority: jobs in order of PriorityClass, and the pods of a job in order of priority.

Volcano: plugins/priority.
"""

from collections.abc import Sequence

from vscheduler.core.api.contracts import Key, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.model.jobs import Job, Task


class Priority(Plugin):
    """Orders by priority. Within a queue, higher priority may evict lower priority."""

    name = "priority"

    def open(self, session: Session) -> None:
        """Keep the session; jobs and tasks have their priorities."""
        self._session = session

    @depends_on(On.JOB)
    def job_key(self, state: JobState) -> Key:
        """Return the priority of the job."""
        return -self._rank(state.job)

    def _rank(self, job: Job) -> int:
        """Return the priority of the PodGroup's PriorityClass; without one, that of its pods."""
        return job.priority

    def job_starving(self, state: JobState) -> bool:
        """Whether any pod has no place (Volcano: priority jobStarvingFn)."""
        return state.ready_tasks + state.waiting_tasks < state.job.task_count

    @depends_on(On.PREEMPTOR | On.VICTIM_CLASS)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Return pods of jobs with lower priority, and lower pods of the preemptor's job.

        Among equal priorities the plugin abstains.
        """
        below = self._below(preemptor, candidates)
        if below:
            return below
        level = all(self._distance(preemptor, task) == 0 for task in candidates)
        return None if level else below

    def _below(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates with a lower priority than the preemptor's."""
        return [task for task in candidates if self._distance(preemptor, task) > 0]

    def _distance(self, preemptor: Task, task: Task) -> int:
        """Return how far the preemptor's priority is above the task's."""
        if preemptor.job == task.job:
            return preemptor.priority - task.priority
        jobs_known = self._session.job_states
        return self._rank(jobs_known[preemptor.job].job) - self._rank(jobs_known[task.job].job)

    def task_key(self, task: Task) -> Key:
        """Return the pod's own priority."""
        return -task.priority
