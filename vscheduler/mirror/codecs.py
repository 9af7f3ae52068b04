"""What lists and watches of one kind bring → what a Mirror is told."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from vscheduler.mirror import decoding, entries, events

Read: TypeAlias = tuple[str, entries.Entry]
"""An object of a list, with its key."""

Translate: TypeAlias = Callable[[events.Upsert | events.Reject], Read]
"""What an object comes to: state.Mirror.read."""


class Codec:
    """For a watch of one kind.

    Most of what it takes to show a list to a Mirror is to read its objects, which is done page by
    page, while the API server makes the next one.
    """

    def __init__(self, kind: events.Kind, read: Translate) -> None:
        self._kind = kind
        self._read = read

    def read(self, items: Sequence[bytes | msgspec.Raw]) -> list[Read]:
        """Some objects of a list."""
        return [self._read(decoding.decode(self._kind, item)) for item in items]

    def replace(self, found: Sequence[Read]) -> list[entries.Event]:
        """The whole list."""
        return [entries.Replace(kind=self._kind, found=dict(found))]

    def change(self, change: str, item: bytes | msgspec.Raw) -> list[entries.Event]:
        """One object that was ADDED, MODIFIED or DELETED."""
        event = decoding.decode(self._kind, item)
        return [decoding.removal(event) if change == "DELETED" else event]
