"""VolcanoCycleRules: Volcano's decisions that belong to no plugin and to no action."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Session
from vscheduler.core.api.views import JobState
from vscheduler.core.config.cycle_rules import CycleRules
from vscheduler.model import jobs
from vscheduler.model.jobs import Job, PodClass, SubGroup
from vscheduler.model.jobs_by_id import JobsById
from vscheduler.model.resources import Vector


class VolcanoCycleRules(CycleRules):
    """Shares count all ready nodes, evictions are never cancelled by reprieves, gangs are placed
    pod by pod only, nothing is lent beyond shares, and each cycle goes through all jobs.
    """

    reprieves: ClassVar[bool] = False
    searches_gangs: ClassVar[bool] = False
    lends: ClassVar[bool] = False
    leaves_jobs_out: ClassVar[bool] = False
    groups_all_pods: ClassVar[bool] = True

    def total(self, session: Session) -> Vector:
        """Return what all ready nodes have, (R,), whether any pod could use them or not."""
        table = session.snapshot.nodes
        total: Vector = table.allocatable[table.layout.ready].sum(axis=0)
        devices = session.devices.supply(session.space)
        return total if devices is None else total + devices[table.layout.ready].sum(axis=0)

    def has_no_nodes(self, session: Session, queue: str, pod_class: PodClass) -> bool:
        """Return False: shares are computed without asking which nodes a pod could use."""
        del session, queue, pod_class
        return False

    def unused_nodes(self, session: Session) -> NDArray[np.int64]:
        """Return no rows: every ready node counts."""
        del session
        return np.empty(0, dtype=np.int64)

    def sub_group_values(
        self, policy: SubGroup, labels: Mapping[str, str]
    ) -> tuple[str, ...] | None:
        """Return None for a policy without keys, too: each pod of such a policy stands alone, and
        the policy's minSubGroups can't be met (Volcano: getOrCreateSubJob).
        """
        return policy.values(labels) if policy.keys else None

    def unfinished_without_node(self, state: JobState) -> int:
        """Return 0: a PodGroup is Completed once all pods with a node have finished."""
        del state
        return 0

    def seen(self, every: JobsById) -> JobsById:
        """Return the jobs without pods that don't exist any more: nobody remembers them."""
        if not any(job.succeeded_gone for job in every):
            return every
        return JobsById.of(map(jobs.without_gone, every))

    def minimums(self, job: Job) -> tuple[int, Mapping[str, int]]:
        """Return minMember and minTaskMember, whatever ran before."""
        return job.min_member, job.min_task_member

    def is_unknown(self, state: JobState) -> bool:
        """Return True, whether the group ever had its minimum or not."""
        del state
        return True

    def lacks_minimum(self, state: JobState, placed: int) -> bool:
        """Whether fewer than minMember pods are ready, pending best-effort pods included.

        Volcano: JobInfo.IsReady.
        """
        del placed
        return not state.has_minimum
