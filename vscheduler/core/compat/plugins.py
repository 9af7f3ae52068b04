"""Volcano's versions of small plugins: each overrides the hooks in which Volcano differs."""

from vscheduler.core.api import contracts, views
from vscheduler.core.model import jobs
from vscheduler.core.plugins import gang


class VolcanoGang(gang.Gang):
    """Considers the minimum of a job only, and ignores pods beyond the minimum."""

    def start_timeout(self, gang: views.JobState) -> None:
        """Abstain: a gang bound in part stays."""

    def job_starving(self, gang: views.JobState) -> bool:
        """Whether tasks are missing for the minimum of the job, or of a role (Volcano: gang
        jobStarvingFn, IsStarving).
        """
        if gang.ready_tasks + gang.waiting_tasks < gang.job.min_member:
            return True
        missing = gang.job.min_task_member.items()
        return any(gang.role_tasks(role, jobs.PLACED) < least for role, least in missing)

    def job_key(self, gang: views.JobState) -> contracts.Key:
        """Order jobs without their minimum first, all alike."""
        return 1 if gang.has_minimum else 0
