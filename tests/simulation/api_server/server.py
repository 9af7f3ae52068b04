"""The API server: one request in, one answer out, at once; and levers for faults."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from tests.simulation.api_server import kinds, patches, routes, views, watching, wire
from tests.simulation.api_server.client import Client
from tests.simulation.api_server.expiry import Expiry
from tests.simulation.api_server.faults import Faults
from tests.simulation.api_server.kinds import Catalogue, Kind
from tests.simulation.api_server.pods import Deletions
from tests.simulation.api_server.reads import Reads
from tests.simulation.api_server.routes import Place
from tests.simulation.api_server.store import Item, Store
from tests.simulation.api_server.watching import Hub, Watch
from tests.simulation.api_server.wire import Answer, Change, Clock, Object, RefusedError, Request
from tests.simulation.api_server.writes import Options, Outcome, Target, Writes

__all__ = ["Answer", "ApiServer", "Change", "Client", "Clock", "Object", "Request", "Watch"]

HISTORY_LIMIT = 20_000
BODY_MAX = 3 * 2**20
STORED_MAX = 3 * 2**19
"""1.5 MiB: etcd takes no larger request."""

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

PATCH_TYPES = (patches.MERGE, patches.JSON, patches.STRATEGIC, patches.APPLY)
SUBRESOURCES = ("", "status", "binding", "eviction", "finalize")


class ApiServer:
    """Everything that is stored, who watches it, and who asked for what."""

    def __init__(
        self, clock: wire.Clock, chance: random.Random, *, history_limit: int = HISTORY_LIMIT
    ) -> None:
        """`history_limit` is how many events of a kind watches can go back."""
        self.clock = clock
        self.history: list[wire.Change] = []
        """Every request that writes, served or refused, in order; dry runs aren't in it."""
        self.catalogue = Catalogue([*kinds.BUILT_IN, *kinds.shipped(), kinds.COMMANDS])
        self.faults = Faults(clock, chance)
        self.store = Store(history_limit)
        self._hub = Hub(self.store, clock, chance)
        self._writes = Writes(self.store, clock, chance)
        self._deletions = Deletions(self._writes, clock)
        self._reads = Reads(self.store, self._hub)
        self._expiry = Expiry(self.store, clock)
        self._begin()

    def _begin(self) -> None:
        """Create what every cluster has from the start."""
        for name in NAMESPACES:
            self._found(kinds.NAMESPACES, name, {})
        for name, value in PRIORITIES.items():
            self._found(kinds.PRIORITY_CLASSES, name, {"value": value})

    def _found(self, kind: Kind, name: str, body: wire.Object) -> None:
        whole = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name},
            **body,
        }
        target = Target(kind=kind)
        self._writes.create(target, whole, Options())

    def ask(self, request: wire.Request) -> wire.Answer | watching.Watch:
        """Answer a request. A watch is started by its receiver."""
        try:
            return self._answer(request)
        except RefusedError as refused:
            return refused.answer()

    def compact(self) -> None:
        """Make all resourceVersions and continue tokens of the past answer 410."""
        self.store.compact()

    def end_watches(self, key: str = "") -> None:
        """End all watches, or those of one kind, as a restart of the API server does."""
        self._hub.end_all(self.catalogue.called(key) if key else None)

    def serve(self, key: str, *, on: bool) -> None:
        """Serve a kind, or no longer; its objects stay, and its watches end."""
        self.catalogue.serve(key, on=on)
        if not on:
            self.end_watches(key)

    def _answer(self, request: wire.Request) -> wire.Answer | watching.Watch:
        place = routes.place(self.catalogue, request.path)
        writing = place is not None and request.method != "GET"
        try:
            self.faults.admit(request)
            if place is None:
                return self._elsewhere(request)
            verb = _verb(request, place)
            self.faults.authorize(request.user, verb, place)
        except RefusedError as refused:
            if writing and place is not None:
                self._note(request, place, refused=refused)
            raise
        if not writing:
            return self._read(request, place)
        outcome = self._write(request, place)
        self.faults.lose_answer()
        return outcome

    def _elsewhere(self, request: wire.Request) -> wire.Answer:
        """Discovery, health and reviews."""
        if request.method == "GET" and request.path in ("/healthz", "/livez", "/readyz"):
            return wire.Answer(status=200, body=b"ok", headers={"content-type": "text/plain"})
        found = routes.discovered(self.catalogue, request.path)
        if found is not None and request.method == "GET":
            return _json(200, wire.encode(found))
        if request.path.endswith("/selfsubjectaccessreviews") and request.method == "POST":
            review = _decoded(request.body)
            review["status"] = {"allowed": self.faults.allows(request.user, review)}
            return _json(201, wire.encode(review))
        if not routes.is_served(self.catalogue, request.path):
            text = {"content-type": "text/plain; charset=utf-8"}
            return wire.Answer(status=404, body=b"404 page not found\n", headers=text)
        raise wire.unknown_path()

    def _read(self, request: wire.Request, place: Place) -> wire.Answer | watching.Watch:
        accept = request.headers.get("accept", "")
        if request.query.get("watch") in ("true", "1"):
            return self._reads.watch(place, request.query, accept)
        if place.name:
            return _json(200, self._reads.get(place, accept))
        return _json(200, self._reads.list(place, request.query, accept))

    def _write(self, request: wire.Request, place: Place) -> wire.Answer:
        if request.method == "DELETE" and not place.name:
            return self._delete_collection(request, place)
        known = self._known(place)
        try:
            outcome = self._carry_out(request, place)
        except RefusedError as refused:
            self._note(request, place, refused=refused, known=known)
            raise
        self._note(request, place, outcome=outcome, known=known)
        if outcome.brief:
            return _json(outcome.code, wire.encode(_brief(outcome, place)))
        return _json(outcome.code, views.view(place.kind, "").data(outcome.item))

    def _known(self, place: Place) -> Item | None:
        key = f"{place.namespace}/{place.name}" if place.kind.namespaced else place.name
        return self.store.find(place.kind, key)

    def _carry_out(self, request: wire.Request, place: Place) -> Outcome:
        if len(request.body) > BODY_MAX:
            text = f"Request entity too large: limit is {BODY_MAX}"
            raise RefusedError(413, "RequestEntityTooLarge", text, details={})
        if len(request.body) > STORED_MAX:
            raise RefusedError(500, "", "etcdserver: request is too large")
        if place.subresource not in SUBRESOURCES or (
            place.subresource == "status" and not place.kind.status
        ):
            if place.kind.custom:
                raise wire.not_found(place.kind, place.name)
            raise wire.unknown_path()
        target = Target(
            kind=kinds.EVENTS if place.kind is kinds.CORE_EVENTS else place.kind,
            namespace=place.namespace,
            name=place.name,
            subresource=place.subresource,
        )
        try:
            return METHODS[request.method](self, request, target, _options(request))
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # garbage in the body
            text = f"the object cannot be handled as a {place.kind.kind}: {error}"
            raise wire.bad_request(text) from error

    def _post(self, request: wire.Request, target: Target, options: Options) -> Outcome:
        body = _decoded(request.body)
        if target.subresource == "binding" and target.kind is kinds.PODS:
            return self._deletions.bind(target, body, dry_run=options.dry_run)
        if target.subresource == "eviction" and target.kind is kinds.PODS:
            return self._deletions.evict(target, body, dry_run=options.dry_run)
        if target.name:
            raise _method_not_allowed()
        if target.kind.namespaced and not target.namespace:
            raise _method_not_allowed()
        made = self._writes.create(target, self._typed(body, request, target), options)
        if target.kind is kinds.EVENTS and not options.dry_run:
            self._expiry.note(made.item)
        return made

    def _put(self, request: wire.Request, target: Target, options: Options) -> Outcome:
        if not target.name:
            raise _method_not_allowed()
        body = self._typed(_decoded(request.body), request, target)
        if target.subresource == "finalize":
            return self._deletions.finalize(target, body)
        return self._writes.replace(target, body, options)

    def _patch(self, request: wire.Request, target: Target, options: Options) -> Outcome:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip()
        if content_type not in PATCH_TYPES:
            text = "415: Unsupported Media Type"
            raise RefusedError(415, "UnsupportedMediaType", text, details={})
        if not target.name:
            raise _method_not_allowed()
        if content_type == patches.APPLY:
            body = _decoded_yaml(request.body)
        else:
            body = _decoded_patch(request.body)
        return self._writes.patch(target, content_type, body, options)

    def _delete(self, request: wire.Request, target: Target, options: Options) -> Outcome:
        asked = _delete_options(request)
        dry_run = options.dry_run or bool(asked.get("dryRun"))
        return self._deletions.delete(target, asked, dry_run=dry_run)

    def _delete_collection(self, request: wire.Request, place: Place) -> wire.Answer:
        """Delete all that is selected, each as a change of its own."""
        listed = wire.decode(self._reads.list(place, request.query, ""))
        for item in listed["items"]:
            found = item["metadata"]
            one = Place(kind=place.kind, namespace=found.get("namespace", ""), name=found["name"])
            known = self._known(one)
            outcome = self._carry_out(request, one)
            self._note(request, one, outcome=outcome, known=known)
        return _json(200, wire.encode(listed))

    def _typed(self, body: wire.Object, request: wire.Request, target: Target) -> wire.Object:
        """The object as it is stored, once its kind is the right one."""
        kind = target.kind
        if kind is kinds.EVENTS and request.path.startswith("/api/v1/"):
            body = views.stored_event({**body, "apiVersion": kind.api_version})
        given = (body.get("kind") or kind.kind, body.get("apiVersion") or kind.api_version)
        if kind.custom and not body.get("kind"):
            text = f"the object provided is unrecognized (must be of type {kind.kind}): Object"
            raise wire.bad_request(f"{text} 'Kind' is missing")
        if given != (kind.kind, kind.api_version):
            text = f'{given[0]} in version "{given[1]}" cannot be handled as a {kind.kind}'
            raise wire.bad_request(text)
        return {"kind": kind.kind, "apiVersion": kind.api_version, **body}

    def _note(
        self,
        request: wire.Request,
        place: Place,
        *,
        outcome: Outcome | None = None,
        refused: RefusedError | None = None,
        known: Item | None = None,
    ) -> None:
        """Append to the history."""
        if request.query.get("dryRun") or b'"dryRun"' in request.body:
            return
        before = known.object if known is not None else None
        after = None
        found: Mapping[str, Any] = before["metadata"] if before else {}
        if outcome is not None:
            found = outcome.item.object["metadata"]
            after = None if outcome.gone else outcome.item.object
        self.history.append(
            wire.Change(
                at=self.clock.now(),
                user=request.user,
                verb=_change_verb(request, place),
                resource=place.kind.key,
                subresource=place.subresource,
                namespace=place.namespace,
                name=place.name or found.get("name", ""),
                uid=found.get("uid", ""),
                code=outcome.code if outcome else refused.code if refused else 0,
                before=before,
                after=after,
                revision=self.store.revision,
                origin=request.headers.get("x-simulated-process", ""),
                manager=request.query.get("fieldManager", ""),
            )
        )


