"""Conditions of pods, and the instants that they and the rest of a pod's status tell.

Every pod is looked at with every change, so the conditions are gone through without generators.
"""

from vscheduler.mirror.decode import fields
from vscheduler.mirror.decode.wire import Pod

SCHEDULED = "PodScheduled"
"""Type of the condition whether a pod has a node."""


def has_reason(pod: Pod) -> bool:
    """Whether the pod's condition says that it isn't scheduled, and why."""
    return "False" in [
        condition.status for condition in pod.status.conditions if condition.type == SCHEDULED
    ]


def times(pod: Pod) -> tuple[float, float | None, float]:
    """Return when the pod was created and when it was scheduled, and the last instant known of
    both and of its start.

    If nothing says when the pod was scheduled, the time is that of its start on the node, or None.
    """
    started = pod.status.start_time
    created = fields.seconds(pod.metadata.creation_timestamp)
    scheduled = None if started is None else fields.seconds(started)
    last = max(created, scheduled or 0.0)
    for condition in pod.status.conditions:
        if condition.type == SCHEDULED:
            at = fields.seconds(condition.last_transition_time)
            last = max(last, at)
            if condition.status == "True" and condition.last_transition_time is not None:
                scheduled = at
    return created, scheduled, last
