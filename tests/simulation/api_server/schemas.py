"""Structural schemas of custom resources: pruning, defaults, validation."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from tests.simulation.api_server import rules, wire
from tests.simulation.api_server.wire import Cause, Object

Schema: TypeAlias = Mapping[str, Any]

UNCHECKED = Cause(
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
OUTSIDE = ("apiVersion", "kind", "metadata")
TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}


def settle(schema: Schema, body: Object, old: Object | None) -> list[Cause]:
    """Prune and default an object in place, and return what is wrong with it.

    What an update leaves as it was isn't checked again.
    """
    _fill(schema, body, root=True)
    causes = list(_problems(schema, body, old, ""))
    if causes:
        return [*causes, UNCHECKED]
    return list(_broken_rules(schema, body, old, "", body, old))


def declared(schema: Schema, name: str) -> Schema | None:
    """The schema of a field; None where there is no such field."""
    found = schema.get("properties", {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    if found is None and schema.get("x-kubernetes-preserve-unknown-fields"):
        return schema
    return found if isinstance(found, Mapping) else None


def _fill(schema: Schema, value: Any, *, root: bool = False) -> None:
    if isinstance(value, list):
        for each in value:
            _fill(schema.get("items", {}), each)
    if not isinstance(value, dict):
        return
    for name in list(value):
        if root and name in OUTSIDE:
            continue
        known = declared(schema, name)
        if known is None:
            del value[name]
        elif known is not schema:
            _fill(known, value[name])
    for name, known in schema.get("properties", {}).items():
        if name not in value and "default" in known:
            value[name] = wire.decode(wire.encode(known["default"]))
            _fill(known, value[name])


def _problems(schema: Schema, value: Any, old: Any, path: str) -> Iterator[Cause]:
    if value == old and path:
        return
    if not _has_type(schema, value):
        wanted = "integer,string" if "x-kubernetes-int-or-string" in schema else schema["type"]
        shown = NAMES.get(type(value), "number")
        text = f'Invalid value: "{shown}": {path} in body must be of type {wanted}: "{shown}"'
        yield Cause(path, text, "FieldValueTypeInvalid")
        return
    for check in CHECKS:
        text = check(schema, value, path)
        if text:
            yield Cause(path, text)
    for name in schema.get("required", ()):
        if name not in value:
            yield Cause(_joined(path, name), "Required value", "FieldValueRequired")
    for name, known, item in _children(schema, value):
        yield from _problems(known, item, _child(old, name), _joined(path, name))


def _has_type(schema: Schema, value: Any) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    wanted = TYPES.get(schema.get("type", ""))
    if wanted is None:
        return True
    return isinstance(value, wanted) and not (isinstance(value, bool) and bool not in wanted)


def _children(schema: Schema, value: Any) -> Iterator[tuple[str | int, Schema, Any]]:
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield number, schema["items"], item
    if isinstance(value, dict):
        for name, item in value.items():
            known = declared(schema, name)
            if known is not None and known is not schema and name != "metadata":
                yield name, known, item


def _child(old: Any, name: str | int) -> Any:
    if isinstance(old, dict) and isinstance(name, str):
        return old.get(name)
    if isinstance(old, list) and isinstance(name, int) and name < len(old):
        return old[name]
    return None


def _joined(path: str, name: str | int) -> str:
    if isinstance(name, int):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _bounds(schema: Schema, value: Any, path: str) -> str:
    if not isinstance(value, int | float):
        return ""
    if value < schema.get("minimum", value):
        least = schema["minimum"]
        return f"Invalid value: {value}: {path} in body should be greater than or equal to {least}"
    most = schema.get("maximum", INT_MAX.get(schema.get("format", ""), value))
    if value > most:
        return f"Invalid value: {value}: {path} in body should be less than or equal to {most}"
    return ""


INT_MAX = {"int32": 2**31 - 1, "int64": 2**63 - 1}


def _enumerated(schema: Schema, value: Any, path: str) -> str:
    del path
    if "enum" not in schema or value in schema["enum"]:
        return ""
    values = ", ".join(f'"{each}"' for each in schema["enum"])
    return f'Unsupported value: "{value}": supported values: {values}'


def _sized(schema: Schema, value: Any, path: str) -> str:
    if not isinstance(value, str | list | dict):
        return ""
    keys = {str: ("minLength", "maxLength"), list: ("minItems", "maxItems")}
    least, most = keys.get(type(value), ("minProperties", "maxProperties"))
    if len(value) > schema.get(most, len(value)):
        return f"Too long: {path} may not be more than {schema[most]} long"
    if len(value) < schema.get(least, 0):
        return f"Invalid value: {path} in body should be at least {schema[least]} chars long"
    return ""


def _patterned(schema: Schema, value: Any, path: str) -> str:
    pattern = schema.get("pattern")
    if pattern is None or not isinstance(value, str) or re.search(pattern, value):
        return ""
    return f"Invalid value: \"{value}\": {path} in body should match '{pattern}'"


CHECKS: tuple[Callable[[Schema, Any, str], str], ...] = (
    _bounds,
    _enumerated,
    _sized,
    _patterned,
)


def _broken_rules(
    schema: Schema, value: Any, old: Any, path: str, whole: Object, before: Any
) -> Iterator[Cause]:
    if path and value == old:
        return
    for rule in schema.get("x-kubernetes-validations", ()):
        text = rules.broken(rule, value, old)
        if text:
            shown = f'"{value}": ' if isinstance(value, str | int) else ""
            where = path + rule.get("fieldPath", "")
            yield Cause(where.removeprefix("."), f"Invalid value: {shown}{text}")
    for name, known, item in _children(schema, value):
        where = f"{path}[{name}]" if _is_map(schema, name) else _joined(path, name)
        yield from _broken_rules(known, item, _child(old, name), where, whole, before)


def _is_map(schema: Schema, name: str | int) -> bool:
    return name not in schema.get("properties", {})
