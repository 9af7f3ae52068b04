"""Creates, updates, patches and deletions of single objects, as kube-apiserver carries them out.

Every function works on copies; what is stored is never changed in place.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.simulation.api_server import admission, apply, kinds, metadata, patches, schemas, wire
from tests.simulation.api_server.admission import Moment
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.store import Item, Manager, Store
from tests.simulation.api_server.wire import Cause, Clock, Object, RefusedError

NAME_ATTEMPTS = 8
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which object a request is about."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return f"{self.namespace}/{self.name}" if self.kind.namespaced else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Query parameters of a write."""

    manager: str = ""
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a write did."""

    code: int
    item: Item
    """The object as answered."""
    before: Object | None = None
    gone: bool = False
    """Whether the object is no longer stored."""
    brief: bool = False
    """Whether the answer is a Status instead of the object."""


class Writes:
    """Changes the store."""

    def __init__(self, stored: Store, clock: Clock, chance: random.Random) -> None:
        self.store = stored
        self._clock = clock
        self._chance = chance

    def stamp(self) -> str:
        """The time, as objects have it."""
        return metadata.stamp(self._clock.now())

    def existing(self, target: Target) -> Item:
        """The object; RefusedError."""
        item = self.store.find(target.kind, target.key)
        if item is None:
            raise wire.not_found(target.kind, target.name)
        return item

    def create(self, target: Target, body: Object, options: Options) -> Outcome:
        """Create an object. Raises RefusedError."""
        kind = target.kind
        found = metadata.tidied(body)
        self._check_namespace(target, found)
        if found.get("resourceVersion"):
            text = "resourceVersion should not be set on objects to be created"
            raise RefusedError(500, "", text)
        for key in metadata.OWN:
            found.pop(key, None)
        generated = not found.get("name") and bool(found.get("generateName"))
        for _ in range(NAME_ATTEMPTS):
            if generated:
                found["name"] = metadata.generated_name(found["generateName"], self._chance)
            key = replace(target, name=found.get("name", "")).key
            if not generated or key not in self.store.of(kind).items:
                break
        found["uid"] = metadata.uid(self._chance)
        found["creationTimestamp"] = self.stamp()
        if kind.generations:
            found["generation"] = 1
        body["metadata"] = found
        self._complete(kind, body)
        if key in self.store.of(kind).items:
            raise wire.already_exists(kind, found["name"])
        managers = apply.after_update(kind, None, body, options.manager, "")
        if options.dry_run:
            return Outcome(code=201, item=Item(key, 0, body))
        return Outcome(code=201, item=self.store.put(kind, key, body, managers))

    def _complete(self, kind: Kind, body: Object) -> None:
        """Add what a new object gets by default, and check it."""
        found = body["metadata"]
        if kind.status and not kind.status_at_birth:
            body.pop("status", None)
        admission.complete(kind, body, Moment(self.store, self._clock.now()))
        causes = metadata.problems(kind, found)
        if kind.schema is not None:
            causes += schemas.settle(kind.schema, body, None)
        else:
            causes += admission.problems(kind, body)
        if causes:
            raise wire.invalid(kind, found.get("name", ""), causes)

    def _check_namespace(self, target: Target, found: Object) -> None:
        if not target.kind.namespaced:
            found.pop("namespace", None)
            return
        if found.setdefault("namespace", target.namespace) != target.namespace:
            text = "the namespace of the provided object does not match the namespace sent on the"
            raise wire.bad_request(f"{text} request")
        space = self.store.find(kinds.NAMESPACES, target.namespace)
        if space is None:
            raise wire.not_found(kinds.NAMESPACES, target.namespace)
        if "deletionTimestamp" in space.object["metadata"]:
            text = (
                f"unable to create new content in namespace {target.namespace} because it is "
                "being terminated"
            )
            refused = wire.forbidden(target.kind, found.get("name", ""), text)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {target.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            refused.details = {**(refused.details or {}), "causes": [cause]}
            raise refused

    def replace(self, target: Target, body: Object, options: Options) -> Outcome:
        """Update an object with PUT. Raises RefusedError."""
        kind = target.kind
        found = metadata.tidied(body)
        if found.setdefault("name", target.name) != target.name:
            text = f"the name of the object ({found['name']}) does not match the name on the URL"
            raise wire.bad_request(f"{text} ({target.name})")
        if target.namespace and found.setdefault("namespace", target.namespace) != target.namespace:
            text = "the namespace of the provided object does not match the namespace sent on the"
            raise wire.bad_request(f"{text} request")
        if not found.get("resourceVersion") and not kind.unconditional:
            text = "Invalid value: 0: must be specified for an update"
            cause = Cause("metadata.resourceVersion", text)
            raise wire.invalid_update(kind, target.name, cause)
        item = self.store.find(kind, target.key)
        if item is None:
            return self._born_by_update(target, body, options)
        self._check_uid(target, found.get("uid"), item.object["metadata"]["uid"])
        return self._update(target, item, body, options)

    def _born_by_update(self, target: Target, body: Object, options: Options) -> Outcome:
        """Create the object instead, whatever version the request speaks of."""
        found = body["metadata"]
        if not target.kind.born_by_update:
            raise wire.not_found(target.kind, target.name)
        self._check_uid(target, found.get("uid"), "")
        found.pop("resourceVersion", None)
        return self.create(target, body, options)

    def _check_uid(self, target: Target, given: str | None, stored: str) -> None:
        if given and given != stored:
            raise wire.conflict(target.kind, target.name, wire.precondition("UID", given, stored))

    def patch(self, target: Target, content_type: str, body: Any, options: Options) -> Outcome:
        """Patch an object. Raises RefusedError."""
        if content_type == patches.APPLY:
            return self._apply(target, body, options)
        item = self.existing(target)
        whole = item.copy()
        if content_type == patches.JSON:
            whole = patches.json_patch(whole, body)
        elif not isinstance(body, dict):
            raise wire.bad_request("json: cannot unmarshal into Go value of type map[string]any")
        elif content_type == patches.MERGE:
            whole = patches.merge(whole, body)
        elif content_type == patches.STRATEGIC and not target.kind.custom:
            whole = patches.strategic(whole, body)
        else:
            text = "the body of the request was in an unknown format - accepted media types include"
            raise RefusedError(415, "UnsupportedMediaType", text, details={})
        return self._patched(target, item, whole, options)

    def _patched(self, target: Target, item: Item, whole: Object, options: Options) -> Outcome:
        found = metadata.tidied(whole)
        self._check_identity(target, found, item)
        return self._update(target, item, whole, options)

    def _check_identity(self, target: Target, found: Object, item: Item) -> None:
        """A patch must leave alone what says which object this is."""
        if target.kind.custom and target.subresource:
            return  # all metadata but the version is ignored
        stored = item.object["metadata"]
        if not found.get("name"):
            text = f"the name of the object ({target.name} based on URL) was undeterminable"
            raise wire.bad_request(f"{text}: name must be provided")
        wrong = [key for key in ("name", "namespace", "uid") if _differs(found, stored, key)]
        if "deletionTimestamp" not in stored and "deletionTimestamp" in found:
            wrong.append("deletionTimestamp")
        if wrong:
            text = "Invalid value: {}: field is immutable"
            causes = [Cause(f"metadata.{key}", text.format(f'"{found[key]}"')) for key in wrong]
            raise wire.invalid(target.kind, target.name, causes)
        found.update(uid=stored["uid"])

    def _apply(self, target: Target, body: Any, options: Options) -> Outcome:
        """Server-side apply: update the fields of a manager, or create the object."""
        kind = target.kind
        where = f"{target.namespace}/{target.name}"
        apply.check(kind, where, body, options.manager)
        item = self.store.find(kind, target.key)
        given = metadata.tidied(body)
        if item is None:
            return self._born_by_apply(target, body, options)
        mine = Manager(
            name=options.manager, applies=True, subresource=target.subresource, fields=frozenset()
        )
        whole, managers = apply.merged(kind, item, body, mine, force=options.force)
        found = metadata.tidied(whole)
        self._check_identity(target, {**found, **given}, item)
        found["resourceVersion"] = given.get("resourceVersion", found["resourceVersion"])
        return self._update(target, item, whole, options, managers)

    def _born_by_apply(self, target: Target, body: Object, options: Options) -> Outcome:
        kind, given = target.kind, body["metadata"]
        if target.subresource:
            raise wire.not_found(kind, target.name)
        if given.get("uid"):
            text = (
                f"uid mismatch: the provided object specified uid {given['uid']}, and no existing "
                "object was found"
            )
            raise wire.conflict(kind, target.name, text)
        if given.get("resourceVersion"):
            raise wire.conflict(kind, target.name, MODIFIED)
        given["name"] = target.name
        managers = apply.sole(kind, options.manager, body)
        made = self.create(target, body, options)
        made.item.managers = managers
        return made

    def _update(
        self,
        target: Target,
        item: Item,
        whole: Object,
        options: Options,
        managers: tuple[Manager, ...] | None = None,
    ) -> Outcome:
        """Store a changed object, unless nothing has changed."""
        kind, old = target.kind, item.object
        found = whole["metadata"]
        version = found.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise wire.conflict(kind, target.name, MODIFIED)
        admission.without_nulls(whole)
        self._protect(target, whole, old)
        self._check_update(kind, whole, old)
        after = (
            apply.after_update(kind, item, whole, options.manager, target.subresource)
            if managers is None
            else managers
        )
        return self._store_update(target, item, whole, after, options)

    def _store_update(
        self,
        target: Target,
        item: Item,
        whole: Object,
        managers: tuple[Manager, ...],
        options: Options,
    ) -> Outcome:
        kind, old = target.kind, item.object
        found = whole["metadata"]
        found["resourceVersion"] = old["metadata"]["resourceVersion"]
        if whole == old and managers == item.managers:
            return Outcome(code=200, item=item, before=old)
        if kind.generations and has_new_generation(kind, old, whole):
            found["generation"] = old["metadata"].get("generation", 0) + 1
        gone = finished(kind, found)
        if options.dry_run:
            return Outcome(code=200, item=Item(item.key, item.revision, whole), before=old)
        if gone:
            self.store.remove(kind, item.key, {**whole, "metadata": dict(found)})
            last = Item(item.key, item.revision, whole)
            return Outcome(code=200, item=last, before=old, gone=True)
        stored = self.store.put(kind, item.key, whole, managers)
        return Outcome(code=200, item=stored, before=old)

    def _protect(self, target: Target, whole: Object, old: Object) -> None:
        """Undo what this request may not change."""
        kind = target.kind
        for key in metadata.OWN:
            whole["metadata"].pop(key, None)
            if key in old["metadata"]:
                whole["metadata"][key] = old["metadata"][key]
        whole.update(apiVersion=old["apiVersion"], kind=old["kind"])
        if target.subresource == "status":
            for key in [key for key in whole if key not in KEPT_BY_STATUS]:
                del whole[key]
            whole |= {key: value for key, value in old.items() if key not in KEPT_BY_STATUS}
            if kind.custom:
                whole["metadata"] = dict(old["metadata"])
        elif kind.status:
            whole.pop("status", None)
            if "status" in old:
                whole["status"] = old["status"]

    def _check_update(self, kind: Kind, whole: Object, old: Object) -> None:
        found = whole["metadata"]
        causes = metadata.problems(kind, found)
        if "deletionTimestamp" in found:
            known = old["metadata"].get("finalizers", ())
            if fresh := [each for each in found.get("finalizers", ()) if each not in known]:
                text = (
                    "Forbidden: no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers {fresh}"
                )
                causes.append(Cause("metadata.finalizers", text, "FieldValueForbidden"))
        if kind.schema is not None:
            causes += schemas.settle(kind.schema, whole, old)
        else:
            causes += admission.problems(kind, whole) + admission.changes(kind, whole, old)
        if causes:
            raise wire.invalid(kind, found["name"], causes)

    def change(self, target: Target, alter: Callable[[Object], None]) -> Item:
        """Change an object by hand, on behalf of a subresource."""
        item = self.existing(target)
        whole = item.copy()
        alter(whole)
        return self.store.put(target.kind, item.key, whole, item.managers)


OUTSIDE = {"apiVersion", "kind", "metadata"}


def _differs(found: Object, stored: Object, key: str) -> bool:
    """Whether a field is given, and not as it is stored."""
    return bool(found.get(key)) and found[key] != stored.get(key)


KEPT_BY_STATUS = {"apiVersion", "kind", "metadata", "status"}


def finished(kind: Kind, found: Object) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    if "deletionTimestamp" not in found or found.get("finalizers"):
        return False
    return kind is not kinds.PODS or found.get("deletionGracePeriodSeconds", 0) == 0


def has_new_generation(kind: Kind, old: Object, new: Object) -> bool:
    """Whether more than metadata and status has changed; status counts without a subresource."""
    ignored = OUTSIDE | {"status"} if kind.status else OUTSIDE
    return any(old.get(key) != new.get(key) for key in (old.keys() | new.keys()) - ignored)
