"""Patches of simulated objects, as an API server applies them."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

Found = TypeVar("Found", bound=msgspec.Struct)


def patched(found: Found, patch: Mapping[str, Any]) -> Found:
    """Return the object after a merge patch."""
    return msgspec.convert(_merged(msgspec.to_builtins(found), patch), type(found))


def _merged(plain: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data after a merge patch (RFC 7396)."""
    merged = dict(plain)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merged(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged
