"""Extended resources that stand for a DeviceClass: what nodes have of them.

A node whose device plugin has some of the resource has that, and nothing else. Every other node has
as much of it as devices of the class, which pods get by a claim that the scheduler makes for them.
Kubernetes: shouldDelegateResourceToDRA of the plugin NodeResourcesFit.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
from msgspec.structs import replace

from vscheduler.core.claims.devices.tables import Ints
from vscheduler.model import devices
from vscheduler.model.devices import ResourceClaim
from vscheduler.model.nodes import Mask, NodeTable
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Snapshot


class ExtendedResources:
    """The extended resources of a cycle that stand for devices."""

    def __init__(self, snapshot: Snapshot) -> None:
        in_use = snapshot.devices is not devices.NO_DEVICES
        named = snapshot.extended_resources.items() if in_use else ()
        self._classes = {name: each for name, each in named if name in snapshot.space.columns}
        self.provided: Mapping[str, Mask] = {
            name: snapshot.nodes.allocatable[:, snapshot.space.columns[name]] > 0
            for name in self._classes
        }
        """By resource, the nodes (N,) whose device plugin has some of it."""

    def with_devices(self, snapshot: Snapshot, count: Callable[[str], Ints]) -> Snapshot:
        """Return the snapshot with nodes that have devices as extended resources.

        `count` returns how many devices of a class each node can use, (N,).
        """
        devices, table = snapshot.devices, snapshot.nodes

        def amounts() -> tuple[Vector, dict[object, Mask]]:
            found = table.allocatable.copy()
            for name, provided in self.provided.items():
                column = found[:, snapshot.space.columns[name]]
                column[~provided] = count(self._classes[name])[~provided]
            return found, {}

        depends_on = (
            devices.pools,
            devices.classes,
            table.holding,
            snapshot.space,
            snapshot.extended_resources,
        )
        allocatable, holding = devices.memo.get("extended amounts", depends_on, amounts)

        def nodes() -> NodeTable:
            return dataclasses.replace(table, allocatable=allocatable, holding=holding)

        shown = devices.memo.get("extended nodes", (table, allocatable), nodes)
        return replace(snapshot, nodes=shown)

    def provides_all(self, names: tuple[str, ...], row: int) -> bool:
        """Whether a node has all of these resources by its device plugin."""
        return all(name in self.provided and self.provided[name][row] for name in names)


def as_made(claim: ResourceClaim, provided: Mapping[str, Mask], size: int) -> Mask:
    """Return the nodes (N,) on which the pod of a claim for extended resources needs just what the
    claim asks for.

    A node whose device plugin has all of it is no such node: the kubelet lets no pod start without
    the claim in its status, and the API server (1.37) doesn't let the status forget the claim.
    """
    names = {request.name for request in claim.requests}
    exact = np.ones(size, dtype=np.bool_)
    for each in claim.extended:
        there = provided.get(each.resource, np.zeros(size, dtype=np.bool_))
        exact &= there != (not names.isdisjoint(each.requests))
    return exact
