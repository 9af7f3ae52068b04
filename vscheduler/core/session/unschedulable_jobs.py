"""Jobs that can't start on empty nodes: why not, kept from cycle to cycle as long as it holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vscheduler.core.model import decisions, jobs, queues, resources
from vscheduler.core.session import job_state

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


Pods: TypeAlias = tuple[tuple[jobs.PodClass, int], ...]
"""Pods that wait, by their class."""


class Need(NamedTuple):
    """So many of these pods a gang, or one role of it, still needs."""

    number: int
    pods: Pods
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """What is proved of a gang that can't start."""

    need: Need
    homeless: jobs.PodClass | None = None
    """A class of which no node takes a single pod."""
    seats: int = 0
    """How many of the pods that it needs nodes could hold."""
    shortages: tuple[decisions.Shortage, ...] = ()
    """Or what the pods need together that the nodes don't have together."""


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """One job."""

    job: jobs.Job
    """As it was."""
    obstacle: Obstacle
    """A class of its pods that no node takes."""
    reason: decisions.Reason
    """Why none does."""
    status: decisions.GroupStatus | None = None
    """What came of the cycle for it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """It holds as long as these are the very nodes and settings, and equal queues."""

    allocatable: resources.Vector
    """Another array where anything of a node changes but for what pods hold there."""
    queues: Mapping[str, queues.Queue]
    policy: object
    entries: dict[jobs.JobId, Entry]

    @property
    def nowhere(self) -> set[tuple[str, jobs.PodClass]]:
        """Queues, and classes of which no node takes a pod of these."""
        found = ((each.job.queue, each.obstacle.homeless) for each in self.entries.values())
        return {(queue, kind) for queue, kind in found if kind is not None}

    def holds(self, session: "working.Session") -> bool:
        """Whether it would be said again."""
        return (
            self.allocatable is session.snapshot.nodes.allocatable
            and self.policy is session.policy
            and self.queues == session.queues
            and session.policy.nodes_last
        )

    def status(
        self,
        gang: job_state.JobState,
        reason: decisions.Reason | None,
        make: Callable[[], decisions.GroupStatus],
    ) -> decisions.GroupStatus:
        """The status of a job that was told, as no task of it has moved; made, if it was told
        something else before.
        """
        entry = self.entries[gang.job.id]
        if entry.reason is not reason or gang.phase is not jobs.Phase.PENDING:
            return make()
        if entry.status is None:
            entry.status = make()
        return entry.status


def still(session: "working.Session") -> Told:
    """What was told before, as far as it holds: for this cycle to add to."""
    carried = session.snapshot.carried.hopeless
    known = carried.entries if isinstance(carried, Told) and carried.holds(session) else {}
    entries = {
        job: entry
        for job, entry in known.items()
        if job in session.gangs and session.gangs[job].job is entry.job
    }
    return Told(
        allocatable=session.snapshot.nodes.allocatable,
        queues=session.queues,
        policy=session.policy,
        entries=entries,
    )
