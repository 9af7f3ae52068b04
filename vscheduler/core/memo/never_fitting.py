"""Jobs that can't start even on empty nodes, with the reasons and statuses that they got."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeAlias

import msgspec

from vscheduler.core.memo.changes import Changes, Part
from vscheduler.model.decisions import GroupStatus, Reason, Shortage
from vscheduler.model.jobs import Job, JobId, Phase, PodClass

Pods: TypeAlias = tuple[tuple[PodClass, int], ...]
"""Waiting pods, as counts by class."""


class Need(NamedTuple):
    """The number of pods, out of `pods`, still missing for a gang or for one role of a gang."""

    number: int
    pods: Pods
    role: str = ""


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """The proof of why a gang can't start."""

    need: Need
    unplaceable: PodClass | None = None
    """A class of pods that no node can take."""
    capacity: int = 0
    """How many of the needed pods all nodes could hold."""
    shortages: tuple[Shortage, ...] = ()
    """Resources that the pods together request more of than all nodes have."""
    capped: tuple[Shortage, ...] = ()
    """Resources that the pods together request more of than a capability allows, so that more nodes
    wouldn't help."""


class Entry(msgspec.Struct, kw_only=True, eq=False):
    """The finding for one job."""

    job: Job
    """The job when the finding was made."""
    obstacle: Obstacle
    """The class of pods that no node can take."""
    reason: Reason
    """Why no node can take the pods."""
    status: GroupStatus | None = None
    """The status of the PodGroup at the end of the cycle."""


class NeverFittingJobs(msgspec.Struct, frozen=True, eq=False):
    """All findings; each cycle adds its own."""

    rests_on: ClassVar[frozenset[Part]] = frozenset({Part.POLICY, Part.NODES, Part.QUEUES})
    entries: dict[JobId, Entry] = msgspec.field(default_factory=dict)

    def after(self, changes: Changes) -> "NeverFittingJobs":
        """Return the findings about jobs that are still there, and the same.

        Findings about pods with volumes or claims rest on these as well.
        """
        entries = dict(self.entries)
        for job in changes.gone:
            entries.pop(job.id, None)
        if Part.STORAGE in changes.parts:
            entries = {job: each for job, each in entries.items() if not _uses_volumes(each.job)}
        if Part.DEVICES in changes.parts:
            entries = {job: each for job, each in entries.items() if not _uses_devices(each.job)}
        return NeverFittingJobs(entries)

    def add(self, job: Job, obstacle: Obstacle, reason: Reason) -> None:
        """Record the finding for one job."""
        self.entries[job.id] = Entry(job=job, obstacle=obstacle, reason=reason)

    def status(
        self, job: JobId, phase: Phase, reason: Reason | None, make: Callable[[], GroupStatus]
    ) -> GroupStatus:
        """Return the status of a job with a finding, if no task of the job has moved.

        The last cycle's status is reused if reason and phase are unchanged; otherwise `make` is
        called.
        """
        entry = self.entries[job]
        if entry.reason is not reason or phase is not Phase.PENDING:
            return make()
        if entry.status is None:
            entry.status = make()
        return entry.status


def _uses_volumes(job: Job) -> bool:
    return any(pod_class.constraints.volumes for pod_class in job.classes)


def _uses_devices(job: Job) -> bool:
    return any(pod_class.constraints.resource_claims for pod_class in job.classes)
