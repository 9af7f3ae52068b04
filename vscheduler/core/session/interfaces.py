"""Interfaces: what a Session receives from higher layers, as Session and its users see them.

`core.cycle.open_session` passes in a Placement and the PodAffinityCounts.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import views
from vscheduler.core.api.contracts import FilterResult, NodeView
from vscheduler.core.session.job_state import JobState
from vscheduler.model.decisions import MissingResource, RefusalCounts, ReservedFor
from vscheduler.model.jobs import Task
from vscheduler.model.nodes import Mask
from vscheduler.model.pod_affinity import PodPresence
from vscheduler.model.snapshot import Reservation

Holes: TypeAlias = tuple[MissingResource, ...]
"""The largest free amount on any node, by resource."""


class Choice(msgspec.Struct, frozen=True):
    """The node chosen for a task."""

    row: int
    idle: bool
    """Whether the task fits now; otherwise the task waits here for resources being released."""


class Explanation(msgspec.Struct, frozen=True):
    """Why nodes refuse a task."""

    refusals: RefusalCounts
    holes: Holes
    outsized: Holes
    """The largest node's amounts, if the task is larger than any node that the task may use."""
    reserved: ReservedFor | None = None
    """For whom nodes keep room that the task would find there."""


class Placement(Protocol):
    """The choice of nodes in the present state of the session (core.placement.placement)."""

    def choose(self, task: Task) -> Choice | None:
        """Return the best node for this task, or None."""

    def may_take(self, task: Task) -> bool:
        """Whether any node can take pods of the task's class and queue, for all that is declared:
        False is certain for all of them.
        """

    def fits(self, task: Task) -> tuple[Mask, Mask]:
        """Return the nodes (N,) that take the task now, and after pending releases."""

    def looks_elsewhere(self, task: Task) -> bool:
        """Whether pods on one node may decide whether another one can take the task, for all that
        plugins declare.
        """

    def follows_pods(self, task: Task) -> bool:
        """Whether filters look at more of other pods than what they use and their ports."""

    def feasible(self, task: Task, row: int) -> bool:
        """Whether this node can take the task, now or after pending releases."""

    def undeclared_allow(self, task: Task, row: int) -> bool:
        """Whether the plugins that declare nothing let this node take the task."""

    def at(self, task: Task, row: int) -> Choice | None:
        """Return this node as a choice, or None if it can't take the task."""

    def reachable(self, task: Task) -> Mask:
        """Return the nodes (N,) that the task could use if evictions made space for the task."""

    def ranked(self, task: Task, mask: Mask) -> list[int]:
        """Return the rows of these nodes (N,), best score first, even if the task doesn't fit."""

    def scores(self, task: Task) -> NDArray[np.float64]:
        """Return the score of each node (N,) for the task; 0 where the task doesn't fit."""

    def explanation(self, task: Task) -> Explanation:
        """Return why nodes refuse this task."""

    def empty_node_explanation(self, task: Task) -> Explanation:
        """Return why nodes would refuse this task if no pods ran on any node."""

    def refusals(self, task: Task) -> tuple[RefusalCounts, Holes]:
        """Return the refusals with node counts, and the largest free amounts."""

    def verdicts(self, task: Task, view: NodeView) -> Sequence[FilterResult]:
        """Return the results of all filters for these nodes.

        The pause after a kubelet's refusal is one of the results.
        """


class Reservations(Protocol):
    """Starts that waiting jobs are promised (core.placement.reservations)."""

    def wanted(self, queue: str) -> bool:
        """Whether a job of the queue that doesn't fit gets a reservation."""

    def due(self) -> Sequence[JobState]:
        """Return the jobs that may start now as promised, in the order of the promises."""

    def restore(self) -> None:
        """Take up the reservations of the last cycle."""

    def reserve(self, state: JobState) -> None:
        """Promise the job the first start that can be found, if there is any."""

    def note_unknown(self, state: JobState) -> None:
        """Tell a job that can't be promised a start what isn't known."""

    def respected_by(
        self, state: JobState, *, evicting: bool = False
    ) -> AbstractContextManager[None]:
        """Let what is reserved for others count as used, as far as the job would still run then."""

    def keep_out(self, state: JobState) -> bool:
        """Whether the job surely can't start by now, since what is free is reserved for others."""

    def respected_by_all(self) -> AbstractContextManager[None]:
        """Let all that is reserved count as used, for the reasons of jobs that it keeps out."""

    def conclude(self) -> None:
        """Drop the reservations of jobs that start, and tell the jobs that wait."""

    def carried(self) -> tuple[Reservation, ...]:
        """Return what the next cycle takes up."""


class PodAffinityCounts(views.PodAffinityCounts, Protocol):
    """Counts of pods per topology domain (core.placement.pod_affinity.counts)."""

    def move(self, task: Task, row: int, presence: PodPresence, step: int) -> None:
        """Count the task with this presence (step 1), or remove the task again (step -1)."""

    def rests_on(self, task: Task, others: Iterable[Task]) -> bool:
        """Whether required affinity, or a hard spread, of the waiting task counts these pods."""
