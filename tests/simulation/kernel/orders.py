"""Sets that keep the order in which things came, in place of sets ordered by addresses.

An address depends on all that a program has allocated before, such as modules that had to be
compiled, and on where the operating system puts its memory.
"""

import weakref
from collections.abc import Iterator
from typing import Any


class OrderedSet:
    """A set of things that compare by identity."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}

    def add(self, item: Any) -> None:
        """Append, unless it is there."""
        self._held.setdefault(id(item), item)

    def discard(self, item: Any) -> None:
        """Leave out, if it is there."""
        self._held.pop(id(item), None)

    def remove(self, item: Any) -> None:
        """Leave out. Raises KeyError."""
        del self._held[id(item)]

    def clear(self) -> None:
        """Leave out all."""
        self._held.clear()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._held.values()))


class OrderedWeakSet(OrderedSet):
    """The same for things that may vanish."""

    def add(self, item: Any) -> None:
        """Append, unless it is there."""
        key = id(item)
        if key not in self._held:
            self._held[key] = weakref.ref(item, lambda _: self._held.pop(key, None))

    def __iter__(self) -> Iterator[Any]:
        return (item for each in list(self._held.values()) if (item := each()) is not None)