Method = Callable[[ApiServer, wire.Request, Target, Options], Outcome]
METHODS: Mapping[str, Method] = {
    "POST": ApiServer._post,
    "PUT": ApiServer._put,
    "PATCH": ApiServer._patch,
    "DELETE": ApiServer._delete,
}


def _json(status: int, body: bytes) -> wire.Answer:
    return wire.Answer(status=status, body=body, headers=wire.JSON_HEADERS)


def _brief(outcome: Outcome, place: Place) -> wire.Object:
    """The Status that answers a deletion, a binding or an eviction."""
    if outcome.code == 201:
        return wire.success(201)
    details: wire.Object = {"name": place.name}
    if place.kind.group:
        details["group"] = place.kind.group
    details |= {"kind": place.kind.plural, "uid": outcome.item.object["metadata"]["uid"]}
    return wire.success(200, details)


def _verb(request: wire.Request, place: Place) -> str:
    """The verb as RBAC calls it."""
    if request.method == "GET":
        if request.query.get("watch") in ("true", "1"):
            return "watch"
        return "get" if place.name else "list"
    if request.method == "DELETE":
        return "delete" if place.name else "deletecollection"
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch"}
    if request.method not in verbs:
        raise _method_not_allowed()
    return verbs[request.method]


def _change_verb(request: wire.Request, place: Place) -> str:
    special = {"binding": "bind", "eviction": "evict"}.get(place.subresource)
    if special:
        return special
    if request.headers.get("content-type", "").startswith(patches.APPLY):
        return "apply"
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    return verbs.get(request.method, request.method.lower())


