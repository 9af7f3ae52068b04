"""Tables of devices: which node can use which device, and which devices a request matches.

Kubernetes: dynamic-resource-allocation structured GatherPools. Devices are numbered in the order of
pools, slices and slices' devices; a number is a device's position.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.claims.devices import reading
from vscheduler.core.claims.devices.reading import Steps
from vscheduler.model import nodes
from vscheduler.model.devices import (
    Access,
    Answer,
    Device,
    DeviceId,
    DeviceInventory,
    DeviceTaint,
    DeviceToleration,
    Pool,
    PoolId,
    SelectorError,
    Selectors,
    TaintEffect,
)
from vscheduler.model.nodes import Mask, NodeLayout

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

NOWHERE = -1
"""Instead of a row: the device's node isn't known, or several nodes can use the device."""

EFFECTS = frozenset(TaintEffect)
"""Effects of taints that keep claims away."""

MATCHES_MAX = 64
"""How many answers a pool keeps. When full, all are dropped."""


class Matches(msgspec.Struct, frozen=True):
    """Which devices of a pool, or of all pools, expressions select."""

    passes: Flags
    failed: Mapping[int, str]
    """By position, the expression that failed, and how. Such a device isn't selected."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A pool as it stands in tables. What doesn't depend on other pools is kept here, so that a
    change of one pool costs no work for the devices of all others.
    """

    pool: Pool
    listed: tuple[Device, ...]
    """Devices that can be allocated at all."""
    access: tuple[Access, ...]
    """Of each of these."""
    unsupported: tuple[Device, ...] = ()
    """Devices that can't, because of what they use."""
    matches: dict[tuple[str, ...], Matches] = field(default_factory=dict)
    never: dict[tuple[str, ...], Matches] = field(default_factory=dict)
    """The same for `unsupported`."""
    id: PoolId = field(init=False)
    unready: bool = field(init=False)
    """Whether the pool is being updated or has a name twice."""
    positions: Mapping[str, int] = field(init=False)
    """By name of a device that can be allocated, its position in the pool."""
    nodes: tuple[str, ...] = field(init=False)
    """By device, the name of the only node, or empty."""
    tainted: tuple[tuple[int, tuple[DeviceTaint, ...]], ...] = field(init=False)
    """Positions of devices with taints that keep claims away, and these taints."""

    def __post_init__(self) -> None:
        names = (device.name for device in self.listed)
        tainted = (
            (at, tuple(taint for taint in device.taints if taint.effect in EFFECTS))
            for at, device in enumerate(self.listed)
            if device.taints
        )
        values = {
            "positions": {name: at for at, name in enumerate(names)},
            "nodes": tuple(each.node for each in self.access),
            "tainted": tuple((at, taints) for at, taints in tainted if taints),
            "id": self.pool.id,
            "unready": not self.pool.complete or bool(self.pool.duplicate),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def matching(self, expressions: tuple[str, ...], selectors: Selectors) -> Steps[Matches]:
        """Return which devices all expressions select; computed once."""
        return self._computed_once(self.matches, self.listed, expressions, selectors)

    def matching_unsupported(
        self, expressions: tuple[str, ...], selectors: Selectors
    ) -> Steps[Matches]:
        """Return the same for devices that can't be allocated."""
        return self._computed_once(self.never, self.unsupported, expressions, selectors)

    def _computed_once(
        self,
        computed: dict[tuple[str, ...], Matches],
        listed: Sequence[Device],
        expressions: tuple[str, ...],
        selectors: Selectors,
    ) -> Steps[Matches]:
        answer = computed.get(expressions)
        if answer is None:
            answer = yield from matches(self.pool.driver, listed, expressions, selectors)
            if len(computed) >= MATCHES_MAX:
                computed.clear()
            computed[expressions] = answer
        return answer


def matches(
    driver: str,
    listed: Sequence[Device],
    expressions: Sequence[str],
    selectors: Selectors,
) -> Steps[Matches]:
    """Return which devices of a driver all expressions select."""
    passing: Sequence[int] = range(len(listed))
    failed = {}
    for expression in expressions:
        answers: list[Answer] = []
        while len(answers) < len(passing):
            yield 0
            asked = (listed[passing[at]] for at in range(len(answers), len(passing)))
            more, cost = selectors.answers(expression, driver, asked, reading.STEP_COST)
            answers += more
            yield cost
        for at, answer in zip(passing, answers, strict=True):
            if isinstance(answer, SelectorError):
                failed[at] = f"{expression!r}: {answer}"
        passing = [at for at, answer in zip(passing, answers, strict=True) if answer is True]
    passes = np.zeros(len(listed), dtype=np.bool_)
    passes[np.array(passing, dtype=np.int64)] = True
    return Matches(passes, failed)


def part_of(pool: Pool) -> Part:
    """Return the devices of a pool."""
    reached = [
        (device, access)
        for each in (pool.slices if pool.complete and not pool.duplicate else ())
        for device in each.devices
        if (access := device.access or each.access) is not None
    ]
    listed = [(device, access) for device, access in reached if not device.unsupported]
    return Part(
        pool=pool,
        listed=tuple(device for device, _ in listed),
        access=tuple(access for _, access in listed),
        unsupported=tuple(device for device, _ in reached if device.unsupported),
    )


class DeviceTable:
    """All devices that can be allocated, and the nodes that can use them."""

    def __init__(self, parts: Iterable[Part], layout: NodeLayout) -> None:
        self._parts = tuple(parts)
        self._layout = layout
        every = itertools.chain.from_iterable
        self.devices = list(every([part.listed for part in self._parts]))
        self.access = list(every([part.access for part in self._parts]))
        sizes = [len(part.listed) for part in self._parts]
        self.size = sum(sizes)
        """The number of devices D."""
        starts = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)))
        self._part_starts = starts[:-1]
        self._places: dict[PoolId, tuple[Part | None, int]] = {
            part.id: (part, start)
            for part, start in zip(self._parts, self._part_starts.tolist(), strict=True)
        }
        names = every([part.nodes for part in self._parts])
        self.rows: Ints = np.fromiter(
            map(layout.rows.get, names, itertools.repeat(NOWHERE)),
            dtype=np.int64,
            count=self.size,
        )
        """The row of each device (D,) that one node alone can use."""
        self._order = np.argsort(self.rows, kind="stable")
        self._starts = self.rows[self._order].searchsorted(np.arange(layout.size + 1))
        self.shared = self._shared()
        self._matches: dict[tuple[str, ...], Matches] = {}
        self._tolerated: dict[tuple[DeviceToleration, ...], Flags] = {}

    def id_of(self, at: int) -> DeviceId:
        """Return what identifies the device at a position."""
        pool = self._parts[int(self._part_starts.searchsorted(at, side="right")) - 1].pool
        return DeviceId(pool.driver, pool.name, self.devices[at].name)

    def position(self, device: DeviceId) -> int | None:
        """Return the position of a device; None if it isn't there, or is never allocated."""
        part, start = self._places.get(PoolId(device.driver, device.pool), (None, 0))
        at = None if part is None else part.positions.get(device.device)
        return None if at is None else start + at

    def flags(self, chosen: Iterable[DeviceId]) -> Flags:
        """Return which devices (D,) are among these."""
        found = np.zeros(self.size, dtype=np.bool_)
        for device in chosen:
            at = self.position(device)
            if at is not None:
                found[at] = True
        return found

    def _shared(self) -> list[tuple[Mask, Ints]]:
        """Return the devices that several nodes can use, by the nodes (N,) that can."""
        groups: dict[Access, list[int]] = {}
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
    def unready(self) -> Mask:
        """Nodes (N,) with devices of a pool that is being updated or has a name twice."""
        mask = np.zeros(self._layout.size, dtype=np.bool_)
        for part in [part for part in self._parts if part.unready]:
            for each in part.pool.slices:
                for access in (each.access, *(device.access for device in each.devices)):
                    if access is not None:
                        mask |= reaching(access, self._layout)
        return mask

    def knows(self, expressions: tuple[str, ...]) -> bool:
        """Whether `matching` costs nothing."""
        return expressions in self._matches

    def matching(self, expressions: tuple[str, ...], selectors: Selectors) -> Steps[Matches]:
        """Return which devices (D,) all expressions select."""
        found = self._matches.get(expressions)
        if found is None:
            parts = []
            for part in self._parts:
                computed = part.matches.get(expressions)
                parts.append(computed or (yield from part.matching(expressions, selectors)))
            failed = {
                start + at: error
                for part, start in zip(parts, self._part_starts.tolist(), strict=True)
                if part.failed
                for at, error in part.failed.items()
            }
            every = [np.zeros(0, dtype=np.bool_), *[part.passes for part in parts]]
            found = self._matches[expressions] = Matches(np.concatenate(every), failed)
        return found

    def unsupported(
        self, expressions: tuple[str, ...], selectors: Selectors | None
    ) -> Steps[Mapping[str, int]]:
        """Return how many devices all expressions select that are never allocated, by what these
        use, sorted.
        """
        found: Counter[str] = Counter()
        for part in self._with_unsupported:
            passes = np.ones(len(part.unsupported), dtype=np.bool_)
            if expressions:
                assert selectors is not None
                passes = (yield from part.matching_unsupported(expressions, selectors)).passes
            found.update(part.unsupported[at].unsupported for at in np.flatnonzero(passes).tolist())
        return dict(sorted(found.items()))

    @cached_property
    def _with_unsupported(self) -> list[Part]:
        return [part for part in self._parts if part.unsupported]

    def tolerated(self, tolerations: tuple[DeviceToleration, ...]) -> Flags:
        """Return which devices (D,) have no taint that isn't tolerated."""
        found = self._tolerated.get(tolerations)
        if found is None:
            found = np.ones(self.size, dtype=np.bool_)
            for at, taints in self._tainted:
                found[at] = all(
                    any(toleration.tolerates(taint) for toleration in tolerations)
                    for taint in taints
                )
            self._tolerated[tolerations] = found
        return found

    @cached_property
    def _tainted(self) -> list[tuple[int, tuple[DeviceTaint, ...]]]:
        return [
            (start + at, taints)
            for part, start in zip(self._parts, self._part_starts.tolist(), strict=True)
            if part.tainted
            for at, taints in part.tainted
        ]


