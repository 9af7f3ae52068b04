"""Plugin and Action: the interfaces through which policy takes part in a cycle. Read this first.

A plugin is a class with a `name` that defines some of the methods of `Hooks` below. The session
creates one instance per cycle, calls `open` once, and then calls the hooks: which queue, job and
task comes next; whether a job may start; which nodes a pod may use, and which nodes are best.

    class Reserved(Plugin):
        name = "reserved"
        arguments = {"reserved.label": Argument(str, "example.com/reserved")}

        @depends_on(On.NODE)
        def class_nodes(self, pod_class, layout):
            column, _ = layout.label(self.argument("reserved.label"))
            return column < 0

        @depends_on(On.NODE)
        def filter_nodes(self, task, nodes):
            free = nodes.of(self.class_nodes(None, nodes.layout))
            return [FilterResult("node(s) were reserved", free)]

        @depends_on(On.USED)
        def score_nodes(self, task, nodes):
            return 10.0 * (nodes.used[:, 0] == 0)

`depends_on` is optional: it lets the scheduler ask less often (core.api.depends).
`core.session.dispatch` combines the answers. None is an abstention; an empty answer is an opinion.
Hooks modify no arguments, and follow from the session: no clock, no randomness, no other input.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import node_views
from vscheduler.core.api.node_views import Devices, Volumes
from vscheduler.core.api.views import JobState, NominatedPods, PodAffinityCounts
from vscheduler.core.fair_share.demands import QueueDemands
from vscheduler.core.fair_share.fair_shares import QueueLimits
from vscheduler.core.fair_share.node_pools import NodePools
from vscheduler.core.model import durations
from vscheduler.core.model.decisions import (
    AdmissionFailure,
    Bind,
    Entitlement,
    Evict,
    QueueLimit,
    Reason,
    ShareAfter,
    Shortage,
)
from vscheduler.core.model.jobs import JobId, PodClass, Task, TaskId
from vscheduler.core.model.nodes import Mask, NodeLayout
from vscheduler.core.model.queues import Queue, Usage
from vscheduler.core.model.resources import ResourceSpace, Vector
from vscheduler.core.model.snapshot import Snapshot

Scalar = TypeVar("Scalar", bound=np.generic)
Working = TypeVar("Working")

Key: TypeAlias = float | tuple[float, ...]
"""The sort key of a queue, job or task: smaller comes first."""


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
    """Raises ValueError for an invalid value; durations.seconds, for example, validates text."""


NodeView = node_views.NodeView
FilterResult = node_views.FilterResult


class Session(Protocol):
    """The part of the running cycle that plugins may read; actions receive the class itself."""

    snapshot: Snapshot
    space: ResourceSpace
    queues: Mapping[str, Queue]
    lending: bool
    """Whether action allocate lends at this moment: `overused`, `allocatable` and `queue_limits`
    answer by what a queue may borrow beyond its share."""

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

    def open(self, session: Session) -> None:
        """Prepare for the cycle. Answers of other plugins aren't available yet."""


