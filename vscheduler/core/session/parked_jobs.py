"""Parked jobs: jobs without room that cycles leave out until something changes that could help.

A job is parked after a cycle in which no usable node had enough free resources for its pods. The
next cycles keep its reason and status, and neither sort the job nor ask plugins about it. It is
awake again once more is free on a node on which its pods would then fit, and whenever anything else
changes that its wait depends on (kube-scheduler: unschedulablePods and queueing hints).

All that a wait depends on is named here: nodes, queues and settings in `ParkedJobs`, the job itself
by identity in `divide`, and in `_may_last` what mustn't be there at all. What is free, and what the
queue has, is compared by `placement.parked_jobs` once plugins are open.
"""

import itertools
import math
import operator
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vscheduler.core.config import policy as policies
from vscheduler.core.fair_share import demands, inqueue_resources, node_pools
from vscheduler.core.model import decisions, jobs, nodes, queues, resources, snapshot
from vscheduler.core.session import job_state, job_states


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParkedGroup:
    """Parked jobs made from one template, which all wait for the same reason."""

    likeness: Hashable
    """What the jobs have in common (session.job_likeness)."""
    request: resources.Vector
    """The request of each pod, (R,)."""
    reason: decisions.Reason
    members: Mapping[jobs.JobId, jobs.Job]
    """The jobs, in order of IDs."""
    statuses: Mapping[jobs.JobId, decisions.GroupStatus]
    due: Mapping[jobs.JobId, float]
    """When the admission of each job with minResources expires."""
    is_stale: bool = False
    """Whether the budget was too small to tell whether the reason is still right."""

    @property
    def first(self) -> jobs.Job:
        """The first job."""
        return next(iter(self.members.values()))

    def only(self, staying: Collection[jobs.JobId]) -> "ParkedGroup | None":
        """Return the group with these jobs only; None if none of them is left."""
        if all(map(staying.__contains__, self.members)):
            return self
        left = {job: each for job, each in self.members.items() if job in staying}
        if not left:
            return None
        return replace(
            self,
            members=left,
            statuses={job: self.statuses[job] for job in left},
            due={job: due for job, due in self.due.items() if job in left},
        )

    def explained(self, reason: decisions.Reason) -> "ParkedGroup":
        """Return the group with another reason, and with statuses that give this reason."""
        statuses = {job: replace(status, reason=reason) for job, status in self.statuses.items()}
        return replace(self, reason=reason, statuses=statuses, is_stale=False)


class ParkedGroups:
    """Groups in order of their first jobs, with what follows from them; kept while none changes."""

    def __init__(self, groups: Iterable[ParkedGroup] = ()) -> None:
        self.groups = tuple(sorted(groups, key=lambda group: group.first.id))
        self.jobs: Mapping[jobs.JobId, jobs.Job] = dict(
            itertools.chain.from_iterable(group.members.items() for group in self.groups)
        )
        dues = itertools.chain.from_iterable(group.due.values() for group in self.groups)
        self.due = min(dues, default=math.inf)
        """When the first admission expires; infinite without any."""

    @cached_property
    def statuses(self) -> Sequence[decisions.GroupStatus]:
        """The statuses of all jobs, by job, without stale ones."""
        return _statuses(self.groups)

    @cached_property
    def uids(self) -> Collection[str]:
        """The UIDs of all jobs."""
        return {job.uid for job in self.jobs.values()}

    @cached_property
    def by_queue(self) -> Mapping[str, Sequence[ParkedGroup]]:
        """The groups of each queue."""
        found: dict[str, list[ParkedGroup]] = {}
        for group in self.groups:
            found.setdefault(group.first.queue, []).append(group)
        return found

    @cached_property
    def requests(self) -> resources.Vector:
        """The request of a pod of each group, (G, R)."""
        return np.array([group.request for group in self.groups], dtype=np.int64)

    @cached_property
    def counted(self) -> demands.CountedPods:
        """What the jobs request, and what was promised to them."""
        pods: dict[demands.Pair, demands.PendingPods] = {}
        promised: dict[str, resources.ResourceMap] = {}
        for group in self.groups:
            first = group.first
            pair = first.queue, first.tasks[0].pod_class
            number = len(first.tasks) * len(group.members)
            known = pods.get(pair) or demands.PendingPods(first.id, *pair, 0)
            pods[pair] = known._replace(number=known.number + number)
            for job in group.due:
                more = inqueue_resources.outstanding(job_state.JobState(group.members[job]))
                promised[first.queue] = resources.add(promised.get(first.queue, {}), more)
        return demands.CountedPods(pods=tuple(pods.values()), promised=promised)

    def only(self, staying: Collection[jobs.JobId]) -> "ParkedGroups":
        """Return these jobs only."""
        return ParkedGroups(filter(None, (group.only(staying) for group in self.groups)))


