"""Rules of evictions: who may go for whom, in which order, and at what cost.

Pods go in groups (`VictimGroup`): a pod beyond the minimum of its job, or the only pod of a job,
goes alone; all others go only together, as a whole gang. A group may go if all of this holds, asked
in this order (`VictimCandidates.legal`); docs/fair-shares.md, "Which queue loses pods", says it for
administrators:

1. Each pod runs and permits evictions, its PodGroup does, too, and it has run for `minRuntime` and
   its Queue's minimum run time. For `preempt`, it is of the preemptor's queue; for `reclaim`, of
   another one that is reclaimable.
2. What is left of the gang has its minimum, or nothing is left. Gangs with nominated pods stay.
3. Every PodDisruptionBudget permits it.
4. No plugin protects any of the pods, whatever tier it is in.
5. The preemptor is entitled to the pods: in `preempt` to each, in `reclaim` to one of the gang.
6. In `reclaim`, the pods' queue ends with no smaller part of its share than the preemptor's queue.
   A queue within its share loses pods only if they can move (`Moves`). A gang that can only run on
   what its queue borrows goes all the same, and any gang with `wholeGangs: always`.
7. Whole gangs free at most PROPORTION times what is lacking, unless borrowed or with `always`;
   searches know what is lacking (`VictimSearch._is_proportionate`).

Searches try groups on a node in the order of `preference`, and take the node, and so the groups, of
the least `cost`.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import inf
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from vscheduler.core.api.contracts import Configured
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.memo import evictable_pods
from vscheduler.core.session import ordering
from vscheduler.core.session.hook_calls import HookRef
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.ordering import Descending
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model import jobs
from vscheduler.model.decisions import ShareAfter
from vscheduler.model.jobs import EVICTABLE, HOLDING, JobId, Phase, PodClass, Task, TaskStatus
from vscheduler.model.queues import Queue
from vscheduler.model.resources import Vector


class WholeGangs(StrEnum):
    """When a gang may be evicted whole."""

    NEVER = "never"
    PROPORTIONATE = "proportionate"
    ALWAYS = "always"


PROPORTION = 2.0
"""The limit for whole gangs, as a multiple of the resources that the preemptor lacks."""

Rank = tuple[tuple[float, ...], ...]
"""A queue's position among queues that may lose pods to the preemptor: the smallest loses first."""

Number = TypeVar("Number")


class PodCost(NamedTuple, Generic[Number]):
    """What evicted pods cost, whosever they are: numbers of a plan, or arrays (N,) of the least
    numbers on each node, which `bounds.py` computes. Compared in this order; smaller is better.
    """

    job_priority: Number
    """The highest priority of their jobs."""
    pod_priority: Number
    """The highest priority of the pods."""
    pods: Number
    """How many go."""
    unsaved_since: Number
    """Since when work would be lost, negated: a long run without a checkpoint is lost at last."""


class Cost(NamedTuple):
    """The cost of evictions. Compared in this order; smaller is better."""

    whole_gangs: int
    """How many gangs go whole."""
    overshoot: float
    """The largest overshoot of a queue; see VictimGroup."""
    rank: Rank
    """The highest rank of the queues; empty until it is known (`ranked_cost`)."""
    of_pods: PodCost[float]


NO_COST = Cost(0, 0.0, (), PodCost(-inf, -inf, -inf, -inf))
"""The cost of evicting nobody: less than any other."""

Candidate = Callable[[JobState, Task], bool]
"""Whether a pod of a job may be considered as a victim at all."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs' pods may be considered as victims at all; a Candidate."""

    queues: frozenset[str]
    only: JobId | None = None
    """The one job whose pods are considered; None: all jobs in the queues."""
    without: JobId | None = None
    """The job whose pods are left out."""

    def __call__(self, state: JobState, task: Task) -> bool:
        """Whether the pod is in scope."""
        del task
        job = state.job
        return (
            job.queue in self.queues
            and (self.only is None or job.id == self.only)
            and job.id != self.without
        )


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the arguments of an action protect."""

    now: float
    min_run_time: float
    """For how many seconds after their start pods are left alone, whatever their Queue says."""
    whole_gangs: WholeGangs

    @classmethod
    def of(cls, action: Configured, now: float) -> "Limits":
        """Read the arguments of an action."""
        return cls(
            now=now,
            min_run_time=action.seconds(f"{action.name}.minRuntime"),
            whole_gangs=WholeGangs(str(action.argument(f"{action.name}.wholeGangs"))),
        )

    def of_queue(self, queue: Queue) -> float:
        """Return for how many seconds after their start the queue's pods are left alone."""
        return max(self.min_run_time, queue.min_run_time)

    def protects(self, task: Task, queue: Queue) -> bool:
        """Whether a pod of the queue hasn't had its node for long enough."""
        return evictable_pods.start(task) + self.of_queue(queue) > self.now


