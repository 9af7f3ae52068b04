"""JobReasons: why jobs aren't placed in this cycle, one reason for each job."""

from collections.abc import Collection, Mapping

from vscheduler.core.model import decisions, jobs

PRECEDENCE = {code: place for place, code in enumerate(decisions.ReasonCode)}


class JobReasons:
    """The dominant reason of each job so far, and the jobs without a turn in this cycle."""

    def __init__(self) -> None:
        self._by_job: dict[jobs.JobId, decisions.Reason] = {}
        self._not_attempted: set[jobs.JobId] = set()
        self.by_job: Mapping[jobs.JobId, decisions.Reason] = self._by_job
        self.not_attempted: Collection[jobs.JobId] = self._not_attempted
        """Jobs that this cycle didn't consider; the result says nothing about these jobs."""

    def note(self, job: jobs.JobId, reason: decisions.Reason) -> None:
        """Record why a job, or the rest of a job, isn't placed; the dominant reason is kept."""
        if self.is_news(job, reason.code):
            self._by_job[job] = reason

    def is_news(self, job: jobs.JobId, code: decisions.ReasonCode) -> bool:
        """Whether `note` would record a reason with this code."""
        known = self._by_job.get(job)
        return known is None or PRECEDENCE[code] < PRECEDENCE[known.code]

    def forget(self, job: jobs.JobId) -> None:
        """Drop the reason of a job that was placed since."""
        self._by_job.pop(job, None)

    def skip(self, *without_turn: jobs.JobId) -> None:
        """Record that these jobs had no turn in this cycle."""
        self._not_attempted.update(without_turn)