NO_GROUPS = ParkedGroups()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """What was free, and what plugins looked at, when the reasons of parked jobs were right."""

    free: resources.Vector
    """What each node had free after pending releases, (N, R)."""
    outlooks: Mapping[str, Hashable]
    """By queue, the answers of plugins to `queue_outlook`."""
    domains: Mapping[demands.Pair, node_pools.Domain]
    """The nodes that pods could use if these were empty; only pods without volumes and
    claims."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParkedJobs:
    """All parked jobs, and what they wait for. Without influence on decisions."""

    policy: policies.Policy
    space: resources.ResourceSpace
    layout: nodes.NodeLayout
    allocatable: resources.Vector
    """The array of the snapshot; replaced whenever a node changes in anything except its pods."""
    queues: Mapping[str, queues.Queue]
    seen: Seen
    found: ParkedGroups

    def holds(self, taken: snapshot.Snapshot, policy: policies.Policy) -> bool:
        """Whether the jobs still wait for the same nodes, by the same rules."""
        return (
            self.policy is policy
            and self.space is taken.space
            and self.layout is taken.nodes.layout
            and self.allocatable is taken.nodes.allocatable
            and self.queues == taken.queues
        )


def divide(
    taken: snapshot.Snapshot, policy: policies.Policy, *, apart: bool
) -> tuple[Sequence[jobs.Job], "Parking"]:
    """Return the jobs that are awake in this cycle, and those that stay parked.

    `apart` says that no pod has a term about other pods: pods compete for resources only. A job
    that has changed is another object. A job whose admission expires is awake.
    """
    if not (policy.parks_jobs and _may_last(taken, apart=apart)):
        return taken.jobs, Parking(is_on=False)
    known = taken.carried.parked
    if not isinstance(known, ParkedJobs) or not known.holds(taken, policy):
        return taken.jobs, Parking()
    parked = known.found.jobs
    awake = [job for job in taken.jobs if parked.get(job.id) is not job]
    if len(awake) + len(parked) == len(taken.jobs) and taken.now < known.found.due:
        return awake, Parking(known.found, known.seen)
    dues = itertools.chain.from_iterable(group.due.items() for group in known.found.groups)
    late = {job for job, due in dues if taken.now >= due}
    staying = {job.id for job in taken.jobs if parked.get(job.id) is job} - late
    awake = [job for job in taken.jobs if job.id not in staying]
    return awake, Parking(known.found.only(staying), known.seen)


def _may_last(taken: snapshot.Snapshot, *, apart: bool) -> bool:
    """Whether only resources keep pods from nodes, and nothing is reserved for single pods."""
    return apart and not (taken.carried.nominations or taken.nominated or taken.refused)


class Parking:
    """The parked jobs of one cycle, and the jobs to park after it."""

    def __init__(
        self, found: ParkedGroups = NO_GROUPS, before: Seen | None = None, *, is_on: bool = True
    ) -> None:
        """`before` is what the reasons of these groups depend on."""
        self.found = found
        """The groups that were parked as the cycle began."""
        self.before = before
        self.is_on = is_on
        self._rows = {group: row for row, group in enumerate(found.groups)}
        self.groups: Mapping[ParkedGroup, int] = self._rows
        """The groups that are still parked, with their rows in `found.requests`."""
        self.seen: Seen | None = None
        """What reasons in this cycle depend on; None until they are given."""
        self._explained: dict[ParkedGroup, ParkedGroup] = {}
        self._woken: list[ParkedGroup] = []
        self._excluded: set[jobs.JobId] = set()
        self._due: dict[jobs.JobId, float] = {}
        self._without_room: set[jobs.JobId] = set()
        self._candidates: dict[jobs.JobId, tuple[Hashable, decisions.Reason]] = {}

    def __bool__(self) -> bool:
        """Whether any job is parked."""
        return bool(self._rows)

    def wake(self, groups: Iterable[ParkedGroup]) -> list[ParkedGroup]:
        """Take groups out, and return them with the reasons that are right by now."""
        woken = []
        for group in groups:
            del self._rows[group]
            woken.append(self._explained.pop(group, group))
        if self.seen is not None:
            self._woken += woken
        return woken

    def explain(self, group: ParkedGroup, reason: decisions.Reason) -> None:
        """Record the reason that a group has now, if that is another one than before."""
        if reason != group.reason:
            self._explained[group] = group.explained(reason)
        elif group.is_stale:
            self._explained[group] = replace(group, is_stale=False)

    def leave_stale(self, group: ParkedGroup) -> None:
        """Say nothing of a group in this cycle; the next cycle finds out its reason."""
        if not group.is_stale:
            self._explained[group] = replace(group, is_stale=True)

    def exclude(self, job: jobs.JobId) -> None:
        """Don't park this job after the cycle, since its admission isn't settled."""
        self._excluded.add(job)

    def expires(self, job: jobs.JobId, due: float) -> None:
        """Record when the admission of a job with minResources expires."""
        self._due[job] = due

    def note_without_room(self, states: Iterable[job_state.JobState]) -> None:
        """Record that no usable node has enough free resources for a pod of these jobs."""
        if self.is_on:
            self._without_room.update(state.job.id for state in states)

    def park(self, state: job_state.JobState, likeness: Hashable, reason: decisions.Reason) -> None:
        """Park a job after the cycle for the reason given now, if it is without room."""
        if state.job.id in self._without_room and state.job.id not in self._excluded:
            self._candidates[state.job.id] = likeness, reason

    def statuses(self) -> Sequence[decisions.GroupStatus]:
        """Return the statuses of all jobs that are still parked, by job."""
        if len(self._rows) == len(self.found.groups) and not self._explained:
            return self.found.statuses
        return _statuses(self._explained.get(group, group) for group in self._rows)

    def uids(self) -> Collection[str]:
        """Return the UIDs of all jobs that are still parked."""
        if len(self._rows) == len(self.found.groups):
            return self.found.uids
        return {job.uid for group in self._rows for job in group.members.values()}

    def of_queues(self, names: Collection[str]) -> Mapping[str, Sequence[ParkedGroup]]:
        """Return the groups that are still parked of each of these queues that has any."""
        every = {name: self.found.by_queue[name] for name in self.found.by_queue if name in names}
        if len(self._rows) == len(self.found.groups):
            return every
        left = {
            name: [each for each in groups if each in self._rows] for name, groups in every.items()
        }
        return {name: groups for name, groups in left.items() if groups}

    def concluded(
        self,
        states: job_states.JobStates,
        by_job: Mapping[jobs.JobId, decisions.Reason],
        groups: Iterable[decisions.GroupStatus],
        space: resources.ResourceSpace,
    ) -> ParkedGroups:
        """Return the groups to park after this cycle, by its reasons and statuses."""
        staying = [self._explained.get(group, group) for group in self._rows]
        for group in self._woken:
            left = group.only(
                {
                    job
                    for job in group.members
                    if by_job.get(job) is group.reason and _is_unchanged(states.known(job))
                }
            )
            staying += [] if left is None else [left]
        if self._candidates:
            statuses = {status.job: status for status in groups}
            found = [
                self._group(states[job], statuses[job], likeness, space)
                for job, (likeness, reason) in self._candidates.items()
                if by_job.get(job) is reason and job in statuses and self._may_park(states[job])
            ]
            staying = _merged([*staying, *found])
        if len(staying) == len(self.found.groups) and self._rows.keys() >= set(staying):
            return self.found
        return ParkedGroups(staying)

    def _may_park(self, state: job_state.JobState) -> bool:
        """Whether all that the job waits for is known to `ParkedJobs`.

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
        state: job_state.JobState,
        status: decisions.GroupStatus,
        likeness: Hashable,
        space: resources.ResourceSpace,
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


