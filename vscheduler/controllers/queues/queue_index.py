"""Queues, PodGroups of both APIs, and Commands as Kopf's watches have shown them; pods without a
PodGroup as the Mirror has them.

Kopf doesn't hear of deletions from times without a connection, so objects that a live list lacks
are left out. A UID that is gone never comes back, so that no event has to be ordered against a
list.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from vscheduler.controllers.ports import Api, Object, RefusedError, Trouble
from vscheduler.controllers.queues import queue_objects
from vscheduler.controllers.queues.queue_objects import Command, FollowedKind, Group, Queue
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection as Place
from vscheduler.model import queues as model

Witness = Callable[[Group], str]
"""Returns the status field that counts a group, after a check against other knowledge."""


class Identified(Protocol):
    """An object."""

    @property
    def uid(self) -> str:
        """Its metadata.uid."""


Item = TypeVar("Item", bound=Identified)
Index: TypeAlias = Mapping[str, Collection[Item]]
Counts: TypeAlias = Mapping[str, Mapping[str, int]]
"""By queue and status field."""

KINDS: Mapping[FollowedKind, Place] = {
    FollowedKind.QUEUE: paths.QUEUES,
    FollowedKind.POD_GROUP: paths.POD_GROUPS,
    FollowedKind.NATIVE_POD_GROUP: paths.NATIVE_POD_GROUPS,
}

Kinds = frozenset[FollowedKind]

VOLCANO: Kinds = frozenset({FollowedKind.QUEUE, FollowedKind.POD_GROUP})
"""The kinds of Volcano's API, which mostly come and go together."""


def as_written(group: Group) -> str:
    """Return the status field that counts a group, trusting the group's status."""
    return group.counter


class Indices(msgspec.Struct, frozen=True, kw_only=True):
    """What Kopf's watches have shown; changes with each of their events."""

    queues: Index[Queue]
    """By name."""
    podgroups: Index[Group]
    """By spec.queue; empty if absent."""
    commands: Index[Command]
    """By UID."""
    nativepodgroups: Index[Group] = {}
    """Those of Kubernetes' own API that are in a queue, by its name."""
    hypernodes: Mapping[str, Collection[Any]] = {}
    """By name (hyper_node_controller.Described)."""


