"""A simulated cluster that carries out decisions at once, and owners that recreate pods after
eviction, failure or deletion.

Deployments and Jobs aren't read. A pod's controller reference tells the kind of its owner, and the
pod itself serves as the owner's pod template.
"""

import copy
import datetime as dt
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from vscheduler.mirror import statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Event, Kind, Remove, Upsert
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import (
    CompositePodGroup,
    CompositePodGroupStatus,
    GroupCondition,
    Metadata,
    NativePodGroup,
    NativePodGroupStatus,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PodGroupStatus,
    PodStatus,
)
from vscheduler.mirror.translate import translation
from vscheduler.model import jobs
from vscheduler.model.decisions import Bind, CycleResult, Evict
from vscheduler.model.jobs import GroupState, JobId, Task
from vscheduler.simulator.simulated_claims import SimulatedDevices, SimulatedVolumes

Controller: TypeAlias = tuple[str, str, str, str]
"""Namespace, API group, kind, and UID or name."""

KEEP_NAMES = frozenset({("apps", "StatefulSet"), ("batch.volcano.sh", "Job")})
"""API group and kind of owners whose pods are recreated under the same name."""


class Owners:
    """Owners of pods, and how often each pod was recreated.

    A pod recreated as `NAME-r1`, then `NAME-r2`, or under its own name, keeps a single identity:
    `place_of` returns the name of the first pod.
    """

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._places: dict[str, str] = {}
        """Identity by UID, for recreated pods."""
        self._recreations: dict[str, int] = {}
        """Number of recreations by identity."""
        given = list(pods)
        youngest: dict[Controller, dt.datetime] = {}
        for pod in given:
            owner, created = _controller(pod), pod.metadata.creation_timestamp
            if owner and created and not (_is_lost(pod) or pod.status.phase == "Succeeded"):
                youngest[owner] = max(created, youngest.get(owner, created))
        self._replaced = frozenset(
            pod.metadata.uid for pod in given if _is_lost(pod) and _is_replaced(pod, youngest)
        )

    def fork(self) -> "Owners":
        """Return a copy with a future of its own."""
        made = copy.copy(self)
        made._detach()  # noqa: SLF001 - an object of this class
        return made

    def _detach(self) -> None:
        self._places, self._recreations = dict(self._places), dict(self._recreations)

    def place_of(self, pod: Pod) -> str:
        """Return the pod's identity: `namespace/name` of the first pod."""
        key = events.key_of(pod.metadata.namespace, pod.metadata.name)
        return self._places.get(pod.metadata.uid, key)

    def wants_again(self, pod: Pod) -> bool:
        """Whether the owner recreates this pod, which is gone or has failed.

        A pod that was failed or being deleted already in the manifests has been replaced if its
        owner has a younger pod. A failed pod without an owner stays.
        """
        if pod.status.phase == "Succeeded" or pod.metadata.uid in self._replaced:
            return False
        return pod.status.phase != "Failed" or _controller(pod) is not None

    def keeps_name(self, pod: Pod) -> bool:
        """Whether the pod is recreated under the same name."""
        owner = _controller(pod)
        return owner is not None and owner[1:3] in KEEP_NAMES

    def again(self, pod: Pod, now: float, taken: Container[str]) -> Pod:
        """Return the replacement of a pod, created now; `taken` holds the keys of existing pods.

        The replacement is pending and has no node.
        """
        place = self.place_of(pod)
        number = self._recreations.get(place, 0) + 1
        namespace, name = pod.metadata.namespace, pod.metadata.name
        if not self.keeps_name(pod):
            first = place.rpartition("/")[2]
            while events.key_of(namespace, f"{first}-r{number}") in taken:
                number += 1
            name = f"{first}-r{number}"
        self._recreations[place] = number
        metadata = msgspec.structs.replace(
            pod.metadata,
            name=name,
            uid=f"{place}-r{number}",
            resource_version="",
            creation_timestamp=dt.datetime.fromtimestamp(now, dt.UTC),
            deletion_timestamp=None,
        )
        self._places[metadata.uid] = place
        spec = msgspec.structs.replace(pod.spec, node_name="")
        return Pod(metadata=metadata, spec=spec, status=PodStatus(phase="Pending"))


def _is_lost(pod: Pod) -> bool:
    """Whether the pod has failed or is being deleted."""
    return pod.status.phase == "Failed" or pod.metadata.deletion_timestamp is not None


def _is_replaced(lost: Pod, youngest: Mapping[Controller, dt.datetime]) -> bool:
    """Whether the pod's owner has a younger pod."""
    owner, created = _controller(lost), lost.metadata.creation_timestamp
    return bool(owner and created and owner in youngest and youngest[owner] > created)


