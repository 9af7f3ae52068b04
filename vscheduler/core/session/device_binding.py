"""Device binding: which resource claims pods that wait have allocated, and what is given back.

What belongs to this scheduler needs no note of its own: a claim whose consumers are all waiting
pods of ours was reserved by this scheduler, before a restart as well. Pods that don't exist any
more are removed from claims by Kubernetes' own controller, which takes back the devices of the last
one.
Kubernetes: the plugin DynamicResources of kube-scheduler, which does this pod by pod.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from vscheduler.core.model import devices
from vscheduler.core.model.device_decisions import (
    AllocateClaims,
    ClaimAllocation,
    DeallocateClaim,
    DeviceWait,
)
from vscheduler.core.model.devices import DeviceId, ResourceClaim
from vscheduler.core.model.jobs import Job, JobId, Task, TaskStatus
from vscheduler.core.model.snapshot import Snapshot
from vscheduler.core.session.decided import Decided
from vscheduler.core.session.held_pods import Held
from vscheduler.core.session.interfaces import Devices


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle has decided about resource claims."""

    allocations: tuple[AllocateClaims, ...] = ()
    deallocations: tuple[DeallocateClaim, ...] = ()
    waits: Mapping[JobId, DeviceWait] = msgspec.field(default_factory=dict)
    """How far the claims are, of jobs with pods that wait for devices."""


NOTHING = Conclusion()


class DeviceBinding:
    """What is allocated in this cycle, and what is given back."""

    def __init__(self, snapshot: Snapshot, state: Devices) -> None:
        self._taken, self._state = snapshot, state
        self._claims, self._allocated = snapshot.devices.claims, snapshot.devices.allocated
        self._refused = snapshot.carried.reported.refused_allocations

    def unallocated(self, task: Task, row: int) -> tuple[ClaimAllocation, ...]:
        """Return what the task's claims lack before the task may start on this node."""
        if not task.pod_class.constraints.resource_claims or not self._state.allocates:
            return ()
        return self._state.unallocated(task, row)

    def unconfirmed(self, task: Task) -> Iterator[str]:
        """Iterate over the task's claims that can't be used yet, whatever is decided about them.

        A claim is being written, or somebody else has allocated one of its devices as well.
        """
        for use in task.pod_class.constraints.resource_claims:
            claim = self._claims.get(use.claim)
            if claim is not None and (claim.writing or self._is_contested(claim)):
                yield claim.key

    def lacks_choice(self, task: Task) -> bool:
        """Whether a claim isn't allocated, although no devices are chosen for the placed task."""
        return bool(task.pod_class.constraints.resource_claims) and self._state.lacks_choice(task)

    def conclude(
        self,
        waiting: Sequence[Held],
        so_far: Decided,
        *,
        without_turn: Iterable[Job],
        finished: bool,
    ) -> Conclusion:
        """Return the decisions on claims, at the end of the cycle.

        Nothing is given back of jobs without a turn, or by a cycle that isn't finished: their pods
        might still need it.
        """
        if self._taken.devices is devices.NO_DEVICES:
            return NOTHING
        spared = {key for job in without_turn for task in job.tasks for key in keys(task)}
        return Conclusion(
            allocations=tuple(_allocations(waiting)),
            deallocations=tuple(self._deallocations(so_far, spared)) if finished else (),
            waits=self._waits(waiting),
        )

    def _deallocations(self, so_far: Decided, spared: Collection[str]) -> Iterator[DeallocateClaim]:
        """Iterate over claims that are allocated for pods which don't use them after all."""
        unbound = {
            task.uid: task
            for job in self._taken.jobs
            for task in job.tasks
            if task.pod_class.constraints.resource_claims and task.status is TaskStatus.PENDING
        }
        placed = [bind.task for bind in so_far.binds]
        starting = {key for task in placed for key in keys(task)}
        placed += [pipelined.task for pipelined in so_far.pipelined.values()]
        needed = {key for task in placed for key in keys(task)}
        for key in sorted({key for task in unbound.values() for key in keys(task)}):
            claim = self._claims.get(key)
            if claim is None or claim.writing or key in starting or key in spared:
                continue
            yields = key not in needed or self._has_to_yield(claim, unbound)
            if yields and claim.allocation is not None and self._is_ours(claim, unbound):
                yield DeallocateClaim(
                    namespace=claim.namespace,
                    name=claim.name,
                    uid=claim.uid,
                    allocation=claim.allocation,
                    reserved_for=claim.reserved_for,
                )

    @staticmethod
    def _is_ours(claim: ResourceClaim, unbound: Collection[str]) -> bool:
        """Whether the claim is reserved for waiting pods of this scheduler only."""
        return bool(claim.reserved_for) and all(
            each.resource == "pods" and each.uid in unbound for each in claim.reserved_for
        )

    def _is_contested(self, claim: ResourceClaim) -> bool:
        """Whether another claim has one of the devices: two schedulers chose at the same time."""
        return any(len(self._allocated.get(device, ())) > 1 for device in _devices(claim))

    def _has_to_yield(self, claim: ResourceClaim, unbound: Collection[str]) -> bool:
        """Whether the claim gives back a device that another claim has as well.

        Of two claims whose pods all wait, the one with the greater UID does. A claim of running
        pods keeps its devices.
        """
        others = {key for device in _devices(claim) for key in self._allocated.get(device, ())}
        for key in others - {claim.key}:
            other = self._claims[key]
            if not self._is_ours(other, unbound) or other.uid < claim.uid:
                return True
        return False

    def _waits(self, waiting: Iterable[Held]) -> Mapping[JobId, DeviceWait]:
        by_job: defaultdict[JobId, list[Held]] = defaultdict(list)
        for held in waiting:
            by_job[held.task.job].append(held)
        found = ((job, self._wait(theirs)) for job, theirs in by_job.items())
        return {job: wait for job, wait in found if wait is not None}

    def _wait(self, pods: Sequence[Held]) -> DeviceWait | None:
        """Return how far the claims of these pods are, which belong to one job."""
        open_ = {key: held for held in reversed(pods) for key in _open(held)}
        if not open_:
            return None
        every = {key for held in pods for key in self._state.claims_on(held.task, held.node)}
        first = min(open_, key=lambda key: (key not in self._refused, key))
        return DeviceWait(
            allocated=len(every) - len(open_),
            claims=len(every),
            claim=first,
            node=open_[first].node,
            refusal=self._refused.get(first, ""),
        )


