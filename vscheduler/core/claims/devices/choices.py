"""Choices: the devices that pods placed in this cycle get, before anything is written."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from vscheduler.core.claims.devices import allocator, claims, tables
from vscheduler.core.claims.devices.allocator import (
    Allocator,
    Choice,
    Demand,
    OutOfStepsError,
    Shape,
)
from vscheduler.core.claims.devices.claims import Needs
from vscheduler.core.claims.devices.tables import DeviceTable, Flags, Ints
from vscheduler.model import devices, jobs
from vscheduler.model.claim_decisions import ClaimAllocation
from vscheduler.model.devices import Consumer, DeviceInventory, DeviceRequest, ResourceClaim
from vscheduler.model.extended_resources import RequestMapping
from vscheduler.model.jobs import WAITING, ClaimGroup, Job, Task, TaskId, TaskStatus
from vscheduler.model.nodes import Mask, NodeLayout

_NO_MAPPINGS: tuple[RequestMapping, ...] = ()


STEP_COST = 3
"""About how many microseconds it takes to try a device."""

STEPS_LEAST = 64
"""How many devices may be tried for the same claims on any node."""

EXTRA_MAX = 20_000
"""How many more may be tried on all nodes together: about 60 ms. A search that needs no second
attempt for any device never asks for more."""


class Chosen(msgspec.Struct, frozen=True):
    """The devices chosen for a claim that isn't allocated, for pods on a node."""

    row: int
    shape: Shape
    choice: Choice
    waits: bool
    """Whether other pods must leave the devices first."""


