"""CycleRules: rules of a cycle that belong to no plugin and no action.

A Policy holds one `CycleRules` object, chosen when the configuration is read. A compatibility mode
provides a subclass.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Session
from vscheduler.core.api.views import JobState
from vscheduler.model.jobs import (
    HOLDING,
    SCHEDULED,
    WAITING,
    YOUNG,
    Job,
    PodClass,
    SubGroup,
    TaskStatus,
)
from vscheduler.model.jobs_by_id import JobsById
from vscheduler.model.resources import Vector

WITHOUT_NODE = (*WAITING, TaskStatus.PIPELINED, *HOLDING - SCHEDULED)
"""Statuses of pods that have no node at the start of a cycle, but should get one."""


class CycleRules:
    """The default rules. Methods keep no state and change nothing."""

    reprieves: ClassVar[bool] = True
    """Whether victims are spared when, after all actions, the preemptor fits without evicting
    them."""
    searches_gangs: ClassVar[bool] = True
    """Whether a gang that can't be placed pod by pod is placed by a search."""
    lends: ClassVar[bool] = True
    """Whether what no queue can use within its share is lent to queues beyond theirs."""
    leaves_jobs_out: ClassVar[bool] = True
    """Whether cycles leave out jobs without room (session.unschedulable_pool), and jobs that run
    (session.unchanged_jobs)."""
    groups_all_pods: ClassVar[bool] = False
    """Whether all pods get PodGroups, those that need none, too. Flag --podgroups comes first."""

    def total(self, session: Session) -> Vector:
        """Return the resources to be shared, (R,): the parts of nodes usable by pods of queues."""
        return session.pools.total

    def has_no_nodes(self, session: Session, queue: str, pod_class: PodClass) -> bool:
        """Whether pods of this class and queue get no share, because no node could run them."""
        return session.pools.nowhere(queue, pod_class)

    def unused_nodes(self, session: Session) -> NDArray[np.int64]:
        """Return the rows of nodes left out of `total`, because no pod could use them."""
        return session.pools.left_out

    def sub_group_values(
        self, policy: SubGroup, labels: Mapping[str, str]
    ) -> tuple[str, ...] | None:
        """Return the label values of a pod's sub-group, or None without a sub-group.

        All pods selected by a policy without keys form a single sub-group.
        """
        return policy.values(labels)

    def unfinished_without_node(self, state: JobState) -> int:
        """Count the pods without a node that keep a PodGroup from being Completed.

        All pods still to run count.
        """
        return sum(state.counts[status] for status in WITHOUT_NODE) + len(state.job.rejections)

    def seen(self, every: JobsById) -> JobsById:
        """Return the jobs of a snapshot as a cycle sees them: as they are."""
        return every

    def minimums(self, job: Job) -> tuple[int, Mapping[str, int]]:
        """Return how many tasks must have nodes before any is bound, in all and by role."""
        return job.still_needed, job.still_needed_of

    def is_unknown(self, state: JobState) -> bool:
        """Whether a PodGroup is Unknown that lacks pods beside others that run.

        A PodGroup that never had its minimum hasn't started: its phase tells it from those that
        have lost pods.
        """
        return state.phase not in YOUNG

    def lacks_minimum(self, state: JobState, placed: int) -> bool:
        """Whether a job has fewer than minMember pods.

        `placed` counts the pods with a node, or bound in this cycle.
        """
        return placed < state.job.min_member


DEFAULT = CycleRules()
"""The rules without a compatibility mode."""
