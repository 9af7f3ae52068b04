"""Tables of devices: which node can use which device, and which devices a request matches.

Kubernetes: dynamic-resource-allocation structured GatherPools. Devices are numbered in the order of
pools, slices and slices' devices; a number is a device's position.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import devices, nodes

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

NOWHERE = -1
"""Instead of a row: the device's node isn't known, or several nodes can use the device."""

EFFECTS = frozenset(devices.TaintEffect)
"""Effects of taints that keep claims away."""

MATCHES_MAX = 64
"""How many answers a pool keeps. When full, all are dropped."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Which devices of a pool, or of all pools, expressions select."""

    passes: Flags
    failed: Mapping[int, str]
    """By position, the expression that failed, and how. Such a device isn't selected."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A pool as it stands in tables."""

    pool: devices.Pool
    listed: tuple[devices.Device, ...]
    ids: tuple[devices.DeviceId, ...]
    access: tuple[devices.Access, ...]
    matches: dict[tuple[str, ...], Matches] = field(default_factory=dict)

    def matching(
        self,
        expressions: tuple[str, ...],
        selectors: devices.Selectors,
        spend: Callable[[str, int], None],
    ) -> Matches:
        """Return which devices all expressions select; computed once."""
        found = self.matches.get(expressions)
        if found is None:
            if len(self.matches) >= MATCHES_MAX:
                self.matches.clear()
            found = self.matches[expressions] = self._match(expressions, selectors, spend)
        return found

    def _match(
        self,
        expressions: tuple[str, ...],
        selectors: devices.Selectors,
        spend: Callable[[str, int], None],
    ) -> Matches:
        passing, failed = range(len(self.listed)), {}
        for expression in expressions:
            asked = [self.listed[at] for at in passing]
            answers, cost = selectors.answers(expression, self.pool.driver, asked)
            spend("devices", cost)
            for at, answer in zip(passing, answers, strict=True):
                if isinstance(answer, devices.SelectorError):
                    failed[at] = f"{expression!r}: {answer}"
            passing = [at for at, answer in zip(passing, answers, strict=True) if answer is True]
        passes = np.zeros(len(self.listed), dtype=np.bool_)
        passes[passing] = True
        return Matches(passes, failed)


def part_of(pool: devices.Pool, *, unsupported: bool = False) -> Part:
    """Return the devices of a pool that can be allocated at all, or those that can't because of
    what they use.
    """
    listed = [
        (device, access)
        for each in (pool.slices if pool.complete and not pool.duplicate else ())
        for device in each.devices
        if (access := device.access or each.access) is not None
        and bool(device.unsupported) is unsupported
    ]
    return Part(
        pool,
        tuple(device for device, _ in listed),
        tuple(devices.DeviceId(pool.driver, pool.name, device.name) for device, _ in listed),
        tuple(access for _, access in listed),
    )


