"""Hashing: values that are looked up again and again have their hash worked out once.

A pod may come with thousands of conditions, each of several nested values, and each of them is a
key of many dictionaries.
"""

from typing import TypeVar

Value = TypeVar("Value", bound="Hashed")


class Hashed:
    """Base of frozen dataclasses with slots that are decorated with `hashed_once`."""

    __slots__ = ("_hash",)

    _hash: int


def hashed_once(cls: type[Value]) -> type[Value]:
    """The class, with a hash that is worked out when it is first asked for."""
    work_out = cls.__hash__

    def hash_of(self: Value) -> int:
        try:
            return self._hash
        except AttributeError:
            found = work_out(self)
            object.__setattr__(self, "_hash", found)
            return found

    cls.__hash__ = hash_of  # type: ignore[assignment, method-assign]  # a decorator's way
    return cls
