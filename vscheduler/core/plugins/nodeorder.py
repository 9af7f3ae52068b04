"""Nodeorder: the common preferences among nodes, each with a weight.

Volcano: plugins/nodeorder, which adds up the scores of kube-scheduler's plugins.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.framework import contracts
from vscheduler.core.model import jobs, masks

FULL_SCORE = 100.0
SIZES = slice(0, 2)
"""The columns of cpu and memory, which usage is judged by."""

Scores = NDArray[np.float64]


class NodeOrder(contracts.Plugin):
    """Usage, preferred node affinity, and taints that only ask to stay away."""

    name = "nodeorder"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "leastrequested.weight": contracts.Argument(int, 1, minimum=0),
        "mostrequested.weight": contracts.Argument(int, 0, minimum=0),
        "balancedresource.weight": contracts.Argument(int, 1, minimum=0),
        "nodeaffinity.weight": contracts.Argument(int, 2, minimum=0),
        "tainttoleration.weight": contracts.Argument(int, 3, minimum=0),
        "podaffinity.weight": contracts.Argument(int, 0, minimum=0, missing="pod affinity"),
        "podtopologyspread.weight": contracts.Argument(
            int, 0, minimum=0, missing="topology spread"
        ),
        "imagelocality.weight": contracts.Argument(int, 0, minimum=0, missing="image locality"),
    }

    def open(self, session: contracts.Session) -> None:
        """What depends on the task class and the nodes' specs only is kept for the cycle."""
        self._session = session
        self._least = self.number("leastrequested.weight")
        self._most = self.number("mostrequested.weight")
        self._balanced = self.number("balancedresource.weight")
        self._affinity = self.number("nodeaffinity.weight")
        self._taints = self.number("tainttoleration.weight")
        self._preferences: dict[jobs.TaskClass, Scores] = {}
        self._soft_taints: dict[jobs.TaskClass, NDArray[np.int64] | None] = {}

    def score_nodes(self, task: jobs.Task, nodes: contracts.NodeView) -> Scores:
        """Usage with the task on the node, and the weights of its preferred terms, unscaled."""
        scores = self._usage(task, nodes)
        if self._affinity and task.kind.constraints.preferred:
            known = self._preferences.get(task.kind)
            if known is None:
                wanted = masks.preference(nodes.layout, task.kind.constraints.preferred)
                known = self._preferences[task.kind] = self._affinity * wanted
            scores += known if nodes.rows is None else known[nodes.rows]
        return scores

    def score_node_set(
        self, task: jobs.Task, nodes: contracts.NodeView, feasible: NDArray[np.bool_]
    ) -> Scores | None:
        """PreferNoSchedule taints that the task doesn't tolerate: most of them 0, none 100.

        Kubernetes: TaintToleration.NormalizeScore. None only where no node has any: the answer
        must not depend on which nodes happen to be feasible now.
        """
        if task.kind in self._soft_taints:
            counts = self._soft_taints[task.kind]
        else:
            found = masks.soft_taints(nodes.layout, task.kind.constraints.tolerations)
            counts = self._soft_taints[task.kind] = found if self._taints and found.any() else None
        if counts is None:
            return None
        most = int(counts[feasible].max(initial=0))
        kept: Scores = 1.0 - counts / most if most else np.ones(counts.size)
        return self._taints * FULL_SCORE * np.where(feasible, kept, 0.0)

    def _usage(self, task: jobs.Task, nodes: contracts.NodeView) -> Scores:
        """Least, most and balanced use of cpu and memory, each from 0 to 100 times its weight.

        A node is judged by what is held there, or by what will be when that is more: room that is
        promised is as good as gone. A resource that the node hasn't got doesn't count.
        """
        if not (self._least or self._most or self._balanced):
            return np.zeros(nodes.size)
        allocatable = nodes.allocatable[:, SIZES]
        taken = np.maximum(nodes.used[:, SIZES], nodes.future_used[:, SIZES])
        present = allocatable > 0
        wanted = taken + self._session.request(task)[SIZES]
        parts = np.divide(wanted, allocatable, out=np.zeros(present.shape), where=present)
        used = np.minimum(parts, 1.0)
        kinds = np.maximum(present.sum(axis=1), 1)
        mean = (used[:, 0] + used[:, 1]) / kinds
        free = (present.sum(axis=1) / kinds) - mean
        apart = np.where(present.all(axis=1), np.abs(used[:, 0] - used[:, 1]) / 2, 0.0)
        scores: Scores = self._least * free + self._most * mean + self._balanced * (1.0 - apart)
        return FULL_SCORE * scores
