"""Plugin and Action: all that policy can say in a cycle. Read this first.

A plugin is a class with a `name` that defines some of the methods below. The session makes one
instance per cycle, calls `open` once, and then asks it: which queue, job and task comes next;
whether a job may start; which nodes a pod may use, and which of them it likes best.

    class Reserved(Plugin):
        name = "reserved"
        arguments = {"reserved.label": Argument(str, "example.com/reserved")}

        def filter_nodes(self, task, nodes):
            column, _ = nodes.layout.label(self.argument("reserved.label"))
            return [FilterResult("node(s) were reserved", nodes.of(column < 0))]

        def score_nodes(self, task, nodes):
            return 10.0 * (nodes.used[:, 0] == 0)

Answers of many plugins become one as `combinators` says. None is an abstention; an empty answer
is an opinion. A hook must not change what it is given, and must answer the same to the same
question: no clock, no randomness, nothing read from outside.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import views
from vscheduler.core.fair_share import demands, node_pools
from vscheduler.core.model import (
    constraints,
    decisions,
    durations,
    jobs,
    nodes,
    queues,
    resources,
    snapshot,
)

Scalar = TypeVar("Scalar", bound=np.generic)
Working = TypeVar("Working")

Key: TypeAlias = float | tuple[float, ...]
"""What a queue, job or task is sorted by: smaller comes first."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that a plugin or action takes in the configuration.

    kind is bool, int, float, str, list or dict; an int is accepted where a float is meant. A name
    that ends in `*` stands for all names with that beginning.
    """

    kind: type
    default: object
    minimum: float | None = None
    choices: tuple[str, ...] = ()
    missing: str = ""
    """What it is about, where that isn't there yet: any value but the default is warned of."""
    parse: Callable[[Any], object] | None = None
    """Raises ValueError for a value that isn't right, such as durations.seconds for a text."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """The nodes that a question is about, as columns: n rows of the N nodes of the cluster.

    First all rows are asked about, later only those that a placement has touched; the answer for
    a row must depend on that row only (see also `outlook` and `row_outlook`). Amounts are int64 of
    shape (n, R), columns as in the session's ResourceSpace; none may be written to.
    """

    layout: nodes.NodeLayout
    rows: NDArray[np.int64] | None
    """Which rows of the layout; None is all of them."""
    allocatable: resources.Vector
    used: resources.Vector
    """What pods hold, pods being deleted included."""
    future_used: resources.Vector
    """The same, less what is being freed, plus what is promised to waiting pods."""
    ports: Mapping[str, tuple[constraints.HostPort, ...]]
    """Host ports of pods that stay, those placed in this cycle included; by node name."""
    leaving_ports: Mapping[str, tuple[constraints.HostPort, ...]]
    """Host ports of pods that are leaving, those evicted in this cycle included."""
    _sizes: dict[int, NDArray[np.float64]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def sizes(self, column: int) -> NDArray[np.float64]:
        """What each node has of a resource, at least 1, so that amounts can be divided by it (n,);
        not to be written to. The same array again where the view is asked again, as all scores of
        a cycle divide by it.
        """
        found = self._sizes.get(column)
        if found is None:
            found = np.maximum(self.allocatable[:, column], 1).astype(np.float64)
            found.setflags(write=False)
            self._sizes[column] = found
        return found

    def of(self, column: NDArray[Scalar]) -> NDArray[Scalar]:
        """The part of a whole column (N, …) that belongs to these rows."""
        return column if self.rows is None else column[self.rows]

    @property
    def size(self) -> int:
        """n, the number of rows."""
        return int(self.allocatable.shape[0])


@dataclass(frozen=True, slots=True)
class FilterResult:
    """One filter's answer: which rows pass, and what to tell people about the others."""

    refusal: str
    """As kubectl users know it: `node(s) had untolerated taint {gpu: true}`."""
    passes: nodes.Mask
    """Shape (n,)."""
    later: nodes.Mask | None = None
    """Which pass once the pods that are leaving are gone, where that makes a difference."""
    curable: bool = False
    """Whether evictions could change it: host ports, affinity between pods."""
    passing: bool = False
    """Whether it says nothing about the node itself, and is over without anybody doing anything."""


