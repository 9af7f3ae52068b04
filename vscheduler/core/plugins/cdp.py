"""Cdp: a pod that has just found its place keeps it for a while (cool-down protection).

Volcano: plugins/cdp. Without it, elastic jobs can take the same room from each other in turn.
"""

from collections.abc import Sequence

from vscheduler.core.api import contracts
from vscheduler.core.model import durations, jobs

COOLDOWN = "volcano.sh/cooldown-time"
"""Label of a pod, or else annotation: for how long it is protected, such as 10m."""


class Cdp(contracts.Plugin):
    """Protects running pods until their own cool-down time has passed since they were scheduled."""

    name = "cdp"
    victim_role = contracts.VictimRole.PROTECTS

    def open(self, session: contracts.Session) -> None:
        """Pods say themselves for how long they are protected."""
        self._session = session

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """All whose time has passed, or who have none (Volcano: cdp filterVictimFn)."""
        del claimant
        return [task for task in candidates if not self._cooling(task)]

    reclaimable = preemptable

    def _cooling(self, task: jobs.Task) -> bool:
        if task.status is not jobs.TaskStatus.RUNNING or task.scheduled_at is None:
            return False
        end = task.scheduled_at + _cooldown(task)
        if end <= self._session.snapshot.now:
            return False
        self._session.wake(end)
        return True


def _cooldown(task: jobs.Task) -> float:
    """In seconds; a text that is no duration protects nothing, and the label goes first."""
    text = task.labels.get(COOLDOWN, task.annotations.get(COOLDOWN, "0"))
    try:
        return durations.seconds(text)
    except ValueError:
        return 0.0
