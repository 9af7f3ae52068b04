"""Annotations and labels of PodGroups, and the failure of reads that would answer for other jobs.

Some hooks are asked about one pod of a class, and their answer counts for equal pods of all jobs of
a queue. Of PodGroups, only what plugins declare is part of the class; reading more there fails.
"""

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from contextvars import ContextVar
from typing import Any, ClassVar

from vscheduler.model.pod_texts import PodReads, UndeclaredReadError

READER: ContextVar[tuple[str, str, PodReads] | None] = ContextVar("READER", default=None)
"""The plugin, the hook that answers for a whole class, and what the plugin declares to read; None
outside of such hooks."""


class _GroupTexts(dict[str, str]):
    """Texts of a PodGroup; within such a hook, reading what the plugin doesn't declare raises
    UndeclaredReadError.
    """

    __slots__ = ()
    kind: ClassVar[str]
    declared_by: ClassVar[str]

    def __getitem__(self, name: str) -> str:
        self._check(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._check(name)
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._check()
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the text, or the default for a PodGroup without it."""
        self._check(name)
        return super().get(name, default)

    def keys(self) -> KeysView[str]:  # type: ignore[override]  # as Mapping
        """Return all names."""
        self._check()
        return super().keys()

    def values(self) -> ValuesView[str]:  # type: ignore[override]  # as Mapping
        """Return all texts."""
        self._check()
        return super().values()

    def items(self) -> ItemsView[str, str]:  # type: ignore[override]  # as Mapping
        """Return all names with their texts."""
        self._check()
        return super().items()

    def _check(self, name: object = None) -> None:
        reader = READER.get()
        if reader is not None:
            plugin, hook, reads = reader
            if name in (reads.annotations if self.kind == "annotation" else reads.labels):
                return
            what = f"{self.kind}s" if name is None else f"{self.kind} {name}"
            message = (
                f"plugin {plugin} reads {what} of a PodGroup in {hook}, whose answer counts for "
                f"equal pods of other PodGroups, too: add it to {self.declared_by} of the plugin"
            )
            raise UndeclaredReadError(message)


class GroupAnnotations(_GroupTexts):
    """The annotations of a PodGroup."""

    __slots__ = ()
    kind = "annotation"
    declared_by = "reads_annotations"


class GroupLabels(_GroupTexts):
    """The labels of a PodGroup."""

    __slots__ = ()
    kind = "label"
    declared_by = "reads_labels"
