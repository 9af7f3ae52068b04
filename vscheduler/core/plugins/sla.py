"""Sla: a job that has waited for long enough is let in, and holds its room until it can start.

Volcano: plugins/sla. In a tier before overcommit and gang its permit decides.
"""

from collections.abc import Mapping
from typing import ClassVar

from vscheduler.core.api import contracts, views
from vscheduler.core.model import decisions, durations, jobs

WAITING_TIME = "sla-waiting-time"
ANNOTATIONS = (f"volcano.sh/{WAITING_TIME}", WAITING_TIME)
"""Of the PodGroup; the first that is there counts."""


class Sla(contracts.Plugin):
    """The sooner a job's waiting time is over, the sooner its turn."""

    name = "sla"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        WAITING_TIME: contracts.Argument(str, None, parse=durations.positive),
    }

    def open(self, session: contracts.Session) -> None:
        """Waiting times are read when a job is first asked about."""
        self._session = session
        given = self.argument(WAITING_TIME)
        self._waiting_time = None if given is None else self.seconds(WAITING_TIME)
        self._due: dict[jobs.JobId, float | None] = {}

    def job_key(self, gang: views.JobState) -> contracts.Key:
        """When its waiting time is over; jobs without one come last."""
        due = self._due_at(gang.job)
        return (1, 0.0) if due is None else (0, due)

    def job_valid(self, gang: views.JobState) -> decisions.Reason | None:
        """A waiting time that can't be read is said, not passed over (Volcano ignores it)."""
        complaint = self._complaint(gang.job)
        if not complaint:
            return None
        return decisions.Reason(
            code=decisions.ReasonCode.BAD_SETTING,
            queue=gang.job.queue,
            tasks=len(gang.job.tasks),
            minimum=gang.job.min_member,
            subject=complaint,
        )

    def job_enqueueable(self, gang: views.JobState) -> decisions.AdmissionFailure | bool | None:
        """A permit when its waiting time is over."""
        complaint = self._complaint(gang.job)
        if complaint:
            return decisions.AdmissionFailure(
                code=decisions.ReasonCode.BAD_SETTING, subject=complaint
            )
        return self._permit(gang.job)

    def job_pipelined(self, gang: views.JobState) -> bool | None:
        """The same: what room it has found is kept for it, below its minimum as well."""
        return self._permit(gang.job)

    def _permit(self, job: jobs.Job) -> bool | None:
        due = self._due_at(job)
        if due is None:
            return None
        if self._session.snapshot.now < due:
            self._session.wake(due)
            return None
        return True

    def _due_at(self, job: jobs.Job) -> float | None:
        if job.id not in self._due:
            wait = self._waiting_time
            for key in ANNOTATIONS:
                try:
                    wait = durations.positive(job.annotations[key])
                except (KeyError, ValueError):
                    continue
                break
            self._due[job.id] = None if wait is None else job.created + wait
        return self._due[job.id]

    def _complaint(self, job: jobs.Job) -> str:
        """What is wrong with the annotation that counts, or nothing."""
        for key in ANNOTATIONS:
            if key in job.annotations:
                try:
                    durations.positive(job.annotations[key])
                except ValueError as error:
                    return f"annotation {key}: {error}"
                return ""
        return ""