def _method_not_allowed() -> RefusedError:
    text = "the server does not allow this method on the requested resource"
    return RefusedError(405, "MethodNotAllowed", text, details={})


def _options(request: wire.Request) -> Options:
    query = request.query
    manager = query.get("fieldManager", "")
    if not manager and "apply" not in request.headers.get("content-type", ""):
        manager = request.headers.get("user-agent", "").partition("/")[0] or "unknown"
    return Options(
        manager=manager,
        force=query.get("force") in ("true", "1"),
        dry_run="dryRun" in query,
    )


def _delete_options(request: wire.Request) -> wire.Object:
    asked = _decoded(request.body) if request.body else {}
    query = request.query
    if "gracePeriodSeconds" in query:
        asked["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
    if "propagationPolicy" in query:
        asked["propagationPolicy"] = query["propagationPolicy"]
    return asked


def _decoded(body: bytes) -> wire.Object:
    found = _decoded_patch(body)
    if not isinstance(found, dict):
        raise wire.bad_request("the object provided is unrecognized: not an object")
    return found


def _decoded_patch(body: bytes) -> Any:
    try:
        return wire.decode(body)
    except wire.GARBAGE as error:
        text = f"the object provided is unrecognized: json parse error: {error}"
        raise wire.bad_request(text) from None


def _decoded_yaml(body: bytes) -> Any:
    try:
        return wire.decode(body)
    except wire.GARBAGE:
        try:
            return yaml.safe_load(body)
        except yaml.YAMLError as error:
            raise wire.bad_request(f"error decoding YAML: {error}") from None
