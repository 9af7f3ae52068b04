"""Devices of claims that queues share, by node: how many there are, and how many pods hold."""

from typing import Protocol

import numpy as np

from vscheduler.core.model import jobs, resources, snapshot


class DeviceSupply(Protocol):
    """The devices that claims can get, as far as shares read them."""

    def supply(self, space: resources.ResourceSpace) -> resources.Vector | None:
        """Return how many devices of each class nodes have, without those of other schedulers'
        pods, (N, R); None where no resource stands for devices.
        """

    def first_like(self, pod_class: jobs.PodClass) -> jobs.PodClass:
        """Return a class of pods that could use the same nodes, as their claims ask for the same;
        perhaps the class itself.
        """


def held(taken: snapshot.Snapshot, space: resources.ResourceSpace) -> resources.Vector:
    """Return the devices that pods of ours hold on each node, (N, R)."""
    table = taken.nodes
    found = np.zeros_like(table.ours)
    for pod_class, placed in taken.pods_by_class.items():
        if pod_class.devices:
            rows = placed.rows(table.layout)
            there = rows >= 0
            each = placed.counts[there, np.newaxis] * space.vector(pod_class.devices)
            np.add.at(found, rows[there], each)
    return found
