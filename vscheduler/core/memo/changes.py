"""Changes: the last snapshot compared with this one, once per cycle, for all memos.

From one snapshot to the next few jobs change, and a job that has changed is another object. So jobs
are compared by identity, and only those in blocks that the two snapshots don't share.
"""

import bisect
import itertools
import operator
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias

import msgspec

from vscheduler.core.config.policy import Policy
from vscheduler.model.devices import DeviceInventory
from vscheduler.model.jobs import Job, JobId
from vscheduler.model.jobs_by_id import JobsById, of_job
from vscheduler.model.nodes import NodeLayout
from vscheduler.model.queues import Queue
from vscheduler.model.resources import ResourceSpace, Vector
from vscheduler.model.snapshot import Snapshot
from vscheduler.model.storage import Storage

Jobs: TypeAlias = Sequence[Job]


class Part(Enum):
    """A part of a cycle's input that memos rest on, besides the jobs that they are about."""

    POLICY = auto()
    NODES = auto()
    """Everything about nodes but the pods on them."""
    QUEUES = auto()
    STORAGE = auto()
    """Claims, volumes and storage classes, but not who uses them."""
    DEVICES = auto()
    """The same of devices and their claims."""


class Basis(msgspec.Struct, frozen=True, eq=False):
    """What a cycle has seen."""

    policy: Policy
    space: ResourceSpace
    layout: NodeLayout
    allocatable: Vector
    """The array of the snapshot; replaced whenever a node changes in anything except its pods."""
    queues: Mapping[str, Queue]
    storage: Storage
    devices: DeviceInventory
    jobs: JobsById

    @classmethod
    def of(cls, snapshot: Snapshot, policy: Policy) -> "Basis":
        """Return what a cycle of this policy sees in a snapshot."""
        return cls(
            policy,
            snapshot.space,
            snapshot.nodes.layout,
            snapshot.nodes.allocatable,
            snapshot.queues,
            snapshot.storage,
            snapshot.devices,
            snapshot.jobs,
        )


class Changes(msgspec.Struct, frozen=True, eq=False):
    """What differs between two cycles. Without any, nothing but time and usage does."""

    parts: frozenset[Part]
    gone: Jobs
    """The jobs that are gone, by ID; a job that has changed is among those that have come, too."""
    come: Jobs


def between(before: Basis, now: Basis) -> Changes:
    """Return what differs between two cycles: values by identity, queues by equality."""
    is_same = {
        Part.POLICY: before.policy is now.policy,
        Part.NODES: before.space is now.space
        and before.layout is now.layout
        and before.allocatable is now.allocatable,
        Part.QUEUES: before.queues == now.queues,
        Part.STORAGE: before.storage.has_same_objects(now.storage),
        Part.DEVICES: before.devices.has_same_objects(now.devices),
    }
    parts = frozenset(part for part, is_so in is_same.items() if not is_so)
    return Changes(parts, *of_jobs(before.jobs, now.jobs))


def of_jobs(before: JobsById, now: JobsById) -> tuple[Jobs, Jobs]:
    """Return the jobs that are gone and those that have come, by ID, however many these are."""
    was, is_now = before.not_shared(now), now.not_shared(before)
    return without(was, _by_id(is_now)), without(is_now, _by_id(was))


def followed(jobs: Jobs, found: Changes) -> Jobs:
    """Return jobs by ID without those that are gone, and with those that have come."""
    if not (found.gone or found.come):
        return jobs
    names = {job.id for job in found.gone}
    left = (job for job in jobs if job.id not in names)
    return sorted(itertools.chain(left, found.come), key=of_job)


def place_of(job: Job, every: Jobs) -> int | None:
    """Return the place of this very object among jobs by ID."""
    place = bisect.bisect_left(every, job.id, key=of_job)
    return place if place < len(every) and every[place] is job else None


def _by_id(every: Jobs) -> Mapping[JobId, Job]:
    return dict(zip(map(of_job, every), every, strict=True))


def without(every: Jobs, others: Mapping[JobId, Job]) -> Jobs:
    """Return the jobs that aren't the same objects as any of the others."""
    theirs = map(others.get, map(of_job, every))
    return list(itertools.compress(every, map(operator.is_not, theirs, every)))
