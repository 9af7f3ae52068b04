"""Pod overlay: pods as cycles see them, with what the API server doesn't say of them.

These are binds and evictions in flight, and the devices of claims that count for a pod.
"""

from collections.abc import Callable, Mapping

from vscheduler.core.model import jobs
from vscheduler.mirror.index import node_usage
from vscheduler.mirror.translate import pods


class PodOverlay:
    """What is known of pods beside their objects, by UID."""

    def __init__(self, charge: Callable[[pods.Pod, Mapping[str, int]], pods.Pod]) -> None:
        """`charge` returns a pod with devices that count for it."""
        self._charge = charge
        self.assumed: dict[jobs.TaskId, node_usage.Assumption] = {}
        """Binds in flight, until the watch shows the pod on a node."""
        self.evicting: dict[jobs.TaskId, float] = {}
        """When an eviction in flight was sent, until the watch shows the pod leaving."""
        self.charged: dict[jobs.TaskId, Mapping[str, int]] = {}
        """Devices of claims that count for the pod."""

    def as_seen(self, pod: pods.Pod | None) -> pods.Pod | None:
        """Return the pod with all of this: Binding, or leaving."""
        if pod is None:
            return None
        if self.charged and (devices := self.charged.get(pod.uid)):
            pod = self._charge(pod, devices)
        if pod.uid in self.evicting:
            return pod.leaving()
        assumption = self.assumed.get(pod.uid)
        return pod if assumption is None else pod.bound_to(assumption.node)
