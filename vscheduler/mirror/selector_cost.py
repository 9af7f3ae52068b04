"""Selector cost: how long a CEL expression about devices takes at most, without evaluating it.

The library serializes a compiled expression as a CheckedExpr in an Any (cel-spec: proto/cel/expr),
which is read here as a tree. It has no macros any more: loops are comprehensions, and `cel.bind` is
one without elements.

From the leaves of its tree upwards: how large each value can be, and how long that takes to make.
A loop counts as often as its range may have elements, and its inner loops as often again.
Kubernetes: apiserver cel/library CostEstimator, and the limits of resource.k8s.io for attributes.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import msgspec


class ExprKind(IntEnum):
    """What a node is; the number of its field in Expr."""

    NOTHING = 0
    CONSTANT = 3
    NAME = 4
    SELECT = 5
    CALL = 6
    LIST = 7
    MAP = 8
    LOOP = 9


class Tree(msgspec.Struct, frozen=True):
    """A node of an expression."""

    kind: ExprKind
    name: str = ""
    """Of a variable, function or field; of a loop, the variable for elements."""
    parts: tuple["Tree", ...] = ()
    """Operand, target and arguments, elements, or keys and values. Of a loop: the range, what the
    result is to begin with, the condition, the step, and the result."""
    text: str | None = None
    """The value of a constant that is a text; bytes are read as Latin-1."""
    result: str = ""
    """Of a loop, the variable that has the result so far."""

    def walk(self) -> Iterator["Tree"]:
        """Iterate over this node and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


class Reads(msgspec.Struct, frozen=True):
    """The attributes and capacities of a device that an expression can depend on, beside the
    driver; as `domain/name`.
    """

    attributes: tuple[str, ...]
    capacity: tuple[str, ...]


def reads(tree: Tree) -> Reads | None:
    """Return what the expression reads of a device; None if this can't be told, and everything
    counts.

    It can where each mention of `device` goes on with one literal name:
    `device.attributes["gpu.example.com"].model`.
    """
    names: dict[str, set[str]] = {"attributes": set(), "capacity": set()}
    mentions = sum(each.kind is ExprKind.NAME and each.name == DEVICE for each in tree.walk())
    for each in tree.walk():
        field, name = _literal_read(each)
        if field:
            mentions -= 1
        if name:
            names[field].add(name)
    if mentions:
        return None
    return Reads(tuple(sorted(names["attributes"])), tuple(sorted(names["capacity"])))


DEVICE = "device"


def _literal_read(tree: Tree) -> tuple[str, str]:
    """Return the field of the device, and the `domain/name` of the value, that this node reads."""
    field = _field_of_device(tree)
    if field in ("driver", "allowMultipleAllocations"):
        return field, ""
    name = tree.name if tree.kind is ExprKind.SELECT else _literal_key(tree)
    if name and tree.parts:
        domain_of = tree.parts[0]
        if domain_of.name == "orValue":  # as selector_text writes it
            domain_of = domain_of.parts[0]
        domain, field = _literal_key(domain_of), _field_of_device(next(iter(domain_of.parts), tree))
        if domain and field in ("attributes", "capacity"):
            return field, f"{domain}/{name}"
    return "", ""


def _field_of_device(tree: Tree) -> str:
    is_field = tree.kind is ExprKind.SELECT and tree.parts[0] == Tree(ExprKind.NAME, DEVICE)
    return tree.name if is_field else ""


def _literal_key(tree: Tree) -> str:
    """Return the key of an index that is written out."""
    is_index = tree.kind is ExprKind.CALL and tree.name in ("_[_]", "_[?_]")
    return (tree.parts[1].text or "") if is_index else ""


Field: TypeAlias = tuple[int, int | bytes]


def tree_of(serialized: bytes) -> Tree:
    """Return the tree of a serialized expression. Raises IndexError or ValueError for other
    bytes.
    """
    return _tree(_last(_last(serialized, 2), 4))


def _tree(expr: bytes) -> Tree:
    for number, value in _fields(expr):
        read = _READERS.get(number)
        if read is not None and isinstance(value, bytes):
            return read(value)
    return Tree(ExprKind.NOTHING)


