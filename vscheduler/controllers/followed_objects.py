"""Followed objects: Queues, PodGroups, Commands and HyperNodes as Kopf's watches have shown them.

They are kept here and not in indices of Kopf's, which wake a task for each object whenever another
object is indexed for the first time: with 6,000 PodGroups, that takes a core more than a minute.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from operator import attrgetter
from typing import Any, Generic, TypeAlias

from vscheduler.controllers import hyper_node_controller
from vscheduler.controllers.ports import Object
from vscheduler.controllers.queues import queue_objects
from vscheduler.controllers.queues.queue_index import Indices, Item
from vscheduler.controllers.queues.queue_objects import FollowedKind

Event: TypeAlias = Mapping[str, Any]
"""An event of a watch: its `type`, which is None if the object was listed, and its `object`."""


class FollowedObjects:
    """All objects, and the indices by which controllers find them."""

    def __init__(self) -> None:
        self._by_kind: Mapping[FollowedKind, _Index[Any]] = {
            FollowedKind.QUEUE: _Index(queue_objects.queue, by="name"),
            FollowedKind.POD_GROUP: _Index(queue_objects.group, by="queue"),
            FollowedKind.NATIVE_POD_GROUP: _Index(queue_objects.native_group, by="queue"),
            FollowedKind.COMMAND: _Index(queue_objects.command, by="uid"),
            FollowedKind.HYPER_NODE: _Index(hyper_node_controller.described, by="name"),
        }
        self.indices = Indices(**{str(kind): index for kind, index in self._by_kind.items()})
        """Views, which change with each event."""

    def take(self, kind: FollowedKind, event: Event) -> None:
        """Take an event."""
        index = self._by_kind[kind]
        (index.remove if event["type"] == "DELETED" else index.put)(event["object"])


class _Index(Mapping[str, Collection[Item]], Generic[Item]):
    """Values of a kind's objects, by one of their attributes."""

    def __init__(self, read: Callable[[Object], Item | None], *, by: str) -> None:
        """`read` returns the value of an object, or None for an object that nobody needs."""
        self._read = read
        self._key: Callable[[Item], str] = attrgetter(by)
        self._by_key: dict[str, dict[str, Item]] = {}
        """By key and UID."""
        self._keys: dict[str, str] = {}
        """By UID."""

    def put(self, stored: Object) -> None:
        """Take an object that came or changed."""
        self.remove(stored)
        item = self._read(stored)
        if item is not None:
            key = self._keys[item.uid] = self._key(item)
            self._by_key.setdefault(key, {})[item.uid] = item

    def remove(self, stored: Object) -> None:
        """Take an object that went."""
        uid = stored["metadata"]["uid"]
        key = self._keys.pop(uid, None)
        if key is not None:
            items = self._by_key[key]
            del items[uid]
            if not items:
                del self._by_key[key]

    def __getitem__(self, key: str) -> Collection[Item]:
        return self._by_key[key].values()

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)
