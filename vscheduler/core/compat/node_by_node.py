"""Preemption as in Volcano: for one task at a time, on the first suitable node.

Used with `compatibility: volcano` only; core.eviction.planner plans for the whole gang instead.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import standing_plans
from vscheduler.core.eviction.rules import Candidate
from vscheduler.core.placement import nominated_pods
from vscheduler.core.placement.best_effort import BestEffortPlacement
from vscheduler.core.session import dispatch, ordering
from vscheduler.core.session.hook_calls import HookRef
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.ordering import SortKey
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import EVICTABLE, HOLDING, READY, Task, TaskStatus

TASK_COST = 100
"""Approximate microseconds for one task that looks for victims, without the search on nodes."""


class NodeByNodeSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The search for victims on behalf of one task."""

    session: Session
    trial: Statement
    task: Task
    action: str
    hook: HookRef
    candidate: Candidate

    @property
    def state(self) -> JobState:
        """The state of the task's job."""
        return self.session.job_state_of(self.task)

    def candidates(self, row: int) -> list[Task]:
        """Return the candidates for eviction on this node."""
        session = self.session
        return [
            task
            for task in session.cluster.evictable_on(row)
            if session.job_state_of(task).status(task) is task.status
            and task.preemptable
            and self.candidate(session.job_state_of(task), task)
        ]

    def victims(self, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that plugins permit to evict, in order of eviction.

        Plugins see the candidates in this order, too. In Volcano only capacity's candidates are
        sorted, and the order is random otherwise.
        """
        ordered = in_order(self.session, self.state, candidates)
        permitted = [task for task in self._permitted(ordered) if self._may_go_with_gang(task)]
        return self._spared(permitted)

    def _may_go_with_gang(self, victim: Task) -> bool:
        """Whether all pods may be evicted that go with this one. Volcano has no such gangs."""
        state = self.session.job_state_of(victim)
        if not state.job.goes_whole:
            return True
        held = (task for task in state.job.tasks if state.status(task) in HOLDING)
        return all(
            state.status(task) in EVICTABLE
            and task.preemptable
            and self.candidate(state, task)
            and self._permitted([task])
            for task in held
        )

    def _permitted(self, candidates: Sequence[Task]) -> list[Task]:
        """Return the victims of the first tier with any victims (Volcano: session_plugins
        Preemptable, Reclaimable).

        An empty answer ends its tier. An empty intersection starts again with the next plugin's
        answer, in any tier.
        """
        asked = self.session.dispatch
        found: list[Task] = []
        for answers in asked.victim_answers(self.hook, self.task, candidates):
            for answer in answers:
                if not answer:
                    found = []
                    break
                found = dispatch.common(found, answer) if found else list(answer)
            if found:
                return [] if asked.evictions_off else found
        return []

    def _spared(self, victims: list[Task]) -> list[Task]:
        """Return the victims without pods that a gang bound in this cycle needs, and without the
        last pods that satisfy the affinity of a pod placed in this cycle.
        """
        session, trial = self.session, self.trial
        allocated = TaskStatus.ALLOCATED
        young = any(session.job_state_of(task).counts[allocated] for task in victims)
        if not young and not standing_plans.may_break(session, self.state, victims):
            return victims
        start = trial.checkpoint()
        for victim in list(victims):
            before = trial.checkpoint()
            self.evict(victim)
            torn = is_torn(session, session.job_state_of(victim))
            risky = standing_plans.may_break(session, self.state, [victim])
            if torn or (risky and not standing_plans.hold(session, trial, self.state, [victim])):
                trial.rollback(before)
                victims.remove(victim)
        trial.rollback(start)
        return victims

    def evict(self, victim: Task) -> None:
        """Evict the victim in the statement, and all pods of a gang that goes whole."""
        state = self.session.job_state_of(victim)
        whole = state.job.goes_whole
        running = [task for task in state.job.tasks if state.status(task) in EVICTABLE]
        for task in running if whole else (victim,):
            assert task.node is not None
            evict = Evict(
                task=task,
                node=task.node,
                action=self.action,
                beneficiary=self.task.job,
                whole=whole,
            )
            self.trial.evict(evict)


def is_torn(session: Session, state: JobState) -> bool:
    """Whether the gang was bound in this cycle and now has less than its minimum.

    Volcano evicts pods of such a gang if the tier asked doesn't protect gangs.
    """
    return (
        session.dispatch.asks(AllHooks.job_ready)
        and not state.reaches(READY, idlers=False)
        and any(
            task.uid not in session.decided.pipelined for task in state.tasks(TaskStatus.ALLOCATED)
        )
    )


def conclude(session: Session, statement: Statement, state: JobState) -> None:
    """Commit the evictions if the job can start afterwards.

    The whole minimum must be placed, including best-effort members, which Volcano doesn't require.
    """

    def place(task: Task) -> bool:
        choice = session.placement.choose(task)
        if choice is not None:
            statement.pipeline(task, choice.row)
        return choice is not None

    best_effort_placement = BestEffortPlacement(
        session=session, trial=statement, state=state, place=place
    )
    if session.dispatch.vote(AllHooks.job_pipelined, state) and best_effort_placement.needed():
        statement.commit()


def in_order(session: Session, state: JobState, victims: Sequence[Task]) -> list[Task]:
    """Sort the victims, first to evict first (Volcano: BuildVictimsPriorityQueue)."""
    preemptor_queue = session.queues[state.job.queue]

    def key(task: Task) -> SortKey:
        owner = session.job_state_of(task)
        queue = session.queues[owner.job.queue]
        return ordering.victim_key(session.dispatch, preemptor_queue, (queue, owner), task)

    return sorted(victims, key=key)


def reclaim(search: NodeByNodeSearch) -> bool:
    """Try nodes by name, and take the first with candidates and enough resources after evictions.

    Predicates aren't asked again after the evictions (Volcano: reclaim reclaimForTask).
    """
    session, task, trial = search.session, search.task, search.trial
    session.spend("claims", TASK_COST)
    for row in np.flatnonzero(session.placement.reachable(task)).tolist():
        candidates = search.candidates(row)
        if not candidates:
            continue
        victims = search.victims(candidates)
        if not _fits(search, row, victims):
            continue
        for victim in victims:
            if _fits(search, row):
                break
            search.evict(victim)
        trial.pipeline(task, row)
        return True
    return False


def preempt(search: NodeByNodeSearch) -> bool:
    """Try nodes by score, with all checks repeated after each eviction.

    The checks are resources, the queue's limit and predicates. Volcano: preempt normalPreempt.
    """
    session, task, trial = search.session, search.task, search.trial
    session.spend("claims", TASK_COST)
    for row in session.placement.ranked(task, session.placement.reachable(task)):
        victims = search.victims(search.candidates(row))
        if not _fits(search, row, victims):
            continue
        checkpoint = trial.checkpoint()
        for victim in victims:
            if _starts(search, row):
                break
            search.evict(victim)
        if _starts(search, row):
            trial.pipeline(task, row)
            return True
        trial.rollback(checkpoint)
    return False


def preempt_dry_run(search: NodeByNodeSearch) -> bool:
    """Choose the node with the least important victims, after sparing unnecessary victims.

    Volcano: preempt topologyAwarePreempt, pickOneNodeForPreemption. Volcano examines a random
    sample of nodes; here all nodes are examined.
    """
    session, task, trial = search.session, search.task, search.trial
    session.spend("claims", TASK_COST)
    found: list[tuple[tuple[float, ...], int, list[Task]]] = []
    for row in np.flatnonzero(session.placement.reachable(task)).tolist():
        victims = _spared(search, row)
        if victims:
            found.append((_weight(victims), row, victims))
    if not found:
        return False
    _, row, victims = min(found, key=lambda each: each[:2])
    for victim in victims:
        search.evict(victim)
    trial.pipeline(task, row)
    return True


def _spared(search: NodeByNodeSearch, row: int) -> list[Task]:
    """Return the victims without whom the task can't start on this node, most important first."""
    trial = search.trial
    start = trial.checkpoint()
    chosen = []
    for victim in search.victims(search.candidates(row)):
        search.evict(victim)
        chosen.append(victim)
        if _starts(search, row):
            break
    needed = list(chosen) if chosen and _starts(search, row) else []
    for victim in reversed(chosen if needed else []):
        without = [each for each in needed if each is not victim]
        trial.rollback(start)
        for each in without:
            search.evict(each)
        if _starts(search, row):
            needed = without
    trial.rollback(start)
    return needed[::-1]


def _weight(victims: Sequence[Task]) -> tuple[float, ...]:
    """Return the sort key of victims; the smallest is the best node.

    Compared in order: highest priority, sum of priorities, number of pods, latest start.
    """
    priorities = [task.priority for task in victims]
    top = max(priorities)
    starts = [
        task.created if task.scheduled_at is None else task.scheduled_at
        for task in victims
        if task.priority == top
    ]
    shifted = sum(priority + 2**31 for priority in priorities)
    return (priorities[0], shifted, len(victims), -min(starts))


def _fits(search: NodeByNodeSearch, row: int, victims: Sequence[Task] = ()) -> bool:
    """Whether the task's request fits after these evictions (Volcano: ValidateVictims)."""
    session = search.session
    free = nominated_pods.room(session, search.task)[row]
    for victim in victims:
        free = free + session.request(victim)
    request = session.request(search.task)
    return bool((request <= free)[request > 0].all())


def _starts(search: NodeByNodeSearch, row: int) -> bool:
    """Whether queue, resources and predicates all admit the task (Volcano: preemptorFitsOnNode)."""
    session = search.session
    queue = session.queues[search.state.job.queue]
    return session.dispatch.all_agree(
        AllHooks.allocatable, queue, search.task
    ) and session.placement.feasible(search.task, row)