class Moves(Protocol):
    """Where pods of queues within their shares may go, as `relocations.Relocation` finds out."""

    def is_possible(self, preemptor: Task, requested: Vector, tasks: Sequence[Task]) -> bool:
        """Whether a place seems to be there for each of the pods."""

    def find(self, statement: Statement, tasks: Sequence[Task], until: float) -> bool:
        """Reserve places for all of the pods until then; False if some get none."""


class EvictionRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which evictions an attempt may consider."""

    whole: bool
    """Whether gangs may be evicted whole."""
    always: bool
    """Whether a gang may be evicted whole even if that leaves its queue a smaller part of its share
    than the preemptor's queue has."""
    relocation: Moves | None
    """Where pods of queues within their shares may move; None if such pods stay."""
    on_behalf: Task | None = None
    """The preemptor, whichever task is placed; None: each task asks for itself."""


class VictimGroup(NamedTuple):
    """Pods of one job that are evicted together. Searches make very many of them."""

    state: JobState
    tasks: tuple[Task, ...]
    whole: bool
    """Whether a gang of several pods is evicted completely."""
    overshoot: float = 0.0
    """How far the eviction overshoots: the part of its share that the queue lacks afterwards."""
    rank: Rank = ()
    """The queue's position among queues that may lose pods; the smallest rank loses first."""
    moves: bool = False
    """Whether the queue is within its share, so that replacement pods must fit elsewhere."""
    borrowed: bool = False
    """Whether the job can only run on what its queue borrows."""

    @property
    def unsaved_since(self) -> float:
        """Since when an eviction would undo work of the group."""
        if len(self.tasks) == 1:
            return evictable_pods.unsaved_since(self.tasks[0])
        return min(map(evictable_pods.unsaved_since, self.tasks))

    @property
    def priority(self) -> int:
        """The highest priority among the pods."""
        if len(self.tasks) == 1:
            return self.tasks[0].priority
        return max(task.priority for task in self.tasks)

    def judged(
        self,
        rank: Rank,
        overshoot: float = 0.0,
        *,
        moves: bool = False,
        borrowed: bool = False,
    ) -> "VictimGroup":
        """Return a copy with the effects of the eviction on the queue."""
        return VictimGroup(
            state=self.state,
            tasks=self.tasks,
            whole=self.whole,
            rank=rank,
            overshoot=overshoot,
            moves=moves,
            borrowed=borrowed,
        )


def surplus_pod(state: JobState, task: Task) -> VictimGroup | None:
    """Return the pod as a group of its own if the job can spare the pod, or None.

    The rest of the job must keep the minimum, or no other pod of the job holds resources.
    """
    if state.spares(task) or _is_last(state):
        return VictimGroup(state=state, tasks=(task,), whole=False)
    return None


def whole(state: JobState) -> VictimGroup | None:
    """Return all pods that hold resources as a group.

    None for fewer than two pods, or if one of the pods can't be evicted now.
    """
    tasks = state.job.memo("whole", lambda: _whole(state)) if state.untouched else _whole(state)
    return VictimGroup(state=state, tasks=tasks, whole=True) if tasks else None


def _whole(state: JobState) -> tuple[Task, ...]:
    held = [task for task in state.job.tasks if state.status(task) in HOLDING]
    if len(held) < 2 or any(state.status(task) not in EVICTABLE for task in held):
        return ()
    return tuple(held)


def merged(chosen: Sequence[VictimGroup], more: VictimGroup) -> list[VictimGroup]:
    """Add a group to the chosen groups. A whole gang absorbs pods of the gang chosen before."""
    if not more.whole:
        return [*chosen, more]
    tasks = [task for group in chosen if group.state is more.state for task in group.tasks]
    rest = [group for group in chosen if group.state is not more.state]
    return [*rest, more._replace(tasks=(*more.tasks, *tasks))]


def cost(chosen: Sequence[VictimGroup]) -> Cost:
    """Return the cost of evicting these groups, without the rank of their queues."""
    if not chosen:
        return NO_COST
    return Cost(
        whole_gangs=sum(unit.whole for unit in chosen),
        overshoot=max(unit.overshoot for unit in chosen),
        rank=(),
        of_pods=PodCost(
            job_priority=max(unit.state.job.priority for unit in chosen),
            pod_priority=max(task.priority for unit in chosen for task in unit.tasks),
            pods=sum(len(unit.tasks) for unit in chosen),
            unsaved_since=-min(unit.unsaved_since for unit in chosen),
        ),
    )


