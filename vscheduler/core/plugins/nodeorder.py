"""Nodeorder: the usual preferences among nodes, each with a weight.

Volcano: plugins/nodeorder, which adds up the scores of kube-scheduler's plugins.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Argument, NodeView, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.placement.pod_affinity import filters
from vscheduler.model import nodes as tables
from vscheduler.model.constraints import Toleration
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import NodeLayout

FULL_SCORE = 100.0

SIZES = (0, 1)
SIZE_COLUMNS = slice(2)
"""The columns of cpu and memory, which usage scores are computed from."""

Scores = NDArray[np.float64]


class NodeOrder(Plugin):
    """Scores usage, preferred affinity to nodes and pods, soft topology spread, and soft taints."""

    name = "nodeorder"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "leastrequested.weight": Argument(int, 1, minimum=0),
        "mostrequested.weight": Argument(int, 0, minimum=0),
        "balancedresource.weight": Argument(int, 1, minimum=0),
        "nodeaffinity.weight": Argument(int, 2, minimum=0),
        "tainttoleration.weight": Argument(int, 3, minimum=0),
        "podaffinity.weight": Argument(int, 2, minimum=0),
        "podtopologyspread.weight": Argument(int, 2, minimum=0),
        "imagelocality.weight": Argument(int, 0, minimum=0, missing="image locality"),
    }
    required_affinity_weight: ClassVar[int] = 1
    """The weight of a pod whose required affinity selects the task (kube-scheduler:
    hardPodAffinityWeight)."""

    def open(self, session: Session) -> None:
        """Read the weights. Scores by pod class and node specs are cached for the cycle."""
        values = self._values
        self._session = session
        least = float(values["leastrequested.weight"])
        most = float(values["mostrequested.weight"])
        self._balanced = float(values["balancedresource.weight"])
        # The score is least * (1 - mean) + most * mean + balanced * (1 - deviation), with terms
        # collected by what varies.
        self._empty = FULL_SCORE * (least + self._balanced)
        self._fuller = FULL_SCORE * (most - least) / 2
        self._apart = FULL_SCORE * self._balanced / 2
        self._affinity = float(values["nodeaffinity.weight"])
        self._taints = float(values["tainttoleration.weight"])
        self._likes = float(values["podaffinity.weight"])
        self._spread = float(values["podtopologyspread.weight"])
        self._preferences: dict[PodClass, Scores] = {}
        self._soft_taints: dict[tuple[Toleration, ...], NDArray[np.int64] | None] = {}

    @depends_on(On.CLASS | On.NODE | On.USED)
    def score_nodes(self, task: Task, nodes: NodeView) -> Scores:
        """Return scores for usage and for preferred node affinity, the latter unscaled."""
        scores = self._usage(task, nodes)
        if self._affinity and task.pod_class.constraints.preferred:
            known = self._preferences.get(task.pod_class)
            if known is None:
                wanted = tables.preference(nodes.layout, task.pod_class.constraints.preferred)
                known = self._preferences[task.pod_class] = self._affinity * wanted
            scores += known if nodes.rows is None else known[nodes.rows]
        return scores

    @depends_on(On.CLASS)
    def score_node_set(
        self, task: Task, nodes: NodeView, feasible: NDArray[np.bool_]
    ) -> Scores | None:
        """Return scores comparing feasible nodes with each other, by taints and pods near them.

        None only if neither concerns the task. The answer must not depend on which nodes happen to
        be feasible now.
        """
        answers = [
            self._without_taints(task, nodes, feasible),
            *self._near_pods(task, nodes, feasible),
        ]
        given = [answer for answer in answers if answer is not None]
        return sum(given, start=np.zeros(nodes.size)) if given else None

    def _near_pods(
        self, task: Task, nodes: NodeView, feasible: NDArray[np.bool_]
    ) -> Iterator[Scores | None]:
        """Yield scores for preferred pod affinity and soft topology spread."""
        affinity = self._session.affinity_counts.state_of(task)
        if affinity is None:
            return
        if self._likes:
            likes = filters.affinity_score(affinity, self.required_affinity_weight, feasible)
            yield None if likes is None else self._likes * likes
        if self._spread:
            even = filters.spread_score(
                affinity, task.pod_class.constraints, nodes.layout, feasible
            )
            yield None if even is None else self._spread * even

    def _without_taints(
        self, task: Task, nodes: NodeView, feasible: NDArray[np.bool_]
    ) -> Scores | None:
        """Return 100 for nodes without soft taints, down to 0 for nodes with the most.

        PreferNoSchedule taints count unless tolerated. Kubernetes: TaintToleration.NormalizeScore.
        """
        bears = task.pod_class.constraints.tolerations
        if bears in self._soft_taints:
            counts = self._soft_taints[bears]
        else:
            counts = self._soft_taints[bears] = None
            if self._taints:
                key = ("soft taints", bears)
                counts = nodes.layout.memo(key, lambda: _soft_taints(nodes.layout, bears))
                self._soft_taints[bears] = counts
        if counts is None:
            return None
        most = int(counts[feasible].max(initial=0))
        kept: Scores = 1.0 - counts / most if most else np.ones(counts.size)
        return self._taints * FULL_SCORE * np.where(feasible, kept, 0.0)

    def _usage(self, task: Task, nodes: NodeView) -> Scores:
        """Return weighted scores for least, most and balanced usage of cpu and memory.

        A resource missing on a node counts as used like the other resource, so mean and balance
        depend on the latter alone.
        """
        request = self._session.request(task)
        parts = [_used_part(nodes, column, request[column]) for column in SIZES]
        if not np.logical_and.reduce(nodes.allocatable[:, SIZE_COLUMNS], axis=None):
            missing = [nodes.allocatable[:, column] == 0 for column in SIZES]
            parts = [
                np.where(missing[column], parts[1 - column], parts[column]) for column in SIZES
            ]
        cpu, memory = parts
        # In place, as new arrays cost more than the sums: empty + fuller * (cpu + memory), less
        # apart * abs(cpu - memory).
        scores: Scores = cpu + memory
        scores *= self._fuller
        scores += self._empty
        if self._balanced:
            apart = np.subtract(cpu, memory, out=cpu)
            np.abs(apart, out=apart)
            apart *= self._apart
            scores -= apart
        return scores


def _used_part(nodes: NodeView, column: int, amount: np.int64) -> Scores:
    """Return the fraction of a resource in use with this amount added, at most 1, (n,).

    Usage is the larger of present and future usage: reserved resources are as good as taken.
    """
    taken = np.maximum(nodes.used[:, column], nodes.future_used[:, column])
    taken += amount
    part: Scores = taken.astype(np.float64)
    part /= nodes.sizes(column)
    return np.minimum(part, 1.0, out=part)


def _soft_taints(
    layout: NodeLayout, tolerations: tuple[Toleration, ...]
) -> NDArray[np.int64] | None:
    """Return the number of soft taints of each node, (N,); None if there are none at all."""
    counts = tables.soft_taints(layout, tolerations)
    return counts if counts.any() else None
