"""The cache of Queues and PodGroups: kept up by events, put right by lists.

Objects are told apart by UID, so that news of one that is gone never hides its successor.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from vscheduler.controllers import ports
from vscheduler.controllers.queues import queue_objects
from vscheduler.mirror import paths

Item: TypeAlias = queue_objects.Queue | queue_objects.Group

Witness = Callable[[queue_objects.Group], str]
"""Where a group counts, by what else is known of it."""

KINDS: Mapping[queue_objects.Kind, paths.Collection] = {
    queue_objects.Kind.QUEUE: paths.QUEUES,
    queue_objects.Kind.POD_GROUP: paths.POD_GROUPS,
}

Kinds = frozenset[queue_objects.Kind]


def as_written(group: queue_objects.Group) -> str:
    """Where a group counts, if its status is believed."""
    return group.counter


class Tally:
    """PodGroups by queue and by the status field in which they count.

    Only groups that came, changed or are doubtful are looked at when the counts are asked for.
    """

    def __init__(self, default_queue: str, witness: Witness) -> None:
        self._default = default_queue
        self._witness = witness
        self._groups: dict[str, queue_objects.Group] = {}
        self._uids: dict[str, set[str]] = {}
        """By `namespace/name`: news of a group may be later than those of the next one."""
        self._doubtful: dict[str, None] = {}
        """Groups that may count elsewhere by now, or don't count yet."""
        self._places: dict[str, tuple[str, str]] = {}
        """Where each group counts: queue and field."""
        self._counts: dict[str, Counter[str]] = {}

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """As of now; what is given changes with what is known."""
        for uid in list(self._doubtful):
            group = self._groups[uid]
            place = group.queue or self._default, self._witness(group)
            self._uncount(uid)
            self._count(uid, place)
            del self._doubtful[uid]
        return MappingProxyType(self._counts)

    def add(self, group: queue_objects.Group) -> None:
        """A group that isn't there yet."""
        self._groups[group.uid] = group
        self._uids.setdefault(group.key, set()).add(group.uid)
        self._doubtful[group.uid] = None

    def drop(self, group: queue_objects.Group) -> None:
        """A group that was added is no more."""
        self._uncount(group.uid)
        self._doubtful.pop(group.uid, None)
        del self._groups[group.uid]
        alike = self._uids[group.key]
        alike.discard(group.uid)
        if not alike:
            del self._uids[group.key]

    def doubt(self, key: str) -> bool:
        """What bears out where a group counts may have changed; whether there is such a group."""
        uids = self._uids.get(key, ())
        self._doubtful.update(dict.fromkeys(uids))
        return bool(uids)

    def clear(self) -> None:
        """There are none."""
        for each in (self._groups, self._uids, self._doubtful, self._places, self._counts):
            each.clear()

    def _count(self, uid: str, place: tuple[str, str]) -> None:
        queue, counter = place
        self._counts.setdefault(queue, Counter())[counter] += 1
        self._places[uid] = place

    def _uncount(self, uid: str) -> None:
        """Take a group out of the counts, if it is in them; nothing is kept that is zero."""
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
    """All Queues and PodGroups, and how many of these each queue holds."""

    def __init__(self, default_queue: str, witness: Witness = as_written) -> None:
        self._items: dict[str, Item] = {}
        self._queues: dict[str, queue_objects.Queue] = {}
        self._tally = Tally(default_queue, witness)
        self._news: dict[str, Item | None] | None = None
        """While a list is under way: what was seen, and, as None, what has gone."""
        self.complete = False
        """Whether a list has been taken: before, what isn't known may be there all the same."""

    @property
    def queues(self) -> Mapping[str, queue_objects.Queue]:
        """Queues by name; of two of one name, the one that was written last."""
        found: dict[str, queue_objects.Queue] = {}
        for queue in self._queues.values():
            other = found.get(queue.name)
            if other is None or queue_objects.newer(queue.version, than=other.version):
                found[queue.name] = queue
        return found

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """PodGroups by queue and by the status field in which they count, as of now.

        It costs what has moved since it was last asked for.
        """
        return self._tally.counts

    def doubt(self, key: str) -> bool:
        """The pods of a PodGroup (`namespace/name`) have moved; whether it is known."""
        return self._tally.doubt(key)

    def see(self, item: Item) -> None:
        """This is how an object looks, unless a newer version of it is known."""
        if self._news is not None:
            self._news[item.uid] = item
        known = self._items.get(item.uid)
        if known is not None:
            if queue_objects.newer(known.version, than=item.version):
                return
            self._drop(known)
        self._add(item)

    def refresh(self, item: Item) -> None:
        """The same, of an object that was written to; it may have gone since."""
        if item.uid in self._items:
            self.see(item)

    def forget(self, uid: str) -> None:
        """An object has gone."""
        if self._news is not None:
            self._news[uid] = None
        known = self._items.get(uid)
        if known is not None:
            self._drop(known)

    def begin(self) -> None:
        """A list is asked for; what is heard until it comes is newer."""
        self._news = {}

    def replace(self, items: Iterable[Item]) -> None:
        """The list is here: what isn't in it, and wasn't seen meanwhile, has gone."""
        news, self._news = self._news or {}, None
        self._items.clear()
        self._queues.clear()
        self._tally.clear()
        for item in items:
            if news.get(item.uid, item) is not None:
                self._add(item)
        for new in news.values():
            if new is not None:
                self.see(new)
        self.complete = True

    def _add(self, item: Item) -> None:
        self._items[item.uid] = item
        if isinstance(item, queue_objects.Queue):
            self._queues[item.uid] = item
        else:
            self._tally.add(item)

    def _drop(self, item: Item) -> None:
        del self._items[item.uid]
        if isinstance(item, queue_objects.Queue):
            del self._queues[item.uid]
        else:
            self._tally.drop(item)


class ServedKinds:
    """Whether the kinds Queue and PodGroup are there to stay, or are being taken away.

    An API server deletes all objects of a definition before it lets it go, and waits for their
    finalizers. It offers no `create` for such a kind any more, which everybody may read who may log
    in: no right to the definitions themselves is needed.

    As of the last question; at first, all are there.
    """

    def __init__(self, api: ports.Api) -> None:
        self._api = api
        self._missed: Kinds = frozenset()
        """Not there when it was last asked: a server that starts doesn't know all at once."""
        self.absent: Kinds = frozenset()
        """Not there, and not there before: there are no objects of it."""
        self.leaving: Kinds = frozenset()
        """On their way out; their objects are being deleted."""

    @property
    def whole(self) -> bool:
        """Whether all is as it should be."""
        return not (self._missed or self.leaving)

    @property
    def goes(self) -> bool:
        """Whether Queues go, all of them."""
        return queue_objects.Kind.QUEUE in self.leaving | self._missed

    async def ask(self) -> None:
        """Ask the API server. Raises ports.RefusedError."""
        try:
            answer = await self._api.get(paths.version(paths.VOLCANO))
        except ports.RefusedError as error:
            if error.trouble is not ports.Trouble.MISSING:
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

    async def list(self, kind: queue_objects.Kind) -> list[ports.Object]:
        """All objects of a kind; none where the kind isn't there. Raises ports.RefusedError."""
        if kind in self.absent:
            return []
        return await self._api.list(KINDS[kind].everywhere)
