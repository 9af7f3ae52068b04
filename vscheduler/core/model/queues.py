"""Queue: a tenant's share of the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vscheduler.core.model import resources

ROOT = "root"
DEFAULT = "default"


class QueueState(StrEnum):
    """Whether a queue takes jobs (scheduling.volcano.sh/v1beta1 QueueState)."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroups:
    """Which groups of nodes a queue must or would rather use, or not (spec.affinity)."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One Queue object.

    capability is a hard limit (a dimension it doesn't name is unlimited), deserved a quota for
    capacity, guarantee what is never lent out.
    """

    name: str
    uid: str
    created: float
    weight: int = 1
    priority: int = 0
    state: QueueState = QueueState.OPEN
    reclaimable: bool = True
    parent: str = ""
    capability: resources.Amounts = field(default_factory=dict)
    deserved: resources.Amounts = field(default_factory=dict)
    guarantee: resources.Amounts = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_groups: NodeGroups | None = None

    @property
    def open(self) -> bool:
        """Whether pods of this queue may be placed."""
        return self.state is QueueState.OPEN
