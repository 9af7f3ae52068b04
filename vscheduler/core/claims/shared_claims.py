"""Shared claims: for which pod of a job each of them counts, before it has devices.

The Mirror knows pods but not which nodes they can use, and lets a claim count for the first pod
that waits for it. No other pod of the job starts before that one (`DeviceState.filter`). If no node
can ever take it, the others would wait in vain; so the claim counts for the next one instead.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from vscheduler.core.claims.devices.state import DeviceState
from vscheduler.core.claims.volumes.state import VolumeState
from vscheduler.model import devices, jobs, nodes, resources
from vscheduler.model.devices import ResourceClaim
from vscheduler.model.jobs import WAITING, Job, JobId, PodClass, Task, TaskId
from vscheduler.model.nodes import Mask
from vscheduler.model.snapshot import Snapshot

PART = 8
"""A cycle spends about an eighth of its budget on this, and then leaves the rest as it is."""

KINDS_MAX = 16
"""So many kinds of pods are looked at for each claim of a job."""

LOOK_COST = 10
"""About how many microseconds it takes to find the nodes of one kind, claims aside."""


class Budget(Protocol):
    """The work budget of a cycle; see session.work_budget."""

    def charge(self, namespace: str = "") -> None:
        """Let the namespace pay for operations from here on; without a name, nobody pays."""

    def part(self, fraction: int) -> Callable[[], bool]:
        """Return a function that tells whether a half, a quarter, … is spent from here on."""

    def spend(self, operation: str, cost: int) -> None:
        """Count one operation and its cost."""


class Move(NamedTuple):
    """A claim that counts for another pod than the first one that waits for it."""

    claim: ResourceClaim
    first: TaskId
    other: TaskId


class SharedClaims:
    """The claims that pods of a job share, in one cycle."""

    def __init__(
        self, snapshot: Snapshot, offered: DeviceState, volumes: VolumeState, budget: Budget
    ) -> None:
        self._snapshot, self._devices, self._volumes = snapshot, offered, volumes
        self._budget = budget

    def counted(self) -> Snapshot:
        """Return the snapshot with each shared claim counted for a pod with a possible node."""
        changed: dict[JobId, Job] = {}
        is_over = self._budget.part(PART)
        for job_id, keys in self._snapshot.devices.shared.items():
            job = self._snapshot.jobs.get(job_id)
            if is_over() or job is None:
                continue
            self._budget.charge(job.namespace)
            moves = tuple(self._moves(job, keys))
            if moves:
                changed[job_id] = _moved(job, moves)
        self._budget.charge()
        if not changed:
            return self._snapshot
        return replace(self._snapshot, jobs=self._snapshot.jobs.changed(changed))

    def _moves(self, job: Job, keys: Sequence[str]) -> Iterator[Move]:
        """Yield the claims that don't count for the first pod."""
        for key in keys:
            users = job.memo(f"users of {key}", functools.partial(_users, job, key))
            if len(users) == 1 or self._has_node(users[0].pod_class):
                continue
            other = next((each for each in users[1:] if self._has_node(each.pod_class)), None)
            if other is not None:
                yield Move(self._snapshot.devices.claims[key], users[0].uid, other.uid)

    def _has_node(self, pod_class: PodClass) -> bool:
        """Whether a ready node could take such a pod if no other pods ran there."""
        self._budget.spend("devices", LOOK_COST)
        table, limits = self._snapshot.nodes, pod_class.constraints
        layout = table.layout

        def large() -> Mask:
            return resources.fits(self._snapshot.space.vector(pod_class.request), table.allocatable)

        mask = layout.ready & nodes.uncordoned(layout, limits.tolerations)
        mask &= table.large_enough(tuple(pod_class.request.items()), large)
        mask &= nodes.selected(layout, limits)
        for passes in nodes.barriers(layout, limits.tolerations).values():
            mask &= passes
        if limits.features:
            mask &= nodes.featured(layout, limits.features)
        if not mask.any():
            return False
        found = [self._devices.usable(pod_class, layout)]
        if limits.volumes:
            found.append(self._volumes.usable(pod_class, layout, binding=True, zones=True))
        for usable in found:
            if usable is not None:
                mask &= usable
        return bool(mask.any())


def _users(job: Job, key: str) -> Sequence[Task]:
    """Return the first pod of each kind that waits for a claim. Pods of a kind differ only in
    claims of their own.
    """
    kinds: dict[object, Task] = {}
    for task in sorted(job.tasks, key=devices.start_order):
        limits = task.pod_class.constraints
        uses = limits.resource_claims
        mine = any(use.claim == key and use.owner in ("", task.uid) for use in uses)
        if task.status in WAITING and mine:
            others = tuple(use for use in uses if use.owner != task.uid)
            kind = tuple(task.pod_class.request.items()), replace(limits, resource_claims=others)
            kinds.setdefault(kind, task)
    return tuple(kinds.values())[:KINDS_MAX]


def _moved(job: Job, moves: Sequence[Move]) -> Job:
    """Return the job with claims that count for other pods; the same object for equal moves."""
    text = [(claim.counted, first, other) for claim, first, other in moves]

    def moved() -> Job:
        amounts = {task.uid: Counter(task.pod_class.devices) for task in job.tasks}
        for claim, first, other in moves:
            amounts[first] = amounts[first] - Counter(claim.counted)
            amounts[other] += Counter(claim.counted)
        tasks = [_counting(task, amounts[task.uid]) for task in job.tasks]
        return replace(job, **jobs.tally(tasks))

    return job.memo(f"shared claims {text}", moved)


def _counting(task: Task, amounts: Counter[str]) -> Task:
    """Return the pod with these devices counted for it."""
    pod_class = task.pod_class
    if amounts == Counter(pod_class.devices):
        return task
    changed = PodClass(
        request=pod_class.request,
        constraints=pod_class.constraints,
        hints=pod_class.hints,
        devices=dict(sorted(amounts.items())),
    )
    return replace(task, pod_class=changed)
