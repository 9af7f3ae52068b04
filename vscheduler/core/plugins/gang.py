"""Gang: a job starts with its minimum of pods or not at all.

Volcano: plugins/gang. The plugin has no state of its own: a JobState counts its tasks.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from vscheduler.core.api.contracts import Argument, Key, Plugin, Session, VictimRole
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.model import durations, unassigned_pods
from vscheduler.model.decisions import Reason, ReasonCode
from vscheduler.model.jobs import PLACED, READY, VALID, Job, JobId, Task, TaskStatus

RECOVERY = "vscheduler.io/recovery-timeout"
"""Annotation of Queues and PodGroups: for how long a gang may run with less than its minimum. 0 on
a Queue: for ever."""


class Gang(Plugin):
    """Enforces minMember, minima of roles if minMember is at least their sum, and sub-groups."""

    name = "gang"
    victim_role = VictimRole.LIMITS
    arguments: ClassVar[Mapping[str, Argument]] = {
        "gang.bindTimeout": Argument(str, "60s", parse=durations.seconds),
        "gang.recoveryTimeout": Argument(str, "0s", parse=durations.seconds),
    }

    _unreadable: Mapping[str, str] = MappingProxyType({})
    """What is wrong with the recovery time-outs of queues, by name."""

    def open(self, session: Session) -> None:
        """Keep the session; jobs count their tasks themselves."""
        self._session = session
        found = {name: _problem(queue.annotations) for name, queue in session.queues.items()}
        self._unreadable = {name: problem for name, problem in found.items() if problem}

    @depends_on(On.JOB | On.QUEUE)
    def job_valid(self, state: JobState) -> Reason | None:
        """Return a reason if the existing pods can't make up the minimum, roles first.

        A gang that had its minimum before needs no more than its pods that exist.

        Volcano: gang validJobFn (CheckTaskValid, CheckSubJobValid, ValidTaskNum).
        """
        job = state.job
        bad_setting = self._bad_setting(job)
        if bad_setting is not None:
            return bad_setting
        if job.roles_count:
            for role, minimum in sorted(state.minimum_of.items()):
                lacking = minimum - state.role_tasks(role, VALID)
                if lacking > 0:
                    least = job.min_task_member[role]
                    return Reason(
                        code=ReasonCode.TOO_FEW_OF_ROLE,
                        queue=job.queue,
                        role=role,
                        tasks=least - lacking,
                        minimum=least,
                        unassigned=unassigned_pods.of_role(job),
                    )
        short = None if state.sub_groups is None else state.sub_groups.lacking(VALID)
        if short is not None:
            policy, whole = short
            return Reason(
                code=ReasonCode.TOO_FEW_SUB_GROUPS,
                queue=job.queue,
                subject=policy.name,
                tasks=whole,
                minimum=policy.minimum,
                unassigned=unassigned_pods.of_sub_group(job, policy),
            )
        present = state.valid_tasks
        if present < state.minimum:
            return Reason(
                code=ReasonCode.TOO_FEW_PODS,
                queue=job.queue,
                tasks=present,
                minimum=job.min_member,
            )
        return None

    @depends_on(On.JOB)
    def job_ready(self, state: JobState) -> bool:
        """Whether the minimum has resources now.

        Volcano: CheckTaskReady, CheckSubJobReady and IsReady.
        """
        return state.reaches(READY)

    @depends_on(On.JOB)
    def job_pipelined(self, state: JobState) -> bool:
        """Vote on whether the minimum has resources now or after pending releases.

        Volcano: CheckTaskPipelined, CheckSubJobPipelined and IsPipelined.
        """
        return state.reaches(PLACED)

    def start_timeout(self, state: JobState) -> float | None:
        """Return the configured time-out, equal for all gangs."""
        del state
        return self.seconds("gang.bindTimeout")

    def recovery_timeout(self, state: JobState) -> float | None:
        """Return the time-out of the Queue, or else the configured one; a PodGroup may only shorten
        it. None: the gang may stay, or the Queue's annotation can't be read.
        """
        job = state.job
        try:
            of_queue = recovery(self._session.queues[job.queue].annotations)
            of_group = recovery(job.annotations)
        except ValueError:
            return None
        if of_queue is None:
            of_queue = self.seconds("gang.recoveryTimeout")
        return min((found for found in (of_queue, of_group) if found), default=None)

    def job_starving(self, state: JobState) -> bool:
        """Whether any pod has no place yet, so that an elastic job gets its share back as well."""
        return state.counts[TaskStatus.PENDING] > 0

    @depends_on(On.VICTIM)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the pods each job has above its minimum, counted down in the order of the list.

        Volcano: gang preemptableFn.
        """
        del preemptor
        ready: dict[JobId, int] = {}
        victims = []
        for task in candidates:
            state = self._session.job_states[task.job]
            left = ready.get(task.job, state.ready_tasks)
            if left > state.job.min_member:
                ready[task.job] = left - 1
                victims.append(task)
        return victims

    reclaimable = preemptable

    @depends_on(On.JOB)
    def job_key(self, state: JobState) -> Key:
        """Return jobs below their minimum first, and among them jobs with some pods ready.

        Resources of an incomplete gang are of no use to anybody.
        """
        if state.reaches(READY):
            return 2
        return 0 if state.ready_tasks else 1

    def _bad_setting(self, job: Job) -> Reason | None:
        """Return a reason if a recovery time-out can't be read, of the PodGroup or its Queue."""
        of_group, of_queue = _problem(job.annotations), self._unreadable.get(job.queue)
        if not (of_group or of_queue):
            return None
        return Reason(
            code=ReasonCode.BAD_SETTING,
            queue=job.queue,
            tasks=job.task_count,
            minimum=job.min_member,
            subject=of_group or f"queue {job.queue}: {of_queue}",
            on="the PodGroup" if of_group else "the Queue",
        )


def recovery(annotations: Mapping[str, str]) -> float | None:
    """Return the recovery time-out in seconds, None without one. Raises ValueError."""
    text = annotations.get(RECOVERY)
    return None if text is None else durations.seconds(text)


def _problem(annotations: Mapping[str, str]) -> str:
    """Return what is wrong with a recovery time-out, or an empty text."""
    try:
        recovery(annotations)
    except ValueError as error:
        return f"annotation {RECOVERY}: {error}"
    return ""
