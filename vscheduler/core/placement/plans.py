"""Plans: the scores of all nodes for tasks that find the same."""

from collections.abc import Hashable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import jobs, resources

Rows: TypeAlias = NDArray[np.int64]

PlanKey: TypeAlias = tuple[Hashable, str, Hashable]
"""What tasks with equal plans have in common."""

NOTHING_YET = np.empty(0)
"""The arrays of a plan before the first evaluation."""


class Plan:
    """The scores of all nodes for tasks of one queue and pod class, or with equal claims.

    `idle` and `future` (N,) hold the score of each node with room for the pod, now or after pending
    releases, and -inf for all other nodes.
    """

    __slots__ = (
        *("chosen", "future", "idle", "number", "only", "outlook", "request"),
        *("has_row_outlook", "seen", "set_scored", "task"),
    )

    def __init__(self, task: jobs.Task, request: resources.Vector) -> None:
        self.task = task
        self.request = request
        self.only: Rows | None = None
        """The rows of the few nodes that have what the task's claims have got; None: all."""
        self.idle = self.future = NOTHING_YET
        self.outlook: list[Hashable] = []
        """What scores depend on besides the nodes, as declared by plugins."""
        self.has_row_outlook: bool | None = None
        """Whether plugins declare that scores depend on more of a node than its arrays show; None
        until a node changes."""
        self.seen = 0
        """How much of `session.cluster.touched` the plan has followed."""
        self.set_scored = True
        """Whether score_node_set has answered for this plan so far."""
        self.number = 0
        """The key of the plan in the lookahead, renewed whenever the outlook changes."""
        self.chosen: int | None = None
        """The row chosen last, if the task can start there now."""
