"""The objects of all kinds, with one counter of revisions and a log of what happened.

Stored objects are shared by lists, watches and the history, and never mutated. Each is encoded at
most once.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.simulation.api_server import kinds, wire
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.wire import Object

FIRST_REVISION = 100
"""Nothing is known of earlier versions."""


@dataclass(slots=True, eq=False)
class Item:
    """An object at one revision."""

    key: str
    """`NAMESPACE/NAME`, or the name."""
    revision: int
    object: Object
    managers: "tuple[Manager, ...]" = ()
    _data: bytes = b""
    _partial: bytes = b""

    @property
    def data(self) -> bytes:
        """The object as JSON."""
        if not self._data:
            self._data = wire.encode(self.object)
        return self._data

    @property
    def partial(self) -> bytes:
        """Its metadata as JSON."""
        if not self._partial:
            self._partial = wire.encode(
                {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": self.object["metadata"],
                }
            )
        return self._partial

    def copy(self) -> Object:
        """A deep copy, for somebody who changes it."""
        made: Object = wire.decode(self.data)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """Who owns which fields, for server-side apply."""

    name: str
    applies: bool
    """Whether by apply; otherwise by update."""
    subresource: str
    fields: frozenset[tuple[object, ...]]


@dataclass(slots=True, eq=False, kw_only=True)
class Event:
    """One change of one object."""

    kind: Kind
    revision: int
    before: Item | None
    after: Item
    """For a deletion: the last state, at the revision of the deletion."""
    deleted: bool = False


@dataclass(slots=True, eq=False)
class Collection:
    """All objects of a kind, sorted by key."""

    kind: Kind
    limit: int
    items: dict[str, Item] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    log: deque[Event] = field(default_factory=deque)
    floor: int = 0
    """Watches and lists can't go back before this revision."""

    def within(self, namespace: str) -> Iterator[Item]:
        """The objects of a namespace, or all, sorted by key."""
        keys = self.keys
        if namespace:
            first = bisect_left(keys, f"{namespace}/")
            keys = keys[first : bisect_left(keys, f"{namespace}0", first)]  # "0" follows "/"
        items = self.items
        return (items[key] for key in keys)

    def at(self, revision: int) -> dict[str, Item]:
        """The objects as they were at a revision that isn't compacted."""
        found = dict(self.items)
        for event in reversed(self.log):
            if event.revision <= revision:
                break
            if event.before is None:
                del found[event.after.key]
            else:
                found[event.after.key] = event.before
        return found

    def since(self, revision: int) -> list[Event]:
        """The events after a revision, in order."""
        found = []
        for event in reversed(self.log):
            if event.revision <= revision:
                break
            found.append(event)
        return found[::-1]

    @property
    def last(self) -> int:
        """The revision of the newest event; 0 if there was none."""
        return self.log[-1].revision if self.log else 0

    def note(self, event: Event) -> None:
        """Append to the log, and forget what is too old."""
        self.log.append(event)
        while len(self.log) > self.limit:
            self.floor = self.log.popleft().revision

    def compact(self, revision: int) -> None:
        """Forget everything up to a revision."""
        while self.log and self.log[0].revision <= revision:
            self.log.popleft()
        self.floor = max(self.floor, revision)


class Store:
    """Everything that is stored."""

    def __init__(self, limit: int) -> None:
        self.revision = FIRST_REVISION
        self.listen: Callable[[Event], None] = lambda _: None
        self._limit = limit
        self._collections: dict[Kind, Collection] = {}

    def of(self, kind: Kind) -> Collection:
        """The collection of a kind."""
        if kind is kinds.CORE_EVENTS:
            kind = kinds.EVENTS
        found = self._collections.get(kind)
        if found is None:
            found = self._collections[kind] = Collection(kind, self._limit, floor=FIRST_REVISION)
        return found

    def find(self, kind: Kind, key: str) -> Item | None:
        """An object, if there is one."""
        return self.of(kind).items.get(key)

    def put(
        self,
        kind: Kind,
        key: str,
        body: Object,
        managers: tuple[Manager, ...] = (),
    ) -> Item:
        """Store an object under the next revision; the body is the store's from now on."""
        collection = self.of(kind)
        item = self._next(key, body, managers)
        before = collection.items.get(key)
        if before is None:
            insort(collection.keys, key)
        collection.items[key] = item
        self._tell(
            collection,
            Event(kind=collection.kind, revision=item.revision, before=before, after=item),
        )
        return item

    def remove(self, kind: Kind, key: str, body: Object) -> Item:
        """Take an object away; the body is its last state."""
        collection = self.of(kind)
        before = collection.items.pop(key)
        del collection.keys[bisect_left(collection.keys, key)]
        item = self._next(key, body, ())
        event = Event(
            kind=collection.kind, revision=item.revision, before=before, after=item, deleted=True
        )
        self._tell(collection, event)
        return item

    def compact(self) -> None:
        """Make all older versions answer 410."""
        for collection in self._collections.values():
            collection.compact(self.revision)

    def _next(self, key: str, body: Object, managers: tuple[Manager, ...]) -> Item:
        self.revision += 1
        body["metadata"]["resourceVersion"] = str(self.revision)
        first = {"kind": body["kind"], "apiVersion": body["apiVersion"]}
        return Item(key, self.revision, first | body, managers)

    def _tell(self, collection: Collection, event: Event) -> None:
        collection.note(event)
        self.listen(event)
