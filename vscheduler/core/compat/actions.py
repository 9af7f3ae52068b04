"""Volcano's versions of actions: each overrides the steps in which Volcano differs."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import ClassVar

from vscheduler.core.actions import backfill, enqueue, preempt, reclaim, shuffle
from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.actions.backfill import Backfill
from vscheduler.core.actions.enqueue import Enqueue
from vscheduler.core.actions.preempt import Preempt
from vscheduler.core.actions.reclaim import Reclaim
from vscheduler.core.actions.shuffle import Shuffle
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.compat import node_by_node
from vscheduler.core.compat.node_by_node import NodeByNodeSearch
from vscheduler.core.eviction import preemptors, rules
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.rules import Candidate, VictimGroup
from vscheduler.core.memo.never_fitting import Obstacle
from vscheduler.core.placement.feasibility import Feasibility
from vscheduler.core.session import ordering
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.ordering import Line
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model.decisions import AdmissionFailure, Reason
from vscheduler.model.jobs import JobId, Task, TaskStatus
from vscheduler.model.queues import Queue

EvictFor = Callable[[NodeByNodeSearch], bool]


class VolcanoAllocate(Allocate):
    """Starts only jobs with nominated pods before all other jobs."""

    def _waiting(self, session: Session) -> Collection[JobId]:
        """Return the jobs with nominated pods.

        A job that preempt or reclaim gave idle resources waits for the next cycle.
        """
        return {
            held.task.job
            for uid, held in session.decided.pipelined.items()
            if uid in session.decided.nominations
        }


class VolcanoBackfill(Backfill):
    """Doesn't ask queues, and keeps pod slots for jobs that aren't ready."""

    def _try(
        self,
        session: Session,
        statement: Statement,
        queue: Queue,
        task: Task,
    ) -> bool:
        """Place the task where it can start now, regardless of the queue's limits. A pipelined task
        gives up its node first, even if no other node is found.
        """
        del queue
        session.spend("tasks", backfill.TASK_COST)
        state = session.job_state_of(task)
        if state.status(task) is TaskStatus.PIPELINED:
            statement.withdraw(task)
        choice = session.placement.choose(task)
        if choice is not None and choice.idle:
            statement.allocate(task, choice.row)
            return True
        session.reasons.note(state.job.id, backfill.no_room(session, task))
        return False

    def _give_up(self, session: Session, statement: Statement, state: JobState) -> None:
        """Keep the pod slots of the job for the rest of the cycle."""
        if not session.dispatch.all_agree(AllHooks.job_ready, state):
            statement.hold()


class NoFeasibility(Feasibility):
    """Lets every gang try, whether or not empty nodes could hold the gang."""

    def obstacle(self, state: JobState) -> Obstacle | None:
        """Return None: nothing is proved."""
        del state
        return None


class VolcanoEnqueue(Enqueue):
    """Admits PodGroups without a timeout, and never admits a group into a full cluster."""

    feasibility_check: ClassVar[type[Feasibility]] = NoFeasibility

    def _review(self, session: Session, state: JobState, timeout: float) -> None:
        """Do nothing: a group that is Inqueue stays Inqueue."""

    def _review_running(self, session: Session) -> None:
        """Do nothing: a running group is promised its minResources, whatever there is."""

    def _wake_at_timeout(self, session: Session, state: JobState, since: float) -> None:
        """Do nothing: no timeout exists."""

    def _refusal(self, session: Session, state: JobState) -> AdmissionFailure | None:
        """Return why the group isn't admitted. A group without minResources is admitted without
        asking any plugin, even into a closed queue.
        """
        if state.job.min_resources is None:
            return None
        found = session.dispatch.refusal(AllHooks.job_enqueueable, state)
        if found is None or not enqueue.is_cluster_full(found):
            return found
        # A full cluster is the last of all reasons, returned only without any other.
        forgive = enqueue.is_cluster_full
        return session.dispatch.refusal(AllHooks.job_enqueueable, state, forgive=forgive) or found

    def _refused(
        self,
        session: Session,
        state: JobState,
        refusal: AdmissionFailure,
    ) -> Reason:
        """Return the refusal as a reason, without comparing the group with all nodes together."""
        del session
        return enqueue.reason_of(state, refusal)


class VolcanoPreempt(Preempt):
    """Evicts for one task at a time: once for each job, then inside jobs."""

    def execute(self, session: Session) -> None:
        """Serve queue after queue."""
        waiting, lines = preemptors.line_up(session, self.name)
        dry_run = bool(self.argument("enableTopologyAwarePreemption"))
        evict_for = node_by_node.preempt_dry_run if dry_run else node_by_node.preempt
        while waiting and not session.work_budget.exhausted:
            _preempt_in_queue(session, lines[waiting.leave().name], evict_for)


def _preempt_in_queue(session: Session, line: Line[Preemptor], evict_for: EvictFor) -> None:
    """Give each starving job one attempt at pods of other jobs, then at its own pods.

    Volcano asks JobPipelined only after the attempt: a pod may replace another pod of a job that
    can't start with either.
    """
    starving = []
    while line:
        preemptor = line.leave()
        state = preemptor.state
        starving.append(state)
        session.eviction_history.fail(Preempt.name, state.job.id)
        others = preempt.of_other_jobs(state.job)
        with session.statement() as trial:
            while preemptor.tasks and session.dispatch.first_tier(AllHooks.job_starving, state):
                _preempt(session, trial, preemptor.tasks.popleft(), others, evict_for)
            node_by_node.conclude(session, trial, state)
    for state in starving:
        own = preempt.of_same_job(state.job)
        left = sorted(
            state.tasks(TaskStatus.PENDING),
            key=lambda task: ordering.task_key(session.dispatch, task),
        )
        for task in left:
            with session.statement() as trial:
                if not _preempt(session, trial, task, own, evict_for):
                    break
                trial.commit()


def _preempt(
    session: Session,
    statement: Statement,
    task: Task,
    candidate: Candidate,
    evict_for: EvictFor,
) -> bool:
    """Evict for one task. A best-effort pod replaces best-effort pods only."""
    if task.never_preempts:
        return False

    def allowed(state: JobState, victim: Task) -> bool:
        return candidate(state, victim) and (victim.best_effort or not task.best_effort)

    return evict_for(
        NodeByNodeSearch(
            session=session,
            trial=statement,
            task=task,
            action=Preempt.name,
            hook=AllHooks.preemptable,
            candidate=allowed,
        )
    )


class VolcanoReclaim(Reclaim):
    """Evicts running pods, for one task at a time."""

    def execute(self, session: Session) -> None:
        """Serve the jobs of each queue in sequence.

        Whether the queue is overused is asked once, before the first job.
        """
        waiting, lines = preemptors.line_up(session, self.name)
        while waiting and not session.work_budget.exhausted:
            queue = waiting.leave()
            if session.dispatch.any_says(AllHooks.overused, queue):
                continue
            candidate = _running(reclaim.of_other_queues(session, queue))
            line = lines[queue.name]
            while line:
                preemptor = line.leave()
                session.eviction_history.fail(self.name, preemptor.state.job.id)
                with session.statement() as trial:
                    _reclaim(session, trial, queue, preemptor, candidate)
                    node_by_node.conclude(session, trial, preemptor.state)


def _running(candidate: Candidate) -> Candidate:
    """Return a filter that passes the running pods among those passed by `candidate`."""

    def running(state: JobState, task: Task) -> bool:
        return task.status is TaskStatus.RUNNING and candidate(state, task)

    return running


def _reclaim(
    session: Session,
    statement: Statement,
    queue: Queue,
    preemptor: Preemptor,
    candidate: Candidate,
) -> None:
    """Evict for the job's tasks, one after the other, for as long as the job starves."""
    while preemptor.tasks and session.dispatch.first_tier(AllHooks.job_starving, preemptor.state):
        task = preemptor.tasks.popleft()
        if task.never_preempts or not session.dispatch.all_agree(
            AllHooks.preemptive, queue, (task,)
        ):
            continue
        node_by_node.reclaim(
            NodeByNodeSearch(
                session=session,
                trial=statement,
                task=task,
                action=Reclaim.name,
                hook=AllHooks.reclaimable,
                candidate=candidate,
            )
        )


class VolcanoShuffle(Shuffle):
    """Evicts every pod selected by plugins, one by one, regardless of budgets and minimums."""

    def _candidates(self, session: Session) -> list[Task]:
        """Return the running pods, including pods with `preemptable: "false"`."""
        return list(shuffle.running(session))

    def _units(
        self, session: Session, state: JobState, named: Sequence[Task]
    ) -> Iterator[VictimGroup]:
        """Yield each selected pod alone, or the whole gang if it goes whole or not at all."""
        del session
        gang = rules.whole(state) if state.job.goes_whole else None
        if gang is not None:
            yield gang
        elif not state.job.goes_whole or len(state.job.tasks) == 1:
            for task in named:
                yield VictimGroup(state=state, tasks=(task,), whole=False)

    def _must_stay(self, session: Session, state: JobState) -> bool:
        """Whether the gang was bound in this cycle, and lacks its minimum after the eviction."""
        return node_by_node.is_torn(session, state)
