"""Choices: a volume for each claim that waits for a pod's node.

Kubernetes: kube-scheduler VolumeBinding.FindPodVolumes. A volume that is chosen for a claim is
given away for the rest of the cycle; so is a node chosen for a claim that several pods share.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.claims.volumes import tables
from vscheduler.core.claims.volumes.claims import Needs
from vscheduler.core.claims.volumes.tables import Ints, VolumeTable
from vscheduler.model import computed, nodes
from vscheduler.model.claim_decisions import ClaimBinding
from vscheduler.model.constraints import ClaimUse, Selector, Term
from vscheduler.model.jobs import Job, Task, TaskId
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.storage import Claim, Storage, Volume

Choices: TypeAlias = Mapping[str, str | None]
"""By claim, the chosen volume, or None for a volume to be made."""


class Chosen(msgspec.Struct, frozen=True):
    """What was decided in this cycle for a claim that isn't bound."""

    row: int
    volume: str | None
    tasks: int
    """How many tasks rely on it."""


class VolumeSupply(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The existing volumes (P) that could be chosen for claims, by what these demand (D)."""

    names: Sequence[str]
    fits: NDArray[np.bool_]
    """(D, P), whether the volume could be chosen for a claim with the demand."""
    reach: Sequence[Ints]
    """By volume, the nodes on which it can be used."""
    provided: NDArray[np.bool_]
    """(D, N), the nodes for which a new volume could be made instead."""


class VolumeChoices:
    """The choices of a cycle for claims that aren't bound."""

    def __init__(self, storage: Storage, layout: NodeLayout, every: Collection[Job]) -> None:
        self._storage, self._layout, self._jobs = storage, layout, every
        self._choices: dict[TaskId, Choices] = {}
        self._chosen: dict[str, Chosen] = {}
        """By claim, for claims of tasks placed in this cycle."""
        self._given: dict[str, dict[str, None]] = {}
        """By class, volumes chosen in this cycle."""
        self._versions: Counter[str] = Counter()
        """By class, how often `_given` has changed."""
        self._intended: Choices = {}
        """What claims get that have no choice yet; see `intend`."""

    def decided(self, task: Task, needs: Needs, row: int) -> tuple[ClaimBinding, ...]:
        """Return the claims to bind before the task may start on this node."""
        choices = self._choices.get(task.uid)
        if choices is None:
            choices = self._choose(needs, row) or {}
        return tuple(
            self._request(self._storage.claims[key], choices[key], row)
            for key in needs.unbound
            if key in choices
        )

    def state(self, needs: Needs) -> Hashable:
        """Return what was decided in this cycle that matters for these claims."""
        return tuple(
            (self._versions[claim.class_name], self._chosen.get(claim.key))
            for claim in needs.delayed
        )

    def _request(self, claim: Claim, volume: str | None, row: int) -> ClaimBinding:
        chosen = self._chosen.get(claim.key)
        node = claim.selected_node or self._layout.names[row if chosen is None else chosen.row]
        if volume is None:
            requested = bool(claim.selected_node)
        else:
            requested = self._storage.volumes[volume].is_for(claim)
        return ClaimBinding(
            namespace=claim.namespace,
            name=claim.name,
            uid=claim.uid,
            volume=volume,
            node=node,
            requested=requested,
        )

    def assume(self, task: Task, needs: Needs, row: int) -> None:
        """Give the task's claims what is chosen for them on this node."""
        choices = self._choose(needs, row) if needs.delayed else None
        if not choices:
            return
        self._choices[task.uid] = choices
        for key, volume in choices.items():
            chosen = self._chosen.get(key)
            if chosen is not None:
                self._chosen[key] = Chosen(chosen.row, chosen.volume, chosen.tasks + 1)
                continue
            self._chosen[key] = Chosen(row, volume, 1)
            self._give(key, volume, given=True)

    def forget(self, task: Task) -> None:
        """Undo `assume` exactly."""
        for key in self._choices.pop(task.uid, ()):
            chosen = self._chosen[key]
            if chosen.tasks > 1:
                self._chosen[key] = Chosen(chosen.row, chosen.volume, chosen.tasks - 1)
            else:
                del self._chosen[key]
                self._give(key, chosen.volume, given=False)

    def intend(self, choices: Choices) -> None:
        """Choose these volumes for these claims, and for no others; see Volumes.intend."""
        for key in {*self._intended, *choices}:
            self._versions[self._storage.claims[key].class_name] += 1
        self._intended = choices

    def _taken(self, of_class: str) -> Collection[str]:
        """Return the volumes of a class that are chosen, or are to be chosen, for other claims."""
        given = self._given.get(of_class, {})
        if not self._intended:
            return given
        return {*given, *filter(None, self._intended.values())}

    def choosing(self, needs: Needs) -> list[Claim]:
        """Return the claims for which a volume is still to be chosen."""
        return [
            claim
            for claim in needs.delayed
            if not claim.selected_node
            and claim.key not in self._intended
            and self._decided(claim) is None
            and self._reserved(claim) is None
        ]

    def supply(self, wanted: Sequence[Claim], most: int) -> VolumeSupply:
        """Return the volumes that could be chosen for these claims; see demands.VolumeDemands.

        If more than `most` volumes for the same nodes satisfy a demand, other claims leave one of
        the first `most`, so the rest doesn't matter.
        """
        names: list[str] = []
        fits: list[tuple[int, int]] = []
        reach: list[Ints] = []
        for of_class in sorted({claim.class_name for claim in wanted}):
            table = self._table(of_class)
            if table is None:
                continue
            given, number = self._taken(of_class), dict[int, int]()
            for demand, claim in enumerate(wanted):
                if claim.class_name != of_class:
                    continue
                for position in table.first(table.fitting(claim, given), most).tolist():
                    if position not in number:
                        number[position] = len(names)
                        names.append(table.volumes[position].name)
                        reach.append(table.reach(position))
                    fits.append((demand, number[position]))
        flags = np.zeros((len(wanted), len(names)), dtype=np.bool_)
        for pair in fits:
            flags[pair] = True
        provided = np.array([self._provisioned(claim) for claim in wanted], dtype=np.bool_)
        return VolumeSupply(names=names, fits=flags, reach=reach, provided=provided)

    def _give(self, key: str, volume: str | None, *, given: bool) -> None:
        of_class = self._storage.claims[key].class_name
        self._versions[of_class] += 1
        if volume is None:
            return
        if given:
            self._given.setdefault(of_class, {})[volume] = None
        else:
            del self._given[of_class][volume]

    def bindable(self, needs: Needs) -> tuple[Mask, Mask]:
        """Return the nodes (N,) on which all claims get a volume, and those with space for it."""
        bindable = np.ones(self._layout.size, dtype=np.bool_)
        roomy = bindable.copy()
        free: list[Claim] = []
        for claim in needs.delayed:
            mask = self._intent(claim) if claim.key in self._intended else self._decided(claim)
            if mask is not None:
                bindable &= mask
                continue
            if claim.selected_node:
                row = self._layout.rows.get(claim.selected_node)
                there = np.zeros(self._layout.size, dtype=np.bool_)
                if row is not None:
                    there[row] = True
                bindable &= there
                self._provide(claim, there, bindable, roomy)
            else:
                free.append(claim)
        matched = self._matched(free)
        for claim in free:
            self._provide(claim, ~matched[claim.key], bindable, roomy)
        return bindable, roomy

    def _matched(self, free: Iterable[Claim]) -> dict[str, Mask]:
        """Return where claims get existing volumes, by claim, (N,)."""
        found = {}
        for of_class, members in _by_class(free).items():
            choosing = []
            for claim in members:
                reserved = self._reserved(claim)
                if reserved is not None:
                    found[claim.key] = tables.usable(reserved.affinity, self._layout)
                else:
                    choosing.append(claim)
            table = self._table(of_class)
            if table is None:
                nowhere = np.zeros(self._layout.size, dtype=np.bool_)
                found.update((claim.key, nowhere) for claim in choosing)
                continue
            given = self._taken(of_class)
            chosen = table.on_every_row([table.fitting(claim, given) for claim in choosing])
            for claim, positions in zip(choosing, chosen, strict=True):
                found[claim.key] = positions != tables.NONE
        return found

    def _provide(self, claim: Claim, where: Mask, bindable: Mask, roomy: Mask) -> None:
        """Take nodes out of the masks that need a new volume for the claim and can't have one."""
        if not where.any():
            return
        allowed = self._provisioned(claim)
        bindable &= allowed | ~where
        roomy &= self._spacious(claim) | ~(where & allowed)

    def _decided(self, claim: Claim) -> Mask | None:
        """Return where the volume of a claim can be used that is already decided elsewhere, (N,).

        None if nothing is decided, or the claim has no other users.
        """
        chosen = self._chosen.get(claim.key)
        if chosen is None and not (claim.selected_node and self._is_shared(claim)):
            return None
        if chosen is None or chosen.volume is None:
            return self._provisioned(claim)
        return tables.usable(self._storage.volumes[chosen.volume].affinity, self._layout)

    def _intent(self, claim: Claim) -> Mask:
        """Return where the claim can be used with the volume that it is to get, (N,)."""
        volume = self._intended[claim.key]
        if volume is None:
            return self._provisioned(claim)
        return tables.usable(self._storage.volumes[volume].affinity, self._layout)

    def _is_shared(self, claim: Claim) -> bool:
        """Whether several waiting pods of one job use the claim.

        None of them starts before the claim is bound, so the node selected for the claim is only
        the node of the first.
        """
        return claim.key in self._shared

    @computed.once
    def _shared(self) -> frozenset[str]:
        """The claims that several waiting pods of any one job use."""
        found: set[str] = set()
        for job in self._jobs:
            of_job: Counter[str] = Counter()
            for pod_class, (_, waiting) in job.classes.items():
                for volume in pod_class.constraints.volumes if waiting else ():
                    if isinstance(volume, ClaimUse):
                        of_job[volume.claim] += waiting
            found.update(key for key, users in of_job.items() if users > 1)
        return frozenset(found)

    def _reserved(self, claim: Claim) -> Volume | None:
        """Return the volume that is reserved for the claim, if the claim can get it."""
        for volume in self._storage.reserved.get(claim.key, ()):
            if (
                volume.is_for(claim)
                and volume.capacity >= claim.request
                and volume.mode == claim.mode
                and volume.attributes_class == claim.attributes_class
                and volume.storage_class == claim.class_name
                and not volume.deleting
            ):
                return volume
        return None

    def _table(self, of_class: str) -> VolumeTable | None:
        volumes = self._storage.available.get(of_class)
        if volumes is None:
            return None
        return self._storage.memo.get(
            ("table", of_class),
            (volumes, self._layout),
            lambda: VolumeTable(volumes, self._layout),
        )

    def _provisioned(self, claim: Claim) -> Mask:
        """Return the nodes (N,) for which a volume can be made, whatever its size."""
        storage_class = self._storage.class_of(claim)
        if storage_class is None or not storage_class.provisions:
            return np.zeros(self._layout.size, dtype=np.bool_)
        if not storage_class.topologies:
            return np.ones(self._layout.size, dtype=np.bool_)
        return nodes.matches_any(self._layout, storage_class.topologies)

    def _spacious(self, claim: Claim) -> Mask:
        """Return the nodes (N,) with enough space for a new volume, as far as the driver tells."""
        storage_class = self._storage.class_of(claim)
        driver = self._storage.drivers.get(storage_class.provisioner if storage_class else "")
        if driver is None or not driver.storage_capacity or not claim.request:
            return np.ones(self._layout.size, dtype=np.bool_)
        mask = np.zeros(self._layout.size, dtype=np.bool_)
        for each in self._storage.capacities.get(claim.class_name, ()):
            if each.nodes is not None and each.largest >= claim.request:
                mask |= _labelled(each.nodes, self._layout)
        return mask

    def _choose(self, needs: Needs, row: int) -> Choices | None:
        """Return what the claims get on one node; None if one of them gets nothing."""
        choices: dict[str, str | None] = {}
        free: list[Claim] = []
        for claim in needs.delayed:
            if self._is_fixed(claim, row):
                choices[claim.key] = self._fixed(claim)
            else:
                free.append(claim)
        for of_class, members in _by_class(free).items():
            table = self._table(of_class)
            positions = [tables.NONE] * len(members)
            if table is not None:
                given = self._taken(of_class)
                choosing = [claim for claim in members if self._reserved(claim) is None]
                found = table.on_row([table.fitting(claim, given) for claim in choosing], row)
                by_claim = dict(zip((claim.key for claim in choosing), found, strict=True))
                positions = [by_claim.get(claim.key, tables.NONE) for claim in members]
            for claim, position in zip(members, positions, strict=True):
                if position != tables.NONE and table is not None:
                    choices[claim.key] = table.volumes[position].name
                elif self._provisioned(claim)[row]:
                    choices[claim.key] = None
                else:
                    return None
        return choices

    def _is_fixed(self, claim: Claim, row: int) -> bool:
        """Whether it is settled what the claim gets on this node, whatever volumes there are."""
        if claim.key in self._chosen or claim.key in self._intended or claim.selected_node:
            return True
        reserved = self._reserved(claim)
        return reserved is not None and bool(tables.usable(reserved.affinity, self._layout)[row])

    def _fixed(self, claim: Claim) -> str | None:
        """Return the volume of such a claim, or None for a volume to be made."""
        chosen = self._chosen.get(claim.key)
        if chosen is not None:
            return chosen.volume
        if claim.key in self._intended:
            return self._intended[claim.key]
        reserved = None if claim.selected_node else self._reserved(claim)
        return None if reserved is None else reserved.name


def _by_class(members: Iterable[Claim]) -> dict[str, list[Claim]]:
    found: dict[str, list[Claim]] = {}
    for claim in members:
        found.setdefault(claim.class_name, []).append(claim)
    return found


def _labelled(selector: Selector, layout: NodeLayout) -> Mask:
    """Return the nodes (N,) with labels that a selector matches."""
    # A term without requirements matches no node, but a selector matches all.
    if not selector.requirements:
        return np.ones(layout.size, dtype=np.bool_)
    return nodes.matches(layout, Term(selector.requirements))
