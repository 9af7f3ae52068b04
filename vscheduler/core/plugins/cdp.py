"""Cdp: cool-down protection, a pod just started isn't evicted for a while.

Volcano: plugins/cdp. Without protection, elastic jobs can take the same resources from each other
in turn.
"""

from collections.abc import Sequence

from vscheduler.core.api.contracts import Plugin, Session, VictimRole
from vscheduler.core.api.depends import On, depends_on
from vscheduler.model import durations
from vscheduler.model.jobs import Task, TaskStatus

COOLDOWN = "volcano.sh/cooldown-time"
"""Label of a pod, or else annotation: how long the pod is protected, such as 10m."""


class Cdp(Plugin):
    """Protects running pods until their cool-down time has passed since they were scheduled."""

    name = "cdp"
    victim_role = VictimRole.PROTECTS

    def open(self, session: Session) -> None:
        """Keep the session; each pod names its own cool-down time."""
        self._session = session

    @depends_on(On.VICTIM | On.TIME)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return all pods without cool-down time left (Volcano: cdp filterVictimFn)."""
        del preemptor
        return [task for task in candidates if not self._cooling(task)]

    reclaimable = preemptable

    def _cooling(self, task: Task) -> bool:
        """Whether the pod is still protected. If so, a cycle is due when protection ends."""
        if task.status is not TaskStatus.RUNNING or task.scheduled_at is None:
            return False
        end = task.scheduled_at + _cooldown(task)
        if end <= self._session.snapshot.now:
            return False
        self._session.wake(end)
        return True


def _cooldown(task: Task) -> float:
    """Return the cool-down time in seconds, 0 if unreadable. The label precedes the annotation."""
    text = task.labels.get(COOLDOWN, task.annotations.get(COOLDOWN, "0"))
    try:
        return durations.seconds(text)
    except ValueError:
        return 0.0
