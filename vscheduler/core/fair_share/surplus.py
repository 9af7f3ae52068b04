"""Surplus: what queues hold above what their fair shares let stay there.

A queue may be within its share and stand in the way all the same: on nodes that others need, while
its share is waiting for it where only its own pods could go.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import (
    constrained_max_min,
    demands,
    fair_shares,
    max_flow,
    node_pools,
)
from vscheduler.core.model import jobs, snapshot

ResourceArray = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldResources:
    """Where pods are, pinned ones left out: M places, each of one queue, domain and kind."""

    queues: Indices
    """(M,), as the domains and kinds."""
    domains: Indices
    kinds: Indices
    amounts: ResourceArray
    """(M, R)."""

    def by_kind(self, queues: int, kinds: int) -> ResourceArray:
        """What each queue holds on nodes of each kind: (Q, N, R)."""
        found = np.zeros((queues, kinds, self.amounts.shape[1]))
        np.add.at(found, (self.queues, self.kinds), self.amounts)
        return found


def staying(
    problem: constrained_max_min.SharingProblem, deserved: ResourceArray, held: HeldResources
) -> ResourceArray:
    """How much of each queue's share can be on nodes of each kind: (Q, N, R); inf where it makes no
    difference, as whoever wants the resource can use all of it.

    deserved is (Q, R), what is pinned included; held is within demands and supply. Shares flow to
    where pods are, and elsewhere only as far as they can't all stay there.
    """
    queues, _, resources = problem.demands.shape
    found = np.full((queues, problem.supply.shape[0], resources), np.inf)
    for column in range(resources):
        asked = (problem.demands[:, :, column] > 0).any(axis=0)
        reach = problem.reach[asked][:, problem.supply[:, column] > 0]
        if reach.size and not reach.all():
            found[:, :, column] = _settled(problem, column, deserved[:, column], held)
    return found


def _settled(
    problem: constrained_max_min.SharingProblem,
    column: int,
    deserved: ResourceArray,
    held: HeldResources,
) -> ResourceArray:
    """The same for one resource: (Q, N)."""
    demands, supply = problem.demands[:, :, column], problem.supply[:, column]
    scale = max(1.0, float(supply.sum()))
    queues, kinds = demands.shape[0], supply.size
    owners, domains = np.nonzero(demands)
    pairs = np.full(demands.shape, -1, dtype=np.intp)
    pairs[owners, domains] = np.arange(owners.size)
    there = np.zeros((owners.size, kinds))
    some = held.amounts[:, column] > 0
    at = (pairs[held.queues[some], held.domains[some]], held.kinds[some])
    np.add.at(there, at, held.amounts[some, column] / scale)
    wanted = np.maximum(deserved - problem.pinned[:, column], 0.0) / scale
    has = max_flow.sums_by(owners, there.sum(axis=1), queues)
    there *= np.minimum(1.0, wanted / np.maximum(has, max_flow.LEAST))[owners, np.newaxis]
    links, ends = np.nonzero(problem.reach[domains] & (supply > 0))
    stays, taken = there[links, ends], there.sum(axis=1)
    bounds = demands[owners, domains] / scale
    network = max_flow.FlowNetwork(
        size=queues + kinds + owners.size,
        ends=np.concatenate([owners, queues + ends]),
        domains=queues + kinds + np.concatenate([np.arange(owners.size), links]),
        onward=np.concatenate([np.maximum(bounds - taken, 0.0), np.zeros(links.size)]),
        back=np.concatenate([np.zeros(owners.size), np.full(links.size, np.inf)]),
        bounds=np.concatenate([bounds, np.full(links.size, np.inf)]),
        queue_edges=owners.size,
    )
    more, room = np.zeros(network.size), np.zeros(network.size)
    more[:queues] = np.maximum(wanted - has, 0.0)
    room[queues : queues + kinds] = np.maximum(supply / scale - there.sum(axis=0), 0.0)
    network.load(more, room)
    network.settle()
    # What is there only moves for what else doesn't find a way.
    network.back[: owners.size] += taken
    network.onward[owners.size :] += stays
    network.settle()
    found = np.zeros((queues, kinds))
    np.add.at(found, (owners[links], ends), network.onward[owners.size :] * scale)
    return found


Row = NDArray[np.float64]


class Surplus:
    """Worked out when somebody first asks, which most cycles nobody does."""

    def __init__(
        self,
        session: demands.Session,
        survey: node_pools.NodePools,
        division: fair_shares.FairShares,
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
        surplus: NDArray[np.float64] = has - staying(problem, deserved, held)
        return surplus


def _held(
    by_class: snapshot.ByClass, survey: node_pools.NodePools, division: fair_shares.FairShares
) -> HeldResources:
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
    return HeldResources(
        queues=queues,
        domains=domains_of,
        kinds=kinds,
        amounts=np.concatenate([np.zeros((0, space.size)), *amounts]),
    )
