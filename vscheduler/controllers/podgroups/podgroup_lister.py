"""PodGroups as the Mirror shows them: missing, outdated and unused automatic groups.

The module also checks PodGroup statuses against pods. The Mirror may lag behind: its answers tell
where to look, not which step to take.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vscheduler.controllers.podgroups import auto_groups, deletion
from vscheduler.controllers.podgroups.adoption import UnqueuedGroup
from vscheduler.controllers.podgroups.auto_groups import Body, Member, OwnerRef
from vscheduler.controllers.podgroups.deletion import OwnerState
from vscheduler.controllers.podgroups.owners import Owners, Seen
from vscheduler.controllers.podgroups.podgroup_creation import OwnedPods
from vscheduler.controllers.ports import Object
from vscheduler.controllers.queues import queue_objects
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Upsert
from vscheduler.mirror.decode.wire import PodGroup
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate import group_terms, lone_pods, pod_owners, translation
from vscheduler.mirror.translate.lone_pods import Need
from vscheduler.mirror.translate.pod_owners import OwnerTemplate
from vscheduler.mirror.translate.pods import Pod
from vscheduler.model import jobs
from vscheduler.model.jobs import WAITING, JobId

STARTED = frozenset({queue_objects.PHASES["Running"], queue_objects.PHASES["Unknown"]})
RUNNING, PENDING = (queue_objects.PHASES[phase] for phase in ("Running", "Pending"))
COMPLETED = queue_objects.PHASES["Completed"]


class PodGroupLister:
    """Answers questions about groups from the Mirror and from known owners."""

    def __init__(self, mirror: Mirror, known_owners: Owners, schedulers: Sequence[str]) -> None:
        self._mirror = mirror
        self._owners = known_owners
        self._schedulers = frozenset(schedulers)

    def ungrouped(self) -> Iterator[tuple[JobId, Pod]]:
        """Iterate over live pods without a PodGroup, with the key of the group that each pod should
        have.

        A pod that names a missing group is included only if the group is an automatic one.
        """
        for pod in self._mirror.ungrouped():
            native = pod.group is not None and jobs.is_native(pod.group)
            if not self._is_live(pod) or native or not _belongs_to_group(pod):
                continue
            if pod.origin is not None and self._mirror.need(pod) is Need.POD_GROUP:
                yield self._automatic_group(pod, pod.origin), pod

    def owned_pods(self, key: JobId, waiting: Iterable[Pod] = ()) -> OwnedPods | None:
        """Return the pods of a group, including pods that wait for the group; None without any
        pods.

        Other pods that merely name the group are left out: they don't say what its owner wants.
        """
        newcomers = {pod.uid: pod for pod in waiting}
        inside = [
            pod
            for pod in self._mirror.members(key)
            if pod.uid not in newcomers
            and self._is_live(pod)
            and pod.origin is not None
            and _belongs_to_group(pod)
            and self._automatic_group(pod, pod.origin) == key
        ]
        every = (*newcomers.values(), *inside)
        if not every:
            return None
        namespace, _, name = key.partition("/")
        origin = every[0].origin
        assert origin is not None, "pods without an origin are filtered out"
        there = self._mirror.groups.get(key)
        return OwnedPods(
            namespace=namespace,
            name=name,
            scheduler=origin.scheduler,
            default_queue=(
                self._mirror.queue_of_namespace(namespace) if there is None else there.job.queue
            ),
            members=tuple(map(_member, every)),
            joining=tuple(_member(pod) for pod in newcomers.values() if pod.group != key),
            named=tuple(pod.uid for pod in newcomers.values() if pod.group == key),
            seen=there is not None,
        )

    def unqueued(self) -> Iterator[tuple[JobId, str]]:
        """Iterate over PodGroups of Kubernetes' own API that lack a queue and have a live pod of
        ours: key, UID.
        """
        for key in self._mirror.unqueued:
            if self.is_ours(key):
                yield key, self._mirror.groups[key].job.uid

    def queued_below(self) -> Iterator[tuple[JobId, str]]:
        """Iterate over PodGroups of Kubernetes' own API that name a queue, below
        CompositePodGroups, which may lack one: key, UID.
        """
        for group in self._mirror.groups_of_trees():
            if group.job.queue:
                yield group.job.id, group.job.uid

    def is_ours(self, key: JobId) -> bool:
        """Whether a PodGroup of Kubernetes' own API has a live pod of ours."""
        return any(self._is_live(pod) for pod in self._mirror.members(key))

    def unqueued_group(self, key: JobId) -> UnqueuedGroup:
        """Return what the queue of such a PodGroup, or of its tree, depends on."""
        group, reference = self._mirror.groups[key], self._mirror.group_reference(key)
        assert reference is not None, "every PodGroup has a version"
        pods = filter(self._is_live, self._mirror.members(key))
        return UnqueuedGroup(
            namespace=group.job.namespace,
            name=group.job.name,
            uid=reference.uid,
            version=reference.resource_version,
            owner=None if group.owner is None else _reference(group.owner),
            parent="" if group.parent is None else jobs.names_of(group.parent)[1],
            queue=group.job.queue,
            queue_beside=self._mirror.queue_beside(key),
            default_queue=self._mirror.queue_of_namespace(group.job.namespace),
            members=tuple(map(_member, pods)),
        )

    def _is_live(self, pod: Pod) -> bool:
        """Whether it is a live pod of a scheduler that PodGroups are made for: the Mirror may know
        others, which count in Queues.
        """
        return pod.scheduler in self._schedulers and pod.lives

    def has(self, key: JobId) -> bool:
        """Whether the group exists and was created by us."""
        group = self._mirror.groups.get(key)
        return group is not None and self._is_ours(group)

    def differs(self, key: JobId, wanted: Body) -> bool:
        """Whether the group differs from the wanted manifest in what follows its owner."""
        event = events.convert(Kind.POD_GROUP, wanted)
        assert isinstance(event, Upsert), "what we write can be read"
        assert isinstance(event.object, PodGroup)
        ours = translation.pod_group(event.object, "")
        theirs = self._mirror.groups[key]
        return _followed(ours) != _followed(theirs)

    def owners(self) -> tuple[Seen, ...]:
        """Return all known owners."""
        return self._owners.all()

    def owner(self, uid: str) -> auto_groups.Owner | None:
        """Return the owner as last seen."""
        return self._owners.get(uid)

    def unused(self) -> Iterator[tuple[JobId, str, bool]]:
        """Iterate over groups of ours that seem unused, or that are used but marked: key, UID,
        marked.

        Marked groups need no further grace period.
        """
        for key, group in self._mirror.groups.items():
            if not self._is_ours(group):
                continue
            marked = deletion.LEAVING in group.job.annotations
            owner = self._owner_state(group)
            if owner is OwnerState.ALIVE and self._is_spared(group):
                owner = OwnerState.SPARED
            used = owner is OwnerState.ALIVE or any(pod.lives for pod in self._mirror.members(key))
            if not used and owner is OwnerState.UNKNOWN:
                continue
            if marked or not used:
                yield key, group.job.uid, marked

    def spares(self, group: Object, owner: auto_groups.Owner) -> bool:
        """Whether new pods of an owner go without this group: neither says more than a pod can
        have.
        """
        event = events.convert(Kind.POD_GROUP, group)
        if not isinstance(event, Upsert) or not isinstance(event.object, PodGroup):
            return False
        found = translation.pod_group(event.object, "")
        return self._needs_none(found) and not lone_pods.says_more(owner.annotations)

    def _is_spared(self, group: translation.Group) -> bool:
        owner = group.owner
        known = None if owner is None else self._mirror.owner_annotations(owner)
        return known is not None and self._needs_none(group) and not lone_pods.says_more(known)

    def _needs_none(self, group: translation.Group) -> bool:
        job, owner = group.job, group.owner
        return (
            self._mirror.spares_groups
            and owner is not None
            and lone_pods.kind_of(owner) is not None
            and group.scheduler != pod_owners.VOLCANO
            and job.min_member <= 1
            and job.topology is None
            and not lone_pods.says_more(job.annotations)
        )

    def _automatic_group(self, pod: Pod, origin: OwnerTemplate) -> JobId:
        """Return the key of the automatic group that a pod belongs to.

        The pods of an owner share one group. If an earlier release has named it, they keep it: a
        pod goes where it says, else into the group that exists, else where other pods say.
        """
        uid, name = (
            (pod.uid, pod.key.partition("/")[2])
            if origin.owner is None
            else (origin.owner.uid, origin.owner.name)
        )
        fresh = pod_owners.automatic_name(name, uid, origin.scheduler)
        keys = [
            JobId(events.key_of(pod.namespace, fromkey))
            for fromkey in dict.fromkeys((fresh, pod_owners.volcano_name(uid)))
        ]
        if pod.group is not None and pod.group in keys:
            return pod.group
        there = (key for key in keys if key in self._mirror.groups)
        named = (key for key in keys if self._mirror.members(key))
        return next(there, None) or next(named, None) or keys[0]

    def _is_ours(self, group: translation.Group) -> bool:
        named = pod_owners.is_automatic(group.job.name)
        label = group.job.labels.get(auto_groups.MANAGED_BY)
        return named and label == auto_groups.MANAGER and group.scheduler in self._schedulers

    def _owner_state(self, group: translation.Group) -> OwnerState:
        owner = group.owner
        if owner is None:
            return OwnerState.GONE
        if (owner.api_version, owner.kind) == ("v1", "Pod"):
            there = self._mirror.reference(Kind.POD, owner.uid) is not None
            return OwnerState.ALIVE if there else OwnerState.GONE
        return self._owners.state(owner)


