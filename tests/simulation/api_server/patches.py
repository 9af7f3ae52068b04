"""Patches: JSON merge patch, JSON patch, and strategic merge patch. The target is changed in place.

The server hands in a copy of the stored object.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation.api_server import wire
from tests.simulation.api_server.wire import Object, RefusedError

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

LIST_KEYS: Mapping[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "ownerReferences": ("uid",),
    "schedulingGates": ("name",),
    "hostAliases": ("ip",),
    "addresses": ("type",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
}
"""Lists of the built-in kinds whose items are told apart by fields, by the list's name."""

MERGED_KEYS: Mapping[str, tuple[str, ...]] = {**LIST_KEYS, "taints": ("key",)}
"""The same for strategic merge patches. Apply takes taints as a whole."""

SETS = {"finalizers"}
"""Lists of strings in which each string is owned by itself."""


def merge(target: Object, patch: Object) -> Object:
    """Apply a JSON merge patch (RFC 7386)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            there = target.get(key)
            target[key] = merge(there if isinstance(there, dict) else {}, value)
        else:
            target[key] = value
    return target


def strategic(target: Object, patch: Object) -> Object:
    """Apply a strategic merge patch to an object of a built-in kind. Raises RefusedError."""
    directive = patch.pop("$patch", None)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    _retain(target, patch.pop("$retainKeys", None))
    for key, value in patch.items():
        if key.startswith("$setElementOrder/"):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            _drop(target, key.partition("/")[2], value)
        elif value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            there = target.get(key)
            target[key] = strategic(there if isinstance(there, dict) else {}, value)
        elif isinstance(value, list):
            target[key] = _merged_list(key, target.get(key) or [], value)
        else:
            target[key] = value
    return target


def _retain(target: Object, kept: list[str] | None) -> None:
    for key in list(target) if kept is not None else ():
        if key not in (kept or ()):
            del target[key]


def _drop(target: Object, name: str, values: list[Any]) -> None:
    target[name] = [each for each in target.get(name) or () if each not in values]


def _merged_list(name: str, stored: list[Any], patch: list[Any]) -> list[Any]:
    if name in SETS:
        return stored + [each for each in patch if each not in stored]
    keys = MERGED_KEYS.get(name)
    if keys is None:
        return [each for each in patch if not _is_directive(each)]
    if any(_is_directive(each) and each["$patch"] == "replace" for each in patch):
        return [each for each in patch if not _is_directive(each)]
    found = list(stored)
    for each in patch:
        found = _merged_item(keys[:1], found, each)
    return found


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and "$patch" in item


def _merged_item(keys: tuple[str, ...], found: list[Any], patch: Object) -> list[Any]:
    if any(key not in patch for key in keys):
        text = f"map: {patch} does not contain declared merge key: {keys[0]}"
        raise wire.bad_request(text)
    same = [
        number
        for number, item in enumerate(found)
        if all(item.get(key) == patch[key] for key in keys)
    ]
    if patch.get("$patch") == "delete":
        return [each for number, each in enumerate(found) if number not in same]
    if not same:
        return [*found, strategic({}, patch)]
    found[same[0]] = strategic(found[same[0]], patch)
    return found


def json_patch(target: Object, steps: Any) -> Object:
    """Apply a JSON patch (RFC 6902). Raises RefusedError."""
    if not isinstance(steps, list):
        raise wire.bad_request("error decoding patch: json: cannot unmarshal into jsonpatch.Patch")
    whole: Any = target
    for step in steps:
        try:
            whole = STEPS[step["op"]](whole, step)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            message = "the server rejected our request due to an error in our request"
            raise RefusedError(422, "Invalid", message, details={}) from error
    assert isinstance(whole, dict)
    return whole


def _parts(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    return [each.replace("~1", "/").replace("~0", "~") for each in pointer.split("/")[1:]]


def _at(whole: Any, pointer: str) -> Any:
    for part in _parts(pointer):
        whole = whole[int(part)] if isinstance(whole, list) else whole[part]
    return whole


def _add(whole: Any, step: Object) -> Any:
    return _put(whole, step["path"], step["value"])


def _put(whole: Any, pointer: str, value: Any) -> Any:
    parts = _parts(pointer)
    if not parts:
        return value
    parent, last = _at(whole, pointer.rpartition("/")[0]), parts[-1]
    if isinstance(parent, list):
        where = len(parent) if last == "-" else int(last)
        if not 0 <= where <= len(parent):
            raise IndexError(last)
        parent.insert(where, value)
    else:
        parent[last] = value
    return whole


def _remove(whole: Any, step: Object) -> Any:
    parent, last = _at(whole, step["path"].rpartition("/")[0]), _parts(step["path"])[-1]
    del parent[int(last) if isinstance(parent, list) else last]
    return whole


def _replace(whole: Any, step: Object) -> Any:
    parts = _parts(step["path"])
    if not parts:
        return step["value"]
    parent = _at(whole, step["path"].rpartition("/")[0])
    parent[int(parts[-1]) if isinstance(parent, list) else parts[-1]] = step["value"]
    return whole


def _test(whole: Any, step: Object) -> Any:
    if _at(whole, step["path"]) != step.get("value"):
        raise ValueError(step["path"])
    return whole


def _move(whole: Any, step: Object) -> Any:
    value = _at(whole, step["from"])
    return _put(_remove(whole, {"path": step["from"]}), step["path"], value)


def _copy(whole: Any, step: Object) -> Any:
    value = wire.decode(wire.encode(_at(whole, step["from"])))
    return _put(whole, step["path"], value)


STEPS: Mapping[str, Callable[[Any, Object], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
    "move": _move,
    "copy": _copy,
}
