"""ReclaimOutlook: why reclaim evicts no pods for a queue below its share, with numbers."""

from enum import StrEnum

import msgspec

SURPLUS_LEAST = 0.5
"""From how much on, in units of resources.ResourceMap, a queue has more or less than it deserves:
shares may be fractions."""


class Protection(StrEnum):
    """What keeps reclaim from evicting a pod; in this order, the first counts."""

    ANNOTATION = "Annotation"
    """The annotation volcano.sh/preemptable is false, on the pod or the PodGroup."""
    YOUNG = "MinRuntime"
    BUDGET = "PodDisruptionBudget"
    PLUGIN = "Plugin"
    """A plugin protects the pod, such as conformance."""
    GANG = "WholeGangs"
    """The pod belongs to the minimum of a gang, which reclaim.wholeGangs protects."""
    SHARE = "Share"
    """Its queue would end below what it deserves, and worse off than the preemptor's."""
    NONE = "None"


class ReclaimOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """Why reclaim evicts no pods for a queue below its share, a job of which lacks room."""

    resource: str
    """A requested resource of which the job would take the queue above what it deserves, or else
    one of which the queue has less than it deserves."""
    allocated: float
    deserved: float
    needed: float
    """The least of it that so many pods request as the job lacks for its minimum."""
    configured: bool
    """Whether action reclaim is configured."""
    waits_until: float | None = None
    """Until when the job waits for new nodes first, as its queue's eviction delay says, in seconds
    since the epoch; infinite if that can't be read, None if it doesn't wait."""
    others: int
    """Number of other queues that hold anything."""
    reclaimable: int
    """Number of those with spec.reclaimable."""
    above: tuple[str, ...] = ()
    """Those of them with more than they deserve of a resource that the job requests."""
    surplus: float = 0.0
    """How much more, of the resource, all together."""
    pods: tuple[tuple[Protection, int], ...] = ()
    """Their pods by protection, of the first PODS_MAX."""
    enough: bool = False
    """Whether the unprotected pods, all together, hold enough beside what is free."""

    @property
    def exceeds_share(self) -> bool:
        """Whether the queue would have more than it deserves if the job started."""
        return self.allocated + self.needed > self.deserved + SURPLUS_LEAST