class Session(Protocol):
    """What a plugin may read of the running cycle; actions get the class itself."""

    snapshot: snapshot.Snapshot
    space: resources.ResourceSpace
    queues: Mapping[str, queues.Queue]
    as_volcano: bool
    """`compatibility: volcano`: decide as Volcano does where we would decide otherwise."""

    @property
    def neighbours(self) -> views.PodAffinityCounts:
        """Which pods are near a node, those placed and evicted in this cycle taken into account."""

    @property
    def nominated(self) -> views.NominatedPods:
        """Pods of other schedulers that wait for room that is kept for them."""

    @property
    def gangs(self) -> Mapping[jobs.JobId, views.JobState]:
        """Jobs with their state in this cycle; every one has its queue in `queues`."""

    @property
    def demands(self) -> demands.QueueDemands:
        """What queues have and ask for as the cycle begins."""

    @property
    def binds(self) -> Sequence[decisions.Bind]:
        """What starts in this cycle, so far; what is only held doesn't."""

    @property
    def evicts(self) -> Mapping[jobs.TaskId, decisions.Evict]:
        """Who is to go, so far."""

    def request(self, task: jobs.Task) -> resources.Vector:
        """What the task asks for, (R,), `pods` included; not to be written to."""

    def promised(self, task: jobs.Task) -> bool:
        """Whether pods were evicted for this task in an earlier cycle, or room was kept for it."""

    def runs(self, action: str) -> bool:
        """Whether an action of this name is configured."""

    def reachable(self, task: jobs.Task) -> nodes.Mask:
        """Nodes that nothing but room or what evictions change keeps from it. Not in `open`."""

    @property
    def total(self) -> resources.Vector:
        """What shares are computed from, (R,); to be asked from `start` on."""

    @property
    def usable(self) -> node_pools.NodePools:
        """What the pods of queues could use of the nodes; to be asked from `start` on."""

    def usable_before(self, seconds: float) -> node_pools.NodePools | None:
        """The same as if nodes hadn't lost anything in so many seconds; None where they haven't."""

    def wake(self, at: float) -> None:
        """At this instant a decision could change with no event: there is to be a cycle."""


class VictimRole(StrEnum):
    """What a plugin's answer to `preemptable` and `reclaimable` means."""

    ENTITLES = "says who may lose pods to whom"
    """In the first tier in which one answers, all that do must agree; no lower tier is asked."""
    PROTECTS = "vetoes"
    """In whatever tier: a pod that it leaves out is no victim."""
    UNITS = "says how many of a gang may go"
    """Asked in Volcano's way only: else surplus pods go one by one, the rest whole or not."""


class Configured:
    """What takes arguments."""

    name: ClassVar[str]
    arguments: ClassVar[Mapping[str, Argument]] = {}

    def __init__(
        self, arguments: Mapping[str, object], flags: frozenset[str] = frozenset()
    ) -> None:
        self._arguments = arguments
        self.flags = flags
        """Flags (`enableHierarchy`) that are on."""

    def argument(self, name: str) -> object:
        """The configured value, or the declared default."""
        value = self._arguments.get(name)
        return self.arguments[name].default if value is None else value

    def number(self, name: str) -> float:
        """The same for an argument that is a number."""
        value = self.argument(name)
        assert isinstance(value, int | float)
        return float(value)

    def seconds(self, name: str) -> float:
        """The same for a duration."""
        return durations.seconds(str(self.argument(name)))


class Plugin(Configured):
    """Base of all plugins: define the hooks that you need, leave the others out.

    The flags that switch hooks off are Volcano's; hooks.HOOKS lists them.
    """

    victim_role: ClassVar[VictimRole] = VictimRole.ENTITLES
    nodes_last: ClassVar[bool] = False
    """Whether `class_nodes` and `queue_nodes` answer the same in every cycle."""

    def open(self, session: Session) -> None:
        """The cycle begins: work out what hooks need; what other plugins say can't be read."""


