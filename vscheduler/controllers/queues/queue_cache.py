"""Cache of Queues and PodGroups: updated by events, corrected by lists.

Objects are identified by UID, so a late event about a deleted object never hides its successor.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeAlias

import msgspec

from vscheduler.controllers.ports import Api, Object, RefusedError, Trouble
from vscheduler.controllers.queues import queue_objects
from vscheduler.controllers.queues.queue_objects import Group, Kind, Queue
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection

Item: TypeAlias = Queue | Group

Witness = Callable[[Group], str]
"""Returns the status field that counts a group, after a check against other knowledge."""


class Unusable(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup of which the Mirror knows only that it exists."""

    uid: str


KINDS: Mapping[Kind, Collection] = {
    Kind.QUEUE: paths.QUEUES,
    Kind.POD_GROUP: paths.POD_GROUPS,
}

Kinds = frozenset[Kind]


def as_written(group: Group) -> str:
    """Return the status field that counts a group, trusting the group's status."""
    return group.counter


class Groups(Protocol):
    """PodGroups as others know them."""

    def group(self, key: str) -> Group | Unusable | None:
        """Return the PodGroup with this key (`namespace/name`) in the Mirror, or None."""

    def counter(self, group: Group) -> str:
        """Return the status field that counts a group, after a check against other knowledge."""


class AsWritten:
    """No knowledge of PodGroups but their own statuses."""

    def group(self, key: str) -> None:
        """Return None."""
        del key

    def counter(self, group: Group) -> str:
        """Return the field named by the group's status."""
        return as_written(group)


class Tally:
    """Counts PodGroups by queue and by status field.

    When counts are requested, only new, changed and doubtful groups are evaluated.
    """

    def __init__(self, default_queue: str, witness: Witness) -> None:
        self._default = default_queue
        self._witness = witness
        self._groups: dict[str, Group] = {}
        self._uids: dict[str, set[str]] = {}
        """UIDs by `namespace/name`: events of a group may arrive after events of its successor."""
        self._doubtful: dict[str, None] = {}
        """Groups that may count elsewhere by now, or aren't counted yet."""
        self._places: dict[str, tuple[str, str]] = {}
        """Queue and field in which each group is counted."""
        self._counts: dict[str, Counter[str]] = {}

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """The counts at present. The returned view changes with the cache."""
        for uid in list(self._doubtful):
            group = self._groups[uid]
            place = group.queue or self._default, self._witness(group)
            self._uncount(uid)
            self._count(uid, place)
            del self._doubtful[uid]
        return MappingProxyType(self._counts)

    def add(self, group: Group) -> None:
        """Add a group that isn't known yet."""
        self._groups[group.uid] = group
        self._uids.setdefault(group.key, set()).add(group.uid)
        self._doubtful[group.uid] = None

    def drop(self, group: Group) -> None:
        """Remove a known group."""
        self._uncount(group.uid)
        self._doubtful.pop(group.uid, None)
        del self._groups[group.uid]
        same_key = self._uids[group.key]
        same_key.discard(group.uid)
        if not same_key:
            del self._uids[group.key]

    def doubt(self, key: str) -> None:
        """Have groups of this key evaluated again."""
        self._doubtful.update(dict.fromkeys(self._uids.get(key, ())))

    def clear(self) -> None:
        """Remove all groups."""
        for each in (self._groups, self._uids, self._doubtful, self._places, self._counts):
            each.clear()

    def _count(self, uid: str, place: tuple[str, str]) -> None:
        queue, counter = place
        self._counts.setdefault(queue, Counter())[counter] += 1
        self._places[uid] = place

    def _uncount(self, uid: str) -> None:
        """Take a group out of the counts, if counted. Zero counts are removed."""
        place = self._places.pop(uid, None)
        if place is None:
            return
        queue, counter = place
        held = self._counts[queue]
        held[counter] -= 1
        if not held[counter]:
            del held[counter]
        if not held:
            del self._counts[queue]


