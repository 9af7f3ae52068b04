"""Schema validation of custom resources, with the schema from the CRD's file.

Types, limits and rules are judged, and reported, as an API server does, for every field at once.
Null values count as absent, as in API servers.
"""

import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import yaml

from vscheduler.cli.checks import cel
from vscheduler.cli.checks.cel import CelError
from vscheduler.core.config import validation
from vscheduler.mirror.decode.events import Kind

Schema: TypeAlias = Mapping[str, Any]
Path: TypeAlias = tuple[str | int, ...]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


class Fault(msgspec.Struct, frozen=True):
    """A field that violates the schema."""

    path: Path
    message: str
    by_rule: bool = False
    """Whether a validation rule failed. A failed rule doesn't keep further rules from being
    checked.
    """


def of(definition: Mapping[str, Any]) -> Schema:
    """Return the schema of the storage version of a CRD."""
    version = next(each for each in definition["spec"]["versions"] if each["storage"])
    found: Schema = version["schema"]["openAPIV3Schema"]
    return found


def faults(schema: Schema, tree: Mapping[str, Any]) -> list[Fault]:
    """Return all faults of a new object."""
    return _judged(schema, _with_defaults(schema, _without_nulls(tree)), ())


def shipped() -> Mapping[Kind, Schema]:
    """Return the schemas of the CRDs shipped with the program: in the package, or beside it in a
    checkout.
    """
    package = pathlib.Path(__file__).parents[2]
    folders = (package / "crds", package.parent / "crds")
    trees = [
        yaml.load(path.read_text(), Loader=_LOADER)  # noqa: S506 - it is a safe loader
        for path in sorted(next(filter(pathlib.Path.exists, folders)).glob("*.yaml"))
    ]
    return {Kind(tree["spec"]["names"]["kind"]): of(tree) for tree in trees}


def unknown_fields(schema: Schema, value: Any, path: Path = ()) -> Iterator[Fault]:
    """Iterate over the fields of an object that its schema doesn't have: API servers drop them.

    Values of wrong types are passed over.
    """
    if value is None or not isinstance(value, _TYPES[schema.get("type", "object")]):
        return
    for name, part, inner in _parts(schema, value):
        if inner is None:
            yield _unknown(schema, path, name)
        else:
            yield from unknown_fields(inner, part, (*path, name))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _with_defaults(schema: Schema, value: Any) -> Any:
    """Return a value with the defaults of absent fields, as an API server stores it."""
    if isinstance(value, list) and "items" in schema:
        return [_with_defaults(schema["items"], part) for part in value]
    if not isinstance(value, dict):
        return value
    parts = schema.get("properties", {})
    defaults = {name: each["default"] for name, each in parts.items() if "default" in each}
    return {
        name: _with_defaults(parts.get(name, {}), part)
        for name, part in ({**defaults, **value}).items()
    }


def _judged(schema: Schema, value: Any, path: Path) -> list[Fault]:
    """Return the faults of a value and its parts. Rules are only evaluated for otherwise valid
    values.
    """
    found = [Fault((*path, *below), message) for below, message in _itself(schema, value)]
    if not found:
        for name, part, inner in _parts(schema, value):
            if inner is None:
                found.append(_unknown(schema, path, name))
            else:
                found += _judged(inner, part, (*path, name))
    if all(fault.by_rule for fault in found):
        found += _broken(schema, value, path)
    return found


def _unknown(schema: Schema, path: Path, name: str | int) -> Fault:
    hint = validation.suggestion(name, schema["properties"])
    return Fault((*path, name), f"unknown field{hint}")


def _parts(schema: Schema, value: Any) -> Iterator[tuple[str | int, Any, Schema | None]]:
    """Iterate over the parts of a value with their schemas; None for an unknown field.

    An object whose schema lists no fields accepts any field: `metadata` is validated by Kubernetes.
    """
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield place, item, schema["items"]
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        for name, part in value.items():
            if name in properties or others or properties:
                yield name, part, properties.get(name, others)


def _itself(schema: Schema, value: Any) -> Iterator[tuple[Path, str]]:
    """Iterate over faults of the value itself, with the path below the value."""
    wanted, fields = schema.get("type"), value
    kinds = _TYPES[wanted] if wanted else (int, str)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        named = wanted or "integer,string"
        yield (), f"must be of type {named}, not {validation.described(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        listed = ", ".join(f'"{each}"' for each in schema["enum"])
        yield (), f'unsupported value "{value}"; supported values: {listed}'
    for message in _bounds(schema, value):
        yield (), message
    for name in schema.get("required", ()):
        if name not in fields:
            yield (name,), "Required value: it is missing"


def _broken(schema: Schema, value: Any, path: Path) -> Iterator[Fault]:
    """Iterate over the schema's own rules that the value violates, or that can't be evaluated."""
    if not path:  # an object's own rules see no more of its metadata
        value = {**value, "metadata": _named(value.get("metadata", {}))}
    for rule in schema.get("x-kubernetes-validations", ()):
        message = _refusal(rule, value)
        if message is not None:
            below = filter(None, rule.get("fieldPath", "").split("."))
            yield Fault((*path, *below), message, by_rule=True)


def _named(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: metadata[name] for name in ("name", "generateName") if name in metadata}


def _refusal(rule: Schema, value: Any) -> str | None:
    """Return the message of a violated rule, else None."""
    try:
        if cel.compiled(rule["rule"])(value):
            return None
        if "messageExpression" not in rule:
            return str(rule["message"])
        # Maps have no order: of several entries, the first by name is told, not one at random.
        words = rule["messageExpression"].strip()
        return str(cel.compiled(re.sub(r"\[0\]$", ".min()", words))(value))
    except CelError as error:
        return f"its rule can't be judged: {error}"


def _bounds(schema: Schema, value: Any) -> Iterator[str]:
    """Iterate over violated numeric limits, lengths and patterns."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield f"must be greater than or equal to {schema['minimum']}, not {value}"
        if value > schema.get("maximum", value):
            yield f"must be less than or equal to {schema['maximum']}, not {value}"
    for kind, least, most, unit in (
        (str, "minLength", "maxLength", "characters"),
        (list, "minItems", "maxItems", "items"),
        (dict, "minProperties", "maxProperties", "entries"),
    ):
        if isinstance(value, kind):
            if len(value) < schema.get(least, 0):
                yield f"must have at least {schema[least]} {unit}, not {len(value)}"
            if len(value) > schema.get(most, len(value)):
                yield f"must have at most {schema[most]} {unit}, not {len(value)}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"must match {schema['pattern']}"