def _is_last(state: JobState) -> bool:
    return sum(state.counts[status] for status in HOLDING) == 1


class VictimCandidates:
    """Candidates for eviction on behalf of one queue, node by node."""

    def __init__(
        self,
        session: Session,
        *,
        hook: HookRef,
        queue: Queue,
        scope: Scope,
        limits: Limits,
        rules: EvictionRules,
    ) -> None:
        self._session = session
        self.hook = hook
        self.queue = queue
        self.scope = scope
        self._limits = limits
        self.rules = rules
        self.left_movable = False
        """Whether a group was skipped only because its pods may not be moved in this attempt, or
        not where that takes further evictions."""
        self._requested = session.space.zeros()
        """What the preemptor's job still requests, (R,)."""
        self._ranks: dict[str, Rank] = {}
        self._overshoots: dict[JobId, float] = {}
        """Overshoots of whole gangs, for the current task."""

    def preemptor_of(self, task: Task) -> Task:
        """Return on whose behalf pods are evicted if this task is placed."""
        return self.rules.on_behalf or task

    def evictable_on(self, row: int) -> list[Task]:
        """Return the candidates on the node."""
        evictable = self._session.cluster.evictable_on(row)
        return [task for task in evictable if self._is_candidate(task)]

    def start_search(self, requested: Vector) -> None:
        """Start the search for another task.

        requested is the request of the task and all later tasks, (R,).
        """
        self._requested = requested
        self._ranks.clear()
        self._overshoots.clear()

    def rank(self, queue: str) -> Rank:
        """Return the queue's rank when the search for the task began."""
        if queue not in self._ranks:
            owner = self._session.queues[queue]
            key = self._session.dispatch.key(AllHooks.victim_queue_key, self.queue, owner)
            self._ranks[queue] = key
        return self._ranks[queue]

    def units(self, preemptor: Task, row: int) -> list[VictimGroup]:
        """Return all groups with pods on this node, most preferred victims first.

        Whether a group may be evicted isn't checked yet.
        """
        found: list[VictimGroup] = []
        owners: dict[JobId, JobState] = {}
        for task in self.evictable_on(row):
            state = owners[task.job] = self._session.job_state_of(task)
            rank = self._ranks.get(state.job.queue)
            if rank is None:
                rank = self.rank(state.job.queue)
            found.append(VictimGroup(state=state, tasks=(task,), whole=False, rank=rank))
        if self.rules.whole:
            for unit in filter(None, map(whole, owners.values())):
                overshoot = self._overshoot(preemptor, unit)
                found.append(unit.judged(self.rank(unit.state.job.queue), overshoot))
        return sorted(found, key=self.preference)

    def _overshoot(self, preemptor: Task, unit: VictimGroup) -> float:
        """Return how far below its share the queue ends without this gang.

        The value is computed when the search for the task begins, once for all nodes with pods of
        the gang.
        """
        job = unit.state.job.id
        if job not in self._overshoots:
            after = self._share_after(preemptor, unit.tasks)
            self._overshoots[job] = 0.0 if after is None else after.overshoot
        return self._overshoots[job]

    def preference(self, unit: VictimGroup) -> tuple[Any, ...]:
        """Return the sort key of victims; smaller keys are evicted first, and the order is total.

        Single pods come first, then gangs whose queues keep most of their shares, then pods of the
        queue with the largest surplus, lower priorities and pods that lose less work.
        """
        return (
            unit.whole,
            unit.overshoot if unit.whole else 0.0,
            unit.rank,
            unit.state.job.priority,
            unit.priority,
            -unit.unsaved_since,
            Descending(ordering.task_key(self._session.dispatch, unit.tasks[0])),
        )

    def legal(self, preemptor: Task, unit: VictimGroup) -> VictimGroup | None:
        """Return the group in its present state, or None if a rule forbids the eviction."""
        preemptor = self.preemptor_of(preemptor)
        current = whole(unit.state) if unit.whole else surplus_pod(unit.state, unit.tasks[0])
        if current is None or not all(map(self._is_candidate, current.tasks)):
            return None
        stays = not unit.whole and unit.state.spares(unit.tasks[0])
        if not stays and self._has_nominations(unit.state):
            return None
        session, tasks = self._session, current.tasks
        if not session.cluster.budgets.spare(tasks):
            return None
        if len(session.dispatch.unprotected(self.hook, preemptor, tasks)) < len(tasks):
            return None
        if not self.is_entitled(preemptor, current):
            return None
        return self.within_rules(preemptor, current, unit.rank)

    def is_entitled(self, preemptor: Task, unit: VictimGroup) -> bool:
        """Whether plugins entitle the preemptor to the group.

        In reclaim, a gang may go whole if its queue is above its share at this moment, so one
        entitled pod is enough. In preempt, every pod must be entitled.
        """
        found = self._session.dispatch.entitled(self.hook, self.preemptor_of(preemptor), unit.tasks)
        return len(found) >= (1 if self.hook is AllHooks.reclaimable else len(unit.tasks))

    def _has_nominations(self, state: JobState) -> bool:
        """Whether pods were evicted in favour of the gang, in vain if the gang went whole."""
        pipelined = state.tasks(TaskStatus.PIPELINED)
        return any(task.uid in self._session.decided.nominations for task in pipelined)

    def within_rules(self, preemptor: Task, unit: VictimGroup, rank: Rank) -> VictimGroup | None:
        """Return the group with the queue's rank and resulting share.

        None if shares don't permit the eviction.
        """
        after = self._share_after(preemptor, unit.tasks)
        if after is None:
            return unit.judged(rank)
        if after.within:
            if self.rules.relocation is None:
                self.left_movable = True
                return None
            possible = self.rules.relocation.is_possible(preemptor, self._requested, unit.tasks)
            self.left_movable |= not possible
            return unit.judged(rank, moves=True) if possible else None
        if not after.fair and not (self.rules.always and unit.whole):
            return None
        return unit.judged(rank, after.overshoot, borrowed=after.borrowed)

    def _share_after(self, preemptor: Task, tasks: Sequence[Task]) -> ShareAfter | None:
        if self.hook is not AllHooks.reclaimable:
            return None
        return self._session.dispatch.first(
            AllHooks.share_after, None, self.preemptor_of(preemptor), self._requested, tasks
        )

    def share_of_similar(self, preemptor: Task, tasks: Sequence[Task]) -> ShareAfter | None:
        """Return the shares after an eviction of pods like these; None if they can't be known."""
        if self.hook is not AllHooks.reclaimable:
            return None
        on_behalf = self.preemptor_of(preemptor)
        return self._session.dispatch.share_of_similar(on_behalf, self._requested, tasks)

    def _is_candidate(self, task: Task) -> bool:
        state = self._session.job_state_of(task)
        return (
            task.preemptable
            and not state.protected
            and task.status in EVICTABLE
            and state.status(task) is task.status
            and task.node in self._session.layout.rows
            and task.uid not in self._session.snapshot.carried.reported.eviction_refused_pods
            and not self._limits.protects(task, self._session.queues[state.job.queue])
            and self.scope(state, task)
        )


