"""What jobs were told that can't start on empty nodes: kept from cycle to cycle while it holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vscheduler.core.framework import gangs
from vscheduler.core.model import decisions, jobs, queues, resources

if TYPE_CHECKING:
    from vscheduler.core.framework import session as working


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """One job."""

    job: jobs.Job
    """As it was."""
    kind: jobs.TaskClass
    """The class of its pods that no node takes."""
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

    def holds(self, session: "working.Session") -> bool:
        """Whether it would be said again."""
        return (
            self.allocatable is session.snapshot.nodes.allocatable
            and self.policy is session.policy
            and self.queues == session.queues
        )

    def status(
        self,
        gang: gangs.Gang,
        reason: decisions.Reason | None,
        make: Callable[[], decisions.GroupStatus],
    ) -> decisions.GroupStatus:
        """The job's status, as no task of it has moved; made, if it wasn't told this before."""
        entry = self.entries.get(gang.job.id)
        if entry is None or entry.reason is not reason or gang.phase is not jobs.Phase.PENDING:
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
