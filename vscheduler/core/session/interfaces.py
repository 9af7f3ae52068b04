"""Interfaces: what a Session receives from higher layers, as Session and its users see them.

`core.cycle.open_session` passes in a Placement, the PodAffinityCounts and the Volumes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts, node_views, views
from vscheduler.core.model import claim_decisions, decisions, jobs, nodes, pod_affinity

Holes: TypeAlias = tuple[decisions.MissingResource, ...]
"""The largest free amount on any node, by resource."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The node chosen for a task."""

    row: int
    idle: bool
    """Whether the task fits now; otherwise the task waits here for resources being released."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why nodes refuse a task."""

    refusals: decisions.RefusalCounts
    holes: Holes
    outsized: Holes
    """The largest node's amounts, if the task is larger than any node that the task may use."""


class Placement(Protocol):
    """The choice of nodes in the present state of the session (core.placement.placement)."""

    def choose(self, task: jobs.Task) -> Choice | None:
        """Return the best node for this task, or None."""

    def feasible(self, task: jobs.Task, row: int) -> bool:
        """Whether this node can take the task, now or after pending releases."""

    def at(self, task: jobs.Task, row: int) -> Choice | None:
        """Return this node as a choice, or None if it can't take the task."""

    def reachable(self, task: jobs.Task) -> nodes.Mask:
        """Return the nodes (N,) that the task could use if evictions made space for the task."""

    def ranked(self, task: jobs.Task, mask: nodes.Mask) -> list[int]:
        """Return the rows of these nodes (N,), best score first, even if the task doesn't fit."""

    def scores(self, task: jobs.Task) -> NDArray[np.float64]:
        """Return the score of each node (N,) for the task; 0 where the task doesn't fit."""

    def explanation(self, task: jobs.Task) -> Explanation:
        """Return why nodes refuse this task."""

    def empty_node_explanation(self, task: jobs.Task) -> Explanation:
        """Return why nodes would refuse this task if no pods ran on any node."""

    def explain(self, task: jobs.Task) -> tuple[decisions.RefusalCounts, Holes]:
        """Return the refusals with node counts, and the largest free amounts."""

    def verdicts(
        self, task: jobs.Task, view: contracts.NodeView
    ) -> Sequence[contracts.FilterResult]:
        """Return the results of all filters for these nodes.

        The pause after a kubelet's refusal is one of the results.
        """


class PodAffinityCounts(views.PodAffinityCounts, Protocol):
    """Counts of pods per topology domain (core.placement.pod_affinity.counts)."""

    @property
    def has_affinity_placements(self) -> bool:
        """Whether any pod was placed next to pods that its required affinity names."""

    def move(
        self, task: jobs.Task, row: int, presence: pod_affinity.PodPresence, step: int
    ) -> None:
        """Count the task with this presence (step 1), or remove the task again (step -1)."""

    def would_break_affinity(self, tasks: Sequence[jobs.Task]) -> bool:
        """Whether pods placed in this cycle rely on these pods for required affinity."""


class Volumes(node_views.Volumes, Protocol):
    """Volumes as the cycle has decided so far (core.placement.volumes.state).

    Only tasks with volumes are moved, assumed and forgotten.
    """

    @property
    def binds(self) -> bool:
        """Whether claims are bound before pods: a plugin looks at them, and they can be read."""

    @property
    def bind_timeout_seconds(self) -> float:
        """How long pods keep their nodes while a claim isn't bound; 0 without a limit."""

    def unbound(self, task: jobs.Task, row: int) -> tuple[claim_decisions.ClaimBinding, ...]:
        """Return the claims to bind before the task may start on this node, each with its choice.

        In the order of the pod's volumes. Empty if all claims are bound, or no plugin looks at
        claims. For a task that is placed already, the choice is the one made with its placement.
        """

    def assume(self, task: jobs.Task, row: int) -> None:
        """Give the task's claims what is chosen for them on this node."""

    def forget(self, task: jobs.Task) -> None:
        """Undo `assume` exactly."""

    def move(
        self, task: jobs.Task, row: int, presence: pod_affinity.PodPresence, step: int
    ) -> None:
        """Count the task's volumes with this presence (step 1), or remove them again (step -1)."""
