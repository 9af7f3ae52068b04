"""Units: what may be evicted together, so that no gang is left with a part of its minimum.

A pod above its job's minimum, or of a group of one, may go alone; all other pods of a job only
together, as a whole gang.

Offers are nodes by what it would cost to make room there, the cheapest first. What a node costs is
a lower bound once others have gone: evictions only make nodes dearer. Where queues stand among
those that may lose pods is left out of it, as that changes with each eviction, for all nodes alike:
nodes are kept apart by whose pods would go, and compared as queues stand then.
"""

import dataclasses
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from vscheduler.core.model import decisions, jobs, queues, resources
from vscheduler.core.preemption import relocations
from vscheduler.core.session import job_state, ordering

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


class WholeGangs(StrEnum):
    """When a gang may be evicted whole."""

    NEVER = "never"
    PROPORTIONATE = "proportionate"
    ALWAYS = "always"


Rank = tuple[tuple[float, ...], ...]
"""Where a queue stands among those that may lose pods to another one: the smallest is the first."""

Cost = tuple[Any, ...]
"""What evictions cost: the smaller is the better."""

Candidate = Callable[[job_state.JobState, jobs.Task], bool]
"""Whether a pod of a job may be asked for at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRules:
    """Who may go at all."""

    whole: bool
    """Whether gangs may go whole."""
    always: bool
    """Whether they may even if their queues end with less of their shares than the claimant's."""
    removal: relocations.Relocation | None
    """Where pods of queues within their shares may go; None: they stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimGroup:
    """Pods of one job that go together."""

    gang: job_state.JobState
    tasks: tuple[jobs.Task, ...]
    whole: bool
    """Whether nothing of the job stays, though it is more than one pod."""
    overshoot: float = 0.0
    """How far below its share its queue ends, as a part of the share."""
    rank: Rank = ()
    """Where its queue stands among those that may lose pods: the smallest is the first."""
    moves: bool = False
    """Whether its queue is within its share, so that there must be room for it elsewhere."""

    @property
    def started(self) -> float:
        """When the first of its pods got its node."""
        return min(map(start, self.tasks)) if len(self.tasks) > 1 else start(self.tasks[0])

    @property
    def priority(self) -> int:
        """The highest of its pods."""
        if len(self.tasks) == 1:
            return self.tasks[0].priority
        return max(task.priority for task in self.tasks)

    def judged(self, rank: Rank, overshoot: float = 0.0, *, moves: bool = False) -> "VictimGroup":
        """The same with what is known of its queue."""
        return VictimGroup(
            gang=self.gang,
            tasks=self.tasks,
            whole=self.whole,
            rank=rank,
            overshoot=overshoot,
            moves=moves,
        )


def start(task: jobs.Task) -> float:
    """Since when a pod has its node, or exists where that isn't known."""
    return task.created if task.scheduled_at is None else task.scheduled_at


def surplus(gang: job_state.JobState, task: jobs.Task) -> VictimGroup | None:
    """The pod alone, where the rest of its job keeps the minimum or there is no rest."""
    if gang.spares(task) or _is_last(gang):
        return VictimGroup(gang=gang, tasks=(task,), whole=False)
    return None


def whole(gang: job_state.JobState) -> VictimGroup | None:
    """All pods that hold room, unless one of them can't be evicted now."""
    held = [task for task in gang.job.tasks if gang.status(task) in jobs.HOLDING]
    if len(held) < 2 or any(gang.status(task) not in jobs.EVICTABLE for task in held):
        return None
    return VictimGroup(gang=gang, tasks=tuple(held), whole=True)


def merged(chosen: Sequence[VictimGroup], more: VictimGroup) -> list[VictimGroup]:
    """One unit more; a gang that goes whole takes its single pods that were chosen before."""
    if not more.whole:
        return [*chosen, more]
    tasks = [task for each in chosen if each.gang is more.gang for task in each.tasks]
    rest = [each for each in chosen if each.gang is not more.gang]
    return [*rest, dataclasses.replace(more, tasks=(*more.tasks, *tasks))]


def cost(chosen: Sequence[VictimGroup]) -> Cost:
    """What is lost with these: fewer gangs, the smallest overshoot, lower priorities, fewer pods,
    less run time.
    """
    if not chosen:
        return ()
    return (
        sum(unit.whole for unit in chosen),
        max(unit.overshoot for unit in chosen),
        max(unit.gang.job.priority for unit in chosen),
        max(task.priority for unit in chosen for task in unit.tasks),
        sum(len(unit.tasks) for unit in chosen),
        -min(unit.started for unit in chosen),
    )


