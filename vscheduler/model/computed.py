"""`once`: a property that is computed when first read, as functools.cached_property.

That of Python 3.11 takes a lock and leads to five calls, each time; a cycle reads dozens of such
properties once, and in one thread.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functools import cached_property as once
else:
    from collections.abc import Callable

    class once:  # noqa: N801 - used as a decorator
        """A property whose value replaces it in the instance."""

        def __init__(self, function: Callable) -> None:
            self._function = function
            self._name = function.__name__
            self.__doc__ = function.__doc__

        def __get__(self, instance: object, owner: type | None = None) -> object:
            """Return the value, computed now."""
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._function(instance)
            return value


__all__ = ["once"]
