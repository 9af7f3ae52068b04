"""Sla: a job that has waited long enough is admitted, and keeps reserved nodes until all fits.

Volcano: plugins/sla. The permit decides if sla is in a tier above overcommit and gang.
"""

from collections.abc import Mapping
from typing import ClassVar

from vscheduler.core.api.contracts import Argument, Key, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.model import durations
from vscheduler.model.decisions import AdmissionFailure, Reason, ReasonCode
from vscheduler.model.jobs import Job, JobId

WAITING_TIME = "sla-waiting-time"
ANNOTATIONS = (f"volcano.sh/{WAITING_TIME}", WAITING_TIME)
"""Annotations of a PodGroup. The first one present counts."""


class Sla(Plugin):
    """Orders jobs by the end of their waiting time, earliest first."""

    name = "sla"
    arguments: ClassVar[Mapping[str, Argument]] = {
        WAITING_TIME: Argument(str, None, parse=durations.positive),
    }

    def open(self, session: Session) -> None:
        """Read the configured waiting time. Annotations are read when first asked for."""
        self._session = session
        given = self.argument(WAITING_TIME)
        self._waiting_time = None if given is None else self.seconds(WAITING_TIME)
        self._due: dict[JobId, float | None] = {}

    @depends_on(On.JOB | On.AGE)
    def job_key(self, state: JobState) -> Key:
        """Return when the waiting time ends; jobs without waiting time come last."""
        due = self._due_at(state.job)
        return (1, 0.0) if due is None else (0, due)

    @depends_on(On.JOB)
    def job_valid(self, state: JobState) -> Reason | None:
        """Return a reason if the waiting time can't be read. Volcano ignores such an annotation."""
        problem = self._problem(state.job)
        if not problem:
            return None
        return Reason(
            code=ReasonCode.BAD_SETTING,
            queue=state.job.queue,
            tasks=state.job.task_count,
            minimum=state.job.min_member,
            subject=problem,
        )

    def job_enqueueable(self, state: JobState) -> AdmissionFailure | bool | None:
        """Return a permit once the waiting time is over."""
        problem = self._problem(state.job)
        if problem:
            return AdmissionFailure(code=ReasonCode.BAD_SETTING, subject=problem)
        return self._permit(state.job)

    @depends_on(On.JOB | On.AGE | On.TIME)
    def job_pipelined(self, state: JobState) -> bool | None:
        """Return a permit after the waiting time: nodes stay reserved even below the minimum."""
        return self._permit(state.job)

    def _permit(self, job: Job) -> bool | None:
        """Return True after the waiting time, else None and request a cycle for its end."""
        due = self._due_at(job)
        if due is None:
            return None
        if self._session.snapshot.now < due:
            self._session.wake(due)
            return None
        return True

    def _due_at(self, job: Job) -> float | None:
        """Return when the job's waiting time ends; None without a waiting time."""
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

    def _problem(self, job: Job) -> str:
        """Return what is wrong with the first annotation present, or an empty text."""
        for key in ANNOTATIONS:
            if key in job.annotations:
                try:
                    durations.positive(job.annotations[key])
                except ValueError as error:
                    return f"annotation {key}: {error}"
                return ""
        return ""
