"""Devices index: slices, classes and claims of devices, behind Snapshot.devices, and for which pods
the devices of claims count in the figures of queues.

A cluster in which no pod of ours has resource claims has no devices, and costs nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from vscheduler.mirror.selectors import Selectors
from vscheduler.mirror.translate import extended_resources
from vscheduler.mirror.translate.pods import Pod
from vscheduler.model import devices, jobs, resources
from vscheduler.model.constraints import ResourceClaimUse
from vscheduler.model.devices import (
    DeviceClass,
    DeviceId,
    DeviceInventory,
    Object,
    Pool,
    PoolId,
    ResourceClaim,
    ResourceSlice,
)
from vscheduler.model.jobs import WAITING, JobId, TaskId
from vscheduler.model.storage import Memo

Amounts = Mapping[str, int]


class Uses(msgspec.Struct, kw_only=True):
    """A claim, and the pods that wait for it."""

    claim: ResourceClaim | None = None
    waiting: dict[TaskId, Pod] = msgspec.field(default_factory=dict)
    charged: frozenset[TaskId] = frozenset()
    sharing: AbstractSet[JobId] = frozenset()
    """Jobs of which several pods wait for the devices of the claim."""


class DeviceCharges:
    """For which pods the devices of claims count in the figures of queues.

    A claim counts once, for a pod that uses it. As soon as it is reserved, that is the first pod
    with a node that it is reserved for, or the first of all. Before, each job that waits for the
    claim has one pod for which it counts: none of them may start without it.
    """

    def __init__(
        self,
        pod_of: Callable[[TaskId], Pod | None],
        members: Callable[[JobId], Collection[Pod]],
        changed: Callable[[TaskId, Amounts], None],
    ) -> None:
        """`pod_of` returns a pod as cycles see it, `members` the pods of a PodGroup. `changed` is
        told what counts for a pod now.
        """
        self._pod_of, self._members, self._changed = pod_of, members, changed
        self._uses: defaultdict[str, Uses] = defaultdict(Uses)
        self._reserved: defaultdict[str, set[str]] = defaultdict(set)
        """By UID of a pod, or id of a PodGroup, the allocated claims that are reserved for it."""
        self._charges: defaultdict[TaskId, dict[str, Amounts]] = defaultdict(dict)
        """By pod, what counts for it, by claim."""
        self._foreign: set[str] = set()
        self.foreign: frozenset[str] = frozenset()
        """Claims that living pods of other schedulers use, and no pod of ours."""
        self._shared: defaultdict[JobId, set[str]] = defaultdict(set)
        self._shown: Mapping[JobId, tuple[str, ...]] | None = {}

    @property
    def shared(self) -> Mapping[JobId, tuple[str, ...]]:
        """By job, the claims without devices that several of its waiting pods use, sorted. The same
        object as long as nothing in it changes.
        """
        if self._shown is None:
            self._shown = {job: tuple(sorted(keys)) for job, keys in sorted(self._shared.items())}
        return self._shown

    @property
    def anything(self) -> bool:
        """Whether devices count for any pod."""
        return bool(self._charges)

    def concerns(self, pod: Pod) -> bool:
        """Whether a claim is reserved for the pod or its PodGroup."""
        return pod.uid in self._reserved or pod.named_group in self._reserved

    def move_claim(self, key: str, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Apply a claim that came, changed or went."""
        for user in _users(old):
            self._reserved[user].discard(key)
            if not self._reserved[user]:
                del self._reserved[user]
        for user in _users(new):
            self._reserved[user].add(key)
        self._uses[key].claim = new
        self._settle(key)

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went."""
        pod = old or new
        assert pod is not None
        before, after = set(_waits_for(old)), set(_waits_for(new))
        for key in before - after:
            del self._uses[key].waiting[pod.uid]
        for key in after:
            assert new is not None
            self._uses[key].waiting[pod.uid] = new
        reserved = (self._reserved.get(user, ()) for user in (pod.uid, pod.named_group or ""))
        for key in sorted((before | after).union(*reserved)):
            self._settle(key)

    def _settle(self, key: str) -> None:
        """Find out for which pods a claim counts, and tell of those for which that has changed."""
        self._note_foreign(key)
        self._note_shared(key)
        uses = self._uses[key]
        amounts = {} if uses.claim is None else uses.claim.counted
        charged = frozenset(self._charged(uses)) if amounts else frozenset()
        before, uses.charged = uses.charged, charged
        if uses.claim is None and not uses.waiting:
            del self._uses[key]
        for uid in sorted(before | charged):
            charge = self._charges[uid].pop(key, None)
            if uid in charged:
                self._charges[uid][key] = amounts
            total = _sum(self._charges[uid].values())
            if not self._charges[uid]:
                del self._charges[uid]
            if charge != (amounts if uid in charged else None):
                self._changed(uid, total)

    def _note_foreign(self, key: str) -> None:
        uses = self._uses[key]
        claim = uses.claim
        users = () if claim is None or claim.allocation is None else claim.reserved_for
        pods_ = [pod for user in _users(claim) for pod in self._pods_of(user, uses.charged)]
        others = any(user.resource != devices.PODS for user in users) or any(
            pod.lives for pod in pods_ if not pod.ours
        )
        foreign = others and not any(pod.ours for pod in pods_)
        if foreign != (key in self._foreign):
            (self._foreign.add if foreign else self._foreign.discard)(key)
            self.foreign = frozenset(self._foreign)

    def _note_shared(self, key: str) -> None:
        uses = self._uses[key]
        sharing: AbstractSet[JobId] = frozenset()
        if uses.claim is not None and uses.claim.allocation is None and len(uses.waiting) > 1:
            counts = Counter(pod.group for pod in uses.waiting.values() if pod.group is not None)
            sharing = {job for job, count in counts.items() if count > 1}
        if sharing == uses.sharing:
            return
        for job in uses.sharing ^ sharing:
            self._shared[job] ^= {key}
            if not self._shared[job]:
                del self._shared[job]
        uses.sharing, self._shown = sharing, None

    def _charged(self, uses: Uses) -> Iterator[TaskId]:
        claim = uses.claim
        if claim is not None and claim.allocation is not None and claim.reserved_for:
            found = (pod for user in claim.users for pod in self._pods_of(user, uses.charged))
            users = [pod for pod in found if pod.ours and pod.lives]
            # Only what pods with a node have counts as what the queue has.
            users.sort(key=lambda pod: pod.node is None)
            yield from (pod.uid for pod in users[:1])
            return
        first: dict[JobId | None, Pod] = {}
        for pod in sorted(uses.waiting.values(), key=_start_order):
            first.setdefault(pod.group, pod)
        yield from (pod.uid for pod in first.values())

    def _pods_of(self, user: str, charged: Iterable[TaskId]) -> list[Pod]:
        """Return the pod that a claim is reserved for, if it exists; of a PodGroup one that lives.

        That is the same one as before as long as it has a node: there may be thousands of others.
        """
        if not jobs.is_native(JobId(user)):
            pod = self._pod_of(TaskId(user))
            return [] if pod is None else [pod]
        for pod in filter(None, map(self._pod_of, charged)):
            if pod.named_group == user and pod.lives and pod.node is not None:
                return [pod]
        members = (pod for pod in self._members(JobId(user)) if pod.lives and pod.task is not None)
        first = min(members, key=lambda pod: (pod.node is None, _start_order(pod)), default=None)
        return [] if first is None else [first]


def _users(claim: ResourceClaim | None) -> Iterator[str]:
    """Iterate over whom an allocated claim is reserved for."""
    if claim is not None and claim.allocation is not None:
        yield from dict.fromkeys(claim.users)


def _waits_for(pod: Pod | None) -> Iterator[str]:
    """Iterate over the claims that a waiting pod of ours uses."""
    if pod is not None and pod.task is not None and pod.status in WAITING:
        uses = pod.pod_class.constraints.resource_claims
        yield from (use.claim for use in uses if use.claim and use.owner in ("", pod.uid))


def _start_order(pod: Pod) -> tuple[bool, int, float, str]:
    assert pod.task is not None
    return devices.start_order(pod.task)


def _sum(every: Iterable[Amounts]) -> Amounts:
    total: Counter[str] = Counter()
    for each in every:
        total.update(each)
    return dict(sorted(total.items()))


_FIELDS: dict[type, str] = {
    ResourceClaim: "claims",
    DeviceClass: "classes",
    ResourceSlice: "slices",
}


class DeviceIndex:
    """Follows slices, classes, claims and the pods that have claims; freezes what has changed."""

    def __init__(self, charges: DeviceCharges) -> None:
        self.charges = charges
        """For which pods the devices of claims count."""
        self._served = True
        self._objects: dict[type, dict[str, Any]] = {kind: {} for kind in _FIELDS}
        self._changed: set[str] = set()
        """Fields of the last DeviceInventory that are out of date."""
        self._pools: dict[PoolId, Pool] = {}
        self._slices: defaultdict[PoolId, dict[str, ResourceSlice]]
        self._slices = defaultdict(dict)
        self._changed_pools: set[PoolId] = set()
        self._planned: dict[str, ResourceClaim] = {}
        """Claims that are to be made for extended resources of waiting pods."""
        self._shown: dict[str, ResourceClaim] = {}
        """All claims as cycles see them."""
        self._holders: dict[DeviceId, tuple[str, ...]] = {}
        """By device, the claims that have it, sorted."""
        self._users = 0
        """Number of our waiting pods with claims."""
        self._named = False
        """Whether anybody names a resource that stands for devices."""
        self.extended_resources: Mapping[str, str] = {}
        """DeviceClasses by the extended resource that stands for their devices. Of several with the
        same resource, the newest, then the first by name (Kubernetes: ExtendedResourceCache)."""
        self._memo = Memo()
        self._selectors = Selectors()
        self._last = devices.NO_DEVICES

    def serve(self, *, served: bool) -> None:
        """Say whether the API server serves these kinds and lets them be read."""
        if served != self._served:
            self._served = served
            self._last = devices.NO_DEVICES

    def move(self, key: str, old: Object | None, new: Object | None) -> None:
        """Apply an object that came (old is None), changed or went (new is None)."""
        kind = type(old if new is None else new)
        if new is None:
            del self._objects[kind][key]
        else:
            self._objects[kind][key] = new
        self._changed.add(_FIELDS[kind])
        if isinstance(old, ResourceSlice):
            self._move_slice(key, old, None)
        if isinstance(new, ResourceSlice):
            self._move_slice(key, new, new)
        for device in _held(old):
            left = tuple(each for each in self._holders.pop(device) if each != key)
            if left:
                self._holders[device] = left
        for device in _held(new):
            self._holders[device] = tuple(sorted({*self._holders.get(device, ()), key}))
        if kind is DeviceClass:
            self.extended_resources = {
                resource: each.name
                for each in sorted(
                    sorted(self._objects[kind].values(), key=lambda each: each.name, reverse=True),
                    key=lambda each: each.created,
                )
                for resource in each.extended_resources
            }
        if kind is ResourceClaim:
            self._show(key)

    @property
    def shown(self) -> Collection[str]:
        """The keys of all claims, those that aren't made yet included."""
        return self._shown.keys()

    def planned(self, key: str) -> ResourceClaim | None:
        """Return a claim that isn't made yet."""
        return self._planned.get(key)

    def _show(self, key: str) -> None:
        """Find out how cycles see a claim."""
        before = self._shown.pop(key, None)
        stored = self._objects[ResourceClaim].get(key)
        now = extended_resources.joined(stored, self._planned.get(key))
        if now is not None:
            self._shown[key] = now
        self._changed.add("claims")
        self.charges.move_claim(key, before, now)

    def _plan(self, old: Pod | None, new: Pod | None) -> None:
        """Plan the claim for the extended resources of a pod that came or changed."""
        before, after = _made_for(old), _made_for(new)
        if after is not None:
            assert new is not None
            claim = extended_resources.claim_of(after, new.extended, self.extended_resources)
            if self._planned.get(after.claim) != claim:
                self._planned[after.claim] = claim
                self._show(after.claim)
        elif before is not None:
            del self._planned[before.claim]
            self._show(before.claim)

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went."""
        self._users += _waits(new) - _waits(old)
        self._plan(old, new)
        self.charges.move_pod(old, new)

    def _move_slice(self, key: str, of: ResourceSlice, new: ResourceSlice | None) -> None:
        pool = PoolId(of.driver, of.pool)
        self._changed_pools.add(pool)
        if new is None:
            del self._slices[pool][key]
        else:
            self._slices[pool][key] = new

    @property
    def in_use(self) -> bool:
        """Whether decisions can depend on devices: a waiting pod of ours has claims, devices count
        for a pod, or a Queue or PodGroup names them.
        """
        return bool(self._users) or self._named or self.charges.anything

    def freeze(self, names: Collection[str], overdue: frozenset[TaskId]) -> DeviceInventory:
        """Return the devices; the last object again when nothing changed. `names` are all resources
        that objects name, `overdue` the terminating pods that should have gone long ago.
        """
        self._named = bool(self.extended_resources) and any(
            name in self.extended_resources or name.startswith(resources.DEVICE_CLASS)
            for name in names
        )
        if not self.in_use:
            return devices.NO_DEVICES
        last = self._last
        if last is devices.NO_DEVICES:
            self._changed = set(_FIELDS.values())
        foreign, shared = self.charges.foreign, self.charges.shared
        others = foreign is not last.foreign or shared is not last.shared
        if self._changed or others or overdue != last.overdue:
            for pool in self._changed_pools:
                self._freeze_pool(pool)
            self._changed_pools.clear()
            claims, classes = "claims" in self._changed, "classes" in self._changed
            self._last = DeviceInventory(
                claims=dict(self._shown) if claims else last.claims,
                classes=dict(self._objects[DeviceClass]) if classes else last.classes,
                pools=dict(sorted(self._pools.items()))
                if "slices" in self._changed
                else last.pools,
                allocated=dict(self._holders) if claims else last.allocated,
                foreign=foreign,
                shared=shared,
                overdue=overdue,
                served=self._served,
                selectors=self._selectors,
                memo=self._memo,
            )
            self._changed.clear()
        return self._last

    def _freeze_pool(self, pool: PoolId) -> None:
        slices = self._slices[pool]
        if slices:
            self._pools[pool] = devices.pool_of(pool, slices.values())
        else:
            del self._slices[pool]
            self._pools.pop(pool, None)


def _held(claim: Object | None) -> Iterator[DeviceId]:
    """Iterate over the devices that nobody else may have."""
    if isinstance(claim, ResourceClaim) and claim.allocation is not None:
        yield from {device.id for device in claim.allocation.devices if not device.admin_access}


def _made_for(pod: Pod | None) -> ResourceClaimUse | None:
    """Return the claim that we make for a waiting pod, if any."""
    if pod is None or not _waits(pod):
        return None
    uses = pod.pod_class.constraints.resource_claims
    return next((use for use in uses if use.resources), None)


def _waits(pod: Pod | None) -> bool:
    return (
        pod is not None
        and pod.ours
        and pod.status in WAITING
        and bool(pod.pod_class.constraints.resource_claims)
    )
