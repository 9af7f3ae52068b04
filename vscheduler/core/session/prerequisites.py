"""Prerequisites: what pods need besides a node before they can be bound, volumes and devices."""

from vscheduler.core.model import jobs
from vscheduler.core.session import device_binding, held_pods, volume_binding


class Prerequisites:
    """Asks for volumes and devices at once, so that a gang waits for both together."""

    def __init__(
        self,
        volumes: volume_binding.VolumeBinding,
        devices: device_binding.DeviceBinding,
        held: held_pods.HeldPods,
    ) -> None:
        self.held = held
        self._volumes, self._devices = volumes, devices

    def lacks(self, task: jobs.Task, row: int) -> held_pods.Lacks:
        """Return what the task lacks before it may start on this node."""
        if not (task.volumes or task.pod_class.constraints.resource_claims):
            return held_pods.NOTHING
        return held_pods.Lacks(
            bindings=self._volumes.unbound(task, row),
            allocations=self._devices.unallocated(task, row),
            unconfirmed=tuple(self._devices.unconfirmed(task)),
        )

    def lacks_choice(self, task: jobs.Task, lacks: held_pods.Lacks) -> bool:
        """Whether the task lacks something for which nothing is chosen on its node."""
        lost = self._volumes.lacks_choice(task, lacks.bindings)
        return lost or self._devices.lacks_choice(task)
