"""Recorder: turns changes of pods and PodGroups into records. Pure; a batch can be taken again as
long as nobody says that it is written.

A pod holds its resources from its bind until its containers have ended, or until it is deleted:
both times are read from the pod's status where it tells, so they don't depend on who looked when.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import msgspec
from msgspec.structs import replace

from vscheduler.history import records
from vscheduler.history.records import (
    Batch,
    Ending,
    JobRecord,
    JobState,
    RunKey,
    RunRecord,
    Stored,
)
from vscheduler.mirror.translate.pods import Pod
from vscheduler.mirror.translate.translation import Group
from vscheduler.model.jobs import FINISHED, JobId, Phase, TaskId, TaskStatus

HOLDING = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.RELEASING})
"""Statuses of a pod that holds resources if it has a node. Not Binding: that bind may fail."""

RECORDS_MAX = 200_000
"""How many records wait to be written at most; the oldest runs are lost first."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """All that there is when recording starts."""

    pods: Sequence[Pod] = ()
    groups: Sequence[tuple[Group, str]] = ()
    """PodGroups with their queues."""


class _Job(msgspec.Struct, kw_only=True):
    """A job that may change still."""

    record: JobRecord
    runs: dict[TaskId, RunRecord] = msgspec.field(default_factory=dict)
    """Those that haven't ended."""
    held: Counter[str] = msgspec.field(default_factory=Counter)
    """What these hold together."""
    has_group: bool = True
    completed: bool = False
    """Whether its PodGroup says so."""


