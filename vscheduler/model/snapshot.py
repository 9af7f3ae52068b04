"""Snapshot: the complete input of a cycle, frozen and in canonical order."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.model import devices, pod_affinity, storage, topology
from vscheduler.model.claim_decisions import ClaimAttempt
from vscheduler.model.constraints import Selector
from vscheduler.model.devices import DeviceInventory
from vscheduler.model.jobs import Job, JobId, PodClass, Task, TaskId
from vscheduler.model.jobs_by_id import JobsById
from vscheduler.model.nodes import NodeLayout, NodeSpec, NodeTable
from vscheduler.model.pod_affinity import PodAffinityIndex
from vscheduler.model.queues import Queue, Usage
from vscheduler.model.resources import ResourceMap, ResourceSpace
from vscheduler.model.storage import Storage
from vscheduler.model.topology import HyperNodes

LAYOUTS_MAX = 2
"""The current nodes, and the nodes before some of them were lost."""


class ClassCounts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Counts of this scheduler's pods of one class that hold resources and are not being deleted.

    There is an entry per pair of node and queue. The Mirror creates a new value when a pod comes or
    goes.
    """

    nodes: tuple[str, ...]
    """Node names. A node may be missing in the node table, because it left or is not usable."""
    queues: tuple[str, ...]
    """Queue names, as long as `nodes`. A queue may not exist."""
    counts: NDArray[np.int64]
    """Number of pods per entry, (S,)."""
    _known: dict[NodeLayout, NDArray[np.int64]] = msgspec.field(default_factory=dict)

    def rows(self, layout: NodeLayout) -> NDArray[np.int64]:
        """Return the nodes' rows in a layout, (S,), with -1 for missing nodes.

        The result is cached for the last few layouts.
        """
        found = self._known.get(layout)
        if found is None:
            if len(self._known) >= LAYOUTS_MAX:
                self._known.clear()
            rows = map(layout.rows.get, self.nodes, itertools.repeat(-1))
            found = np.fromiter(rows, dtype=np.int64, count=len(self.nodes))
            self._known[layout] = found
        return found


ByClass: TypeAlias = Mapping[PodClass, ClassCounts]
"""Counts for every class that has pods on nodes."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget, as far as relevant for evictions."""

    namespace: str
    name: str
    selector: Selector | None
    """None selects no pod (policy/v1: a missing selector)."""
    allowed: int
    """status.disruptionsAllowed: how many of the selected pods may be evicted now."""

    def covers(self, task: Task) -> bool:
        """Whether the budget protects the task's pod."""
        return (
            self.selector is not None
            and task.namespace == self.namespace
            and self.selector.matches(task.labels)
        )


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """A ResourceQuota without scopes: a limit on the sum of requests in a namespace.

    Keys are resource names of pods (`requests.cpu` and `cpu` both become cpu), and amounts are as
    in resources.ResourceMap. Limits on anything else than pod requests are left out.
    """

    namespace: str
    name: str
    hard: ResourceMap
    used: ResourceMap


class Nominated(msgspec.Struct, frozen=True, kw_only=True):
    """A pod nominated to a node by another scheduler, but not bound yet (status.nominatedNodeName).

    kube-scheduler has evicted pods for the nominated pod, or is about to bind the pod.
    """

    key: str
    """The pod as `namespace/name`."""
    node: str
    """Name of the node, which may not exist."""
    priority: int
    """The pod's spec.priority. Pods of higher priority may use the resources."""
    pod_class: PodClass
    namespace: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose kubelet recently refused a pod of this scheduler.

    No further pods are bound to the node for a while. The node still counts for shares.
    """

    reason: str
    """The kubelet's reason, for example `OutOfcpu`."""
    seconds: int
    """How long the node is avoided, longer after each refusal in a row."""
    until: float
    """Seconds since the epoch."""