def keys(task: Task) -> Iterator[str]:
    """Iterate over the resource claims of the task that exist, as `namespace/name`."""
    return (use.claim for use in task.pod_class.constraints.resource_claims if use.claim)


def _open(held: Held) -> Iterator[str]:
    """Iterate over the claims that a pod waits for."""
    yield from (allocation.key for allocation in held.lacks.allocations)
    yield from held.lacks.unconfirmed


def _devices(claim: ResourceClaim) -> Iterator[DeviceId]:
    """Iterate over the devices that the claim has for itself."""
    if claim.allocation is not None:
        yield from (device.id for device in claim.allocation.devices if not device.admin_access)


def _allocations(
    waiting: Iterable[Held],
) -> Iterator[AllocateClaims]:
    """Iterate over what the API server doesn't show yet, by job; no claim is in two of them."""
    pods: defaultdict[JobId, list[Task]] = defaultdict(list)
    found: dict[str, ClaimAllocation] = {}
    owners: dict[str, JobId] = {}
    for held in waiting:
        if any(True for _ in _open(held)):
            pods[held.task.job].append(held.task)
        for allocation in held.lacks.allocations:
            owners.setdefault(allocation.key, held.task.job)
            found[allocation.key] = (
                _joined(found[allocation.key], allocation)
                if allocation.key in found
                else allocation
            )
    by_job: defaultdict[JobId, list[ClaimAllocation]] = defaultdict(list)
    for key in sorted(found):
        by_job[owners[key]].append(found[key])
    for job in sorted(by_job):
        yield AllocateClaims(job=job, pods=tuple(pods[job]), claims=tuple(by_job[job]))


def _joined(one: ClaimAllocation, other: ClaimAllocation) -> ClaimAllocation:
    """Return what two pods that share a claim ask for."""
    consumers = sorted(
        {*one.reserved_for, *other.reserved_for}, key=lambda each: (each.name, each.uid)
    )
    return replace(
        one, allocation=one.allocation or other.allocation, reserved_for=tuple(consumers)
    )
