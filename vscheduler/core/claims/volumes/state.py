"""Volumes as a cycle decides: which nodes the volumes of pods allow.

Kubernetes: kube-scheduler VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import FilterResult, NodeView
from vscheduler.core.claims.volumes import claims, demands
from vscheduler.core.claims.volumes.attach_limits import AttachLimits
from vscheduler.core.claims.volumes.choices import VolumeChoices
from vscheduler.core.claims.volumes.claims import Needs
from vscheduler.core.claims.volumes.demands import VolumeDemands
from vscheduler.core.claims.volumes.users import VolumeUsers
from vscheduler.model import computed
from vscheduler.model.claim_decisions import ClaimBinding
from vscheduler.model.constraints import DiskUse, PodVolume
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.pod_affinity import PodPresence
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.snapshot import Snapshot

LIMIT = Refusal(RefusalCode.VOLUME_LIMIT)
DISK_IN_USE = Refusal(RefusalCode.DISK_IN_USE)
CLAIM_IN_USE = Refusal(RefusalCode.CLAIM_IN_USE)

NEEDS_COST = 30
"""About how many microseconds it takes to read the claims of a class."""

MATCH_COST = 150
"""The same for choosing volumes of a claim on all nodes, beside the nodes' part."""

ROW_COST = 10
"""The same for counting the volumes of one node."""

NODES_PER_UNIT = 50
"""For how many nodes the choice of volumes takes about a microsecond."""

NEEDS_MAX = 4096
"""The most classes whose needs are kept. When full, all are dropped at once."""


