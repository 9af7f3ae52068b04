"""Selector tree: a compiled CEL expression as a tree, and what it reads of a device.

The library serializes an expression as a CheckedExpr in an Any (cel-spec: proto/cel/expr). It has
no macros any more: loops are comprehensions, and `cel.bind` is one without elements.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TypeAlias

import msgspec


class Kind(IntEnum):
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

    kind: Kind
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
    found: dict[str, set[str]] = {"attributes": set(), "capacity": set()}
    mentions = sum(each.kind is Kind.NAME and each.name == DEVICE for each in tree.walk())
    for each in tree.walk():
        field, name = _literal_read(each)
        if field:
            mentions -= 1
        if name:
            found[field].add(name)
    if mentions:
        return None
    return Reads(tuple(sorted(found["attributes"])), tuple(sorted(found["capacity"])))


DEVICE = "device"


def _literal_read(tree: Tree) -> tuple[str, str]:
    """Return the field of the device, and the `domain/name` of the value, that this node reads."""
    field = _field_of_device(tree)
    if field in ("driver", "allowMultipleAllocations"):
        return field, ""
    name = tree.name if tree.kind is Kind.SELECT else _literal_key(tree)
    if name and tree.parts:
        domain_of = tree.parts[0]
        if domain_of.name == "orValue":  # as selector_text writes it
            domain_of = domain_of.parts[0]
        domain, field = _literal_key(domain_of), _field_of_device(next(iter(domain_of.parts), tree))
        if domain and field in ("attributes", "capacity"):
            return field, f"{domain}/{name}"
    return "", ""


def _field_of_device(tree: Tree) -> str:
    is_field = tree.kind is Kind.SELECT and tree.parts[0] == Tree(Kind.NAME, DEVICE)
    return tree.name if is_field else ""


def _literal_key(tree: Tree) -> str:
    """Return the key of an index that is written out."""
    is_index = tree.kind is Kind.CALL and tree.name in ("_[_]", "_[?_]")
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
    return Tree(Kind.NOTHING)


def _constant(found: bytes) -> Tree:
    for number, value in _fields(found):
        if isinstance(value, bytes) and number in (6, 7):
            return Tree(Kind.CONSTANT, text=value.decode("utf-8" if number == 6 else "latin-1"))
    return Tree(Kind.CONSTANT)


def _select(found: bytes) -> Tree:
    return Tree(Kind.SELECT, _last(found, 2).decode(), (_tree(_last(found, 1)),))


def _call(found: bytes) -> Tree:
    parts = [_tree(each) for each in (*_all(found, 1), *_all(found, 3))]
    return Tree(Kind.CALL, _last(found, 2).decode(), tuple(parts))


def _list(found: bytes) -> Tree:
    return Tree(Kind.LIST, parts=tuple(_tree(each) for each in _all(found, 1)))


def _map(found: bytes) -> Tree:
    entries = _all(found, 2)
    parts = [_tree(part) for entry in entries for part in (*_all(entry, 3), *_all(entry, 4))]
    return Tree(Kind.MAP, parts=tuple(parts))


def _loop(found: bytes) -> Tree:
    parts = tuple(_tree(_last(found, number)) for number in (2, 4, 5, 6, 7))
    return Tree(Kind.LOOP, _last(found, 1).decode(), parts, result=_last(found, 3).decode())


_READERS: dict[int, Callable[[bytes], Tree]] = {
    Kind.CONSTANT: _constant,
    Kind.NAME: lambda found: Tree(Kind.NAME, _last(found, 1).decode()),
    Kind.SELECT: _select,
    Kind.CALL: _call,
    Kind.LIST: _list,
    Kind.MAP: _map,
    Kind.LOOP: _loop,
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
    found = shift = 0
    while True:
        byte = message[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7
