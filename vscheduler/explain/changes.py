"""Changes of a cluster that could start a waiting job, as data with numbers.

A change says what its user would edit. `edits` carries a change out, `wording` renders it in
English. Amounts are in the units of resources.ResourceMap, and sorted by resource.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from vscheduler.model.constraints import Taint

Amounts: TypeAlias = tuple[tuple[str, int], ...]
"""Amounts by resource, hashable."""


class QueueField(StrEnum):
    """A field of a Queue's spec that holds amounts."""

    DESERVED = "deserved"
    CAPABILITY = "capability"


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """No change: the job as it waits."""


class FewerPods(msgspec.Struct, frozen=True, kw_only=True):
    """A lower minMember of the PodGroup; minResources become less in proportion."""

    before: int
    after: int
    field: str = "minMember"
    """Of Kubernetes' own PodGroups, minCount or an annotation."""


class SmallerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """At most `after` of a resource for each waiting pod; minResources become less in
    proportion.
    """

    resource: str
    before: int
    """The largest request of any of the pods."""
    after: int
    step: int
    """The grid: `after` is a multiple of this amount."""


class MoreNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Further nodes with labels, taints and capacity of an existing node."""

    like: str
    count: int
    allocatable: Amounts


class QueueWeight(msgspec.Struct, frozen=True, kw_only=True):
    """A higher weight of a queue."""

    queue: str
    before: int
    after: int


class QueueAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """Larger amounts in a field of a queue; only resources that change are named."""

    queue: str
    field: QueueField
    before: Amounts
    after: Amounts
    steps: Amounts
    """The grid: each amount is its former value and a multiple of this."""


class EndOfJob(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a running job, whose pods don't come back."""

    job: str
    pods: int
    holds: Amounts


class Reclaimable(msgspec.Struct, frozen=True, kw_only=True):
    """`reclaimable: true` on a queue: other queues may get back what they lent to it."""

    queue: str


class WithoutQueueAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """A queue without an annotation that holds evictions back."""

    queue: str
    name: str
    """The annotation, such as vscheduler.io/min-run-time."""
    before: str


class Preemptable(msgspec.Struct, frozen=True, kw_only=True):
    """No `volcano.sh/preemptable: "false"` on a running job and its pods."""

    job: str
    pods: int


class ActionArgument(msgspec.Struct, frozen=True, kw_only=True):
    """Another value of an argument that limits evictions, in the scheduler's configuration."""

    action: str
    name: str
    before: str
    after: str


