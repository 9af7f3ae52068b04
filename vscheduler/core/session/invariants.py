"""What must hold after every cycle, whatever the plugins said."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vscheduler.core.model import decisions, jobs, resources
from vscheduler.core.session import job_state

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


def check(session: "working.Session") -> None:
    """Raise AssertionError where the session decided something that must never happen.

    Costs what the cycle changed: touched rows and bound tasks.
    """
    bound = Counter(bind.task.uid for bind in session.binds)
    assert all(count == 1 for count in bound.values()), "a pod is bound twice"
    _check_rows(session)
    for job in {bind.task.job for bind in session.binds}:
        ready = job_state.is_ready(session.dispatch, session.gangs[job])
        assert ready, f"{job} is bound in part"


def _check_rows(session: "working.Session") -> None:
    """The rows that were touched are the snapshot's plus what was placed, and not overfull."""
    table = session.snapshot.nodes
    rows = np.array(sorted(set(session.touched)), dtype=np.int64)
    used = table.used[rows].copy()
    future = used - table.releasing[rows]
    place = {int(row): at for at, row in enumerate(rows)}
    for evict in session.evicts.values():
        future[place[session.layout.rows[evict.node]]] -= session.request(evict.task)
    starting = _Placed(session, place, session.binds)
    starting.add_to(used, future)
    wanted = starting.requests > 0
    free = session.allocatable[rows] - used
    over = (wanted & (free[starting.places] < 0)).any(axis=1) & starting.allocated
    assert not over.any(), f"{session.binds[int(over.argmax())].task.key} overfills its node"
    _Placed(session, place, tuple(session.pipelined.values())).add_to(used, future)
    for room in session.kept_rooms:
        future[place[session.layout.rows[room.node]]] += session.request(room.task)
    assert (used == session.used[rows]).all(), "used differs from the recount"
    assert (future == session.future_used[rows]).all(), "future_used differs from the recount"


class _Placed:
    """Decisions as arrays, one entry each: a pod at a time would cost as much as to place it."""

    def __init__(
        self,
        session: "working.Session",
        place: Mapping[int, int],
        decided: Sequence[decisions.Bind | decisions.Pipeline],
    ) -> None:
        node_rows, tasks = session.layout.rows, [each.task for each in decided]
        self.places = np.array([place[node_rows[each.node]] for each in decided], dtype=np.int64)
        """Where among the touched rows it is."""
        self.allocated = np.array(
            [session.gang_of(task).status(task) is jobs.TaskStatus.ALLOCATED for task in tasks],
            dtype=np.bool_,
        )
        """Whether it is room that is there now."""
        kinds = {task.pod_class: task for task in tasks}
        of_kind = np.array([session.request(task) for task in kinds.values()], dtype=np.int64)
        numbers = {kind: number for number, kind in enumerate(kinds)}
        which = np.array([numbers[task.pod_class] for task in tasks], dtype=np.int64)
        self.requests = of_kind.reshape(-1, session.space.size)[which]
        """(n, R)."""

    def add_to(self, used: resources.Vector, future: resources.Vector) -> None:
        """What they take, in rows of touched nodes."""
        now = self.allocated
        for column in range(used.shape[1]):
            np.add.at(future[:, column], self.places, self.requests[:, column])
            np.add.at(used[:, column], self.places[now], self.requests[now, column])
