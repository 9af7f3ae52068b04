"""Decisions of a cycle and their reasons, as plain data.

`mirror.wording` renders reasons in English.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from math import inf
from typing import TypeAlias

import msgspec

from vscheduler.model import jobs_by_id
from vscheduler.model.claim_decisions import (
    ClaimKind,
    ClaimWait,
    PrepareClaims,
    Release,
    Request,
)
from vscheduler.model.gang_proof import GangProof
from vscheduler.model.jobs import InvalidPod, JobId, Phase, Task
from vscheduler.model.jobs_by_id import JobsById
from vscheduler.model.nodes import Mask
from vscheduler.model.queues import QueueProblem, QueueState, Usage
from vscheduler.model.reclaim_outlooks import ReclaimOutlook
from vscheduler.model.refusals import Refusal
from vscheduler.model.resources import ResourceMap
from vscheduler.model.snapshot import Carried
from vscheduler.model.unassigned_pods import UnassignedPods


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to bind a task to a node now."""

    task: Task
    node: str
    limit: float | None = None
    """After how many seconds the task will be ended, if its queue does so."""


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """Decision that a task waits for resources being freed on a node (Volcano: pipelined).

    Nothing is sent.
    """

    task: Task
    node: str


class LostPods(msgspec.Struct, frozen=True, kw_only=True):
    """What a gang lacks that has had its minimum."""

    ready: int
    """Pods that run or have succeeded."""
    minimum: int
    """The job's minMember."""
    failed: int
    """Pods that have failed and still exist."""
    seconds: float
    """For how long the gang has lacked pods."""


OVERDUE = "run-time-cap"
"""In place of the action, for pods that run longer than their queue lets them."""


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to evict a task so that a job can start."""

    task: Task
    node: str
    action: str
    """The action behind the decision: reclaim, preempt or shuffle. `gang` stands for the removal of
    a gang bound only in part, or of one that has lost pods."""
    beneficiary: JobId | None
    whole: bool = False
    """Whether the task's whole gang is evicted; otherwise the task is surplus, or a group of a
    single pod."""
    lost: LostPods | None = None
    """Why a gang is evicted that has lost pods, which nobody replaced in time."""
    moves: bool = False
    """Whether the task's queue is within its share, so that resources on other nodes are reserved
    in exchange."""
    limit: float | None = None
    """How many seconds the task was allowed to run, if that is the reason."""


class EndsSoon(msgspec.Struct, frozen=True, kw_only=True):
    """A running pod that will be ended, since its time is up soon."""

    task: Task
    at: float
    limit: float
    """How many seconds it may run."""


class ShareAfter(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of an eviction on two queues: allocated ÷ deserved of the requested resource."""

    loser: float
    """Ratio of the queue that loses pods; inf when the queue deserves nothing."""
    preemptor: float
    """Ratio of the queue that gains, with everything its job claims. When the queue deserves less
    than its weight would give only because it requests less, the amount by weight is used instead.
    """
    within: bool = False
    """Whether the loser has at most its share, so that its pods may only be moved to other
    nodes."""
    borrowed: bool = False
    """Whether the victims' job alone needs more than the loser's share: it can only run on what
    its queue borrows."""

    @property
    def overshoot(self) -> float:
        """How far below its share the loser ends, from 0 (not below) to 1 (nothing left); 0 for
        borrowed victims.
        """
        return 0.0 if self.borrowed else max(0.0, 1.0 - self.loser)

    @property
    def fair(self) -> bool:
        """Whether the loser keeps its share, or a ratio at least as high as the preemptor's. What
        is borrowed is given back in any case.
        """
        return self.borrowed or self.loser >= min(1.0, self.preemptor)


WITHIN_SHARE = ShareAfter(loser=1.0, preemptor=1.0, within=True)
"""The loser has at most its share of all requested resources."""


