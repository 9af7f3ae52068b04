"""Claim writes: what cycles decide about claims of volumes and of devices, on its way out."""

from collections.abc import Callable
from dataclasses import replace

from vscheduler import backoff
from vscheduler.core.model import decisions, jobs, snapshot
from vscheduler.daemon import device_allocations, outlets, volume_requests
from vscheduler.daemon.observability import metrics
from vscheduler.mirror import state


class ClaimWrites:
    """The senders of one leader session."""

    def __init__(
        self,
        mirror: state.Mirror,
        outlets: outlets.Outlets,
        observed: metrics.Metrics,
        *,
        growth: backoff.Growth,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when a cycle may decide otherwise."""
        self._failures = outlets.failures
        self._volumes = volume_requests.VolumeRequests(
            mirror,
            outlets.claim_binder,
            growth=growth,
            observe=observed.observe_claim,
            changed=changed,
        )
        self._devices = device_allocations.DeviceAllocations(
            mirror,
            outlets.claim_allocator,
            growth=growth,
            observe=observed.observe_allocation,
            changed=changed,
        )

    def noted(self, carried: snapshot.Carried) -> snapshot.Carried:
        """Add what the API server has refused."""
        refused, devices = self._volumes.refused, self._devices.refused
        return replace(carried, refused_claims=refused, refused_allocations=devices)

    def carry_out(
        self, result: decisions.CycleResult, is_there: Callable[[jobs.TaskId], bool]
    ) -> None:
        """Send what a cycle has decided, except for jobs with a pod deleted during the cycle."""
        with self._failures.contained("schedule", "requests for volumes"):
            self._volumes.carry_out(result, is_there)
        with self._failures.contained("schedule", "allocations of devices"):
            self._devices.carry_out(result, is_there)

    def ended(self, now: float) -> bool:
        """Whether a pause has ended, in time.monotonic()."""
        return any([self._volumes.ended(now), self._devices.ended(now)])
