"""Findings about an input: a sentence for people, fields for programs."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

_PLACE = re.compile(r"(?P<file>.*?)(?::(?P<line>[0-9]+))?")
_PLACED = re.compile(r"(?P<place>.+?:[0-9]+|[^:]+): (?P<message>.+)", re.DOTALL)


class Level(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    """An API server refuses the object, or a scheduler can't use the object."""
    WARNING = "warning"
    """The setting is valid but may not do what its author expects."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A problem in the input."""

    level: Level
    place: str
    """`file:line`, or `file`."""
    message: str
    kind: str = ""
    """Kind of the object concerned; empty for a configuration."""
    name: str = ""
    """`namespace/name`, or the name of a cluster-scoped object."""
    field: str = ""

    def __str__(self) -> str:
        """Return `queues.yaml:12: warning: Queue gold: spec.weight: has no effect …`."""
        about = f"{self.kind} {self.name}".strip()
        parts = (self.place, str(self.level), about, self.field, self.message)
        return ": ".join(filter(None, parts))

    def tree(self) -> dict[str, Any]:
        """Return the finding as fields for programs."""
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
        """Return a sort key: file and line first."""
        file, line = self._where()
        return (file, line or 0, str(self.level), self.kind, self.name, self.field, self.message)

    def _where(self) -> tuple[str, int | None]:
        found = _PLACE.fullmatch(self.place)
        assert found is not None
        return found["file"], int(found["line"]) if found["line"] else None


class FindingText(msgspec.Struct, frozen=True):
    """A finding about an object whose file and line are still to be filled in."""

    name: str
    """`namespace/name`, or the name of a cluster-scoped object."""
    field: str
    message: str
    level: Level = Level.WARNING


def unreadable(problem: str) -> Finding:
    """Return an error from a sentence that starts with its place."""
    found = _PLACED.fullmatch(problem)
    place, message = (found["place"], found["message"]) if found else ("", problem)
    return Finding(level=Level.ERROR, place=place, message=message)


def in_order(found: Iterable[Finding]) -> Sequence[Finding]:
    """Return the findings by file and line, without duplicates."""
    return sorted(set(found), key=Finding.rank)


def counted(found: Iterable[Finding], level: Level) -> int:
    """Count the findings of a level."""
    return sum(finding.level is level for finding in found)
