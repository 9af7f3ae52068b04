"""What a cycle decides, and why: data only. `mirror.wording` puts it into English."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vscheduler.core.model import jobs, queues, resources, snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """This task goes to this node, now."""

    task: jobs.Task
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """This task waits on this node for room that is being freed; nothing is sent."""

    task: jobs.Task
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """This task leaves its node so that a job can start."""

    task: jobs.Task
    node: str
    action: str
    """The action that decided it: reclaim, preempt, shuffle; or gang, of which only a part could
    be bound."""
    beneficiary: jobs.JobId | None
    whole: bool = False
    """Whether its whole gang goes; else it is surplus, or a group of one pod."""
    moves: bool = False
    """Whether its queue is within its share, and is given room elsewhere for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAfter:
    """Where an eviction leaves two queues: allocated ÷ deserved of the resource that is claimed."""

    loser: float
    """The queue that loses pods; inf where it deserves nothing."""
    claimant: float
    """The queue that they go for, with all that its job claims; where it deserves less than its
    weight would give it, only because it asks for less, this counts by its weight."""
    within: bool = False
    """Whether the loser has no more than its share: it may only be moved to other nodes."""

    @property
    def overshoot(self) -> float:
        """How far below its share the loser ends: 0 is not below, 1 is nothing left."""
        return max(0.0, 1.0 - self.loser)

    @property
    def fair(self) -> bool:
        """Whether the loser keeps its share, or as much of it as the claimant ends with."""
        return self.loser >= min(1.0, self.claimant)


WITHIN_SHARE = ShareAfter(loser=1.0, claimant=1.0, within=True)
"""The loser has no more than its share of anything that is claimed."""


