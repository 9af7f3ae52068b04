"""Claims in vain: what a search for victims saw that found none for any job.

What a search finds depends on nearly everything in a snapshot: on room, pods, budgets, and the
shares of all queues. So it is repeated if anything differs from what it saw, but for what cycles
remember. If only time has passed, it would find the same.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec
import numpy as np

from vscheduler.core.config.policy import Policy
from vscheduler.core.model import snapshot
from vscheduler.core.model.jobs import Job, JobId, Phase, TaskId
from vscheduler.core.model.nodes import NodeTable
from vscheduler.core.model.snapshot import GangSearch, SearchPlace, Snapshot
from vscheduler.core.session.interfaces import Devices
from vscheduler.core.session.job_state import JobState

Phases: TypeAlias = Sequence[tuple[JobId, Phase, bool]]

WHOLE = frozenset({"affinity_index", "storage", "devices"})
"""Parts of a snapshot that are the same object while nothing in them changes."""

OTHERS = tuple(
    name for name in Snapshot.__struct_fields__ if name not in {"now", "carried", "nodes", "jobs"}
)
"""All parts of a snapshot but time, memory, nodes and jobs."""


class Session(Protocol):
    """The running cycle, as far as it is compared."""

    snapshot: Snapshot
    policy: Policy

    @property
    def devices(self) -> Devices:
        """Devices as the cycle has decided so far."""

    @property
    def touched(self) -> bool:
        """Whether anything was decided about nodes in this cycle."""

    def waiting_jobs(self) -> Sequence[JobState]:
        """Return the jobs that could still request something, but for parked ones."""


class VainClaims(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one action saw in a cycle in which nobody found victims."""

    taken: Snapshot
    """The snapshot, with nothing of what earlier cycles remember."""
    refused: tuple[frozenset[TaskId], frozenset[JobId]]
    """The pods and jobs for which the API server refused evictions."""
    searches: Mapping[SearchPlace, GangSearch]
    """What was known of searches for whole gangs."""
    phases: Phases
    """The jobs that weren't parked, with their phases and whether anything is reserved for them."""
    youngest: float
    """When the pod got its node that runs for the shortest time, in seconds since the epoch."""
    failed: Sequence[JobId]
    """The jobs that have asked, parked ones too."""

    def hold(self, session: Session, oldest: float) -> bool:
        """Whether nothing but time has changed since. Pods that got their nodes after `oldest` are
        left alone.
        """
        taken = session.snapshot
        return (
            _is_settled(session)
            and self.youngest <= oldest
            and self.refused == _refused(taken)
            and self.searches == taken.carried.gang_searches
            and self.phases == phases_of(session)
            and _same_nodes(self.taken.nodes, taken.nodes)
            and _same_jobs(self.taken.jobs, taken.jobs)
            and all(_same_part(name, self.taken, taken) for name in OTHERS)
        )


def of(
    session: Session,
    phases: Phases,
    *,
    youngest: float,
    oldest: float,
    failed: Sequence[JobId],
) -> VainClaims | None:
    """Return what the action has seen; None if the next cycle may find victims all the same.

    `phases` are those before the action, which may have woken jobs. `failed` have asked.
    """
    if not _is_settled(session) or youngest > oldest:
        return None
    return VainClaims(
        taken=msgspec.structs.replace(session.snapshot, carried=snapshot.FRESH),
        refused=_refused(session.snapshot),
        searches=session.snapshot.carried.gang_searches,
        phases=phases,
        youngest=youngest,
        failed=failed,
    )


def _is_settled(session: Session) -> bool:
    """Whether nothing is under way that ends with time, and nothing is decided in this cycle."""
    carried = session.snapshot.carried
    under_way = (
        *(carried.nominations, carried.replacement_reservations, carried.node_losses),
        *(carried.work_by_namespace, carried.attempted, carried.reclaim_failed),
        *(carried.claim_attempts, carried.refused_claims, carried.refused_allocations),
        *(carried.refused_binds, session.snapshot.refused),
    )
    searched = all(search.finished for search in carried.gang_searches.values())
    is_settled = session.policy.claims_last and searched and not session.touched
    return is_settled and not (any(under_way) or session.devices.are_unread)


def _refused(snapshot: Snapshot) -> tuple[frozenset[TaskId], frozenset[JobId]]:
    return snapshot.carried.eviction_refused_pods, snapshot.carried.eviction_refused_jobs


def phases_of(session: Session) -> Phases:
    """Return the phases of all jobs that could still request something, but for parked ones."""
    return [(state.job.id, state.phase, state.owed) for state in session.waiting_jobs()]


def _same_jobs(before: Sequence[Job], now: Sequence[Job]) -> bool:
    """Whether these are the same objects; a job that has changed is another one."""
    return before is now or (len(before) == len(now) and all(map(operator.is_, before, now)))


def _same_nodes(before: NodeTable, now: NodeTable) -> bool:
    """Whether nodes and what pods use of them are the same."""
    return before is now or (
        before.layout is now.layout
        and before.allocatable is now.allocatable
        and np.array_equal(before.used, now.used)
        and np.array_equal(before.releasing, now.releasing)
        and np.array_equal(before.ours, now.ours)
        and (before.ports, before.leaving_ports) == (now.ports, now.leaving_ports)
    )


def _same_part(name: str, before: Snapshot, now: Snapshot) -> bool:
    """Whether a part of both snapshots is the same."""
    old, new = getattr(before, name), getattr(now, name)
    return old is new or (name not in WHOLE and bool(old == new))
