"""Claim writes: what cycles decide about claims of volumes and of devices, on its way out."""

from collections.abc import Callable

from msgspec.structs import replace

from vscheduler.backoff import Growth
from vscheduler.core.model.decisions import CycleResult
from vscheduler.core.model.jobs import TaskId
from vscheduler.core.model.snapshot import Reported
from vscheduler.daemon.device_allocations import DeviceAllocations
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.daemon.outlets import Outlets
from vscheduler.daemon.volume_requests import VolumeRequests
from vscheduler.mirror.state import Mirror


class ClaimWrites:
    """The senders of one leader session."""

    def __init__(
        self,
        mirror: Mirror,
        outlets: Outlets,
        observed: Metrics,
        *,
        growth: Growth,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when a cycle may decide otherwise."""
        self._failures = outlets.failures
        self._volumes = VolumeRequests(
            mirror,
            outlets.claim_binder,
            growth=growth,
            observe=observed.observe_claim,
            changed=changed,
        )
        self._devices = DeviceAllocations(
            mirror,
            outlets.claim_allocator,
            growth=growth,
            observe=observed.observe_allocation,
            changed=changed,
        )

    def noted(self, reported: Reported) -> Reported:
        """Add what the API server has refused."""
        refused, devices = self._volumes.refused, self._devices.refused
        return replace(reported, refused_claims=refused, refused_allocations=devices)

    def carry_out(self, result: CycleResult, is_there: Callable[[TaskId], bool]) -> None:
        """Send what a cycle has decided, except for jobs with a pod deleted during the cycle."""
        with self._failures.contained("schedule", "requests for volumes"):
            self._volumes.carry_out(result, is_there)
        with self._failures.contained("schedule", "allocations of devices"):
            self._devices.carry_out(result, is_there)

    def ended(self, now: float) -> bool:
        """Whether a pause has ended, in time.monotonic()."""
        return any([self._volumes.ended(now), self._devices.ended(now)])
