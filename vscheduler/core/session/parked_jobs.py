"""Parked jobs: jobs without room that cycles leave out until something changes that could help.

A job is parked after a cycle in which no usable node had enough free resources for its pods. The
next cycles keep its reason and status, and neither sort the job nor ask plugins about it. It is
awake again once more is free on a node on which its pods would then fit, and whenever anything else
changes that its wait depends on (kube-scheduler: unschedulablePods and queueing hints).

All that a wait depends on is named: nodes, queues, settings and the job itself by core.memo, and in
`_may_last` what mustn't be there at all. What is free, and what the queue has, is compared by
`placement.parked_jobs` once plugins are open.
"""

import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from vscheduler.core.config.policy import Policy
from vscheduler.core.fair_share import inqueue_resources
from vscheduler.core.fair_share.node_pools import NodePools
from vscheduler.core.memo import unschedulable_jobs
from vscheduler.core.memo.unschedulable_jobs import (
    ParkedGroup,
    ParkedGroups,
    Seen,
    UnschedulableJobs,
)
from vscheduler.core.model.decisions import GroupStatus, Reason
from vscheduler.core.model.jobs import JobId, Phase
from vscheduler.core.model.resources import ResourceSpace
from vscheduler.core.model.snapshot import Snapshot
from vscheduler.core.session.decided import JobReasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.job_states import JobStates


def of(memo: UnschedulableJobs, snapshot: Snapshot, policy: Policy, *, apart: bool) -> "Parking":
    """Return the jobs that stay parked in this cycle, of those that are known from the last one.

    `apart` says that no pod has a term about other pods: pods compete for resources only. A job
    whose admission expires is awake.
    """
    if not (policy.parks_jobs and _may_last(snapshot, apart=apart)):
        return Parking(is_on=False)
    if snapshot.now >= memo.found.due:
        dues = itertools.chain.from_iterable(group.due.items() for group in memo.found.groups)
        memo = memo.without({job for job, due in dues if snapshot.now >= due})
    return Parking(memo.found, memo.seen)


def _may_last(snapshot: Snapshot, *, apart: bool) -> bool:
    """Whether only resources keep pods from nodes, and nothing is reserved for single pods."""
    return apart and not (snapshot.carried.nominations or snapshot.nominated or snapshot.refused)


class Concluded(Protocol):
    """The running cycle at its end, as far as parking reads it."""

    snapshot: Snapshot
    policy: Policy
    job_states: JobStates
    reasons: JobReasons

    @property
    def pools(self) -> NodePools:
        """The nodes, by the queues and pods that could use them."""


