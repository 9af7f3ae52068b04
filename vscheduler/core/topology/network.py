"""NetworkTopology: the topologies of a cycle, and the groups of each job that asks for one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from vscheduler.core.topology import hyper_nodes, labels
from vscheduler.core.topology.groups import Bounds, JobTopology, Key
from vscheduler.core.topology.labels import LabelTopology
from vscheduler.core.topology.tree import Flags, Floats, Ints, Tree
from vscheduler.model import computed, durations
from vscheduler.model.jobs import HOLDING, Job, JobId, Task, TaskStatus
from vscheduler.model.nodes import NodeLayout
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Snapshot
from vscheduler.model.topology import TOPOLOGY, TopologyRequest

PATIENCE = "volcano.sh/network-topology-patience"
PREFERRED_TIER = "volcano.sh/network-topology-preferred-tier"
"""Annotations of a PodGroup: for how long it waits for the tier that it prefers, and that tier by
name or number."""

FEW = 4
"""So many times as many nodes as a pod may use there are at least if these are few."""

ELSEWHERE = Refusal(RefusalCode.NETWORK_TOPOLOGY)
"""Why other nodes are refused."""

COUNTED = (*sorted(HOLDING), TaskStatus.PIPELINED)


Rank: TypeAlias = Callable[[Tree, Sequence[Task], Vector], Floats]
"""Gives the rank of domains (D,) for waiting pods, with what nodes have in use, (N, R)."""


class WorkingState(Protocol):
    """A job in its present state (core.session.job_state)."""

    @property
    def job(self) -> Job:
        """The job as the cycle began."""

    @property
    def sub_groups(self) -> "SubGroups | None":
        """Its sub-groups; None without any policy."""

    def node(self, task: Task) -> str | None:
        """Return the task's node."""

    def status(self, task: Task) -> TaskStatus:
        """Return the task's status."""


class SubGroups(Protocol):
    """The sub-groups of a job."""

    def of(self, task: Task) -> Key | None:
        """Return the sub-group of a task."""


class UnknownError(Exception):
    """A request that names what there isn't; the message says what."""


class SettingError(Exception):
    """An annotation that can't be read; the message says which, and why."""


