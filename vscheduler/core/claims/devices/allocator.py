"""Allocator: devices of one node for claims, or the proof that there are none.

Kubernetes: dynamic-resource-allocation structured Allocator, which does this for the claims of one
pod. Here the claims of all pods that are placed on a node in a cycle are solved together, so a pod
that any device would do for never keeps the only large one from another.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from vscheduler.core.claims.devices.tables import DeviceTable, Flags
from vscheduler.model import devices
from vscheduler.model.constraints import Operator, Requirement, Term
from vscheduler.model.devices import (
    Access,
    AllocatedDevice,
    Allocation,
    Configuration,
    Device,
    DeviceClass,
    DeviceToleration,
    ResourceClaim,
)
from vscheduler.model.nodes import Mask

STEPS_MAX = 5_000
"""How many devices are tried for the claims of a node."""

NODE_NAME = "metadata.name"
"""The field of nodes that node selectors may be about."""

PICKS_MAX = 256
"""How many devices are chosen together at most: the search calls itself for each."""


class Demand(msgspec.Struct, frozen=True, eq=False):
    """One way to satisfy a request, with the devices that could be used for it."""

    path: str
    """The request, or `request/subrequest`."""
    request: str
    device_class: str
    expressions: tuple[str, ...]
    """What the class and the request select by."""
    count: int | None
    """None: all that match."""
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    matches: Flags
    """Devices (D,) that the class and the request select."""
    usable: Flags
    """The same, without devices whose taints aren't tolerated."""
    failed: Mapping[int, str] = msgspec.field(default_factory=dict)
    """By position, devices for which an expression failed, and how."""
    unsupported: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How many devices match that are never allocated, by what these use."""
    resource: str = ""
    """The extended resource that the request stands for, if any."""
    provided: Mask | None = None
    """Nodes (N,) whose device plugin has this resource: nothing is asked for there."""


class Rule(msgspec.Struct, frozen=True, eq=False):
    """A matchAttribute constraint of a claim."""

    attribute: str
    requests: frozenset[str]

    def concerns(self, demand: Demand) -> bool:
        """Whether the devices of a request must have equal values."""
        return not self.requests or not self.requests.isdisjoint((demand.request, demand.path))


class Shape(msgspec.Struct, frozen=True, eq=False):
    """What a claim asks for. Equal claims share a Shape."""

    requests: tuple[tuple[Demand, ...], ...]
    """By request, what satisfies it, best first."""
    rules: tuple[Rule, ...] = ()
    parts: dict[tuple[int, ...], "Shape"] = msgspec.field(default_factory=dict)
    """What is left of it on nodes, by the positions of the requests."""

    def at(self, row: int) -> "Shape":
        """Return what is asked for on a node: what its device plugin has is left out."""
        firsts = (alternatives[0].provided for alternatives in self.requests)
        left = tuple(at for at, there in enumerate(firsts) if there is None or not there[row])
        if len(left) == len(self.requests):
            return self
        if left not in self.parts:
            self.parts[left] = Shape(tuple(self.requests[at] for at in left), self.rules)
        return self.parts[left]

    @property
    def is_plain(self) -> bool:
        """Whether numbers of devices decide: no alternatives, constraints or other modes."""
        return not self.rules and all(
            len(request) == 1 and request[0].count is not None and not request[0].admin_access
            for request in self.requests
        )


Choice: TypeAlias = tuple[tuple[Demand, tuple[int, ...]], ...]
"""By request, how it is satisfied, and the positions of the devices."""


class OutOfStepsError(Exception):
    """The search has tried too many devices."""


class Allocator:
    """The search for devices of some claims on one node."""

    def __init__(
        self,
        table: DeviceTable,
        shapes: Sequence[Shape],
        positions: Sequence[int],
        free: Flags,
        most: int = STEPS_MAX,
    ) -> None:
        """`free` are the devices (D,) that no claim has, `positions` those of the node, and `most`
        the steps that the search may take.
        """
        self._table, self._shapes, self._positions = table, shapes, positions
        self._used: set[int] = {at for at in positions if not free[at]}
        self._most = most
        self.steps = 0
        """How many devices have been tried."""
        demands = [each for shape in shapes for request in shape.requests for each in request]
        self._candidates = {
            demand: [at for at in positions if demand.usable[at]] for demand in demands
        }
        attributes = sorted({rule.attribute for shape in shapes for rule in shape.rules})
        self._kinds: dict[int, Hashable] = {
            at: (
                tuple(bool(demand.usable[at]) for demand in demands),
                tuple(_value(table.devices[at], name) for name in attributes),
                at in self._used,
            )
            for at in positions
        }
        """What stands for a device, equal for devices that may replace each other."""
        self._picked: list[list[tuple[Demand, list[int]]]] = [[] for _ in shapes]
        self._values: dict[Rule, list[Hashable]] = {
            rule: [] for shape in shapes for rule in shape.rules
        }

    def allocate(self) -> list[Choice] | None:
        """Return devices for each claim, or None. Raises OutOfStepsError."""
        if not self._could_fit() or not self._claim(0):
            return None
        return [
            tuple((demand, tuple(sorted(picked))) for demand, picked in each)
            for each in self._picked
        ]

    def _could_fit(self) -> bool:
        """Whether there are enough devices for each request, and for all together."""
        needed, reach, picks = 0, set[int](), 0
        for shape in self._shapes:
            for alternatives in shape.requests:
                least = min(alternative.count or 1 for alternative in alternatives)
                picks += least
                if any(alternative.admin_access for alternative in alternatives):
                    continue
                found = {at for alternative in alternatives for at in self._candidates[alternative]}
                found -= self._used
                if len(found) < least:
                    return False
                needed += least
                reach |= found
        if picks > PICKS_MAX:
            raise OutOfStepsError
        return len(reach) >= needed

    def _claim(self, claim: int) -> bool:
        return claim == len(self._shapes) or self._request(claim, 0)

    def _request(self, claim: int, request: int) -> bool:
        requests = self._shapes[claim].requests
        if request == len(requests):
            return self._claim(claim + 1)
        picked = self._picked[claim]
        count_so_far = sum(len(picks) for _, picks in picked)
        for demand in requests[request]:
            count = demand.count
            if count is None:
                every = [at for at in self._positions if demand.matches[at]]
                count = len(every)
            if not count or count_so_far + count > devices.RESULTS_MAX:
                continue
            picked.append((demand, []))
            if demand.count is None and count > len(self._candidates[demand]):
                picks = False  # one of all devices has a taint
            else:
                picks = self._pick(claim, request, count, 0)
            if picks:
                return True
            picked.pop()
        return False

    def _pick(self, claim: int, request: int, left: int, start: int) -> bool:
        """Choose the remaining devices of a request among the candidates from `start` on."""
        if not left:
            return self._request(claim, request + 1)
        demand, picked = self._picked[claim][request]
        candidates = self._candidates[demand]
        tried: set[Hashable] = set()
        for index in range(start, len(candidates) - left + 1):
            at = candidates[index]
            kind = self._kinds[at]
            if kind in tried or not self._is_available(claim, demand, at):
                if demand.count is None:
                    return False
                continue
            self.steps += 1
            if self.steps > self._most:
                raise OutOfStepsError
            tried.add(kind)
            rules = [rule for rule in self._shapes[claim].rules if rule.concerns(demand)]
            if self._agrees(rules, at):
                self._take(rules, demand, at)
                picked.append(at)
                if self._pick(claim, request, left - 1, index + 1):
                    return True
                picked.pop()
                self._give_back(rules, demand, at)
            if demand.count is None:
                return False
        return False

    def _is_available(self, claim: int, demand: Demand, at: int) -> bool:
        """Whether the claim hasn't got the device already, nor has anybody else."""
        if any(at in picked for _, picked in self._picked[claim]):
            return False
        return demand.admin_access or at not in self._used

    def _agrees(self, rules: Sequence[Rule], at: int) -> bool:
        """Whether the device has the value that all devices of these requests have."""
        for rule in rules:
            value = _value(self._table.devices[at], rule.attribute)
            values = self._values[rule]
            if value is None or (values and values[0] != value):
                return False
        return True

    def _take(self, rules: Sequence[Rule], demand: Demand, at: int) -> None:
        if not demand.admin_access:
            self._used.add(at)
        for rule in rules:
            self._values[rule].append(_value(self._table.devices[at], rule.attribute))

    def _give_back(self, rules: Sequence[Rule], demand: Demand, at: int) -> None:
        if not demand.admin_access:
            self._used.remove(at)
        for rule in rules:
            self._values[rule].pop()


