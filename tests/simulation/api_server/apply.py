"""Server-side apply."""

from dataclasses import replace
from typing import Any

from tests.simulation.api_server import fieldsets, schemas, wire
from tests.simulation.api_server.fieldsets import Fields, Key
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.store import Item, Manager
from tests.simulation.api_server.wire import Cause, Object, RefusedError

FIRST = "before-first-apply"
UNDECLARED = "field not declared in schema"


def check(kind: Kind, where: str, body: Any, manager: str) -> None:
    """Refuse what is no configuration to apply. Raises RefusedError."""
    if not manager:
        cause = Cause(
            "fieldManager", "Required value: is required for apply patch", "FieldValueRequired"
        )
        raise wire.invalid_options([cause])
    if not isinstance(body, dict):
        raise wire.bad_request("error decoding YAML: not an object")
    given = (body.get("apiVersion", ""), body.get("kind", ""))
    if given != (kind.api_version, kind.kind):
        raise wire.bad_request(f"invalid object type: {given[0]}, Kind={given[1]}")
    if kind.schema is not None:
        for name, value in body.items():
            if name not in schemas.OUTSIDE:
                _check_declared(kind, where, kind.schema, {name: value}, "")


def _check_declared(kind: Kind, where: str, schema: schemas.Schema, value: Any, path: str) -> None:
    if isinstance(value, list):
        for number, each in enumerate(value):
            _check_declared(kind, where, schema.get("items", {}), each, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    for name, each in value.items():
        known = schemas.declared(schema, name)
        if known is None:
            text = (
                f"failed to create typed patch object ({where}; {kind.api_version}, "
                f"Kind={kind.kind}): {path}.{name}: {UNDECLARED}"
            )
            raise RefusedError(500, "", text)
        if known is not schema:
            _check_declared(kind, where, known, each, f"{path}.{name}")


def sole(kind: Kind, manager: str, body: Object) -> tuple[Manager, ...]:
    """The managers of an object that an apply makes of this configuration."""
    fields = fieldsets.of(kind, body, "")
    return (Manager(name=manager, applies=True, subresource="", fields=fields),)


def after_update(
    kind: Kind, item: Item | None, new: Object, manager: str, subresource: str
) -> tuple[Manager, ...]:
    """The managers once an object was created or updated by other means than apply.

    What an update changes belongs to its manager alone. Built-in kinds are followed from the first
    apply on.
    """
    before = item.managers if item is not None else ()
    if not kind.custom and not before:
        return ()
    old = item.object if item is not None else {}
    now = fieldsets.of(kind, new, subresource)
    changed = frozenset(
        path for path in now if fieldsets.value_at(old, path) != fieldsets.value_at(new, path)
    )
    there = now if item is None else _everything(kind, new)
    kept = []
    mine = Manager(name=manager, applies=False, subresource=subresource, fields=changed)
    for each in before:
        if _same(each, mine):
            mine = replace(mine, fields=changed | (each.fields & there))
        else:
            kept.append(replace(each, fields=(each.fields - changed) & there))
    return tuple(each for each in (*kept, mine) if each.fields)


def _everything(kind: Kind, body: Object) -> Fields:
    return fieldsets.of(kind, body, "") | fieldsets.of(kind, body, "status")


def _same(one: Manager, other: Manager) -> bool:
    return (one.name, one.applies, one.subresource) == (
        other.name,
        other.applies,
        other.subresource,
    )


def merged(
    kind: Kind,
    item: Item,
    body: Object,
    mine: Manager,
    *,
    force: bool,
) -> tuple[Object, tuple[Manager, ...]]:
    """The object with the fields applied, and its managers. Raises RefusedError.

    `mine` is the manager without fields.
    """
    live = item.copy()
    before = item.managers
    if not before:
        fields = _everything(kind, live)
        before = (Manager(name=FIRST, applies=False, subresource="", fields=fields),)
    wanted = fieldsets.of(kind, body, mine.subresource)
    others = [each for each in before if not _same(each, mine)]
    contested = {
        each: frozenset(
            path
            for path in each.fields & wanted
            if fieldsets.value_at(live, path) != fieldsets.value_at(body, path)
        )
        for each in others
    }
    if not force and any(contested.values()):
        raise _conflict(kind, contested)
    kept = [replace(each, fields=each.fields - contested[each]) for each in others]
    last = next((each.fields for each in before if _same(each, mine)), frozenset())
    for name, value in body.items():
        if name not in ("apiVersion", "kind") and fieldsets.writable(kind, name, mine.subresource):
            schema = (
                fieldsets.METADATA
                if name == "metadata"
                else kind.schema and (fieldsets.child(kind.schema, name))
            )
            live[name] = _merge(schema, name, live.get(name), value)
    owned = wanted.union(*(each.fields for each in kept))
    gone = sorted(last - owned, key=lambda path: (len(path), fieldsets.text(path)))
    for path in gone:
        if not any(other[: len(path)] == path for other in owned):
            fieldsets.remove(live, path)
    managers = (*kept, replace(mine, fields=wanted))
    return live, tuple(manager for manager in managers if manager.fields)


def _merge(schema: fieldsets.Schema, name: str, live: Any, given: Any) -> Any:
    """Merge a configuration into what there is."""
    if isinstance(given, dict) and not fieldsets.is_whole(schema, name, given):
        made = live if isinstance(live, dict) else {}
        for key, value in given.items():
            made[key] = _merge(fieldsets.child(schema, key), key, made.get(key), value)
        return made
    keys = fieldsets.list_keys(schema, name) if isinstance(given, list) else ()
    if not keys:
        return given
    found = live if isinstance(live, list) else []
    for item in given:
        where = Key.of(keys, item).find(found)
        if where is None:
            found.append(item)
        elif keys != fieldsets.SET:
            found[where] = _merge(fieldsets.items_of(schema), "", found[where], item)
    return found


def _conflict(kind: Kind, contested: dict[Manager, Fields]) -> RefusedError:
    causes = [
        Cause(
            fieldsets.text(path),
            f'conflict with "{manager.name}" using {kind.api_version}',
            "FieldManagerConflict",
        )
        for manager, paths in contested.items()
        for path in sorted(paths, key=fieldsets.text)
    ]
    return wire.apply_conflict(causes)
