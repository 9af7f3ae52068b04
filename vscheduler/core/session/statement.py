"""Statement: a journal of what-ifs that is committed, held or undone."""

from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Self

from vscheduler.core.model import decisions, jobs, pod_affinity, snapshot

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


class Step(Enum):
    """What one entry of the journal did."""

    PLACED = "placed"
    EVICTED = "evicted"
    WITHDRAWN = "withdrawn"
    SPARED = "spared"
    REPRIEVED = "reprieved"
    KEPT = "kept"
    STARTED = "started"


class Statement:
    """Room given to tasks, or taken from them, for now. Leaving without `commit` or `hold` undoes
    all of it.

    Volcano: framework.Statement.
    """

    def __init__(self, session: "working.Session") -> None:
        self._session = session
        self._operations: list[tuple[Step, jobs.Task, int]] = []
        self._evicts: dict[jobs.TaskId, decisions.Evict] = {}
        self._spared: dict[jobs.TaskId, decisions.Evict] = {}
        self._kept: dict[jobs.TaskId, snapshot.ReplacementReservation] = {}

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

    def allocate(self, task: jobs.Task, row: int) -> None:
        """The task is to run on this node."""
        self._take(task, row, jobs.TaskStatus.ALLOCATED)

    def pipeline(self, task: jobs.Task, row: int) -> None:
        """The task is to wait on this node for room that is being freed."""
        self._take(task, row, jobs.TaskStatus.PIPELINED)

    def evict(self, evict: decisions.Evict) -> None:
        """The task is to leave its node."""
        task = evict.task
        assert self._session.gang_of(task).status(task) in jobs.EVICTABLE
        row = self._session.layout.rows[evict.node]
        self._session.evict(task, row)
        self._evicts[task.uid] = evict
        self._operations.append((Step.EVICTED, task, row))

    def spare(self, task: jobs.Task) -> None:
        """The task needn't leave its node after all."""
        evict = self._evicts.pop(task.uid)
        row = self._session.layout.rows[evict.node]
        self._session.restore(task, row)
        self._operations.append((Step.SPARED, task, row))
        self._spared[task.uid] = evict

    def reprieve(self, evict: decisions.Evict) -> None:
        """The task needn't leave its node for a job whose plan stands already."""
        row = self._session.layout.rows[evict.node]
        self._session.restore(evict.task, row)
        self._operations.append((Step.REPRIEVED, evict.task, row))

    def withdraw(self, task: jobs.Task) -> None:
        """The task waits no longer for the room that was promised to it."""
        gang = self._session.gang_of(task)
        assert gang.status(task) is jobs.TaskStatus.PIPELINED
        row = self._session.layout.rows[gang.node(task) or ""]
        self._session.give_back(task, row)
        self._operations.append((Step.WITHDRAWN, task, row))

    def keep(self, room: snapshot.ReplacementReservation) -> None:
        """Nobody else is to have this room."""
        self._session.keep(room)
        self._kept[room.task.uid] = room
        self._operations.append((Step.KEPT, room.task, self._session.layout.rows[room.node]))

    def start(self, task: jobs.Task) -> None:
        """The task, which was held on room that is there now, is to run there."""
        gang = self._session.gang_of(task)
        assert gang.status(task) is jobs.TaskStatus.ALLOCATED
        row = self._session.layout.rows[gang.node(task) or ""]
        self._reseat(task, row, pod_affinity.Seat.STAYING)
        self._operations.append((Step.STARTED, task, row))

    def postpone(self, checkpoint: int) -> None:
        """All that was placed since the checkpoint is to wait, where there is room now, too."""
        placed = [each for each in self._operations[checkpoint:] if each[0] is Step.PLACED]
        self.rollback(checkpoint)
        for _, task, row in placed:
            self.pipeline(task, row)

    def places(self, task: jobs.Task) -> bool:
        """Whether the task was given room here."""
        return any(step is Step.PLACED and each is task for step, each, _ in self._operations)

    def checkpoint(self) -> int:
        """A place to roll back to."""
        return len(self._operations)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo everything since the checkpoint, last first."""
        while len(self._operations) > checkpoint:
            step, task, row = self._operations.pop()
            match step:
                case Step.PLACED:
                    self._session.give_back(task, row)
                case Step.EVICTED:
                    self._session.restore(task, row)
                    del self._evicts[task.uid]
                case Step.WITHDRAWN:
                    self._session.take(task, row, jobs.TaskStatus.PIPELINED)
                case Step.REPRIEVED:
                    self._session.evict(task, row)
                case Step.KEPT:
                    self._session.keep(self._kept.pop(task.uid), -1)
                case Step.STARTED:
                    self._reseat(task, row, pod_affinity.Seat.PROMISED)
                case Step.SPARED:
                    self._session.evict(task, row)
                    self._evicts[task.uid] = self._spared.pop(task.uid)

    @property
    def evicts(self) -> tuple[decisions.Evict, ...]:
        """What is to be evicted as things stand, in the order in which it was chosen."""
        return tuple(self._evicts.values())

    def commit(self) -> None:
        """Bind what is allocated, evict what is evicted; what is pipelined keeps its room for the
        rest of the cycle, and until it binds where something is evicted for it.
        """
        names = self._session.layout.names
        for step, task, row in self._operations:
            if step is Step.WITHDRAWN:
                self._session.pipelined.pop(task.uid, None)
            elif step is Step.REPRIEVED:
                del self._session.evicts[task.uid]
            elif step is Step.STARTED:
                del self._session.pipelined[task.uid]
                self._session.binds.append(decisions.Bind(task=task, node=names[row]))
            elif step is Step.PLACED:
                gang = self._session.gang_of(task)
                if gang.status(task) is jobs.TaskStatus.ALLOCATED:
                    self._session.binds.append(decisions.Bind(task=task, node=names[row]))
                else:
                    self._hold(task, row)
                    if self._evicts or task.uid in self._session.nominations:
                        self._session.nominations[task.uid] = names[row]
        self._session.evicts.update(self._evicts)
        self._session.work["evictions"] += bool(self._evicts)
        self._forget()

    def hold(self) -> None:
        """Bind nothing, and keep all room for the rest of the cycle.

        Volcano: a statement that is pipelined is neither committed nor discarded.
        """
        assert not self._evicts, "nothing is evicted for a job that can't start"
        for step, task, row in self._operations:
            if step is Step.WITHDRAWN:
                self._session.pipelined.pop(task.uid, None)
            elif step in (Step.PLACED, Step.STARTED):
                if self._session.gang_of(task).status(task) is jobs.TaskStatus.ALLOCATED:
                    # Who was to start waits with its gang: it is nobody's company yet.
                    self._reseat(task, row, pod_affinity.Seat.PROMISED)
                self._hold(task, row)
        self._forget()

    def _reseat(self, task: jobs.Task, row: int, seat: pod_affinity.Seat) -> None:
        """The task, which has room that is there now, starts there, or only waits there."""
        left = pod_affinity.Seat.STAYING
        if seat is left:
            left = pod_affinity.Seat.PROMISED
        self._session.neighbours.move(task, row, left, -1)
        self._session.neighbours.move(task, row, seat, 1)
        self._session.touched.append(row)

    def _hold(self, task: jobs.Task, row: int) -> None:
        node = self._session.layout.names[row]
        self._session.pipelined[task.uid] = decisions.Pipeline(task=task, node=node)

    def _forget(self) -> None:
        for room in self._kept.values():
            self._session.kept_rooms.append(room)
            self._session.wake(room.until)
        self._kept.clear()
        self._operations.clear()
        self._evicts.clear()
        self._spared.clear()

    def _take(self, task: jobs.Task, row: int, status: jobs.TaskStatus) -> None:
        assert self._session.gang_of(task).status(task) is jobs.TaskStatus.PENDING
        self._session.take(task, row, status)
        self._operations.append((Step.PLACED, task, row))
