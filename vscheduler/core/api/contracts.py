"""Plugins: the hooks through which policy takes part in a cycle. Read this first.

A plugin is a class with a `name` that defines some of the methods of `Hooks` below. The session
creates one instance per cycle, calls `open` once, and then calls the hooks: which queue and job
comes next; whether a job may start; which nodes a pod may use, and which nodes are best.

    class Reserved(Plugin):
        name = "reserved"
        arguments = {"reserved.label": Argument(str, "example.com/reserved")}

        def class_nodes(self, pod_class, layout):
            column, _ = layout.label(self.argument("reserved.label"))
            return column < 0

        def filter_nodes(self, task, nodes):
            free = nodes.of(self.class_nodes(None, nodes.layout))
            return [FilterResult("node(s) were reserved", free)]

        @depends_on(On.USED)
        def score_nodes(self, task, nodes):
            return 10.0 * (nodes.used[:, 0] == 0)

None is an abstention; an empty answer is an opinion. Hooks modify no arguments, and follow from the
session: no clock, no randomness, no other input. `depends_on` is optional, and lets the scheduler
ask less often (`depends.py`). `core.session.dispatch` combines the answers of several plugins.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import depends, node_views
from vscheduler.core.api.node_views import Devices, Volumes
from vscheduler.core.api.views import JobState, NominatedPods, PodAffinityCounts
from vscheduler.core.shares.demands import QueueDemands
from vscheduler.core.shares.fair_shares import QueueLimits
from vscheduler.core.shares.node_pools import NodePools
from vscheduler.core.topology.network import NetworkTopology
from vscheduler.model import durations
from vscheduler.model.decisions import (
    AdmissionFailure,
    Bind,
    Evict,
    Reason,
)
from vscheduler.model.jobs import JobId, PodClass, Task, TaskId
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.queues import Queue
from vscheduler.model.resources import ResourceSpace, Vector
from vscheduler.model.snapshot import Snapshot

Scalar = TypeVar("Scalar", bound=np.generic)
Working = TypeVar("Working")

NodeView = node_views.NodeView
FilterResult = node_views.FilterResult
On = depends.On
depends_on = depends.depends_on

Key: TypeAlias = float | tuple[float, ...]
"""The sort key of a queue, job or task: smaller comes first."""


class Hooks(Protocol):
    """The hooks that most plugins need; `further_hooks.py` has the others. No class implements all.

    In brackets: Volcano's name, and how the answers of several plugins combine.
    """

    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """[Predicate; all masks] Which nodes may the task use, free amounts aside?"""

    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask | None:
        """[-; all masks] Which nodes (N,) of a layout could pods of this class use if all were
        empty? This is the part of `filter_nodes` that shares are computed from. None: all nodes.
        """

    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """[NodeOrder; sum] The weighted score of each node, (n,)."""

    def queue_key(self, queue: Queue) -> Key | None:
        """[QueueOrder; first difference, then age and name] The sort key, again after each turn."""

    def job_key(self, state: JobState) -> Key | None:
        """[JobOrder; first difference, then creation time, then id] The job's sort key, computed
        again each time the job returns to the queue's line.
        """

    def job_valid(self, state: JobState) -> Reason | str | None:
        """[JobValid; first reason] Why can't this job be scheduled as it is? None: it can. A text
        is a sentence of the plugin's own, which users see after the plugin's name.
        """

    def job_enqueueable(self, state: JobState) -> AdmissionFailure | str | bool | None:
        """[JobEnqueueable; a vote] May a Pending group be admitted? False, a sentence of the
        plugin's own and an AdmissionFailure are a no.
        """

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """[Preemptable; see VictimRole] Which pods of the preemptor's own queue may be evicted for
        the preemptor? The result is in order of eviction, each victim assumed gone for the next.
        """

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """[Reclaimable; see VictimRole] Like `preemptable`, for pods of other queues."""


class Argument(msgspec.Struct, frozen=True):
    """Declares a configuration argument of a plugin or action.

    kind is bool, int, float, str, list or dict; an int is accepted for a float. A name ending in
    `*` stands for all names with the given prefix.
    """

    kind: type
    default: object
    minimum: float | None = None
    choices: tuple[str, ...] = ()
    missing: str = ""
    """The feature that isn't implemented yet; any value except the default causes a warning."""
    parse: Callable[[Any], object] | None = None
    """Raises ValueError with what is wrong for an invalid value; any other error makes it invalid,
    too. durations.seconds, for example, validates text.
    """


class VictimRole(StrEnum):
    """The meaning of a plugin's answer to `preemptable` and `reclaimable`."""

    ENTITLES = "says who may lose pods to whom"
    """In the first tier with any answer, all answers must agree; lower tiers aren't asked."""
    PROTECTS = "vetoes"
    """In any tier: a pod missing from the answer is never a victim."""
    LIMITS = "limits how many of a gang may go"
    """Asked with `compatibility: volcano` only; otherwise the planner keeps gangs complete."""


@cache
def _defaults(kind: "type[Configured]") -> Mapping[str, object]:
    return {name: each.default for name, each in kind.arguments.items()}


