"""Selector cost: how long a CEL expression about devices takes at most, without evaluating it.

From the leaves of its tree upwards: how large each value can be, and how long that takes to make.
A loop counts as often as its range may have elements, and its inner loops as often again.
Kubernetes: apiserver cel/library CostEstimator, and the limits of resource.k8s.io for attributes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from vscheduler.mirror.selector_tree import DEVICE, Kind, Tree, reads

LENGTH_MAX = 10**9
"""Longer values don't matter: nothing of this length is affordable."""

ATTRIBUTES = 32
"""How many attributes and capacities a device can have."""

FIELDS = 4
"""How many fields a device has, of which two are maps by domain."""

TEXT = 64
"""How many characters an attribute can have."""

NUMBER = 320
"""How many characters a quantity can have (selectors.DIGITS_MAX), or what any other scalar adds to
a text."""

FORMATTED = 1400
"""How many characters a number can have in format(), with a precision of 1000."""

START_MICROSECONDS = 20.0
EVERYTHING_MICROSECONDS = 30.0
"""To show an expression the whole device."""
NODE_MICROSECONDS = 0.1
ADDED_MICROSECONDS = 0.7
"""For a sum of numbers, texts or lists."""
CHARACTER_MICROSECONDS = 0.003
REPLACED_MICROSECONDS = 0.012
"""For each character that replace() may write."""
CALLBACK_MICROSECONDS = 6.0
"""For each function that is written in Python."""
CALLBACK_CHARACTER_MICROSECONDS = 0.03
"""And for each character that it reads."""
INSTRUCTION_MICROSECONDS = 0.5
"""For each instruction of a regular expression, which is compiled each time it is applied."""
STEP_MICROSECONDS = 0.01
"""For each instruction and character that it is applied to."""

UNICODE_CLASS = 5000
"""Instructions for a class like \\pL."""
WIDE_CLASS = 10
"""The same for characters outside ASCII, as in `.` and [^a]."""
ANY_CASE = 4
"""How many instructions there are for one, at most, if case doesn't matter."""


class Size(NamedTuple):
    """An upper bound of how large a value is."""

    length: int = 1
    """Characters of a text, elements of a list, keys of a map; 1 for others."""
    of: "Size | None" = None
    """Of each element, key or value."""

    @property
    def total(self) -> int:
        """All characters and elements, to any depth."""
        inner = 1 if self.of is None else 1 + self.of.total
        return min(self.length * inner, LENGTH_MAX)

    @property
    def element(self) -> "Size":
        """Any element. Of a value of which no elements are known, as much as all of it."""
        return Size(self.length) if self.of is None else self.of


class Estimate(NamedTuple):
    """How long a node takes at most, in microseconds, and how large its value is."""

    microseconds: float
    size: Size


_SCALAR = Size()


def estimate(tree: Tree, attributes: int = ATTRIBUTES) -> int:
    """Return about how many microseconds an expression takes at most, for a device with so many
    attributes, and so many capacities.
    """
    start = START_MICROSECONDS + (EVERYTHING_MICROSECONDS if reads(tree) is None else 0)
    domain = Size(attributes, Size(TEXT))
    device = Size(FIELDS, Size(attributes, domain))
    return round(min(start + _of(tree, {DEVICE: device}).microseconds, LENGTH_MAX))


