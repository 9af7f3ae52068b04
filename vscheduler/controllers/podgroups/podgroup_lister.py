"""PodGroups as the Mirror shows them: who needs an automatic one, which differ, which are unused.

Whether pods bear out the status of their PodGroup is asked here, too. All of this may be late: it
says what to look at, not what to do.
"""

from collections.abc import Iterable, Iterator, Sequence

from vscheduler.controllers.podgroups import auto_groups, deletion, owners, podgroup_creation
from vscheduler.controllers.queues import queue_objects
from vscheduler.core.model import jobs
from vscheduler.mirror import state
from vscheduler.mirror.decode import events, wire
from vscheduler.mirror.translate import owner_references, pods, translation

STARTED = frozenset({queue_objects.PHASES["Running"], queue_objects.PHASES["Unknown"]})
RUNNING, PENDING = (queue_objects.PHASES[phase] for phase in ("Running", "Pending"))
COMPLETED = queue_objects.PHASES["Completed"]


class PodGroupLister:
    """Questions to the Mirror, and to what is known of owners."""

    def __init__(
        self, mirror: state.Mirror, known: owners.Owners, schedulers: Sequence[str]
    ) -> None:
        self._mirror = mirror
        self._owners = known
        self._schedulers = frozenset(schedulers)

    def ungrouped(self) -> Iterator[tuple[jobs.JobId, pods.Pod]]:
        """Live pods without a PodGroup, and the one that each should have.

        A pod that names a missing group is among them only where that is an automatic one.
        """
        for pod in self._mirror.ungrouped():
            if pod.lives and pod.origin is not None and _takes_part(pod):
                owner = pod.origin.owner
                name = auto_groups.automatic_name(pod.uid if owner is None else owner.uid)
                yield jobs.JobId(events.key_of(pod.namespace, name)), pod

    def crew(
        self, key: jobs.JobId, waiting: Iterable[pods.Pod] = ()
    ) -> podgroup_creation.OwnedPods | None:
        """The pods of a group, those that wait for it included; None where there are none."""
        newcomers = {pod.uid: pod for pod in waiting}
        inside = [
            pod
            for pod in self._mirror.members(key)
            if pod.uid not in newcomers
            and pod.lives
            and pod.origin is not None
            and _takes_part(pod)
        ]
        every = (*newcomers.values(), *inside)
        if not every:
            return None
        namespace, _, name = key.partition("/")
        origin = every[0].origin
        assert origin is not None, "only pods with one were taken"
        return podgroup_creation.OwnedPods(
            namespace=namespace,
            name=name,
            scheduler=origin.scheduler,
            default_queue=self._mirror.queue_of_namespace(namespace),
            members=tuple(map(_member, every)),
            joining=tuple(_member(pod) for pod in newcomers.values() if pod.group != key),
            named=tuple(pod.uid for pod in newcomers.values() if pod.group == key),
            seen=key in self._mirror.groups,
        )

    def has(self, key: jobs.JobId) -> bool:
        """Whether there is such a group, made by us."""
        group = self._mirror.groups.get(key)
        return group is not None and self._is_ours(group)

    def differs(self, key: jobs.JobId, wanted: auto_groups.Body) -> bool:
        """Whether a group's numbers seem to be others than those that are wanted."""
        event = events.convert(events.Kind.POD_GROUP, wanted)
        assert isinstance(event, events.Upsert), "what we write can be read"
        assert isinstance(event.object, wire.PodGroup)
        ours = translation.pod_group(event.object, "").job
        theirs = self._mirror.groups[key].job
        return (ours.min_member, ours.min_resources) != (theirs.min_member, theirs.min_resources)

    def owners(self) -> tuple[owners.Seen, ...]:
        """All owners that are known."""
        return self._owners.all()

    def owner(self, uid: str) -> auto_groups.Owner | None:
        """The owner as it was last seen."""
        return self._owners.get(uid)

    def unused(self) -> Iterator[tuple[jobs.JobId, str, bool]]:
        """Key and UID of groups of ours that seem to be unused, or used and marked; and whether
        they have the mark, and so are to be looked at without waiting for the grace.
        """
        for key, group in self._mirror.groups.items():
            if not self._is_ours(group):
                continue
            marked = deletion.LEAVING in group.job.annotations
            owner = self._owner_state(group)
            used = owner is deletion.OwnerState.ALIVE or any(
                pod.lives for pod in self._mirror.members(key)
            )
            if not used and owner is deletion.OwnerState.UNKNOWN:
                continue
            if marked or not used:
                yield key, group.job.uid, marked

    def _is_ours(self, group: translation.Group) -> bool:
        named = group.job.name.startswith(auto_groups.PREFIX)
        label = group.job.labels.get(auto_groups.MANAGED_BY)
        return named and label == auto_groups.MANAGER and group.scheduler in self._schedulers

    def _owner_state(self, group: translation.Group) -> deletion.OwnerState:
        owner = group.owner
        if owner is None:
            return deletion.OwnerState.GONE
        if (owner.api_version, owner.kind) == ("v1", "Pod"):
            there = self._mirror.reference(events.Kind.POD, owner.uid) is not None
            return deletion.OwnerState.ALIVE if there else deletion.OwnerState.GONE
        return self._owners.state(owner)


class StatusEvidence:
    """What pods bear out of a PodGroup's status: whoever may write one could say anything there.

    Volcano counts PodGroups by what their status says. Here a group counts as running only where
    one of its pods has a node, so that what somebody wrote into a status is no more than a wish.
    The Mirror is asked, which knows the pods of all schedulers.
    """

    def __init__(self, mirror: state.Mirror) -> None:
        self._mirror = mirror

    def counter(self, group: queue_objects.Group) -> str:
        """The field of its Queue's status in which a group counts.

        One that has no pod on any node hasn't started, one that has is not over. Being admitted is
        nothing that pods could show: there the status is believed, and one group counts once.
        """
        if group.counter in STARTED and not self._placed(group):
            return PENDING
        if group.counter == COMPLETED and self._holds_room(group):
            return RUNNING
        return group.counter

    def _placed(self, group: queue_objects.Group) -> bool:
        members = self._mirror.members(jobs.JobId(group.key))
        return any(pod.node is not None for pod in members)

    def _holds_room(self, group: queue_objects.Group) -> bool:
        return any(pod.holds_room for pod in self._mirror.members(jobs.JobId(group.key)))


def _takes_part(pod: pods.Pod) -> bool:
    """Whether it is of any group: one that waits and can't be used is told so by its group."""
    return pod.task is not None or pod.status in jobs.WAITING


def _member(pod: pods.Pod) -> auto_groups.Member:
    """A pod as auto_groups knows it. One that can't be used is the oldest: others speak first."""
    origin, task = pod.origin, pod.task
    assert origin is not None
    return auto_groups.Member(
        namespace=pod.namespace,
        name=pod.key.partition("/")[2],
        uid=pod.uid,
        labels=pod.labels,
        annotations=origin.annotations,
        priority_class=origin.priority_class,
        request=pod.kind.request,
        owner=None if origin.owner is None else _reference(origin.owner),
        created=0.0 if task is None else task.created,
    )


def _reference(owner: owner_references.Owner) -> auto_groups.OwnerRef:
    return auto_groups.OwnerRef(
        api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid
    )
