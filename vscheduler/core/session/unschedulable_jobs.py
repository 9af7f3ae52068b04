"""Findings about jobs that can't start even on empty nodes, carried from cycle to cycle."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vscheduler.core.model import decisions, jobs, queues, resources
from vscheduler.core.session import job_state

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


Pods: TypeAlias = tuple[tuple[jobs.PodClass, int], ...]
"""Waiting pods, as counts by class."""


class Need(NamedTuple):
    """The number of pods, out of `pods`, still missing for a gang or for one role of a gang."""

    number: int
    pods: Pods
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """The proof of why a gang can't start."""

    need: Need
    unplaceable: jobs.PodClass | None = None
    """A class of pods that no node can take."""
    capacity: int = 0
    """How many of the needed pods all nodes could hold."""
    shortages: tuple[decisions.Shortage, ...] = ()
    """Resources that the pods together request more of than all nodes have."""


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """The finding for one job."""

    job: jobs.Job
    """The job when the finding was made."""
    obstacle: Obstacle
    """The class of pods that no node can take."""
    reason: decisions.Reason
    """Why no node can take the pods."""
    status: decisions.GroupStatus | None = None
    """The status of the PodGroup at the end of the cycle."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownUnschedulable:
    """All findings, valid while nodes and settings are unchanged objects and queues are equal."""

    allocatable: resources.Vector
    """The array of the snapshot; replaced whenever a node changes in anything except its pods."""
    queues: Mapping[str, queues.Queue]
    policy: object
    entries: dict[jobs.JobId, Entry]

    @property
    def nowhere(self) -> set[tuple[str, jobs.PodClass]]:
        """Pairs of queue and pod class for which no node is suitable."""
        found = ((each.job.queue, each.obstacle.unplaceable) for each in self.entries.values())
        return {(queue, pod_class) for queue, pod_class in found if pod_class is not None}

    def holds(self, session: "working.Session") -> bool:
        """Whether the findings are still valid in this session."""
        return (
            self.allocatable is session.snapshot.nodes.allocatable
            and self.policy is session.policy
            and self.queues == session.queues
            and session.policy.nodes_last
        )

    def status(
        self,
        state: job_state.JobState,
        reason: decisions.Reason | None,
        make: Callable[[], decisions.GroupStatus],
    ) -> decisions.GroupStatus:
        """Return the status of a job with a finding, if no task of the job has moved.

        The last cycle's status is reused if reason and phase are unchanged; otherwise `make` is
        called.
        """
        entry = self.entries[state.job.id]
        if entry.reason is not reason or state.phase is not jobs.Phase.PENDING:
            return make()
        if entry.status is None:
            entry.status = make()
        return entry.status


def still_known(session: "working.Session") -> KnownUnschedulable:
    """Return the earlier findings that are still valid, for this cycle to extend."""
    carried = session.snapshot.carried.unschedulable
    known = (
        carried.entries
        if isinstance(carried, KnownUnschedulable) and carried.holds(session)
        else {}
    )
    entries = {
        job: entry
        for job, entry in known.items()
        if job in session.job_states and session.job_states[job].job is entry.job
    }
    return KnownUnschedulable(
        allocatable=session.snapshot.nodes.allocatable,
        queues=session.queues,
        policy=session.policy,
        entries=entries,
    )