def _of(tree: Tree, known: Mapping[str, Size]) -> Estimate:
    if tree.kind is Kind.LOOP:
        return _of_loop(tree, known)
    parts = [_of(part, known) for part in tree.parts]
    sizes = [part.size for part in parts]
    before = sum(part.microseconds for part in parts) + NODE_MICROSECONDS
    match tree.kind:
        case Kind.NAME:
            size = known.get(tree.name, _SCALAR)
        case Kind.SELECT:
            is_text = tree.name == "driver" and tree.parts[0] == Tree(Kind.NAME, DEVICE)
            size = Size(TEXT) if is_text else sizes[0].element
        case Kind.LIST:
            size = Size(len(sizes), _largest(sizes))
        case Kind.MAP:
            size = Size(len(sizes) // 2, _largest(sizes))
        case Kind.CALL:
            size = _result(tree.name, sizes)
            before += _of_call(tree, sizes, size)
        case _:
            size = Size(max(1, len(tree.text or "")))
    return Estimate(before, size)


def _of_loop(tree: Tree, known: Mapping[str, Size]) -> Estimate:
    """Return the estimate of a loop. What has the result so far grows by the same each time."""
    elements, begin = (_of(part, known) for part in tree.parts[:2])
    times = elements.size.length
    inner = {**known, tree.name: elements.size.element, tree.result: begin.size}
    condition, step = (_of(part, inner) for part in tree.parts[2:4])
    if times:
        inner[tree.result] = _grown(begin.size, step.size, times)
    result = _of(tree.parts[4], inner)
    each = condition.microseconds + step.microseconds + NODE_MICROSECONDS
    once = elements.microseconds + begin.microseconds + result.microseconds
    return Estimate(once + times * each, result.size)


def _grown(begin: Size, step: Size, times: int) -> Size:
    more = max(0, step.length - begin.length)
    return Size(min(begin.length + times * more, LENGTH_MAX), _larger(begin.of, step.of))


def _larger(one: Size | None, other: Size | None) -> Size | None:
    if one is None or other is None:
        return one or other
    return Size(max(one.length, other.length), _larger(one.of, other.of))


def _largest(sizes: Sequence[Size]) -> Size:
    found = _SCALAR
    for size in sizes:
        found = _larger(found, size) or found
    return found


def _text(length: int) -> Size:
    return Size(min(length, LENGTH_MAX))


def _joined(sizes: Sequence[Size]) -> Size:
    separator = sizes[1].length if len(sizes) > 1 else 0
    return _text(sizes[0].total + sizes[0].length * separator)


def _added(sizes: Sequence[Size]) -> Size:
    length = min(sum(size.length for size in sizes), LENGTH_MAX)
    return Size(length, _larger(sizes[0].of, sizes[-1].of))


_RESULTS: Mapping[str, Callable[[Sequence[Size]], Size]] = {
    "_+_": _added,
    "replace": lambda sizes: _text((sizes[0].length + 1) * (1 + sizes[2].length)),
    "split": lambda sizes: Size(sizes[0].length + 1, Size(sizes[0].length)),
    "join": _joined,
    "format": lambda sizes: _text(
        sizes[0].length * FORMATTED // 2 + sizes[0].length * sizes[-1].total
    ),
    "strings.quote": lambda sizes: _text(2 * sizes[0].length + 2),
    "_[_]": lambda sizes: sizes[0].element,
    "_[?_]": lambda sizes: sizes[0].element,
    "_?._": lambda sizes: sizes[0].element,
    "_?_:_": lambda sizes: _largest(sizes[1:]),
    "orValue": _largest,
    "or": _largest,
    "dyn": _largest,
    "optional.of": _largest,
    "optional.ofNonZeroValue": _largest,
    "value": _largest,
    "charAt": lambda _: _SCALAR,
    "quantity": lambda _: Size(NUMBER),
    "add": lambda _: Size(NUMBER),
    "sub": lambda _: Size(NUMBER),
}
"""Of functions whose value isn't at most as large as their arguments and a number together."""

_COMPARISONS = frozenset(
    {"compareTo", "isGreaterThan", "isLessThan", "isQuantity", "isSemver", "isInteger", "asInteger"}
    | {"asApproximateFloat", "sign", "major", "minor", "patch"}
)
_CALLBACKS = _COMPARISONS | {"quantity", "semver", "add", "sub"}
"""Functions of selectors that are written in Python."""

_SCALARS = (
    _COMPARISONS
    | {"!_", "-_", "_-_", "_*_", "_/_", "_%_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"}
    | {"_&&_", "_||_", "@in", "@not_strictly_false", "size", "contains", "startsWith", "endsWith"}
    | {"matches", "indexOf", "lastIndexOf", "hasValue", "type", "int", "uint", "double", "bool"}
)
"""Functions whose value is a number, or true or false."""


def _result(function: str, sizes: Sequence[Size]) -> Size:
    if function in _SCALARS:
        return _SCALAR
    if function in _RESULTS:
        return _RESULTS[function](sizes)
    return _text(sum(size.total for size in sizes) + NUMBER)


def _of_call(tree: Tree, sizes: Sequence[Size], result: Size) -> float:
    """Return the microseconds of a function itself."""
    if tree.name == "matches":
        return _of_pattern(tree.parts[-1], sizes)
    characters = sum(size.total for size in sizes) + result.total
    if tree.name in _CALLBACKS:
        return CALLBACK_MICROSECONDS + characters * CALLBACK_CHARACTER_MICROSECONDS
    if tree.name in _UNSEEN:
        return 0.0
    own = {"replace": REPLACED_MICROSECONDS * result.length, "_+_": ADDED_MICROSECONDS}
    return own.get(tree.name, 0.0) + characters * CHARACTER_MICROSECONDS


_UNSEEN = frozenset(
    {"_[_]", "_[?_]", "_?._", "_?_:_", "orValue", "or", "dyn", "value", "_&&_", "_||_", "!_"}
)
"""Functions that don't look into their arguments."""

_PATTERN = re.compile(
    r"""(?P<unicode>\\[pP](?:\{[^}]*\}|.)?)"""
    r"""|(?P<repeat>\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\})"""
    r"""|(?P<open>\((?:\?[^:>)]*[:>)])?)|(?P<close>\))|(?P<operator>[*+?|^$])"""
    r"""|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\\?.""",
    re.DOTALL,
)
"""A token of a regular expression (RE2: syntax)."""


def _instructions(pattern: str) -> int:
    """Return how many instructions a regular expression has at most."""
    open_, atom = [0], 0
    for token in _PATTERN.finditer(pattern):
        text = token[0]
        if token["repeat"]:
            least, most = int(token["least"]), token["most"]
            times = least if most is None else max(least + 1, int(most or 0))
            open_[-1] += atom * (times - 1)
            atom *= times
            continue
        if token["open"] and not text.endswith(")"):
            open_.append(1)
            continue
        if token["close"] and len(open_) > 1:
            atom = open_.pop() + 1
        elif token["operator"] or token["open"]:
            open_[-1] += 1
            continue
        elif text.startswith("[") and len(text) > 1:
            atom = _class_instructions(text)
        else:
            atom = UNICODE_CLASS if token["unicode"] else WIDE_CLASS if text == "." else 1
        open_[-1] = min(open_[-1] + atom, LENGTH_MAX)
    any_case = ANY_CASE if re.search(r"\(\?[a-zA-Z-]*i", pattern) else 1
    return any_case * (sum(open_) + 1)


def _class_instructions(text: str) -> int:
    """Return how many instructions a class in brackets has at most."""
    wide = sum(not each.isascii() for each in text) + text.count("^") + text.count("\\")
    return len(text) + WIDE_CLASS * wide + UNICODE_CLASS * len(re.findall(r"\\[pP]", text))


def _of_pattern(pattern: Tree, sizes: Sequence[Size]) -> float:
    """Return the microseconds of a regular expression, which the library compiles each time."""
    if pattern.text is None:
        instructions = sizes[-1].length * UNICODE_CLASS
    else:
        instructions = _instructions(pattern.text)
    return instructions * (INSTRUCTION_MICROSECONDS + sizes[0].length * STEP_MICROSECONDS)
