"""What pods bear out of a PodGroup's status: whoever may write one could say anything there.

Volcano counts PodGroups by what their status says. Here a group counts as running only where one of
its pods has a node, so that what somebody wrote into a status is no more than a wish.
"""

from vscheduler.controllers.queues import queue_objects
from vscheduler.core.model import jobs
from vscheduler.mirror import state

STARTED = frozenset({queue_objects.PHASES["Running"], queue_objects.PHASES["Unknown"]})
RUNNING, PENDING = (queue_objects.PHASES[phase] for phase in ("Running", "Pending"))
COMPLETED = queue_objects.PHASES["Completed"]


class Evidence:
    """Questions to the Mirror, which knows the pods of all schedulers."""

    def __init__(self, mirror: state.Mirror) -> None:
        self._mirror = mirror

    def counter(self, group: queue_objects.Group) -> str:
        """The field of its Queue's status in which a group counts.

        One that has no pod on any node hasn't started, one that has is not over. Being admitted is
        nothing that pods could show: there the status is believed, and one group counts once.
        """
        if group.counter in STARTED and not self._placed(group):
            return PENDING
        if group.counter == COMPLETED and self._holds_room(group):
            return RUNNING
        return group.counter

    def _placed(self, group: queue_objects.Group) -> bool:
        members = self._mirror.members(jobs.JobId(group.key))
        return any(pod.node is not None for pod in members)

    def _holds_room(self, group: queue_objects.Group) -> bool:
        return any(pod.holds_room for pod in self._mirror.members(jobs.JobId(group.key)))