class MoreDisruptions(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget that allows more of the pods it covers to be evicted."""

    budget: str
    before: int
    after: int


class Tolerate(msgspec.Struct, frozen=True, kw_only=True):
    """A toleration for a taint, on each waiting pod."""

    taint: Taint
    nodes: int
    """How many nodes have the taint."""


class RemoveTaint(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes without a taint that they have."""

    taint: Taint
    nodes: tuple[str, ...]


class Uncordon(msgspec.Struct, frozen=True, kw_only=True):
    """Cordoned nodes that take pods again."""

    nodes: tuple[str, ...]


class WithoutSelector(msgspec.Struct, frozen=True, kw_only=True):
    """No entry for this label in the nodeSelector of each waiting pod."""

    key: str
    value: str


class WithoutNodeAffinity(msgspec.Struct, frozen=True, kw_only=True):
    """No required node affinity on each waiting pod."""


class PodPriorities(msgspec.Struct, frozen=True, kw_only=True):
    """The priority of Kubernetes' own PodGroup on its pods that have another one."""

    after: int
    pods: int
    """How many have another one."""


class OneScheduler(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler's name on the pods of Kubernetes' own PodGroup that name another one."""

    after: str
    pods: int
    """How many name another one."""


class SinglePods(msgspec.Struct, frozen=True, kw_only=True):
    """Kubernetes' own PodGroup of a running job, created again with `disruptionMode: single`."""

    job: str
    pods: int
    """How many pods it has, and"""
    minimum: int
    """how many it needs."""


class HonorTaints(msgspec.Struct, frozen=True, kw_only=True):
    """`nodeTaintsPolicy: Honor` in the required topology spread of each waiting pod, so that nodes
    whose taints the pods don't tolerate no longer count.
    """


class MayPreempt(msgspec.Struct, frozen=True, kw_only=True):
    """`preemptionPolicy: PreemptLowerPriority` on each waiting pod."""


class OpenQueues(msgspec.Struct, frozen=True, kw_only=True):
    """Closed queues that are opened: the job's queue, its ancestors, or both."""

    queues: tuple[str, ...]


class CreateQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that doesn't exist, created below root with the defaults of its spec."""

    queue: str


class OtherQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Another queue in spec.queue of the PodGroup."""

    before: str
    after: str
    field: str = "spec.queue"
    """Of Kubernetes' own PodGroups, an annotation."""


class OtherParent(msgspec.Struct, frozen=True, kw_only=True):
    """Another queue in spec.parent of a queue."""

    queue: str
    before: str
    after: str


class QueueNamespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace more in the annotation vscheduler.io/namespaces of a queue."""

    queue: str
    namespace: str


class NewPods(msgspec.Struct, frozen=True, kw_only=True):
    """Further pods of the waiting job, as copies of one of its pods."""

    like: str
    """UID of the copied pod."""
    count: int
    role: str = ""
    """The role of the copies; empty: as the copied pod."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels that the copies have instead of those of the copied pod."""


class CreatePods(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that the job lacks, created."""

    pods: tuple[NewPods, ...]
    owner: str = ""
    """What creates the job's pods, if known."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A label on a pod of the waiting job; volcano.sh/task-spec as an annotation, too."""

    pod: str
    """UID of the pod."""
    key: str
    value: str


class MarkPods(msgspec.Struct, frozen=True, kw_only=True):
    """The role, or the labels of a sub-group, on pods that lack them."""

    marks: tuple[Mark, ...]


class RemoveGates(msgspec.Struct, frozen=True, kw_only=True):
    """No scheduling gates on the waiting pods."""

    pods: int
    """How many pods have gates."""


class CreateClaims(msgspec.Struct, frozen=True, kw_only=True):
    """Missing PersistentVolumeClaims, created and bound to volumes that every node can use."""

    claims: tuple[str, ...]
    """`namespace/name`, sorted."""


class QuotaAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """Larger amounts in spec.hard of a ResourceQuota; only resources that change are named."""

    quota: str
    before: Amounts
    after: Amounts
    steps: Amounts


class DropAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """No annotation with this key on the PodGroup."""

    key: str


class RunTime(msgspec.Struct, frozen=True, kw_only=True):
    """A shorter vscheduler.io/max-run-time, or one at all, on the PodGroup."""

    seconds: int
    alone: bool
    """Whether the job is a pod by itself, which has the annotation."""


class HigherPriority(msgspec.Struct, frozen=True, kw_only=True):
    """A PriorityClass of a higher value on the PodGroup."""

    before: int
    after: int
    alone: bool
    """Whether the job is a pod by itself, which must be created again."""


class SoftTopology(msgspec.Struct, frozen=True, kw_only=True):
    """`mode: soft` wherever the PodGroup has a network topology."""


class WithoutConstraints(msgspec.Struct, frozen=True, kw_only=True):
    """Kubernetes' own PodGroup, created again without its schedulingConstraints."""

    key: str
    """The label of nodes of which all pods need one value."""


class HigherTier(msgspec.Struct, frozen=True, kw_only=True):
    """A higher tier in highestTierAllowed or highestTierName, wherever the PodGroup has a lower
    one.
    """

    tier: int
    name: str
    """Empty if the tier has no name."""
    before: str
    """The lowest tier that the PodGroup has, as it names it."""
    below: tuple[str, ...]
    """The names that the PodGroup has for lower tiers."""


class EndOfPatience(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the time in which a job waits for the tier that it prefers."""

    until: int
    """When it ends by itself, in Unix seconds."""


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """The job's running pods deleted, and created again by their owner."""

    pods: int
    """How many run."""


class LargerNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Further nodes with labels and taints of an existing node, and more of some resources."""

    like: str
    count: int
    allocatable: Amounts


class LabelNodes(msgspec.Struct, frozen=True, kw_only=True):
    """A label on further nodes, for the nodeSelector of the waiting pods."""

    key: str
    value: str
    nodes: tuple[str, ...]


Change: TypeAlias = (
    Nothing
    | FewerPods
    | SmallerRequest
    | MoreNodes
    | QueueWeight
    | QueueAmounts
    | EndOfJob
    | Reclaimable
    | WithoutQueueAnnotation
    | Preemptable
    | ActionArgument
    | MoreDisruptions
    | Tolerate
    | RemoveTaint
    | Uncordon
    | WithoutSelector
    | WithoutNodeAffinity
    | PodPriorities
    | OneScheduler
    | SinglePods
    | HonorTaints
    | MayPreempt
    | LabelNodes
    | OpenQueues
    | CreateQueue
    | OtherQueue
    | OtherParent
    | QueueNamespace
    | CreatePods
    | MarkPods
    | RemoveGates
    | CreateClaims
    | QuotaAmounts
    | DropAnnotation
    | RunTime
    | HigherPriority
    | SoftTopology
    | HigherTier
    | WithoutConstraints
    | EndOfPatience
    | Restart
    | LargerNodes
)


class Victims(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one job that are evicted."""

    job: str
    queue: str
    pods: int


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A change after which the job starts, as the simulator has verified."""

    change: Change
    cycle: int
    """In which cycle the whole minimum of the job is bound, counted from 1."""
    victims: tuple[Victims, ...]
    """Whose pods are evicted before that cycle, apart from pods that are evicted without the
    change, too. The jobs that lose the most pods come first."""
    minimal: bool | None
    """Whether the next smaller change of this kind was verified not to suffice; None for a change
    that has no size."""

    @property
    def evicts(self) -> int:
        """Return how many pods are evicted for it."""
        return sum(victim.pods for victim in self.victims)
