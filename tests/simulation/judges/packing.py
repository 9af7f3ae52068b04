"""Whether some of these pods fit on nodes at the same time: by trying, up to a limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.simulation.judges.amounts import Amounts

TRIES_MAX = 20_000
"""What isn't found by then counts as impossible: the judge is careful."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What a pod asks for, and the nodes that may take it."""

    asked: Amounts
    nodes: frozenset[str]


def has_room(room: Amounts, limit: Mapping[str, int], asked: Mapping[str, int]) -> bool:
    """Whether a node and a limit have room; what a node doesn't name, it hasn't got."""
    for resource, amount in asked.items():
        if amount and (room[resource] < amount or limit.get(resource, amount) < amount):
            return False
    return True


class Packing:
    """One attempt to place some of the pods."""

    def __init__(self, free: Mapping[str, Amounts], limit: Mapping[str, int]) -> None:
        """`free` is by node; of what `limit` names, the pods together may have no more."""
        self._free = {name: Amounts(room) for name, room in free.items()}
        self._limit = dict(limit)
        self._failed: set[object] = set()
        self._tries = 0

    def takes(self, pods: Sequence[Pod], need: int) -> bool:
        """Whether so many of these pods fit; the larger ones should come first."""
        if need <= 0:
            return True
        self._tries += 1
        state = (len(pods), need, *(tuple(sorted(room.items())) for room in self._free.values()))
        if len(pods) < need or self._tries > TRIES_MAX or state in self._failed:
            return False
        pod, others = pods[0], pods[1:]
        for name in sorted(pod.nodes):
            if has_room(self._free[name], self._limit, pod.asked):
                self._move(pod, name, 1)
                found = self.takes(others, need - 1)
                self._move(pod, name, -1)
                if found:
                    return True
        if self.takes(others, need):
            return True
        self._failed.add(state)
        return False

    def _move(self, pod: Pod, name: str, step: int) -> None:
        for resource, amount in pod.asked.items():
            self._free[name][resource] -= step * amount
            if resource in self._limit:
                self._limit[resource] -= step * amount
