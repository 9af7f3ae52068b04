"""What the flags say of leader election."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vscheduler.daemon import election

NAMESPACE = "volcano-system"
CONTROLLERS_LEASE = "vscheduler-controllers"
"""Of whoever looks after Queues."""

PODGROUPS_SUFFIX = "-podgroups"
"""Of the Leases of an instance that only controls: it must not keep the scheduler of a name from
leading, so it doesn't stand for that one's Lease.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """Which Leases this instance stands for, and how."""

    enabled: bool = True
    lease_of: Mapping[str, str] = field(default_factory=dict)
    """The Lease under which each scheduler name is served."""
    controllers_lease: str = ""
    """The one under which Queues are looked after; empty where they aren't."""
    namespace: str = NAMESPACE
    timing: election.Timing = field(default_factory=election.Timing)

    @property
    def leases(self) -> tuple[str, ...]:
        """All of them."""
        controllers = (self.controllers_lease,) if self.controllers_lease else ()
        return (*self.lease_of.values(), *controllers)


def leases_of(names: Sequence[str], *, schedules: bool) -> dict[str, str]:
    """The Lease of each scheduler name."""
    suffix = "" if schedules else PODGROUPS_SUFFIX
    return {name: f"{name}{suffix}" for name in names}
