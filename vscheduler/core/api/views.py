"""Views: what plugins may read of jobs, pod affinity and nominated pods while a cycle goes on.

A job is read as a `JobState`. Pods near a node are read as a `PodAffinityState`, which counts pods
by the values of a label of nodes. Room that is kept for pods of other schedulers is read as `Kept`.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import constraints, jobs, nodes, pod_affinity, resources

Item: TypeAlias = pod_affinity.Company | pod_affinity.AffinityTermOfPods
"""What there can be a tally of."""

Ports: TypeAlias = Mapping[str, tuple[constraints.HostPort, ...]]
"""By node name; only nodes that have some."""


class SubGroups(Protocol):
    """The sub-groups of a job (spec.subGroupPolicy), with how many of their pods stand how."""

    def lacking(
        self, statuses: frozenset[jobs.TaskStatus], *, idlers: bool = True
    ) -> tuple[jobs.SubGroup, int] | None:
        """The first policy with fewer whole sub-groups than it needs, and how many it has."""


class JobState(jobs.WorkingJob, Protocol):
    """A Job, and what this cycle has done with its tasks so far: to be read only."""

    @property
    def ready_tasks(self) -> int:
        """Tasks that count towards minMember (Volcano: ReadyTaskNum)."""

    @property
    def valid_tasks(self) -> int:
        """Tasks that can still make up the gang (Volcano: ValidTaskNum)."""

    @property
    def scheduled_tasks(self) -> int:
        """Tasks that make up a running group."""

    @property
    def waiting_tasks(self) -> int:
        """Tasks that wait for room that is being freed (Volcano: WaitingTaskNum)."""

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that ask for nothing: they count as ready (Volcano: IsReady)."""

    @property
    def has_minimum(self) -> bool:
        """Whether minMember is reached, roles aside (Volcano: JobInfo.IsReady)."""

    @property
    def sub_groups(self) -> SubGroups | None:
        """Only of a job that has policies for them."""

    def status(self, task: jobs.Task) -> jobs.TaskStatus:
        """Where the task stands now."""

    def tasks(self, status: jobs.TaskStatus) -> Iterator[jobs.Task]:
        """The tasks that stand so now, by UID."""

    def reaches(self, statuses: frozenset[jobs.TaskStatus], *, idlers: bool = True) -> bool:
        """Whether all minima are reached in these statuses, READY or PLACED: of the job, its
        roles, its sub-groups; idlers: pods that ask for nothing count while they wait.
        """

    def role_tasks(self, role: str, statuses: frozenset[jobs.TaskStatus]) -> int:
        """Tasks of a role that stand in one of these statuses."""

    def spares(self, task: jobs.Task) -> bool:
        """Whether this task may go and all minima stay: of the job, its roles, its sub-groups."""


class TopologyDomains(Protocol):
    """Numbers of pods by the values of a label of nodes, those without the label left out."""

    codes: NDArray[np.int64]
    """The value that each node has, (N,), -1 where it has none: the last of the counts."""
    counts: NDArray[np.int64]
    """By Seat and by value; what has no value counts nowhere."""
    apart: bool
    """Whether no two nodes have the same value."""

    @property
    def present(self) -> NDArray[np.int64]:
        """The values that nodes have that count, sorted."""

    @property
    def standing(self) -> NDArray[np.int64]:
        """Pods that stay or will come, by value."""

    def staying(self, code: int) -> int:
        """The same for one value."""


class DomainCounts(Protocol):
    """Pods of one kind: a company that somebody looks for, those that carry the same tie, or the
    weighted sum of many of these.
    """

    version: int
    """Rises whenever a pod moves."""

    def by_label(self, key: str) -> TopologyDomains:
        """How many there are by the values of a label."""

    def among(self, key: str, scope: Hashable, eligible: nodes.Mask) -> TopologyDomains:
        """The same as by_label, on nodes that count only; the scope says which these are."""

    def move(self, row: int, seat: pod_affinity.Seat, step: int) -> None:
        """A pod takes this seat, or leaves it (-1). Not for plugins."""


@dataclass(frozen=True, slots=True)
class TopologyCount:
    """Pods near which a node is more or less welcome; weight is 1 where it is a must."""

    pods: DomainCounts
    topology_key: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class SpreadCount:
    """A spread of the task's own, with the pods that it counts."""

    spread: constraints.Spread
    pods: DomainCounts
    counts_itself: bool


@dataclass(frozen=True, slots=True, eq=False)
class PodAffinityState:
    """What a task and the pods on nodes are to each other. Equal tasks share one."""

    key: Hashable
    """None, or what tells it from other tasks of its class."""
    counted_in: Mapping[Item, DomainCounts]
    """What its own coming and going changes, but for sums."""
    company: tuple[TopologyCount, ...] = ()
    """Required affinity: one of the same company in every one of these places."""
    is_company: bool = False
    """Whether it is what it looks for: then it may be the first (kube-scheduler)."""
    avoided: tuple[TopologyCount, ...] = ()
    """Required anti-affinity of its own."""
    repelling: tuple[TopologyCount, ...] = ()
    """Pods whose required anti-affinity is about it."""
    liked: tuple[TopologyCount, ...] = ()
    """Preferences, its own and those of others about it."""
    drawing: tuple[TopologyCount, ...] = ()
    """Pods whose required affinity is about it."""
    spreading: tuple[SpreadCount, ...] = ()

    @property
    def version(self) -> int:
        """Changes whenever a pod moves that filters depend on."""
        near = sum(each.pods.version for each in (*self.company, *self.avoided, *self.repelling))
        return near + sum(each.pods.version for each in self.spreading)


class PodAffinityCounts(Protocol):
    """Which pods are near a node, as this cycle has it so far."""

    @property
    def nobody(self) -> bool:
        """Whether no pod has a condition on other pods."""

    def standing(self, task: jobs.Task) -> PodAffinityState | None:
        """None where no condition on pods is the task's own or about it."""


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What is out of reach for some pods of ours."""

    number: int
    """Another one where anything is different."""
    amounts: resources.Vector
    """What nominated pods ask for, (N, R)."""
    ports: Ports
    apart: nodes.Mask
    """Nodes (N,) that anti-affinity leaves."""


class NominatedPods(Protocol):
    """Pods of other schedulers that wait for room on a node. Where there are none, asking costs
    one look.
    """

    anybody: bool

    def __bool__(self) -> bool:
        """Whether there are any."""

    def of(self, task: jobs.Task) -> Kept | None:
        """What is kept from this task; None where nothing is."""
