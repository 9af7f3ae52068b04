"""Memos: all that a cycle learnt and the next may reuse. Without influence on decisions.

Each memo names in `rests_on` the parts of the input that its answers depend on: when any of them
has changed, the memo is empty. Otherwise it follows the jobs that have changed.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import ClassVar, Protocol, Self, TypeVar

import msgspec
from msgspec.structs import replace

from vscheduler.core.config.policy import Policy
from vscheduler.core.memo import changes
from vscheduler.core.memo.changes import Basis, Changes, Part
from vscheduler.core.memo.evictable_pods import EvictablePods
from vscheduler.core.memo.never_fitting import NeverFittingJobs
from vscheduler.core.memo.unchanged_jobs import UnchangedJobs
from vscheduler.core.memo.unschedulable_jobs import UnschedulableGroups, UnschedulableJobs
from vscheduler.core.shares import node_domains
from vscheduler.core.shares.node_domains import KnownDomains
from vscheduler.model import snapshot as snapshots
from vscheduler.model.jobs import Job
from vscheduler.model.snapshot import Snapshot


class Memo(Protocol):
    """A part of what a cycle learnt; a value."""

    @property
    def rests_on(self) -> frozenset[Part]:
        """The parts of the input that it depends on, besides the jobs that it is about."""

    def after(self, changes: Changes) -> Self:
        """Return what is still right after changes of jobs, and of other parts."""


AnyMemo = TypeVar("AnyMemo", bound=Memo)


class NodeDomains(msgspec.Struct, frozen=True, eq=False):
    """Which nodes pods could use if these were empty."""

    rests_on: ClassVar[frozenset[Part]] = frozenset({Part.POLICY, Part.NODES, Part.QUEUES})
    known: KnownDomains = node_domains.NOTHING_KNOWN

    def after(self, _: Changes) -> "NodeDomains":
        """Return the same: domains are about pod classes, whatever jobs there are."""
        return self


class Memos(snapshots.Memos, frozen=True, kw_only=True, eq=False):
    """All memos of a cycle, and what it has seen."""

    basis: Basis
    domains: NodeDomains
    never_fitting: NeverFittingJobs
    """Jobs that can't start even on empty nodes."""
    unschedulable: UnschedulableJobs
    """Jobs without room, which cycles leave out until more is free."""
    unchanged: UnchangedJobs
    """Jobs that run and request nothing, which cycles leave out."""
    evictable: EvictablePods
    active: Sequence[Job] | None = None
    """All other jobs than unschedulable and unchanged ones, by ID; None if that isn't known."""

    def active_jobs(self, unschedulable: UnschedulableGroups) -> Sequence[Job]:
        """Return the jobs that aren't left out, by ID; `unschedulable` are those without room."""
        if self.active is not None and unschedulable is self.unschedulable.found:
            return self.active
        _, active = changes.of_jobs(self.unchanged.jobs, self.basis.jobs)
        return changes.without(active, unschedulable.jobs)

    def with_active(self, jobs: Collection[Job]) -> "Memos":
        """Return the same; `jobs` have those that aren't left out, and perhaps others."""
        unchanged, waiting = self.unchanged, self.unschedulable.found.jobs
        left = [job for job in jobs if not (job.id in unchanged or job.id in waiting)]
        if len(left) + len(unchanged.jobs) + len(waiting) != len(self.basis.jobs):
            return self
        return replace(self, active=left)


def of(snapshot: Snapshot, policy: Policy) -> Memos:
    """Return what the last cycle learnt, as far as it is still right."""
    before = snapshot.carried.memos
    if not isinstance(before, Memos):
        return nothing(snapshot, policy)
    now = Basis.of(snapshot, policy)
    found = changes.between(before.basis, now)
    nobody = partial(EvictablePods, now.layout, now.queues)
    is_known = before.active is not None and not found.parts & (
        before.unchanged.rests_on | before.unschedulable.rests_on
    )
    return Memos(
        basis=now,
        domains=_followed(before.domains, NodeDomains, found),
        never_fitting=_followed(before.never_fitting, NeverFittingJobs, found),
        unschedulable=_followed(before.unschedulable, UnschedulableJobs, found),
        unchanged=_followed(before.unchanged, UnchangedJobs, found),
        evictable=_followed(before.evictable, nobody, found),
        active=changes.followed(before.active or (), found) if is_known else None,
    )


def nothing(snapshot: Snapshot, policy: Policy) -> Memos:
    """Return the memos of a cycle that knows nothing of earlier ones."""
    basis = Basis.of(snapshot, policy)
    return Memos(
        basis=basis,
        domains=NodeDomains(),
        never_fitting=NeverFittingJobs(),
        unschedulable=UnschedulableJobs(),
        unchanged=UnchangedJobs(),
        evictable=EvictablePods(basis.layout, basis.queues),
    )


def _followed(memo: AnyMemo, empty: Callable[[], AnyMemo], found: Changes) -> AnyMemo:
    """Return the memo as it is after these changes."""
    return empty() if memo.rests_on & found.parts else memo.after(found)