class StatusEvidence:
    """Checks the statuses of PodGroups against pods, for the Queue controller: anybody with write
    access could claim anything in a status.

    Volcano counts PodGroups by their status. Here a group counts as running only with a pod on a
    node, so a forged status has no effect. The Mirror knows the pods of all schedulers.
    """

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def counter(self, group: queue_objects.Group) -> str:
        """Return the field of the Queue's status in which the group counts.

        A group without a pod on any node hasn't started, and a group with pods on nodes isn't
        completed. Admission isn't visible in pods: there the status is trusted, and the group
        counts exactly once.
        """
        if group.counter in STARTED and not self._placed(group):
            return PENDING
        if group.counter == COMPLETED and self._holds_resources(group):
            return RUNNING
        return group.counter

    def _placed(self, group: queue_objects.Group) -> bool:
        return any(pod.node is not None for pod in self._mirror.members(group.key))

    def _holds_resources(self, group: queue_objects.Group) -> bool:
        return any(pod.holds_resources for pod in self._mirror.members(group.key))


def lone_counts(mirror: Mirror) -> Mapping[str, Mapping[str, int]]:
    """Return how many pods without a PodGroup each queue has, by field of its status."""
    counts: dict[str, Counter[str]] = {}
    for (queue, phase), number in mirror.lone_pods.items():
        counts.setdefault(queue, Counter())[queue_objects.PHASES[phase]] += number
    return counts