class Parking:
    """The parked jobs of one cycle, and the jobs to park after it."""

    def __init__(
        self,
        found: ParkedGroups = unschedulable_jobs.NO_GROUPS,
        before: Seen | None = None,
        *,
        is_on: bool = True,
    ) -> None:
        """`before` is what the reasons of these groups depend on."""
        self.found = found
        """The groups that were parked as the cycle began."""
        self.before = before
        self.is_on = is_on
        self._rows = dict(found.rows)
        self.groups: Mapping[ParkedGroup, int] = self._rows
        """The groups that are still parked, with their rows in `found.members.requests`."""
        self.seen: Seen | None = None
        """What reasons in this cycle depend on; None until they are given."""
        self._explained: dict[ParkedGroup, ParkedGroup] = {}
        self._stale = set(found.stale)
        self.stale: Collection[ParkedGroup] = self._stale
        """The groups of which nothing is said: nobody has found out whether their reasons hold."""
        self._now: ParkedGroups | None = found
        """The answer of `now`, until anything changes."""
        self._woken: list[ParkedGroup] = []
        self._due: dict[JobId, float] = {}
        self._without_room: set[JobId] = set()
        self._candidates: dict[JobId, tuple[Hashable, Reason]] = {}

    def __bool__(self) -> bool:
        """Whether any job is parked."""
        return bool(self._rows)

    def wake(self, groups: Iterable[ParkedGroup]) -> list[ParkedGroup]:
        """Take groups out, and return them with the reasons that are right by now."""
        woken = []
        self._now = None
        for group in groups:
            del self._rows[group]
            woken.append(self._explained.pop(group, group))
        if self.seen is not None:
            self._woken += woken
        return woken

    def explain(self, group: ParkedGroup, reason: Reason) -> None:
        """Record the reason that a group has now, if that is another one than before."""
        self._now = None
        self._stale.discard(group)
        if reason != group.reason:
            self._explained[group] = group.explained(reason)

    def leave_stale(self, groups: Iterable[ParkedGroup]) -> None:
        """Say nothing of these groups in this cycle; the next cycle finds out their reasons."""
        self._now = None
        self._stale.update(groups)

    def expires(self, job: JobId, due: float) -> None:
        """Record when the admission of a job with minResources expires."""
        self._due[job] = due

    def note_without_room(self, states: Iterable[JobState]) -> None:
        """Record that no usable node has enough free resources for a pod of these jobs."""
        if self.is_on:
            self._without_room.update(state.job.id for state in states)

    def park(self, state: JobState, likeness: Hashable, reason: Reason) -> None:
        """Park a job after the cycle for the reason given now, if it is without room."""
        if state.job.id in self._without_room:
            self._candidates[state.job.id] = likeness, reason

    def now(self) -> ParkedGroups:
        """Return the groups that are still parked, with the reasons that are right by now."""
        if self._now is None:
            self._now = self._found_now()
        return self._now

    def _found_now(self) -> ParkedGroups:
        found, stale = self.found, self._stale
        if len(self._rows) < len(found.groups):
            groups = [self._explained.get(group, group) for group in self._rows]
            return ParkedGroups(groups, stale.intersection(groups))
        if not self._explained and stale == found.stale:
            return found
        every = list(found.groups)
        for group, explained in self._explained.items():
            every[self._rows[group]] = explained
        return ParkedGroups(every, stale, like=found)

    def uids(self) -> Collection[str]:
        """Return the UIDs of all jobs that are still parked."""
        if len(self._rows) == len(self.found.groups):
            return self.found.members.uids
        return {job.uid for group in self._rows for job in group.members.values()}

    def of_queues(self, names: Collection[str]) -> Mapping[str, Sequence[ParkedGroup]]:
        """Return the groups that are still parked of each of these queues that has any."""
        every = {name: self.found.by_queue[name] for name in self.found.by_queue if name in names}
        if len(self._rows) == len(self.found.groups):
            return every
        left = {
            name: [group for group in groups if group in self._rows]
            for name, groups in every.items()
        }
        return {name: groups for name, groups in left.items() if groups}

    def memo(self, session: Concluded, statuses: Iterable[GroupStatus]) -> UnschedulableJobs:
        """Return the jobs that the next cycles may leave out, by the reasons and statuses of this
        cycle.
        """
        if self.seen is None or session.pools.merged:
            return UnschedulableJobs()
        space = session.snapshot.space
        found = self._concluded(session.job_states, session.reasons.by_job, statuses, space)
        return UnschedulableJobs(seen=self.seen, found=found)

    def _concluded(
        self,
        states: JobStates,
        by_job: Mapping[JobId, Reason],
        statuses: Iterable[GroupStatus],
        space: ResourceSpace,
    ) -> ParkedGroups:
        """Return the groups to park after this cycle."""
        staying = self.now()
        if not (self._woken or self._candidates):
            return staying
        groups = list(staying.groups)
        for group in self._woken:
            left = group.only(
                {
                    job
                    for job in group.members
                    if by_job.get(job) is group.reason and _is_unchanged(states.known(job))
                }
            )
            groups += [] if left is None else [left]
        by_name = {status.job: status for status in statuses} if self._candidates else {}
        groups += [
            self._group(states[job], by_name[job], likeness, space)
            for job, (likeness, reason) in self._candidates.items()
            if by_job.get(job) is reason and job in by_name and self._may_park(states[job])
        ]
        found = merged(groups, staying.stale)
        return self.found if found.is_equal(self.found) else found

    def _may_park(self, state: JobState) -> bool:
        """Whether all that the job waits for is known to `UnschedulableJobs`.

        No pod of the job has started, or waits for anything but resources of nodes; and the job was
        promised no more than its pods request.
        """
        job = state.job
        if not _is_unchanged(state) or job.pending_best_effort:
            return False
        limits = job.tasks[0].pod_class.constraints
        if limits.ports or limits.volumes or limits.resource_claims:
            return False
        if job.min_resources is None:
            return True
        return job.id in self._due and not any(inqueue_resources.missing_pods(state).values())

    def _group(
        self,
        state: JobState,
        status: GroupStatus,
        likeness: Hashable,
        space: ResourceSpace,
    ) -> ParkedGroup:
        """Return a group of one job."""
        job, reason = state.job, status.reason
        assert reason is not None, "a parked job waits for a reason"
        return ParkedGroup(
            likeness=likeness,
            request=space.vector(job.tasks[0].pod_class.request),
            reason=reason,
            members={job.id: job},
            statuses={job.id: status},
            due={} if job.min_resources is None else {job.id: self._due[job.id]},
        )


def _is_unchanged(state: JobState | None) -> bool:
    """Whether the job is still admitted, and none of its tasks has moved."""
    return state is None or (state.untouched and state.phase is Phase.INQUEUE)


def merged(groups: Iterable[ParkedGroup], stale: Collection[ParkedGroup]) -> ParkedGroups:
    """Return groups with all jobs that are alike in one group each.

    Of jobs that are alike, but wait for different reasons, the first ones are parked.
    """
    found: dict[Hashable, list[ParkedGroup]] = {}
    for group in groups:
        alike = found.setdefault(group.likeness, [])
        if not alike or alike[0].reason == group.reason:
            alike.append(group)
    joined = {unschedulable_jobs.joined(alike): alike[0] for alike in found.values()}
    return ParkedGroups(joined, {group for group, first in joined.items() if first in stale})
