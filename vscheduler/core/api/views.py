"""Views: what plugins may read of jobs, pod affinity and nominated pods during a cycle.

A JobState is the current state of a job. A PodAffinityState has the pods that matter for a task's
affinity, as counts by topology domain. NominatedReservations are held for nominated pods of other
schedulers.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.model.constraints import HostPort, Spread
from vscheduler.model.jobs import SubGroup, Task, TaskStatus, WorkingJob
from vscheduler.model.nodes import Mask
from vscheduler.model.pod_affinity import AffinityTermOfPods, PodPresence, PodSets
from vscheduler.model.resources import Vector

Item: TypeAlias = PodSets | AffinityTermOfPods
"""The subject of a count of pods: pods selected by a term, or pods that carry a term."""

Ports: TypeAlias = Mapping[str, tuple[HostPort, ...]]
"""By node name; only nodes with host ports in use."""


class SubGroups(Protocol):
    """The sub-groups of a job (spec.subGroupPolicy), with pod counts by status."""

    def lacking(
        self, statuses: frozenset[TaskStatus], *, idlers: bool = True
    ) -> tuple[SubGroup, int] | None:
        """Return the first policy with too few whole sub-groups, and the number of whole ones."""


class JobState(WorkingJob, Protocol):
    """A Job, and the changes that this cycle has made to its tasks; read-only."""

    @property
    def ready_tasks(self) -> int:
        """Tasks that count towards minMember (Volcano: ReadyTaskNum)."""

    @property
    def valid_tasks(self) -> int:
        """Tasks that can still be members of the gang (Volcano: ValidTaskNum)."""

    @property
    def scheduled_tasks(self) -> int:
        """Tasks that count towards the phase Running."""

    @property
    def minimum(self) -> int:
        """How many tasks must have nodes before any is bound: minMember, or less for a PodGroup
        that had its minimum before, lost pods and is being refilled.
        """

    @property
    def minimum_of(self) -> Mapping[str, int]:
        """The same by role, for minTaskMember."""

    @property
    def waiting_tasks(self) -> int:
        """Tasks that wait for resources being released (Volcano: WaitingTaskNum)."""

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that request no resources; such tasks count as ready (Volcano: IsReady)."""

    @property
    def has_minimum(self) -> bool:
        """Whether minMember is reached, regardless of roles (Volcano: JobInfo.IsReady)."""

    @property
    def sub_groups(self) -> SubGroups | None:
        """None if the job has no sub-group policies."""

    def status(self, task: Task) -> TaskStatus:
        """Return the task's current status."""

    def tasks(self, status: TaskStatus) -> Iterator[Task]:
        """Iterate over the tasks with this current status, by UID."""

    def reaches(self, statuses: frozenset[TaskStatus], *, idlers: bool = True) -> bool:
        """Whether tasks in these statuses, READY or PLACED, reach all minimums: of the job, the
        roles and the sub-groups. With `idlers`, waiting best-effort pods count.
        """

    def role_tasks(self, role: str, statuses: frozenset[TaskStatus]) -> int:
        """Count the tasks of a role in these statuses."""

    def spares(self, task: Task) -> bool:
        """Whether all minimums hold without this task: of the job, the role and the sub-group."""


class TopologyDomains(Protocol):
    """Pod counts per topology domain, that is per value of a node label."""

    codes: NDArray[np.int64]
    """The domain of each node, (N,). Nodes without the label have -1, the last index of counts."""
    counts: NDArray[np.int64]
    """Pod counts by PodPresence and domain; pods without a domain count nowhere."""
    apart: bool
    """Whether each node has a domain of its own."""

    @property
    def present(self) -> NDArray[np.int64]:
        """The domains of eligible nodes, sorted."""

    @property
    def expected(self) -> NDArray[np.int64]:
        """Pods that stay or will start, by domain."""


class DomainCounts(Protocol):
    """Counts of pods that match a term or carry a term, or a weighted sum of several counts."""

    version: int
    """Increases whenever a pod moves."""

    def by_label(self, key: str) -> TopologyDomains:
        """Return the counts by domain of this topology key."""

    def among(self, key: str, scope: Hashable, eligible: Mask) -> TopologyDomains:
        """Return the counts by domain on eligible nodes only; scope identifies the set of nodes."""

    def move(self, row: int, presence: PodPresence, step: int) -> None:
        """Count a pod with this presence (step 1), or remove the pod (step -1). Not for plugins."""


class TopologyCount(msgspec.Struct, frozen=True):
    """Pods whose topology domains attract or repel a task; the weight is 1 for required terms."""

    pods: DomainCounts
    topology_key: str
    weight: int = 1


class SpreadCount(msgspec.Struct, frozen=True):
    """A topology spread constraint of the task, with the pods to be counted."""

    spread: Spread
    pods: DomainCounts
    counts_itself: bool


class PodAffinityState(msgspec.Struct, frozen=True, eq=False):
    """The pods that matter for a task's affinity and spread. Equal tasks share one object."""

    key: Hashable
    """Distinguishes the task from other tasks of the same class; None if nothing does."""
    counted_in: Mapping[Item, DomainCounts]
    """The counts that placing or evicting the task changes, except weighted sums."""
    required_affinity: tuple[TopologyCount, ...] = ()
    """Required affinity: one of these pods must be in each of the domains."""
    matches_itself: bool = False
    """Whether the task matches its own required affinity, so that the first such pod may start
    without a match (as in kube-scheduler)."""
    avoided: tuple[TopologyCount, ...] = ()
    """Required anti-affinity of the task."""
    repelling: tuple[TopologyCount, ...] = ()
    """Pods whose required anti-affinity matches the task."""
    liked: tuple[TopologyCount, ...] = ()
    """Preferred terms of the task, and terms of placed pods that match the task."""
    drawing: tuple[TopologyCount, ...] = ()
    """Pods whose required affinity matches the task."""
    spreading: tuple[SpreadCount, ...] = ()

    @property
    def version(self) -> int:
        """Changes whenever a pod moves that filters depend on."""
        near = sum(
            each.pods.version for each in (*self.required_affinity, *self.avoided, *self.repelling)
        )
        return near + sum(each.pods.version for each in self.spreading)


class PodAffinityCounts(Protocol):
    """Pod counts for affinity and spread in the present state of the cycle."""

    @property
    def nobody(self) -> bool:
        """Whether no pod has affinity or spread constraints."""

    def state_of(self, task: Task) -> PodAffinityState | None:
        """Return the state for the task; None if no affinity or spread term concerns the task."""


class NominatedReservations(msgspec.Struct, frozen=True, eq=False):
    """Resources, ports and nodes reserved for pods of other schedulers, from the view of a task."""

    number: int
    """Differs whenever any of the other fields differs."""
    amounts: Vector
    """The requests of nominated pods by node, (N, R)."""
    ports: Ports
    apart: Mask
    """Nodes (N,) left by anti-affinity with nominated pods."""


class NominatedPods(Protocol):
    """Pods of other schedulers with nominated nodes. Without any, a check costs next to nothing."""

    anybody: bool

    def __bool__(self) -> bool:
        """Whether any pod has a nominated node."""

    def of(self, task: Task) -> NominatedReservations | None:
        """Return what is reserved from this task; None if nothing is."""
