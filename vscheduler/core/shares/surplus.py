"""Surplus: resources a queue holds on some nodes beyond the part of its fair share carried there.

A queue within its share can still stand in the way of another queue: its pods use nodes others
need, while part of the share is on nodes only its own pods can use.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.shares import max_flow
from vscheduler.core.shares.constrained_max_min import SharingProblem
from vscheduler.core.shares.demands import Session
from vscheduler.core.shares.fair_shares import FairShares
from vscheduler.core.shares.max_flow import FlowNetwork
from vscheduler.core.shares.node_pools import NodePools
from vscheduler.model.jobs import Task
from vscheduler.model.snapshot import ByClass

ResourceArray = NDArray[np.float64]
Indices = NDArray[np.intp]


class HeldResources(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of running pods by place, without pinned pods.

    Each of the M places is a queue, a domain and a kind of nodes.
    """

    queues: Indices
    """The queue of each place, (M,)."""
    domains: Indices
    """The domain of each place, (M,)."""
    kinds: Indices
    """The kind of nodes of each place, (M,)."""
    amounts: ResourceArray
    """The amounts held at each place, (M, R)."""

    def by_kind(self, queues: int, kinds: int) -> ResourceArray:
        """Return what each queue holds on nodes of each kind, (Q, N, R)."""
        found = np.zeros((queues, kinds, self.amounts.shape[1]))
        np.add.at(found, (self.queues, self.kinds), self.amounts)
        return found


def share_by_kind(
    problem: SharingProblem, deserved: ResourceArray, held: HeldResources
) -> ResourceArray:
    """Return how much of each queue's share lies on nodes of each kind, (Q, N, R).

    The value is inf for a resource fully usable for every queue that asks for any: the place makes
    no difference then. `deserved` (Q, R) includes pinned amounts; `held` is within demands and
    supply. Shares flow to nodes where pods already run, and elsewhere only as far as not all can
    stay there.
    """
    queues, _, resources = problem.demands.shape
    found = np.full((queues, problem.supply.shape[0], resources), np.inf)
    for column in range(resources):
        asked = (problem.demands[:, :, column] > 0).any(axis=0)
        reach = problem.reach[asked][:, problem.supply[:, column] > 0]
        if reach.size and not reach.all():
            found[:, :, column] = _share_by_kind(problem, column, deserved[:, column], held)
    return found


def _share_by_kind(
    problem: SharingProblem,
    column: int,
    deserved: ResourceArray,
    held: HeldResources,
) -> ResourceArray:
    """Return the part of each share on nodes of each kind, (Q, N), for one resource."""
    demands, supply = problem.demands[:, :, column], problem.supply[:, column]
    scale = max(1.0, float(supply.sum()))
    queues, kinds = demands.shape[0], supply.size
    owners, domains = np.nonzero(demands)
    pairs = np.full(demands.shape, -1, dtype=np.intp)
    pairs[owners, domains] = np.arange(owners.size)
    present = np.zeros((owners.size, kinds))
    some = held.amounts[:, column] > 0
    at = (pairs[held.queues[some], held.domains[some]], held.kinds[some])
    np.add.at(present, at, held.amounts[some, column] / scale)
    wanted = np.maximum(deserved - problem.pinned[:, column], 0.0) / scale
    used = max_flow.sums_by(owners, present.sum(axis=1), queues)
    # Usage above the share isn't part of the flow: in proportion, on all nodes of the queue.
    present *= np.minimum(1.0, wanted / np.maximum(used, max_flow.LEAST))[owners, np.newaxis]
    links, ends = np.nonzero(problem.reach[domains] & (supply > 0))
    stays, taken = present[links, ends], present.sum(axis=1)
    bounds = demands[owners, domains] / scale
    # Each pair of queue and domain has a domain vertex of its own here. A shared vertex would mix
    # flows of several queues, and the result is wanted by queue.
    network = FlowNetwork(
        size=queues + kinds + owners.size,
        ends=np.concatenate([owners, queues + ends]),
        domains=queues + kinds + np.concatenate([np.arange(owners.size), links]),
        onward=np.concatenate([np.maximum(bounds - taken, 0.0), np.zeros(links.size)]),
        back=np.concatenate([np.zeros(owners.size), np.full(links.size, np.inf)]),
        bounds=np.concatenate([bounds, np.full(links.size, np.inf)]),
        queue_edges=owners.size,
    )
    more, room = np.zeros(network.size), np.zeros(network.size)
    more[:queues] = np.maximum(wanted - used, 0.0)
    room[queues : queues + kinds] = np.maximum(supply / scale - present.sum(axis=0), 0.0)
    # First, the rest of each share looks for free supply. Present usage isn't part of the network,
    # and stays.
    network.load(more, room)
    network.push_to_maximum()
    # Then present usage joins the flow, and moves only for parts of shares without any other path.
    network.back[: owners.size] += taken
    network.onward[owners.size :] += stays
    network.push_to_maximum()
    found = np.zeros((queues, kinds))
    np.add.at(found, (owners[links], ends), network.onward[owners.size :] * scale)
    return found