class DeviceChoices:
    """The choices of a cycle, and the devices that are free beside them."""

    def __init__(
        self,
        devices: DeviceInventory,
        table: DeviceTable,
        allocated: Flags,
        every: Collection[Job],
        spend: Callable[[str, int], None],
    ) -> None:
        """`allocated` are the devices (D,) that claims have, and `every` all jobs."""
        self._devices, self._table, self._spend = devices, table, spend
        self._extra: Counter[tuple[Shape, ...]] = Counter()
        """By what is searched for, the steps that nodes have taken beyond STEPS_LEAST."""
        self._jobs = every
        self._idle = ~allocated
        """Devices (D,) that no claim has, as the cycle began."""
        self.in_use: Flags = ~self._idle
        """Devices (D,) that claims have, or get for sure in this cycle."""
        self._freed = self._idle.copy()
        """The same, once pods that leave have left."""
        self._taken: Counter[int] = Counter()
        self._free = {False: self._idle.copy(), True: self._freed.copy()}
        self._counts: dict[tuple[Hashable, bool], tuple[Flags, Ints]] = {}
        """How many free devices each node has for a demand: devices that it could use, and numbers
        (N,), by the demand and whether they are free now or later. `_refresh` keeps them true."""
        self._chosen: dict[str, Chosen] = {}
        self._last: dict[str, Chosen] = {}
        """The last choice of claims without users: a pod that is placed again gets it back."""
        self._fixed: set[str] = set()
        """Claims whose choice isn't changed any more."""
        self._users: defaultdict[str, dict[TaskId, str]] = defaultdict(dict)
        """By claim, its placed pods, and whom it is reserved for on their behalf: the UID of a pod,
        or the id of a PodGroup."""
        self._placed: dict[TaskId, Needs] = {}
        self._on: defaultdict[int, dict[str, None]] = defaultdict(dict)
        """By row, claims chosen there, in order."""
        self.open_rows: set[int] = set()
        """Rows with claims whose choice may still change."""
        self.leaving: set[str] = set()
        """UIDs of pods that leave their devices."""
        for job in every:
            for task in job.tasks:
                if task.status is TaskStatus.RELEASING and task.uid not in devices.overdue:
                    self.leave(task, 1)

    @cached_property
    def _waiting(self) -> frozenset[str]:
        """The UIDs of waiting pods with claims, and the ids of their PodGroups."""
        return frozenset(
            user
            for job in self._jobs
            for task in job.tasks
            if task.status in WAITING
            for use in task.pod_class.constraints.resource_claims
            for user in (task.uid, use.group)
        )

    @cached_property
    def _groups(self) -> Mapping[str, ClaimGroup]:
        """What reserves claims in place of its pods, by id."""
        return {group.id: group for job in self._jobs for group in job.claim_groups}

    def _group(self, task: Task, claim: ResourceClaim) -> ClaimGroup | None:
        """Return the PodGroup for which the claim is reserved in place of the task.

        Kubernetes: dynamic-resource-allocation resourceclaim.BindTo.
        """
        use = claims.use_of(task, claim.key)
        group = self._groups.get(use.group)
        if group is None:
            return None
        made_for_it = bool(use.owner) and claim.group == group.id
        shared = made_for_it or (use.name, use.claim) in group.claims
        return group if shared else None

    @cached_property
    def _held(self) -> Mapping[str, Sequence[str]]:
        """By UID of a pod, the allocated claims that it may use. Only asked when pods leave."""
        held: defaultdict[str, list[str]] = defaultdict(list)
        for key, claim in self._devices.claims.items():
            if claim.allocation is not None:
                for user in claim.users:
                    held[user].append(key)
        return held

    def free(self, *, later: bool) -> Flags:
        """Return the devices (D,) that are free now, or after pods have left."""
        return self._free[later]

    def counts(self, demand: Demand, *, later: bool) -> Ints:
        """Return how many free devices each node has that a request could use, (N,); read-only."""
        key = (demand.expressions, demand.tolerations), later
        if key not in self._counts:
            found = self._table.counts(demand.usable & self._free[later])
            self._counts[key] = demand.usable, found
        return self._counts[key][1]

    def _fix(self, key: str) -> None:
        """Leave the choice of a claim as it is."""
        self._fixed.add(key)
        self._note_open(self._chosen[key].row)
        for at in _exclusive(self._chosen[key].choice):
            self.in_use[at] = True

    def leave(self, task: Task, step: int) -> None:
        """Count the task as one that leaves its devices (step 1), or stays after all (step -1)."""
        uid = str(task.uid)
        if uid not in self._held:
            return
        if step > 0:
            self.leaving.add(uid)
        else:
            self.leaving.discard(uid)
        for key in self._held[uid]:
            claim = self._devices.claims[key]
            goes = all(user in self.leaving for user in claim.users)
            for each in claim.allocation.devices if claim.allocation else ():
                at = self._table.position(each.id)
                if at is not None and not each.admin_access:
                    self._freed[at] = goes or self._idle[at]
                    self._refresh(at)

    def assume(self, task: Task, needs: Needs, row: int) -> None:
        """Choose devices for the task's claims on this node, unless they have some."""
        self._placed[task.uid] = needs
        new: list[tuple[str, Shape]] = []
        for claim in needs.claims:
            group = self._group(task, claim)
            self._users[claim.key][task.uid] = task.uid if group is None else group.id
        for claim, shape in zip(needs.open, needs.shapes, strict=True):
            if claim.key in self._chosen:
                self._fix(claim.key)  # the other pods of the claim rely on it
            elif not self._choose_again(claim.key, row):
                new.append((claim.key, shape))
        if new:
            self._choose(new, row)

    def _choose_again(self, key: str, row: int) -> bool:
        """Give a claim what it had last, if that was on this node and is free, and nothing is free
        sooner.
        """
        last = self._last.pop(key, None)
        if last is None or last.row != row or not self._is_as_good(last):
            self._fixed.discard(key)
            return False
        self._put(key, last)
        if key in self._fixed:
            self._fix(key)
        return True

    def _is_as_good(self, last: Chosen) -> bool:
        """Whether the devices are free, and no others are if pods must leave these first."""
        if not all(self._free[last.waits][at] for at in _exclusive(last.choice)):
            return False
        if not last.waits:
            return True
        return self.allocate([last.shape], self._table.on(last.row), self._free[False]) is None

    def _choose(self, new: Sequence[tuple[str, Shape]], row: int) -> None:
        new = [(key, shape.at(row)) for key, shape in new]
        shapes, positions = [shape for _, shape in new], self._table.on(row)
        waits = False
        found = self.allocate(shapes, positions, self._free[False])
        if found is None:
            open_ = self.open_on(row)
            together = self._together(open_, shapes, row) if open_ else None
            if together is not None:
                for key in open_:
                    self._take_back(key)
                for key, choice in zip(open_, together, strict=False):
                    before = self._chosen[key]
                    self._put(key, Chosen(row, before.shape, choice, waits=False))
                found = together[len(open_) :]
        if found is None and self.leaving:
            waits = True
            found = self.allocate(shapes, positions, self._free[True])
        for (key, shape), choice in zip(new, found or (), strict=False):
            self._put(key, Chosen(row, shape, choice, waits=waits))

    def allocate(
        self, shapes: Sequence[Shape], positions: Sequence[int], free: Flags
    ) -> list[Choice] | None:
        """Return devices for claims, or None if there are none or the search takes too long."""
        key = tuple(shapes)
        most = min(allocator.STEPS_MAX, STEPS_LEAST + max(0, EXTRA_MAX - self._extra[key]))
        devices = Allocator(self._table, shapes, positions, free, most)
        try:
            return devices.allocate()
        except OutOfStepsError:
            return None
        finally:
            self._extra[key] += max(0, devices.steps - STEPS_LEAST)
            self._spend("devices", STEP_COST * devices.steps)

    def allocate_on(self, shapes: Sequence[Shape], row: int) -> list[Choice] | None:
        """Return devices for the claims chosen on a node so far, and for further ones."""
        return self._together(self.open_on(row), [shape.at(row) for shape in shapes], row)

    def _together(
        self, open_: Sequence[str], shapes: Sequence[Shape], row: int
    ) -> list[Choice] | None:
        free = self._free[False].copy()
        for key in open_:
            for at in _exclusive(self._chosen[key].choice):
                free[at] = self._idle[at]
        every = [*(self._chosen[key].shape for key in open_), *shapes]
        return self.allocate(every, self._table.on(row), free)

    def open_on(self, row: int) -> list[str]:
        """Return claims on a node whose choice may still change."""
        return [
            key
            for key in self._on.get(row, ())
            if key not in self._fixed and not self._chosen[key].waits
        ]

    def _note_open(self, row: int) -> None:
        if self.open_on(row):
            self.open_rows.add(row)
        else:
            self.open_rows.discard(row)

    def forget(self, task: Task) -> None:
        """Undo `assume`: claims without other users lose their devices."""
        needs = self._placed.pop(task.uid, None)
        for claim in () if needs is None else needs.claims:
            users = self._users[claim.key]
            users.pop(task.uid, None)
            if not users:
                del self._users[claim.key]
                if claim.key in self._chosen:
                    chosen = self._chosen[claim.key]
                    self._take_back(claim.key)
                    del self._chosen[claim.key]
                    del self._on[chosen.row][claim.key]
                    self._note_open(chosen.row)
                    self._last[claim.key] = chosen

    def _put(self, key: str, chosen: Chosen) -> None:
        self._chosen[key] = chosen
        self._on[chosen.row][key] = None
        self._note_open(chosen.row)
        for at in _exclusive(chosen.choice):
            self._taken[at] += 1
            self._refresh(at)

    def _take_back(self, key: str) -> None:
        for at in _exclusive(self._chosen[key].choice):
            self._taken[at] -= 1
            self._refresh(at)

    def _refresh(self, at: int) -> None:
        free = not self._taken[at]
        self.in_use[at] &= not (free and self._idle[at])
        for later, idle in ((False, self._idle), (True, self._freed)):
            now = bool(free and idle[at])
            if now != self._free[later][at]:
                self._free[later][at] = now
                self._recount(at, later=later, step=1 if now else -1)

    def _recount(self, at: int, *, later: bool, step: int) -> None:
        """Count a device as free (step 1), or not any more (step -1)."""
        row = int(self._table.rows[at])
        if row == tables.NOWHERE:
            self._counts.clear()  # several nodes can use it
        for (_, when), (usable, found) in self._counts.items():
            if when is later and usable[at]:
                found[row] += step

    # What is known of claims.

    def unfinished(self, needs: Needs) -> list[Shape]:
        """Return what the claims ask for that have no devices yet."""
        return [
            shape
            for claim, shape in zip(needs.open, needs.shapes, strict=True)
            if claim.key not in self._chosen
        ]

    def are_free(self, needs: Needs) -> bool:
        """Whether devices are chosen for all claims, and nobody must leave them first."""
        return not any(self.waits(claim) for claim in needs.open)

    def waits(self, claim: ResourceClaim) -> bool:
        """Whether nothing is chosen for the claim, or only what pods must leave first."""
        chosen = self._chosen.get(claim.key)
        return chosen is None or chosen.waits

    def is_chosen(self, claim: ResourceClaim) -> bool:
        """Whether devices are chosen for the claim in this cycle."""
        return claim.key in self._chosen

    def has_place(self, claim: ResourceClaim) -> bool:
        """Whether one more pod may use the claim, or waiting pods may already."""
        reserved = set(claim.users)
        count = len(reserved.union(self._users.get(claim.key, {}).values()))
        return count < devices.RESERVATIONS_MAX or not reserved.isdisjoint(self._waiting)

    def held_to(self, claim: ResourceClaim, layout: NodeLayout) -> Mask | None:
        """Return the nodes (N,) that can use what is chosen for the claim; None: nothing is."""
        chosen = self._chosen.get(claim.key)
        if chosen is None:
            return None
        mask = np.ones(layout.size, dtype=np.bool_)
        for _, picked in chosen.choice:
            for at in picked:
                mask &= tables.reaching(self._table.access[at], layout)
        return mask

    def lacking(self, task: Task, needs: Needs) -> Iterator[ClaimAllocation]:
        """Yield what the claims lack before the task may start. Their choices stay from now on.

        Claims that wait for devices are left out.
        """
        for claim in needs.claims:
            chosen = self._chosen.get(claim.key)
            allocation, requests, mappings = None, claim.requests[:0], _NO_MAPPINGS
            if claim.allocation is None:
                if chosen is None or chosen.waits or _is_unneeded(claim, chosen):
                    continue
                if claim.extended:
                    requests, mappings = _made(claim, chosen)
                self._fix(claim.key)
                allocation = allocator.allocation(
                    claim, self._devices.classes, self._table, chosen.choice
                )
            elif claim.is_reserved_for(task.uid, claims.use_of(task, claim.key).group):
                continue
            yield ClaimAllocation(
                namespace=claim.namespace,
                name=claim.name,
                uid=claim.uid,
                allocation=allocation,
                existing=claim.allocation,
                reserved_for=(self._consumer(task, claim),),
                requests=requests,
                mappings=mappings,
            )

    def _consumer(self, task: Task, claim: ResourceClaim) -> Consumer:
        group = self._group(task, claim)
        if group is None:
            return Consumer(name=task.name, uid=task.uid)
        _, name = jobs.names_of(group.id)
        return Consumer(
            name=name, uid=group.uid, resource=devices.POD_GROUPS, api_group=devices.SCHEDULING
        )

    # What answers depend on.

    def state_of(self, claim: ResourceClaim) -> Hashable:
        """Return what was decided in this cycle about a claim."""
        chosen = self._chosen.get(claim.key)
        places = None if chosen is None else (chosen.waits, *_every(chosen.choice))
        return places, self.has_place(claim)

    def state_on(self, row: int) -> Hashable:
        """Return what was decided about the devices of a node, with equal values for equal ones."""
        chosen = tuple(
            (key, tuple(_every(self._chosen[key].choice)), key in self._fixed)
            for key in self._on.get(row, ())
        )
        if not self.leaving:
            return chosen
        positions = self._table.on(row)
        return chosen, tuple(at for at in positions if self._free[True][at])

    def shared_state(self) -> Hashable:
        """Return the devices that several nodes can use and that are free."""
        groups = self._table.shared
        return tuple(
            (self._free[False][positions].tobytes(), self._free[True][positions].tobytes())
            for _, positions in groups
        )


def _is_unneeded(claim: ResourceClaim, chosen: Chosen) -> bool:
    """Whether the node's device plugin has all that the claim stands for."""
    return bool(claim.extended) and not chosen.shape.requests


def _made(
    claim: ResourceClaim, chosen: Chosen
) -> tuple[tuple[DeviceRequest, ...], tuple[RequestMapping, ...]]:
    """Return what a claim for extended resources asks for on the node of its pod, and for which
    containers.
    """
    names = {demand.request for demand, _ in chosen.choice}
    return tuple(request for request in claim.requests if request.name in names), tuple(
        mapping
        for each in claim.extended
        if not names.isdisjoint(each.requests)
        for mapping in each.mappings
    )


def _exclusive(choice: Choice) -> Iterator[int]:
    """Iterate over the devices that nobody else may have."""
    for demand, picked in choice:
        if not demand.admin_access:
            yield from picked


def _every(choice: Choice) -> Iterator[int]:
    for _, picked in choice:
        yield from picked