class ReasonCode(StrEnum):
    """Why a job waits: a closed list in order of precedence. The values are metric labels."""

    QUEUE_MISSING = "QueueNotFound"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_BARRED = "QueueNotForNamespace"
    PLUGIN_FAILED = "PluginFailed"
    NOT_LEAF = "QueueNotLeaf"
    SET_ASIDE = "QueueSetAside"
    BAD_SETTING = "BadSetting"
    """An annotation cannot be parsed."""
    TOPOLOGY_UNKNOWN = "NetworkTopologyUnknown"
    """The pods must be close to each other in the network, which is not supported."""
    POD_GROUP_ERROR = "PodGroupError"
    """The pods contradict their PodGroup, or it doesn't exist."""
    POD_REJECTED = "PodRejected"
    """Some pods are invalid, and without them the job has too few pods."""
    TOO_FEW_PODS = "NotEnoughTasks"
    TOO_FEW_OF_ROLE = "NotEnoughPodsOfTask"
    TOO_FEW_SUB_GROUPS = "NotEnoughSubGroups"
    QUEUE_FULL = "QueueFull"
    """The job's minResources exceed the remaining capacity of the queue."""
    QUOTA_FULL = "NamespaceQuotaFull"
    NEVER_FITS = "NeverFits"
    """The job needs more than any node, or all nodes together, could offer after any eviction."""
    CLUSTER_FULL = "ClusterFull"
    """The job's minResources exceed the remaining capacity of the cluster."""
    PLUGIN_REFUSED = "PluginRefused"
    """A plugin doesn't let the job start, and may say why in a sentence of its own."""
    QUEUE_OVER_SHARE = "QueueOverShare"
    WAITS_FOR_VOLUMES = "WaitsForVolumes"
    """The pods have nodes and wait for their claims, or an attempt to have these bound failed."""
    WAITS_FOR_DEVICES = "WaitsForDevices"  # the same for claims of devices
    NO_NODES = "NoNodes"
    NO_DOMAIN = "NotEnoughResourcesInDomain"
    """No domain of the network that the pods may use has room for as many as must start together.
    """
    NO_ROOM = "NotEnoughResources"
    WAITS_FOR_RELEASE = "WaitsForRelease"
    TOO_FEW_OF_SUB_GROUP = "NotEnoughPodsOfSubGroup"
    """The job may have started already, because no other sub-group lacks these pods."""
    GATED = "SchedulingGated"
    BIND_REFUSED = "BindRefused"


WAITS_FOR_CLAIMS = {
    ClaimKind.VOLUMES: ReasonCode.WAITS_FOR_VOLUMES,
    ClaimKind.DEVICES: ReasonCode.WAITS_FOR_DEVICES,
}
"""The reason of jobs that have nodes and wait for claims, by kind."""


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of which too little is left under a limit. Units as in resources.ResourceMap."""

    resource: str
    requested: float
    allocated: float
    limit: float
    minimum: float = 0.0
    """The job's minResources, of which it may have a part already; 0 if not asked for as such."""
    owner: str = ""
    """The queue with the limit. Empty when the limit is the deserved share of the job's queue, or
    when the reason names the owner."""
    kept: float = 0.0
    """What the limit leaves out because it is kept for other queues, by their guarantees."""
    keepers: tuple[str, ...] = ()
    """Those queues, by name."""
    elastic: float = 0.0
    """What jobs hold beyond their minResources, which `allocated` leaves out at admission."""
    whole: bool = False
    """Whether the limit is all that there is to share, so that the cluster is full."""


class QueueLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit for the sum of what a queue's pods ask for."""

    resource: str
    room: float
    """How much more pods may ask for in all."""
    allocated: float
    """What the queue has, and below, what it may have: the figures shown to users."""
    limit: float
    owner: str = ""
    """The queue with the limit. Empty when it is the queue's deserved share."""
    kept: float = 0.0  # this and what follows as for a Shortage
    keepers: tuple[str, ...] = ()
    whole: bool = False
    nodes: Mask | None = None
    """The nodes (N,) whose pods count; None means wherever the pods are."""


class LimitExcess(msgspec.Struct, frozen=True, kw_only=True):
    """By how much a group would exceed a limit of admission."""

    queue: str
    """The queue whose pods, and those of all queues below, count; empty: all pods."""
    resource: str
    amount: float
    """How much must be given up. What jobs have above their minimum counts as theirs."""
    promised: float
    """How much of what counts was promised to admitted groups that don't have it yet."""
    nodes: int | None = None
    """Only promises to groups that can use no other nodes count (a set as of `nodes.row_set`); None
    means all promises.
    """


class AdmissionFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a PodGroup is not admitted: a plugin's vote against admission, with numbers."""

    code: ReasonCode
    """QUEUE_CLOSED, NOT_LEAF, SET_ASIDE, BAD_SETTING, QUEUE_FULL, QUOTA_FULL, CLUSTER_FULL or
    PLUGIN_REFUSED."""
    plugin: str = ""  # as for a Reason
    shortages: tuple[Shortage, ...] = ()
    subject: str = ""
    """The ResourceQuota or ancestor queue with the limit, the error in a setting, or the plugin's
    sentence."""
    problem: QueueProblem | None = None
    """Why the queue is excluded from scheduling."""
    some_nodes: bool = False
    """Whether the shortages are of the nodes that the group's pods may use, not of all nodes."""
    exceeded: tuple[LimitExcess, ...] = ()
    """All limits that evictions could relieve the group of; empty: no eviction would help."""