class Hooks(Protocol):
    """The catalogue of all hooks and their meanings. No class implements the whole protocol.

    In brackets: Volcano's name, and how the answers of several plugins combine.
    """

    def start(self) -> None:
        """[-; all] All plugins are open: compute what depends on them, such as shares of total."""

    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask | None:
        """[-; all masks] Which nodes (N,) of a layout could pods of this class use if all were
        empty? This is the part of `filter_nodes` that shares are computed from. None: all nodes.
        """

    def queue_nodes(self, queue: Queue, layout: NodeLayout) -> Mask | None:
        """[-; all masks] Like `class_nodes`, for pods of this queue and of any class."""

    def queue_key(self, queue: Queue) -> Key | None:
        """[QueueOrder; first difference, then age and name] The sort key, again after each turn."""

    def queue_path(self, queue: Queue) -> Sequence[Hashable]:
        """[-; first answer] The path of a queue in a tree of queues; see docs/plugins.md."""

    def job_key(self, state: JobState) -> Key | None:
        """[JobOrder; first difference, then creation time, then id] The job's sort key, computed
        again each time the job returns to the queue's line.
        """

    def task_key(self, task: Task) -> Key | None:
        """[TaskOrder; first difference, then index, creation time, UID] The sort key of a task."""

    def job_valid(self, state: JobState) -> Reason | None:
        """[JobValid; first reason] Why can't this job be scheduled as it is? None: it can."""

    def job_ready(self, state: JobState) -> bool | None:
        """[JobReady; all] May the tasks allocated so far be bound?"""

    def start_timeout(self, state: JobState) -> float | None:
        """[-; first] After how many seconds is a gang evicted if only a part of its pods could be
        bound? Without any answer, the pods stay.
        """

    def recovery_timeout(self, state: JobState) -> float | None:
        """[-; first] After how many seconds is a gang evicted that had its minimum and has lost
        pods, which nobody replaces? Without any answer, the other pods stay.
        """

    def job_pipelined(self, state: JobState) -> bool | None:
        """[JobPipelined; a vote] May the job reserve resources being released until the job can
        start? A reject loses, a tier with a permit decides.
        """

    def job_starving(self, state: JobState) -> bool | None:
        """[JobStarving; all of the first tier with an answer] May pods be evicted for this job? If
        no plugin has an answer, no job starves.
        """

    def job_enqueueable(self, state: JobState) -> AdmissionFailure | bool | None:
        """[JobEnqueueable; a vote] May a Pending group be admitted? An AdmissionFailure is a no."""

    def job_enqueued(self, state: JobState) -> None:
        """[JobEnqueued; all] The group was admitted: count the resources promised to the group."""

    def overused(self, queue: Queue) -> bool | None:
        """[Overused; any] Has the queue reached its share? If so, it gets no turn this cycle."""

    def allocatable(self, queue: Queue, task: Task) -> bool | None:
        """[Allocatable; all] May this task be allocated to the queue?"""

    def share_with(self, queue: Queue, tasks: Sequence[Task]) -> float | None:
        """[-; first] With these tasks, how many times its share would the queue have of the
        resources that they request? Asked to lend to the smallest such queue first.
        """

    def queue_limits(self, queue: Queue, task: Task) -> Sequence[QueueLimit]:
        """[-; all] The limits behind `allocatable` and `filter_nodes`, of all resources."""

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool | None:
        """[Preemptive; all] Does the queue's share cover these tasks, too, so that pods may go?"""

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """[Preemptable; see VictimRole] Which pods of the claimant's own queue may be evicted for
        the claimant? The result is in order of eviction, each victim assumed gone for the next.
        """

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """[Reclaimable; see VictimRole] Like `preemptable`, for pods of other queues."""

    def share_after(
        self, preemptor: Task, claimed: Vector, victims: Sequence[Task]
    ) -> ShareAfter | None:
        """[-; first] With what shares would the queue of these victims and the claimant's queue
        end, after all claims of the job, (R,)? None: shares don't matter.
        """

    def victim_queue_key(self, claimant: Queue, queue: Queue) -> Key | None:
        """[VictimQueueOrder; first difference, then the reverse of queue_key] The sort key of a
        queue that may lose pods to the claimant.
        """

    def shuffle_victims(self, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """[VictimTasks; the first tier with any] Which pods should be evicted to be rescheduled?"""

    def shortages(self, queue: Queue, task: Task) -> Sequence[Shortage]:
        """[-; all] The figures behind `overused`, or behind a refusal of `allocatable`."""

    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """[Predicate; all masks] Which nodes may the task use, free amounts aside?"""

    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """[NodeOrder; sum] The weighted score of each node, (n,)."""

    def score_node_set(
        self, task: Task, nodes: NodeView, feasible: NDArray[np.bool_]
    ) -> NDArray[np.float64] | None:
        """[BatchNodeOrder; sum] Scores that depend on the set of feasible nodes (N,), such as
        scores scaled to the maximum. Always asked for all rows. None: all scores are equal.
        """

    def on_allocate(self, task: Task) -> None:
        """[AllocateFunc; all] The task was placed, to start now or later. Undone by on_deallocate.
        For a running task: an eviction was cancelled.
        """

    def on_deallocate(self, task: Task) -> None:
        """[DeallocateFunc; all] The task lost its place. For a running task: the task is being
        evicted, and its resources become available to waiting pods.
        """

    def entitlements(self) -> Mapping[str, Entitlement]:
        """[-; last plugin with an answer] The share of each queue, for display."""

    def usages(self) -> Mapping[str, Usage]:
        """[-; last plugin with an answer] The usage of each queue over time, for the next cycle's
        `snapshot.carried` and for restarts. Return the previous object if only time has passed.
        """


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