def _followed(group: translation.Group) -> tuple[object, ...]:
    """Return what follows the owner."""
    job = group.job
    said = [
        condition.message
        for condition in job.state.conditions
        if condition.type == pod_owners.CONDITION
    ]
    texts = [group_terms.inherited(found) for found in (job.annotations, job.labels)]
    return job.min_member, job.min_resources, job.queue, group.priority_class, texts, said


def _belongs_to_group(pod: Pod) -> bool:
    """Whether the pod belongs to a group: usable, or unusable and waiting, to be told by its
    group.
    """
    return pod.task is not None or pod.status in WAITING


def _member(pod: Pod) -> Member:
    """Return a pod as auto_groups.Member. An unusable pod counts as the oldest, so usable ones
    represent the group.
    """
    origin, task = pod.origin, pod.task
    assert origin is not None
    return Member(
        namespace=pod.namespace,
        name=pod.key.partition("/")[2],
        uid=pod.uid,
        labels=pod.labels,
        annotations=origin.annotations,
        priority_class=origin.priority_class,
        request=pod.pod_class.request,
        owner=None if origin.owner is None else _reference(origin.owner),
        created=0.0 if task is None else task.created,
    )


def _reference(owner: pod_owners.Owner) -> OwnerRef:
    return OwnerRef(api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid)