class RefusedBind(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that the API server refused to bind to a node, with the API server's message."""

    task: Task
    node: str
    message: str


class MissingResource(msgspec.Struct, frozen=True, kw_only=True):
    """The largest free amount of a resource on any node usable by the pod."""

    resource: str
    free: float
    node: str


RefusalCounts: TypeAlias = tuple[tuple[Refusal, int], ...]
"""Refusals, each with the number of nodes, most frequent first."""


class ReservedFor(msgspec.Struct, frozen=True, kw_only=True):
    """For whom nodes keep room that a pod would find there otherwise: for pods that wait until
    others are evicted, or until claims are bound.
    """

    job: JobId
    """The one with most of these pods."""
    others: int
    """How many more jobs there are."""
    nodes: int


class DomainRoom(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods of a job a domain of the network has room for."""

    name: str
    """Of the HyperNode, or values of labels; empty: all nodes."""
    tier: int
    tier_name: str
    pods: int
    exact: bool = True
    """Whether so many fit; otherwise, that no more do."""
    nodes: int
    """How many nodes it has."""
    refusals: RefusalCounts = ()
    """Why nodes of it refuse a pod of the job."""


LEAVES_MAX = 5
"""How many leaf queues are named when a job was submitted to an inner queue."""


class NoPromise(StrEnum):
    """What isn't known of the future, so that a job is promised no start."""

    RUN_TIMES = "run times"
    """How long pods run that have what it needs."""
    RUN_TIME_AHEAD = "run time ahead"
    """How long the pods of a job run that starts first."""
    CLAIMS = "claims"
    """Which volumes, devices and host ports will be left."""
    OTHER_PODS = "other pods"
    """Where other pods will be, on which depends where its own may be."""
    PLUGINS = "plugins"
    """What plugins will say, whose filters change with time or with what pods use."""


class ReservedAhead(msgspec.Struct, frozen=True, kw_only=True):
    """The job for which nodes are reserved that another job would need, or might."""

    job: JobId
    at: float
    """When it starts at the latest, in seconds since the epoch, if running pods keep their
    limits."""
    limit: float
    """How many seconds the other job runs at most; infinite if that isn't known."""


class PromisedStart(msgspec.Struct, frozen=True, kw_only=True):
    """A start that is promised to a waiting job, or why none is."""

    at: float = inf
    """At the latest, in seconds since the epoch, if running pods keep their limits; infinite
    without a promise."""
    ahead: ReservedAhead | None = None
    """None for a job with a promise of its own."""
    unknown: NoPromise | None = None
    """Why no start is promised."""
    unlimited: JobId | None = None
    """The job that starts first and has no run time, if that is why."""

    @property
    def reserves(self) -> bool:
        """Whether what is reserved counts as used in the figures of the reason."""
        return self.at < inf or self.ahead is not None


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """The dominant reason why a job, or the rest of a job, is not placed, with numbers."""

    code: ReasonCode
    queue: str
    native: bool = False
    """Whether the PodGroup is Kubernetes' own, whose fields have other names."""
    minimum_field: str = "minMember"
    """As in jobs."""
    plugin: str = ""
    """The plugin that gives the reason; empty for vscheduler's own."""
    tasks: int = 0
    """Number of existing pods."""
    minimum: int = 0
    """The job's minMember, or the minimum of a role."""
    placed: int = 0
    """Number of pods that have a place, or found a place in this cycle."""
    role: str = ""
    owner: str = ""
    """What creates the pods that are missing, if known."""
    unclaimed: bool = False
    """Whether no scheduler takes the job, since it has no pods and names no scheduler."""
    request: ResourceMap = msgspec.field(default_factory=dict)
    """Request of the pod that found no node."""
    capacity: int = 0
    """How many of the required pods would fit if all nodes were empty."""
    nodes: int = 0
    """Number of nodes examined."""
    refusals: RefusalCounts = ()
    """Why nodes refused the pod."""
    subject: str = ""
    """Another object involved: a ResourceQuota, an ancestor of the queue, or a DeviceClass. Or the
    error in a setting, or the sentence of a plugin that refuses the job."""
    sub_group: Mapping[str, str] | None = None
    """Labels of a sub-group that `tasks` and `minimum` belong to then; `subject` is its policy."""
    unassigned: UnassignedPods | None = None
    """Pods that count for no role or sub-group, where one lacks pods."""
    on: str = "the PodGroup"
    """The object with the setting that can't be read: `the Queue`, `pod default/train-0`."""
    problem: QueueProblem | None = None
    """Why the queue is excluded from scheduling."""
    leaves: tuple[str, ...] = ()
    """Leaf queues below an inner queue; more than LEAVES_MAX entries are too many to name."""
    rejected: int = 0  # number of invalid pods, or of pods whose binds were refused
    rejection: InvalidPod | None = None
    """The error of an invalid pod, as an example."""
    refused_bind: RefusedBind | None = None
    """A refused bind, as an example; with other codes, of a pod that has no node again."""
    promised: PromisedStart | None = None
    """The job's own start, and the job for which nodes are reserved that it would need."""
    shortages: tuple[Shortage, ...] = ()
    lacking: int = 0
    """If not 0, the shortages are of so many pods together, which the gang lacks."""
    some_nodes: bool = False  # as for an AdmissionFailure
    never: bool = False
    """Whether these pods can't start even in an empty cluster, since a capability forbids it."""
    never_preempts: bool = False
    """Whether pods could be evicted for others, but not for these (preemptionPolicy: Never)."""
    unmatched: tuple[tuple[str, str], ...] = ()
    """Labels in the pod's nodeSelector that no node has."""
    holes: tuple[MissingResource, ...] = ()
    reserved: ReservedFor | None = None
    """Other jobs that keep the pod out which found no node."""
    domains: tuple[DomainRoom, ...] = ()
    """Of the widest domains that the pods may use, those with room for most of them, the best
    first; with NEVER_FITS, if they were empty."""
    elsewhere: DomainRoom | None = None
    """A domain with room for all pods of a job that lacks it in the domain where some run."""
    wider_at: float | None = None
    """When the pods may use wider domains, as their patience ends, in Unix seconds."""
    claims: ClaimWait | None = None
    """How far the claims are that the job waits for."""
    proof: GangProof | None = None
    """What the search for the whole gang has shown, where pods of different kinds are needed."""


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The intended status of a PodGroup after this cycle."""

    job: JobId
    uid: str
    queue: str
    phase: Phase
    running: int
    succeeded: int
    failed: int
    ready: bool
    """Whether the gang has its minimum: condition Scheduled, otherwise Unschedulable."""
    unplaced: tuple[Task, ...] = ()
    """Pending tasks without a node after an attempt in this cycle."""
    withheld: tuple[Task, ...] = ()
    """Pending tasks of a group that isn't admitted, for a reason that isn't reported to pods unless
    their conditions give another reason."""
    rejections: tuple[InvalidPod, ...] = ()
    """Invalid pods, each with an error."""
    refused_binds: tuple[RefusedBind, ...] = ()
    """Pods whose last bind was refused. They have no node, although their places are kept, but for
    those that are held back."""
    without_claims: tuple[Task, ...] = ()
    """Pods that wait on their nodes for volumes, or for devices that the API server refuses, or
    with others that do."""
    claims: ClaimWait | None = None
    """How far the claims of these pods are."""
    reason: Reason | None = None


class LimitedBy(StrEnum):
    """The limit that keeps a queue from deserving more of a resource."""

    REQUEST = "Request"
    """The queue requests no more."""
    CAPABILITY = "Capability"
    """The queue's spec.capability, minus the amounts held by its pods under other schedulers."""
    QUOTA = "Quota"
    """The amount owned by the queue: spec.deserved or the guarantee. Anything beyond is
    borrowed."""
    ROOT = "RootCapability"
    """The capability of queue root, shared by all queues."""
    WEIGHT = "Weight"
    """The remaining resources are divided among competing queues by weight."""


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """How the deserved amount of one resource was computed for a queue.

    Amounts may be fractions.
    """

    deserved: float
    usable: float
    """Total on nodes usable by the queue's pods, including the part held by other queues' pods."""
    bound: LimitedBy
    weight: int
    weights: int
    """Sum of the weights of all queues that share the same resources, this queue included. Equals
    the queue's own weight without competitors."""
    guaranteed: bool = False
    """Whether the guarantee gives the queue more than its weight would."""
    pinned: float = 0.0
    """The part held on nodes closed to further pods of the queue: cordoned, not ready, or gone."""
    guarantee: float = 0.0
    """The queue's guarantee if it exceeds the possible amount, else 0."""
    kept: float = 0.0
    """The part of the guarantee in effect."""


class Entitlement(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a fairness plugin for a queue. Amounts may be fractions."""

    deserved: Mapping[str, float]
    real_capability: Mapping[str, float] | None = None
    share: float = 0.0
    problem: QueueProblem | None = None
    """Why the queue is excluded from scheduling, and where to fix the cause."""
    bases: Mapping[str, Basis] = msgspec.field(default_factory=dict)
    """By resource, for resources requested by the queue or guaranteed to the queue. Empty when the
    plugin gives no details."""


class Exclusion(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes unusable for the pods of every queue, whose resources are not shared out."""

    refusal: Refusal
    nodes: tuple[str, ...]
    """Sorted."""


class QueueFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's figures after this cycle, not counting jobs of other schedulers."""

    name: str
    state: QueueState
    weight: int
    allocated: Mapping[str, float]
    request: Mapping[str, float]
    used_by_other_schedulers: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Amounts held by the queue's pods under other schedulers; in neither `allocated` nor
    `request`."""
    capability: ResourceMap = msgspec.field(default_factory=dict)
    """The queue's spec.capability. A missing resource is unlimited."""
    entitlement: Entitlement | None = None
    usage: Usage | None = None  # over time, if a plugin records usage
    reclaim: ReclaimOutlook | None = None  # below its share, but without room

    @property
    def problem(self) -> QueueProblem | None:
        """Why the queue is excluded from scheduling, or None."""
        return self.entitlement.problem if self.entitlement is not None else None

    @property
    def deserved(self) -> Mapping[str, float]:
        """What the queue deserves; empty if no plugin says."""
        return {} if self.entitlement is None else self.entitlement.deserved


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin failure. The plugin is skipped for the rest of the cycle."""

    plugin: str
    hook: str
    error: str
    place: str = ""
    """The line of the plugin's own file, as `spot.py:31`; empty for an answer of the wrong kind."""

    def __str__(self) -> str:
        place = f" ({self.place})" if self.place else ""
        return f"plugin {self.plugin} failed in {self.hook}{place}: {self.error}"


class FreeByTier(msgspec.Struct, frozen=True, kw_only=True):
    """The most that nodes of one domain of the network have free together, of all in a tier."""

    topology: str
    """Empty for that of the HyperNodes."""
    tier: int
    free: Mapping[str, float]
    """By resource, each the most of any domain."""


class CycleResult(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions of a cycle, in canonical order."""

    binds: tuple[Bind, ...]
    pipelined: tuple[Pipeline, ...]
    evicts: tuple[Evict, ...]
    changeable: tuple[GroupStatus, ...]
    """The statuses of jobs that wait for something, or may have another status than after the last
    cycle. Most jobs of a large cluster just run. Without memos of earlier cycles, those of all
    jobs."""
    queues: tuple[QueueFigures, ...]
    total: Mapping[str, float]
    """The amounts from which shares are computed."""
    carried: Carried
    claims: tuple[PrepareClaims, ...] = ()
    """What to ask for so that pods can start later: first volumes, then devices, by job."""
    releases: tuple[Release, ...] = ()
    """What was asked for and no pod needs any more: first claims, then volumes, then resource
    claims, by name."""
    ends_soon: tuple[EndsSoon, ...] = ()
    """Pods that may run for a short time only, by name."""
    excluded: tuple[Exclusion, ...] = ()
    free_by_tier: tuple[FreeByTier, ...] = ()
    """Only with a plugin that keeps pods near each other."""
    """Nodes left out of the total, the largest group first."""
    finished: bool = True
    """False when the cycle's budget ran out before every job had its turn."""
    cut_lending: bool = False
    """Whether lending ended at its part of the budget: the next cycle may lend more."""
    wake_at: float | None = None
    """The earliest time at which a decision could change without an event."""
    costs: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Cost by namespace, in units of work of core.cycle; namespaces with binds are left out."""
    spent: int = 0
    """The cost of all operations, in the same units, without opening the session."""
    work: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Number of operations by kind: placements, plans, refreshed rows."""
    faults: tuple[Fault, ...] = ()
    others: JobsById = jobs_by_id.NO_JOBS
    """The jobs that just run. Each keeps its status (`Job.memo`)."""

    @property
    def groups(self) -> tuple[GroupStatus, ...]:
        """The statuses of all jobs, by job. It takes a while to gather those that just run."""
        others: Iterable[GroupStatus] = (job.recall("status") for job in self.others)
        return tuple(sorted((*self.changeable, *others), key=operator.attrgetter("job")))

    def claim_changes(self) -> Iterator[Request | Release]:
        """Iterate over all that is to be written about claims: first what is given back."""
        yield from self.releases
        for prepared in self.claims:
            yield from prepared.requests