def most(session: "working.Session", queue: queues.Queue, hook: str) -> resources.Vector:
    """The most that could ever be freed for a queue on each node, (N, R), plugins aside."""
    inside = hook == "preemptable"
    freed = np.zeros_like(session.future_used)
    for row in range(session.layout.size):
        for task in session.residents(row):
            if task.preemptable and (session.gang_of(task).job.queue == queue.name) == inside:
                freed[row] += session.request(task)
    return freed


def _is_last(gang: job_state.JobState) -> bool:
    return sum(gang.counts[status] for status in jobs.HOLDING) == 1


class VictimCandidates:
    """Who may be asked to go for one queue, node by node."""

    def __init__(
        self,
        session: "working.Session",
        *,
        hook: str,
        claimant: queues.Queue,
        candidate: Candidate,
        oldest: float,
        terms: EvictionRules,
    ) -> None:
        self._session = session
        self._hook = hook
        self._claimant = claimant
        self._candidate = candidate
        self._oldest = oldest
        """Pods that started after this instant are left alone."""
        self._terms = terms
        self.left_movable = False
        """Whether there was a unit that may be moved, and nobody was to be."""
        self._claimed = session.space.zeros()
        """What the claimant's job still asks for, (R,)."""
        self._ranks: dict[str, Rank] = {}
        self._overshoots: dict[jobs.JobId, float] = {}
        """Of whole gangs, for the task that asks."""

    def residents(self, row: int) -> list[jobs.Task]:
        """Pods on the node that may be asked."""
        return [task for task in self._session.residents(row) if self._askable(task)]

    def asks_anew(self, claimed: resources.Vector) -> None:
        """Another task of the claimant's asks for room; with those behind it, for so much, (R,)."""
        self._claimed = claimed
        self._ranks.clear()
        self._overshoots.clear()

    def rank(self, queue: str) -> Rank:
        """Where this queue stood when the task began to ask."""
        if queue not in self._ranks:
            owner = self._session.queues[queue]
            key = self._session.dispatch.key("victim_queue_key", self._claimant, owner)
            self._ranks[queue] = key
        return self._ranks[queue]

    def units(self, claimant: jobs.Task, row: int) -> list[VictimGroup]:
        """What could go from this node, in order of preference, whether it may or not."""
        found: list[VictimGroup] = []
        owners: dict[jobs.JobId, job_state.JobState] = {}
        for task in self.residents(row):
            gang = owners[task.job] = self._session.gang_of(task)
            rank = self._ranks.get(gang.job.queue)
            if rank is None:
                rank = self.rank(gang.job.queue)
            found.append(VictimGroup(gang=gang, tasks=(task,), whole=False, rank=rank))
        if self._terms.whole:
            for unit in filter(None, map(whole, owners.values())):
                overshoot = self._overshoot(claimant, unit)
                found.append(unit.judged(self.rank(unit.gang.job.queue), overshoot))
        return sorted(found, key=self.preference)

    def _overshoot(self, claimant: jobs.Task, unit: VictimGroup) -> float:
        """How far below its share the queue of a whole gang would end, as things stood when the
        task began to ask: the same on every node on which the gang has pods.
        """
        job = unit.gang.job.id
        if job not in self._overshoots:
            after = self._share_after(claimant, unit.tasks)
            self._overshoots[job] = 0.0 if after is None else after.overshoot
        return self._overshoots[job]

    def preference(self, unit: VictimGroup) -> Cost:
        """Who goes first: single pods, gangs without which their queues keep the most of their
        share, pods of the queue with the largest surplus, the lower priority, the younger; a total
        order.
        """
        return (
            unit.whole,
            unit.overshoot if unit.whole else 0.0,
            unit.rank,
            unit.gang.job.priority,
            unit.priority,
            -unit.started,
            ordering.Descending(ordering.task_key(self._session.dispatch, unit.tasks[0])),
        )

    def legal(self, claimant: jobs.Task, unit: VictimGroup) -> VictimGroup | None:
        """The unit as things stand, if it may go for this task; else None."""
        current = whole(unit.gang) if unit.whole else surplus(unit.gang, unit.tasks[0])
        if current is None or not all(map(self._askable, current.tasks)):
            return None
        stays = not unit.whole and unit.gang.spares(unit.tasks[0])
        if not stays and self._is_promised_room(unit.gang):
            return None
        session, hook, tasks = self._session, self._hook, current.tasks
        if not session.budgets.spare(tasks) or session.neighbours.would_miss(tasks):
            return None
        if len(session.dispatch.unprotected(hook, claimant, tasks)) < len(tasks):
            return None
        # Between queues, a gang goes whole when its queue is above its share as it is chosen.
        enough = 1 if hook == "reclaimable" else len(tasks)
        if len(session.dispatch.entitled(hook, claimant, tasks)) < enough:
            return None
        return self._weighed(claimant, current, unit.rank)

    def _is_promised_room(self, gang: job_state.JobState) -> bool:
        """Whether others go for a pod of it: they would have gone for nothing if it went whole."""
        promised = gang.tasks(jobs.TaskStatus.PIPELINED)
        return any(task.uid in self._session.nominations for task in promised)

    def _weighed(self, claimant: jobs.Task, unit: VictimGroup, rank: Rank) -> VictimGroup | None:
        """The unit with where its queue stands and where it leaves it, if that is right."""
        after = self._share_after(claimant, unit.tasks)
        if after is None:
            return unit.judged(rank)
        if after.within:
            if self._terms.removal is None:
                self.left_movable = True
                return None
            possible = self._terms.removal.is_possible(unit.tasks)
            return unit.judged(rank, moves=True) if possible else None
        if not after.fair and not (self._terms.always and unit.whole):
            return None
        return unit.judged(rank, after.overshoot)

    def _share_after(
        self, claimant: jobs.Task, tasks: Sequence[jobs.Task]
    ) -> decisions.ShareAfter | None:
        if self._hook != "reclaimable":
            return None
        after: decisions.ShareAfter | None = self._session.dispatch.first(
            "share_after", None, claimant, self._claimed, tasks
        )
        return after

    def _askable(self, task: jobs.Task) -> bool:
        gang = self._session.gang_of(task)
        return (
            task.preemptable
            and not gang.protected
            and task.status in jobs.EVICTABLE
            and gang.status(task) is task.status
            and task.node in self._session.layout.rows
            and task.uid not in self._session.snapshot.carried.eviction_refused_pods
            and start(task) <= self._oldest
            and self._candidate(gang, task)
        )


