"""Volcano's versions of small plugins: each overrides the hooks that Volcano answers otherwise."""

from vscheduler.core.api import contracts, views
from vscheduler.core.model import jobs
from vscheduler.core.plugins import gang


class VolcanoGang(gang.Gang):
    """Looks at the minimum only: what a job has above it counts for nothing."""

    def start_timeout(self, gang: views.JobState) -> None:
        """Abstain: the bound part of a gang stays."""

    def job_starving(self, gang: views.JobState) -> bool:
        """Whether the minimum of the job, or of one of its roles, has no place yet (Volcano: gang
        jobStarvingFn, IsStarving).
        """
        if gang.ready_tasks + gang.waiting_tasks < gang.job.min_member:
            return True
        missing = gang.job.min_task_member.items()
        return any(gang.role_tasks(role, jobs.PLACED) < least for role, least in missing)

    def job_key(self, gang: views.JobState) -> contracts.Key:
        """Order jobs that lack their minimum first, all alike."""
        return 1 if gang.has_minimum else 0