class Hooks(Protocol):
    """Every hook with its meaning. Nothing implements this whole: it is the catalogue.

    In brackets: Volcano's name, and how the answers of several plugins combine.
    """

    def start(self) -> None:
        """[-; all] All plugins are open: work out what depends on what others say, such as shares
        of `session.total`.
        """

    def class_nodes(self, kind: jobs.PodClass, layout: nodes.NodeLayout) -> nodes.Mask | None:
        """[-; all masks] Which nodes (N,) of any layout pods of this class could use, whoever is
        there now: the part of `filter_nodes` that shares are computed from. None: all.
        """

    def queue_nodes(self, queue: queues.Queue, layout: nodes.NodeLayout) -> nodes.Mask | None:
        """[-; all masks] The same for pods of this queue, of whatever class."""

    def queue_key(self, queue: queues.Queue) -> Key | None:
        """[QueueOrder; first difference over tiers, then creation time, then name] Asked again
        each time the queue has had its turn.
        """

    def job_key(self, gang: views.JobState) -> Key | None:
        """[JobOrder; first difference, then creation time, then id] Asked again each time the job
        goes back into its queue's line.
        """

    def task_key(self, task: jobs.Task) -> Key | None:
        """[TaskOrder; first difference, then index, creation time, UID]."""

    def job_valid(self, gang: views.JobState) -> decisions.Reason | None:
        """[JobValid; first reason] Why this job can't be scheduled as it stands; None if it can."""

    def job_ready(self, gang: views.JobState) -> bool | None:
        """[JobReady; all] Whether what is allocated so far may be bound."""

    def start_timeout(self, gang: views.JobState) -> float | None:
        """[-; first] After how many seconds a gang that could only be bound in part, and is so
        still, is evicted. Where no plugin has an answer, it stays.
        """

    def job_pipelined(self, gang: views.JobState) -> bool | None:
        """[JobPipelined; a vote] Whether the job may hold room that is being freed until it can
        start. A reject loses, a tier with a permit decides.
        """

    def job_starving(self, gang: views.JobState) -> bool | None:
        """[JobStarving; all of the first tier that has one] Whether others may lose pods for it.
        Where no plugin has an answer, no job starves.
        """

    def job_enqueueable(self, gang: views.JobState) -> decisions.AdmissionFailure | bool | None:
        """[JobEnqueueable; a vote, too] Whether a Pending group is let in: True, or the numbers."""

    def job_enqueued(self, gang: views.JobState) -> None:
        """[JobEnqueued; all] The group was let in: count what was promised to it."""

    def overused(self, queue: queues.Queue) -> bool | None:
        """[Overused; any] Whether the queue has had enough: it gets no turn in this cycle."""

    def allocatable(self, queue: queues.Queue, task: jobs.Task) -> bool | None:
        """[Allocatable; all] Whether the queue may take this task as well."""

    def preemptive(self, queue: queues.Queue, tasks: Sequence[jobs.Task]) -> bool | None:
        """[Preemptive; all] Whether the queue is owed what these tasks ask for, on top of what it
        has: others may lose pods for them.
        """

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task] | None:
        """[Preemptable; see VictimRole] Which pods of the claimant's own queue may go for it, in
        this order, each victim taken as gone for those behind it.
        """

    def reclaimable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task] | None:
        """[Reclaimable; see VictimRole] The same for pods of other queues."""

    def share_after(
        self, claimant: jobs.Task, claimed: resources.Vector, victims: Sequence[jobs.Task]
    ) -> decisions.ShareAfter | None:
        """[-; first] Where a queue ends that loses these of its pods together, and the claimant's
        with all that its job still claims, (R,). None: its share says nothing of that.
        """

    def victim_queue_key(self, claimant: queues.Queue, queue: queues.Queue) -> Key | None:
        """[VictimQueueOrder; first difference, then the reverse of queue_key] In which order other
        queues lose pods to this one.
        """

    def shuffle_victims(self, candidates: Sequence[jobs.Task]) -> Sequence[jobs.Task] | None:
        """[VictimTasks; the first tier with any] Which pods should go for reasons of their own."""

    def shortages(self, queue: queues.Queue, task: jobs.Task) -> Sequence[decisions.Shortage]:
        """[-; all] The numbers behind `overused` or a refusal of `allocatable`."""

    def filter_nodes(self, task: jobs.Task, nodes: NodeView) -> Sequence[FilterResult]:
        """[Predicate; all masks] Which nodes the task may use, amounts aside. The answer must be
        the same for all tasks of one class and queue with one `PodAffinityState.key`.
        """

    def outlook(self, task: jobs.Task) -> Hashable:
        """[-; all] A value that changes when answers about this task may have changed on rows
        that were not touched, such as a count of pods in a zone; None where they never do.
        """

    def row_outlook(self, task: jobs.Task, rows: NDArray[np.int64]) -> Sequence[Hashable] | None:
        """[-; all] For each row, a value that changes when its answer may have changed though the
        view shows the same: whom the task meets there, say. None, for whatever rows: it never does.
        Who answers about nodes and doesn't have this is asked anew after each placement.
        """

    def score_nodes(self, task: jobs.Task, nodes: NodeView) -> NDArray[np.float64]:
        """[NodeOrder; sum] How good each node is, weight included, shape (n,). The same for all
        tasks of one class and queue with one `PodAffinityState.key`.
        """

    def score_node_set(
        self, task: jobs.Task, nodes: NodeView, feasible: NDArray[np.bool_]
    ) -> NDArray[np.float64] | None:
        """[BatchNodeOrder; sum] Scores that depend on which nodes are feasible (N,): for scores
        that are scaled to the best of them. Always asked about all rows. None: all are equal.
        """

    def on_allocate(self, task: jobs.Task) -> None:
        """[AllocateFunc; all] The task got room, for now or for later. Undone by on_deallocate.
        Of a task that was running: its eviction was taken back.
        """

    def on_deallocate(self, task: jobs.Task) -> None:
        """[DeallocateFunc; all] The task lost its room. Of a task that was running: it is to be
        evicted, and its room is there for those who wait.
        """

    def entitlements(self) -> Mapping[str, decisions.Entitlement]:
        """[-; last plugin that answers] What each queue is entitled to, for people to see."""

    def usages(self) -> Mapping[str, queues.Usage]:
        """[-; last plugin that answers] What each queue has used over time, for the next cycle's
        `snapshot.carried` and a restart. The same object where only time has passed.
        """


class Action(Configured, Generic[Working]):
    """Base of all actions: one way of changing the session, run in the configured order.

    Working is the session that actions get: the class itself (core.session.session).
    """

    def prepare(self, session: Working) -> None:
        """The cycle begins, plugins aren't open yet: change what they are to find changed."""

    def execute(self, session: Working) -> None:
        """Decide something: place, evict or admit, through the session's statements."""
        raise NotImplementedError
