"""Resourcequota: admit no group whose pods would exceed a ResourceQuota of the namespace.

Volcano: plugins/resourcequota. The API server rejects pods above a quota one by one, leaving an
incomplete gang.
"""

from collections import defaultdict

from vscheduler.core.api.contracts import Plugin, Session
from vscheduler.core.api.views import JobState
from vscheduler.core.shares import inqueue_resources
from vscheduler.model import resources
from vscheduler.model.decisions import AdmissionFailure, ReasonCode, Shortage
from vscheduler.model.resources import ResourceMap
from vscheduler.model.snapshot import Quota


class ResourceQuota(Plugin):
    """Keeps minResources, usage of the namespace, and promises of this cycle within each quota."""

    name = "resourcequota"

    def open(self, session: Session) -> None:
        """Group quotas by namespace, and count promises from earlier cycles."""
        self._quotas: defaultdict[str, list[Quota]] = defaultdict(list)
        for quota in session.snapshot.quotas:
            self._quotas[quota.namespace].append(quota)
        self._inqueue: defaultdict[str, ResourceMap] = defaultdict(dict)
        if self._quotas:
            self._count_inqueue(session)

    def job_enqueueable(self, state: JobState) -> AdmissionFailure | bool:
        """Return the shortages of the first quota that would be exceeded, or True."""
        if state.job.min_resources is None:
            return True
        asked = self._asked(state)
        inqueue = self._inqueue[state.job.namespace]
        for quota in self._quotas[state.job.namespace]:
            shortages = []
            for name, amount in sorted(asked.items()):
                taken = quota.used.get(name, 0) + inqueue.get(name, 0)
                exceeded = name in quota.hard and taken + amount > quota.hard[name]
                if exceeded and self._needs(amount):
                    shortages.append(
                        Shortage(
                            resource=name,
                            requested=amount,
                            allocated=taken,
                            limit=quota.hard[name],
                        )
                    )
            if shortages:
                return AdmissionFailure(
                    code=ReasonCode.QUOTA_FULL,
                    shortages=tuple(shortages),
                    subject=quota.name,
                )
        return True

    def job_enqueued(self, state: JobState) -> None:
        """Count the group's resources: its pods are going to be created."""
        if state.job.min_resources is not None:
            namespace = state.job.namespace
            self._inqueue[namespace] = resources.add(self._inqueue[namespace], self._asked(state))

    def _count_inqueue(self, session: Session) -> None:
        """Add up promises made to groups in earlier cycles."""
        for state in session.promised_jobs:
            if inqueue_resources.holds(state):
                self.job_enqueued(state)

    def _asked(self, state: JobState) -> ResourceMap:
        """Return minResources not yet counted by the quota. A quota counts pods once created."""
        return inqueue_resources.missing_pods(state)

    def _needs(self, amount: int) -> bool:
        """Whether this amount may be refused: requests of 0 are always allowed."""
        return amount > 0
