"""Pods get their automatic PodGroup: it is made, or its mark taken off, and then they are told.

Why this order: deletion.py.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from vscheduler.controllers import ports
from vscheduler.controllers.podgroups import auto_groups, deletion, group_reading
from vscheduler.mirror import paths, statuses

log = structlog.get_logger(__name__)

ATTEMPTS = 5
"""How often a group that changes meanwhile is read again before there is a pause."""

GONE = (ports.Trouble.MISSING, ports.Trouble.CONFLICT)
"""What a patch of a pod meets that is gone, or another one of its name."""

ENDING = "is being terminated"
"""What the API server says of a namespace in which nothing new is taken, events included."""

TOLD_MAX = 10_000
"""Pods whose refusals are remembered; past them all are told once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPods:
    """Pods that share an automatic PodGroup; at least one."""

    namespace: str
    name: str
    """The group's."""
    scheduler: str
    default_queue: str
    members: tuple[auto_groups.Member, ...]
    joining: tuple[auto_groups.Member, ...] = ()
    """Those that don't name the group yet."""
    named: tuple[str, ...] = ()
    """UIDs of those that name it, but it wasn't there."""
    seen: bool
    """Whether a watch has shown the group."""

    @property
    def key(self) -> str:
        """`namespace/name` of the group."""
        return f"{self.namespace}/{self.name}"

    @property
    def without(self) -> list[auto_groups.Member]:
        """Those that have no group to be in."""
        named = set(self.named)
        return [*self.joining, *(member for member in self.members if member.uid in named)]

    @property
    def spokesman(self) -> auto_groups.Member:
        """The pod by which the group is made."""
        return auto_groups.spokesman(self.members)


class RefusalEvents:
    """Events on pods that can't have their PodGroup: those who own them see no log of ours.

    A pod is told of a refusal once, and again when it is another.
    """

    def __init__(self, notify: Callable[[statuses.EventNotice], None]) -> None:
        self._notify = notify
        self._told: dict[str, str] = {}

    def refused(self, members: Iterable[auto_groups.Member], error: ports.RefusedError) -> None:
        """Their PodGroup, or their place in it, was refused."""
        message = str(error)
        if error.trouble not in ports.LASTING or ENDING in message:
            return
        if len(self._told) > TOLD_MAX:
            self._told.clear()
        for member in members:
            if self._told.get(member.uid) != message:
                self._told[member.uid] = message
                self._notify(statuses.refused_notice(subject_of(member), message))

    def settled(self, member: auto_groups.Member) -> None:
        """It is in its PodGroup, or gone."""
        self._told.pop(member.uid, None)


