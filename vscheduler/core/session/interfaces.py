"""Interfaces: what a Session receives from higher layers, as Session and its users see them.

`core.cycle.open_session` passes in a Placement, the PodAffinityCounts, the Volumes and the Devices.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import node_views, views
from vscheduler.core.api.contracts import FilterResult, NodeView
from vscheduler.core.model.claim_decisions import ClaimBinding
from vscheduler.core.model.decisions import MissingResource, RefusalCounts
from vscheduler.core.model.device_decisions import ClaimAllocation
from vscheduler.core.model.jobs import PodClass, Task
from vscheduler.core.model.nodes import Mask
from vscheduler.core.model.pod_affinity import PodPresence

Ints: TypeAlias = NDArray[np.int64]

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


class Placement(Protocol):
    """The choice of nodes in the present state of the session (core.placement.placement)."""

    def choose(self, task: Task) -> Choice | None:
        """Return the best node for this task, or None."""

    def feasible(self, task: Task, row: int) -> bool:
        """Whether this node can take the task, now or after pending releases."""

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

    def explain(self, task: Task) -> tuple[RefusalCounts, Holes]:
        """Return the refusals with node counts, and the largest free amounts."""

    def verdicts(self, task: Task, view: NodeView) -> Sequence[FilterResult]:
        """Return the results of all filters for these nodes.

        The pause after a kubelet's refusal is one of the results.
        """


class PodAffinityCounts(views.PodAffinityCounts, Protocol):
    """Counts of pods per topology domain (core.placement.pod_affinity.counts)."""

    def move(self, task: Task, row: int, presence: PodPresence, step: int) -> None:
        """Count the task with this presence (step 1), or remove the task again (step -1)."""

    def rests_on(self, task: Task, others: Iterable[Task]) -> bool:
        """Whether required affinity, or a hard spread, of the waiting task counts these pods."""


class Volumes(node_views.Volumes, Protocol):
    """Volumes as the cycle has decided so far (core.claims.volumes.state).

    Only tasks with volumes are moved, assumed and forgotten.
    """

    @property
    def binds(self) -> bool:
        """Whether claims are bound before pods: a plugin looks at them, and they can be read."""

    @property
    def demands(self) -> "VolumeDemands":
        """What volumes pods ask for, and nodes have."""

    def intend(self, choices: Mapping[str, str | None]) -> None:
        """Choose these volumes for these claims, by `namespace/name`, whatever else would fit; None
        is a volume to be made. Empty: choose freely again.

        Claims for which volumes are chosen already keep them.
        """

    @property
    def bind_timeout_seconds(self) -> float:
        """How long pods keep their nodes while a claim isn't bound; 0 without a limit."""

    def unbound(self, task: Task, row: int) -> tuple[ClaimBinding, ...]:
        """Return the claims to bind before the task may start on this node, each with its choice.

        In the order of the pod's volumes. Empty if all claims are bound, or no plugin looks at
        claims. For a task that is placed already, the choice is the one made with its placement.
        """

    def assume(self, task: Task, row: int) -> None:
        """Give the task's claims what is chosen for them on this node."""

    def forget(self, task: Task) -> None:
        """Undo `assume` exactly."""

    def move(self, task: Task, row: int, presence: PodPresence, step: int) -> None:
        """Count the task's volumes with this presence (step 1), or remove them again (step -1)."""


