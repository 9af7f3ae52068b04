"""The lifecycle of devices: what is allocated and reserved, and what is given back.

What belongs to this scheduler needs no note of its own: a claim whose consumers are all waiting
pods of ours was reserved by this scheduler, before a restart as well. Pods that don't exist any
more are removed from claims by Kubernetes' own controller, which takes back the devices of the last
one, and from PodGroups when these are deleted. Here, a claim of a PodGroup is given back only while
no pod of the PodGroup has a node.
Kubernetes: the plugin DynamicResources of kube-scheduler, which does this pod by pod.
"""

from collections.abc import Collection, Iterable, Iterator

from vscheduler.core.claims import kind
from vscheduler.core.claims.devices import claims
from vscheduler.core.claims.devices.state import DeviceState
from vscheduler.core.claims.kind import Ending, Lacks, OpenClaim, Waiting
from vscheduler.model import jobs
from vscheduler.model.claim_decisions import ClaimKind, DeallocateClaim, Release
from vscheduler.model.devices import DeviceId, ResourceClaim
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.model.snapshot import Snapshot


class DeviceLifecycle:
    """Claims of devices, as a kind of claims; see kind.KindLifecycle."""

    kind = ClaimKind.DEVICES

    def __init__(self, snapshot: Snapshot, devices: DeviceState) -> None:
        self._jobs, self._devices = snapshot.jobs, devices
        self._claims, self._allocated = snapshot.devices.claims, snapshot.devices.allocated
        self.refused = snapshot.carried.reported.refused_allocations

    def keys(self, task: Task, node: str) -> Iterable[str]:
        """Return the claims that the task needs on this node."""
        return self._devices.claims_on(task, node)

    def lacks(self, task: Task, row: int) -> Lacks:
        """Return what the task's claims lack before it may start on its node."""
        del row  # known from the task's placement
        if not task.pod_class.constraints.resource_claims:
            return kind.NOTHING
        unconfirmed = (key for key in _keys(task) if self._is_unconfirmed(key))
        requests = self._devices.unallocated(task)
        return Lacks(requests, tuple(unconfirmed), self._devices.lacks_choice(task))

    def is_usable(self, key: str, task: Task) -> bool:
        """Whether the claim is allocated and reserved for the task."""
        claim = self._claims.get(key)
        return not self._devices.allocates or (
            claim is not None
            and claim.allocation is not None
            and claim.is_reserved_for(task.uid, claims.use_of(task, key).group)
            and not claim.writing
        )

    def _is_unconfirmed(self, key: str) -> bool:
        """Whether a claim can't be used yet, whatever is decided about it.

        It is being written, or somebody else has allocated one of its devices as well.
        """
        claim = self._claims.get(key)
        return claim is not None and (claim.writing or self._is_contested(claim))

    def open(self, pod: Waiting) -> Iterator[OpenClaim]:
        """Iterate over the claims that aren't allocated and reserved for the pod."""
        for key in (*(request.key for request in pod.lacks.requests), *pod.lacks.unconfirmed):
            yield OpenClaim(key=key, node=pod.node)

    def releases(self, ending: Ending) -> Iterator[Release]:
        """Iterate over claims that are allocated for pods which don't use them after all."""
        unbound = {
            task.uid: task
            for job in self._jobs
            for task in job.tasks
            if task.pod_class.constraints.resource_claims and task.status is TaskStatus.PENDING
        }
        users = unbound.keys() | set(self._groups_without_nodes(ending))
        starting = {key for bind in ending.binds for key in _keys(bind.task)}
        needed = starting | {key for pod in ending.pipelined for key in _keys(pod.task)}
        spared = {key for task in ending.spared for key in _keys(task)}
        for key in sorted({key for task in unbound.values() for key in _keys(task)}):
            claim = self._claims.get(key)
            if claim is None or claim.writing or key in starting or key in spared:
                continue
            yields = key not in needed or self._has_to_yield(claim, users)
            if yields and claim.allocation is not None and _is_ours(claim, users):
                yield DeallocateClaim(
                    namespace=claim.namespace,
                    name=claim.name,
                    uid=claim.uid,
                    allocation=claim.allocation,
                    reserved_for=claim.reserved_for,
                )

    def _groups_without_nodes(self, ending: Ending) -> Iterator[str]:
        """Iterate over the UIDs of PodGroups none of whose pods has a node, or gets one now."""
        starting = {bind.task.uid for bind in ending.binds}
        for job in self._jobs:
            if not job.claim_groups or job.defect:  # others may have started pods of it
                continue
            started = {
                jobs.group_of(task)
                for task in job.tasks
                if (task.node is not None and task.status not in jobs.FINISHED)
                or task.uid in starting
            }
            yield from (group.uid for group in job.claim_groups if group.id not in started)

    def _is_contested(self, claim: ResourceClaim) -> bool:
        """Whether another claim has one of the devices: two schedulers chose at the same time."""
        return any(len(self._allocated.get(device, ())) > 1 for device in _devices(claim))

    def _has_to_yield(self, claim: ResourceClaim, users: Collection[str]) -> bool:
        """Whether the claim gives back a device that another claim has as well.

        Of two claims whose pods all wait, the one with the greater UID does. A claim of running
        pods keeps its devices.
        """
        others = {key for device in _devices(claim) for key in self._allocated.get(device, ())}
        for key in others - {claim.key}:
            other = self._claims[key]
            if not _is_ours(other, users) or other.uid < claim.uid:
                return True
        return False


def _keys(task: Task) -> Iterator[str]:
    """Iterate over the resource claims of the task that exist, as `namespace/name`."""
    return (use.claim for use in task.pod_class.constraints.resource_claims if use.claim)


def _is_ours(claim: ResourceClaim, users: Collection[str]) -> bool:
    """Whether the claim is reserved for these waiting pods and PodGroups of ours only, by UID."""
    return bool(claim.reserved_for) and all(each.uid in users for each in claim.reserved_for)


def _devices(claim: ResourceClaim) -> Iterator[DeviceId]:
    """Iterate over the devices that the claim has for itself."""
    if claim.allocation is not None:
        yield from (device.id for device in claim.allocation.devices if not device.admin_access)
