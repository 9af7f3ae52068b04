"""What all pods of a node hold, kept up to date at each step, for a last look before a bind."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from vscheduler.core.model import jobs, nodes
from vscheduler.mirror.translate import pods, translation


@dataclass(frozen=True, slots=True)
class Assumption:
    """A bind that was sent and that the watch hasn't shown yet."""

    node: str
    since: float


class Loads:
    """Sums by node, whoever schedules the pods; those that are being bound are in them."""

    def __init__(self) -> None:
        self._held: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def move_pod(self, old: pods.Pod | None, new: pods.Pod | None) -> None:
        """The pod came, changed or went."""
        if old is not None and new is not None and _same(old, new):
            return
        for pod, step in ((new, 1), (old, -1)):
            if pod is None or pod.node is None or not pod.holds_room:
                continue
            held = self._held[pod.node]
            for name, amount in pod.kind.request.items():
                held[name] += step * amount
                if not held[name]:
                    del held[name]
            if not held:
                del self._held[pod.node]

    def fits(self, kind: jobs.TaskClass, node: translation.Node, before: nodes.NodeSpec) -> bool:
        """Whether a node still takes pods like this one, which is counted there already, and has
        as much as all pods hold there of what it asks for.
        """
        held = self._held[node.spec.name]
        return nodes.still_takes(before, node.spec, kind.constraints.tolerations) and all(
            held[name] <= node.allocatable.get(name, 0) for name in kind.request
        )


def _same(old: pods.Pod, new: pods.Pod) -> bool:
    """Whether it holds the same room."""
    return old.kind is new.kind and old.node == new.node and old.holds_room == new.holds_room
