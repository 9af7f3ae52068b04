"""What is said of an input, line by line: for people a sentence, for programs its parts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_PLACE = re.compile(r"(?P<file>.*?)(?::(?P<line>[0-9]+))?")
_PLACED = re.compile(r"(?P<place>.+?:[0-9]+|[^:]+): (?P<message>.+)", re.DOTALL)


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """An API server refuses it, or a scheduler can't use it."""
    WARNING = "warning"
    """It can be used, and may not do what its writer thinks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong."""

    level: Level
    place: str
    """`file:line`, or `file`."""
    message: str
    kind: str = ""
    """Of the object that it is about; empty for a configuration."""
    name: str = ""
    """`namespace/name`, or the name of an object without a namespace."""
    field: str = ""

    def __str__(self) -> str:
        """`queues.yaml:12: warning: Queue gold: spec.weight: has no effect …`."""
        about = f"{self.kind} {self.name}".strip()
        said = (self.place, str(self.level), about, self.field, self.message)
        return ": ".join(filter(None, said))

    def tree(self) -> dict[str, Any]:
        """For programs."""
        file, line = self._where()
        return {
            "level": str(self.level),
            "file": file,
            "line": line,
            "kind": self.kind,
            "name": self.name,
            "field": self.field,
            "message": self.message,
        }

    def rank(self) -> tuple[object, ...]:
        """Where it stands among others: in the order of files and lines."""
        file, line = self._where()
        return (file, line or 0, str(self.level), self.kind, self.name, self.field, self.message)

    def _where(self) -> tuple[str, int | None]:
        found = _PLACE.fullmatch(self.place)
        assert found is not None
        return found["file"], int(found["line"]) if found["line"] else None


@dataclass(frozen=True, slots=True)
class FindingText:
    """What is to be said of one object, before it is known where that stands."""

    name: str
    """`namespace/name`, or the name of an object without a namespace."""
    field: str
    message: str
    level: Level = Level.WARNING


def unreadable(problem: str) -> Finding:
    """An error of which the sentence begins with its place."""
    found = _PLACED.fullmatch(problem)
    place, message = (found["place"], found["message"]) if found else ("", problem)
    return Finding(level=Level.ERROR, place=place, message=message)


def in_order(complaints: Iterable[Finding]) -> Sequence[Finding]:
    """By file and line, each once."""
    return sorted(set(complaints), key=Finding.rank)


def counted(complaints: Iterable[Finding], level: Level) -> int:
    """How many there are of this level."""
    return sum(each.level is level for each in complaints)