class Devices(node_views.Devices, Protocol):
    """Devices as the cycle has decided so far (core.claims.devices.state).

    Only tasks with resource claims are asked about, assumed and forgotten.
    """

    @property
    def allocates(self) -> bool:
        """Whether claims are allocated: a plugin has them allocated, and they can be read."""

    @property
    def are_unread(self) -> bool:
        """Whether claims are left whose selectors took too long; later cycles go on with them."""

    def unallocated(self, task: Task, row: int) -> tuple[ClaimAllocation, ...]:
        """Return what the task's claims lack before it may start on this node, in the pod's order.

        Each reserves a claim for this task; tasks that share a claim name the same devices. Empty
        if all claims are allocated and reserved for the task. For a task that
        is placed already, the devices are those chosen with its placement.
        """

    def first_like(self, pod_class: PodClass) -> PodClass:
        """Return the first class of pods that differ from these only in claims of their own, which
        ask for the same, as the cycle begins; perhaps the class itself.
        """

    def likeness(self, pod_class: PodClass) -> Hashable:
        """Return what such pods have in common, as long as no devices are chosen for them; the
        class itself for all other pods.
        """

    def only_rows(self, pod_class: PodClass) -> Ints | None:
        """Return the rows of the nodes that can use what the claims have got, if these are few."""

    def claims_on(self, task: Task, node: str) -> Iterable[str]:
        """Return the task's claims that it needs on this node: others stand for extended resources
        that the node has by a device plugin.
        """

    def ignored(self, pod_class: PodClass, view: NodeView) -> Iterable[FilterResult]:
        """Return a refusal of all nodes if no plugin looks at claims, but of those that have what
        the claims stand for by a device plugin.
        """

    def lacks_choice(self, task: Task) -> bool:
        """Whether a claim isn't allocated, although no free devices are chosen for the task."""

    def assume(self, task: Task, row: int) -> None:
        """Give the task's claims what is chosen for them on this node."""

    def forget(self, task: Task) -> None:
        """Undo `assume` exactly."""

    def leave(self, task: Task, step: int) -> None:
        """Count the task as one that leaves its devices (step 1), or stays after all (step -1)."""

    @property
    def demands(self) -> "DeviceDemands":
        """What a search for a whole gang asks."""


class VolumeSupply(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The existing volumes (P) that could be chosen for claims, by what these demand (D)."""

    names: Sequence[str]
    fits: NDArray[np.bool_]
    """(D, P), whether the volume could be chosen for a claim with the demand."""
    reach: Sequence[Ints]
    """By volume, the nodes on which it can be used."""
    provided: NDArray[np.bool_]
    """(D, N), the nodes for which a new volume could be made instead."""


class Exclusion(Enum):
    """Where two pods can't run together."""

    NOWHERE = auto()
    ON_A_NODE = auto()
    EVERYWHERE = auto()


class VolumeDemands(Protocol):
    """What volumes pods ask for, and nodes have (core.claims.volumes.demands)."""

    def likeness(self, pod_class: PodClass) -> Hashable:
        """Return what pods have in common that differ only in claims of their own, for which the
        same volumes can be chosen; the class itself for all other pods.
        """

    def choosing(self, pod_class: PodClass) -> Sequence[str]:
        """Return the pod's claims for which a volume is still to be chosen; like pods name like
        claims in the same order.
        """

    def demand(self, key: str) -> Hashable:
        """Return what a claim asks for: the same volumes satisfy claims that ask for the same."""

    def supply(self, wanted: Sequence[str], most: int) -> VolumeSupply:
        """Return the volumes that could be chosen for these claims, one of each demand.

        Of volumes for the same nodes, only so many are named as `most` claims could need.
        """

    def attached(self, pod_class: PodClass) -> frozenset[tuple[str, str]]:
        """Return the volumes of the pod that count against attach limits: driver and handle."""

    def attachable(
        self, driver: str, most: int, shared: Sequence[tuple[str, str]], *, later: bool
    ) -> tuple[Ints, Mask]:
        """Return how many more volumes of a driver each node can have (N,), and which of the
        `shared` volumes (H, N) it has already.

        Nodes that `most` more volumes can't bring beyond the limit have plenty.
        """

    def exclude(self, one: PodClass, other: PodClass) -> Exclusion:
        """Return where two pods of these classes can't run together because of their volumes."""


class DeviceDemands(Protocol):
    """What numbers of devices pods ask for, and nodes have (core.claims.devices.demands)."""

    def likeness(self, pod_class: PodClass) -> Hashable:
        """Return what pods have in common that differ only in claims of their own, which ask for
        the same; the class itself for all other pods.
        """

    def counted(self, pod_class: PodClass, shared: Collection[str]) -> Sequence[tuple[Any, int]]:
        """Return what numbers of devices a pod asks for at least by its own claims, and by these
        shared ones.
        """

    def counts(self, demands: Sequence[Any], *, later: bool, in_use: bool) -> Ints:
        """Return how many devices each node has that any of these demands match, (N,).

        Only free ones, unless those that are in use count.
        """

    def total(self, demands: Sequence[Any], mask: Mask, *, later: bool, in_use: bool) -> int:
        """Return the same for all these nodes (N,) together."""

    def sharing_nodes(self) -> Sequence[Mask]:
        """Return groups of nodes (N,) that share devices."""

    def shared_claims(self, pod_class: PodClass) -> frozenset[str]:
        """Return the pod's claims that aren't allocated, are for other pods as well, and get their
        devices from one node.
        """
