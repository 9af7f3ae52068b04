"""Standings: what queues hold above what their shares leave them there, as a cycle changes it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import demands, fair_shares, node_pools
from vscheduler.core.fair_share import surplus as standing
from vscheduler.core.model import jobs, seats

Row = NDArray[np.float64]


class Standings:
    """Worked out when somebody first asks, which most cycles nobody does."""

    def __init__(
        self, session: demands.Session, survey: node_pools.Survey, division: fair_shares.Division
    ) -> None:
        self._session = session
        self._survey = survey
        self._division = division
        self._moves: list[tuple[jobs.Task, str | None, int]] = []
        """Before it was worked out."""
        self._surplus: NDArray[np.float64] | None = None
        """(Q, K, R); -inf where a place makes no difference."""

    def move(self, task: jobs.Task, sign: int) -> None:
        """The task came to its node (1), or leaves it (-1)."""
        node = self._session.gangs[task.job].node(task)
        if self._surplus is None:
            self._moves.append((task, node, sign))
        else:
            self._count(self._surplus, task, node, sign)

    def surplus(self, task: jobs.Task) -> tuple[tuple[str, int], Row] | None:
        """What the task's queue holds too much on nodes of the kind that the task is on, (R,), and
        which queue and kind that is; None where the node isn't there.
        """
        row = self._survey.ground.layout.rows.get(task.node or "")
        if row is None:
            return None
        if self._surplus is None:
            self._surplus = self._worked_out()
            for moved, node, sign in self._moves:
                self._count(self._surplus, moved, node, sign)
        queue, kind = self._session.gangs[task.job].job.queue, int(self._survey.kinds[row])
        found: Row = self._surplus[self._division.places[queue], kind]
        return (queue, kind), found

    def _count(
        self, surplus: NDArray[np.float64], task: jobs.Task, node: str | None, sign: int
    ) -> None:
        row = self._survey.ground.layout.rows.get(node or "")
        if row is not None:
            queue = self._division.places[self._session.gangs[task.job].job.queue]
            surplus[queue, self._survey.kinds[row]] += sign * self._session.request(task)

    def _worked_out(self) -> NDArray[np.float64]:
        held = _held(self._session.snapshot.seats, self._survey, self._division)
        problem, deserved = self._division.problem, self._division.divide().deserved
        has = held.by_kind(len(deserved), self._survey.supply.shape[0])
        surplus: NDArray[np.float64] = has - standing.staying(problem, deserved, held)
        return surplus


def _held(
    by_class: seats.ByClass, survey: node_pools.Survey, division: fair_shares.Division
) -> standing.Held:
    """Where pods are that could be put there anew."""
    space = division.space
    found: list[tuple[NDArray[np.intp], ...]] = []
    amounts: list[NDArray[np.float64]] = []
    for kind, each in by_class.items():
        domains: Mapping[str, int] = survey.domains.get(kind, {})
        rows = each.rows(survey.ground.layout)
        queues = np.array([division.places.get(name, -1) for name in each.queues], dtype=np.intp)
        wanted = np.array([domains.get(name, -1) for name in each.queues], dtype=np.intp)
        there = (rows >= 0) & (wanted >= 0)
        there[there] = survey.reach[wanted[there], survey.kinds[rows[there]]]
        found.append((queues[there], wanted[there], survey.kinds[rows[there]]))
        amounts.append(each.counts[there, np.newaxis] * space.vector(kind.request).astype(float))
    empty = np.zeros(0, dtype=np.intp)
    queues, domains_of, kinds = (
        np.concatenate([empty, *(part[place] for part in found)]) for place in range(3)
    )
    return standing.Held(
        queues=queues,
        domains=domains_of,
        kinds=kinds,
        amounts=np.concatenate([np.zeros((0, space.size)), *amounts]),
    )
