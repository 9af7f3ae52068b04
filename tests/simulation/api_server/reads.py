"""Gets, lists page by page, and watches."""

import base64
from collections.abc import Iterable, Mapping

from tests.simulation.api_server import kinds, selectors, views, wire
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.routes import Place
from tests.simulation.api_server.selectors import Match
from tests.simulation.api_server.store import Item, Store
from tests.simulation.api_server.watching import Hub, Options, Watch
from tests.simulation.api_server.wire import Object, RefusedError

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter."
)


class Reads:
    """Answers requests that change nothing."""

    def __init__(self, stored: Store, hub: Hub) -> None:
        self._store = stored
        self._hub = hub

    def get(self, place: Place, accept: str) -> bytes:
        """One object. Raises RefusedError."""
        kind = place.kind
        key = f"{place.namespace}/{place.name}" if kind.namespaced else place.name
        item = self._store.find(kind, key)
        if item is None:
            raise wire.not_found(kind, place.name)
        return views.view(kind, accept).data(item)

    def list(self, place: Place, query: Mapping[str, str], accept: str) -> bytes:
        """A list, or a page of it. Raises RefusedError."""
        kind = place.kind
        match = _match(place, query)
        limit = _number(query.get("limit", ""))
        revision, start, found = self._found(place, query)
        page: list[Item] = []
        more = False
        for item in found:
            if item.key > start and match(item.object):
                if limit and len(page) == limit:
                    more = True
                    break
                page.append(item)
        metadata: Object = {"resourceVersion": str(revision)}
        if more:
            metadata["continue"] = _token(revision, page[-1].key)
            if match is selectors.everything:
                there = sum(1 for each in self._at(place, revision) if each.key > page[-1].key)
                metadata["remainingItemCount"] = there
        return views.listed(kind, views.view(kind, accept), page, metadata)

    def _found(self, place: Place, query: Mapping[str, str]) -> tuple[int, str, Iterable[Item]]:
        """The revision of a list, where its page starts, and the objects."""
        token = query.get("continue", "")
        if token:
            revision, start = _read_token(token)
            if revision < self._store.of(place.kind).floor:
                raise wire.expired(TOO_OLD)
            return revision, start, self._at(place, revision)
        asked = _version(query.get("resourceVersion", ""), listing=True)
        now = self._store.revision
        self._check_reached(asked)
        if query.get("resourceVersionMatch") == "Exact" and asked:
            if asked < self._store.of(place.kind).floor:
                raise wire.expired(f"The resourceVersion for the provided list is too old: {asked}")
            return asked, "", self._at(place, asked)
        return now, "", self._store.of(place.kind).within(place.namespace)

    def _check_reached(self, asked: int) -> None:
        now = self._store.revision
        if asked > now:
            cause = {
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            }
            raise RefusedError(
                504,
                "Timeout",
                f"Timeout: Too large resource version: {asked}, current: {now}",
                details={"causes": [cause], "retryAfterSeconds": 1},
            )

    def _at(self, place: Place, revision: int) -> Iterable[Item]:
        collection = self._store.of(place.kind)
        prefix = f"{place.namespace}/" if place.namespace else ""
        then = collection.at(revision)
        return (then[key] for key in sorted(then) if key.startswith(prefix))

    def watch(self, place: Place, query: Mapping[str, str], accept: str) -> Watch:
        """A watch, not started yet. Raises RefusedError."""
        since = _version(query.get("resourceVersion", ""), listing=False)
        initial = query.get("sendInitialEvents") == "true"
        if initial and query.get("resourceVersionMatch") != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise RefusedError(422, "Invalid", f"ListOptions is invalid: {text}")
        seconds = _number(query.get("timeoutSeconds", ""))
        options = Options(
            kind=place.kind,
            namespace=place.namespace,
            match=_match(place, query),
            since=0 if initial else since,
            bookmarks=query.get("allowWatchBookmarks") in ("true", "1"),
            initial_end=initial,
            seconds=float(seconds) if seconds else self._hub.default_seconds(),
            view=views.view(place.kind, accept),
        )
        return Watch(self._hub, options)


def _match(place: Place, query: Mapping[str, str]) -> Match:
    fields = query.get("fieldSelector", "")
    if place.name:
        fields = f"{fields},metadata.name={place.name}"
    return selectors.compiled(_stored(place.kind), query.get("labelSelector", ""), fields)


def _stored(kind: Kind) -> Kind:
    return kinds.EVENTS if kind is kinds.CORE_EVENTS else kind


def _number(text: str) -> int:
    try:
        return int(text or 0)
    except ValueError:
        message = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise wire.bad_request(message) from None


def _version(text: str, *, listing: bool) -> int:
    if not text:
        return 0
    if text.isdecimal():
        return int(text)
    message = (
        f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
        "invalid syntax"
    )
    if listing:
        raise wire.bad_request(f"invalid resource version: {message}")
    raise RefusedError(500, "", message)


def _token(revision: int, key: str) -> str:
    data = wire.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": key})
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        read = wire.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(read["rv"]), str(read["start"])
    except (*wire.GARBAGE, ValueError, KeyError, TypeError) as error:
        text = f"invalid continue token: continue key is not valid: {error}"
        raise wire.bad_request(text) from None
