"""Watches: changes of a collection as lines of JSON, in the order of their revisions.

Events reach watches in a call of the clock of their own, never within the request that caused
them, so that no client is called while it asks.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.api_server import selectors, views, wire
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.selectors import Match
from tests.simulation.api_server.store import Collection, Event, Store
from tests.simulation.api_server.views import View
from tests.simulation.api_server.wire import Clock, Object

BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_SECONDS = 2.0
"""How long before the end of a watch its last bookmark comes."""
SECONDS = 1800.0
"""Of a watch without timeoutSeconds; up to as much again is added by chance."""

INITIAL_END = "k8s.io/initial-events-end"

Send = Callable[[bytes], None]


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for."""

    kind: Kind
    namespace: str = ""
    match: Match = selectors.everything
    since: int = 0
    """0: from now on, after all objects as ADDED."""
    bookmarks: bool = False
    initial_end: bool = False
    """Whether a bookmark tells that all objects there were have been sent."""
    seconds: float = SECONDS
    view: View


class Watch:
    """One watch, as ApiServer.ask returns it."""

    def __init__(self, hub: "Hub", options: Options) -> None:
        self._hub = hub
        self.options = options
        self._revision = 0
        self._started_at = 0
        self._send: Send = lambda _: None
        self._end = _nothing
        self._cancel_bookmark = _nothing
        self._cancel_end = _nothing

    def start(self, send: Send, end: Callable[[], None]) -> None:
        """Send what there is already, and go on; `end` is called when the server ends the watch.

        A watch that starts too late gets an ERROR, and ends.
        """
        self._send, self._end = send, end
        hub, options = self._hub, self.options
        collection = hub.store.of(options.kind)
        if options.since and options.since < collection.floor:
            error = wire.expired(f"too old resource version: {options.since} ({collection.floor})")
            send(views.line("ERROR", wire.encode({**error.status(), "reason": error.reason})))
            end()
            return
        self._revision = hub.store.revision
        self._started_at = options.since or self._revision
        if options.since:
            for event in collection.since(options.since):
                self._started_at = event.revision
                self.show(event)
        else:
            self._show_all(collection)
        hub.add(self)
        clock = hub.clock
        self._cancel_end = clock.after(options.seconds, self._time_out)
        if options.bookmarks:
            self._plan_bookmark(options.seconds)

    def stop(self) -> None:
        """The client is gone."""
        self._cancel_bookmark()
        self._cancel_end()
        self._hub.drop(self)

    def finish(self) -> None:
        """End the watch from the server's side."""
        self.stop()
        self._end()

    def take(self, event: Event) -> None:
        """Hand on an event unless it was sent at the start."""
        if event.revision > self._revision:
            self._revision = event.revision
            self.show(event)

    def show(self, event: Event) -> None:
        """Send an event as it is under the selectors, if at all."""
        options = self.options
        after = event.after
        if options.namespace and not after.key.startswith(f"{options.namespace}/"):
            return
        match = options.match
        was = event.before is not None and match(event.before.object)
        now = not event.deleted and match(after.object)
        if now:
            self._send(options.view.change("MODIFIED" if was else "ADDED", after))
        elif was:
            self._send(options.view.removal(event))

    def _show_all(self, collection: Collection) -> None:
        options = self.options
        for item in collection.within(options.namespace):
            if options.match(item.object):
                self._send(options.view.change("ADDED", item))
        if options.initial_end:
            self._bookmark(self._revision, {"annotations": {INITIAL_END: "true"}})

    def _plan_bookmark(self, seconds_left: float) -> None:
        """Send bookmarks in time, but none before something of the kind is written."""
        soon = min(BOOKMARK_SECONDS, seconds_left - LAST_BOOKMARK_SECONDS)
        if soon <= 0:
            return

        def due() -> None:
            self._hub.deliver()
            last = self._hub.store.of(self.options.kind).last
            if last > self._started_at:
                self._bookmark(last, {})
            self._plan_bookmark(seconds_left - soon)

        self._cancel_bookmark = self._hub.clock.after(soon, due)

    def _bookmark(self, revision: int, metadata: Object) -> None:
        kind = self.options.kind
        body = {
            "kind": self.options.view.kind or kind.kind,
            "apiVersion": self.options.view.api_version or kind.api_version,
            "metadata": {"resourceVersion": str(revision), **metadata},
        }
        self._send(views.line("BOOKMARK", wire.encode(body)))

    def _time_out(self) -> None:
        self._hub.deliver()
        self.finish()


class Hub:
    """All open watches."""

    def __init__(self, stored: Store, clock: Clock, chance: random.Random) -> None:
        self.store = stored
        self.clock = clock
        self._chance = chance
        self._open: dict[Kind, dict[Watch, None]] = {}
        self._waiting: deque[Event] = deque()
        self._planned = False
        stored.listen = self._note

    def add(self, watch: Watch) -> None:
        """Send events to this watch from now on."""
        self._open.setdefault(self._kind(watch), {})[watch] = None

    def drop(self, watch: Watch) -> None:
        """Send nothing more to this watch."""
        self._open.get(self._kind(watch), {}).pop(watch, None)

    def end_all(self, kind: Kind | None = None) -> None:
        """End all watches, or those of one kind."""
        for each, watches in list(self._open.items()):
            if kind is None or each is kind:
                for watch in list(watches):
                    watch.finish()

    def default_seconds(self) -> float:
        """How long a watch lasts that names no time."""
        return SECONDS * (1 + self._chance.random())

    def deliver(self) -> None:
        """Send all events that wait."""
        while self._waiting:
            event = self._waiting.popleft()
            for watch in list(self._open.get(event.kind, ())):
                watch.take(event)

    def _kind(self, watch: Watch) -> Kind:
        return self.store.of(watch.options.kind).kind

    def _note(self, event: Event) -> None:
        if not self._open.get(event.kind):
            return
        self._waiting.append(event)
        if not self._planned:
            self._planned = True
            self.clock.after(0.0, self._due)

    def _due(self) -> None:
        self._planned = False
        self.deliver()
