"""Binpack: fill nodes in use before empty nodes.

Volcano: plugins/binpack. A node's score is 100 times the plugin's weight times the utilization with
the pod on the node, as a weighted mean over the resources in the pod's request.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Argument, NodeView, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.model import resources
from vscheduler.model.jobs import PodClass, Task

FULL_SCORE = 100.0
PREFIX = "binpack.resources"


class Binpack(Plugin):
    """Scores nodes by weighted utilization.

    cpu, memory and the resources in `binpack.resources` count.
    """

    name = "binpack"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "binpack.weight": Argument(int, 1, minimum=0),
        "binpack.cpu": Argument(int, 1, minimum=0),
        "binpack.memory": Argument(int, 1, minimum=0),
        PREFIX: Argument(str, ""),
        f"{PREFIX}.*": Argument(int, 1, minimum=0),
    }

    def open(self, session: Session) -> None:
        """Read the weights. Resources without a column are left out, since no pod requests them."""
        self._session = session
        values = self._values
        self._weight = float(values["binpack.weight"])
        weights = {
            resources.CPU: float(values["binpack.cpu"]),
            resources.MEMORY: float(values["binpack.memory"]),
        }
        listed: str = values[PREFIX]
        for name in filter(None, map(str.strip, listed.split(","))):
            weights[name] = self._listed_weight(name)
        columns = session.space.columns
        self._weights = sorted(
            (columns[name], weight)
            for name, weight in weights.items()
            if name in columns and weight
        )
        self._parts: dict[PodClass, list[tuple[int, int, float]]] = {}

    @depends_on(On.CLASS | On.NODE | On.USED)
    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """Return the scores. A resource too small or missing on the node adds nothing."""
        total = np.zeros(nodes.size)
        for column, amount, weight in self._parts.get(task.pod_class) or self._part(task):
            used = nodes.used[:, column] + amount
            part = used.astype(np.float64)
            part /= nodes.sizes(column)
            part *= weight
            part[used > nodes.allocatable[:, column]] = 0.0
            total += part
        return total

    def _part(self, task: Task) -> list[tuple[int, int, float]]:
        """Return column, requested amount and maximum score of each resource that counts."""
        request: list[int] = self._session.request(task).tolist()
        counted = [(column, weight) for column, weight in self._weights if request[column]]
        whole = sum([weight for _, weight in counted])
        parts = [
            (column, request[column], self._weight * FULL_SCORE * weight / whole)
            for column, weight in counted
        ]
        self._parts[task.pod_class] = parts
        return parts

    def _listed_weight(self, name: str) -> float:
        """Return the weight of a resource from `binpack.resources`."""
        weight = self._arguments.get(f"{PREFIX}.{name}", self.arguments[f"{PREFIX}.*"].default)
        assert isinstance(weight, int)
        return weight
