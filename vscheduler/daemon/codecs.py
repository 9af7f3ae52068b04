"""What lists and watches of one kind bring → what a Mirror is told."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from vscheduler.mirror.decode import decoding, events
from vscheduler.mirror.index import entries

Read: TypeAlias = tuple[str, entries.Entry]
"""An object of a list, with its key."""

Translate: TypeAlias = Callable[[events.Upsert | events.Reject], Read]
"""What an object comes to: state.Mirror.read."""


class Codec:
    """For a watch of one kind.

    Lists are read piece by piece, and the first one is taken in so, too, while the API server makes
    the next page.
    """

    def __init__(self, kind: events.Kind, read: Translate) -> None:
        self._kind = kind
        self._read = read

    def read(self, items: Sequence[bytes | msgspec.Raw]) -> list[Read]:
        """Some objects of a list."""
        return [self._read(decoding.decode(self._kind, item)) for item in items]

    def begin(self, found: Sequence[Read]) -> list[entries.Event]:
        """A part of the first list; the whole one comes at its end."""
        return [entries.Part(kind=self._kind, found=dict(found))]

    def replace(self, found: Sequence[Read]) -> list[entries.Event]:
        """The whole list."""
        return [entries.Replace(kind=self._kind, found=dict(found))]

    def change(self, change: str, item: bytes | msgspec.Raw) -> list[entries.Event]:
        """One object that was ADDED, MODIFIED or DELETED."""
        event = decoding.decode(self._kind, item)
        return [decoding.removal(event) if change == "DELETED" else event]
