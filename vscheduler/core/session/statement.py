"""Statement: a journal of tentative changes, which are committed, held or undone."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import Self, TypeAlias

from vscheduler.core.claims.kind import Lacks
from vscheduler.core.session.cluster_state import ClusterState
from vscheduler.core.session.decided import Decided
from vscheduler.core.session.held_pods import HeldPods
from vscheduler.core.session.work_budget import WorkBudget
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import EVICTABLE, READY, JobId, Task, TaskId, TaskStatus
from vscheduler.model.snapshot import ReplacementReservation


class Step(Enum):
    """The kind of one entry in the journal."""

    PLACED = "placed"
    EVICTED = "evicted"
    WITHDRAWN = "withdrawn"
    SPARED = "spared"
    REPRIEVED = "reprieved"
    LIFTED = "lifted"
    KEPT = "kept"
    STARTED = "started"


Placement: TypeAlias = tuple[Task, int, TaskStatus]
"""A task, the row of its node, and whether it starts there or waits."""


class Statement:
    """A transaction on the session: placements and evictions that can be undone.

    Leaving the `with` block without `commit` or `hold` undoes all changes. Volcano:
    framework.Statement.
    """

    def __init__(
        self,
        cluster: ClusterState,
        decided: Decided,
        budget: WorkBudget,
        held: HeldPods | None = None,
    ) -> None:
        """`held` is None where no pod has claims."""
        self._cluster = cluster
        self._decided = decided
        self._budget = budget
        self._held = held
        self._operations: list[tuple[Step, Task, int]] = []
        self._evicts: dict[TaskId, Evict] = {}
        self._spared: dict[TaskId, Evict] = {}
        self._kept: dict[TaskId, ReplacementReservation] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an exception the session is dropped whole, and a plugin that failed once may
        # fail again while it is asked to undo.
        if error is None:
            self.rollback()

    def allocate(self, task: Task, row: int) -> None:
        """Place the task on this node, to start now."""
        self._take(task, row, TaskStatus.ALLOCATED)

    def pipeline(self, task: Task, row: int) -> None:
        """Place the task on this node, to wait for resources that are being released."""
        self._take(task, row, TaskStatus.PIPELINED)

    def evict(self, evict: Evict) -> None:
        """Evict the task from its node."""
        task = evict.task
        assert self._cluster.job_state_of(task).status(task) in EVICTABLE
        row = self._cluster.layout.rows[evict.node]
        self._cluster.evict(task, row)
        self._evicts[task.uid] = evict
        self._operations.append((Step.EVICTED, task, row))

    def spare(self, task: Task) -> None:
        """Cancel an eviction of this statement."""
        evict = self._evicts.pop(task.uid)
        row = self._cluster.layout.rows[evict.node]
        self._cluster.restore(task, row)
        self._operations.append((Step.SPARED, task, row))
        self._spared[task.uid] = evict

    def reprieve(self, evict: Evict) -> None:
        """Cancel an eviction that an earlier statement has committed."""
        row = self._cluster.layout.rows[evict.node]
        self._cluster.restore(evict.task, row)
        self._operations.append((Step.REPRIEVED, evict.task, row))

    def withdraw(self, task: Task) -> None:
        """Remove a pipelined task from its node."""
        state = self._cluster.job_state_of(task)
        assert state.status(task) is TaskStatus.PIPELINED
        row = self._cluster.layout.rows[state.node(task) or ""]
        self._cluster.give_back(task, row)
        self._operations.append((Step.WITHDRAWN, task, row))

    def lift(self, task: Task) -> None:
        """Remove a task that starts or waits from its node, to see what follows; only undone."""
        state = self._cluster.job_state_of(task)
        if state.status(task) is TaskStatus.PIPELINED:
            self.withdraw(task)
            return
        if task.uid in self._decided.pipelined:  # an earlier statement has held it back
            self.start(task)
        row = self._cluster.layout.rows[state.node(task) or ""]
        self._cluster.give_back(task, row)
        self._operations.append((Step.LIFTED, task, row))

    def keep(self, reservation: ReplacementReservation) -> None:
        """Reserve resources for a pod that doesn't exist yet."""
        self._cluster.reserve(reservation)
        self._kept[reservation.task.uid] = reservation
        self._operations.append(
            (Step.KEPT, reservation.task, self._cluster.layout.rows[reservation.node])
        )

    def start(self, task: Task) -> None:
        """Let an allocated task start that an earlier statement had held back."""
        state = self._cluster.job_state_of(task)
        assert state.status(task) is TaskStatus.ALLOCATED
        row = self._cluster.layout.rows[state.node(task) or ""]
        self._cluster.let_start(task, row)
        self._operations.append((Step.STARTED, task, row))

    def postpone(self, checkpoint: int) -> None:
        """Turn all allocations since the checkpoint into pipelined tasks."""
        placed = [
            operation for operation in self._operations[checkpoint:] if operation[0] is Step.PLACED
        ]
        self.rollback(checkpoint)
        for _, task, row in placed:
            self.pipeline(task, row)

    def set_aside(self, checkpoint: int = 0) -> list[Placement]:
        """Undo everything since the checkpoint, and return the placements, for `place_again`."""
        placed = [
            (task, row, self._cluster.job_state_of(task).status(task))
            for step, task, row in self._operations[checkpoint:]
            if step is Step.PLACED
        ]
        self.rollback(checkpoint)
        return placed

    def place_again(self, placed: Iterable[Placement]) -> None:
        """Place these tasks as they were when `set_aside` returned them."""
        for task, row, status in placed:
            self._take(task, row, status)

    def places(self, task: Task) -> bool:
        """Whether this statement placed the task."""
        return any(step is Step.PLACED and each is task for step, each, _ in self._operations)

    def checkpoint(self) -> int:
        """Return the current position in the journal, for `rollback`."""
        return len(self._operations)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo all entries since the checkpoint, last first."""
        while len(self._operations) > checkpoint:
            step, task, row = self._operations.pop()
            match step:
                case Step.PLACED:
                    self._cluster.give_back(task, row)
                case Step.EVICTED:
                    self._cluster.restore(task, row)
                    del self._evicts[task.uid]
                case Step.WITHDRAWN:
                    self._cluster.take(task, row, TaskStatus.PIPELINED)
                case Step.LIFTED:
                    self._cluster.take(task, row, TaskStatus.ALLOCATED)
                case Step.REPRIEVED:
                    self._cluster.evict(task, row)
                case Step.KEPT:
                    self._cluster.release(self._kept.pop(task.uid))
                case Step.STARTED:
                    self._cluster.hold_back(task, row)
                case Step.SPARED:
                    self._cluster.evict(task, row)
                    self._evicts[task.uid] = self._spared.pop(task.uid)

    @property
    def evicts(self) -> tuple[Evict, ...]:
        """The planned evictions, in the order in which the victims were chosen."""
        return tuple(self._evicts.values())

    def commit(self) -> None:
        """Bind allocated tasks, evict victims and keep pipelined tasks waiting.

        A pipelined task keeps its resources for the rest of the cycle, and in later cycles if pods
        are evicted for the task. So does an allocated task that has to wait for volumes or devices.
        """
        names, decided = self._cluster.layout.names, self._decided
        if self._held is not None:
            self._wait_for_claims(self._held)
        for step, task, row in self._operations:
            assert step is not Step.LIFTED, f"{task.key} was only lifted to see what follows"
            if step is Step.WITHDRAWN:
                decided.withdraw(task)
            elif step is Step.REPRIEVED:
                decided.reprieve(task)
            elif step is Step.STARTED and self._is_allocated(task):
                decided.start(task, names[row])
            elif step is Step.PLACED and self._is_allocated(task):
                decided.bind(task, names[row])
            elif step in (Step.PLACED, Step.STARTED):
                decided.pipeline(task, names[row])
                if self._evicts or task.uid in decided.nominations or self._is_held(task):
                    decided.nominate(task, names[row])
        decided.evict(self._evicts)
        self._budget.count("evictions", bool(self._evicts))
        self._forget()

    def _wait_for_claims(self, held: HeldPods) -> None:
        """Let tasks wait on their nodes if claims must be bound or allocated first.

        If the job can't start without them, its other tasks wait, too. So do tasks that must be
        near other pods, as those might be among the ones that wait.
        """
        starting: defaultdict[JobId, list[tuple[Task, int]]] = defaultdict(list)
        for step, task, row in self._operations:
            if step in (Step.PLACED, Step.STARTED) and self._is_allocated(task):
                starting[task.job].append((task, row))
        for places in starting.values():
            lacks = {task.uid: held.claims.lacks(task, row) for task, row in places}
            if any(each.unchosen for each in lacks.values()):
                for task, row in places:  # the filters were wrong; the next cycle places them anew
                    self._wait(task, row)
            elif any(each.anything for each in lacks.values()):
                self._hold_nodes(held, places, lacks)

    def _hold_nodes(
        self,
        held: HeldPods,
        places: Sequence[tuple[Task, int]],
        lacks: Mapping[TaskId, Lacks],
    ) -> None:
        """Let the tasks of a job wait that lack something, or need others to start first: the whole
        job below its minimum, and the members of a sub-group, which starts whole.
        """
        for task, row in places:
            if lacks[task.uid].anything or task.pod_class.constraints.pod_affinity:
                self._let_wait(held, task, row)
        state = self._cluster.job_state_of(places[0][0])
        starts, parts = held.is_ready(state), state.sub_groups
        for task, row in places:
            key = None if parts is None else parts.of(task)
            whole = parts is None or key is None or parts.is_whole(key, READY)
            if not (starts and whole):
                self._let_wait(held, task, row)

    def _let_wait(self, held: HeldPods, task: Task, row: int) -> None:
        """Turn an allocated task into a pipelined task that waits for claims, or with others."""
        if self._is_allocated(task):
            self._wait(task, row)
            held.hold(task, self._cluster.layout.names[row])

    def _wait(self, task: Task, row: int) -> None:
        self._cluster.give_back(task, row)
        self._cluster.take(task, row, TaskStatus.PIPELINED)

    def _is_allocated(self, task: Task) -> bool:
        return self._cluster.job_state_of(task).status(task) is TaskStatus.ALLOCATED

    def _is_held(self, task: Task) -> bool:
        return self._held is not None and self._held.is_held(task)

    def hold(self) -> None:
        """Bind nothing, and reserve all placements for the rest of the cycle.

        Volcano: a pipelined statement is neither committed nor discarded.
        """
        assert not self._evicts, "nothing is evicted for a job that can't start"
        names, decided = self._cluster.layout.names, self._decided
        for step, task, row in self._operations:
            if step is Step.WITHDRAWN:
                decided.withdraw(task)
            elif step in (Step.PLACED, Step.STARTED):
                if self._cluster.job_state_of(task).status(task) is TaskStatus.ALLOCATED:
                    # The task waits with its gang, so it can't satisfy another pod's affinity yet.
                    self._cluster.hold_back(task, row)
                decided.pipeline(task, names[row])
                if task.uid in decided.nominations:  # it waits on, perhaps on another node
                    decided.nominate(task, names[row])
        self._forget()

    def _forget(self) -> None:
        for reservation in self._kept.values():
            self._decided.reserve(reservation)
        self._kept.clear()
        self._operations.clear()
        self._evicts.clear()
        self._spared.clear()

    def _take(self, task: Task, row: int, status: TaskStatus) -> None:
        assert self._cluster.job_state_of(task).status(task) is TaskStatus.PENDING
        self._cluster.take(task, row, status)
        self._operations.append((Step.PLACED, task, row))