RankOf = Callable[[str], Rank]
"""Where a queue stands now."""


@dataclass(frozen=True, slots=True)
class NodeCandidate:
    """What a node costs: who would have to go for one task."""

    cost: Cost
    units: tuple[VictimGroup, ...]

    @property
    def losers(self) -> frozenset[str]:
        """The queues that would lose pods."""
        return frozenset(unit.gang.job.queue for unit in self.units)


@dataclass(frozen=True, slots=True)
class CostLowerBound:
    """The cheapest node: it costs no less than this, as queues stand now."""

    cost: Cost
    row: int
    version: int
    """How many offers had been accepted when it was worked out."""


class NodeCandidates:
    """The nodes on which room could be made for tasks of one kind."""

    def __init__(self) -> None:
        self._heaps: dict[frozenset[str], list[tuple[Cost, int, int]]] = {}

    def put(self, offer: NodeCandidate, row: int, version: int) -> None:
        """Another node, or one that was taken out: more may go there, for no less."""
        heapq.heappush(self._heaps.setdefault(offer.losers, []), (offer.cost, row, version))

    def cheapest(self, rank: RankOf) -> CostLowerBound | None:
        """Take out the node that costs the least, the first of those that cost the same."""
        found: tuple[Cost, int, int] | None = None
        heap: list[tuple[Cost, int, int]] = []
        for losers, each in self._heaps.items():
            if each:
                cost, row, version = each[0]
                ranked = (ranked_cost(cost, losers, rank), row, version)
                if found is None or ranked < found:
                    found, heap = ranked, each
        if found is None:
            return None
        heapq.heappop(heap)
        return CostLowerBound(*found)


def ranked_cost(cost: Cost, losers: frozenset[str], rank: RankOf) -> Cost:
    """The cost with where its queues stand in its place: behind how many gangs go whole, and how
    far below their shares queues end.
    """
    if not cost:
        return cost
    return (*cost[:2], max(map(rank, losers)), *cost[2:])
