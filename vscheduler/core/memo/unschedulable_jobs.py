"""UnschedulableJobs: jobs without room, with what they wait for, from one cycle to the next.

Jobs made from one template wait for the same, and are kept as one group.
"""

import itertools
import math
import operator
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import msgspec
import numpy as np

from vscheduler.core.memo.changes import Changes, Part
from vscheduler.core.shares import inqueue_resources
from vscheduler.core.shares.demands import CountedPod, CountedPods, Pair
from vscheduler.model import computed, resources
from vscheduler.model.decisions import GroupStatus, Reason, ReasonCode
from vscheduler.model.jobs import Job, JobId
from vscheduler.model.resources import ResourceMap, Vector

Statuses: TypeAlias = Mapping[JobId, GroupStatus]

NO_ROOM = ReasonCode.NO_ROOM


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnschedulableGroup:
    """Unschedulable jobs made from one template, which all wait for the same reason."""

    class_key: Hashable
    """What the jobs have in common (session.job_class)."""
    request: Vector
    """The request of each pod, (R,)."""
    reason: Reason
    members: Mapping[JobId, Job]
    """The jobs, in order of IDs."""
    statuses: Statuses
    due: Mapping[JobId, float]
    """When the admission of each job with minResources expires."""
    first: Job = field(init=False, repr=False)
    """The first job."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", next(iter(self.members.values())))

    def only(self, staying: Collection[JobId]) -> "UnschedulableGroup | None":
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

    def with_reason(self, reason: Reason) -> "UnschedulableGroup":
        """Return the group with another reason, and with statuses that give this reason."""
        return UnschedulableGroup(
            class_key=self.class_key,
            request=self.request,
            reason=reason,
            members=self.members,
            statuses={job: _with_reason(each, reason) for job, each in self.statuses.items()},
            due=self.due,
        )


OTHER_FIELDS = tuple(name for name in GroupStatus.__struct_fields__ if name != "reason")
_other_values = operator.attrgetter(*OTHER_FIELDS)


def _with_reason(status: GroupStatus, reason: Reason) -> GroupStatus:
    """Return the status with another reason: `replace`, which is slow, for thousands."""
    others = dict(zip(OTHER_FIELDS, _other_values(status), strict=True))
    return GroupStatus(reason=reason, **others)


def joined(groups: Sequence[UnschedulableGroup]) -> UnschedulableGroup:
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


class GroupMembers:
    """The jobs of groups, with what follows from them whatever their reasons are."""

    def __init__(self, groups: Sequence[UnschedulableGroup]) -> None:
        self._groups = groups
        self.jobs: Mapping[JobId, Job] = dict(
            itertools.chain.from_iterable(group.members.items() for group in groups)
        )
        dues = itertools.chain.from_iterable(group.due.values() for group in groups)
        self.due = min(dues, default=math.inf)
        """When the first admission expires; infinite without any."""

    @computed.once
    def uids(self) -> Collection[str]:
        """The UIDs of all jobs."""
        return {job.uid for job in self.jobs.values()}

    @computed.once
    def requests(self) -> Vector:
        """The request of a pod of each group, (G, R)."""
        return np.array([group.request for group in self._groups], dtype=np.int64)

    @computed.once
    def counted(self) -> CountedPods:
        """What the jobs request, and what was promised to them."""
        pods: dict[Pair, CountedPod] = {}
        queues: dict[str, JobId] = {}
        promised: dict[str, ResourceMap] = {}
        for group in self._groups:
            first = group.first
            pair = first.queue, first.tasks[0].pod_class
            number = len(first.tasks) * len(group.members)
            known = pods.get(pair) or CountedPod(first.id, 0, *pair, 0, 0)
            pods[pair] = known._replace(pending=known.pending + number)
            queues.setdefault(first.queue, first.id)
            for job in group.due:
                more = inqueue_resources.outstanding_of(group.members[job])
                promised[first.queue] = resources.add(promised.get(first.queue, {}), more)
        return CountedPods(pods=pods, queues=queues, promised=promised)


class UnschedulableGroups:
    """Groups in order of their first jobs, with what follows from them; kept while none changes."""

    def __init__(
        self,
        groups: Iterable[UnschedulableGroup] = (),
        unchecked: Collection[UnschedulableGroup] = frozenset(),
        like: "UnschedulableGroups | None" = None,
    ) -> None:
        """`like` are the same jobs in groups of the same order, for other reasons."""
        if like is None:
            groups = sorted(groups, key=lambda group: group.first.id)
        self.groups = tuple(groups)
        self.members: GroupMembers = GroupMembers(self.groups) if like is None else like.members
        self.unchecked = frozenset(unchecked)
        """Groups for which the budget was too small to tell whether their reasons are right."""
        self.jobs, self.due = self.members.jobs, self.members.due

    @computed.once
    def rows(self) -> Mapping[UnschedulableGroup, int]:
        """The groups with their rows in `members.requests`."""
        return {group: row for row, group in enumerate(self.groups)}

    @computed.once
    def statuses(self) -> Sequence[GroupStatus]:
        """The statuses of all jobs, by job, without unchecked ones."""
        told = (group.statuses.values() for group in self._told)
        return sorted(itertools.chain.from_iterable(told), key=operator.attrgetter("job"))

    @computed.once
    def first_without_room(self) -> Mapping[str, JobId]:
        """By queue, the first job whose status says that it lacks room."""
        found: dict[str, JobId] = {}
        for group in self._told:
            first = group.first
            if group.reason.code is NO_ROOM and first.queue not in found:
                found[first.queue] = first.id
        return found

    @property
    def _told(self) -> Sequence[UnschedulableGroup]:
        """The groups without unchecked ones."""
        unchecked = self.unchecked
        return (
            [group for group in self.groups if group not in unchecked] if unchecked else self.groups
        )

    @computed.once
    def by_queue(self) -> Mapping[str, Sequence[UnschedulableGroup]]:
        """The groups of each queue."""
        found: dict[str, list[UnschedulableGroup]] = {}
        for group in self.groups:
            found.setdefault(group.first.queue, []).append(group)
        return found

    def is_equal(self, to: "UnschedulableGroups") -> bool:
        """Whether these are the same groups, with the same ones unchecked."""
        return self.groups == to.groups and self.unchecked == to.unchecked

    def only(self, staying: Collection[JobId]) -> "UnschedulableGroups":
        """Return these jobs only."""
        left = {group: group.only(staying) for group in self.groups}
        unchecked = {
            each for group, each in left.items() if each is not None and group in self.unchecked
        }
        return UnschedulableGroups(filter(None, left.values()), unchecked)


NO_GROUPS = UnschedulableGroups()


class Seen(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What was free, and what plugins looked at, when the reasons of these jobs were right."""

    free: Vector
    """What each node had free after pending releases, (N, R)."""
    fingerprints: Mapping[str, Hashable]
    """By queue, what answers of plugins about its limits depend on."""
    answers: Mapping[JobId, Hashable]
    """By the first job of each group, answers of plugins that don't declare what they depend on."""


class UnschedulableJobs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All unschedulable jobs, and what they wait for. Without influence on decisions."""

    rests_on: ClassVar[frozenset[Part]] = frozenset({Part.POLICY, Part.NODES, Part.QUEUES})
    """They wait for the same nodes, by the same rules."""
    seen: Seen | None = None
    """None if no job is unschedulable."""
    found: UnschedulableGroups = NO_GROUPS

    def after(self, changes: Changes) -> "UnschedulableJobs":
        """Return the jobs that are still there, and the same."""
        gone = {job.id for job in changes.gone if self.found.jobs.get(job.id) is job}
        return self.without(gone)

    def without(self, jobs: Collection[JobId]) -> "UnschedulableJobs":
        """Return all but these jobs."""
        if not jobs:
            return self
        left = self.found.jobs.keys() - jobs
        return UnschedulableJobs(seen=self.seen, found=self.found.only(left))
