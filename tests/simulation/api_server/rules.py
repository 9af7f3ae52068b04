"""The validation rules of our CustomResourceDefinitions, in Python instead of CEL.

A rule is known by its text, so that a rule nobody has written down here fails at once.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation.api_server import quantities
from tests.simulation.api_server.wire import Object

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

Check = Callable[[Any, Any], bool]
"""Whether a value, which was another before, is fine."""


def broken(rule: Mapping[str, Any], value: Any, old: Any) -> str:
    """What is wrong, or nothing."""
    text = " ".join(rule["rule"].split())
    if text.startswith(tuple(LIMITS)):
        return _beyond(*LIMITS[next(each for each in LIMITS if text.startswith(each))], value)
    return "" if KNOWN[text](value, old) else str(rule["message"])


LIMITS = {
    "!has(self.guarantee) || !has(self.guarantee.resource) || !has(self.deserved)": (
        "guarantee.resource",
        "deserved",
    ),
    "!has(self.deserved) || !has(self.capability)": ("deserved", "capability"),
    "!has(self.guarantee) || !has(self.guarantee.resource) || !has(self.capability)": (
        "guarantee.resource",
        "capability",
    ),
}


def _beyond(low: str, high: str, spec: Object) -> str:
    """The first resource of which one field has more than the other allows."""
    less, most = _at(spec, low), _at(spec, high)
    for name in sorted(less):
        sound = name in most and all(map(quantities.is_quantity, (less[name], most[name])))
        if sound and quantities.amount(less[name]) > quantities.amount(most[name]):
            return (
                f"spec.{low} must not exceed spec.{high}; lower the first or raise the second: "
                f"{name} {less[name]} > {most[name]}"
            )
    return ""


def _at(spec: Object, path: str) -> Object:
    for name in path.split("."):
        spec = spec.get(name) or {}
    return spec


def _parent(value: Any, old: Any) -> bool:
    parent = value["spec"].get("parent")
    if parent is None or parent != value["metadata"].get("name"):
        return True
    return old is not None and old["spec"].get("parent") == parent


def _is_positive(value: Any, _: Any) -> bool:
    return not quantities.is_quantity(value) or quantities.amount(value) >= 0


def _is_name(value: Any, _: Any) -> bool:
    return value == "" or NAME.fullmatch(value) is not None


def _one_tier(value: Any, _: Any) -> bool:
    return "highestTierAllowed" not in value or value.get("highestTierName", "") == ""


def _has_values(value: Any, _: Any) -> bool:
    return value["operator"] not in ("In", "NotIn") or bool(value.get("values"))


def _has_no_values(value: Any, _: Any) -> bool:
    return value["operator"] not in ("Exists", "DoesNotExist") or not value.get("values")


def _one_selector(value: Any, _: Any) -> bool:
    return len(value.keys() & {"exactMatch", "regexMatch", "labelMatch"}) == 1


KNOWN: Mapping[str, Check] = {
    "!has(self.spec.parent) || self.spec.parent != self.metadata.name || oldSelf.hasValue() && "
    "oldSelf.value().?spec.parent == self.spec.?parent": _parent,
    "isQuantity(string(self))": lambda value, _: quantities.is_quantity(value),
    "!isQuantity(string(self)) || !quantity(string(self)).isLessThan(quantity('0'))": _is_positive,
    "self == '' || self.matches( "
    r"'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')": _is_name,
    "!has(self.highestTierAllowed) || !has(self.highestTierName) || "
    "self.highestTierName == ''": _one_tier,
    "self.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']": lambda value, _: (
        value["operator"] in ("In", "NotIn", "Exists", "DoesNotExist")
    ),
    "!(self.operator in ['In', 'NotIn']) || has(self.values) && size(self.values) > 0": _has_values,
    "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || "
    "size(self.values) == 0": _has_no_values,
    "self.type != 'HyperNode' || has(self.selector.exactMatch)": lambda value, _: (
        value["type"] != "HyperNode" or "exactMatch" in value["selector"]
    ),
    "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0) + "
    "(has(self.labelMatch) ? 1 : 0) == 1": _one_selector,
}
