"""Creation of automatic PodGroups: create or unmark the group, then patch its pods.

The order is explained in deletion.py.
"""

import time
from collections.abc import Callable, Iterable

import msgspec
import structlog

from vscheduler.controllers import ports
from vscheduler.controllers.podgroups import (
    auto_groups,
    deletion,
    group_reading,
    owners,
)
from vscheduler.controllers.podgroups.auto_groups import Body, Member, Owner, OwnerRef
from vscheduler.controllers.podgroups.deletion import Create, Join, OwnerState, Unmark, Wait
from vscheduler.controllers.podgroups.group_reading import Notes, Reader
from vscheduler.controllers.ports import Api, Object, RefusedError, Trouble
from vscheduler.mirror import paths, statuses
from vscheduler.mirror.statuses import EventNotice, ObjectReference
from vscheduler.mirror.translate import group_terms

log = structlog.get_logger(__name__)

ATTEMPTS = 5
"""How often a concurrently changed group is read again before a pause."""

GONE = (Trouble.MISSING, Trouble.CONFLICT)
"""Errors of a patch when the pod is gone, or replaced by a pod of equal name."""

ENDING = "is being terminated"
"""Part of the API server's message for a terminating namespace, where nothing can be created."""

UNREADABLE = "AnnotationUnreadable"
"""The reason of events about workloads with annotations that can't be read."""

REPORTED_MAX = 10_000
"""Pods whose refusals are remembered. When the memory is full it is cleared, and pods get an event
once more.
"""


class OwnedPods(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that share an automatic PodGroup; at least one pod."""

    namespace: str
    name: str
    """Name of the group."""
    scheduler: str
    default_queue: str
    """Empty if its pods or their owner must name one."""
    members: tuple[Member, ...]
    joining: tuple[Member, ...] = ()
    """Pods that don't name the group yet."""
    named: tuple[str, ...] = ()
    """UIDs of pods that name the group while the group is missing."""
    seen: bool
    """Whether a watch has shown the group."""

    @property
    def key(self) -> str:
        """`namespace/name` of the group."""
        return f"{self.namespace}/{self.name}"

    @property
    def without(self) -> list[Member]:
        """Pods whose group doesn't exist."""
        named = set(self.named)
        return [*self.joining, *(member for member in self.members if member.uid in named)]

    @property
    def representative(self) -> Member:
        """The pod that the group is built from."""
        return auto_groups.representative(self.members)


class RefusalEvents:
    """Events for pods that can't have their PodGroup, for pod owners don't see the scheduler's log.

    An object gets an event once per distinct refusal.
    """

    def __init__(self, notify: Callable[[EventNotice], None]) -> None:
        self._notify = notify
        self._reported: dict[str, str] = {}

    def refused(self, members: Iterable[Member], error: RefusedError) -> None:
        """Record a refusal of the pods' PodGroup, or of the patch that puts the pods into the
        group.
        """
        if is_lasting(error):
            why = str(error)
            self.tell(statuses.refused_notice(subject_of(member), why) for member in members)

    def tell(self, notices: Iterable[EventNotice]) -> None:
        """Record those of these events that aren't the last ones of their objects."""
        if len(self._reported) > REPORTED_MAX:
            self._reported.clear()
        for notice in notices:
            if self._reported.get(notice.uid) != notice.message:
                self._reported[notice.uid] = notice.message
                self._notify(notice)

    def unreadable(self, member: Member, message: str) -> None:
        """Record that annotations of the pod or its controller can't be read; an empty message
        means that all can.
        """
        if message:
            self._notify(unreadable_notice(member, message))

    def forget(self, uid: str) -> None:
        """Record that the pod is in its PodGroup, or gone."""
        self._reported.pop(uid, None)


class PodGroupCreator:
    """Creates and updates PodGroups, and puts pods into them."""

    def __init__(
        self,
        api: Api,
        notes: Notes,
        notices: RefusalEvents,
        *,
        inherit_owner_annotations: bool,
    ) -> None:
        self._api = api
        self._notes = notes
        self._notices = notices
        self._reader = Reader(api, notes)
        self._inherit = inherit_owner_annotations

    async def attach(self, owned: OwnedPods) -> list[str]:
        """Put pods into their group; return the UIDs of resolved pods: in the group, or gone.

        If all went well, the result has all pods without a group. Raises RefusedError if the group
        can't be created.
        """
        state, owner = await self._owner(owned)
        if state is OwnerState.GONE:
            return []  # pods are deleted with their owner; orphaned pods are handled again later
        group = await self._reader.group(owned.namespace, owned.name) if owned.seen else None
        try:
            group, is_new = await self._prepare(owned, owner, group)
        except RefusedError as error:
            self._notices.refused(owned.without, error)
            raise
        if group is None:
            return []
        if not is_new:
            await self._amend(owned, owner, group)
        resolved = list(owned.named)

        async def join(member: Member) -> None:
            key = f"{member.namespace}/{member.name}"
            with self._notes.failures.contained("join", key, subject_of(member)):
                if await self._join(member, owned.name):
                    resolved.append(member.uid)

        await group_reading.each(join, owned.joining)
        return resolved

    async def amend(self, owned: OwnedPods) -> None:
        """Update a group to the numbers that its owner wants at present. Raises RefusedError."""
        _, owner = await self._owner(owned)
        await self._amend(owned, owner, await self._reader.group(owned.namespace, owned.name))

    def wanted(self, owned: OwnedPods, owner: Owner | None) -> Body:
        """Return the manifest of the group."""
        return auto_groups.wanted(
            owned.representative,
            owner,
            name=owned.name,
            scheduler=owned.scheduler,
            default_queue=owned.default_queue,
            inherit_owner_annotations=self._inherit,
        )

    async def _owner(self, owned: OwnedPods) -> tuple[OwnerState, Owner | None]:
        ref = owned.representative.owner
        if ref is None:
            return OwnerState.ALIVE, None
        return await self._reader.owner(ref, owned.namespace)

    async def _prepare(
        self, owned: OwnedPods, owner: Owner | None, group: Object | None
    ) -> tuple[Object | None, bool]:
        """Return the group once pods may join, and whether the group is new; None: not yet."""
        for _ in range(ATTEMPTS):
            match deletion.join(group, time.monotonic()):
                case Join():
                    return group, False
                case Wait():
                    return None, False
                case Unmark() as step:
                    group = await self._unmark(owned, step)
                case Create():
                    made = await self._create(owned, owner)
                    if made is not None:
                        return made, True
                    group = await self._reader.group(owned.namespace, owned.name)
        return None, False

    async def _create(self, owned: OwnedPods, owner: Owner | None) -> Object | None:
        """Create the group and return it; None if somebody else was faster."""
        member, wanted = owned.representative, self.wanted(owned, owner)
        if not wanted["spec"]["queue"]:
            raise queue_required(member, inherit=self._inherit)
        try:
            group = await self._api.create(paths.POD_GROUPS.within(owned.namespace), wanted)
        except RefusedError as error:
            self._notes.refused("create", owned.key, error)
            if error.trouble is Trouble.EXISTS:
                return None
            raise
        self._notes.done("create")
        problems = auto_groups.problems(member, owner, inherit_owner_annotations=self._inherit)
        for problem in problems:
            log.warning("podgroup.annotation", podgroup=owned.key, message=str(problem))
        self._notices.unreadable(member, auto_groups.unreadable(group))
        log.info(
            "podgroup.created",
            podgroup=owned.key,
            uid=group["metadata"]["uid"],
            pods=len(owned.members),
            min_member=group.get("spec", {}).get("minMember"),
            queue=group.get("spec", {}).get("queue"),
        )
        return group

    async def _unmark(self, owned: OwnedPods, step: Unmark) -> Object | None:
        """Remove the mark of a group; return the group, as stored at present after a concurrent
        change.
        """
        path = paths.POD_GROUPS.at(owned.name, owned.namespace)
        try:
            group = await self._api.patch(path, deletion.unmarking(step))
        except RefusedError as error:
            if error.trouble not in GONE:
                self._notes.refused("unmark", owned.key, error)
                raise
            return await self._reader.group(owned.namespace, owned.name)
        self._notes.done("unmark")
        return group

    async def _amend(self, owned: OwnedPods, owner: Owner | None, group: Object | None) -> None:
        """Update the group, with retries, for schedulers may write to the group at the same
        time.
        """
        path = paths.POD_GROUPS.at(owned.name, owned.namespace)
        for _ in range(ATTEMPTS):
            patch = None if group is None else auto_groups.change(group, self.wanted(owned, owner))
            if patch is None:
                return
            try:
                await self._api.patch(path, patch)
            except RefusedError as error:
                self._notes.refused("amend", owned.key, error)
                if error.trouble is not Trouble.CONFLICT:
                    raise
            else:
                self._notes.done("amend")
                minimum = patch.get("spec", {}).get("minMember")
                if "status" in patch:
                    self._notices.unreadable(owned.representative, auto_groups.unreadable(patch))
                log.info("podgroup.amended", podgroup=owned.key, min_member=minimum)
                return
            group = await self._reader.group(owned.namespace, owned.name)

    async def _join(self, member: Member, group: str) -> bool:
        """Put a pod into its group; return whether the pod is resolved."""
        path = paths.PODS.at(member.name, member.namespace)
        try:
            await self._api.patch(path, auto_groups.attachment(member, group))
        except RefusedError as error:
            key = f"{member.namespace}/{member.name}"
            if error.trouble not in GONE:
                self._notes.refused("attach", key, error)
                self._notices.refused((member,), error)
                return False
        else:
            self._notes.done("attach")
        self._notices.forget(member.uid)
        return True


def is_lasting(error: RefusedError) -> bool:
    """Whether users have to do something about the refusal."""
    return error.trouble in ports.LASTING and ENDING not in str(error)


def queue_required(member: Member, group: str = "", *, inherit: bool) -> RefusedError:
    """Return the refusal by a namespace that requires a queue; `group` is one of Kubernetes' own
    API.

    Without `inherit`, the queue can't come from the owner.
    """
    owner, places = member.owner, [f"PodGroup {group}"] if group else []
    if inherit and owner is not None and (owner.api_version, owner.kind) in owners.COLLECTIONS:
        places.append(f"{owner.kind} {owner.name}")
    places.append("its pods" if places else "the pod")
    return RefusedError(Trouble.INVALID, group_terms.queue_required(member.namespace, places))


def subject_of(member: Member) -> ObjectReference:
    """Return a reference to the pod, for events."""
    return ObjectReference(kind="Pod", namespace=member.namespace, name=member.name, uid=member.uid)


def unreadable_notice(member: Member, message: str) -> EventNotice:
    """Return the event of the pod's controller, or of a bare pod, with annotations that can't be
    read; the message names the values used instead.
    """
    owner = member.owner or OwnerRef(api_version="v1", kind="Pod", name=member.name, uid=member.uid)
    level, reason, text = ("Warning", UNREADABLE, message)
    return EventNotice(
        kind=owner.kind,
        namespace=member.namespace,
        name=owner.name,
        uid=owner.uid,
        type=level,
        reason=reason,
        message=text,
        api_version=owner.api_version,
    )