Row = NDArray[np.float64]


class Surplus:
    """Surplus of all queues, computed when first asked for; most cycles never ask."""

    def __init__(
        self,
        session: Session,
        pools: NodePools,
        shares: FairShares,
    ) -> None:
        self._session = session
        self._pools = pools
        self._shares = shares
        self._moves: list[tuple[Task, str | None, int]] = []
        """Pods that came or left before the surplus was computed."""
        self._surplus: NDArray[np.float64] | None = None
        """The surplus by queue and kind of nodes, (Q, K, R); -inf where the place makes no
        difference."""

    def move(self, task: Task, sign: int) -> None:
        """Count a task that comes to its node (1) or leaves the node (-1)."""
        node = self._session.job_states[task.job].node(task)
        if self._surplus is None:
            self._moves.append((task, node, sign))
        else:
            self._count(self._surplus, task, node, sign)

    def surplus(self, task: Task) -> tuple[tuple[str, int], Row] | None:
        """Return the surplus (R,) of the task's queue on its kind of nodes, after their numbers.

        None if the node has left.
        """
        row = self._pools.nodes.layout.rows.get(task.node or "")
        if row is None:
            return None
        if self._surplus is None:
            self._surplus = self._worked_out()
            for moved, node, sign in self._moves:
                self._count(self._surplus, moved, node, sign)
        queue, kind = self._session.job_states[task.job].job.queue, int(self._pools.kinds[row])
        found: Row = self._surplus[self._shares.places[queue], kind]
        return (queue, kind), found

    def _count(self, surplus: NDArray[np.float64], task: Task, node: str | None, sign: int) -> None:
        """Add the request of a task to the surplus at this node, or subtract the request."""
        row = self._pools.nodes.layout.rows.get(node or "")
        if row is not None:
            queue = self._shares.places[self._session.job_states[task.job].job.queue]
            surplus[queue, self._pools.kinds[row]] += sign * self._session.counted(task)

    def _worked_out(self) -> NDArray[np.float64]:
        """Return held resources less the parts of shares carried at the same place, (Q, K, R)."""
        held = _held(self._session.snapshot.pods_by_class, self._pools, self._shares)
        problem, deserved = self._shares.problem, self._shares.divide().deserved
        has = held.by_kind(len(deserved), self._pools.supply.shape[0])
        surplus: NDArray[np.float64] = has - share_by_kind(problem, deserved, held)
        return surplus


def _held(by_class: ByClass, pools: NodePools, shares: FairShares) -> HeldResources:
    """Return resources of all pods that aren't pinned, by place."""
    space = shares.space
    found: list[tuple[NDArray[np.intp], ...]] = []
    amounts: list[NDArray[np.float64]] = []
    for pod_class, placed in by_class.items():
        found_domains = {name: pools.find_domain(name, pod_class) for name in set(placed.queues)}
        domains = {name: -1 if each is None else each for name, each in found_domains.items()}
        rows = placed.rows(pools.nodes.layout)
        queues = np.array([shares.places.get(name, -1) for name in placed.queues], dtype=np.intp)
        wanted = np.array([domains[name] for name in placed.queues], dtype=np.intp)
        there = (rows >= 0) & (wanted >= 0)
        there[there] = pools.reach[wanted[there], pools.kinds[rows[there]]]
        found.append((queues[there], wanted[there], pools.kinds[rows[there]]))
        amounts.append(
            placed.counts[there, np.newaxis] * space.vector(pod_class.counted).astype(float)
        )
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