class QueueCache:
    """All Queues and PodGroups, and the number of PodGroups per queue."""

    def __init__(self, default_queue: str, witness: Witness = as_written) -> None:
        self._items: dict[str, Item] = {}
        self._queues: dict[str, Queue] = {}
        self._tally = Tally(default_queue, witness)
        self._shown: dict[str, str] = {}
        """UIDs of the PodGroups that the Mirror has shown, by `namespace/name`."""
        self._news: dict[str, Item | None] | None = None
        """During a list: objects seen meanwhile, and None for objects gone meanwhile."""
        self.complete = False
        """Whether a list was applied. Before, an unknown object may exist all the same."""

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Queues by name. Of two queues with equal names, the version written last counts."""
        found: dict[str, Queue] = {}
        for queue in self._queues.values():
            other = found.get(queue.name)
            if other is None or queue_objects.newer(queue.version, than=other.version):
                found[queue.name] = queue
        return found

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """PodGroups by queue and by status field, at present.

        The cost depends on the changes since the last call.
        """
        return self._tally.counts

    def show(self, key: str, shown: Group | Unusable | None) -> None:
        """Apply what the Mirror shows under a key (`namespace/name`), and count its pods anew.

        A PodGroup that the Mirror shows no longer is gone. One that it has never shown may exist:
        Kopf, or a list, was faster.
        """
        before = self._shown.pop(key, None)
        if before is not None and (shown is None or shown.uid != before):
            self.forget(before)
        if shown is not None:
            self._shown[key] = shown.uid
        if isinstance(shown, Group):
            known = self._items.get(shown.uid)
            if known is None or known.version != shown.version:
                self.see(shown)
        self._tally.doubt(key)

    def see(self, item: Item) -> None:
        """Update an object, unless a newer version is known."""
        if self._news is not None:
            self._news[item.uid] = item
        known = self._items.get(item.uid)
        if known is not None:
            if queue_objects.newer(known.version, than=item.version):
                return
            self._drop(known)
        self._add(item)

    def refresh(self, item: Item) -> None:
        """Update an object after a write to the object; ignored if the object is gone by now."""
        if item.uid in self._items:
            self.see(item)

    def forget(self, uid: str) -> None:
        """Remove an object."""
        if self._news is not None:
            self._news[uid] = None
        known = self._items.get(uid)
        if known is not None:
            self._drop(known)

    def begin(self) -> None:
        """Prepare for a list: events from now on take precedence over the list."""
        self._news = {}

    def replace(self, items: Iterable[Item]) -> None:
        """Apply a list: objects neither listed nor seen meanwhile are gone."""
        news, self._news = self._news or {}, None
        self._items.clear()
        self._queues.clear()
        self._tally.clear()
        for item in items:
            # An object that went away during the list may still be listed.
            if news.get(item.uid, item) is not None:
                self._add(item)
        for new in news.values():
            if new is not None:
                self.see(new)
        self.complete = True

    def _add(self, item: Item) -> None:
        self._items[item.uid] = item
        if isinstance(item, Queue):
            self._queues[item.uid] = item
        else:
            self._tally.add(item)

    def _drop(self, item: Item) -> None:
        del self._items[item.uid]
        if isinstance(item, Queue):
            del self._queues[item.uid]
        else:
            self._tally.drop(item)


class MovedGroups:
    """Keys of PodGroups that changed, or whose pods did, until the cache is updated.

    A pod that starts moves its PodGroup three or more times, which costs as much as once.
    """

    def __init__(self, cache: QueueCache, groups: Groups) -> None:
        self._cache = cache
        self._groups = groups
        self._keys: dict[str, None] = {}

    def note(self, key: str) -> None:
        """Note a PodGroup (`namespace/name`) that came, changed or went."""
        self._keys[key] = None

    def apply(self) -> bool:
        """Update the cache; return whether all PodGroups that have moved can be used."""
        keys, self._keys = self._keys, {}
        usable = True
        for key in keys:
            shown = self._groups.group(key)
            usable = usable and not isinstance(shown, Unusable)
            self._cache.show(key, shown)
        return usable


class ServedKinds:
    """Whether the kinds Queue and PodGroup are served, or are being removed.

    Before an API server drops a CRD, the API server deletes all its objects and waits for their
    finalizers. Meanwhile discovery offers no `create` for the kind. Every authenticated user may
    read discovery, so no permission on CRDs is needed.

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
    def whole(self) -> bool:
        """Whether all kinds are served and none is being removed."""
        return not (self._missed or self.leaving)

    @property
    def goes(self) -> bool:
        """Whether all Queues are going away."""
        return Kind.QUEUE in self.leaving | self._missed

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
        missed = frozenset(kind for kind in KINDS if kind not in offered)
        self.absent = missed & self._missed
        self._missed = missed
        self.leaving = frozenset(
            kind for kind in KINDS if kind in offered and "create" not in offered[kind]
        )

    async def list(self, kind: Kind) -> list[Object]:
        """Return all objects of a kind; none for a kind that isn't served. Raises
        ports.RefusedError.
        """
        if kind in self.absent:
            return []
        return await self._api.list(KINDS[kind].everywhere)
