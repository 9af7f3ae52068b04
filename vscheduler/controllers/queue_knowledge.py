"""What is known of Queues and PodGroups: kept up by events, put right by lists.

Objects are told apart by UID, so that news of one that is gone never hides its successor.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from vscheduler.controllers import queue_objects

Item: TypeAlias = queue_objects.Queue | queue_objects.Group

Witness = Callable[[queue_objects.Group], str]
"""Where a group counts, by what else is known of it."""


def as_written(group: queue_objects.Group) -> str:
    """Where a group counts, if its status is believed."""
    return group.counter


class Known:
    """All Queues and PodGroups, and how many of these each queue holds."""

    def __init__(self, default_queue: str, witness: Witness = as_written) -> None:
        self._default = default_queue
        self._witness = witness
        self._items: dict[str, Item] = {}
        self._queues: dict[str, queue_objects.Queue] = {}
        self._groups: dict[str, queue_objects.Group] = {}
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
    def counts(self) -> Mapping[str, Counter[str]]:
        """PodGroups by queue and by the status field in which they count, as of now."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for group in self._groups.values():
            found[group.queue or self._default][self._witness(group)] += 1
        return found

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
        self._groups.clear()
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
            self._groups[item.uid] = item

    def _drop(self, item: Item) -> None:
        del self._items[item.uid]
        if isinstance(item, queue_objects.Queue):
            del self._queues[item.uid]
        else:
            del self._groups[item.uid]