class ReasonCode(StrEnum):
    """Why a job waits: a closed list, in order of precedence; the values are for metrics."""

    QUEUE_MISSING = "QueueNotFound"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_BARRED = "QueueNotForNamespace"
    PLUGIN_FAILED = "PluginFailed"
    NOT_LEAF = "QueueNotLeaf"
    SET_ASIDE = "QueueSetAside"
    BAD_SETTING = "BadSetting"
    """An annotation that can't be read."""
    TOPOLOGY_UNKNOWN = "NetworkTopologyUnknown"
    """It must be near together in the network."""
    POD_REJECTED = "PodRejected"
    """Pods can't be used, without which there are too few."""
    TOO_FEW_PODS = "NotEnoughTasks"
    TOO_FEW_OF_ROLE = "NotEnoughPodsOfTask"
    TOO_FEW_SUB_GROUPS = "NotEnoughSubGroups"
    QUEUE_FULL = "QueueFull"
    """Its minResources are more than the queue may still promise."""
    QUOTA_FULL = "NamespaceQuotaFull"
    NEVER_FITS = "NeverFits"
    """More than any node has, or all nodes together, whatever goes."""
    CLUSTER_FULL = "ClusterFull"
    """Its minResources are more than the cluster may still promise."""
    QUEUE_OVER_SHARE = "QueueOverShare"
    NO_NODES = "NoNodes"
    NO_ROOM = "NotEnoughResources"
    WAITS_FOR_RELEASE = "WaitsForRelease"
    TOO_FEW_OF_SUB_GROUP = "NotEnoughPodsOfSubGroup"
    """The job may have started: no other sub-group lacks these pods."""
    GATED = "SchedulingGated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """One resource of which too little is left under a limit; units as in resources.ResourceMap."""

    resource: str
    requested: float
    allocated: float
    limit: float
    owner: str = ""
    """The queue whose capability it is; empty where it is a share that the job's own queue
    deserves, or where the reason says whose it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFailure:
    """Why a group isn't admitted: a plugin's vote against it, with the numbers."""

    code: ReasonCode
    """QUEUE_CLOSED, NOT_LEAF, SET_ASIDE, BAD_SETTING, QUEUE_FULL, QUOTA_FULL or CLUSTER_FULL."""
    shortages: tuple[Shortage, ...] = ()
    subject: str = ""
    """The ResourceQuota, or the ancestor queue, whose limit it is; what is wrong with a setting."""
    problem: queues.QueueProblem | None = None
    """Why the queue is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingResource:
    """The largest free room of one resource on any node that the pod may use."""

    resource: str
    free: float
    node: str


LEAVES_MAX = 5
"""So many leaf queues are named to a job in an inner one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The one dominant reason why a job, or the rest of it, isn't placed, with its numbers."""

    code: ReasonCode
    queue: str
    tasks: int = 0
    """Pods that are there."""
    minimum: int = 0
    """minMember, or the role's minimum."""
    placed: int = 0
    """Pods that have room, or found some in this cycle."""
    role: str = ""
    request: resources.ResourceMap = field(default_factory=dict)
    """What the pod that found no room asks for."""
    seats: int = 0
    """How many of the pods that it needs could have room, were all nodes empty."""
    nodes: int = 0
    """Nodes that were looked at."""
    refusals: tuple[tuple[str, int], ...] = ()
    """Why nodes refused that pod, each with its number of nodes, most frequent first."""
    subject: str = ""
    """Another object that it is about: a ResourceQuota, a queue's ancestor."""
    sub_group: Mapping[str, str] | None = None
    """What a sub-group goes by, where tasks and minimum are its own; subject is its policy."""
    problem: queues.QueueProblem | None = None
    """Why the queue is set aside."""
    leaves: tuple[str, ...] = ()
    """Queues below an inner one that jobs could go to; more than LEAVES_MAX are more than can be
    named."""
    rejected: int = 0
    """Pods that can't be used."""
    rejection: jobs.InvalidPod | None = None
    """Why one of them can't."""
    shortages: tuple[Shortage, ...] = ()
    holes: tuple[MissingResource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """What a PodGroup's status should say after this cycle."""

    job: jobs.JobId
    uid: str
    queue: str
    phase: jobs.Phase
    running: int
    succeeded: int
    failed: int
    ready: bool
    """Whether the gang has its minimum: condition Scheduled, else Unschedulable."""
    unplaced: tuple[jobs.Task, ...] = ()
    """Pending tasks that were tried and got no node."""
    rejections: tuple[jobs.InvalidPod, ...] = ()
    """Pods that can't be used, each for a reason of its own."""
    reason: Reason | None = None


class LimitedBy(StrEnum):
    """What keeps a queue from deserving more of a resource."""

    REQUEST = "Request"
    """It asks for no more."""
    CAPABILITY = "Capability"
    """Its spec.capability, less what its pods hold under other schedulers."""
    QUOTA = "Quota"
    """It owns so much: its spec.deserved, or its guarantee. More is borrowed."""
    ROOT = "RootCapability"
    """That of queue root, which all share."""
    WEIGHT = "Weight"
    """Others want what is left, by their weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """How it came about what a queue deserves of one resource; amounts may be fractions."""

    deserved: float
    usable: float
    """What there is on nodes that its pods could use, other queues' pods included."""
    bound: LimitedBy
    weight: int
    weights: int
    """Of all queues that share the same room by weight, its own included; its own weight where it
    shares with nobody."""
    guaranteed: bool = False
    """Whether it gets more than its weight would give it, by its guarantee."""
    pinned: float = 0.0
    """What of it is held on nodes that take no more of its pods: cordoned, not ready, gone."""
    promised: float = 0.0
    """What it is guaranteed, where that is more than can be kept; else 0."""
    kept: float = 0.0
    """How much of that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entitlement:
    """What a fairness plugin works out for a queue; amounts may be fractions."""

    deserved: Mapping[str, float]
    real_capability: Mapping[str, float] | None = None
    share: float = 0.0
    problem: queues.QueueProblem | None = None
    """Why the queue is set aside, and who has to put it right."""
    bases: Mapping[str, Basis] = field(default_factory=dict)
    """By resource, of those that it asks for or has a guarantee of; empty where a plugin doesn't
    say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Nodes that no pod of any queue can use, so that what they have isn't shared out."""

    reason: str
    """Why, as kubectl users know it: `node(s) had untolerated taint {gpu: true}`."""
    nodes: tuple[str, ...]
    """Sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """A queue's figures after this cycle; jobs of other schedulers are not in them."""

    name: str
    state: queues.QueueState
    weight: int
    allocated: Mapping[str, float]
    request: Mapping[str, float]
    elsewhere: Mapping[str, float] = field(default_factory=dict)
    """What its pods of other schedulers hold; in neither of the two."""
    capability: resources.ResourceMap = field(default_factory=dict)
    """Its spec.capability; what it doesn't name is unlimited."""
    entitlement: Entitlement | None = None
    usage: queues.Usage | None = None
    """What it has used over time, where a plugin keeps account of that."""

    @property
    def problem(self) -> queues.QueueProblem | None:
        """Why the queue is set aside, if it is."""
        return self.entitlement.problem if self.entitlement is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A plugin that failed and was left out of the rest of the cycle."""

    plugin: str
    hook: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """All that one cycle decided. Everything is in canonical order."""

    binds: tuple[Bind, ...]
    pipelined: tuple[Pipeline, ...]
    evicts: tuple[Evict, ...]
    groups: tuple[GroupStatus, ...]
    queues: tuple[QueueFigures, ...]
    total: Mapping[str, float]
    """What shares are computed from."""
    carried: snapshot.Carried
    excluded: tuple[Exclusion, ...] = ()
    """Nodes that are left out of the total, most of them first."""
    finished: bool = True
    """False when the budget ended the cycle before every job had its turn."""
    wake_at: float | None = None
    """The first instant at which a decision could change with no event."""
    costs: Mapping[str, int] = field(default_factory=dict)
    """The cost of the cycle by namespace, in core.cycle's units of work, without the namespaces of
    which pods are bound."""
    work: Mapping[str, int] = field(default_factory=dict)
    """Operations by kind: placements, plans, refreshed rows."""
    faults: tuple[Fault, ...] = ()
