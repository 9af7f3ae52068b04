"""Pod overlay: pods as cycles see them, with what the API server doesn't say of them.

These are binds and evictions in flight, pauses between binds, the claim for extended resources that
stand for devices, and the devices of claims that count for a pod.
"""

from collections.abc import Mapping

from vscheduler.core.model.jobs import TaskId
from vscheduler.mirror.index.entries import Entry, Reader
from vscheduler.mirror.index.node_usage import Assumption
from vscheduler.mirror.translate import extended_resources
from vscheduler.mirror.translate.pods import Pod


class PodOverlay:
    """What is known of pods beside their objects, by UID."""

    def __init__(self, reader: Reader, stored: Mapping[str, Entry]) -> None:
        """`stored` are all pods as last seen, by UID."""
        self._reader, self._stored = reader, stored
        self.classes: Mapping[str, str] = {}
        """DeviceClasses by the extended resource that stands for their devices."""
        self.assumed: dict[TaskId, Assumption] = {}
        """Binds in flight, until the watch shows the pod on a node."""
        self.evicting: dict[TaskId, float] = {}
        """When an eviction in flight was sent, until the watch shows the pod leaving."""
        self.held_back: dict[TaskId, None] = {}
        """Waiting pods for which no node is searched for now; an ordered set."""
        self.charged: dict[TaskId, Mapping[str, int]] = {}
        """Devices of claims that count for the pod."""

    def assume(self, pod: Pod, node: str, now: float) -> tuple[Pod, Pod]:
        """Let a waiting pod be Binding to a node; return the pod as seen before and now."""
        before = self.as_seen(pod)
        assert before is not None
        after = before.bound_to(node)
        self.assumed[pod.uid] = Assumption(node, now, before, after)
        return before, after

    def as_seen(self, pod: Pod | None) -> Pod | None:
        """Return the pod with all of this: Binding, leaving, or held back."""
        if pod is None:
            return None
        if pod.extended and self.classes:
            pod = self._with_claim(pod)
        if self.charged and (devices := self.charged.get(pod.uid)):
            pod = self._reader.charged(pod, devices)
        if pod.uid in self.evicting:
            return pod.leaving(self.evicting[pod.uid])
        assumption = self.assumed.get(pod.uid)
        if assumption is None:
            return pod.held_back() if pod.uid in self.held_back and pod.waits else pod
        return assumption.bound if assumption.pod is pod else pod.bound_to(assumption.node)

    def rename(self, classes: Mapping[str, str]) -> list[tuple[Pod | None, Pod | None]]:
        """Let other extended resources stand for DeviceClasses; return the pods with such resources
        as seen before and now.
        """
        if classes == self.classes:
            return []
        every = (entry.value for entry in self._stored.values())
        concerned = [pod for pod in every if isinstance(pod, Pod) and pod.extended]
        before = [self.as_seen(pod) for pod in concerned]
        self.classes = classes
        return list(zip(before, map(self.as_seen, concerned), strict=True))

    def _with_claim(self, pod: Pod) -> Pod:
        """Return the pod with the claim that stands for its extended resources, if any do."""
        use = extended_resources.use_of(pod.key, pod.uid, pod.extended, self.classes)
        return pod if use is None else self._reader.claiming(pod, use)
