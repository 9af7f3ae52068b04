"""CycleRules: decisions of a cycle that belong to no plugin and to no action.

A Policy holds one `CycleRules` object, chosen when the configuration is read. A compatibility mode
hands in a subclass.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts, views
from vscheduler.core.model import jobs, resources

WITHOUT_NODE = (*jobs.WAITING, jobs.TaskStatus.PIPELINED, *jobs.HOLDING - jobs.SCHEDULED)
"""Statuses of pods that have no node when the cycle begins, and are to have one."""


class CycleRules:
    """The default rules. Methods keep no state and change nothing."""

    reprieves: ClassVar[bool] = True
    """Whether victims stay after all where, once all actions have run, the job that they were
    evicted for fits without that."""

    def total(self, session: contracts.Session) -> resources.Vector:
        """Return the resources that shares are computed from, (R,): what pods of queues could use
        of the nodes.
        """
        return session.usable.total

    def has_no_nodes(
        self, session: contracts.Session, queue: str, pod_class: jobs.PodClass
    ) -> bool:
        """Whether pods of this class and queue get no share, as no node could run them."""
        return session.usable.nowhere(queue, pod_class)

    def unused_nodes(self, session: contracts.Session) -> NDArray[np.int64]:
        """Return the rows of nodes that don't count in `total`, as no pod could use them."""
        return session.usable.left_out

    def sub_group_values(
        self, policy: jobs.SubGroup, labels: Mapping[str, str]
    ) -> tuple[str, ...] | None:
        """Return the label values that name a pod's sub-group; None where the policy doesn't
        select the pod. A policy without keys makes one sub-group of all pods that it selects.
        """
        return policy.values(labels)

    def unfinished_without_node(self, gang: views.JobState) -> int:
        """Count the pods without a node that keep a PodGroup from being Completed: all that are
        still to run.
        """
        return sum(gang.counts[status] for status in WITHOUT_NODE) + len(gang.job.rejections)

    def lacks_minimum(self, gang: views.JobState, placed: int) -> bool:
        """Whether a job has fewer than minMember pods; `placed` of its pods have a node, or are
        bound in this cycle.
        """
        return placed < gang.job.min_member


DEFAULT = CycleRules()
"""The rules where no compatibility mode is configured."""
