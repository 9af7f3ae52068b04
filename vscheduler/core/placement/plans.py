"""Plans: the scores of all nodes for tasks that find the same."""

from collections.abc import Hashable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.model.jobs import Task
from vscheduler.model.resources import Vector

Rows: TypeAlias = NDArray[np.int64]

PlanKey: TypeAlias = tuple[Hashable, str, Hashable]
"""What tasks with equal plans have in common."""

NOTHING_YET = np.empty(0)
"""The arrays of a plan before the first evaluation."""


class Unfiltered:
    """What is known of all nodes for a plan, filters aside, after so many changes of nodes."""

    __slots__ = ("fits_later", "fits_now", "scores", "seen", "unscored")

    def __init__(
        self,
        scores: NDArray[np.float64],
        fits_now: NDArray[np.bool_],
        fits_later: NDArray[np.bool_],
        seen: int,
    ) -> None:
        self.scores = scores
        """The score of each node (N,), whether or not the task fits."""
        self.unscored: set[int] = set()
        """Changed rows whose scores are found out once filters let them pass: after a pod, most
        don't.
        """
        self.fits_now, self.fits_later = fits_now, fits_later
        """Where the task fits, now and after pending releases, (N,)."""
        self.seen = seen
        """How much of `session.cluster.touched` these arrays have followed."""


class Plan:
    """The scores of all nodes for tasks of one queue and pod class, or with equal claims.

    `idle` and `future` (N,) hold the score of each node with room for the pod, now or after pending
    releases, and -inf for all other nodes.
    """

    __slots__ = (
        *("chosen", "future", "idle", "number", "fingerprints", "only", "request"),
        *("has_row_fingerprints", "seen", "set_scored", "task", "unfiltered"),
    )

    def __init__(self, task: Task, request: Vector) -> None:
        self.task = task
        self.request = request
        self.only: Rows | None = None
        """The rows of the few nodes that have what the task's claims have got; None: all."""
        self.idle = self.future = NOTHING_YET
        self.fingerprints: list[Hashable] = []
        """What scores depend on besides the nodes, as declared by plugins."""
        self.has_row_fingerprints: bool | None = None
        """Whether plugins declare that scores depend on more of a node than its arrays show; None
        until a node changes."""
        self.seen = 0
        """How much of `session.cluster.touched` the plan has followed."""
        self.set_scored = True
        """Whether score_node_set has answered for this plan so far."""
        self.number = 0
        """The key of the plan in the lookahead, renewed whenever the fingerprints change."""
        self.unfiltered: Unfiltered | None = None
        """Kept for plans whose fingerprints change, as long as few others have been made since."""
        self.chosen: int | None = None
        """The row chosen last, if the task can start there now."""
