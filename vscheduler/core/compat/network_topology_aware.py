"""Volcano's plugin network-topology-aware: its scores, and what it doesn't enforce."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import NodeView
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.plugins.network_topology_aware import FULL_SCORE, NetworkTopologyAware
from vscheduler.core.topology.groups import Group
from vscheduler.core.topology.network import Rank
from vscheduler.core.topology.tree import Floats, Ints, Tree
from vscheduler.model.jobs import Task
from vscheduler.model.resources import Vector


class VolcanoNetworkTopologyAware(NetworkTopologyAware):
    """Takes the fullest domain of a tier, and scores nodes by their distance from placed pods.

    A hard request without a known tier is none.
    """

    lenient: ClassVar[bool] = True

    def _rank(self) -> Rank:
        return self._emptiness

    def _emptiness(self, tree: Tree, tasks: Sequence[Task], used: Vector) -> Floats:
        """Return how empty domains (D,) are with all of these pods.

        Volcano: scoreHyperNodeBinPacking.
        """
        session = self._session
        request = sum((session.request(task) for task in tasks), session.space.zeros())
        full: Floats = self._fullness(tree, request, used, session.snapshot.nodes.allocatable)
        return 1.0 - full

    def _beside(self, task: Task) -> Hashable:
        group = self._group(task)
        return None if group is None else (self._near(task), tuple(sorted(group.pods.items())))

    @depends_on(On.CLASS | On.NODE, fingerprint=_beside)
    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """Return how near nodes are to placed pods of the task's group; of the nearest, those in
        the domain of most of them.

        Volcano: scoreNodesForHardTopology, scoreNodeForSoftTopology.
        """
        group = self._group(task)
        if group is None:
            return self._normal_scores(task, nodes)
        place, tree = group.place, group.tree
        if place is None or not tree.root:
            return np.zeros(nodes.size)
        tiers = tree.tiers[: tree.root]
        lowest, highest = int(tiers.min()), int(tiers.max())
        common: Ints = np.full(len(tree.lowest), tree.tiers[tree.root])
        for domain in reversed(tree.ancestors(place)):
            common[tree.mask(domain)] = tree.tiers[domain]
        span = highest - lowest
        found: Floats = np.clip((highest - common) / max(span, 1), 0.0, 1.0)
        if not span:
            found = (common <= highest).astype(np.float64)
        found[tree.lowest == place] = 1.0
        there = np.zeros(len(tree.domains))
        for domain, count in group.pods.items():
            there[domain] = count / self._session.job_states[task.job].job.task_count
        best = found == found.max()
        found[best] += there[tree.lowest[best]]
        scores: Floats = nodes.of(found)
        return self._weight * FULL_SCORE * scores

    def _group(self, task: Task) -> Group | None:
        found = self._topology.of(task.job)
        return None if found is None else list(found.of(task))[-1]