class Configured:
    """Base of plugins and actions: reads configured arguments."""

    name: ClassVar[str]
    arguments: ClassVar[Mapping[str, Argument]] = {}

    def __init__(
        self, arguments: Mapping[str, object], flags: frozenset[str] = frozenset()
    ) -> None:
        self._arguments = arguments
        defaults = _defaults(type(self))  # type: ignore[arg-type]  # a class has a hash
        self._values: Mapping[str, Any] = {**defaults, **arguments}
        """The configured value of each argument, or the declared default."""
        self.flags = flags
        """Names of enabled flags, such as `enableHierarchy`."""

    def argument(self, name: str) -> object:
        """Return the configured value, or the declared default."""
        return self._values[name]

    def number(self, name: str) -> float:
        """Return the value of a numeric argument."""
        value = self.argument(name)
        assert isinstance(value, int | float)
        return float(value)

    def seconds(self, name: str) -> float:
        """Return the value of a duration, in seconds."""
        return durations.seconds(str(self.argument(name)))


class Plugin(Configured):
    """Base of all plugins: define the hooks you need. hooks.HOOKS lists the flags of hooks."""

    victim_role: ClassVar[VictimRole] = VictimRole.ENTITLES
    reads_annotations: ClassVar[Sequence[str]] = ()
    reads_labels: ClassVar[Sequence[str]] = ()
    """What hooks about nodes read of pods; reading other texts raises. docs/plugins.md."""
    allocates_claims: ClassVar[str] = ""
    """The argument that says whether the plugin looks at claims for devices; empty: it doesn't."""

    @classmethod
    def has_claims_allocated(cls, arguments: Mapping[str, object]) -> bool:
        """Whether the plugin, with these arguments, looks at claims for devices, so that they may
        be allocated. Known before any plugin is open.
        """
        return bool(cls.allocates_claims and cls(arguments).argument(cls.allocates_claims))

    @classmethod
    def abstains(cls, flags: frozenset[str]) -> Collection[str]:
        """Return the hooks that are never asked with these flags, such as `enableHierarchy`."""
        del flags
        return ()

    def open(self, session: "Session") -> None:
        """Prepare for the cycle. Answers of other plugins aren't available yet."""


class Session(Protocol):
    """The part of the running cycle that plugins may read; actions receive the class itself."""

    snapshot: Snapshot
    space: ResourceSpace
    queues: Mapping[str, Queue]
    lending: bool
    """Whether action allocate lends at this moment: `overused`, `allocatable` and `queue_limits`
    answer by what a queue may borrow beyond its share."""
    preempting: bool
    """Whether action preempt replaces pods of a queue at this moment: `allocatable` and
    `queue_limits` answer by what the queue had as the cycle began, where that is more."""

    @property
    def affinity_counts(self) -> PodAffinityCounts:
        """Pod counts for pod affinity and spread, including the changes of this cycle."""

    @property
    def nominated(self) -> NominatedPods:
        """Pods of other schedulers that wait on nominated nodes, with their requests."""

    @property
    def volumes(self) -> Volumes:
        """Which nodes the volumes of pods allow."""

    @property
    def devices(self) -> Devices:
        """Which nodes have devices for the claims of pods."""

    @property
    def topology(self) -> NetworkTopology:
        """The domains of the network, and which pods have to be in one of them."""

    @property
    def job_states(self) -> Mapping[JobId, JobState]:
        """The state of each job in this cycle; every job has its queue in `queues`."""

    @property
    def promised_jobs(self) -> Sequence[JobState]:
        """The jobs with minResources of which they may not hold all, by ID."""

    @property
    def demands(self) -> QueueDemands:
        """Allocated and requested resources of queues as the cycle begins."""

    @property
    def binds(self) -> Sequence[Bind]:
        """The pods bound so far; pods whose nodes are merely reserved don't count."""

    @property
    def evicts(self) -> Mapping[TaskId, Evict]:
        """The pods evicted so far."""

    def request(self, task: Task) -> Vector:
        """Return the resource request of the task, (R,), `pods` included; read-only."""

    def counted(self, task: Task) -> Vector:
        """Return what of the task counts for its queue, (R,): the request, and the devices of its
        claims by class; read-only.
        """

    def has_nomination(self, task: Task) -> bool:
        """Whether a node was nominated in an earlier cycle, or a reservation served the task."""

    def runs(self, action: str) -> bool:
        """Whether an action of this name is configured."""

    def reachable(self, task: Task) -> Mask:
        """Return the nodes the task could use after evictions; not available in `open`."""

    @property
    def free(self) -> Vector:
        """What nodes have free after pending releases, (N, R)."""

    @property
    def queue_limits(self) -> QueueLimits:
        """Capabilities, guarantees and weights of all queues."""

    @property
    def total(self) -> Vector:
        """The resources that shares are computed from, (R,); available from `start` on."""

    @property
    def pools(self) -> NodePools:
        """The nodes, by the queues and pods that could use them; available from `start` on."""

    def pools_before(self, seconds: float) -> NodePools | None:
        """Return `pools` without node losses of the last `seconds`; None without such losses."""

    def wake(self, at: float) -> None:
        """Ask for a cycle at this instant, when a decision could change without an event."""


class Action(Configured, Generic[Working]):
    """Base of all actions, which change the session and run in the configured order.

    Working is the type of session that actions receive (core.session.session).
    """

    def prepare(self, session: Working) -> None:
        """Prepare for the cycle before plugins are opened, so that plugins see the changes."""

    def execute(self, session: Working) -> None:
        """Place, evict or admit, through statements of the session."""
        raise NotImplementedError

    def conclude(self, session: Working) -> None:
        """Do what comes after all actions, when it is known what these have left."""
