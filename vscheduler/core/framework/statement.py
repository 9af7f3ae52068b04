"""Statement: a journal of what-ifs that is committed, held or undone."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from vscheduler.core.model import decisions, jobs

if TYPE_CHECKING:
    from vscheduler.core.framework import session as working


class Statement:
    """Room given to tasks for now. Leaving without `commit` or `hold` undoes all of it.

    Volcano: framework.Statement.
    """

    def __init__(self, session: "working.Session") -> None:
        self._session = session
        self._operations: list[tuple[jobs.Task, int]] = []

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

    def checkpoint(self) -> int:
        """A place to roll back to."""
        return len(self._operations)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo everything since the checkpoint, last first."""
        while len(self._operations) > checkpoint:
            self._session.give_back(*self._operations.pop())

    def commit(self) -> None:
        """Bind what is allocated; what is pipelined keeps its room for the rest of the cycle."""
        names = self._session.layout.names
        for task, row in self._operations:
            gang = self._session.gang_of(task)
            if gang.status(task) is jobs.TaskStatus.ALLOCATED:
                self._session.binds.append(decisions.Bind(task=task, node=names[row]))
            else:
                self._session.held.append(decisions.Pipeline(task=task, node=names[row]))
        self._operations.clear()

    def hold(self) -> None:
        """Bind nothing, and keep all room for the rest of the cycle.

        Volcano: a statement that is pipelined is neither committed nor discarded.
        """
        names = self._session.layout.names
        self._session.held.extend(
            decisions.Pipeline(task=task, node=names[row]) for task, row in self._operations
        )
        self._operations.clear()

    def _take(self, task: jobs.Task, row: int, status: jobs.TaskStatus) -> None:
        assert self._session.gang_of(task).status(task) is jobs.TaskStatus.PENDING
        self._session.take(task, row, status)
        self._operations.append((task, row))