class DeviceTable:
    """All devices that can be allocated, and the nodes that can use them."""

    def __init__(self, parts: Iterable[Part], layout: nodes.NodeLayout) -> None:
        self._parts = tuple(parts)
        self._layout = layout
        self.devices = [device for part in self._parts for device in part.listed]
        self.ids = [each for part in self._parts for each in part.ids]
        self.access = [each for part in self._parts for each in part.access]
        rows = layout.rows
        self.rows: Ints = np.fromiter(
            (rows.get(each.node, NOWHERE) for each in self.access),
            dtype=np.int64,
            count=len(self.access),
        )
        """The row of each device (D,) that one node alone can use."""
        self._order = np.argsort(self.rows, kind="stable")
        self._starts = self.rows[self._order].searchsorted(np.arange(layout.size + 1))
        self.shared = self._shared()
        self._matches: dict[tuple[str, ...], Matches] = {}
        self._tolerated: dict[tuple[devices.DeviceToleration, ...], Flags] = {}

    @cached_property
    def positions(self) -> Mapping[devices.DeviceId, int]:
        """By device, its position."""
        return {each: at for at, each in enumerate(self.ids)}

    def _shared(self) -> list[tuple[nodes.Mask, Ints]]:
        """Return the devices that several nodes can use, by the nodes (N,) that can."""
        groups: dict[devices.Access, list[int]] = {}
        for at in np.flatnonzero(self.rows == NOWHERE).tolist():
            if not self.access[at].node:
                groups.setdefault(self.access[at], []).append(at)
        return [
            (reaching(access, self._layout), np.array(positions, dtype=np.int64))
            for access, positions in groups.items()
        ]

    def on(self, row: int) -> list[int]:
        """Return the positions of the devices that a node can use, ascending."""
        found: list[int] = self._order[self._starts[row] : self._starts[row + 1]].tolist()
        for mask, positions in self.shared:
            if mask[row]:
                found = sorted([*found, *positions.tolist()])
        return found

    def counts(self, chosen: Flags) -> Ints:
        """Return how many of these devices (D,) each node can use, (N,)."""
        local = self.rows[chosen & (self.rows != NOWHERE)]
        found = np.bincount(local, minlength=self._layout.size)
        for mask, positions in self.shared:
            found = found + mask * int(chosen[positions].sum())
        return found

    def at_one_node(self, chosen: Flags) -> Ints:
        """Return how many of these devices (D,) there are by node, (N,). Devices that several nodes
        can use count for the first of these that is ready.
        """
        found = np.bincount(
            self.rows[chosen & (self.rows != NOWHERE)], minlength=self._layout.size
        ).astype(np.int64)
        for mask, positions in self.shared:
            ready = np.flatnonzero(mask & self._layout.ready)
            if ready.size:
                found[ready[0]] += int(chosen[positions].sum())
        return found

    @cached_property
    def unready(self) -> nodes.Mask:
        """Nodes (N,) with devices of a pool that is being updated or has a name twice."""
        mask = np.zeros(self._layout.size, dtype=np.bool_)
        for part in self._parts:
            if part.pool.complete and not part.pool.duplicate:
                continue
            for each in part.pool.slices:
                for access in (each.access, *(device.access for device in each.devices)):
                    if access is not None:
                        mask |= reaching(access, self._layout)
        return mask

    def matching(
        self,
        expressions: tuple[str, ...],
        selectors: devices.Selectors,
        spend: Callable[[str, int], None],
    ) -> Matches:
        """Return which devices (D,) all expressions select."""
        found = self._matches.get(expressions)
        if found is None:
            parts = [part.matching(expressions, selectors, spend) for part in self._parts]
            failed = {}
            start = 0
            for part in parts:
                failed.update({start + at: error for at, error in part.failed.items()})
                start += part.passes.size
            every = [np.zeros(0, dtype=np.bool_), *(part.passes for part in parts)]
            found = self._matches[expressions] = Matches(np.concatenate(every), failed)
        return found

    def unsupported(
        self,
        expressions: tuple[str, ...],
        selectors: devices.Selectors | None,
        spend: Callable[[str, int], None],
    ) -> Mapping[str, int]:
        """Return how many devices all expressions select that are never allocated, by what these
        use, sorted.
        """
        found: Counter[str] = Counter()
        for part in self._unsupported:
            passes = np.ones(len(part.listed), dtype=np.bool_)
            if expressions:
                assert selectors is not None
                passes = part.matching(expressions, selectors, spend).passes
            found.update(part.listed[at].unsupported for at in np.flatnonzero(passes).tolist())
        return dict(sorted(found.items()))

    @cached_property
    def _unsupported(self) -> list[Part]:
        parts = (part_of(part.pool, unsupported=True) for part in self._parts)
        return [part for part in parts if part.listed]

    def tolerated(self, tolerations: tuple[devices.DeviceToleration, ...]) -> Flags:
        """Return which devices (D,) have no taint that isn't tolerated."""
        found = self._tolerated.get(tolerations)
        if found is None:
            found = np.ones(len(self.devices), dtype=np.bool_)
            for at, taints in self._tainted:
                found[at] = all(
                    any(each.tolerates(taint) for each in tolerations) for taint in taints
                )
            self._tolerated[tolerations] = found
        return found

    @cached_property
    def _tainted(self) -> list[tuple[int, list[devices.DeviceTaint]]]:
        return [
            (at, taints)
            for at, device in enumerate(self.devices)
            if (taints := [each for each in device.taints if each.effect in EFFECTS])
        ]


def reaching(access: devices.Access, layout: nodes.NodeLayout) -> nodes.Mask:
    """Return the nodes (N,) that can use a device."""
    mask = np.full(layout.size, access.every_node and not access.node, dtype=np.bool_)
    if access.node in layout.rows:
        mask[layout.rows[access.node]] = True
    elif access.selector is not None and not access.every_node and not access.node:
        mask = nodes.matches(layout, access.selector)
    return mask
