"""Drf: the job whose dominant share is smallest comes first.

Volcano: plugins/drf, flat. A job's dominant share is the largest part that it has of any resource
of the cluster.
"""

from collections.abc import Sequence

from vscheduler.core import fairness
from vscheduler.core.framework import contracts, gangs
from vscheduler.core.model import jobs

SHARE_SLACK = 1e-6
"""Shares this close are equal (Volcano: drf shareDelta)."""


class Ledger:
    """What one job has, one amount per column, and its share as long as nothing changes."""

    __slots__ = ("allocated", "share")

    def __init__(self, allocated: list[int]) -> None:
        self.allocated = allocated
        self.share: float | None = None


class Drf(contracts.Plugin):
    """Levels the dominant shares of the jobs of a queue."""

    name = "drf"

    def open(self, session: contracts.Session) -> None:
        """Ledgers are opened when a job is first asked about, most never are."""
        self._session = session
        self._total: list[int] = session.total.tolist()
        self._ledgers: dict[jobs.JobId, Ledger] = {}
        self._requests: dict[jobs.TaskClass, list[tuple[int, int]]] = {}

    def job_key(self, gang: gangs.Gang) -> contracts.Key:
        """The dominant share; pod slots count as a resource (Volcano: drf updateShare)."""
        ledger = self._ledgers.get(gang.job.id) or self._ledger(gang.job)
        if ledger.share is None:
            ledger.share = fairness.share(ledger.allocated, self._total)
        return ledger.share

    def preemptable(
        self, claimant: jobs.Task, candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Pods whose job has no smaller share without them than the claimant's has with it.

        Volcano: drf preemptableFn.
        """
        mine = self._ledgers.get(claimant.job) or self._ledger(
            self._session.gangs[claimant.job].job
        )
        wanted = list(mine.allocated)
        for column, amount in self._requests.get(claimant.kind) or self._request(claimant):
            wanted[column] += amount
        share = fairness.share(wanted, self._total)
        left: dict[jobs.JobId, list[int]] = {}
        victims = []
        for task in candidates:
            ledger = self._ledgers.get(task.job) or self._ledger(self._session.gangs[task.job].job)
            amounts = left.setdefault(task.job, list(ledger.allocated))
            for column, amount in self._requests.get(task.kind) or self._request(task):
                amounts[column] -= amount
            if share <= fairness.share(amounts, self._total) + SHARE_SLACK:
                victims.append(task)
        return victims

    def on_allocate(self, task: jobs.Task) -> None:
        """Room that is only promised counts as well, as in Volcano."""
        ledger = self._ledgers.get(task.job) or self._ledger(self._session.gangs[task.job].job)
        for column, amount in self._requests.get(task.kind) or self._request(task):
            ledger.allocated[column] += amount
        ledger.share = None

    def on_deallocate(self, task: jobs.Task) -> None:
        """The opposite."""
        ledger = self._ledgers.get(task.job) or self._ledger(self._session.gangs[task.job].job)
        for column, amount in self._requests.get(task.kind) or self._request(task):
            ledger.allocated[column] -= amount
        ledger.share = None

    def _ledger(self, job: jobs.Job) -> Ledger:
        """The job as in the snapshot: whatever changes it opens its ledger first."""
        ledger = Ledger(self._session.space.vector(job.allocated).tolist())
        self._ledgers[job.id] = ledger
        return ledger

    def _request(self, task: jobs.Task) -> list[tuple[int, int]]:
        """The columns that the task asks for; found once per class."""
        row: list[int] = self._session.request(task).tolist()
        request = [(column, amount) for column, amount in enumerate(row) if amount]
        self._requests[task.kind] = request
        return request
