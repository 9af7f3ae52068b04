"""Which fields an object has, as server-side apply sees them: owned one by one, or as a whole."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from tests.simulation.api_server import patches, schemas
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.wire import Object

Path: TypeAlias = tuple[object, ...]
"""Field names, and for items of a list `Key`."""
Fields: TypeAlias = frozenset[Path]
Schema: TypeAlias = Mapping[str, Any] | None

NOBODYS = {
    *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "generateName"),
}
ATOMIC = {"nodeSelector", "selector", "labelSelector"}
SET = ("",)
"""The keys of a list whose items stand for themselves."""

METADATA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
}


class Key(tuple[tuple[str, Any], ...]):
    """Tells an item of a list apart."""

    __slots__ = ()

    @classmethod
    def of(cls, keys: tuple[str, ...], item: Any) -> "Key":
        """The key of an item."""
        if keys == SET:
            return cls((("", item),))
        return cls((key, item.get(key)) for key in keys)

    def find(self, items: list[Any]) -> int | None:
        """The position of the item."""
        for number, item in enumerate(items):
            if all((item if key == "" else item.get(key)) == value for key, value in self):
                return number
        return None


def of(kind: Kind, body: Object, subresource: str) -> Fields:
    """All fields of an object that this subresource can own."""
    found: set[Path] = set()
    for name, value in body.items():
        if name in ("apiVersion", "kind") or not writable(kind, name, subresource):
            continue
        if name == "metadata":
            value = {key: each for key, each in value.items() if key not in NOBODYS}  # noqa: PLW2901
            if value:
                _collect(METADATA, name, value, (name,), found)
        else:
            _collect(child(kind.schema, name), name, value, (name,), found)
    return frozenset(found)


def writable(kind: Kind, name: str, subresource: str) -> bool:
    """Whether a write to this subresource changes the field at the top of an object."""
    if subresource == "status":
        return name == "status" or (name == "metadata" and not kind.custom)
    return not (name == "status" and kind.status)


def child(schema: Schema, name: str) -> Schema:
    """The schema of a field; None for built-in kinds."""
    return None if schema is None else schemas.declared(schema, name) or {}


def list_keys(schema: Schema, name: str) -> tuple[str, ...]:
    """What tells the items of a list apart; nothing where the list is owned as a whole."""
    if schema is None:
        return SET if name in patches.SETS else patches.LIST_KEYS.get(name, ())
    if schema.get("x-kubernetes-list-type") == "map":
        return tuple(schema["x-kubernetes-list-map-keys"])
    return SET if schema.get("x-kubernetes-list-type") == "set" else ()


def is_whole(schema: Schema, name: str, value: Any) -> bool:
    """Whether a value has one owner, who owns all of it."""
    if isinstance(value, list):
        return not list_keys(schema, name)
    if not isinstance(value, dict) or not value:
        return True
    return name in ATOMIC if schema is None else schema.get("x-kubernetes-map-type") == "atomic"


def items_of(schema: Schema) -> Schema:
    """The schema of a list's items."""
    return None if schema is None else schema.get("items", {})


def _collect(schema: Schema, name: str, value: Any, path: Path, found: set[Path]) -> None:
    if is_whole(schema, name, value):
        found.add(path)
    elif isinstance(value, dict):
        for key, each in value.items():
            _collect(child(schema, key), key, each, (*path, key), found)
    else:
        keys = list_keys(schema, name)
        for item in value:
            where = (*path, Key.of(keys, item))
            found.add(where)
            if keys != SET:
                for key, each in item.items():
                    _collect(child(items_of(schema), key), key, each, (*where, key), found)


MISSING = object()


def value_at(body: Any, path: Path) -> Any:
    """The value of a field, or MISSING. An item of a list is only there or not."""
    for part in path:
        if isinstance(part, Key):
            where = part.find(body) if isinstance(body, list) else None
            body = MISSING if where is None else body[where]
        else:
            body = body.get(part, MISSING) if isinstance(body, dict) else MISSING
        if body is MISSING:
            return MISSING
    return True if path and isinstance(path[-1], Key) else body


def remove(body: Object, path: Path) -> None:
    """Take a field out of an object, and what is empty then."""
    trail: list[Any] = [body]
    for part in path[:-1]:
        here = trail[-1]
        where = part.find(here) if isinstance(part, Key) else part
        if where is None or (isinstance(here, dict) and where not in here):
            return
        trail.append(here[where])
    last = path[-1]
    holder = trail[-1]
    where = last.find(holder) if isinstance(last, Key) else last
    if where is None or (isinstance(holder, dict) and where not in holder):
        return
    del holder[where]
    if isinstance(holder, list) and not holder and len(path) > 1:
        remove(body, path[:-1])


def text(path: Path) -> str:
    """A path as messages show it."""
    shown = ""
    for part in path:
        if isinstance(part, Key):
            inner = ",".join(f'{key}="{value}"' if key else f'="{value}"' for key, value in part)
            shown += f"[{inner}]"
        else:
            shown += f".{part}"
    return shown
