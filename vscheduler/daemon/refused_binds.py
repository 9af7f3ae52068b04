"""Binds that the API server refused: what it said, until the pod is bound or gone.

The refusal of an admission policy, or for want of permission, concerns one pod and may last. The
pod keeps its place on the node between two attempts, so it looks bound to a cycle. With these
messages, a cycle knows better, and tells users. After several refusals in a row, the pod no longer
keeps its place: others that fit must not wait for what may never be allowed.
"""

from collections.abc import Callable

import msgspec

from vscheduler.cluster.writes.binder import BindResult, Outcome
from vscheduler.core.model.jobs import JobId, TaskId
from vscheduler.core.model.snapshot import BindRefusal
from vscheduler.mirror.wording import plain_text

LENGTH_MAX = 500
"""Longest message in characters: an admission webhook may answer at any length."""
PODS_MAX = 10_000
"""How many pods are known; beyond the limit all are forgotten, until their next attempts."""
LASTING = 3
"""After so many refusals in a row, the pod has no place during its pauses."""


class _Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The refusals of one pod in a row."""

    job: JobId
    last: BindRefusal
    times: int


class RefusedBinds:
    """The last refusal of each pod."""

    def __init__(self) -> None:
        self._found: dict[TaskId, _Refused] = {}

    def take(self, outcome: Outcome) -> bool:
        """Take in the result of a bind; return whether a cycle has to report something new."""
        task = outcome.bind.task
        if outcome.verdict is not BindResult.REFUSED:
            # The watch shows a bound pod; after any other result nothing is known any more.
            self._found.pop(task.uid, None)
            return False
        if len(self._found) >= PODS_MAX:
            self._found.clear()
        message = plain_text.shown(outcome.message[:LENGTH_MAX])[:LENGTH_MAX]
        refusal = BindRefusal(node=outcome.bind.node, message=message)
        before = self._found.get(task.uid)
        times = 1 if before is None else before.times + 1
        self._found[task.uid] = _Refused(job=task.job, last=refusal, times=times)
        return before is None or before.last != refusal

    def lasts(self, task: TaskId) -> bool:
        """Whether the last binds of the pod were refused one after the other."""
        found = self._found.get(task)
        return found is not None and found.times >= LASTING

    @property
    def lasting_jobs(self) -> frozenset[JobId]:
        """The jobs of such pods. To evict pods for these jobs might be in vain."""
        return frozenset(each.job for each in self._found.values() if each.times >= LASTING)

    def current(self, is_there: Callable[[TaskId], bool]) -> dict[JobId, dict[TaskId, BindRefusal]]:
        """Return the refusals of all pods that still exist, by job, and forget the others."""
        self._found = {uid: found for uid, found in self._found.items() if is_there(uid)}
        by_job: dict[JobId, dict[TaskId, BindRefusal]] = {}
        for uid, found in self._found.items():
            by_job.setdefault(found.job, {})[uid] = found.last
        return by_job
