"""Held pods: pods that could start, but wait on their nodes for volumes or devices.

This is the first of two steps: a cycle that could start a job asks for the volumes that its pods
need on their nodes, allocates devices to their claims, and keeps the nodes. The second step is an
ordinary cycle, once all claims are bound or allocated. Meanwhile the pods are nominated to their
nodes, as if pods were being evicted for them.
"""

from collections.abc import Callable, Collection

import msgspec

from vscheduler.core.model.claim_decisions import ClaimBinding
from vscheduler.core.model.device_decisions import ClaimAllocation
from vscheduler.core.model.jobs import JobId, Task, TaskId
from vscheduler.core.session.decided import Decided
from vscheduler.core.session.job_state import JobState


class Lacks(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod lacks before it may start on a node."""

    bindings: tuple[ClaimBinding, ...] = ()
    """Volumes that are to be bound to its claims."""
    allocations: tuple[ClaimAllocation, ...] = ()
    """Resource claims that are to be allocated to it."""
    unconfirmed: tuple[str, ...] = ()
    """Resource claims that can't be used yet, although there is nothing more to decide."""

    @property
    def anything(self) -> bool:
        """Whether the pod has to wait."""
        return bool(self.bindings or self.allocations or self.unconfirmed)


NOTHING = Lacks()


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that waits on its node for what it lacks, or for others of its gang."""

    task: Task
    node: str
    lacks: Lacks


class HeldPods:
    """The pods that wait in this cycle."""

    def __init__(self, is_ready: Callable[[JobState], bool]) -> None:
        """`is_ready` returns whether the minimum of a job can start now."""
        self.is_ready = is_ready
        self._held: dict[TaskId, Held] = {}
        self._jobs: dict[JobId, None] = {}
        self.holders: Collection[JobId] = self._jobs.keys()
        """Jobs with pods that wait, in the order of their turns."""

    def hold(self, task: Task, node: str, lacks: Lacks) -> None:
        """Record that the task waits on its node for this, or with others if it lacks nothing."""
        self._held[task.uid] = Held(task=task, node=node, lacks=lacks)
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

    def still_waiting(self, so_far: Decided) -> list[Held]:
        """Return the pods that still wait at the end of the cycle, by name."""
        found = [held for held in self._held.values() if _still_waits(held, so_far)]
        return sorted(found, key=lambda held: held.task.key)


def _still_waits(held: Held, so_far: Decided) -> bool:
    pipelined = so_far.pipelined.get(held.task.uid)
    return pipelined is not None and pipelined.node == held.node
