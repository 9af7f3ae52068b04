"""How an object is shown: whole, its metadata only, or an Event in the older API version."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.simulation.api_server import kinds, wire
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.store import Event, Item
from tests.simulation.api_server.wire import Object

META = "meta.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class View:
    """Whole objects."""

    kind: str = ""
    """Shown instead of the resource's own kind, unless empty."""
    api_version: str = ""

    def data(self, item: Item) -> bytes:
        """An object as JSON."""
        return item.data

    def change(self, kind: str, item: Item) -> bytes:
        """An event of a watch about an object that is there."""
        return line(kind, self.data(item))

    def removal(self, event: Event) -> bytes:
        """The event of a watch about an object that is gone, or no longer selected.

        What is no longer selected is shown as it was last, at the revision of the change.
        """
        if event.deleted or event.before is None:
            return line("DELETED", self.data(event.after))
        last = event.before.object
        metadata = {**last["metadata"], "resourceVersion": str(event.revision)}
        shown = Item(event.after.key, event.revision, {**last, "metadata": metadata})
        return line("DELETED", self.data(shown))


class Metadata(View):
    """Metadata only."""

    def data(self, item: Item) -> bytes:
        """The metadata as JSON."""
        return item.partial


class CoreEvents(View):
    """Events as core/v1 has them."""

    def data(self, item: Item) -> bytes:
        """The event as JSON."""
        return wire.encode(core_event(item.object))


def view(kind: Kind, accept: str) -> View:
    """The view for a kind and an Accept header."""
    if "as=PartialObjectMetadata" in accept:
        return Metadata(kind="PartialObjectMetadata", api_version=META)
    if kind is kinds.CORE_EVENTS:
        return CoreEvents()
    return View()


def core_event(body: Object) -> Object:
    """Convert an events.k8s.io/v1 Event to core/v1."""
    made = {**body, "apiVersion": "v1"}
    for old, new in EVENT_FIELDS:
        if new in made:
            made[old] = made.pop(new)
    made.setdefault("source", {})
    return made


def stored_event(body: Object) -> Object:
    """Convert a core/v1 Event to events.k8s.io/v1."""
    made = {**body, "apiVersion": kinds.EVENTS.api_version}
    for old, new in EVENT_FIELDS:
        if old in made:
            made[new] = made.pop(old)
    return made


EVENT_FIELDS = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)


def line(kind: str, data: bytes) -> bytes:
    """One event of a watch."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), data)


def listed(kind: Kind, shown: View, items: Iterable[Item], metadata: Object) -> bytes:
    """A List."""
    name = f"{shown.kind or kind.kind}List"
    version = shown.api_version or kind.api_version
    head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
        name.encode(),
        version.encode(),
        wire.encode(metadata),
    )
    told: Iterable[bytes] = map(shown.data, items)
    if not kind.custom and not shown.kind:
        # Items of built-in kinds say neither kind nor apiVersion.
        skip = len(b'{"kind":"%s","apiVersion":"%s",' % (kind.kind.encode(), version.encode()))
        told = (b"{" + each[skip:] for each in told)
    return head + b",".join(told) + b"]}"