class NodeCandidate(msgspec.Struct, frozen=True):
    """The victims and their cost if one task is placed on a node."""

    cost: Cost
    units: tuple[VictimGroup, ...]

    @property
    def losers(self) -> frozenset[str]:
        """The queues that would lose pods."""
        return frozenset(unit.state.job.queue for unit in self.units)


def ranked_cost(cost: Cost, losers: frozenset[str], rank: Callable[[str], Rank]) -> Cost:
    """Return the cost with the highest current rank of the losing queues."""
    return cost._replace(rank=max(map(rank, losers), default=()))


JOBS_PER_UNIT = 10
"""How many waiting jobs are looked at in about a microsecond."""

POD_COST = 5
"""Approximate microseconds for asking whether the queue's share covers one more pod."""


def lack_of_others(session: Session, queue: Queue, own: Sequence[Task]) -> Vector:
    """Return what waiting pods request, (R,), as far as the queue's share covers them, too.

    `own` are pods that come first, and don't count.
    """
    total = sum((session.counted(task) for task in own), start=session.space.zeros())
    seen = {task.uid for task in own}
    found = session.space.zeros()
    states = [state for state in session.unfinished_jobs() if state.job.queue == queue.name]
    session.spend("queue lacks", 1 + len(states) // JOBS_PER_UNIT)
    for state in states:
        if state.phase is Phase.PENDING:
            continue
        refused: set[PodClass] = set()
        for task in state.tasks(TaskStatus.PENDING):
            if task.uid in seen or task.pod_class in refused:
                continue
            if task.best_effort or task.never_preempts:
                continue
            session.spend("queue lacks", POD_COST)
            more = total + session.counted(task)
            request = dict(zip(session.space.names, more.tolist(), strict=True))
            pod = jobs.stand_in(state.job, request)
            if not session.dispatch.all_agree(AllHooks.preemptive, queue, (pod,)):
                refused.add(task.pod_class)
                continue
            total, found = more, found + session.request(task)
    return found
