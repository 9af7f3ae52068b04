"""Declared reads: a plugin that answers about nodes sees what it declares of a pod's texts.

Answers of these hooks are kept per pod class and queue. An undeclared read raises, as any failure
of a plugin does, and isn't answered from another pod of the class.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from vscheduler.core.api import contracts
from vscheduler.core.model import jobs, pod_texts

KEPT_PER_CLASS = frozenset(
    {"filter_nodes", "outlook", "row_outlook", "score_node_set", "score_nodes"}
)
"""Hooks whose answers are kept per pod class, and whose first argument is a task."""

BUILT_IN = "vscheduler.core."
"""Modules of plugins that tests check for such reads. Guarding them would cost time per pod."""


def method(plugin: object, hook: str) -> Callable[..., Any]:
    """Return the plugin's method for a hook; it is given a task with declared texts only."""
    found: Callable[..., Any] = getattr(plugin, hook)
    if hook not in KEPT_PER_CLASS or type(plugin).__module__.startswith(BUILT_IN):
        return found
    assert isinstance(plugin, contracts.Plugin)
    reads = pod_texts.reads(plugin)

    def guarded(task: jobs.Task, *others: object) -> object:
        return found(_as_declared(task, reads), *others)

    return guarded


def _as_declared(task: jobs.Task, reads: pod_texts.PodReads) -> jobs.Task:
    """Return the task with the annotations and labels that the plugin declares."""
    return msgspec.structs.replace(
        task,
        annotations=pod_texts.DeclaredTexts(
            task.annotations, reads.annotations, "annotation", "reads_annotations"
        ),
        labels=pod_texts.DeclaredTexts(task.labels, reads.labels, "label", "reads_labels"),
    )