def _constant(encoded: bytes) -> Tree:
    for number, value in _fields(encoded):
        if isinstance(value, bytes) and number in (6, 7):
            return Tree(ExprKind.CONSTANT, text=value.decode("utf-8" if number == 6 else "latin-1"))
    return Tree(ExprKind.CONSTANT)


def _select(encoded: bytes) -> Tree:
    return Tree(ExprKind.SELECT, _last(encoded, 2).decode(), (_tree(_last(encoded, 1)),))


def _call(encoded: bytes) -> Tree:
    parts = [_tree(each) for each in (*_all(encoded, 1), *_all(encoded, 3))]
    return Tree(ExprKind.CALL, _last(encoded, 2).decode(), tuple(parts))


def _list(encoded: bytes) -> Tree:
    return Tree(ExprKind.LIST, parts=tuple(_tree(each) for each in _all(encoded, 1)))


def _map(encoded: bytes) -> Tree:
    entries = _all(encoded, 2)
    parts = [_tree(part) for entry in entries for part in (*_all(entry, 3), *_all(entry, 4))]
    return Tree(ExprKind.MAP, parts=tuple(parts))


def _loop(encoded: bytes) -> Tree:
    parts = tuple(_tree(_last(encoded, number)) for number in (2, 4, 5, 6, 7))
    return Tree(ExprKind.LOOP, _last(encoded, 1).decode(), parts, result=_last(encoded, 3).decode())


_READERS: dict[int, Callable[[bytes], Tree]] = {
    ExprKind.CONSTANT: _constant,
    ExprKind.NAME: lambda found: Tree(ExprKind.NAME, _last(found, 1).decode()),
    ExprKind.SELECT: _select,
    ExprKind.CALL: _call,
    ExprKind.LIST: _list,
    ExprKind.MAP: _map,
    ExprKind.LOOP: _loop,
}


def _all(message: bytes, number: int) -> list[bytes]:
    return [value for at, value in _fields(message) if at == number and isinstance(value, bytes)]


def _last(message: bytes, number: int) -> bytes:
    """Return a field that holds bytes; empty if there is none."""
    return (_all(message, number) or [b""])[-1]


def _fields(message: bytes) -> Iterator[Field]:
    """Iterate over the fields of a message: number and value (Protocol Buffers: encoding)."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                value, at = _varint(message, at)
                yield tag >> 3, value
            case 2:
                size, at = _varint(message, at)
                yield tag >> 3, message[at : at + size]
                at += size
            case 1 | 5 as width:
                at += 8 if width == 1 else 4
            case _:
                raise ValueError("no message")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where it ends."""
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


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
    if tree.kind is ExprKind.LOOP:
        return _of_loop(tree, known)
    parts = [_of(part, known) for part in tree.parts]
    sizes = [part.size for part in parts]
    before = sum(part.microseconds for part in parts) + NODE_MICROSECONDS
    match tree.kind:
        case ExprKind.NAME:
            size = known.get(tree.name, _SCALAR)
        case ExprKind.SELECT:
            is_text = tree.name == "driver" and tree.parts[0] == Tree(ExprKind.NAME, DEVICE)
            size = Size(TEXT) if is_text else sizes[0].element
        case ExprKind.LIST:
            size = Size(len(sizes), _largest(sizes))
        case ExprKind.MAP:
            size = Size(len(sizes) // 2, _largest(sizes))
        case ExprKind.CALL:
            size = _result(tree.name, sizes)
            before += _of_call(tree, sizes, size)
        case _:
            size = Size(max(1, len(tree.text or "")))
    return Estimate(before, size)


def _of_loop(tree: Tree, sizes: Mapping[str, Size]) -> Estimate:
    """Return the estimate of a loop. What has the result so far grows by the same each time."""
    elements, begin = (_of(part, sizes) for part in tree.parts[:2])
    times = elements.size.length
    inner = {**sizes, tree.name: elements.size.element, tree.result: begin.size}
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
    largest = _SCALAR
    for size in sizes:
        largest = _larger(largest, size) or largest
    return largest


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