def table_of(devices: DeviceInventory, layout: NodeLayout) -> DeviceTable:
    """Return the table of all devices that can be allocated.

    A pool that is as it was keeps what is known of it, so the change of one pool costs no work for
    the devices of all others.
    """
    parts = devices.memo.get("parts", (), dict[PoolId, Part])

    def compute() -> DeviceTable:
        current = {
            key: part
            if (part := parts.get(key)) is not None and part.pool is pool
            else part_of(pool)
            for key, pool in devices.pools.items()
        }
        parts.clear()
        parts.update(current)
        return DeviceTable(current.values(), layout)

    return devices.memo.get("table", (devices.pools, layout), compute)


class _Allocated(msgspec.Struct):
    """The devices of a table that claims had in the last cycle."""

    claimed: Mapping[DeviceId, object]
    flags: Flags


def allocated(devices: DeviceInventory, table: DeviceTable) -> Flags:
    """Return the devices (D,) that claims have. Of the last cycle's, only those change that claims
    have got or lost since.
    """
    last = devices.memo.get(
        "allocated", (table,), lambda: _Allocated({}, np.zeros(table.size, dtype=np.bool_))
    )
    if last.claimed is not devices.allocated:
        found = last.flags.copy()
        for device in last.claimed.keys() ^ devices.allocated.keys():
            at = table.position(device)
            if at is not None:
                found[at] = device in devices.allocated
        last.claimed, last.flags = devices.allocated, found
    return last.flags


def reaching(access: Access, layout: NodeLayout) -> Mask:
    """Return the nodes (N,) that can use a device."""
    mask = np.full(layout.size, access.every_node and not access.node, dtype=np.bool_)
    if access.node in layout.rows:
        mask[layout.rows[access.node]] = True
    elif access.selector is not None and not access.every_node and not access.node:
        mask = nodes.matches(layout, access.selector)
    return mask
