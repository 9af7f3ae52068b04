"""Declared reads: a plugin that answers about nodes sees what it declares of a pod's texts.

Answers of these hooks are kept per pod class and queue, whatever PodGroup a pod belongs to. An
undeclared read raises, as any failure of a plugin does, and isn't answered from another pod of the
class. So does a read of a PodGroup's texts.
"""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import msgspec

from vscheduler.core.api import depends as declarations
from vscheduler.core.api.contracts import Plugin
from vscheduler.core.api.depends import Depends
from vscheduler.model import group_texts, pod_texts
from vscheduler.model.jobs import Task
from vscheduler.model.pod_texts import DeclaredTexts, PodReads

ABOUT_CLASSES = frozenset({"filter_nodes", "score_node_set", "score_nodes"})
"""Hooks about nodes, whose first argument is a task. Shares and reasons follow from their answers
for whole classes of pods."""

BUILT_IN = "vscheduler.core."
"""Modules of plugins that tests check for such reads. Guarding them would cost time per pod."""


def method(plugin: type[Plugin], hook: str) -> Callable[..., Any]:
    """Return the method of a class of plugins for a hook, as a function whose first argument is the
    plugin; it is given a task with declared texts only.
    """
    return _guarded(plugin, hook, _function(plugin, hook))


def depends(plugin: type[Plugin], hook: str) -> Depends | None:
    """Return what a class of plugins declares for a hook, with functions that are given such a
    task, too.
    """
    found = declarations.of(plugin, hook)
    if found is None:
        return None
    functions = (found.fingerprint, found.row_fingerprint)
    return Depends(found.on, *(each and _guarded(plugin, hook, each) for each in functions))


def _guarded(plugin: type[Plugin], hook: str, found: Callable[..., Any]) -> Callable[..., Any]:
    if hook not in ABOUT_CLASSES or plugin.__module__.startswith(BUILT_IN):
        return found
    reads = pod_texts.reads(plugin)

    def guarded(opened: object, task: Task, *others: object) -> object:
        token = group_texts.READER.set((plugin.name, hook, reads))
        try:
            return found(opened, _as_declared(task, reads), *others)
        finally:
            group_texts.READER.reset(token)

    return guarded


def _function(plugin: type[Plugin], hook: str) -> Callable[..., Any]:
    """Return the method as a function; what isn't defined as a method is looked up when called."""
    found = inspect.getattr_static(plugin, hook)
    if isinstance(found, FunctionType):
        return found

    def looked_up(opened: object, *subject: object) -> object:
        return getattr(opened, hook)(*subject)

    return looked_up


def _as_declared(task: Task, reads: PodReads) -> Task:
    """Return the task with the annotations and labels that the plugin declares."""
    return msgspec.structs.replace(
        task,
        annotations=DeclaredTexts(
            task.annotations, reads.annotations, "annotation", "reads_annotations"
        ),
        labels=DeclaredTexts(task.labels, reads.labels, "label", "reads_labels"),
    )
