"""YAML text as plain data with line numbers.

JSON is valid YAML, too. Values follow Kubernetes' YAML: timestamps, sexagesimal numbers and .nan
stay text, and keys are text. Tags can only produce plain data, and no file is opened.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import yaml

Lines: TypeAlias = "int | tuple[int, Mapping[str | int, Lines]]"
"""The line where a value, or its key, starts; for a mapping or list also the lines of its items."""

DEPTH_MAX = 100
VALUES_MAX = 20_000_000
"""Maximal number of values in a text. An alias counts the values it stands for every time."""

NUMBER_LENGTH_MAX = 400

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS = "tag:yaml.org,2002:"
_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE|yes|Yes|YES|on|On|ON")
_FALSE = re.compile(r"false|False|FALSE|no|No|NO|off|Off|OFF")
_INTEGER = re.compile(
    r"[-+]?(0b[01][01_]*|0o[0-7][0-7_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0[0-7_]*|[1-9][0-9_]*)"
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class DocumentError(ValueError):
    """The text can't be read. The message starts with `file:line: `."""

    def __init__(self, source: str, line: int, problem: str) -> None:
        super().__init__(f"{source}:{line}: {problem}")
        self.source = source
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document of a YAML text. Don't change the content: aliases share objects."""

    source: str
    content: Any
    lines: Lines = field(repr=False, compare=False)

    def place(self, path: tuple[str | int, ...] = ()) -> str:
        """Return `file:line` of the value at this path, or of the innermost existing part of the
        path.
        """
        lines = self.lines
        for part in path:
            if isinstance(lines, int) or part not in lines[1]:
                break
            lines = lines[1][part]
        return f"{self.source}:{lines if isinstance(lines, int) else lines[0]}"


class Anchor(msgspec.Struct):
    """The value behind an alias, and how many values the alias stands for."""

    content: Any
    lines: Lines
    size: int


def load(text: str, source: str) -> list[Document]:
    """Return all non-empty documents of a text; `source` names the text in messages.

    Raises DocumentError for invalid YAML, a duplicate key in a mapping, an unknown alias, or a tag
    other than for plain data.
    """
    try:
        return list(_Reader(text, source).documents())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise DocumentError(source, line, error.problem or "is not YAML") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(source, line, f"{error.reason} in YAML") from error


