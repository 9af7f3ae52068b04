"""Further hooks: what plugins of this scheduler need, and few others.

Shares, lending and admission of queues, time-outs of gangs, victims beyond who may go, and events
for plugins that count.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Hooks, Key, NodeView
from vscheduler.core.api.views import JobState
from vscheduler.model.decisions import (
    Entitlement,
    QueueLimit,
    ShareAfter,
    Shortage,
)
from vscheduler.model.jobs import Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.queues import Queue, Usage
from vscheduler.model.resources import Vector


class AllHooks(Hooks, Protocol):
    """All hooks, with those of `contracts.Hooks`. No class implements the whole protocol.

    Its methods say which hook is asked, as in `dispatch.all_agree(AllHooks.job_ready, state)`.
    """

    def start(self) -> None:
        """[-; all] All plugins are open: compute what depends on them, such as shares of total."""

    def queue_nodes(self, queue: Queue, layout: NodeLayout) -> Mask | None:
        """[-; all masks] Like `class_nodes`, for pods of this queue and of any class."""

    def queue_path(self, queue: Queue) -> Sequence[Hashable]:
        """[-; first answer] The path of a queue in a tree of queues; see docs/plugins.md."""

    def task_key(self, task: Task) -> Key | None:
        """[TaskOrder; first difference, then index, creation time, UID] The sort key of a task."""

    def job_ready(self, state: JobState) -> bool | None:
        """[JobReady; all] May the tasks allocated so far be bound?"""

    def start_timeout(self, state: JobState) -> float | None:
        """[-; first] After how many seconds is a gang evicted if only a part of its pods could be
        bound? Without any answer, the pods stay.
        """

    def recovery_timeout(self, state: JobState) -> float | None:
        """[-; first] After how many seconds is a gang evicted that had its minimum and has lost
        pods, which nobody replaces? Without any answer, the other pods stay.
        """

    def job_pipelined(self, state: JobState) -> bool | None:
        """[JobPipelined; a vote] May the job reserve resources being released until the job can
        start? A reject loses, a tier with a permit decides.
        """

    def job_starving(self, state: JobState) -> bool | None:
        """[JobStarving; all of the first tier with an answer] May pods be evicted for this job? If
        no plugin has an answer, no job starves.
        """

    def job_enqueued(self, state: JobState) -> None:
        """[JobEnqueued; all] The group was admitted: count the resources promised to the group."""

    def overused(self, queue: Queue) -> str | bool | None:
        """[Overused; any] Has the queue reached its share? If so, it gets no turn this cycle. A
        text is a yes, with the sentence that its jobs are told.
        """

    def allocatable(self, queue: Queue, task: Task) -> str | bool | None:
        """[Allocatable; all] May this task be allocated to the queue? A text is a no, with the
        sentence that its job is told.
        """

    def share_with(self, queue: Queue, tasks: Sequence[Task]) -> float | None:
        """[-; first] With these tasks, how many times its share would the queue have of the
        resources that they request? Asked to lend to the smallest such queue first.
        """

    def queue_limits(self, queue: Queue, task: Task) -> Sequence[QueueLimit]:
        """[-; all] The limits behind `allocatable` and `filter_nodes`, of all resources."""

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool | None:
        """[Preemptive; all] Does the queue's share cover these tasks, too, so that pods may go?"""

    def share_after(
        self, preemptor: Task, demand: Vector, victims: Sequence[Task]
    ) -> ShareAfter | None:
        """[-; first] With what shares would the queue of these victims and the preemptor's queue
        end, after all that the job requests, (R,)? None: shares don't matter.
        """

    def victim_queue_key(self, preemptor_queue: Queue, queue: Queue) -> Key | None:
        """[VictimQueueOrder; first difference, then the reverse of queue_key] The sort key of a
        queue that may lose pods to the preemptor.
        """

    def shuffle_victims(self, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """[VictimTasks; the first tier with any] Which pods should be evicted to be rescheduled?"""

    def shortages(self, queue: Queue, task: Task) -> Sequence[Shortage]:
        """[-; all] The figures behind `overused`, or behind a refusal of `allocatable`."""

    def score_node_set(
        self, task: Task, nodes: NodeView, feasible: NDArray[np.bool_]
    ) -> NDArray[np.float64] | None:
        """[BatchNodeOrder; sum] Scores that depend on the set of feasible nodes (N,), such as
        scores scaled to the maximum. Always asked for all rows. None: all scores are equal.
        """

    def on_allocate(self, task: Task) -> None:
        """[AllocateFunc; all] The task was placed, to start now or later. Undone by on_deallocate.
        For a running task: an eviction was cancelled.
        """

    def on_deallocate(self, task: Task) -> None:
        """[DeallocateFunc; all] The task lost its place. For a running task: the task is being
        evicted, and its resources become available to waiting pods.
        """

    def on_ended(self, amounts: Mapping[str, Vector]) -> None:
        """[-; all] Pods will have ended by a start that is being planned: by the names of their
        queues, what they have, (R,), counts as given back. Negative amounts undo it. A plugin that
        counts what queues have, and lacks this hook, is told of each such pod by on_deallocate.
        """

    def entitlements(self) -> Mapping[str, Entitlement]:
        """[-; last plugin with an answer] The share of each queue, for display."""

    def usages(self) -> Mapping[str, Usage]:
        """[-; last plugin with an answer] The usage of each queue over time, for the next cycle's
        `snapshot.carried` and for restarts. Return the previous object if only time has passed.
        """
