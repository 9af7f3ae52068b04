"""Interfaces: what a Session is handed by the layers above, as Session and its users see it.

The cycle hands in placement, and the counts of pods near nodes (core.cycle.open_session).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from vscheduler.core.api import contracts, views
from vscheduler.core.model import decisions, jobs, nodes, pod_affinity

Refusals: TypeAlias = tuple[tuple[str, int], ...]
"""What nodes say, with their number."""

Holes: TypeAlias = tuple[decisions.MissingResource, ...]
"""The largest room that is left, by resource."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a task may go."""

    row: int
    idle: bool
    """Whether it may start at once, or waits there for room that is being freed."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why nodes refuse a task."""

    refusals: Refusals
    holes: Holes
    outsized: Holes
    """Where the task is larger than any node that it may use: the most that one of these has."""


class Placement(Protocol):
    """Which node a task may go to, as things stand (core.placement.placement)."""

    def choose(self, task: jobs.Task) -> Choice | None:
        """The best node for this task as things stand, or None."""

    def feasible(self, task: jobs.Task, row: int) -> bool:
        """Whether this node takes the task, now or once what is being freed is free."""

    def reachable(self, task: jobs.Task) -> nodes.Mask:
        """Nodes (N,) that nothing but room, or what evictions could change, keeps from the task."""

    def ranked(self, task: jobs.Task, mask: nodes.Mask) -> list[int]:
        """The rows of these nodes (N,), best score first, whether the task fits there or not."""

    def explanation(self, task: jobs.Task) -> Explanation:
        """Why nodes refuse this task."""

    def standing_explanation(self, task: jobs.Task) -> Explanation:
        """Why nodes would refuse this task if nothing ran on them."""

    def explain(self, task: jobs.Task) -> tuple[Refusals, Holes]:
        """Why nodes refuse this task, with their number, and the largest room that is left."""

    def verdicts(
        self, task: jobs.Task, view: contracts.NodeView
    ) -> Sequence[contracts.FilterResult]:
        """What every filter says of these nodes, and which are left alone for now."""


class PodAffinityCounts(views.PodAffinityCounts, Protocol):
    """Which pods are near a node (core.placement.pod_affinity.counts)."""

    @property
    def has_guests(self) -> bool:
        """Whether any pod was placed near others that it must be near."""

    def move(self, task: jobs.Task, row: int, seat: pod_affinity.Seat, step: int) -> None:
        """The task takes this seat, or leaves it (-1)."""

    def would_miss(self, tasks: Sequence[jobs.Task]) -> bool:
        """Whether these pods on nodes are the last that others were placed near in this cycle."""
