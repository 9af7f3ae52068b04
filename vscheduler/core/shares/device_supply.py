"""Devices of claims that queues share, by node: how many there are, and how many pods hold."""

from typing import Protocol

import numpy as np

from vscheduler.model.jobs import PodClass
from vscheduler.model.resources import ResourceSpace, Vector
from vscheduler.model.snapshot import Snapshot


class DeviceSupply(Protocol):
    """The devices that claims can get, as far as shares read them."""

    def supply(self, space: ResourceSpace) -> Vector | None:
        """Return how many devices of each class nodes have, without those of other schedulers'
        pods, (N, R); None where no resource stands for devices.
        """

    def first_like(self, pod_class: PodClass) -> PodClass:
        """Return a class of pods that could use the same nodes, as their claims ask for the same;
        perhaps the class itself.
        """


def held(snapshot: Snapshot, space: ResourceSpace) -> Vector:
    """Return the devices that pods of ours hold on each node, (N, R)."""
    table = snapshot.nodes
    found = np.zeros_like(table.ours)
    for pod_class, placed in snapshot.pods_by_class.items():
        if pod_class.devices:
            rows = placed.rows(table.layout)
            there = rows >= 0
            each = placed.counts[there, np.newaxis] * space.vector(pod_class.devices)
            np.add.at(found, rows[there], each)
    return found
