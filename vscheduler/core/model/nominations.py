"""Nominated pods: those of other schedulers that wait for room on a node, and count there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vscheduler.core.model import jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Nominated:
    """A pod that another scheduler has found a place for, and hasn't bound yet.

    kube-scheduler has evicted others for it, or is about to bind it: status.nominatedNodeName.
    """

    key: str
    """`namespace/name`."""
    node: str
    """There or not."""
    priority: int
    """spec.priority: pods above it may have the room."""
    kind: jobs.TaskClass
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
