"""The decisions of a cycle so far, and the reasons of jobs without a place.

`job_status.close` makes the CycleResult.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from vscheduler.model.decisions import (
    Bind,
    EndsSoon,
    Evict,
    Pipeline,
    PromisedStart,
    Reason,
    ReasonCode,
)
from vscheduler.model.gang_proof import GangProof
from vscheduler.model.jobs import JobId, Task, TaskId
from vscheduler.model.snapshot import ReplacementReservation

PRECEDENCE = {code: place for place, code in enumerate(ReasonCode)}

ABOUT_PODS = frozenset(
    {
        ReasonCode.NEVER_FITS,
        ReasonCode.PLUGIN_REFUSED,
        ReasonCode.QUEUE_OVER_SHARE,
        ReasonCode.NO_ROOM,
    }
)
"""Reasons that may be about one pod of a gang that could start without it."""


class Decided:
    """The decisions of a cycle so far. A committed or held Statement adds decisions.

    The public collections are read-only; each method changes one kind of decision.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._binds: list[Bind] = []
        self._pipelined: dict[TaskId, Pipeline] = {}
        self._evicts: dict[TaskId, Evict] = {}
        self._nominations: dict[TaskId, str] = {}
        self._reserved: list[ReplacementReservation] = []
        self._moved_in: set[TaskId] = set()
        self.binds: Sequence[Bind] = self._binds
        self.pipelined: Mapping[TaskId, Pipeline] = self._pipelined
        """By task, pods that wait on a node. Nothing is sent for these pods."""
        self.evicts: Mapping[TaskId, Evict] = self._evicts
        self.nominations: Mapping[TaskId, str] = self._nominations
        """By waiting task, the node where evictions freed resources, in this cycle or before."""
        self.replacement_reservations: Sequence[ReplacementReservation] = self._reserved
        """Reservations for pods that the owners of evicted pods are expected to create."""
        self.moved_in: Collection[TaskId] = self._moved_in
        """Pods that have taken over a reservation made for a replacement pod."""
        self.version = 0
        """Changes with what waits on nodes, and with nominations."""
        self._ends_soon: list[EndsSoon] = []
        self.ends_soon: Sequence[EndsSoon] = self._ends_soon
        self.wake_at: float | None = None
        """The earliest instant at which a decision could change without an event."""

    def bind(self, task: Task, node: str) -> None:
        """Bind the task now."""
        self._binds.append(Bind(task=task, node=node))

    def pipeline(self, task: Task, node: str) -> None:
        """Let the task wait on the node for the rest of the cycle."""
        self._pipelined[task.uid] = Pipeline(task=task, node=node)
        self.version += 1

    def withdraw(self, task: Task) -> None:
        """Let the task no longer wait, if the task did."""
        self._pipelined.pop(task.uid, None)
        self.version += 1

    def start(self, task: Task, node: str) -> None:
        """Bind a task that waited on the node."""
        self.withdraw(task)
        self.bind(task, node)

    def evict(self, evicts: Mapping[TaskId, Evict]) -> None:
        """Evict the victims of one plan, by task."""
        self._evicts.update(evicts)

    def reprieve(self, task: Task) -> None:
        """Cancel an eviction decided earlier in this cycle."""
        del self._evicts[task.uid]

    def nominate(self, task: Task, node: str) -> None:
        """Reserve resources freed by evictions on the node for the waiting task."""
        self._nominations[task.uid] = node
        self.version += 1

    def move_in(self, task: Task, node: str) -> None:
        """Let the task take over a reservation made for a replacement pod."""
        self.nominate(task, node)
        self._moved_in.add(task.uid)

    def warn(self, pod: EndsSoon) -> None:
        """Say of a running pod that it will be ended soon."""
        self._ends_soon.append(pod)

    def reserve(self, reservation: ReplacementReservation) -> None:
        """Reserve resources for a pod that doesn't exist yet, and wake when the time is up."""
        self._reserved.append(reservation)
        self.wake(reservation.until)

    def wake(self, at: float) -> None:
        """Ask for a cycle at this instant, unless the instant has passed."""
        if at > self._now:
            self.wake_at = at if self.wake_at is None else min(at, self.wake_at)


class JobReasons:
    """The dominant reason of each job so far, and the jobs without a turn in this cycle."""

    def __init__(self) -> None:
        self._by_job: dict[JobId, Reason] = {}
        self._not_attempted: set[JobId] = set()
        self.by_job: Mapping[JobId, Reason] = self._by_job
        self.not_attempted: Collection[JobId] = self._not_attempted
        """Jobs not considered in this cycle; the result says nothing about these jobs."""

    def note(self, job: JobId, reason: Reason) -> None:
        """Record why a job, or the rest of a job, isn't placed; the dominant reason is kept."""
        if self.is_news(job, reason.code):
            self._by_job[job] = reason

    def is_news(self, job: JobId, code: ReasonCode) -> bool:
        """Whether `note` would record a reason with this code."""
        known = self._by_job.get(job)
        return known is None or PRECEDENCE[code] < PRECEDENCE[known.code]

    def add_proof(self, job: JobId, proof: GangProof) -> None:
        """Add what a search has shown to the reason of a job for which no nodes were found."""
        known = self._by_job.get(job)
        if known is not None and known.code is ReasonCode.NO_ROOM:
            self._by_job[job] = msgspec.structs.replace(known, proof=proof)

    def promise(self, job: JobId, promised: PromisedStart) -> None:
        """Add a promised start to the reason of a job that waits for room."""
        known = self._by_job.get(job)
        if known is not None and known.code in ABOUT_PODS:
            self._by_job[job] = msgspec.structs.replace(known, promised=promised)

    def replace(self, job: JobId, reason: Reason) -> None:
        """Record a reason for the whole job instead of what was noted about single pods."""
        known = self._by_job.get(job)
        if known is None or known.code in ABOUT_PODS:
            self._by_job[job] = reason

    def forget(self, job: JobId) -> None:
        """Drop the reason of a job placed since."""
        self._by_job.pop(job, None)

    def skip(self, *without_turn: JobId) -> None:
        """Record jobs without a turn in this cycle."""
        self._not_attempted.update(without_turn)