class VolumeState:
    """The volumes of a cycle; see node_views.Volumes."""

    def __init__(self, snapshot: Snapshot, spend: Callable[[str, int], None]) -> None:
        self._storage, self._layout = snapshot.storage, snapshot.nodes.layout
        self._spend = spend
        self._limits = AttachLimits(self._storage, self._layout)
        self._choices = VolumeChoices(self._storage, self._layout, snapshot.jobs)
        self._untouched = VolumeChoices(self._storage, self._layout, snapshot.jobs)
        """What could be chosen as the cycle began."""
        self._users = VolumeUsers(self._storage, self._layout)
        self._binds = self._attaches = False
        """Whether a plugin looks at claims, and at attach limits."""
        self.bind_timeout_seconds = 0.0
        """How long pods keep their nodes while a claim isn't bound; 0 without a limit."""
        self._needs: dict[tuple[PodVolume, ...], Needs] = {}
        self._delayed: dict[tuple[PodVolume, ...], tuple[Hashable, list[FilterResult]]] = {}
        """By volumes, the nodes (N,) on which claims can be bound, and what that depends on."""

    @computed.once
    def demands(self) -> VolumeDemands:
        """The demands of gangs, once plugins are open."""
        return VolumeDemands(
            self._needs_of,
            self._choices,
            self._limits,
            self._users,
            self._storage,
            binds=self._binds,
            attaches=self._attaches,
        )

    def bind_claims(self, timeout_seconds: float) -> None:
        """Let `unbound` and `assume` answer: a plugin looks at claims."""
        self._binds = self._storage.served
        self.bind_timeout_seconds = timeout_seconds

    def limit_attachments(self) -> None:
        """Let the demands of gangs count against attach limits: a plugin looks at these."""
        self._attaches = self._storage.served

    def intend(self, choices: Mapping[str, str | None]) -> None:
        """Choose these volumes for these claims, by `namespace/name`, whatever else would fit; None
        is a volume to be made. Empty: choose freely again.

        Claims for which volumes are chosen already keep them.
        """
        self._choices.intend(choices)

    @property
    def binds(self) -> bool:
        """Whether claims are bound before pods."""
        return self._binds

    def unbound(self, task: Task, row: int) -> tuple[ClaimBinding, ...]:
        """Return the claims to bind before the task may start on this node, each with its choice.

        In the order of the pod's volumes. Empty if all claims are bound, or no plugin looks at
        claims. For a task that is placed already, the choice is the one made with its placement.
        """
        if not (task.volumes and self._binds):
            return ()
        return self._choices.decided(task, self._needs_of(task.volumes), row)

    def assume(self, task: Task, row: int) -> None:
        """Give the task's claims what is chosen for them on this node."""
        if self._binds and (needs := self._needs_of(task.volumes)).delayed:
            self._choices.assume(task, needs, row)

    def forget(self, task: Task) -> None:
        """Undo `assume` exactly."""
        self._choices.forget(task)

    def move(self, task: Task, row: int, presence: PodPresence, step: int) -> None:
        """Count the task's volumes with this presence (step 1), or remove them again (step -1)."""
        self._users.move(task, row, presence, step)

    def usable(
        self, pod_class: PodClass, layout: NodeLayout, *, binding: bool, zones: bool
    ) -> Mask | None:
        """Return the nodes (N,) of a layout that bound claims allow, other pods aside; None: all.

        `binding` and `zones` tell which filters count.
        """
        volumes = pod_class.constraints.volumes
        needs = self._needs_of(volumes)
        if layout is not self._layout and self._storage.served:
            needs = claims.needs_of(volumes, self._storage, layout)
        if binding and any(claims.lasting(problem) for problem in needs.problems):
            return np.zeros(layout.size, dtype=np.bool_)
        results = (*(needs.binding if binding else ()), *(needs.zones if zones else ()))
        masks = [result.passes for result in results]
        return np.logical_and.reduce(masks) if masks else None

    def binding(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answers of VolumeBinding for these nodes."""
        volumes = pod_class.constraints.volumes
        needs = self._needs_of(volumes)
        for problem in needs.problems:
            nowhere = np.zeros(view.size, dtype=np.bool_)
            yield FilterResult(problem, nowhere, temporary=not claims.lasting(problem))
        for result in (*needs.binding, *(self._delayed_of(volumes) if needs.delayed else ())):
            yield FilterResult(result.refusal, view.of(result.passes), temporary=result.temporary)

    def zones(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answers of VolumeZone for these nodes."""
        for result in self._needs_of(pod_class.constraints.volumes).zones:
            yield FilterResult(result.refusal, view.of(result.passes))

    def restrictions(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answers of VolumeRestrictions for these nodes."""
        needs = self._needs_of(pod_class.constraints.volumes)
        for key in needs.single:
            staying, leaving, coming = self._users.of_claim(key)
            yield FilterResult(
                CLAIM_IN_USE,
                np.full(view.size, not (staying or leaving or coming)),
                np.full(view.size, not (staying or coming)),
                curable=True,
            )
        if needs.disks:
            now, later = self._free_disks(needs.disks, view.rows)
            yield FilterResult(DISK_IN_USE, now, later, curable=True)

    def limits(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answer of NodeVolumeLimits for these nodes, unless all pass."""
        volumes = pod_class.constraints.volumes
        for driver, migrated in sorted(self._limits.needed(volumes)):
            missing = self._limits.missing(driver, migrated=migrated)
            there = ~(missing if view.rows is None else missing[view.rows])
            if not there.all():
                yield FilterResult(Refusal(RefusalCode.DRIVER_MISSING, driver), there)
        rows = self._near_limit(volumes)
        if view.rows is not None:
            near = np.isin(view.rows, rows)
        else:
            near = np.zeros(view.size, dtype=np.bool_)
            near[rows] = True
        if not near.any():
            return
        now = np.ones(view.size, dtype=np.bool_)
        later = now.copy()
        found: dict[int, tuple[bool, bool]] = {}
        for at in np.flatnonzero(near).tolist():
            row = at if view.rows is None else int(view.rows[at])
            if row not in found:
                self._spend("volumes", ROW_COST)
                found[row] = self._limits.passes(volumes, row, self._users.on(row))
            now[at], later[at] = found[row]
        yield FilterResult(LIMIT, now, later, curable=True)

    # What answers depend on, beside the arrays of nodes.

    def fingerprint(self, pod_class: PodClass) -> Hashable:
        """Return what the answers for all nodes depend on."""
        needs = self._needs_of(pod_class.constraints.volumes)
        if not (needs.delayed or needs.single):
            return None
        return self._choices.state(needs), tuple(self._users.of_claim(key) for key in needs.single)

    def row_fingerprint(
        self, pod_class: PodClass, rows: NDArray[np.int64]
    ) -> Sequence[Hashable] | None:
        """Return what the answers for each node depend on; None if nothing changes them."""
        needs = self._needs_of(pod_class.constraints.volumes)
        if not (needs.disks or self._limits.drivers(needs.attached)):
            return None
        return [self._users.fingerprint(row) for row in rows.tolist()]

    def _needs_of(self, volumes: tuple[PodVolume, ...]) -> Needs:
        needs = self._needs.get(volumes)
        if needs is None:
            self._spend("volumes", NEEDS_COST * len(volumes))
            if len(self._needs) >= NEEDS_MAX:
                self._needs.clear()
                self._delayed.clear()
            needs = self._needs[volumes] = (
                claims.needs_of(volumes, self._storage, self._layout)
                if self._storage.served
                else Needs()
            )
        return needs

    def _delayed_of(self, volumes: tuple[PodVolume, ...]) -> list[FilterResult]:
        needs = self._needs_of(volumes)
        state = self._choices.state(needs)
        answer = self._delayed.get(volumes)
        if answer is None or answer[0] != state:
            cost = MATCH_COST + self._layout.size // NODES_PER_UNIT
            self._spend("volumes", cost * len(needs.delayed))
            bindable, roomy = self._choices.bindable(needs)
            before = bindable
            if state != self._untouched.state(needs):
                before = bindable | self._untouched.bindable(needs)[0]
            # What this cycle has chosen for other claims says nothing about the node itself.
            results = [
                FilterResult(claims.NO_MATCH, before),
                FilterResult(claims.NO_MATCH, bindable | ~before, temporary=True),
                FilterResult(claims.NO_SPACE, roomy),
            ]
            answer = state, [result for result in results if not result.passes.all()]
            self._delayed[volumes] = answer
        return answer[1]

    def _near_limit(self, volumes: Sequence[PodVolume]) -> NDArray[np.int64]:
        """Return the rows that these volumes could bring beyond a limit."""
        near = np.zeros(self._layout.size, dtype=np.bool_)
        for driver, count in self._limits.drivers(volumes).items():
            most = self._limits.at_most() + count
            for row, changes in self._users.changes.items():
                most[row] += len(changes)
            near |= most > self._limits.limit(driver)
        return np.flatnonzero(near)

    def _free_disks(
        self, disks: Sequence[DiskUse], rows: NDArray[np.int64] | None
    ) -> tuple[Mask, Mask]:
        """Return the nodes where no pod uses these disks in a way that excludes others."""
        size = self._layout.size
        now, later = np.ones(size, dtype=np.bool_), np.ones(size, dtype=np.bool_)
        used = {self._layout.rows[name] for name in self._storage.uses if name in self._layout.rows}
        self._spend("volumes", len(used) // NODES_PER_UNIT)
        for row in used | self._users.changes.keys():
            for volume, (staying, leaving, coming) in self._users.on(row).items():
                if any(demands.conflict(disk, volume) for disk in disks):
                    now[row] &= not (staying or leaving or coming)
                    later[row] &= not (staying or coming)
        return (now, later) if rows is None else (now[rows], later[rows])
