"""The unschedulable jobs, which cycles leave out until something changes that could help.

A job is unschedulable after a cycle in which no usable node had enough free resources for its pods.
The next cycles keep its reason and status, and neither sort the job nor ask plugins about it. It is
active again once more is free on a node on which its pods would then fit, and whenever anything
else changes that its wait depends on (kube-scheduler: unschedulablePods and queueing hints).

All that a wait depends on is named: nodes, queues, settings and the job itself by core.memo, and in
`_may_last` what mustn't be there at all. What is free, and what the queue has, is compared by
`placement.queueing_hints` once plugins are open.
"""

import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from vscheduler.core.config.policy import Policy
from vscheduler.core.memo import unschedulable_jobs
from vscheduler.core.memo.unschedulable_jobs import (
    Seen,
    UnschedulableGroup,
    UnschedulableGroups,
    UnschedulableJobs,
)
from vscheduler.core.session.decided import JobReasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.job_states import JobStates
from vscheduler.core.shares import inqueue_resources
from vscheduler.core.shares.node_pools import NodePools
from vscheduler.model.decisions import GroupStatus, Reason
from vscheduler.model.jobs import JobId, Phase
from vscheduler.model.resources import ResourceSpace
from vscheduler.model.snapshot import Snapshot


def of(
    memo: UnschedulableJobs, snapshot: Snapshot, policy: Policy, *, apart: bool
) -> "UnschedulablePool":
    """Return the jobs of the last cycle that stay unschedulable in this one.

    `apart` says that no pod has a term about other pods: pods compete for resources only. A job
    whose admission expires is active.
    """
    if not (policy.skips_unschedulable and _may_last(snapshot, apart=apart)):
        return UnschedulablePool(is_on=False)
    if snapshot.now >= memo.found.due:
        dues = itertools.chain.from_iterable(group.due.items() for group in memo.found.groups)
        memo = memo.without({job for job, due in dues if snapshot.now >= due})
    return UnschedulablePool(memo.found, memo.seen)


def _may_last(snapshot: Snapshot, *, apart: bool) -> bool:
    """Whether only resources keep pods from nodes, and nothing is reserved for single pods."""
    return apart and not (snapshot.carried.nominations or snapshot.nominated or snapshot.refused)


class Concluded(Protocol):
    """The running cycle at its end, as far as pool reads it."""

    snapshot: Snapshot
    policy: Policy
    job_states: JobStates
    reasons: JobReasons

    @property
    def pools(self) -> NodePools:
        """The nodes, by the queues and pods that could use them."""