class LastNodes(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The nodes of the previous cycle.

    Unchanged nodes are the same objects, so comparing them costs nothing.
    """

    space: ResourceSpace
    nodes: NodeTable


class NodeLoss(msgspec.Struct, frozen=True, kw_only=True):
    """A node that offers less than before, or to fewer pods.

    The node left, is no longer ready, was cordoned or tainted, lost a label, or lost some of its
    resources.
    """

    spec: NodeSpec
    """The spec before the loss."""
    allocatable: ResourceMap
    """The capacity before the loss."""
    others: ResourceMap
    """Amounts held before the loss by pods of other schedulers, without pods being deleted."""
    held: ResourceMap
    """Amounts held now by pods of this scheduler."""
    since: float
    """Time of the most recent loss on this node, in seconds since the epoch."""


class ReplacementReservation(msgspec.Struct, frozen=True, kw_only=True):
    """Resources reserved for the replacement of an evicted pod.

    The pod was evicted although its queue was within its share, because another job could only use
    the pod's node. The owner's replacement pod therefore gets resources on a different node.
    """

    task: Task
    """The expected replacement pod: a copy of the evicted pod in status Pending."""
    queue: str
    node: str
    until: float
    """Expiry if no replacement pod appears, in seconds since the epoch."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A start that a waiting job is promised, if running pods end by their limits."""

    job: JobId
    start: float
    """In seconds since the epoch."""
    until: float
    """When its pods end by their limits; infinite if these aren't known."""
    nodes: tuple[tuple[TaskId, str], ...]
    """The pods of its minimum, and their nodes."""


class SearchRoom(StrEnum):
    """What counts as free in a search for nodes for a whole gang."""

    IDLE = "idle"
    LENT = "lent"
    """The same, for a queue that borrows: its share is no limit."""
    RELEASING = "releasing"
    """Also what pods hold that are being deleted."""
    EVICTABLE = "evictable"
    """Also what evictions could free."""


FREE_NOW = frozenset({SearchRoom.IDLE, SearchRoom.LENT})
"""What is free at this moment."""

SearchPlace: TypeAlias = tuple[JobId, str]
"""A job, and what counts as free: a SearchRoom, with which evictions if these count. Searches with
different evictions are continued beside each other."""


class GangSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A search for nodes for a whole gang that has found none so far."""

    fingerprint: bytes
    """Stands for all that the outcome depends on."""
    steps: int = 0
    """How many steps it has taken, with this fingerprint."""
    spent: int = 0
    """How many steps the job's searches have cost, whatever the fingerprint was."""
    finished: bool = False
    """Whether it is given up, or no more steps would help."""
    proved: bool = False
    """Whether there are no such nodes."""
    blocking: tuple[int, ...] = ()
    """By kind of pod, how many pods don't fit together; empty if unknown."""
    irreducible: bool = False
    """Whether any one of these pods is one too many."""
    over_limit: bool = False
    """Whether the queue may not have enough of the pods, wherever they are. If that is proved of
    the nodes, too, it is proved without the limits of the queue."""
    places: tuple[tuple[int, int], ...] = ()
    """Kinds and nodes that the search has found, where a plugin then refused a pod, or evictions
    couldn't make room. They are tried again instead of a search."""
    failed: tuple[bytes, ...] = ()
    """States that lead nowhere, from which the next cycle goes on."""
    waits: bool = False
    """Whether the budget of a cycle was too small for the search after pods had been placed one by
    one in vain, so that the next cycle begins with the search."""


class BindRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """The API server's answer to the last bind of a pod."""

    node: str
    message: str


class Memos(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a cycle learnt and the next may reuse, as core.memo.memos says. Without influence on
    decisions.
    """


NO_MEMOS = Memos()


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server refused, as those who send report it."""

    eviction_refused_pods: frozenset[TaskId] = frozenset()
    """Pods whose eviction the API server recently refused. No further eviction is tried for now."""
    eviction_refused_jobs: frozenset[JobId] = frozenset()
    """Jobs whose eviction plans the API server refused several times, and jobs with a pod whose
    binds it refuses again and again. No evictions are decided for these jobs for now."""
    refused_binds: Mapping[JobId, Mapping[TaskId, BindRefusal]] = msgspec.field(
        default_factory=dict
    )
    """By job, pods whose last bind the API server refused. Such a pod has no node. It keeps its
    place there until the next attempt, or, after several refusals in a row, counts as gated until
    then."""
    refused_claims: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By claim (`namespace/name`), what the API server said when it refused the last request for a
    volume."""
    refused_allocations: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By resource claim (`namespace/name`), what the API server said when it refused the last write
    of an allocation."""


NOTHING_REPORTED = Reported()


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """State that outlives a cycle: part of the result, and of the next cycle's input.

    After a restart the state is empty. docs/cycles.md explains the consequences for each field.
    """

    attempted: frozenset[JobId] = frozenset()
    """Jobs that found no resources, or only resources being freed, in the current row of unfinished
    cycles. Such a job gets no further turn until a cycle gets through all jobs. Otherwise the first
    jobs would use up every budget."""
    work_by_namespace: Mapping[str, int] = field(default_factory=dict)
    """By namespace, the cost of these unfinished cycles, with less weight for older cycles.
    Namespaces with low cost come first. In units of work of core.cycle; empty after a finished
    cycle."""
    reclaim_failed: frozenset[tuple[str, JobId]] = frozenset()
    """By action, jobs for which the action found no victims in these unfinished cycles."""
    nominations: Mapping[TaskId, str] = field(default_factory=dict)
    """Resources freed by evictions: by pending task, the nominated node, in order of nomination.
    After a restart, status.nominatedNodeName still names a pod's node, but no longer reserves
    resources there."""
    replacement_reservations: tuple[ReplacementReservation, ...] = ()
    """Reservations for replacement pods, oldest first. Lost on a restart: a replacement pod then
    waits for its turn like any pod."""
    reservations: tuple[Reservation, ...] = ()
    """Starts promised to waiting jobs, in the order of the promises. After a restart they are
    planned anew, in the order of the jobs."""
    admitted: Mapping[str, float] = field(default_factory=dict)
    """When PodGroups became Inqueue, by UID, in seconds since the epoch. Such a PodGroup counts as
    Inqueue even before the API server shows the phase."""
    admission_expired: Mapping[str, float] = field(default_factory=dict)
    """When PodGroups lost their admission by not starting in time, by UID, until the next
    admission. Expired PodGroups come after all others."""
    shuffled_at: float | None = None
    """When the action shuffle last evicted a pod, or None."""
    stale_since: Mapping[str, float] = field(default_factory=dict)
    """By UID, since when a PodGroup that had its minimum has lacked pods that nobody replaces. Only
    PodGroups with a recovery time-out."""
    partial_since: Mapping[str, float] = field(default_factory=dict)
    """Since when gangs that never had their minimum have been bound in part, by UID. After a
    restart, the time is restored from the bind times of their pods."""
    seen: LastNodes | None = field(default=None, compare=False, repr=False)
    """The nodes of the last cycle, for finding lost nodes. None in the first cycle."""
    memos: Memos = field(default=NO_MEMOS, compare=False, repr=False)
    """What cycles learnt. It may be dropped at any time."""
    node_losses: Mapping[str, NodeLoss] = field(default_factory=dict)
    """By name, nodes that recently left or shrank, with their former capacity."""
    past_usage: Mapping[str, Usage] = field(default_factory=dict)
    """By queue, usage over time. After a restart, the record is read from an annotation of the
    Queue."""
    gang_searches: Mapping[SearchPlace, GangSearch] = field(default_factory=dict)
    """Searches for whole gangs that found no nodes. After a restart they begin anew."""
    claim_attempts: Mapping[str, ClaimAttempt] = field(default_factory=dict)
    """By claim (`namespace/name`), attempts to have it bound. After a restart, attempts under way
    are read from the claims and volumes, and pauses after failures are over."""
    reported: Reported = NOTHING_REPORTED
    """What the API server refused since. Filled in by those who send, not by a cycle."""

    @property
    def awaited_resources(self) -> Collection[str]:
        """The resources of pods that don't exist yet. Nothing else may name them by now."""
        expected = (reservation.task.pod_class for reservation in self.replacement_reservations)
        return {name for pod_class in expected for name in pod_class.counted}


def without_memos(carried: Carried) -> Carried:
    """Return what decides alone."""
    return replace(carried, memos=NO_MEMOS)


FRESH = Carried()
"""The state before the first cycle."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one point in time.

    Jobs are the jobs of this scheduler, sorted by id. Queues are sorted by name. Task and Job
    values are shared with earlier snapshots.
    """

    now: float
    """Seconds since the epoch."""
    space: ResourceSpace
    nodes: NodeTable
    queues: Mapping[str, Queue]
    jobs: JobsById
    budgets: tuple[Budget, ...] = ()
    """Sorted by `namespace/name`."""
    quotas: tuple[Quota, ...] = ()
    """Sorted by `namespace/name`."""
    pods_by_class: ByClass = msgspec.field(default_factory=dict)
    """Counts of this scheduler's pods by class, without pods whose PodGroup does not exist."""
    used_by_other_schedulers: Mapping[str, ResourceMap] = msgspec.field(default_factory=dict)
    """By queue, amounts held by the queue's pods under other schedulers, sorted by queue. Queues
    without any are left out."""
    refused: Mapping[str, Refused] = msgspec.field(default_factory=dict)
    """By name, nodes avoided for now because a kubelet refused a pod. Sorted."""
    nominated: tuple[Nominated, ...] = ()
    """Nominated pods of other schedulers, by descending priority, then by name. The node may not
    exist."""
    affinity_index: PodAffinityIndex = pod_affinity.NOBODY
    """Pod counts per node, for pod affinity and topology spread."""
    storage: Storage = storage.NO_STORAGE
    """Claims, volumes and their use; NO_STORAGE unless a pod uses volumes that matter."""
    devices: DeviceInventory = devices.NO_DEVICES
    """Devices and the claims for them; NO_DEVICES unless a pod has resource claims."""
    hyper_nodes: HyperNodes = topology.NO_HYPER_NODES
    """The domains of the network; NO_HYPER_NODES unless there are HyperNodes."""
    next_overdue: float | None = None
    """When the resources of the next terminating pod no longer count as being released."""
    extended_resources: Mapping[str, str] = msgspec.field(default_factory=dict)
    """DeviceClasses by the extended resource of containers that stands for their devices."""
    carried: Carried = FRESH

    def job(self, job: JobId) -> Job:
        """Return one of the jobs."""
        found = self.jobs.get(job)
        assert found is not None, f"there is no job {job}"
        return found
