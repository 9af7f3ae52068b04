"""Declarations of what a plugin's answers depend on, so that the scheduler may ask less often.

    @depends_on(On.CLASS | On.NODE)
    def filter_nodes(self, task, nodes): ...

A declaration is optional, and names all that the answers of a hook depend on. It belongs to the
method: a subclass that defines the method anew declares anew. Without one, the hook is asked each
time that its answer is needed.
"""

from collections.abc import Callable
from enum import Flag, auto
from typing import Any, TypeVar

import msgspec

Method = TypeVar("Method", bound=Callable[..., Any])

Fingerprint = Callable[..., Any]
"""A function whose first argument is the plugin; its answers can be compared."""


class On(Flag):
    """What an answer may depend on: never names, namespaces and UIDs, and ages only by AGE."""

    NOTHING = 0
    CLASS = auto()
    """Of the pod: its queue, and its class, with the annotations and labels that plugins read."""
    NODE = auto()
    """Nodes without their pods: labels, annotations, taints, names, allocatable amounts."""
    USED = auto()
    """What pods use on the node: `used` and `future_used` of the view."""
    PORTS = auto()
    """For pods with host ports, the ports in use on the node."""
    QUEUE = auto()
    """Queues as they are in the API server."""
    JOB = auto()
    """The PodGroup and its pods, with what was decided about them."""
    AGE = auto()
    """Of two PodGroups that are equal otherwise, the older one comes first."""
    TIME = auto()
    """`session.snapshot.now`, which stays the same during a cycle."""
    PREEMPTOR = auto()
    """The pod for which others would be evicted, and its PodGroup."""
    PREEMPTOR_RESOURCES = auto()
    """Of that pod, its queue and which resources it requests, whatever the amounts."""
    VICTIM = auto()
    """The pod that would be evicted, and its PodGroup."""
    VICTIM_CLASS = auto()
    """Of that pod, its queue, class and priority, that of its PodGroup, and the kind of node."""
    VICTIM_RESOURCES = auto()
    """Of that pod, its queue, which resources it requests, and the kind of node."""


EQUAL_RESOURCES = On.QUEUE | On.VICTIM_RESOURCES | On.PREEMPTOR_RESOURCES
"""Equal for victims, and for preemptors, of one queue that request the same resources."""

EQUAL_CLASSES = EQUAL_RESOURCES | On.VICTIM_CLASS
"""Equal for victims of one class, and for preemptors that request the same resources."""

SIMILAR_VICTIMS = EQUAL_CLASSES | On.PREEMPTOR
"""Equal for victims of one class, on behalf of one preemptor."""


class Depends(msgspec.Struct, frozen=True, eq=False):
    """The declaration of one method."""

    on: On
    fingerprint: Fingerprint | None = None
    row_fingerprint: Fingerprint | None = None


def depends_on(
    on: On, *, fingerprint: Fingerprint | None = None, row_fingerprint: Fingerprint | None = None
) -> Callable[[Method], Method]:
    """Declare what the answers of a hook depend on.

    `fingerprint` stands for whatever `On` has no word for, such as a count of pods in a zone. It is
    called with the plugin and the hook's first argument, and returns a value that changes if the
    answer may change for any node; None if nothing else ever changes it. For hooks about nodes,
    `row_fingerprint` is called with the plugin, the task and rows (n,). It returns a value for each
    row, which changes if the answer may change for this row only; None if that never happens.
    """

    def declare(method: Method) -> Method:
        method.depends_on = Depends(on, fingerprint, row_fingerprint)  # type: ignore[attr-defined]  # a function's
        return method

    return declare


def of(plugin: type, hook: str) -> Depends | None:
    """Return what a class of plugins declares for a hook; None without a declaration."""
    found = getattr(getattr(plugin, hook, None), "depends_on", None)
    return found if isinstance(found, Depends) else None
