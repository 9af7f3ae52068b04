"""Annotations and labels of pods that plugins declare to read, and the failure of undeclared reads.

Answers about nodes are kept per pod class, so a class contains whatever plugins read of a pod. A
plugin that reads more would get answers of other pods; reading it therefore fails.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

GROUP = "group"
"""Marks a text of the PodGroup among the hints of a class."""

OWN = "volcano.sh/"
"""Prefix of annotations that every task keeps."""


class UndeclaredReadError(LookupError):
    """A plugin reads an annotation or a label of pods that it doesn't declare."""


class PodReads(msgspec.Struct, frozen=True, kw_only=True):
    """The annotations and labels of pods that plugins declare, by name, sorted."""

    annotations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


NOTHING = PodReads()


class Reading(Protocol):
    """The part of a plugin, or of its class, that declares what it reads."""

    @property
    def reads_annotations(self) -> Sequence[str]:
        """Annotations of pods."""

    @property
    def reads_labels(self) -> Sequence[str]:
        """Labels of pods."""


def reads(plugin: Reading) -> PodReads:
    """Return what a plugin declares to read of pods."""
    return PodReads(
        annotations=tuple(sorted(plugin.reads_annotations)),
        labels=tuple(sorted(plugin.reads_labels)),
    )


def union(reads: Iterable[PodReads]) -> PodReads:
    """Return everything that any of them declares."""
    found = list(reads)
    return PodReads(
        annotations=tuple(sorted({name for each in found for name in each.annotations})),
        labels=tuple(sorted({name for each in found for name in each.labels})),
    )


class Annotations(dict[str, str]):
    """The annotations that a task keeps: those with the prefix volcano.sh/, and declared ones.

    Looking up any other name raises UndeclaredReadError, because the pod may have it.
    """

    __slots__ = ("_declared",)

    def __init__(self, texts: Mapping[str, str], declared: tuple[str, ...] = ()) -> None:
        super().__init__(texts)
        self._declared = declared

    def __missing__(self, name: str) -> str:
        self._check(name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        self._check(name)
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the annotation, or the default for a declared name that the pod lacks."""
        self._check(name)
        return super().get(name, default)

    def _check(self, name: object) -> None:
        if not str(name).startswith(OWN) and name not in self._declared:
            raise UndeclaredReadError(undeclared("annotation", name, "reads_annotations"))


class DeclaredTexts(Mapping[str, str]):
    """The annotations or labels of a pod as one plugin may read them: those that it declares."""

    __slots__ = ("_attribute", "_declared", "_kind", "_texts")

    def __init__(
        self, texts: Mapping[str, str], declared: tuple[str, ...], kind: str, attribute: str
    ) -> None:
        """Set the texts; kind and attribute are for messages: what is read, where to declare it."""
        self._texts = texts
        self._declared = declared
        self._kind = kind
        self._attribute = attribute

    def __getitem__(self, name: str) -> str:
        if name not in self._declared:
            raise UndeclaredReadError(undeclared(self._kind, name, self._attribute))
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._declared if name in self._texts)

    def __len__(self) -> int:
        return sum(name in self._texts for name in self._declared)

    def __contains__(self, name: object) -> bool:
        if name not in self._declared:
            raise UndeclaredReadError(undeclared(self._kind, name, self._attribute))
        return name in self._texts

    def get(self, name: str, default: Any = None) -> Any:
        """Return the text, or the default where the pod has none."""
        return self[name] if name in self else default  # noqa: SIM401 - this is `get`


def undeclared(kind: str, name: object, attribute: str, of: str = "pods") -> str:
    """Return the message for an undeclared read."""
    return f"{kind} {name} of {of} is read, but not declared: add it to {attribute} of the plugin"