class PodGroupCreator:
    """Makes and amends PodGroups, and puts pods into them."""

    def __init__(
        self,
        api: ports.Api,
        notes: group_reading.Notes,
        notices: RefusalEvents,
        *,
        inherit_owner_annotations: bool,
    ) -> None:
        self._api = api
        self._notes = notes
        self._notices = notices
        self._reader = group_reading.Reader(api, notes)
        self._inherit = inherit_owner_annotations

    async def attach(self, crew: OwnedPods) -> list[str]:
        """The UIDs of those of its pods without a group that are in it now, or gone.

        That is all of them, if all is well.

        Raises RefusedError where the group can't be made.
        """
        state, owner = await self._owner(crew)
        if state is deletion.OwnerState.GONE:
            return []  # its pods go with it, or are let go and then come again
        group = await self._reader.group(crew.namespace, crew.name) if crew.seen else None
        try:
            group, is_new = await self._prepare(crew, owner, group)
        except ports.RefusedError as error:
            self._notices.refused(crew.without, error)
            raise
        if group is None:
            return []
        if not is_new:
            await self._amend(crew, owner, group)
        settled = list(crew.named)

        async def join(member: auto_groups.Member) -> None:
            key = f"{member.namespace}/{member.name}"
            with self._notes.failures.contained("join", key, subject_of(member)):
                if await self._join(member):
                    settled.append(member.uid)

        await group_reading.each(join, crew.joining)
        return settled

    async def amend(self, crew: OwnedPods) -> None:
        """Bring a group's numbers to what its owner wants now. Raises RefusedError."""
        _, owner = await self._owner(crew)
        await self._amend(crew, owner, await self._reader.group(crew.namespace, crew.name))

    def wanted(self, crew: OwnedPods, owner: auto_groups.Owner | None) -> auto_groups.Body:
        """The manifest of the crew's group."""
        return auto_groups.wanted(
            crew.spokesman,
            owner,
            scheduler=crew.scheduler,
            default_queue=crew.default_queue,
            inherit_owner_annotations=self._inherit,
        )

    async def _owner(self, crew: OwnedPods) -> tuple[deletion.OwnerState, auto_groups.Owner | None]:
        ref = crew.spokesman.owner
        if ref is None:
            return deletion.OwnerState.ALIVE, None
        return await self._reader.owner(ref, crew.namespace)

    async def _prepare(
        self, crew: OwnedPods, owner: auto_groups.Owner | None, group: ports.Object | None
    ) -> tuple[ports.Object | None, bool]:
        """The group, so that pods may join it, and whether it was made just now; None: not yet."""
        for _ in range(ATTEMPTS):
            match deletion.join(group, time.monotonic()):
                case deletion.Join():
                    return group, False
                case deletion.Wait():
                    return None, False
                case deletion.Unmark() as step:
                    group = await self._unmark(crew, step)
                case deletion.Create():
                    made = await self._create(crew, owner)
                    if made is not None:
                        return made, True
                    group = await self._reader.group(crew.namespace, crew.name)
        return None, False

    async def _create(
        self, crew: OwnedPods, owner: auto_groups.Owner | None
    ) -> ports.Object | None:
        """The new group; None where somebody else was faster."""
        member = crew.spokesman
        try:
            made = await self._api.create(
                paths.POD_GROUPS.within(crew.namespace), self.wanted(crew, owner)
            )
        except ports.RefusedError as error:
            self._notes.refused("create", crew.key, error)
            if error.trouble is ports.Trouble.EXISTS:
                return None
            raise
        self._notes.done("create")
        problems = auto_groups.problems(member, owner, inherit_owner_annotations=self._inherit)
        for problem in problems:
            log.warning("podgroup.annotation", podgroup=crew.key, message=str(problem))
        log.info(
            "podgroup.created",
            podgroup=crew.key,
            uid=made["metadata"]["uid"],
            pods=len(crew.members),
            min_member=made.get("spec", {}).get("minMember"),
            queue=made.get("spec", {}).get("queue"),
        )
        return made

    async def _unmark(self, crew: OwnedPods, step: deletion.Unmark) -> ports.Object | None:
        """The group without its mark, or as it is now where it changed meanwhile."""
        path = paths.POD_GROUPS.at(crew.name, crew.namespace)
        try:
            group = await self._api.patch(path, deletion.unmarking(step))
        except ports.RefusedError as error:
            if error.trouble not in GONE:
                self._notes.refused("unmark", crew.key, error)
                raise
            return await self._reader.group(crew.namespace, crew.name)
        self._notes.done("unmark")
        return group

    async def _amend(
        self, crew: OwnedPods, owner: auto_groups.Owner | None, group: ports.Object | None
    ) -> None:
        """Its numbers follow the owner; the schedulers' own writes may come between."""
        path = paths.POD_GROUPS.at(crew.name, crew.namespace)
        for _ in range(ATTEMPTS):
            patch = None if group is None else auto_groups.change(group, self.wanted(crew, owner))
            if patch is None:
                return
            try:
                await self._api.patch(path, patch)
            except ports.RefusedError as error:
                self._notes.refused("amend", crew.key, error)
                if error.trouble is not ports.Trouble.CONFLICT:
                    raise
            else:
                self._notes.done("amend")
                minimum = patch["spec"].get("minMember")
                log.info("podgroup.amended", podgroup=crew.key, min_member=minimum)
                return
            group = await self._reader.group(crew.namespace, crew.name)

    async def _join(self, member: auto_groups.Member) -> bool:
        """Put a pod into its group; whether nothing is left to do for it."""
        path = paths.PODS.at(member.name, member.namespace)
        try:
            await self._api.patch(path, auto_groups.attachment(member))
        except ports.RefusedError as error:
            key = f"{member.namespace}/{member.name}"
            if error.trouble not in GONE:
                self._notes.refused("attach", key, error)
                self._notices.refused((member,), error)
                return False
        else:
            self._notes.done("attach")
        self._notices.settled(member)
        return True


def subject_of(member: auto_groups.Member) -> statuses.ObjectReference:
    """The pod, as what an event is about."""
    return statuses.ObjectReference(
        kind="Pod", namespace=member.namespace, name=member.name, uid=member.uid
    )
