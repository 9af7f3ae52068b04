"""Priority: what is more important comes first, jobs by PriorityClass, pods within a job.

Volcano: plugins/priority.
"""

from vscheduler.core.framework import contracts, gangs
from vscheduler.core.model import jobs


class Priority(contracts.Plugin):
    """Orders by priority, nothing else: it never crosses from one queue into another."""

    name = "priority"

    def job_key(self, gang: gangs.Gang) -> contracts.Key:
        """The PodGroup's PriorityClass; the priorities of its pods don't count."""
        return -gang.job.priority

    def task_key(self, task: jobs.Task) -> contracts.Key:
        """The pod's own priority."""
        return -task.priority
