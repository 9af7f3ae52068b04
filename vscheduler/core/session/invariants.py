"""Invariants that must hold after every cycle, whatever the plugins answered."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vscheduler.core.model import decisions, jobs, resources
from vscheduler.core.session import job_state

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


def check(session: "working.Session") -> None:
    """Raise AssertionError if the session made a decision that must never happen.

    The cost is proportional to the changes of the cycle: touched rows and bound tasks.
    """
    binds = session.decided.binds
    bound = Counter(bind.task.uid for bind in binds)
    assert all(count == 1 for count in bound.values()), "a pod is bound twice"
    _check_rows(session)
    for job in {bind.task.job for bind in binds}:
        ready = job_state.is_ready(session.dispatch, session.job_states[job])
        assert ready, f"{job} is bound in part"


def _check_rows(session: "working.Session") -> None:
    """Recount the touched rows from the snapshot and the decisions; no row may be overfull."""
    table, cluster, decided = session.snapshot.nodes, session.cluster, session.decided
    rows = np.array(sorted(set(cluster.touched)), dtype=np.int64)
    used = table.used[rows].copy()
    future = used - table.releasing[rows]
    positions = {int(row): at for at, row in enumerate(rows)}
    for evict in decided.evicts.values():
        future[positions[session.layout.rows[evict.node]]] -= session.request(evict.task)
    starting = _PlacedTasks(session, positions, decided.binds)
    starting.add_to(used, future)
    wanted = starting.requests > 0
    free = cluster.allocatable[rows] - used
    over = (wanted & (free[starting.positions] < 0)).any(axis=1) & starting.allocated
    assert not over.any(), f"{decided.binds[int(over.argmax())].task.key} overfills its node"
    _PlacedTasks(session, positions, tuple(decided.pipelined.values())).add_to(used, future)
    for reservation in decided.replacement_reservations:
        future[positions[session.layout.rows[reservation.node]]] += session.request(
            reservation.task
        )
    assert (used == cluster.used[rows]).all(), "used differs from the recount"
    assert (future == cluster.future_used[rows]).all(), "future_used differs from the recount"


class _PlacedTasks:
    """Decisions as arrays, since a loop over pods would cost as much as their placement."""

    def __init__(
        self,
        session: "working.Session",
        positions: Mapping[int, int],
        decided: Sequence[decisions.Bind | decisions.Pipeline],
    ) -> None:
        node_rows, tasks = session.layout.rows, [each.task for each in decided]
        self.positions = np.array(
            [positions[node_rows[each.node]] for each in decided], dtype=np.int64
        )
        """The position among the touched rows."""
        self.allocated = np.array(
            [
                session.job_state_of(task).status(task) is jobs.TaskStatus.ALLOCATED
                for task in tasks
            ],
            dtype=np.bool_,
        )
        """Whether the pod starts now, on resources that are free."""
        classes = {task.pod_class: task for task in tasks}
        by_class = np.array([session.request(task) for task in classes.values()], dtype=np.int64)
        indexes = {pod_class: index for index, pod_class in enumerate(classes)}
        class_of = np.array([indexes[task.pod_class] for task in tasks], dtype=np.int64)
        self.requests = by_class.reshape(-1, session.space.size)[class_of]
        """The resource requests, (n, R)."""

    def add_to(self, used: resources.Vector, future: resources.Vector) -> None:
        """Add the requests to the rows of touched nodes."""
        now = self.allocated
        for column in range(used.shape[1]):
            np.add.at(future[:, column], self.positions, self.requests[:, column])
            np.add.at(used[:, column], self.positions[now], self.requests[now, column])