class NetworkTopology:
    """The domains of the network, and where the pods of each job may go. Nothing is asked of it
    unless a plugin uses it.
    """

    def __init__(self, snapshot: Snapshot, states: Mapping[JobId, WorkingState]) -> None:
        self._snapshot, self._states = snapshot, states
        self._layout = snapshot.nodes.layout
        self._by_labels: Mapping[str, LabelTopology] = {}
        self._jobs: dict[JobId, JobTopology | None] = {}
        self._wake: Callable[[float], None]
        self.is_used = False
        self._rank: Rank | None = None
        self._lenient = False

    def use(
        self,
        by_labels: Sequence[LabelTopology],
        wake: Callable[[float], None],
        *,
        lenient: bool = False,
        evicts_in: int = 8,
        rank: Rank | None = None,
    ) -> None:
        """Keep pods near to each other from here on, also in these topologies. `wake` asks for a
        cycle. If `lenient`, a hard request without a known tier is none, as in Volcano. For a job,
        evictions are planned in so many domains at most (`evicts_in`).
        """
        self.evicts_in, self._rank = evicts_in, rank
        self._by_labels = {each.name: each for each in by_labels}
        self._wake, self._lenient = wake, lenient
        self.is_used = True

    @computed.once
    def _of_hyper_nodes(self) -> Tree:
        return tree_of_hyper_nodes(self._snapshot, self._layout)

    def tree(self, job: Job) -> Tree:
        """Return the topology that the job means: that of the label or the one that it names, else
        the HyperNodes', else the first configured one. Raise UnknownError without any of them.
        """
        if job.topology is not None and job.topology.key:
            levels = job.topology.levels or (job.topology.key,)
            return self._labelled(LabelTopology(name=levels[0], levels=levels))
        name = job.annotations.get(TOPOLOGY, "")
        if name:
            if name not in self._by_labels:
                known = ", ".join(self._by_labels) or "none"
                raise UnknownError(f"annotation {TOPOLOGY}: {name} isn't configured ({known})")
            return self._labelled(self._by_labels[name])
        if self._snapshot.hyper_nodes or not self._by_labels:
            if not self._snapshot.hyper_nodes:
                raise UnknownError("there are no HyperNodes, and no topology is configured")
            return self._of_hyper_nodes
        return self._labelled(next(iter(self._by_labels.values())))

    def trees(self) -> Mapping[str, Tree]:
        """Return all topologies by name; that of the HyperNodes has none."""
        found = {"": self._of_hyper_nodes} if self._snapshot.hyper_nodes else {}
        return found | {name: self._labelled(each) for name, each in self._by_labels.items()}

    def free_by_tier(self, free: Vector) -> Iterator[tuple[str, int, Vector]]:
        """Iterate over the topologies and their tiers with the most that any domain has, (R,), of
        what nodes have free, (N, R).
        """
        for name, tree in self.trees().items() if self.is_used else ():
            sums, tiers = tree.sums(free)[: tree.root], tree.tiers[: tree.root]
            for tier in sorted(set(tiers.tolist())):
                yield name, tier, sums[tiers == tier].max(axis=0)

    def _labelled(self, topology: LabelTopology) -> Tree:
        layout = self._layout
        return layout.memo(("topology", topology), lambda: labels.tree(topology, layout))

    def rank(self, tree: Tree, tasks: Sequence[Task], used: Vector) -> Floats | None:
        """Return which domains (D,) of a tier come first for these waiting pods of a job, the lower
        the earlier; None: those in which least is left over.
        """
        return None if self._rank is None else self._rank(tree, tasks, used)

    def check(self, job: Job) -> None:
        """Raise UnknownError or SettingError if the job's request can't be met as it is."""
        if job.asks_topology:
            self._make(job)

    def of(self, job: JobId) -> JobTopology | None:
        """Return the groups of a job; None if it may use all nodes."""
        if not self.is_used:
            return None
        if job not in self._jobs:
            state = self._states[job]
            self._jobs[job] = self._counted(state) if state.job.asks_topology else None
        return self._jobs[job]

    def mask(self, task: Task) -> Flags | None:
        """Return the nodes (N,) that the task may use; None: all."""
        found = self.of(task.job)
        return None if found is None else found.mask(task)

    def preference(self, task: Task) -> Floats | None:
        """Return how early the nodes (N,) are to be filled, from 0 to 1; None: all alike."""
        found = self.of(task.job)
        return None if found is None else found.preference(task)

    def few_rows(self, task: Task) -> Ints | None:
        """Return the rows of the nodes that the task may use if these are few; else None."""
        mask = self.mask(task)
        if mask is None or int(mask.sum()) * FEW > mask.size:
            return None
        return np.flatnonzero(mask)

    def class_key(self, task: Task) -> object:
        """Return what distinguishes the nodes that the task may use from others' nodes."""
        found = self.of(task.job)
        if found is None:
            return None
        job = self._states[task.job].job
        levels = None if job.topology is None else (job.topology.key, job.topology.levels)
        name = job.annotations.get(TOPOLOGY, "")
        return levels, name, *(group.class_key for group in found.of(task))

    def count(self, task: Task, row: int, step: int) -> None:
        """Count a task on this node (step 1), or no longer (step -1)."""
        found = self._jobs.get(task.job)
        if found is not None:
            found.count(task, row, step)

    def _counted(self, state: WorkingState) -> JobTopology | None:
        """Return the groups of a job with its pods so far; None if it may use all nodes."""
        try:
            found = self._make(state.job)
        except (UnknownError, SettingError):
            return None  # it doesn't start at all, or, in Volcano's way, anywhere
        groups = state.sub_groups
        if groups is not None:
            found.assign((task, groups.of(task)) for task in state.job.tasks)
        for task in state.job.tasks:
            if state.status(task) in COUNTED:
                row = self._layout.rows.get(state.node(task) or "")
                if row is not None:
                    found.count(task, row, 1)
        found.settle()
        return found

    def _make(self, job: Job) -> JobTopology:
        tree = self.tree(job)
        request = job.topology or TopologyRequest(field="", hard=False)
        now = self._snapshot.now
        bounds = self._bounds(tree, request)
        until = until_patient(job)
        if until is not None:
            preferred = self._preferred(tree, job)
            if now < until:
                self._wake(until)
                bounds = bounds._replace(preferred=min(preferred, bounds.tier))
        parts = {
            place: self._bounds(tree, policy.topology)
            for place, policy in enumerate(job.sub_groups)
            if policy.topology is not None
        }
        return JobTopology(tree, bounds, parts)

    def _bounds(self, tree: Tree, request: TopologyRequest) -> Bounds:
        top = int(tree.tiers[tree.root])
        if not request.hard:
            return Bounds(top)
        if request.key and request.tier_name not in tree.tier_of:
            raise UnknownError(f"{request.field}: no node has the label {request.key}")
        if request.tier_name:
            if request.tier_name not in tree.tier_of:
                if self._lenient:
                    return Bounds(top)
                raise UnknownError(_no_such_tier(f"{request.field}.highestTierName", request, tree))
            return Bounds(tree.tier_of[request.tier_name])
        if request.tier is not None:
            return Bounds(min(request.tier, top))
        return Bounds(top if self._lenient else top - 1)

    def _preferred(self, tree: Tree, job: Job) -> int:
        """Return the tier that the job prefers."""
        given = job.annotations.get(PREFERRED_TIER, "")
        if given:
            if given in tree.tier_of:
                return tree.tier_of[given]
            if given.isdecimal() and len(given) < 10:
                return int(given)
            raise SettingError(f"annotation {PREFERRED_TIER}: {durations.shown(given)} is no tier")
        request = job.topology
        if request is not None and request.tier_name in tree.tier_of:
            return tree.tier_of[request.tier_name]
        if request is not None and request.tier is not None:
            return request.tier
        raise SettingError(
            f"annotation {PATIENCE} needs a tier: set {PREFERRED_TIER} or highestTierAllowed"
        )


def tree_of_hyper_nodes(snapshot: Snapshot, layout: NodeLayout) -> Tree:
    """Return the domains of the HyperNodes."""
    tree: Tree = snapshot.hyper_nodes.derived(layout, hyper_nodes.tree)[0]
    return tree


def until_patient(job: Job) -> float | None:
    """Return until when the job waits for the tier that it prefers, None without such a time; raise
    SettingError if it can't be read.
    """
    given = job.annotations.get(PATIENCE)
    if given is None:
        return None
    try:
        return job.created + durations.seconds(given)
    except ValueError as error:
        raise SettingError(f"annotation {PATIENCE}: {error}") from error


def _no_such_tier(field: str, request: TopologyRequest, tree: Tree) -> str:
    known = ", ".join(sorted(tree.tier_of)) or "none has a name"
    return f"{field}: no tier is called {durations.shown(request.tier_name)} (tiers: {known})"