class QueueIndex:
    """The Queues and PodGroups of the indices that exist, and how many PodGroups a queue has."""

    def __init__(
        self,
        indices: Indices,
        default_queue: str,
        witness: Witness = as_written,
        alone: Callable[[], Counts] = dict,
    ) -> None:
        """`alone` returns how many pods without a PodGroup a queue has, by status field."""
        self._indices = indices
        self._alone = alone
        self.default_queue = default_queue
        self._witness = witness
        self._before: frozenset[str] = frozenset()
        """UIDs that were indexed when a list began."""
        self._gone: frozenset[str] = frozenset()
        """UIDs that were indexed when the last list began, and weren't listed."""
        self._occupied: frozenset[str] = frozenset()
        """Names of the queues that had PodGroups or child queues when the last list was made."""
        self.complete = False
        """Whether the indices have had all that a list had. Before, counts would be too small."""

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Queues by name. Of two queues with equal names, the version written last counts."""
        by_name: dict[str, Queue] = {}
        for queue in self._present(self._indices.queues.values()):
            other = by_name.get(queue.name)
            if other is None or queue_objects.newer(queue.version, than=other.version):
                by_name[queue.name] = queue
        return by_name

    @property
    def commands(self) -> Sequence[Command]:
        """Commands, oldest first."""
        commands = [each for several in self._indices.commands.values() for each in several]
        return sorted(commands, key=queue_objects.age)

    @property
    def schedulers(self) -> frozenset[str]:
        """The schedulers that place pods of these Queues."""
        return frozenset().union(*(queue.schedulers for queue in self.queues.values()))

    @property
    def alone(self) -> Mapping[str, int]:
        """How many pods without a PodGroup each queue has."""
        return {name: sum(found.values()) for name, found in self._alone().items()}

    @property
    def counts(self) -> Counts:
        """PodGroups, and pods without one, by queue and by status field, all counted anew."""
        counts = {name: Counter(found) for name, found in self._alone().items()}
        for index in self._groups:
            for name, groups in index.items():
                held = Counter(map(self._witness, self._present([groups])))
                if held:
                    counts.setdefault(name or self.default_queue, Counter()).update(held)
        return counts

    @property
    def _groups(self) -> tuple[Index[Group], ...]:
        return self._indices.podgroups, self._indices.nativepodgroups

    def may_release(self, queue: Queue) -> bool:
        """Whether the last list had nothing in this queue, and there is no pod in it."""
        return queue.name not in self._occupied and not self.alone.get(queue.name)

    def begin(self) -> None:
        """Prepare for a list."""
        self._before = frozenset(self._uids())

    def compare(self, queues: Sequence[Queue], groups: Sequence[Group]) -> None:
        """Compare the indices with a list that was requested after `begin`."""
        uids = {each.uid for each in queues} | {each.uid for each in groups}
        self._gone = self._before - uids
        self._occupied = frozenset(
            {group.queue or self.default_queue for group in groups}
            | {queue.parent or model.ROOT for queue in queues if queue.name != model.ROOT}
        )
        self.complete = self.complete or uids <= self._before | frozenset(self._uids())

    def _present(self, stores: Iterable[Collection[Item]]) -> Iterator[Item]:
        gone = self._gone
        return (each for several in stores for each in several if each.uid not in gone)

    def _uids(self) -> Iterator[str]:
        for queues in self._indices.queues.values():
            yield from (queue.uid for queue in queues)
        for index in self._groups:
            for groups in index.values():
                yield from (group.uid for group in groups)


class ServedKinds:
    """Whether the kinds Queue and PodGroup are served, or are being removed.

    Before an API server drops a CRD, the API server deletes all its objects and waits for their
    finalizers. Meanwhile discovery offers no `create` for the kind. Every authenticated user may
    read discovery, so no permission on CRDs is needed.

    Those of Kubernetes' own API don't count as removed: where they aren't served, there are none.

    The answers are as of the last `ask`; at first, all kinds count as served.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._missed: Kinds = frozenset()
        """Kinds not served at the last `ask`: a starting server doesn't offer all kinds at once."""
        self.absent: Kinds = frozenset()
        """Kinds not served at the last two `ask` calls: no objects of the kind exist."""
        self.leaving: Kinds = frozenset()
        """Kinds being removed; their objects are being deleted."""

    @property
    def settled(self) -> bool:
        """Whether no kind is being removed, and none has been missed just once."""
        return not (self._missed - self.absent or self.leaving)

    @property
    def goes(self) -> bool:
        """Whether all Queues are going away."""
        return FollowedKind.QUEUE in self.leaving | self._missed

    async def ask(self) -> None:
        """Ask the API server. Raises ports.RefusedError."""
        try:
            answer = await self._api.get(paths.version(paths.VOLCANO))
        except RefusedError as error:
            if error.trouble is not Trouble.MISSING:
                raise
            answer = {}
        offered = {
            str(each.get("name")): each.get("verbs") or ()
            for each in answer.get("resources") or ()
            if isinstance(each, Mapping)
        }
        missed = frozenset(kind for kind in VOLCANO if kind not in offered)
        self.absent = missed & self._missed
        self._missed = missed
        self.leaving = frozenset(
            kind for kind in VOLCANO if kind in offered and "create" not in offered[kind]
        )

    async def list(self, kind: FollowedKind) -> list[Object]:
        """Return all objects of a kind; none for a kind that isn't served, or that we needn't and
        may not list. Raises ports.RefusedError.
        """
        try:
            return await self._api.list(KINDS[kind].everywhere)
        except RefusedError as error:
            missing = error.trouble is Trouble.MISSING
            if kind in self.absent and missing:
                return []
            if kind in VOLCANO or not (missing or error.trouble is Trouble.FORBIDDEN):
                raise
            return []