def _controller(pod: Pod) -> Controller | None:
    """Return the owner reference that is the pod's controller, or None."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            group = owner.api_version.partition("/")[0]
            return pod.metadata.namespace, group, owner.kind, owner.uid or owner.name
    return None


Stored: TypeAlias = PodGroup | NativePodGroup | CompositePodGroup
"""Groups of pods."""


class World:
    """The objects of a cluster between two cycles.

    A bound pod runs from the next cycle on, and a claim that pods wait for is bound by then. An
    evicted or deleted pod holds its room for a further cycle, and is gone afterwards. No pod ends
    by itself. Pods are recreated, as pending pods, only with `pods_return`.
    """

    def __init__(
        self,
        objects: Iterable[Upsert],
        *,
        pods_return: bool = False,
        scheduler: str = "vscheduler",
    ) -> None:
        """`scheduler` is the name that requests for volumes bear."""
        self._scheduler = scheduler
        self._pods: dict[str, Pod] = {}
        self._moving: set[str] = set()
        """The pods that leave or start, among many that do neither."""
        self._groups: dict[JobId, Stored] = {}
        self._budgets: dict[str, PodDisruptionBudget] = {}
        given = list(objects)
        self._volumes = SimulatedVolumes(event.object for event in given)
        self._devices = SimulatedDevices(event.object for event in given)
        for event in given:
            match event.object:
                case Pod() as pod:
                    self._keep(_key(pod.metadata), pod)
                case PodGroup() | NativePodGroup() | CompositePodGroup() as group:
                    self._groups[_job(group)] = group
                case PodDisruptionBudget() as budget:
                    self._budgets[_key(budget.metadata)] = budget
        self._owners = Owners(self._pods.values()) if pods_return else None
        self._failed = [
            key
            for key, pod in self._pods.items()
            if pod.status.phase == "Failed" and not pod.metadata.deletion_timestamp
        ]
        self._disrupted: dict[str, list[str]] = {}
        """The budgets that an eviction was counted in, by UID of the recreated pod, until the pod
        runs.
        """

    def fork(self) -> "World":
        """Return a copy with a future of its own; the objects are shared."""
        made = copy.copy(self)
        made._detach()  # noqa: SLF001 - an object of this class
        return made

    def _detach(self) -> None:
        self._pods, self._groups = dict(self._pods), dict(self._groups)
        self._moving = set(self._moving)
        self._budgets, self._disrupted = dict(self._budgets), dict(self._disrupted)
        self._owners = self._owners and self._owners.fork()
        self._devices = self._devices.fork()

    def change(self, edited: Iterable[Upsert | Remove]) -> None:
        """Let a user edit, create and delete objects; what is deleted is gone at once."""
        for event in edited:
            match event:
                case Upsert(object=Pod() as pod):
                    self._keep(_key(pod.metadata), pod)
                case Upsert(object=PodGroup() | NativePodGroup() | CompositePodGroup() as group):
                    self._groups[_job(group)] = group
                case Upsert(object=PodDisruptionBudget() as budget):
                    self._budgets[_key(budget.metadata)] = budget
                case Remove(kind=Kind.POD, namespace=namespace, name=name):
                    self._moving.discard(events.key_of(namespace, name))
                    self._pods.pop(events.key_of(namespace, name), None)

    @property
    def moving(self) -> bool:
        """Whether anything happens without a decision: pods leave, start, or are replaced."""
        return bool(self._failed or self._moving)

    def pods(self) -> Iterator[Pod]:
        """Return all existing pods."""
        return iter(self._pods.values())

    def obey(
        self,
        result: CycleResult,
        states: dict[JobId, GroupState],
        now: float,
    ) -> Iterator[Event]:
        """Carry out a cycle's decisions and write the groups' states; iterate over the resulting
        events.
        """
        yield from self._finish_deletions(now)
        yield from self._replace_failed(now)
        yield from self._start_bound()
        for bind in result.binds:
            yield self._bind(bind)
            yield from self._count_up(bind)
        for evict in result.evicts:
            yield from self._evict(evict, now)
        yield from self._volumes.obey(result, self._scheduler, now)
        yield from self._devices.obey(result)
        for job, state in states.items():
            if job in self._groups:
                yield self._write(self._groups[job], state)

    def _finish_deletions(self, now: float) -> Iterator[Event]:
        going = [key for key in self._moved() if self._pods[key].metadata.deletion_timestamp]
        for key in going:
            pod = self._pods[key]
            yield self._remove(key)
            yield from self._devices.gone(pod)
            yield from self._recreate(pod, now)

    def _replace_failed(self, now: float) -> Iterator[Event]:
        """Replace pods that had failed in the manifests; no pod fails later."""
        failed, self._failed = self._failed, []
        for key in failed:
            pod = self._pods.get(key)
            if pod is None or self._owners is None or not self._owners.wants_again(pod):
                continue
            if self._owners.keeps_name(pod):
                yield self._remove(key)
            yield from self._recreate(pod, now)

    def _remove(self, key: str) -> Remove:
        self._moving.discard(key)
        metadata = self._pods.pop(key).metadata
        return Remove(
            kind=Kind.POD,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
        )

    def _recreate(self, pod: Pod, now: float) -> Iterator[Event]:
        """Recreate a pod that is gone, if its owner does so."""
        if self._owners is None or not self._owners.wants_again(pod):
            return
        made = self._owners.again(pod, now, self._pods)
        self._disrupted[made.metadata.uid] = self._disrupted.pop(pod.metadata.uid, [])
        for event in self._devices.made_for(made):
            if isinstance(event.object, Pod):
                self._keep(_key(made.metadata), event.object)
            yield event

    def _start_bound(self) -> Iterator[Event]:
        for key in self._moved():
            pod = self._pods[key]
            if pod.spec.node_name and _starts(pod):
                yield self._put(key, _running(pod))

    def _moved(self) -> list[str]:
        """Return the pods that leave or start, in the order of all pods."""
        return [key for key in self._pods if key in self._moving] if self._moving else []

    def _keep(self, key: str, pod: Pod) -> None:
        self._pods[key] = pod
        if pod.metadata.deletion_timestamp or (pod.spec.node_name and _starts(pod)):
            self._moving.add(key)
        else:
            self._moving.discard(key)

    def _bind(self, bind: Bind) -> Event:
        pod = self._pods[bind.task.key]
        placed = msgspec.structs.replace(pod.spec, node_name=bind.node)
        return self._put(bind.task.key, _running(msgspec.structs.replace(pod, spec=placed)))

    def _evict(self, evict: Evict, now: float) -> Iterator[Event]:
        """Start the deletion of an evicted pod.

        Budgets that cover the pod allow a disruption less, until a replacement runs.
        """
        pod = self._pods[evict.task.key]
        counted = [key for key, each in self._budgets.items() if _covers(each, evict.task)]
        self._disrupted[pod.metadata.uid] = [
            key for key in counted if self._budgets[key].status.disruptions_allowed > 0
        ]
        for key in counted:
            yield self._count(key, -1)
        metadata = msgspec.structs.replace(
            pod.metadata, deletion_timestamp=dt.datetime.fromtimestamp(now, dt.UTC)
        )
        yield self._put(evict.task.key, msgspec.structs.replace(pod, metadata=metadata))

    def _count_up(self, bind: Bind) -> Iterator[Event]:
        """Let budgets allow a disruption more, for the replacement of an evicted pod runs."""
        for key in self._disrupted.pop(self._pods[bind.task.key].metadata.uid, []):
            yield self._count(key, 1)

    def _count(self, key: str, step: int) -> Upsert:
        budget = self._budgets[key]
        left = max(0, budget.status.disruptions_allowed + step)
        status = msgspec.structs.replace(budget.status, disruptions_allowed=left)
        self._budgets[key] = msgspec.structs.replace(budget, status=status)
        return Upsert(kind=Kind.BUDGET, object=self._budgets[key])

    def _put(self, key: str, pod: Pod) -> Upsert:
        self._keep(key, pod)
        return Upsert(kind=Kind.POD, object=pod)

    def _write(self, group: Stored, state: GroupState) -> Upsert:
        written = {
            "phase": str(state.phase),
            "running": state.running,
            "succeeded": state.succeeded,
            "failed": state.failed,
            "conditions": [statuses.condition(condition) for condition in state.conditions],
        }
        if isinstance(group, NativePodGroup):
            conditions = msgspec.convert(written["conditions"], list[GroupCondition])
            of_claims = group.status.resource_claim_statuses
            group = NativePodGroup(
                metadata=group.metadata,
                spec=group.spec,
                status=NativePodGroupStatus(
                    conditions=conditions, resource_claim_statuses=of_claims
                ),
            )
        elif isinstance(group, CompositePodGroup):
            conditions = msgspec.convert(written["conditions"], list[GroupCondition])
            of_group = CompositePodGroupStatus(conditions=conditions)
            group = msgspec.structs.replace(group, status=of_group)
        else:
            status = msgspec.convert(written, PodGroupStatus)
            group = msgspec.structs.replace(group, status=status)
        self._groups[_job(group)] = group
        return Upsert(kind=events.kind_of_struct(type(group)), object=group)


def _covers(budget: PodDisruptionBudget, task: Task) -> bool:
    """Whether the budget covers the task's pod. An unreadable budget covers no pod."""
    try:
        return translation.budget(budget).covers(task)
    except FieldError:
        return False


def _job(group: Stored) -> JobId:
    names = group.metadata.namespace, group.metadata.name
    if isinstance(group, NativePodGroup):
        return jobs.native_id(*names)
    if isinstance(group, CompositePodGroup):
        return jobs.composite_id(*names)
    return JobId(events.key_of(*names))


def _key(metadata: Metadata) -> str:
    return events.key_of(metadata.namespace, metadata.name)


def _starts(pod: Pod) -> bool:
    """Whether the pod runs from the next cycle on, if it has a node."""
    return pod.status.phase in ("", "Pending")


def _running(pod: Pod) -> Pod:
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, phase="Running", nominated_node_name="")
    )