def _value(device: Device, attribute: str) -> Hashable:
    """Return what can be compared of an attribute: true isn't 1, nor a version its text."""
    value = device.attributes.get(attribute)
    return None if value is None else (type(value).__name__, value)


def allocation(
    claim: ResourceClaim,
    classes: Mapping[str, DeviceClass],
    table: DeviceTable,
    choice: Choice,
) -> Allocation:
    """Return the allocation of a claim that gets these devices."""
    results = [
        AllocatedDevice(
            request=demand.path,
            id=table.id_of(at),
            admin_access=demand.admin_access,
            tolerations=demand.tolerations,
        )
        for demand, picked in choice
        for at in picked
    ]
    accesses = [table.access[at] for _, picked in choice for at in picked]
    return Allocation(
        devices=tuple(results),
        configurations=tuple(_configurations(claim, classes, choice)),
        nodes=_nodes(accesses),
    )


def _configurations(
    claim: ResourceClaim, classes: Mapping[str, DeviceClass], choice: Choice
) -> Iterator[Configuration]:
    """Iterate over what drivers are told: first by the classes, then by the claim."""
    by_class: dict[str, list[str]] = {}
    for demand, _ in choice:
        by_class.setdefault(demand.device_class, []).append(demand.path)
    for name, paths in by_class.items():
        for configuration in classes[name].configurations:
            yield replace(configuration, requests=tuple(paths))
    names = {name for demand, _ in choice for name in (demand.request, demand.path)}
    for configuration in claim.configurations:
        if not configuration.requests or not names.isdisjoint(configuration.requests):
            yield configuration


def _nodes(accesses: Iterable[Access]) -> tuple[Term, ...] | None:
    """Return the nodes that can use all these devices; None: every node."""
    labels: dict[Requirement, None] = {}
    fields: dict[Requirement, None] = {}
    for access in accesses:
        if access.node:
            name = Requirement(NODE_NAME, Operator.IN, (access.node,))
            return (Term(fields=(name,)),)
        if access.selector is not None and not access.every_node:
            labels |= dict.fromkeys(access.selector.labels)
            fields |= dict.fromkeys(access.selector.fields)
    if not labels and not fields:
        return None
    return (Term(labels=tuple(labels), fields=tuple(fields)),)
