"""ReservedRoom: what nodes keep for nominated pods, and of which jobs.

These wait on their nodes until evicted pods are gone, or claims are bound. What they ask for counts
as used, so that other jobs wait: they are told for whom.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.session.session import Session
from vscheduler.model import resources
from vscheduler.model.decisions import ReservedFor
from vscheduler.model.jobs import JobId, Task, TaskStatus
from vscheduler.model.nodes import Mask
from vscheduler.model.resources import Vector

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReservedAmounts:
    """What nodes keep, by pod."""

    jobs: Sequence[JobId]
    """(P,)."""
    names: Collection[JobId] = field(init=False)
    pod_rows: Rows
    """The rows of the pods' nodes, (P,)."""
    requests: Vector
    """(P, R)."""
    rows: Rows = field(init=False)
    """The nodes, (K,)."""
    places: Rows = field(init=False)
    """By pod, the place of its node among `rows`, (P,)."""
    amounts: Vector = field(init=False)
    """By node, (K, R)."""

    def __post_init__(self) -> None:
        rows, places = np.unique(self.pod_rows, return_inverse=True)
        amounts = np.zeros((len(rows), self.requests.shape[1]), dtype=np.int64)
        np.add.at(amounts, places, self.requests)
        object.__setattr__(self, "names", frozenset(self.jobs))
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "amounts", amounts)

    def without(self, job: JobId) -> "ReservedAmounts":
        """Return what is kept for other jobs."""
        if job not in self.names:
            return self
        others = [place for place, each in enumerate(self.jobs) if each != job]
        return ReservedAmounts(
            jobs=[self.jobs[place] for place in others],
            pod_rows=self.pod_rows[others],
            requests=self.requests[others],
        )

    def keeping_out(self, request: Vector, usable: Mask, free: Vector) -> ReservedFor | None:
        """Return for whom room is kept that a pod with this request would find on these usable
        nodes (N,) otherwise, beside what is free, (N, R).
        """
        left = free[self.rows]
        keeps = usable[self.rows] & ~resources.fits(request, left)
        keeps &= resources.fits(request, left + self.amounts)
        pods = np.flatnonzero(keeps[self.places])
        if not pods.size:
            return None
        counts = Counter(self.jobs[place] for place in pods.tolist())
        first = min(counts, key=lambda job: (-counts[job], job))
        return ReservedFor(job=first, others=len(counts) - 1, nodes=int(keeps.sum()))


class ReservedRoom:
    """What is kept by the decisions of a cycle so far."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: tuple[Hashable, ReservedAmounts | None] = (None, None)

    def now(self) -> ReservedAmounts | None:
        """Return what is kept; None if nothing is."""
        session, decided = self._session, self._session.decided
        if not decided.nominations:
            return None
        # A job that has its turn may take nodes on which others wait for claims.
        may_lapse = bool(session.held_pods.holders)
        version = decided.version, len(session.cluster.touched) if may_lapse else 0
        if version != self._known[0]:
            self._known = version, self._kept()
        return self._known[1]

    def _kept(self) -> ReservedAmounts | None:
        session, decided = self._session, self._session.decided
        found = list[tuple[Task, str]]()
        for uid, node in decided.nominations.items():
            waiting = decided.pipelined.get(uid)
            if waiting is not None and waiting.node == node and self._still_waits(waiting.task):
                found.append((waiting.task, node))
        if not found:
            return None
        rows = session.layout.rows
        return ReservedAmounts(
            jobs=[task.job for task, _ in found],
            pod_rows=np.array([rows[node] for _, node in found], dtype=np.int64),
            requests=np.array([session.request(task) for task, _ in found], dtype=np.int64),
        )

    def _still_waits(self, task: Task) -> bool:
        """Whether the pod hasn't given way in this turn."""
        return self._session.job_state_of(task).status(task) is not TaskStatus.PENDING
