"""Held pods: pods that could start, but wait on their nodes for volumes or devices.

This is the first of two steps: a cycle that could start a job asks for the claims of its pods, and
keeps the nodes. The second step is an ordinary cycle, once the API server shows that all claims are
bound or allocated. Meanwhile the pods are nominated to their nodes, as if pods were being evicted
for them.
"""

from collections.abc import Callable, Collection

from vscheduler.core.claims.lifecycle import ClaimLifecycle
from vscheduler.core.session.decided import Decided
from vscheduler.core.session.job_state import JobState
from vscheduler.model.decisions import Pipeline
from vscheduler.model.jobs import JobId, Task, TaskId


class HeldPods:
    """The pods that wait in this cycle."""

    def __init__(self, claims: ClaimLifecycle, is_ready: Callable[[JobState], bool]) -> None:
        """`is_ready` returns whether the minimum of a job can start now."""
        self.claims, self.is_ready = claims, is_ready
        self._held: dict[TaskId, Pipeline] = {}
        self._jobs: dict[JobId, None] = {}
        self.holders: Collection[JobId] = self._jobs.keys()
        """Jobs with pods that wait, in the order of their turns."""

    def hold(self, task: Task, node: str) -> None:
        """Record that the task waits on its node for its claims, or with others."""
        self._held[task.uid] = Pipeline(task=task, node=node)
        self._jobs[task.job] = None

    def is_held(self, task: Task) -> bool:
        """Whether the task waits."""
        return task.uid in self._held

    def goes_on(self, state: JobState) -> bool:
        """Whether pods of the job wait, and further pods don't have to wait for them.

        They have to if the minimum of the job waits.
        """
        return state.job.id in self._jobs and (state.starts_singly or self.is_ready(state))

    def holds_back(self, state: JobState) -> bool:
        """Whether further pods of the job have to wait, because the minimum waits."""
        return state.job.id in self._jobs and not self.goes_on(state)

    def still_waiting(self, decided: Decided) -> list[Pipeline]:
        """Return the pods that still wait at the end of the cycle, by name.

        A pod that has lost its node to another job and got it back is among them.
        """
        now = decided.pipelined
        found = [pod for uid, pod in self._held.items() if uid in now and now[uid].node == pod.node]
        return sorted(found, key=lambda pod: pod.task.key)