class UnschedulablePool:
    """The unschedulable jobs of one cycle, and the jobs to add after it."""

    def __init__(
        self,
        found: UnschedulableGroups = unschedulable_jobs.NO_GROUPS,
        before: Seen | None = None,
        *,
        is_on: bool = True,
    ) -> None:
        """`before` is what the reasons of these groups depend on."""
        self.found = found
        """The groups that were unschedulable as the cycle began."""
        self.before = before
        self.is_on = is_on
        self._rows = dict(found.rows)
        self.groups: Mapping[UnschedulableGroup, int] = self._rows
        """The groups that are still unschedulable, with their rows in `found.members.requests`."""
        self.seen: Seen | None = None
        """What reasons in this cycle depend on; None until they are given."""
        self._explained: dict[UnschedulableGroup, UnschedulableGroup] = {}
        self._unchecked = set(found.unchecked)
        self.unchecked: Collection[UnschedulableGroup] = self._unchecked
        """The groups of which nothing is said: nobody has found out whether their reasons hold."""
        self._now: UnschedulableGroups | None = found
        """The answer of `now`, until anything changes."""
        self._activated: list[UnschedulableGroup] = []
        self._due: dict[JobId, float] = {}
        self._without_room: set[JobId] = set()
        self._candidates: dict[JobId, tuple[Hashable, Reason]] = {}

    def __bool__(self) -> bool:
        """Whether any job is unschedulable."""
        return bool(self._rows)

    def activate(self, groups: Iterable[UnschedulableGroup]) -> list[UnschedulableGroup]:
        """Take groups out, and return them with the reasons that are right by now."""
        activated = []
        self._now = None
        for group in groups:
            del self._rows[group]
            activated.append(self._explained.pop(group, group))
        if self.seen is not None:
            self._activated += activated
        return activated

    def set_reason(self, group: UnschedulableGroup, reason: Reason) -> None:
        """Record the reason that a group has now, if that is another one than before."""
        self._now = None
        self._unchecked.discard(group)
        if reason != group.reason:
            self._explained[group] = group.with_reason(reason)

    def leave_unchecked(self, groups: Iterable[UnschedulableGroup]) -> None:
        """Say nothing of these groups in this cycle; the next cycle finds out their reasons."""
        self._now = None
        self._unchecked.update(groups)

    def expires(self, job: JobId, due: float) -> None:
        """Record when the admission of a job with minResources expires."""
        self._due[job] = due

    def note_without_room(self, states: Iterable[JobState]) -> None:
        """Record that no usable node has enough free resources for a pod of these jobs."""
        if self.is_on:
            self._without_room.update(state.job.id for state in states)

    def add(self, state: JobState, class_key: Hashable, reason: Reason) -> None:
        """Add a job after the cycle for the reason given now, if it is without room."""
        if state.job.id in self._without_room:
            self._candidates[state.job.id] = class_key, reason

    def first_jobs(self) -> Iterable[JobId]:
        """Return the first job of each group that stays, and the jobs that may be added."""
        return *(group.first.id for group in self._rows), *self._candidates

    def now(self) -> UnschedulableGroups:
        """Return the groups that are still unschedulable, with reasons that are right by now."""
        if self._now is None:
            self._now = self._found_now()
        return self._now

    def _found_now(self) -> UnschedulableGroups:
        found, unchecked = self.found, self._unchecked
        if len(self._rows) < len(found.groups):
            groups = [self._explained.get(group, group) for group in self._rows]
            return UnschedulableGroups(groups, unchecked.intersection(groups))
        if not self._explained and unchecked == found.unchecked:
            return found
        every = list(found.groups)
        for group, explained in self._explained.items():
            every[self._rows[group]] = explained
        return UnschedulableGroups(every, unchecked, like=found)

    def uids(self) -> Collection[str]:
        """Return the UIDs of all jobs that are still unschedulable."""
        if len(self._rows) == len(self.found.groups):
            return self.found.members.uids
        return {job.uid for group in self._rows for job in group.members.values()}

    def of_queues(self, names: Collection[str]) -> Mapping[str, Sequence[UnschedulableGroup]]:
        """Return the groups that are still unschedulable of each of these queues that has any."""
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
    ) -> UnschedulableGroups:
        """Return the groups to add after this cycle."""
        staying = self.now()
        if not (self._activated or self._candidates):
            return staying
        groups = list(staying.groups)
        for group in self._activated:
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
            self._group(states[job], by_name[job], class_key, space)
            for job, (class_key, reason) in self._candidates.items()
            if by_job.get(job) is reason and job in by_name and self._may_add(states[job])
        ]
        found = merged(groups, staying.unchecked)
        return self.found if found.is_equal(self.found) else found

    def _may_add(self, state: JobState) -> bool:
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
        class_key: Hashable,
        space: ResourceSpace,
    ) -> UnschedulableGroup:
        """Return a group of one job."""
        job, reason = state.job, status.reason
        assert reason is not None, "an unschedulable job waits for a reason"
        return UnschedulableGroup(
            class_key=class_key,
            request=space.vector(job.tasks[0].pod_class.request),
            reason=reason,
            members={job.id: job},
            statuses={job.id: status},
            due={} if job.min_resources is None else {job.id: self._due[job.id]},
        )


def _is_unchanged(state: JobState | None) -> bool:
    """Whether the job is still admitted, and none of its tasks has moved."""
    return state is None or (state.untouched and state.phase is Phase.INQUEUE)


def merged(
    groups: Iterable[UnschedulableGroup], unchecked: Collection[UnschedulableGroup]
) -> UnschedulableGroups:
    """Return groups with all jobs that are alike in one group each.

    Of jobs that are alike, but wait for different reasons, the first ones are unschedulable.
    """
    found: dict[Hashable, list[UnschedulableGroup]] = {}
    for group in groups:
        alike = found.setdefault(group.class_key, [])
        if not alike or alike[0].reason == group.reason:
            alike.append(group)
    joined = {unschedulable_jobs.joined(alike): alike[0] for alike in found.values()}
    return UnschedulableGroups(
        joined, {group for group, first in joined.items() if first in unchecked}
    )
