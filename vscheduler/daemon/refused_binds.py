"""Binds that the API server refused: what it said, until the pod is bound or gone.

The refusal of an admission policy, or for want of permission, concerns one pod and may last. The
pod keeps its place on the node between two attempts, so it looks bound to a cycle. With these
messages, a cycle knows better, and tells users.
"""

from collections.abc import Callable

from vscheduler.cluster.writes import binder
from vscheduler.core.model import jobs

LENGTH_MAX = 500
"""Longest message in characters: an admission webhook may answer at any length."""
PODS_MAX = 10_000
"""How many pods are known; beyond the limit all are forgotten, until their next attempts."""


class RefusedBinds:
    """The last refusal of each pod."""

    def __init__(self) -> None:
        self._found: dict[jobs.TaskId, tuple[jobs.JobId, str]] = {}

    def take(self, outcome: binder.Outcome) -> bool:
        """Take in the result of a bind; return whether a cycle has to report something new."""
        task = outcome.bind.task
        if outcome.verdict is not binder.BindResult.REFUSED:
            # The watch shows a bound pod; after any other result nothing is known any more.
            self._found.pop(task.uid, None)
            return False
        if len(self._found) >= PODS_MAX:
            self._found.clear()
        refusal = task.job, outcome.message[:LENGTH_MAX]
        news = self._found.get(task.uid) != refusal
        self._found[task.uid] = refusal
        return news

    def current(
        self, is_there: Callable[[jobs.TaskId], bool]
    ) -> dict[jobs.JobId, dict[jobs.TaskId, str]]:
        """Return the messages of all pods that still exist, by job, and forget the others."""
        self._found = {uid: found for uid, found in self._found.items() if is_there(uid)}
        by_job: dict[jobs.JobId, dict[jobs.TaskId, str]] = {}
        for uid, (job, message) in self._found.items():
            by_job.setdefault(job, {})[uid] = message
        return by_job
