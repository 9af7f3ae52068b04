"""What must hold after every cycle, whatever the plugins said."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from vscheduler.core.model import decisions, jobs

if TYPE_CHECKING:
    from vscheduler.core.framework import session as working


def check(session: "working.Session") -> None:
    """Raise AssertionError where the session decided something that must never happen.

    Costs what the cycle changed: touched rows and bound tasks.
    """
    bound = Counter(bind.task.uid for bind in session.binds)
    assert all(count == 1 for count in bound.values()), "a pod is bound twice"
    _check_rows(session)
    for job in {bind.task.job for bind in session.binds}:
        gang = session.gangs[job]
        ready = session.dispatch.all_agree("job_ready", gang)
        if session.as_volcano:
            # Pods that ask for nothing count as placed while they wait; there, others may be
            # evicted for them once the gang is bound, and then they are promised room.
            ready = ready or session.dispatch.vote("job_pipelined", gang)
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
    started = {bind.task.uid for bind in session.binds}
    decided: list[decisions.Bind | decisions.Pipeline] = [*session.binds, *session.held.values()]
    for decision in decided:
        task = decision.task
        at = place[session.layout.rows[decision.node]]
        request = session.request(task)
        future[at] += request
        gang = session.gang_of(task)
        if gang.status(task) is jobs.TaskStatus.ALLOCATED:
            used[at] += request
            free = session.allocatable[rows[at]] - used[at]
            assert task.uid not in started or not ((request > 0) & (free < 0)).any(), (
                f"{task.key} overfills {decision.node}"
            )
    assert (used == session.used[rows]).all(), "used differs from the recount"
    assert (future == session.future_used[rows]).all(), "future_used differs from the recount"
