"""Snapshot: all that a cycle may know, frozen and in canonical order."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import constraints, jobs, queues, resources
from vscheduler.core.model import nodes as tables
from vscheduler.core.model import pod_affinity as neighbours

LAYOUTS_MAX = 2
"""The nodes as they are, and as they were before some of them were lost."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassCounts:
    """Where our pods of one class are that hold room and aren't leaving, one place per node and
    queue. Who keeps account of them makes a new value when a pod comes or goes.
    """

    nodes: tuple[str, ...]
    """By name; a node need not be in the table: it may have left, or not be ours to use."""
    queues: tuple[str, ...]
    """Whose pods these are, there or not: as long as `nodes`."""
    counts: NDArray[np.int64]
    """How many of them, (S,)."""
    _known: dict[tables.NodeLayout, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    def rows(self, layout: tables.NodeLayout) -> NDArray[np.int64]:
        """The nodes' rows in a layout, -1 for those that aren't in it, (S,); found once for the
        last layouts that were asked about.
        """
        found = self._known.get(layout)
        if found is None:
            if len(self._known) >= LAYOUTS_MAX:
                self._known.clear()
            rows = map(layout.rows.get, self.nodes, itertools.repeat(-1))
            found = np.fromiter(rows, dtype=np.int64, count=len(self.nodes))
            self._known[layout] = found
        return found


ByClass: TypeAlias = Mapping[jobs.PodClass, ClassCounts]
"""Of every class that has pods somewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget, as far as evictions depend on it."""

    namespace: str
    name: str
    selector: constraints.Selector | None
    """None selects no pod (policy/v1: a missing selector)."""
    allowed: int
    """status.disruptionsAllowed: how many of its pods may go now."""

    def covers(self, task: jobs.Task) -> bool:
        """Whether the task's pod is one of those that it protects."""
        return (
            self.selector is not None
            and task.namespace == self.namespace
            and self.selector.matches(task.labels)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A ResourceQuota without scopes: what a namespace may request in sum.

    Names are a pod's resources (`requests.cpu` and `cpu` are both cpu), amounts as in
    resources.ResourceMap; what limits nothing that pods request isn't in it.
    """

    namespace: str
    name: str
    hard: resources.ResourceMap
    used: resources.ResourceMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Nominated:
    """A pod that another scheduler has found a place for, and hasn't bound yet.

    kube-scheduler has evicted others for it, or is about to bind it: status.nominatedNodeName.
    """

    key: str
    """`namespace/name`."""
    node: str
    """There or not."""
    priority: int
    """spec.priority: pods above it may have the room."""
    kind: jobs.PodClass
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A node whose kubelet refused a pod of ours a moment ago: for a while no others are bound
    there. It isn't lost: shares are computed with it.
    """

    reason: str
    """The kubelet's: `OutOfcpu`."""
    seconds: int
    """How long the node is left alone; longer after each refusal in a row."""
    until: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LastNodes:
    """Nodes as a cycle saw them; the very objects, so that looking at them again costs nothing."""

    space: resources.ResourceSpace
    nodes: tables.NodeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoss:
    """A node that gives less than it did, or to fewer pods: it has left, isn't ready any more, was
    cordoned or tainted, has lost a label, or has less of something.
    """

    spec: tables.NodeSpec
    """As it was then."""
    allocatable: resources.ResourceMap
    """What it had then."""
    others: resources.ResourceMap
    """What pods held there then that weren't ours, those that were leaving not included."""
    held: resources.ResourceMap
    """What pods of ours hold there now."""
    since: float
    """When something of it was last missed: seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementReservation:
    """Room for the next pod of an owner: the last one was evicted though its queue was within its
    share, as others could only use the node that it was on.
    """

    task: jobs.Task
    """The next pod, as far as it is known: the last one, waiting."""
    queue: str
    node: str
    until: float
    """When it is given up if no such pod has come: seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What must outlive a cycle: part of its result, and of the next one's input.

    It starts anew after a restart; docs/architecture.md says what that means for each.
    """

    attempted: frozenset[jobs.JobId] = frozenset()
    """Jobs that found no room, or only room that is being freed, in the unfinished cycles just
    before this one: their turn is over until a cycle gets through all jobs, else those at the
    front would use up every budget."""
    spent: Mapping[str, int] = field(default_factory=dict)
    """By namespace, what these cycles have cost on its account, the older the less: who has cost
    little comes first. core.cycle's units of work; empty where the last cycle was finished."""
    reclaim_failed: frozenset[tuple[str, jobs.JobId]] = frozenset()
    """By action, jobs for which it looked for victims in vain in these cycles."""
    nominations: Mapping[jobs.TaskId, str] = field(default_factory=dict)
    """Room that evictions made: by pending task, the node that is kept for it, in the order in
    which it was promised. After a restart
    status.nominatedNodeName still says where a pod belongs, and no longer keeps others out."""
    kept_rooms: tuple[ReplacementReservation, ...] = ()
    """Room for pods that owners are to make anew, the oldest first. After a restart nobody keeps
    it: such a pod takes its turn with all others."""
    admitted: Mapping[str, float] = field(default_factory=dict)
    """Since when PodGroups are Inqueue, by UID: an instant, seconds since the epoch. Such a group
    counts as Inqueue where the API server doesn't show it yet."""
    admission_expired: Mapping[str, float] = field(default_factory=dict)
    """When PodGroups that didn't start in time lost their place, by UID, until they are admitted
    again: they stand behind all others."""
    shuffled_at: float | None = None
    """When the action shuffle last evicted a pod; None where it never did."""
    partial_since: Mapping[str, float] = field(default_factory=dict)
    """Since when gangs that never had their minimum are bound in part, by UID. After a restart
    their pods say when they were bound."""
    seen: LastNodes | None = field(default=None, compare=False, repr=False)
    """The nodes of the last cycle, which tell what has gone since; None where there was none."""
    hopeless: object = field(default=None, compare=False, repr=False)
    """What jobs were told that can't start on empty nodes, for `framework.hopeless`: it needn't
    be found anew while nodes and queues stay as they are, and changes no decision."""
    losses: Mapping[str, NodeLoss] = field(default_factory=dict)
    """By node, what a node that has gone, or has less than before, had a moment ago."""
    past_usage: Mapping[str, queues.Usage] = field(default_factory=dict)
    """By queue, what it has used over time. After a restart an annotation of the Queue has it."""
    eviction_refused_pods: frozenset[jobs.TaskId] = frozenset()
    """Pods that the API server refused to evict a moment ago: nobody asks for them for now."""
    eviction_refused_jobs: frozenset[jobs.JobId] = frozenset()
    """Jobs for which it refused evictions several times over: none is decided for them for now.
    Both are put in by who sends evictions, and not part of a result."""


FRESH = Carried()
"""Nothing is carried over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The cluster at one instant.

    Jobs are those that this scheduler owns, sorted by id; queues are sorted by name. Task and Job
    values are shared with earlier snapshots.
    """

    now: float
    """Seconds since the epoch."""
    space: resources.ResourceSpace
    nodes: tables.NodeTable
    queues: Mapping[str, queues.Queue]
    jobs: tuple[jobs.Job, ...]
    budgets: tuple[Budget, ...] = ()
    """Sorted by `namespace/name`."""
    quotas: tuple[Quota, ...] = ()
    """Sorted by `namespace/name`."""
    seats: ByClass = field(default_factory=dict)
    """Where our pods are; without those whose PodGroup isn't there."""
    elsewhere: Mapping[str, resources.ResourceMap] = field(default_factory=dict)
    """By queue, what its pods hold that other schedulers look after; queues without any aren't
    in it. Sorted."""
    refused: Mapping[str, Refused] = field(default_factory=dict)
    """By node, which are left alone for now, since a kubelet refused a pod of ours. Sorted."""
    nominated: tuple[Nominated, ...] = ()
    """Pods of other schedulers that wait for room on a node, there or not: the highest priority
    first, then by name."""
    residents: neighbours.PodAffinityIndex = neighbours.NOBODY
    """What pods with conditions on other pods are to know of those on nodes."""
    carried: Carried = FRESH