def _statuses(groups: Iterable[ParkedGroup]) -> Sequence[decisions.GroupStatus]:
    """Return the statuses of all jobs of these groups, by job, without stale ones."""
    told = (group.statuses.values() for group in groups if not group.is_stale)
    return sorted(itertools.chain.from_iterable(told), key=operator.attrgetter("job"))


def _is_unchanged(state: job_state.JobState | None) -> bool:
    """Whether the job is still admitted, and none of its tasks has moved."""
    return state is None or (state.untouched and state.phase is jobs.Phase.INQUEUE)


def _merged(groups: Iterable[ParkedGroup]) -> list[ParkedGroup]:
    """Return groups with all jobs that are alike in one group each.

    Of jobs that are alike, but wait for different reasons, the first ones are parked.
    """
    found: dict[Hashable, list[ParkedGroup]] = {}
    for group in groups:
        alike = found.setdefault(group.likeness, [])
        if not alike or alike[0].reason == group.reason:
            alike.append(group)
    return [_joined(alike) for alike in found.values()]


def _joined(groups: Sequence[ParkedGroup]) -> ParkedGroup:
    """Return one group of all jobs of these groups, which are alike and wait for equal reasons."""
    if len(groups) == 1:
        return groups[0]
    every = {job: each for group in groups for job, each in group.members.items()}
    return replace(
        groups[0],
        members={job: every[job] for job in sorted(every)},
        statuses={job: each for group in groups for job, each in group.statuses.items()},
        due={job: due for group in groups for job, due in group.due.items()},
    )
