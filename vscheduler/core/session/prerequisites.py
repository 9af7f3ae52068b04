"""Prerequisites: what pods need besides a node before they can be bound, volumes and devices."""

from collections.abc import Mapping

from msgspec.structs import replace

from vscheduler.core.model.jobs import Task
from vscheduler.core.session import held_pods
from vscheduler.core.session.decided import Decided
from vscheduler.core.session.device_binding import DeviceBinding
from vscheduler.core.session.held_pods import Held, HeldPods, Lacks
from vscheduler.core.session.volume_binding import VolumeBinding


class Prerequisites:
    """Asks for volumes and devices at once, so that a gang waits for both together."""

    def __init__(
        self,
        volumes: VolumeBinding,
        devices: DeviceBinding,
        held: HeldPods,
    ) -> None:
        self.held = held
        self._volumes, self._devices = volumes, devices

    def lacks(self, task: Task, row: int) -> Lacks:
        """Return what the task lacks before it may start on this node."""
        if not (task.volumes or task.pod_class.constraints.resource_claims):
            return held_pods.NOTHING
        return Lacks(
            bindings=self._volumes.unbound(task, row),
            allocations=self._devices.unallocated(task, row),
            unconfirmed=tuple(self._devices.unconfirmed(task)),
        )

    def lacks_choice(self, task: Task, lacks: Lacks) -> bool:
        """Whether the task lacks something for which nothing is chosen on its node."""
        lost = self._volumes.lacks_choice(task, lacks.bindings)
        return lost or self._devices.lacks_choice(task)

    def still_waiting(self, so_far: Decided, rows: Mapping[str, int]) -> list[Held]:
        """Return the pods that still wait at the end of the cycle, by name, with what they lack.

        A pod that has lost its node to another job and got it back may have other volumes and
        devices there by now.
        """
        return [
            replace(each, lacks=self.lacks(each.task, rows[each.node]))
            for each in self.held.still_waiting(so_far)
        ]