class _Reader:
    """Builds values from libyaml's events.

    libyaml's composer would recurse without a limit, and deep nesting would crash the process.
    """

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, Anchor] = {}
        self._size = 0

    def documents(self) -> Iterator[Document]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                content, lines = self._value(next(self._events), 0)
                if content is not None:
                    yield Document(source=self._source, content=content, lines=lines)

    def _value(self, event: Any, depth: int) -> tuple[Any, Lines]:
        if isinstance(event, yaml.AliasEvent):
            anchor = self._anchors.get(str(event.anchor))
            if anchor is None:
                raise self._error(event, f"there is no anchor &{event.anchor} before *")
            self._count(event, anchor.size)
            return anchor.content, anchor.lines
        before = self._size
        self._count(event, 1)
        if depth > DEPTH_MAX:
            raise self._error(event, f"is nested more than {DEPTH_MAX} levels deep")
        content, lines = self._read(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = Anchor(content, lines, self._size - before)
        return content, lines

    def _read(self, event: Any, depth: int) -> tuple[Any, Lines]:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event), _line(event)
        if isinstance(event, yaml.MappingStartEvent):
            self._check_tag(event, "map")
            return self._mapping(event, depth)
        self._check_tag(event, "seq")
        return self._sequence(event, depth)

    def _sequence(self, start: Any, depth: int) -> tuple[Any, Lines]:
        items: list[Any] = []
        lines: dict[str | int, Lines] = {}
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            content, inside = self._value(event, depth + 1)
            lines[len(items)] = _moved(inside, _line(event))
            items.append(content)
        return items, (_line(start), lines)

    def _mapping(self, start: Any, depth: int) -> tuple[Any, Lines]:
        content: dict[str, Any] = {}
        lines: dict[str | int, Lines] = {}
        merged: list[tuple[Any, Lines]] = []
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error(event, "a key must be text")
            key, line = str(event.value), _line(event)
            self._count(event, 1)
            value, inside = self._value(next(self._events), depth + 1)
            if key == "<<" and event.implicit[0]:
                merged += self._merged(event, value, inside)
                continue
            if key in lines:
                first = lines[key]
                number = first if isinstance(first, int) else first[0]
                raise self._error(event, f"key {key!r} is given twice, first on line {number}")
            content[key], lines[key] = value, _moved(inside, line)
        for value, inside in merged:
            assert not isinstance(inside, int)
            content = {**value, **content}
            lines = {**inside[1], **lines}
        return content, (_line(start), lines)

    def _merged(self, event: Any, value: Any, lines: Lines) -> list[tuple[Any, Lines]]:
        """Return the mappings that `<<` merges. Keys of the mapping itself take precedence."""
        if isinstance(value, dict):
            return [(value, lines)]
        if isinstance(value, list) and all(isinstance(each, dict) for each in value):
            assert not isinstance(lines, int)
            return [(each, lines[1][place]) for place, each in enumerate(value)]
        raise self._error(event, "<< takes a mapping or a list of mappings")

    def _scalar(self, event: Any) -> Any:
        text = str(event.value)
        if event.tag is None:
            return resolved(text) if event.implicit[0] else text
        if event.tag == "!":
            return text
        converter = _CONVERTERS.get(event.tag.removeprefix(_TAGS))
        value = converter(text) if converter else _UNFIT
        if value is _UNFIT:
            raise self._error(event, f"{text!r} with tag {event.tag} is not plain data")
        return value

    def _check_tag(self, event: Any, kind: str) -> None:
        if event.tag not in (None, "!", f"{_TAGS}{kind}"):
            raise self._error(event, f"tag {event.tag} is not plain data")

    def _count(self, event: Any, size: int) -> None:
        self._size += size
        if self._size > VALUES_MAX:
            raise self._error(event, f"expands to more than {VALUES_MAX} values")

    def _error(self, event: Any, problem: str) -> DocumentError:
        return DocumentError(self._source, _line(event), problem)


_UNFIT = object()
"""Marks text that doesn't match its tag."""


def resolved(text: str) -> Any:
    """Return the meaning of a plain scalar: None, a bool, an int, a float, or the text itself."""
    if _NULL.fullmatch(text):
        return None
    for converter in (_boolean, _integer, _float):
        value = converter(text)
        if value is not _UNFIT:
            return value
    return text


def _line(event: Any) -> int:
    """Return the line of an event, counted from 1 as in editors."""
    return int(event.start_mark.line) + 1


def _moved(lines: Lines, line: int) -> Lines:
    """Return the lines of a value with the first line moved to the line of its key."""
    return line if isinstance(lines, int) else (line, lines[1])


def _null(text: str) -> Any:
    return None if _NULL.fullmatch(text) else _UNFIT


def _boolean(text: str) -> Any:
    if _TRUE.fullmatch(text):
        return True
    return False if _FALSE.fullmatch(text) else _UNFIT


def _integer(text: str) -> Any:
    if len(text) > NUMBER_LENGTH_MAX or not _INTEGER.fullmatch(text):
        return _UNFIT
    digits = text.replace("_", "")
    if re.fullmatch(r"[-+]?0[0-7]+", digits):  # octal without an o, as Kubernetes reads it
        return int(digits, 8)
    return int(digits, 0)


def _float(text: str) -> Any:
    if not _FLOAT.fullmatch(text):
        return _UNFIT
    value = float(text)
    return value if math.isfinite(value) else _UNFIT


_CONVERTERS: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "null": _null,
    "bool": _boolean,
    "int": _integer,
    "float": _float,
}
"""Converters by the last part of a standard tag: `!!int`."""