class Recorder:
    """The records of jobs and runs that may change still, and all that is to be written."""

    def __init__(self, user_label: str = records.USER_LABEL) -> None:
        """`user_label` is the label of pods and PodGroups that tells whose job it is."""
        self._user_label = user_label
        self.lost = 0
        """How many records were dropped because they couldn't be written for too long."""
        self._jobs_to_write: dict[str, JobRecord] = {}
        self._runs_to_write: dict[RunKey, RunRecord] = {}
        self._forget()

    def _forget(self) -> None:
        self._groups: dict[JobId, tuple[Group, str]] = {}
        self._pods: Counter[JobId] = Counter()
        """How many pods of ours name each PodGroup."""
        self._group_of: dict[TaskId, JobId] = {}
        """By pod, the PodGroup for which it counts."""
        self._samples: dict[JobId, Pod] = {}
        """A pod of each PodGroup that isn't there yet."""
        self._jobs: dict[str, _Job] = {}
        """By uid."""
        self._current: dict[JobId, str] = {}
        """The uid of the job that new pods of a PodGroup belong to."""
        self._runs: dict[TaskId, str] = {}
        """Of pods that hold resources: the uid of the job."""
        self._ended: dict[TaskId, int] = {}
        """Of pods that exist and hold resources no longer: until when they did."""
        self._looked_until: int | None = None
        """While a listing is compared with what is stored: until when somebody looked before."""

    def start(self, listing: Listing, stored: Stored, now: int) -> None:
        """Begin with all that there is, and with what is known of it.

        Whatever went meanwhile ended at least when somebody looked last.
        """
        self._forget()
        self._looked_until = stored.seen
        self._ended = dict(stored.ended)
        self._jobs = {each.uid: _Job(record=each, has_group=False) for each in stored.jobs}
        for run in stored.runs:
            if run.job in self._jobs:
                self._hold(self._jobs[run.job], run)
        for group, queue in listing.groups:
            self._groups[group.job.id] = (group, queue)
            job = self._jobs.get(group.job.uid)
            if job is not None:
                job.has_group = True
                self._current[group.job.id] = group.job.uid
        for pod in listing.pods:
            self._begin_late(pod, now)
        for pod in listing.pods:
            self.pod(None, pod, now)
        for group, queue in listing.groups:
            self.group(group, group, queue, now)
        self._end_what_is_gone({pod.uid for pod in listing.pods}, stored.seen)
        self._looked_until = None

    def _end_what_is_gone(self, there: Collection[TaskId], seen: int) -> None:
        """End the runs of pods that aren't there, and jobs without a PodGroup."""
        for uid in [uid for uid in self._runs if uid not in there]:
            self._end(uid, None, seen, Ending.UNKNOWN)
            del self._ended[uid]
        for job in list(self._jobs.values()):
            if not job.has_group:
                self._end_of_group(job, seen)

    def pod(self, old: Pod | None, new: Pod | None, now: int) -> None:
        """Take a pod that came, changed or went."""
        known = new or old
        assert known is not None, "one of both exists"
        group = self._group_of.pop(known.uid, None)
        if group is not None:
            self._pods[group] -= 1
            if not self._pods[group]:
                del self._pods[group]
                self._samples.pop(group, None)
        if new is None:
            self._end(known.uid, None, now, Ending.DELETED)
            self._ended.pop(known.uid, None)
            return
        if not new.ours or new.group is None:
            return
        self._pods[new.group] += 1
        self._group_of[new.uid] = new.group
        if new.node is not None and new.status in HOLDING:
            self._holds(new, now)
        elif new.status in FINISHED:
            self._finishes(new, now)
        elif new.group in self._groups:
            self._job_of(new)
        else:
            self._samples[new.group] = new

    def group(self, old: Group | None, new: Group | None, queue: str, now: int) -> None:
        """Take a PodGroup that came, changed or went, and the queue that it counts for."""
        if old is not None and (new is None or new.job.uid != old.job.uid):
            self._groups.pop(old.job.id, None)
            job = self._jobs.get(self._current.pop(old.job.id, ""))
            if job is not None:
                job.has_group = False
                self._end_of_group(job, now)
        if new is None:
            return
        key = new.job.id
        self._groups[key] = (new, queue)
        uid = self._current.get(key)
        if uid is None:
            sample = self._samples.pop(key, None)
            if self._pods[key]:
                self._new_job(key, sample)
            return
        job = self._jobs[uid]
        job.has_group = True
        phase = new.job.state.phase
        known = job.record
        admitted = known.admitted
        waited = old is not None and old.job.state.phase is Phase.PENDING
        if waited and phase is not Phase.PENDING and admitted is None:
            admitted = now
        if queue != known.queue:
            for run in list(job.runs.values()):
                self._go_on(job, replace(run, queue=queue), now)
        job.completed = phase is Phase.COMPLETED
        self._note(job, admitted=admitted, queue=queue)
        self._complete(job, now)

    def evicted(self, pods: Iterable[TaskId], action: str, beneficiary: str) -> None:
        """Note that the API server has accepted evictions."""
        for uid in pods:
            if uid in self._runs:
                job = self._jobs[self._runs[uid]]
                run = replace(job.runs[uid], action=action, evicted_for=beneficiary)
                job.runs[uid] = run
                self._write(run)

    def changed(self, most: int) -> Batch:
        """Return at most so many records to write: of each, its newest state. Jobs come first, for
        runs refer to them.
        """
        jobs = tuple(islice(self._jobs_to_write.values(), most))
        runs = tuple(islice(self._runs_to_write.values(), most - len(jobs)))
        return Batch(jobs=jobs, runs=runs)

    def written(self, batch: Batch) -> None:
        """Forget records that are written, unless they changed meanwhile."""
        for job in batch.jobs:
            if self._jobs_to_write.get(job.uid) is job:
                del self._jobs_to_write[job.uid]
        for run in batch.runs:
            key = records.key_of(run)
            if self._runs_to_write.get(key) is run:
                del self._runs_to_write[key]

    def drop(self) -> None:
        """Forget what isn't written, and count it as lost."""
        self.lost += len(self._jobs_to_write) + len(self._runs_to_write)
        self._jobs_to_write.clear()
        self._runs_to_write.clear()

    def rewrite(self) -> None:
        """Write all again that may change still, since the database is a new one."""
        for job in self._jobs.values():
            self._jobs_to_write[job.record.uid] = job.record
            for run in job.runs.values():
                self._write(run)

    def _job_of(self, pod: Pod) -> _Job:
        """Return the job that a pod belongs to."""
        assert pod.group is not None, "only pods with a PodGroup are recorded"
        uid = self._current.get(pod.group)
        if uid is None:
            return self._new_job(pod.group, pod)
        job = self._jobs[uid]
        known = job.record
        if not (known.user and known.scheduler):
            user = known.user or pod.labels.get(self._user_label, "")
            self._note(job, user=user, scheduler=known.scheduler or pod.scheduler)
        return job

    def _new_job(self, key: JobId, pod: Pod | None) -> _Job:
        """Begin the record of a job. Without its PodGroup, nobody knows its queue."""
        group, queue = self._groups.get(key, (None, ""))
        label = self._user_label
        user = "" if pod is None else pod.labels.get(label, "")
        task = None if pod is None else pod.task
        limit = None if task is None else task.max_run_time
        made = JobRecord(
            uid=key if group is None else group.job.uid,
            scheduler="" if pod is None else pod.scheduler,
            job=key,
            owner="" if group is None else group.job.owner,
            user=user if group is None else group.job.labels.get(label, user),
            queue=queue,
            created=int(0 if group is None else group.job.created),
            priority=0 if task is None else task.pod_priority,
            run_limit=_whole(limit if group is None else group.job.max_run_time or limit),
        )
        job = self._jobs[made.uid] = _Job(record=made, has_group=group is not None)
        job.completed = group is not None and group.job.state.phase is Phase.COMPLETED
        self._current[key] = made.uid
        self._jobs_to_write[made.uid] = made
        return job

    def _holds(self, pod: Pod, now: int) -> None:
        """Take a pod that holds resources on its node."""
        request = pod.pod_class.counted
        if pod.uid in self._runs:
            job = self._jobs[self._runs[pod.uid]]
            run = job.runs[pod.uid]
            if run.request != request:
                self._go_on(job, replace(run, request=dict(request)), now)
            return
        assert pod.node is not None, "a pod that holds resources has a node"
        began = max(_bound_at(pod, now), self._ended.pop(pod.uid, 0))
        self._begin(self._job_of(pod), pod, began)

    def _begin(self, job: _Job, pod: Pod, began: int) -> None:
        run = RunRecord(
            pod=pod.uid,
            began=began,
            job=job.record.uid,
            name=pod.key.partition("/")[2],
            node=pod.node or "",
            queue=job.record.queue,
            request=dict(pod.pod_class.counted),
        )
        first = not job.runs
        self._hold(job, run)
        self._write(run)
        known = job.record
        more: dict[str, object] = {}
        if len(job.runs) > known.pods:
            more = {"pods": len(job.runs), "request": dict(+job.held)}
        self._note(
            job,
            started=began if known.started is None else min(began, known.started),
            last_started=began if first else known.last_started,
            state=JobState.RUNNING,
            finished=None,
            **more,
        )

    def _finishes(self, pod: Pod, now: int) -> None:
        """Take a pod that has come to an end."""
        self._begin_late(pod, now)
        how = Ending.SUCCEEDED if pod.status is TaskStatus.SUCCEEDED else Ending.FAILED
        unknown = now if self._looked_until is None else self._looked_until
        self._end(pod.uid, pod.ended_at, unknown, how)

    def _begin_late(self, pod: Pod, now: int) -> None:
        """Begin the run of a pod that has ended, if nobody saw it run. In a listing, the pods of a
        job begin before any of them ends: they ran together.
        """
        known = pod.uid in self._runs or pod.uid in self._ended
        if pod.status in FINISHED and pod.node is not None and not known:
            self._begin(self._job_of(pod), pod, _bound_at(pod, now))

    def _end(self, uid: TaskId, ended_at: float | None, unknown: int, how: Ending) -> None:
        """End the run of a pod, if there is one; `unknown` is its end if the pod doesn't tell."""
        owner = self._runs.pop(uid, None)
        if owner is None:
            return
        job = self._jobs[owner]
        run = job.runs.pop(uid)
        job.held.subtract(run.request)
        ended = max(run.began, unknown if ended_at is None else int(ended_at))
        if run.action and how is not Ending.SUCCEEDED:
            how = Ending.EVICTED
        self._write(replace(run, ended=ended, how=how))
        self._ended[uid] = ended
        known = job.record
        self._note(
            job,
            last_ended=max(ended, known.last_ended or 0),
            state=known.state if job.runs else JobState.WAITING,
            evicted=known.evicted + (how is Ending.EVICTED),
            succeeded=known.succeeded + (how is Ending.SUCCEEDED),
            failed=known.failed + (how is Ending.FAILED),
        )
        self._complete(job, unknown)
        if not job.has_group:
            self._end_of_group(job, unknown)

    def _go_on(self, job: _Job, run: RunRecord, now: int) -> None:
        """Let a pod go on as another run, from now on."""
        before = job.runs[run.pod]
        job.held.subtract(before.request)
        if now > before.began:
            self._write(replace(before, ended=now, how=Ending.CHANGED))
            run = replace(run, began=now)
        self._hold(job, run)
        self._write(run)

    def _hold(self, job: _Job, run: RunRecord) -> None:
        job.runs[run.pod] = run
        job.held.update(run.request)
        self._runs[run.pod] = run.job

    def _complete(self, job: _Job, now: int) -> None:
        """Finish a job whose PodGroup says that it is completed, once no pod holds anything."""
        known = job.record
        if job.completed and not job.runs and known.finished is None:
            ended = now if known.last_ended is None else known.last_ended
            self._note(job, state=JobState.COMPLETED, finished=ended)

    def _end_of_group(self, job: _Job, now: int) -> None:
        """Finish a job whose PodGroup is gone, once no pod holds anything."""
        if job.runs:
            return
        known = job.record
        if known.finished is None:
            ended = max(now, known.last_ended or known.created)
            state = JobState.DELETED
            if known.succeeded and not known.failed and known.last_ended is not None:
                state, ended = JobState.COMPLETED, known.last_ended
            self._note(job, state=state, finished=ended)
        del self._jobs[known.uid]
        if self._current.get(known.job) == known.uid:
            del self._current[known.job]

    def _note(self, job: _Job, **fields: object) -> None:
        made = replace(job.record, **fields)
        if made != job.record:
            job.record = self._jobs_to_write[made.uid] = made

    def _write(self, run: RunRecord) -> None:
        self._runs_to_write[records.key_of(run)] = run
        if len(self._runs_to_write) > RECORDS_MAX:
            del self._runs_to_write[next(iter(self._runs_to_write))]
            self.lost += 1


def _bound_at(pod: Pod, now: int) -> int:
    """Return when a pod was bound, as its status tells."""
    at = None if pod.task is None else pod.task.scheduled_at
    return now if at is None else int(at)


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds)
